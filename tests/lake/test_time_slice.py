"""All tables as of one instant: the same answer for ever."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import slackwater
from slackwater.errors import InvalidArgument, SlackwaterError, TableNotFound, TimestampOutOfRange, VersionNotFound
from slackwater.lake.lake import LogLake
from slackwater.lake.transaction import LogTransaction
from slackwater.log.checkpoints.write_checkpoint import write_checkpoint
from slackwater.log.table import Table
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.state.clock import OwnerClock
from slackwater.owner.time.time_slices import TOLD_MS
from slackwater.transaction.clock import Clock
from tests.contract.owners import START_MS, FakeClock
from tests.transaction.tables import add, schema

ID = schema({"id": "long"})


class Shelf:
    """A lake on a clock that stands still; what is done to it is a second after what was done before."""

    def __init__(self, root: Path, **settings: Any) -> None:
        self.root = root
        self.clock = FakeClock()
        self.settings = settings
        self.lake = self.opened()

    def opened(self, **settings: Any) -> LogLake:
        """The lake with another owner, as another process would have it."""
        clock = OwnerClock(now_ms=lambda: self.clock.now_ms, sleep=self.sleep)
        chosen = {"backfill_delay_s": None, **self.settings, **settings}
        owner = EmbeddedOwner.open(self.root, clock=clock, **chosen)
        lake = LogLake(owner, owner.root_url)
        lake.clock = Clock(now_ms=lambda: self.clock.now_ms)
        return lake

    def reopen(self, **settings: Any) -> None:
        self.lake.close()
        self.lake = self.opened(**settings)

    def sleep(self, seconds: float) -> None:
        self.clock.now_ms += max(1, round(seconds * 1000))

    def later(self) -> int:
        self.clock.now_ms += 1000
        return self.clock.now_ms

    def create(self, *names: str) -> None:
        self.later()
        for name in names:
            # Its commits are years old by the clock of whoever cleans up.
            self.lake._create_log(name, ID, properties={"delta.enableExpiredLogCleanup": "false"})

    def append(self, name: str, path: str) -> int:
        """When it was committed."""
        self.later()
        transaction = slackwater.Transaction(self.lake.snapshot(name), clock=self.lake.clock)
        transaction.add(add(path))
        return transaction.commit("WRITE").snapshot.timestamp_ms


def staged(transaction: LogTransaction, name: str, path: str) -> None:
    """Have the transaction add a file to one of its tables."""
    of_table = transaction.log(name)
    of_table.add(add(path))
    of_table.commit("WRITE")


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    found = Shelf(tmp_path / "lake")
    yield found
    found.lake.close()


class Told:
    """What a lake answers for an instant, or with which error it does not."""

    def __init__(self, lake: LogLake, timestamp_ms: int) -> None:
        past = lake.as_of(timestamp_ms)
        self.names = past.tables()
        self.versions = {name: self._version(past, name) for name in ("a", "b", "c")}

    @staticmethod
    def _version(past: Any, name: str) -> Any:
        try:
            return past.version(name)
        except SlackwaterError as error:
            return type(error)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Told) and (self.names, self.versions) == (other.names, other.versions)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{self.names} {self.versions}"


# One state of all tables.


def test_every_table_is_as_it_was_at_the_instant(shelf: Shelf) -> None:
    shelf.create("a", "b")
    first = shelf.append("a", "1")
    shelf.append("b", "2")
    with shelf.lake.transaction() as tx:
        staged(tx, "a", "3")
        staged(tx, "b", "4")
    both = shelf.lake.snapshot("a").timestamp_ms
    past = shelf.lake.as_of(first)
    assert (past.version("a"), past.version("b")) == (1, 0)
    assert past.snapshot("a").files()["path"].to_pylist() == ["1"]
    # Half open: a commit counts from its own instant on.
    before, then = shelf.lake.as_of(both - 1), shelf.lake.as_of(both)
    assert [before.version(n) for n in "ab"] == [1, 1]
    assert [then.version(n) for n in "ab"] == [2, 2]


def test_a_table_is_in_slices_since_it_was_created(shelf: Shelf) -> None:
    shelf.create("a")
    before = shelf.later()
    shelf.create("b")
    shelf.later()
    past = shelf.lake.as_of(before)
    assert past.tables() == ["a"]
    with pytest.raises(TableNotFound, match=r"no table named 'b' existed at 2023.*\. It exists since 2023-11-14"):
        past.version("b")
    with pytest.raises(TableNotFound, match=r"no table named 'nope' exists in this lake\. Existing tables: a, b"):
        past.snapshot("nope")
    assert shelf.lake.as_of(shelf.clock.now_ms).tables() == ["a", "b"]


def test_the_owner_is_asked_once_and_only_logs_that_are_needed_are_read(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"t{number:03}" for number in range(100)]
    shelf.create(*names)
    moment = shelf.append("t007", "1")
    opened: list[str] = []
    calls: list[str] = []
    table_of = shelf.lake._table_of

    def opening(at: Any) -> Table:
        opened.append(at.name)
        return table_of(at)

    monkeypatch.setattr(shelf.lake, "_table_of", opening)
    for name in ("cut", "tables", "table", "get_commits"):
        monkeypatch.setattr(shelf.lake.owner, name, counted(name, getattr(shelf.lake.owner, name), calls))
    past = shelf.lake.as_of(moment)
    assert past.tables() == names
    assert [past.version(name) for name in names] == [int(name == "t007") for name in names]
    assert (calls, opened) == (["cut"], [])
    assert past.snapshot("t007").version == 1
    assert past.snapshot("t007") is past.snapshot("t007")
    assert opened == ["t007"]
    assert calls.count("cut") == 1


def counted(name: str, call: Callable[..., Any], calls: list[str]) -> Callable[..., Any]:
    def counting(*args: Any, **more: Any) -> Any:
        calls.append(name)
        return call(*args, **more)

    return counting


# The same answer for ever.


def test_an_answer_never_changes(shelf: Shelf) -> None:
    shelf.create("a", "b")
    moments = [shelf.append("a", "1"), shelf.append("b", "2"), shelf.append("a", "3"), shelf.later(), shelf.later()]
    moments += [moment - 1 for moment in moments]
    told = {moment: Told(shelf.lake, moment) for moment in moments}

    def unchanged() -> bool:
        return {moment: Told(shelf.lake, moment) for moment in moments} == told

    shelf.create("c")
    shelf.append("a", "4")
    assert unchanged(), "after commits"
    shelf.lake.backfill("a")
    assert unchanged(), "after a backfill"
    for number in range(20):
        shelf.append("a", f"more-{number}")
        shelf.append("b", f"more-{number}")
    shelf.lake.repair()
    assert unchanged(), "after staged commits are gone"
    shelf.reopen()
    assert unchanged(), "at another owner"
    shelf.reopen(rows_kept=1)
    shelf.append("a", "5")
    shelf.append("b", "5")
    for name in ("a", "b", "c"):
        shelf.lake.backfill(name)
    known_from = {table.name: table.known_from for table in shelf.lake.owner.cut().tables}
    assert known_from["a"] > 4
    assert known_from["b"] > 2
    assert unchanged(), "where the owner's database does not reach back"
    shelf.reopen()
    assert unchanged(), "at another owner that does not know it all"


@pytest.mark.parametrize("precision", ["millisecond", "second", "day"])
def test_nothing_slips_under_an_answer_while_those_that_know_the_time_are_open(shelf: Shelf, precision: str) -> None:
    shelf.create("a", "b")
    shelf.later()
    with shelf.opened() as other:
        early = other.transaction()
        early.current_timestamp(precision)
        staged(early, "a", "early")
        shelf.later()
        shelf.append("b", "1")
        # A time slice waits for it no more.
        shelf.clock.now_ms += TOLD_MS
        moment = shelf.later()
        told = Told(shelf.lake, moment)
        assert told.versions == {"a": 0, "b": 1, "c": TableNotFound}
        try:
            early.commit()
        except slackwater.errors.TimestampConflict:
            assert precision != "day"
        else:
            assert precision == "day"
            assert early.commit_timestamp > shelf.lake.as_of(moment).timestamp
        assert Told(shelf.lake, moment) == told


def test_an_instant_between_commits_is_as_good_as_any(shelf: Shelf) -> None:
    shelf.create("a")
    moment = shelf.later()
    assert shelf.lake.as_of(moment).version("a") == 0
    # The clock stands still: the commit gets a later timestamp all the same.
    transaction = slackwater.Transaction(shelf.lake.snapshot("a"))
    transaction.add(add("1"))
    assert transaction.commit("WRITE").snapshot.timestamp_ms == moment + 1
    assert shelf.lake.as_of(moment).version("a") == 0


# Tables that were handed back.


def test_a_table_that_was_handed_back_stays_in_the_slices_of_before(shelf: Shelf, tmp_path: Path) -> None:
    began = shelf.later()
    shelf.create("a", "b")
    moments = [
        began,
        shelf.append("a", "1"),
        shelf.append("b", "2"),
        shelf.later(),
        shelf.append("a", "3"),
        shelf.later(),
    ]
    moments += [moment - 1 for moment in moments]
    told = {moment: Told(shelf.lake, moment) for moment in moments}
    files = shelf.lake.as_of(moments[3]).snapshot("a").files()["path"].to_pylist()

    def unchanged() -> bool:
        now = shelf.lake.as_of(moments[3]).snapshot("a").files()["path"].to_pylist()
        return {moment: Told(shelf.lake, moment) for moment in moments} == told and now == files

    location = shelf.lake.owner.table("a").location
    shelf.later()
    shelf.lake.release("a")
    handed_back = shelf.later()
    assert unchanged()
    assert shelf.lake.as_of(handed_back).tables() == ["b"]
    with pytest.raises(TableNotFound, match=r"no table named 'a' exists in this lake\. Existing tables: b"):
        shelf.lake.as_of(handed_back).version("a")
    # Its new writers change nothing of then.
    free = slackwater.Transaction(location, clock=Clock(now_ms=lambda: shelf.clock.now_ms))
    free.add(add("free"))
    free.commit("WRITE")
    assert unchanged()
    shelf.reopen()
    assert unchanged(), "at another owner"
    # Another table has the name now.
    shelf.later()
    shelf.lake._create_log("a", ID, location=tmp_path / "another")
    since = shelf.later()
    assert unchanged(), "where another table has its name"
    assert shelf.lake.as_of(handed_back).tables() == ["b"]
    assert shelf.lake.as_of(since).version("a") == 0
    shelf.lake.release("a")
    assert unchanged(), "where two of its name were handed back"
    assert shelf.lake.as_of(since).version("a") == 0
    shelf.later()
    shelf.lake.adopt("a", location)
    shelf.later()
    assert unchanged(), "where it came back"
    assert shelf.lake.as_of(shelf.clock.now_ms).version("a") == 5


def test_a_table_that_was_handed_back_and_is_gone_is_said_to_be(shelf: Shelf) -> None:
    shelf.create("a", "b")
    moment = shelf.append("a", "1")
    location = shelf.lake.owner.table("a").location
    shelf.later()
    shelf.lake.release("a")
    shutil.rmtree(location.removeprefix("file://"))
    past = shelf.lake.as_of(moment)
    assert past.tables() == ["a", "b"]
    assert past.version("b") == 0
    with pytest.raises(
        VersionNotFound, match=r"'a' belonged to the lake at 2023-.* and was released later as version 2\. Its"
    ):
        past.snapshot("a")


# Where the log tells.


def test_a_table_that_was_adopted_is_as_its_own_log_tells(shelf: Shelf, tmp_path: Path) -> None:
    path = tmp_path / "plain"
    properties = {"delta.enableInCommitTimestamps": "true"}
    clock = Clock(now_ms=lambda: shelf.clock.now_ms)
    slackwater.Transaction.create(path, ID, properties=properties, clock=clock).commit("CREATE TABLE")
    began = shelf.clock.now_ms
    shelf.later()
    transaction = slackwater.Transaction(path, clock=clock)
    transaction.add(add("1"))
    transaction.commit("WRITE")
    second = shelf.clock.now_ms
    shelf.later()
    shelf.lake.adopt("a", path)
    adopted = shelf.clock.now_ms
    shelf.append("a", "2")
    versions = {began: 0, second - 1: 0, second: 1, adopted - 1: 1, adopted: 2, adopted + 1000: 3}
    assert {moment: shelf.lake.as_of(moment).version("a") for moment in versions} == versions
    past = shelf.lake.as_of(began - 1)
    assert past.tables() == []
    with pytest.raises(TableNotFound, match=r"It exists since 2023-11-14 22:13:20\.000 UTC"):
        past.snapshot("a")


def test_a_log_that_was_cleaned_up_is_said_not_to_reach_back(shelf: Shelf) -> None:
    shelf.create("a")
    first = shelf.append("a", "1")
    for number in range(12):
        shelf.append("a", f"more-{number}")
        shelf.lake.backfill("a")
    write_checkpoint(shelf.lake.snapshot("a"), shelf.clock.now_ms)
    last = shelf.later()
    store = shelf.lake.snapshot("a").store
    for version in range(3):
        store.delete([f"_delta_log/{version:020}.json"])
    past = shelf.lake.as_of(first)
    assert past.version("a") == 1, "the owner still knows"
    with pytest.raises(VersionNotFound, match=r"the table 'a' had version 1 at .*, but its log no longer contains"):
        past.snapshot("a")
    shelf.reopen(rows_kept=1)
    shelf.append("a", "last")
    shelf.lake.backfill("a")
    past = shelf.lake.as_of(first)
    with pytest.raises(TimestampOutOfRange, match=r"its log was cleaned up\. Its oldest commit is version 3"):
        past.version("a")
    assert past.tables() == ["a"], "it was there, whatever it held"
    assert shelf.lake.as_of(last).version("a") == 13


# What is asked for.


def test_an_instant_may_be_written_in_many_ways(shelf: Shelf) -> None:
    shelf.clock.now_ms = START_MS
    shelf.create("a")
    shelf.clock.now_ms += 10 * 86_400_000
    zone = dt.timezone(dt.timedelta(hours=2))
    ways: list[dt.datetime | str | int] = [
        "2023-11-20T10:00:00Z", "2023-11-20 10:00", "2023-11-20T12:00:00+02:00", 1_700_474_400_000,
        dt.datetime(2023, 11, 20, 12, tzinfo=zone), dt.datetime(2023, 11, 20, 10),
        "2023-11-20T10:00:00.000999Z",
    ]  # fmt: skip
    instants = {shelf.lake.as_of(way).timestamp for way in ways}
    assert instants == {dt.datetime(2023, 11, 20, 10, tzinfo=dt.timezone.utc)}
    for day in ("2023-11-20", dt.date(2023, 11, 20)):
        assert shelf.lake.as_of(day).timestamp == dt.datetime(2023, 11, 20, tzinfo=dt.timezone.utc)
    assert repr(shelf.lake.as_of(ways[0])) == "<LogTimeSlice 2023-11-20T10:00:00.000+00:00>"


@pytest.mark.parametrize("bad", [True, 1.5, float("nan"), None, "", "soon", "2023-13-01", b"2023", [], dt.time(1)])
def test_what_is_no_instant_is_refused(shelf: Shelf, bad: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"expected an instant: .*without a zone it is in UTC"):
        shelf.lake.as_of(bad)


@pytest.mark.parametrize("bad", [-1, 10**30, 253_402_300_800_000, "1969-12-31", dt.datetime.min])
def test_instants_out_of_range_are_refused(shelf: Shelf, bad: Any) -> None:
    with pytest.raises(TimestampOutOfRange, match="an instant is from 1970 to 9999"):
        shelf.lake.as_of(bad)


def test_the_future_is_refused(shelf: Shelf) -> None:
    shelf.create("a")
    with pytest.raises(TimestampOutOfRange, match="is in the future"):
        shelf.lake.as_of(shelf.clock.now_ms + 1)
    assert shelf.lake.as_of(shelf.clock.now_ms).tables() == ["a"]


@pytest.mark.parametrize("bad", [None, 1, ["a"]])
def test_a_name_that_is_no_text_is_refused(shelf: Shelf, bad: Any) -> None:
    shelf.create("a")
    with pytest.raises(InvalidArgument, match="must be a str"):
        shelf.lake.as_of(shelf.clock.now_ms).version(bad)
