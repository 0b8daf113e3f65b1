"""Monitoring of a session's running queries: a progress line, and a callback for each micro-batch.

Source: Spark's StreamingQueryListener, the origin of the reports.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from slackwater.errors import InvalidArgument
from slackwater.html.number_format import counted, short_bytes
from slackwater.spark.progress.progress import Progress
from slackwater.streams.backlog_metrics import Outstanding

_log = logging.getLogger(__name__)
_VERSION, _TABLE = "reservoirVersion", "reservoirId"


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """A finished micro-batch of a query.

    `query` is the query's name, or else its id. `rows` is the number of rows read, `rows_per_second` their rate during
    the batch. `versions_behind` is the number of unread versions, partly read ones included, of the Delta source with
    the greatest backlog; None without Delta sources. `files_behind` and `bytes_behind` are the total backlog of the
    Delta sources when the batch was planned. Both are None unless known for each source.
    """

    query: str
    query_id: str
    batch_id: int
    rows: int
    rows_per_second: float
    duration_ms: int
    versions_behind: int | None
    files_behind: int | None = None
    bytes_behind: int | None = None

    @staticmethod
    def of(report: Any) -> StreamBatch:
        """Return the batch in `report`, a StreamingQueryProgress of PySpark."""
        behind = [found for source in report.sources if (found := _versions_behind(source)) is not None]
        left = _outstanding(report.sources)
        return StreamBatch(
            report.name or str(report.id),
            str(report.id),
            report.batchId,
            sum(source.numInputRows for source in report.sources),
            report.processedRowsPerSecond or 0.0,
            report.batchDuration,
            max(behind, default=None),
            None if left is None else left.files,
            None if left is None else left.size_bytes,
        )

    def __str__(self) -> str:
        said = [f"{self.query}: batch {self.batch_id}", counted(self.rows, "row")]
        if self.versions_behind is not None:
            said.append(f"{counted(self.versions_behind, 'version')} behind")
        if self.files_behind and self.bytes_behind is not None:
            said.append(f"{counted(self.files_behind, 'file')} of {short_bytes(self.bytes_behind)} left")
        return ", ".join(said)


class QueryWatcher(StreamingQueryListener):
    """Monitor of a session's queries until `stop`, or until the end of a `with` block."""

    def __init__(
        self, spark: SparkSession, progress: Progress, told: Callable[[StreamBatch], object] | None = None
    ) -> None:
        # In Connect, the manager object has the listeners.
        self._queries = spark.streams
        self._told = told
        self._lock = threading.Lock()
        self._shown: dict[str, StreamBatch] = {}
        self._held = ExitStack()
        self._stage = ExitStack()
        self._progress = self._held.enter_context(progress)

    def start(self) -> QueryWatcher:
        """Register this listener with Spark and return it."""
        self._queries.addListener(self)
        return self

    def __enter__(self) -> QueryWatcher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<Watching {counted(len(self._shown), 'query', 'queries')}: stop() ends it>"

    def stop(self) -> None:
        """Stop the monitoring. A repeated call has no effect."""
        # A stopped session has no listeners.
        with suppress(Exception):
            self._queries.removeListener(self)
        with self._lock:
            self._shown = {}
            self._stage.close()
            self._held.close()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  (the name PySpark has)
        """Implement Spark's listener."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802  (the name PySpark has)
        """Implement Spark's listener: a micro-batch is finished, or the query was idle for a while."""
        try:
            batch = StreamBatch.of(event.progress)
            self._show(batch.query_id, batch)
            if self._told is not None:
                self._told(batch)
        except Exception:  # noqa: BLE001  (Spark hides errors of listeners, and they must not fail a query)
            _log.exception("a micro-batch could not be reported")

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802  (the name PySpark has)
        """Implement Spark's listener."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802  (the name PySpark has)
        """Implement Spark's listener."""
        self._show(str(event.id), None)

    def _show(self, query_id: str, batch: StreamBatch | None) -> None:
        with self._lock:
            self._shown.pop(query_id, None)
            self._stage.close()
            if batch is not None:
                self._shown[query_id] = batch
            if self._shown:
                said = "; ".join(str(each) for each in reversed(self._shown.values()))
                self._stage.enter_context(self._progress.stage(said))


def watch(spark: SparkSession, told: Callable[[StreamBatch], object] | None = None) -> QueryWatcher:
    """Monitor the present and future queries of the session `spark` until `stop()`.

    On a terminal and in notebooks, a line shows the last micro-batch of each query and its rows. The line also shows
    the backlog in versions, files and bytes. `told` is called with each micro-batch; its errors are logged. Through
    Connect a program does not end before `stop()`, because a listener thread of PySpark runs. Raises InvalidArgument.

    >>> with slackwater.watch(spark, lambda batch: print(batch.query, batch.rows, batch.versions_behind)) as watching:
    ...     watching
    <Watching 0 queries: stop() ends it>
    """
    if told is not None and not callable(told):
        raise InvalidArgument(
            f"watch expected a function of one argument for micro-batches, found {type(told).__name__}"
        )
    return QueryWatcher(spark, Progress.of(spark, "STREAMS"), told).start()


def _versions_behind(source: Any) -> int | None:
    end, latest = _offset(source.endOffset), _offset(source.latestOffset)
    if end is None or latest is None:
        return None
    return max(int(latest[_VERSION]) - int(end[_VERSION]), 0)


def _outstanding(sources: Any) -> Outstanding | None:
    """Return the total backlog of the Delta sources, None if there are none or if one does not report its backlog."""
    total: Outstanding | None = None
    for source in sources:
        latest = _offset(source.latestOffset)
        if latest is None:
            continue
        # A Python data source has no metrics, and reports the backlog in its offset.
        found = Outstanding.of_metrics(source.metrics) or Outstanding.of_metrics(latest)
        if found is None:
            return None
        total = found if total is None else total + found
    return total


def _offset(text: Any) -> dict[str, Any] | None:
    """Return the offset of a Delta table, None for the offset of another source."""
    try:
        found = json.loads(text)
    except (TypeError, ValueError):
        return None
    return found if isinstance(found, dict) and {_VERSION, _TABLE} <= found.keys() else None
