"""A stream of a table in a frame: the table's columns over rows read by executors in Python.

`where` and `select` directly on the frame prune files and columns, like in batch reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from slackwater.data_files.reader import ReadProjection
from slackwater.log.files.file_actions import ADD_SCHEMA
from slackwater.predicate.predicate import Predicate
from slackwater.protocol.features.column_mapping import ID
from slackwater.spark.parquet.rebase_modes import rebases_unmarked_files
from slackwater.spark.read.change_feed import FEED_COLUMNS, with_feed_columns
from slackwater.spark.read.file_columns import ROW
from slackwater.spark.read.metadata_column import TRACKING_FIELDS
from slackwater.spark.read.row_sources import RowReadRequest, RowReadResult, RowSource
from slackwater.spark.read.table_scan import TableScan
from slackwater.spark.session.arrow_types import to_arrow_schema
from slackwater.spark.session.classic_connect import default_parallelism
from slackwater.spark.session.types import NullabilityMode, to_spark_type
from slackwater.spark.streams.data_source import register_stream
from slackwater.streams.options import StreamOptions
from slackwater.streams.schema_log import SchemaLog
from slackwater.streams.stream_planner import StreamReadSpec

# Not empty_table, because empty_table imports pandas, a delay for every session.
_NO_FILES = pa.Table.from_batches([], ADD_SCHEMA)


@dataclass(frozen=True)
class StreamScan(TableScan):
    """A stream of the table of `snapshot` with the schema of `schema_version`, by default of the newest version.

    `schema_log`: the log of the stream's schemas.
    """

    stream: StreamOptions = field(default_factory=StreamOptions)
    predicate_of_files: Predicate | None = None
    source_name: str | None = None
    schema_version: int | None = None
    schema_log: SchemaLog | None = None

    @property
    def by_arrow(self) -> bool:
        return True

    @property
    def finds_files_later(self) -> bool:
        return True

    @cached_property
    def output_schema(self) -> spark_types.StructType:
        schema = super().output_schema
        return with_feed_columns(schema) if self.stream.change_feed else schema

    def files_for(self, predicate: Predicate | None) -> pa.Table:  # noqa: ARG002
        """Return no files: the stream finds its files at run time."""
        return _NO_FILES

    def frame_of(
        self,
        files: pa.Table,  # noqa: ARG002
        needed: frozenset[str] | None = None,
        predicate: Predicate | None = None,
    ) -> DataFrame:
        """Return the frame of all future files of the stream, like `TableScan.frame_of`."""
        raw = replace(self, needed=needed, predicate_of_files=predicate).raw_frame([], _NO_FILES)
        feed = [F.col(name) for name in FEED_COLUMNS] if self.stream.change_feed else []
        return raw.frame.select(*raw.columns, *feed)

    @cached_property
    def _source(self) -> RowSource:
        return _StreamRows(self)


@dataclass(frozen=True)
class _StreamRows:
    """The rows of a stream, in a frame of Spark."""

    scan: StreamScan
    by_arrow = True
    planned_of: Sequence[str] = ()
    # A stream reads old versions, possibly with nullable columns.
    not_null = NullabilityMode.NOWHERE

    def rows(self, asked: RowReadRequest) -> RowReadResult:
        scan = self.scan
        keys = {column.name: f"__slackwater_partition_{at}" for at, column in enumerate(asked.partitions)}
        # The feed's columns come first, like in change files.
        told = {name: (name, kind) for name, kind in FEED_COLUMNS.items()}
        constants = told if scan.stream.change_feed else {}
        constants |= {keys[c.name]: (c.name, to_spark_type(c.type)) for c in asked.partitions}
        constants |= {name: (TRACKING_FIELDS[name], kind) for name, (kind, _) in asked.constants.items()}
        of_constants = spark_types.StructType(
            [spark_types.StructField(name, kind) for name, (_, kind) in constants.items()]
        )
        row = [spark_types.StructField(ROW, spark_types.LongType())] if asked.needs_row else []
        schema = spark_types.StructType([*asked.schema.fields, *of_constants.fields, *row])
        if not schema.fields:
            # A source needs a column, even for a count of rows.
            return self.rows(replace(asked, needs_row=True))
        snapshot = scan.snapshot
        wanted = ReadProjection(
            to_arrow_schema(asked.schema),
            snapshot.column_mapping_mode == ID,
            to_arrow_schema(of_constants),
            ROW if asked.needs_row else None,
            scan._row_group_test(scan.predicate_of_files),
            unmarked_is_julian=rebases_unmarked_files(scan.spark),
        )
        read = StreamReadSpec(
            snapshot.table,
            snapshot.configuration,
            snapshot.version if scan.schema_version is None else scan.schema_version,
            scan.stream,
            wanted,
            {name: source for name, (source, _) in constants.items()},
            scan.predicate_of_files,
            scan.zone,
            default_parallelism(scan.spark),
            scan.schema_log,
        )
        reader = scan.spark.readStream.format(register_stream(scan.spark, read)).schema(schema)
        frame = (reader if scan.source_name is None else reader.name(scan.source_name)).load()
        values = {name: F.col(key) for name, key in keys.items()} | {name: F.col(name) for name in asked.constants}
        return RowReadResult(frame, {}, values)

    def without_deleted(self, found: RowReadResult, files: pa.Table) -> DataFrame:  # noqa: ARG002
        return found.frame
