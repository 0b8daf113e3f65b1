"""Predicate type of a scan, created from SQL text or from a Spark Column.

A predicate only decides which *files* may contain a match. `Unprunable` represents every condition unsupported for
pruning: any row may match, so no file is pruned. The reader evaluates the original condition on the rows.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal as OneOf

Value = bool | int | float | str | bytes | Decimal | dt.date | dt.datetime
"""A literal. A datetime without a zone is a `timestamp_ntz`, a datetime with a zone is a `timestamp`."""

ComparisonOperator = OneOf["=", "<=>", "!=", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`column op value`. `column` is the path of a leaf column by display names, e.g. `("a", "b")` for `a.b`."""

    column: tuple[str, ...]
    operator: ComparisonOperator
    value: Value


@dataclass(frozen=True, slots=True)
class In:
    """`column IN (values)`. `has_null` if the list contains a NULL, so the negation is never true."""

    column: tuple[str, ...]
    values: tuple[Value, ...]
    has_null: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    """`column IS NULL`."""

    column: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StartsWith:
    """`column LIKE 'prefix%'`, for text columns only."""

    column: tuple[str, ...]
    prefix: str


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE, FALSE or NULL for any row."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class Unprunable:
    """A condition unsupported for pruning. `text` is for explanations."""

    text: str = ""


@dataclass(frozen=True, slots=True)
class Not:
    """Three-valued negation."""

    child: Predicate


@dataclass(frozen=True, slots=True)
class And:
    """Three-valued conjunction."""

    children: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Three-valued disjunction."""

    children: tuple[Predicate, ...]


Predicate = Comparison | In | IsNull | StartsWith | Constant | Unprunable | Not | And | Or


def columns_of(predicate: Predicate) -> frozenset[tuple[str, ...]]:
    """Return the paths of all columns in `predicate`."""
    if isinstance(predicate, (And, Or)):
        return frozenset().union(*(columns_of(child) for child in predicate.children))
    if isinstance(predicate, Not):
        return columns_of(predicate.child)
    if isinstance(predicate, (Comparison, In, IsNull, StartsWith)):
        return frozenset({predicate.column})
    return frozenset()


def with_columns(predicate: Predicate, change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> Predicate:
    """Return `predicate` with the path of each column replaced by the result of `change`."""
    if isinstance(predicate, (And, Or)):
        return replace(predicate, children=tuple(with_columns(child, change) for child in predicate.children))
    if isinstance(predicate, Not):
        return Not(with_columns(predicate.child, change))
    if isinstance(predicate, (Constant, Unprunable)):
        return predicate
    return replace(predicate, column=change(predicate.column))


def is_understood(predicate: Predicate) -> bool:
    """Return whether every part of the condition is a deterministic condition on columns and literals."""
    if isinstance(predicate, (And, Or)):
        return all(map(is_understood, predicate.children))
    if isinstance(predicate, Not):
        return is_understood(predicate.child)
    return not isinstance(predicate, Unprunable)


def not_true(predicate: Predicate) -> Predicate:
    """Return a condition true for every row for which `predicate` is false or NULL.

    If the condition cannot be true in a file, `predicate` is true for every row of the file.
    """
    return Or((Not(predicate), *_may_be_null(predicate)))


def _may_be_null(predicate: Predicate) -> tuple[Predicate, ...]:
    if isinstance(predicate, (And, Or)):
        return tuple(null for child in predicate.children for null in _may_be_null(child))
    if isinstance(predicate, Not):
        return _may_be_null(predicate.child)
    if isinstance(predicate, Comparison):
        return () if predicate.operator == "<=>" else (IsNull(predicate.column),)
    if isinstance(predicate, In):
        return (Unprunable("NULL in a list"),) if predicate.has_null else (IsNull(predicate.column),)
    if isinstance(predicate, StartsWith):
        return (IsNull(predicate.column),)
    if isinstance(predicate, Constant):
        return () if predicate.value is not None else (Constant(True),)
    return (predicate,) if isinstance(predicate, Unprunable) else ()
