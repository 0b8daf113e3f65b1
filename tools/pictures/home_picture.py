"""The picture of docs/index.md: the tables of a lake at one instant, with texts that a phone shows."""

from __future__ import annotations

from tools.pictures.gallery import Gallery
from tools.pictures.lake_picture import START_MS, day_of_a_lake

from slackwater.html.element import Markup
from slackwater.visualization.svg import RULES, circle, line, picture, rect, standalone, text
from slackwater.visualization.timeline import Timeline

_HOUR_MS = 3_600_000
_WIDTH, _LEFT, _TOP, _LANE = 640.0, 136.0, 58.0, 56.0
_HOURS = 7
_AS_OF_MS = START_MS + 3 * _HOUR_MS
_RULES = (
    *RULES,
    (".sw-h", "font-size:20px;fill:var(--sw-text);"),
    (".sw-h-name", "font-size:20px;font-weight:600;fill:var(--sw-text);"),
    (".sw-h-accent", "font-size:20px;font-weight:600;fill:var(--sw-accent);"),
    (".sw-h-muted", "font-size:18px;fill:var(--sw-muted);"),
    (".sw-h-dash", "fill:none;stroke:var(--sw-accent);stroke-width:3;stroke-dasharray:8 6;"),
)


def versions_at(day: Timeline, at_ms: int) -> dict[str, int]:
    """Return the version of each table at an instant."""
    return {day.lanes[mark.lane]: mark.version for mark in day.marks if mark.at_ms <= at_ms}


def lanes_svg() -> str:
    """Return the picture: a lane for each table, a line for each transaction over several tables, and one instant."""
    day = day_of_a_lake()
    bottom = _TOP + _LANE * len(day.lanes)
    parts: list[Markup] = []
    for lane, name in enumerate(day.lanes):
        parts.append(rect(_LEFT, _TOP + _LANE * lane + 6, _WIDTH - _LEFT - 12, _LANE - 12, "sw-lane", rx="6"))
        parts.append(text(_LEFT - 14, _middle(lane) + 7, name, "sw-h-name", "end"))
    for deed in day.deeds:
        lanes = [mark.lane for mark in deed.marks]
        if len(lanes) > 1:
            parts.append(line(_x(deed.at_ms), _middle(min(lanes)), _x(deed.at_ms), _middle(max(lanes)), "sw-line-mark"))
        parts += [circle(_x(deed.at_ms), _middle(lane), 8, "sw-is-mark") for lane in lanes]
    at = _x(_AS_OF_MS)
    parts.append(line(at, _TOP - 18, at, bottom, "sw-h-dash"))
    parts.append(text(at, _TOP - 28, 'lake.as_of("11:00")', "sw-h-accent", "middle"))
    for hour in range(0, _HOURS + 1, 2):
        parts.append(text(_x(START_MS + hour * _HOUR_MS), bottom + 24, f"{8 + hour}:00", "sw-h-muted", "middle"))
    found = ", ".join(f"{name} v{version}" for name, version in versions_at(day, _AS_OF_MS).items())
    parts.append(text(12, bottom + 60, "A line across lanes: one transaction over several tables.", "sw-h"))
    parts.append(text(12, bottom + 90, f"At 11:00: {found}.", "sw-h-accent"))
    label = "Three tables as lanes, transactions as lines across them, and the versions of all tables at one instant"
    return standalone(picture(_WIDTH, bottom + 106, label, *parts), _RULES)


def _x(at_ms: int) -> float:
    return _LEFT + 24 + (at_ms - START_MS) / (_HOURS * _HOUR_MS + _HOUR_MS / 4) * (_WIDTH - _LEFT - 64)


def _middle(lane: int) -> float:
    return _TOP + _LANE * (lane + 0.5)


GALLERY = Gallery("index.md", "images/home", {"lanes.svg": lanes_svg})
