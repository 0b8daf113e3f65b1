"""Data skipping: selects the files, or row groups of a file, that may contain a row matching a predicate.

A file is skipped only by proof. Predicates are evaluated for a requested outcome, true or false. Negation therefore
needs no rewriting, and NULL is neither: `NOT (a < 5)` may match if a row has a non-null `a` of at least 5.

Source: delta-protocol.md "Per-file Statistics".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
    columns_of,
)
from slackwater.stats.bounds import AFTER_PREFIX, Bounds, normalize, prove_bounds
from slackwater.stats.file_stats import ColumnStats, Path, StatsColumns

_COMPLEMENT: dict[ComparisonOperator, ComparisonOperator] = {
    "=": "!=",
    "!=": "=",
    "<": ">=",
    ">=": "<",
    ">": "<=",
    "<=": ">",
}
_FEW_VALUES = 16


def may_match(predicate: Predicate, columns: StatsColumns) -> pa.BooleanArray:
    """Return for each file whether a row may make `predicate` true; never null.

    False is a proof: by the bounds, null counts and record counts of the file, tight or wide, no live row matches.
    Missing or malformed statistics, unknown columns, and literals of another type than their column skip no file. Reads
    the statistics of the predicate's columns that `columns` has not read yet.
    """
    columns.load(columns_of(predicate))
    matches = _Evaluation(columns).may(predicate, outcome=True)
    if columns.num_records is None:
        return matches
    return pc.and_(matches, pc.not_equal(columns.num_records, 0).fill_null(True))


class _Evaluation:
    def __init__(self, columns: StatsColumns) -> None:
        self._columns = columns
        self._bounds: dict[Path, Bounds] = {}

    def may(self, predicate: Predicate, outcome: bool) -> pa.BooleanArray:
        """Return for each file whether `predicate` may have the result `outcome` for some row."""
        if isinstance(predicate, Not):
            return self.may(predicate.child, not outcome)
        if isinstance(predicate, (And, Or)):
            every = isinstance(predicate, And) == outcome
            parts = [self.may(child, outcome) for child in predicate.children]
            return reduce(pc.and_ if every else pc.or_, parts, self._all(every))
        if isinstance(predicate, Constant):
            return self._all(predicate.value is outcome)
        if isinstance(predicate, Unprunable):
            return self._all(True)
        stats = self._columns.column(predicate.column)
        if stats is None:
            return self._all(True)
        bounds = self._bounds.setdefault(predicate.column, prove_bounds(stats))
        return self._leaf(predicate, outcome, stats, bounds)

    def _leaf(
        self, leaf: Comparison | In | IsNull | StartsWith, outcome: bool, stats: ColumnStats, bounds: Bounds
    ) -> pa.BooleanArray:
        if isinstance(leaf, IsNull):
            return bounds.has_nulls if outcome else bounds.has_values
        if isinstance(leaf, Comparison):
            return self._comparison(leaf, outcome, stats, bounds)
        if isinstance(leaf, In):
            found = self._in(leaf, stats, bounds) if outcome else self._not_in(leaf, stats, bounds)
        else:
            found = self._starts_with(leaf, outcome, stats, bounds)
        return pc.and_(found, bounds.has_values)

    def _comparison(self, leaf: Comparison, outcome: bool, stats: ColumnStats, bounds: Bounds) -> pa.BooleanArray:
        null_safe = leaf.operator == "<=>"
        operator: ComparisonOperator = "=" if null_safe else leaf.operator
        found = self._test(operator if outcome else _COMPLEMENT[operator], leaf, stats, bounds)
        found = pc.and_(found, bounds.has_values)
        return pc.or_(found, bounds.has_nulls) if null_safe and not outcome else found

    def _test(
        self, operator: ComparisonOperator, leaf: Comparison, stats: ColumnStats, bounds: Bounds
    ) -> pa.BooleanArray:
        test = normalize(operator, leaf.value, stats.data_type, stats.exact)
        return self._all(test != "never") if isinstance(test, str) else _within(test[0], test[1], bounds)

    def _in(self, leaf: In, stats: ColumnStats, bounds: Bounds) -> pa.BooleanArray:
        scalars: list[pa.Scalar] = []
        for value in leaf.values:
            test = normalize("=", value, stats.data_type, stats.exact)
            if isinstance(test, tuple):
                scalars.append(test[1])
            elif test != "never":
                return self._all(True)
        if len(scalars) <= _FEW_VALUES:
            return reduce(pc.or_, [_within("=", scalar, bounds) for scalar in scalars], self._all(False))
        return _any_within(scalars, bounds)

    def _not_in(self, leaf: In, stats: ColumnStats, bounds: Bounds) -> pa.BooleanArray:
        if leaf.has_null:
            return self._all(False)
        # If all rows have the same value, NOT IN fails for a list with the value.
        single = pc.equal(bounds.low, bounds.high).fill_null(False)
        tests = [normalize("!=", value, stats.data_type, stats.exact) for value in leaf.values]
        scalars = [test[1] for test in tests if isinstance(test, tuple)]
        if not scalars or not pc.any(single).as_py():
            return self._all(True)
        held = bounds.low.filter(single)
        listed = np.isin(_numpy(held), _numpy(_array(scalars)))
        ruled_out = np.zeros(self._columns.num_files, dtype=bool)
        ruled_out[np.flatnonzero(_numpy(single))] = listed
        return pa.array(~ruled_out)

    def _starts_with(self, leaf: StartsWith, outcome: bool, stats: ColumnStats, bounds: Bounds) -> pa.BooleanArray:
        test = normalize("=", leaf.prefix, stats.data_type, stats.exact)
        if not isinstance(test, tuple) or not pa.types.is_binary(bounds.low.type):
            return self._all(True)
        first, last = test[1], pa.scalar(test[1].as_py() + AFTER_PREFIX)
        if outcome:
            return pc.and_(_known(pc.less_equal(bounds.low, last)), _known(pc.greater_equal(bounds.high, first)))
        return pc.or_(_known(pc.less(bounds.low, first)), _known(pc.greater(bounds.high, last)))

    def _all(self, value: bool) -> pa.BooleanArray:
        return pa.repeat(pa.scalar(value), self._columns.num_files)


def _within(operator: ComparisonOperator, value: pa.Scalar, bounds: Bounds) -> pa.BooleanArray:
    """Return for each file whether a value between the bounds may satisfy the comparison with `value`."""
    low, high = bounds.low, bounds.high
    if operator == "=":
        return pc.and_(_known(pc.less_equal(low, value)), _known(pc.greater_equal(high, value)))
    if operator == "!=":
        return pc.or_(_known(pc.not_equal(low, value)), _known(pc.not_equal(high, value)))
    one_sided: dict[str, tuple[Callable[[pa.Array, pa.Scalar], pa.Array], pa.Array]] = {
        "<": (pc.less, low),
        "<=": (pc.less_equal, low),
        ">": (pc.greater, high),
        ">=": (pc.greater_equal, high),
    }
    compare, bound = one_sided[operator]
    return _known(compare(bound, value))


def _any_within(scalars: Sequence[pa.Scalar], bounds: Bounds) -> pa.BooleanArray:
    """Return for each file whether one of many values is between the bounds.

    Tests the least value that is at least `low`.
    """
    values = np.sort(_numpy(_array(scalars)))
    known = pc.and_(bounds.low.is_valid(), bounds.high.is_valid())
    rows = np.flatnonzero(_numpy(known))
    low, high = _numpy(bounds.low.filter(known)), _numpy(bounds.high.filter(known))
    at = np.searchsorted(values, low, side="left")
    found = np.ones(len(known), dtype=bool)
    found[rows] = (at < len(values)) & (values[np.minimum(at, len(values) - 1)] <= high)
    return pa.array(found)


def _array(scalars: Sequence[pa.Scalar]) -> pa.Array:
    return pa.array([scalar.as_py() for scalar in scalars], scalars[0].type)


def _numpy(array: pa.Array) -> np.ndarray:
    return cast("np.ndarray", array.to_numpy(zero_copy_only=False))


def _known(outcome: pa.BooleanArray) -> pa.BooleanArray:
    """Return `outcome` with nulls as True, because an unknown bound skips no file."""
    return outcome.fill_null(True)
