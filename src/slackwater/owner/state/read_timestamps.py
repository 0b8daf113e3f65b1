"""Read timestamp table: the latest timestamp of a read, for each slot of items.

The timestamp of a write must exceed the entries of its items. Items share slots by hash, so an entry may be too late,
but never too early. Source: paper §4.1; docs/transactions.md.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.dialects import postgresql, sqlite

from slackwater.errors import InvalidArgument
from slackwater.owner.api.transactions import Item
from slackwater.owner.database.schema import owner, read_timestamps

DEFAULT_SLOTS = 4096
"""Number of slots for a new owner."""
GREATEST_SLOTS = 1 << 20

_LATEST = sa.select(read_timestamps).where(read_timestamps.c.slot.in_(sa.bindparam("slots", expanding=True)))
_PRUNE = sa.delete(read_timestamps).where(read_timestamps.c.timestamp_ms <= sa.bindparam("up_to"))
_RAISE_FLOOR = (
    sa.update(owner).where(owner.c.read_floor_ms < sa.bindparam("up_to")).values(read_floor_ms=sa.bindparam("up_to"))
)


def slot_of(item: Item, num_slots: int) -> int:
    """Return the slot of an item, equal in every process."""
    return zlib.crc32(f"{item.table_id}\0{item.granule}".encode()) % num_slots


def bit_vector(items: Iterable[Item], num_slots: int) -> int:
    """Return the bit vector of the items read or written by a transaction: bit i for slot i.

    Source: paper §4.1.1.
    """
    vector = 0
    for item in items:
        vector |= 1 << slot_of(item, num_slots)
    return vector


def slots_in(vector: int) -> Iterator[int]:
    """Return the slots of a bit vector, ascending."""
    while vector:
        lowest = vector & -vector
        yield lowest.bit_length() - 1
        vector ^= lowest


@dataclass
class ReadTimestampTable:
    """Loaded entries of the read timestamp table. `save` writes the changes.

    `floor_ms` is the lower bound of all slots. It covers deleted entries, and entries of a table of another size.
    """

    num_slots: int
    floor_ms: int
    _stamps: dict[int, int] = field(default_factory=dict)
    _changed: set[int] = field(default_factory=set)

    @staticmethod
    def load(connection: Connection, num_slots: int, floor_ms: int, items: Iterable[Item]) -> ReadTimestampTable:
        """Return the table with the entries of `items`."""
        wanted = sorted({slot_of(item, num_slots) for item in items})
        stamps: dict[int, int] = {}
        if wanted:
            stamps = {row.slot: row.timestamp_ms for row in connection.execute(_LATEST, {"slots": wanted})}
        return ReadTimestampTable(num_slots, floor_ms, stamps)

    def vector(self, items: Iterable[Item]) -> int:
        """Return the bit vector of `items` in this table."""
        return bit_vector(items, self.num_slots)

    def latest(self, vector: int) -> int:
        """Return the latest read of the slots in `vector`. A write must have a later timestamp."""
        return max((self._stamps.get(slot, 0) for slot in slots_in(vector)), default=0) if vector else 0

    def lower_bound(self, vector: int) -> int:
        """Return `latest`, or `floor_ms` if later, because entries may have been deleted."""
        return max(self.latest(vector), self.floor_ms) if vector else 0

    def record(self, vector: int, timestamp_ms: int) -> None:
        """Record a read of the slots in `vector` at `timestamp_ms`."""
        for slot in slots_in(vector):
            if self._stamps.get(slot, 0) < timestamp_ms:
                self._stamps[slot] = timestamp_ms
                self._changed.add(slot)

    def save(self, connection: Connection) -> None:
        """Write the recorded entries. A later entry of another transaction stays."""
        if not self._changed:
            return
        rows = [{"slot": slot, "timestamp_ms": self._stamps[slot]} for slot in sorted(self._changed)]
        connection.execute(_UPSERTS[connection.dialect.name], rows)
        self._changed.clear()


def prune(connection: Connection, up_to_ms: int) -> None:
    """Delete the entries up to `up_to_ms`. Writes with such timestamps are rejected from then on.

    Source: paper §2.2 (garbage collection of read timestamps), §4.1.
    """
    connection.execute(_RAISE_FLOOR, {"up_to": up_to_ms})
    connection.execute(_PRUNE, {"up_to": up_to_ms})


def resize(connection: Connection, num_slots: int | None, last_ms: int) -> None:
    """Set the number of slots. None retains the size, or sets the default size for a new table.

    After a change of the size, or with unknown entries, `last_ms` is the lower bound of every slot (the greatest
    allocated timestamp). Source: paper §4.1.2. Raises InvalidArgument.
    """
    if num_slots is not None and not 1 <= num_slots <= GREATEST_SLOTS:
        raise InvalidArgument(f"a read timestamp table has 1 to {GREATEST_SLOTS} slots, found {num_slots}")
    found = connection.execute(sa.select(owner.c.read_slots).with_for_update()).scalar_one()
    wanted = num_slots or found or DEFAULT_SLOTS
    if wanted == found:
        return
    connection.execute(sa.delete(read_timestamps))
    connection.execute(sa.update(owner).values(read_slots=wanted, read_floor_ms=last_ms))


def _upsert(insert: Any, greatest: Any) -> Any:
    statement = insert(read_timestamps)
    latest = greatest(read_timestamps.c.timestamp_ms, statement.excluded.timestamp_ms)
    return statement.on_conflict_do_update(
        index_elements=[read_timestamps.c.slot], set_={read_timestamps.c.timestamp_ms: latest}
    )


_UPSERTS = {
    "sqlite": _upsert(sqlite.insert, sa.func.max),
    "postgresql": _upsert(postgresql.insert, sa.func.greatest),
}
