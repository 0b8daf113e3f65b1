"""Validation of SQL expressions stored in a table: Spark must resolve each, to one value per row.

Source: delta-protocol.md "CHECK Constraints", "Generated Columns", "Default Columns".
"""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from slackwater.errors import InvalidArgument, SlackwaterError
from slackwater.protocol.schema.schema import DataType, StructType
from slackwater.spark.session.frames import empty_frame
from slackwater.spark.session.spark_errors import class_of, spark_error_text
from slackwater.spark.session.types import to_spark_schema, to_spark_type
from slackwater.spark.write.row_checks import expressions_named


def validate_constraint(spark: SparkSession, schema: StructType, sql: str, what: str) -> None:
    """Accept a condition on one row of a table with `schema`. `what` names it in messages.

    Raises InvalidArgument if Spark cannot resolve `sql`, if its value is not a boolean, if it has aggregates, windows
    or subqueries, or if it is not deterministic.
    """
    empty = _empty(spark, schema)
    with expressions_named(what):
        found = empty.select(F.expr(sql).alias("value")).schema.fields[0].dataType
        _require_one_value(spark, empty, F.expr(sql))
    if not isinstance(found, spark_types.BooleanType):
        raise InvalidArgument(
            f"{what}: expected a condition, found a value of type {found.simpleString()}",
            error_class="DELTA_NON_BOOLEAN_CHECK_CONSTRAINT",
        )


def validate_generation(spark: SparkSession, schema: StructType, sql: str, data_type: DataType, what: str) -> None:
    """Accept an expression for a generated column of `data_type`. Raises the errors of `validate_constraint`."""
    with expressions_named(what):
        _require_one_value(spark, _empty(spark, schema), F.expr(sql).cast(to_spark_type(data_type)))


def validate_default(spark: SparkSession, sql: str, data_type: DataType, what: str) -> None:
    """Accept a default value for a column of `data_type`. The value is evaluated once.

    It may differ from row to row. Raises InvalidArgument like `validate_constraint`, and if the evaluation fails.
    """
    try:
        with expressions_named(what):
            value, one = F.expr(sql).cast(to_spark_type(data_type)), spark.range(1)
            _ = one.filter(_of_the_row(value)).schema
            one.select(value).collect()
    except PySparkException as error:
        if isinstance(error, SlackwaterError):
            raise
        raise InvalidArgument(f"{what} has no value: {spark_error_text(error)}", **class_of(error)) from error


def _require_one_value(spark: SparkSession, frame: DataFrame, value: Column) -> None:
    # A join, because Spark allows no aggregate, window or non-deterministic expression in a join condition.
    _ = frame.join(spark.range(0).select(F.lit(1).alias("__slackwater_other")), _of_the_row(value)).schema


def _of_the_row(value: Column) -> Column:
    """Return a condition with `value` inside a lambda, because Spark allows no subquery there."""
    return F.exists(F.array(F.lit(1)), lambda _: value.isNull())


def _empty(spark: SparkSession, schema: StructType) -> DataFrame:
    return empty_frame(spark, to_spark_schema(schema))
