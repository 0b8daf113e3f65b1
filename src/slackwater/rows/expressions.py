"""SQL values for rows in Arrow: default values and generation expressions that Slackwater evaluates without Spark.

Supported are literals, columns, casts, the current time, and parts of dates. Times without a zone are in UTC.
Source: Spark's SQL functions; delta-protocol.md "Default Columns", "Generated Columns".
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import InvalidArgument, UnsupportedFeature
from slackwater.predicate.columns import resolve_column
from slackwater.predicate.condition_tree import CAST, LITERAL, ConditionTree, LiteralValue
from slackwater.predicate.literals import cast_literal
from slackwater.predicate.sql_conditions import read_sql
from slackwater.predicate.translation import cast_type
from slackwater.protocol.schema.arrow_schema import to_arrow_type
from slackwater.protocol.schema.schema import DATE, INTEGER, DataType, StructType, nullable_type
from slackwater.protocol.schema.type_widening import can_store
from slackwater.protocol.sqlglot_adapter import SqlNode, column_path, exp, parse_sql
from slackwater.rows.arrow_types import delta_type
from slackwater.rows.conversion import conversion

Column = Callable[[pa.RecordBatch], Any]
"""Evaluates an expression for the rows of a batch: an array, or a scalar for all rows."""

Now = Callable[[], dt.datetime]
"""Returns the current time in UTC. Within a transaction over several tables, it is the transaction's time."""

_PARTS: dict[str, Callable[[Any], Any]] = {
    "Year": pc.year,
    "Month": pc.month,
    "Day": pc.day,
    "DayOfMonth": pc.day,
    "Quarter": pc.quarter,
    "Hour": pc.hour,
    "Minute": pc.minute,
}
_INTEGERS = ("byte", "short", "integer", "long")
_OF_TIME = ("Hour", "Minute")
_TO_DATE = ("Date", "TsOrDsToDate")
_NOW, _TODAY = ("CurrentTimestamp",), ("CurrentDate",)


@dataclass(frozen=True)
class RowExpression:
    """An expression on the rows of a table, with the column type of its values."""

    sql: str
    type: DataType
    evaluate: Column


def row_expression(sql: str, schema: StructType, wanted: DataType, what: str, now: Now) -> RowExpression:
    """Return the value of `sql` for rows with `schema`, in the column type `wanted`.

    `what` names the expression in messages. `now` returns the current time in UTC. Raises UnsupportedFeature if only
    Spark evaluates `sql`.
    """
    try:
        found = _Reader(schema, now).value(parse_sql(sql))
        evaluate = None if found is None else _as_column(found, wanted)
        if evaluate is not None:
            return RowExpression(sql, wanted, evaluate)
    except (InvalidArgument, pa.ArrowException) as error:
        raise _refused(sql, what, f" ({error})") from error
    raise _refused(sql, what, "")


def _refused(sql: str, what: str, why: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        f"{what} ({sql}) is not evaluated without Spark{why}. Add the column to the rows, or write the rows with Spark"
    )


@dataclass(frozen=True)
class _Value:
    """A part of an expression: its column type, None for NULL, and its values. `literal` is set for a literal."""

    type: DataType | None
    evaluate: Column
    literal: Any = None


def _as_column(found: _Value, wanted: DataType) -> Column | None:
    """Return the values as a column of type `wanted`, None if only Spark knows the cast."""
    arrow = to_arrow_type(nullable_type(wanted))
    if found.type is None:
        return lambda batch: pa.nulls(batch.num_rows, arrow)
    if found.literal is not None:
        value = cast_literal(found.literal, wanted, "UTC")
        scalar = pa.scalar(value, arrow)
        return None if value is None else lambda batch: pa.repeat(scalar, batch.num_rows)
    if not can_store(found.type, wanted) and not (str(found.type) in _INTEGERS and str(wanted) in _INTEGERS):
        return None
    convert = conversion(to_arrow_type(found.type), wanted, ("the expression",))

    def evaluated(batch: pa.RecordBatch) -> pa.Array:
        values = found.evaluate(batch)
        if isinstance(values, pa.Scalar):
            values = pa.repeat(values, batch.num_rows)
        return convert(values)

    return evaluated


class _Reader:
    """Translates a syntax tree. A part without a translation is None."""

    def __init__(self, schema: StructType, now: Now) -> None:
        self._schema = schema
        self._now = now

    def value(self, node: SqlNode) -> _Value | None:
        node = node.unnest()
        kind = type(node).__name__
        names = column_path(node)
        if names is not None:
            return self._column(names)
        if kind in _NOW and not node.args.get("this"):
            return _constant(self._now(), "timestamp")
        if kind in _TODAY and not node.args.get("this"):
            return _constant(self._now().date(), "date")
        if kind in _PARTS:
            return self._part(kind, node.this)
        if kind in _TO_DATE and not node.args.get("format"):
            return self._date(node.this)
        if isinstance(node, exp.Cast) and not node.args.get("format"):
            return self._cast(node)
        return _literal(read_sql(node.sql(dialect="spark")))

    def _column(self, names: tuple[str, ...]) -> _Value | None:
        column = resolve_column(self._schema, names)
        if column.type is None or not column.comparable:
            return None
        top, *rest = column.path

        def values(batch: pa.RecordBatch) -> pa.Array:
            found = batch.column(batch.schema.get_field_index(top))
            for name in rest:
                found = pc.struct_field(found, name)
            return found

        return _Value(column.type, values)

    def _part(self, kind: str, node: SqlNode) -> _Value | None:
        inner = self.value(node)
        allowed = ("timestamp", "timestamp_ntz") if kind in _OF_TIME else ("date", "timestamp", "timestamp_ntz")
        if inner is None or str(inner.type) not in allowed:
            return None
        return _Value(INTEGER, lambda batch: _PARTS[kind](inner.evaluate(batch)).cast(pa.int32()))

    def _date(self, node: SqlNode) -> _Value | None:
        inner = self.value(node)
        if inner is None or str(inner.type) not in ("date", "timestamp", "timestamp_ntz"):
            return None
        return inner if inner.type == DATE else _Value(DATE, lambda batch: _day(inner.evaluate(batch)))

    def _cast(self, node: SqlNode) -> _Value | None:
        wanted = cast_type(node.to.sql(dialect="spark").lower())
        literal = _literal(read_sql(node.sql(dialect="spark")))
        if literal is not None or wanted is None:
            return literal
        if wanted == DATE:
            return self._date(node.this)
        inner = self.value(node.this)
        if inner is None or inner.type is None:
            return inner
        convert = _cast_between(inner.type, wanted)
        return None if convert is None else _Value(wanted, lambda batch: convert(_array(inner, batch)))


def _cast_between(given: DataType, wanted: DataType) -> Callable[[pa.Array], pa.Array] | None:
    """Return a lossless conversion of numbers, or of a whole number to text. None for other casts."""
    if given == wanted:
        return lambda array: array
    if str(given) in _INTEGERS and str(wanted) == "string":
        return lambda array: array.cast(pa.string())
    from_floats = str(given) in ("float", "double") and str(wanted) not in ("float", "double")
    if from_floats or not _is_number(given) or not _is_number(wanted):
        # Spark cuts fractions and rounds.
        return None
    return conversion(to_arrow_type(given), wanted, ("the expression",))


def _is_number(data_type: DataType) -> bool:
    return str(data_type).startswith(("byte", "short", "integer", "long", "float", "double", "decimal"))


def _array(value: _Value, batch: pa.RecordBatch) -> pa.Array:
    values = value.evaluate(batch)
    return pa.repeat(values, batch.num_rows) if isinstance(values, pa.Scalar) else values


def _day(values: Any) -> Any:
    """Return the day of each time, in UTC. Days before 1970 are rounded down."""
    days = pc.floor_temporal(values, unit="day")
    return days.cast(pa.timestamp("us")).cast(pa.date32()) if values.type.tz is None else _utc(days).cast(pa.date32())


def _utc(values: Any) -> Any:
    return values.cast(pa.int64()).cast(pa.timestamp("us"))


def _constant(value: Any, name: str) -> _Value:
    data_type = delta_type(pa.timestamp("us", tz="UTC") if name == "timestamp" else pa.date32(), ())
    scalar = pa.scalar(value, to_arrow_type(data_type))
    return _Value(data_type, lambda _: scalar)


def _literal(tree: ConditionTree) -> _Value | None:
    """Return the value of a literal, or of a cast of a literal. None for any other expression."""
    literal = _literal_value(tree)
    if literal is not None:
        return _typed(literal.value)
    wanted = cast_type(tree.payload) if tree.operation == CAST else None
    literal = None if wanted is None else _literal_value(tree.children[0])
    if wanted is None or literal is None:
        return None
    if literal.value is None:
        return _typed(None)
    value = cast_literal(literal.value, wanted, "UTC")
    if value is None:
        return None
    scalar = pa.scalar(value, to_arrow_type(wanted))
    return _Value(wanted, lambda _: scalar, value)


def _literal_value(tree: ConditionTree) -> LiteralValue | None:
    """Return a literal, or a number with its sign."""
    if tree.operation == LITERAL:
        found: LiteralValue = tree.payload
        return found
    if tree.operation != "negative" or len(tree.children) != 1:
        return None
    literal = _literal_value(tree.children[0])
    value = None if literal is None else literal.value
    if isinstance(value, Decimal):
        return LiteralValue(value.copy_negate())
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return LiteralValue(-value)
    return None


def _typed(value: Any) -> _Value:
    if value is None:
        return _Value(None, lambda _: None)
    scalar = pa.scalar(value)
    return _Value(delta_type(scalar.type, ()), lambda _: scalar, value)
