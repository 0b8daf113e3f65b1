"""The commit loop: attempts, rebase onto winning commits, and maintenance after the commit.

Source: delta-protocol.md "Requirements for Writers"; docs/architecture.md "The life of a write".
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from slackwater.errors import (
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    ProtocolChangedException,
)
from slackwater.log.files.bulk_commit import StreamedActions
from slackwater.log.files.commits import ParsedCommit
from slackwater.protocol.actions.commit_info import CommitInfo
from slackwater.protocol.actions.deletion_vectors import DeletionVectorDescriptor
from slackwater.scan.snapshot import Snapshot
from slackwater.scan.unread_snapshot import newest_read
from slackwater.transaction.clock import Clock
from slackwater.transaction.commit_actions import assemble
from slackwater.transaction.commit_result import CommitResult
from slackwater.transaction.committer import Committed, Committer, Conflict, TransactionScopedCommitter
from slackwater.transaction.conflicts.conflicts import ConflictCheck
from slackwater.transaction.conflicts.isolation import IsolationLevel
from slackwater.transaction.conflicts.winning_commit import WinningCommit
from slackwater.transaction.observability.commit_metrics import count
from slackwater.transaction.observability.commit_report import CommitReport, report_commit
from slackwater.transaction.observability.tracing import COMMIT, observed
from slackwater.transaction.rows.vector_files import delete_vector_files
from slackwater.transaction.staged_transaction import StagedTransaction
from slackwater.transaction.vacuum_age_check import validate_late_files

MAX_ATTEMPTS = 1000
_PATIENT_ATTEMPTS = 3
_STEP_S = 0.002
_LONGEST_WAIT_S = 0.1
_log = logging.getLogger(__name__)


def pause(clock: Clock, attempt: int) -> None:
    """Sleep after a lost attempt. The time grows with the number of lost attempts."""
    if attempt > _PATIENT_ATTEMPTS:
        clock.sleep(min(_LONGEST_WAIT_S, _STEP_S * attempt) * clock.jitter())


class CommitLoop:
    """Commits a transaction, with a retry after each winning commit without a conflict.

    `run` does all steps. A commit to several tables has one loop per table and calls the steps `actions`, `rebase` and
    `on_committed`.
    """

    def __init__(self, transaction: StagedTransaction, info: CommitInfo, isolation: IsolationLevel) -> None:
        self.transaction = transaction
        self.before: Snapshot | None = transaction.read_snapshot
        self.info = info
        self.report: CommitReport | None = None
        self._check: ConflictCheck | None = None
        if transaction.read_snapshot is not None:
            self._check = ConflictCheck(
                transaction.read_snapshot, transaction.staged, transaction.reads, isolation, transaction.zone
            )

    @property
    def version(self) -> int:
        """The version of the next attempt, one after the newest known version."""
        return 0 if self.before is None else self.before.version + 1

    def actions(self) -> Sequence[Mapping[str, Any]]:
        """Return the actions of the next attempt.

        Raises ConcurrentWriteException if files written long ago are missing or about to be deleted.
        """
        transaction = self.transaction
        if self.before is not None and transaction.staged.has_file_actions:
            validate_late_files(
                self.before, transaction.staged, transaction.vector_paths, transaction.begun_ms, transaction.clock
            )
        return assemble(
            transaction.staged, self.before, self.info, transaction.clock.now_ms(), transaction.preserves_rows
        )

    def run(self) -> CommitResult:
        """Run the loop until the commit succeeds or fails. See `TableTransaction.commit`."""
        committer = self.transaction.committer
        if isinstance(committer, TransactionScopedCommitter):
            return self._defer(committer)
        with observed(COMMIT, {"table": self._where, "operation": self.info.operation}) as span:
            result = self._attempts(committer)
            span.describe(self.report)
        return result

    def _attempts(self, committer: Committer) -> CommitResult:
        transaction = self.transaction
        for attempt in range(1, MAX_ATTEMPTS + 1):
            outcome = committer.commit(self.version, self.actions(), transaction.may_move)
            if isinstance(outcome, Committed):
                return self.on_committed(outcome, attempt)
            if self.before is None:
                raise self._created_by_another(outcome)
            own = self.rebase(committer.commits_after(self.before.version), outcome.version)
            if own is not None:
                return self.on_committed(own, attempt)
            count(retries=1)
            pause(transaction.clock, attempt)
        raise self.lost()

    def _defer(self, committer: TransactionScopedCommitter[StagedTransaction]) -> CommitResult:
        """Make the commit part of a larger transaction, which commits it and does the maintenance."""
        transaction, version = self.transaction, self.version
        if not committer.defer(transaction, self.info, version, self.actions):
            # Another operation of the larger transaction changed the table.
            raise self._unreadable(version)
        return CommitResult(transaction.table, version, transaction.clock.now_ms(), 1)

    def rebase(self, commits: Sequence[ParsedCommit], version: int) -> Committed | None:
        """Rebase onto `commits`, the winning commits up to at least `version`.

        Return our own commit if `commits` contains it, else None. Raises the DeltaConcurrentModificationException for
        the conflict.
        """
        if not commits:
            # Without the actions of the winning commit a conflict cannot be excluded.
            raise self._unreadable(version)
        if self.before is None or self._check is None:
            raise self._created_by_another(Conflict(version))
        before, check = self.before, self._check
        for commit in commits:
            winner = WinningCommit(commit)
            if winner.txn_id == self.transaction.txn_id:
                self.before = before
                return Committed(winner.commit)
            try:
                check.check(winner, before)
            except DeltaConcurrentModificationException as error:
                _log.info("%s: %s lost to version %d: %s", self._where, self._what, winner.version, error)
                raise
            by = winner.commit.info.get("operation", "an operation without a name")
            _log.info(
                "%s: version %d belongs to another writer (%s): rebasing %s onto it",
                self._where,
                winner.version,
                by,
                self._what,
            )
            before = before.with_commits([winner.commit])
        self.before = before
        self.transaction.stage_row_deletions(check.take_rebased())
        return None

    def lost(self) -> ConcurrentWriteException:
        """Return the error for a commit that lost every attempt."""
        return ConcurrentWriteException(
            f"{self._where}: other writers won each of {MAX_ATTEMPTS} attempts. Nothing was committed. Retry when "
            "fewer writers are active"
        )

    def on_committed(self, outcome: Committed, attempts: int, transaction_id: str | None = None) -> CommitResult:
        """Report the commit, do the maintenance due after it, and return the result.

        `transaction_id` is the id of a transaction over several tables.
        """
        transaction, before, commit = self.transaction, self.before, outcome.commit
        stamp = commit.info.get("inCommitTimestamp", commit.info.get("timestamp"))
        result = CommitResult(transaction.table, commit.version, int(stamp) if stamp is not None else 0, attempts)
        self.report = report_commit(
            transaction.table.location,
            commit.version,
            commit.actions,
            transaction.begun_ms,
            transaction.clock.now_ms(),
            result.timestamp_ms,
            attempts,
            transaction_id,
        )
        left_behind = self._delete_superseded_vectors(commit)
        upkeep, committer, now_ms = transaction.post_commit, transaction.committer, transaction.clock.now_ms()
        if isinstance(commit.actions, StreamedActions):
            # The files were streamed. `CommitResult.snapshot` reads them on demand.
            done, failed = upkeep.run_first(transaction.store, transaction.staged.table_after(None), commit, committer)
            return self._kept_up(result, done, [*left_behind, *failed])
        if before is not None and (commit.version != before.version + 1 or newest_read(before) is not before):
            # Commits of other writers in between are read on demand.
            done, failed = upkeep.run_behind(before, commit.version, committer, now_ms)
            return self._kept_up(result, done, [*left_behind, *failed])
        try:
            after = (
                Snapshot.of_first_commit(transaction.table, commit) if before is None else before.with_commits([commit])
            )
        except Exception as error:  # noqa: BLE001  (the commit is valid even if its version cannot be read)
            return replace(result, upkeep_errors=(*left_behind, f"reading the version back failed: {error}"))
        done, failed = upkeep.run(before, after, commit, committer, not transaction.staged.restates, now_ms)
        return self._kept_up(replace(result, known=after), done, [*left_behind, *failed])

    def _unreadable(self, version: int) -> ConcurrentWriteException:
        return ConcurrentWriteException(
            f"{self._where}: version {version} exists, but cannot be read back. Nothing was committed. Read the table "
            "again and retry"
        )

    def _created_by_another(self, outcome: Conflict) -> Exception:
        return ProtocolChangedException(
            f"{self._where}: another writer created the table first (version {outcome.version} exists). Read the "
            "table, then append to it, or write elsewhere"
        )

    def _kept_up(self, result: CommitResult, done: Sequence[str], failed: Sequence[str]) -> CommitResult:
        for problem in failed:
            _log.warning("%s: version %d is committed, but %s", self._where, result.version, problem)
        return replace(result, upkeep=tuple(done), upkeep_errors=tuple(failed))

    def _delete_superseded_vectors(self, commit: ParsedCommit) -> list[str]:
        """Delete vector files of lost attempts not referenced by the successful `commit`. Return the problems."""
        paths = self.transaction.vector_paths
        if not paths:
            return []
        nodes = (node for action in commit.actions for node in (action.get("add"), action.get("remove")) if node)
        vectors = (DeletionVectorDescriptor.from_json(n["deletionVector"]) for n in nodes if n.get("deletionVector"))
        needed = {vector.relative_path for vector in vectors}
        problem = delete_vector_files(self.transaction.store, [path for path in paths if path not in needed])
        self.transaction.keep_vectors()
        return [] if problem is None else [problem]

    @property
    def _what(self) -> str:
        return f"this {self.info.operation}"

    @property
    def _where(self) -> str:
        return self.transaction.store.root_url
