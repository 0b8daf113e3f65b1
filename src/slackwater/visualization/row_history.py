"""Row versions as bars on a time axis: one lane per key, one bar per period of a current version.

Source: paper §1 (transaction-time relations).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slackwater.errors import InvalidArgument
from slackwater.html.components import card
from slackwater.html.element import Markup, element, fragment
from slackwater.html.number_format import counted, shortened
from slackwater.html.page import page
from slackwater.visualization.axis import TimeAxis
from slackwater.visualization.commit_text import instant
from slackwater.visualization.svg import (
    RULES,
    fitted,
    hint,
    line,
    path,
    picture,
    raster,
    rect,
    rules_of,
    standalone,
    text,
    width_of,
)

MOST_KEYS, MOST_VERSIONS = 40, 2000
"""The maximum number of keys and versions in a picture."""

_WIDTH, _GUTTER, _RIGHT = 1160.0, 190.0, 40.0
_TOP, _LANE, _BAR, _FOOT = 54.0, 38.0, 20.0, 44.0
_LONGEST = 60
_SHRINKS = (".sw-row-history svg", "height:auto;")


@dataclass(frozen=True, slots=True)
class RowVersion:
    """A version of the row with `key`, current from `start_ms` until `end_ms`. None: still current.

    `end_ms` is exclusive. `values` are the other columns. `ended_by` is `update`, `delete` or None.
    """

    key: tuple[Any, ...]
    start_ms: int
    end_ms: int | None
    values: Mapping[str, Any]
    ended_by: str | None = None


@dataclass(frozen=True, slots=True)
class RowHistory:
    """Row versions as a picture for notebooks; `save` writes a file. `has_more`: some versions are omitted."""

    title: str
    versions: Sequence[RowVersion]
    has_more: bool = False

    def __repr__(self) -> str:
        return f"<RowHistory of {self.title}: {_said(self)}>"

    def _repr_html_(self) -> str:
        drawn = element("div", picture_of(self, with_head=False), class_="sw-row-history")
        return str(card("Row history", self.title, rules_of((*RULES, _SHRINKS)), drawn, note=_said(self)))

    def save(self, file: str | os.PathLike[str]) -> None:
        """Write the picture to `file`, with a name ending in `.html`, `.svg` or `.png`.

        Raises InvalidArgument for another ending, if the file cannot be written, and for PNG if resvg-py is missing.
        """
        out, drawn = Path(file), picture_of(self)
        kind = out.suffix.lower()
        if kind == ".html":
            data = page(f"{self.title}: row history", drawn, rules=RULES).encode()
        elif kind == ".svg":
            data = standalone(drawn).encode()
        elif kind == ".png":
            data = raster(drawn)
        else:
            raise InvalidArgument(f"a picture's file ends with .html, .svg or .png, found {out.name!r}")
        try:
            out.write_bytes(data)
        except OSError as error:
            raise InvalidArgument(f"{out} cannot be written: {error.strerror}") from error


def _said(history: RowHistory) -> str:
    keys = len({version.key for version in history.versions})
    more = "; others are left out" if history.has_more else ""
    return f"{counted(len(history.versions), 'version')} of {counted(keys, 'key')}{more}"


def picture_of(history: RowHistory, with_head: bool = True) -> Markup:
    """Return the picture of `history`, with a title if it is standalone (`with_head`)."""
    lanes: dict[tuple[Any, ...], list[RowVersion]] = {}
    for version in history.versions:
        lanes.setdefault(version.key, []).append(version)
    top, said = _TOP if with_head else 8.0, _said(history)
    bottom = top + _LANE * max(len(lanes), 1)
    axis = _axis(history.versions)
    parts = [text(24, 26, fitted(history.title, _WIDTH - 48, 18), "sw-t-title"), text(24, 44, said, "sw-t-small")]
    parts = parts if with_head else []
    parts += _grid(axis, top, bottom) if history.versions else []
    for number, (key, versions) in enumerate(lanes.items()):
        parts.append(_lane(axis, key, versions, top + _LANE * number))
    return picture(_WIDTH, bottom + _FOOT, f"{history.title}: {said}", *parts)


def _axis(versions: Sequence[RowVersion]) -> TimeAxis:
    instants = [ms for version in versions for ms in (version.start_ms, version.end_ms) if ms is not None]
    first, last = (min(instants), max(instants)) if instants else (0, 0)
    width = _WIDTH - _GUTTER - _RIGHT
    if first == last:
        return TimeAxis(first - 500, last + 500, _GUTTER, width)
    # Leave space after the last change, because current versions continue.
    return TimeAxis(first - max(1, (last - first) // 50), last + max(1, (last - first) // 8), _GUTTER, width)


def _grid(axis: TimeAxis, top: float, bottom: float) -> list[Markup]:
    parts = [line(axis.left, bottom, axis.left + axis.width, bottom, "sw-base")]
    for tick in axis.ticks():
        x = axis.x(tick.at_ms)
        parts.append(line(x, top, x, bottom + 5, "sw-grid"))
        parts.append(text(x, bottom + 18, tick.label, "sw-t-small", "middle"))
        parts.append(text(x, bottom + 33, tick.below, "sw-t-small", "middle"))
    parts.append(text(axis.left - 16, bottom + 18, "UTC", "sw-t-small", "end"))
    return parts


def _lane(axis: TimeAxis, key: tuple[Any, ...], versions: Sequence[RowVersion], y: float) -> Markup:
    name = ", ".join(map(str, key))
    middle = y + _LANE / 2
    parts = [text(24, middle + 4, fitted(name, _GUTTER - 40, 13), "sw-t-name")]
    before: RowVersion | None = None
    for number, version in enumerate(sorted(versions, key=lambda each: each.start_ms)):
        parts.append(_bar(axis, name, version, before, middle, "sw-soft" if number % 2 else "sw-softer"))
        before = version
    return fragment(parts)


def _bar(
    axis: TimeAxis, name: str, version: RowVersion, before: RowVersion | None, middle: float, class_: str
) -> Markup:
    left = axis.x(version.start_ms)
    right = axis.left + axis.width if version.end_ms is None else axis.x(version.end_ms)
    top, wide = middle - _BAR / 2, max(right - left, 1.0)
    told = hint(f"{name}\n{_values(version.values)}\n{_period(version)}")
    parts = [rect(left, top, wide, _BAR, class_, told), line(left, top, left, top + _BAR, "sw-line-accent")]
    if version.end_ms is None:
        parts.append(path([(right, top), (right + 10, middle), (right, top + _BAR)], class_))
    elif version.ended_by == "delete":
        parts.append(line(right, top - 4, right, top + _BAR + 4, "sw-line-bad"))
    words = _values(_changed(version, before))
    if width_of(words, 11) + 12 <= wide:
        parts.append(text(left + 7, middle + 4, words, "sw-t sw-t-bar"))
    elif wide > width_of("…", 11) + 40:
        parts.append(text(left + 7, middle + 4, fitted(words, wide - 14, 11), "sw-t sw-t-bar"))
    return fragment(parts)


def _changed(version: RowVersion, before: RowVersion | None) -> Mapping[str, Any]:
    """Return the values changed since the previous version, or all values after a gap."""
    if before is None or before.end_ms != version.start_ms:
        return version.values
    found = {name: value for name, value in version.values.items() if before.values.get(name) != value}
    return found or version.values


def _values(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {shortened(str(value), _LONGEST)}" for name, value in values.items())


def _period(version: RowVersion) -> str:
    end = "now" if version.end_ms is None else instant(version.end_ms)
    ended = f", {version.ended_by}d" if version.ended_by else ""
    return f"{instant(version.start_ms)} to {end}{ended}"
