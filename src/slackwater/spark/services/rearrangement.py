"""Rows that move into other files of their table, and stay what they are.

Executors do it in Python where they can, since no row then passes through the JVM; else Spark does, a job for each bin.
Source: delta-protocol.md "Add File and Remove File" (dataChange), "Writer Requirements for Row Tracking".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as spark_types

from slackwater.data_files.reading import RowsWanted, Split
from slackwater.data_files.rewriting import KeptColumn, Rewriting
from slackwater.data_files.writing import FileFormat, options_of
from slackwater.errors import CorruptTable, UnsupportedFeature
from slackwater.maintenance.layout.bins import PACKED_BYTES, Bin
from slackwater.protocol.actions.files import AddFile
from slackwater.protocol.actions.partition_values import hive_directory
from slackwater.protocol.features.column_mapping import ID, NONE, physical_name, physical_schema
from slackwater.protocol.properties.properties import MATERIALIZED_ROW_COMMIT_VERSION, MATERIALIZED_ROW_ID
from slackwater.protocol.schema.schema import VOID, StructField, StructType
from slackwater.scan.deletion_vectors import load_deletion_vectors
from slackwater.spark.change.row_change import FileWork, RowChange, record_counts, total
from slackwater.spark.read.file_columns import FILE, ROW, file_constants
from slackwater.spark.read.located_rows import ADDRESS
from slackwater.spark.session.arrow_types import to_arrow_schema
from slackwater.spark.session.modes import hadoop_setting
from slackwater.spark.session.row_way import has_python_workers
from slackwater.spark.session.shared_storage import require_shared
from slackwater.spark.session.types import to_spark_schema
from slackwater.spark.write.files.arrow_files import CODEC
from slackwater.spark.write.files.bin_files import BinWork, rewrite_bins
from slackwater.spark.write.files.data_files import FileLayout, WrittenFiles, place_files, write_data_files
from slackwater.spark.write.files.staging import staging_for
from slackwater.spark.write.table_rows import RowsWritten
from slackwater.transaction.clock import Clock
from slackwater.transaction.rows.recommit import as_removes

_BASE, _VERSION = "__slackwater_base_row_id", "__slackwater_default_commit_version"
_ENCRYPTION = "parquet.crypto.factory.class"
_JOBS_AT_ONCE = 4
_CLOCK = Clock()
Finished = Callable[[Bin, AddFile], AddFile]
"""What else is said of a file that a bin became."""


class Rearrangement(RowChange):
    """An operation after which the table has the same rows in other files, with their ids.

    It reads nothing that another writer could make untrue: only who changes or removes the same files is in its way.
    """

    is_by_application = False

    def rewrite(self, bins: Sequence[Bin], finished: Finished) -> None:
        """Let the rows of each bin be in one file. Raises InvalidArgument where not all of them are written."""
        if not bins:
            return
        if not (self.is_by_python and self._by_python(bins, finished)):
            self._by_spark(bins, finished)
        self.remove_moved(pa.concat_tables([each.files for each in bins]))

    def rewrite_along(
        self, bins: Sequence[Bin], finished: Finished, ordered: Callable[[Bin, DataFrame], DataFrame]
    ) -> None:
        """Let the rows of each bin be in files as the tasks of the frame have them that `ordered` makes of theirs.

        Raises InvalidArgument where not all of them are written.
        """
        for first in range(0, len(bins), _JOBS_AT_ONCE):
            chosen = bins[first : first + _JOBS_AT_ONCE]
            self.at_once([self._work(each, ordered(each, self._frame(each)), finished) for each in chosen])
        if bins:
            self.remove_moved(pa.concat_tables([each.files for each in bins]))

    def _frame(self, each: Bin) -> DataFrame:
        """The rows of a bin, with their ids where they have some."""
        if not self.is_tracked:
            return self.scan.frame_of(each.files)
        return self.scan.located(each.files).frame.drop(ADDRESS, FILE, ROW)

    def remove_moved(self, files: pa.Table) -> None:
        """Remove files whose rows are in other ones now."""
        self.transaction.remove(as_removes(files, _CLOCK.now_ms(), data_change=False))

    @cached_property
    def is_by_python(self) -> bool:
        """Whether executors can read and write the files in Python."""
        if self.scan.by_arrow:
            return True
        if hadoop_setting(self.spark, _ENCRYPTION) or not has_python_workers(self.spark, self.snapshot.store):
            return False
        try:
            _ = self._rewriting
        except UnsupportedFeature:
            return False
        return True

    # By executors in Python.

    def _by_python(self, bins: Sequence[Bin], finished: Finished) -> bool:
        """Rewrite all bins; False, and nothing is done, where some files are such as Spark's own reader alone reads."""
        store, layout = self.snapshot.store, self._layout
        written = WrittenFiles(store)
        try:
            with staging_for(store, "") as staging:
                require_shared(self.spark, store, staging.token)
                works = [
                    BinWork(self._splits(each), f"{staging.rows}/{self._directory(each)}".rstrip("/")) for each in bins
                ]
                done = rewrite_bins(self.spark, store, works, self._rewriting)
                adds = []
                for each, result in zip(bins, done, strict=True):
                    placed = place_files(store, staging, layout, result.files, each.partition_values, written)
                    self._require_all(each, result.num_read, placed)
                    adds += [finished(each, add) for add in placed]
        except (UnsupportedFeature, CorruptTable):
            written.discard()
            if self.scan.by_arrow:
                raise
            return False
        except BaseException:
            written.discard()
            raise
        self.keep(RowsWritten(WrittenFiles(store, adds)))
        return True

    def _require_all(self, each: Bin, num_read: int, adds: Sequence[AddFile]) -> None:
        num_written = sum(add.num_records or 0 for add in adds)
        self.require_rows(num_read, num_written)
        self.require_rows(total(record_counts(each.files).values()), num_written)

    @cached_property
    def _layout(self) -> FileLayout:
        return self.rows.layout(self._kept_names)

    @property
    def _kept_names(self) -> list[str]:
        properties = self.snapshot.properties
        names = (MATERIALIZED_ROW_ID, MATERIALIZED_ROW_COMMIT_VERSION) if self.is_tracked else ()
        return [properties[name] for name in names]

    @cached_property
    def _rewriting(self) -> Rewriting:
        """How rows are read and written. Raises UnsupportedFeature for a type that Python knows nothing of."""
        layout = self._layout
        fields = [c for c in self.schema if c.name not in layout.partition_columns and c.type != VOID]
        data = physical_schema(StructType(tuple(fields)), layout.mode)
        read, write = (to_spark_schema(data, field_ids=ids) for ids in (layout.mode == ID, layout.mode != NONE))
        for name in layout.hidden:
            read, write = read.add(name, "long"), write.add(name, "long")
        constants = spark_types.StructType()
        if self.is_tracked:
            constants = constants.add(_BASE, "long").add(_VERSION, "long")
        if layout.materialize_partitions:
            held = to_spark_schema(physical_schema(StructType(tuple(self._partitioned)), layout.mode))
            typed = to_spark_schema(
                physical_schema(StructType(tuple(self._partitioned)), layout.mode), field_ids=layout.mode != NONE
            )
            for plain, column in zip(held, typed, strict=True):
                constants = constants.add(plain.name, plain.dataType)
                write = write.add(column.name, column.dataType, metadata=column.metadata)
        wanted = RowsWanted(
            to_arrow_schema(read), layout.mode == ID, to_arrow_schema(constants), ROW if self.is_tracked else None
        )
        codec, most = options_of(self.rows.parquet_options({}), self.spark.conf.get(CODEC, None) or "snappy")
        kept: tuple[KeptColumn, ...] = ()
        if self.is_tracked:
            row_id, version = layout.hidden
            kept = (KeptColumn(row_id, _BASE, True), KeptColumn(version, _VERSION, False))
        return Rewriting(wanted, FileFormat(to_arrow_schema(write), codec=codec, max_rows=most), kept)

    @property
    def _partitioned(self) -> list[StructField]:
        return [c for name in self._layout.partition_columns if (c := self.schema.get(name)) is not None]

    def _splits(self, each: Bin) -> list[Split]:
        files = each.files
        places = self.scan.locations.relatives(files["path"].to_pylist())
        vectors = files["deletionVector"].to_pylist()
        nodes = [vector for vector in vectors if vector is not None]
        loaded = iter(load_deletion_vectors(self.snapshot.store, nodes, self.scan.follows_outside))
        deleted = [None if vector is None else next(loaded) for vector in vectors]
        constants: dict[str, pa.Array] = {}
        if self.is_tracked:
            columns = {_BASE: "baseRowId", _VERSION: "defaultRowCommitVersion"}
            constants = {key: files[name].combine_chunks() for key, name in columns.items()}
        if self._layout.materialize_partitions:
            mode = self._layout.mode
            typed = file_constants(files["partitionValues"], self._partitioned, mode, self.scan.zone)
            constants |= {physical_name(c, mode): typed[c.name][1] for c in self._partitioned}
        sizes = files["size"].to_pylist()
        return [
            Split(place, 0, None, deleted[at], {name: values[at] for name, values in constants.items()}, sizes[at])
            for at, place in enumerate(places)
        ]

    def _directory(self, each: Bin) -> str:
        names = [physical_name(column, self._layout.mode) for column in self._partitioned]
        return hive_directory([(name, each.partition_values[name]) for name in names])

    # By Spark.

    def _by_spark(self, bins: Sequence[Bin], finished: Finished) -> None:
        for first in range(0, len(bins), _JOBS_AT_ONCE):
            chosen = bins[first : first + _JOBS_AT_ONCE]
            self.at_once([self._work(each, self._one_task(each), finished) for each in chosen])

    def _one_task(self, each: Bin) -> DataFrame:
        """The rows in the order of the files, of which Spark deals the large ones out first."""
        return self.scan.located(each.files, in_order=True).frame.coalesce(1).sortWithinPartitions(ADDRESS)

    def _work(self, each: Bin, rows: DataFrame, finished: Finished) -> FileWork:
        frame, hidden = self.rows.with_kept_ids(rows)
        layout = self.rows.layout(hidden)

        def write() -> RowsWritten:
            options = self.rows.parquet_options({})
            values = each.partition_values
            files = write_data_files(frame, self.snapshot.store, layout, options, data_change=False, partition=values)
            files.adds[:] = [finished(each, add) for add in files.adds]
            return self.keep(RowsWritten(files))

        return FileWork(write, total(record_counts(each.files).values()))


def as_purged(each: Bin, add: AddFile) -> AddFile:
    """As `as_compacted`; a file whose rows stay together stays what it was: of a cube, say."""
    if each.files.num_rows > 1:
        return as_compacted(each, add)
    (before,) = each.files.select(["tags", "clusteringProvider"]).to_pylist()
    tags = {name: text for name, text in before["tags"] or () if text is not None}
    return replace(add, tags=tags or None, clustering_provider=before["clusteringProvider"])


def as_compacted(each: Bin, add: AddFile) -> AddFile:
    """`add`, as what a bin became: it remembers how full that was."""
    return replace(add, tags={**(add.tags or {}), PACKED_BYTES: str(each.packed_bytes)})
