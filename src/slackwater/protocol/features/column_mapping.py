"""Column mapping: translation of display names to the physical names and ids in files and statistics.

Source: delta-protocol.md "Column Mapping".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slackwater.errors import InvalidSchema
from slackwater.protocol.schema.nested_columns import paired_columns
from slackwater.protocol.schema.schema import ArrayType, DataType, MapType, StructField, StructType

FIELD_ID = "delta.columnMapping.id"
PHYSICAL_NAME = "delta.columnMapping.physicalName"
NONE, NAME, ID = "none", "name", "id"


def physical_name(column: StructField, mode: str) -> str:
    """Return the name of `column` in data files, statistics and partition values.

    Raises InvalidSchema if the mode needs a physical name and the column has none.
    """
    if mode == NONE:
        return column.name
    name = column.metadata.get(PHYSICAL_NAME)
    if not isinstance(name, str):
        raise InvalidSchema(f"column {column.name}: column mapping mode {mode!r} needs {PHYSICAL_NAME} in its metadata")
    return name


def field_id(column: StructField) -> int:
    """Return the id of `column` in Parquet files. Raises InvalidSchema if it has no id."""
    value = column.metadata.get(FIELD_ID)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidSchema(f"column {column.name}: column mapping mode 'id' needs {FIELD_ID} in its metadata")
    return value


def physical_schema(schema: StructType, mode: str) -> StructType:
    """Return `schema` with the physical name of every field, nested fields included. Field metadata stays unchanged."""
    return schema if mode == NONE else _physical_struct(schema, mode)


def data_columns(schema: StructType, partition_columns: Sequence[str], mode: str) -> StructType:
    """Return the columns of data files and their statistics: `schema` without partition columns, with physical names.

    Raises InvalidSchema if a column lacks a required physical name.
    """
    return physical_schema(StructType(tuple(c for c in schema if c.name not in partition_columns)), mode)


def _physical_struct(struct: StructType, mode: str) -> StructType:
    return StructType(tuple(replace(f, name=physical_name(f, mode), type=_physical_type(f.type, mode)) for f in struct))


def _physical_type(data_type: DataType, mode: str) -> DataType:
    if isinstance(data_type, StructType):
        return _physical_struct(data_type, mode)
    if isinstance(data_type, ArrayType):
        return replace(data_type, element_type=_physical_type(data_type.element_type, mode))
    if isinstance(data_type, MapType):
        return replace(
            data_type,
            key_type=_physical_type(data_type.key_type, mode),
            value_type=_physical_type(data_type.value_type, mode),
        )
    return data_type


def physical_path(schema: StructType, path: tuple[str, ...], mode: str) -> tuple[str, ...]:
    """Return the physical path of the column at the display `path`. Raises KeyError if the column does not exist."""
    physical: list[str] = []
    struct: DataType = schema
    for name in path:
        column = struct.get(name) if isinstance(struct, StructType) else None
        if column is None:
            raise KeyError(".".join(path))
        physical.append(physical_name(column, mode))
        struct = column.type
    return tuple(physical)


def replaced_column(then: StructType, then_mode: str, now: StructType, now_mode: str) -> str | None:
    """Return the first column of `then` with the same display name in `now`, but another physical column.

    A read with `now` finds no data of this column in files written under `then`. None if there is no such column.
    Includes nested structs.
    """
    pairs = paired_columns(then, now, lambda c: physical_name(c, then_mode), lambda c: physical_name(c, now_mode))
    return next((".".join(p.path) for p in pairs if p.found is None and p.column.name in p.beside.names), None)
