"""How far a query is behind its tables: counted against the files that the source itself reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.errors import CorruptLog
from slackwater.scan.snapshot import Snapshot
from slackwater.storage import open_store
from slackwater.streams.backlog import Backlog, SinkState, backlog, sink_state
from slackwater.streams.checkpoint import PlannedBatch, StreamCheckpoint, read_checkpoint
from slackwater.streams.offsets import SourceOffset
from slackwater.transaction.log_maintenance import checkpoint_newest
from tests.streams.checkpoints import copied, cut, set_back
from tests.streams.test_source import Log, batches, paths


def left(log: Log, version: int, index: int = -1, is_initial: bool = False) -> Backlog:
    return backlog(log.snapshot, SourceOffset(log.snapshot.metadata.id, version, index, is_initial))


def grown(commits: int = 3) -> Log:
    """A table of three files in each commit after the first."""
    log = Log()
    for number in range(commits):
        log.commit([f"{number}{letter}" for letter in "abc"], size=10)
    return log


def test_commits_after_an_offset_are_counted() -> None:
    log = grown()
    assert left(log, 4) == Backlog(3)
    assert left(log, 2) == Backlog(3, versions=2, files=6, size_bytes=60)
    assert left(log, 0) == Backlog(3, versions=4, files=9, size_bytes=90)


def test_a_commit_that_is_read_in_part_counts_with_what_is_left() -> None:
    log = grown()
    assert left(log, 2, 0) == Backlog(3, versions=2, files=5, size_bytes=50)
    assert left(log, 2, 2) == Backlog(3, versions=1, files=3, size_bytes=30)


def test_a_snapshot_that_is_read_in_part_counts_with_what_is_left() -> None:
    log = grown()
    assert left(log, 3, is_initial=True) == Backlog(3, versions=1, files=9, size_bytes=90)
    assert left(log, 3, 6, is_initial=True) == Backlog(3, versions=1, files=2, size_bytes=20)
    assert left(log, 3, 8, is_initial=True) == Backlog(3)
    assert left(log, 2, 4, is_initial=True) == Backlog(3, versions=2, files=4, size_bytes=40)


def test_files_that_change_no_rows_are_not_counted() -> None:
    log = grown()
    log.commit(["together"], ["0a", "0b"], data_change=False)
    log.commit(["anew"], ["1a"], size=7)
    log.commit([], ["1b"])
    assert left(log, 4) == Backlog(6, versions=3, files=1, size_bytes=7)


def test_what_is_left_is_what_the_source_would_read() -> None:
    log = grown(4)
    source = log.source(starting_version=0)
    everything = source.latest(source.first(), None, None)
    steps: Iterator[tuple[SourceOffset, list[str]]] = batches(log.source(starting_version=0), (2, None))
    at = [end for end, _ in steps]
    assert len(at) == 6
    assert [backlog(log.snapshot, end).files for end in at] == [len(paths(source, end, everything)) for end in at]
    assert [backlog(log.snapshot, end).files for end in at] == [10, 8, 6, 4, 2, 0]


def _without(log: Log, *versions: int) -> None:
    log.snapshot.store.delete([f"_delta_log/{version:020d}.json" for version in versions])
    log.snapshot = Snapshot.open(log.snapshot.store)


def test_commits_that_were_cleaned_up_before_they_were_read_are_told() -> None:
    log = grown()
    checkpoint_newest(log.snapshot, log.time.now_ms)
    log.commit(["late"], size=5)
    _without(log, 0, 1, 2)
    assert left(log, 1) == Backlog(4, versions=4, files=4, size_bytes=35, lost=1)
    assert left(log, 2, 1) == Backlog(4, versions=3, files=4, size_bytes=35, lost=2)
    assert left(log, 3) == Backlog(4, versions=2, files=4, size_bytes=35)
    assert left(log, 1, 0, is_initial=True) == Backlog(4, versions=4, files=4, size_bytes=35, lost=1)


def test_a_table_that_was_set_back_is_told() -> None:
    assert left(grown(), 5) == Backlog(3, is_ahead=True)


def test_a_torn_commit_is_named() -> None:
    log = grown()
    log.snapshot.store.put(f"_delta_log/{2:020d}.json", b"{")
    with pytest.raises(CorruptLog, match=f"{2:020d}.json"):
        left(log, 1)


def _checkpoint(planned: int | None, done: int | None) -> StreamCheckpoint:
    batch = [None if each is None else PlannedBatch(each, 0, 0, ()) for each in (planned, done)]
    return StreamCheckpoint("", "q", batch[0], batch[1])


@pytest.mark.parametrize(
    ("planned", "done", "held", "state"),
    [
        (None, None, None, SinkState.NOTHING),
        (0, None, None, SinkState.NOTHING),
        (4, 4, None, SinkState.NOTHING),
        (0, None, 0, SinkState.HAS_NEXT),
        (4, 3, 4, SinkState.HAS_NEXT),
        (4, 4, 4, SinkState.IN_STEP),
        (4, 3, 3, SinkState.IN_STEP),
        (4, 4, 3, SinkState.BEHIND),
        (4, 3, 2, SinkState.BEHIND),
        (4, 4, 5, SinkState.AHEAD),
        (4, 3, 5, SinkState.AHEAD),
        (None, None, 0, SinkState.AHEAD),
    ],
)
def test_what_the_sink_has_against_the_checkpoint(
    planned: int | None, done: int | None, held: int | None, state: SinkState
) -> None:
    assert sink_state(_checkpoint(planned, done), held) is state


@pytest.mark.parametrize(
    ("planned", "done", "version", "state"),
    [
        (3, 3, 3, SinkState.IN_STEP),
        (3, 2, 3, SinkState.HAS_NEXT),
        (3, 2, 2, SinkState.IN_STEP),
        (3, 3, 1, SinkState.BEHIND),
        (1, 1, 3, SinkState.AHEAD),
    ],
)
def test_a_sink_at_each_point_of_a_restart(
    tmp_path: Path, planned: int, done: int, version: int, state: SinkState
) -> None:
    recorded = copied("ours", tmp_path)
    cut(recorded, planned, done)
    set_back(recorded / "sink", version)
    checkpoint = read_checkpoint(open_store(recorded / "checkpoint"))
    held = Snapshot.load(str(recorded / "sink")).transactions[checkpoint.query_id].version
    assert sink_state(checkpoint, held) is state


def test_many_commits_are_counted_each_once() -> None:
    log = Log()
    for number in range(130):
        log.commit([f"f{number}"], size=2)
    assert left(log, 1) == Backlog(130, versions=130, files=130, size_bytes=260)
    _without(log, 70)
    assert left(log, 1) == Backlog(130, versions=130, files=129, size_bytes=258, lost=70)
