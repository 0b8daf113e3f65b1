"""Files, arrows and frames, as all pictures of logs and owners have them."""

from __future__ import annotations

from collections.abc import Sequence

from slackwater.html.element import Markup, element
from slackwater.visualization.svg import RULES, line, path, picture, rect, standalone, text

WIDTH = 860.0
LEFT = 20.0
_KINDS = ("accent", "good", "warn", "bad")
_RULES: tuple[tuple[str, str], ...] = (
    *RULES,
    (".sw-file-plain", "fill:var(--sw-surface);stroke:var(--sw-muted);stroke-width:1;"),
    (".sw-file-gone", "fill:var(--sw-ground);stroke:var(--sw-muted);stroke-width:1;stroke-dasharray:4 3;"),
    *((f".sw-file-{kind}", f"fill:var(--sw-{kind}-soft);stroke:var(--sw-{kind});stroke-width:1.5;") for kind in _KINDS),
    *((f".sw-says-{kind}", f"font-size:12px;fill:var(--sw-{kind});") for kind in (*_KINDS, "muted")),
    (".sw-says-strong", "font-weight:600;"),
    (".sw-struck", "text-decoration:line-through;"),
)


def drawn(title: str, height: float, parts: Sequence[Markup], notes: Sequence[str] = ()) -> str:
    """The file of a picture below its title, with notes at its foot; `height` is without these."""
    whole = height + 22 * len(notes) + (10 if notes else 0)
    shapes = [text(LEFT, 30, title, "sw-t-title"), *parts]
    shapes += [text(LEFT, height + 14 + 22 * number, note, "sw-t") for number, note in enumerate(notes)]
    return standalone(picture(WIDTH, whole, title, *shapes), _RULES)


def file_box(x: float, y: float, width: float, words: str, kind: str = "plain", height: float = 24) -> Markup:
    """A file by its name; `kind`: plain, gone, or a colour of the theme."""
    class_ = f"sw-says-{kind} sw-says-strong" if kind in _KINDS else "sw-says-muted" if kind == "gone" else "sw-t"
    return element(
        "g",
        rect(x, y, width, height, f"sw-file-{kind}", rx=4),
        text(x + width / 2, y + height / 2 + 4, words, class_, "middle"),
    )


def says(x: float, y: float, words: str, kind: str = "", anchor: str = "start", strong: bool = False) -> Markup:
    """Words in a colour of the theme."""
    class_ = f"sw-says-{kind}" if kind else "sw-t"
    return text(x, y, words, f"{class_} sw-says-strong" if strong else class_, anchor)


def arrow(x1: float, y1: float, x2: float, y2: float, kind: str = "muted") -> Markup:
    """A line with a head at its end, straight up, down, left or right."""
    across, down = (x2 > x1) - (x2 < x1), (y2 > y1) - (y2 < y1)
    back_x, back_y = x2 - 8 * across, y2 - 8 * down
    head = [(x2, y2), (back_x - 4 * down, back_y - 4 * across), (back_x + 4 * down, back_y + 4 * across)]
    return element("g", line(x1, y1, back_x, back_y, f"sw-line-{kind}"), path(head, f"sw-is-{kind}"))
