"""SQL texts that a table keeps: Spark must understand them, and they must have one value for one row.

Source: delta-protocol.md "CHECK Constraints", "Generated Columns", "Default Columns".
"""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from slackwater.errors import InvalidArgument, SlackwaterError
from slackwater.protocol.schema.schema import DataType, StructType
from slackwater.spark.session.classic_connect import empty_frame
from slackwater.spark.session.types import to_spark_schema, to_spark_type
from slackwater.spark.write.row_checks import class_of, expressions_named, spark_error_text


def validate_constraint(spark: SparkSession, schema: StructType, sql: str, what: str) -> None:
    """Let pass a condition on one row of a table with `schema`; `what` names it in messages.

    Raises InvalidArgument for text that Spark does not understand, a value that is no boolean, aggregates, windows,
    subqueries, and what differs from one evaluation to the next.
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
    """Let pass an expression that gives a generated column of `data_type`. Raises as `validate_constraint`."""
    with expressions_named(what):
        _require_one_value(spark, _empty(spark, schema), F.expr(sql).cast(to_spark_type(data_type)))


def validate_default(spark: SparkSession, sql: str, data_type: DataType, what: str) -> None:
    """Let pass a default value for a column of `data_type`, which is evaluated once.

    It may differ from row to row. Raises InvalidArgument as `validate_constraint`, and where it has no value.
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
    # A join's condition is where Spark allows least: no aggregate, no window, nothing that depends on chance.
    _ = frame.join(spark.range(0).select(F.lit(1).alias("__slackwater_other")), _of_the_row(value)).schema


def _of_the_row(value: Column) -> Column:
    """A condition that holds `value` where no subquery may stand: inside of a lambda."""
    return F.exists(F.array(F.lit(1)), lambda _: value.isNull())


def _empty(spark: SparkSession, schema: StructType) -> DataFrame:
    return empty_frame(spark, to_spark_schema(schema))
