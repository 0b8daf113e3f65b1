"""Streams with micro-batches planned in the driver's own Python, and read by Spark's own Parquet reader.

Spark calls the source like a function of `foreachBatch`. If Spark cannot call the source, or does not transport the
rows itself, `data_source` is the alternative, with the same offsets.
"""

from __future__ import annotations

import itertools
import json
import pickle
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from slackwater.errors import DataFileNotFound, OperationNotAllowed
from slackwater.log.files.file_actions import ADD_SCHEMA
from slackwater.predicate.predicate import Predicate
from slackwater.scan.pruning.file_pruning import plan
from slackwater.scan.snapshot import physical_paths
from slackwater.spark.hadoop.store import HadoopStore
from slackwater.spark.jvm.callbacks import end_connection, without_traceback
from slackwater.spark.parquet.type_support import unreadable_by_spark
from slackwater.spark.read.table_scan import TableScan
from slackwater.spark.session.frames import empty_frame
from slackwater.spark.session.jvm_objects import java_class
from slackwater.spark.storage.row_transport import uses_spark
from slackwater.spark.streams.jvm_source import (
    AVAILABLE_NOW,
    METRICS,
    SOURCE,
    AskingQuery,
    as_streamed,
    frame_of_source,
    session_of_query,
    takes_sources,
)
from slackwater.spark.streams.scan import StreamScan
from slackwater.streams.offsets import SourceOffset
from slackwater.streams.source import TableSource

_COLUMNS = ("path", "partitionValues", "size", "deletionVector")
_LOG_FORMAT = "spark.sql.streaming.offsetLog.formatVersion"
_NUMBERS = itertools.count(1)
# The numbers of the active sources of each query.
_RUNNING: dict[str | None, set[int]] = {}


def can_be_driven(scan: StreamScan) -> bool:
    """Return whether the driver's Python can plan the stream, and Spark itself can read its rows."""
    if scan.stream.change_feed or scan.options.row_tracking or scan.source_name is not None:
        return False
    spark = scan.spark
    if not takes_sources(spark, DriverSource) or (spark.conf.get(_LOG_FORMAT, None) or "1") != "1":
        return False
    snapshot = scan.snapshot
    return unreadable_by_spark(snapshot.schema) is None and uses_spark(spark, snapshot.store, scan.options.rows)


@dataclass(frozen=True)
class DrivenScan(StreamScan):
    """A stream for which `can_be_driven` is true."""

    @staticmethod
    def of(scan: StreamScan) -> DrivenScan:
        """Return `scan` for planning in the driver's Python."""
        options = replace(scan.options, says_not_null=False)
        return DrivenScan(
            scan.spark,
            scan.snapshot,
            options,
            stream=scan.stream,
            schema_version=scan.schema_version,
            schema_log=scan.schema_log,
        )

    @property
    def by_arrow(self) -> bool:
        return False

    def frame_of(
        self,
        files: pa.Table,  # noqa: ARG002
        needed: frozenset[str] | None = None,  # noqa: ARG002  (Spark prunes columns itself)
        predicate: Predicate | None = None,
    ) -> DataFrame:
        """Return the frame of all future files of the stream, like `TableScan.frame_of`."""
        source = DriverSource(replace(self, predicate_of_files=predicate))
        return frame_of_source(self.spark, source, self.output_schema)

    def source(self) -> TableSource:
        """Return the source of the table for one query."""
        snapshot, table, schema_log = self.snapshot, self.snapshot.table, self.schema_log
        if not isinstance(table.store, HadoopStore):
            # A copy, because a query runs concurrently with other users of the table object.
            table, schema_log = pickle.loads(pickle.dumps((table, schema_log)))  # noqa: S301  (pickled here)
        version = snapshot.version if self.schema_version is None else self.schema_version
        columns = _COLUMNS if self.predicate_of_files is None else (*_COLUMNS, "stats")
        return TableSource(table, snapshot.configuration, version, self.stream, columns, schema_log)


class _Run:
    """A run of one query."""

    def __init__(self, scan: DrivenScan) -> None:
        self.source = scan.source()
        self.is_asked_for_limit = False
        self.has_begun = False
        spark = session_of_query(scan.spark)
        self._scan, self._rows = scan, TableScan(spark, scan.snapshot, scan.options)

    def batch(self, start: SourceOffset, end: SourceOffset) -> DataFrame:
        """Return the rows between two offsets. Raises as `TableSource.files`, and DataFileNotFound."""
        found = [each.files for each in self.source.files(start, end) if each.files is not None]
        columns = [name for name in ADD_SCHEMA.names if found and all(name in each.column_names for each in found)]
        if not found:
            return self.nothing()
        frames = [self._frame(files) for files in self._rounds(pa.concat_tables([f.select(columns) for f in found]))]
        frame = frames[0]
        for other in frames[1:]:
            frame = frame.unionAll(other)
        return as_streamed(frame)

    def nothing(self) -> DataFrame:
        """Return a batch without rows."""
        return as_streamed(empty_frame(self._rows.spark, self._scan.output_schema))

    def _frame(self, files: pa.Table) -> DataFrame:
        try:
            return self._rows.frame_of(self._pruned(files))
        except DataFileNotFound as error:
            raise DataFileNotFound(
                f"{self._rows.snapshot.store.root_url}: a data file of the stream is missing: "
                f"{error.__cause__ or error}. VACUUM may have deleted it. Restore the file, or start with a new "
                "checkpoint"
            ) from error

    def _pruned(self, files: pa.Table) -> pa.Table:
        predicate, snapshot = self._scan.predicate_of_files, self._scan.snapshot
        if predicate is None:
            return files
        mode, partition_columns = snapshot.column_mapping_mode, snapshot.metadata.partition_columns
        paths = physical_paths(snapshot.schema, mode)
        return plan(files, predicate, snapshot.schema, partition_columns, paths, zone=self._rows.zone).files

    def _rounds(self, files: pa.Table) -> list[pa.Table]:
        """Return `files` in parts without duplicates: a file can recur in a batch with other deleted rows."""
        seen: dict[str, int] = {}
        rounds: list[list[int]] = []
        for at, path in enumerate(self._rows.locations.relatives(files["path"].to_pylist())):
            number = seen[path] = seen.get(path, -1) + 1
            if number == len(rounds):
                rounds.append([])
            rounds[number].append(at)
        return [files] if len(rounds) == 1 else [files.take(pa.array(each, pa.int64())) for each in rounds]


class DriverSource:
    """The source of a stream for Spark's JVM, called in the threads of the queries on the frame.

    A query first requests the read limit, with `availableNow` directly after its announcement. The query stops the
    source at its end.
    """

    class Java:
        """The Java interfaces, for Py4J."""

        implements = (SOURCE, AVAILABLE_NOW, METRICS)

    def __init__(self, scan: DrivenScan) -> None:
        self._scan = scan
        self._number = next(_NUMBERS)
        self._runs: dict[str | None, _Run] = {}

    @without_traceback
    def prepareForTriggerAvailableNow(self) -> None:
        self._begun().source.stop_at_newest()

    def getDefaultReadLimit(self) -> Any:
        run = self._runs.get(self._query.query_id)
        # A run with an earlier request of the limit belongs to a query run that failed before its first batch.
        if run is None or run.is_asked_for_limit:
            run = self._begun()
        run.is_asked_for_limit = True
        options = self._scan.stream
        if options.max_files is not None:
            return self._limits.maxFiles(options.max_files)
        return self._limits.allAvailable() if options.max_bytes is None else self._limits.maxBytes(options.max_bytes)

    @without_traceback
    def latestOffset(self, start: Any, limit: Any) -> Any:
        run, options = self._run(is_first_batch=start is None), self._scan.stream
        run.has_begun = True
        limits = (None, None) if limit.equals(self._limits.allAvailable()) else (options.max_files, options.max_bytes)
        if start is None:
            return self._serialized(run.source.latest(run.source.first(), *limits))
        before = _offset(start)
        found = run.source.latest(before, *limits)
        # Return the original text, because Spark compares texts and delta-spark's JSON differs from ours.
        return start if found == before else self._serialized(found)

    @without_traceback
    def reportLatestOffset(self) -> Any:
        return self._serialized(self._run().source.newest())

    @without_traceback
    def getBatch(self, start: Any, end: Any) -> Any:
        run = self._run(is_first_batch=start.isEmpty())
        # After a restart Spark requests the last batch again, even if completed, and its files can be deleted by then.
        if not run.has_begun and self._query.has_done_its_last_batch():
            return run.nothing()._jdf
        before = run.source.first() if start.isEmpty() else _offset(start.get())
        return run.batch(before, _offset(end))._jdf

    @without_traceback
    def commit(self, end: Any) -> None:
        self._run().source.committed(_offset(end))

    def metrics(self, latest: Any) -> Any:  # noqa: ARG002  (the end of the last planned batch)
        told = java_class(self._scan.spark, "java.util.HashMap")()
        run = self._runs.get(self._query.query_id)
        left = None if run is None else run.source.outstanding()
        for name, value in ({} if left is None else left.metrics()).items():
            told.put(name, value)
        return told

    def stop(self) -> None:
        query_id = self._query.query_id
        if self._runs.pop(query_id, None) is None:
            return
        running = _RUNNING.get(query_id, set())
        running.discard(self._number)
        if not running:
            # The query has no active sources left.
            _RUNNING.pop(query_id, None)
            end_connection(self._scan.spark)

    def schema(self) -> Any:
        return self._scan.spark._jsparkSession.parseDataType(self._scan.output_schema.json())

    def deserializeOffset(self, text: str) -> Any:
        return self._serialized(SourceOffset.from_json(json.loads(text)))

    @without_traceback
    def initialOffset(self) -> Any:
        return self._serialized(self._run().source.first())

    def getOffset(self) -> Any:
        raise NotImplementedError("latestOffset returns the end of a batch")

    def toString(self) -> str:
        return f"DeltaSource[{self._scan.snapshot.store.root_url}]"

    def hashCode(self) -> int:
        return self._number % (1 << 31)

    def equals(self, other: Any) -> bool:  # noqa: ARG002
        # Java calls this only for other objects.
        return False

    @property
    def _query(self) -> AskingQuery:
        return AskingQuery(self._scan.spark)

    @property
    def _limits(self) -> Any:
        return java_class(self._scan.spark, "org.apache.spark.sql.connector.read.streaming.ReadLimit")

    def _begun(self) -> _Run:
        query_id = self._query.query_id
        run = self._runs[query_id] = _Run(self._scan)
        _RUNNING.setdefault(query_id, set()).add(self._number)
        return run

    def _run(self, *, is_first_batch: bool = True) -> _Run:
        query = self._query
        run = self._runs[query.query_id]
        if not run.has_begun and not is_first_batch and len(starts := set(query.starts_of(self))) > 1:
            raise OperationNotAllowed(
                f"{self._scan.snapshot.store.root_url}: the query reads one frame of the stream in several positions, "
                f"and their offsets in its checkpoint differ ({', '.join(map(str, starts))}). Read the table once for "
                "each position, with separate frames, or start with a new checkpoint"
            )
        return run

    def _serialized(self, offset: SourceOffset) -> Any:
        kind = java_class(self._scan.spark, "org.apache.spark.sql.execution.streaming.SerializedOffset")
        return kind.apply(json.dumps(offset.to_json()))


def _offset(found: Any) -> SourceOffset:
    return SourceOffset.from_json(json.loads(found.json()))
