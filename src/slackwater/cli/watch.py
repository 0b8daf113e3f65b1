"""Commands that show the same again and again, until somebody has seen enough."""

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
        "--watch", min=0.1, metavar="SECONDS", help="Show it again so often, until Ctrl-C.", show_default=False
    ),
]


def watched(seconds: float | None, show: Callable[[], None]) -> None:
    """Call `show` once, or where `seconds` is given again and again, so long apart, until Ctrl-C.

    In a terminal each time takes the place of the one before; into a pipe they follow one another. An error ends it.
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
