"""Column grouping: merges commits too close to distinguish, so that the picture has a bounded number of marks.

All lanes share the columns, so that simultaneous commits have one position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from slackwater.visualization.axis import TimeAxis
from slackwater.visualization.operations import Kind, kind_of
from slackwater.visualization.timeline import CommitGroup, CommitMark, Timeline

NEAREST = 13.0
"""Minimum distance of two columns in pixels."""


@dataclass(frozen=True, slots=True)
class ChangeTotals:
    """The sum of changes of several commits. None: no commit reports it. `is_partial`: some do not report it."""

    added: int | None = 0
    updated: int | None = 0
    removed: int | None = 0
    is_partial: bool = False


@dataclass(slots=True)
class CommitColumn:
    """The transactions at one position of the axis."""

    x: float
    deeds: list[CommitGroup] = field(default_factory=list)

    def marks(self, lane: int | None = None) -> list[CommitMark]:
        """Return the commits of one lane or of all lanes, oldest first."""
        return [mark for deed in self.deeds for mark in deed.marks if lane is None or mark.lane == lane]

    def bridges(self) -> dict[tuple[int, ...], list[CommitGroup]]:
        """Return the transactions over several lanes, by lane numbers."""
        found: dict[tuple[int, ...], list[CommitGroup]] = {}
        for deed in self.deeds:
            if len(deed.marks) > 1:
                found.setdefault(tuple(mark.lane for mark in deed.marks), []).append(deed)
        return found


def columns_of(timeline: Timeline, axis: TimeAxis) -> list[CommitColumn]:
    """Return the transactions in columns, from left to right.

    A column begins at its first transaction and contains all transactions less than NEAREST pixels after it. In dense
    timelines all columns have the same width, so that their sums are comparable.
    """
    columns: list[CommitColumn] = []
    for deed in timeline.deeds:
        x = axis.x(deed.at_ms)
        if not columns or x - columns[-1].x >= NEAREST:
            columns.append(CommitColumn(x))
        columns[-1].deeds.append(deed)
    return columns


def main_kind(marks: Sequence[CommitMark]) -> Kind:
    """Return the most frequent kind of `marks`. For a tie, the first in the order of kinds."""
    counts = Counter(kind_of(mark.operation) for mark in marks)
    order = list(Kind)
    return min(counts, key=lambda kind: (-counts[kind], order.index(kind)))


def rows_of(marks: Sequence[CommitMark]) -> ChangeTotals:
    """Return the rows added, updated and removed by `marks`."""
    done = [mark.changes for mark in marks]
    return _total([(c.rows_added, c.rows_updated, c.rows_removed) for c in done])


def bytes_of(marks: Sequence[CommitMark]) -> ChangeTotals:
    """Return the bytes of data files added and removed by `marks`."""
    return _total([(mark.changes.bytes_added, 0, mark.changes.bytes_removed) for mark in marks])


def files_of(marks: Sequence[CommitMark]) -> ChangeTotals:
    """Return the data files added and removed by `marks`."""
    return _total([(mark.changes.files_added, 0, mark.changes.files_removed) for mark in marks])


def vectors_of(marks: Sequence[CommitMark]) -> ChangeTotals:
    """Return the rows marked deleted by `marks` in retained files, and the rows unmarked again."""
    rows = [mark.changes.vector_rows for mark in marks]
    return _total([(max(r, 0), 0, max(-r, 0)) for r in rows])


def _total(told: Sequence[tuple[int | None, int | None, int | None]]) -> ChangeTotals:
    sides = [[value for value in side if value is not None] for side in zip(*told, strict=True)]
    added, updated, removed = (sum(side) if side else None for side in sides)
    return ChangeTotals(added, updated, removed, any(len(side) < len(told) for side in sides))
