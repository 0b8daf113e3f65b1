"""Footers of Parquet made by hand: a column of whole numbers in one row group, and whatever is wrong with it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12
INT32, INT64, FLOAT, BYTE_ARRAY = 1, 2, 4, 6
VARIANT = 16
"""The logical type of a group."""
Fields = dict[int, tuple[int, Any]]
"""A struct: the kind and the value of each field, by its id. A list is the kind of its elements, and these."""

_AES_GCM: Fields = {1: (STRUCT, {})}
_WITH_COLUMN_KEY: Fields = {2: (STRUCT, {1: (LIST, (BINARY, [b"c"]))})}


def _varint(number: int) -> bytes:
    head = b""
    while number > 0x7F:
        head, number = head + bytes([number & 0x7F | 0x80]), number >> 7
    return head + bytes([number])


def thrift(kind: int, value: Any) -> bytes:
    """`value` in Thrift's compact protocol."""
    if kind in (I32, I64):
        return _varint(2 * value if value >= 0 else -2 * value - 1)
    if kind == BINARY:
        return _varint(len(value)) + bytes(value)
    if kind == LIST:
        inner, items = value
        return bytes([0xF0 | inner]) + _varint(len(items)) + b"".join(thrift(inner, item) for item in items)
    fields = (bytes([kind]) + _varint(2 * number) + thrift(kind, inner) for number, (kind, inner) in value.items())
    return b"".join(fields) + b"\0"


def element(name: str, **more: Any) -> Fields:
    """An element of a schema: a column, or a group with `children`; a `is_list`, or of a `logical` type."""
    fields: Fields = {3: (I32, 2 if more.get("is_repeated") else 1), 4: (BINARY, name.encode())}
    if more.get("is_list"):
        fields[6] = (I32, 3)
    if "logical" in more:
        fields[10] = (STRUCT, {more["logical"]: (STRUCT, {})})
    fields |= {5: (I32, more["children"])} if "children" in more else {1: (I32, more.get("type", INT64))}
    return dict(sorted((fields | ({9: (I32, more["id"])} if "id" in more else {})).items()))


def column(**more: Any) -> Fields:
    """What a row group says of a column with the values 3 to 7, in two rows."""
    low, high = ((BINARY, more.get(name, number.to_bytes(8, "little"))) for name, number in (("low", 3), ("high", 7)))
    described: Fields = {
        1: (I32, more.get("type", INT64)),
        2: (LIST, (I32, [0])),
        3: (LIST, (BINARY, [b"c"])),
        4: (I32, 0),
        5: (I64, 2),
        6: (I64, more.get("size", 16)),
        7: (I64, 16),
        9: (I64, 4),
        12: (STRUCT, {3: (I64, 0), 5: high, 6: low}),
    }
    if "histogram" in more:
        described[16] = (STRUCT, {3: (LIST, (I64, more["histogram"]))})
    if "text_bytes" in more:
        described[16] = (STRUCT, {1: (I64, more["text_bytes"])})
    return {2: (I64, 4), 3: (STRUCT, described)} | ({8: (STRUCT, _WITH_COLUMN_KEY)} if more.get("is_encrypted") else {})


def footer(*columns: Fields, **more: Any) -> pa.BufferReader:
    """A file with nothing but a footer, of a row group with these columns."""
    schema = more.get("schema", [element("root", children=1), element("c")])
    group: Fields = {1: (LIST, (STRUCT, columns)), 2: (I64, 16), 3: (I64, more.get("group_rows", 2))}
    fields: Fields = {
        1: (I32, 2),
        2: (LIST, (STRUCT, schema)),
        3: (I64, more.get("rows", 2)),
        4: (LIST, (STRUCT, [group])),
        6: (BINARY, more.get("created_by", b"parquet-mr version 1.17.0")),
        7: (LIST, (STRUCT, [{1: (STRUCT, {})}] * (1 if more.get("is_ordered", True) else 0))),
    }
    if not more.get("is_ordered", True):
        del fields[7]
    if more.get("is_encrypted"):
        fields[8] = (STRUCT, _AES_GCM)
    data = thrift(STRUCT, fields)
    return pa.BufferReader(b"PAR1" + data + len(data).to_bytes(4, "little") + b"PAR1")
