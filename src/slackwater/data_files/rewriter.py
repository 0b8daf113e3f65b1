"""Rewrites the rows of many files into fewer files, in order, in any process.

Small files are read completely, several at a time and by several threads. The column match of one file is reused for
all files with the same schema. Source: delta-protocol.md "Data Files", "Writer Requirements for Row Tracking".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slackwater.data_files.datetime_rebase import may_be_julian, require_no_rebase_needed
from slackwater.data_files.reader import UNREADABLE, ReadProjection, Split, finished, read_splits
from slackwater.data_files.schema_adapter import ColumnMatch, matched
from slackwater.data_files.writer import FileFormat, WrittenFile, write_rows
from slackwater.errors import CorruptTable, DataFileNotFound, ObjectNotFound
from slackwater.protocol.actions.paths import is_absolute
from slackwater.storage.parquet_footer import DEEP_SCHEMAS, FIELD_ID_KEY
from slackwater.storage.path_guard import open_resolved
from slackwater.storage.store import ObjectStore

_SMALL_BYTES = 4 << 20
_AT_ONCE_BYTES, _AT_ONCE_FILES = 4 << 20, 64
_MOST_AHEAD = 12


@dataclass(frozen=True, slots=True)
class CarriedColumn:
    """A column of the new files with the value from the old file, or, if null, the value of the column `default`.

    With `plus_row` the row's index in its file is added to the default.
    """

    name: str
    default: str
    plus_row: bool


@dataclass(frozen=True, slots=True)
class RewriteSpec:
    """Columns to read, and the format of the new files. `kept` are carried columns, a subset of the read columns.

    If a carried column has `plus_row`, `wanted` names the column `row`.
    """

    wanted: ReadProjection
    form: FileFormat
    kept: Sequence[CarriedColumn] = ()


@dataclass(frozen=True, slots=True)
class RewriteResult:
    """The written files, and the number of rows read."""

    files: list[WrittenFile]
    num_read: int


def rewrite(
    store: ObjectStore, splits: Sequence[Split], directory: str, how: RewriteSpec, readers: int = 1
) -> RewriteResult:
    """Write the live rows of whole files, in the order of `splits`, to files below `directory`.

    `readers` is the number of reader threads. Files may remain after an error. Raises the errors of `read_splits` and
    `write_rows`.
    """
    counted = _Counted(_rows(store, splits, how, readers))
    files = list(write_rows(counted, store, directory, how.form))
    return RewriteResult(files, counted.num_rows)


class _Counted:
    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = batches
        self.num_rows = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            self.num_rows += batch.num_rows
            yield batch


def _rows(store: ObjectStore, splits: Sequence[Split], how: RewriteSpec, readers: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `splits` with carried columns filled in."""
    for batch in _in_order(store, splits, how.wanted, readers):
        yield _with_kept(batch, how) if how.kept else batch


def _in_order(
    store: ObjectStore, splits: Sequence[Split], wanted: ReadProjection, readers: int
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `splits` in order. Small files are read ahead, large files when their turn comes."""
    small = _SmallFiles(store, wanted)
    with ThreadPoolExecutor(readers) as pool:
        coming: deque[Future[list[pa.RecordBatch]] | Split] = deque()
        works = _works(splits)
        while True:
            while len(coming) < _MOST_AHEAD and (work := next(works, None)) is not None:
                coming.append(work if isinstance(work, Split) else pool.submit(small.rows, work))
            if not coming:
                return
            first = coming.popleft()
            yield from read_splits(store, [first], wanted) if isinstance(first, Split) else first.result()


def _works(splits: Iterable[Split]) -> Iterator[list[Split] | Split]:
    """Group adjacent small files into batches, and yield large files alone, in order."""
    held: list[Split] = []
    held_bytes = 0
    for split in splits:
        is_small = split.size_bytes is not None and split.size_bytes <= _SMALL_BYTES
        size = split.size_bytes or 0
        if held and (not is_small or len(held) == _AT_ONCE_FILES or held_bytes + size > _AT_ONCE_BYTES):
            yield held
            held, held_bytes = [], 0
        if is_small:
            held.append(split)
            held_bytes += size
        else:
            yield split
    if held:
        yield held


@dataclass(frozen=True, slots=True)
class _Layout:
    """Match of the requested columns for files with this schema."""

    schema: pa.Schema
    names: list[str]
    columns: list[ColumnMatch]

    def of(self, batch: pa.RecordBatch, wanted: ReadProjection) -> pa.RecordBatch:
        found = {name: batch.column(batch.schema.get_field_index(name)) for name in self.names}
        nothing = pa.nulls(batch.num_rows)
        arrays = [c.convert(nothing if c.name is None else found[c.name]) for c in self.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=wanted.columns)


@dataclass(frozen=True, slots=True)
class _Opened:
    """A file read into memory. `table` is None if the file contains none of the requested columns."""

    split: Split
    layout: _Layout
    is_old: bool
    table: pa.Table | None

    def goes_with(self, other: _Opened) -> bool:
        """Return whether the rows of both files can be processed together."""
        plain = self.split.deleted is None and other.split.deleted is None and not (self.is_old or other.is_old)
        return plain and self.layout is other.layout and self.table is not None


class _SmallFiles:
    """Reads files with one request each."""

    def __init__(self, store: ObjectStore, wanted: ReadProjection) -> None:
        self._store = store
        self._wanted = wanted
        self._known: _Layout | None = None

    def rows(self, splits: Sequence[Split]) -> list[pa.RecordBatch]:
        contents = self._contents(splits)
        found: list[pa.RecordBatch] = []
        # Rows of files with equal properties are processed together.
        alike: list[_Opened] = []
        for split, content in zip(splits, contents, strict=True):
            opened = self._opened(split, content)
            if alike and not (self._are_plain and opened.goes_with(alike[0])):
                found += self._finished(alike)
                alike = []
            alike.append(opened)
        return found + (self._finished(alike) if alike else [])

    @property
    def _are_plain(self) -> bool:
        return self._wanted.row is None and not self._wanted.constants.names

    def _opened(self, split: Split, content: bytes) -> _Opened:
        where = f"{self._store.root_url}: {split.place}"
        try:
            # Content in memory needs no prefetching by other threads.
            source = pa.BufferReader(content)
            file = pq.ParquetFile(source, coerce_int96_timestamp_unit="us", pre_buffer=False, **DEEP_SCHEMAS)
            layout = self._layout(file, where)
            columns = None if len(layout.names) == len(layout.schema) else layout.names
            is_old = may_be_julian(file.metadata, split.place, self._wanted.unmarked_is_julian)
            table = file.read(columns, use_threads=False) if layout.names else None
        except UNREADABLE as error:
            raise CorruptTable(f"{where} is not a Parquet file, or is damaged: {error}") from error
        return _Opened(split, layout, is_old, table)

    def _finished(self, alike: Sequence[_Opened]) -> list[pa.RecordBatch]:
        """Return the live rows of one file, or of several equal files, in the requested columns."""
        one = alike[0]
        if one.table is None:
            return list(read_splits(self._store, [opened.split for opened in alike], self._wanted))
        table = one.table if len(alike) == 1 else pa.concat_tables([o.table for o in alike]).combine_chunks()
        deleted = np.array([] if one.split.deleted is None else one.split.deleted.to_array(), np.uint64)
        found: list[pa.RecordBatch] = []
        first = 0
        for batch in table.to_batches():
            rows = one.layout.of(batch, self._wanted)
            if one.is_old:
                require_no_rebase_needed(rows, f"{self._store.root_url}: {one.split.place}")
            found += finished(rows, first, one.split, self._wanted, deleted)
            first += batch.num_rows
        return found

    def _contents(self, splits: Sequence[Split]) -> list[bytes]:
        try:
            if not any(is_absolute(split.place) for split in splits):
                return self._store.read_many([split.place for split in splits])
            opened = [open_resolved(self._store, split.place) for split in splits]
            return [store.read(path) for store, path in opened]
        except ObjectNotFound as error:
            raise DataFileNotFound(
                f"{self._store.root_url}: a data file does not exist: {error}. A VACUUM may have deleted it. Restore it"
            ) from error

    def _layout(self, file: pq.ParquetFile, where: str) -> _Layout:
        schema, known = file.schema_arrow, self._known
        if known is not None and schema.equals(known.schema, check_metadata=True):
            return known
        by_id = self._wanted.by_id
        if by_id and len(schema) and not any(FIELD_ID_KEY in (field.metadata or {}) for field in schema):
            raise CorruptTable(
                f"{where} has no field ids, but the table finds columns by field id, so the columns of the file are "
                "unknown"
            )
        columns = matched(schema, self._wanted.columns, by_id, where)
        names = list(dict.fromkeys(column.name for column in columns if column.name is not None))
        self._known = _Layout(schema, names, columns)
        return self._known


def _with_kept(batch: pa.RecordBatch, how: RewriteSpec) -> pa.RecordBatch:
    for kept in how.kept:
        default = batch.column(batch.schema.get_field_index(kept.default))
        if kept.plus_row:
            row = how.wanted.row
            assert row is not None  # noqa: S101  (what counts rows asks for them)
            default = pc.add(default, batch.column(batch.schema.get_field_index(row)))
        at = batch.schema.get_field_index(kept.name)
        batch = batch.set_column(at, batch.schema.field(at), pc.coalesce(batch.column(at), default))
    return batch
