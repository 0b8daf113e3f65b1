"""Copies unchanged rows into new files with PyArrow on the executors.

No row passes through the JVM.
Source: delta-protocol.md "Writer Requirements for Row Tracking", "Deletion Vectors", "Partition Columns".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import types as spark_types

from slackwater.data_files.reader import ReadProjection, Split
from slackwater.data_files.rewriter import CarriedColumn, RewriteSpec
from slackwater.data_files.writer import FileFormat, options_of, pages_of
from slackwater.errors import CorruptTable, UnsupportedFeature
from slackwater.maintenance.layout.bin_packing import Bin, BinPackingOptions, bins_of
from slackwater.protocol.actions.files import AddFile
from slackwater.protocol.actions.partition_values import hive_directory
from slackwater.protocol.features.column_mapping import ID, NONE, physical_name, physical_schema
from slackwater.protocol.properties.parquet_version import WRITER_VERSION
from slackwater.protocol.schema.schema import VOID, StructField, StructType
from slackwater.scan.deletion_vectors import load_deletion_vectors
from slackwater.scan.row_count import rows_left
from slackwater.spark.dml.dml_command import DmlCommand
from slackwater.spark.parquet.rebase_modes import rebases_unmarked_files, spark_footer
from slackwater.spark.read.file_columns import ROW, file_constants
from slackwater.spark.read.metadata_column import materialized_names
from slackwater.spark.session.arrow_types import to_arrow_schema
from slackwater.spark.session.classic_connect import hadoop_setting
from slackwater.spark.session.types import PARQUET_FIELD_ID, to_spark_schema
from slackwater.spark.storage.row_transport import has_python_workers
from slackwater.spark.storage.shared_storage import require_shared
from slackwater.spark.write.files.arrow_files import CODEC
from slackwater.spark.write.files.bin_rewrite import BinWork, rewrite_bins
from slackwater.spark.write.files.data_files import FileLayout, WrittenFiles, place_files
from slackwater.spark.write.files.staging import staging_for
from slackwater.spark.write.table_writer import WriteResult

_BASE, _VERSION = "__slackwater_base_row_id", "__slackwater_default_commit_version"
_ENCRYPTION = "parquet.crypto.factory.class"
_NO_ROWS: Mapping[str, BitMap64] = {}
# Below this size, starting the session's first Python worker costs more time than the rewrite saves.
_WORTH_BYTES = 8 << 20
# Files above this size are not combined with other files.
_COPIED_BYTES = 32 << 20
Finished = Callable[[Bin, AddFile], AddFile]
"""Completes the add action of a file written from a bin."""


class ExecutorRewrite:
    """The executor rewrite of one change."""

    def __init__(self, change: DmlCommand) -> None:
        self._change = change

    @cached_property
    def is_possible(self) -> bool:
        """Return whether executors can read and write the files in Python."""
        change = self._change
        if change.scan.by_arrow:
            return True
        if hadoop_setting(change.spark, _ENCRYPTION) or not has_python_workers(change.spark, change.snapshot.store):
            return False
        try:
            _ = self._rewriting
        except UnsupportedFeature:
            return False
        return True

    def pays(self, files: pa.Table) -> bool:
        """Return whether the executor rewrite of `files` is possible and cheaper than a copy by Spark."""
        return sum(files["size"].to_pylist()) >= _WORTH_BYTES and self.is_possible

    def move(
        self,
        bins: Sequence[Bin],
        finished: Finished = lambda _, add: add,
        without: Mapping[str, BitMap64] = _NO_ROWS,
        data_change: bool = False,
    ) -> WriteResult | None:
        """Write the rows of each bin to new files, except the rows of `without` (by path), and stage the files.

        Returns None and writes nothing if the rewrite is not possible, or if only Spark's own reader can read some
        files. Raises InvalidArgument if the number of rows read or written differs from the expected number.
        """
        if not self.is_possible:
            return None
        store = self._change.snapshot.store
        written = WrittenFiles(store)
        try:
            with staging_for(store, "") as staging:
                require_shared(self._change.spark, store, staging.token)
                works = [
                    BinWork(self._splits(each, without), f"{staging.rows}/{self._directory(each)}".rstrip("/"))
                    for each in bins
                ]
                done = rewrite_bins(self._change.spark, store, works, self._rewriting)
                adds = []
                for each, result in zip(bins, done, strict=True):
                    placed = place_files(
                        store, staging, self._layout, result.files, each.partition_values, written, data_change
                    )
                    self._require_all(each, without, result.num_read, placed)
                    adds += [finished(each, add) for add in placed]
        except (UnsupportedFeature, CorruptTable):
            written.discard()
            if self._change.scan.by_arrow:
                raise
            return None
        except BaseException:
            written.discard()
            raise
        return self._change.keep(WriteResult(WrittenFiles(store, adds)))

    def copy(
        self, files: pa.Table, without: Mapping[str, BitMap64], otherwise: Callable[[], WriteResult]
    ) -> WriteResult:
        """Copy the unchanged rows of `files` to new files, except the rows of `without` (by path).

        Uses `move` if possible, else calls `otherwise`. Raises the errors of `move`.
        """
        bins = bins_of(files, BinPackingOptions(max_bytes=_COPIED_BYTES), rewrites_single=True)
        moved = self.move(bins, without=without, data_change=True)
        return otherwise() if moved is None else moved

    def _require_all(self, each: Bin, without: Mapping[str, BitMap64], num_read: int, adds: Sequence[AddFile]) -> None:
        num_written = sum(add.num_records or 0 for add in adds)
        self._change.require_rows(num_read, num_written)
        taken = {path: len(without.get(path, ())) for path in each.files["path"].to_pylist()}
        self._change.require_rows(rows_left(each.files, taken), num_written)

    @cached_property
    def _layout(self) -> FileLayout:
        return self._change.rows.layout(self._kept_names)

    @property
    def _kept_names(self) -> list[str]:
        return materialized_names(self._change.snapshot) if self._change.is_tracked else []

    @cached_property
    def _rewriting(self) -> RewriteSpec:
        """The read and write specification. Raises UnsupportedFeature for a type without a counterpart in Python."""
        change, layout = self._change, self._layout
        fields = [c for c in change.schema if c.name not in layout.partition_columns and c.type != VOID]
        data = physical_schema(StructType(tuple(fields)), layout.mode)
        read, write = (to_spark_schema(data, field_ids=ids) for ids in (layout.mode == ID, layout.mode != NONE))
        for name in layout.hidden:
            number = layout.hidden_ids.get(name)
            metadata = None if number is None else {PARQUET_FIELD_ID: number}
            read, write = read.add(name, "long"), write.add(name, "long", metadata=metadata)
        constants = spark_types.StructType()
        if change.is_tracked:
            constants = constants.add(_BASE, "long").add(_VERSION, "long")
        if layout.materialize_partitions:
            held = to_spark_schema(physical_schema(StructType(tuple(self._partitioned)), layout.mode))
            typed = to_spark_schema(
                physical_schema(StructType(tuple(self._partitioned)), layout.mode), field_ids=layout.mode != NONE
            )
            for plain, column in zip(held, typed, strict=True):
                constants = constants.add(plain.name, plain.dataType)
                write = write.add(column.name, column.dataType, metadata=column.metadata)
        wanted = ReadProjection(
            to_arrow_schema(read, in_files=True),
            layout.mode == ID,
            to_arrow_schema(constants),
            ROW if change.is_tracked else None,
            unmarked_is_julian=rebases_unmarked_files(change.spark),
        )
        options = change.rows.parquet_options({})
        codec, most = options_of(options, change.spark.conf.get(CODEC, None) or "snappy")
        pages = pages_of(options, change.spark.conf.get(WRITER_VERSION, None))
        kept: tuple[CarriedColumn, ...] = ()
        if change.is_tracked:
            row_id, version = layout.hidden
            kept = (CarriedColumn(row_id, _BASE, True), CarriedColumn(version, _VERSION, False))
        footer = spark_footer(change.spark, write)
        columns = to_arrow_schema(write, in_files=True)
        form = FileFormat(columns, codec=codec, max_rows=most, footer=footer, pages=pages)
        return RewriteSpec(wanted, form, kept)

    @property
    def _partitioned(self) -> list[StructField]:
        return [c for name in self._layout.partition_columns if (c := self._change.schema.get(name)) is not None]

    def _splits(self, each: Bin, without: Mapping[str, BitMap64]) -> list[Split]:
        files, paths = each.files, each.files["path"].to_pylist()
        places = self._change.scan.locations.relatives(paths)
        vectors = files["deletionVector"].to_pylist()
        nodes = [vector for vector in vectors if vector is not None]
        loaded = iter(load_deletion_vectors(self._change.snapshot.store, nodes, self._change.scan.follows_outside))
        deleted = [
            _united(None if v is None else next(loaded), without.get(p)) for p, v in zip(paths, vectors, strict=True)
        ]
        constants: dict[str, pa.Array] = {}
        if self._change.is_tracked:
            columns = {_BASE: "baseRowId", _VERSION: "defaultRowCommitVersion"}
            constants = {key: files[name].combine_chunks() for key, name in columns.items()}
        if self._layout.materialize_partitions:
            mode = self._layout.mode
            typed = file_constants(files["partitionValues"], self._partitioned, mode, self._change.scan.zone)
            constants |= {physical_name(c, mode): typed[c.name][1] for c in self._partitioned}
        sizes = files["size"].to_pylist()
        return [
            Split(place, 0, None, deleted[at], {name: values[at] for name, values in constants.items()}, sizes[at])
            for at, place in enumerate(places)
        ]

    def _directory(self, each: Bin) -> str:
        names = [physical_name(column, self._layout.mode) for column in self._partitioned]
        return hive_directory([(name, each.partition_values[name]) for name in names])


def _united(one: BitMap64 | None, other: BitMap64 | None) -> BitMap64 | None:
    return (one | other) if one is not None and other is not None else one if other is None else other
