"""The pictures of docs/understand/time.md.

What they show is asked of the package: a lake on a clock that stands still but for the script, whose transactions run
the schedule of Figure 1, and the owner's own range and read timestamp table. Only the first picture, of what must not
happen, is reckoned here, by the rule that the paper warns of.
Source: Jensen & Lomet, VLDB 2001, §1 (Figure 1), §3, §4.1.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tools.pictures.gallery import Gallery
from tools.pictures.time_drawing import RangeBar, Schedule, Slot, Step, ranges_svg, schedule_svg, slots_svg

from slackwater.errors import TimestampConflict
from slackwater.lake.lake import LogLake
from slackwater.lake.transaction import LogTransaction
from slackwater.owner.api.timestamp_range import TimestampRange, at_ms
from slackwater.owner.api.transactions import Item
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.state.clock import OwnerClock
from slackwater.owner.state.read_timestamps import ReadTimestampTable, slot_of
from slackwater.protocol.actions.files import AddFile
from slackwater.protocol.schema.schema import PrimitiveType, StructField, StructType

START_MS = 1_795_428_000_000
"""2026-11-23 10:00:00 UTC is 0 in the pictures; a second is 1."""

_UNIT_MS = 1000
_TABLES = ("x", "y", "z")
_SCHEMA = StructType((StructField("v", PrimitiveType("long")),))
_SLOTS = 6


@dataclass
class Stage:
    """A lake with the tables x, y and z, in which it is a time that the script says."""

    lake: LogLake
    clock: list[int]

    def at(self, time: float) -> None:
        """Let it be `time`."""
        self.clock[0] = ms(time)

    def slice_of(self, time: float) -> str:
        """The time slice of y and z: the versions, as people write values."""
        past = self.lake.as_of(ms(time))
        return ", ".join(f"{name} = {_value(name, past.version(name))}" for name in ("y", "z"))


def ms(time: float) -> int:
    """A time of the pictures in ms since the epoch."""
    return START_MS + round(time * _UNIT_MS)


def time_of(instant_ms: float) -> float:
    """The time of the pictures."""
    return (instant_ms - START_MS) / _UNIT_MS


@contextmanager
def staged() -> Iterator[Stage]:
    """A stage of its own, in a directory that goes."""
    clock = [ms(-3)]
    with tempfile.TemporaryDirectory() as directory:
        owner = EmbeddedOwner.open(directory, backfill_delay_s=None, clock=OwnerClock(now_ms=lambda: clock[0]))
        with LogLake(owner, owner.root_url) as lake:
            for number, name in enumerate(_TABLES):
                clock[0] = ms(number - 3)
                lake._create_log(name, _SCHEMA)
            yield Stage(lake, clock)


def write(transaction: LogTransaction, name: str) -> None:
    """A write of the item: a table stands for each."""
    of_table = transaction.log(name)
    of_table.add(AddFile(f"{transaction.id}-{name}.parquet", {}, 1, 0, True, '{"numRecords":1}'))
    of_table.commit("WRITE")


def stamp(transaction: LogTransaction) -> float:
    """The timestamp that it committed with."""
    return time_of(transaction.commit_timestamp.timestamp() * 1000)


def early_choice() -> Schedule:
    """Figure 1: the time is fixed when it is asked for, and nothing is compared."""
    told = {"T1": 1.0, "T2": 3.0}
    written = {"y": ("T2", told["T2"], 5.0), "z": ("T1", told["T1"], 9.0)}

    def slice_at(asked: float, of: float) -> str:
        seen = {name: when <= of and landed <= asked for name, (_, when, landed) in written.items()}
        return ", ".join(f"{name} = {_value(name, int(seen[name]))}" for name in ("y", "z"))

    answers = [(asked, slice_at(asked, 2)) for asked in (6.0, 10.0)]
    return Schedule(
        "Early choice: the time slice of 2 changes its answer",
        [
            Step(1, "T1", "asks: 1"), Step(2, "T1", "writes x"), Step(3, "T2", "asks: 3"), Step(4, "T2", "writes y"),
            Step(5, "T2", "commits", "good"), Step(7, "T1", f"reads {_value('y', 1)}"), Step(8, "T1", "writes z"),
            Step(9, "T1", "commits", "good"),
        ],
        told,
        answers,
        note="T1 read what T2 wrote, so T2 is before T1; but 1 is before 3.",
    )  # fmt: skip


def late_choice() -> Schedule:
    """The same, and nobody asks: both get their timestamps as they commit."""
    return _scheduled("Late choice: who asks nothing is given a time at its end", None, "locking")


def asked_early() -> Schedule:
    """T1 is told the time at once, and reads what was written later: it is refused."""
    return _scheduled("Asked early, at full precision: what comes too late is refused", "millisecond", "locking")


def asked_coarsely() -> Schedule:
    """T1 asks for the day alone: its range stays wide."""
    return _scheduled("Asked for the day: the timestamp is still open", "day", "locking")


def of_the_beginning() -> Schedule:
    """T1 reads the state of its beginning, as transactions do by themselves: it goes before T2."""
    return _scheduled("Asked early, reading the state of the beginning: T1 is before T2", "millisecond", "optimistic")


def _scheduled(title: str, precision: str | None, control: str) -> Schedule:
    steps: list[Step] = []
    stamps: dict[str, float] = {}
    slices: list[tuple[float, str]] = []
    note = ""
    with staged() as stage:
        stage.at(0.5)
        first = stage.lake.transaction(control=control)
        if precision is not None:
            stage.at(1)
            told = first.current_timestamp(precision)
            steps.append(Step(1, "T1", f"asks: {_shown_answer(told.timestamp() * 1000, precision)}"))
        stage.at(2)
        write(first, "x")
        steps.append(Step(2, "T1", "writes x"))
        stage.at(2.5)
        second = stage.lake.transaction(control=control)
        if precision is not None:
            stage.at(3)
            # Where nobody asks, T2 does not either.
            second.current_timestamp()
            steps.append(Step(3, "T2", "asks: 3"))
        stage.at(4)
        write(second, "y")
        steps.append(Step(4, "T2", "writes y"))
        stage.at(5)
        second.commit()
        stamps["T2"] = stamp(second)
        steps.append(Step(5, "T2", "commits", "good"))
        # A slice of a time that T1 was told waits for T1: it is asked for after its end.
        if precision != "millisecond":
            stage.at(6)
            slices.append((6.0, stage.slice_of(2)))
        stage.at(7)
        try:
            read = first.snapshot("y").version
        except TimestampConflict:
            first.rollback()
            steps.append(Step(7, "T1", f"reads {_value('y', 1)}: refused", "bad"))
            note = f"y is of {_shown(stamps['T2'])}, and T1 was told 1: it is run again, and told a later time."
        else:
            steps.append(Step(7, "T1", f"reads {_value('y', read)}"))
            stage.at(8)
            write(first, "z")
            steps.append(Step(8, "T1", "writes z"))
            stage.at(9)
            first.commit()
            stamps["T1"] = stamp(first)
            steps.append(Step(9, "T1", "commits", "good"))
            before, after = sorted(stamps, key=lambda name: stamps[name])
            note = f"{before} is before {after}, in the order of timestamps and in what was read."
        stage.at(10)
        slices.append((10.0, stage.slice_of(2)))
    return Schedule(title, steps, stamps, slices, note)


def ranges() -> list[RangeBar]:
    """How the range of one transaction narrows: by what it reads, and by what it asks."""
    bars: list[RangeBar] = []
    with staged() as stage:
        stage.at(1)
        transaction = stage.lake.transaction(control="locking")

        def told(time: float, what: str) -> None:
            range_: TimestampRange = transaction._range
            high = time_of(range_.high_ms) if range_.was_asked else None
            until = f"to {at_ms(range_.high_ms):%H:%M:%S}.999" if range_.was_asked else ""
            bars.append(RangeBar(time, what, time_of(range_.low_ms), high, until))

        stage.at(2)
        transaction.snapshot("x")
        told(2, "reads x")
        stage.at(3)
        write_alone(stage, "y")
        stage.at(4)
        transaction.snapshot("y")
        told(4, "reads y, which is of 3")
        stage.at(5)
        transaction.current_date()
        told(5, "asks for the day")
        stage.at(6)
        transaction.current_timestamp("minute")
        told(6, "asks for the minute")
        stage.at(8)
        transaction.current_timestamp()
        told(8, "asks for the millisecond")
        stage.at(9)
        write(transaction, "z")
        transaction.commit()
        bars.append(RangeBar(9, "commits", stamp(transaction) - 1 / _UNIT_MS, stamp(transaction), is_stamp=True))
    return bars


def write_alone(stage: Stage, name: str) -> None:
    """A transaction of another that writes the item."""
    with stage.lake.transaction() as other:
        write(other, name)


def read_timestamps() -> tuple[list[Slot], int]:
    """Which slot each item has, what is in it, and what a writer of the item must exceed; and the number of slots."""
    table = ReadTimestampTable(_SLOTS, 0)
    items = {name: Item(name, "") for name in ("orders", "stock", "customers", "suppliers")}
    for name, time in (("orders", 5), ("stock", 7)):
        table.record(table.vector([items[name]]), ms(time))
    slots = []
    for name, item in items.items():
        bound = table.lower_bound(table.vector([item]))
        slots.append(
            Slot(name, slot_of(item, _SLOTS), time_of(bound) if bound else None, {"orders": 5, "stock": 7}.get(name))
        )
    return slots, _SLOTS


def _value(name: str, version: int) -> str:
    return f"{name}{'₀₁₂'[version]}"


def _shown(time: float) -> str:
    return f"{time:g}"


def _shown_answer(instant_ms: float, precision: str) -> str:
    return "today" if precision == "day" else _shown(time_of(instant_ms))


GALLERY = Gallery(
    "understand/time.md",
    "images/time",
    {
        "early-choice.svg": lambda: schedule_svg(early_choice()),
        "late-choice.svg": lambda: schedule_svg(late_choice()),
        "asked-early.svg": lambda: schedule_svg(asked_early()),
        "of-the-beginning.svg": lambda: schedule_svg(of_the_beginning()),
        "asked-coarsely.svg": lambda: schedule_svg(asked_coarsely()),
        "ranges.svg": lambda: ranges_svg(ranges()),
        "read-timestamps.svg": lambda: slots_svg(*read_timestamps()),
    },
)
