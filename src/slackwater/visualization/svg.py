"""SVG shapes and texts, and picture files: standalone SVG for light and dark mode, and PNG."""

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
# Average letter width in these fonts, relative to the font size.
_LETTER = 0.56

PIXELS_A_UNIT = 2
"""PNG pixels per picture unit. Two keep the image sharp on dense screens."""

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
"""Styles of the shapes: selectors and declarations with the custom properties of the theme."""


def rules_of(rules: Sequence[tuple[str, str]]) -> Markup:
    """Return the rules as a style sheet for a picture in a card, scoped to the theme's class."""
    return style_sheet(scoped(tuple(rules)))


def standalone(picture: Markup, rules: Sequence[tuple[str, str]] = RULES) -> str:
    """Return the document of an `.svg` file. It follows the viewer's light or dark mode and loads nothing."""
    sheet = "".join(
        [
            f"svg{{{_properties(LIGHT)}font-family:{_FONT};}}",
            f"@media (prefers-color-scheme:dark){{svg{{{_properties(DARK)}}}}}",
            *(f"{selector}{{{declarations}}}" for selector, declarations in rules),
        ]
    )
    return _with_sheet(picture, sheet)


def raster(picture: Markup, rules: Sequence[tuple[str, str]] = RULES, dark: bool = False) -> bytes:
    """Return the picture as PNG, drawn by the package resvg-py. Raises InvalidArgument if resvg-py is missing."""
    try:
        resvg: Any = import_module("resvg_py")
    except ImportError as error:
        raise InvalidArgument(
            "a PNG needs the package resvg-py, which is not installed. Run pip install resvg-py, or write an SVG "
            "(--out x.svg)"
        ) from error
    colours = DARK if dark else LIGHT
    # Insert the colours, because resvg has no support for custom properties.
    sheet = f"svg{{font-family:{_FONT};}}" + "".join(f"{selector}{{{text}}}" for selector, text in rules)
    document = _with_sheet(picture, _VARIABLE.sub(lambda found: colours[found[1]], sheet))
    return bytes(resvg.svg_to_bytes(svg_string=document, zoom=PIXELS_A_UNIT, background=colours["ground"]))


def picture(width: float, height: float, label: str, *children: Markup) -> Markup:
    """Return a picture on the theme's background. `label` is its text alternative."""
    ground = rect(0, 0, width, height, "sw-ground")
    return svg(width, height, label, ground, *children)


def text(x: float, y: float, words: str, class_: str = "sw-t", anchor: str = "start", **more: Any) -> Markup:
    """Return a text element with its baseline at `y`. `anchor`: `start`, `middle` or `end` of `words` is at `x`."""
    return element("text", words, x=short(x), y=short(y), class_=class_, text_anchor=anchor, **more)


def rect(x: float, y: float, width: float, height: float, class_: str, *children: Markup, **more: Any) -> Markup:
    """Return a rectangle. A tooltip is one of the `children`."""
    sizes = {"x": short(x), "y": short(y), "width": short(width), "height": short(height)}
    return element("rect", *children, **sizes, class_=class_, **more)


def line(x1: float, y1: float, x2: float, y2: float, class_: str, *children: Markup, **more: Any) -> Markup:
    """Return a line between two points."""
    ends = {"x1": short(x1), "y1": short(y1), "x2": short(x2), "y2": short(y2)}
    return element("line", *children, **ends, class_=class_, **more)


def circle(x: float, y: float, radius: float, class_: str, *children: Markup, **more: Any) -> Markup:
    """Return a circle around a point."""
    return element("circle", *children, cx=short(x), cy=short(y), r=short(radius), class_=class_, **more)


def path(points: Sequence[tuple[float, float]], class_: str, *children: Markup, closed: bool = True) -> Markup:
    """Return a path through all `points`, back to the first point if `closed`."""
    steps = " ".join(f"{'L' if number else 'M'}{short(x)} {short(y)}" for number, (x, y) in enumerate(points))
    return element("path", *children, d=f"{steps}{' Z' if closed else ''}", class_=class_)


def hint(words: str) -> Markup:
    """Return the tooltip of a shape."""
    return element("title", words)


def width_of(words: str, size: float = 12) -> float:
    """Return the approximate width of a text in pixels."""
    return len(words) * size * _LETTER


def fitted(words: str, width: float, size: float = 12) -> str:
    """Return the text cut to `width`, with an ellipsis if shortened."""
    most = max(1, int(width / (size * _LETTER)))
    return words if len(words) <= most else f"{words[: most - 1]}…"


def _properties(colours: Mapping[str, str]) -> str:
    return "".join(f"--sw-{name}:{colour};" for name, colour in colours.items())


def _with_sheet(picture: Markup, sheet: str) -> str:
    """Return the picture with a style sheet as its first child."""
    head, rest = str(picture).split(">", 1)
    return f"{head}>{fragment(style_sheet(sheet))}{rest}\n"
