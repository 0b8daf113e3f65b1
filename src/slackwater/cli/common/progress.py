"""Progress line of a long command: current step and elapsed time, on one line of the terminal.

The line is on stderr, only if stderr is a terminal, and is removed when the work is done. It never enters a pipe or a
file. The environment variable SLACKWATER_PROGRESS = 1|0 overrides this, like for work with Spark.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

from slackwater.html.number_format import visible
from slackwater.html.switch import progress_switch

if TYPE_CHECKING:
    from rich.progress import Progress

# Shorter work shows no line.
_LASTING_S = 0.5


class Working:
    """Progress line of one command. Without `progress` nothing is shown."""

    def __init__(self, progress: Progress | None, what: str) -> None:
        self._progress = progress
        self._task = None if progress is None else progress.add_task(visible(what), total=None)

    def at(self, what: str, done: int, total: int) -> None:
        """Report the current step `what`, with `done` of `total` parts complete."""
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, description=visible(what), completed=done, total=total)


@contextmanager
def working(what: str, console: Console | None = None, lasting_s: float = _LASTING_S) -> Iterator[Working]:
    """Show a progress line for the step `what` while the block runs, after a delay of `lasting_s` seconds.

    `console` replaces stderr.
    """
    shown = console or Console(file=sys.stderr)
    if not (shown.is_terminal if (chosen := progress_switch()) is None else chosen):
        yield Working(None, what)
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    text = TextColumn("{task.description}", markup=False)
    columns = (SpinnerColumn(), text, BarColumn(bar_width=16), TimeElapsedColumn())
    progress = Progress(*columns, console=shown, transient=True, redirect_stdout=False, redirect_stderr=False)
    starting, is_over = threading.Lock(), False

    def start() -> None:
        with starting:
            if not is_over:
                progress.start()

    later = threading.Timer(lasting_s, start)
    later.daemon = True
    later.start()
    try:
        yield Working(progress, what)
    finally:
        later.cancel()
        with starting:
            is_over = True
            progress.stop()
        later.join(timeout=1)
