"""Progress below the running cell of a notebook: one display that is drawn anew in place, without a script.

IPython is used only where other code has imported it: outside of a notebook there is no cell.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from slackwater.html.components import bar
from slackwater.html.element import Markup, element, style_sheet
from slackwater.html.theme import SCOPE, css

# What is over sooner is not worth a line that comes and goes.
_LASTING_S = 0.5


class Cell(Protocol):
    """Where a notebook shows something that may be replaced."""

    def show(self, shown: Mapping[str, str]) -> None:
        """Show one thing in several forms, by their media types; what was shown before is replaced."""
        ...


def running_cell() -> Cell | None:
    """The cell that is running in this process, where a notebook's kernel runs it."""
    ipython = sys.modules.get("IPython")
    if ipython is None:
        return None
    shell = ipython.get_ipython()
    # A shell on a terminal has no kernel.
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
    """A line below a cell, drawn by `refresh` once the work has lasted `_LASTING_S`; has the methods of Rich's Live.

    `line` gives what it says now: the operation, its parts, and how much of it is done (0 to 1, None: not known).
    `since` gives the seconds for which the work goes on.
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
        """Something may be drawn from now on."""
        self.is_started = True

    def refresh(self) -> None:
        """Draw it anew."""
        if self._since() >= _LASTING_S:
            operation, parts, share = self._line()
            self._show(operation, parts, share)

    def stop(self) -> None:
        """Take it away."""
        if self._is_drawn:
            self._cell.show({"text/plain": "", "text/html": ""})
        self.is_started = False

    def summarise(self, operation: str, parts: list[str]) -> None:
        """Leave what was done in its place."""
        self._show(operation, parts, None)

    def _show(self, operation: str, parts: list[str], share: float | None) -> None:
        self._is_drawn = True
        plain = f"{operation}: {', '.join(parts)}"
        self._cell.show({"text/plain": plain, "text/html": str(progress_html(operation, parts, share))})


def progress_html(operation: str, parts: list[str], share: float | None) -> Markup:
    """One line: what is done, a bar where it is known how much of it is, and the parts."""
    drawn = None if share is None else bar([(share, "mark")], f"{share:.0%} done", 160)
    words = element("span", " · ".join(parts), class_="sw-muted")
    inside = element("div", element("b", operation), drawn, words, class_="sw-progress", role="status")
    return element("div", style_sheet(css()), inside, class_=SCOPE)
