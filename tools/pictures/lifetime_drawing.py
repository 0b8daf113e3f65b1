"""How it is drawn what becomes of rows and files: deletion vectors, and what VACUUM deletes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tools.pictures.file_drawing import LEFT, drawn, file_box, says

from slackwater.html.element import Markup, element
from slackwater.visualization.svg import line, rect, text, width_of


@dataclass(frozen=True)
class RowsShown:
    """A version: what its commit says, the rows of its files and whether they are read, and the files that are there.

    `present` says of each whether the version needs it.
    """

    version: int
    operation: str
    said: Sequence[tuple[str, str]]
    rows: Mapping[str, Sequence[tuple[int, bool]]]
    present: Sequence[tuple[str, bool]]


@dataclass(frozen=True)
class FileDays:
    """Since when a file is there, when it was removed, the versions that need it, and whether VACUUM deleted it."""

    letter: str
    written: float
    removed: float | None
    versions: tuple[int, ...]
    is_deleted: bool


@dataclass(frozen=True)
class VersionShown:
    """The day of a version, and whether it can be read after the VACUUM."""

    version: int
    day: float
    is_readable: bool


def rows_svg(versions: Sequence[RowsShown]) -> str:
    """A column for each version: its commit, the rows of its file, and below it the directory."""
    top, left, column, row = 62.0, 124.0, 184.0, 25.0
    most = max(len(rows) for version in versions for rows in version.rows.values())
    rows_top = top + 84
    listing = rows_top + row * most + 50
    parts: list[Markup] = [
        text(LEFT, top + 4, "the commit", "sw-t-name"),
        text(LEFT, rows_top + 4, "the rows", "sw-t-name"),
        text(LEFT, listing + 16, "the directory", "sw-t-name"),
    ]
    for number, version in enumerate(versions):
        x = left + column * number + 10
        if number:
            parts.append(line(x - 18, top - 12, x - 18, listing + 58, "sw-grid"))
        parts.append(says(x, top + 4, f"{version.version}.json", "accent", strong=True))
        parts.append(says(x + width_of(f"{version.version}.json") + 14, top + 4, version.operation, strong=True))
        for place, (kind, words) in enumerate(version.said):
            parts.append(says(x, top + 24 + 17 * place, f"{kind} {words}", "good" if kind == "add" else "bad"))
        for letter, rows in version.rows.items():
            parts.append(text(x, rows_top + 4, f"file {letter}", "sw-t-name"))
            parts += [_row(x, rows_top + 14 + row * place, *found) for place, found in enumerate(rows)]
        for place, (name, is_needed) in enumerate(version.present):
            box = file_box(
                x + 72 * (place % 2), listing + 28 * (place // 2), 66, name, "accent" if is_needed else "gone"
            )
            parts.append(box)
    notes = [
        "A DELETE writes which rows of a file are gone, not the file. Another one writes that anew, for both together.",
        "REORG … APPLY (PURGE) writes the rows that are left. What no version needs any more is VACUUM's to delete.",
    ]
    return drawn("A deleted row is marked, and stays where it is", listing + 70, parts, notes)


def _row(x: float, y: float, id_: int, is_live: bool) -> Markup:
    class_ = "sw-t" if is_live else "sw-says-muted sw-struck"
    words = f"id = {id_}"
    return element(
        "g", rect(x, y, 138, 21, f"sw-file-{'good' if is_live else 'gone'}", rx=2), text(x + 10, y + 15, words, class_)
    )


def vacuum_svg(files: Sequence[FileDays], versions: Sequence[VersionShown], retention_days: float, today: float) -> str:
    """Days from left to right: versions, and below them a line for each file with what became of it."""
    left, unit, top, row = 112.0, 38.0, 64.0, 34.0
    bars = top + 58
    bottom = bars + row * len(files)
    cutoff = today - retention_days

    def x(day: float) -> float:
        return left + day * unit

    parts: list[Markup] = [
        text(LEFT, top + 17, "versions", "sw-t-name"),
        text(LEFT, bars + 15, "files", "sw-t-name"),
        rect(x(cutoff), top - 10, x(today) - x(cutoff), bottom - top + 10, "sw-soft"),
        text(x(today) + 18, top + 17, "after VACUUM", "sw-t-name"),
        text(LEFT, bottom + 20, "day", "sw-t-small"),
    ]
    for day in range(round(today) + 1):
        parts.append(line(x(day), top - 10, x(day), bottom + 4, "sw-grid"))
        parts.append(text(x(day), bottom + 20, f"{day}", "sw-t-small", "middle"))
    ends = [*(version.day for version in versions[1:]), today]
    for version, end in zip(versions, ends, strict=True):
        kind = "accent" if version.is_readable else "gone"
        parts.append(file_box(x(version.day) + 2, top, x(end) - x(version.day) - 4, f"{version.version}", kind))
    retained = [v.version for v, end in zip(versions, ends, strict=True) if end >= cutoff]
    for number, file in enumerate(files):
        y = bars + row * number
        end = today if file.removed is None else file.removed
        if file.versions:
            parts.append(rect(x(file.written), y, x(end) - x(file.written), 20, "sw-is-mark", rx=3))
        if not file.versions or file.removed is not None:
            begin = end if file.versions else file.written
            parts.append(rect(x(begin), y, x(today) - x(begin), 20, "sw-file-gone", rx=3))
        parts.append(text(x(file.written) - 8, y + 15, file.letter, "sw-t-name sw-t-halo", "end"))
        words, kind = ("is deleted", "bad") if file.is_deleted else ("stays", "good")
        parts.append(says(x(today) + 18, y + 15, words, kind, strong=True))
        parts.append(says(x(today) + 26 + width_of(words) + 6, y + 15, _why(file, retained, versions[-1].version)))
    parts += [line(x(day), top - 18, x(day), bottom + 4, "sw-line-warn") for day in (cutoff, today)]
    parts.append(says(x(cutoff) + 6, bottom - 6 + 44, f"retained: {retention_days:g} days", "warn", strong=True))
    notes = [
        "Every version that was current in the retained days keeps its files; one with a dashed frame is lost.",
        "w and x are of writers that never committed: w is old enough to go, x may still be committed.",
    ]
    return drawn("VACUUM deletes what no retained version needs", bottom + 52, parts, notes)


def _why(file: FileDays, retained: Sequence[int], newest: int) -> str:
    if not file.versions:
        return "old, in no commit" if file.is_deleted else "new, in no commit"
    if newest in file.versions:
        return "in the table"
    needing = [version for version in file.versions if version in retained]
    return f"version {needing[-1]} needs it" if needing else f"last in version {file.versions[-1]}"
