"""A table as the source of a stream: where it begins, how far micro-batches go, and which files they have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

import slackwater
from slackwater.errors import (
    ChangeFeedNotEnabled,
    CorruptTable,
    SlackwaterError,
    TimestampOutOfRange,
    UnsupportedFeature,
    VersionNotFound,
)
from slackwater.protocol.actions.file_names import commit_path
from slackwater.protocol.features.column_mapping import physical_name
from slackwater.scan.snapshot import Snapshot
from slackwater.streams.offsets import SourceOffset
from slackwater.streams.options import StreamOptions
from slackwater.streams.source import TableSource
from slackwater.transaction.log_maintenance import checkpoint
from tests.transaction.tables import START_MS, FakeTime, add, append, begin, change_metadata, removes, schema, table

NO_LIMITS = (None, None)
FEED = {"delta.enableChangeDataFeed": "true"}


class Log:
    """A table that grows: each step is a commit of its own, a second after the one before."""

    def __init__(self, properties: dict[str, str] | None = None, partition_by: Sequence[str] = ()) -> None:
        self.time = FakeTime()
        columns = {"id": "long", **dict.fromkeys(partition_by, "string")}
        ict = {"delta.enableInCommitTimestamps": "true"}
        self.snapshot = table(columns, partition_by, {**ict, **(properties or {})}, time=self.time)

    def commit(
        self, added: Sequence[str] = (), removed: Sequence[str] = (), data_change: bool = True, size: int = 100
    ) -> int:
        self.time.now_ms += 1000
        transaction = slackwater.Transaction(self.snapshot, clock=self.time.clock())
        transaction.remove(*removed, data_change=data_change)
        transaction.add(*(replace(add(path, data_change=data_change), size=size) for path in added))
        self.snapshot = transaction.commit("WRITE").snapshot
        return self.snapshot.version

    def alter(self, columns: dict[str, str]) -> None:
        metadata = replace(self.snapshot.metadata, schema_string=schema(columns))
        self.time.now_ms += 1000
        self.snapshot = change_metadata(self.snapshot, metadata).snapshot

    def source(self, read: Snapshot | None = None, **options: Any) -> TableSource:
        snapshot = read or self.snapshot
        return TableSource(
            snapshot.table,
            snapshot.configuration,
            snapshot.version,
            StreamOptions(**options),
        )


def paths(source: TableSource, start: SourceOffset, end: SourceOffset) -> list[str]:
    found: list[str] = []
    for batch in source.files(start, end):
        found += [c.path for c in batch.changes] if batch.files is None else batch.files["path"].to_pylist()
    return found


def batches(
    source: TableSource, limits: tuple[int | None, int | None] = NO_LIMITS, start: SourceOffset | None = None
) -> Iterator[tuple[SourceOffset, list[str]]]:
    """The micro-batches until there is nothing more, as Spark asks for them; offsets go through their JSON."""
    at = start or source.first()
    while (end := SourceOffset.from_json(source.latest(at, *limits).to_json())) != at:
        yield end, paths(source, at, end)
        at = end


def test_a_stream_begins_with_the_whole_table_and_goes_on_with_each_commit() -> None:
    log = Log()
    log.commit(["a", "b"])
    log.commit(["c"])
    source = log.source()
    first, *more = batches(source)
    assert (first[0].version, first[0].index, first[0].is_initial, sorted(first[1])) == (3, -1, False, ["a", "b", "c"])
    assert more == []
    log.commit(["d"])
    assert [found for _, found in batches(source, start=first[0])] == [["d"]]


def test_an_offset_is_the_one_that_delta_spark_writes() -> None:
    log = Log()
    log.commit(["a", "b"])
    source = log.source()
    half = source.latest(source.first(), 1, None)
    assert half.to_json() == {
        "sourceVersion": 1,
        "reservoirId": log.snapshot.metadata.id,
        "reservoirVersion": 1,
        "index": 0,
        "isStartingVersion": True,
    }
    assert source.latest(half, None, None).to_json()["isStartingVersion"] is False


@pytest.mark.parametrize(
    ("node", "kind"),
    [
        ({"sourceVersion": 9}, UnsupportedFeature),
        ({}, CorruptTable),
        ({"sourceVersion": 1, "reservoirId": "x", "reservoirVersion": "1", "index": 0}, CorruptTable),
    ],
)
def test_an_offset_that_cannot_be_followed_is_refused(node: dict[str, object], kind: type[SlackwaterError]) -> None:
    with pytest.raises(kind):
        SourceOffset.from_json(node)


def test_the_base_index_of_newer_releases_is_that_of_older_ones() -> None:
    node = {"sourceVersion": 3, "reservoirId": "x", "reservoirVersion": 1, "index": -100, "isStartingVersion": False}
    assert SourceOffset.from_json(node) == SourceOffset("x", 1)


STEPS = st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=6)


@given(STEPS, STEPS, st.integers(1, 4) | st.none(), st.integers(1, 350) | st.none(), st.booleans(), st.booleans())
def test_every_file_comes_once_whatever_the_limits_and_wherever_it_is_started_again(
    before: list[tuple[int, bool]],
    after: list[tuple[int, bool]],
    max_files: int | None,
    max_bytes: int | None,
    from_start: bool,
    restarts: bool,
) -> None:
    log = Log()
    names = iter(range(1000))
    expected: list[str] = []
    content: dict[str, str] = {}

    def grow(steps: list[tuple[int, bool]]) -> None:
        for count, rearranges in steps:
            added = [f"f{next(names):03}" for _ in range(count)]
            if rearranges:
                live = log.snapshot.files()["path"].to_pylist()
                written = [f"r{next(names):03}"] if live else []
                content.update({new: content.get(live[0], live[0]) for new in written})
                log.commit(written, live[:1], data_change=False)
            else:
                log.commit(added)
                expected.extend(added)

    grow(before)
    options: dict[str, Any] = {"starting_version": 0} if from_start else {}
    initial = log.snapshot
    source = log.source(**options)
    first = source.first()
    grow(after)
    at, found = first, []
    while True:
        end = source.latest(at, max_files, max_bytes)
        if end == at:
            break
        batch = paths(source, at, end)
        assert max_files is None or len(batch) <= max_files
        assert max_bytes is None or 100 * (len(batch) - 1) < max_bytes
        if restarts:
            # A batch that was planned and not carried out is the same one in another process.
            again = log.source(initial, **options)
            if at == first:
                again.first()
            redone = paths(again, again.first() if at == first else at, end)
            # What it began with is read as of its end, when the same rows may be in other files.
            assert sorted(content.get(p, p) for p in redone) == sorted(content.get(p, p) for p in batch)
            source = log.source(initial, **options)
        found += batch
        at = SourceOffset.from_json(end.to_json())
    assert sorted(content.get(path, path) for path in found) == sorted(expected)
    assert at.version == log.snapshot.version + 1 or log.snapshot.version + 1 == first.version


def test_a_stream_that_begins_with_latest_has_what_comes_also_when_its_first_batch_is_done_again() -> None:
    log = Log()
    log.commit(["a"])
    read = log.snapshot
    source = log.source(starting_version="latest")
    first = source.first()
    assert source.latest(first, *NO_LIMITS) == first
    log.commit(["b"])
    end = SourceOffset.from_json(source.latest(first, *NO_LIMITS).to_json())
    assert paths(source, first, end) == ["b"]
    log.commit(["c"])
    again = log.source(read, starting_version="latest")
    assert paths(again, again.first(), end) == ["b"]
    assert paths(again, end, again.latest(end, *NO_LIMITS)) == ["c"]


def test_a_first_batch_that_is_done_again_has_the_version_that_it_had() -> None:
    log = Log()
    log.commit(["a", "b"])
    read = log.snapshot
    source = log.source()
    half, whole = source.latest(source.first(), 1, None), source.latest(source.first(), *NO_LIMITS)
    expected = paths(source, source.first(), half)
    log.commit(["0"])
    again = log.source(read)
    assert paths(again, again.first(), half) == expected
    fresh = log.source(read)
    fresh.first()
    assert sorted(paths(fresh, fresh.first(), whole)) == ["a", "b"]


def test_a_start_may_be_a_version_or_a_time_and_is_inclusive() -> None:
    log = Log()
    for name in "abc":
        log.commit([name])
    assert [f for _, f in batches(log.source(starting_version=2))] == [["b", "c"]]
    assert [f for _, f in batches(log.source(starting_ms=START_MS + 2000))] == [["b", "c"]]
    assert [f for _, f in batches(log.source(starting_ms=START_MS + 2001))] == [["c"]]
    assert [f for _, f in batches(log.source(starting_ms=0))] == [["a", "b", "c"]]


def test_a_start_to_come_is_refused() -> None:
    log = Log()
    log.commit(["a"])
    with pytest.raises(VersionNotFound, match="cannot begin with version 2: the newest is 1"):
        log.source(starting_version=2).first()
    with pytest.raises(TimestampOutOfRange, match="after the last commit"):
        log.source(starting_ms=START_MS + 1001).first()


def test_files_of_a_rearrangement_do_not_come_again() -> None:
    log = Log()
    log.commit(["a", "b"])
    source = log.source()
    end = source.latest(source.first(), *NO_LIMITS)
    log.commit(["c"], ["a", "b"], data_change=False)
    log.commit(["d"])
    assert [f for _, f in batches(source, start=end)] == [["d"]]


CHANGES: list[tuple[dict[str, Any], str, str, list[str] | None, list[str] | None]] = [
    ({}, "ignoreDeletes", "DELTA_SOURCE_IGNORE_DELETE", None, None),
    ({"ignore_deletes": True}, "skipChangeCommits", "DELTA_SOURCE_TABLE_IGNORE_CHANGES", [], None),
    ({"ignore_changes": True}, "", "", [], ["b2"]),
    ({"skip_change_commits": True}, "", "", [], []),
]


@pytest.mark.parametrize(("options", "told", "error_class", "after_delete", "after_update"), CHANGES)
def test_commits_that_remove_rows_are_refused_skipped_or_read_as_the_options_say(
    options: dict[str, bool],
    told: str,
    error_class: str,
    after_delete: list[str] | None,
    after_update: list[str] | None,
) -> None:
    log = Log()
    log.commit(["a", "b"])
    read = log.snapshot
    start = log.source().newest()
    log.commit([], ["a"])
    source = log.source(read, **options)
    if after_delete is None:
        with pytest.raises(UnsupportedFeature, match=told) as caught:
            source.latest(start, *NO_LIMITS)
        assert caught.value.error_class == error_class
        return
    assert paths(source, start, source.latest(start, *NO_LIMITS)) == after_delete
    log.commit(["b2"], ["b"])
    if after_update is None:
        with pytest.raises(UnsupportedFeature, match=told) as caught:
            source.latest(start, *NO_LIMITS)
        assert caught.value.error_class == error_class
    else:
        assert paths(source, start, source.latest(start, *NO_LIMITS)) == after_update


def test_files_that_an_expression_excludes_are_neither_read_nor_counted() -> None:
    log = Log()
    log.commit(["keep1", "drop1", "drop2", "keep2"])
    log.commit(["drop3", "keep3"])
    starts: list[dict[str, Any]] = [{}, {"starting_version": 0}]
    for options in starts:
        found = [f for _, f in batches(log.source(exclude="^drop", **options), (1, None))]
        assert sorted(chain.from_iterable(found)) == ["keep1", "keep2", "keep3"]
        assert max(map(len, found)) == 1


def test_commits_that_were_cleaned_up_before_they_were_read_are_told() -> None:
    log = Log()
    log.commit(["a"])
    start = log.source().newest()
    for name in "bcd":
        log.commit([name])
    log.snapshot.store.delete([commit_path(2)])
    with pytest.raises(VersionNotFound, match=r"commit of version 2.*begins with 3.*failOnDataLoss") as caught:
        log.source().latest(start, *NO_LIMITS)
    assert caught.value.error_class == "DELTA_MISSING_FILES_UNEXPECTED_VERSION"
    lenient = log.source(fail_on_data_loss=False)
    end = lenient.latest(start, *NO_LIMITS)
    assert paths(lenient, start, end) == ["c", "d"]


def test_a_start_that_was_cleaned_up_is_refused() -> None:
    log = Log()
    for name in "abc":
        log.commit([name])
    checkpoint(log.snapshot, log.time.now_ms)
    log.snapshot.store.delete([commit_path(version) for version in range(2)])
    with pytest.raises(VersionNotFound, match=r"cannot begin with version 1: the log was cleaned up.*oldest.*is 2"):
        log.source(starting_version=1).first()
    assert [found for _, found in batches(log.source(starting_version=2))] == [["b", "c"]]


def test_another_table_at_the_same_place_is_refused() -> None:
    log, other = Log(), Log()
    log.commit(["a"])
    start = log.source().newest()
    with pytest.raises(CorruptTable, match="Begin with a new checkpoint") as caught:
        other.source().latest(start, *NO_LIMITS)
    assert caught.value.error_class == "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"


def test_a_table_that_was_set_back_is_told_from_one_without_news() -> None:
    log = Log()
    for name in "abc":
        log.commit([name])
    source = log.source()
    end = source.newest()
    assert source.latest(end, *NO_LIMITS) == end
    log.snapshot.store.delete([commit_path(v) for v in (2, 3)])
    with pytest.raises(VersionNotFound, match="restored from a copy"):
        source.latest(end, *NO_LIMITS)


def test_what_is_committed_after_an_available_now_run_began_waits_for_the_next() -> None:
    log = Log()
    log.commit(["a"])
    source = log.source()
    source.stop_at_newest()
    log.commit(["b"])
    ((end, found),) = batches(source)
    assert (found, end.version) == (["a"], 2)


def test_a_schema_that_grew_stops_the_stream_until_it_is_started_again() -> None:
    log = Log()
    log.commit(["a"])
    read, start = log.snapshot, log.source().newest()
    log.alter({"id": "long", "more": "string"})
    log.commit(["b"])
    with pytest.raises(UnsupportedFeature, match=r"version 2 .* another schema") as caught:
        log.source(read).latest(start, *NO_LIMITS)
    assert caught.value.error_class == "DELTA_SCHEMA_CHANGED_WITH_VERSION"
    assert [f for _, f in batches(log.source(), start=start)] == [["b"]]


def test_a_schema_that_lost_a_column_is_read_with_the_older_one() -> None:
    log = Log(partition_by=())
    log.alter({"id": "long", "more": "string"})
    log.commit(["a"])
    read, start = log.snapshot, log.source().newest()
    log.alter({"id": "long"})
    log.commit(["b"])
    assert [f for _, f in batches(log.source(read), start=start)] == [["b"]]


def test_a_feed_has_inserts_deletes_and_change_files_and_needs_to_be_enabled() -> None:
    log = Log(FEED)
    log.commit(["a", "b"])
    log.commit(["c"], ["a"])
    source = log.source(change_feed=True, starting_version=0)
    found = [(c.path, c.kind, c.version) for b in source.files(source.first(), source.newest()) for c in b.changes]
    assert found == [("a", "insert", 1), ("b", "insert", 1), ("c", "insert", 2), ("a", "delete", 2)]
    times = {b.version: b.timestamp_ms for b in source.files(source.first(), source.newest())}
    assert times == {1: START_MS + 1000, 2: START_MS + 2000}
    plain = Log()
    plain.commit(["a"])
    with pytest.raises(ChangeFeedNotEnabled, match="not enabled in version 0"):
        plain.source(change_feed=True, starting_version=0).first()


@pytest.mark.parametrize("partition_by", [("p",), ()])
def test_a_feed_does_not_read_files_by_other_partitions_than_they_were_written_in(partition_by: Sequence[str]) -> None:
    before = table({"id": "long", "p": "string", "q": "string"}, partition_by, FEED)
    before = append(before, add("a", partition=dict.fromkeys(partition_by, "x"))).snapshot
    transaction = begin(before)
    transaction.set_metadata(replace(before.metadata, partition_columns=("q",)))
    transaction.remove(removes(before, "a"))
    transaction.add([add("b", partition={"q": "y"})])
    log = Log()
    log.snapshot = append(transaction.commit("WRITE").snapshot, add("c", partition={"q": "z"})).snapshot
    source = log.source(change_feed=True, starting_version=2)
    with pytest.raises(UnsupportedFeature, match=r"version 2 partitioned the table by .* \(startingVersion = 3\)"):
        source.latest(source.first(), *NO_LIMITS)
    source = log.source(change_feed=True, starting_version=3)
    assert [c.path for b in source.files(source.first(), source.newest()) for c in b.changes] == ["c"]


def test_a_feed_does_not_read_deleted_rows_by_columns_that_took_the_place_of_theirs() -> None:
    log = Log({**FEED, "delta.columnMapping.mode": "name"})
    log.commit(["a"])
    before = log.snapshot
    other = before.metadata.schema_string.replace(physical_name(before.schema.fields[0], "name"), "col-other")
    transaction = begin(before)
    transaction.set_metadata(replace(before.metadata, schema_string=other))
    transaction.remove(removes(before, "a"))
    log.snapshot = transaction.commit("RESTORE").snapshot
    source = log.source(change_feed=True, starting_version=2)
    with pytest.raises(UnsupportedFeature, match=r"replaced the column id by another one.* \(startingVersion = 3\)"):
        source.latest(source.first(), *NO_LIMITS)


def test_a_type_that_was_widened_before_is_read_and_one_that_is_widened_now_stops_the_stream() -> None:
    log = Log({"delta.enableTypeWidening": "true"})
    log.alter({"id": "long", "n": "integer"})
    log.commit(["a"])
    narrow, start = log.snapshot, log.source().newest()
    log.alter({"id": "long", "n": "long"})
    log.commit(["b"])
    assert [f for _, f in batches(log.source(starting_version=0))] == [["a", "b"]]
    with pytest.raises(UnsupportedFeature, match="another schema"):
        log.source(narrow).latest(start, *NO_LIMITS)


def test_a_table_that_asks_for_what_is_not_known_stops_the_stream() -> None:
    log = Log()
    log.commit(["a"])
    source = log.source()
    end = source.newest()
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["new"], "writerFeatures": ["new"]}
    log.snapshot.store.put_if_absent(commit_path(2), orjson.dumps({"protocol": protocol}))
    with pytest.raises(UnsupportedFeature, match="new"):
        source.latest(end, *NO_LIMITS)
