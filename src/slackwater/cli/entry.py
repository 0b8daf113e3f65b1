"""Where the command `slackwater` begins: also where what it needs is not installed."""

from __future__ import annotations

import sys

from slackwater.errors import InvalidArgument
from slackwater.extras import require


def run() -> None:
    """Run the command line; without its packages say so in one sentence, with exit code 1."""
    try:
        require("cli", "the command line")
    except InvalidArgument as error:
        sys.exit(f"error: {error}")
    from slackwater.cli.main import app

    app(prog_name="slackwater")
