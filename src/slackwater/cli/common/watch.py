"""Repeated display of a command's output, until Ctrl-C."""

from __future__ import annotations

import datetime as dt
import sys
import time
from collections.abc import Callable
from typing import Annotated

import typer
from rich.console import Console

from slackwater.html.number_format import iso

Watch = Annotated[
    float | None,
    typer.Option(
        "--watch", min=0.1, metavar="SECONDS", help="Repeat the output after this pause in seconds, until Ctrl-C."
    ),
]


def watched(seconds: float | None, show: Callable[[], None]) -> None:
    """Call `show` once, or with `seconds` repeatedly, with this pause between calls, until Ctrl-C.

    In a terminal each output replaces the previous one; in a pipe outputs follow one another. An error ends the loop.
    """
    if seconds is None:
        show()
        return
    console = Console()
    try:
        while True:
            if console.is_terminal:
                console.clear()
                now = iso(dt.datetime.now(dt.timezone.utc))
                console.print(f"{now}, every {seconds:g} s; Ctrl-C ends", style="dim", highlight=False)
            show()
            sys.stdout.flush()
            time.sleep(seconds)
    except KeyboardInterrupt:
        return
