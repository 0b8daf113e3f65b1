"""Preparation of a user's rows for a table: column types, default and generated values, identity values, checks.

Source: delta-protocol.md "Default Columns", "Generated Columns", "Identity Columns", "CHECK Constraints".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import InvalidArgument
from slackwater.protocol.features.identity_columns import IdentityColumn
from slackwater.protocol.features.write_expressions import WriteExpressions
from slackwater.protocol.schema.arrow_schema import to_arrow_schema
from slackwater.protocol.schema.schema import StructField, StructType, as_nullable, is_string
from slackwater.rows.conversion import conversion, position_of
from slackwater.rows.expressions import Now, RowExpression, row_expression
from slackwater.rows.row_checks import RowCheck, generated_check, row_checks
from slackwater.rows.sources import RowSource

_Maker = Callable[[pa.RecordBatch], pa.Array]


@dataclass
class PreparedRows:
    """Rows of `source` in the columns of `schema`, checked batch by batch for the table at `where`.

    `last_values` are the last generated values of identity columns, complete after the last batch.
    """

    source: RowSource
    schema: StructType
    where: str
    makers: Sequence[tuple[str, _Maker]]
    generated: Sequence[tuple[str, RowExpression]]
    identity: Sequence[IdentityColumn]
    checks: Sequence[RowCheck]
    empty_is_null: frozenset[str]
    num_rows: int = 0
    last_values: dict[str, int] = field(default_factory=dict)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows with the columns of the table, by display names.

        Raises:
            InvariantViolationException: If a row breaks a rule of the table, or identity values are used up.
            ValueDoesNotFit: If a value has no exact counterpart in its column's type.
        """
        arrow = to_arrow_schema(as_nullable(self.schema))
        for batch in self.source.open():
            if batch.num_rows:
                rows = self._completed(batch, arrow)
                for check in self.checks:
                    check.require(rows, self.where)
                yield rows

    def _completed(self, batch: pa.RecordBatch, arrow: pa.Schema) -> pa.RecordBatch:
        made = {name: make(batch) for name, make in self.makers}
        for identity in self.identity:
            made[identity.name] = self._identity_values(identity, batch.num_rows)
        for name in self.empty_is_null & made.keys():
            made[name] = _without_empty(made[name])
        if self.generated:
            base = pa.RecordBatch.from_arrays(list(made.values()), list(made))
            for name, expression in self.generated:
                made[name] = expression.evaluate(base)
                if name in self.empty_is_null:
                    made[name] = _without_empty(made[name])
        self.num_rows += batch.num_rows
        return pa.RecordBatch.from_arrays([made[column.name] for column in self.schema], schema=arrow)

    def _identity_values(self, identity: IdentityColumn, count: int) -> pa.Array:
        first, last = identity.value(self.num_rows), identity.value(self.num_rows + count - 1)
        self.last_values[identity.name] = last
        return pa.array(first + np.arange(count, dtype=np.int64) * identity.step, pa.int64())


def prepare_rows(
    source: RowSource,
    given: StructType,
    schema: StructType,
    rules: WriteExpressions,
    partition_columns: Sequence[str],
    where: str,
    now: Now,
    extra_checks: Sequence[RowCheck] = (),
) -> PreparedRows:
    """Return the rows of `source`, whose columns are `given`, in the columns of `schema`.

    Columns match by name in any case. `rules` are the rules of the table at `where`, `extra_checks` further checks.
    `now` returns the current time for default values.

    Raises:
        InvalidArgument: If the rows have values for a GENERATED ALWAYS identity column.
        UnsupportedFeature: If only Spark evaluates a rule.
    """
    identity = [each for each in rules.identity if given.get(each.name) is None]
    _refuse_explicit_identity([each for each in rules.identity if each not in identity])
    computed = {each.name for each in rules.generated if given.get(each.name) is None}
    made = computed | {each.name for each in identity}
    expressions = {
        each.name: row_expression(each.sql, schema, each.type, f"the generation expression of column {each.name}", now)
        for each in rules.generated
    }
    texts = frozenset(c.name for c in schema if c.name in partition_columns and is_string(c.type))
    checks = [*row_checks(rules, schema), *extra_checks]
    for name in expressions.keys() - computed:
        expression = expressions[name]
        checks.append(generated_check(name, expression.sql, expression.evaluate, schema))
    return PreparedRows(
        source,
        schema,
        where,
        [(column.name, _maker(source, column, schema, rules, now)) for column in schema if column.name not in made],
        [(name, expressions[name]) for name in schema.names if name in computed],
        identity,
        checks,
        texts,
    )


def _maker(source: RowSource, column: StructField, schema: StructType, rules: WriteExpressions, now: Now) -> _Maker:
    """Return the values of a column: those of the rows, else the default value, else null."""
    at = position_of(column.name, source.schema.names)
    if at is not None:
        convert = conversion(source.schema.field(at).type, column.type, (column.name,))
        return lambda batch: convert(batch.column(at))
    default = next((each.sql for each in rules.defaults if each.name == column.name), None)
    if default is not None:
        what = f"the default value of column {column.name}"
        return row_expression(default, schema, column.type, what, now).evaluate
    null = conversion(pa.null(), column.type, (column.name,))
    return lambda batch: null(pa.nulls(batch.num_rows))


def _without_empty(texts: pa.Array) -> pa.Array:
    """Return `texts` with null instead of an empty text, because the log stores both as null."""
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)


def _refuse_explicit_identity(brought: Sequence[IdentityColumn]) -> None:
    always = next((each.name for each in brought if not each.allow_explicit_insert), None)
    if always is not None:
        raise InvalidArgument(
            f"identity column {always} is GENERATED ALWAYS, so each write generates its values. Leave it out of the "
            "rows",
            error_class="DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED",
        )
