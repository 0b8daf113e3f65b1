"""Where the command `slackwater` begins: also where what it needs is not installed."""

from __future__ import annotations

import os
import sys

from slackwater.errors import InvalidArgument
from slackwater.optional_dependencies import require


def run() -> None:
    """Run the command line; without its packages say so in one sentence, with exit code 1."""
    try:
        require("cli", "the command line")
    except InvalidArgument as error:
        sys.exit(f"error: {error}")
    from slackwater.cli.main import app

    try:
        app(prog_name="slackwater")
    except SystemExit as end:
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        # The reader, as `head`, has all that it wants. What is still buffered goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
