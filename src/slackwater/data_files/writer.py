"""Writes rows as Parquet files to a store, with one open file at a time, uploaded when complete.

Source: delta-protocol.md "Data Files"; the public Parquet format, types as Spark writes them.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.data_files.schema_adapter import ColumnMatch, matched
from slackwater.errors import InvalidArgument, StorageError
from slackwater.protocol.actions.partition_values import hive_directory
from slackwater.storage.store import ObjectStore

# Size in memory as Arrow, for up to two groups; the encoded group is a fraction of this size.
_GROUP_BYTES = 64 * 1024**2
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


@dataclass(frozen=True, slots=True)
class FileFormat:
    """Format of data files: the columns, by physical names, with field ids if present.

    `directories` are further columns of the rows with texts of partition values. The files of each partition go to a
    directory named by the values and by `partitions`, the column names in the table. Rows of equal partitions are
    adjacent. `footer` are keys and values for the footer of each file, like those of Spark's writer.
    """

    columns: pa.Schema
    directories: Sequence[str] = ()
    partitions: Sequence[str] = ()
    codec: str = "snappy"
    max_rows: int = 0
    footer: Mapping[str, str] = field(default_factory=dict)

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
    current: OpenFile | None = None
    with ThreadPoolExecutor(1) as beside:
        try:
            for batch in batches:
                for texts, rows in _runs(batch, form.directories):
                    rest = rows
                    while rest.num_rows:
                        if current is not None and (current.texts != texts or not current.room):
                            yield current.put()
                            current = None
                        current = current or OpenFile(store, directory, form, texts, beside)
                        part = rest.slice(0, current.room)
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


@dataclass
class OpenFile:
    """A growing file on this machine's disk, until its upload.

    A thread of `beside` encodes a full row group while rows of the next group arrive. `held_bytes` is the size of the
    rows in memory, `stored_bytes` the size of the encoded rows on the disk.
    """

    store: ObjectStore
    directory: str
    form: FileFormat
    texts: tuple[str | None, ...]
    beside: ThreadPoolExecutor
    num_rows: int = 0
    held_bytes: int = 0
    stored_bytes: int = 0
    _held: list[pa.RecordBatch] = field(default_factory=list)
    _columns: list[ColumnMatch] | None = None
    _encoding: Future[None] | None = None

    def __post_init__(self) -> None:
        try:
            with NamedTemporaryFile(prefix="slackwater-", suffix=".parquet", delete=False) as file:
                self._local = Path(file.name)
            self._writer = pq.ParquetWriter(
                self._local,
                self.form.columns,
                compression=_CODECS[self.form.codec][0],
                store_schema=False,
                store_decimal_as_integer=True,
            )
            self._writer.add_key_value_metadata(dict(self.form.footer))
        except OSError as error:
            raise StorageError(f"a temporary file cannot be created on the local disk of a writer: {error}") from error

    @property
    def room(self) -> int:
        """Number of rows that still fit into the file."""
        return self.form.max_rows - self.num_rows if self.form.max_rows else _NO_LIMIT

    def add(self, rows: pa.RecordBatch) -> None:
        """Append rows with the columns of the file, by name. Raises the errors of the previous row group."""
        if self._columns is None:
            self._columns = matched(rows.schema, self.form.columns, by_id=False, where="the rows to write")
        columns = [rows.column(rows.schema.get_field_index(str(c.name))) for c in self._columns]
        arrays = [c.convert(column) for c, column in zip(self._columns, columns, strict=True)]
        converted = pa.RecordBatch.from_arrays(arrays, schema=self.form.columns)
        self._held.append(converted)
        self.held_bytes += converted.nbytes
        self.num_rows += rows.num_rows
        if self.held_bytes >= _GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Begin to encode the rows in memory, after the end of the previous row group."""
        if self._held:
            self._wait()
            self._encoding = self.beside.submit(self._encode, self._group())

    def put(self) -> WrittenFile:
        """Complete the file and upload it. Raises StorageError."""
        try:
            self._wait()
            if self._held:
                self._encode(self._group())
            self._writer.close()
            size_bytes = self._local.stat().st_size
            partitions = list(zip(self.form.partitions, self.texts, strict=True))
            name = f"part-{uuid.uuid4()}-c000{_CODECS[self.form.codec][1]}.parquet"
            directory = f"{self.directory}/" if self.directory else ""
            path = f"{directory}{hive_directory(partitions)}{name}"
            self.store.put_file(path, self._local)
            footer = self._footer(size_bytes)
        except OSError as error:
            raise self._failed(error) from error
        finally:
            self.discard()
        return WrittenFile(path, size_bytes, time.time_ns() // 1_000_000, self.num_rows, self.texts, footer)

    def discard(self) -> None:
        """Delete the local file."""
        if self._encoding is not None:
            wait([self._encoding])
        self._writer.close()
        self._local.unlink(missing_ok=True)

    def _group(self) -> pa.Table:
        group = pa.Table.from_batches(self._held)
        self._held, self.held_bytes = [], 0
        return group

    def _encode(self, group: pa.Table) -> None:
        try:
            self._writer.write_table(group, row_group_size=group.num_rows)
            self.stored_bytes = self._local.stat().st_size
        except OSError as error:
            raise self._failed(error) from error

    def _wait(self) -> None:
        """Wait for the previous row group."""
        encoding, self._encoding = self._encoding, None
        if encoding is not None:
            encoding.result()

    def _failed(self, error: OSError) -> StorageError:
        return StorageError(f"{self.store.root_url}: a data file cannot be written: {error}")

    def _footer(self, size_bytes: int) -> bytes:
        with self._local.open("rb") as file:
            file.seek(size_bytes - _FOOTER_TAIL)
            length = int.from_bytes(file.read(4), "little") + _FOOTER_TAIL
            file.seek(size_bytes - length)
            return file.read(length)


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
