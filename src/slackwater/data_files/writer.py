"""Writes rows as Parquet files to a store, with one open file at a time, uploaded when complete.

Source: delta-protocol.md "Data Files"; the public Parquet format, types as Spark writes them.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.data_files.dictionary_columns import dictionary_columns
from slackwater.data_files.schema_adapter import ColumnMatch, matched
from slackwater.errors import InvalidArgument, StorageError
from slackwater.protocol.actions.partition_values import hive_directory
from slackwater.protocol.properties.parquet_version import WRITER_VERSION, page_version
from slackwater.storage.local_store import staged_name
from slackwater.storage.store import HIDDEN, ObjectStore

GROUP_BYTES = 64 * 1024**2
"""Size of a row group in memory as Arrow. The encoded row group is a fraction of this size."""
_FOOTER_TAIL = 8
_NO_LIMIT = 2**31
_CODECS = {
    "none": ("none", ""),
    "uncompressed": ("none", ""),
    "snappy": ("snappy", ".snappy"),
    "gzip": ("gzip", ".gz"),
    "zstd": ("zstd", ".zstd"),
    "lz4": ("lz4", ".lz4"),
    "lz4_raw": ("lz4", ".lz4raw"),
    "brotli": ("brotli", ".br"),
}

_PAGES = {"v1": "1.0", "v2": "2.0"}


@dataclass(frozen=True, slots=True)
class FileFormat:
    """Format of data files: the columns, by physical names, with field ids if present.

    `directories` are further columns of the rows with texts of partition values. The files of each partition go to a
    directory named by the values and by `partitions`, the column names in the table. Rows of equal partitions are
    adjacent. `footer` are keys and values for the footer of each file, like those of Spark's writer. `pages` is the
    version of data pages, `v1` or `v2`.
    """

    columns: pa.Schema
    directories: Sequence[str] = ()
    partitions: Sequence[str] = ()
    codec: str = "snappy"
    max_rows: int = 0
    footer: Mapping[str, str] = field(default_factory=dict)
    pages: str = "v1"

    @staticmethod
    def codec_of(name: str) -> str:
        """Return the codec with Spark's `name`. Raises InvalidArgument for an unsupported codec."""
        if name.lower() not in _CODECS:
            raise InvalidArgument(f"compression must be one of {', '.join(_CODECS)}, found {name!r}")
        return name.lower()


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A complete file: size in bytes, time in ms since the epoch, the partition's texts, and its Parquet footer."""

    path: str
    size_bytes: int
    modified_ms: int
    num_rows: int
    texts: tuple[str | None, ...]
    footer: bytes


FILES_SCHEMA = pa.schema(
    {
        "path": pa.string(),
        "size_bytes": pa.int64(),
        "modified_ms": pa.int64(),
        "num_rows": pa.int64(),
        "texts": pa.list_(pa.string()),
        "footer": pa.binary(),
    }
)
"""Fields of `WrittenFile` as columns of a batch."""


def files_batch(files: Iterable[WrittenFile]) -> pa.RecordBatch:
    """Convert written files to a batch with FILES_SCHEMA."""
    rows = [{name: getattr(file, name) for name in FILES_SCHEMA.names} for file in files]
    return pa.RecordBatch.from_pylist(rows, FILES_SCHEMA)


def files_of(table: pa.Table) -> list[WrittenFile]:
    """Convert batches of `files_batch` to written files."""
    return [WrittenFile(**{**row, "texts": tuple(row["texts"])}) for row in table.to_pylist()]


def write_rows(
    batches: Iterable[pa.RecordBatch], store: ObjectStore, directory: str, form: FileFormat
) -> Iterator[WrittenFile]:
    """Write all rows to files below `directory` with unique names. Yield each file after its upload.

    Files may remain after an error. Raises StorageError.
    """
    current: _OpenFile | None = None
    with ThreadPoolExecutor(1) as beside:
        try:
            for batch in batches:
                for texts, rows in _runs(batch, form.directories):
                    rest = rows
                    while rest.num_rows:
                        if current is not None and (current.file.texts != texts or not current.file.room):
                            yield current.put()
                            current = None
                        current = current or _OpenFile(LocalFile(store, directory, form, texts), beside)
                        part = rest.slice(0, current.file.room)
                        current.add(part)
                        rest = rest.slice(part.num_rows)
            if current is not None:
                yield current.put()
                current = None
        finally:
            if current is not None:
                current.discard()


def _runs(batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[tuple[tuple[str | None, ...], pa.RecordBatch]]:
    """Yield the slices of `batch` with equal texts in the columns `names`, and the texts. Empty text becomes None."""
    if not batch.num_rows:
        return
    if not names:
        yield (), batch
        return
    columns = [batch.column(batch.schema.get_field_index(name)) for name in names]
    changes = np.zeros(batch.num_rows - 1, bool)
    for column in columns:
        codes = column.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
        changes |= codes[1:] != codes[:-1]
    bounds = [0, *(np.flatnonzero(changes) + 1).tolist(), batch.num_rows]
    for start, end in pairwise(bounds):
        yield tuple(column[start].as_py() or None for column in columns), batch.slice(start, end - start)


class LocalFile:
    """A growing Parquet file on this machine's disk, until its upload. `stored_bytes` is its size so far in bytes."""

    def __init__(self, store: ObjectStore, directory: str, form: FileFormat, texts: tuple[str | None, ...]) -> None:
        self.texts = texts
        self.num_rows = 0
        self.stored_bytes = 0
        self._store = store
        self._directory = directory
        self._form = form
        self._columns: list[ColumnMatch] | None = None
        self._writer: pq.ParquetWriter | None = None
        self._local = _new_file(store, directory)

    @property
    def room(self) -> int:
        """Number of rows that still fit into the file."""
        return self._form.max_rows - self.num_rows if self._form.max_rows else _NO_LIMIT

    def taken(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the next rows of the file, in its columns. `rows` has columns of these names."""
        if self._columns is None:
            self._columns = matched(rows.schema, self._form.columns, by_id=False, where="the rows to write")
        columns = [rows.column(rows.schema.get_field_index(str(c.name))) for c in self._columns]
        arrays = [c.convert(column) for c, column in zip(self._columns, columns, strict=True)]
        self.num_rows += rows.num_rows
        return pa.RecordBatch.from_arrays(arrays, schema=self._form.columns)

    def encode(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Append `batches`, results of `taken`, as one row group. Raises StorageError."""
        group = pa.Table.from_batches(batches)
        try:
            if self._writer is None:
                self._writer = self._begun(group)
            self._writer.write_table(group, row_group_size=group.num_rows)
            self.stored_bytes = self._local.stat().st_size
        except OSError as error:
            raise self._failed(error) from error

    def put(self) -> WrittenFile:
        """Complete the file and upload it. Raises StorageError."""
        try:
            self._writer = self._writer or self._begun(self._form.columns.empty_table())
            self._writer.close()
            size_bytes = self._local.stat().st_size
            partitions = list(zip(self._form.partitions, self.texts, strict=True))
            name = f"part-{uuid.uuid4()}-c000{_CODECS[self._form.codec][1]}.parquet"
            directory = f"{self._directory}/" if self._directory else ""
            path = f"{directory}{hive_directory(partitions)}{name}"
            footer = self._footer(size_bytes)
            self._store.put_file(path, self._local)
        except OSError as error:
            raise self._failed(error) from error
        finally:
            self.discard()
        return WrittenFile(path, size_bytes, time.time_ns() // 1_000_000, self.num_rows, self.texts, footer)

    def discard(self) -> None:
        """Delete the local file."""
        if self._writer is not None:
            self._writer.close()
        self._local.unlink(missing_ok=True)

    def _begun(self, first: pa.Table) -> pq.ParquetWriter:
        """Open the file, with the encodings for its `first` row group."""
        writer = pq.ParquetWriter(
            self._local,
            self._form.columns,
            compression=_CODECS[self._form.codec][0],
            use_dictionary=dictionary_columns(first),
            store_schema=False,
            store_decimal_as_integer=True,
            data_page_version=_PAGES[self._form.pages],
        )
        writer.add_key_value_metadata(dict(self._form.footer))
        return writer

    def _failed(self, error: OSError) -> StorageError:
        return StorageError(f"{self._store.root_url}: a data file cannot be written: {error}")

    def _footer(self, size_bytes: int) -> bytes:
        with self._local.open("rb") as file:
            file.seek(size_bytes - _FOOTER_TAIL)
            length = int.from_bytes(file.read(4), "little") + _FOOTER_TAIL
            file.seek(size_bytes - length)
            return file.read(length)


def _new_file(store: ObjectStore, directory: str) -> Path:
    """Return a new file for the rows: hidden in a local store, which then moves it, else temporary.

    A staging directory contains its files, so that they leave with it, also after the process was killed.
    """
    if store.local_root is not None:
        root = Path(store.local_root)
        place = root / directory if directory.startswith(HIDDEN) else root
        with suppress(OSError):
            if root.is_dir():
                place.mkdir(parents=True, exist_ok=True)
            staged = place / staged_name()
            staged.open("xb").close()
            return staged
    try:
        with NamedTemporaryFile(prefix="slackwater-", suffix=".parquet", delete=False) as file:
            return Path(file.name)
    except OSError as error:
        raise StorageError(f"a temporary file cannot be created on the local disk of a writer: {error}") from error


@dataclass
class _OpenFile:
    """A file with its next row group in memory.

    The thread of `beside` encodes a full row group while rows of the next group arrive.
    """

    file: LocalFile
    beside: ThreadPoolExecutor
    _held: list[pa.RecordBatch] = field(default_factory=list)
    _held_bytes: int = 0
    _encoding: Future[None] | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        converted = self.file.taken(rows)
        self._held.append(converted)
        self._held_bytes += converted.nbytes
        if self._held_bytes >= GROUP_BYTES:
            self._wait()
            self._encoding = self.beside.submit(self.file.encode, self._group())

    def put(self) -> WrittenFile:
        try:
            self._wait()
            if self._held:
                self.file.encode(self._group())
        except BaseException:
            self.file.discard()
            raise
        return self.file.put()

    def discard(self) -> None:
        if self._encoding is not None:
            wait([self._encoding])
        self.file.discard()

    def _group(self) -> list[pa.RecordBatch]:
        group, self._held, self._held_bytes = self._held, [], 0
        return group

    def _wait(self) -> None:
        """Wait for the previous row group."""
        encoding, self._encoding = self._encoding, None
        if encoding is not None:
            encoding.result()


def footer_source(footer: bytes) -> pa.BufferReader:
    """Return a Parquet file with nothing but `footer`, for readers of footers."""
    return pa.BufferReader(b"PAR1" + footer)


def options_of(given: Mapping[str, Any], default_codec: str) -> tuple[str, int]:
    """Return the codec and the maximum number of rows per file from a writer's options. Raises InvalidArgument."""
    folded = {key.lower(): str(value) for key, value in given.items()}
    most = folded.get("maxrecordsperfile", "0")
    if not most.lstrip("-").isdigit():
        raise InvalidArgument(f"maxRecordsPerFile must be a whole number, found {most!r}")
    return FileFormat.codec_of(folded.get("compression", default_codec)), max(0, int(most))


def pages_of(given: Mapping[str, Any], default: str | None) -> str:
    """Return the version of data pages from a writer's options. Raises InvalidArgument."""
    folded = {key.lower(): str(value) for key, value in given.items()}
    return page_version(WRITER_VERSION, folded.get(WRITER_VERSION) or default or "v1")
