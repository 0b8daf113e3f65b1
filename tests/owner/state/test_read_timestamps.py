"""The read timestamp table by itself: slots, bit vectors, what is forgotten, what a new size means."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import InvalidArgument, TimestampConflict
from slackwater.owner.api.transactions import Item
from slackwater.owner.database.schema import owner, read_timestamps
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.state.read_timestamps import (
    DEFAULT_SLOTS,
    GREATEST_SLOTS,
    ReadTimestampTable,
    bit_vector,
    prune,
    resize,
    slot_of,
    slots_in,
)
from tests.contract.owners import DATABASES, FakeClock, OwnedLake, created, new_lake
from tests.contract.transactions import Txn

ITEMS = st.builds(Item, st.text(max_size=5), st.text(max_size=5))


@given(st.lists(ITEMS, max_size=20), st.integers(1, 5000))
def test_a_bit_vector_is_the_slots_of_its_items(items: list[Item], num_slots: int) -> None:
    assert list(slots_in(bit_vector(items, num_slots))) == sorted({slot_of(item, num_slots) for item in items})


@given(
    st.lists(st.tuples(st.lists(ITEMS, max_size=5), st.integers(1, 1000)), max_size=10), st.sampled_from([1, 7, 4096])
)
def test_no_read_is_ever_forgotten(reads: list[tuple[list[Item], int]], num_slots: int) -> None:
    """An entry may be later than it need be, never earlier; with a slot for each it is exact."""
    table = ReadTimestampTable(num_slots, 0)
    exact: dict[Item, int] = {}
    for items, stamp in reads:
        table.record(table.vector(items), stamp)
        for item in items:
            exact[item] = max(exact.get(item, 0), stamp)
    for item, stamp in exact.items():
        assert table.latest(table.vector([item])) >= stamp


def test_what_is_not_written_has_no_bound_and_what_is_has_the_floor_at_least() -> None:
    table = ReadTimestampTable(16, floor_ms=50)
    assert table.lower_bound(0) == 0
    assert table.lower_bound(table.vector([Item("a")])) == 50
    table.record(table.vector([Item("a")]), 70)
    assert table.lower_bound(table.vector([Item("a")])) == 70


class Kit:
    def __init__(self, lake: OwnedLake) -> None:
        self.lake = lake
        self.clock = FakeClock()
        self.owner = self.opened()
        self.a, self.b = created(lake, self.owner), created(lake, self.owner)
        self.clock.now_ms += 1000

    def opened(self, read_slots: int | None = None) -> EmbeddedOwner:
        return self.lake.embedded(clock=self.clock.owner_clock(), read_slots=read_slots)

    def entries(self) -> dict[int, int]:
        found = self.owner.database.read(lambda c: c.execute(sa.select(read_timestamps)).all())
        return {row.slot: row.timestamp_ms for row in found}

    def floor(self) -> int:
        return int(self.owner.database.read(lambda c: c.execute(sa.select(owner.c.read_floor_ms)).scalar_one()))


@pytest.fixture(params=DATABASES)
def kit(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kit]:
    lake = new_lake(tmp_path, request.param)
    yield Kit(lake)
    lake.close()


def test_it_is_filled_at_commit_and_only_with_what_was_read(kit: Kit) -> None:
    Txn(kit.owner).write(kit.b).commit()
    assert kit.entries() == {}
    response = Txn(kit.owner).read(kit.a).write(kit.b).commit()
    assert kit.entries() == {slot_of(Item(kit.a.table_id), DEFAULT_SLOTS): response.timestamp_ms}


def test_an_entry_never_goes_back(kit: Kit) -> None:
    early = Txn(kit.owner).read(kit.a)
    early.ask()
    kit.clock.now_ms += 50
    late = Txn(kit.owner).read(kit.a).write(kit.b).commit()
    early.commit()
    assert max(kit.entries().values()) == late.timestamp_ms


def test_with_one_slot_every_reader_is_in_the_way_of_every_writer(kit: Kit) -> None:
    """What the paper's section 4.1 calls conservative: never wrong, and more is given up."""
    kit.owner = kit.opened(read_slots=1)
    early = Txn(kit.owner)
    early.ask()
    kit.clock.now_ms += 50
    Txn(kit.owner).read(kit.a).commit()
    with pytest.raises(TimestampConflict):
        early.write(kit.b).commit()


def test_a_table_of_a_new_size_counts_every_read_as_of_the_latest_timestamp(kit: Kit) -> None:
    early = Txn(kit.owner)
    early.ask()
    kit.clock.now_ms += 50
    last = Txn(kit.owner).read(kit.a).write(kit.b).commit().timestamp_ms
    kit.owner = kit.opened(read_slots=64)
    assert kit.entries() == {}
    assert kit.floor() == last
    early.owner = kit.owner
    with pytest.raises(TimestampConflict):
        early.write(kit.a).commit()
    assert Txn(kit.owner).write(kit.a).commit().timestamp_ms > last


def test_a_process_that_says_nothing_of_the_size_leaves_it(kit: Kit) -> None:
    kit.opened(read_slots=64)
    Txn(kit.owner).read(kit.a).commit()
    before = kit.entries()
    kit.opened()
    assert kit.entries() == before


def test_who_wants_a_timestamp_of_what_was_dropped_is_refused(kit: Kit) -> None:
    early = Txn(kit.owner)
    early.ask()
    kit.clock.now_ms += 50
    stamp = Txn(kit.owner).read(kit.a).commit().timestamp_ms
    kit.owner.database.write(lambda c: prune(c, stamp))
    assert kit.entries() == {}
    with pytest.raises(TimestampConflict):
        early.write(kit.a).commit()
    other = Txn(kit.owner)
    other.range = early.range
    with pytest.raises(TimestampConflict):
        other.write(kit.b).commit()


def test_entries_are_dropped_when_nobody_can_want_their_time_any_more(kit: Kit) -> None:
    Txn(kit.owner).read(kit.a).commit()
    open_one = Txn(kit.owner)
    open_one.ask()
    kit.clock.now_ms += 1_200_000
    Txn(kit.owner).ask()
    assert len(kit.entries()) == 1, "one that was told an earlier time is open"
    kit.owner.end(open_one.txn_id)
    kit.clock.now_ms += 4_000_000
    Txn(kit.owner).ask()
    assert kit.entries() == {}


@pytest.mark.parametrize("size", [0, -1, GREATEST_SLOTS + 1])
def test_other_sizes_are_refused(kit: Kit, size: int) -> None:
    with pytest.raises(InvalidArgument, match="slots"):
        kit.owner.database.write(lambda c: resize(c, size, 0))
