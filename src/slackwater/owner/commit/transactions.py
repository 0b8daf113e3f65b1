"""Transactions over many tables from request to answer: allocate, stage, ratify, many at once.

Source: docs/commit-owner.md, docs/transactions.md; paper §3.1.4, §3.2.2, §4.2.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace

import sqlalchemy as sa
from sqlalchemy import Connection

from slackwater.errors import (
    CommitFailed,
    CommitOwnerUnavailable,
    CommitUnknown,
    InvalidArgument,
    SlackwaterError,
    StorageError,
)
from slackwater.owner.api.commits import CommitResponse
from slackwater.owner.api.granules import written_granules
from slackwater.owner.api.timestamp_range import TimestampRange
from slackwater.owner.api.transactions import TableWrite, TransactionConflict, TransactionRequest, TransactionResponse
from slackwater.owner.commit import joint_allocation, joint_ratification
from slackwater.owner.commit.allocation import Purged
from slackwater.owner.commit.commit_rules import require_kept, require_valid
from slackwater.owner.commit.commits import (
    LEASE_MS,
    MAX_BACKLOG,
    allocated,
    require_patience,
    settle_abandoned,
    staging_ms,
)
from slackwater.owner.commit.joint_allocation import JointAllocation
from slackwater.owner.commit.joint_attempts import JointAllocated, JointAttempt, Outcome, TooEarly, tables_of
from slackwater.owner.commit.joint_ratification import JointStaged
from slackwater.owner.commit.kept_settings import kept_of
from slackwater.owner.commit.ratification import Freed, Pending, Staged
from slackwater.owner.database.database import Database
from slackwater.owner.database.schema import prepared
from slackwater.owner.locks import locks
from slackwater.owner.recovery.fences import Fences
from slackwater.owner.state import promises
from slackwater.owner.state.batches import Batches
from slackwater.owner.state.clock import OwnerClock
from slackwater.owner.state.commit_content import content, facts_of
from slackwater.owner.state.commit_files import backfilled_commit, stage, transaction_at
from slackwater.owner.state.heads import Allocated
from slackwater.owner.state.waiting import Changes, Waits
from slackwater.protocol.actions.file_names import staged_path
from slackwater.storage.store import ObjectStore

_PREPARED = sa.select(prepared.c.txn_id).where(prepared.c.txn_id == sa.bindparam("of_txn"))
_MOST_PUTS = 16


@dataclass(frozen=True, slots=True)
class JointContent:
    """The files of a transaction's commits, by table, under the names that they were given."""

    given: JointAllocated
    data: dict[str, bytes]

    def staged(self, txn_id: str) -> JointStaged:
        """The transaction, once all files are in place."""
        parts = [
            Staged(table_id, part.version, part.file_name, part.timestamp_ms, len(self.data[table_id]))
            for table_id, part in sorted(self.given.parts.items())
        ]
        return JointStaged(txn_id, parts)


class Transactions:
    """Makes requests count; called from many threads, it does the work of all who wait together."""

    def __init__(
        self,
        database: Database,
        store_of: Callable[[str], ObjectStore],
        clock: OwnerClock,
        max_backlog: int = MAX_BACKLOG,
        lease_ms: int = LEASE_MS,
        changes: Changes | None = None,
        fences: Fences | None = None,
        owner_id: str = "",
    ) -> None:
        self._database = database
        self._store_of = store_of
        self._clock = clock
        self._lease_ms = lease_ms
        self._fences = fences
        self._owner_id = owner_id
        self._kept_of = functools.partial(kept_of, database)
        self._allocation = JointAllocation(clock, max_backlog)
        self._allocate: Batches[JointAttempt, Outcome] = Batches(self._allocate_batch)
        self._ratify: Batches[JointStaged, joint_ratification.Outcome] = Batches(self._ratify_batch)
        self._changes = changes or Changes()

    def commit(self, request: TransactionRequest) -> TransactionResponse | TransactionConflict:
        """As `CommitOwner.commit_transaction`."""
        try:
            self.require_allowed(request)
            answer = self._committed(request)
        except CommitUnknown:
            raise
        except BaseException:
            self.end(request.txn_id)
            raise
        if request.has_locks and not request.writes:
            self._changes.notify()
        return answer

    def require_allowed(self, request: TransactionRequest) -> None:
        """Let pass commits that are valid, and leave their tables the owner's: what is promised is carried out."""
        for write in request.writes:
            require_valid(write.actions)
            require_kept(write.actions, self._owner_id, write.table_id, self._kept_of)

    def commit_decided(self, request: TransactionRequest) -> TransactionResponse:
        """Commit at the one timestamp of the request's range, which this owner promised; at most once.

        Raises as `commit`: then it is to be called again.
        """
        answer = self._committed(request, is_decided=True)
        if isinstance(answer, TransactionConflict):
            raise CommitFailed(f"transaction {request.txn_id} was prepared, and its tables changed nevertheless")
        return answer

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

    def _committed(
        self, request: TransactionRequest, is_decided: bool = False
    ) -> TransactionResponse | TransactionConflict:
        attempt = replace(self.attempt(request), is_decided=is_decided)
        if self._fences is not None:
            for write in request.writes:
                self._fences.require_none(self._store_of(write.table_id))
        started, waits = time.monotonic(), self._waits(tables_of(request))
        while True:
            outcome = self.allocate(attempt)
            if isinstance(outcome, SlackwaterError):
                raise outcome
            if isinstance(outcome, TransactionResponse):
                return self._with_purged(request, outcome)
            if isinstance(outcome, TransactionConflict):
                return outcome
            if isinstance(outcome, JointAllocated):
                answer = self._stage_and_ratify(request, outcome)
                if answer is not None:
                    return answer
            elif isinstance(outcome, Purged):
                told = self._told_by_log(request, outcome, attempt.searched_version)
                if told is not None:
                    return told
                attempt = replace(attempt, searched_version=outcome.version)
            elif isinstance(outcome, TooEarly):
                self._clock.sleep(outcome.wait_ms / 1000)
                attempt = replace(attempt, has_waited=True)
            else:
                require_patience(outcome, time.monotonic() - started, f"transaction {request.txn_id}")
                waits.wait()
            attempt = replace(attempt, file_id=self._clock.new_id())

    def attempt(self, request: TransactionRequest) -> JointAttempt:
        """What is asked of the allocation. Raises InvalidArgument for actions that are no commits of it."""
        written = [write.table_id for write in request.writes]
        if len(set(written)) != len(written):
            raise InvalidArgument("a transaction has one commit for each table that it writes, found two for one table")
        return JointAttempt(
            request,
            {write.table_id: facts_of(write.actions, request.txn_id) for write in request.writes},
            {write.table_id: written_granules(write.actions) for write in request.writes},
            self._clock.new_id(),
            self._clock.holder,
            self._lease_of(request),
        )

    def allocate(self, attempt: JointAttempt) -> Outcome:
        """The first database transaction: versions, and the timestamp."""
        return self._allocate(attempt)

    def content(self, request: TransactionRequest, given: JointAllocated) -> JointContent:
        """The files that are to be put."""
        table_ids = sorted(write.table_id for write in request.writes)
        return JointContent(
            given, {w.table_id: _content(w, given.parts[w.table_id], table_ids) for w in request.writes}
        )

    def stage(self, files: JointContent) -> None:
        """Put the files. Raises StorageError; whatever is put then, no record will ever name it."""
        parts = list(files.given.parts.items())
        stores = [self._store_of(table_id) for table_id, _ in parts]

        def put(index: int) -> None:
            table_id, part = parts[index]
            stage(stores[index], part.file_name, files.data[table_id])

        if len(parts) == 1 or all(store.local_root is not None for store in stores):
            for index in range(len(parts)):
                put(index)
            return
        with ThreadPoolExecutor(min(len(parts), _MOST_PUTS)) as pool:
            list(pool.map(put, range(len(parts))))

    def ratify(self, staged: JointStaged) -> joint_ratification.Outcome:
        """The second database transaction: the commit point."""
        return self._ratify(staged)

    def _stage_and_ratify(self, request: TransactionRequest, given: JointAllocated) -> TransactionResponse | None:
        """The answer, None where a version was taken away: then nothing of it counts, and it is tried again."""
        files = self.content(request, given)
        staged = files.staged(request.txn_id)
        try:
            self.stage(files)
            self._require_no_fence(staged)
        except StorageError as error:
            self._give_back(staged)
            # No record will ever name what is there; a recovery must not find it.
            self._delete(staged)
            raise CommitFailed(
                f"the commits of transaction {request.txn_id} were not all written, nothing was committed: {error}"
            ) from error
        except CommitUnknown:
            self._give_back(staged)
            raise
        outcome = self._settled(staged)
        if isinstance(outcome, TransactionResponse):
            return _with_data(outcome, files)
        if outcome.is_purged and self._counts_in_log(staged):
            return _with_data(joint_ratification.answer_of(staged), files)
        self._delete(staged)
        return None

    def _require_no_fence(self, staged: JointStaged) -> None:
        if self._fences is not None:
            for part in staged.parts:
                self._fences.require_none_after_staging(self._store_of(part.table_id), part.file_name)

    def _delete(self, staged: JointStaged) -> None:
        for part in staged.parts:
            with suppress(StorageError):
                self._store_of(part.table_id).delete([staged_path(part.file_name)])

    def _counts_in_log(self, staged: JointStaged) -> bool:
        """Whether one of its commits, of which no row tells any more, is in the log: then all of them count."""
        try:
            return any(
                transaction_at(self._store_of(part.table_id), part.version) == staged.txn_id for part in staged.parts
            )
        except StorageError as error:
            raise CommitUnknown(
                f"whether transaction {staged.txn_id} counts only the logs of its tables can say, which could not be "
                f"read: {error}; ask again"
            ) from error

    def _settled(self, staged: JointStaged) -> TransactionResponse | Freed:
        is_recorded = False
        try:
            outcome = self.ratify(staged)
            is_recorded = True
            waits = self._waits(part.table_id for part in staged.parts)
            while isinstance(outcome, Pending):
                waits.wait(outcome.num_before)
                if self._database.read(lambda c: joint_ratification.can_follow(c, staged)):
                    outcome = self.ratify(staged)
                elif not self._database.read(lambda c: joint_ratification.is_allocated(c, staged)):
                    outcome = Freed()
        except CommitOwnerUnavailable as error:
            if error.changed_nothing and not is_recorded:
                # The versions are this attempt's alone, and nobody else lets them count.
                self._delete(staged)
                raise CommitFailed(f"transaction {staged.txn_id} was staged and does not count: {error}") from error
            raise CommitUnknown(
                f"transaction {staged.txn_id} is staged, and whether it counts only the commit owner's database can "
                f"say, which does not answer: {error}"
            ) from error
        except BaseException:
            # Of whatever broke off here others must not wait for the end of the lease.
            self._give_back(staged)
            raise
        return outcome

    def _waits(self, table_ids: Iterable[str]) -> Waits:
        """Waiting for others in these tables."""
        in_order = sorted(table_ids)

        def doubt() -> None:
            for table_id in in_order:
                settle_abandoned(self._database, self._clock, table_id)

        return Waits(self._changes, doubt)

    def _told_by_log(self, request: TransactionRequest, purged: Purged, searched: int) -> TransactionResponse | None:
        """The first result of a request that was carried out before, where no row tells of it any more."""
        first = request.writes[0]
        try:
            timestamp_ms = None
            commits: dict[str, CommitResponse] = {}
            for write in request.writes:
                # Only of the first table it is known how far its log is to be searched.
                end = purged.version if write is first else None
                start = max(write.version, searched + 1) if write is first else write.version
                found = self._found_in_log(request.txn_id, write, start, end)
                if found is None:
                    break
                commits[write.table_id], timestamp_ms = found, found.commit.timestamp_ms
        except StorageError as error:
            raise CommitUnknown(
                f"whether transaction {request.txn_id} was carried out before only the log tells, which could not be "
                f"read: {error}; ask again"
            ) from error
        if timestamp_ms is None or len(commits) < len(request.writes):
            return None
        return TransactionResponse(timestamp_ms, commits)

    def _found_in_log(self, txn_id: str, write: TableWrite, start: int, end: int | None) -> CommitResponse | None:
        """The commit among the versions from `start` to `end`, None: to the last in the log."""
        store = self._store_of(write.table_id)
        for version in itertools.count(start) if end is None else range(start, max(end, write.version) + 1):
            found = transaction_at(store, version)
            if found == txn_id:
                return CommitResponse(backfilled_commit(store, version), version)
            if found is None and end is None:
                return None
        return None

    def _with_purged(self, request: TransactionRequest, response: TransactionResponse) -> TransactionResponse:
        """The answer with those of its commits of which only the log tells any more."""
        commits = dict(response.commits)
        try:
            for write in request.writes:
                if write.table_id not in commits:
                    found = self._found_in_log(request.txn_id, write, write.version, None)
                    if found is not None:
                        commits[write.table_id] = found
        except StorageError as error:
            raise CommitUnknown(
                f"transaction {request.txn_id} counts, and as which versions only the logs of its tables tell, which "
                f"could not be read: {error}; ask again"
            ) from error
        return replace(response, commits=commits)

    def _allocate_batch(self, attempts: Sequence[JointAttempt]) -> list[Outcome]:
        # A power cut that undoes it undoes nothing that anybody has seen; unless it is a read, which ends here.
        durable = any(not attempt.request.writes for attempt in attempts)
        return allocated(self._database, lambda c, again: self._allocation.allocate(c, attempts, again), durable)

    def _ratify_batch(self, staged: Sequence[JointStaged]) -> list[joint_ratification.Outcome]:
        outcomes = self._database.write(lambda c: joint_ratification.ratify(c, staged))
        self._changes.notify()
        return outcomes

    def _give_back(self, staged: JointStaged) -> None:
        # Where this fails the lease ends it.
        with suppress(CommitOwnerUnavailable):
            self._database.write(lambda c: joint_ratification.give_back(c, staged), durable=False)
        self._changes.notify()

    def _lease_of(self, request: TransactionRequest) -> int:
        num_actions = sum(len(write.actions) for write in request.writes)
        return self._lease_ms + staging_ms(num_actions)


def _forget(connection: Connection, txn_id: str) -> None:
    if connection.execute(_PREPARED, {"of_txn": txn_id}).first() is not None:
        # It promised to wait for a decision.
        return
    locks.release(connection, txn_id)
    promises.release(connection, txn_id)
    joint_allocation.forget_open(connection, txn_id)


def _content(write: TableWrite, part: Allocated, table_ids: Sequence[str]) -> bytes:
    moved_to = None if part.shift is None else part.version
    return content(write.actions, part.version, part.timestamp_ms, part.shift, moved_to, table_ids)


def _with_data(response: TransactionResponse, files: JointContent) -> TransactionResponse:
    commits = {
        table_id: replace(answer, commit=replace(answer.commit, data=files.data[table_id]))
        for table_id, answer in response.commits.items()
    }
    return replace(response, commits=commits)
