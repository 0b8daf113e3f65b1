"""Commits that are too near each other to be told apart, taken together: a picture never has more than it has room for.

Instants of all lanes are gathered alike, so that what was done at once stands at one place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from slackwater.visualization.axis import TimeAxis
from slackwater.visualization.operations import Kind, kind_of
from slackwater.visualization.timeline import CommitGroup, CommitMark, Timeline

NEAREST = 13.0
"""Pixels between two columns, at least."""


@dataclass(frozen=True, slots=True)
class ChangeTotals:
    """What some commits did together; None where none of them tells, `is_partial` where some do not."""

    added: int | None = 0
    updated: int | None = 0
    removed: int | None = 0
    is_partial: bool = False


@dataclass(slots=True)
class CommitColumn:
    """What was done at one place of the axis, by one transaction or several."""

    x: float
    deeds: list[CommitGroup] = field(default_factory=list)

    def marks(self, lane: int | None = None) -> list[CommitMark]:
        """Its commits, of one lane or all, oldest first."""
        return [mark for deed in self.deeds for mark in deed.marks if lane is None or mark.lane == lane]

    def bridges(self) -> dict[tuple[int, ...], list[CommitGroup]]:
        """Its transactions over several lanes, by the numbers of these."""
        found: dict[tuple[int, ...], list[CommitGroup]] = {}
        for deed in self.deeds:
            if len(deed.marks) > 1:
                found.setdefault(tuple(mark.lane for mark in deed.marks), []).append(deed)
        return found


def columns_of(timeline: Timeline, axis: TimeAxis) -> list[CommitColumn]:
    """The deeds in columns from left to right.

    A column stands at its first deed, and has all that are less than NEAREST behind it: where there are many, columns
    are alike wide, and their sums can be compared.
    """
    columns: list[CommitColumn] = []
    for deed in timeline.deeds:
        x = axis.x(deed.at_ms)
        if not columns or x - columns[-1].x >= NEAREST:
            columns.append(CommitColumn(x))
        columns[-1].deeds.append(deed)
    return columns


def main_kind(marks: Sequence[CommitMark]) -> Kind:
    """The kind of most of `marks`; of several the one that is first in the order of kinds."""
    counts = Counter(kind_of(mark.operation) for mark in marks)
    order = list(Kind)
    return min(counts, key=lambda kind: (-counts[kind], order.index(kind)))


def rows_of(marks: Sequence[CommitMark]) -> ChangeTotals:
    """The rows that `marks` added, updated and removed."""
    done = [mark.changes for mark in marks]
    return _total([(c.rows_added, c.rows_updated, c.rows_removed) for c in done])


def bytes_of(marks: Sequence[CommitMark]) -> ChangeTotals:
    """The bytes of data files that `marks` added and removed."""
    return _total([(mark.changes.bytes_added, 0, mark.changes.bytes_removed) for mark in marks])


def files_of(marks: Sequence[CommitMark]) -> ChangeTotals:
    """The data files that `marks` added and removed."""
    return _total([(mark.changes.files_added, 0, mark.changes.files_removed) for mark in marks])


def vectors_of(marks: Sequence[CommitMark]) -> ChangeTotals:
    """The rows that `marks` marked as deleted in files that stayed, and those that are not so marked any more."""
    rows = [mark.changes.vector_rows for mark in marks]
    return _total([(max(r, 0), 0, max(-r, 0)) for r in rows])


def _total(told: Sequence[tuple[int | None, int | None, int | None]]) -> ChangeTotals:
    sides = [[value for value in side if value is not None] for side in zip(*told, strict=True)]
    added, updated, removed = (sum(side) if side else None for side in sides)
    return ChangeTotals(added, updated, removed, any(len(side) < len(told) for side in sides))
