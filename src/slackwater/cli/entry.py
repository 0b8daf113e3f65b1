"""Entry point of the command `slackwater`, also if its packages are not installed."""

from __future__ import annotations

import os
import sys

from slackwater.errors import InvalidArgument
from slackwater.optional_dependencies import require


def run() -> None:
    """Run the command line. If its packages are missing, print the error and exit with code 1."""
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
        # The reader, such as `head`, closed the pipe. Discard the buffered output, so that its flush raises no error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
