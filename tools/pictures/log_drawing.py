"""How the pictures of a log are drawn: versions and the lives of files, and two writers before one version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tools.pictures.file_drawing import LEFT, WIDTH, arrow, drawn, file_box, says

from slackwater.html.element import Markup
from slackwater.visualization.svg import circle, line, rect, text, width_of


@dataclass(frozen=True)
class CommitShown:
    """A version, what its commit says, and the files of the table then."""

    version: int
    operation: str
    added: Sequence[str]
    removed: Sequence[str]
    files: Sequence[str]


@dataclass(frozen=True)
class WriterStep:
    """What a writer does to the log; `lands` names the file that is there from then on."""

    who: str
    words: Sequence[str]
    file: str = ""
    kind: str = "muted"
    lands: bool = False


def commits_svg(commits: Sequence[CommitShown], present: Sequence[str]) -> str:
    """A column for each commit, below them a bar for each file; `present` are the files that still lie there."""
    left, column, top, row = 120.0, 146.0, 56.0, 30.0
    parts: list[Markup] = [
        text(LEFT, top + 17, "_delta_log/", "sw-t-name"),
        text(LEFT, top + 127, "files", "sw-t-name"),
    ]
    letters = sorted({letter for commit in commits for letter in commit.files})
    bars = top + 112
    bottom = bars + row * len(letters)
    for number, commit in enumerate(commits):
        x = left + column * number
        parts.append(file_box(x, top, column - 22, f"{commit.version}.json", "accent"))
        parts.append(says(x + 2, top + 44, commit.operation, strong=True))
        said = [("add " + letter, "good") for letter in commit.added]
        said += [("remove " + letter, "bad") for letter in commit.removed]
        for place, (words, kind) in enumerate(said or [("columns, settings", "muted")]):
            parts.append(says(x + 2, top + 63 + 17 * place, words, kind))
        parts.append(line(x - 11, top + 96, x - 11, bottom + 34, "sw-grid"))
        shown = ", ".join(commit.files) or "no file"
        parts.append(text(x + 2, bottom + 24, shown, "sw-t-name"))
    for place, letter in enumerate(letters):
        within = [number for number, commit in enumerate(commits) if letter in commit.files]
        y = bars + row * place
        first, last = left + column * within[0], left + column * (within[-1] + 1)
        parts.append(rect(first, y, last - first - 22, 20, "sw-file-accent", rx=3))
        parts.append(text(first + 10, y + 15, letter, "sw-t-name"))
        if within[-1] < len(commits) - 1 and letter in present:
            end = left + column * len(commits) - 22
            parts.append(file_box(last, y, end - last, "still lies there", "gone", 20))
    parts.append(text(LEFT, bottom + 24, "a reader finds", "sw-t"))
    notes = ["The files of a version are what lies below its commit. Nothing of an older version was changed."]
    return drawn("A table is files, and a log that says which of them count", bottom + 44, parts, notes)


def race_svg(title: str, steps: Sequence[WriterStep], files: Sequence[str], notes: Sequence[str]) -> str:
    """Steps from left to right: a lane for each writer, and the log between them; `files` are there at first."""
    lanes = {"A": 124.0, "log": 206.0, "B": 282.0}
    left = 216.0
    column = (WIDTH - left - 30) / len(steps)
    parts: list[Markup] = [
        text(LEFT, lanes["A"] + 5, "writer A", "sw-t-name"),
        text(LEFT, lanes["log"] + 5, "_delta_log/", "sw-t-name"),
        text(LEFT, lanes["B"] + 5, "writer B", "sw-t-name"),
        *[file_box(104 + 52 * n, lanes["log"] - 12, 46, name) for n, name in enumerate(files)],
    ]
    for who in ("A", "B"):
        own = [number for number, step in enumerate(steps) if step.who == who]
        parts.append(
            line(left + column * own[0], lanes[who], left + column * (own[-1] + 0.5), lanes[who], "sw-line-muted")
        )
    for number, step in enumerate(steps):
        parts += _writer_step(step, left + column * (number + 0.5), lanes)
    return drawn(title, 352, parts, notes)


def _writer_step(step: WriterStep, x: float, lanes: dict[str, float]) -> list[Markup]:
    y, is_above = lanes[step.who], step.who == "A" and bool(step.file or step.kind == "muted")
    parts: list[Markup] = []
    first_line = y - 14 - 16 * (len(step.words) - 1) if is_above else y + 26
    for place, words in enumerate(step.words):
        is_told = place == len(step.words) - 1 or (place and not step.file)
        kind = step.kind if is_told and step.kind != "muted" else ""
        parts.append(says(x, first_line + 16 * place, words, kind, "middle", bool(kind)))
    if step.file:
        near, far = (y + 8, lanes["log"] - 16) if is_above else (y - 8, lanes["log"] + 16)
        reads = step.words[0].startswith("reads")
        parts.append(arrow(x, far, x, near, step.kind) if reads else arrow(x, near, x, far, step.kind))
        wide = max(52.0, width_of(step.file) + 12)
        kind = "accent" if step.lands else "gone"
        parts.append(file_box(x - wide / 2, lanes["log"] - 12, wide, step.file, kind))
    parts.append(circle(x, y, 6, f"sw-is-{'mark' if step.kind == 'muted' else step.kind}"))
    return parts
