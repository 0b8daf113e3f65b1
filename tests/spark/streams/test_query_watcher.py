"""Queries that are watched: what is told of a micro-batch, and what the line says."""

from __future__ import annotations

import io
import json
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

pytest.importorskip("pyspark")

from pyspark.sql.streaming.listener import QueryProgressEvent, QueryTerminatedEvent

import slackwater
from slackwater.errors import InvalidArgument
from slackwater.spark.progress.progress import Progress, ProgressLine
from slackwater.spark.streams.query_watcher import QueryWatcher, StreamBatch

COPY, FILES = "5d5d7a16-56bc-4ae3-a2a3-0f5f1d2f39a2", "9d2d7a16-56bc-4ae3-a2a3-0f5f1d2f39a2"


def offset(version: int, index: int = -1) -> dict[str, Any]:
    return {"sourceVersion": 3, "reservoirId": "t", "reservoirVersion": version, "index": index}


LEFT = {"numFilesOutstanding": "3", "numBytesOutstanding": "4096"}


def source(rows: int, end: Any, latest: Any, **more: Any) -> dict[str, Any]:
    rates = {"inputRowsPerSecond": 1.0, "processedRowsPerSecond": 1.0}
    offsets = {"startOffset": None, "endOffset": end, "latestOffset": latest}
    return {"description": "a source", "numInputRows": rows, **offsets, **rates, **more}


def done(query: str, number: int, *sources: dict[str, Any], name: str | None = None) -> QueryProgressEvent:
    """Spark's report of a micro-batch."""
    report: dict[str, Any] = {
        "id": query,
        "runId": query,
        "name": name,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "batchId": number,
    }
    report |= {"batchDuration": 250, "durationMs": {}, "stateOperators": [], "sources": list(sources)}
    report |= {"sink": {"description": "ForeachBatchSink", "numOutputRows": -1}, "processedRowsPerSecond": 12.5}
    return QueryProgressEvent.fromJson({"progress": report})


def ended(query: str) -> QueryTerminatedEvent:
    return QueryTerminatedEvent.fromJson(
        {"id": query, "runId": query, "exception": None, "errorClassOnException": None}
    )


class Streams:
    """The queries of a session, as far as listeners go."""

    def __init__(self) -> None:
        self.listeners: list[Any] = []

    def addListener(self, listener: Any) -> None:  # noqa: N802
        self.listeners.append(listener)

    def removeListener(self, listener: Any) -> None:  # noqa: N802
        self.listeners = [each for each in self.listeners if each is not listener]


@pytest.fixture
def session() -> Any:
    return SimpleNamespace(streams=Streams())


def test_of_a_micro_batch_the_rows_the_time_and_the_versions_behind_are_told(session: Any) -> None:
    told: list[StreamBatch] = []
    with QueryWatcher(session, Progress(), told.append).start() as watching:
        assert session.streams.listeners == [watching]
        watching.onQueryProgress(
            done(COPY, 7, source(3, offset(4), offset(9)), source(2, offset(4), offset(4)), name="c")
        )
        # A version that is read in part is still to be read; another source has no versions.
        watching.onQueryProgress(done(COPY, 8, source(1, json.dumps(offset(9, 2)), json.dumps(offset(10)))))
        watching.onQueryProgress(done(FILES, 0, source(1, {"logOffset": 0}, None)))
    assert session.streams.listeners == []
    assert told == [
        StreamBatch("c", COPY, 7, 5, 12.5, 250, 5),
        StreamBatch(COPY, COPY, 8, 1, 12.5, 250, 1),
        StreamBatch(FILES, FILES, 0, 1, 12.5, 250, None),
    ]


def test_the_files_and_bytes_that_are_left_are_told_where_each_table_says_them() -> None:
    by_metrics = source(1, offset(4), offset(9), metrics=LEFT)
    # A source in Python has no metrics.
    by_offset = source(1, offset(4), offset(9) | LEFT)
    silent, other = source(1, offset(4), offset(9)), source(1, {"logOffset": 0}, None)

    def told(*sources: dict[str, Any]) -> tuple[int | None, int | None]:
        batch = StreamBatch.of(done(COPY, 0, *sources).progress)
        return batch.files_behind, batch.bytes_behind

    assert told(by_metrics) == told(by_offset) == told(by_metrics, other) == (3, 4096)
    assert told(by_metrics, by_offset) == (6, 8192)
    assert told(silent) == told(by_metrics, silent) == told(other) == (None, None)


def test_the_line_says_of_each_query_its_last_batch_until_it_ends(session: Any) -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=150, _environ={"TERM": "xterm"})
    line = ProgressLine("STREAMS", console, clock=lambda: 0.0)
    watching = QueryWatcher(session, line)
    watching.onQueryProgress(done(COPY, 7, source(1204, offset(4), offset(9)), name="copy"))
    assert "copy: batch 7, 1,204 rows, 5 versions behind" in line.line().plain
    watching.onQueryProgress(done(FILES, 0, source(1, {"logOffset": 0}, None), name="files"))
    assert "files: batch 0, 1 row; copy: batch 7" in line.line().plain
    watching.onQueryProgress(done(COPY, 8, source(9, offset(8), offset(9), metrics=LEFT), name="copy"))
    assert "copy: batch 8, 9 rows, 1 version behind, 3 files of 4.0 KiB left" in line.line().plain
    watching.onQueryTerminated(ended(COPY))
    assert "copy" not in line.line().plain
    watching.stop()
    watching.stop()
    assert "copy: batch 8, 9 rows, 1 version behind" in written.getvalue()


def test_what_the_function_raises_is_logged_and_the_next_batch_is_told(
    session: Any, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[int] = []

    def gauge(batch: StreamBatch) -> None:
        if batch.batch_id == 0:
            raise ValueError("no gauge of that name")
        told.append(batch.batch_id)

    watching = QueryWatcher(session, Progress(), gauge)
    with caplog.at_level(logging.ERROR):
        for number in range(2):
            watching.onQueryProgress(done(COPY, number))
    assert told == [1]
    assert "no gauge of that name" in caplog.text


def test_what_is_no_function_is_refused(session: Any) -> None:
    told: Any = "print"
    with pytest.raises(InvalidArgument, match="a function of one argument for micro-batches, found str"):
        slackwater.watch(session, told)
    assert session.streams.listeners == []
