"""Lossless type conversions: upcasts on write, and type changes of a column without rewriting files.

Source: delta-protocol.md "Primitive Types", "Delta Data Type to Parquet Type Mappings"; the protocol's "Type Widening".
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

from slackwater.protocol.schema.schema import (
    DATE,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    ColumnPath,
    DataType,
    DecimalType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    is_string,
    walk_fields,
    without_metadata,
)

TYPE_CHANGES = "delta.typeChanges"
"""The column metadata key of the type history. Older files may still have the earlier types."""

# Decimal digits needed for any value of the type.
_INTEGER_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}
# Integer digits of a decimal required for type widening from the type.
_DECIMAL_DIGITS = {"byte": 10, "short": 10, "integer": 10, "long": 20}
_UPCASTS = {
    "byte": ("short", "integer", "long", "float", "double"),
    "short": ("integer", "long", "float", "double"),
    "integer": ("long", "double"),
    "float": ("double",),
}
# Parquet stores all three as INT32, so files of a narrower type are readable as a wider one.
_INT32 = ("byte", "short", "integer")


class WriteConversion(Enum):
    """The conversion needed to write values of one type as another."""

    SAME = "same"
    """No conversion: the types differ at most in nullability."""
    CAST = "cast"
    """A cast. Struct fields match by position."""
    BY_NAME = "by name"
    """Structs must be rebuilt: fields are in another order, or missing fields become null."""


def can_store(data_type: DataType, table_type: DataType) -> bool:
    """Return whether a column of `table_type` can store all values of `data_type` without loss."""
    return write_conversion(data_type, table_type) is not None


def write_conversion(data_type: DataType, table_type: DataType) -> WriteConversion | None:
    """Return the lossless conversion from `data_type` to `table_type`, None if there is no lossless conversion.

    Numbers convert to wider types with exact values (long does not convert to double). Void, and so null, converts to
    any type. `date` converts to `timestamp_ntz`, but not to `timestamp`, because the instant depends on a time zone.
    Struct fields match by name and ignore case. A field missing in the data becomes null and must be nullable. A field
    missing in the table has no conversion. Nullability is not compared otherwise, because writers reject nulls row by
    row.
    """
    if isinstance(data_type, StructType) and isinstance(table_type, StructType):
        return _struct_conversion(data_type, table_type)
    if isinstance(data_type, ArrayType) and isinstance(table_type, ArrayType):
        return write_conversion(data_type.element_type, table_type.element_type)
    if isinstance(data_type, MapType) and isinstance(table_type, MapType):
        return _widest(
            write_conversion(data_type.key_type, table_type.key_type),
            write_conversion(data_type.value_type, table_type.value_type),
        )
    if data_type == table_type:
        return WriteConversion.SAME
    changes_collation = is_string(data_type) and is_string(table_type)
    is_cast = data_type == VOID or changes_collation or _is_upcast(data_type, table_type)
    return WriteConversion.CAST if is_cast else None


def can_change_in_place(old: DataType, new: DataType) -> bool:
    """Return whether a column may change from `old` to `new` without rewriting files or the typeWidening feature.

    byte may become short, and both may become integer, because Parquet stores all three alike. void may become any
    type, because no file stores void.
    """
    if old == VOID:
        return True
    names = (str(old), str(new))
    return all(name in _INT32 for name in names) and _INT32.index(names[0]) <= _INT32.index(names[1])


def is_type_widening(old: DataType, new: DataType) -> bool:
    """Return whether `new` is losslessly wider than `old`, and not allowed by `can_change_in_place`.

    Such a change needs the typeWidening feature. See `can_widen` for the changes allowed by the feature.
    """
    if can_change_in_place(old, new):
        return False
    if isinstance(old, DecimalType):
        return isinstance(new, DecimalType) and old != new and _fits(old.precision, old.scale, new)
    return _is_upcast(old, new)


def can_widen(old: DataType, new: DataType) -> bool:
    """Return whether the typeWidening feature allows a change from `old` to `new` without rewriting files.

    Integers may become decimals wide enough for all 32-bit or all 64-bit values. Source: "Type Widening" of the Delta
    protocol.
    """
    if old == VOID or str(new) == "float":
        return False
    if isinstance(new, DecimalType) and not isinstance(old, DecimalType):
        digits = _DECIMAL_DIGITS.get(str(old))
        return digits is not None and _fits(digits, 0, new)
    return can_change_in_place(old, new) or is_type_widening(old, new)


def with_type_change(column: StructField, inside: ColumnPath, old: DataType, new: DataType) -> StructField:
    """Return `column` with one more entry in its type history.

    `inside` is the path of the changed type within the column's arrays and maps; empty for the column's own type.
    """
    change = {"fromType": str(old), "toType": str(new), **({"fieldPath": ".".join(inside)} if inside else {})}
    return replace(column, metadata={**column.metadata, TYPE_CHANGES: [*column.metadata.get(TYPE_CHANGES, ()), change]})


def widened_columns(schema: StructType) -> list[ColumnPath]:
    """Return the paths of columns with a type history, nested columns included."""
    return [path for path, column in walk_fields(schema) if column.metadata.get(TYPE_CHANGES)]


def without_type_changes(schema: StructType) -> StructType:
    """Return `schema` without type histories."""
    return without_metadata(schema, lambda key: key == TYPE_CHANGES)


def is_same_type(one: DataType, other: DataType) -> bool:
    """Return whether two types are equal, ignoring nullability and metadata."""
    if isinstance(one, StructType) and isinstance(other, StructType):
        return one.names == other.names and all(is_same_type(a.type, b.type) for a, b in zip(one, other, strict=True))
    if isinstance(one, ArrayType) and isinstance(other, ArrayType):
        return is_same_type(one.element_type, other.element_type)
    if isinstance(one, MapType) and isinstance(other, MapType):
        return is_same_type(one.key_type, other.key_type) and is_same_type(one.value_type, other.value_type)
    return one == other


def _struct_conversion(data: StructType, table: StructType) -> WriteConversion | None:
    pairs = [(field, table.get(field.name)) for field in data]
    targets = [target.name for _, target in pairs if target is not None]
    if len(targets) != len(pairs) or len(set(targets)) != len(targets):
        return None
    if any(not f.nullable for f in table if f.name not in targets):
        return None
    inner = [write_conversion(field.type, target.type) for field, target in pairs if target is not None]
    if tuple(targets) != table.names:
        own = WriteConversion.BY_NAME
    else:
        own = WriteConversion.SAME if data.names == table.names else WriteConversion.CAST
    return _widest(own, *inner)


def _widest(*conversions: WriteConversion | None) -> WriteConversion | None:
    order = list(WriteConversion)
    return None if None in conversions else max((c for c in conversions if c is not None), key=order.index)


def _is_upcast(narrow: DataType, wide: DataType) -> bool:
    if narrow == DATE:
        return wide == TIMESTAMP_NTZ
    if isinstance(wide, DecimalType):
        if isinstance(narrow, DecimalType):
            return _fits(narrow.precision, narrow.scale, wide)
        digits = _INTEGER_DIGITS.get(str(narrow))
        return digits is not None and _fits(digits, 0, wide)
    return isinstance(narrow, PrimitiveType) and str(wide) in _UPCASTS.get(narrow.name, ())


def _fits(precision: int, scale: int, wide: DecimalType) -> bool:
    return wide.scale >= scale and wide.precision - wide.scale >= precision - scale
