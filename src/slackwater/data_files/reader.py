"""Reads rows of data files in Arrow batches, by byte ranges of a file.

Several tasks read a file with many row groups: each reads the groups that start in its range, like Parquet splits of
Spark and Hadoop. Source: delta-protocol.md "Data Files", "Reader Requirements for Deletion Vectors".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from slackwater.data_files.datetime_rebase import may_be_julian, require_no_rebase_needed
from slackwater.data_files.prefetch import FileOnDisk, Parts, PrefetchedFile, ranges_of
from slackwater.data_files.row_filter import Datum, truth
from slackwater.data_files.schema_adapter import matched
from slackwater.errors import CorruptTable, DataFileNotFound, ObjectNotFound
from slackwater.predicate.predicate import Predicate
from slackwater.protocol.schema.schema import StructType
from slackwater.stats.row_groups import RowGroupTest
from slackwater.storage.parquet_footer import RowGroup, leaf_count, parquet_file, read_footer
from slackwater.storage.path_guard import open_resolved
from slackwater.storage.store import ObjectStore

_BATCH_ROWS = 1 << 16
# Batch size for several row groups at a time. Allocating larger arrays takes longer than filling them.
_BATCH_ROWS_BY_THREADS = 1 << 17
MOST_AHEAD_BYTES = 256 << 20
"""Limit in bytes for rows read ahead, estimated from footers."""
_VALUE_BYTES = 8
# A plain text has a length of four bytes. With fewer bytes per value, the column is dictionary-encoded.
_MOST_NUMBER_BYTES = 2
UNREADABLE = (ValueError, pa.ArrowException, OSError)
"""Errors of pyarrow for an unreadable file."""


@dataclass(frozen=True, slots=True)
class Split:
    """The row groups of the file at `place` that start in bytes `start` to `end`; None is the file's end.

    `place` is a result of `resolve_file`. `deleted` are indexes of rows to skip. `only` are indexes of the only rows to
    read, None for all rows. `constants` are columns with one value for all rows. `size_bytes` is the file's size from
    the log, if known.
    """

    place: str
    start: int = 0
    end: int | None = None
    deleted: BitMap64 | None = None
    constants: Mapping[str, pa.Scalar] = field(default_factory=dict)
    size_bytes: int | None = None
    only: BitMap64 | None = None


@dataclass(frozen=True, slots=True)
class RowCondition:
    """A condition accepted by `require_decidable` on read or constant columns, with their schema."""

    predicate: Predicate
    schema: StructType


@dataclass(frozen=True, slots=True)
class ReadProjection:
    """The columns to read: physical names with types, matched by field id if present and if `by_id` is set.

    `constants` are the columns with a value per split. `row` is the column name for the index of each row in its file,
    if requested. `matching` skips row groups without possible matches and reads the others completely. `where` filters
    rows. `given` is the schema of the batches, if it differs from these columns in this order. `unmarked_is_julian` is
    passed to `may_be_julian`.
    """

    columns: pa.Schema
    by_id: bool = False
    constants: pa.Schema = field(default_factory=lambda: pa.schema([]))
    row: str | None = None
    matching: RowGroupTest | None = None
    where: RowCondition | None = None
    given: pa.Schema | None = None
    unmarked_is_julian: bool = False

    @property
    def schema(self) -> pa.Schema:
        """Schema of the batches: the columns, then the constants, then the row index; or `given` if set."""
        if self.given is not None:
            return self.given
        row = [] if self.row is None else [pa.field(self.row, pa.int64())]
        return pa.schema([*self.columns, *self.constants, *row])


def read_splits(
    store: ObjectStore,
    splits: Iterable[Split],
    wanted: ReadProjection,
    readers: int = 1,
    ahead_bytes: int = MOST_AHEAD_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `splits` in order. Only requested columns are read.

    With one reader, the next row group is fetched while the current rows are processed. Pages of up to two row groups
    are then in memory. With more `readers`, each reads row groups in its own thread, until about `ahead_bytes` are in
    memory. A row group above this limit is read in batches.

    Raises:
        DataFileNotFound: If a file does not exist.
        CorruptTable: If a file is damaged or its columns do not match the table.
        UnsupportedFeature: If a file contains old dates in another calendar.
        StorageError: If the store fails.
    """
    if readers > 1:
        yield from _read_by_threads(store, splits, wanted, readers, ahead_bytes)
        return
    for group in _ahead(group.fetched() for split in splits for group in _groups(store, split, wanted)):
        yield from group.rows()


def _ahead(items: Iterator[_FetchedGroup]) -> Iterator[_FetchedGroup]:
    """Yield `items`. A second thread computes the next item while the current item is in use."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item


def _read_by_threads(
    store: ObjectStore, splits: Iterable[Split], wanted: ReadProjection, readers: int, ahead_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Read like `read_splits`. Opens some files ahead, and reads row groups up to the memory limit."""
    pool = ThreadPoolExecutor(readers)
    try:
        todo = iter(splits)
        opening: deque[Future[list[_Group]]] = deque()
        groups: deque[_Group] = deque()
        reading: deque[tuple[_Group, Future[list[pa.RecordBatch]] | None]] = deque()
        held_bytes = 0
        while True:
            while len(opening) < 2 * readers and (split := next(todo, None)) is not None:
                opening.append(pool.submit(_all_groups, store, split, wanted))
            while opening and len(groups) < readers and (opening[0].done() or not (groups or reading)):
                groups += opening.popleft().result()
            while groups and (not reading or held_bytes + groups[0].size_bytes <= ahead_bytes):
                group = groups.popleft()
                # A group above the limit is streamed.
                is_large = group.size_bytes > ahead_bytes
                reading.append((group, None if is_large else pool.submit(group.all_rows)))
                held_bytes += group.size_bytes
            if reading:
                group, rows = reading.popleft()
                yield from group.fetched().rows(by_threads=True) if rows is None else rows.result()
                held_bytes -= group.size_bytes
            elif not (groups or opening):
                return
    finally:
        pool.shutdown(cancel_futures=True)


def _all_groups(store: ObjectStore, split: Split, wanted: ReadProjection) -> list[_Group]:
    return list(_groups(store, split, wanted, by_threads=True))


def _groups(store: ObjectStore, split: Split, wanted: ReadProjection, by_threads: bool = False) -> Iterator[_Group]:
    file = _opened(store, split, wanted, by_threads)
    groups = file.footer.row_groups
    may_match = wanted.matching.may_match(file.footer) if wanted.matching else [True] * len(groups)
    deleted = np.array([] if split.deleted is None else split.deleted.to_array(), np.uint64)
    if split.only is not None:
        others = np.ones(sum(group.num_rows for group in groups), bool)
        others[np.array(split.only.to_array(), np.int64)] = False
        deleted = np.union1d(deleted, np.flatnonzero(others).astype(np.uint64))
    first = 0
    for number, group in enumerate(groups):
        if may_match[number] and _begins_in(group, split, number):
            yield _Group(file, number, first, split, deleted)
        first += group.num_rows


def _opened(store: ObjectStore, split: Split, wanted: ReadProjection, by_threads: bool) -> _OpenFile:
    opened, path = open_resolved(store, split.place)
    where = f"{store.root_url}: {split.place}"
    if split.size_bytes is not None:
        # A request for the size is only sent if the size in the log turns out wrong.
        with suppress(ObjectNotFound, *UNREADABLE):
            return _OpenFile(_source(opened, path, split.size_bytes, by_threads), where, wanted)
    meta = opened.head(path)
    if meta is None:
        raise DataFileNotFound(
            f"{where} does not exist. A VACUUM may have deleted it. Restore it, or read a version without it"
        )
    try:
        return _OpenFile(_source(opened, path, meta.size_bytes, by_threads), where, wanted)
    except UNREADABLE as error:
        raise CorruptTable(f"{where} is not a Parquet file, or is damaged: {error}") from error


def _source(store: ObjectStore, path: str, size_bytes: int, by_threads: bool) -> PrefetchedFile | FileOnDisk:
    # With one reader, a second thread prefetches, also from a disk.
    is_read_at_once = by_threads and store.local_root is not None
    return FileOnDisk(store, path) if is_read_at_once else PrefetchedFile(store, path, size_bytes)


def _begins_in(group: RowGroup, split: Split, number: int) -> bool:
    # A row group without columns has no offset, so its number decides: the first split reads it.
    begin = min((column.start for column in group.columns), default=number)
    return split.start <= begin and (split.end is None or begin < split.end)


class _OpenFile:
    """An open file with its footer and the match of requested columns. Also raises the errors of `UNREADABLE`."""

    def __init__(self, source: PrefetchedFile | FileOnDisk, where: str, wanted: ReadProjection) -> None:
        self.footer = footer = read_footer(source)
        self._source, self._where, self.wanted = source, where, wanted
        schema = self._file(source.reader([])).schema_arrow
        if wanted.by_id and footer.metadata.num_columns and not footer.has_field_ids:
            raise CorruptTable(
                f"{where} has no field ids, but the table finds columns by field id, so the columns of the file are "
                "unknown"
            )
        self._columns = matched(schema, wanted.columns, wanted.by_id, where)
        self._names = list(dict.fromkeys(column.name for column in self._columns if column.name is not None))
        self._leaves = _leaves(schema, self._names)
        self._texts = {
            column.name: _leaves(schema, [column.name])[0]
            for column, field in zip(self._columns, wanted.columns, strict=True)
            # pyarrow interprets a dot as a path.
            if column.name and "." not in column.name and pa.types.is_string(field.type)
            if schema.field(column.name).type == field.type
        }
        self._is_old = may_be_julian(footer.metadata, where, wanted.unmarked_is_julian)

    def fetch(self, number: int) -> Parts:
        """Fetch the pages of a row group for `rows`."""
        return self._source.fetch(ranges_of(self.footer.row_groups[number], self._leaves, self._source.size()))

    def size_bytes(self, number: int) -> int:
        """Estimate the size in bytes of the requested columns of a row group in memory."""
        group = self.footer.row_groups[number]
        of_pages = sum(group.columns[leaf].uncompressed_bytes for leaf in self._leaves)
        return of_pages + group.num_rows * _VALUE_BYTES * max(1, len(self._leaves))

    def rows(self, number: int, pages: Parts, by_threads: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield all rows of a row group, including deleted rows, in the requested columns.

        Texts may be dictionary-encoded. `by_threads` decodes several columns in parallel. Raises CorruptTable.
        """
        group = self.footer.row_groups[number]
        try:
            for batch in self._found(number, pages, by_threads) if self._names else self._empty(group):
                if self._is_old:
                    require_no_rebase_needed(batch, self._where)
                yield batch
        except (pa.ArrowException, OSError) as error:
            raise CorruptTable(f"{self._where} cannot be read, because its pages are damaged: {error}") from error

    def _found(self, number: int, pages: Parts, by_threads: bool) -> Iterator[pa.RecordBatch]:
        dictionaries = self._dictionaries(number)
        file = self._file(self._source.reader(pages), dictionaries)
        size = _BATCH_ROWS_BY_THREADS if by_threads else _BATCH_ROWS
        for batch in file.iter_batches(size, row_groups=[number], columns=self._names, use_threads=by_threads):
            found = {name: batch.column(batch.schema.get_field_index(name)) for name in self._names}
            nothing = pa.nulls(batch.num_rows)
            arrays = [
                found[c.name] if c.name in dictionaries else c.convert(nothing if c.name is None else found[c.name])
                for c in self._columns
            ]
            yield pa.RecordBatch.from_arrays(arrays, self.wanted.columns.names)

    def _file(self, source: Any, dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
        return parquet_file(source, self.footer, dictionaries)

    def _dictionaries(self, number: int) -> list[str]:
        """Return text columns with few distinct values in a row group, because codes are read faster than texts."""
        group = self.footer.row_groups[number]
        most = group.num_rows * _MOST_NUMBER_BYTES
        return [name for name, leaf in self._texts.items() if group.columns[leaf].uncompressed_bytes <= most]

    def _empty(self, group: RowGroup) -> Iterator[pa.RecordBatch]:
        """Yield the group's number of rows if the file contains none of the columns."""
        for at in range(0, group.num_rows, _BATCH_ROWS):
            nothing = pa.nulls(min(_BATCH_ROWS, group.num_rows - at))
            arrays = [c.convert(nothing) for c in self._columns] or [nothing]
            yield pa.RecordBatch.from_arrays(arrays, schema=_schema_or_one(self.wanted))


@dataclass(frozen=True, slots=True)
class _Group:
    """A row group of an open file. `first` is the index of its first row in the file."""

    file: _OpenFile
    number: int
    first: int
    split: Split
    deleted: npt.NDArray[np.uint64]

    @property
    def size_bytes(self) -> int:
        """Estimated size in bytes, see `_OpenFile.size_bytes`."""
        return self.file.size_bytes(self.number)

    def fetched(self) -> _FetchedGroup:
        """Fetch the pages of the group."""
        return _FetchedGroup(self, self.file.fetch(self.number))

    def all_rows(self) -> list[pa.RecordBatch]:
        """Return the remaining rows with all requested columns."""
        return list(self.fetched().rows(by_threads=True))


@dataclass(frozen=True, slots=True)
class _FetchedGroup:
    """A row group with its pages in memory."""

    group: _Group
    pages: Parts

    def rows(self, by_threads: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the remaining rows with all requested columns."""
        group = self.group
        first = group.first
        for batch in group.file.rows(group.number, self.pages, by_threads):
            yield from finished(batch, first, group.split, group.file.wanted, group.deleted)
            first += batch.num_rows


def finished(
    batch: pa.RecordBatch, first: int, split: Split, wanted: ReadProjection, deleted: npt.NDArray[np.uint64]
) -> Iterator[pa.RecordBatch]:
    """Add constants and row indexes to a batch with first row index `first`, and drop deleted and filtered rows."""
    columns = dict(zip(wanted.columns.names, batch.columns, strict=False))
    keep = _kept(columns, batch.num_rows, split, wanted)
    low, high = np.searchsorted(deleted, np.array([first, first + batch.num_rows], np.uint64))
    if high > low:
        live = np.ones(batch.num_rows, bool)
        live[(deleted[low:high] - np.uint64(first)).astype(np.int64)] = False
        keep = _booleans(live) if keep is None else pc.and_(keep, _booleans(live))
    if wanted.row is not None:
        columns[wanted.row] = _whole_numbers(first, batch.num_rows)
    read = [name for name in wanted.schema.names if name in columns]
    # A batch without columns has no number of rows, so one column remains.
    rows = pa.RecordBatch.from_arrays([columns[name] for name in read] or batch.columns[:1], read or [""])
    if keep is not None and keep.true_count < len(keep):
        rows = rows.filter(keep)
    if not rows.num_rows:
        return
    if not wanted.schema.names:
        yield rows
        return
    arrays = [
        _plain(rows.column(read.index(name))) if name in columns else pa.repeat(split.constants[name], rows.num_rows)
        for name in wanted.schema.names
    ]
    yield pa.RecordBatch.from_arrays(arrays, schema=wanted.schema)


def _kept(columns: Mapping[str, pa.Array], count: int, split: Split, wanted: ReadProjection) -> pa.BooleanArray | None:
    """Return for each row whether the filter is true. None without a filter, or if all rows match."""
    if wanted.where is None:
        return None
    given: Mapping[str, Datum] = {**split.constants, **columns}
    found = truth(wanted.where.predicate, wanted.where.schema, lambda name: _plain(given[name]))
    if isinstance(found, pa.Scalar):
        return None if found.as_py() else pa.repeat(pa.scalar(False), count)
    return found


def _plain(values: Datum) -> Datum:
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _booleans(values: npt.NDArray[np.bool_]) -> pa.BooleanArray:
    # pa.array would import pandas, which delays a task.
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(np.packbits(values, bitorder="little"))])


def _whole_numbers(first: int, count: int) -> pa.Array:
    numbers = np.arange(first, first + count, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(numbers)])


def _schema_or_one(wanted: ReadProjection) -> pa.Schema:
    """Return the schema of the columns, or one null column, because a batch without columns has no rows."""
    return wanted.columns if wanted.columns.names else pa.schema([("", pa.null())])


def _leaves(schema: pa.Schema, names: Sequence[str]) -> list[int]:
    """Return the indexes of the leaf columns below the top-level columns `names`."""
    chosen, at = set(names), 0
    found: list[int] = []
    for column in schema:
        count = leaf_count(column.type)
        if column.name in chosen:
            found += range(at, at + count)
        at += count
    return found
