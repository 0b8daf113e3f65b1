"""Derives a table schema from a Parquet footer: from Spark's schema in the footer, else from the Parquet types.

The rules are those of Spark's Parquet reader. Source: delta-protocol.md "Delta Data Type to Parquet Type Mappings"; the
public Parquet format ("LogicalTypes").
"""

from __future__ import annotations

from collections.abc import Iterable
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
    VARIANT,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
    as_nullable,
    parse_schema,
)
from slackwater.protocol.schema_changes.merge_schema import without_internal_metadata
from slackwater.storage.parquet_footer import ParquetFooter, leaf_count

SPARK_SCHEMA_KEY = b"org.apache.spark.sql.parquet.row.metadata"
"""Footer key of Spark's schema in JSON."""

_METADATA = "metadata"
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
    return as_nullable(without_internal_metadata(_by_parquet_types(footer) if schema is None else schema))


def leaf_type(column: pq.ColumnSchema) -> DataType | None:
    """Return the type of a leaf column by its Parquet types, None if tables have no such type."""
    return _leaf_type(column.physical_type, orjson.loads(column.logical_type.to_json()))


def _as_spark_noted(noted: bytes) -> StructType | None:
    """Parse Spark's schema. None if it is not JSON, which Spark ignores too. Raises UnsupportedFeature."""
    try:
        schema = parse_schema(noted.decode())
    except (InvalidSchema, UnicodeDecodeError) as error:
        if _is_json(noted):
            raise UnsupportedFeature(f"it has a column that a table cannot contain: {error}") from error
        return None
    return schema


def _is_json(noted: bytes) -> bool:
    try:
        orjson.loads(noted)
    except orjson.JSONDecodeError:
        return False
    return True


def _by_parquet_types(footer: ParquetFooter) -> StructType:
    """Combine Arrow's structure with the file's metadata of the leaves. Raises UnsupportedFeature."""
    metadata = footer.metadata
    try:
        found = metadata.schema.to_arrow_schema()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UnsupportedFeature(f"its columns have unknown types: {error}") from error
    return StructType(_Columns(footer).fields(found))


class _Columns:
    """Table columns for the Arrow fields of a file. Each step takes the leaf columns of its field in order."""

    def __init__(self, footer: ParquetFooter) -> None:
        self._schema = footer.metadata.schema
        self._variants = {(group.first_leaf, group.num_leaves) for group in footer.variants}
        self._next = 0

    def fields(self, found: Iterable[pa.Field]) -> tuple[StructField, ...]:
        return tuple(StructField(field.name, self._type(field.type)) for field in found)

    def _type(self, arrow: pa.DataType) -> DataType:
        if isinstance(arrow, pa.BaseExtensionType) and pa.types.is_nested(arrow.storage_type):
            return self._type(arrow.storage_type)
        if pa.types.is_struct(arrow):
            return self._take_variant(arrow) or StructType(self.fields(arrow))
        if pa.types.is_map(arrow):
            return MapType(self._type(arrow.key_type), self._type(arrow.item_type))
        if pa.types.is_nested(arrow):
            return ArrayType(self._type(arrow.value_type))
        self._next += 1
        return _leaf(self._schema.column(self._next - 1))

    def _take_variant(self, struct: pa.StructType) -> DataType | None:
        """Return VARIANT for an annotated group, like Spark from version 4.1 on, and pass its leaves."""
        num_leaves = leaf_count(struct)
        # A struct around a variant has the same leaves, but not the same fields.
        if not {field.name for field in struct} > {_METADATA} or (self._next, num_leaves) not in self._variants:
            return None
        self._next += num_leaves
        return VARIANT


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
