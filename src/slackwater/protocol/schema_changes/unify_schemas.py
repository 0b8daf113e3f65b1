"""The common schema of existing data files: a schema for reading all of the files unchanged.

Source: delta-protocol.md "Delta Data Type to Parquet Type Mappings"; delta-spark's CONVERT TO DELTA.
"""

from __future__ import annotations

from dataclasses import replace

from slackwater.errors import InvalidArgument
from slackwater.protocol.schema.column_paths import format_column_path
from slackwater.protocol.schema.schema import ArrayType, ColumnPath, DataType, MapType, StructType
from slackwater.protocol.schema.type_widening import can_change_in_place


def united_schema(known: StructType, found: StructType) -> StructType:
    """Return the columns of `known`, followed by the columns present only in `found`, at every depth.

    A column of both schemas must have one type. For byte, short and integer, stored alike in files, the widest type is
    used. Raises InvalidArgument, with the column and both types, if the types differ otherwise. Raises InvalidArgument
    if two names differ only in case.
    """
    return _struct(known, found, ())


def _struct(known: StructType, found: StructType, path: ColumnPath) -> StructType:
    other = {column.name: column for column in found}
    spelled = {name.lower(): name for name in known.names}
    for name in found.names:
        twin = spelled.get(name.lower(), name)
        if twin != name:
            here = format_column_path((*path, twin))
            raise InvalidArgument(f"column {here} is called {name} in the other schema. Files are read by exact names")
    merged = [
        replace(column, type=_type(column.type, other[column.name].type, (*path, column.name)))
        if column.name in other
        else column
        for column in known
    ]
    names = set(known.names)
    return StructType((*merged, *(column for column in found if column.name not in names)))


def _type(known: DataType, found: DataType, path: ColumnPath) -> DataType:
    if isinstance(known, StructType) and isinstance(found, StructType):
        return _struct(known, found, path)
    if isinstance(known, ArrayType) and isinstance(found, ArrayType):
        return replace(known, element_type=_type(known.element_type, found.element_type, (*path, "element")))
    if isinstance(known, MapType) and isinstance(found, MapType):
        return MapType(
            _type(known.key_type, found.key_type, (*path, "key")),
            _type(known.value_type, found.value_type, (*path, "value")),
        )
    if known == found or can_change_in_place(found, known):
        return known
    if can_change_in_place(known, found):
        return found
    raise InvalidArgument(
        f"column {format_column_path(path)} is of type {known} in one schema and of type {found} in the other"
    )
