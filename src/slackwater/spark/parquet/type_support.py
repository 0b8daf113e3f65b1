"""Columns that Spark's Parquet reader cannot read from every file of a table, but Arrow can.

Source: delta-protocol.md "Primitive Types" (void); the protocol's "Type Widening".
"""

from __future__ import annotations

from slackwater.protocol.schema.column_paths import format_column_path
from slackwater.protocol.schema.nested_columns import parts
from slackwater.protocol.schema.schema import (
    VOID,
    ArrayType,
    ColumnPath,
    DataType,
    DecimalType,
    MapType,
    StructType,
    walk_fields,
)
from slackwater.protocol.schema.type_widening import TYPE_CHANGES

# Digits before the point required by Spark to read a Parquet integer of 32 or 64 bits as a decimal.
_DIGITS = {"byte": 10, "short": 10, "integer": 10, "long": 20}


def unreadable_by_spark(schema: StructType) -> str | None:
    """Return the reason why Spark cannot read a column of `schema` from every file, None if Spark can read all.

    Spark cannot read void inside another column, and no integers into a decimal with few digits before the point, which
    are those of files before a type was widened.
    """
    for path, data_type in parts(schema):
        if data_type == VOID and len(path) > 1:
            return f"column {format_column_path(path)} is of type void inside another column"
    for path, column in walk_fields(schema):
        for change in column.metadata.get(TYPE_CHANGES) or ():
            before, after = str(change.get("fromType")), _type_at(column.type, change.get("fieldPath"))
            digits = _DIGITS.get(before)
            if digits is not None and isinstance(after, DecimalType) and after.precision - after.scale < digits:
                return f"column {format_column_path(path)} was widened from {before} to {after}"
    return None


def _type_at(data_type: DataType, field_path: str | None) -> DataType:
    """Return the type inside arrays and maps at the `fieldPath` of a type change."""
    steps: ColumnPath = tuple(field_path.split(".")) if field_path else ()
    for step in steps:
        if isinstance(data_type, ArrayType):
            data_type = data_type.element_type
        elif isinstance(data_type, MapType):
            data_type = data_type.key_type if step == "key" else data_type.value_type
    return data_type
