"""Row sources: data files become a frame through Spark's own Parquet reader, or through PyArrow on the executors.

Source: delta-protocol.md "Data Files", "Deletion Vectors", "Partition Value Serialization".
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from slackwater.errors import DataFileNotFound, UnsupportedFeature
from slackwater.protocol.features.column_mapping import ID
from slackwater.protocol.schema.schema import StructField, StructType
from slackwater.scan.deletion_vectors import load_deletion_vectors
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.hadoop.store import HadoopStore
from slackwater.spark.jvm.file_index import FileListing, relation_of_index
from slackwater.spark.parquet import field_ids
from slackwater.spark.parquet.rebase_modes import READ_AS_WRITTEN, calendar_options
from slackwater.spark.parquet.type_support import unreadable_by_spark
from slackwater.spark.read.arrow_rows import ArrowFiles, arrow_rows
from slackwater.spark.read.deleted_rows import without_deleted_rows
from slackwater.spark.read.file_columns import (
    SIZE,
    Constants,
    file_constants,
    file_number,
    file_numbers,
    hive_columns,
    never_null_constants,
    size_numbers,
    uniform_constants,
    with_file_constants,
)
from slackwater.spark.read.file_relations import EVERY_FILE, KeptRelations, read_files, require_content
from slackwater.spark.session.classic_connect import is_connect
from slackwater.spark.session.frames import frame_of_relation, never_null, relation_of
from slackwater.spark.session.types import NullabilityMode, to_spark_schema
from slackwater.spark.storage.locations import DataLocations, verify_urls
from slackwater.spark.storage.row_transport import RowTransport, choose_transport
from slackwater.spark.storage.shared_storage import all_here, log_sample, not_shared, require_shared
from slackwater.stats.row_groups import RowGroupTest

_ORDINAL = "__slackwater_ordinal"


def transport_of_reads(spark: SparkSession, snapshot: Snapshot, option: str | None) -> RowTransport:
    """Return the row transport for reads of `snapshot`: that of `choose_transport`, or Arrow if only Arrow can read.

    Raises UnsupportedFeature if a column needs Arrow, but `option` or the store needs Spark, and the errors of
    `choose_transport`.
    """
    reason = unreadable_by_spark(snapshot.schema)
    if reason is None:
        return choose_transport(spark, snapshot.store, option)
    if option == RowTransport.SPARK or isinstance(snapshot.store, HadoopStore):
        raise UnsupportedFeature(
            f"{snapshot.store.root_url}: {reason}, which Spark's Parquet reader cannot read. Read the table with "
            "Arrow: leave the option rows at auto, and use a store other than HDFS"
        )
    return choose_transport(spark, snapshot.store, RowTransport.ARROW)


@dataclass(frozen=True)
class RowReadRequest:
    """A request for rows of `files`. `paths` have the form of `DataLocations.relative`.

    `schema` has the columns to read from the files, `partitions` the columns with values from the log, `constants`
    further columns that are constant within a file. `needs_file` requests FILE, `needs_row` ROW. ROW is also added to
    detect deleted rows. With ROW, each row has its file's number, from `ordinals` if provided. Row groups excluded by
    `test` may be missing. `not_null` selects the parts of `schema` and of the partitions declared not nullable to
    Spark.
    """

    paths: Sequence[str]
    files: pa.Table
    schema: spark_types.StructType
    partitions: Sequence[StructField]
    constants: Constants
    needs_row: bool
    needs_file: bool = False
    ordinals: Sequence[int] | None = None
    test: RowGroupTest | None = None
    not_null: NullabilityMode = NullabilityMode.NOWHERE


@dataclass(frozen=True)
class RowReadResult:
    """A frame with the requested columns, and expressions for the partition values and constants outside the frame.

    `native` maps partition columns to columns of the frame, `values` other partition columns and constants to
    expressions. `told_number` is the file number of each row, out of `numbers`. `numbers` has the order of the files.
    """

    frame: DataFrame
    native: Mapping[str, str]
    values: Mapping[str, Column]
    numbers: Sequence[int] = ()
    told_number: Column | None = None

    @property
    def number(self) -> Column:
        """The file number of a row, out of `numbers`."""
        return F.lit(0) if self.told_number is None else self.told_number


class RowSource(Protocol):
    """A transport of rows from a snapshot's files to a frame."""

    @property
    def by_arrow(self) -> bool:
        """Return whether Spark cannot push required columns and filters into the reader."""
        ...

    @property
    def not_null(self) -> NullabilityMode:
        """The parts of a schema that this source can declare not nullable to Spark."""
        ...

    def rows(self, asked: RowReadRequest) -> RowReadResult:
        """Return the rows of files. Raises DataFileNotFound, CorruptTable, UnsupportedFeature, StorageError."""
        ...

    def without_deleted(self, found: RowReadResult, files: pa.Table) -> DataFrame:
        """Return the rows without deleted rows. Each of `files` has a deletion vector."""
        ...


@dataclass(frozen=True)
class _Files:
    """The files of a snapshot. `zone` is the time zone of the partition values."""

    spark: SparkSession
    snapshot: Snapshot
    locations: DataLocations
    zone: str
    allow_outside_root: bool = False

    def partition_constants(self, asked: RowReadRequest) -> dict[str, tuple[spark_types.DataType, pa.Array]]:
        mode = self.snapshot.column_mapping_mode
        return file_constants(asked.files["partitionValues"], asked.partitions, mode, self.zone)

    def require_shared(self) -> None:
        segment = self.snapshot.segment
        require_shared(self.spark, self.snapshot.store, lambda: log_sample(segment))

    @contextmanager
    def named(self, paths: Sequence[str]) -> Iterator[None]:
        """Name the version in the error for a missing file within the block.

        Raises DataFileNotFound if the file is missing, StorageRefused if only Spark does not find the file.
        """
        store = self.snapshot.store
        try:
            yield
        except DataFileNotFound as error:
            if all_here(store, paths):
                raise not_shared(store.root_url, "no data file of the table") from error
            raise DataFileNotFound(
                f"{store.root_url}: version {self.snapshot.version} names a data file that does not exist: {error}. "
                "VACUUM may have deleted the file. Restore it, or read a version without it"
            ) from error


@dataclass(frozen=True)
class SparkRowSource(_Files):
    """Spark's own reader in the JVM. It sees the plan, but not the deletion vectors."""

    by_arrow = False

    @property
    def not_null(self) -> NullabilityMode:
        # Nowhere through Connect, because Spark makes all columns of a file relation nullable.
        return NullabilityMode.NOWHERE if is_connect(self.spark) else NullabilityMode.EVERYWHERE

    def rows(self, asked: RowReadRequest) -> RowReadResult:
        mode = self.snapshot.column_mapping_mode
        native = hive_columns(asked.paths, asked.files["partitionValues"], asked.partitions, mode)
        constants, not_null, partitions = dict(asked.constants), frozenset[str](), spark_types.StructType()
        if native is None:
            held = self.partition_constants(asked)
            not_null = never_null_constants(asked.partitions if asked.not_null != NullabilityMode.NOWHERE else (), held)
            constants = held | constants
        else:
            typed = to_spark_schema(StructType(tuple(asked.partitions)), not_null=asked.not_null)
            for name, column in zip(native, typed, strict=True):
                partitions = partitions.add(name, column.dataType, column.nullable, column.metadata)
        needs_row = asked.needs_row or asked.files["deletionVector"].null_count < len(asked.files)
        needs_urls = asked.needs_file or needs_row or constants
        urls = self.locations.metadata_urls(asked.paths) if needs_urls else []
        sizes = self._size_numbers(asked.paths) if needs_row and not asked.needs_row else None
        numbers = file_numbers(urls) if needs_row and asked.ordinals is None and sizes is None else None
        ordinals = range(len(asked.paths)) if asked.ordinals is None else asked.ordinals
        if needs_row and numbers is None and sizes is None:
            constants[_ORDINAL] = _ordinals(ordinals)
        frame = self._relation(asked.paths, asked.schema, partitions, asked.not_null)
        if urls:
            verify_urls(self.spark, frame, urls)
        frame, values = with_file_constants(
            self.spark, frame, urls, constants, needs_row, not_null, needs_size=sizes is not None
        )
        names = dict(zip((column.name for column in asked.partitions), native or [], strict=False))
        if not needs_row:
            return RowReadResult(frame, names, values)
        if sizes is not None:
            return RowReadResult(frame, names, values, sizes, F.col(SIZE))
        if numbers is None:
            return RowReadResult(frame, names, values, ordinals, values[_ORDINAL])
        return RowReadResult(frame, names, values, numbers, file_number())

    def _size_numbers(self, paths: Sequence[str]) -> list[int] | None:
        """Return numbers of the files that Spark knows without their paths. None if there are none."""
        places = [self.locations.place(path) for path in paths] if self.locations.is_local else []
        if not places or any("://" in place for place in places):
            return None
        with suppress(OSError):
            return size_numbers([os.stat(place).st_size for place in places])  # noqa: PTH116  (as in `require_content`)
        return None

    def without_deleted(self, found: RowReadResult, files: pa.Table) -> DataFrame:
        vectors = files["deletionVector"].to_pylist()
        bitmaps = load_deletion_vectors(self.snapshot.store, vectors, self.allow_outside_root)
        numbered = list(zip(found.numbers, bitmaps, strict=True))
        by_size = SIZE in found.frame.columns
        return without_deleted_rows(self.spark, found.frame, numbered, found.number, has_all=by_size)

    def deferred(self, files: FileListing, schema: spark_types.StructType) -> DataFrame:
        """Return the rows of files chosen when Spark plans a query: the columns `schema`, and the partition columns."""
        self.require_shared()
        options = {**EVERY_FILE, **READ_AS_WRITTEN, **self.locations.reading}
        return frame_of_relation(self.spark, relation_of_index(self.spark, files, schema, options))

    def _relation(
        self,
        paths: Sequence[str],
        data: spark_types.StructType,
        partitions: spark_types.StructType,
        not_null: NullabilityMode,
    ) -> DataFrame:
        store = self.snapshot.store
        self.require_shared()
        kept = KeptRelations.of(self.spark)
        key = kept.key(self.locations, paths, (data.json(), partitions.json(), str(not_null)))
        if (known := kept.frame(key)) is not None:
            return known
        calendar = calendar_options(paths, self.snapshot.configuration)
        reader = self.spark.read.schema(spark_types.StructType([*data, *partitions])).options(**calendar)
        if len(partitions):
            reader = reader.option("basePath", self.locations.root)
        with self.named(paths):
            frame = read_files(self.spark, reader, self.locations, paths)
        if self.snapshot.column_mapping_mode == ID:
            field_ids.require_field_ids(store, paths)
        if is_connect(self.spark):
            return frame
        relation = relation_of(frame)
        if not_null != NullabilityMode.NOWHERE:
            relation = never_null(self.spark, relation, data, partitions)
        frame = frame_of_relation(self.spark, relation)
        kept.keep(key, frame)
        return frame


@dataclass(frozen=True)
class ArrowRowSource(_Files):
    """PyArrow readers on the executors. They skip deleted rows, and do not see the plan."""

    by_arrow = True
    # Only columns, because Spark compares nested types with the batches, and Arrow reads nested fields as nullable.
    not_null = NullabilityMode.COLUMNS

    def rows(self, asked: RowReadRequest) -> RowReadResult:
        constants = self.partition_constants(asked)
        not_null = never_null_constants(
            asked.partitions if asked.not_null != NullabilityMode.NOWHERE else (), constants
        )
        constants |= dict(asked.constants)
        ordinals = range(len(asked.paths)) if asked.ordinals is None else asked.ordinals
        if asked.needs_row:
            constants[_ORDINAL] = _ordinals(ordinals)
        self.require_shared()
        with self.named(asked.paths):
            # Only local files, because a remote check costs a request per file. A missing remote file fails the job.
            require_content(self.locations, asked.paths)
        values, varying = uniform_constants(constants, not_null)
        keys = {name: f"__slackwater_constant_{at}" for at, name in enumerate(varying)}
        frame = arrow_rows(
            self.spark,
            self.snapshot.store,
            self._files(asked),
            asked.schema,
            {keys[name]: constant for name, constant in varying.items()},
            self.snapshot.column_mapping_mode == ID,
            asked.needs_row,
            asked.test,
            frozenset(keys[name] for name in not_null if name in keys),
        )
        values |= {name: F.col(key) for name, key in keys.items()}
        if not asked.needs_row:
            return RowReadResult(frame, {}, values)
        return RowReadResult(frame, {}, values, ordinals, values[_ORDINAL])

    def without_deleted(self, found: RowReadResult, files: pa.Table) -> DataFrame:  # noqa: ARG002
        return found.frame

    def _files(self, asked: RowReadRequest) -> ArrowFiles:
        files, deleted = asked.files, None
        if files["deletionVector"].null_count == 0:
            vectors = files["deletionVector"].to_pylist()
            deleted = list(load_deletion_vectors(self.snapshot.store, vectors, self.allow_outside_root))
        sizes = files["size"].to_pylist() if "size" in files.column_names else None
        return ArrowFiles(
            asked.paths, sizes, deleted, self.locations.metadata_urls(asked.paths) if asked.needs_file else None
        )


def _ordinals(numbers: Sequence[int]) -> tuple[spark_types.DataType, pa.Array]:
    return spark_types.LongType(), pa.array(numbers, pa.int64())
