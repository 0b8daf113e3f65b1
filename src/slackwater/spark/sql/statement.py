"""Statements of `spark.sql`, and their results: frames with delta-spark's columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from slackwater.spark.session.local_frame import local_frame
from slackwater.spark.sql.query import at_transaction_time, query_frame
from slackwater.sql.lexer import Token, TokenCursor, tokens_of
from slackwater.sql.parameters import with_literals
from slackwater.sql.text_edits import TextEdit, apply_edits

_AFFECTED = spark_types.StructType().add("num_affected_rows", "long")
_PAIRS = spark_types.StructType().add("key", "string", False).add("value", "string", False)


@dataclass
class Statement:
    """A statement: its text, the values of its parameters, and the frames of names in the text."""

    spark: SparkSession
    text: str
    tokens: Sequence[Token]
    args: Any = None
    views: Mapping[str, DataFrame] | None = None

    @property
    def first(self) -> str:
        """The first word, in capitals."""
        return self.tokens[0].upper

    def cursor(self) -> TokenCursor:
        """Return a cursor at the start of the statement."""
        return TokenCursor(self.text, self.tokens)

    def on_delta(self) -> Statement:
        """Return the statement with its parameters inserted as literals, because its parts are used separately.

        In a transaction, the current time is that of the transaction. Raises InvalidArgument for a parameter that is
        not a plain value.
        """
        with_values = self.with_values()
        return with_values._as(at_transaction_time(self.spark, with_values.text))

    def with_values(self) -> Statement:
        """Return the statement with its parameters inserted as literals.

        Raises InvalidArgument for a parameter that is not a plain value.
        """
        return self._as(with_literals(self.text, self.args)) if self.args else self

    def _as(self, text: str) -> Statement:
        if text == self.text:
            return self
        return Statement(self.spark, text, tokens_of(text) or [], None, self.views)

    def edited(self, edits: Iterable[TextEdit]) -> Statement:
        """Return the statement, which has no parameters, with these edits of its text."""
        return self._as(apply_edits(self.text, list(edits)))

    def query(self, text: str) -> DataFrame:
        """Return the rows of a query in the statement."""
        return query_frame(self.spark, text, self.views)


def nothing(spark: SparkSession) -> DataFrame:
    """Return the result of a statement without one: no rows, no columns."""
    return local_frame(spark, [], spark_types.StructType())


def affected(spark: SparkSession, num_rows: int | None) -> DataFrame:
    """Return one row with `num_affected_rows`, NULL if the log does not record the number."""
    return local_frame(spark, [(num_rows,)], _AFFECTED)


def pairs(spark: SparkSession, found: dict[str, str]) -> DataFrame:
    """Return rows of `key` and `value`, sorted by key."""
    return local_frame(spark, sorted(found.items()), _PAIRS)


def texts(spark: SparkSession, columns: tuple[str, ...], rows: list[tuple[str | None, ...]]) -> DataFrame:
    """Return rows of texts."""
    schema = spark_types.StructType([spark_types.StructField(name, spark_types.StringType()) for name in columns])
    return local_frame(spark, list(rows), schema)
