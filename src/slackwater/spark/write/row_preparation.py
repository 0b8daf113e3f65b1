"""Preparation of a user's rows for a table: alignment, generated values, checks.

Source: delta-protocol.md "Generated Columns", "Default Columns", "Identity Columns", "CHECK Constraints", "Column
Invariants".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from slackwater.errors import InvalidArgument
from slackwater.protocol.features.identity_columns import IdentityColumn
from slackwater.protocol.features.sql_columns import read_columns
from slackwater.protocol.features.write_expressions import GeneratedColumn, WriteExpressions
from slackwater.protocol.schema.char_varchar import text_limits, text_type
from slackwater.protocol.schema.schema import (
    ArrayType,
    ColumnPath,
    DataType,
    MapType,
    StructField,
    StructType,
    is_string,
)
from slackwater.spark.session.types import from_spark_schema, to_spark_type
from slackwater.spark.write.alignment import aligned_column, is_aligned, null_column
from slackwater.spark.write.identity_values import identity_values, with_bounded_partitions
from slackwater.spark.write.row_checks import (
    CheckedRows,
    RowCheck,
    expressions_named,
    new_token,
    not_null_check,
    sql_check,
)
from slackwater.sql.lexer import quoted


@dataclass(frozen=True)
class PreparedRows:
    """Rows in the form of the table, checked during the write.

    `token` marks errors raised by this write's expressions. `generated` are the identity columns with generated values.
    """

    checked: CheckedRows
    token: str
    generated: tuple[IdentityColumn, ...]


def prepare_rows(
    frame: DataFrame,
    schema: StructType,
    rules: WriteExpressions,
    extra_checks: Sequence[RowCheck] = (),
    partition_columns: Sequence[str] = (),
) -> PreparedRows:
    """Return the rows of `frame` in the columns of `schema`, with generated values and checks.

    Columns of `frame` are matched by name in any case. `rules` are the table's rules, `extra_checks` further checks.
    Rules see an empty text in one of `partition_columns` as NULL, because the log stores it as NULL. Raises
    InvalidArgument if the rows have values for a GENERATED ALWAYS identity column, or if Spark cannot resolve an
    expression of the table.
    """
    given = from_spark_schema(frame.schema)
    token = new_token()
    missing = tuple(i for i in rules.identity if given.get(i.name) is None)
    brought = [i.name for i in rules.identity if i not in missing and not i.allow_explicit_insert]
    if brought:
        raise InvalidArgument(
            f"identity column {brought[0]} is GENERATED ALWAYS, so each write generates its values. Leave it out of "
            "the rows",
            error_class="DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED",
        )
    partitions = 1
    if missing:
        frame, partitions = with_bounded_partitions(frame.sparkSession, frame)
    made = {i.name: identity_values(i, partitions, token) for i in missing}
    computed = [g for g in rules.generated if given.get(g.name) is None]
    with expressions_named("the table's default or generation expression"):
        rows = frame
        if computed or not _is_ready(given, schema):
            rows = frame.select(
                *(_base_column(given, c, made, rules) for c in schema if c.name not in _names(computed))
            )
        if computed:
            rows = rows.select("*", *(_generated(g, rules) for g in computed))
            rows = rows.select(*(F.col(quoted(c.name)) for c in schema))
    nulls = _empty_as_null(schema, partition_columns)
    checks = [*_rule_checks(rules, schema, [g for g in rules.generated if g not in computed], nulls), *extra_checks]
    if checks:
        rows = _with_nulls(rows, nulls)
    with expressions_named("the table's constraint"):
        ready = CheckedRows(rows, checks, token)
        if checks:
            # The new column makes the server analyse the plan, because Connect may return a cached schema.
            _ = ready.frame.select(F.lit(True)).schema
    return PreparedRows(ready, token, missing)


def prepare_changed_rows(
    frame: DataFrame,
    schema: StructType,
    rules: WriteExpressions,
    changed: Column | None = None,
    recomputed: Mapping[str, Column] | None = None,
    partition_columns: Sequence[str] = (),
) -> PreparedRows:
    """Return rows in the columns of `schema` and hidden columns. Checks apply to the rows `changed` (None: all rows).

    For `partition_columns` see `prepare_rows`.

    `recomputed` maps generated columns by name to the rows with a value recomputed from the other columns. Rows
    unchanged by the operation are not checked again.
    """
    token = new_token()
    masks = recomputed or {}
    with expressions_named("the table's generation expression"):
        if masks:
            computed = {g.name: _generated(g, rules) for g in rules.generated}
            values = {n: F.when(m, computed[n]).otherwise(F.col(quoted(n))).alias(n) for n, m in masks.items()}
            frame = frame.select(*(values.get(name, F.col(quoted(name))) for name in frame.columns))
    nulls = _empty_as_null(schema, partition_columns)
    checks = _rule_checks(rules, schema, rules.generated, nulls)
    if checks:
        frame = _with_nulls(frame, nulls)
    if changed is not None:
        checks = [replace(c, holds=c.holds | ~changed) for c in checks]
    with expressions_named("the table's constraint"):
        return PreparedRows(CheckedRows(frame, checks, token), token, ())


def _is_ready(given: StructType, schema: StructType) -> bool:
    """Return whether the rows already have the table's columns.

    Then no select is needed, which saves calls into the JVM.
    """
    if len(given) != len(schema):
        return False
    return all((found := given.get(c.name)) is not None and is_aligned(found, c) for c in schema)


def _names(columns: Sequence[GeneratedColumn]) -> set[str]:
    return {column.name for column in columns}


def default_value(column: StructField, rules: WriteExpressions) -> Column | None:
    """Return the default of `column` in its type, None if there is none."""
    sql = next((d.sql for d in rules.defaults if d.name == column.name), None)
    return None if sql is None else F.expr(rules.timed(sql)).cast(to_spark_type(column.type))


def _base_column(given: StructType, column: StructField, made: dict[str, Column], rules: WriteExpressions) -> Column:
    source = given.get(column.name)
    if source is not None:
        return aligned_column(source, column)
    if column.name in made:
        return made[column.name]
    default = default_value(column, rules)
    return null_column(column) if default is None else default.alias(column.name)


def _generated(column: GeneratedColumn, rules: WriteExpressions) -> Column:
    return F.expr(rules.timed(column.sql)).cast(to_spark_type(column.type)).alias(column.name)


def _empty_as_null(schema: StructType, partition_columns: Sequence[str]) -> frozenset[str]:
    """Return the text columns among `partition_columns`, because the log stores their empty texts as NULL."""
    return frozenset(c.name for c in schema if c.name in partition_columns and is_string(c.type))


def _with_nulls(frame: DataFrame, names: frozenset[str]) -> DataFrame:
    """Return `frame` with NULL instead of an empty text in the columns `names`."""
    return frame.withColumns({name: _not_empty(F.col(quoted(name))) for name in names}) if names else frame


def _not_empty(text: Column) -> Column:
    return F.nullif(text, F.lit(""))


def _rule_checks(
    rules: WriteExpressions, schema: StructType, generated_given: Sequence[GeneratedColumn], nulls: frozenset[str]
) -> list[RowCheck]:
    checks = [*length_checks(schema), *(not_null_check(path, schema) for path in rules.not_null)]
    checks += [sql_check(f"CHECK constraint {c.name}", c.sql, _shown(c.sql, schema), rules.timed) for c in rules.checks]
    for invariant in rules.invariants:
        says = f"invariant of column {'.'.join(invariant.column)}"
        shown = _shown(invariant.sql, schema) or (invariant.column[0],)
        checks.append(sql_check(says, invariant.sql, shown, rules.timed))
    for generated in generated_given:
        value = F.expr(rules.timed(generated.sql)).cast(to_spark_type(generated.type))
        value = _not_empty(value) if generated.name in nulls else value
        holds = F.col(quoted(generated.name)).eqNullSafe(value)
        says = f"generated column {generated.name} (<value> <=> {generated.sql})"
        checks.append(RowCheck(says, holds, (generated.name, *_shown(generated.sql, schema))))
    return checks


def _shown(sql: str, schema: StructType) -> tuple[str, ...]:
    """Return the top-level columns read by `sql`, for messages."""
    return tuple(dict.fromkeys(path[0] for path in sorted(read_columns(sql, schema))))


def length_checks(schema: StructType) -> list[RowCheck]:
    """Return the length checks for rows of a table with this schema."""
    checks = []
    for column in schema:
        limits = text_limits(column)
        if limits:
            lengths = {path: int(kind[kind.index("(") + 1 : -1]) for path, kind in limits.items()}
            holds = _fits(F.col(quoted(column.name)), column.type, lengths, ())
            says = f"the length of column {column.name}, {text_type(column)},"
            checks.append(RowCheck(says, holds, (column.name,), "DELTA_EXCEED_CHAR_VARCHAR_LIMIT"))
    return checks


def _fits(value: Column, kind: DataType, lengths: Mapping[ColumnPath, int], path: ColumnPath) -> Column:
    """Return whether no text in `value` exceeds its limit in `lengths`."""
    holds = F.lit(True)
    if not any(at[: len(path)] == path for at in lengths):
        return holds
    if path in lengths:
        holds = F.char_length(value) <= F.lit(lengths[path])
    elif isinstance(kind, ArrayType):
        element = kind.element_type
        holds = F.forall(value, lambda each: _fits(each, element, lengths, (*path, "element")))
    elif isinstance(kind, MapType):
        key, item = kind.key_type, kind.value_type
        keys = F.forall(F.map_keys(value), lambda each: _fits(each, key, lengths, (*path, "key")))
        holds = keys & F.forall(F.map_values(value), lambda each: _fits(each, item, lengths, (*path, "value")))
    elif isinstance(kind, StructType):
        for part in kind:
            holds = holds & _fits(value.getField(part.name), part.type, lengths, (*path, part.name))
    return value.isNull() | holds
