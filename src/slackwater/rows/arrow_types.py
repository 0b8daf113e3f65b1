"""Column types for Arrow columns: the type of a new column, and the types with a value-checked conversion.

Source: delta-protocol.md "Primitive Types", "Delta Data Type to Parquet Type Mappings"; Arrow's columnar format.
"""

from __future__ import annotations

import re
from dataclasses import replace

import orjson
import pyarrow as pa

from slackwater.errors import InvalidArgument
from slackwater.protocol.schema.arrow_schema import (
    EXTENSION_METADATA,
    EXTENSION_NAME,
    SHAPE_EXTENSION,
    VARIANT_EXTENSION,
    is_arrow_variant,
)
from slackwater.protocol.schema.column_paths import format_column_path
from slackwater.protocol.schema.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VARIANT,
    VOID,
    ArrayType,
    ColumnPath,
    DataType,
    DecimalType,
    GeospatialType,
    MapType,
    StructField,
    StructType,
)
from slackwater.protocol.schema.type_widening import can_change_in_place, can_store

_SYSTEM = re.compile(r"\w+:\w+")
_MOST_DIGITS = 38
_LEAVES: dict[int, DataType] = {
    pa.bool_().id: BOOLEAN,
    pa.int8().id: BYTE,
    pa.int16().id: SHORT,
    pa.int32().id: INTEGER,
    pa.int64().id: LONG,
    # Unsigned integers need a wider type.
    pa.uint8().id: SHORT,
    pa.uint16().id: INTEGER,
    pa.uint32().id: LONG,
    pa.uint64().id: DecimalType(20, 0),
    pa.float16().id: FLOAT,
    pa.float32().id: FLOAT,
    pa.float64().id: DOUBLE,
    pa.string().id: STRING,
    pa.large_string().id: STRING,
    pa.string_view().id: STRING,
    pa.binary().id: BINARY,
    pa.large_binary().id: BINARY,
    pa.binary_view().id: BINARY,
    pa.binary(1).id: BINARY,
    pa.date32().id: DATE,
    pa.date64().id: DATE,
    pa.null().id: VOID,
}
_INTEGERS = ("byte", "short", "integer", "long")
_FLOATS = ("float", "double")


def delta_schema(schema: pa.Schema) -> StructType:
    """Return the columns of a table for Arrow columns, all nullable.

    Raises InvalidArgument, with the column, for a type without a counterpart in tables.
    """
    return StructType(tuple(_column(field, ()) for field in schema))


def assigned_schema(data: StructType, table: StructType, widens: bool) -> StructType:
    """Return the schema of `data` with the types of `table` where the values can be converted one by one.

    Such a conversion between numbers fails for a value without an exact counterpart. With `widens`, the column of the
    table gets the wider type instead if it can be changed in place.
    """
    return StructType(
        tuple(
            column
            if (target := table.get(column.name)) is None
            else replace(column, type=_assigned(column.type, target.type, widens))
            for column in data
        )
    )


def _assigned(data: DataType, table: DataType, widens: bool) -> DataType:
    if isinstance(data, StructType) and isinstance(table, StructType):
        return assigned_schema(data, table, widens)
    if isinstance(data, ArrayType) and isinstance(table, ArrayType):
        return replace(data, element_type=_assigned(data.element_type, table.element_type, widens))
    if isinstance(data, MapType) and isinstance(table, MapType):
        key = _assigned(data.key_type, table.key_type, widens)
        return replace(data, key_type=key, value_type=_assigned(data.value_type, table.value_type, widens))
    if data == BINARY and isinstance(table, GeospatialType):
        return table
    if can_store(data, table) or (widens and can_change_in_place(table, data)):
        return data
    return table if _has_checked_conversion(data, table) else data


def _has_checked_conversion(data: DataType, table: DataType) -> bool:
    """Return whether every number of `data` either has an exact counterpart in `table`, or is recognized."""
    names = str(data), str(table)
    if isinstance(data, DecimalType):
        return isinstance(table, DecimalType) or names[1] in _INTEGERS
    if names[0] in _INTEGERS:
        return isinstance(table, DecimalType) or names[1] in (*_INTEGERS, *_FLOATS)
    return names[0] in _FLOATS and names[1] in (*_INTEGERS, *_FLOATS)


def _column(field: pa.Field, parent: ColumnPath) -> StructField:
    path = (*parent, field.name)
    extension = (field.metadata or {}).get(EXTENSION_NAME)
    if extension == VARIANT_EXTENSION:
        return StructField(field.name, VARIANT)
    if extension == SHAPE_EXTENSION:
        return StructField(field.name, _shape((field.metadata or {}).get(EXTENSION_METADATA, b""), path))
    return StructField(field.name, delta_type(field.type, path))


def _shape(metadata: bytes, path: ColumnPath) -> GeospatialType:
    """Return the type of shapes in GeoArrow's form. A system that is not given is number 0. Raises InvalidArgument."""
    told = orjson.loads(metadata or b"{}")
    crs, edges = told.get("crs"), told.get("edges")
    if isinstance(crs, dict) and isinstance(crs.get("id"), dict):
        crs = f"{crs['id'].get('authority')}:{crs['id'].get('code')}"
    if crs is not None and (not isinstance(crs, str) or not _SYSTEM.fullmatch(crs)):
        raise InvalidArgument(
            f"column {format_column_path(path)} has shapes of a reference system without a name such as OGC:CRS84: "
            f"{str(crs)[:80]!r}. Set the name in the metadata of the Arrow field, or write the column without it",
            error_class="DELTA_UNSUPPORTED_DATA_TYPES",
        )
    return GeospatialType("geometry" if edges is None else "geography", crs or "SRID:0", edges and str(edges).upper())


def delta_type(arrow: pa.DataType, path: ColumnPath) -> DataType:
    """Return the column type for the Arrow type of the column at `path`. Raises InvalidArgument."""
    if isinstance(arrow, pa.BaseExtensionType):
        is_variant = arrow.extension_name == VARIANT_EXTENSION.decode()
        return VARIANT if is_variant else delta_type(arrow.storage_type, path)
    if is_arrow_variant(arrow):
        return VARIANT
    if pa.types.is_dictionary(arrow) or pa.types.is_run_end_encoded(arrow):
        return delta_type(arrow.value_type, path)
    if pa.types.is_decimal(arrow):
        return _decimal(arrow, path)
    if pa.types.is_timestamp(arrow):
        return TIMESTAMP_NTZ if arrow.tz is None else TIMESTAMP
    if pa.types.is_struct(arrow):
        return StructType(tuple(_column(field, path) for field in arrow))
    if pa.types.is_map(arrow):
        return MapType(delta_type(arrow.key_type, (*path, "key")), delta_type(arrow.item_type, (*path, "value")))
    if is_any_list(arrow):
        return ArrayType(_column(arrow.value_field, (*path, "element")).type)
    if arrow.id not in _LEAVES:
        raise InvalidArgument(
            f"column {format_column_path(path)} is of the Arrow type {arrow}, which tables do not have. Cast it to "
            "another type, such as a number or a text",
            error_class="DELTA_UNSUPPORTED_DATA_TYPES",
        )
    return _LEAVES[arrow.id]


def is_any_list(arrow: pa.DataType) -> bool:
    """Return whether `arrow` is a list of any layout."""
    is_view = pa.types.is_list_view(arrow) or pa.types.is_large_list_view(arrow)
    is_plain = pa.types.is_list(arrow) or pa.types.is_large_list(arrow)
    return bool(is_plain or is_view or pa.types.is_fixed_size_list(arrow))


def _decimal(arrow: pa.DataType, path: ColumnPath) -> DecimalType:
    if arrow.precision > _MOST_DIGITS or not 0 <= arrow.scale <= arrow.precision:
        raise InvalidArgument(
            f"column {format_column_path(path)} is of the Arrow type {arrow}. Tables have decimals with at most "
            f"{_MOST_DIGITS} digits, and with 0 to {_MOST_DIGITS} of them after the point. Cast it to such a type",
            error_class="DELTA_UNSUPPORTED_DATA_TYPES",
        )
    return DecimalType(arrow.precision, arrow.scale)
