"""Query engine without DuckDB and Polars: sqlglot's executor, row by row, over Arrow tables.

Only syntax with the same result as in DuckDB is accepted; any other syntax is rejected by name. The executor compiles
the query to Python, so no name or text may contain characters that end a Python string.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.executor import execute

from slackwater.errors import InvalidArgument
from slackwater.protocol.schema.schema import StructType

_KNOWN: tuple[type[exp.Expression], ...] = (
    *(exp.Select, exp.Subquery, exp.With, exp.CTE, exp.Union, exp.Except, exp.Intersect, exp.Exists),
    *(exp.From, exp.Join, exp.Where, exp.Group, exp.Having, exp.Order, exp.Ordered, exp.Limit, exp.Offset),
    *(exp.Table, exp.TableAlias, exp.Alias, exp.Column, exp.Identifier, exp.Star, exp.Distinct, exp.Tuple),
    *(exp.Literal, exp.Boolean, exp.Null, exp.And, exp.Or, exp.Not, exp.Paren, exp.Is, exp.In, exp.Between),
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Like, exp.ILike, exp.DPipe),
    *(
        exp.Add,
        exp.Sub,
        exp.Mul,
        exp.Div,
        exp.Neg,
        exp.Case,
        exp.If,
        exp.Coalesce,
        exp.Upper,
        exp.Lower,
        exp.Length,
        exp.Abs,
    ),
    *(exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Cast, exp.DataType),
)
_TYPES = {"byte": "TINYINT", "short": "SMALLINT", "integer": "INT", "long": "BIGINT", "string": "VARCHAR"}
_ENDS_TEXT = frozenset('\\"\r\n')
_OTHERS = "for all of SQL, pip install duckdb"


def answered(sql: str, tables: Mapping[str, pa.Table], schemas: Mapping[str, StructType]) -> pa.Table:
    """Return the rows of `sql` over `tables`. Raises InvalidArgument for a non-query, or syntax outside `_KNOWN`."""
    try:
        tree = sqlglot.parse_one(sql, dialect="duckdb")
    except SqlglotError as error:
        raise InvalidArgument(f"not a SQL query: {_sentence(error)}") from error
    if not isinstance(tree, exp.Query):
        raise InvalidArgument("the statement is not a query. Use SELECT …")
    _require_known(tree)
    within = {name.lower() for name in tables} | {each.alias.lower() for each in tree.find_all(exp.CTE)}
    if unknown := [each.name for each in tree.find_all(exp.Table) if each.name.lower() not in within]:
        raise InvalidArgument(
            f"the location of the table {unknown[0]!r} is unknown. Set it with --table {unknown[0]}=PATH"
        )
    _require_plain([*tables, *(name for rows in tables.values() for name in rows.column_names)])
    types = {
        name: {column: _type(schemas[name], column) for column in rows.column_names} for name, rows in tables.items()
    }
    given: dict[str, Any] = {name: rows.to_pylist() for name, rows in tables.items()}
    try:
        found = execute(tree, schema=types, tables=given, dialect="duckdb")
    except (SqlglotError, RecursionError, KeyError, TypeError, ValueError) as error:
        raise InvalidArgument(f"sqlglot: {_sentence(error)} ({_OTHERS})") from error
    columns = list(zip(*found.rows, strict=True)) or [()] * len(found.columns)
    try:
        return pa.Table.from_arrays([pa.array(values) for values in columns], names=list(found.columns))
    except pa.ArrowException as error:
        raise InvalidArgument(f"the query returns values of several types in one column ({_OTHERS})") from error


def _require_known(tree: Any) -> None:
    for node in tree.walk():
        if not isinstance(node, _KNOWN) or _is_other(node):
            raise InvalidArgument(
                f"without DuckDB and Polars a query cannot contain {node.sql(dialect='duckdb')!r} ({_OTHERS})"
            )
    _require_plain(node.name for node in tree.find_all(exp.Identifier, exp.Literal))


def _is_other(node: Any) -> bool:
    """Return whether a node of a known class has unsupported arguments."""
    if isinstance(node, exp.Join):
        return bool(node.args.get("method") or node.args.get("using"))
    if isinstance(node, exp.Distinct):
        return node.args.get("on") is not None
    if isinstance(node, exp.Group):
        return any(value for key, value in node.args.items() if key != "expressions")
    if isinstance(node, exp.Neg):
        return not isinstance(node.this, exp.Literal)
    # Only a date literal is supported.
    return isinstance(node, exp.Cast) and not (node.to.is_type("date") and isinstance(node.this, exp.Literal))


def _require_plain(names: Iterable[str]) -> None:
    for name in names:
        if not _ENDS_TEXT.isdisjoint(name):
            raise InvalidArgument(f"without DuckDB and Polars a query cannot contain {name!r} ({_OTHERS})")


def _type(schema: StructType, column: str) -> str:
    told = str(next(field.type for field in schema if field.name == column))
    return _TYPES.get(told, told.upper() if told in ("float", "double", "boolean", "date") else "UNKNOWN")


def _sentence(error: Exception) -> str:
    return str(error).split("\n", maxsplit=1)[0].removesuffix(".")
