"""Statements with dynamic text or table names: `${variable}`, `IDENTIFIER(…)`, EXECUTE IMMEDIATE, scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from slackwater.errors import InvalidArgument, SlackwaterError, TableNotFound, UnsupportedFeature
from slackwater.spark.catalog.resolve import resolve
from slackwater.spark.catalog.session_catalog import plain_sql
from slackwater.spark.sql.query import names_delta_tables
from slackwater.spark.sql.statement import Statement
from slackwater.sql.dynamic_names import truncated, with_constant_names, with_variables
from slackwater.sql.lexer import Token, TokenCursor, name_at, tokens_of
from slackwater.sql.parameters import with_literals

_SUBSTITUTES = "spark.sql.variable.substitute"
_QUERIES = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "(")


def spelled_out(spark: SparkSession, text: str, args: Any) -> tuple[str, Any]:
    """Return the statement with names from constants, settings and parameters inserted, and the remaining parameters.

    The result has the same meaning and is for analysis only. Spark gets statements without Delta tables unchanged.
    """
    if "${" in text and str(spark.conf.get(_SUBSTITUTES, "true")).lower() == "true":
        text = with_variables(text, lambda name: _setting(spark, name))
    tokens = tokens_of(text)
    if tokens is None or not any(token.upper == "IDENTIFIER" for token in tokens):
        return text, args
    if args:
        try:
            text, args = with_literals(text, args), None
        except InvalidArgument:
            # Parameters can be columns, for Spark to handle.
            return text, args
        tokens = tokens_of(text) or []
    return with_constant_names(text, tokens), args


def _setting(spark: SparkSession, name: str) -> str:
    """Return the value of a setting, like Spark an empty text if the setting is not set."""
    try:
        return str(spark.conf.get(name, None) or "")
    except PySparkException:
        return ""


def execute(statement: Statement) -> DataFrame | None:
    """Run `EXECUTE IMMEDIATE text [USING …]` of a statement on a Delta table. None means a statement for Spark.

    Raises UnsupportedFeature for `INTO`.
    """
    cursor = statement.cursor()
    if not cursor.accept("EXECUTE", "IMMEDIATE"):
        return None
    text = _value(statement.spark, cursor.until("INTO", "USING"))
    if not isinstance(text, str):
        return None
    shown, _ = spelled_out(statement.spark, text, None)
    tokens = tokens_of(shown)
    if not tokens or not _is_about_delta(statement.spark, shown, tokens):
        return None
    if cursor.peek("INTO"):
        raise UnsupportedFeature(
            "EXECUTE IMMEDIATE … INTO does not support a query on a Delta table. Use SET VAR a = (SELECT …)"
        )
    args = _given(statement.spark, cursor.rest()) if cursor.accept("USING") else None
    return statement.spark.sql(text, args)


def require_no_unseen_truncation(spark: SparkSession, tokens: Sequence[Token], text: str) -> None:
    """Raise UnsupportedFeature if Spark itself would truncate a Delta table, or a table of unknown format.

    Spark truncates by deletion of files, possibly including the log. This check does not rely on Spark's own rejection.
    """
    for name in truncated(tokens):
        if name is None:
            raise UnsupportedFeature(
                "TRUNCATE TABLE names its table by an expression, so Slackwater cannot check for a Delta table. "
                f"Write the name, or use DELETE FROM: {text.strip()[:200]}"
            )
        if resolve(spark, name.parts) is not None:
            raise UnsupportedFeature(
                f"{name.text}: TRUNCATE TABLE of a Delta table cannot run within another statement. Run it as a "
                "separate statement"
            )


def _is_about_delta(spark: SparkSession, text: str, tokens: Sequence[Token]) -> bool:
    if tokens[0].upper in _QUERIES:
        return names_delta_tables(spark, text, tokens)
    names = (name_at(tokens, at) for at in range(1, len(tokens)) if tokens[at - 1].upper != ".")
    return any(_is_delta(spark, parts) for parts in dict.fromkeys(n.parts for n in names if n is not None))


def _is_delta(spark: SparkSession, parts: Sequence[str]) -> bool:
    try:
        return resolve(spark, parts) is not None
    except TableNotFound:
        # After USE of a lake, each word could be a table of the lake.
        return False


def _value(spark: SparkSession, expression: str) -> Any:
    """Return the value of an expression without columns, None if Spark cannot evaluate it."""
    try:
        return plain_sql(spark, f"SELECT {expression}").collect()[0][0]
    except PySparkException as error:
        if isinstance(error, SlackwaterError):
            raise
        return None


def _given(spark: SparkSession, using: str) -> Any:
    """Return the parameters in USING, by name if named."""
    tokens = tokens_of(using) or []
    whole = TokenCursor(using, tokens)
    inner = whole.group() if whole.ahead() == "(" and whole.place_of(",") == whole.end else using
    row = plain_sql(spark, f"SELECT {inner}").collect()[0]
    named = any(token.upper == "AS" for token in tokens)
    return row.asDict() if named else list(row)
