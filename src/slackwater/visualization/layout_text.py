"""Texts about a layout, shared by the terminal and the HTML page."""

from __future__ import annotations

from slackwater.html.number_format import counted, number, short_bytes
from slackwater.visualization.layout import Layout
from slackwater.visualization.range_overlap import Overlap

_TENTH = 0.001


def deleted_words(layout: Layout) -> str:
    """Return the number and share of rows deleted by vectors. A non-zero share is never `0.0 %`."""
    count, value = number(layout.deleted_rows), layout.deleted_share
    if not value:
        return count
    return f"{count} (< 0.1 %)" if value < _TENTH else f"{count} ({value * 100:.1f} %)"


def optimize_words(layout: Layout) -> str:
    """Return the expected effect of OPTIMIZE in one or two sentences."""
    found = layout.optimize
    if not found.rewritten:
        return "OPTIMIZE has nothing to do: no files can be combined, and none has many deleted rows."
    about = "about " if found.is_clustered else ""
    clustered = ", clustered" if found.is_clustered else ""
    return (
        f"OPTIMIZE would rewrite {counted(found.rewritten, 'file')} ({short_bytes(found.rewritten_bytes)}) as {about}"
        f"{counted(found.written, 'file')}{clustered}. The table would have {about}"
        f"{counted(found.files_after, 'file')} instead of {number(found.files_before)}."
    )


def depth_words(overlap: Overlap) -> str | None:
    """Return notes about files without statistics or with nulls only."""
    told = []
    if overlap.unknown:
        told.append(f"{counted(overlap.unknown, 'file')} without statistics")
    if overlap.empty:
        told.append(f"{counted(overlap.empty, 'file')} of nulls")
    return ", ".join(told) or None
