"""The two ways in which rows of data files become a frame: by Spark's own Parquet reader, or by executors in Python.

Source: delta-protocol.md "Data Files", "Deletion Vectors", "Partition Value Serialization".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from slackwater.errors import DataFileNotFound
from slackwater.protocol.features.column_mapping import ID
from slackwater.protocol.schema.schema import StructField, StructType
from slackwater.scan.deletion_vectors import load_deletion_vectors
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.parquet import field_ids
from slackwater.spark.parquet.rebase_modes import calendar_options
from slackwater.spark.read.arrow_rows import ArrowFiles, arrow_rows
from slackwater.spark.read.deleted_rows import deleted_rows, without_deleted_rows
from slackwater.spark.read.file_columns import (
    Constants,
    file_constants,
    file_number,
    file_numbers,
    hive_columns,
    never_null_constants,
    uniform_constants,
    with_file_constants,
)
from slackwater.spark.read.file_relations import KeptRelations, read_files, require_content
from slackwater.spark.session.classic_connect import frame_of_relation, is_connect, never_null, relation_of
from slackwater.spark.session.locations import DataLocations, verify_urls
from slackwater.spark.session.shared_storage import all_here, log_sample, not_shared, require_shared
from slackwater.spark.session.types import NullabilityMode, to_spark_schema
from slackwater.stats.row_groups import RowGroupTest

_ORDINAL = "__slackwater_ordinal"


@dataclass(frozen=True)
class RowReadRequest:
    """What is asked of `files`, whose `paths` are as `DataLocations.relative` gives them.

    `schema`: the columns to read from them; `partitions`: those whose values the log has; `constants`: further ones of
    each file. FILE is there with `needs_file`, ROW with `needs_row`, or to know which rows are deleted: then each
    row tells the number of its file, `ordinals` where they are given. Row groups that `test` rules out may be missing.
    `not_null`: what `schema` says is never null, and Spark is to know of the partitions.
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
    """A frame with the columns that were asked for, and where else partition values and constants come from.

    `native`: the names of partition columns that the frame has; `values`: what gives other ones, and constants.
    `told_number` tells in each row which file it is of, one of `numbers`, that stand in the order of the files.
    """

    frame: DataFrame
    native: Mapping[str, str]
    values: Mapping[str, Column]
    numbers: Sequence[int] = ()
    told_number: Column | None = None

    @property
    def number(self) -> Column:
        """Which file a row is of: one of `numbers`."""
        return F.lit(0) if self.told_number is None else self.told_number


class RowSource(Protocol):
    """A way in which rows of a snapshot's files become a frame."""

    @property
    def by_arrow(self) -> bool:
        """Whether Spark cannot tell what is needed: columns, and rows."""
        ...

    @property
    def planned_of(self) -> Sequence[str]:
        """Columns of the table of files that are needed besides path, partition values and deletion vector."""
        ...

    @property
    def not_null(self) -> NullabilityMode:
        """Of what Spark can be told that it is never null."""
        ...

    def rows(self, asked: RowReadRequest) -> RowReadResult:
        """The rows of files. Raises DataFileNotFound, CorruptTable, UnsupportedFeature, StorageError."""
        ...

    def without_deleted(self, found: RowReadResult, files: pa.Table) -> DataFrame:
        """The rows of files that all have a deletion vector, without those that these name."""
        ...


@dataclass(frozen=True)
class _Files:
    """The files of a snapshot, whose partition values are in the time zone `zone`."""

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
        """Within the block, a file that is gone is one of this version, or Spark sees another disk."""
        store = self.snapshot.store
        try:
            yield
        except DataFileNotFound as error:
            if all_here(store, paths):
                raise not_shared(store.root_url, "no data file of the table") from error
            raise DataFileNotFound(
                f"{store.root_url}: version {self.snapshot.version} names a data file that is gone: {error}; it may "
                "have been vacuumed: restore it, or read a version that does not need it"
            ) from error


@dataclass(frozen=True)
class SparkRowSource(_Files):
    """Spark's own reader, in the JVM: it knows the plan, but not the rows that deletion vectors hide."""

    by_arrow = False
    planned_of = ()

    @property
    def not_null(self) -> NullabilityMode:
        # Through Connect a relation of files is what Spark makes of it: all of it nullable.
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
        numbers = file_numbers(urls) if needs_row and asked.ordinals is None else None
        ordinals = range(len(asked.paths)) if asked.ordinals is None else asked.ordinals
        if needs_row and numbers is None:
            constants[_ORDINAL] = _ordinals(ordinals)
        frame = self._relation(asked.paths, asked.schema, partitions, asked.not_null)
        if urls:
            verify_urls(self.spark, frame, urls)
        frame, values = with_file_constants(self.spark, frame, urls, constants, needs_row, not_null)
        names = dict(zip((column.name for column in asked.partitions), native or [], strict=False))
        if not needs_row:
            return RowReadResult(frame, names, values)
        if numbers is None:
            return RowReadResult(frame, names, values, ordinals, values[_ORDINAL])
        return RowReadResult(frame, names, values, numbers, file_number())

    def without_deleted(self, found: RowReadResult, files: pa.Table) -> DataFrame:
        vectors = files["deletionVector"].to_pylist()
        words = deleted_rows(self.snapshot.store, found.numbers, vectors, self.allow_outside_root)
        return without_deleted_rows(self.spark, found.frame, words, found.number)

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
    """Executors that read files in Python: they leave out deleted rows themselves, and know nothing of the plan."""

    by_arrow = True
    planned_of = ("size",)
    # Spark compares nested types with those of the batches, and Arrow's readers make these nullable.
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
            # In a remote store, to ask for each file costs a request: there a file that is gone fails the job.
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
