"""The columns read by SQL expressions of CHECK constraints, generated columns and invariants.

Source: delta-protocol.md "CHECK Constraints", "Generated Columns", "Column Invariants".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from slackwater.errors import InvalidArgument
from slackwater.protocol.features.identity_columns import is_identity
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.properties import CONSTRAINT_PREFIX
from slackwater.protocol.schema.column_paths import format_column_path
from slackwater.protocol.schema.schema import (
    GENERATION_EXPRESSION,
    INVARIANTS,
    ArrayType,
    ColumnPath,
    DataType,
    StructField,
    StructType,
    walk_fields,
)
from slackwater.protocol.sqlglot_adapter import SqlNode, exp, parse_sql

# Functions called without parentheses, unless a column has the name.
_LITERAL_FUNCTIONS = frozenset(
    "current_date current_time current_timestamp localtimestamp current_user session_user user current_catalog "
    "current_database current_schema".split()
)
# Words parsed as syntax by sqlglot, but allowed as column names by Spark.
_TAKEN_FOR_SYNTAX = frozenset(
    "all any array as connect_by_root distinct fetch if interval list not select values".split()
)


@dataclass(frozen=True, slots=True)
class ColumnExpression:
    """An SQL expression enforced by a table. `owner` is the column with the metadata, () for a constraint."""

    label: str
    sql: str
    owner: ColumnPath = ()


def columns_in_sql(expression: str) -> frozenset[ColumnPath]:
    """Return the paths of the columns referenced by `expression` (Spark's dialect), in its spelling.

    Excludes parameters of lambdas and functions without parentheses (`current_date`). A field of a computed value
    (`a[0].b`, `f(a).b`) is reported as its column, a. Raises InvalidArgument if the text is not a single SQL
    expression, or references all columns by `*`.
    """
    node = _parse(expression)
    if node.find(exp.Star):
        raise InvalidArgument(f"expected an SQL expression that names its columns, found * in {expression!r}")
    return frozenset(
        names
        for column in node.find_all(exp.Column)
        if (names := _names(column)) and not _is_parameter(column, names[0]) and not _is_function(column)
    )


def read_columns(expression: str, schema: StructType) -> frozenset[ColumnPath]:
    """Return the columns of `schema` that `expression` may read, in the schema's spelling.

    A struct includes its fields. May return too many columns. If the text cannot be parsed, returns every top-level
    column with its name in the text, or all columns if the text has a `*`. Unknown names are ignored.
    """
    try:
        named = columns_in_sql(expression)
    except InvalidArgument:
        return frozenset((name,) for name in schema.names if "*" in expression or _mentions(expression, name))
    words = _LITERAL_FUNCTIONS | _TAKEN_FOR_SYNTAX
    overlooked = {(name,) for name in schema.names if name.lower() in words and _mentions(expression, name)}
    reached = {_reached(schema, names) or _reached(schema, names[1:]) for names in named}
    return frozenset((reached | overlooked) - {()})


def missing_columns(expression: str, schema: StructType) -> tuple[ColumnPath, ...]:
    """Return the sorted columns referenced by `expression` and missing in `schema`; () if the text cannot be parsed."""
    try:
        named = columns_in_sql(expression)
    except InvalidArgument:
        return ()
    return tuple(sorted(n for n in named if not _reached(schema, n) and not _reached(schema, n[1:])))


def column_expressions(table: TableConfiguration) -> tuple[ColumnExpression, ...]:
    """Return the CHECK constraints, generation expressions and invariants of a table, with labels for messages."""
    found = [
        ColumnExpression(f"CHECK constraint {key[len(CONSTRAINT_PREFIX) :]}", sql)
        for key, sql in table.metadata.configuration.items()
        if key.lower().startswith(CONSTRAINT_PREFIX)
    ]
    for path, column in walk_fields(table.schema):
        found.extend(_of_column(path, column))
    return tuple(found)


def dependents(table: TableConfiguration, path: ColumnPath) -> tuple[ColumnExpression, ...]:
    """Return the table's expressions that may read the column at `path`, in the schema's spelling, or a part of it."""
    return tuple(
        expression
        for expression in column_expressions(table)
        if any(overlap(path, read) for read in read_columns(expression.sql, table.schema))
    )


def fixed_columns(table: TableConfiguration) -> frozenset[ColumnPath]:
    """Return the columns with a fixed type, each including its nested columns.

    These are partition columns, generated and identity columns, and columns read by a constraint, a generated column or
    an invariant.
    """
    schema = table.schema
    fixed: set[ColumnPath] = {(name,) for name in table.metadata.partition_columns}
    fixed |= {path for path, column in walk_fields(schema) if is_generated(column) or is_identity(column)}
    return frozenset(fixed).union(*(read_columns(e.sql, schema) for e in column_expressions(table)))


def is_generated(column: StructField) -> bool:
    """Return whether the values of the column are computed from other columns."""
    return GENERATION_EXPRESSION in column.metadata


def overlap(one: ColumnPath, other: ColumnPath) -> bool:
    """Return whether two paths are equal, or one contains the other."""
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]


def _parse(text: str) -> SqlNode:
    node = parse_sql(text)
    if node.find(exp.Command):
        raise InvalidArgument(f"expected one SQL expression, found {text!r}")
    return node


def _names(column: SqlNode) -> ColumnPath:
    """Return the names of `column`, followed by the fields accessed after sqlglot's own parts."""
    names = [part.name for part in column.parts]
    node = column
    while isinstance(node.parent, (exp.Dot, exp.Paren)) and node.parent.this is node:
        node = node.parent
        if isinstance(node, exp.Dot):
            if not isinstance(node.expression, exp.Identifier):
                break
            names.append(node.expression.name)
    return tuple(names)


def _is_parameter(column: SqlNode, name: str) -> bool:
    node = column.parent
    while node is not None:
        if isinstance(node, exp.Lambda) and any(p.name.lower() == name.lower() for p in node.expressions):
            return True
        node = node.parent
    return False


def _is_function(column: SqlNode) -> bool:
    first = column.parts[0]
    return len(column.parts) == 1 and not first.args.get("quoted") and first.name.lower() in _LITERAL_FUNCTIONS


def _mentions(text: str, name: str) -> bool:
    """Return whether `text` contains `name` as a separate word."""
    quoted = re.escape(name.replace("`", "``"))
    return re.search(rf"(?<!\w){quoted}(?!\w)", text, re.IGNORECASE) is not None


def _reached(schema: StructType, names: ColumnPath) -> ColumnPath:
    """Return the longest prefix of `names` found in `schema`, as a path.

    Adds the step `element`, because SQL accesses fields of a struct array without a step.
    """
    path: list[str] = []
    current: DataType = schema
    for name in names:
        while isinstance(current, ArrayType):
            path.append("element")
            current = current.element_type
        column = current.get(name) if isinstance(current, StructType) else None
        if column is None:
            break
        path.append(column.name)
        current = column.type
    return tuple(path)


def _of_column(path: ColumnPath, column: StructField) -> Iterator[ColumnExpression]:
    generation = column.metadata.get(GENERATION_EXPRESSION)
    if generation is not None:
        yield ColumnExpression(f"generated column {format_column_path(path)}", str(generation), path)
    invariant = column.metadata.get(INVARIANTS)
    if invariant is not None:
        yield ColumnExpression(f"invariant of column {format_column_path(path)}", _invariant_sql(invariant), path)


def _invariant_sql(text: Any) -> str:
    """Return the SQL in an invariant's JSON.

    Returns the whole text if malformed, so that its column names are still found.
    """
    try:
        node = orjson.loads(text)
        return str(node["expression"]["expression"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return str(text)
