"""Timeline picture: one lane per table, lines across lanes for transactions, and sums below.

The axis is serialization time. Commits too close to distinguish share one mark with their number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slackwater.html.element import Markup, element, fragment
from slackwater.html.number_format import counted, short_bytes, shortened, signed
from slackwater.visualization.axis import TimeAxis
from slackwater.visualization.commit_columns import (
    ChangeTotals,
    CommitColumn,
    bytes_of,
    columns_of,
    files_of,
    main_kind,
    rows_of,
    vectors_of,
)
from slackwater.visualization.commit_text import instant, mark_words, period, versions
from slackwater.visualization.operations import Kind
from slackwater.visualization.svg import circle, fitted, hint, line, path, picture, rect, text, width_of
from slackwater.visualization.timeline import CommitGroup, CommitMark, Timeline

WIDTH = 1160.0
_GUTTER, _RIGHT = 190.0, 24.0
_PLOT = WIDTH - _GUTTER - _RIGHT
_LANE, _PANEL, _GAP = 50.0, 62.0, 14.0
_AXIS = 44.0
_HEAD = 62.0
_LEGEND = 30.0
_BAR = 8.0
_MARK = 5.0
_COLOURS = {
    Kind.WRITE: "mark",
    Kind.CHANGE: "warn",
    Kind.DELETE: "bad",
    Kind.UPKEEP: "muted",
    Kind.DEFINITION: "good",
    Kind.RETURN: "accent",
    Kind.OTHER: "muted",
}


@dataclass(frozen=True, slots=True)
class RenderedTimeline:
    """A drawn timeline: its picture, its axis, and the vertical extent of the plot."""

    picture: Markup
    axis: TimeAxis
    top: float
    bottom: float


@dataclass(frozen=True, slots=True)
class _Panel:
    name: str
    what: Callable[[Sequence[CommitMark]], ChangeTotals]
    shown: Callable[[int], str]


def _signed_bytes(value: int) -> str:
    return f"{'+' if value > 0 else '−' if value < 0 else ''}{short_bytes(abs(value))}"


_PANELS = (
    _Panel("Rows", rows_of, signed),
    _Panel("Bytes", bytes_of, _signed_bytes),
    _Panel("Files", files_of, signed),
    _Panel("Rows deleted by vectors", vectors_of, signed),
)


def draw_timeline(
    timeline: Timeline, with_head: bool = True, overlay: Callable[..., Markup] | None = None
) -> RenderedTimeline:
    """Return the picture of `timeline`, `WIDTH` pixels wide. Omit the head if the page has one.

    `overlay(axis, top, bottom)` is drawn on top: the line of a slider.
    """
    axis = _axis(timeline)
    columns = columns_of(timeline, axis)
    top = _HEAD if with_head else 8.0
    lanes_bottom = top + _LANE * len(timeline.lanes)
    panels = [panel for panel in _PANELS if any(_is_any(panel.what(column.marks())) for column in columns)]
    bottom = lanes_bottom + sum(_PANEL + _GAP for _ in panels) + 4
    parts: list[Markup] = [_head(timeline)] if with_head else []
    parts.append(_lanes(timeline, top))
    parts.append(_grid(axis, top, bottom) if timeline.deeds else _nothing(top))
    parts.extend(_bridge(column, top, timeline.lanes) for column in columns)
    parts.extend(_marks(columns, lane, top + _LANE * (lane + 0.5), timeline) for lane in range(len(timeline.lanes)))
    y = lanes_bottom + _GAP
    for panel in panels:
        parts.append(_drawn_panel(panel, columns, y))
        y += _PANEL + _GAP
    if overlay is not None and timeline.deeds:
        parts.append(overlay(axis, top, bottom))
    height = bottom + _AXIS + _LEGEND
    parts.append(_legend(timeline, bottom + _AXIS))
    return RenderedTimeline(picture(WIDTH, height, _label(timeline), *parts), axis, top, bottom)


def _axis(timeline: Timeline) -> TimeAxis:
    first, last = (timeline.deeds[0].at_ms, timeline.deeds[-1].at_ms) if timeline.deeds else (0, 0)
    if first == last:
        return TimeAxis(first - 500, last + 500, _GUTTER, _PLOT)
    return TimeAxis.over(first, last, _GUTTER, _PLOT)


def _label(timeline: Timeline) -> str:
    return f"Timeline of {timeline.title}: {summary(timeline)}"


def summary(timeline: Timeline) -> str:
    """Return one line: the number of transactions and commits, and their period."""
    commits = sum(len(deed.marks) for deed in timeline.deeds)
    if not commits:
        return "no commits"
    span = period(timeline.deeds[0].at_ms, timeline.deeds[-1].at_ms)
    if not timeline.is_lake:
        return f"{counted(commits, 'commit')}, {span}"
    tables = counted(len(timeline.lanes), "table")
    return f"{tables}, {counted(len(timeline.deeds), 'transaction')} with {counted(commits, 'commit')}, {span}"


def _head(timeline: Timeline) -> Markup:
    more = "; others are left out" if timeline.has_more else ""
    return fragment(
        text(24, 28, fitted(timeline.title, WIDTH - 48, 18), "sw-t-title"),
        text(24, 48, fitted(f"{summary(timeline)}{more} · {timeline.place}", WIDTH - 48), "sw-t-small"),
    )


def _nothing(top: float) -> Markup:
    return text(_GUTTER + _PLOT / 2, top + _LANE / 2 + 4, "no commits in this period", "sw-t-small", "middle")


def _lanes(timeline: Timeline, top: float) -> Markup:
    parts = []
    newest = {mark.lane: mark for mark in timeline.marks}
    for number, name in enumerate(timeline.lanes):
        y = top + number * _LANE
        parts.append(rect(_GUTTER, y + 3, _PLOT, _LANE - 6, "sw-lane", rx=4))
        shown = fitted(name, _GUTTER - 40, 13)
        parts.append(text(24, y + 22, shown, "sw-t-name") if shown == name else _named(24, y + 22, shown, name))
        if number in newest:
            parts.append(text(24, y + 38, f"version {newest[number].version}", "sw-t-small"))
    return fragment(parts)


def _named(x: float, y: float, shown: str, name: str) -> Markup:
    return element("g", hint(name), text(x, y, shown, "sw-t-name"))


def _grid(axis: TimeAxis, top: float, bottom: float) -> Markup:
    parts = [line(_GUTTER, bottom, _GUTTER + _PLOT, bottom, "sw-base")]
    for tick in axis.ticks():
        x = axis.x(tick.at_ms)
        parts.append(line(x, top, x, bottom + 5, "sw-grid"))
        parts.append(text(x, bottom + 18, tick.label, "sw-t-small", "middle"))
        if tick.below:
            parts.append(text(x, bottom + 33, tick.below, "sw-t-small", "middle"))
    parts.append(text(_GUTTER - 16, bottom + 18, "UTC", "sw-t-small", "end"))
    return fragment(parts)


def _bridge(column: CommitColumn, top: float, lanes: Sequence[str]) -> Markup:
    parts = []
    for numbers, deeds in column.bridges().items():
        y1, y2 = (top + _LANE * (number + 0.5) for number in (numbers[0], numbers[-1]))
        words = _bridge_words(deeds, [lanes[number] for number in numbers])
        parts.append(line(column.x, y1, column.x, y2, "sw-line-accent", hint(words)))
    return fragment(parts)


def _bridge_words(deeds: Sequence[CommitGroup], names: Sequence[str]) -> str:
    tables = ", ".join(names)
    if len(deeds) == 1:
        return f"one transaction over {tables}\n{instant(deeds[0].at_ms)}\ntransaction {deeds[0].transaction_id or '?'}"
    return f"{len(deeds)} transactions over {tables}\n{period(deeds[0].at_ms, deeds[-1].at_ms)}"


def _marks(columns: Sequence[CommitColumn], lane: int, y: float, timeline: Timeline) -> Markup:
    parts = []
    there = [(column.x, found) for column in columns if (found := column.marks(lane))]
    for number, (x, marks) in enumerate(there):
        radius = _MARK + min(1.2, 0.4 * (len(marks).bit_length() - 1))
        parts.append(_shape(x, y, radius, main_kind(marks), mark_words(marks, timeline.lanes[lane])))
        label = versions(marks)
        before = there[number - 1][0] if number else float("-inf")
        after = there[number + 1][0] if number + 1 < len(there) else float("inf")
        if min(x - before, after - x) > width_of(label, 11) + 4:
            parts.append(text(x, y + 20, label, "sw-t-small sw-t-halo", "middle"))
    return fragment(parts)


def _shape(x: float, y: float, r: float, kind: Kind, words: str) -> Markup:
    colour, told = _COLOURS[kind], hint(words)
    if kind in (Kind.WRITE, Kind.OTHER):
        return circle(x, y, r, f"sw-is-{colour}", told)
    if kind is Kind.UPKEEP:
        return circle(x, y, r - 1, f"sw-hollow-{colour}", told)
    if kind is Kind.DELETE:
        return rect(x - r + 0.5, y - r + 0.5, 2 * r - 1, 2 * r - 1, f"sw-is-{colour}", told)
    if kind is Kind.DEFINITION:
        return path([(x, y - r - 0.5), (x + r + 0.5, y + r - 0.5), (x - r - 0.5, y + r - 0.5)], f"sw-is-{colour}", told)
    r += 1
    diamond = [(x, y - r), (x + r, y), (x, y + r), (x - r, y)]
    return path(diamond, f"sw-{'hollow' if kind is Kind.RETURN else 'is'}-{colour}", told)


def _is_any(total: ChangeTotals) -> bool:
    return any((total.added, total.updated, total.removed))


def _drawn_panel(panel: _Panel, columns: Sequence[CommitColumn], y: float) -> Markup:
    """Return bars: additions (and updates, in another colour) upwards, removals downwards."""
    totals = [(column, panel.what(column.marks())) for column in columns]
    up = max(((total.added or 0) + (total.updated or 0) for _, total in totals), default=0)
    down = max((total.removed or 0 for _, total in totals), default=0)
    scale = (_PANEL - 2) / max(up + down, 1)
    zero = y + up * scale + 1
    parts = [text(24, y + 14, panel.name, "sw-t-name")]
    parts += _range_words(panel, up, down, y)
    parts.append(line(_GUTTER, zero, _GUTTER + _PLOT, zero, "sw-grid"))
    for column, total in totals:
        if _is_any(total):
            parts.append(_bar(panel, column, total, zero, scale))
    return fragment(parts)


def _range_words(panel: _Panel, up: int, down: int, y: float) -> list[Markup]:
    ends = [panel.shown(up)] if up else []
    ends += [panel.shown(-down)] if down else []
    return [text(24, y + 30 + 14 * number, f"most {shown}", "sw-t-small") for number, shown in enumerate(ends)]


def _bar(panel: _Panel, column: CommitColumn, total: ChangeTotals, zero: float, scale: float) -> Markup:
    added, updated, removed = (_high(value, scale) for value in (total.added, total.updated, total.removed))
    x = column.x - _BAR / 2
    words = [
        f"{panel.shown(total.added)} added" if total.added else "",
        f"{total.updated:,} updated" if total.updated else "",
        f"{panel.shown(-total.removed)} removed" if total.removed else "",
    ]
    marks = column.marks()
    done = ", ".join(word for word in words if word)
    said = f"{panel.name.lower()}: {done}\n{period(marks[0].at_ms, marks[-1].at_ms)}"
    parts = [hint(said)]
    if added:
        parts.append(rect(x, zero - added, _BAR, added, "sw-is-mark"))
    if updated:
        parts.append(rect(x, zero - added - updated, _BAR, updated, "sw-is-warn"))
    if removed:
        parts.append(rect(x, zero, _BAR, removed, "sw-is-bad"))
    return element("g", parts)


def _high(value: int | None, scale: float) -> float:
    # A non-zero value is at least one pixel high.
    return max(value * scale, 1.0) if value else 0.0


def _legend(timeline: Timeline, y: float) -> Markup:
    counts = Counter(main_kind([mark]) for mark in timeline.marks)
    x, parts = _GUTTER, []
    for kind in Kind:
        if counts[kind]:
            words = f"{kind.value} {counts[kind]:,}"
            parts += [_shape(x + 6, y + 8, _MARK, kind, words), text(x + 18, y + 12, words, "sw-t-small")]
            x += 18 + width_of(words, 11) + 18
    if any(len(deed.marks) > 1 for deed in timeline.deeds):
        bridges = sum(len(deed.marks) > 1 for deed in timeline.deeds)
        words = f"one transaction over several tables {bridges:,}"
        parts += [line(x + 6, y, x + 6, y + 16, "sw-line-accent"), text(x + 14, y + 12, words, "sw-t-small")]
    return fragment(parts)


def title_of(timeline: Timeline, most: int = 80) -> str:
    """Return the page title: the name of the table or lake."""
    return shortened(timeline.title, most)
