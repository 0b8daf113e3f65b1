"""`spark.sql` of an enabled session: selects the handler of a statement, and passes other statements to Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from slackwater.spark.catalog.frames import sql_over, with_frames
from slackwater.spark.session.plan_text import explained
from slackwater.spark.sql import alterations, changes, creation, describe, services, show, transactions, view_statements
from slackwater.spark.sql.dynamic_sql import execute, require_no_unseen_truncation, spelled_out
from slackwater.spark.sql.query import rewritten
from slackwater.spark.sql.statement import Statement
from slackwater.sql.lexer import TEXT, Token, tokens_of, with_quoted_names
from slackwater.sql.parameters import with_literals
from slackwater.sql.relations import relations_of

Handler: TypeAlias = Callable[[Statement], DataFrame | None]
"""A function that runs a statement, or returns None if the statement is not about Delta and is left to Spark."""

# Candidate handlers by first word. A handler ignores statements of other kinds.
_HANDLERS: dict[str, tuple[Handler, ...]] = {
    "DELETE": (changes.delete,),
    "UPDATE": (changes.update,),
    "MERGE": (changes.merge,),
    "INSERT": (changes.insert,),
    "WITH": (changes.insert, changes.with_common_tables),
    "TRUNCATE": (changes.truncate,),
    "CREATE": (creation.create_table, view_statements.create_view, transactions.of_namespace),
    "REPLACE": (creation.create_table,),
    "DROP": (creation.drop_table, transactions.of_namespace),
    "ALTER": (view_statements.alter_view, alterations.alter),
    "COMMENT": (alterations.comment_on,),
    "DESCRIBE": (describe.log, describe.table),
    "DESC": (describe.log, describe.table),
    "SHOW": (show.columns, show.properties, show.creation, show.partitions, show.tables, show.namespaces),
    "OPTIMIZE": (services.optimize,),
    "VACUUM": (services.vacuum,),
    "RESTORE": (services.restore,),
    "CONVERT": (services.convert,),
    "GENERATE": (services.generate,),
    "REORG": (services.reorg,),
    "REFRESH": (services.refresh,),
    "ANALYZE": (services.refused,),
    "CACHE": (view_statements.cache_table,),
    "EXECUTE": (execute,),
    "EXPLAIN": (changes.explain,),
    "FROM": (changes.insert_several,),
    "FSCK": (services.refused,),
    "LOAD": (services.refused,),
    "MSCK": (services.refused,),
    "UNCACHE": (services.refused,),
    "USE": (transactions.use,),
    "BEGIN": (transactions.begin,),
    "COMMIT": (transactions.commit,),
    "ROLLBACK": (transactions.rollback,),
    "SET": (transactions.set_transaction, transactions.set_catalog),
}


_DOUBLE_QUOTED = ("spark.sql.ansi.enabled", "spark.sql.ansi.doubleQuotedIdentifiers")


def run(
    original: Callable[..., DataFrame], spark: SparkSession, text: Any, args: Any, frames: Mapping[str, Any]
) -> Any:
    """Run `spark.sql(text, args, **frames)`. `original`, Spark's own, runs statements without Delta tables unchanged.

    Raises every error of the statement's execution, InvalidArgument and UnsupportedFeature for a statement on a Delta
    table that cannot be parsed. An error within a transaction rolls the transaction back.
    """
    tokens = tokens_of(text) if isinstance(text, str) else None
    try:
        if tokens:
            with with_frames(spark, text, frames) as (formatted, views):
                shown, left = spelled_out(spark, formatted, args)
                known = tokens if shown is text else tokens_of(shown)
                found = _carried_out(spark, shown, known, left, views) if known else None
            if found is not None:
                return found
        return original(text, args, **frames)
    except BaseException as error:
        transactions.roll_back_after(spark, error)
        raise


def _travels_by_parameter(text: str, tokens: Sequence[Token]) -> bool:
    """Return whether a parameter sets the version to read, because this is resolved before Spark gets the statement."""
    relations = relations_of(text, tokens)
    said = [
        part for each in relations for part in ((each.travel.texts if each.travel else ()) + (each.arguments or ()))
    ]
    return any(":" in part or "?" in part for part in said)


def _quotes_names(spark: SparkSession, tokens: Sequence[Token]) -> bool:
    """Return whether `"a"` is a name in this session, and the statement has such a name."""
    if not any(token.kind == TEXT and token.raw[0] == '"' for token in tokens):
        return False
    # Read without a default, so that Spark returns its own default for a setting not set by the user.
    return all(str(spark.conf.get(key)).lower() == "true" for key in _DOUBLE_QUOTED)


def _carried_out(
    spark: SparkSession, text: str, tokens: list[Token], args: Any, views: Mapping[str, DataFrame]
) -> DataFrame | None:
    """Return the result of a statement about Delta tables, None for others."""
    if _quotes_names(spark, tokens):
        text = with_quoted_names(text, tokens)
        tokens = tokens_of(text) or []
    statement = Statement(spark, text, tokens, args, views)
    for handler in _HANDLERS.get(tokens[0].upper, ()):
        found = handler(statement)
        if found is not None:
            return found
    require_no_unseen_truncation(spark, tokens, text)
    if args and _travels_by_parameter(text, tokens):
        text, args = with_literals(text, args), None
        tokens = tokens_of(text) or []
    changed = rewritten(spark, text, tokens)
    if changed is None or (not changed.views and changed.text == text):
        return None
    frame = sql_over(spark, changed.text, {**views, **changed.views}, args)
    return explained(frame) if tokens[0].upper == "EXPLAIN" else frame
