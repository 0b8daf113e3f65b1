"""What follows a commit: version checksum, checkpoint, cleanup. Nothing here can make a commit look failed.

Source: delta-protocol.md "Checkpoints", "Metadata Cleanup"; docs/architecture.md "The life of a write".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from slackwater.log.checkpoints.last_checkpoint import read_last_checkpoint
from slackwater.log.commits import ParsedCommit
from slackwater.log.files.checksum_totals import checksum_of, first_checksum, next_checksum
from slackwater.log.files.version_checksum import VersionChecksum, write_version_checksum
from slackwater.protocol.properties.properties import TableProperties
from slackwater.protocol.table_configuration import TableConfiguration
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.store import ObjectStore
from slackwater.transaction.committer import Committer, TransactionScopedCommitter
from slackwater.transaction.log_maintenance import checkpoint, checkpoint_interval, clean_up

T = TypeVar("T")

# Sizes of so many files are added up where the checksum of the version before is not there (yet).
_MOST_FILES_COUNTED = 100_000


@dataclass(frozen=True)
class PostCommitHook:
    """The upkeep of the log after a commit; each part may be left out."""

    checksums: bool = True
    checkpoints: bool = True
    cleanup: bool = True

    def run(
        self,
        before: Snapshot | None,
        after: Snapshot,
        commit: ParsedCommit,
        committer: Committer,
        adds_are_new: bool,
        now_ms: int,
    ) -> tuple[list[str], list[str]]:
        """Do what is due after `commit`, which made `after` of `before`; never raises. What was done, what failed.

        `adds_are_new`: no file that it adds was live in `before`, and every file that it removes was.
        """
        upkeep = _Upkeep()
        if isinstance(committer, TransactionScopedCommitter):
            # Nothing is committed yet.
            return [], []
        if self.checksums and committer.publishes_at_once:
            upkeep.attempt("the version checksum", lambda: _write_checksum(before, after, commit, adds_are_new))
        if self.checkpoints and not committer.publishes_at_once:
            self._keep_up_with_backfill(upkeep, after, after.version, committer, now_ms)
        elif self.checkpoints and is_checkpoint_due(after.version, after.properties):
            upkeep.attempt("the checkpoint", lambda: _write_checkpoint(after, now_ms))
            if self.cleanup:
                upkeep.attempt("the cleanup of the log", lambda: _clean_up(after, now_ms))
        return upkeep.done, upkeep.failed

    def run_first(
        self, store: ObjectStore, configuration: TableConfiguration, commit: ParsedCommit, committer: Committer
    ) -> tuple[list[str], list[str]]:
        """As `run` after the first `commit` of a table, whose files are not held."""
        upkeep = _Upkeep()
        if self.checksums and committer.publishes_at_once:
            upkeep.attempt("the version checksum", lambda: _write_first_checksum(store, configuration, commit))
        return upkeep.done, upkeep.failed

    def run_behind(
        self, known: Snapshot, version: int, committer: Committer, now_ms: int
    ) -> tuple[list[str], list[str]]:
        """As `run` after the commit `version`, of which only an earlier snapshot is `known`."""
        upkeep = _Upkeep()
        if self.checkpoints and not committer.publishes_at_once:
            self._keep_up_with_backfill(upkeep, known, version, committer, now_ms)
        return upkeep.done, upkeep.failed

    def _keep_up_with_backfill(
        self, upkeep: _Upkeep, known: Snapshot, version: int, committer: Committer, now_ms: int
    ) -> None:
        """A checkpoint of the newest version up to `version` that is due and in `_delta_log`, and its checksum.

        Commits are backfilled some time after they count, so that every commit looks whether one has become due;
        nothing is waited for.
        Source: managed-commits.md "Maintenance operations on managed-commit tables".
        """

        def checkpointed() -> Snapshot | None:
            interval = checkpoint_interval(known.properties)
            if _has_checkpoint_since(known, version - version % interval):
                return None
            published = committer.published_version(version)
            due = published - published % interval
            if _has_checkpoint_since(known, due):
                return None
            snapshot = known if known.version == due else Snapshot.open(known.table, due)
            upkeep.done.append(_write_checkpoint(snapshot, now_ms))
            if self.checksums and write_version_checksum(snapshot.store, checksum_of(snapshot)):
                upkeep.done.append("checksum")
            return snapshot

        snapshot = upkeep.attempt("the checkpoint", checkpointed)
        if snapshot is not None and self.cleanup:
            upkeep.attempt("the cleanup of the log", lambda: _clean_up(snapshot, now_ms))


def _has_checkpoint_since(known: Snapshot, version: int) -> bool:
    """Whether there is a checkpoint of `version` or later, as far as that is cheap to know; version 0 needs none."""
    own = known.segment.checkpoint
    if version <= 0 or (own is not None and own.version >= version):
        return True
    last = read_last_checkpoint(known.store)
    return last is not None and last.version >= version


class _Upkeep:
    """What was done after a commit, and what failed."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.failed: list[str] = []

    def attempt(self, what: str, work: Callable[[], T]) -> T | None:
        try:
            found = work()
        except Exception as error:  # noqa: BLE001  (the commit stands, whatever fails after it)
            self.failed.append(f"{what} failed: {type(error).__name__}: {error}")
            return None
        if isinstance(found, str):
            self.done.append(found)
        return found


def is_checkpoint_due(version: int, properties: TableProperties) -> bool:
    """Whether the table wants a checkpoint of `version`: every `delta.checkpointInterval` versions."""
    return version > 0 and version % checkpoint_interval(properties) == 0


def _write_first_checksum(store: ObjectStore, configuration: TableConfiguration, commit: ParsedCommit) -> str | None:
    checksum = first_checksum(configuration, commit.actions)
    return "checksum" if checksum is not None and write_version_checksum(store, checksum) else None


def _write_checksum(before: Snapshot | None, after: Snapshot, commit: ParsedCommit, adds_are_new: bool) -> str | None:
    checksum = _checksum(before, after, commit, adds_are_new)
    if checksum is None:
        return None
    return "checksum" if write_version_checksum(after.store, checksum) else None


def _checksum(
    before: Snapshot | None, after: Snapshot, commit: ParsedCommit, adds_are_new: bool
) -> VersionChecksum | None:
    previous = None if before is None else before.checksum()
    if previous is not None:
        found = next_checksum(previous, commit.actions, None if adds_are_new else before)
        if found is not None:
            return found
    if previous is not None and previous.num_files > _MOST_FILES_COUNTED:
        return None
    return checksum_of(after) if _is_small(after) else None


def _is_small(snapshot: Snapshot) -> bool:
    checkpoint = snapshot.segment.checkpoint
    return checkpoint is None or checkpoint.size_bytes <= _MOST_FILES_COUNTED * 100


def _write_checkpoint(snapshot: Snapshot, now_ms: int) -> str:
    return f"checkpoint {checkpoint(snapshot, now_ms).version}"


def _clean_up(snapshot: Snapshot, now_ms: int) -> str | None:
    deleted = clean_up(snapshot, now_ms).deleted
    return f"cleanup of {len(deleted)} files" if deleted else None
