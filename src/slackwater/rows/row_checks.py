"""Checks of rows in Arrow: NOT NULL, CHECK constraints, invariants, generated columns and text lengths.

Source: delta-protocol.md "Column Invariants", "CHECK Constraints", "Generated Columns"; Spark's CHAR and VARCHAR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.data_files.row_filter import require_decidable, truth
from slackwater.errors import InvalidArgument, InvariantViolationException, UnsupportedFeature
from slackwater.predicate.predicate import Predicate
from slackwater.predicate.sql import parse_predicate
from slackwater.protocol.features.sql_columns import read_columns
from slackwater.protocol.features.write_expressions import WriteExpressions
from slackwater.protocol.schema.char_varchar import schema_limits, text_type
from slackwater.protocol.schema.column_paths import format_column_path
from slackwater.protocol.schema.schema import STRING, ArrayType, ColumnPath, DataType, MapType, StructType

_NOT_NULL = "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"
_LENGTH = "DELTA_EXCEED_CHAR_VARCHAR_LIMIT"
_CONSTRAINT = "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"

Holds = Callable[[pa.RecordBatch], Any]
"""Returns for each row whether a rule holds: an array, or a scalar for all rows. Null means a violation."""


@dataclass(frozen=True)
class RowCheck:
    """A rule for every row. `says` names the rule, `shows` are the top-level columns for the message."""

    says: str
    holds: Holds
    shows: Sequence[str]
    error_class: str = _CONSTRAINT

    def require(self, batch: pa.RecordBatch, where: str) -> None:
        """Raise InvariantViolationException for the table at `where` if a row of `batch` breaks the rule."""
        found = self.holds(batch)
        if isinstance(found, pa.Scalar):
            if found.as_py() is True or not batch.num_rows:
                return
            row = 0
        else:
            broken = pc.invert(pc.fill_null(found, False))
            if not pc.any(broken).as_py():
                return
            row = pc.index(broken, True).as_py()
        shown = {name: _text(batch.column(batch.schema.get_field_index(name))[row]) for name in self.shows}
        values = orjson.dumps(shown).decode()
        raise InvariantViolationException(
            f"{where}: {self.says} is broken by a row with the values {values}. Nothing was written. Correct the rows "
            "or the rule",
            error_class=self.error_class,
        )


def row_checks(rules: WriteExpressions, schema: StructType) -> list[RowCheck]:
    """Return the checks of `rules` for rows with `schema`, except those of generated columns.

    Raises UnsupportedFeature for a condition that only Spark evaluates.
    """
    checks = [*_length_checks(schema), *(not_null_check(path, schema) for path in rules.not_null)]
    checks += [sql_check(f"CHECK constraint {check.name}", check.sql, schema) for check in rules.checks]
    for invariant in rules.invariants:
        says = f"invariant of column {'.'.join(invariant.column)}"
        checks.append(sql_check(says, invariant.sql, schema, (invariant.column[0],)))
    return checks


def sql_check(says: str, sql: str, schema: StructType, shows: Sequence[str] = ()) -> RowCheck:
    """Return a check for the condition `sql`. Raises UnsupportedFeature if only Spark evaluates the condition."""
    try:
        predicate = parse_predicate(sql, schema)
        require_decidable(predicate, "Write the rows with Spark")
    except InvalidArgument as error:
        raise UnsupportedFeature(
            f"{says} ({sql}) is not evaluated without Spark, so the rows cannot be checked: {error}"
        ) from error
    return predicate_check(f"{says} ({sql})", predicate, schema, read_names(sql, schema) or shows)


def read_names(sql: str, schema: StructType) -> tuple[str, ...]:
    """Return the top-level columns of `schema` in the condition `sql`."""
    return tuple(dict.fromkeys(path[0] for path in sorted(read_columns(sql, schema))))


def predicate_check(
    says: str, predicate: Predicate, schema: StructType, shows: Sequence[str], error_class: str = _CONSTRAINT
) -> RowCheck:
    """Return a check for `predicate`, accepted by `require_decidable`."""

    def holds(batch: pa.RecordBatch) -> Any:
        return truth(predicate, schema, lambda name: batch.column(batch.schema.get_field_index(name)))

    return RowCheck(says, holds, shows, error_class)


def not_null_check(path: ColumnPath, schema: StructType) -> RowCheck:
    """Return a check that the part at `path` is not null. A part inside a null value passes."""

    def holds(batch: pa.RecordBatch) -> Any:
        column = batch.column(batch.schema.get_field_index(path[0]))
        return _holds_inside(column, _type_of(schema, path[0]), path[1:], lambda values: values.is_valid())

    return RowCheck(f"NOT NULL constraint of column {'.'.join(path)}", holds, (path[0],), _NOT_NULL)


def generated_check(name: str, sql: str, value: Callable[[pa.RecordBatch], pa.Array], schema: StructType) -> RowCheck:
    """Return a check that the column `name` has the values of its generation expression `sql`."""

    def holds(batch: pa.RecordBatch) -> Any:
        given, computed = batch.column(batch.schema.get_field_index(name)), value(batch)
        both_null = pc.and_(given.is_null(), computed.is_null())
        return pc.or_kleene(pc.equal(given, computed), both_null)

    return RowCheck(f"generated column {name} (<value> <=> {sql})", holds, (name, *read_names(sql, schema)))


def _length_checks(schema: StructType) -> Iterator[RowCheck]:
    for path, kind in schema_limits(schema).items():
        column = schema.get(path[0])
        spelled = kind if column is None else text_type(column)
        longest = int(kind[kind.index("(") + 1 : -1])
        says = f"the length of column {format_column_path(path)}, {spelled},"
        yield RowCheck(says, _fits(path, schema, longest), (path[0],), _LENGTH)


def _fits(path: ColumnPath, schema: StructType, longest: int) -> Holds:
    def short(values: pa.Array) -> Any:
        return pc.fill_null(pc.less_equal(pc.utf8_length(values), longest), True)

    def holds(batch: pa.RecordBatch) -> Any:
        column = batch.column(batch.schema.get_field_index(path[0]))
        return _holds_inside(column, _type_of(schema, path[0]), path[1:], short)

    return holds


def _holds_inside(values: pa.Array, data_type: DataType, path: ColumnPath, test: Callable[[pa.Array], Any]) -> Any:
    """Return for each of `values` whether `test` holds for every part at `path`. A null value passes above the part."""
    if not path:
        return test(values)
    step, rest = path[0], path[1:]
    if isinstance(data_type, StructType):
        found = data_type.get(step)
        assert found is not None  # noqa: S101  (paths are those of the schema)
        inner = _holds_inside(pc.struct_field(values, [_index(data_type, found.name)]), found.type, rest, test)
        return pc.or_(pc.fill_null(inner, False), values.is_null())
    if isinstance(data_type, MapType):
        pairs = values.cast(pa.list_(pa.struct([("key", values.type.key_type), ("value", values.type.item_type)])))
        part = data_type.key_type if step == "key" else data_type.value_type
        return _holds_for_all(pairs, pc.struct_field(pairs.flatten(), [0 if step == "key" else 1]), part, rest, test)
    assert isinstance(data_type, ArrayType)  # noqa: S101
    return _holds_for_all(values, values.flatten(), data_type.element_type, rest, test)


def _holds_for_all(
    lists: pa.Array, parts: pa.Array, data_type: DataType, path: ColumnPath, test: Callable[[pa.Array], Any]
) -> Any:
    """Return for each list whether `test` holds for all of its `parts`."""
    holds = pc.fill_null(_holds_inside(parts, data_type, path, test), False)
    broken = pc.unique(pc.list_parent_indices(lists).filter(pc.invert(holds)))
    rows = pa.array(range(len(lists)), pa.int64())
    return pc.invert(pc.is_in(rows, value_set=broken.cast(pa.int64())))


def _index(struct: StructType, name: str) -> int:
    return struct.names.index(name)


def _type_of(schema: StructType, name: str) -> DataType:
    column = schema.get(name)
    return STRING if column is None else column.type


def _text(value: pa.Scalar) -> Any:
    """Return a value for the JSON of a message."""
    try:
        found = value.as_py()
    except (ValueError, OverflowError):
        # A date or time beyond Python's range.
        return str(getattr(value, "value", value.type))
    plain = found is None or (isinstance(found, (bool, int, float, str)) and not _is_huge(found))
    return found if plain else str(found)


def _is_huge(value: Any) -> bool:
    return isinstance(value, int) and not -(2**63) <= value < 2**63
