"""How it is drawn which files of a log a reader reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tools.pictures.file_drawing import LEFT, WIDTH, drawn, file_box, says

from slackwater.html.element import Markup
from slackwater.visualization.svg import circle, line, text, width_of

_BOLD = 1.12
"""How much wider bold letters are."""


@dataclass(frozen=True)
class LogRow:
    """Files of one kind, by the versions that they are of; `kind` is their look."""

    name: str
    files: Sequence[tuple[int, str]]
    kind: str = "plain"


@dataclass(frozen=True)
class Reader:
    """What is read: by the name of its row and its version, in order; and what comes of it."""

    who: str
    read: Sequence[tuple[str, int]]
    outcome: str


def segment_svg(title: str, rows: Sequence[LogRow], readers: Sequence[Reader], notes: Sequence[str]) -> str:
    """The files of a log in columns by their versions; below them a line for each reader through what it reads."""
    left, right, top, row = 172.0, 150.0, 60.0, 34.0
    versions = range(max(version for log_row in rows for version, _ in log_row.files) + 1)
    column = (WIDTH - left - right) / len(versions)
    parts: list[Markup] = []
    for place, log_row in enumerate(rows):
        y = top + row * place
        parts.append(text(LEFT, y + 16, log_row.name, "sw-t-name"))
        by_version: dict[int, list[str]] = {}
        for version, name in log_row.files:
            by_version.setdefault(version, []).append(name)
        for version, names in by_version.items():
            wide = max(
                column - 10, *((width_of(name) * (1 if log_row.kind == "plain" else _BOLD) + 12) for name in names)
            )
            middle = left + column * (version + 0.5) - 4
            for number, name in enumerate(names):
                x = middle + (wide + 4) * (number - len(names) / 2) + 2
                parts.append(file_box(x, y, wide, name, log_row.kind))
    first = top + row * len(rows) + 32
    parts.append(text(LEFT, first - 10, "who reads", "sw-t-small"))
    parts.append(text(WIDTH - right + 8, first - 10, "what is found", "sw-t-small"))
    for version in versions:
        x = left + column * (version + 0.5) - 4
        parts.append(line(x, first - 22, x, first + 40 * len(readers) + 4, "sw-grid"))
    for number, reader in enumerate(readers):
        y = first + 40 * number + 16
        parts.append(says(LEFT, y + 4, reader.who))
        ends = [left + column * (version + 0.5) - 4 for _, version in reader.read]
        if ends:
            parts.append(line(ends[0], y, ends[-1], y, "sw-line-accent"))
        for x, (name, _) in zip(ends, reader.read, strict=True):
            kind = next(log_row.kind for log_row in rows if log_row.name == name)
            colour = "mark" if kind == "plain" else kind
            parts.append(circle(x, y, 9 if kind != "plain" else 7, f"sw-is-{colour}"))
        parts.append(text(WIDTH - right + 8, y + 4, reader.outcome, "sw-t-name"))
    return drawn(title, first + 40 * len(readers) + 10, parts, notes)
