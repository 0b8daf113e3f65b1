"""How it is drawn what is where at several moments, or in several cases: a column for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tools.pictures.file_drawing import LEFT, WIDTH, drawn, file_box, says

from slackwater.html.element import Markup
from slackwater.visualization.svg import line, text, width_of

_BOX, _LINE, _GAP = 30.0, 18.0, 16.0


@dataclass(frozen=True)
class Cell:
    """Something at a moment: a file where `kind` is a look of one, in words of a colour where it is `says-…`."""

    words: str
    kind: str = ""

    @property
    def is_file(self) -> bool:
        """Whether it is drawn as a file."""
        return bool(self.kind) and not self.kind.startswith("says-")

    @property
    def width(self) -> float:
        """How wide a file with these words is."""
        return max(30.0, width_of(self.words) + 14)


@dataclass(frozen=True)
class Row:
    """What is asked at each moment; a label of several lines has several texts."""

    label: Sequence[str]
    cells: Sequence[Sequence[Cell]]


def moments_svg(
    title: str, columns: Sequence[Sequence[str]], rows: Sequence[Row], notes: Sequence[str], corner: str = ""
) -> str:
    """The title of each column in one or two lines, below it what `rows` say; `corner` stands before the titles."""
    left, top = 172.0, 62.0
    column = (WIDTH - left - 12) / len(columns)
    parts: list[Markup] = [text(LEFT, top, corner, "sw-t-small")] if corner else []
    for number, lines in enumerate(columns):
        for place, words in enumerate(lines):
            parts.append(text(left + column * number, top + 17 * place, words, "sw-t-name"))
    y = top + 17 * (max(map(len, columns)) - 1) + 18
    for row in rows:
        height = max(
            _LINE * len(row.label),
            *(_height(cells, column - 10) for cells in row.cells),
        )
        parts.append(line(LEFT, y, WIDTH - 12, y, "sw-grid"))
        inside = y + _GAP / 2
        for place, words in enumerate(row.label):
            parts.append(says(LEFT, inside + 13 + _LINE * place, words, strong=not place))
        for number, cells in enumerate(row.cells):
            parts += _cells(cells, left + column * number, inside, column - 10)
        y += height + _GAP
    return drawn(title, y + 6, parts, notes)


def _height(cells: Sequence[Cell], width: float) -> float:
    """How high the cells of one moment are."""
    files = _lines(cells, width)
    return _BOX * len(files) + _LINE * sum(not cell.is_file for cell in cells) + (6 if not files else 0)


def _lines(cells: Sequence[Cell], width: float) -> list[list[Cell]]:
    """The files in lines that fit."""
    lines: list[list[Cell]] = []
    used = 0.0
    for cell in cells:
        if not cell.is_file:
            continue
        if not lines or used + cell.width > width:
            lines.append([])
            used = 0.0
        lines[-1].append(cell)
        used += cell.width + 5
    return lines


def _cells(cells: Sequence[Cell], x: float, y: float, width: float) -> list[Markup]:
    parts: list[Markup] = []
    for files in _lines(cells, width):
        at = x
        for cell in files:
            parts.append(file_box(at, y - 2, cell.width, cell.words, cell.kind))
            at += cell.width + 5
        y += _BOX
    for cell in cells:
        if not cell.is_file:
            parts.append(says(x, y + 13, cell.words, cell.kind.removeprefix("says-"), strong=bool(cell.kind)))
            y += _LINE
    return parts
