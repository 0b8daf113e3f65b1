"""What a running stream says that it has left: counted against the files that it then reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.protocol.actions.file_names import commit_path
from slackwater.streams import backlog_metrics
from slackwater.streams.backlog_metrics import Outstanding
from slackwater.streams.offsets import SourceOffset
from slackwater.streams.source import TableSource
from tests.streams.test_source import FEED, NO_LIMITS, Log


def grown(commits: int, properties: dict[str, str] | None = None) -> Log:
    """A table of three files in each commit after the first, of 10 bytes."""
    log = Log(properties)
    for number in range(commits):
        log.commit([f"{number}{letter}" for letter in "abc"], size=10)
    return log


def left(source: TableSource, start: SourceOffset, max_files: int | None = None) -> Outstanding | None:
    """After a micro-batch that begins at `start`."""
    source.latest(start, max_files, None)
    return source.outstanding()


@given(
    before=st.integers(0, 4),
    after=st.integers(0, 6),
    limit=st.integers(1, 5),
    options=st.sampled_from([{}, {"exclude": "b$"}, {"starting_version": 0}, {"starting_version": 1}]),
)
def test_after_each_batch_it_is_what_the_following_ones_read(
    before: int, after: int, limit: int, options: dict[str, Any]
) -> None:
    log = grown(before + 1)
    source = log.source(**options)
    at = source.first()
    for number in range(after):
        log.commit([f"later-{number}{letter}" for letter in "abc"], size=10)
    told: list[Outstanding | None] = []
    read: list[int] = []
    while (end := source.latest(at, limit, None)) != at:
        told.append(source.outstanding())
        read.append(sum(0 if each.files is None else each.files.num_rows for each in source.files(at, end)))
        at = end
    assert told == [Outstanding(sum(read[n:]), 10 * sum(read[n:])) for n in range(1, len(read) + 1)]
    assert source.outstanding() == Outstanding()


def test_a_stream_that_is_started_again_counts_too_what_came_before_the_schema_it_reads_with() -> None:
    log = grown(2)
    source = log.source()
    amid = source.latest(source.first(), 2, None)
    for number in range(3):
        log.commit([f"later-{number}"], size=7)
    again = log.source()
    again.stop_at_newest()
    log.commit(["too late"])
    assert left(again, amid, 1) == Outstanding(6, 3 * 10 + 3 * 7)
    assert left(again, SourceOffset(source.table_id, 4), 1) == Outstanding(1, 7)


def test_rearranged_files_count_nothing_and_nothing_is_known_behind_a_change_that_ends_the_stream() -> None:
    log = grown(1)
    start = log.source().latest(log.source().first(), *NO_LIMITS)
    log.commit(["together"], ["0a", "0b"], data_change=False)
    log.commit(["new"], size=5)
    assert left(log.source(), replace(start, version=0)) == Outstanding()
    assert left(log.source(), replace(start, version=1), 1) == Outstanding(2 + 1, 2 * 10 + 5)
    log.commit(["changed"], ["0c"], size=3)
    assert left(log.source(), replace(start, version=1), 1) is None
    assert left(log.source(ignore_changes=True), replace(start, version=1), 1) == Outstanding(4, 28)
    assert left(log.source(skip_change_commits=True), replace(start, version=1), 1) == Outstanding(3, 25)


def test_of_a_change_feed_the_files_that_tell_of_changes_count() -> None:
    log = grown(1, FEED)
    source = log.source(change_feed=True)
    start = source.first()
    log.commit(["anew"], size=8)
    log.commit([], ["0a"])
    found = left(source, start, 1)
    assert found is not None
    assert (found.files, found.size_bytes >= 2 * 10 + 8) == (4, True)


def test_commits_that_are_lost_are_not_known_where_they_matter_and_count_nothing_where_not() -> None:
    log = grown(4)
    start = SourceOffset(log.snapshot.metadata.id, 1)
    source, careless = log.source(), log.source(fail_on_data_loss=False)
    source.latest(start, 1, None)
    log.snapshot.store.delete([commit_path(2)])
    source.newest()
    assert source.outstanding() is None
    assert left(careless, start, 1) == Outstanding(2 + 6, 80)


def test_only_so_many_commits_are_read_for_a_batch_and_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog_metrics, "_MOST_COMMITS", 2)
    log = grown(7)
    source = log.source()
    read: list[int] = []
    looked_at = source._looked_at

    def counting(commits: object) -> object:
        read.extend(each.version for each in commits)  # type: ignore[attr-defined]
        return looked_at(commits)  # type: ignore[arg-type]

    monkeypatch.setattr(source, "_looked_at", counting)
    start = SourceOffset(source.table_id, 1)
    told: list[Outstanding | None] = []
    for _ in range(6):
        told.append(left(source, start, 1))
        start = source.latest(start, 1, None)
    # Two more commits at each batch, and soon all of them.
    assert told == [None, None, *(Outstanding(files, 10 * files) for files in (18, 17, 16, 15))]
    assert read == [2, 3, 4, 5, 6, 7]


def test_a_commit_that_is_too_large_is_not_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    log = grown(3)
    size_bytes = log.snapshot.table.list_log(2).commits[2].size_bytes
    assert size_bytes > 0
    monkeypatch.setattr(backlog_metrics, "_MOST_BYTES", size_bytes - 1)
    source = log.source()
    assert left(source, SourceOffset(source.table_id, 1), 1) is None
    # One that the stream is amid was read.
    assert left(source, SourceOffset(source.table_id, 3), 1) == Outstanding(2, 20)


def test_what_a_report_says_is_read_again() -> None:
    told = Outstanding(3, 40).metrics()
    assert told == {"numFilesOutstanding": "3", "numBytesOutstanding": "40"}
    assert Outstanding.of_metrics(told) == Outstanding(3, 40)
    for strange in (None, {}, {"numFilesOutstanding": "3"}, {**told, "numBytesOutstanding": "many"}):
        assert Outstanding.of_metrics(strange) is None
