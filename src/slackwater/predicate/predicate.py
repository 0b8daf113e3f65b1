"""What a scan can be asked for: one small predicate type, made from SQL text or from a Spark Column.

A predicate here only decides which *files* may hold a match. `Unprunable` stands for every condition that cannot be
said in these terms: it may hold for any row, so it never prunes. The reader evaluates the real condition on the rows.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal as OneOf

Value = bool | int | float | str | bytes | Decimal | dt.date | dt.datetime
"""A literal. A zoneless datetime is a `timestamp_ntz`; one with a zone is a `timestamp`."""

ComparisonOperator = OneOf["=", "<=>", "!=", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`column op value`; `column` is the path of a leaf column by display names, e.g. `("a", "b")` for `a.b`."""

    column: tuple[str, ...]
    operator: ComparisonOperator
    value: Value


@dataclass(frozen=True, slots=True)
class In:
    """`column IN (values)`; `has_null` where the list holds a NULL, so that the negation never holds."""

    column: tuple[str, ...]
    values: tuple[Value, ...]
    has_null: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    """`column IS NULL`."""

    column: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StartsWith:
    """`column LIKE 'prefix%'`: text columns only."""

    column: tuple[str, ...]
    prefix: str


@dataclass(frozen=True, slots=True)
class Constant:
    """TRUE, FALSE or NULL, whatever the row."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class Unprunable:
    """A condition that says nothing about files; `text` is for explanations."""

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
    """The column paths that `predicate` speaks of."""
    if isinstance(predicate, (And, Or)):
        return frozenset().union(*(columns_of(child) for child in predicate.children))
    if isinstance(predicate, Not):
        return columns_of(predicate.child)
    if isinstance(predicate, (Comparison, In, IsNull, StartsWith)):
        return frozenset({predicate.column})
    return frozenset()


def is_understood(predicate: Predicate) -> bool:
    """Whether no part of the condition is unknown: it is of columns and literals, and the same whenever it is asked."""
    if isinstance(predicate, (And, Or)):
        return all(map(is_understood, predicate.children))
    if isinstance(predicate, Not):
        return is_understood(predicate.child)
    return not isinstance(predicate, Unprunable)


def not_true(predicate: Predicate) -> Predicate:
    """A condition that holds for every row for which `predicate` is false or NULL: of a file for which it cannot hold,
    every row makes `predicate` true.
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
