"""Transactions over many tables from request to answer: allocate, stage, ratify, many at once.

Source: design §5, §6; paper §3.1.4, §3.2.2, §4.2.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace

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
from slackwater.owner import joint_allocation, joint_ratification, locks, promises
from slackwater.owner.allocation import Blocked, InFlight, Purged
from slackwater.owner.api import Commit, CommitResponse
from slackwater.owner.batches import Batches
from slackwater.owner.clock import OwnerClock
from slackwater.owner.commit_content import content, facts_of, timestamp_of
from slackwater.owner.commit_files import backfilled_path, stage, staged_path, transaction_at
from slackwater.owner.commits import LEASE_MS, LOCKED_S, MAX_BACKLOG, settle_abandoned
from slackwater.owner.database import Database
from slackwater.owner.database_schema import prepared
from slackwater.owner.granules import written_granules
from slackwater.owner.heads import Allocated
from slackwater.owner.joint_allocation import JointAllocation
from slackwater.owner.joint_attempts import JointAllocated, JointAttempt, Outcome, TooEarly
from slackwater.owner.joint_ratification import JointStaged
from slackwater.owner.ratification import Freed, Pending, Staged
from slackwater.owner.timestamp_range import TimestampRange
from slackwater.owner.transaction_api import (
    TableWrite,
    TransactionConflict,
    TransactionRequest,
    TransactionResponse,
)
from slackwater.owner.waiting import Changes
from slackwater.storage.store import ObjectStore

_PREPARED = sa.select(prepared.c.txn_id).where(prepared.c.txn_id == sa.bindparam("of_txn"))
_LEASE_BYTES_PER_MS = 1000
_BYTES_PER_ACTION = 1000
_FIRST_WAIT_S = 0.001
# Whether those who come first are dead is asked when they have been waited for so often.
_DOUBT_EVERY = 10
_PATIENCE_S = 120.0
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
    ) -> None:
        self._database = database
        self._store_of = store_of
        self._clock = clock
        self._lease_ms = lease_ms
        self._allocation = JointAllocation(clock.now_ms, max_backlog)
        self._allocate: Batches[JointAttempt, Outcome] = Batches(self._allocate_batch)
        self._ratify: Batches[JointStaged, joint_ratification.Outcome] = Batches(self._ratify_batch)
        self._changes = changes or Changes()

    def commit(self, request: TransactionRequest) -> TransactionResponse | TransactionConflict:
        """As `CommitOwner.commit_transaction`."""
        try:
            answer = self._committed(request)
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
        started, waits = time.monotonic(), 0
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
                waits += 1
                self._wait(request, outcome, time.monotonic() - started, waits)
            attempt = replace(attempt, file_id=self._clock.new_id(), until_ms=self._lease_end(request))

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
            self._lease_end(request),
        )

    def allocate(self, attempt: JointAttempt) -> Outcome:
        """The first database transaction: versions, and the timestamp."""
        return self._allocate(attempt)

    def content(self, request: TransactionRequest, given: JointAllocated) -> JointContent:
        """The files that are to be put."""
        return JointContent(given, {w.table_id: _content(w, given.parts[w.table_id]) for w in request.writes})

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
        except StorageError as error:
            self._give_back(staged)
            raise CommitFailed(
                f"the commits of transaction {request.txn_id} were not all written, nothing was committed: {error}"
            ) from error
        outcome = self._settled(staged)
        if isinstance(outcome, TransactionResponse):
            return _with_data(outcome, files)
        if outcome.is_purged and self._counts_in_log(staged):
            return _with_data(joint_ratification.answer_of(staged), files)
        for part in staged.parts:
            with suppress(StorageError):
                self._store_of(part.table_id).delete([staged_path(part.file_name)])
        return None

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
        try:
            outcome = self.ratify(staged)
            waits = 0
            while isinstance(outcome, Pending):
                waits += 1
                if waits % _DOUBT_EVERY == 0:
                    for part in staged.parts:
                        settle_abandoned(self._database, self._clock, part.table_id)
                self._changes.wait(_FIRST_WAIT_S * (outcome.num_before + waits))
                if self._database.read(lambda c: joint_ratification.can_follow(c, staged)):
                    outcome = self.ratify(staged)
                elif not self._database.read(lambda c: joint_ratification.is_allocated(c, staged)):
                    outcome = Freed()
        except CommitOwnerUnavailable as error:
            raise CommitUnknown(
                f"transaction {staged.txn_id} is staged, and whether it counts only the commit owner's database can "
                f"say, which does not answer: {error}"
            ) from error
        except BaseException:
            # Of whatever broke off here others must not wait for the end of the lease.
            self._give_back(staged)
            raise
        return outcome

    def _wait(self, request: TransactionRequest, outcome: InFlight | Blocked, waited_s: float, waits: int) -> None:
        if waited_s > (LOCKED_S if isinstance(outcome, Blocked) else _PATIENCE_S):
            if isinstance(outcome, Blocked):
                raise LockTimeout(
                    f"transaction {request.txn_id} waited {LOCKED_S:.0f} s to commit: {outcome.by.description}; "
                    "nothing was committed: repeat it when that has ended"
                )
            raise CommitOwnerBusy(
                f"transaction {request.txn_id}: versions before its own were being staged for {_PATIENCE_S:.0f} "
                "seconds; nothing was committed: try again"
            )
        if waits % _DOUBT_EVERY == 0:
            for table_id in sorted({w.table_id for w in request.writes} | {r.table_id for r in request.reads}):
                settle_abandoned(self._database, self._clock, table_id)
        self._changes.wait(_FIRST_WAIT_S * waits)

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
                data = store.read(backfilled_path(version))
                # How the staged file was called nobody knows any more.
                return CommitResponse(Commit(version, "", timestamp_of(data), len(data), data), version)
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
        runs = itertools.count()

        def allocate(connection: Connection) -> list[Outcome]:
            # A run whose answer was lost may have counted.
            return self._allocation.allocate(connection, attempts, is_rerun=next(runs) > 0)

        # A power cut that undoes it undoes nothing that anybody has seen; unless it is a read, which ends here.
        durable = any(not attempt.request.writes for attempt in attempts)
        try:
            return self._database.write(allocate, durable)
        except IntegrityError:
            # A request comes again without saying so.
            return self._database.write(allocate, durable)

    def _ratify_batch(self, staged: Sequence[JointStaged]) -> list[joint_ratification.Outcome]:
        outcomes = self._database.write(lambda c: joint_ratification.ratify(c, staged))
        self._changes.notify()
        return outcomes

    def _give_back(self, staged: JointStaged) -> None:
        # Where this fails the lease ends it.
        with suppress(CommitOwnerUnavailable):
            self._database.write(lambda c: joint_ratification.give_back(c, staged), durable=False)
        self._changes.notify()

    def _lease_end(self, request: TransactionRequest) -> int:
        num_actions = sum(len(write.actions) for write in request.writes)
        return self._clock.now_ms() + self._lease_ms + num_actions * _BYTES_PER_ACTION // _LEASE_BYTES_PER_MS


def _forget(connection: Connection, txn_id: str) -> None:
    if connection.execute(_PREPARED, {"of_txn": txn_id}).first() is not None:
        # It promised to wait for a decision.
        return
    locks.release(connection, txn_id)
    promises.release(connection, txn_id)
    joint_allocation.forget_open(connection, txn_id)


def _content(write: TableWrite, part: Allocated) -> bytes:
    moved_to = None if part.shift is None else part.version
    return content(write.actions, part.version, part.timestamp_ms, part.shift, moved_to)


def _with_data(response: TransactionResponse, files: JointContent) -> TransactionResponse:
    commits = {
        table_id: replace(answer, commit=replace(answer.commit, data=files.data[table_id]))
        for table_id, answer in response.commits.items()
    }
    return replace(response, commits=commits)
