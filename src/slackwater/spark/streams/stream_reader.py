"""The stream reader for Spark, in the process that plans micro-batches and in executors.

Releases of PySpark differ. From 4.2 on, Spark sets start and limits of a micro-batch. `Trigger.AvailableNow` then ends
at the versions present at its start.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from slackwater.spark.streams.task_reader import TaskReader, plain_errors
from slackwater.streams.offsets import SourceOffset
from slackwater.streams.source import TableSource
from slackwater.streams.stream_planner import StreamReadSpec, plan_tasks

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxFiles,
        SupportsTriggerAvailableNow,
    )
except ImportError:
    _HAS_LIMITS = False
else:
    _HAS_LIMITS = True


class _Planning(DataSourceStreamReader):
    """Offsets and tasks of one stream."""

    def __init__(self, rows: bytes, plan: bytes) -> None:
        self._plan = plan
        self._rows = rows

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle for executors, with the reader only."""
        return TaskReader, (self._rows,)

    @cached_property
    def _read(self) -> StreamReadSpec:
        read: StreamReadSpec = pickle.loads(self._plan)  # noqa: S301  (the session's own)
        return read

    @cached_property
    def _source(self) -> TableSource:
        return self._read.source()

    @plain_errors()
    def initialOffset(self) -> dict[str, Any]:
        return self._source.first().to_json()

    @plain_errors()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        tasks = plan_tasks(self._read, self._source, SourceOffset.from_json(start), SourceOffset.from_json(end))
        return [InputPartition(pickle.dumps(task)) for task in tasks]

    @plain_errors()
    def commit(self, end: dict[str, Any]) -> None:
        self._source.committed(SourceOffset.from_json(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return TaskReader(self._rows).read(partition)


class _Unlimited(_Planning):
    """A reader for releases without start offsets and limits: a micro-batch has all available files."""

    @plain_errors()
    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        return self._source.newest().to_json()


if _HAS_LIMITS:

    class _Limited(_Planning, SupportsTriggerAvailableNow):
        def getDefaultReadLimit(self) -> ReadLimit:
            options = self._read.options
            # Spark accepts one limit, so `latestOffset` adds the other.
            if options.max_files is not None:
                return ReadMaxFiles(options.max_files)
            return ReadAllAvailable() if options.max_bytes is None else ReadMaxBytes(options.max_bytes)

        @plain_errors()
        def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
            options = self._read.options
            found = SourceOffset.from_json(start)
            limits = (None, None) if isinstance(limit, ReadAllAvailable) else (options.max_files, options.max_bytes)
            return self._source.latest(found, *limits).to_json()

        @plain_errors()
        def reportLatestOffset(self) -> dict[str, Any]:
            newest, left = self._source.newest(), self._source.outstanding()
            # Report the backlog in the offset, because a Python source cannot report metrics.
            return {**newest.to_json(), **({} if left is None else left.metrics())}

        @plain_errors()
        def prepareForTriggerAvailableNow(self) -> None:
            self._source.stop_at_newest()


def stream_reader(rows: bytes, plan: bytes) -> DataSourceStreamReader:
    """Return the reader of a stream. `rows`, for executors, and `plan`, a StreamReadSpec, are pickled."""
    return _Limited(rows, plan) if _HAS_LIMITS else _Unlimited(rows, plan)
