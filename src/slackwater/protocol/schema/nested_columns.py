"""The types and columns inside a schema, with the paths that lead there.

Source: delta-protocol.md "Schema Serialization Format".
"""

from __future__ import annotations

from collections.abc import Iterator

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
