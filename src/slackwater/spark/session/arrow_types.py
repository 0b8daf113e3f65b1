"""Conversion of Spark schemas to Arrow schemas, with the field ids of Parquet."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as spark_types

from slackwater.errors import UnsupportedFeature
from slackwater.protocol.schema.arrow_schema import ARROW_VARIANT, spark_shape
from slackwater.spark.session.types import PARQUET_FIELD_ID, as_geospatial
from slackwater.storage.parquet_footer import FIELD_ID_KEY

_LEAVES: dict[type[spark_types.DataType], pa.DataType] = {
    spark_types.StringType: pa.string(),
    spark_types.CharType: pa.string(),
    spark_types.VarcharType: pa.string(),
    spark_types.LongType: pa.int64(),
    spark_types.IntegerType: pa.int32(),
    spark_types.ShortType: pa.int16(),
    spark_types.ByteType: pa.int8(),
    spark_types.FloatType: pa.float32(),
    spark_types.DoubleType: pa.float64(),
    spark_types.BooleanType: pa.bool_(),
    spark_types.BinaryType: pa.binary(),
    spark_types.DateType: pa.date32(),
    spark_types.TimestampType: pa.timestamp("us", "UTC"),
    spark_types.TimestampNTZType: pa.timestamp("us"),
    spark_types.NullType: pa.null(),
    spark_types.VariantType: ARROW_VARIANT,
}


def to_arrow_schema(schema: spark_types.StructType, in_files: bool = False) -> pa.Schema:
    """Return the Arrow schema of rows with `schema` that Spark exchanges with Python, or of files with `in_files`.

    Instants are in UTC. Shapes are WKB in files. A field gets the Parquet id in its metadata, if present. Raises
    UnsupportedFeature for a type that is not supported in data files.
    """
    return pa.schema([_field(field, in_files) for field in schema.fields])


def _field(field: spark_types.StructField, in_files: bool) -> pa.Field:
    number = (field.metadata or {}).get(PARQUET_FIELD_ID)
    metadata = None if number is None else {FIELD_ID_KEY: str(number).encode()}
    return pa.field(field.name, _type(field.dataType, in_files), True, metadata)


def _type(found: spark_types.DataType, in_files: bool) -> pa.DataType:
    if isinstance(found, spark_types.StructType):
        return pa.struct([_field(field, in_files) for field in found.fields])
    if isinstance(found, spark_types.ArrayType):
        return pa.list_(pa.field("element", _type(found.elementType, in_files)))
    if isinstance(found, spark_types.MapType):
        return pa.map_(_type(found.keyType, in_files), _type(found.valueType, in_files))
    if (shape := as_geospatial(found)) is not None:
        return pa.binary() if in_files else spark_shape(*shape)
    if isinstance(found, spark_types.DecimalType):
        return pa.decimal128(found.precision, found.scale)
    if type(found) not in _LEAVES:
        raise UnsupportedFeature(f"the type {found.simpleString()} is not supported in data files by Slackwater yet")
    return _LEAVES[type(found)]
