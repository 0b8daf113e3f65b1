"""The line of a command that lasts: on a terminal, and nowhere else."""

from __future__ import annotations

import io
import threading

import pytest
from rich.console import Console

from slackwater.cli.common.progress import working
from slackwater.html.switch import VARIABLE


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


class Screen(io.StringIO):
    """What is drawn; `drawn` is set as soon as something is."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = threading.Event()

    def write(self, text: str) -> int:
        if text.strip():
            self.drawn.set()
        return super().write(text)


def _console(is_terminal: bool) -> tuple[Console, Screen]:
    screen = Screen()
    return Console(file=screen, force_terminal=is_terminal, width=80), screen


def test_a_terminal_shows_what_the_command_is_at_and_nothing_is_left_of_it() -> None:
    console, screen = _console(is_terminal=True)
    with working("reading rows [1]", console, lasting_s=0) as line:
        assert screen.drawn.wait(10)
        line.at("reading orders", 1, 2)
    shown = screen.getvalue()
    # Names of tables are never markup.
    assert "reading orders" in shown
    # The line is erased, and the cursor is there again.
    assert shown.rindex("\x1b[2K") > shown.rindex("reading orders")
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")


def test_what_is_done_soon_and_what_fails_soon_needs_no_words() -> None:
    console, screen = _console(is_terminal=True)
    with working("reading rows", console, lasting_s=60):
        pass
    with pytest.raises(ValueError, match="no rows"), working("reading rows", console, lasting_s=60):
        raise ValueError("no rows")
    assert screen.getvalue().strip() == ""
    assert not [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer) and thread.is_alive()]


@pytest.mark.parametrize(("is_terminal", "says"), [(False, None), (False, "0"), (True, "0")])
def test_a_pipe_gets_nothing_nor_who_wants_nothing(
    monkeypatch: pytest.MonkeyPatch, is_terminal: bool, says: str | None
) -> None:
    if says is not None:
        monkeypatch.setenv(VARIABLE, says)
    console, screen = _console(is_terminal)
    with working("reading rows", console, lasting_s=0) as line:
        line.at("reading orders", 1, 2)
        assert not screen.drawn.wait(0.2)
    assert screen.getvalue() == ""


def test_the_line_ends_with_work_that_fails() -> None:
    console, screen = _console(is_terminal=True)

    def work() -> None:
        assert screen.drawn.wait(10)
        raise ValueError("no rows")

    with pytest.raises(ValueError, match="no rows"), working("reading rows", console, lasting_s=0):
        work()
    shown = screen.getvalue()
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
