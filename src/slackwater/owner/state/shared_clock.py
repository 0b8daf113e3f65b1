"""The owner's time: one clock for all who share the database; and what bounds timestamps besides a table's own log.

It is the clock of the database's server, where there is one and no other was passed in, else that of the process; and
never before what the database holds of it: LAST, the newest time slice. A process that gives or gets something that
depends on the time leaves it in the database, so a process whose clock is behind goes by that of the others, and on
from there at its own pace. All is reckoned in it: timestamps, leases, promises, turns, time slices. Source: paper §2.1
(LAST), §4.1; docs/transactions.md.
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
# Allocations go side by side; who looks at all of them at once waits for those that have begun.
_SHARED = sa.text("SELECT pg_advisory_xact_lock_shared(7303016)")
_ALONE = sa.text("SELECT pg_advisory_xact_lock(7303016)")


@dataclass
class SharedTime:
    """The time at which a piece of work is done; `now_ms` is never before one that anybody was told or acted by."""

    clock_ms: int
    last_ms: int
    served_ms: int
    reads: ReadTimestampTable
    runs_to_ms: int = 0
    is_servers: bool = False

    @staticmethod
    def of(connection: Connection, clock: OwnerClock, items: Iterable[Item] = ()) -> SharedTime:
        """The time, with the read timestamps of `items`."""
        is_servers = clock.is_machines and connection.dialect.name == "postgresql"
        row = connection.execute(_STATE_AT_SERVER if is_servers else _STATE).one()
        clock_ms = int(row.server_ms) if is_servers else clock.now_ms()
        last_ms = max(row.last_ms, row.greatest_ms or 0)
        runs_to_ms = clock.goes_on(clock_ms, max(last_ms, row.served_ms))
        reads = ReadTimestampTable.load(connection, row.read_slots, row.read_floor_ms, items)
        return SharedTime(clock_ms, last_ms, row.served_ms, reads, runs_to_ms, is_servers)

    @property
    def now_ms(self) -> int:
        """What time it is."""
        return max(self.clock_ms, self.last_ms, self.served_ms, self.runs_to_ms)

    def pass_on(self, connection: Connection) -> None:
        """Let it be no earlier for anybody from now on: for what is no commit, and depends on the time all the same.

        Changes the owner's row, the last of those that a transaction of the database locks.
        """
        # No process is behind a clock that all read.
        if not self.is_servers and self.now_ms > max(self.last_ms, self.served_ms):
            raise_last(connection, self.now_ms)

    def before_write(self, table_id: str) -> int:
        """What the timestamp of a commit must exceed that writes anywhere in the table."""
        return max(self.served_ms, self.reads.lower_bound(self.reads.vector(checked(table_id, None))))


def begin_allocation(connection: Connection) -> None:
    """Called by a process that gives out timestamps, before it looks at the first row."""
    if connection.dialect.name == "postgresql":
        connection.execute(_SHARED)


def begin_slice(connection: Connection) -> None:
    """Called by a process that must know of all timestamps that were given out; new ones are given out afterwards."""
    if connection.dialect.name == "postgresql":
        connection.execute(_ALONE)


def read_clock(connection: Connection, clock: OwnerClock) -> int:
    """What time it is."""
    return SharedTime.of(connection, clock).now_ms


def raise_last(connection: Connection, to_ms: int) -> None:
    """Let LAST be `to_ms` at least: somebody was told that instant."""
    connection.execute(_RAISE_LAST, {"to_ms": to_ms})


def last_ms(connection: Connection) -> int:
    """LAST: the greatest timestamp that was ever given out."""
    row = connection.execute(_STATE).one()
    return int(max(row.last_ms, row.greatest_ms or 0))
