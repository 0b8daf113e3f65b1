"""Commit pipeline from request to response: allocate, stage, ratify. Concurrent requests share database transactions.

Source: docs/commit-owner.md "What happens in a commit", docs/transactions.md; managed-commits.md "Commit Protocol";
paper §3.1.4, §3.2.2, §4.2.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Iterable, Mapping, Sequence
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
    InvalidArgument,
    LockTimeout,
    SlackwaterError,
    StorageError,
)
from slackwater.owner.api.commits import CommitConflict, CommitRequest, CommitResponse, StagedCommit
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
from slackwater.owner.commit.commit_validation import require_kept, require_valid, require_whole_group
from slackwater.owner.commit.log_lookup import StoreOf
from slackwater.owner.commit.pinned_properties import load_pinned_properties
from slackwater.owner.commit.ratification import (
    AwaitingEarlierVersions,
    StagedCommits,
    VersionsReleased,
    resolve_expired,
)
from slackwater.owner.commit.staged_by_client import staged_by_client, staged_group
from slackwater.owner.commit.staging import StagedContent, content_of
from slackwater.owner.database.database import Database
from slackwater.owner.database.schema import prepared
from slackwater.owner.locks import lock_queue, timestamp_reservations
from slackwater.owner.recovery.fences import Fences
from slackwater.owner.state.clock import LEASE_MS, OwnerClock
from slackwater.owner.state.group_commit import GroupCommitQueue
from slackwater.owner.state.log_head import PriorityReservation
from slackwater.owner.state.notifications import AwaitedCommits, ChangeNotifier, InProgress, WaitLoop

LOCKED_S = 15.0
"""Maximum wait of a commit for a lock of a transaction. Less time than a client waits for a response."""
MAX_BACKLOG = 10_000
"""Maximum of ratified commits of one table waiting for their backfill."""

_BYTES_PER_ACTION = 1000
_BYTES_PER_MS = 1000
_PATIENCE_S = 120.0
# Concurrent commits are processed in groups, because a database transaction costs about the same for one commit and for
# many. A group waits so long for the commits before it, whose versions are ratified first.
_GATHER_TO_ALLOCATE_S = 0.02
_GATHER_TO_RATIFY_S = 0.005
_PREPARED = sa.select(prepared.c.txn_id).where(prepared.c.txn_id == sa.bindparam("of_txn"))


class CommitPipeline:
    """Commits requests from many threads. Concurrent calls are processed in groups."""

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
        # Commits with versions: those not staged yet, and all not ratified yet.
        self._unstaged, self._unratified = InProgress(), InProgress()
        self._allocate: GroupCommitQueue[Attempt, Outcome] = GroupCommitQueue(
            self._allocate_batch, gather=lambda: self._unratified.wait_for_none(_GATHER_TO_ALLOCATE_S)
        )
        self._ratify: GroupCommitQueue[StagedCommits, ratification.Outcome] = GroupCommitQueue(
            self._ratify_batch, gather=lambda: self._unstaged.wait_for_none(_GATHER_TO_RATIFY_S)
        )
        self._changes = changes or ChangeNotifier()
        self._awaited: AwaitedCommits[StagedCommits] = AwaitedCommits()

    def commit(self, request: CommitRequest) -> CommitResponse | CommitConflict:
        """Commit to one table. See `CommitOwner.commit`."""
        attempt = self.single_table_attempt(request)
        self.require_allowed(attempt.request)
        answer = self._committed(attempt)
        if isinstance(answer, TransactionConflict):
            return CommitConflict(answer.latest_versions[request.table_id])
        return answer.commits[request.table_id]

    def commit_staged(self, asked: StagedCommit) -> CommitResponse | CommitConflict:
        """Commit a file staged by its client. See `StagedCommitOwner.commit_staged`."""
        found = staged_by_client(self._store_of(asked.table_id), self._kept_of(asked.table_id), asked)
        single = self.single_table_attempt(found.request)
        request = replace(single.request, range=TimestampRange(asked.timestamp_ms - 1, asked.timestamp_ms))
        attempt = replace(single, request=request, staged={asked.table_id: found.file})
        self.require_allowed(request)
        answer = self._committed(attempt)
        if isinstance(answer, TransactionConflict):
            return CommitConflict(answer.latest_versions[asked.table_id])
        response = answer.commits[asked.table_id]
        if response.commit.file_name not in ("", found.file_name):
            # Another file with the same transaction id was committed before.
            return CommitConflict(response.latest_version)
        return response

    def commit_staged_group(
        self, txn_id: str, asked: Sequence[StagedCommit]
    ) -> TransactionResponse | TransactionConflict:
        """Commit the files of a group staged by their client. See `StagedCommitOwner.commit_staged_group`."""
        found = {
            each.table_id: staged_by_client(self._store_of(each.table_id), self._kept_of(each.table_id), each)
            for each in asked
        }
        request = staged_group(txn_id, asked, found)
        attempt = replace(self.attempt(request), staged={table_id: each.file for table_id, each in found.items()})
        self.require_allowed(request)
        answer = self._committed(attempt)
        if isinstance(answer, TransactionConflict):
            return answer
        latest = {table_id: each.latest_version for table_id, each in answer.commits.items()}
        if any(each.commit.file_name not in ("", found[t].file_name) for t, each in answer.commits.items()):
            # Other files with the same transaction id were committed before.
            return TransactionConflict(latest)
        return answer

    def commit_transaction(self, request: TransactionRequest) -> TransactionResponse | TransactionConflict:
        """Commit a transaction. See `CommitOwner.commit_transaction`."""
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
        """Commit at the single timestamp of the request's range, voted for by this owner. At most once.

        Raises the errors of `commit_transaction`. After an error, the caller must call again.
        """
        answer = self._committed(replace(self.attempt(request), is_decided=True))
        if isinstance(answer, TransactionConflict):
            raise CommitFailed(f"transaction {request.txn_id} was prepared, but its tables changed")
        return answer

    def require_allowed(self, request: TransactionRequest) -> None:
        """Check the request: valid commits without a change of ownership.

        The check comes before a vote, because a vote must be fulfilled.
        """
        for write in request.writes:
            require_valid(write.actions, in_group=len(request.writes) > 1)
            require_kept(write.actions, self._owner_id, write.table_id, self._kept_of)
        require_whole_group(request.writes, request.txn_id, self._owner_id, self._kept_of)

    def vote(
        self, connection: Connection, request: TransactionRequest
    ) -> tuple[TimestampRange | TransactionConflict | SlackwaterError, int]:
        """Return the range of commit timestamps, valid while its locks last, and the owner's time."""
        return self._allocation.vote(connection, self.attempt(request))

    def wake(self) -> None:
        """Wake waiting commits after a change."""
        self._changes.notify()

    def end(self, txn_id: str) -> None:
        """Discard a transaction. See `CommitOwner.end`."""
        # If this fails, the leases expire.
        with suppress(CommitOwnerUnavailable):
            self._database.write(lambda c: _forget(c, txn_id), durable=False)
        self._changes.notify()

    def single_table_attempt(self, request: CommitRequest) -> Attempt:
        """Return the attempt for a commit to one table. Raises InvalidArgument for invalid actions."""
        lease_ms = self._lease_ms + _staging_ms(len(request.actions))
        return Attempt.for_single_table(request, self._clock.new_id(), self._clock.holder, lease_ms)

    def attempt(self, request: TransactionRequest) -> Attempt:
        """Return the attempt for a transaction. Raises InvalidArgument for invalid actions."""
        lease_ms = self._lease_ms + _staging_ms(sum(len(write.actions) for write in request.writes))
        return Attempt.of(request, self._clock.new_id(), self._clock.holder, lease_ms)

    def allocate(self, attempt: Attempt) -> Outcome:
        """Run the first database transaction: versions and timestamp."""
        return self._allocate(attempt)

    def stage(self, files: StagedContent) -> None:
        """Write the files. Raises StorageError. After an error, no record will refer to the written files."""
        staging.put(self._store_of, self._fences, files)

    def ratify(self, staged: StagedCommits) -> ratification.Outcome:
        """Run the second database transaction: the commit point."""
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
                answer = self._carry_out(attempt, outcome)
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
            attempt = attempt.again(self._clock.new_id())

    def _carry_out(self, attempt: Attempt, given: VersionsAllocated) -> TransactionResponse | None:
        """Stage and ratify, and let waiting commits continue afterwards. See `_stage_and_ratify`."""
        try:
            return self._stage_and_ratify(attempt, given)
        finally:
            self._unstaged.remove(attempt.file_id)
            self._unratified.remove(attempt.file_id)

    def _stage_and_ratify(self, attempt: Attempt, given: VersionsAllocated) -> TransactionResponse | None:
        """Return the response, or None for a retry if a version was released. The attempt then has no effect."""
        files = content_of(attempt, given)
        staged = files.staged
        try:
            self.stage(files)
            staging.require_recent(self._store_of, staged, self._clock.now_ms())
        except StorageError as error:
            self._give_back(staged)
            # No record refers to the files, and a recovery must not find them.
            staging.delete(self._store_of, staged)
            raise CommitFailed(f"{staged.who} was not written, and nothing was committed: {error}") from error
        except (CommitUnknown, InvalidArgument):
            self._give_back(staged)
            raise
        self._unstaged.remove(attempt.file_id)
        outcome = self._settled(staged)
        if isinstance(outcome, TransactionResponse):
            return files.answer(outcome)
        if outcome.is_purged and log_lookup.is_in_log(self._store_of, staged):
            return files.answer(ratification.response_for(staged, {}))
        staging.delete(self._store_of, staged)
        return None

    def _settled(self, staged: StagedCommits) -> TransactionResponse | VersionsReleased:
        is_recorded = False
        first = staged.files[0]
        try:
            with self._awaited.awaiting(first.table_id, first.file_name, staged) as versions:
                outcome = self.ratify(staged)
                is_recorded = True
                waits = self._waits(staged.table_ids)
                while isinstance(outcome, AwaitingEarlierVersions):
                    waits.wait(outcome.num_before, lambda: versions() is not None, outcome.is_behind_own)
                    outcome = self._outcome_of(staged, versions())
        except CommitOwnerUnavailable as error:
            if error.changed_nothing and not is_recorded:
                # The versions belong to this attempt, and no other process ratifies them.
                staging.delete(self._store_of, staged)
                raise CommitFailed(f"{staged.who} was staged, but not committed: {error}") from error
            raise CommitUnknown(
                f"{staged.who} is staged, but its outcome is unknown, because the commit owner's database does not "
                f"respond: {error}"
            ) from error
        except BaseException:
            # Release the versions now, so that other writers do not wait for the lease to expire.
            self._give_back(staged)
            raise
        return outcome

    def _outcome_of(self, staged: StagedCommits, versions: Mapping[str, int] | None) -> ratification.Outcome:
        """Return the outcome of waiting commits: ratified if `versions` of their tables were reported."""
        if versions is not None:
            return ratification.response_for(staged, versions)
        outcome = self._database.read(lambda c: ratification.outcome_of(c, staged))
        if isinstance(outcome, AwaitingEarlierVersions) and not outcome.num_before:
            # The ratification of the earlier versions did not include all tables of this transaction.
            return self.ratify(staged)
        return outcome

    def _waits(self, table_ids: Iterable[str]) -> WaitLoop:
        """Return a wait loop for other commits in these tables."""
        in_order = sorted(table_ids)

        def doubt() -> None:
            for table_id in in_order:
                resolve_expired(self._database, self._clock, table_id)

        return WaitLoop(self._changes, doubt)

    def _allocate_batch(self, attempts: Sequence[Attempt]) -> list[Outcome]:
        # Not durable for writes, because a lost allocation was never visible. A read-only transaction ends here, so it
        # is durable.
        durable = any(not attempt.request.writes for attempt in attempts)
        runs = itertools.count()

        def run(connection: Connection) -> list[Outcome]:
            # An earlier run may have committed with its result lost.
            return self._allocation.allocate(connection, attempts, next(runs) > 0)

        try:
            outcomes = self._database.write(run, durable)
        except IntegrityError:
            # A repeated request came without `is_replay`.
            outcomes = self._database.write(run, durable)
        given = zip(attempts, outcomes, strict=True)
        file_ids = [attempt.file_id for attempt, outcome in given if isinstance(outcome, VersionsAllocated)]
        self._unstaged.add(file_ids)
        self._unratified.add(file_ids)
        return outcomes

    def _ratify_batch(self, staged: Sequence[StagedCommits]) -> Sequence[ratification.Outcome]:
        awaited = self._awaited.requests
        done = self._database.write(lambda c: ratification.ratify(c, staged, awaited))
        self._awaited.report(done.files, done.versions)
        self._changes.notify()
        return done.outcomes

    def _give_back(self, staged: StagedCommits) -> None:
        # If this fails, the lease expires.
        with suppress(CommitOwnerUnavailable):
            self._database.write(lambda c: ratification.release_versions(c, staged), durable=False)
        self._changes.notify()


def _require_patience(outcome: Outcome, waited_s: float, who: str) -> None:
    """Return if `who` may wait longer after `outcome`.

    Raises LockTimeout if the wait for a lock was too long, CommitOwnerBusy if the wait for commits in staging was too
    long.
    """
    if isinstance(outcome, WaitForLock) and waited_s > LOCKED_S:
        raise LockTimeout(
            f"{who}: the commit waited {LOCKED_S:.0f} s: {outcome.by.description}. Nothing was committed. Retry "
            "when that transaction has ended"
        )
    if waited_s > _PATIENCE_S:
        raise CommitOwnerBusy(
            f"{who}: other commits were staging earlier versions for {_PATIENCE_S:.0f} seconds. Nothing was "
            "committed. Retry"
        )


def _staging_ms(num_actions: int) -> int:
    """Return the additional lease time for staging `num_actions`. Most actions are files with statistics."""
    return num_actions * _BYTES_PER_ACTION // _BYTES_PER_MS


def _forget(connection: Connection, txn_id: str) -> None:
    if connection.execute(_PREPARED, {"of_txn": txn_id}).first() is not None:
        # A prepared transaction waits for the decision.
        return
    PriorityReservation.release(connection, txn_id)
    lock_queue.release(connection, txn_id)
    timestamp_reservations.release(connection, txn_id)
    allocation.forget_open(connection, txn_id)
