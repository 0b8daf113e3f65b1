"""`spark.sql` of an enabled session: which statement it is, who carries it out, and what of it is Spark's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from slackwater.spark.catalog.attached import SessionNames
from slackwater.spark.sql import changes, creation, transactions
from slackwater.spark.sql.frames import sql_over, with_frames
from slackwater.spark.sql.query import rewritten
from slackwater.spark.sql.statement import Statement
from slackwater.sql.tokens import Token, tokens_of

Handler: TypeAlias = Callable[[Statement], DataFrame | None]
"""Carries a statement out; None where it is none of Delta's, and Spark is to have it."""

# By the first word: what a statement may be. Handlers look at what they are of, and leave the rest alone.
_HANDLERS: dict[str, tuple[Handler, ...]] = {
    "DELETE": (changes.delete,),
    "UPDATE": (changes.update,),
    "MERGE": (changes.merge,),
    "INSERT": (changes.insert,),
    "WITH": (changes.insert,),
    "TRUNCATE": (changes.truncate,),
    "CREATE": (creation.create_table, creation.create_view),
    "REPLACE": (creation.create_table,),
    "DROP": (creation.drop_table,),
    "USE": (transactions.use,),
    "BEGIN": (transactions.begin,),
    "COMMIT": (transactions.commit,),
    "ROLLBACK": (transactions.rollback,),
    "SET": (transactions.set_transaction, transactions.set_catalog),
}


def run(
    original: Callable[..., DataFrame], spark: SparkSession, text: Any, args: Any, frames: Mapping[str, Any]
) -> Any:
    """`spark.sql(text, args, **frames)`; `original` is Spark's own, which gets what is not about Delta as it came.

    Raises every error of what the statement does, InvalidArgument and UnsupportedFeature for a statement on a Delta
    table that is not understood. An error within a transaction rolls that back.
    """
    tokens = tokens_of(text) if isinstance(text, str) else None
    if not tokens:
        return original(text, args, **frames)
    transaction = SessionNames.of(spark).open_transaction
    try:
        with with_frames(spark, text, frames) as (formatted, views):
            found = _carried_out(spark, formatted, tokens if formatted is text else tokens_of(formatted), args, views)
    except BaseException as error:
        if transaction is not None and transaction.is_open:
            transactions.roll_back_after(spark, error)
        raise
    return original(text, args, **frames) if found is None else found


def _carried_out(
    spark: SparkSession, text: str, tokens: list[Token] | None, args: Any, views: Mapping[str, DataFrame]
) -> DataFrame | None:
    """The answer of a statement about Delta tables; None for others."""
    if tokens is None:
        return None
    statement = Statement(spark, text, tokens, args, views)
    for handler in _HANDLERS.get(tokens[0].upper, ()):
        found = handler(statement)
        if found is not None:
            return found
    changed = rewritten(spark, text, tokens)
    if changed is None or (not changed.views and changed.text == text):
        return None
    return sql_over(spark, changed.text, {**views, **changed.views}, args)
