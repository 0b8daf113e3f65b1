"""Shapes and texts of pictures, and pictures as files: SVG that stands alone, in light and dark, and PNG of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from slackwater.errors import InvalidArgument
from slackwater.html.components import svg
from slackwater.html.element import Markup, element, fragment, style_sheet
from slackwater.html.number_format import short
from slackwater.html.theme import DARK, LIGHT, scoped

_FONT = 'system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans","Liberation Sans",Arial,sans-serif'
_VARIABLE = re.compile(r"var\(--sw-([a-z-]+)\)")
# Letters of these fonts are about so wide, by the size of the font.
_LETTER = 0.56

PIXELS_A_UNIT = 2
"""A PNG has so many pixels for each of the picture's own: sharp on dense screens."""

RULES: tuple[tuple[str, str], ...] = (
    (".sw-t", "font-size:12px;fill:var(--sw-text);"),
    (".sw-t-small", "font-size:11px;fill:var(--sw-muted);"),
    (".sw-t-halo", "paint-order:stroke;stroke:var(--sw-surface);stroke-width:4px;stroke-linejoin:round;"),
    (".sw-t-name", "font-size:13px;font-weight:600;fill:var(--sw-text);"),
    (".sw-t-title", "font-size:18px;font-weight:700;fill:var(--sw-text);"),
    (".sw-lane", "fill:var(--sw-surface);"),
    (".sw-soft", "fill:var(--sw-accent-soft);"),
    (".sw-softer", "fill:var(--sw-track);"),
    (".sw-t-bar", "font-size:11px;pointer-events:none;"),
    (".sw-grid", "stroke:var(--sw-line);stroke-width:1;"),
    (".sw-base", "stroke:var(--sw-muted);stroke-width:1;"),
    (".sw-ground", "fill:var(--sw-ground);"),
    *((f".sw-is-{kind}", f"fill:var(--sw-{kind});") for kind in ("mark", "accent", "good", "warn", "bad", "muted")),
    *(
        (f".sw-hollow-{kind}", f"fill:var(--sw-ground);stroke:var(--sw-{kind});stroke-width:2;")
        for kind in ("mark", "accent", "good", "warn", "bad", "muted")
    ),
    *(
        (f".sw-line-{kind}", f"fill:none;stroke:var(--sw-{kind});stroke-width:2;")
        for kind in ("mark", "accent", "good", "warn", "bad", "muted")
    ),
)
"""What the shapes look like: a selector and its declarations, in the custom properties of the theme."""


def rules_of(rules: Sequence[tuple[str, str]]) -> Markup:
    """The rules as a style sheet beside a picture in a card, below the class of the theme."""
    return style_sheet(scoped(tuple(rules)))


def standalone(picture: Markup, rules: Sequence[tuple[str, str]] = RULES) -> str:
    """The document of a file `.svg`: it follows the light or the dark mode of its viewer, and loads nothing."""
    sheet = "".join(
        [
            f"svg{{{_properties(LIGHT)}font-family:{_FONT};}}",
            f"@media (prefers-color-scheme:dark){{svg{{{_properties(DARK)}}}}}",
            *(f"{selector}{{{declarations}}}" for selector, declarations in rules),
        ]
    )
    return _with_sheet(picture, sheet)


def raster(picture: Markup, rules: Sequence[tuple[str, str]] = RULES, dark: bool = False) -> bytes:
    """The picture as PNG, by the package resvg-py. Raises InvalidArgument where that is not installed."""
    try:
        resvg: Any = import_module("resvg_py")
    except ImportError as error:
        raise InvalidArgument(
            "a PNG is drawn by the package resvg-py, which is not installed: pip install resvg-py, or write an SVG "
            "(--out x.svg)"
        ) from error
    colours = DARK if dark else LIGHT
    # What draws it knows no custom properties.
    sheet = f"svg{{font-family:{_FONT};}}" + "".join(f"{selector}{{{text}}}" for selector, text in rules)
    document = _with_sheet(picture, _VARIABLE.sub(lambda found: colours[found[1]], sheet))
    return bytes(resvg.svg_to_bytes(svg_string=document, zoom=PIXELS_A_UNIT, background=colours["ground"]))


def picture(width: float, height: float, label: str, *children: Markup) -> Markup:
    """A picture on the ground of the theme; `label` says it in words."""
    ground = rect(0, 0, width, height, "sw-ground")
    return svg(width, height, label, ground, *children)


def text(x: float, y: float, words: str, class_: str = "sw-t", anchor: str = "start", **more: Any) -> Markup:
    """`words` on the line at `y`; `anchor`: `start`, `middle` or `end` of them is at `x`."""
    return element("text", words, x=short(x), y=short(y), class_=class_, text_anchor=anchor, **more)


def rect(x: float, y: float, width: float, height: float, class_: str, *children: Markup, **more: Any) -> Markup:
    """A rectangle; what it is shown as by a pointer is among the `children`."""
    sizes = {"x": short(x), "y": short(y), "width": short(width), "height": short(height)}
    return element("rect", *children, **sizes, class_=class_, **more)


def line(x1: float, y1: float, x2: float, y2: float, class_: str, *children: Markup, **more: Any) -> Markup:
    """A line from one point to the other."""
    ends = {"x1": short(x1), "y1": short(y1), "x2": short(x2), "y2": short(y2)}
    return element("line", *children, **ends, class_=class_, **more)


def circle(x: float, y: float, radius: float, class_: str, *children: Markup, **more: Any) -> Markup:
    """A circle around a point."""
    return element("circle", *children, cx=short(x), cy=short(y), r=short(radius), class_=class_, **more)


def path(points: Sequence[tuple[float, float]], class_: str, *children: Markup, closed: bool = True) -> Markup:
    """A line through all `points`, back to the first where it is `closed`."""
    steps = " ".join(f"{'L' if number else 'M'}{short(x)} {short(y)}" for number, (x, y) in enumerate(points))
    return element("path", *children, d=f"{steps}{' Z' if closed else ''}", class_=class_)


def hint(words: str) -> Markup:
    """What a pointer that rests on a shape is shown."""
    return element("title", words)


def width_of(words: str, size: float = 12) -> float:
    """About how wide a text is, in pixels."""
    return len(words) * size * _LETTER


def fitted(words: str, width: float, size: float = 12) -> str:
    """As much of a text as fits; where it is cut, it ends with an ellipsis."""
    most = max(1, int(width / (size * _LETTER)))
    return words if len(words) <= most else f"{words[: most - 1]}…"


def _properties(colours: Mapping[str, str]) -> str:
    return "".join(f"--sw-{name}:{colour};" for name, colour in colours.items())


def _with_sheet(picture: Markup, sheet: str) -> str:
    """The picture with its style sheet as its first child."""
    head, rest = str(picture).split(">", 1)
    return f"{head}>{fragment(style_sheet(sheet))}{rest}\n"
