"""Components of cards and pages: tables, facts, pairs, badges and small bars. All components escape their content."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal

from slackwater.html.element import Child, Markup, element, fragment, is_empty, style_sheet
from slackwater.html.number_format import counted, iso, one_line, short, shortened, utc_text
from slackwater.html.redaction import setting_without_secrets, without_secrets
from slackwater.html.theme import SCOPE, css

Kind = Literal["accent", "good", "warn", "bad", "muted", "line", "mark"]

_BAR_HEIGHT = 8
_MOST_SETTINGS = 40
_LONGEST_SETTING = 200


def card(kind: str, title: Child, *children: Child, badges: Iterable[Markup] = (), note: Child = None) -> Markup:
    """Return a card with its own style sheet, complete in any notebook. `note` is small print at its end."""
    head = element(
        "div",
        element("span", kind, class_="sw-kind"),
        element("span", title, class_="sw-title"),
        *badges,
        class_="sw-head",
    )
    foot = None if is_empty(note) else element("p", note, class_="sw-note")
    return element("div", style_sheet(css()), element("div", head, *children, foot, class_="sw-card"), class_=SCOPE)


def card_or_reason(kind: str, title: str, draw: Callable[[], Markup]) -> str:
    """Return the HTML of `draw`, or a card with the error message, so that a notebook shows no traceback."""
    try:
        return str(draw())
    except Exception as error:  # noqa: BLE001  a card never fails the cell that shows it
        reason = without_secrets(one_line(str(error)))
        told = element("p", badge(type(error).__name__, "bad"), " ", reason)
        return str(card(kind, without_secrets(title), told))


def table(
    headers: Sequence[Child],
    rows: Iterable[Sequence[Child]],
    right: Sequence[str] = (),
    caption: str | None = None,
    leaves_out_empty: bool = False,
) -> Markup:
    """Return an HTML table of `rows` below `headers`, with the title `caption`. Texts are escaped.

    Columns named in `right` contain numbers and are right-aligned. None is an empty cell. A table wider than its
    container scrolls. With `leaves_out_empty`, columns with only empty cells are hidden. Raises ValueError if a row has
    not as many cells as `headers`.

    >>> str(slackwater.html_table(["sku"], [["<A1>"]])).count("&lt;A1&gt;")
    1
    """
    if leaves_out_empty:
        rows = list(rows)
        kept = [at for at in range(len(headers)) if not all(is_empty(row[at]) for row in rows)]
        headers, rows = [headers[at] for at in kept], [[row[at] for at in kept] for row in rows]
    classes = ["sw-number" if header in right else None for header in headers]
    head = element(
        "tr", [element("th", text, class_=kind, scope="col") for text, kind in zip(headers, classes, strict=True)]
    )
    body = [
        element("tr", [element("td", cell, class_=kind) for cell, kind in zip(row, classes, strict=True)])
        for row in rows
    ]
    above = None if caption is None else element("caption", caption)
    return element("div", element("table", above, element("thead", head), element("tbody", body)), class_="sw-scroll")


def facts(entries: Mapping[str, Child]) -> Markup:
    """Return a few numbers side by side, each below its name. Entries with None are omitted."""
    shown = [
        element("div", element("dt", name), element("dd", value), class_="sw-fact")
        for name, value in entries.items()
        if not is_empty(value)
    ]
    return element("dl", shown, class_="sw-facts") if shown else fragment()


def pairs(entries: Mapping[str, Child]) -> Markup:
    """Return names and values in rows. Entries with None are omitted."""
    shown = [
        fragment(element("dt", name), element("dd", value)) for name, value in entries.items() if not is_empty(value)
    ]
    return element("dl", shown, class_="sw-pairs") if shown else fragment()


def settings(entries: Mapping[str, str]) -> Markup:
    """Return settings, sorted by name, without secrets. Long lists and long values are cut."""
    rows = [
        (code(key), code(shortened(setting_without_secrets(key, value), _LONGEST_SETTING)))
        for key, value in sorted(entries.items())[:_MOST_SETTINGS]
    ]
    left = len(entries) - len(rows)
    more = element("p", f"and {counted(left, 'more', 'more')}", class_="sw-note") if left > 0 else None
    return fragment(table(["property", "value"], rows), more)


def badge(text: str, kind: Kind | None = None, title: str | None = None) -> Markup:
    """Return a word in a rounded frame. `title` is its tooltip."""
    return element("span", text, class_=f"sw-badge sw-{kind}" if kind else "sw-badge", title=title)


def badges(words: Iterable[str | Markup]) -> Markup:
    """Return badges in a row that wraps."""
    return element("div", [word if isinstance(word, Markup) else badge(word) for word in words], class_="sw-badges")


def code(text: str) -> Markup:
    """Return text in a monospace font, for names, paths and types."""
    return element("code", text)


def muted(*children: Child) -> Markup:
    """Return de-emphasized content."""
    return element("span", *children, class_="sw-muted")


def moment(at: dt.datetime) -> Markup:
    """Return a time in UTC, with millisecond precision, as `<time>`. `at` has a time zone."""
    return element("time", utc_text(at), datetime=iso(at), class_="sw-nowrap")


def disclosure(summary: Child, *children: Child, is_open: bool = False) -> Markup:
    """Return content hidden until the reader opens it, without a script."""
    return element("details", element("summary", summary), *children, open=is_open)


def bar(parts: Sequence[tuple[float, Kind]], label: str, width: int = 120) -> Markup:
    """Return a bar of `width` pixels, filled from the left by shares of 1. `label` is its text form."""
    drawn = [_rect(0, 0, width, _BAR_HEIGHT, "sw-track", radius=2)]
    left = 0.0
    for share, kind in parts:
        wide = min(max(share, 0.0) * width, width - left)
        drawn.append(_rect(left, 0, wide, _BAR_HEIGHT, f"sw-fill-{kind}", radius=2))
        left += wide
    return svg(width, _BAR_HEIGHT, label, *drawn)


def svg(width: float, height: float, label: str, *children: Markup) -> Markup:
    """Return a picture of `width` × `height` pixels that shrinks if space is short. `label` is its text form."""
    return element(
        "svg",
        element("title", label),
        *children,
        xmlns="http://www.w3.org/2000/svg",
        width=short(width),
        height=short(height),
        viewBox=f"0 0 {short(width)} {short(height)}",
        role="img",
        aria_label=label,
    )


def _rect(x: float, y: float, width: float, height: float, class_: str, radius: float | None = None) -> Markup:
    return element(
        "rect",
        x=short(x),
        y=short(y),
        width=short(width),
        height=short(height),
        rx=None if radius is None else short(radius),
        class_=class_,
    )
