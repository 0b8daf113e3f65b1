"""Transfer commits: the commit that gives a table to an owner, or releases a table, and its write to the log.

A process with an incomplete transfer may write the commit again much later. Before that, another writer may have
committed the version, and log cleanup may have deleted it. Source: managed-commits.md "Converting an existing
filesystem based table to managed-commit table", "Converting a managed-commit table to filesystem table";
delta-protocol.md "Metadata Cleanup".
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from slackwater.errors import CommitUnknown, ObjectExists, ObjectNotFound, StorageError, StorageRefused
from slackwater.log.files.segment import list_log, segment_of
from slackwater.log.replay import replay
from slackwater.owner.state.commit_files import transaction_at
from slackwater.protocol.actions.actions import parse_commit
from slackwater.protocol.actions.file_names import commit_path, staged_path
from slackwater.protocol.features.managed_commits import FORMS
from slackwater.storage.conditional_puts import put_assuming_single_writer
from slackwater.storage.store import ObjectStore

_MAX_PUTS = 4
_FIRST_WAIT_S = 0.05


@dataclass(frozen=True, slots=True)
class TransferCommit:
    """A transfer commit `commit_id`, staged under `file_name` for `version`."""

    version: int
    file_name: str
    commit_id: str

    @property
    def path(self) -> str:
        """Path of the version in the table."""
        return commit_path(self.version)


def put_transfer(
    store: ObjectStore, commit: TransferCommit, sleep: Callable[[float], None], is_settled: Callable[[], bool]
) -> bool:
    """Write `commit` if the version never existed, and return whether the version is this commit.

    `is_settled` returns whether another process completed the transfer. Raises CommitUnknown if the store cannot report
    the outcome. Also raises CommitUnknown if another process completed the transfer and log cleanup removed the
    outcome.
    """
    try:
        data = store.read(staged_path(commit.file_name))
    except ObjectNotFound:
        return _is_there(store, commit, is_settled)
    last: StorageError | None = None
    for attempt in range(_MAX_PUTS):
        if attempt:
            sleep(_FIRST_WAIT_S * 2**attempt)
        try:
            put_assuming_single_writer(store, commit.path, data)
        except ObjectExists:
            return _is_there(store, commit, is_settled)
        except StorageRefused as error:
            # Not a failure for the caller, because any process that finds the transfer completes it.
            last = error
            break
        except StorageError as error:
            last = error
        else:
            return _is_kept(store, commit, data, is_settled)
    raise CommitUnknown(
        f"{store.root_url}/{commit.path} may or may not have been written ({last}). If not, `slackwater lake "
        "repair`, or the next use of the table, writes it"
    ) from last


def _is_there(store: ObjectStore, commit: TransferCommit, is_settled: Callable[[], bool]) -> bool:
    try:
        data = store.read(commit.path)
    except ObjectNotFound:
        _require_unsettled(store, commit, is_settled)
        return False
    return transaction_at(store, commit.version) == commit.commit_id and _is_kept(store, commit, data, is_settled)


def _is_kept(store: ObjectStore, commit: TransferCommit, data: bytes, is_settled: Callable[[], bool]) -> bool:
    """Return whether the written commit is a version of the table. If not, delete its file."""
    if _is_in_table(store, commit.version, data):
        return True
    _require_unsettled(store, commit, is_settled)
    # Safe to delete, because the log starts after this version.
    with suppress(StorageError):
        store.delete([commit.path])
    return False


def _is_in_table(store: ObjectStore, version: int, data: bytes) -> bool:
    """Return whether the commit is part of the table's history.

    Log cleanup never removes a commit without a checkpoint of its version or later. Otherwise the nearest such
    checkpoint decides.
    """
    listing = list_log(store, version)
    beyond = [point.version for point in listing.checkpoints if point.version >= version]
    if not beyond:
        return True
    written = [action["metaData"] for action in parse_commit(data, store.root_url) if action.get("metaData")]
    own = [key for form in FORMS for key in form.properties]
    then = replay(segment_of(listing, store.root_url, min(beyond)), store)[1].metadata.configuration
    said = (written[-1].get("configuration") or {}) if written else {}
    return [said.get(key) for key in own] == [then.get(key) for key in own]


def _require_unsettled(store: ObjectStore, commit: TransferCommit, is_settled: Callable[[], bool]) -> None:
    if is_settled():
        raise CommitUnknown(
            f"{store.root_url}: another process resolved version {commit.version}, and log cleanup has removed it "
            "since. Reload the table"
        )
