"""The progress line: seen on a terminal and where it is asked for, silent elsewhere, never in the way of the work."""

from __future__ import annotations

import io
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from slackwater import DeltaTable, Lake
from slackwater.html.switch import SETTING, VARIABLE
from slackwater.spark.dml import delete, update
from slackwater.spark.dml.merge import merge
from slackwater.spark.progress.notebook import running_cell
from slackwater.spark.progress.progress import Progress, ProgressLine
from slackwater.spark.progress.tasks import JobTasks, ServerTasks, Tasks
from slackwater.spark.session.classic_connect import is_connect
from tests.html.well_formed import attributes, words

HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


class Terminal:
    """A console that writes to memory, and a clock that is set by hand."""

    def __init__(self, **options: Any) -> None:
        self.stream = io.StringIO()
        settings = {"force_terminal": True, "width": 100, "_environ": {"TERM": "xterm"}, **options}
        self.console = Console(file=self.stream, **settings)
        self.now_s = 0.0

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    def line(self, tasks: Any = None, beside_bar: bool = False) -> ProgressLine:
        return ProgressLine("MERGE", self.console, tasks, beside_bar, clock=lambda: self.now_s)


class FakeContext:
    """Spark's context, as far as tags go."""

    def __init__(self) -> None:
        self.tags: list[str] = []

    def addJobTag(self, tag: str) -> None:  # noqa: N802
        self.tags.append(tag)

    def removeJobTag(self, tag: str) -> None:  # noqa: N802
        self.tags.remove(tag)


class FakeSession:
    """A session that has settings, and counts how often it is asked."""

    def __init__(self, **settings: str) -> None:
        self.settings = settings
        self.asked: list[str] = []
        self.conf = self
        self.sparkContext = FakeContext()

    def get(self, key: str, default: str | None = None) -> str | None:
        self.asked.append(key)
        return self.settings.get(key.rpartition(".")[2], default)


class Stderr(io.StringIO):
    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(VARIABLE, raising=False)
    yield
    assert not [thread for thread in threading.enumerate() if thread.name == "slackwater-progress"]


def is_shown(session: Any) -> bool:
    return isinstance(Progress.of(session, "MERGE"), ProgressLine)


def test_a_terminal_gets_the_line_and_nothing_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Stderr(True))
    assert is_shown(FakeSession())
    monkeypatch.setattr(sys, "stderr", Stderr(False))
    assert not is_shown(FakeSession())
    monkeypatch.setattr(sys, "stderr", None)
    assert not is_shown(FakeSession())


@pytest.mark.parametrize(
    ("conf", "variable", "expected"),
    [
        (None, "1", True),
        (None, "0", False),
        ("true", "0", True),
        ("false", "1", False),
        ("FALSE", None, False),
        ("perhaps", None, True),
        (None, "perhaps", True),
        ("", "0", False),
    ],
)
def test_the_conf_wins_over_the_variable_and_both_over_the_terminal(
    monkeypatch: pytest.MonkeyPatch, conf: str | None, variable: str | None, expected: bool
) -> None:
    monkeypatch.setattr(sys, "stderr", Stderr(True if expected and "perhaps" in (conf, variable) else not expected))
    if variable is not None:
        monkeypatch.setenv(VARIABLE, variable)
    assert is_shown(FakeSession() if conf is None else FakeSession(progress=conf)) == expected


def test_where_nothing_is_shown_the_session_is_asked_once_and_no_thread_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = Stderr(False)
    monkeypatch.setattr(sys, "stderr", stderr)
    session: Any = FakeSession()
    with Progress.of(session, "MERGE") as progress:
        before = threading.active_count()
        with progress.stage("finding matches", files=3):
            assert threading.active_count() == before
        progress.rows(3)
        progress.done(files=3, rows=4)
    assert session.asked == [SETTING]
    assert stderr.getvalue() == ""


def test_what_goes_on_beside_the_prompt_is_not_shown_unless_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Stderr(True))
    found: list[bool] = []
    for session in (FakeSession(), FakeSession(progress="true")):
        thread = threading.Thread(target=lambda asked=session: found.append(is_shown(asked)))
        thread.start()
        thread.join()
    assert found == [False, True]


def test_a_session_that_has_ended_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Stderr(True))
    session: Any = object()
    assert not is_shown(session)


def test_the_line_says_the_stage_the_files_the_rows_the_tasks_and_the_time() -> None:
    terminal = Terminal()

    class Halfway(JobTasks):
        def look(self) -> Tasks:
            return Tasks(34, 2000)

    context = FakeContext()
    with terminal.line(Halfway(context, "tag")) as progress:
        assert isinstance(progress, ProgressLine)
        with progress.stage("finding matches", files=1200):
            assert context.tags == ["tag"]
            progress.rows(1)
            terminal.now_s = 65
            progress.refresh()
        assert context.tags == []
    assert "MERGE" in terminal.text
    assert f"MERGE\x1b[0m  \x1b[36m{'─' * 16}\x1b[0m  finding matches" in terminal.text
    assert "finding matches · 1,200 files · 1 row · tasks 34/2,000 · 1:05" in terminal.text


def test_stages_may_stand_in_one_another() -> None:
    terminal = Terminal()
    with terminal.line() as progress:
        assert isinstance(progress, ProgressLine)
        with progress.stage("outer"):
            with progress.stage("inner"):
                assert "inner" in progress.line().plain
            assert "outer" in progress.line().plain
        assert "outer" not in progress.line().plain


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_the_terminal_is_as_it_was_after_every_end(error: type[BaseException]) -> None:
    terminal = Terminal()

    def work() -> None:
        with terminal.line() as progress:
            progress.done(files=1)
            terminal.now_s = 10
            with progress.stage("finding matches"):
                raise error

    with pytest.raises(error):
        work()
    assert terminal.text.count(HIDE_CURSOR) == terminal.text.count(SHOW_CURSOR) == 1
    assert terminal.text.endswith("\x1b[1A\x1b[2K")
    assert "1 file" not in terminal.text


def test_long_work_ends_with_a_summary_and_short_work_does_not() -> None:
    for seconds, summary in ((0.3, False), (3725, True)):
        terminal = Terminal()
        with terminal.line() as progress:
            terminal.now_s = seconds
            progress.done(files=120, rows=1_234_567)
        assert ("MERGE: 120 files, 1,234,567 rows, 1:02:05\n" in terminal.text) == summary
    terminal = Terminal()
    with terminal.line() as progress:
        terminal.now_s = 2
        progress.done(rows=None)
    assert terminal.text == "MERGE: 2.0 s\n"


def test_beside_sparks_own_bar_a_stage_that_lasts_is_named_once() -> None:
    terminal = Terminal()
    with terminal.line(beside_bar=True) as progress:
        assert isinstance(progress, ProgressLine)
        with progress.stage("finding matches", files=7):
            progress.refresh()
            assert terminal.text == ""
            terminal.now_s = 1
            progress.refresh()
            progress.refresh()
        with progress.stage("soon over"):
            progress.refresh()
    assert terminal.text == "\r\x1b[2KMERGE: finding matches, 7 files\n"


def test_sparks_own_bar_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    terminal = Terminal()
    session: Any = FakeSession(showConsoleProgress="true")
    with Progress.of(session, "MERGE", terminal.console) as progress, progress.stage("finding matches"):
        pass
    assert terminal.text == ""
    session = FakeSession()
    with Progress.of(session, "MERGE", terminal.console) as progress, progress.stage("finding matches"):
        assert len(session.sparkContext.tags) == 1
    assert "finding matches" in terminal.text


def test_rows_that_go_by_arrow_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    for by_arrow in (True, False):
        terminal, session = Terminal(), FakeSession()
        progress = Progress.of(session, "MERGE", terminal.console, lambda found=by_arrow: found)  # type: ignore[arg-type, misc]
        with progress as line, line.stage("finding matches"):
            pass
        assert ("MERGE by Arrow" in terminal.text) is by_arrow


def test_a_second_line_at_the_same_time_is_not_shown() -> None:
    first, second = Terminal(), Terminal()
    with first.line() as shown, shown.stage("one"):
        with second.line() as hidden, hidden.stage("two"):
            hidden.done(files=1)
        with second.line() as hidden:
            assert not isinstance(hidden, ProgressLine)
    with second.line() as progress:
        assert isinstance(progress, ProgressLine)
    assert second.text == ""


@pytest.mark.parametrize("error", [BrokenPipeError, ValueError, UnicodeError])
def test_a_terminal_that_goes_away_does_not_end_the_work(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    class Gone(Stderr):
        def write(self, text: str) -> int:
            raise error(text, 0, 1, "") if error is BrokenPipeError else error("closed")

    monkeypatch.setattr(sys, "stderr", Gone(True))
    monkeypatch.setenv("TERM", "xterm")
    session: Any = FakeSession()
    worked = False
    with Progress.of(session, "MERGE") as progress:
        assert isinstance(progress, ProgressLine)
        with progress.stage("finding matches"):
            progress.refresh()
            worked = True
        progress.done(files=1)
    assert worked


def test_a_failure_to_draw_does_not_end_the_work() -> None:
    terminal = Terminal()

    class Broken(JobTasks):
        def look(self) -> Tasks:
            raise RuntimeError("no tasks")

    with terminal.line(Broken(object(), "tag")) as progress:
        assert isinstance(progress, ProgressLine)
        with progress.stage("finding matches"):
            progress.refresh()
        with progress.stage("rewriting"):
            pass
    assert terminal.text.count(HIDE_CURSOR) == terminal.text.count(SHOW_CURSOR) == 1


def test_a_terminal_without_braille_gets_plain_letters() -> None:
    terminal = Terminal()
    terminal.console = Console(
        file=io.TextIOWrapper(io.BytesIO(), "ascii"), force_terminal=True, width=100, _environ={"TERM": "xterm"}
    )
    line = terminal.line()
    with line as progress, progress.stage("finding matches", files=2):
        assert line.line().plain.isascii()


def test_a_narrow_terminal_gets_one_row() -> None:
    terminal = Terminal(width=30)
    with terminal.line() as progress, progress.stage("a stage with a very long name, longer than the row", files=5):
        pass
    assert terminal.text.count("\n") == 1


@pytest.mark.spark
def test_the_tasks_are_those_of_the_jobs_of_this_thread(spark: SparkSession) -> None:
    if is_connect(spark):
        pytest.skip("the server tells: the test below")
    tasks = JobTasks(spark.sparkContext, "slackwater-test")
    with tasks.tagged():
        assert list(spark.sparkContext.getJobTags()) == ["slackwater-test"]
        assert spark.range(10).count() == 10
    context: Any = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    assert len(context.statusTracker().getJobIdsForTag("slackwater-test")) >= 1
    assert tasks.look() == Tasks(0, 0)
    assert list(spark.sparkContext.getJobTags()) == []
    assert JobTasks(object(), "tag").look() is None


@pytest.mark.spark
def test_through_connect_the_server_tells_of_the_tasks(spark: SparkSession) -> None:
    if not is_connect(spark):
        pytest.skip("a classic session is asked: the test above")

    def slowly(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            time.sleep(1.5)
            yield batch

    tasks, seen = ServerTasks(spark), set[Tasks | None]()
    # The server tells every two seconds.
    slow = spark.range(0, 4, 1, 4).mapInArrow(slowly, "id long")
    with tasks.tagged():
        work = threading.Thread(target=slow.collect)
        work.start()
        while work.is_alive():
            seen.add(tasks.look())
            work.join(0.05)
        assert tasks.look() == Tasks(0, 0)
    assert any(told is not None and told.total == 4 for told in seen), seen
    before = len(seen)
    spark.range(3).count()
    assert tasks.look() == Tasks(0, 0)
    assert len(seen) == before


def test_of_a_servers_tasks_those_of_running_stages_count() -> None:
    handlers: list[Callable[..., None]] = []
    session = SimpleNamespace(registerProgressHandler=handlers.append, removeProgressHandler=handlers.remove)
    tasks = ServerTasks(session)
    with tasks.tagged():
        (tell,) = handlers
        tell(stages=[stage(4, 4, True), stage(10, 3)], inflight_tasks=2, operation_id="a", done=False)
        tell(stages=[stage(2, 1)], inflight_tasks=1, operation_id="b", done=False)
        assert tasks.look() == Tasks(4, 12)
        tell(stages=[], inflight_tasks=0, operation_id="a", done=True)
        assert tasks.look() == Tasks(1, 2)
    assert handlers == []
    assert tasks.look() == Tasks(0, 0)


def stage(total: int, completed: int, done: bool = False) -> SimpleNamespace:
    return SimpleNamespace(num_tasks=total, num_completed_tasks=completed, done=done)


@pytest.mark.spark
@pytest.mark.usefixtures("enabled")
def test_changes_tell_how_their_rows_go(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, conf: Callable[[str, str], None]
) -> None:
    told = []

    def of(session: SparkSession, operation: str, console: Any = None, by_arrow: Callable[[], bool] = bool) -> Progress:
        told.append((operation, by_arrow()))
        return Progress()

    for module in (delete, update, merge):
        monkeypatch.setattr(module, "Progress", type("", (), {"of": staticmethod(of)}))
    path = str(tmp_path / "t")
    spark.range(3).write.format("delta").save(path)
    table = DeltaTable.forPath(spark, path)
    for rows, by_arrow in (("arrow", True), ("spark", False)):
        conf("spark.slackwater.rows", rows)
        table.delete("id = 7")
        table.update("id = 7", {"id": "8"})
        table.merge(spark.range(1), "false").whenMatchedDelete().execute()
        assert told[-3:] == [("DELETE", by_arrow), ("UPDATE", by_arrow), ("MERGE", by_arrow)]


@pytest.mark.spark
@pytest.mark.usefixtures("enabled")
def test_writes_tell_how_their_rows_go(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, conf: Callable[[str, str], None]
) -> None:
    told = []

    def of(
        session: SparkSession, operation: str, console: Any, by_arrow: Callable[[], bool], said: str | None
    ) -> Progress:
        told.append((operation, by_arrow()))
        return Progress()

    monkeypatch.setattr(Progress, "of", staticmethod(of))
    frame, table = spark.range(3), f"delta.`{tmp_path / 't'}`"
    for rows, by_arrow in (("arrow", True), ("spark", False)):
        conf("spark.slackwater.rows", rows)
        frame.write.format("delta").mode("overwrite").save(str(tmp_path / "t"))
        spark.sql(f"CREATE OR REPLACE TABLE {table} USING delta AS SELECT 1L AS id")
        frame.write.format("delta").mode("append").option("rows", "arrow").save(str(tmp_path / "t"))
        assert told[-3:] == [("WRITE", by_arrow), ("CREATE OR REPLACE TABLE AS SELECT", by_arrow), ("WRITE", True)]


class FakeCell:
    """What a notebook would show below the cell."""

    def __init__(self) -> None:
        self.shown: list[Mapping[str, str]] = []

    def show(self, shown: Mapping[str, str]) -> None:
        self.shown.append(shown)


class Halfway(JobTasks):
    def look(self) -> Tasks:
        return Tasks(3, 4)


def test_in_a_notebook_one_display_is_drawn_anew_and_ends_as_the_summary() -> None:
    cell, terminal = FakeCell(), Terminal()
    line = ProgressLine(
        "<MERGE>", terminal.console, Halfway(FakeContext(), "t"), cell=cell, clock=lambda: terminal.now_s
    )
    with line as progress:
        assert isinstance(progress, ProgressLine)
        with progress.stage("a < b", files=2):
            assert cell.shown == []
            terminal.now_s = 2
            progress.refresh()
        progress.done(files=2, rows=1204)
    assert terminal.text == ""
    drawn, gone, summary = cell.shown[0], cell.shown[-2], cell.shown[-1]
    assert drawn["text/plain"] == "<MERGE>: a < b, 2 files, tasks 3/4, 2.0 s"
    assert words(drawn["text/html"]) == "<MERGE> 75% done a < b · 2 files · tasks 3/4 · 2.0 s"
    widths = [value for name, key, value in attributes(drawn["text/html"]) if (name, key) == ("rect", "width")]
    assert widths == ["160", "120"]
    assert gone["text/html"] == ""
    assert words(summary["text/html"]) == "<MERGE> 2 files · 1,204 rows · 2.0 s"


def test_short_work_shows_nothing_in_a_notebook_and_work_that_fails_leaves_nothing() -> None:
    cell, terminal = FakeCell(), Terminal()

    def line() -> ProgressLine:
        return ProgressLine("WRITE", terminal.console, cell=cell, clock=lambda: terminal.now_s)

    with line() as progress, progress.stage("writing rows"):
        pass
    assert cell.shown == []

    def fails() -> None:
        with line() as progress, progress.stage("writing rows"):
            terminal.now_s += 5
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert [shown["text/html"] for shown in cell.shown[-1:]] in ([], [""])


def test_a_cell_that_cannot_be_drawn_to_does_not_end_the_work() -> None:
    class Gone(FakeCell):
        def show(self, shown: Mapping[str, str]) -> None:
            raise RuntimeError("the kernel is being shut down")

    terminal = Terminal()
    with ProgressLine("WRITE", terminal.console, cell=Gone(), clock=lambda: terminal.now_s) as progress:
        assert isinstance(progress, ProgressLine)
        terminal.now_s = 5
        with progress.stage("writing rows"):
            progress.refresh()
        progress.done()


def test_a_notebook_is_known_by_its_kernel_and_ipython_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert running_cell() is None
    assert "IPython" not in sys.modules
    for kernel, expected in ((None, False), (object(), True)):
        shell = SimpleNamespace(kernel=kernel)
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda found=shell: found))
        assert (running_cell() is not None) is expected
        monkeypatch.setattr(sys, "stderr", Stderr(False))
        assert is_shown(FakeSession(showConsoleProgress="true")) is expected
        assert not is_shown(FakeSession(progress="false"))


def test_what_the_settings_say_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Stderr(True))
    for said, expected in (("", True), ("false", False)):
        session: Any = FakeSession(progress="true")
        assert isinstance(Progress.of(session, "WRITE", said=said), ProgressLine) is expected
        assert SETTING not in session.asked


@pytest.mark.spark
@pytest.mark.usefixtures("enabled")
def test_long_work_of_every_kind_is_told(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    def of(session: SparkSession, operation: str, *given: Any, **more: Any) -> Progress:
        told.append(operation)
        return Progress()

    monkeypatch.setattr(Progress, "of", staticmethod(of))
    path = str(tmp_path / "t")
    spark.range(3).write.format("delta").save(path)
    table = DeltaTable.forPath(spark, path)
    table.delete("id = 1")
    table.compactLog()
    table.checkpoint()
    table.cleanUpLog()
    table.optimize().executeCompaction()
    with Lake.open(tmp_path / "lake", spark=spark) as lake:
        lake.create_table("a", "id BIGINT")
        lake.backfill("a")
        lake.repair()
    assert told == [
        "WRITE",
        "DELETE",
        "LOG COMPACTION",
        "CHECKPOINT",
        "LOG CLEANUP",
        "OPTIMIZE",
        "BACKFILL",
        "REPAIR",
    ]
