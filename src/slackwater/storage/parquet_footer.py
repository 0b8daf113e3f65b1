"""Safe parser of Parquet footers, of data files and of checkpoints, on the Thrift bytes.

pyarrow aborts the process if the metadata of a column is corrupt: an error of its library passes through code without
exception support. This module parses the column metadata of row groups before pyarrow does, and reports corruption as
ValueError. Source: the public Parquet format ("parquet.thrift"), Thrift's compact protocol.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from inspect import signature
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

FIELD_ID_KEY = b"PARQUET:field_id"
"""Key of a column's Parquet field id in the metadata of its Arrow field."""

_MOST_DEPTH = 32
# Limit for pyarrow, which walks the schema by recursive calls.
_MOST_SCHEMA_DEPTH = 300
DEEP_SCHEMAS: dict[str, Any] = (
    {"schema_depth_limit": _MOST_SCHEMA_DEPTH} if "schema_depth_limit" in signature(pq.ParquetFile).parameters else {}
)
"""Arguments of `pq.ParquetFile` for deep schemas written by Spark. pyarrow releases without them read 100 levels."""

_MAGIC = b"PAR1"
# pyarrow reads the same number of bytes from the end of a file in its first request.
_TAIL_BYTES = 64 * 1024
# Footers up to this size are kept: each checkpoint of a table is opened several times.
_MOST_KEPT_BYTES = 256 * 1024
_SCHEMA, _ROWS, _ROW_GROUPS, _CREATED_BY, _ORDERS, _ENCRYPTION = 2, 3, 4, 6, 7, 8
_TYPE, _NAME, _NUM_CHILDREN, _FIELD_ID, _LOGICAL_TYPE = 1, 4, 5, 9, 10
_VARIANT, _TYPED_VALUE = 16, b"typed_value"
_COLUMNS, _NUM_ROWS = 1, 3
_META_DATA = 3
_CHUNK_TYPE, _CODEC, _UNCOMPRESSED_SIZE, _STORED_SIZE, _DATA_PAGES, _DICTIONARY, _STATISTICS = 1, 4, 6, 7, 9, 11, 12
_NULL_COUNT, _MAX_VALUE, _MIN_VALUE = 3, 5, 6
_GEOSPATIAL_STATISTICS, _BOX = 17, 1
_CORNERS = (1, 2, 3, 4)
_TYPE_ORDER = 1
_CODECS = ("none", "snappy", "gzip", "lzo", "brotli", "lz4", "zstd", "lz4")
_TRUE, _FALSE, _BYTE, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 6, 7, 8, 9, 10, 12
# Struct formats of bounds by physical type; bounds of other types are bytes.
_STORED = {0: "<?", 1: "<i", 2: "<q", 4: "<f", 5: "<d"}


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """A leaf column of a row group: its size before compression in bytes, number of nulls, and bounds of its values.

    The bounds have the column's physical type. Both are None if the footer does not store them in the type's order.
    `start` and `stored_bytes` locate the column's pages in the file. `box` is the bounding box of shapes: least and
    greatest x, least and greatest y.
    """

    uncompressed_bytes: int
    null_count: int | None
    low: Any = None
    high: Any = None
    codec: str = "none"
    start: int = 0
    stored_bytes: int = 0
    box: tuple[float, float, float, float] | None = None


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group: number of rows, and leaf columns in the order of the schema."""

    num_rows: int
    columns: tuple[ColumnChunk, ...]


@dataclass(frozen=True, slots=True)
class VariantGroup:
    """A group of columns with the logical type VARIANT.

    `first_leaf` and `num_leaves` locate its leaf columns in the schema. `is_shredded`: it has typed columns.
    """

    first_leaf: int
    num_leaves: int
    is_shredded: bool


@dataclass(frozen=True, slots=True)
class ParquetFooter:
    """A validated footer. Row groups of an encrypted file are unknown.

    `metadata` is safe to use, except for the columns of its row groups. `variants`: the annotated groups in the order
    of the schema.
    """

    metadata: pq.FileMetaData
    num_rows: int
    created_by: str
    has_field_ids: bool
    is_encrypted: bool
    row_groups: tuple[RowGroup, ...]
    variants: tuple[VariantGroup, ...] = ()


def open_parquet(source: Any) -> tuple[pq.ParquetFile, tuple[RowGroup, ...]]:
    """Open the Parquet file in `source`, a seekable pyarrow file. Return it with its row groups; reads the footer once.

    Parsed footers are kept for a few files that are opened again. Raises the errors of `read_footer` and
    `parquet_file`.
    """
    data = _footer_bytes(source)
    footer = _known_footer(data) if len(data) <= _MOST_KEPT_BYTES else _parsed(data)
    return parquet_file(source, footer), footer.row_groups


def parquet_file(source: Any, footer: ParquetFooter, dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
    """Open the Parquet file in `source` with its parsed footer. Columns in `dictionaries` are read dictionary-encoded.

    96-bit timestamps are read in microseconds, because year 9999 overflows nanoseconds. Raises ValueError for an
    encrypted file, and the errors of pyarrow.
    """
    if footer.is_encrypted:
        raise ValueError("it is encrypted")
    return pq.ParquetFile(
        source,
        metadata=footer.metadata,
        coerce_int96_timestamp_unit="us",
        read_dictionary=list(dictionaries),
        **DEEP_SCHEMAS,
    )


def read_footer(source: Any) -> ParquetFooter:
    """Parse the footer of the Parquet file in `source`, a seekable pyarrow file. Reads only the end of the file.

    Raises ValueError for a corrupt footer, and the errors of `source`.
    """
    return _parsed(_footer_bytes(source))


def _parsed(data: bytes) -> ParquetFooter:
    try:
        node, _ = _struct(data, 0, 0)
    except IndexError as error:
        raise ValueError("the footer ends too early") from error
    elements = _list_in(node, _SCHEMA)
    leaves = list(_leaf_types(elements))
    encrypted = _ENCRYPTION in node
    groups = () if encrypted else _row_groups(node, leaves)
    try:
        end = _MAGIC + data + len(data).to_bytes(4, "little") + _MAGIC
        metadata = pq.ParquetFile(pa.BufferReader(end), **DEEP_SCHEMAS).metadata
    except (pa.ArrowException, OSError) as error:
        raise ValueError(str(error)) from error
    if (metadata.num_columns, metadata.num_row_groups) != (len(leaves), len(_list_in(node, _ROW_GROUPS))):
        raise ValueError(f"the footer describes {metadata.num_columns} columns, unlike its schema")
    created_by = node.get(_CREATED_BY)
    return ParquetFooter(
        metadata=metadata,
        num_rows=_count_in(node, _ROWS),
        created_by=created_by.decode("utf-8", "replace") if isinstance(created_by, bytes) else "",
        has_field_ids=any(_FIELD_ID in element for element in elements[1:]),
        is_encrypted=encrypted,
        row_groups=groups,
        variants=tuple(_variant_groups(elements)),
    )


@lru_cache(maxsize=16)
def _known_footer(data: bytes) -> ParquetFooter:
    return _parsed(data)


def leaf_count(arrow: pa.DataType) -> int:
    """Return the number of Parquet leaf columns of an Arrow type."""
    if isinstance(arrow, pa.BaseExtensionType):
        return leaf_count(arrow.storage_type)
    if not pa.types.is_nested(arrow):
        return 1
    if pa.types.is_map(arrow):
        return leaf_count(arrow.key_type) + leaf_count(arrow.item_type)
    return sum(leaf_count(arrow.field(at).type) for at in range(arrow.num_fields))


def _footer_bytes(source: Any) -> bytes:
    size = source.size()
    source.seek(max(0, size - _TAIL_BYTES))
    tail = bytes(source.read(min(size, _TAIL_BYTES)))
    length = int.from_bytes(tail[-8:-4], "little")
    if tail[-4:] != _MAGIC or size < 12 or not 0 < length <= size - 12:
        raise ValueError(f"it does not end like a Parquet file, found {tail[-8:]!r} at the end of {size} bytes")
    if length + 8 > len(tail):
        source.seek(size - 8 - length)
        tail = bytes(source.read(length + 8))
    return tail[-8 - length : -8]


def _leaf_types(elements: Sequence[Any]) -> Iterator[Any]:
    """Yield the physical type number of each leaf in the schema, a tree in depth-first order."""
    waiting: list[int] = []
    for element in elements:
        if not isinstance(element, dict):
            raise ValueError("an element of the schema is not a struct")  # noqa: TRY004  (the file is at fault)
        while waiting and waiting[-1] == 0:
            waiting.pop()
        if waiting:
            waiting[-1] -= 1
        children = element.get(_NUM_CHILDREN, 0)
        if children == 0 and _TYPE in element:
            yield element[_TYPE]
            continue
        waiting.append(_count_in(element, _NUM_CHILDREN) if _NUM_CHILDREN in element else 0)
        if len(waiting) > _MOST_SCHEMA_DEPTH:
            raise ValueError("its schema is nested too deep")


def _variant_groups(elements: Sequence[Any]) -> Iterator[VariantGroup]:
    """Yield the groups with the logical type VARIANT. `elements` passed `_leaf_types`."""
    if not any(map(_is_variant, elements)):
        return
    leaf = 0
    for at, element in enumerate(elements):
        if _is_variant(element):
            inside = _subtree(elements, at)
            names = {elements[child].get(_NAME) for child in _children(elements, at)}
            yield VariantGroup(leaf, sum(map(_is_leaf, inside)), _TYPED_VALUE in names)
        leaf += _is_leaf(element)


def _is_variant(element: Any) -> bool:
    logical = element.get(_LOGICAL_TYPE)
    return isinstance(logical, dict) and _VARIANT in logical and not _is_leaf(element)


def _is_leaf(element: Any) -> bool:
    return element.get(_NUM_CHILDREN, 0) == 0 and _TYPE in element


def _children(elements: Sequence[Any], at: int) -> Iterator[int]:
    """Yield the positions of the children of the group at `at`."""
    child = at + 1
    for _ in range(elements[at].get(_NUM_CHILDREN, 0)):
        if child >= len(elements):
            raise ValueError("its schema ends too early")
        yield child
        child += len(_subtree(elements, child))


def _subtree(elements: Sequence[Any], at: int) -> Sequence[Any]:
    """Return the element at `at` and all elements below it."""
    end, open_groups = at, 1
    while open_groups and end < len(elements):
        open_groups += elements[end].get(_NUM_CHILDREN, 0) - 1
        end += 1
    return elements[at:end]


def _row_groups(node: Any, leaves: Sequence[Any]) -> tuple[RowGroup, ...]:
    orders = node.get(_ORDERS)
    ordered = [isinstance(order, dict) and _TYPE_ORDER in order for order in orders] if _is_list(orders) else []
    ordered += [False] * (len(leaves) - len(ordered))
    groups = tuple(_row_group(group, leaves, ordered) for group in _list_in(node, _ROW_GROUPS))
    if sum(group.num_rows for group in groups) != _count_in(node, _ROWS):
        raise ValueError(f"the footer records {node.get(_ROWS)} rows, unlike its row groups")
    return groups


def _row_group(node: Any, leaves: Sequence[Any], ordered: Sequence[bool]) -> RowGroup:
    columns = _list_in(node, _COLUMNS)
    if len(columns) != len(leaves):
        raise ValueError(f"a row group must have {len(leaves)} columns, found {len(columns)}")
    return RowGroup(_count_in(node, _NUM_ROWS), tuple(map(_column, columns, leaves, ordered)))


def _column(node: Any, leaf: Any, is_ordered: bool) -> ColumnChunk:
    described = node.get(_META_DATA) if isinstance(node, dict) else None
    if not isinstance(described, dict):
        raise ValueError("a column is not described")  # noqa: TRY004  (the file is at fault)
    if described.get(_CHUNK_TYPE) != leaf:
        raise ValueError(f"a column is of type {str(described.get(_CHUNK_TYPE))[:40]}, in the schema of type {leaf}")
    size, codec = _count_in(described, _UNCOMPRESSED_SIZE), _count_in(described, _CODEC)
    name = _CODECS[codec] if codec < len(_CODECS) else str(codec)
    place = _place(described)
    statistics, box = described.get(_STATISTICS), _box(described.get(_GEOSPATIAL_STATISTICS))
    if not isinstance(statistics, dict):
        return ColumnChunk(size, None, None, None, name, *place, box)
    nulls = statistics.get(_NULL_COUNT)
    low, high = (_bound(statistics.get(field), leaf) if is_ordered else None for field in (_MIN_VALUE, _MAX_VALUE))
    if low is None or high is None:
        low = high = None
    return ColumnChunk(size, nulls if isinstance(nulls, int) and nulls >= 0 else None, low, high, name, *place, box)


def _place(described: Any) -> tuple[int, int]:
    """Return the start of a column's pages, dictionary first, and their size in bytes: a prefetch hint."""
    starts = [found for field in (_DICTIONARY, _DATA_PAGES) if _is_count(found := described.get(field)) and found]
    size = described.get(_STORED_SIZE)
    return min(starts, default=0), size if _is_count(size) else 0


def _box(statistics: Any) -> tuple[float, float, float, float] | None:
    found = statistics.get(_BOX) if isinstance(statistics, dict) else None
    corners = [found.get(field) if isinstance(found, dict) else None for field in _CORNERS]
    if not all(isinstance(corner, float) and math.isfinite(corner) for corner in corners):
        return None
    west, east, south, north = corners
    return west, east, south, north  # type: ignore[return-value]  # checked by the condition above


def _is_count(found: Any) -> bool:
    return isinstance(found, int) and found >= 0


def _bound(stored: Any, leaf: Any) -> Any:
    form = _STORED.get(leaf)
    if not isinstance(stored, bytes) or form is None:
        return stored if isinstance(stored, bytes) else None
    return struct.unpack(form, stored)[0] if len(stored) == struct.calcsize(form) else None


def _is_list(found: Any) -> bool:
    return isinstance(found, list)


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
    value, shift = byte & 0x7F, 7
    while byte >= 0x80:
        if shift > 63:
            raise ValueError("a number is too long")
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift += 7
    return value, at + 1


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """Return the fields of a struct by id, and the offset after the struct."""
    if depth > _MOST_DEPTH:
        raise ValueError("it is nested too deep")
    fields: dict[int, Any] = {}
    field = 0
    while header := data[at]:
        at += 1
        kind, delta = header & 0x0F, header >> 4
        if delta:
            field += delta
        else:
            number, at = _varint(data, at)
            field = (number >> 1) ^ -(number & 1)
        if _BYTE < kind <= _I64:
            # Fast path, because most values of a footer are numbers of one byte.
            number = data[at]
            if number < 0x80:
                at += 1
            else:
                number, at = _varint(data, at)
            fields[field] = (number >> 1) ^ -(number & 1)
        elif kind in (_TRUE, _FALSE):
            fields[field] = kind == _TRUE
        else:
            fields[field], at = _value(data, at, kind, depth)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind == _STRUCT:
        return _struct(data, at, depth + 1)
    if kind == _BINARY:
        length, at = _varint(data, at)
        if at + length > len(data):
            raise ValueError("a text is longer than the footer")
        return data[at : at + length], at + length
    if _BYTE < kind <= _I64:
        number, at = _varint(data, at)
        return (number >> 1) ^ -(number & 1), at
    if kind in (_LIST, _SET):
        return _list(data, at, depth + 1)
    if kind in (_TRUE, _FALSE, _BYTE):
        return data[at], at + 1
    if kind == _DOUBLE:
        if at + 8 > len(data):
            raise ValueError("a number is longer than the footer")
        return struct.unpack_from("<d", data, at)[0], at + 8
    # The Parquet format has no maps.
    raise ValueError(f"a value of the unknown kind {kind}")


def _list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    if depth > _MOST_DEPTH:
        raise ValueError("it is nested too deep")
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
