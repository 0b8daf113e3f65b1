"""Commits from request to answer, of one table or of many at once: allocate, stage, ratify, those of many together.

Source: docs/commit-owner.md "What happens in a commit", docs/transactions.md; managed-commits.md "Commit Protocol";
paper §3.1.4, §3.2.2, §4.2.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from slackwater.errors import (
    CommitFailed,
    CommitOwnerBusy,
    CommitOwnerUnavailable,
    CommitUnknown,
    LockTimeout,
    SlackwaterError,
    StorageError,
)
from slackwater.owner.api.commits import CommitConflict, CommitRequest, CommitResponse
from slackwater.owner.api.timestamp_range import TimestampRange
from slackwater.owner.api.transactions import TransactionConflict, TransactionRequest, TransactionResponse
from slackwater.owner.commit import allocation, log_lookup, ratification, staging
from slackwater.owner.commit.allocation import Allocation
from slackwater.owner.commit.allocation_outcomes import (
    Attempt,
    Outcome,
    SearchLog,
    VersionsAllocated,
    WaitForLock,
    WaitUntilTimestamp,
    tables_of,
)
from slackwater.owner.commit.commit_validation import require_kept, require_valid
from slackwater.owner.commit.log_lookup import StoreOf
from slackwater.owner.commit.pinned_properties import load_pinned_properties
from slackwater.owner.commit.ratification import (
    AwaitingEarlierVersions,
    StagedCommits,
    VersionsReleased,
    resolve_expired,
)
from slackwater.owner.commit.staging import StagedContent, content_of
from slackwater.owner.database.database import Database
from slackwater.owner.database.schema import prepared
from slackwater.owner.locks import lock_queue
from slackwater.owner.recovery.fences import Fences
from slackwater.owner.state import timestamp_reservations
from slackwater.owner.state.clock import LEASE_MS, OwnerClock
from slackwater.owner.state.group_commit import GroupCommitQueue
from slackwater.owner.state.notifications import ChangeNotifier, WaitLoop

LOCKED_S = 15.0
"""For how long a commit waits for a transaction that locked its table: less than a client waits for an answer."""
MAX_BACKLOG = 10_000
"""How many ratified commits of one table may wait for their backfill."""

_BYTES_PER_ACTION = 1000
_BYTES_PER_MS = 1000
_PATIENCE_S = 120.0
_PREPARED = sa.select(prepared.c.txn_id).where(prepared.c.txn_id == sa.bindparam("of_txn"))


class CommitPipeline:
    """Makes requests count; called from many threads, it does the work of all who wait together."""

    def __init__(
        self,
        database: Database,
        store_of: StoreOf,
        clock: OwnerClock,
        max_backlog: int = MAX_BACKLOG,
        lease_ms: int = LEASE_MS,
        changes: ChangeNotifier | None = None,
        fences: Fences | None = None,
        owner_id: str = "",
    ) -> None:
        self._database = database
        self._store_of = store_of
        self._clock = clock
        self._lease_ms = lease_ms
        self._fences = fences
        self._owner_id = owner_id
        self._kept_of = functools.partial(load_pinned_properties, database)
        self._allocation = Allocation(clock, max_backlog)
        self._allocate: GroupCommitQueue[Attempt, Outcome] = GroupCommitQueue(self._allocate_batch)
        self._ratify: GroupCommitQueue[StagedCommits, ratification.Outcome] = GroupCommitQueue(self._ratify_batch)
        self._changes = changes or ChangeNotifier()

    def commit(self, request: CommitRequest) -> CommitResponse | CommitConflict:
        """As `CommitOwner.commit`."""
        attempt = self.single_table_attempt(request)
        self.require_allowed(attempt.request)
        answer = self._committed(attempt)
        if isinstance(answer, TransactionConflict):
            return CommitConflict(answer.latest_versions[request.table_id])
        return answer.commits[request.table_id]

    def commit_transaction(self, request: TransactionRequest) -> TransactionResponse | TransactionConflict:
        """As `CommitOwner.commit_transaction`."""
        try:
            self.require_allowed(request)
            answer = self._committed(self.attempt(request))
        except CommitUnknown:
            raise
        except BaseException:
            self.end(request.txn_id)
            raise
        if request.has_locks and not request.writes:
            self._changes.notify()
        return answer

    def commit_decided(self, request: TransactionRequest) -> TransactionResponse:
        """Commit at the one timestamp of the request's range, which this owner promised; at most once.

        Raises as `commit_transaction`: then it is to be called again.
        """
        answer = self._committed(replace(self.attempt(request), is_decided=True))
        if isinstance(answer, TransactionConflict):
            raise CommitFailed(f"transaction {request.txn_id} was prepared, and its tables changed nevertheless")
        return answer

    def require_allowed(self, request: TransactionRequest) -> None:
        """Let pass commits that are valid, and leave their tables the owner's: what is promised is carried out."""
        for write in request.writes:
            require_valid(write.actions)
            require_kept(write.actions, self._owner_id, write.table_id, self._kept_of)

    def vote(
        self, connection: Connection, request: TransactionRequest
    ) -> tuple[TimestampRange | TransactionConflict | SlackwaterError, int]:
        """The range within which the transaction can commit while its locks are kept, and the owner's time."""
        return self._allocation.vote(connection, self.attempt(request))

    def wake(self) -> None:
        """Something changed that those who wait may wait for."""
        self._changes.notify()

    def end(self, txn_id: str) -> None:
        """As `CommitOwner.end`."""
        # Where this fails leases end them.
        with suppress(CommitOwnerUnavailable):
            self._database.write(lambda c: _forget(c, txn_id), durable=False)
        self._changes.notify()

    def single_table_attempt(self, request: CommitRequest) -> Attempt:
        """What a commit to one table asks of the allocation. Raises InvalidArgument for what is no commit."""
        lease_ms = self._lease_ms + _staging_ms(len(request.actions))
        return Attempt.for_single_table(request, self._clock.new_id(), self._clock.holder, lease_ms)

    def attempt(self, request: TransactionRequest) -> Attempt:
        """What a transaction asks of the allocation. Raises InvalidArgument for actions that are no commits of it."""
        lease_ms = self._lease_ms + _staging_ms(sum(len(write.actions) for write in request.writes))
        return Attempt.of(request, self._clock.new_id(), self._clock.holder, lease_ms)

    def allocate(self, attempt: Attempt) -> Outcome:
        """The first database transaction: versions, and the timestamp."""
        return self._allocate(attempt)

    def stage(self, files: StagedContent) -> None:
        """Put the files. Raises StorageError; whatever is put then, no record will ever name it."""
        staging.put(self._store_of, self._fences, files)

    def ratify(self, staged: StagedCommits) -> ratification.Outcome:
        """The second database transaction: the commit point."""
        return self._ratify(staged)

    def _committed(self, attempt: Attempt) -> TransactionResponse | TransactionConflict:
        if self._fences is not None:
            for write in attempt.request.writes:
                self._fences.require_none(self._store_of(write.table_id))
        started, waits = time.monotonic(), self._waits(tables_of(attempt.request))
        while True:
            outcome = self.allocate(attempt)
            if isinstance(outcome, SlackwaterError):
                raise outcome
            if isinstance(outcome, TransactionResponse):
                return log_lookup.completed(self._store_of, attempt, outcome)
            if isinstance(outcome, TransactionConflict):
                return outcome
            if isinstance(outcome, VersionsAllocated):
                answer = self._stage_and_ratify(attempt, outcome)
                if answer is not None:
                    return answer
            elif isinstance(outcome, SearchLog):
                told = log_lookup.find_earlier_result(self._store_of, attempt, outcome)
                if told is not None:
                    return told
                attempt = replace(attempt, searched_version=outcome.version)
            elif isinstance(outcome, WaitUntilTimestamp):
                self._clock.sleep(outcome.wait_ms / 1000)
                attempt = replace(attempt, has_waited=True)
            else:
                _require_patience(outcome, time.monotonic() - started, attempt.who)
                waits.wait()
            attempt = replace(attempt, file_id=self._clock.new_id())

    def _stage_and_ratify(self, attempt: Attempt, given: VersionsAllocated) -> TransactionResponse | None:
        """The answer, None where a version was taken away: then nothing of it counts, and it is tried again."""
        files = content_of(attempt, given)
        staged = files.staged
        try:
            self.stage(files)
        except StorageError as error:
            self._give_back(staged)
            # No record will ever name what is there; a recovery must not find it.
            staging.delete(self._store_of, staged)
            raise CommitFailed(f"{staged.who} was not written, nothing was committed: {error}") from error
        except CommitUnknown:
            self._give_back(staged)
            raise
        outcome = self._settled(staged)
        if isinstance(outcome, TransactionResponse):
            return files.answer(outcome)
        if outcome.is_purged and log_lookup.is_in_log(self._store_of, staged):
            return files.answer(ratification.response_for(staged, {}))
        staging.delete(self._store_of, staged)
        return None

    def _settled(self, staged: StagedCommits) -> TransactionResponse | VersionsReleased:
        is_recorded = False
        try:
            outcome = self.ratify(staged)
            is_recorded = True
            waits = self._waits(staged.table_ids)
            while isinstance(outcome, AwaitingEarlierVersions):
                waits.wait(outcome.num_before)
                outcome = self._database.read(lambda c: ratification.outcome_of(c, staged))
                if isinstance(outcome, AwaitingEarlierVersions) and not outcome.num_before:
                    # Others who made the versions before it count did not have all its tables at hand.
                    outcome = self.ratify(staged)
        except CommitOwnerUnavailable as error:
            if error.changed_nothing and not is_recorded:
                # The versions are this attempt's alone, and no other process lets them count.
                staging.delete(self._store_of, staged)
                raise CommitFailed(f"{staged.who} was staged and does not count: {error}") from error
            raise CommitUnknown(
                f"{staged.who} is staged, and whether it counts only the commit owner's database can say, which does "
                f"not answer: {error}"
            ) from error
        except BaseException:
            # Of whatever broke off here others must not wait for the end of the lease.
            self._give_back(staged)
            raise
        return outcome

    def _waits(self, table_ids: Iterable[str]) -> WaitLoop:
        """Waiting for others in these tables."""
        in_order = sorted(table_ids)

        def doubt() -> None:
            for table_id in in_order:
                resolve_expired(self._database, self._clock, table_id)

        return WaitLoop(self._changes, doubt)

    def _allocate_batch(self, attempts: Sequence[Attempt]) -> list[Outcome]:
        # A power cut that undoes it undoes nothing that anybody has seen; unless it is a read, which ends here.
        durable = any(not attempt.request.writes for attempt in attempts)
        runs = itertools.count()

        def run(connection: Connection) -> list[Outcome]:
            # A run whose answer was lost may have counted.
            return self._allocation.allocate(connection, attempts, next(runs) > 0)

        try:
            return self._database.write(run, durable)
        except IntegrityError:
            # A request comes again without saying so.
            return self._database.write(run, durable)

    def _ratify_batch(self, staged: Sequence[StagedCommits]) -> list[ratification.Outcome]:
        outcomes = self._database.write(lambda c: ratification.ratify(c, staged))
        self._changes.notify()
        return outcomes

    def _give_back(self, staged: StagedCommits) -> None:
        # Where this fails the lease ends it.
        with suppress(CommitOwnerUnavailable):
            self._database.write(lambda c: ratification.release_versions(c, staged), durable=False)
        self._changes.notify()


def _require_patience(outcome: Outcome, waited_s: float, who: str) -> None:
    """Return where `who` may go on waiting after `outcome`.

    Raises LockTimeout after waiting too long for a lock, CommitOwnerBusy for versions that are being staged.
    """
    if isinstance(outcome, WaitForLock) and waited_s > LOCKED_S:
        raise LockTimeout(
            f"{who}: the commit waited {LOCKED_S:.0f} s: {outcome.by.description}; nothing was committed: try again "
            "when that has ended"
        )
    if waited_s > _PATIENCE_S:
        raise CommitOwnerBusy(
            f"{who}: versions before its own were being staged for {_PATIENCE_S:.0f} seconds; nothing was committed: "
            "try again"
        )


def _staging_ms(num_actions: int) -> int:
    """Time to add to the lease for the staging of so many actions: most are files with statistics."""
    return num_actions * _BYTES_PER_ACTION // _BYTES_PER_MS


def _forget(connection: Connection, txn_id: str) -> None:
    if connection.execute(_PREPARED, {"of_txn": txn_id}).first() is not None:
        # It promised to wait for a decision.
        return
    lock_queue.release(connection, txn_id)
    timestamp_reservations.release(connection, txn_id)
    allocation.forget_open(connection, txn_id)
