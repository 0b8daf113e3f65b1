"""Time of the owner, shared by all processes with one database, and lower bounds of timestamps outside a table's log.

The clock is the database server's clock if there is one and no other clock was passed in, else the process clock. The
time is never before LAST and the newest time slice in the database. A process that issues or receives a time-dependent
value records the time in the database. A process with a slower clock continues from there at its own pace. Timestamps,
leases, reservations and time slices all use this time. Source: paper §2.1 (LAST), §4.1; docs/transactions.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from slackwater.owner.api.granules import checked
from slackwater.owner.api.transactions import Item
from slackwater.owner.database.schema import owner, tables
from slackwater.owner.state.clock import OwnerClock
from slackwater.owner.state.read_timestamps import ReadTimestampTable

_GREATEST = sa.select(sa.func.max(tables.c.allocated_ms)).scalar_subquery()
_STATE = sa.select(
    owner.c.last_ms, owner.c.served_ms, owner.c.read_slots, owner.c.read_floor_ms, _GREATEST.label("greatest_ms")
)
_SERVER_MS = sa.cast(sa.func.floor(sa.extract("epoch", sa.func.clock_timestamp()) * 1000), sa.BigInteger)
_STATE_AT_SERVER = _STATE.add_columns(_SERVER_MS.label("server_ms"))
_RAISE_LAST = sa.update(owner).where(owner.c.last_ms < sa.bindparam("to_ms")).values(last_ms=sa.bindparam("to_ms"))
# Allocations share the lock. A time slice takes it exclusively, to wait for all started allocations.
_SHARED = sa.text("SELECT pg_advisory_xact_lock_shared(7303016)")
_ALONE = sa.text("SELECT pg_advisory_xact_lock(7303016)")


@dataclass
class SharedTime:
    """Time of one operation. `now_ms` is never before a time that any process returned or used."""

    clock_ms: int
    last_ms: int
    served_ms: int
    reads: ReadTimestampTable
    runs_to_ms: int = 0
    is_servers: bool = False

    @staticmethod
    def of(connection: Connection, clock: OwnerClock, items: Iterable[Item] = ()) -> SharedTime:
        """Return the time, with the read timestamps of `items`."""
        is_servers = clock.is_machines and connection.dialect.name == "postgresql"
        row = connection.execute(_STATE_AT_SERVER if is_servers else _STATE).one()
        clock_ms = int(row.server_ms) if is_servers else clock.now_ms()
        last_ms = max(row.last_ms, row.greatest_ms or 0)
        runs_to_ms = clock.goes_on(clock_ms, max(last_ms, row.served_ms))
        reads = ReadTimestampTable.load(connection, row.read_slots, row.read_floor_ms, items)
        return SharedTime(clock_ms, last_ms, row.served_ms, reads, runs_to_ms, is_servers)

    @property
    def now_ms(self) -> int:
        """Current time of the owner."""
        return max(self.clock_ms, self.last_ms, self.served_ms, self.runs_to_ms)

    def pass_on(self, connection: Connection) -> None:
        """Record the time in the database for time-dependent operations other than commits.

        Changes the owner's row. A database transaction locks this row last.
        """
        # All processes read the server's clock, so no process can be late.
        if not self.is_servers and self.now_ms > max(self.last_ms, self.served_ms):
            raise_last(connection, self.now_ms)

    def before_write(self, table_id: str) -> int:
        """Return the exclusive lower bound of the timestamp of a commit anywhere in the table."""
        return max(self.served_ms, self.reads.lower_bound(self.reads.vector(checked(table_id, None))))


def begin_allocation(connection: Connection) -> None:
    """Take the shared allocation lock. A process allocating timestamps calls this before it reads rows."""
    if connection.dialect.name == "postgresql":
        connection.execute(_SHARED)


def begin_slice(connection: Connection) -> None:
    """Wait for all started allocations, and block new ones until the end of the database transaction."""
    if connection.dialect.name == "postgresql":
        connection.execute(_ALONE)


def read_clock(connection: Connection, clock: OwnerClock) -> int:
    """Return the current time of the owner."""
    return SharedTime.of(connection, clock).now_ms


def raise_last(connection: Connection, to_ms: int) -> None:
    """Raise LAST to at least `to_ms`, because a process returned this instant."""
    connection.execute(_RAISE_LAST, {"to_ms": to_ms})


def last_ms(connection: Connection) -> int:
    """Return LAST, the greatest timestamp ever allocated."""
    row = connection.execute(_STATE).one()
    return int(max(row.last_ms, row.greatest_ms or 0))
