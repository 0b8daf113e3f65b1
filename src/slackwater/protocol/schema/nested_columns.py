"""The types and columns inside a schema, with the paths that lead there.

Source: delta-protocol.md "Schema Serialization Format".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from slackwater.protocol.schema.schema import ArrayType, ColumnPath, DataType, MapType, StructField, StructType


def parts(data_type: DataType, path: ColumnPath = ()) -> Iterator[tuple[ColumnPath, DataType]]:
    """`data_type` and every type inside of it with its path under `path`: a type before its parts."""
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
    """Every column that names alone lead to, through structs: none of those inside an array or a map."""
    for column in struct:
        inner = (*path, column.name)
        yield inner, column
        if isinstance(column.type, StructType):
            yield from struct_columns(column.type, inner)


Key = Callable[[StructField], Any]
"""What a column is known by among the columns of its struct."""


class ColumnPair(NamedTuple):
    """A column of one schema, by its path, and what stands for it in the struct `beside` of another schema."""

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
    """Every column inside `data_type`, those within arrays and maps too, with the one of `other` that stands for it.

    That is the one in its struct with the `other_key` that is the column's `key`, if it `is_same` too. A column comes
    before its parts; those of a column without a counterpart do not come.
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
