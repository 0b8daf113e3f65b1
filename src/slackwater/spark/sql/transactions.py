"""BEGIN, COMMIT and ROLLBACK TRANSACTION, SET TRANSACTION, and `USE` of a lake."""

from __future__ import annotations

import threading
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from slackwater.errors import InvalidArgument, OperationNotAllowed
from slackwater.spark.catalog.namespaces import is_namespace, tables_of
from slackwater.spark.catalog.resolve import lake_name_of
from slackwater.spark.catalog.session_lakes import AttachedLake, SessionNames
from slackwater.spark.sql.statement import Statement, nothing
from slackwater.sql.lexer import SqlName, TokenCursor, name_at

_CONTROL = ("OPTIMISTIC", "LOCKING")
_ENDED_BY_ERROR = (
    "A statement of the transaction failed, and the transaction was rolled back. Nothing of it was committed"
)


def use(statement: Statement) -> DataFrame | None:
    """Run `USE [CATALOG] lake`: names of its tables then need no prefix. `USE` of another object is left to Spark."""
    names = SessionNames.of(statement.spark)
    if not names.lakes:
        return None
    cursor = statement.cursor()
    cursor.expect("USE")
    if cursor.ahead(1):
        cursor.accept_any("CATALOG", "NAMESPACE", "DATABASE", "SCHEMA")
    return _chosen(statement.spark, cursor.name("the name of a lake"))


def set_catalog(statement: Statement) -> DataFrame | None:
    """Run `SET CATALOG lake`, the same as `USE`."""
    cursor = statement.cursor()
    if not SessionNames.of(statement.spark).lakes or not cursor.accept("SET", "CATALOG"):
        return None
    return _chosen(statement.spark, cursor.name("the name of a lake"))


def of_namespace(statement: Statement) -> DataFrame | None:
    """Run `CREATE` and `DROP NAMESPACE lake.a`. A namespace exists while a table is in it, so there is nothing to do.

    Raises OperationNotAllowed for a drop of a namespace with tables.
    """
    cursor = statement.cursor()
    is_dropped = cursor.accept_any("CREATE", "DROP") == "DROP"
    if cursor.accept_any("NAMESPACE", "SCHEMA", "DATABASE") is None:
        return None
    cursor.accept("IF", "NOT", "EXISTS")
    cursor.accept("IF", "EXISTS")
    name = name_at(cursor.tokens, cursor.at)
    lake = None if name is None or len(name.parts) < 2 else SessionNames.of(statement.spark).lake(name.parts[0])
    if name is None or lake is None:
        return None
    if is_dropped and (found := tables_of(lake, ".".join(name.parts[1:]))):
        raise OperationNotAllowed(
            f"{name.text} has tables ({', '.join(found[:5])}{', …' if len(found) > 5 else ''}). DROP TABLE them first"
        )
    return nothing(statement.spark)


def _chosen(spark: SparkSession, name: SqlName) -> DataFrame | None:
    names = SessionNames.of(spark)
    if names.lake(name.parts[0]) is not None:
        names.choose(name.parts[0].lower(), ".".join(name.parts[1:]))
        return nothing(spark)
    namespace, current = ".".join(name.parts), names.current_lake
    if current is not None and is_namespace(current, namespace):
        names.choose(names.current, namespace)
        return nothing(spark)
    names.choose(None)
    return None


def begin(statement: Statement) -> DataFrame | None:
    """Run `BEGIN TRANSACTION [ON lake]`, or a whole transaction in one statement, `BEGIN ATOMIC … END`.

    All operations of the session on tables of the lake until COMMIT are one transaction. Without `ON`, the lake is the
    one chosen by `USE`, or the only one. Raises OperationNotAllowed if a transaction is open.
    """
    cursor = statement.cursor()
    cursor.expect("BEGIN")
    if cursor.accept("ATOMIC"):
        return _all_or_nothing(statement.with_values())
    if not cursor.accept_any("TRANSACTION", "WORK"):
        # BEGIN … END is a script of Spark.
        return None
    _begin(statement, cursor)
    return nothing(statement.spark)


def _all_or_nothing(statement: Statement) -> DataFrame:
    """Run `BEGIN ATOMIC a; b; END`, a transaction of these statements. The rows of queries are computed and dropped."""
    cursor = statement.cursor()
    cursor.expect("BEGIN", "ATOMIC")
    texts = []
    while not cursor.accept("END"):
        if cursor.ahead() in ("BEGIN", "COMMIT", "ROLLBACK"):
            raise OperationNotAllowed(f"{cursor.ahead()} cannot be a statement of BEGIN ATOMIC … END. Leave it out")
        texts.append(cursor.until(";", "END"))
        if cursor.is_done:
            raise cursor.unexpected("; or END")
        cursor.accept(";")
    cursor.done()
    _begin(statement, TokenCursor("", []))
    for text in filter(None, texts):
        _compute(statement.spark.sql(text))
    return _end(SessionNames.of(statement.spark), "COMMIT", statement.spark)


def _compute(frame: DataFrame) -> None:
    """Compute all rows of a frame. A frame of a command already has its rows."""
    types = [field.dataType.simpleString() for field in frame.schema.fields]
    if not types:
        return
    names = [f"_{at}" for at in range(len(types))]
    # Spark writes no calendar intervals.
    columns = [
        F.col(name).cast("string") if "interval" in kind else F.col(name)
        for name, kind in zip(names, types, strict=True)
    ]
    frame.toDF(*names).select(*columns).write.format("noop").mode("overwrite").save()


def _begin(statement: Statement, cursor: TokenCursor) -> None:
    names = SessionNames.of(statement.spark)
    if names.open_transaction is not None:
        raise OperationNotAllowed("a transaction is already open in this session. COMMIT or ROLLBACK it first")
    lake = _lake_of(names, cursor)
    cursor.done()
    settings, names.settings = dict(names.settings), {}
    begun = lake.transaction(statement.spark, **settings)
    begun.__enter__()
    names.transaction, names.transaction_lake, names.transaction_thread = begun, lake, threading.get_ident()


def _lake_of(names: SessionNames, cursor: TokenCursor) -> AttachedLake:
    if cursor.accept("ON"):
        name = cursor.name("the name of a lake").parts[0]
        lake = names.lake(name)
        if lake is None:
            raise InvalidArgument(f"no lake is attached as {name}. Call lake.attach(spark, {name!r})")
        return lake
    if names.current_lake is not None:
        return names.current_lake
    if len(set(map(id, names.lakes.values()))) == 1:
        return next(iter(names.lakes.values()))
    raise InvalidArgument(
        "BEGIN TRANSACTION needs one lake. Attach it by lake.attach(spark, 'lake'), and choose it by USE lake, or by "
        "BEGIN TRANSACTION ON lake"
    )


def commit(statement: Statement) -> DataFrame | None:
    """Run `COMMIT [TRANSACTION]`. Raises the errors of every commit of a transaction."""
    return _ended(statement, "COMMIT")


def rollback(statement: Statement) -> DataFrame | None:
    """Run `ROLLBACK [TRANSACTION]`: discard all changes of the transaction."""
    return _ended(statement, "ROLLBACK")


def _ended(statement: Statement, word: str) -> DataFrame:
    cursor = statement.cursor()
    cursor.expect(word)
    cursor.accept_any("TRANSACTION", "WORK")
    cursor.done()
    return _end(SessionNames.of(statement.spark), word, statement.spark)


def _end(names: SessionNames, word: str, spark: SparkSession) -> DataFrame:
    ended = names.transaction
    if ended is None or not ended.is_open:
        reason = _ENDED_BY_ERROR if ended is not None else "Start one with BEGIN TRANSACTION"
        names.transaction = names.transaction_lake = None
        if ended is not None and word == "ROLLBACK":
            return nothing(spark)
        raise OperationNotAllowed(f"no transaction is open in this session. {reason}")
    names.transaction = names.transaction_lake = None
    if word == "COMMIT":
        ended.commit()
    else:
        ended.rollback()
    return nothing(spark)


def set_transaction(statement: Statement) -> DataFrame | None:
    """Set the next transaction's properties.

    The statement is
    `SET TRANSACTION [ISOLATION LEVEL SERIALIZABLE | SNAPSHOT] [CONTROL OPTIMISTIC | LOCKING] [WRITES (t, …)]`.
    """
    cursor = statement.cursor()
    if not cursor.accept("SET", "TRANSACTION"):
        return None
    names = SessionNames.of(statement.spark)
    if not names.lakes:
        raise InvalidArgument("SET TRANSACTION needs an attached lake. Attach one: lake.attach(spark, 'lake')")
    if names.open_transaction is not None:
        raise OperationNotAllowed("a transaction is open. Run SET TRANSACTION before BEGIN TRANSACTION")
    found: dict[str, Any] = {}
    while not cursor.is_done:
        cursor.accept(",")
        if cursor.accept("ISOLATION", "LEVEL"):
            level = cursor.accept_any("SERIALIZABLE", "SNAPSHOT")
            if level is None:
                raise cursor.unexpected("SERIALIZABLE or SNAPSHOT")
            found["isolation"] = level.lower()
        elif cursor.accept("CONTROL"):
            control = cursor.accept_any(*_CONTROL)
            if control is None:
                raise cursor.unexpected("OPTIMISTIC or LOCKING")
            found["control"] = control.lower()
        else:
            cursor.expect("WRITES")
            inner = cursor.inner()
            tables = [_table_name(statement, inner)]
            while inner.accept(","):
                tables.append(_table_name(statement, inner))
            found["writes"] = tables
    names.settings |= found
    return nothing(statement.spark)


def _table_name(statement: Statement, cursor: TokenCursor) -> str:
    parts = cursor.name().parts
    found = lake_name_of(statement.spark, parts)
    return ".".join(parts) if found is None else found.name


def roll_back_after(spark: SparkSession, error: BaseException) -> None:
    """Roll the session's transaction back after a failed statement of its thread, with a note in the error."""
    names = SessionNames.of(spark)
    if names.open_transaction is None or names.transaction_thread != threading.get_ident():
        return
    names.open_transaction.rollback()
    if hasattr(error, "add_note"):
        error.add_note(_ENDED_BY_ERROR)
