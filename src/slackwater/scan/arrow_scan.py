"""Row scans in this process: the splits of the files, the columns, and the row filter.

Source: delta-protocol.md "Reader Requirements for Column Mapping", "… for Deletion Vectors",
"Partition Value Serialization".
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from slackwater.data_files.reader import MOST_AHEAD_BYTES, ReadProjection, RowCondition, Split, read_splits
from slackwater.data_files.row_filter import require_decidable
from slackwater.data_files.schema_adapter import NAME_IN_FILES_KEY
from slackwater.errors import DataFileNotFound, InvalidArgument
from slackwater.log.snapshot import LogSnapshot
from slackwater.predicate.columns import resolve_column
from slackwater.predicate.predicate import Predicate, columns_of
from slackwater.protocol.actions.partition_values import parse_partition_column
from slackwater.protocol.features.column_mapping import ID, NONE, field_id, physical_name
from slackwater.protocol.features.data_format import validate_parquet
from slackwater.protocol.schema.arrow_schema import extension_metadata, to_arrow_schema, to_arrow_type
from slackwater.protocol.schema.schema import VOID, StructField, StructType
from slackwater.scan.deletion_vectors import load_deletion_vectors
from slackwater.stats.row_groups import RowGroupTest
from slackwater.storage.parquet_footer import FIELD_ID_KEY
from slackwater.storage.path_guard import resolve_files

FILE_COLUMNS = ("path", "partitionValues", "size", "deletionVector")
"""The required columns of files for a scan."""

# Requests to a remote store overlap, so more readers help. Reads of a local disk are bound by decoding.
_REMOTE_READERS = 16
_FILES_AT_ONCE = 256
# Higher limit for callers with all rows in memory, because the rows need that memory anyway.
_MOST_AHEAD_OF_ALL_BYTES = 2 << 30
_FILE, _ROW = "__slackwater_file", "__slackwater_row"
_ALL_ROWS: Mapping[str, BitMap64] = {}


@dataclass(frozen=True, slots=True)
class ArrowScan:
    """A scan of rows of `snapshot`: `columns` of its schema, limited to rows for which `predicate` is true.

    `zone` is the time zone of partition values without one.
    """

    snapshot: LogSnapshot
    columns: tuple[StructField, ...]
    predicate: Predicate | None
    zone: str

    @staticmethod
    def of(
        snapshot: LogSnapshot, columns: Sequence[str] | None, predicate: Predicate | None, zone: str = "UTC"
    ) -> ArrowScan:
        """Return a scan of `columns` in their order, or of all columns if None.

        Raises:
            InvalidArgument: If a column is unknown or duplicated, or if the predicate cannot filter rows.
            UnsupportedFeature: If the data files are not Parquet.
        """
        validate_parquet(snapshot.metadata, snapshot.store.root_url)
        if predicate is not None:
            require_decidable(predicate)
        schema = snapshot.schema
        chosen = schema.fields if columns is None else _chosen(schema, columns)
        return ArrowScan(snapshot, tuple(chosen), predicate, zone)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows, by display names."""
        return to_arrow_schema(StructType(self.columns))

    def batches(
        self,
        files: pa.Table,
        limit: int | None = None,
        keeps_all: bool = False,
        only: Mapping[str, BitMap64] = _ALL_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `files`, which have FILE_COLUMNS, in their order, at most `limit` rows.

        Several files and row groups are read concurrently, more of them if the caller `keeps_all` rows in memory. With
        a `limit`, files are read one after another. `only` limits the rows of a file (by path) to these indexes. Raises
        DataFileNotFound, CorruptTable, CorruptDeletionVector, PathNotAllowed, UnsupportedFeature, StorageError.
        """
        snapshot = self.snapshot
        readers = _readers(snapshot) if limit is None else 1
        ahead_bytes = _MOST_AHEAD_OF_ALL_BYTES if keeps_all else MOST_AHEAD_BYTES
        try:
            found = read_splits(snapshot.store, self._splits(files, only), self._wanted(), readers, ahead_bytes)
            for batch in _first(found, limit):
                # A batch without projected columns has one column of nulls.
                yield batch if self.columns else batch.select([])
        except DataFileNotFound as error:
            raise DataFileNotFound(f"version {snapshot.version} names a data file that is gone: {error}") from error

    def addresses(self, files: pa.Table) -> dict[str, BitMap64]:
        """Return the indexes of the rows of `files` for which the predicate is true, by path. No path has no rows.

        `files` has FILE_COLUMNS. Raises as `batches`.
        """
        snapshot, wanted = self.snapshot, self._wanted()
        place = pa.field(_FILE, pa.int64())
        addressed = replace(
            wanted,
            constants=pa.schema([*wanted.constants, place]),
            row=_ROW,
            given=pa.schema([place, pa.field(_ROW, pa.int64())]),
        )
        numbered = (
            replace(split, constants={**split.constants, _FILE: pa.scalar(number, pa.int64())})
            for number, split in enumerate(self._splits(files, _ALL_ROWS))
        )
        paths = files["path"].to_pylist()
        found: dict[str, BitMap64] = {}
        for batch in read_splits(snapshot.store, numbered, addressed, _readers(snapshot)):
            rows = batch.column(1).to_numpy().astype(np.uint64)
            found.setdefault(paths[batch.column(0)[0].as_py()], BitMap64()).update(rows)
        return found

    def _wanted(self) -> ReadProjection:
        snapshot, read = self.snapshot, self._read
        mode = snapshot.column_mapping_mode
        constant = self._constant
        condition, test = None, None
        if self.predicate is not None:
            condition = RowCondition(self.predicate, StructType(tuple(read)))
            partitions = snapshot.metadata.partition_columns
            test = RowGroupTest.of(self.predicate, snapshot.schema, mode, partitions)
        return ReadProjection(
            pa.schema([_in_files(c, mode) for c in read if c.name not in constant]),
            mode == ID,
            pa.schema([pa.field(c.name, to_arrow_type(c.type)) for c in read if c.name in constant]),
            matching=test,
            where=condition,
            given=self.schema,
        )

    @property
    def _read(self) -> list[StructField]:
        """The projected columns and the columns of the predicate."""
        names = {path[0] for path in columns_of(self.predicate)} if self.predicate is not None else set()
        names |= {column.name for column in self.columns}
        return [column for column in self.snapshot.schema if column.name in names]

    @property
    def _constant(self) -> frozenset[str]:
        """The columns with a single value per file: partition columns and void columns, which are not in files."""
        partitions = set(self.snapshot.metadata.partition_columns)
        return frozenset(c.name for c in self.snapshot.schema if c.name in partitions or c.type == VOID)

    def _splits(self, files: pa.Table, only: Mapping[str, BitMap64]) -> Iterator[Split]:
        # Groups of files, so that the first rows do not wait for the deletion vectors of all files.
        for start in range(0, files.num_rows, _FILES_AT_ONCE):
            yield from self._splits_of(files.slice(start, _FILES_AT_ONCE), only)

    def _splits_of(self, files: pa.Table, only: Mapping[str, BitMap64]) -> Iterator[Split]:
        snapshot = self.snapshot
        store, outside = snapshot.store, snapshot.table.follows_outside
        vectors = files["deletionVector"].to_pylist()
        known = [vector for vector in vectors if vector is not None]
        bitmaps = iter(load_deletion_vectors(store, known, outside) if known else ())
        paths = files["path"].to_pylist()
        places = resolve_files(store, paths, outside)
        constant = self._constant
        columns = {c.name: self._values(files, c) for c in self._read if c.name in constant}
        for at, (place, vector, size) in enumerate(zip(places, vectors, files["size"].to_pylist(), strict=True)):
            values = {name: column[at] for name, column in columns.items()}
            deleted = None if vector is None else next(bitmaps)
            yield Split(place, 0, None, deleted, values, size, only.get(paths[at]))

    def _values(self, files: pa.Table, column: StructField) -> pa.Array:
        if column.type == VOID:
            return pa.nulls(files.num_rows)
        name = physical_name(column, self.snapshot.column_mapping_mode)
        texts = pc.map_lookup(files["partitionValues"].combine_chunks(), name, "first")
        return parse_partition_column(texts, column.type, self.zone)


def _first(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """Yield all of `batches`, or the first `limit` rows."""
    if limit is None:
        yield from batches
        return
    left = limit
    while left > 0 and (batch := next(batches, None)) is not None:
        yield batch.slice(0, left)
        left -= min(left, batch.num_rows)


def _readers(snapshot: LogSnapshot) -> int:
    processors = os.cpu_count() or 1
    return max(2, processors) if snapshot.store.local_root is not None else max(_REMOTE_READERS, processors)


def require_limit(limit: int | None) -> None:
    """Raise InvalidArgument unless `limit` is None or a number of rows."""
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise InvalidArgument(f"a limit is a whole number from 0, found {limit!r}")


def _chosen(schema: StructType, names: Sequence[str]) -> list[StructField]:
    if isinstance(names, str):
        raise InvalidArgument(f"columns must be a list of names, found the text {names!r}. Write [{names!r}]")
    found = [resolve_column(schema, [name]).path[0] for name in names]
    twice = next((name for at, name in enumerate(found) if name in found[:at]), None)
    if twice is not None:
        raise InvalidArgument(f"column {twice} is requested twice", error_class="DELTA_DUPLICATE_COLUMNS_FOUND")
    by_name = {column.name: column for column in schema}
    return [by_name[name] for name in found]


def _in_files(column: StructField, mode: str) -> pa.Field:
    """Return the Arrow field of `column` by display names, with its physical name and field id in the metadata."""
    metadata = extension_metadata(column.type) or {}
    if mode != NONE:
        metadata[NAME_IN_FILES_KEY] = physical_name(column, mode).encode()
    if mode == ID:
        metadata[FIELD_ID_KEY] = str(field_id(column)).encode()
    arrow = to_arrow_type(column.type, partial(_in_files, mode=mode))
    return pa.field(column.name, arrow, column.nullable, metadata or None)
