"""Registration of tables in the session's catalog with the provider `delta`, and their removal."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types

from slackwater.errors import InvalidArgument
from slackwater.protocol.schema.char_varchar import TEXT_TYPE
from slackwater.spark.catalog.provider import register_provider
from slackwater.spark.catalog.session_catalog import (
    SPARK_CATALOG,
    CatalogEntry,
    current_database,
    entry_of,
    plain_sql,
)
from slackwater.sql.lexer import quoted
from slackwater.sql.parameters import text_literal


def catalog_name(spark: SparkSession, parts: Sequence[str]) -> tuple[str, str]:
    """Return database and table of a name in the session's catalog. Raises InvalidArgument for three or more parts."""
    given = list(parts)
    if given and given[0].lower() == SPARK_CATALOG and len(given) > 1:
        given = given[1:]
    if len(given) > 2:
        raise InvalidArgument(
            f"{'.'.join(parts)}: names in the session's catalog have two parts, database.table. For a table of a "
            'lake, attach the lake first: lake.attach(spark, "lake")'
        )
    return (given[0], given[1]) if len(given) == 2 else (current_database(spark), given[0])


def register_table(
    spark: SparkSession,
    parts: Sequence[str],
    schema: spark_types.StructType,
    location: str | None,
    comment: str | None = None,
) -> CatalogEntry:
    """Add a table with provider `delta` to the catalog. Without `location` the table is managed.

    The catalog's columns are only for other tools: the log defines the schema. Raises as Spark's CREATE TABLE.
    """
    register_provider(spark)
    database, table = catalog_name(spark, parts)
    name = ".".join(quoted(part) for part in (SPARK_CATALOG, database, table))
    # Pass only names and types of columns, because Spark would query the provider about further properties.
    columns = ", ".join(f"{quoted(f.name)} {_type_text(f)}" for f in schema.fields if _is_plain(f.dataType))
    place = "" if location is None else f" LOCATION {text_literal(location)}"
    said = "" if comment is None else f" COMMENT {text_literal(comment)}"
    if not columns:
        columns = "`_` STRING"
    plain_sql(spark, f"CREATE TABLE {name} ({columns}) USING delta{place}{said}")
    entry = entry_of(spark, (SPARK_CATALOG, database, table))
    if entry is None or entry.location is None:
        raise InvalidArgument(f"{name}: Spark's catalog did not store the table")
    return entry


def unregister_table(spark: SparkSession, entry: CatalogEntry) -> None:
    """Drop the table from the catalog. Spark deletes the directory of a managed table."""
    plain_sql(spark, f"DROP TABLE IF EXISTS {entry.text}")


def _type_text(field: spark_types.StructField) -> str:
    # Views store the type CHAR(5), and Spark compares their columns with padding.
    return str(field.metadata.get(TEXT_TYPE, field.dataType.simpleString()))


def _is_plain(kind: spark_types.DataType) -> bool:
    return not isinstance(kind, (spark_types.StructType, spark_types.NullType))
