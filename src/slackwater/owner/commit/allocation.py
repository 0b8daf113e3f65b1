"""Allocation of versions and timestamps: the first of two short database transactions of a commit.

A transaction gets versions of several tables together, and one timestamp. The timestamp is the latest possible in its
range. It is after everything read or overwritten, and after every read of the written items. A commit to one table is
such a transaction. Source: docs/commit-owner.md "What happens in a commit", docs/transactions.md; managed-commits.md
"Commit Protocol"; paper §3.1.2, §3.2.2, §4.1.1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row
from sqlalchemy.dialects import postgresql, sqlite

from slackwater.errors import InvalidArgument, LockTimeout, SlackwaterError, TableNotFound, TimestampConflict
from slackwater.owner.api.granules import locked, written_granules
from slackwater.owner.api.timestamp_range import TimestampRange
from slackwater.owner.api.transactions import (
    LONGEST_AHEAD_MS,
    TableRead,
    TransactionConflict,
    TransactionResponse,
)
from slackwater.owner.commit.allocation_outcomes import (
    Attempt,
    Outcome,
    RetryAfterStaging,
    VersionsAllocated,
    WaitForLock,
    WaitUntilTimestamp,
    read_items,
    tables_of,
    written_items,
)
from slackwater.owner.commit.idempotency import earlier_results, purged
from slackwater.owner.database.schema import commits, transactions
from slackwater.owner.database.schema import locks as lock_rows
from slackwater.owner.database.schema import promises as promise_rows
from slackwater.owner.locks import lock_queue, timestamp_reservations
from slackwater.owner.locks.lock_queue import BlockingLock
from slackwater.owner.locks.timestamp_reservations import TimestampReservation, active_reservations
from slackwater.owner.state.clock import OwnerClock, is_dead
from slackwater.owner.state.log_head import (
    ALLOCATED,
    OPEN,
    AllocationClaim,
    Head,
    PriorityReservation,
    allocation_error,
    locked_tables,
    rejection_reason,
)
from slackwater.owner.state.shared_clock import SharedTime, begin_allocation, raise_last

# Built once, because every commit runs these statements.
_INSERT_COMMIT = sa.insert(commits)
_OF_TABLES: sa.BindParameter[Any] = sa.bindparam("table_ids", expanding=True)
_KEPT_FROM_OTHERS = sa.union_all(
    # Each transaction with locks has a row for the whole table.
    sa.select(lock_rows.c.table_id, sa.literal_column("'locked'").label("how"))
    .where(lock_rows.c.table_id.in_(_OF_TABLES), lock_rows.c.granule == "")
    .distinct(),
    sa.select(promise_rows.c.table_id, sa.literal_column("'promised'")).where(promise_rows.c.table_id.in_(_OF_TABLES)),
)
_NEXT_COMMIT = sa.select(commits.c.timestamp_ms).where(
    commits.c.table_id == sa.bindparam("of_table"), commits.c.version == sa.bindparam("at_version")
)
_FORGET_OPEN = sa.delete(transactions).where(
    transactions.c.txn_id == sa.bindparam("of_txn"), transactions.c.state == OPEN
)
_ROW = ("state", "timestamp_ms", "low_ms", "high_ms", "pending", "holder", "until_ms")


@dataclass(frozen=True)
class Allocation:
    """The allocator of versions. `max_backlog` limits the commits of a table waiting for their backfill."""

    clock: OwnerClock
    max_backlog: int

    def allocate(self, connection: Connection, attempts: Sequence[Attempt], is_rerun: bool = False) -> list[Outcome]:
        """Return an outcome for each of `attempts`, in order. Versions of one table are allocated in this order.

        Looks for earlier results if a request is a replay, or if `is_rerun`. Raises IntegrityError if a commit has a
        version already and earlier results were not searched.
        """
        begin_allocation(connection)
        rows = locked_tables(connection, {t for attempt in attempts for t in tables_of(attempt.request)})
        items = [item for attempt in attempts for item in written_items(attempt)]
        items += [item for attempt in attempts for read in attempt.request.reads for item in read_items(read)]
        time = SharedTime.of(connection, self.clock, items)
        work = _Work(self, connection, rows, time)
        earlier: Mapping[str, Outcome] = {}
        if is_rerun or any(attempt.request.is_replay for attempt in attempts):
            earlier = earlier_results(connection, rows, attempts)
        # Equal requests may be in one batch: the second waits for the first.
        counts: Counter[str] = Counter()
        outcomes = []
        for attempt in attempts:
            txn_id = attempt.request.txn_id
            counts[txn_id] += 1
            known = RetryAfterStaging() if counts[txn_id] > 1 else earlier.get(txn_id) or purged(rows, attempt)
            outcomes.append(known or work.outcome(attempt))
        work.save()
        return outcomes

    def vote(
        self, connection: Connection, attempt: Attempt
    ) -> tuple[TimestampRange | TransactionConflict | SlackwaterError, int]:
        """Return the range of commit timestamps while nothing changes, and the owner's time."""
        begin_allocation(connection)
        rows = locked_tables(connection, tables_of(attempt.request))
        time = SharedTime.of(connection, self.clock, written_items(attempt))
        return _Work(self, connection, rows, time).vote(attempt), time.now_ms


@dataclass
class _Work:
    """A batch of attempts. Each attempt changes the state of its tables for the next attempt."""

    settings: Allocation
    connection: Connection
    rows: Mapping[str, Row[Any]]
    time: SharedTime
    new_commits: list[dict[str, Any]] = field(default_factory=list)
    new_transactions: list[dict[str, Any]] = field(default_factory=list)
    read_at_ms: int = 0

    def __post_init__(self) -> None:
        self.heads = {table_id: Head.of(row) for table_id, row in self.rows.items()}
        self.turns = {table_id: PriorityReservation.of(row) for table_id, row in self.rows.items()}
        # One query for both, because locks and reservations are rare.
        found = self.connection.execute(_KEPT_FROM_OTHERS, {"table_ids": sorted(self.rows)}).all()
        self.with_locks = {row.table_id for row in found if row.how == "locked"}
        promised = {row.table_id for row in found if row.how == "promised"}
        self.promises: Sequence[TimestampReservation] = ()
        if promised:
            self.promises = active_reservations(self.connection, promised, self.time.now_ms, is_dead)

    def outcome(self, attempt: Attempt) -> Outcome:
        refusal = self._refusal(attempt)
        if refusal is not None:
            return refusal
        if attempt.is_decided:
            # The locks prevented every change since the vote.
            moved = [w.table_id for w in attempt.request.writes if w.version != self.heads[w.table_id].version + 1]
            return RetryAfterStaging() if moved else self._given(attempt, attempt.request.range.high_ms)
        if attempt.request.has_locks and not self._keeps_locks(attempt):
            return LockTimeout(
                f"transaction {attempt.request.txn_id} lost its locks, because its lease expired and other "
                "transactions acquired them. Nothing was committed. Retry the transaction"
            )
        blocker = self._blocker(attempt)
        if blocker is not None:
            return WaitForLock(blocker)
        return self._behind(attempt) or self._timestamped(attempt)

    def vote(self, attempt: Attempt) -> TimestampRange | TransactionConflict | SlackwaterError:
        """Return the range of commit timestamps, valid while the locks of the transaction prevent any change."""
        refusal = self._refusal(attempt)
        if refusal is not None:
            return refusal
        outcome = self._behind(attempt) or self._bounded(attempt)
        if isinstance(outcome, RetryAfterStaging):
            return TransactionConflict({})
        if isinstance(outcome, TimestampRange) and self._among_promises(attempt, outcome)[1] is not None:
            return TransactionConflict({})
        assert isinstance(outcome, TimestampRange | TransactionConflict | SlackwaterError)  # noqa: S101  (nothing else)
        return outcome

    def save(self) -> None:
        """Write the changes of the batch."""
        connection = self.connection
        if self.new_commits:
            connection.execute(_INSERT_COMMIT, self.new_commits)
        if self.new_transactions:
            connection.execute(_UPSERT_TRANSACTION[connection.dialect.name], self.new_transactions)
        heads = {t: self.heads[t] for t, row in self.rows.items() if self.heads[t] != Head.of(row)}
        turns = {t: self.turns[t] for t, row in self.rows.items() if self.turns[t] != PriorityReservation.of(row)}
        Head.save(connection, heads)
        PriorityReservation.save(connection, turns)
        self.time.reads.save(connection)
        if self.read_at_ms:
            raise_last(connection, self.read_at_ms)
        elif turns and not self.new_commits:
            self.time.pass_on(connection)

    def _until_ms(self, attempt: Attempt) -> int:
        return self.time.now_ms + attempt.lease_ms

    def _refusal(self, attempt: Attempt) -> SlackwaterError | None:
        for table_id in tables_of(attempt.request):
            if table_id not in self.rows:
                return TableNotFound(f"the commit owner has no table {table_id}")
        for write in attempt.request.writes:
            row = self.rows[write.table_id]
            refusal = allocation_error(row, self.heads[write.table_id], write.version, self.settings.max_backlog)
            if refusal is not None:
                return refusal
        refusals = (rejection_reason(self.rows[read.table_id]) for read in attempt.request.reads)
        return next((refusal for refusal in refusals if refusal is not None), None)

    def _keeps_locks(self, attempt: Attempt) -> bool:
        return lock_queue.renew(self.connection, attempt.request.txn_id, self._until_ms(attempt), self.time.now_ms)

    def _blocker(self, attempt: Attempt) -> BlockingLock | None:
        request = attempt.request
        if self.with_locks.isdisjoint(tables_of(request)):
            return None
        granules = attempt.granules
        if attempt.is_alone:
            granules = {write.table_id: written_granules(write.actions) for write in request.writes}
        reads = [item for read in request.reads for item in locked(read.table_id, read.granules)]
        writes = [item for table_id, found in granules.items() for item in locked(table_id, found)]
        return lock_queue.conflicting_lock(self.connection, request.txn_id, reads, writes, self.time.now_ms, is_dead)

    def _behind(self, attempt: Attempt) -> Outcome | None:
        """Return the outcome if a written version or a reservation belongs to another commit, else None."""
        txn_id, now_ms = attempt.request.txn_id, self.time.now_ms
        # Two transactions with a reservation in one table each would otherwise wait for each other.
        has_turn = any(self.turns[w.table_id].is_now_of(txn_id, now_ms) for w in attempt.request.writes)
        # The other reservation's owner may wait for this transaction's reserved timestamp, so that neither could
        # continue.
        was_promised = any(promise.txn_id == txn_id for promise in self.promises)
        lost, has_to_wait = set(), False
        for write in attempt.request.writes:
            head, turn = self.heads[write.table_id], self.turns[write.table_id]
            facts = attempt.facts[write.table_id]
            is_passed = write.version <= head.version
            goes_first = was_promised or (has_turn and txn_id < str(turn.commit_id))
            if is_passed and not head.may_be_followed(write.version, facts, write.may_move):
                lost.add(write.table_id)
            elif turn.is_of_another(txn_id, now_ms) and not goes_first:
                has_to_wait = True
        if lost:
            return self._conflict(attempt, lost)
        return RetryAfterStaging() if has_to_wait else None

    def _conflict(self, attempt: Attempt, behind: Iterable[str]) -> Outcome:
        """Return the tables with newer ratified versions to check, or a retry if none is ratified yet."""
        based_on = {read.table_id: read.version for read in attempt.request.reads}
        based_on |= {write.table_id: write.version - 1 for write in attempt.request.writes}
        ratified = {t: self.rows[t].ratified_version for t in behind if self.rows[t].ratified_version > based_on[t]}
        if not ratified:
            # No loss yet: a reservation of the waiting commit would only keep other commits waiting.
            return RetryAfterStaging()
        for table_id in behind:
            self.turns[table_id].record_loss(attempt.request.txn_id, self.time.now_ms)
        return TransactionConflict(ratified)

    def _timestamped(self, attempt: Attempt) -> Outcome:
        """Choose the timestamp. Source: paper §3.2.2 (choice)."""
        request, time = attempt.request, self.time
        bounded = self._bounded(attempt)
        if not isinstance(bounded, TimestampRange):
            return bounded
        timestamp_ms, promise = self._among_promises(attempt, bounded)
        if promise is not None:
            return WaitForLock(promise.blocker())
        early_ms = timestamp_ms - time.now_ms
        if attempt.staged and early_ms > LONGEST_AHEAD_MS:
            return InvalidArgument(
                f"{attempt.who}: the in-commit timestamp of the staged commit is {early_ms} ms after the owner's time. "
                "Correct the clock of the client"
            )
        # A larger lead does not come from a reservation, but from a clock set back.
        if request.range.was_asked and 0 < early_ms <= LONGEST_AHEAD_MS and not attempt.has_waited:
            return WaitUntilTimestamp(early_ms)
        return self._given(attempt, timestamp_ms)

    def _bounded(self, attempt: Attempt) -> TimestampRange | Outcome:
        """Return the remaining timestamps, or the reason why none is left. Source: paper §3.1.2 (constraints)."""
        request, time = attempt.request, self.time
        low_ms = 0
        if request.writes:
            written = time.reads.vector(written_items(attempt))
            newest_ms = max(self.heads[write.table_id].timestamp_ms for write in request.writes)
            low_ms = max(time.served_ms, time.reads.lower_bound(written), newest_ms)
        allowed = request.range.above(low_ms)
        if allowed.is_empty:
            return TimestampConflict(_why_empty(request.range, low_ms))
        overtaken = self._overtaken(request.reads)
        bounded = allowed
        for bound_ms in overtaken.values():
            bounded = bounded.up_to(bound_ms)
        if bounded.is_empty:
            return self._conflict(attempt, [t for t, bound_ms in overtaken.items() if allowed.up_to(bound_ms).is_empty])
        return bounded

    def _among_promises(self, attempt: Attempt, bounded: TimestampRange) -> tuple[int, TimestampReservation | None]:
        """Return the timestamp, and the reservation to wait for, None if there is none.

        A read of a reserved table gets a timestamp before the reservation if possible.
        """
        request = attempt.request
        # A transaction with a reservation waits for locks of other transactions. If a transaction with locks also
        # waited for reservations, the two would deadlock.
        others = [] if request.has_locks else [p for p in self.promises if p.txn_id != request.txn_id]
        tables = tables_of(request)
        written = {write.table_id for write in request.writes}
        read_only = [p.timestamp_ms for p in others if p.table_id in tables and p.table_id not in written]
        before = bounded.up_to(min(read_only) - 1) if read_only else bounded
        timestamp_ms = (bounded if before.is_empty else before).choose(self.time.now_ms)
        own = (timestamp_ms, request.txn_id)
        # A single-table commit waits for every reservation, because a later timestamp is always possible.
        earlier = [p for p in others if p.table_id in tables and (attempt.is_alone or p.order < own)]
        return timestamp_ms, min(earlier, key=lambda promise: promise.order, default=None)

    def _overtaken(self, reads: Sequence[TableRead]) -> dict[str, int]:
        """Return the last instant before a read table got a newer version, by table."""
        found = {}
        for read in reads:
            if self.heads[read.table_id].version > read.version:
                found[read.table_id] = self._timestamp_of(read.table_id, read.version + 1) - 1
        return found

    def _timestamp_of(self, table_id: str, version: int) -> int:
        """Return the timestamp of a committed or allocated version, 0 if the row of an old version was purged."""
        fresh = (c["timestamp_ms"] for c in self.new_commits if c["table_id"] == table_id and c["version"] == version)
        found = next(fresh, None)
        if found is None:
            found = self.connection.execute(_NEXT_COMMIT, {"of_table": table_id, "at_version": version}).scalar()
        return found or 0

    def _given(self, attempt: Attempt, timestamp_ms: int) -> Outcome:
        request = attempt.request
        for read in request.reads:
            self.time.reads.record(self.time.reads.vector(read_items(read)), timestamp_ms)
        if not request.writes:
            self.read_at_ms = max(self.read_at_ms, timestamp_ms)
            # A read-only transaction ends here, because it has nothing to ratify.
            if request.has_locks:
                lock_queue.release(self.connection, request.txn_id)
            if request.range.was_asked:
                timestamp_reservations.release(self.connection, request.txn_id)
                forget_open(self.connection, request.txn_id)
            return TransactionResponse(timestamp_ms, {})
        txn_id = None if attempt.is_alone else request.txn_id
        claim = AllocationClaim(request.txn_id, attempt.file_id, attempt.holder, self._until_ms(attempt), txn_id)
        parts = {}
        for write in request.writes:
            head, facts = self.heads[write.table_id], attempt.facts[write.table_id]
            file_id = attempt.file_id_of(write.table_id)
            parts[write.table_id] = head.give(write.version, facts, file_id, timestamp_ms)
            self.new_commits.append(head.advance(write.table_id, claim, facts, parts[write.table_id]))
            self.turns[write.table_id].record_win(request.txn_id)
        if txn_id is not None:
            values = (ALLOCATED, timestamp_ms, None, None, len(parts), attempt.holder, self._until_ms(attempt))
            self.new_transactions.append({"txn_id": txn_id, **dict(zip(_ROW, values, strict=True))})
        return VersionsAllocated(timestamp_ms, parts)


def _why_empty(asked: TimestampRange, low_ms: int) -> str:
    if not asked.was_asked:
        return f"no timestamp after {low_ms} is left. Retry the transaction"
    return (
        f"the transaction requested a time that allows timestamps from {asked.low_ms + 1} to {asked.high_ms} (ms "
        f"since the epoch), but other transactions read or wrote the data that it writes at {low_ms}. Retry the "
        "transaction. A coarser precision, or `writes` declared at its begin, makes this rarer"
    )


def forget_open(connection: Connection, txn_id: str) -> None:
    """Delete the timestamp range of a transaction without a commit."""
    connection.execute(_FORGET_OPEN, {"of_txn": txn_id})


def _upsert(insert: Any) -> Any:
    statement = insert(transactions)
    changed = {column: statement.excluded[column] for column in _ROW}
    return statement.on_conflict_do_update(index_elements=[transactions.c.txn_id], set_=changed)


_UPSERT_TRANSACTION = {"sqlite": _upsert(sqlite.insert), "postgresql": _upsert(postgresql.insert)}
