"""Progress below the running cell of a notebook: one display, updated in place, without a script.

IPython is used only if other code has imported it: without IPython there is no cell.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from slackwater.html.components import bar
from slackwater.html.element import Markup, element, style_sheet
from slackwater.html.theme import SCOPE, css

# Shorter work shows no line, because the line would only flicker.
_LASTING_S = 0.5


class Cell(Protocol):
    """Replaceable output of a notebook cell."""

    def show(self, shown: Mapping[str, str]) -> None:
        """Show one object in several forms, by media type. Replaces the previous output."""
        ...


def running_cell() -> Cell | None:
    """Return the running cell of this process, or None if no notebook kernel runs."""
    ipython = sys.modules.get("IPython")
    if ipython is None:
        return None
    shell = ipython.get_ipython()
    # An IPython terminal has no kernel.
    return _IPythonCell() if getattr(shell, "kernel", None) is not None else None


class _IPythonCell:
    def __init__(self) -> None:
        self._display_id = f"slackwater-{uuid.uuid4()}"
        self._is_shown = False

    def show(self, shown: Mapping[str, str]) -> None:
        display: Any = sys.modules["IPython"].display.display
        display(dict(shown), raw=True, display_id=self._display_id, update=self._is_shown)
        self._is_shown = True


class NotebookLine:
    """A line below a cell, drawn by `refresh` after `_LASTING_S` seconds. Has the methods of Rich's Live.

    `line` returns the operation, its parts, and the finished fraction (0 to 1, None: unknown). `since` returns the
    elapsed seconds.
    """

    def __init__(
        self, cell: Cell, line: Callable[[], tuple[str, list[str], float | None]], since: Callable[[], float]
    ) -> None:
        self._cell = cell
        self._line = line
        self._since = since
        self._is_drawn = False
        self.is_started = False

    def start(self) -> None:
        """Allow drawing from now on."""
        self.is_started = True

    def refresh(self) -> None:
        """Redraw the line."""
        if self._since() >= _LASTING_S:
            operation, parts, share = self._line()
            self._show(operation, parts, share)

    def stop(self) -> None:
        """Remove the line."""
        if self._is_drawn:
            self._cell.show({"text/plain": "", "text/html": ""})
        self.is_started = False

    def summarise(self, operation: str, parts: list[str]) -> None:
        """Replace the line by a summary."""
        self._show(operation, parts, None)

    def _show(self, operation: str, parts: list[str], share: float | None) -> None:
        self._is_drawn = True
        plain = f"{operation}: {', '.join(parts)}"
        self._cell.show({"text/plain": plain, "text/html": str(progress_html(operation, parts, share))})


def progress_html(operation: str, parts: list[str], share: float | None) -> Markup:
    """Return one line: the operation, a bar if the finished fraction is known, and the parts."""
    drawn = None if share is None else bar([(share, "mark")], f"{share:.0%} done", 160)
    words = element("span", " · ".join(parts), class_="sw-muted")
    inside = element("div", element("b", operation), drawn, words, class_="sw-progress", role="status")
    return element("div", style_sheet(css()), inside, class_=SCOPE)
