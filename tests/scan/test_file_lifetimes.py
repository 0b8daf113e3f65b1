"""When the rows of data files were part of the table, by the log alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import orjson
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

import slackwater
from slackwater.errors import OperationNotAllowed, TimestampOutOfRange
from slackwater.protocol.actions.file_names import commit_path
from slackwater.scan.file_lifetimes import FOREVER_MS, file_lifetimes, row_classes
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.rows.file_action_rows import as_removes
from tests.transaction.tables import START_MS, FakeTime, add, begin, change_metadata, new_store, schema, table

TRACKED = {"delta.enableRowTracking": "true", "delta.enableInCommitTimestamps": "true"}
ROWS = range(8)
STEPS = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.frozensets(st.sampled_from(ROWS))), max_size=7)
Steps = Sequence[tuple[int, int, frozenset[int]]]


def spans_of(steps: Steps) -> list[tuple[int, int, BitMap64]]:
    """Spans with the gaps before them, the lengths and the hidden rows of `steps`."""
    at, spans = 0, []
    for gap, length, hidden in steps:
        spans.append((at + gap, at + gap + length, BitMap64(hidden)))
        at += gap + length
    return spans


@given(STEPS)
def test_every_row_that_was_ever_hidden_has_just_the_intervals_in_which_it_was_not(steps: Steps) -> None:
    spans = spans_of(steps)
    classes = row_classes(spans)
    counted = [row for rows, _ in classes for row in rows]
    assert sorted(counted) == sorted({row for _, _, hidden in steps for row in hidden})
    assert len({intervals for _, intervals in classes}) == len(classes)
    for rows, intervals in classes:
        assert all(end < start for (_, end), (start, _) in pairwise(intervals)), "joined"
        for row in rows:
            seen = {n for start, end, hidden in spans for n in range(start, end) if row not in hidden}
            assert {n for start, end in intervals for n in range(start, end)} == seen


def changed(snapshot: Snapshot, time: FakeTime, added: Sequence[str] = (), removed: Sequence[str] = ()) -> Snapshot:
    """The version after, a second later."""
    time.now_ms += 1000
    transaction = slackwater.Transaction(snapshot, clock=time.clock())
    files = snapshot.files()
    for path in removed:
        transaction.remove(*as_removes(files.filter(pc.equal(files["path"], path)), time.now_ms))
    transaction.add(*(add(path) for path in added))
    return transaction.commit("WRITE").snapshot


def test_files_live_from_their_addition_to_their_removal_and_may_go_on_in_others() -> None:
    time = FakeTime()
    snapshot = table(properties=TRACKED, time=time)
    snapshot = changed(snapshot, time, ["1", "2"])
    snapshot = changed(snapshot, time, ["3"], ["1"])
    snapshot = changed(snapshot, time, [], ["2"])
    coverage, lifetimes = file_lifetimes(snapshot)
    assert (coverage.version, coverage.timestamp_ms, coverage.reason) == (0, START_MS, "its first version")
    found = {f.path: (f.intervals, f.may_continue, f.base_row_id, f.default_row_commit_version) for f in lifetimes}
    second = [START_MS + n * 1000 for n in range(4)]
    assert found == {
        "1": (((second[1], second[2]),), True, 0, 1),
        "2": (((second[1], second[3]),), False, 10, 1),
        "3": (((second[2], FOREVER_MS),), True, 20, 2),
    }


def test_a_removal_that_names_another_deletion_vector_ends_nothing() -> None:
    time = FakeTime()
    snapshot = table(properties={**TRACKED, "delta.enableDeletionVectors": "true"}, time=time)
    snapshot = changed(snapshot, time, ["1"])
    deleting = begin(snapshot, time)
    deleting.delete_rows(snapshot.files(), {"1": BitMap64([3])})
    snapshot = deleting.commit("DELETE").snapshot
    before = file_lifetimes(snapshot)
    actions = [
        {"commitInfo": {"inCommitTimestamp": START_MS + 9000}},
        {"remove": {"path": "1", "dataChange": True, "deletionTimestamp": START_MS}},
    ]
    data = b"".join(orjson.dumps(action) + b"\n" for action in actions)
    snapshot.store.put_if_absent(commit_path(3), data)
    snapshot = snapshot.update()
    assert snapshot.files()["path"].to_pylist() == ["1"]
    assert file_lifetimes(snapshot) == before


def test_rows_are_followed_through_a_comment_and_not_through_other_partitions() -> None:
    before = table({"id": "long", "p": "string"}, ("p",), TRACKED)
    said = schema({"id": "long", "p": "string"}, id={"comment": "c"})
    commented = change_metadata(before, replace(before.metadata, schema_string=said)).snapshot
    assert file_lifetimes(commented)[0].version == 0
    plain = change_metadata(commented, replace(before.metadata, partition_columns=())).snapshot
    coverage, _ = file_lifetimes(plain)
    assert (coverage.version, coverage.reason) == (
        2,
        "earlier versions have a schema or partitions that cannot be read as the table's",
    )


def test_a_property_whose_feature_the_table_does_not_support_tells_no_rows_apart() -> None:
    store, described = new_store(), table(properties=TRACKED).metadata.to_json()
    times, rows = ["inCommitTimestamp"], ["inCommitTimestamp", "rowTracking", "domainMetadata"]
    # The property is there from the start, the feature that it belongs to from the second version on.
    for version, supported in enumerate((times, rows, rows)):
        actions: list[Mapping[str, object]] = [
            {"commitInfo": {"inCommitTimestamp": START_MS + version, "operation": "WRITE"}},
            {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": supported}},
        ]
        actions += [described] if version == 0 else []
        store.put_if_absent(commit_path(version), b"".join(orjson.dumps(action) + b"\n" for action in actions))
    coverage, _ = file_lifetimes(Snapshot.open(store))
    assert (coverage.version, coverage.reason) == (1, "delta.enableRowTracking is on since then")


def test_what_was_there_when_the_coverage_begins_starts_then() -> None:
    time = FakeTime()
    snapshot = table(properties=TRACKED, time=time)
    snapshot = changed(snapshot, time, ["1", "2"])
    snapshot = changed(snapshot, time, [], ["1"])
    snapshot = changed(snapshot, time, ["3"])
    coverage, lifetimes = file_lifetimes(snapshot, START_MS + 2500)
    assert (coverage.version, coverage.timestamp_ms) == (2, START_MS + 2000)
    starts = {f.path: f.intervals[0][0] for f in lifetimes}
    assert starts == {"2": START_MS + 2000, "3": START_MS + 3000}
    with pytest.raises(TimestampOutOfRange, match="rows can be followed back to"):
        file_lifetimes(snapshot, START_MS - 1)


@pytest.mark.parametrize("missing", sorted(TRACKED))
def test_what_the_table_has_to_keep_is_named(missing: str) -> None:
    snapshot = table(properties={key: value for key, value in TRACKED.items() if key != missing})
    with pytest.raises(OperationNotAllowed, match=f"Set {missing} to true"):
        file_lifetimes(snapshot)
