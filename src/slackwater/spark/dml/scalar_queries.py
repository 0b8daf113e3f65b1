"""Scalar sub-queries in the values of SET and of new rows. Each sub-query runs once, before any row is read.

Source: delta-spark's UPDATE and MERGE, whose values may have scalar sub-queries that name no column of the row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from slackwater.errors import InvalidArgument, SlackwaterError
from slackwater.predicate.sql_split import has_subquery
from slackwater.spark.catalog.session_catalog import plain_sql
from slackwater.spark.session.spark_errors import condition_of, spark_error_text
from slackwater.sql.lexer import closing, tokens_of
from slackwater.sql.text_edits import TextEdit, apply_edits

_Expression: TypeAlias = Column | str
_BEGINS_QUERY = ("SELECT", "WITH", "FROM")
_OF_A_CONDITION = ("IN", "EXISTS", "ANY", "SOME", "ALL")
_BY_TEXT = (
    spark_types.NumericType,
    spark_types.BooleanType,
    spark_types.DateType,
    spark_types.TimestampNTZType,
    spark_types.AnsiIntervalType,
)


def has_scalar_queries(values: Mapping[str, _Expression]) -> bool:
    """Return whether a value given as SQL text has a sub-query."""
    return any(isinstance(value, str) and has_subquery(value) for value in values.values())


def with_scalars(spark: SparkSession, values: Mapping[str, _Expression], what: str) -> Mapping[str, _Expression]:
    """Return the values with each scalar sub-query replaced by its result.

    A result is a literal of the sub-query's type, NULL if the sub-query returns no row. `what` names the clause in
    messages. Raises InvalidArgument if Spark rejects a sub-query, if a sub-query names a column of the row or returns
    more than one row, or if the type of its value has no literals.
    """
    return {
        name: _computed(spark, value, f"{what}: the value of column {name}") if isinstance(value, str) else value
        for name, value in values.items()
    }


def _computed(spark: SparkSession, text: str, what: str) -> str:
    if not has_subquery(text):
        return text
    tokens = tokens_of(text) or []
    ends = closing(tokens)
    changes = []
    at = 0
    while at < len(tokens):
        is_query = at in ends and tokens[at + 1].upper in _BEGINS_QUERY
        if is_query and (at == 0 or tokens[at - 1].upper not in _OF_A_CONDITION):
            start, end = tokens[at].start, tokens[ends[at]].end
            changes.append(TextEdit(start, end, _literal(spark, text[start:end], what)))
            at = ends[at]
        at += 1
    return apply_edits(text, changes)


def _literal(spark: SparkSession, query: str, what: str) -> str:
    """Return the result of the query in parentheses, as SQL text with a cast to its type."""
    try:
        frame = plain_sql(spark, query)
        if len(frame.columns) != 1:
            raise InvalidArgument(f"{what}: a sub-query returns {len(frame.columns)} columns. Select one column")
        frame = frame.toDF("value")
        kind = frame.schema.fields[0].dataType
        value = F.col("value")
        if isinstance(kind, spark_types.NullType):
            return "NULL"
        if isinstance(kind, spark_types.StringType):
            shown, before, after = F.hex(F.encode(value, "UTF-8")), "decode(X'", "', 'UTF-8')"
        elif isinstance(kind, spark_types.BinaryType):
            shown, before, after = F.hex(value), "X'", "'"
        elif isinstance(kind, spark_types.TimestampType):
            shown, before, after = F.unix_micros(value).cast("string"), "timestamp_micros(", ")"
        elif isinstance(kind, _BY_TEXT):
            shown, before, after = value.cast("string"), "'", "'"
        else:
            raise InvalidArgument(
                f"{what}: a sub-query returns a value of the unsupported type {kind.simpleString()}. Use MERGE with a "
                "source that contains the value"
            )
        rows = frame.select(shown).limit(2).collect()
    except PySparkException as error:
        if isinstance(error, SlackwaterError):
            raise
        raise InvalidArgument(f"{what}: {_explained(error)}") from error
    if len(rows) > 1:
        raise InvalidArgument(f"{what}: a sub-query returns more than one row. Use an aggregate or LIMIT 1")
    found = rows[0][0] if rows else None
    inner = "NULL" if found is None else f"{before}{found}{after}"
    return f"CAST({inner} AS {kind.simpleString()})"


def _explained(error: PySparkException) -> str:
    condition = condition_of(error) or ""
    if condition.startswith("UNRESOLVED_COLUMN"):
        return (
            "a sub-query in a value runs once and cannot use columns of the row. Use MERGE with a source that contains "
            f"its result: {spark_error_text(error)}"
        )
    return spark_error_text(error)
