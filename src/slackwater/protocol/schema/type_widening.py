"""Which types hold every value of which others: upcasts on write, and changes of a column's type without a rewrite.

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
    rewrite_fields,
    walk_fields,
)

TYPE_CHANGES = "delta.typeChanges"
"""In the metadata of a column: its earlier types, which files that were written before may still hold."""

# Decimal digits that every value of the type has room in.
_INTEGER_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}
# Those of the decimals that a column of integers may be widened to.
_DECIMAL_DIGITS = {"byte": 10, "short": 10, "integer": 10, "long": 20}
_UPCASTS = {
    "byte": ("short", "integer", "long", "float", "double"),
    "short": ("integer", "long", "float", "double"),
    "integer": ("long", "double"),
    "float": ("double",),
}
# Parquet has one type for all three, so files of a narrower one are read as a wider one.
_INT32 = ("byte", "short", "integer")


class WriteConversion(Enum):
    """What turns values of one type into values of another."""

    SAME = "same"
    """Nothing: the types differ at most in nullability."""
    CAST = "cast"
    """A cast, of structs by the position of their fields."""
    BY_NAME = "by name"
    """Structs must be put together anew: fields stand in another order, or some are missing and become null."""


def can_store(data_type: DataType, table_type: DataType) -> bool:
    """Whether a column of `table_type` can take every value of `data_type` without loss."""
    return write_conversion(data_type, table_type) is not None


def write_conversion(data_type: DataType, table_type: DataType) -> WriteConversion | None:
    """How values of `data_type` become values of `table_type` without loss; None where they cannot.

    Numbers go into wider ones that hold each of them exactly (long does not go into double), void and so null into
    everything, dates into `timestamp_ntz`. Not `date` into `timestamp`: that instant depends on a time zone. Structs
    match by name in any case; a field that the data lacks becomes null and must be nullable, a field that the table
    lacks has nowhere to go. Nullability is not looked at otherwise: nulls are refused row by row.
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
    return WriteConversion.CAST if data_type == VOID or _is_upcast(data_type, table_type) else None


def can_change_in_place(old: DataType, new: DataType) -> bool:
    """Whether a column of type `old` may become `new` while its data files stay, without the typeWidening feature.

    byte may become short, and both integer, since Parquet stores all three alike; void, which no file holds, anything.
    """
    if old == VOID:
        return True
    names = (str(old), str(new))
    return all(name in _INT32 for name in names) and _INT32.index(names[0]) <= _INT32.index(names[1])


def is_type_widening(old: DataType, new: DataType) -> bool:
    """Whether `old` to `new` is a change that the typeWidening feature allows, and `can_change_in_place` does not."""
    if can_change_in_place(old, new):
        return False
    if isinstance(old, DecimalType):
        return isinstance(new, DecimalType) and old != new and _fits(old.precision, old.scale, new)
    return _is_upcast(old, new)


def can_widen(old: DataType, new: DataType) -> bool:
    """Whether a table with the typeWidening feature may have `new` for a column of type `old` while its files stay.

    Integers become decimals that hold every one of 32 bits, or 64. Source: "Type Widening" of the Delta protocol.
    """
    if old == VOID or str(new) == "float":
        return False
    if isinstance(new, DecimalType) and not isinstance(old, DecimalType):
        digits = _DECIMAL_DIGITS.get(str(old))
        return digits is not None and _fits(digits, 0, new)
    return can_change_in_place(old, new) or is_type_widening(old, new)


def with_type_change(column: StructField, inside: ColumnPath, old: DataType, new: DataType) -> StructField:
    """`column` with one more type in its history: its own, or of what is `inside` of its arrays and maps."""
    change = {"fromType": str(old), "toType": str(new), **({"fieldPath": ".".join(inside)} if inside else {})}
    return replace(column, metadata={**column.metadata, TYPE_CHANGES: [*column.metadata.get(TYPE_CHANGES, ()), change]})


def widened_columns(schema: StructType) -> list[ColumnPath]:
    """The columns that have had narrower types, also those inside others."""
    return [path for path, column in walk_fields(schema) if column.metadata.get(TYPE_CHANGES)]


def without_type_changes(schema: StructType) -> StructType:
    """`schema` as that of a table whose columns have always had their types."""

    def plain(_: ColumnPath, column: StructField) -> StructField:
        return replace(column, metadata={k: v for k, v in column.metadata.items() if k != TYPE_CHANGES})

    return rewrite_fields(schema, plain)


def is_same_type(one: DataType, other: DataType) -> bool:
    """Whether two types hold the same values under the same names; nullability and metadata are not looked at."""
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
