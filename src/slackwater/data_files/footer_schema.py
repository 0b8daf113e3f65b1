"""Derives a table schema from a Parquet footer: from Spark's schema in the footer, else from the Parquet types.

The rules are those of Spark's Parquet reader. Source: delta-protocol.md "Delta Data Type to Parquet Type Mappings"; the
public Parquet format ("LogicalTypes").
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.errors import InvalidSchema, UnsupportedFeature
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
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
    as_nullable,
    parse_schema,
    walk_fields,
)
from slackwater.protocol.schema_changes.merge_schema import without_internal_metadata
from slackwater.storage.parquet_footer import ParquetFooter

SPARK_SCHEMA_KEY = b"org.apache.spark.sql.parquet.row.metadata"
"""Footer key of Spark's schema in JSON."""

_COLLATIONS = "__COLLATIONS"
_PHYSICAL: dict[str, DataType] = {
    "BOOLEAN": BOOLEAN,
    "INT32": INTEGER,
    "INT64": LONG,
    "INT96": TIMESTAMP,
    "FLOAT": FLOAT,
    "DOUBLE": DOUBLE,
    "BYTE_ARRAY": BINARY,
    "FIXED_LEN_BYTE_ARRAY": BINARY,
}
_INTEGERS: dict[tuple[int, bool], DataType] = {
    (8, True): BYTE,
    (16, True): SHORT,
    (32, True): INTEGER,
    (64, True): LONG,
    # Unsigned integers need a wider type.
    (8, False): SHORT,
    (16, False): INTEGER,
    (32, False): LONG,
    (64, False): DecimalType(20, 0),
}
_BY_MEANING: dict[str, DataType] = {"String": STRING, "Enum": STRING, "JSON": STRING, "BSON": BINARY, "Date": DATE}
_MOST_DIGITS = 38


def schema_of_footer(footer: ParquetFooter) -> StructType:
    """Return the columns of the file with this footer, all nullable, like `spark.read.parquet`.

    Raises UnsupportedFeature, with the name of the column, for a type unsupported in tables, and for an encrypted file.
    """
    if footer.is_encrypted:
        raise UnsupportedFeature("it is encrypted, and tables have no keys. Decrypt it first")
    noted = (footer.metadata.metadata or {}).get(SPARK_SCHEMA_KEY)
    schema = None if noted is None else _as_spark_noted(noted)
    return as_nullable(without_internal_metadata(_by_parquet_types(footer.metadata) if schema is None else schema))


def _as_spark_noted(noted: bytes) -> StructType | None:
    """Parse Spark's schema. None if it is not JSON, which Spark ignores too. Raises UnsupportedFeature."""
    try:
        schema = parse_schema(noted.decode())
    except (InvalidSchema, UnicodeDecodeError) as error:
        if _is_json(noted):
            raise UnsupportedFeature(f"it has a column that a table cannot contain: {error}") from error
        return None
    collated = next((path for path, column in walk_fields(schema) if column.metadata.get(_COLLATIONS)), None)
    if collated is not None:
        raise UnsupportedFeature(f"column {'.'.join(collated)} is text with a collation, which tables do not support")
    return schema


def _is_json(noted: bytes) -> bool:
    try:
        orjson.loads(noted)
    except orjson.JSONDecodeError:
        return False
    return True


def _by_parquet_types(metadata: pq.FileMetaData) -> StructType:
    """Combine Arrow's structure with the file's metadata of the leaves. Raises UnsupportedFeature."""
    try:
        found = metadata.schema.to_arrow_schema()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UnsupportedFeature(f"its columns have unknown types: {error}") from error
    leaves = (metadata.schema.column(at) for at in range(metadata.num_columns))
    return StructType(tuple(_field(field, leaves) for field in found))


def _field(field: pa.Field, leaves: Iterator[pq.ColumnSchema]) -> StructField:
    return StructField(field.name, _type(field.type, leaves))


def _type(arrow: pa.DataType, leaves: Iterator[pq.ColumnSchema]) -> DataType:
    """Return the type of a column. Takes the leaves of the column in order from `leaves`."""
    if isinstance(arrow, pa.BaseExtensionType) and pa.types.is_nested(arrow.storage_type):
        return _type(arrow.storage_type, leaves)
    if pa.types.is_struct(arrow):
        return StructType(tuple(_field(field, leaves) for field in arrow))
    if pa.types.is_map(arrow):
        return MapType(_type(arrow.key_type, leaves), _type(arrow.item_type, leaves))
    if pa.types.is_nested(arrow):
        return ArrayType(_type(arrow.value_type, leaves))
    return _leaf(next(leaves))


def _leaf(column: pq.ColumnSchema) -> DataType:
    logical = orjson.loads(column.logical_type.to_json())
    found = _leaf_type(column.physical_type, logical)
    if found is None:
        meaning = {key: value for key, value in logical.items() if not key.startswith(("is_from", "force"))}
        raise UnsupportedFeature(
            f"column {column.path} is {column.physical_type} with the meaning {orjson.dumps(meaning).decode()}. Tables "
            "and Spark have no type for it. Omit the column, or write it as another type"
        )
    return found


def _leaf_type(physical: str, logical: dict[str, Any]) -> DataType | None:
    meaning = logical["Type"]
    if meaning in ("None", "Null"):
        return _PHYSICAL.get(physical)
    if meaning == "Int":
        return _INTEGERS.get((logical["bitWidth"], logical["isSigned"]))
    if meaning == "Decimal":
        digits, scale = logical["precision"], logical["scale"]
        return DecimalType(digits, scale) if digits <= _MOST_DIGITS else None
    if meaning == "Timestamp":
        is_known = logical["timeUnit"] in ("milliseconds", "microseconds")
        return (TIMESTAMP if logical["isAdjustedToUTC"] else TIMESTAMP_NTZ) if is_known else None
    return _BY_MEANING.get(meaning)
