"""Texts about commits for pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from slackwater.html.number_format import iso, short_bytes, shortened, signed, utc_text
from slackwater.owner.api.timestamp_range import at_ms
from slackwater.visualization.commit_columns import ChangeTotals, bytes_of, files_of, rows_of, vectors_of
from slackwater.visualization.timeline import CommitGroup, CommitMark

UNKNOWN = "?"
_MOST_OPERATIONS = 4
_MOST_USERS = 3
_MOST_NOTE = 80
_DAY = len("2026-11-23")


def instant(ms: int) -> str:
    """`2026-11-23 10:00:00.000 UTC`."""
    return f"{utc_text(at_ms(ms))} UTC"


def iso_ms(ms: int) -> str:
    """`2026-11-23T10:00:00.000Z`: the format for `as_of`."""
    return iso(at_ms(ms))


def period(first_ms: int, last_ms: int) -> str:
    """`2026-11-23 10:00:00 to 10:00:05 UTC`, in whole seconds. The end omits an unchanged day."""
    first, last = (utc_text(at_ms(ms))[:-4] for ms in (first_ms, last_ms))
    if first == last:
        return f"{first} UTC"
    return f"{first} to {last[_DAY + 1 :] if first[:_DAY] == last[:_DAY] else last} UTC"


def versions(marks: Sequence[CommitMark]) -> str:
    """`3`, `3–14`: versions of commits to one table, oldest first."""
    first, last = marks[0].version, marks[-1].version
    return str(first) if first == last else f"{first}–{last}"


def mark_words(marks: Sequence[CommitMark], table: str) -> str:
    """Return lines about commits to one table: versions, times, users, operations and changes."""
    if len(marks) == 1:
        return "\n".join([f"{table}, version {marks[0].version}: {_by(marks)}", instant(marks[0].at_ms), *_did(marks)])
    counts = Counter(mark.operation or UNKNOWN for mark in marks).most_common()
    named = ", ".join(f"{name} × {count}" for name, count in counts[:_MOST_OPERATIONS])
    more = ", …" if len(counts) > _MOST_OPERATIONS else ""
    head = f"{table}, versions {versions(marks)}: {len(marks):,} commits: {named}{more}{_users(marks)}"
    return "\n".join([head, period(marks[0].at_ms, marks[-1].at_ms), *_did(marks)])


def change(total: ChangeTotals) -> str:
    """`+3 ~2 −1`: additions, updates and removals. `?` is unreported; zero is empty.

    If only some commits report a number, the text starts with `at least`.
    """
    if total.added is None and total.updated is None and total.removed is None:
        return UNKNOWN
    parts = [_part(total.added, 1), _part(total.updated, 0), _part(total.removed, -1)]
    least = "at least" if total.is_partial and UNKNOWN not in "".join(parts) else ""
    return " ".join(part for part in (least, *parts) if part)


def byte_change(total: ChangeTotals) -> str:
    """`+4.4 KiB −312 B`. `?` is unreported; zero is empty."""
    parts = [
        f"{sign}{UNKNOWN if value is None else short_bytes(value)}"
        for sign, value in (("+", total.added), ("−", total.removed))
        if value != 0
    ]
    return " ".join(parts)


def lane_marks(deed: CommitGroup, lanes: int) -> str:
    """`●─┼─●`: one transaction across `lanes` tables. A dot is a commit, and a line joins the commits."""
    at = {mark.lane for mark in deed.marks}
    first, last = min(at), max(at)
    marks = []
    for lane in range(lanes):
        is_joined = first < lane < last
        marks.append("●" if lane in at else "┼" if is_joined else "│")
        marks.append("─" if first <= lane < last else " ")
    return "".join(marks).rstrip(" ")


def _part(value: int | None, sign: int) -> str:
    mark = {1: "+", 0: "~", -1: "−"}[sign]
    if value is None:
        return f"{mark}{UNKNOWN}"
    return "" if not value else f"~{value:,}" if not sign else signed(sign * value)


def _did(marks: Sequence[CommitMark]) -> list[str]:
    rows, files, size = change(rows_of(marks)), change(files_of(marks)), byte_change(bytes_of(marks))
    marked = change(vectors_of(marks))
    told = {"rows": rows, "files": files, "bytes": size, "rows deleted by vectors": marked}
    done = " · ".join(f"{name} {found}" for name, found in told.items() if found)
    notes = [mark.note for mark in marks if mark.note]
    return [line for line in (done, f"note: {shortened(notes[-1], _MOST_NOTE)}" if notes else "") if line]


def _by(marks: Sequence[CommitMark]) -> str:
    return f"{marks[0].operation or UNKNOWN}{_users(marks)}"


def _users(marks: Sequence[CommitMark]) -> str:
    names = list(dict.fromkeys(mark.user for mark in marks if mark.user))
    shown = ", ".join(names[:_MOST_USERS])
    return f" by {shown}{', …' if len(names) > _MOST_USERS else ''}" if names else ""
