"""CREATE VIEW, ALTER VIEW and CACHE TABLE over Delta tables."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from slackwater.errors import InvalidArgument, UnsupportedFeature
from slackwater.spark.catalog.persisted_views import create
from slackwater.spark.catalog.resolve import lake_name_of
from slackwater.spark.catalog.session_catalog import plain_sql
from slackwater.spark.session.settings import is_case_sensitive
from slackwater.spark.sql.query import names_delta_tables, reads_open_transaction
from slackwater.spark.sql.statement import Statement, nothing
from slackwater.spark.sql.views import is_temporary_view, keep, rename_kept
from slackwater.sql.definitions import columns_in
from slackwater.sql.lexer import TokenCursor, name_at, quoted, tokens_of
from slackwater.sql.relations import relations_of


def create_view(statement: Statement) -> DataFrame | None:
    """Run `CREATE [TEMPORARY] VIEW v AS …` over Delta tables. Each read of the view reads their newest version."""
    statement = statement.with_values()
    cursor = statement.cursor()
    cursor.expect("CREATE")
    replaces = cursor.accept("OR", "REPLACE")
    is_global = cursor.accept("GLOBAL")
    is_temporary = cursor.accept_any("TEMP", "TEMPORARY") is not None
    if cursor.ahead() == "TABLE" or not cursor.accept("VIEW"):
        return keep_text(statement)
    if not names_delta_tables(statement.spark, statement.text, statement.tokens):
        return None
    if not is_temporary:
        return _persisted(statement, cursor)
    cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name("the name of a view").parts[-1]
    return _temporary(statement, cursor, name, is_global, replaces)


def _temporary(statement: Statement, cursor: TokenCursor, name: str, is_global: bool, replaces: bool) -> DataFrame:
    """Create or replace a temporary view. `cursor` is after the name of the view."""
    names = []
    if cursor.peek("("):
        names = [column.name.parts[-1] for column in columns_in(cursor.inner())]
    if cursor.accept("COMMENT"):
        cursor.literal()
    cursor.expect("AS")
    query = cursor.rest()
    frame = statement.on_delta().query(query)
    relations = relations_of(query, tokens_of(query) or [], case_counts=is_case_sensitive(statement.spark))
    if is_global:
        why = "other sessions would see its uncommitted rows. Create a temporary view of the session"
        _require_committed(statement.spark, name, query, why)
    elif any(relation.parts == (name,) for relation in relations):
        _require_committed(statement.spark, name, query, "the view reads itself. Choose another name")
    frame = keep(statement.spark, name, query, tuple(names), statement.views or {}, frame, is_global)
    method = {
        (False, False): frame.createTempView,
        (False, True): frame.createOrReplaceTempView,
        (True, False): frame.createGlobalTempView,
        (True, True): frame.createOrReplaceGlobalTempView,
    }[is_global, replaces]
    method(quoted(name))
    return nothing(statement.spark)


def alter_view(statement: Statement) -> DataFrame | None:
    """Run `ALTER VIEW v AS …` over Delta tables, and `ALTER VIEW v RENAME TO w` of a temporary view over them."""
    statement = statement.with_values()
    cursor = statement.cursor()
    if not cursor.accept("ALTER", "VIEW"):
        return None
    spark, name = statement.spark, name_at(cursor.tokens, cursor.at)
    is_temporary = name is not None and is_temporary_view(spark, name.parts)
    if name is not None and is_temporary and cursor.place_of("RENAME") == name.next:
        cursor.name()
        cursor.expect("RENAME")
        cursor.expect("TO")
        new = cursor.name("the new name")
        rename_kept(spark, name.parts, new.parts[-1], lambda: plain_sql(spark, statement.text))
        return nothing(spark)
    at = cursor.place_of("AS", "SELECT", "WITH", "FROM", "TABLE", "VALUES")
    if at == len(statement.tokens) or not names_delta_tables(statement.spark, statement.text, statement.tokens):
        return None
    if name is not None and is_temporary:
        cursor.name()
        return _temporary(statement, cursor, name.parts[-1], is_global=len(name.parts) > 1, replaces=True)
    return _persisted(statement, cursor)


def _persisted(statement: Statement, cursor: TokenCursor) -> DataFrame:
    """Create or alter a view of the catalog. `cursor` is after the word VIEW."""
    cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name("the name of a view")
    in_lake = lake_name_of(statement.spark, name.parts, is_new=True)
    if in_lake is not None and in_lake.is_certain:
        raise UnsupportedFeature(f"{name.text}: a lake has no views. Create the view in the session's catalog")
    if statement.views:
        raise InvalidArgument(
            f"{name.text}: other sessions do not have the DataFrames passed to this statement. Create a temporary view"
        )
    if statement.first == "CREATE":
        cursor.until("AS")
    cursor.accept("AS")
    start = cursor.tokens[cursor.at].start
    query = cursor.rest()
    frame = statement.query(query)
    create(statement.spark, statement.text, name.parts, query, start, frame)
    return nothing(statement.spark)


def keep_text(statement: Statement) -> DataFrame | None:
    """Reject statements over Delta tables if Spark stores their text to run it later, such as CREATE FUNCTION."""
    if statement.first == "CREATE" and "FUNCTION" not in {token.upper for token in statement.tokens[:6]}:
        return None
    if not names_delta_tables(statement.spark, statement.text, statement.tokens):
        return None
    raise UnsupportedFeature(
        f"{statement.first} …: Spark stores this text, and cannot read its Delta tables later. Create a temporary "
        "view over the tables, and use the view"
    )


def cache_table(statement: Statement) -> DataFrame | None:
    """Run `CACHE [LAZY] TABLE t AS query` over Delta tables: cache a temporary view of their current versions."""
    cursor = statement.cursor()
    cursor.expect("CACHE")
    is_lazy = cursor.accept("LAZY")
    if not cursor.accept("TABLE"):
        return None
    name = cursor.name()
    options = f" OPTIONS ({cursor.group()})" if cursor.accept("OPTIONS") else ""
    cursor.accept("AS")
    if cursor.is_done:
        is_temporary = is_temporary_view(statement.spark, name.parts)
        if is_temporary or not names_delta_tables(statement.spark, f"TABLE {name.text}"):
            return None
        raise UnsupportedFeature(
            f"CACHE TABLE {name.text}: Delta tables can get newer versions, so they are not cached. Cache a query: "
            "CACHE TABLE a_name AS …"
        )
    query = cursor.rest()
    if not names_delta_tables(statement.spark, query):
        return None
    frame = statement.on_delta().query(query)
    _require_committed(statement.spark, name.text, query, "its rows would stay cached. Create a temporary view")
    frame.createOrReplaceTempView(name.text)
    return plain_sql(statement.spark, f"CACHE {'LAZY ' if is_lazy else ''}TABLE {name.text}{options}")


def _require_committed(spark: SparkSession, shown: str, query: str, why: str) -> None:
    if reads_open_transaction(spark, query):
        raise UnsupportedFeature(
            f"{shown}: the query reads a table of the open transaction, and {why}, or run this statement outside of "
            "the transaction"
        )
