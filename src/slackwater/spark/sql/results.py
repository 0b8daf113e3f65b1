"""What statements answer: frames with delta-spark's columns."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from slackwater.spark.session.given_rows import given_rows

_AFFECTED = spark_types.StructType().add("num_affected_rows", "long")
_PAIRS = spark_types.StructType().add("key", "string", False).add("value", "string", False)


def nothing(spark: SparkSession) -> DataFrame:
    """The answer of a statement that has none: no rows, no columns."""
    return given_rows(spark, [], spark_types.StructType())


def affected(spark: SparkSession, num_rows: int | None) -> DataFrame:
    """One row with `num_affected_rows`; NULL where the log does not say how many they were."""
    return given_rows(spark, [(num_rows,)], _AFFECTED)


def pairs(spark: SparkSession, found: dict[str, str]) -> DataFrame:
    """Rows of `key` and `value`, by their keys."""
    return given_rows(spark, sorted(found.items()), _PAIRS)


def texts(spark: SparkSession, columns: tuple[str, ...], rows: list[tuple[str | None, ...]]) -> DataFrame:
    """Rows of texts."""
    schema = spark_types.StructType([spark_types.StructField(name, spark_types.StringType()) for name in columns])
    return given_rows(spark, list(rows), schema)
