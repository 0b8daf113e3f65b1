"""The read timestamp table: for every set of items that share a slot, the latest timestamp of a transaction that read.

A writer's timestamp must exceed those of the slots of what it writes. Items share slots by their hash, so an entry may
be later than it need be, never earlier. Source: paper §4.1; docs/transactions.md.
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
"""How many slots the table of a new owner has."""
GREATEST_SLOTS = 1 << 20

_LATEST = sa.select(read_timestamps).where(read_timestamps.c.slot.in_(sa.bindparam("slots", expanding=True)))
_PRUNE = sa.delete(read_timestamps).where(read_timestamps.c.timestamp_ms <= sa.bindparam("up_to"))
_RAISE_FLOOR = (
    sa.update(owner).where(owner.c.read_floor_ms < sa.bindparam("up_to")).values(read_floor_ms=sa.bindparam("up_to"))
)


def slot_of(item: Item, num_slots: int) -> int:
    """The slot of an item; every process gives it the same."""
    return zlib.crc32(f"{item.table_id}\0{item.granule}".encode()) % num_slots


def bit_vector(items: Iterable[Item], num_slots: int) -> int:
    """What a transaction remembers of the items that it read, or wrote: bit i for slot i. Source: paper §4.1.1."""
    vector = 0
    for item in items:
        vector |= 1 << slot_of(item, num_slots)
    return vector


def slots_in(vector: int) -> Iterator[int]:
    """The slots of a bit vector, ascending."""
    while vector:
        lowest = vector & -vector
        yield lowest.bit_length() - 1
        vector ^= lowest


@dataclass
class ReadTimestampTable:
    """The entries that a piece of work needs; what it changes is written by `save`.

    No slot is below `floor_ms`: what was in those that are gone, or were of a table of another size, is not after it.
    """

    num_slots: int
    floor_ms: int
    _stamps: dict[int, int] = field(default_factory=dict)
    _changed: set[int] = field(default_factory=set)

    @staticmethod
    def load(connection: Connection, num_slots: int, floor_ms: int, items: Iterable[Item]) -> ReadTimestampTable:
        """The table with the entries of `items`."""
        wanted = sorted({slot_of(item, num_slots) for item in items})
        stamps: dict[int, int] = {}
        if wanted:
            stamps = {row.slot: row.timestamp_ms for row in connection.execute(_LATEST, {"slots": wanted})}
        return ReadTimestampTable(num_slots, floor_ms, stamps)

    def vector(self, items: Iterable[Item]) -> int:
        """The bit vector of `items` in this table."""
        return bit_vector(items, self.num_slots)

    def latest(self, vector: int) -> int:
        """The latest read of what is in the slots of `vector`: what writes it must have a greater timestamp."""
        return max((self._stamps.get(slot, 0) for slot in slots_in(vector)), default=0) if vector else 0

    def lower_bound(self, vector: int) -> int:
        """As `latest`, and where an entry may have been dropped, what it was at most."""
        return max(self.latest(vector), self.floor_ms) if vector else 0

    def record(self, vector: int, timestamp_ms: int) -> None:
        """What is in the slots of `vector` was read by a transaction of `timestamp_ms`."""
        for slot in slots_in(vector):
            if self._stamps.get(slot, 0) < timestamp_ms:
                self._stamps[slot] = timestamp_ms
                self._changed.add(slot)

    def save(self, connection: Connection) -> None:
        """Write what was recorded; an entry that others moved further stays."""
        if not self._changed:
            return
        rows = [{"slot": slot, "timestamp_ms": self._stamps[slot]} for slot in sorted(self._changed)]
        connection.execute(_UPSERTS[connection.dialect.name], rows)
        self._changed.clear()


def prune(connection: Connection, up_to_ms: int) -> None:
    """Drop the entries up to `up_to_ms`; who wants such a timestamp is refused from then on.

    Source: paper §2.2 (garbage collection of read timestamps), §4.1.
    """
    connection.execute(_RAISE_FLOOR, {"up_to": up_to_ms})
    connection.execute(_PRUNE, {"up_to": up_to_ms})


def resize(connection: Connection, num_slots: int | None, last_ms: int) -> None:
    """Give the table `num_slots`; None keeps its size, or gives a new one the default size.

    Where the size changes, or it is not known what the entries were, all count as `last_ms`, the greatest timestamp
    that was given. Source: paper §4.1.2. Raises InvalidArgument.
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
