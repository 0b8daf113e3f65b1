"""Requests for the current time: narrow the timestamp range of a transaction by the owner's clock, and check it.

Source: paper §3.2.1, §4.1.1 ("checking RTT: as soon as a transaction has a fully specified timestamp").
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects import postgresql, sqlite

from slackwater.errors import InvalidArgument, TimestampConflict
from slackwater.owner.api.granules import checked
from slackwater.owner.api.timestamp_range import TimestampRange
from slackwater.owner.api.transactions import LONGEST_AHEAD_MS, TimeRequest
from slackwater.owner.database.database import Database
from slackwater.owner.database.schema import tables, transactions
from slackwater.owner.locks.lock_queue import has_locks
from slackwater.owner.locks.timestamp_reservations import active_reservations, renew, reserve
from slackwater.owner.state.clock import OwnerClock, is_dead
from slackwater.owner.state.log_head import OPEN
from slackwater.owner.state.read_timestamps import prune
from slackwater.owner.state.shared_clock import SharedTime

KEPT_MS = 600_000
"""Retention of read timestamps, for transactions that request a timestamp of that age."""

_LEASE_MS = 3_600_000
_HEADS = sa.select(sa.func.max(tables.c.allocated_ms)).where(
    tables.c.table_id.in_(sa.bindparam("of_tables", expanding=True))
)
_LEAST_OPEN = sa.select(sa.func.min(transactions.c.low_ms)).where(
    transactions.c.state == OPEN, transactions.c.until_ms >= sa.bindparam("now_ms")
)
_FORGET_ENDED = sa.delete(transactions).where(
    transactions.c.state == OPEN, transactions.c.until_ms < sa.bindparam("now_ms")
)
_TOLD = sa.select(transactions.c.holder).where(
    transactions.c.state == OPEN,
    transactions.c.high_ms <= sa.bindparam("up_to_ms"),
    transactions.c.until_ms > sa.bindparam("until_ms"),
    transactions.c.until_ms >= sa.bindparam("now_ms"),
)


class TimestampRequests:
    """Handles requests for the current time."""

    def __init__(self, database: Database, clock: OwnerClock) -> None:
        self._database = database
        self._clock = clock

    def narrow(self, request: TimeRequest) -> TimestampRange:
        """Narrow the range of a transaction. See `CommitOwner.narrow`."""
        if not 0 <= request.ahead_ms <= LONGEST_AHEAD_MS:
            raise InvalidArgument(
                f"the time of a timestamp request must be 0 to {LONGEST_AHEAD_MS} ms ahead of the clock, found "
                f"{request.ahead_ms}"
            )
        # Not durable, because a client that repeats the request gets the same range.
        return self._database.write(lambda c: self._narrowed(c, request), durable=False)

    def keep(self, txn_id: str) -> bool:
        """Renew the reservation of a transaction. Return whether it has a reservation and no locks."""

        def kept(connection: Connection) -> bool:
            time = SharedTime.of(connection, self._clock)
            is_kept = renew(connection, txn_id, time.now_ms)
            if is_kept:
                time.pass_on(connection)
            return is_kept and not has_locks(connection, txn_id)

        return self._database.write(kept, durable=False)

    def _narrowed(self, connection: Connection, request: TimeRequest) -> TimestampRange:
        items = [i for w in request.writes for i in checked(w.table_id, [w.granule] if w.granule else None)]
        items += [item for table_id in request.holds for item in checked(table_id, None)]
        time = SharedTime.of(connection, self._clock, items)
        # Treat declared writes like writes: the time is after every read and write of these tables.
        written = sorted({item.table_id for item in request.writes} | set(request.holds))
        newest_ms = connection.execute(_HEADS, {"of_tables": written}).scalar() or 0 if written else 0
        now_ms = time.now_ms
        others = [
            p for p in active_reservations(connection, request.holds, now_ms, is_dead) if p.txn_id != request.txn_id
        ]
        promised_ms = max((other.timestamp_ms for other in others), default=0)
        read_ms = time.reads.lower_bound(time.reads.vector(items))
        # Timestamps up to a served time slice are excluded, because the transaction may still write.
        bounded = request.range.above(max(newest_ms, time.served_ms, read_ms, promised_ms))
        narrowed = bounded.narrowed(max(now_ms + request.ahead_ms, bounded.low_ms + 1), request.precision, request.zone)
        if narrowed.is_empty:
            raise TimestampConflict(_why_empty(request.range, bounded))
        self._keep(connection, request.txn_id, narrowed, now_ms)
        if request.holds and narrowed.is_fixed:
            reserve(connection, request.txn_id, request.holds, narrowed.high_ms, self._clock.holder, now_ms)
        time.pass_on(connection)
        return narrowed

    def _keep(self, connection: Connection, txn_id: str, narrowed: TimestampRange, now_ms: int) -> None:
        """Record the range, so that the read timestamps needed for it are retained.

        The result is correct without the record, but the transaction would be rejected.
        """
        values = {
            "txn_id": txn_id, "state": OPEN, "low_ms": narrowed.low_ms, "high_ms": narrowed.high_ms, "pending": 0,
            "holder": self._clock.holder, "until_ms": now_ms + _LEASE_MS,
        }  # fmt: skip
        connection.execute(_UPSERT[connection.dialect.name], values)
        connection.execute(_FORGET_ENDED, {"now_ms": now_ms})
        least = connection.execute(_LEAST_OPEN, {"now_ms": now_ms}).scalar()
        prune(connection, min(now_ms - KEPT_MS, narrowed.low_ms if least is None else least))


def has_conflicting_reservation(connection: Connection, up_to_ms: int, since_ms: int, now_ms: int) -> bool:
    """Return whether an active transaction requested the time after `since_ms` with a range up to `up_to_ms`.

    The range then allows no timestamp after `up_to_ms`. Transactions of crashed processes are not active.
    """
    found = connection.execute(_TOLD, {"up_to_ms": up_to_ms, "until_ms": since_ms + _LEASE_MS, "now_ms": now_ms})
    return not all(is_dead(row.holder) for row in found)


def _why_empty(asked: TimestampRange, bounded: TimestampRange) -> str:
    if bounded.is_empty:
        return (
            f"the transaction requested a time that allows timestamps up to {asked.high_ms} (ms since the epoch), "
            f"but other transactions wrote or read its data at {bounded.low_ms}. Retry the transaction"
        )
    return (
        f"the transaction requested a time that allows timestamps from {bounded.low_ms + 1} to {bounded.high_ms} "
        "(ms since the epoch), and these are over. Request the finest precision first, or retry the transaction"
    )


def _upsert(insert: Any) -> Any:
    statement = insert(transactions)
    changed = {column: statement.excluded[column] for column in ("low_ms", "high_ms", "until_ms")}
    is_open = transactions.c.state == OPEN
    return statement.on_conflict_do_update(index_elements=[transactions.c.txn_id], set_=changed, where=is_open)


_UPSERT = {"sqlite": _upsert(sqlite.insert), "postgresql": _upsert(postgresql.insert)}
