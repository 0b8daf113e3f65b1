"""Commit files in a table's `_delta_log`, staged and backfilled: read and written by the owner.

Source: managed-commits.md "Commit Files", "Commit Backfills".
"""

from __future__ import annotations

from pathlib import PurePosixPath

from slackwater.errors import ObjectExists, ObjectNotFound, StorageError, StorageRefused
from slackwater.owner.api.commits import Commit
from slackwater.owner.state.commit_content import timestamp_of
from slackwater.protocol.actions.actions import parse_commit
from slackwater.protocol.actions.file_names import LOG, LogFileKind, commit_path, parse_log_file, staged_path
from slackwater.storage.conditional_puts import copy_assuming_single_writer, put_assuming_single_writer
from slackwater.storage.store import ObjectStore

_MAX_PUTS = 3


def stage(store: ObjectStore, file_name: str, data: bytes) -> None:
    """Write a staged commit. Raises StorageError.

    An existing file is from an earlier try, because the file name is unique.
    """
    for attempt in range(_MAX_PUTS):
        try:
            put_assuming_single_writer(store, staged_path(file_name), data)
        except ObjectExists:
            return
        except StorageRefused:
            raise
        except StorageError:
            if attempt == _MAX_PUTS - 1:
                raise
        else:
            return


def publish(store: ObjectStore, version: int, file_name: str, commit_id: str) -> bool:
    """Copy a staged commit to `_delta_log` by put-if-absent, and return whether the commit is there.

    False if another commit has this version. Raises StorageError, ObjectNotFound if the staged file is missing without
    a backfill.
    """
    try:
        copy_assuming_single_writer(store, staged_path(file_name), commit_path(version))
    except ObjectExists:
        # Another backfill of the same commit wrote the file, or a foreign writer bypassed the owner.
        return is_published(store, version, file_name, commit_id)
    except ObjectNotFound:
        # The staged file is deleted some time after the backfill.
        if transaction_at(store, version) is None:
            raise
        return is_published(store, version, file_name, commit_id)
    return True


def is_published(store: ObjectStore, version: int, file_name: str, commit_id: str | None) -> bool:
    """Return whether `_delta_log` contains this commit in `version`, instead of none or another commit.

    If the staged file is deleted, the id decides. With None for an unknown id, any commit is accepted then, because
    staged files are deleted only after their publication.
    """
    try:
        found = store.read(commit_path(version))
    except ObjectNotFound:
        return False
    try:
        return found == store.read(staged_path(file_name))
    except ObjectNotFound:
        return commit_id is None or transaction_at(store, version) == commit_id


def versions_after(store: ObjectStore, version: int) -> list[int]:
    """Return the versions after `version` in `_delta_log`, ascending."""
    found = []
    for meta in store.list_from(LOG, commit_path(version) if version >= 0 else ""):
        file = parse_log_file(PurePosixPath(meta.path).name)
        if file is not None and file.kind is LogFileKind.COMMIT:
            found.append(file.version)
    return found


def backfilled_commit(store: ObjectStore, version: int) -> Commit:
    """Return the commit `version` in `_delta_log`, without the name of its staged file."""
    data = store.read(commit_path(version))
    return Commit(version, "", timestamp_of(data), len(data), data)


def transaction_at(store: ObjectStore, version: int) -> str | None:
    """Return the `txnId` of the commit `version` in `_delta_log`, None without a commit or a `txnId`."""
    path = commit_path(version)
    try:
        data = store.read(path)
    except ObjectNotFound:
        return None
    for action in parse_commit(data, f"{store.root_url}/{path}"):
        info = action.get("commitInfo")
        if isinstance(info, dict):
            found = info.get("txnId")
            return found if isinstance(found, str) else None
    return None
