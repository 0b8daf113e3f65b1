"""The owner's time and what bounds timestamps besides a table's own log: LAST, time slices, read timestamps.

Source: paper §2.1 (LAST), §4.1; design §6.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy import Connection

from slackwater.owner.database_schema import owner, tables
from slackwater.owner.granules import checked
from slackwater.owner.read_timestamps import ReadTimestampTable
from slackwater.owner.transaction_api import Item

_GREATEST = sa.select(sa.func.max(tables.c.allocated_ms)).scalar_subquery()
_STATE = sa.select(
    owner.c.last_ms, owner.c.served_ms, owner.c.read_slots, owner.c.read_floor_ms, _GREATEST.label("greatest_ms")
)
# Allocations go side by side; who looks at all of them at once waits for those that have begun.
_SHARED = sa.text("SELECT pg_advisory_xact_lock_shared(7303016)")
_ALONE = sa.text("SELECT pg_advisory_xact_lock(7303016)")


@dataclass
class OwnerTime:
    """The time at which a piece of work is done; `now_ms` is never before a timestamp that was given out."""

    clock_ms: int
    last_ms: int
    served_ms: int
    reads: ReadTimestampTable

    @staticmethod
    def of(connection: Connection, clock_ms: int, items: Iterable[Item] = ()) -> OwnerTime:
        """The time, with the read timestamps of `items`."""
        row = connection.execute(_STATE).one()
        reads = ReadTimestampTable.load(connection, row.read_slots, row.read_floor_ms, items)
        return OwnerTime(clock_ms, max(row.last_ms, row.greatest_ms or 0), row.served_ms, reads)

    @property
    def now_ms(self) -> int:
        """What time it is."""
        return max(self.clock_ms, self.last_ms)

    def before_write(self, table_id: str) -> int:
        """What the timestamp of a commit must exceed that writes anywhere in the table."""
        return max(self.served_ms, self.reads.lower_bound(self.reads.vector(checked(table_id, None))))


def begin_allocation(connection: Connection) -> None:
    """Called before the first row is looked at by whoever gives out timestamps."""
    if connection.dialect.name == "postgresql":
        connection.execute(_SHARED)


def begin_slice(connection: Connection) -> None:
    """Called by whoever must know of all timestamps that were given out; new ones are given out afterwards."""
    if connection.dialect.name == "postgresql":
        connection.execute(_ALONE)


def last_ms(connection: Connection) -> int:
    """LAST: the greatest timestamp that was ever given out."""
    row = connection.execute(_STATE).one()
    return int(max(row.last_ms, row.greatest_ms or 0))
