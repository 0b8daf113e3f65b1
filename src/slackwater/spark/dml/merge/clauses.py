"""Clauses of a MERGE, resolved against its target and source: conditions checked by Spark, values of the column's type.

Source: delta-spark's MERGE; delta-protocol.md "Generated Columns", "Default Columns", "Identity Columns".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from slackwater.errors import InvalidArgument
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.features.write_expressions import WriteExpressions
from slackwater.protocol.schema.column_paths import has_path, parse_column_path
from slackwater.protocol.schema.schema import ArrayType, ColumnPath, MapType, StructField, StructType
from slackwater.protocol.schema_changes.alter_column import widenings
from slackwater.spark.dml.assignments import (
    Expression,
    assigned_columns,
    assignments_without_alias,
    parse_assignments,
    validate_expression,
)
from slackwater.spark.dml.merge.builder import (
    DELETE,
    INSERT,
    MATCHED,
    NOT_MATCHED,
    DeltaMergeBuilder,
    MergeClause,
)
from slackwater.spark.dml.merge.source import copies, schema_of, with_copies
from slackwater.spark.dml.scalar_queries import with_scalars
from slackwater.spark.write.alignment import is_aligned, merged_value
from slackwater.spark.write.row_preparation import default_value
from slackwater.sql.lexer import quoted

_NESTED = (StructType, ArrayType, MapType)


@dataclass(frozen=True)
class ResolvedClause:
    """A clause with its number among all clauses of the MERGE. `values` are the values of the columns set, by name.

    `sets_all_from_source`: it sets every column to a value of the source alone.
    """

    clause: MergeClause
    number: int
    condition: Column | None
    values: Mapping[str, Column]
    sets_all_from_source: bool = False

    @property
    def deletes(self) -> bool:
        """Return whether the clause deletes its rows."""
        return self.clause.action == DELETE

    @property
    def is_unconditional(self) -> bool:
        """Return whether the clause takes every remaining row."""
        return self.condition is None


@dataclass(frozen=True)
class ClauseResolver:
    """Resolves clauses before any data is read. `schema` is the target's schema after the MERGE.

    `target` is a frame of the target under its alias, `current` returns the present value of a column of the target.
    """

    builder: DeltaMergeBuilder
    target: DataFrame
    schema: StructType
    rules: WriteExpressions
    current: Callable[[StructField], Column]
    alias: str

    def on(self, what: str) -> Column:
        """Return the join condition.

        Raises InvalidArgument if it is not a condition on two rows; `what` names it in messages.
        """
        both = self.target.join(self.builder.source)
        return validate_expression(both, self.builder.condition, what, True, True)

    def clauses(self) -> list[ResolvedClause]:
        """Return all clauses, numbered in their order. Raises InvalidArgument if a clause does not resolve."""
        source = with_copies(self.builder.source)
        frames = {MATCHED: self.target.join(source), NOT_MATCHED: source}
        return [
            self._resolved(clause, number, frames.get(clause.kind, self.target))
            for number, clause in enumerate(self.builder.clauses)
        ]

    def _resolved(self, clause: MergeClause, number: int, frame: DataFrame) -> ResolvedClause:
        what = f"MERGE {clause}"
        condition = None
        if clause.condition is not None:
            condition = validate_expression(frame, clause.condition, f"the condition of {what}", True, True)
        if clause.action == DELETE:
            return ResolvedClause(clause, number, condition, {})
        inserts = clause.action == INSERT
        if clause.assignments is None:
            assignments = self._star(clause, what)
        else:
            given = with_scalars(self.target.sparkSession, clause.assignments, what)
            given = assignments_without_alias(given, self.alias, self.schema)
            assignments = parse_assignments(given, self.schema, self.rules, what, insert=inserts)
        current = _no_present_value if inserts else self.current
        evolves = self.builder.evolves_schema
        values = assigned_columns(frame, assignments, self.schema, current, what, fills=evolves)
        is_of_source = clause.assignments is None and not evolves and all(c.name in values for c in self.schema)
        return ResolvedClause(clause, number, condition, self._completed(values) if inserts else values, is_of_source)

    def _star(self, clause: MergeClause, what: str) -> dict[ColumnPath, Column]:
        """Return the columns set by `*`: each column of the target that the source has too."""
        source, copied = schema_of(self.builder.source), copies(self.builder.source)
        inserts = clause.action == INSERT
        optional = {g.name for g in self.rules.generated} | {i.name for i in self.rules.identity}
        chosen: dict[str, Expression] = {}
        for column in self.schema:
            value, given = copied.get(column.name.lower()), source.get(column.name)
            if value is not None and given is not None:
                chosen[quoted(column.name)] = self._star_value(value, given, column, inserts)
            elif column.name not in optional and not self.builder.evolves_schema:
                raise InvalidArgument(
                    f"{what} *: the source has no column {column.name}. Its columns are {list(source.names)}. Name the "
                    "columns to set, or use withSchemaEvolution()",
                    error_class="DELTA_MERGE_UNRESOLVED_EXPRESSION",
                )
        return parse_assignments(chosen, self.schema, self.rules, f"{what} *", insert=inserts)

    def _star_value(self, value: Column, given: StructField, column: StructField, inserts: bool) -> Column:
        if is_aligned(given, column) or not self.builder.evolves_schema:
            return value
        return merged_value(value, given.type, column.type, None if inserts else self.current(column))

    def _completed(self, values: Mapping[str, Column]) -> Mapping[str, Column]:
        """Return the values of a new row, with defaults for columns not set."""
        made = {
            column.name: default
            for column in self.schema
            if column.name not in values and (default := default_value(column, self.rules)) is not None
        }
        return {**values, **made}


def first_match(clauses: Sequence[ResolvedClause]) -> Column:
    """Return the number of the first clause with a true condition, -1 if there is none."""
    number = F.lit(-1)
    for clause in reversed(clauses):
        taken = F.lit(clause.number)
        number = taken if clause.condition is None else F.when(clause.condition, taken).otherwise(number)
    return number


def evolving_columns(builder: DeltaMergeBuilder, table: TableConfiguration, alias: str) -> StructType:
    """The source's columns that a clause writes and that may change the target's schema.

    A clause that sets a field which the target has writes no column of the field's name. `alias` is the target's.
    """
    source, target = schema_of(builder.source), table.schema
    wider = {path[0] for path, _, _ in widenings(table, source)}
    written: set[str] = set()
    for clause in builder.clauses:
        if clause.action == DELETE:
            continue
        if clause.assignments is None:
            written |= {name.lower() for name in source.names}
        else:
            paths = map(parse_column_path, assignments_without_alias(clause.assignments, alias, target))
            written |= {path[-1].lower() for path in paths if len(path) == 1 or not has_path(target, path)}
    fields = [c for c in source if c.name.lower() in written and _may_evolve(c, target.get(c.name), wider)]
    return StructType(tuple(fields))


def _may_evolve(given: StructField, present: StructField | None, wider: Collection[str]) -> bool:
    # Other plain values are stored without a change of the column; see `slackwater.spark.write.store_assignment`.
    if present is None or present.name in wider:
        return True
    return isinstance(present.type, _NESTED) and not is_aligned(given, present)


def _no_present_value(column: StructField) -> Column:
    raise InvalidArgument(f"a new row has no present value of column {column.name}")
