"""Conversion between Delta schemas and Spark schemas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum, auto
from typing import Any

from pyspark.sql import types as spark_types

from slackwater.errors import UnsupportedFeature
from slackwater.protocol.features.column_mapping import FIELD_ID, PHYSICAL_NAME
from slackwater.protocol.schema.char_varchar import TEXT_TYPE
from slackwater.protocol.schema.schema import (
    EXISTS_DEFAULT,
    VARIANT,
    ArrayType,
    DataType,
    DecimalType,
    GeospatialType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    VariantType,
    parse_type,
)

PARQUET_FIELD_ID = "parquet.field.id"

_TO_SPARK: dict[str, spark_types.DataType] = {
    "string": spark_types.StringType(),
    "long": spark_types.LongType(),
    "integer": spark_types.IntegerType(),
    "short": spark_types.ShortType(),
    "byte": spark_types.ByteType(),
    "float": spark_types.FloatType(),
    "double": spark_types.DoubleType(),
    "boolean": spark_types.BooleanType(),
    "binary": spark_types.BinaryType(),
    "date": spark_types.DateType(),
    "timestamp": spark_types.TimestampType(),
    "timestamp_ntz": spark_types.TimestampNTZType(),
    "void": spark_types.NullType(),
}
_FROM_SPARK = {type(spark): PrimitiveType(name) for name, spark in _TO_SPARK.items()}
_PLAIN = "UTF8_BINARY"
_OF_SPARK, _OF_ICU = "spark", "icu"
# Metadata for the log and the files only. Users see the rest of a column's metadata.
_INTERNAL = (FIELD_ID, PHYSICAL_NAME, "delta.identity.", "delta.generationExpression", "delta.invariants")


class NullabilityMode(Enum):
    """The parts of a schema with the table's nullability in Spark. All other parts are nullable."""

    NOWHERE = auto()
    COLUMNS = auto()
    EVERYWHERE = auto()


def to_spark_type(
    data_type: DataType, field_ids: bool = False, not_null: NullabilityMode = NullabilityMode.NOWHERE
) -> spark_types.DataType:
    """Return the Spark type of `data_type`. With `field_ids`, nested fields have their Parquet field ids."""
    if isinstance(data_type, PrimitiveType):
        return _TO_SPARK[data_type.name] if data_type.collation is None else _collated(data_type.collation)
    if isinstance(data_type, DecimalType):
        return spark_types.DecimalType(data_type.precision, data_type.scale)
    if isinstance(data_type, VariantType):
        return spark_types.VariantType()
    if isinstance(data_type, GeospatialType):
        return _geospatial(data_type)
    if isinstance(data_type, ArrayType):
        element = to_spark_type(data_type.element_type, field_ids, not_null)
        return spark_types.ArrayType(element, data_type.contains_null)
    if isinstance(data_type, MapType):
        return spark_types.MapType(
            to_spark_type(data_type.key_type, field_ids, not_null),
            to_spark_type(data_type.value_type, field_ids, not_null),
            data_type.value_contains_null,
        )
    return to_spark_schema(data_type, field_ids, not_null)


def _collated(identifier: str) -> spark_types.StringType:
    """Return the type of strings with this collation. Raises UnsupportedFeature for a provider that Spark lacks."""
    provider, _, name = identifier.partition(".")
    if provider not in (_OF_SPARK, _OF_ICU) or not name:
        raise UnsupportedFeature(
            f"Spark does not know the collation {identifier}, only collations of the providers {_OF_SPARK} and "
            f"{_OF_ICU}. Read the table without Spark",
            error_class="DELTA_UNSUPPORTED_DATA_TYPES",
        )
    return spark_types.StringType(name)


def _identifier(collation: str) -> str | None:
    """Return the identifier of Spark's collation in a schema. None for the order of the UTF-8 bytes."""
    if collation == _PLAIN:
        return None
    return f"{_OF_SPARK if collation.startswith('UTF8') else _OF_ICU}.{collation}"


def _geospatial(data_type: GeospatialType) -> spark_types.DataType:
    """Return Spark's type, or binary (WKB) if this PySpark has no such type or not this reference system."""
    if not hasattr(spark_types, "GeometryType"):
        return spark_types.BinaryType()
    from pyspark.errors import IllegalArgumentException

    try:
        if data_type.algorithm is None:
            return spark_types.GeometryType._from_crs(data_type.crs)
        return spark_types.GeographyType._from_crs(data_type.crs, data_type.algorithm.upper())
    except IllegalArgumentException:
        return spark_types.BinaryType()


def to_spark_schema(
    schema: StructType, field_ids: bool = False, not_null: NullabilityMode = NullabilityMode.NOWHERE
) -> spark_types.StructType:
    """Return the Spark schema of `schema`, with comments. Fields are nullable, unless `not_null` selects their part."""
    return spark_types.StructType([_spark_field(column, field_ids, not_null) for column in schema])


def _spark_field(column: StructField, field_ids: bool, not_null: NullabilityMode) -> spark_types.StructField:
    nullable = column.nullable or not_null is NullabilityMode.NOWHERE
    within = not_null if not_null is NullabilityMode.EVERYWHERE else NullabilityMode.NOWHERE
    metadata: dict[str, Any] = {k: v for k, v in column.metadata.items() if not _is_hidden(k)}
    if field_ids and isinstance(column.metadata.get(FIELD_ID), int):
        metadata[PARQUET_FIELD_ID] = column.metadata[FIELD_ID]
    return spark_types.StructField(column.name, to_spark_type(column.type, field_ids, within), nullable, metadata)


def _is_hidden(key: str) -> bool:
    # Hide the text, because Spark would evaluate this text for rows without the column, null in Delta tables.
    return key.startswith(_INTERNAL) or key == EXISTS_DEFAULT


# Types of Spark without a place in the protocol; some have a proposal.
_NOT_ACCEPTED = ("TimeType", "DayTimeIntervalType", "YearMonthIntervalType", "CalendarIntervalType")
_INSTEAD = "Cast the column to another type before the write. docs/protocol-coverage.md lists the types"


def from_spark_schema(schema: spark_types.StructType) -> StructType:
    """Return the Delta schema of a Spark schema. Raises UnsupportedFeature for a type not supported in Delta tables."""
    return StructType(tuple(_with_text_type(f, _field(f, f.name)) for f in schema.fields))


def _with_text_type(given: spark_types.StructField, field: StructField) -> StructField:
    """Return `field` with the given type in its metadata, if the type contains text of limited length."""
    if not _limits_texts(given.dataType):
        return field
    return replace(field, metadata={**field.metadata, TEXT_TYPE: given.dataType.simpleString()})


def _limits_texts(kind: spark_types.DataType) -> bool:
    if isinstance(kind, spark_types.StructType):
        return any(_limits_texts(part.dataType) for part in kind.fields)
    if isinstance(kind, spark_types.ArrayType):
        return _limits_texts(kind.elementType)
    if isinstance(kind, spark_types.MapType):
        return _limits_texts(kind.keyType) or _limits_texts(kind.valueType)
    return isinstance(kind, (spark_types.CharType, spark_types.VarcharType))


def _field(field: spark_types.StructField, path: str) -> StructField:
    metadata: Mapping[str, Any] = dict(field.metadata or {})
    return StructField(field.name, _from_spark(field.dataType, path), field.nullable, metadata)


def _from_spark(spark_type: spark_types.DataType, path: str) -> DataType:
    if isinstance(spark_type, spark_types.StructType):
        return StructType(tuple(_field(f, f"{path}.{f.name}") for f in spark_type.fields))
    if isinstance(spark_type, spark_types.ArrayType):
        return ArrayType(_from_spark(spark_type.elementType, f"{path}.element"), spark_type.containsNull)
    if isinstance(spark_type, spark_types.MapType):
        return MapType(
            _from_spark(spark_type.keyType, f"{path}.key"),
            _from_spark(spark_type.valueType, f"{path}.value"),
            spark_type.valueContainsNull,
        )
    if isinstance(spark_type, spark_types.DecimalType):
        return DecimalType(spark_type.precision, spark_type.scale)
    if isinstance(spark_type, spark_types.StringType):
        return PrimitiveType("string", _identifier(spark_type.collation))
    if isinstance(spark_type, (spark_types.CharType, spark_types.VarcharType)):
        return PrimitiveType("string")
    if isinstance(spark_type, spark_types.VariantType):
        return VARIANT
    if (shape := as_geospatial(spark_type, path)) is not None:
        return shape[0]
    found = _FROM_SPARK.get(type(spark_type))
    if type(spark_type).__name__ in _NOT_ACCEPTED:
        raise UnsupportedFeature(
            f"column {path}: the type {spark_type.simpleString()} is not in the Delta protocol yet. {_INSTEAD}",
            error_class="DELTA_UNSUPPORTED_DATA_TYPES",
        )
    if found is None:
        raise UnsupportedFeature(
            f"column {path}: the type {spark_type.simpleString()} is not supported by Slackwater yet. {_INSTEAD}",
            error_class="DELTA_UNSUPPORTED_DATA_TYPES",
        )
    return found


def as_geospatial(spark_type: Any, path: str = "") -> tuple[GeospatialType, int] | None:
    """Return a type of shapes and its SRID, None for another type.

    Raises UnsupportedFeature for shapes of several reference systems.
    """
    if type(spark_type).__name__ not in ("GeometryType", "GeographyType"):
        return None
    if spark_type.srid == spark_type.MIXED_SRID:
        raise UnsupportedFeature(
            f"column {path}: shapes of several reference systems ({spark_type.simpleString()}) cannot be stored in one "
            "column. Cast it to the type with an SRID",
            error_class="DELTA_UNSUPPORTED_DATA_TYPES",
        )
    parsed = parse_type(str(spark_type.jsonValue()))
    assert isinstance(parsed, GeospatialType)  # noqa: S101  (PySpark writes the names of the protocol)
    return parsed, spark_type.srid
