"""Staged files without a record, left by crashed processes or by retried commits, and the groups of staged commits.

Source: managed-commits.md "Commit Files" (mere existence means nothing); the RFC "Multi-Table Transactions",
"Recovery and Cleanup".
"""

from __future__ import annotations

from collections.abc import Collection

from slackwater.errors import CorruptTable, ObjectNotFound
from slackwater.owner.api.staged_files import staged_files
from slackwater.protocol.actions.actions import parse_commit
from slackwater.protocol.actions.file_names import commit_path, staged_path
from slackwater.protocol.actions.transaction_groups import TransactionGroup
from slackwater.storage.store import ObjectStore

GRACE_MS = 3_600_000
"""Minimum age of a staged file without a record before its deletion, because its commit may be in progress."""


def unrecorded(
    store: ObjectStore,
    recorded: Collection[str],
    before_ms: int,
    from_version: int,
    after_ms: int = 0,
    to_version: int | None = None,
) -> list[str]:
    """Return the staged files from `from_version` to `to_version` (None: all later versions), missing in `recorded`.

    The files were changed at or after `after_ms` and before `before_ms`. Files of earlier versions were backfilled or
    never ratified. Metadata cleanup deletes them. Choose `before_ms` first, then read `recorded`, then call. Paths are
    relative to the table's root.
    """
    return [
        staged.meta.path
        for staged in staged_files(store, max(from_version, 0))
        if staged.file_name not in recorded
        and after_ms <= staged.meta.modified_ms < before_ms
        and (to_version is None or staged.file.version <= to_version)
    ]


def group_in(store: ObjectStore, path: str) -> TransactionGroup | None:
    """Return the group of the commit at `path`, None without one: also for a missing or malformed file.

    Raises StorageError.
    """
    where = f"{store.root_url}/{path}"
    try:
        return TransactionGroup.among(parse_commit(store.read(path), where), where)
    except (ObjectNotFound, CorruptTable):
        return None


def group_of_version(store: ObjectStore, version: int, file_name: str | None) -> TransactionGroup | None:
    """Return the group of a ratified version, None without one.

    `file_name` is the recorded name of its staged file, None without a record. Raises StorageError.
    """
    staged = None if file_name is None else group_in(store, staged_path(file_name))
    return staged or group_in(store, commit_path(version))
