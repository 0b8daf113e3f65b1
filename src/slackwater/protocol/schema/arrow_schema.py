"""Arrow types of the columns of a table.

A variant is a struct of its two binaries, and a shape is WKB. Their fields have the metadata of Arrow's extension types
`arrow.parquet.variant` and `geoarrow.wkb`, so that other libraries recognize them. The types are not registered with
Arrow, because pyarrow fails when it writes a registered variant. Source: delta-protocol.md "Delta Data Type to Parquet
Type Mappings"; Arrow's canonical extension types; GeoArrow.
"""

from __future__ import annotations

from collections.abc import Callable

import orjson
import pyarrow as pa

from slackwater.protocol.schema.schema import (
    ArrayType,
    DataType,
    DecimalType,
    GeospatialType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    VariantType,
)

EXTENSION_NAME, EXTENSION_METADATA = b"ARROW:extension:name", b"ARROW:extension:metadata"
"""Keys of a field's metadata for an extension type, as in Arrow's IPC format."""

VARIANT_EXTENSION, SHAPE_EXTENSION = b"arrow.parquet.variant", b"geoarrow.wkb"
"""Names of the extension types of variants and of shapes."""

_SRID = b"srid"
_VARIANT_MARK = {b"variant": b"true"}

ARROW_VARIANT = pa.struct(
    [pa.field("value", pa.binary(), False), pa.field("metadata", pa.binary(), False, _VARIANT_MARK)]
)
"""The type of a variant. Spark recognizes the mark in the metadata of its second field."""

_ARROW_PRIMITIVES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}


def to_arrow_type(data_type: DataType, column: Callable[[StructField], pa.Field] | None = None) -> pa.DataType:
    """Return the Arrow type for `data_type`. Timestamps have microsecond precision; `timestamp` is in UTC.

    `column` returns the Arrow field of a struct field, at every depth. The default has its name and its nullability.
    """
    if isinstance(data_type, PrimitiveType):
        return _ARROW_PRIMITIVES[data_type.name]
    if isinstance(data_type, DecimalType):
        return pa.decimal128(data_type.precision, data_type.scale)
    if isinstance(data_type, VariantType):
        return ARROW_VARIANT
    if isinstance(data_type, GeospatialType):
        return pa.binary()
    if isinstance(data_type, ArrayType):
        return pa.list_(arrow_field("element", data_type.element_type, data_type.contains_null, column))
    if isinstance(data_type, MapType):
        return pa.map_(
            to_arrow_type(data_type.key_type, column),
            arrow_field("value", data_type.value_type, data_type.value_contains_null, column),
        )
    return pa.struct([(column or _column)(f) for f in data_type])


def to_arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of a table with this Delta schema."""
    return pa.schema([_column(f) for f in schema])


def arrow_field(
    name: str, data_type: DataType, nullable: bool, column: Callable[[StructField], pa.Field] | None = None
) -> pa.Field:
    """Return the Arrow field of a column, an element or a map value. `column` is that of `to_arrow_type`."""
    return pa.field(name, to_arrow_type(data_type, column), nullable, extension_metadata(data_type))


def extension_metadata(data_type: DataType) -> dict[bytes, bytes] | None:
    """Return the metadata of an Arrow field of `data_type`, None if its Arrow type is no extension type."""
    if isinstance(data_type, VariantType):
        return {EXTENSION_NAME: VARIANT_EXTENSION, EXTENSION_METADATA: b""}
    if isinstance(data_type, GeospatialType):
        edges = {} if data_type.algorithm is None else {"edges": data_type.algorithm.lower()}
        return {EXTENSION_NAME: SHAPE_EXTENSION, EXTENSION_METADATA: orjson.dumps({"crs": data_type.crs, **edges})}
    return None


def is_arrow_variant(arrow: pa.DataType) -> bool:
    """Return whether `arrow` is a variant: a struct of two binaries with Spark's mark."""
    return (
        pa.types.is_struct(arrow)
        and arrow.num_fields == ARROW_VARIANT.num_fields
        and any(field.name == "metadata" and (field.metadata or {}) == _VARIANT_MARK for field in arrow)
    )


def has_variant(arrow: pa.DataType) -> bool:
    """Return whether `arrow` is a variant, or contains one."""
    if is_arrow_variant(arrow):
        return True
    return pa.types.is_nested(arrow) and any(has_variant(arrow.field(at).type) for at in range(arrow.num_fields))


def spark_shape(data_type: GeospatialType, srid: int) -> pa.DataType:
    """Return the Arrow type of shapes that Spark exchanges with Python: WKB, and the number of the system."""
    mark = {data_type.kind.encode(): b"true", _SRID: str(srid).encode()}
    return pa.struct([pa.field("srid", pa.int32(), False), pa.field("wkb", pa.binary(), False, mark)])


def shape_srid(arrow: pa.DataType) -> int | None:
    """Return the number of the reference system of a `spark_shape`, None for another type."""
    if not pa.types.is_struct(arrow) or [field.name for field in arrow] != ["srid", "wkb"]:
        return None
    found = (arrow.field("wkb").metadata or {}).get(_SRID)
    return None if found is None else int(found)


def _column(column: StructField) -> pa.Field:
    return arrow_field(column.name, column.type, column.nullable)
