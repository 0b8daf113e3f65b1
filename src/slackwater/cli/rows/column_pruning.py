"""Column pruning for queries: only columns used by the query are read from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, traverse_scope

from slackwater.protocol.schema.schema import StructType


def columns_read(sql: str, schemas: Mapping[str, StructType]) -> dict[str, list[str]]:
    """Return the columns of each table that `sql` may read, or all columns if this is unknown."""
    everything = {name: list(schema.names) for name, schema in schemas.items()}
    try:
        named = _columns_named(sql, schemas)
    except (SqlglotError, RecursionError, KeyError, ValueError):
        return everything
    # Keep one column, because a table without columns would have no rows.
    return {name: _in_order(schema, named.get(name.lower(), set())) for name, schema in schemas.items()}


def _columns_named(sql: str, schemas: Mapping[str, StructType]) -> dict[str, set[str]]:
    known: dict[str, Any] = {
        name.lower(): {column.lower(): "UNKNOWN" for column in schema.names} for name, schema in schemas.items()
    }
    tree = qualify(sqlglot.parse_one(sql, dialect="duckdb"), dialect="duckdb", schema=known)
    if not isinstance(tree, exp.Query):
        raise ValueError(sql)  # noqa: TRY004  (the text is at fault)
    found: dict[str, set[str]] = {}
    for scope in traverse_scope(tree):
        for column in scope.columns:
            source = _source(scope, column.table)
            if isinstance(source, exp.Table):
                found.setdefault(source.name.lower(), set()).add(column.name.lower())
    return found


def _source(scope: Scope, name: str) -> Any:
    """Return the source of a column, possibly a table of an enclosing query. Raises ValueError."""
    around: Scope | None = scope
    while around is not None:
        if name in around.sources:
            return around.sources[name]
        around = around.parent
    raise ValueError(name)


def _in_order(schema: StructType, names: Sequence[str] | set[str]) -> list[str]:
    return [name for name in schema.names if name.lower() in names] or list(schema.names[:1])
