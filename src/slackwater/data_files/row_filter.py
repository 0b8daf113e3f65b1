"""Filters rows of a batch by a predicate, with SQL's three-valued logic.

A condition has Spark's meaning. Text is ordered by its UTF-8 bytes. NaN is greater than every number and equal to
itself. Integers and decimals compare exactly with any number. Source: Spark's "NaN Semantics", delta-protocol.md
"Primitive Types".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import InvalidArgument
from slackwater.predicate.predicate import (
    And,
    Comparison,
    ComparisonOperator,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    Unprunable,
)
from slackwater.protocol.schema.schema import DataType, StructType
from slackwater.stats.bounds import normalize

Datum: TypeAlias = Any
"""An Arrow array with the values of a column, or a scalar shared by all rows."""

Lookup = Callable[[str], Datum]
"""Returns a top-level column by name."""

_COMPARE: dict[str, Callable[[Datum, pa.Scalar], Datum]] = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_FEW_VALUES = 4


def require_decidable(
    predicate: Predicate, remedy: str = "Read without it, and filter in DuckDB, Polars or pandas"
) -> None:
    """Verify that rows can be filtered by `predicate`. `remedy` is the last sentence of the message.

    Raises InvalidArgument, with the text of the condition, for an unsupported condition.
    """
    pending = [predicate]
    while pending:
        node = pending.pop()
        if isinstance(node, Unprunable):
            raise InvalidArgument(
                f"rows are not filtered by {node.text or 'this condition'} without Spark. A condition must compare "
                "columns with literals (=, <=>, !=, <, <=, >, >=, BETWEEN, IN, LIKE 'prefix%', IS NULL; AND, OR, NOT). "
                f"{remedy}"
            )
        if isinstance(node, (And, Or)):
            pending.extend(reversed(node.children))
        elif isinstance(node, Not):
            pending.append(node.child)


def truth(predicate: Predicate, schema: StructType, column: Lookup) -> Datum:
    """Evaluate `predicate` for each row: true, false or null. Returns a scalar if the result is equal for all rows.

    `schema` contains the columns of the predicate by display name. `column` returns their values in `to_arrow_type` of
    the column type. `require_decidable` must have accepted the predicate.
    """
    return _Evaluation(schema, column).of(predicate)


class _Evaluation:
    def __init__(self, schema: StructType, column: Lookup) -> None:
        self._schema = schema
        self._column = column

    def of(self, predicate: Predicate) -> Datum:
        if isinstance(predicate, And):
            return reduce(pc.and_kleene, map(self.of, predicate.children), pa.scalar(True))
        if isinstance(predicate, Or):
            return reduce(pc.or_kleene, map(self.of, predicate.children), pa.scalar(False))
        if isinstance(predicate, Not):
            return pc.invert(self.of(predicate.child))
        if isinstance(predicate, Constant):
            return pa.scalar(predicate.value, pa.bool_())
        if isinstance(predicate, Unprunable):
            raise InvalidArgument(f"rows are not filtered by {predicate.text}")
        values, data_type = self._values(predicate.column)
        if isinstance(predicate, IsNull):
            return pc.is_null(values)
        if isinstance(predicate, StartsWith):
            return pc.starts_with(values, predicate.prefix)
        if isinstance(predicate, In):
            return _in(values, predicate, data_type)
        return _comparison(values, predicate, data_type)

    def _values(self, path: tuple[str, ...]) -> tuple[Datum, DataType]:
        values, data_type = self._column(path[0]), _type_of(self._schema, path[0])
        for name in path[1:]:
            values, data_type = pc.struct_field(values, name), _type_of(data_type, name)
        return values, data_type


def _type_of(struct: DataType, name: str) -> DataType:
    assert isinstance(struct, StructType)  # noqa: S101  (columns of a predicate are resolved against the schema)
    return next(field.type for field in struct if field.name == name)


def _comparison(values: Datum, leaf: Comparison, data_type: DataType) -> Datum:
    if leaf.operator != "<=>":
        return _compared(values, leaf.operator, leaf.value, data_type)
    return pc.coalesce(_compared(values, "=", leaf.value, data_type), pa.scalar(False))


def _in(values: Datum, leaf: In, data_type: DataType) -> Datum:
    if len(leaf.values) > _FEW_VALUES and not pa.types.is_floating(values.type):
        tests = [_test("=", value, data_type) for value in leaf.values]
        scalars = [_in_type(test[1], values.type) for test in tests if isinstance(test, tuple)]
        # No value of the column equals a literal outside of the column type.
        listed = pa.array([scalar.as_py() for scalar in scalars if scalar.type == values.type], values.type)
        found = pc.if_else(pc.is_valid(values), pc.is_in(values, listed), pa.scalar(None, pa.bool_()))
    else:
        each = [_compared(values, "=", value, data_type) for value in leaf.values]
        found = reduce(pc.or_kleene, each, pa.scalar(False))
    return pc.or_kleene(found, pa.scalar(None, pa.bool_())) if leaf.has_null else found


def _compared(values: Datum, operator: ComparisonOperator, value: Any, data_type: DataType) -> Datum:
    """Compare each value with a literal. Null for a null value."""
    if pa.types.is_floating(values.type):
        return _compared_float(values, operator, float(value))
    test = _test(operator, value, data_type)
    if isinstance(test, bool):
        return _where_valid(values, test)
    return _COMPARE[test[0]](values, _in_type(test[1], values.type))


def _compared_float(values: Datum, operator: ComparisonOperator, value: float) -> Datum:
    if not math.isnan(value):
        values = values.cast(pa.float64())
        found = _COMPARE[operator](values, pa.scalar(value))
        # In SQL a NaN is greater than every number; in Arrow it is only "not equal".
        return pc.or_(found, pc.is_nan(values)) if operator in (">", ">=") else found
    if operator in ("<=", ">"):
        return _where_valid(values, operator == "<=")
    is_nan = pc.is_nan(values)
    return is_nan if operator in ("=", ">=") else pc.invert(is_nan)


def _where_valid(values: Datum, outcome: bool) -> Datum:
    return pc.if_else(pc.is_valid(values), pa.scalar(outcome), pa.scalar(None, pa.bool_()))


def _test(operator: ComparisonOperator, value: Any, data_type: DataType) -> bool | tuple[str, pa.Scalar]:
    """Return the comparison with a value in the type's order, or its constant result for all non-null values."""
    test = normalize(operator, value, data_type, exact=True)
    if test == "unknown":
        raise InvalidArgument(f"a column of type {data_type} cannot be compared with {value!r} without Spark")
    return test == "always" if isinstance(test, str) else test


def _in_type(ordered: pa.Scalar, arrow: pa.DataType) -> pa.Scalar:
    """Convert a value of `normalize`, in the order of its type, to the type of the compared column.

    The result keeps the wider type if the column type does not hold the value.
    """
    if pa.types.is_date32(arrow):
        return ordered.cast(pa.int32()).cast(arrow)
    try:
        return ordered.cast(arrow)
    except pa.ArrowInvalid:
        return ordered
