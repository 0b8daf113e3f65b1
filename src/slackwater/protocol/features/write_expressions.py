"""Row rules of a table: constraints on rows, and values computed by the writer. Other modules evaluate the SQL.

Source: delta-protocol.md "Column Invariants", "CHECK Constraints", "Generated Columns", "Default Columns", "Identity
Columns".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import orjson

from slackwater.errors import InvalidSchema, UnsupportedFeature
from slackwater.protocol.allowed_functions import require_known_functions
from slackwater.protocol.features.identity_columns import IdentityColumn, identity_columns
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.properties import CONSTRAINT_PREFIX
from slackwater.protocol.schema.nested_columns import parts, struct_columns
from slackwater.protocol.schema.schema import (
    CURRENT_DEFAULT,
    GENERATION_EXPRESSION,
    INVARIANTS,
    ArrayType,
    ColumnPath,
    DataType,
    MapType,
    StructField,
    StructType,
    walk_fields,
)


@dataclass(frozen=True, slots=True)
class CheckConstraint:
    """A CHECK constraint: `sql` must be true for every row, neither false nor null."""

    name: str
    sql: str


@dataclass(frozen=True, slots=True)
class Invariant:
    """An invariant of the column at the path `column`: `sql` must be true for every row."""

    column: ColumnPath
    sql: str


@dataclass(frozen=True, slots=True)
class GeneratedColumn:
    """A column with values equal to `sql` cast to `type`, null included. Writers compute missing values."""

    name: str
    type: DataType
    sql: str


@dataclass(frozen=True, slots=True)
class DefaultColumn:
    """A column with the default value `sql`, used if written rows lack the column."""

    name: str
    sql: str


@dataclass(frozen=True, slots=True)
class WriteExpressions:
    """The rules for the rows of one table.

    `not_null` has the paths of columns, array elements and map values that must not be null unless their parent is
    null. Paths of elements and values end in `element` and `value`.
    """

    not_null: tuple[ColumnPath, ...] = ()
    checks: tuple[CheckConstraint, ...] = ()
    invariants: tuple[Invariant, ...] = ()
    generated: tuple[GeneratedColumn, ...] = ()
    defaults: tuple[DefaultColumn, ...] = ()
    identity: tuple[IdentityColumn, ...] = ()
    timed: Callable[[str], str] = field(default=str, compare=False)
    """The function from the SQL of a rule to the SQL to evaluate. It may insert the requested time."""

    def __bool__(self) -> bool:
        """Return whether there is any rule."""
        return any((self.not_null, self.checks, self.invariants, self.generated, self.defaults, self.identity))


def row_rules(table: TableConfiguration) -> WriteExpressions:
    """Return the rules for rows written to the table.

    NOT NULL, CHECK constraints and invariants apply even without protocol support for the feature. Rejecting a valid
    row is safer than accepting an invalid one. Generated, default and identity columns need protocol support; without
    it they are ordinary columns. Raises InvalidSchema for a malformed rule. Raises UnsupportedFeature for an invariant
    inside an array or a map, a nested rule allowed only at the top level, and SQL with a forbidden function.
    """
    schema = table.schema
    rules = WriteExpressions(
        not_null=tuple(_not_null(schema)),
        checks=checks(table.metadata.configuration),
        invariants=tuple(_invariants(schema)),
        generated=tuple(_generated(schema)) if table.supports("generatedColumns") else (),
        defaults=tuple(_defaults(schema)) if table.supports("allowColumnDefaults") else (),
        identity=identity_columns(schema) if table.supports("identityColumns") else (),
    )
    for what, sql in _texts(rules):
        require_known_functions(sql, what)
    return rules


def checks(configuration: Mapping[str, str]) -> tuple[CheckConstraint, ...]:
    """Return the CHECK constraints of a table, sorted by name. The prefix of their keys ignores case."""
    size = len(CONSTRAINT_PREFIX)
    found = [
        CheckConstraint(key[size:], sql)
        for key, sql in configuration.items()
        if key[:size].lower() == CONSTRAINT_PREFIX
    ]
    return tuple(sorted(found, key=lambda check: check.name))


def _texts(rules: WriteExpressions) -> Iterator[tuple[str, str]]:
    yield from ((f"CHECK constraint {check.name}", check.sql) for check in rules.checks)
    yield from ((f"the invariant of column {'.'.join(i.column)}", i.sql) for i in rules.invariants)
    yield from ((f"the generation expression of column {column.name}", column.sql) for column in rules.generated)
    yield from ((f"the default value of column {column.name}", column.sql) for column in rules.defaults)


def _not_null(schema: StructType) -> Iterator[ColumnPath]:
    for path, data_type in parts(schema):
        if isinstance(data_type, StructType):
            yield from ((*path, column.name) for column in data_type if not column.nullable)
        elif isinstance(data_type, ArrayType) and not data_type.contains_null:
            yield (*path, "element")
        elif isinstance(data_type, MapType) and not data_type.value_contains_null:
            yield (*path, "value")


def _invariants(schema: StructType) -> Iterator[Invariant]:
    reached_by_name = {path for path, _ in struct_columns(schema)}
    for path, column in walk_fields(schema):
        text = column.metadata.get(INVARIANTS)
        if text is None:
            continue
        if path not in reached_by_name:
            raise UnsupportedFeature(
                f"column {'.'.join(path)}: an invariant of a column inside an array or a map is not supported",
                error_class="DELTA_UNSUPPORTED_INVARIANT_NON_STRUCT",
            )
        yield Invariant(path, _invariant_sql(text, path))


def _invariant_sql(text: object, path: ColumnPath) -> str:
    try:
        # Some writers store the object itself, not its JSON.
        node = text if isinstance(text, Mapping) else orjson.loads(text)  # type: ignore[arg-type]
        sql = node["expression"]["expression"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise InvalidSchema(_bad_invariant(text, path)) from error
    if not isinstance(sql, str) or not sql.strip():
        raise InvalidSchema(_bad_invariant(text, path))
    return sql


def _bad_invariant(text: object, path: ColumnPath) -> str:
    return f'column {".".join(path)}: {INVARIANTS} must be {{"expression":{{"expression":"<SQL>"}}}}, found {text!r}'


def _generated(schema: StructType) -> Iterator[GeneratedColumn]:
    for column, sql in _expressions(schema, GENERATION_EXPRESSION, "a generation expression"):
        yield GeneratedColumn(column.name, column.type, sql)


def _defaults(schema: StructType) -> Iterator[DefaultColumn]:
    for column, sql in _expressions(schema, CURRENT_DEFAULT, "a default value"):
        yield DefaultColumn(column.name, sql)


def _expressions(schema: StructType, key: str, what: str) -> Iterator[tuple[StructField, str]]:
    for path, column in walk_fields(schema):
        sql = column.metadata.get(key)
        if sql is None:
            continue
        if len(path) > 1:
            raise UnsupportedFeature(f"column {'.'.join(path)}: {what} of a nested column is not supported")
        if not isinstance(sql, str) or not sql.strip():
            raise InvalidSchema(f"column {'.'.join(path)}: {key} must be a SQL expression, found {sql!r}")
        yield column, sql
