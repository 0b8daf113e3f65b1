"""What a stream begins with, in the order of a column of times: no row is in a micro-batch behind a later one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater
from slackwater.errors import InvalidArgument, OperationNotAllowed, UnsupportedFeature
from slackwater.scan.snapshot import Snapshot
from slackwater.streams.backlog import backlog
from slackwater.streams.offsets import SourceOffset
from slackwater.streams.options import StreamOptions
from slackwater.streams.source import TableSource
from tests.streams.test_source import batches
from tests.transaction.tables import FakeTime, add, table

EPOCH = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)
Range = tuple[int, int] | None
"""The least and the greatest time of a file in milliseconds from EPOCH; None where it does not tell."""


def at(milliseconds: int) -> str:
    return (EPOCH + dt.timedelta(milliseconds=milliseconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def stats(found: Range, nulls: int = 0) -> str:
    told: dict[str, Any] = {"numRecords": 2}
    if found is not None:
        told |= {"minValues": {"ts": at(found[0])}, "maxValues": {"ts": at(found[1])}, "nullCount": {"ts": nulls}}
    elif nulls:
        told |= {"nullCount": {"ts": nulls}}
    return orjson.dumps(told).decode()


def written(ranges: Sequence[Range], nulls: Sequence[int] = ()) -> Snapshot:
    """A table with a file for each range, named by its number, each written after the one before, and larger."""
    time = FakeTime()
    snapshot = table({"id": "long", "ts": "timestamp", "name": "string"}, time=time)
    transaction = slackwater.Transaction(snapshot, clock=time.clock())
    adds = []
    for number, found in enumerate(ranges):
        told = stats(found, nulls[number] if nulls else 0)
        adds.append(replace(add(str(number)), stats=told, size=100 * (number + 1), modification_time=number))
    transaction.add(*adds)
    return transaction.commit("WRITE").snapshot


def source(snapshot: Snapshot, column: str | None = "ts", **options: Any) -> TableSource:
    asked = StreamOptions(event_time=column, **options)
    return TableSource(snapshot.table, snapshot.configuration, snapshot.version, asked)


def read(snapshot: Snapshot, max_files: int | None = 1, column: str | None = "ts") -> list[list[int]]:
    return [sorted(map(int, found)) for _, found in batches(source(snapshot, column), (max_files, None))]


def test_files_come_in_the_order_of_their_times_and_not_of_their_writing() -> None:
    snapshot = written([(200, 300), (0, 99), (100, 199)])
    assert read(snapshot, column=None) == [[0], [1], [2]]
    assert read(snapshot) == [[1], [2], [0]]
    assert read(snapshot, 2) == [[1, 2], [0]]


def test_files_whose_times_overlap_are_one_micro_batch_whatever_its_limit() -> None:
    snapshot = written([(200, 300), (0, 100), (100, 150), (120, 199)])
    assert read(snapshot) == [[1, 2, 3], [0]]
    byte = [sorted(map(int, found)) for _, found in batches(source(snapshot), (None, 1))]
    assert byte == [[1, 2, 3], [0]]


def test_what_statistics_cut_off_of_a_time_counts() -> None:
    # Writers leave out what is less than a millisecond: one of 100.9 ms says 100.
    assert read(written([(100, 200), (0, 100)])) == [[0, 1]]
    assert read(written([(101, 200), (0, 100)])) == [[1], [0]]


def test_a_file_that_does_not_tell_its_times_makes_all_one_micro_batch() -> None:
    assert read(written([(200, 300), None, (0, 99)])) == [[0, 1, 2]]


def test_rows_without_a_time_are_never_late() -> None:
    assert read(written([(200, 300), None, (0, 99)], nulls=[0, 2, 1])) == [[1], [2], [0]]


def test_commits_after_what_it_began_with_come_as_they_were_made() -> None:
    snapshot = written([(200, 300), (0, 99)])
    stream = source(snapshot)
    found = stream.latest(stream.first(), 1, None)
    transaction = slackwater.Transaction(snapshot)
    transaction.add(replace(add("late"), stats=stats((50, 60))))
    transaction.commit("WRITE")
    more = [paths for _, paths in batches(stream, (1, None), found)]
    assert more == [["0"], ["late"]]


def test_a_micro_batch_that_excluded_files_end_is_whole() -> None:
    snapshot = written([(200, 300), (0, 100), (100, 150)])
    stream = source(snapshot, exclude="^2$")
    assert [found for _, found in batches(stream, (1, None))] == [["1"], ["0"]]


TIMES = st.tuples(st.integers(0, 60), st.integers(0, 12))


@given(st.lists(st.one_of(st.none(), TIMES), max_size=14), st.integers(1, 3))
def test_every_file_comes_once_and_none_behind_a_later_one_whenever_the_query_is_restarted(
    given_ranges: list[tuple[int, int] | None], max_files: int
) -> None:
    ranges: list[Range] = [None if each is None else (each[0], each[0] + each[1]) for each in given_ranges]
    snapshot = written(ranges)
    found: list[list[int]] = []
    end: SourceOffset | None = None
    while True:
        # Each micro-batch by a query of its own.
        step = next(iter(batches(source(snapshot), (max_files, None), end)), None)
        if step is None:
            break
        end = step[0]
        found.append([int(path) for path in step[1]])
    assert sorted(number for batch in found for number in batch) == list(range(len(ranges)))
    for before, behind in pairwise(found):
        known = [ranges[number] for number in (*before, *behind)]
        assert None not in known
        assert max(ranges[number][1] for number in before) < min(ranges[number][0] for number in behind)  # type: ignore[index]


@pytest.mark.parametrize(("begun", "goes_on"), [("ts", None), (None, "ts"), ("ts", "id")])
def test_the_order_is_not_changed_amid_the_files(begun: str | None, goes_on: str | None) -> None:
    snapshot = written([(200, 300), (0, 99)])
    stream = source(snapshot, begun)
    half = stream.latest(stream.first(), 1, None)
    for offset in (half, SourceOffset.from_json(half.to_json())):
        with pytest.raises(OperationNotAllowed, match="as before"):
            source(snapshot, goes_on).latest(offset, 1, None)
        with pytest.raises(OperationNotAllowed, match="as before"):
            source(snapshot, goes_on).files(stream.first(), offset)
    done = stream.latest(half, 1, None)
    assert source(snapshot, None).latest(done, 1, None) == done


def test_delta_spark_does_not_take_an_offset_in_this_order_for_one_of_its_own() -> None:
    snapshot = written([(200, 300), (0, 99)])
    stream = source(snapshot)
    node = stream.latest(stream.first(), 1, None).to_json()
    assert (node["sourceVersion"] > 3, node["eventTimeColumn"], node["index"]) == (True, "ts", 0)
    with pytest.raises(UnsupportedFeature):
        SourceOffset.from_json({key: value for key, value in node.items() if key != "eventTimeColumn"})
    assert stream.latest(SourceOffset.from_json(node), None, None).to_json()["sourceVersion"] == 1


def test_what_is_left_of_them_is_counted_in_their_order() -> None:
    snapshot = written([(200, 300), (0, 99), (100, 199)])
    stream = source(snapshot)
    left = backlog(snapshot, stream.latest(stream.first(), 1, None))
    assert (left.files, left.size_bytes) == (2, 300 + 100)


@pytest.mark.parametrize(("column", "says"), [("name", "column of times"), ("missing", "missing")])
def test_the_column_is_one_of_times(column: str, says: str) -> None:
    stream = source(written([(0, 1)]), column)
    with pytest.raises(InvalidArgument, match=says):
        stream.latest(stream.first(), None, None)


def test_a_partition_column_of_days_tells_the_order() -> None:
    time = FakeTime()
    snapshot = table({"id": "long", "day": "date"}, ["day"], time=time)
    transaction = slackwater.Transaction(snapshot, clock=time.clock())
    days = ["2026-03-02", "2026-03-01", "2026-03-02", None]
    transaction.add(*(replace(add(str(n)), partition_values={"day": day}) for n, day in enumerate(days)))
    assert read(transaction.commit("WRITE").snapshot, column="DAY") == [[3], [1], [0, 2]]
