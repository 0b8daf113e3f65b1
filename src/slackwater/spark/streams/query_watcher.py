"""The queries of a session watched while they run: a progress line, and a function that is told of each micro-batch.

Source: Spark's StreamingQueryListener, whose reports these are.
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
    """A micro-batch that a query is done with.

    `query` is the query's name, or else its id. `rows` were read by it, `rows_per_second` while it ran. Of the Delta
    tables that it reads, `versions_behind` is how many versions the one that is furthest behind has still to be read,
    one that was read in part among them; None where it reads no Delta table. `files_behind` and `bytes_behind` are what
    the tables had left together when the micro-batch was planned, None where that is not known of each.
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
        """What `report` says, a StreamingQueryProgress of PySpark's."""
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
    """What watches the queries of a session until `stop`, or until the end of a `with` block."""

    def __init__(
        self, spark: SparkSession, progress: Progress, told: Callable[[StreamBatch], object] | None = None
    ) -> None:
        # Through Connect it is the manager that knows its listeners.
        self._queries = spark.streams
        self._told = told
        self._lock = threading.Lock()
        self._shown: dict[str, StreamBatch] = {}
        self._held = ExitStack()
        self._stage = ExitStack()
        self._progress = self._held.enter_context(progress)

    def start(self) -> QueryWatcher:
        """This, from now on told by Spark."""
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
        """Watch no more; once more does nothing."""
        # A session that was stopped has no listeners.
        with suppress(Exception):
            self._queries.removeListener(self)
        with self._lock:
            self._shown = {}
            self._stage.close()
            self._held.close()

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  (the name PySpark has)
        """For Spark."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802  (the name PySpark has)
        """For Spark: a micro-batch is done with, or none was needed for a while."""
        try:
            batch = StreamBatch.of(event.progress)
            self._show(batch.query_id, batch)
            if self._told is not None:
                self._told(batch)
        except Exception:  # noqa: BLE001  Spark does not show what a listener raises, and a query is not to fail by it
            _log.exception("a micro-batch was not told of")

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802  (the name PySpark has)
        """For Spark."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802  (the name PySpark has)
        """For Spark."""
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
    """Watch the queries of the session `spark` that run now, and those to come, until `stop()`.

    On a terminal, and in notebooks, a line says of each query its last micro-batch, the rows in it and how many
    versions, files and bytes it is behind. `told` is called with each micro-batch: what it raises is logged. Through
    Connect a program does not end before `stop()`, as a thread of PySpark's listens. Raises InvalidArgument.

    >>> with slackwater.watch(spark, lambda batch: print(batch.query, batch.rows, batch.versions_behind)) as watching:
    ...     watching
    <Watching 0 queries: stop() ends it>
    """
    if told is not None and not callable(told):
        raise InvalidArgument(
            f"what is told of micro-batches is a function of one argument, found {type(told).__name__}"
        )
    return QueryWatcher(spark, Progress.of(spark, "STREAMS"), told).start()


def _versions_behind(source: Any) -> int | None:
    end, latest = _offset(source.endOffset), _offset(source.latestOffset)
    if end is None or latest is None:
        return None
    return max(int(latest[_VERSION]) - int(end[_VERSION]), 0)


def _outstanding(sources: Any) -> Outstanding | None:
    """What the Delta tables among the sources have left; None where one does not say it, and where there is none."""
    total: Outstanding | None = None
    for source in sources:
        latest = _offset(source.latestOffset)
        if latest is None:
            continue
        # A source in Python has no metrics.
        found = Outstanding.of_metrics(source.metrics) or Outstanding.of_metrics(latest)
        if found is None:
            return None
        total = found if total is None else total + found
    return total


def _offset(text: Any) -> dict[str, Any] | None:
    """The offset of a Delta table; None for that of another source."""
    try:
        found = json.loads(text)
    except (TypeError, ValueError):
        return None
    return found if isinstance(found, dict) and {_VERSION, _TABLE} <= found.keys() else None
