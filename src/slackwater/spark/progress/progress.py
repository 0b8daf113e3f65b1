"""Progress line of long operations: current stage, finished and remaining work, elapsed time.

One transient line on stderr or below a notebook cell. A thread redraws the line during waits for Spark. Spark may draw
its own bar on the same terminal (`spark.ui.showConsoleProgress`, on by default in classic sessions). Two redrawn lines
would erase each other, so a long stage is then named once on its own line, and Spark's bar continues below.

Shown by default only on terminals and in notebooks, for the work of the main thread. The Spark conf
`spark.slackwater.progress` = true|false overrides the default. If the conf is unset, the environment variable
SLACKWATER_PROGRESS = 1|0 overrides the default.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from pyspark.sql import SparkSession

from slackwater.html.number_format import counted, span
from slackwater.html.switch import SETTING, progress_switch
from slackwater.spark.progress.notebook import Cell, NotebookLine, running_cell
from slackwater.spark.progress.tasks import JobTasks, ServerTasks, TaskCounter, Tasks
from slackwater.spark.session.classic_connect import is_connect

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text


_SPARKS_OWN_BAR = "spark.ui.showConsoleProgress"
_SHELLS_OWN_BAR = "SPARK_CONNECT_PROGRESS_BAR_ENABLED"
_REFRESH_S = 0.25
# Shorter stages are not named; Spark shows no bar for them either.
_LASTING_S = 0.5
_SUMMARY_S = 1.0
_BAR = 16
_SPINNER, _PLAIN_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "-\\|/"

# A terminal has one progress line.
_terminal = threading.Lock()


class Progress:
    """The progress of one operation. This base class shows nothing and costs nothing.

    A context manager: the line is shown from the first stage until the end of the block, also after an error. Progress
    display never fails the shown work.
    """

    @staticmethod
    def of(
        spark: SparkSession,
        operation: str,
        console: Console | None = None,
        by_arrow: Callable[[], bool] = lambda: False,
        said: str | None = None,
    ) -> Progress:
        """Return the progress of `operation`, such as "MERGE": a line if progress display is on, otherwise nothing.

        `console` replaces stderr. If `by_arrow` returns true, executors read and write rows in Python, and the line
        mentions Arrow. A second simultaneous line is not shown. `said`: the session's setting if known, '' if unset.
        None reads the setting from the session.
        """
        cell = None if console is not None else running_cell()
        if not _is_wanted(spark, console, cell, said):
            return Progress()
        try:
            name = f"{operation} by Arrow" if by_arrow() else operation
            tasks, beside_bar = _views(spark, cell is not None)
            return ProgressLine(name, console or _stderr(), tasks, beside_bar, cell)
        except Exception:  # noqa: BLE001  whatever a terminal or another version of Rich does, the work goes on
            return Progress()

    @staticmethod
    @contextmanager
    def during(
        spark: SparkSession | None,
        operation: str,
        stage: str,
        said: str | None = None,
        by_arrow: Callable[[], bool] = lambda: False,
    ) -> Iterator[None]:
        """Show the block as one stage of `operation`, or nothing without a session. Other parameters: see `of`."""
        with Progress() if spark is None else Progress.of(spark, operation, None, by_arrow, said) as progress:
            with progress.stage(stage):
                yield
            progress.done()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def stage(self, name: str, files: int | None = None) -> AbstractContextManager[None]:
        """Enter a stage of the work for the duration of the block. `files` is the number of files to process."""
        del name, files
        return nullcontext()

    def rows(self, count: int | None) -> None:
        """Set the number of rows of the operation."""

    def done(self, files: int | None = None, rows: int | None = None) -> None:
        """Set the totals for a final summary line, printed after long work without an error."""


class ProgressLine(Progress):
    """Progress shown on `console`.

    `tasks` reports on jobs with its `tag`, set during a stage; None if not available. `beside_bar`: Spark draws its bar
    on the same line. `clock` is in seconds.
    """

    def __init__(
        self,
        operation: str,
        console: Console,
        tasks: TaskCounter | None = None,
        beside_bar: bool = False,
        cell: Cell | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        from rich.live import Live

        self._operation = operation
        self._console = console
        self._tasks = tasks
        self._clock = clock
        self._holds_terminal = False
        self._began = clock()
        self._stage: _Stage | None = None
        self._rows: int | None = None
        self._summary: tuple[int | None, int | None] | None = None
        self._seen: Tasks | None = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._live: Live | NotebookLine | None = None
        self._cell_line: NotebookLine | None = None
        if cell is not None:
            self._live = self._cell_line = NotebookLine(cell, self._told, lambda: clock() - self._began)
        elif not beside_bar:
            # No redirection, because it would send the output of other threads to stderr.
            self._live = Live(
                console=console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
                get_renderable=self.line,
            )

    def __enter__(self) -> Progress:
        self._holds_terminal = _terminal.acquire(blocking=False)
        return self if self._holds_terminal else Progress()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._holds_terminal:
            return
        try:
            self._stop()
            if kind is None:
                self._summarise()
        finally:
            _terminal.release()

    @contextmanager
    def stage(self, name: str, files: int | None = None) -> Iterator[None]:
        """Enter a stage; see `Progress.stage`. Stages can be nested: the innermost is shown."""
        outer = self._stage
        self._stage = _Stage(name, files, self._clock())
        self._start()
        try:
            with self._tasks.tagged() if self._tasks is not None else nullcontext():
                yield
        finally:
            self._stage, self._seen = outer, None

    def rows(self, count: int | None) -> None:
        """See `Progress.rows`."""
        self._rows = count

    def done(self, files: int | None = None, rows: int | None = None) -> None:
        """See `Progress.done`."""
        self._summary = files, rows

    def line(self) -> Text:
        """Return the current text of the line."""
        from rich.text import Text

        operation, parts, share = self._told()
        utf8 = self._console.encoding.lower().startswith("utf")
        spinner = _SPINNER if utf8 else _PLAIN_SPINNER
        frame = spinner[int((self._clock() - self._began) / _REFRESH_S) % len(spinner)]
        separator = " · " if utf8 else ", "
        text = Text(f"{frame} ", no_wrap=True, overflow="ellipsis" if utf8 else "crop")
        text.append(operation, style="bold")
        if share is not None:
            text.append("  ").append(_bar(share, utf8), style="cyan")
        return text.append("  " + separator.join(parts))

    def _told(self) -> tuple[str, list[str], float | None]:
        """Return the operation, its current parts, and the finished fraction of the running tasks if known."""
        stage, seen = self._stage, self._seen
        parts = [] if stage is None else [stage.name, *_counts(stage.files, self._rows)]
        share = None
        if seen is not None and seen.total:
            share = seen.finished / seen.total
            parts.append(f"tasks {seen.finished:,}/{seen.total:,}")
        return self._operation, [*parts, span(self._clock() - self._began)], share

    def refresh(self) -> None:
        """Redraw the line. Beside Spark's bar, print the stage's name once if the stage is long."""
        try:
            if self._live is not None:
                # Query Spark before any lock is taken, so that a blocked Spark cannot delay the end.
                self._seen = None if self._tasks is None else self._tasks.look()
                self._live.refresh()
            else:
                self._name_stage()
        except Exception:  # noqa: BLE001  no failure to draw may reach the work
            self._ended.set()

    def _name_stage(self) -> None:
        stage = self._stage
        if stage is None or stage.is_named or self._clock() - stage.began < _LASTING_S:
            return
        self._stage = replace(stage, is_named=True)
        # Erase the line first, because it may contain Spark's bar. Spark redraws the bar below.
        words = ", ".join([stage.name, *_counts(stage.files, self._rows)])
        start = "" if self._console.is_dumb_terminal else "\r\x1b[2K"
        self._console.file.write(f"{start}{self._operation}: {words}\n")
        self._console.file.flush()

    def _start(self) -> None:
        if self._ended.is_set():
            return
        with suppress(Exception):
            if self._live is not None:
                self._live.start()
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep_drawing, name="slackwater-progress", daemon=True)
                self._thread.start()
        self.refresh()

    def _keep_drawing(self) -> None:
        while not self._ended.wait(_REFRESH_S):
            self.refresh()

    def _stop(self) -> None:
        self._ended.set()
        try:
            if self._thread is not None:
                self._thread.join(timeout=1)
        finally:
            if self._live is not None and self._live.is_started:
                with suppress(Exception):
                    self._live.stop()

    def _summarise(self) -> None:
        took = self._clock() - self._began
        if self._summary is None or took < _SUMMARY_S:
            return
        with suppress(Exception):
            parts = [*_counts(*self._summary), span(took)]
            if self._cell_line is not None:
                self._cell_line.summarise(self._operation, parts)
                return
            words = ", ".join(parts)
            self._console.print(f"{self._operation}: {words}", highlight=False, markup=False, soft_wrap=True)


@dataclass(frozen=True, slots=True)
class _Stage:
    name: str
    files: int | None
    began: float
    is_named: bool = False


class _Quietly:
    """A stream without further output after a failed write, because Rich ends the process if a pipe is closed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._broken = False
        self.encoding = getattr(stream, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        self._attempt(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        self._attempt(self._stream.flush)

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()

    def _attempt(self, step: Callable[[], object]) -> None:
        if self._broken:
            return
        try:
            step()
        except (OSError, ValueError):
            self._broken = True


def _is_wanted(spark: SparkSession, console: Console | None, cell: Cell | None, said: str | None) -> bool:
    try:
        setting = spark.conf.get(SETTING, None) if said is None else said
        chosen = progress_switch(setting or "")
        if chosen is None:
            seen = cell is not None or sys.stderr.isatty() if console is None else console.is_terminal
            # Background threads, such as stream batches, would overwrite the user's input at the prompt.
            chosen = seen and threading.current_thread() is threading.main_thread()
    except Exception:  # noqa: BLE001  a stopped session, or no stderr: the work itself says what is wrong
        return False
    return chosen


def _stderr() -> Console:
    from rich.console import Console

    stream: Any = _Quietly(sys.stderr)
    # Force terminal mode, because the user may have requested the line on an undetected terminal.
    return Console(file=stream, force_terminal=True, force_jupyter=False)


def _views(spark: SparkSession, in_notebook: bool = False) -> tuple[TaskCounter | None, bool]:
    """Return the task counter, and whether Spark draws its own bar on this terminal."""
    own_bar = spark.conf.get(_SPARKS_OWN_BAR, "false") == "true"
    if is_connect(spark):
        # A remote server draws on its own terminal; a server started by this process shares ours.
        own_bar = (own_bar and "SPARK_LOCAL_REMOTE" in os.environ) or os.environ.get(_SHELLS_OWN_BAR) == "1"
        seen: TaskCounter = ServerTasks(spark)
    else:
        seen = JobTasks(spark.sparkContext, f"slackwater-{uuid.uuid4()}")
    # In a notebook, the cell's display and Spark's bar do not erase each other.
    own_bar = own_bar and not in_notebook
    return None if own_bar else seen, own_bar


def _bar(share: float, utf8: bool) -> str:
    """Return a bar for the finished fraction, in characters supported by the terminal."""
    done = round(min(max(share, 0.0), 1.0) * _BAR)
    full, empty = ("━", "─") if utf8 else ("#", ".")
    return full * done + empty * (_BAR - done)


def _counts(files: int | None, rows: int | None) -> list[str]:
    named = (("file", files), ("row", rows))
    return [counted(count, noun) for noun, count in named if count is not None]
