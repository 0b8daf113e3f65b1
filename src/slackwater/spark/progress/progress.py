"""The progress line of long work: which stage it is in, how far that is and what is left, how long it has taken.

One transient line on stderr, or below the cell of a notebook, redrawn by a thread while the driver waits for Spark.
Where Spark draws its own bar on the same terminal (`spark.ui.showConsoleProgress`, on by default in classic sessions),
two redrawn lines would erase each other: then a stage that lasts is named once, on a line of its own, and Spark's bar
moves below it.

Shown only where stderr is a terminal, and in notebooks, for the work of the main thread. The Spark conf
`spark.slackwater.progress` = true|false decides otherwise, and so does, where that is not set, the environment variable
SLACKWATER_PROGRESS = 1|0.
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
from slackwater.html.switch import progress_switch
from slackwater.spark.progress.notebook import Cell, NotebookLine, running_cell
from slackwater.spark.progress.tasks import JobTasks, ServerTasks, TaskCounter, Tasks
from slackwater.spark.session.classic_connect import is_connect

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

CONF = "spark.slackwater.progress"

_SPARKS_OWN_BAR = "spark.ui.showConsoleProgress"
_SHELLS_OWN_BAR = "SPARK_CONNECT_PROGRESS_BAR_ENABLED"
_REFRESH_S = 0.25
# Work that is done sooner needs no words: below, Spark shows nothing either.
_LASTING_S = 0.5
_SUMMARY_S = 1.0
_BAR = 16
_SPINNER, _PLAIN_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "-\\|/"

# A terminal has one progress line.
_terminal = threading.Lock()


class Progress:
    """The progress of one operation; this class itself shows nothing and costs nothing.

    A context manager: the line is there from the first stage until the end of the block, however that is left.
    Nothing here ever fails the work that is shown.
    """

    @staticmethod
    def of(
        spark: SparkSession,
        operation: str,
        console: Console | None = None,
        by_arrow: Callable[[], bool] = lambda: False,
        said: str | None = None,
    ) -> Progress:
        """The progress of `operation`, such as "MERGE": a line where one is wanted, else nothing at all.

        `console` stands in for stderr. Where `by_arrow` answers that executors read and write the rows in Python, the
        line says so. A second line at the same time is not shown. `said`: what the session's setting is, where that is
        known, '' for nothing; None: the session is asked.
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
        """The block is all of `operation`, in one stage; without a session nothing is shown. The others as in `of`."""
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
        """A part of the work, for as long as the block runs; `files` is how many it goes through."""
        del name, files
        return nullcontext()

    def rows(self, count: int | None) -> None:
        """How many rows the operation is about, as soon as that is known."""

    def done(self, files: int | None = None, rows: int | None = None) -> None:
        """What was done in all; said in one line at the end, where the work was long and did not fail."""


class ProgressLine(Progress):
    """Progress that is shown on `console`.

    `tasks` is asked about the jobs that are tagged with its `tag` while a stage runs; None where nothing can be known.
    With `beside_bar`, Spark draws on the same line. `clock` is in seconds.
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
            # Others' output stays theirs: with a redirection, what another thread prints would go to stderr.
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
        """As `Progress.stage`. Stages may stand in one another: the innermost is shown."""
        outer = self._stage
        self._stage = _Stage(name, files, self._clock())
        self._start()
        try:
            with self._tasks.tagged() if self._tasks is not None else nullcontext():
                yield
        finally:
            self._stage, self._seen = outer, None

    def rows(self, count: int | None) -> None:
        """As `Progress.rows`."""
        self._rows = count

    def done(self, files: int | None = None, rows: int | None = None) -> None:
        """As `Progress.done`."""
        self._summary = files, rows

    def line(self) -> Text:
        """What the line says now."""
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
        """The operation, what it is at, and how much of that is done: of what runs now, where that is known."""
        stage, seen = self._stage, self._seen
        parts = [] if stage is None else [stage.name, *_counts(stage.files, self._rows)]
        share = None
        if seen is not None and seen.total:
            share = seen.finished / seen.total
            parts.append(f"tasks {seen.finished:,}/{seen.total:,}")
        return self._operation, [*parts, span(self._clock() - self._began)], share

    def refresh(self) -> None:
        """Draw the line anew; beside Spark's bar, name the stage if it lasts and has not been named."""
        try:
            if self._live is not None:
                # Asked before anything is locked: where Spark does not answer, the end need not wait for it.
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
        # The start of the line and its erasure: Spark's bar may be on it, and comes back below.
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
    """A stream that falls silent when writing to it fails: Rich ends the process where a pipe is closed."""

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
        setting = spark.conf.get(CONF, None) if said is None else said
        chosen = progress_switch(setting or "")
        if chosen is None:
            seen = cell is not None or sys.stderr.isatty() if console is None else console.is_terminal
            # What goes on beside the prompt, as the batches of streams do, would write over what is typed there.
            chosen = seen and threading.current_thread() is threading.main_thread()
    except Exception:  # noqa: BLE001  a stopped session, or no stderr: the work itself says what is wrong
        return False
    return chosen


def _stderr() -> Console:
    from rich.console import Console

    stream: Any = _Quietly(sys.stderr)
    # Forced: this is a terminal, or the user who asked for the line has one that does not say so.
    return Console(file=stream, force_terminal=True, force_jupyter=False)


def _views(spark: SparkSession, in_notebook: bool = False) -> tuple[TaskCounter | None, bool]:
    """What the tasks are known by, and whether Spark draws a bar of its own on this terminal."""
    own_bar = spark.conf.get(_SPARKS_OWN_BAR, "false") == "true"
    if is_connect(spark):
        # A server elsewhere draws on its own terminal; one that this process has started shares ours.
        own_bar = (own_bar and "SPARK_LOCAL_REMOTE" in os.environ) or os.environ.get(_SHELLS_OWN_BAR) == "1"
        seen: TaskCounter = ServerTasks(spark)
    else:
        seen = JobTasks(spark.sparkContext, f"slackwater-{uuid.uuid4()}")
    # What is displayed below a cell and Spark's bar, where the kernel shows that at all, do not erase each other.
    own_bar = own_bar and not in_notebook
    return None if own_bar else seen, own_bar


def _bar(share: float, utf8: bool) -> str:
    """How much of it is done, in the letters that the terminal has."""
    done = round(min(max(share, 0.0), 1.0) * _BAR)
    full, empty = ("━", "─") if utf8 else ("#", ".")
    return full * done + empty * (_BAR - done)


def _counts(files: int | None, rows: int | None) -> list[str]:
    named = (("file", files), ("row", rows))
    return [counted(count, noun) for noun, count in named if count is not None]
