"""The columns that SQL expressions read: those of CHECK constraints, generated columns and invariants.

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
from slackwater.protocol.table_configuration import TableConfiguration

# Functions that are called without parentheses, where no column has their name.
_LITERAL_FUNCTIONS = frozenset(
    "current_date current_time current_timestamp localtimestamp current_user session_user user current_catalog "
    "current_database current_schema".split()
)
# Words that may be columns to Spark where the parser takes them for syntax.
_TAKEN_FOR_SYNTAX = frozenset(
    "all any array as connect_by_root distinct fetch if interval list not select values".split()
)


@dataclass(frozen=True, slots=True)
class ColumnExpression:
    """An SQL expression that a table enforces. `owner`: the column whose metadata holds it, () for a constraint."""

    label: str
    sql: str
    owner: ColumnPath = ()


def columns_in_sql(expression: str) -> frozenset[ColumnPath]:
    """The columns that `expression`, in Spark's dialect, names: their paths as it spells them.

    Parameters of lambdas are no columns, nor are functions that need no parentheses (`current_date`). A field taken
    from what is computed (`a[0].b`, `f(a).b`) counts as its column, a. Raises InvalidArgument where the text is not
    one SQL expression, or asks for all columns by `*`.
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
    """The columns of `schema` that `expression` may read, as `schema` spells them; a struct stands for all within.

    Errs on the side of more: where the text cannot be parsed, every column whose name it holds counts, and where it
    says `*`, all do. Names that lead nowhere are left out.
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
    """The columns that `expression` names and `schema` has not, sorted; none where the text cannot be parsed."""
    try:
        named = columns_in_sql(expression)
    except InvalidArgument:
        return ()
    return tuple(sorted(n for n in named if not _reached(schema, n) and not _reached(schema, n[1:])))


def column_expressions(table: TableConfiguration) -> tuple[ColumnExpression, ...]:
    """The CHECK constraints, generation expressions and invariants of a table, with what to call them in a message."""
    found = [
        ColumnExpression(f"CHECK constraint {key[len(CONSTRAINT_PREFIX) :]}", sql)
        for key, sql in table.metadata.configuration.items()
        if key.lower().startswith(CONSTRAINT_PREFIX)
    ]
    for path, column in walk_fields(table.schema):
        found.extend(_of_column(path, column))
    return tuple(found)


def dependents(table: TableConfiguration, path: ColumnPath) -> tuple[ColumnExpression, ...]:
    """The expressions of the table that may read the column at `path`, as the schema spells it, or a part of it."""
    return tuple(
        expression
        for expression in column_expressions(table)
        if any(overlap(path, read) for read in read_columns(expression.sql, table.schema))
    )


def fixed_columns(table: TableConfiguration) -> frozenset[ColumnPath]:
    """The columns whose type must stay, each with all within it.

    They are partition columns, generated and identity columns, and those that a constraint, a generated column or an
    invariant may read.
    """
    schema = table.schema
    fixed: set[ColumnPath] = {(name,) for name in table.metadata.partition_columns}
    fixed |= {path for path, column in walk_fields(schema) if is_generated(column) or is_identity(column)}
    return frozenset(fixed).union(*(read_columns(e.sql, schema) for e in column_expressions(table)))


def is_generated(column: StructField) -> bool:
    """Whether the column's values are computed from others."""
    return GENERATION_EXPRESSION in column.metadata


def overlap(one: ColumnPath, other: ColumnPath) -> bool:
    """Whether two paths are of the same column, or one column is within the other."""
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]


def _parse(text: str) -> SqlNode:
    node = parse_sql(text)
    if node.find(exp.Command):
        raise InvalidArgument(f"expected one SQL expression, found {text!r}")
    return node


def _names(column: SqlNode) -> ColumnPath:
    """The names of `column`, and of the fields taken from it after those that sqlglot counts as its parts."""
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
    """Whether `name` stands in `text` as a word of its own."""
    quoted = re.escape(name.replace("`", "``"))
    return re.search(rf"(?<!\w){quoted}(?!\w)", text, re.IGNORECASE) is not None


def _reached(schema: StructType, names: ColumnPath) -> ColumnPath:
    """The path in `schema`, as far as `names` lead; SQL takes a field from an array of structs without a step."""
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
    """The SQL in an invariant's JSON; the whole text where it is none, so that its names are still found."""
    try:
        node = orjson.loads(text)
        return str(node["expression"]["expression"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return str(text)
