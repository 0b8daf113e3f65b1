"""Work after a commit: version checksum, checkpoint, cleanup. A failure here never fails the commit.

Source: delta-protocol.md "Checkpoints", "Metadata Cleanup"; docs/architecture.md "The life of a write".
"""

from __future__ import annotations

import random
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypeVar

from slackwater.log.checksum_totals import checksum_of, first_checksum, has_histograms, next_checksum
from slackwater.log.cleanup import cleanup_cutoff_ms
from slackwater.log.files.commits import ParsedCommit
from slackwater.log.files.last_checkpoint import LAST_CHECKPOINT, read_last_checkpoint
from slackwater.log.files.segment import has_checkpoint
from slackwater.log.files.version_checksum import VersionChecksum, write_version_checksum
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.properties import ENABLE_EXPIRED_LOG_CLEANUP, TableProperties
from slackwater.scan.snapshot import Snapshot
from slackwater.scan.unread_snapshot import MOST_NEW_COMMITS, UnreadSnapshot, newest_read
from slackwater.storage.store import ObjectStore
from slackwater.transaction.committer import Committer, TransactionScopedCommitter
from slackwater.transaction.log_maintenance import checkpoint, checkpoint_interval, clean_up

T = TypeVar("T")

# Number of commits after a due version that check for its checkpoint: it must be backfilled before. If every commit
# checked, concurrent writers would write the same checkpoint at the same time.
_TURNS = (1, 5)
# A checkpoint of a managed table waits for this time after the last one, unless there are as many commits between.
# While many commits arrive, reading some more of them costs less than writing all files every few milliseconds.
_CHECKPOINT_SPACING_MS = 1000
_MOST_COMMITS_BETWEEN = 80
# Time and commits are multiplied by a random factor up to this one, so that of many writers one is the first.
_LONGEST_SPACING = 1.5
# Maximum number of files whose sizes are summed if the previous version has no checksum.
_MOST_FILES_COUNTED = 100_000
# Maximum number of files whose sizes are read to complete a checksum without histograms, by another writer.
_MOST_FILES_READ_AGAIN = 10_000
_MOST_CLEANUPS = 1_000


@dataclass(frozen=True)
class PostCommitHook:
    """Log maintenance after a commit. Each part can be disabled."""

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
        """Do the maintenance due after `commit`. Return completed and failed tasks. Never raises.

        `commit` turned `before` into `after`. `adds_are_new` promises that no added file was live in `before` and that
        every removed file was.
        """
        upkeep = _Upkeep()
        if isinstance(committer, TransactionScopedCommitter):
            # A commit to a branch is not committed yet.
            return [], []
        if self.checksums and committer.publishes_at_once:
            upkeep.attempt("the version checksum", lambda: _write_checksum(before, after, commit, adds_are_new))
        if self.checkpoints and not committer.publishes_at_once:
            self._keep_up_with_backfill(upkeep, after, after.version, committer, now_ms, before)
        # The property may be invalid: another engine may have written it.
        elif self.checkpoints and upkeep.attempt(
            "the checkpoint", lambda: is_checkpoint_due(after.version, after.properties)
        ):
            upkeep.attempt("the checkpoint", lambda: _write_checkpoint(after, now_ms))
            if self.cleanup:
                upkeep.attempt("the cleanup of the log", lambda: _clean_up(after, now_ms))
        return upkeep.done, upkeep.failed

    def run_first(
        self, store: ObjectStore, configuration: TableConfiguration, commit: ParsedCommit, committer: Committer
    ) -> tuple[list[str], list[str]]:
        """Do the maintenance after the first `commit` of a table, without a snapshot of its files. See `run`."""
        upkeep = _Upkeep()
        if self.checksums and committer.publishes_at_once:
            upkeep.attempt("the version checksum", lambda: _write_first_checksum(store, configuration, commit))
        return upkeep.done, upkeep.failed

    def run_behind(
        self, known: Snapshot, version: int, committer: Committer, now_ms: int
    ) -> tuple[list[str], list[str]]:
        """Do the maintenance after the commit of `version` if only an earlier snapshot is `known`. See `run`."""
        upkeep = _Upkeep()
        if self.checkpoints and not committer.publishes_at_once:
            self._keep_up_with_backfill(upkeep, known, version, committer, now_ms)
        return upkeep.done, upkeep.failed

    def _keep_up_with_backfill(
        self,
        upkeep: _Upkeep,
        known: Snapshot,
        version: int,
        committer: Committer,
        now_ms: int,
        before: Snapshot | None = None,
    ) -> None:
        """Write the checkpoint and the checksum of the newest due version in `_delta_log`, up to `version`.

        Commits are backfilled some time after ratification, so the commits after a due version check for its
        checkpoint, too. The check does not wait for a backfill. While many commits arrive, checkpoints are further
        apart than `delta.checkpointInterval`. `known` and `before` are known versions.
        Source: managed-commits.md "Maintenance operations on managed-commit tables".
        """

        def checkpointed() -> Snapshot | None:
            interval = checkpoint_interval(known.properties)
            if not _has_turn(version, interval):
                return None
            newest = _checkpoint_version(known, version - version % interval)
            if newest >= version - version % interval or _is_too_early(known.store, version - newest, now_ms):
                return None
            published = committer.published_version(version)
            due = published - published % interval
            # Another writer may have written one meanwhile.
            if _checkpoint_version(known, due) >= due:
                return None
            snapshot = _at_version(due, known, before)
            upkeep.done.append(_write_checkpoint(snapshot, now_ms))
            if self.checksums and write_version_checksum(snapshot.store, checksum_of(snapshot)):
                upkeep.done.append("checksum")
            return snapshot

        snapshot = upkeep.attempt("the checkpoint", checkpointed)
        if snapshot is not None and self.cleanup:
            upkeep.attempt("the cleanup of the log", lambda: _clean_up(snapshot, now_ms))


def _at_version(version: int, known: Snapshot, before: Snapshot | None) -> Snapshot:
    """Return `version` of the table, from one of the known versions if possible."""
    if known.version == version:
        return known
    if before is not None and before.version == version and before.table.branch is None:
        return before
    if isinstance(known, UnreadSnapshot) and version < known.version:
        return known.earlier(version)
    read = newest_read(known)
    return read.update(version, MOST_NEW_COMMITS) if read.version < version else Snapshot.open(known.table, version)


def _has_turn(version: int, interval: int) -> bool:
    """Return whether the commit of `version` checks for a due checkpoint.

    One more turn per interval is at random, because the fixed turns may always be those of other writers.
    """
    is_fixed = version % interval in {turn % interval for turn in _TURNS}
    return is_fixed or random.Random(version).random() * interval < 1  # noqa: S311  (no secret)


def _checkpoint_version(known: Snapshot, version: int) -> int:
    """Return the version of the newest checkpoint known from cheap sources, 0 for none.

    If `known` was read from a checkpoint of `version` or later, nothing else is read. Version 0 needs no checkpoint.
    """
    own = newest_read(known).segment.checkpoint
    found = 0 if own is None else own.version
    if found >= version:
        return found
    last = read_last_checkpoint(known.store)
    # A restored log may have the hint of a later checkpoint.
    if last is None or (last.version > version and not has_checkpoint(known.store, last.version)):
        return found
    return max(found, last.version)


def _is_too_early(store: ObjectStore, num_commits: int, now_ms: int) -> bool:
    """Return whether a due checkpoint has to wait. `num_commits` is the number of commits after the last one."""
    spacing = random.uniform(1, _LONGEST_SPACING)  # noqa: S311  (no secret)
    if num_commits >= spacing * _MOST_COMMITS_BETWEEN:
        return False
    last = store.head(LAST_CHECKPOINT)
    # The clocks of the store and of this machine may differ, and another writer may be faster.
    return last is not None and abs(now_ms - last.modified_ms) < spacing * _CHECKPOINT_SPACING_MS


class _Upkeep:
    """Completed and failed maintenance tasks after a commit."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.failed: list[str] = []

    def attempt(self, what: str, work: Callable[[], T]) -> T | None:
        try:
            found = work()
        except Exception as error:  # noqa: BLE001  (the commit is valid regardless of later failures)
            self.failed.append(f"{what} failed: {type(error).__name__}: {error}")
            return None
        if isinstance(found, str):
            self.done.append(found)
        return found


def is_checkpoint_due(version: int, properties: TableProperties) -> bool:
    """Return whether the table needs a checkpoint of `version`: every `delta.checkpointInterval` versions."""
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
        costs_much = previous.num_files > _MOST_FILES_READ_AGAIN or not _is_small(after)
        if found is not None and (costs_much or has_histograms(found)):
            return found
    if previous is not None and previous.num_files > _MOST_FILES_COUNTED:
        return None
    return checksum_of(after) if _is_small(after) else None


def _is_small(snapshot: Snapshot) -> bool:
    checkpoint = snapshot.segment.checkpoint
    return checkpoint is None or checkpoint.size_bytes <= _MOST_FILES_COUNTED * 100


def _write_checkpoint(snapshot: Snapshot, now_ms: int) -> str:
    return f"checkpoint {checkpoint(snapshot, now_ms).version}"


class _RecentCleanups:
    """The cleanups of this process. A cleanup lists the whole log, but what it may delete only changes at midnight."""

    def __init__(self) -> None:
        self._done: OrderedDict[Hashable, None] = OrderedDict()
        self._lock = threading.Lock()

    def is_due(self, key: Hashable) -> bool:
        with self._lock:
            return key not in self._done

    def add(self, key: Hashable) -> None:
        with self._lock:
            self._done[key] = None
            while len(self._done) > _MOST_CLEANUPS:
                self._done.popitem(last=False)


_cleanups = _RecentCleanups()


def _clean_up(snapshot: Snapshot, now_ms: int) -> str | None:
    key = snapshot.store.root_url, snapshot.metadata.id, cleanup_cutoff_ms(snapshot, now_ms)
    if not (snapshot.properties.flag(ENABLE_EXPIRED_LOG_CLEANUP) and _cleanups.is_due(key)):
        return None
    done = clean_up(snapshot, now_ms)
    if done.protected_before is None:
        _cleanups.add(key)
    return f"cleanup of {len(done.deleted)} files" if done.deleted else None
