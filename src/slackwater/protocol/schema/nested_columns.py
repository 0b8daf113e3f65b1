"""Iteration over the nested types and columns of a schema, with their paths.

Source: delta-protocol.md "Schema Serialization Format".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from slackwater.protocol.schema.schema import ArrayType, ColumnPath, DataType, MapType, StructField, StructType


def parts(data_type: DataType, path: ColumnPath = ()) -> Iterator[tuple[ColumnPath, DataType]]:
    """Yield `data_type` and all nested types with their paths below `path`, in pre-order."""
    yield path, data_type
    if isinstance(data_type, StructType):
        for column in data_type:
            yield from parts(column.type, (*path, column.name))
    elif isinstance(data_type, ArrayType):
        yield from parts(data_type.element_type, (*path, "element"))
    elif isinstance(data_type, MapType):
        yield from parts(data_type.key_type, (*path, "key"))
        yield from parts(data_type.value_type, (*path, "value"))


def struct_columns(struct: StructType, path: ColumnPath = ()) -> Iterator[tuple[ColumnPath, StructField]]:
    """Yield the columns of `struct` and of its nested structs, but not the columns inside arrays and maps."""
    for column in struct:
        inner = (*path, column.name)
        yield inner, column
        if isinstance(column.type, StructType):
            yield from struct_columns(column.type, inner)


Key = Callable[[StructField], Any]
"""The key of a column among the columns of its struct."""


class ColumnPair(NamedTuple):
    """A column of one schema with its path, its counterpart `found`, and the counterpart's struct `beside`."""

    path: ColumnPath
    column: StructField
    found: StructField | None
    beside: StructType


def paired_columns(
    data_type: DataType,
    other: DataType,
    key: Key,
    other_key: Key,
    is_same: Callable[[StructField, StructField], bool] = lambda column, found: True,  # noqa: ARG005
    path: ColumnPath = (),
) -> Iterator[ColumnPair]:
    """Yield the columns inside `data_type`, also within arrays and maps, with their counterparts in `other`.

    The counterpart of a column has an `other_key` equal to the column's `key`, and fulfils `is_same`. A column comes
    before its nested columns. The nested columns of a column without a counterpart are skipped.
    """
    rules = key, other_key, is_same
    if isinstance(data_type, StructType) and isinstance(other, StructType):
        known = {other_key(column): column for column in other}
        for column in data_type:
            found, inner = known.get(key(column)), (*path, column.name)
            if found is not None and not is_same(column, found):
                found = None
            yield ColumnPair(inner, column, found, other)
            if found is not None:
                yield from paired_columns(column.type, found.type, *rules, inner)
    elif isinstance(data_type, ArrayType) and isinstance(other, ArrayType):
        yield from paired_columns(data_type.element_type, other.element_type, *rules, (*path, "element"))
    elif isinstance(data_type, MapType) and isinstance(other, MapType):
        yield from paired_columns(data_type.key_type, other.key_type, *rules, (*path, "key"))
        yield from paired_columns(data_type.value_type, other.value_type, *rules, (*path, "value"))
