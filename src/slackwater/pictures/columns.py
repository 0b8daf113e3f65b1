"""Commits that are too near each other to be told apart, taken together: a picture never has more than it has room for.

Instants of all lanes are gathered alike, so that what was done at once stands at one place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from slackwater.pictures.axis import TimeAxis
from slackwater.pictures.operations import Kind, kind_of
from slackwater.pictures.timeline import Deed, Mark, Timeline

NEAREST = 13.0
"""Pixels between two columns, at least."""


@dataclass(frozen=True, slots=True)
class Total:
    """What some commits did together; None where none of them tells, `is_partial` where some do not."""

    added: int | None = 0
    updated: int | None = 0
    removed: int | None = 0
    is_partial: bool = False


@dataclass(slots=True)
class Column:
    """What was done at one place of the axis, by one transaction or several."""

    x: float
    deeds: list[Deed] = field(default_factory=list)

    def marks(self, lane: int | None = None) -> list[Mark]:
        """Its commits, of one lane or all, oldest first."""
        return [mark for deed in self.deeds for mark in deed.marks if lane is None or mark.lane == lane]

    def bridges(self) -> dict[tuple[int, ...], list[Deed]]:
        """Its transactions over several lanes, by the numbers of these."""
        found: dict[tuple[int, ...], list[Deed]] = {}
        for deed in self.deeds:
            if len(deed.marks) > 1:
                found.setdefault(tuple(mark.lane for mark in deed.marks), []).append(deed)
        return found


def columns_of(timeline: Timeline, axis: TimeAxis) -> list[Column]:
    """The deeds in columns from left to right; one deed alone stands at its exact time, several at their mean."""
    columns: list[Column] = []
    start = float("-inf")
    for deed in timeline.deeds:
        x = axis.x(deed.at_ms)
        if x - start >= NEAREST or not columns:
            columns.append(Column(x))
            start = x
        columns[-1].deeds.append(deed)
    for column in columns:
        column.x = sum(axis.x(deed.at_ms) for deed in column.deeds) / len(column.deeds)
    return _apart(columns)


def _apart(columns: list[Column]) -> list[Column]:
    """The columns, those joined whose means came too near each other."""
    found: list[Column] = []
    for column in columns:
        if found and column.x - found[-1].x < NEAREST:
            last = found[-1]
            counts = len(last.deeds), len(column.deeds)
            last.x = (last.x * counts[0] + column.x * counts[1]) / sum(counts)
            last.deeds.extend(column.deeds)
        else:
            found.append(column)
    return found


def main_kind(marks: Sequence[Mark]) -> Kind:
    """The kind of most of `marks`; of several the one that is first in the order of kinds."""
    counts = Counter(kind_of(mark.operation) for mark in marks)
    order = list(Kind)
    return min(counts, key=lambda kind: (-counts[kind], order.index(kind)))


def rows_of(marks: Sequence[Mark]) -> Total:
    """The rows that `marks` added, updated and removed."""
    done = [mark.changes for mark in marks]
    return _total([(c.rows_added, c.rows_updated, c.rows_removed) for c in done])


def bytes_of(marks: Sequence[Mark]) -> Total:
    """The bytes of data files that `marks` added and removed."""
    return _total([(mark.changes.bytes_added, 0, mark.changes.bytes_removed) for mark in marks])


def files_of(marks: Sequence[Mark]) -> Total:
    """The data files that `marks` added and removed."""
    return _total([(mark.changes.files_added, 0, mark.changes.files_removed) for mark in marks])


def vectors_of(marks: Sequence[Mark]) -> Total:
    """The rows that `marks` marked as deleted in files that stayed, and those that are not so marked any more."""
    rows = [mark.changes.vector_rows for mark in marks]
    return _total([(max(r, 0), 0, max(-r, 0)) for r in rows])


def _total(told: Sequence[tuple[int | None, int | None, int | None]]) -> Total:
    sides = [[value for value in side if value is not None] for side in zip(*told, strict=True)]
    added, updated, removed = (sum(side) if side else None for side in sides)
    return Total(added, updated, removed, any(len(side) < len(told) for side in sides))
