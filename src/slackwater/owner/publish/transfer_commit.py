"""The commit with which a table comes into an owner's hands, or leaves them, put into the table's log.

A process that finds the transfer half done may put it again, long after: others may have committed its version by then,
and the log may have forgotten that. Source: managed-commits.md "Converting an existing filesystem based table to
managed-commit table", "Converting a managed-commit table to filesystem table"; delta-protocol.md "Metadata Cleanup".
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from slackwater.errors import CommitUnknown, ObjectExists, ObjectNotFound, StorageError, StorageRefused
from slackwater.log.replay import replay
from slackwater.log.segment import list_log, segment_of
from slackwater.owner.state.commit_files import transaction_at
from slackwater.protocol.actions.actions import parse_commit
from slackwater.protocol.actions.file_names import commit_path, staged_path
from slackwater.protocol.properties.properties import MANAGED_COMMIT_OWNER, MANAGED_COMMIT_OWNER_CONF
from slackwater.storage.conditional_puts import put_assuming_single_writer
from slackwater.storage.store import ObjectStore

_MAX_PUTS = 4
_FIRST_WAIT_S = 0.05


@dataclass(frozen=True, slots=True)
class TransferCommit:
    """The commit `commit_id` that is staged as `file_name` and is to become `version`."""

    version: int
    file_name: str
    commit_id: str

    @property
    def path(self) -> str:
        """Where it is to be, in the table."""
        return commit_path(self.version)


def put_transfer(
    store: ObjectStore, commit: TransferCommit, sleep: Callable[[float], None], is_settled: Callable[[], bool]
) -> bool:
    """Whether `commit` is a version of the table: it is put, unless it, or another, is there, or was.

    `is_settled` answers whether others have carried out the transfer meanwhile. Raises CommitUnknown where the store
    does not tell, or where others have and the log has forgotten what became of it.
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
            # A process that finds the transfer finishes it, so the caller must not be told that it failed.
            last = error
            break
        except StorageError as error:
            last = error
        else:
            return _is_kept(store, commit, data, is_settled)
    raise CommitUnknown(
        f"{store.root_url}/{commit.path} may or may not have been written ({last}), and is written where it was not by "
        "`slackwater lake repair`, or whoever uses the table next"
    ) from last


def _is_there(store: ObjectStore, commit: TransferCommit, is_settled: Callable[[], bool]) -> bool:
    try:
        data = store.read(commit.path)
    except ObjectNotFound:
        _require_unsettled(store, commit, is_settled)
        return False
    return transaction_at(store, commit.version) == commit.commit_id and _is_kept(store, commit, data, is_settled)


def _is_kept(store: ObjectStore, commit: TransferCommit, data: bytes, is_settled: Callable[[], bool]) -> bool:
    """Whether the commit, whose file is there, is a version of the table; the file of one that is not goes away."""
    if _is_in_table(store, commit.version, data):
        return True
    _require_unsettled(store, commit, is_settled)
    # No commit builds on it, and the log begins after it.
    with suppress(StorageError):
        store.delete([commit.path])
    return False


def _is_in_table(store: ObjectStore, version: int, data: bytes) -> bool:
    """Without a checkpoint of its version or a later one a commit is never forgotten; else the nearest one tells."""
    listing = list_log(store, version)
    beyond = [point.version for point in listing.checkpoints if point.version >= version]
    if not beyond:
        return True
    written = [action["metaData"] for action in parse_commit(data, store.root_url) if action.get("metaData")]
    own = (MANAGED_COMMIT_OWNER, MANAGED_COMMIT_OWNER_CONF)
    then = replay(segment_of(listing, store.root_url, min(beyond)), store)[1].metadata.configuration
    said = (written[-1].get("configuration") or {}) if written else {}
    return [said.get(key) for key in own] == [then.get(key) for key in own]


def _require_unsettled(store: ObjectStore, commit: TransferCommit, is_settled: Callable[[], bool]) -> None:
    if is_settled():
        raise CommitUnknown(
            f"{store.root_url}: others have settled what was to become version {commit.version}, and the log was "
            "cleaned up since: read the table again"
        )
