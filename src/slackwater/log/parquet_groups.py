"""What a Parquet footer says of its row groups, taken from its Thrift bytes with care.

pyarrow ends the process where the description of a column is damaged: an error of its library passes through code that
cannot raise. So what a footer says of columns is read here, where damage is a ValueError, and before pyarrow sees it.
Source: the public Parquet format ("parquet.thrift"), Thrift's compact protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_MOST_DEPTH = 32
_MAGIC = b"PAR1"
# As much as pyarrow reads of a file's end at once.
_TAIL_BYTES = 64 * 1024
_ROW_GROUPS, _ENCRYPTION = 4, 8
_COLUMNS, _NUM_ROWS = 1, 3
_META_DATA = 3
_UNCOMPRESSED_SIZE, _STATISTICS = 6, 12
_NULL_COUNT = 3
_TRUE, _FALSE, _BYTE, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 6, 7, 8, 9, 10, 11, 12


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """One leaf column of a row group: its size before compression in bytes, and how many of its slots are null."""

    uncompressed_bytes: int
    null_count: int | None


@dataclass(frozen=True, slots=True)
class RowGroup:
    """One row group: its rows, and its leaf columns in the order of the schema."""

    num_rows: int
    columns: tuple[ColumnChunk, ...]


def open_parquet(source: Any) -> tuple[pq.ParquetFile, list[RowGroup]]:
    """The Parquet file in `source`, a seekable pyarrow file, and its row groups; the footer is read once.

    Times of 96 bits come in microseconds: year 9999 would come out as another year in nanoseconds. Raises ValueError
    for a footer that is damaged or encrypted, and what pyarrow raises.
    """
    data = _footer(source)
    try:
        footer, _ = _struct(data, 0, 0)
    except IndexError as error:
        raise ValueError("the footer ends too early") from error
    if _ENCRYPTION in footer:
        raise ValueError("it is encrypted")
    metadata = pq.read_metadata(pa.BufferReader(_MAGIC + data + len(data).to_bytes(4, "little") + _MAGIC))
    found = [_row_group(node, metadata.num_columns) for node in _list_in(footer, _ROW_GROUPS)]
    if len(found) != metadata.num_row_groups:
        raise ValueError(f"the footer names {metadata.num_row_groups} row groups and describes {len(found)}")
    return pq.ParquetFile(source, metadata=metadata, coerce_int96_timestamp_unit="us"), found


def _footer(source: Any) -> bytes:
    size = source.size()
    source.seek(max(0, size - _TAIL_BYTES))
    tail = bytes(source.read(min(size, _TAIL_BYTES)))
    length = int.from_bytes(tail[-8:-4], "little")
    if tail[-4:] != _MAGIC or size < 12 or not 0 < length <= size - 12:
        raise ValueError(f"it does not end as a Parquet file, found {tail[-8:]!r} at the end of {size} bytes")
    if length + 8 > len(tail):
        source.seek(size - 8 - length)
        tail = bytes(source.read(length + 8))
    return tail[-8 - length : -8]


def _row_group(node: Any, num_columns: int) -> RowGroup:
    columns = tuple(_column(column) for column in _list_in(node, _COLUMNS))
    if len(columns) != num_columns:
        raise ValueError(f"a row group must have {num_columns} columns, found {len(columns)}")
    return RowGroup(_count_in(node, _NUM_ROWS), columns)


def _column(node: Any) -> ColumnChunk:
    described = node.get(_META_DATA) if isinstance(node, dict) else None
    if not isinstance(described, dict):
        raise ValueError("a column is not described")  # noqa: TRY004  (the file is at fault)
    statistics = described.get(_STATISTICS)
    nulls = statistics.get(_NULL_COUNT) if isinstance(statistics, dict) else None
    return ColumnChunk(_count_in(described, _UNCOMPRESSED_SIZE), nulls if isinstance(nulls, int) else None)


def _list_in(node: Any, field: int) -> list[Any]:
    found = node.get(field) if isinstance(node, dict) else None
    if not isinstance(found, list):
        raise ValueError(f"field {field} must be a list")  # noqa: TRY004  (the file is at fault)
    return found


def _count_in(node: Any, field: int) -> int:
    found = node.get(field) if isinstance(node, dict) else None
    if not isinstance(found, int) or found < 0:
        raise ValueError(f"field {field} must be a count, found {str(found)[:40]}")
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
        shift += 7
        if shift > 63:
            raise ValueError("a number is too long")


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """The fields of a struct by their ids, and where it ends."""
    if depth > _MOST_DEPTH:
        raise ValueError("it is nested too deep")
    fields: dict[int, Any] = {}
    field = 0
    while True:
        header = data[at]
        at += 1
        if header == 0:
            return fields, at
        kind, delta = header & 0x0F, header >> 4
        if delta:
            field += delta
        else:
            number, at = _varint(data, at)
            field = (number >> 1) ^ -(number & 1)
        if kind in (_TRUE, _FALSE):
            fields[field] = kind == _TRUE
        else:
            fields[field], at = _value(data, at, kind, depth)


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if _BYTE < kind <= _I64:
        number, at = _varint(data, at)
        return (number >> 1) ^ -(number & 1), at
    if kind == _BINARY:
        length, at = _varint(data, at)
        if at + length > len(data):
            raise ValueError("a text is longer than the footer")
        return data[at : at + length], at + length
    if kind == _STRUCT:
        return _struct(data, at, depth + 1)
    if kind in (_LIST, _SET):
        return _list(data, at, depth)
    if kind in (_TRUE, _FALSE, _BYTE):
        return data[at], at + 1
    if kind == _DOUBLE:
        return None, at + 8
    # Maps are not in the format.
    raise ValueError(f"a value of the unknown kind {kind}")


def _list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    header = data[at]
    at += 1
    kind, size = header & 0x0F, header >> 4
    if size == 15:
        size, at = _varint(data, at)
    if size > len(data):
        raise ValueError("a list is longer than the footer")
    found = []
    for _ in range(size):
        value, at = _value(data, at, kind, depth)
        found.append(value)
    return found, at
