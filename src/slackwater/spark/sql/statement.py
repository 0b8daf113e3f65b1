"""One statement as it was given to `spark.sql`, and what statements answer: frames with delta-spark's columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from slackwater.spark.session.local_frame import local_frame
from slackwater.spark.sql.query import at_transaction_time, query_frame
from slackwater.sql.lexer import Token, TokenCursor, tokens_of
from slackwater.sql.parameters import with_literals

_AFFECTED = spark_types.StructType().add("num_affected_rows", "long")
_PAIRS = spark_types.StructType().add("key", "string", False).add("value", "string", False)


@dataclass
class Statement:
    """A statement: its text, the values of its parameters, and the frames that names in it stand for."""

    spark: SparkSession
    text: str
    tokens: Sequence[Token]
    args: Any = None
    views: Mapping[str, DataFrame] | None = None

    @property
    def first(self) -> str:
        """Its first word, in capitals."""
        return self.tokens[0].upper

    def cursor(self) -> TokenCursor:
        """A cursor at its start."""
        return TokenCursor(self.text, self.tokens)

    def on_delta(self) -> Statement:
        """The same with its parameters as literals: parts of it are used one by one.

        In a transaction the time that it asks for is the transaction's. Raises InvalidArgument for a parameter that
        is no plain value.
        """
        with_values = self.with_values()
        return with_values._as(at_transaction_time(self.spark, with_values.text))

    def with_values(self) -> Statement:
        """The same with its parameters as literals. Raises InvalidArgument for one that is no plain value."""
        return self._as(with_literals(self.text, self.args)) if self.args else self

    def _as(self, text: str) -> Statement:
        if text == self.text:
            return self
        return Statement(self.spark, text, tokens_of(text) or [], None, self.views)

    def query(self, text: str) -> DataFrame:
        """What a query that is a part of it gives."""
        return query_frame(self.spark, text, self.views)


def nothing(spark: SparkSession) -> DataFrame:
    """The answer of a statement that has none: no rows, no columns."""
    return local_frame(spark, [], spark_types.StructType())


def affected(spark: SparkSession, num_rows: int | None) -> DataFrame:
    """One row with `num_affected_rows`; NULL where the log does not say how many they were."""
    return local_frame(spark, [(num_rows,)], _AFFECTED)


def pairs(spark: SparkSession, found: dict[str, str]) -> DataFrame:
    """Rows of `key` and `value`, by their keys."""
    return local_frame(spark, sorted(found.items()), _PAIRS)


def texts(spark: SparkSession, columns: tuple[str, ...], rows: list[tuple[str | None, ...]]) -> DataFrame:
    """Rows of texts."""
    schema = spark_types.StructType([spark_types.StructField(name, spark_types.StringType()) for name in columns])
    return local_frame(spark, list(rows), schema)
