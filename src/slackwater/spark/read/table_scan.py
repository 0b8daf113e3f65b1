"""Scan of a snapshot: a DataFrame with the table's names, types, partition values and row ids, from data files.

Source: delta-protocol.md "Reader Requirements for Column Mapping", "… for Deletion Vectors", "… for Row Tracking",
"Partition Value Serialization".
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from slackwater.errors import InvalidArgument
from slackwater.predicate.predicate import Constant, Predicate
from slackwater.protocol.features.column_mapping import ID, NONE, physical_name, physical_schema
from slackwater.protocol.features.data_format import validate_parquet
from slackwater.protocol.properties.properties import (
    ENABLE_ROW_TRACKING,
)
from slackwater.protocol.schema.schema import VOID, StructField, StructType, as_nullable, nullable_type
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.conditions.scan_conditions import ScanConditions
from slackwater.spark.hadoop.store import HadoopStore
from slackwater.spark.jvm.file_index import accepts_file_indexes
from slackwater.spark.jvm.local_rows import accepts_later_rows
from slackwater.spark.parquet import field_ids
from slackwater.spark.parquet.rebase_modes import by_calendar, rebases_unmarked_files
from slackwater.spark.read.deferred_files import DeferredFiles, DeferredVectorFiles, first_files, numbered
from slackwater.spark.read.deleted_rows import LaterWords, without_later_words
from slackwater.spark.read.file_columns import (
    FILE,
    ROW,
    FileNumbers,
    are_by_url,
    file_constants,
)
from slackwater.spark.read.metadata_column import (
    METADATA,
    ROW_COMMIT_VERSION,
    ROW_ID,
    ROW_TRACKING_FIELDS,
    HiddenMetadata,
    materialized_names,
    metadata_struct,
    metadata_type,
    row_tracking_columns,
    row_tracking_constants,
)
from slackwater.spark.read.planning.bucketed_planning import plan_distributed, should_distribute
from slackwater.spark.read.pushdown_frame import narrowing_frame
from slackwater.spark.read.row_addresses import (
    KEPT_COMMIT_VERSION,
    KEPT_ROW_ID,
    AddressedRows,
    address_of,
    located_schema,
)
from slackwater.spark.read.row_sources import (
    ArrowRowSource,
    RowReadRequest,
    RowReadResult,
    RowSource,
    SparkRowSource,
    transport_of_reads,
)
from slackwater.spark.session.classic_connect import is_connect
from slackwater.spark.session.frames import empty_frame, frame_of_later_plan, with_known_schema
from slackwater.spark.session.reader_options import Options
from slackwater.spark.session.settings import session_zone
from slackwater.spark.session.types import NullabilityMode, to_spark_schema, to_spark_type
from slackwater.spark.storage.locations import DataLocations
from slackwater.spark.storage.row_transport import RowTransport, served_to_spark
from slackwater.sql.lexer import quoted
from slackwater.stats.row_groups import RowGroupTest

_NESTED = (spark_types.StructType, spark_types.ArrayType, spark_types.MapType)
_ORDINAL = "__slackwater_ordinal"
FEW_FILES = 256
"""Files of a table whose frames list their files when they are made."""
_SMALL_LOG_BYTES = 1 << 20
# Fields of a scan without influence on its files, and the snapshot, which has an identity of its own.
_NOT_OF_FILES = ("spark", "snapshot", "needed", "given_zone")


@dataclass(frozen=True)
class ScanOptions:
    """Reader options other than the version.

    `row_tracking` adds `_row_id` and `_row_commit_version`. `allow_paths_outside_root` follows absolute paths outside
    the table's root, None means the table's own setting. `replay` is `spark`, `driver` or None (by the log's size).
    `rows` is the row transport, see `choose_transport`. With `says_not_null`, NOT NULL columns are not nullable. This
    is right only for rows of the version with the schema read. `metadata` adds the column METADATA, with the row ids if
    `row_tracking`.
    """

    row_tracking: bool = False
    allow_paths_outside_root: bool | None = None
    replay: str | None = None
    rows: str | None = None
    says_not_null: bool = False
    metadata: bool = False

    @staticmethod
    def of(options: Options) -> ScanOptions:
        """Return the requested reader options. Raises InvalidArgument for an invalid value, and for a mistyped name."""
        options.require_meant()
        outside = options.choice("allowPathsOutsideRoot")
        rows = options.get("rows")
        return ScanOptions(options.flag("rowTracking"), outside, options.get("replay"), rows, says_not_null=True)

    def follows_outside(self, snapshot: Snapshot) -> bool:
        """Return whether files outside the root of `snapshot` are read.

        The reader's option decides, or by default the table's setting.
        """
        choice = self.allow_paths_outside_root
        return snapshot.table.follows_outside if choice is None else choice


@dataclass(frozen=True)
class RawFrame:
    """Rows in the form of the files, and the expressions over them for the table's columns."""

    found: RowReadResult
    columns: list[Column | str]

    @property
    def frame(self) -> DataFrame:
        """The rows."""
        return self.found.frame

    @property
    def numbers(self) -> Sequence[int]:
        """A number for each file, in the order of the files, if the frame has ROW."""
        return self.found.numbers

    @property
    def number(self) -> Column:
        """The file number of a row, out of `numbers`."""
        return self.found.number


@dataclass(frozen=True)
class TableScan:
    """A read of one snapshot by one Spark session."""

    spark: SparkSession
    snapshot: Snapshot
    options: ScanOptions = field(default_factory=ScanOptions)
    needed: frozenset[str] | None = None
    rows_wanted: int | None = None
    """The files of the scan are the first ones with this number of rows, None for all files."""
    given_zone: str | None = None
    """The time zone of the scan from which this one was derived, None for the session's."""

    def __post_init__(self) -> None:
        validate_parquet(self.snapshot.metadata, self.snapshot.store.root_url)
        if self.options.row_tracking and not self.snapshot.properties.flag(ENABLE_ROW_TRACKING):
            raise InvalidArgument(
                f"{self.snapshot.store.root_url}: row ids can only be read if delta.enableRowTracking is true"
            )

    def dataframe(self) -> DataFrame:
        """Return the rows of the snapshot. `where` and `filter` directly on the frame read only files that may match.

        Raises DataFileNotFound, CorruptDeletionVector, PathNotAllowed, UnsupportedFeature.
        """
        return narrowing_frame(self)

    @cached_property
    def hidden_metadata(self) -> HiddenMetadata:
        """Return how frames of the scan hide the column METADATA."""
        if type(self) is not TableScan or self.options.metadata or METADATA in {c.name.lower() for c in self.columns}:
            return HiddenMetadata.NONE
        if self._has_row_tracking or self.by_arrow or self._distributed:
            return HiddenMetadata.OWN if self._has_row_tracking else HiddenMetadata.NONE
        # Through Connect, a frame of many files reads no file actions before its plan is sent.
        supports = self.snapshot.configuration.supports("deletionVectors")
        own = supports and (is_connect(self.spark) or self._has_vectors)
        return HiddenMetadata.OWN if own else HiddenMetadata.OF_SPARK

    def with_metadata(self) -> TableScan:
        """Return the scan of the same rows with METADATA as the last column. Requires a hidden one."""
        options = replace(self.options, metadata=True, row_tracking=self._has_row_tracking)
        return replace(self, options=options, given_zone=self.zone)

    @cached_property
    def _has_row_tracking(self) -> bool:
        return self.snapshot.properties.flag(ENABLE_ROW_TRACKING)

    def files_for(self, predicate: Predicate | None) -> pa.Table:
        """Return the files that may hold a match for `predicate`.

        Spark replays a log that is too large for the driver.
        """
        if self._distributed:
            return plan_distributed(self.spark, self.snapshot, predicate, self._columns, self.zone)
        if self.rows_wanted is not None:
            return first_files(self.snapshot.files(None, [*self._columns, "stats"]), self.rows_wanted)
        return self.snapshot.files(predicate, self._columns, self.zone)

    def first_rows(self, count: int) -> DataFrame | None:
        """Return `deferred_frame` of the first files with `count` rows, None if the scan cannot choose them."""
        if type(self) is not TableScan or self._distributed:
            return None
        return replace(self, rows_wanted=count, given_zone=self.zone).deferred_frame(Constant(True))

    def frame_of(
        self, files: pa.Table, needed: frozenset[str] | None = None, predicate: Predicate | None = None
    ) -> DataFrame:
        """Return all live rows of `files`. With `needed`, other columns are not read, and their use is an error.

        With `predicate`, rows of row groups without a possible match may be missing.
        """
        if needed is not None and needed != self.needed:
            return replace(self, needed=needed, given_zone=self.zone).frame_of(files, None, predicate)
        test = self._row_group_test(predicate)
        parts = [self._part(part, test) for part in self._alike(files)]
        if not parts:
            frame = empty_frame(self.spark, self.output_schema).select("*")
        else:
            frame = reduce(DataFrame.unionAll, parts)
        # Set on the client, because Spark's reader makes columns nullable and a Connect plan cannot change them.
        is_strict = self.options.says_not_null and not self.by_arrow and is_connect(self.spark)
        frame = with_known_schema(frame, self._strict_schema) if is_strict and self._has_not_null else frame
        if predicate is None or not is_connect(self.spark) or not self.conditions.depends_on_plan(predicate):
            return frame
        return self._frame_of_plan(
            predicate, lambda kept: self.frame_of(self.files_for(None)) if kept is None else frame
        )

    def _frame_of_plan(self, predicate: Predicate, make: Callable[[Predicate | None], DataFrame]) -> DataFrame:
        """Return a frame of a Connect session, made when its plan is sent.

        `make` gets None if the session's settings give the condition of `predicate` another meaning by then.
        """
        schema = self._strict_schema if self.options.says_not_null else self.output_schema
        return frame_of_later_plan(
            self.spark,
            schema,
            lambda kept: make(predicate if kept else None),
            lambda client: self.conditions.holds_in_plan(client, predicate),
        )

    @cached_property
    def defers_files(self) -> bool:
        """True if the files are chosen when Spark plans a query, in a classic session with the filters of the query.

        Otherwise the files of a frame are chosen when the frame is made.
        """
        if not isinstance(self._source, SparkRowSource) or self.finds_files_later or self.options.row_tracking:
            return False
        if not self._has_many_files:
            return False
        return is_connect(self.spark) or (
            not isinstance(self.snapshot.store, HadoopStore)
            and accepts_file_indexes(self.spark)
            and accepts_later_rows(self.spark)
            and not rebases_unmarked_files(self.spark)
        )

    @cached_property
    def _has_many_files(self) -> bool:
        """True if the calls of an index from the JVM cost less than listing all files of the table."""
        segment, checkpoint = self.snapshot.segment, self.snapshot.state.checkpoint
        log_bytes = sum(commit.size_bytes for commit in segment.commits)
        log_bytes += 0 if checkpoint is None else sum(checkpoint.sizes.values())
        return log_bytes > _SMALL_LOG_BYTES or len(self.snapshot.live_files(["path"])) > FEW_FILES

    def deferred_frame(self, predicate: Predicate) -> DataFrame:
        """Return all live rows of the files that may match `predicate`. Requires `defers_files`."""
        # Raises for an invalid option now, not in the first query.
        _ = self._distributed
        if is_connect(self.spark):
            return self._frame_of_plan(predicate, lambda kept: self.frame_of(self.files_for(kept)))
        parts = [self._deferred_part(DeferredFiles, predicate)]
        if self._has_vectors:
            parts.append(self._deferred_part(DeferredVectorFiles, predicate))
        return reduce(DataFrame.unionAll, parts)

    @cached_property
    def _null_partitions(self) -> frozenset[str]:
        """The NOT NULL partition columns with a null in a file. Other engines write an empty text, which is a null."""
        never_null = [
            c for name in self.snapshot.metadata.partition_columns if not (c := self._partition_field(name)).nullable
        ]
        if not never_null or self._not_null is NullabilityMode.NOWHERE:
            return frozenset()
        files = self.snapshot.live_files(["partitionValues"])
        values = file_constants(files["partitionValues"], never_null, self.snapshot.column_mapping_mode, self.zone)
        return frozenset(name for name, (_, each) in values.items() if each.null_count)

    @cached_property
    def _has_vectors(self) -> bool:
        if not self.snapshot.configuration.supports("deletionVectors"):
            return False
        vectors = self.snapshot.live_files(["deletionVector"])["deletionVector"]
        return bool(vectors.null_count < len(vectors))

    def _deferred_part(self, kind: type[DeferredFiles], predicate: Predicate) -> DataFrame:
        mode, partition_columns = self.snapshot.column_mapping_mode, self.snapshot.metadata.partition_columns
        data = tuple(c for c in self.columns if c.name not in partition_columns and self._is_read(c))
        partitions = tuple(self._partition_field(name) for name in partition_columns)
        partitions = tuple(replace(c, nullable=True) if c.name in self._null_partitions else c for c in partitions)
        typed = to_spark_schema(physical_schema(StructType(partitions), mode), not_null=self._not_null)
        files = kind(self, predicate, partitions, typed)
        source = self._source
        if not isinstance(source, SparkRowSource):
            raise TypeError("executors with PyArrow read listed files")
        frame = source.deferred(files, self._read_schema(data, ()))
        if isinstance(files, DeferredVectorFiles):
            frame, number = numbered(frame)
            words = LaterWords(files.identity, files.words)
            frame = without_later_words(self.spark, frame, words, number, files.chunk_size)
        native = dict(zip(partition_columns, typed.names, strict=True))
        columns = [self._expression(c, mode, native, {}) for c in self.columns]
        return self._selected(frame, [*columns, metadata_struct((), True)] if self.options.metadata else columns)

    @cached_property
    def identity(self) -> str:
        """Text that is equal for two scans exactly if they read the same version of the same table in the same way."""
        snapshot, table = self.snapshot, self.snapshot.table
        if table.branch is not None:
            # Other changes of the transaction can have the same version.
            return str(uuid.uuid4())
        last = [(file.size_bytes, file.modified_ms) for file in snapshot.segment.commits[-1:]]
        version = f"{snapshot.metadata.id} {snapshot.version} {last} {snapshot.segment.checkpoint}"
        # With the fields of subclasses, such as the values of a partition.
        chosen = [(each.name, getattr(self, each.name)) for each in fields(self) if each.name not in _NOT_OF_FILES]
        return f"{type(self).__name__} {snapshot.store.root_url} {version} {self.zone} {chosen!r}"

    def located(self, files: pa.Table, predicate: Predicate | None = None, in_order: bool = False) -> AddressedRows:
        """Return all live rows of `files` with their ADDRESS. Row tracking adds KEPT_ROW_ID and KEPT_COMMIT_VERSION.

        For `predicate` see `frame_of`. With `in_order`, addresses ascend from file to file, and are valid in this frame
        only.
        """
        paths = self.locations.relatives(files["path"].to_pylist())
        urls = self.locations.metadata_urls(paths)
        numbers = range(len(paths)) if in_order else self._numbers.of(urls)
        by_url = not self.by_arrow and not in_order and are_by_url(numbers, urls)
        by_path = dict(zip(paths, numbers, strict=True))
        test = self._row_group_test(predicate)
        parts = [self._part(part, test, by_path, by_url) for part in self._alike(files)]
        if not parts:
            parts = [empty_frame(self.spark, located_schema(self.columns, self.options.row_tracking))]
        return AddressedRows(reduce(DataFrame.unionAll, parts), files, numbers, by_url)

    def _alike(self, files: pa.Table) -> list[pa.Table]:
        """Split `files` into parts, each readable by one plan."""
        parts = _by_vector(files)
        return parts if self.by_arrow else [each for part in parts for each in by_calendar(self.spark, part)]

    def _row_group_test(self, predicate: Predicate | None) -> RowGroupTest | None:
        # Not for Spark's own reader, because it gets the filters of the plan.
        if predicate is None or not self.by_arrow:
            return None
        snapshot = self.snapshot
        partition_columns = snapshot.metadata.partition_columns
        return RowGroupTest.of(predicate, snapshot.schema, snapshot.column_mapping_mode, partition_columns)

    @cached_property
    def _numbers(self) -> FileNumbers:
        """The numbers of the files for ADDRESS."""
        return FileNumbers()

    @cached_property
    def _distributed(self) -> bool:
        # Not with PyArrow, because executors with PyArrow do not read logs.
        return not self.by_arrow and should_distribute(self.snapshot, self.options.replay)

    @property
    def follows_outside(self) -> bool:
        """Return whether files outside the table's root are read: by the reader's option or by the table's setting."""
        return self.options.follows_outside(self.snapshot)

    @property
    def by_arrow(self) -> bool:
        """Return whether executors read the rows with PyArrow."""
        return self._source.by_arrow

    @property
    def finds_files_later(self) -> bool:
        """Return whether the files become known only while the frame is read."""
        return False

    @cached_property
    def _way(self) -> RowTransport:
        return transport_of_reads(self.spark, self.snapshot, self.options.rows)

    @cached_property
    def _source(self) -> RowSource:
        outside = self.follows_outside
        made = ArrowRowSource if self._way == RowTransport.ARROW else SparkRowSource
        return made(self.spark, self.snapshot, self.locations, self.zone, outside)

    @cached_property
    def zone(self) -> str:
        """The session's time zone, for partition values and literals without a zone."""
        return self.given_zone or session_zone(self.spark)

    @cached_property
    def locations(self) -> DataLocations:
        """The locations of the table's files."""
        store = self.snapshot.store
        served = served_to_spark(self.spark, store) if self._way == RowTransport.SPARK else None
        return DataLocations(store, self.follows_outside, served)

    @cached_property
    def columns(self) -> tuple[StructField, ...]:
        """The columns read, in the schema's order."""
        return self.snapshot.schema.fields

    @cached_property
    def output_schema(self) -> spark_types.StructType:
        """The Spark schema of the DataFrame."""
        return self._spark_schema(self._not_null)

    def _spark_schema(self, not_null: NullabilityMode) -> spark_types.StructType:
        schema = to_spark_schema(StructType(self.columns), not_null=not_null)
        if self.options.metadata:
            return schema.add(METADATA, metadata_type(self.options.row_tracking, not self.by_arrow), nullable=False)
        if self.options.row_tracking:
            schema = schema.add(ROW_ID, "long").add(ROW_COMMIT_VERSION, "long")
        return schema

    @cached_property
    def _strict_schema(self) -> spark_types.StructType:
        """The Spark schema of the DataFrame, with all NOT NULL parts of the table not nullable."""
        return self._spark_schema(NullabilityMode.EVERYWHERE)

    @cached_property
    def _has_not_null(self) -> bool:
        schema = StructType(self.columns)
        return schema != as_nullable(schema)

    @cached_property
    def _not_null(self) -> NullabilityMode:
        """The parts declared not nullable to Spark. NOWHERE if the table has no NOT NULL part."""
        return self._source.not_null if self.options.says_not_null and self._has_not_null else NullabilityMode.NOWHERE

    @property
    def _not_null_within(self) -> NullabilityMode:
        return NullabilityMode.EVERYWHERE if self._not_null is NullabilityMode.EVERYWHERE else NullabilityMode.NOWHERE

    @property
    def _columns(self) -> list[str]:
        tracking = ["baseRowId", "defaultRowCommitVersion"] if self.options.row_tracking else []
        return ["path", "partitionValues", "deletionVector", "size", *tracking]

    @cached_property
    def conditions(self) -> ScanConditions:
        """The conditions on the rows of this scan as predicates."""
        return ScanConditions(self.spark, self.snapshot.schema, self.zone)

    def _part(
        self,
        files: pa.Table,
        test: RowGroupTest | None,
        located: Mapping[str, int] | None = None,
        by_url: bool = True,
    ) -> DataFrame:
        """Return the rows of `files`. Either all files have a deletion vector, or none. `test` excludes row groups.

        `located` are the file numbers for ADDRESS. With `by_url`, these are the values of `file_number`.
        """
        paths = self.locations.relatives(files["path"].to_pylist())
        ordinals = [located[path] for path in paths] if located and not by_url else None
        tracking = (ROW_ID, ROW_COMMIT_VERSION) if located is None else (KEPT_ROW_ID, KEPT_COMMIT_VERSION)
        raw = self.raw_frame(
            paths, files, needs_row=located is not None, ordinals=ordinals, tracking=tracking, test=test
        )
        frame = raw.frame
        if files["deletionVector"].null_count == 0:
            frame = self._source.without_deleted(raw.found, files)
        if located is not None:
            file = F.lit(None).cast("string").alias(FILE) if self.by_arrow else FILE
            return frame.select(*raw.columns, address_of(raw.number), file, ROW)
        return self._selected(frame, raw.columns)

    def _selected(self, frame: DataFrame, columns: Sequence[Column | str]) -> DataFrame:
        # Unchanged columns are not selected, because each named column costs a call into the JVM.
        names = [column for column in columns if isinstance(column, str)]
        unchanged = len(names) == len(columns) and names == [quoted(name) for name in frame.columns]
        if unchanged:
            # Through Connect the frame may be a bare relation of files: see `frame_of_relation`.
            return frame.select("*") if is_connect(self.spark) else frame
        return frame.select(*columns)

    def raw_frame(
        self,
        paths: Sequence[str],
        files: pa.Table,
        hidden: Sequence[str] = (),
        needs_row: bool = False,
        ordinals: Sequence[int] | None = None,
        tracking: tuple[str, str] = (ROW_ID, ROW_COMMIT_VERSION),
        needs_file: bool = False,
        test: RowGroupTest | None = None,
        partition_columns: Sequence[str] | None = None,
    ) -> RawFrame:
        """Return all rows of the files, including deleted rows. Reads with PyArrow omit deleted rows.

        `hidden` are further text columns to read from the files. The frame has FILE and ROW with `needs_row`, or if a
        deletion vector or row tracking needs them. With PyArrow, only `needs_file` adds FILE. `ordinals` are file
        numbers not derived from URLs. `tracking` are the names of the row tracking columns. With PyArrow, row groups
        excluded by `test` are missing. `partition_columns` are the partition columns of the files, if they differ from
        the snapshot's.
        """
        mode = self.snapshot.column_mapping_mode
        if partition_columns is None:
            partition_columns = self.snapshot.metadata.partition_columns
        data = tuple(c for c in self.columns if c.name not in partition_columns and self._is_read(c))
        partitions = [c for name in partition_columns if self._is_read(c := self._partition_field(name))]
        schema = self._read_schema(data, hidden)
        constants = row_tracking_constants(files) if self.options.row_tracking else {}
        needs_row = needs_row or self.options.row_tracking
        asked = RowReadRequest(
            paths, files, schema, partitions, constants, needs_row, needs_file, ordinals, test, self._not_null
        )
        found = self._source.rows(asked)
        expressions = [self._expression(c, mode, found.native, found.values) for c in self.columns]
        names = ROW_TRACKING_FIELDS if self.options.metadata else tracking
        more = row_tracking_columns(found.values, self._materialized, names) if self.options.row_tracking else []
        more = [metadata_struct(more, not self.by_arrow)] if self.options.metadata else more
        return RawFrame(found, [*expressions, *more])

    def _is_read(self, column: StructField) -> bool:
        return column.type != VOID and (self.needed is None or column.name in self.needed)

    def _partition_field(self, name: str) -> StructField:
        column = self.snapshot.schema.get(name)
        if column is None:
            raise InvalidArgument(f"{self.snapshot.store.root_url}: partition column {name} is not in the schema")
        return column

    def _read_schema(self, data: Sequence[StructField], hidden: Sequence[str]) -> spark_types.StructType:
        mode = self.snapshot.column_mapping_mode
        physical = physical_schema(StructType(tuple(data)), mode)
        schema = to_spark_schema(physical, field_ids=mode == ID, not_null=self._not_null)
        for name in (*hidden, *self._materialized):
            schema = schema.add(name, "string" if name in hidden else "long")
        if mode == ID:
            for key, value in field_ids.SETTINGS.items():
                self.spark.conf.set(key, value)
        return schema

    def _expression(
        self, column: StructField, mode: str, native: Mapping[str, str], constants: Mapping[str, Column]
    ) -> Column | str:
        """Return the expression for `column`, its quoted name if the frame has the column unchanged."""
        # Nullable, because Spark's own reader makes nested parts nullable and does not cast them to non-nullable parts.
        is_as_read = self.by_arrow or self._not_null is NullabilityMode.EVERYWHERE
        data_type = column.type if is_as_read else nullable_type(column.type)
        spark_type = to_spark_type(data_type, not_null=self._not_null_within)
        if column.type == VOID:
            source = F.lit(None)
        elif not self._is_read(column):
            # Raises instead of a silent null, so that the job fails if Spark uses the column nevertheless.
            told = f"column {column.name} was not read, because select omits it. Name it there, and drop it later"
            source = F.raise_error(F.lit(told)).cast(spark_type)
        elif column.name in constants:
            source = constants[column.name]
        else:
            name = native.get(column.name) or physical_name(column, mode)
            # Casts work by position, so that a cast replaces physical names by display names.
            renamed = mode != NONE and isinstance(spark_type, _NESTED)
            if name == column.name and not renamed:
                return quoted(name)
            source = F.col(quoted(name)).cast(spark_type) if renamed else F.col(quoted(name))
        metadata = self.output_schema[column.name].metadata
        return source.alias(column.name, metadata=metadata) if metadata else source.alias(column.name)

    @property
    def _materialized(self) -> Sequence[str]:
        return materialized_names(self.snapshot) if self.options.row_tracking else ()


def _by_vector(files: pa.Table) -> list[pa.Table]:
    """Return the files without a deletion vector, and the files with one. Empty parts are omitted."""
    has_vector = pc.is_valid(files["deletionVector"])
    deleted = files.filter(has_vector)
    clean = files.filter(pc.invert(has_vector)) if deleted.num_rows else files
    return [part for part in (clean, deleted) if part.num_rows]
