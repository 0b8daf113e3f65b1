"""The command `slackwater`: what a table's log says, and what keeps it healthy, without Spark."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import typer
from typer.core import TyperGroup

from slackwater.cli.lake.lake import lake_app
from slackwater.cli.lake.serve import serve, token_app
from slackwater.cli.render import print_error, show_warning
from slackwater.cli.table.convert import convert_command, generate_command
from slackwater.cli.table.describe import detail, files, history, schema
from slackwater.cli.table.log import log_app
from slackwater.cli.table.services import clone_command, restore_command, vacuum_command
from slackwater.cli.table.streams import stream_state_command
from slackwater.errors import CheckpointFallbackWarning, SlackwaterError


class _Commands(TyperGroup):
    """The commands, whose errors are one line and exit code 1; a bug keeps its traceback."""

    def invoke(self, ctx: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("always", CheckpointFallbackWarning)
            warnings.showwarning = show_warning
            try:
                result = super().invoke(ctx)
            except SlackwaterError as error:
                print_error(str(error))
                raise typer.Exit(1) from error
        # A reader that has gone away shows here, where it can be dealt with quietly, not at the interpreter's end.
        sys.stdout.flush()
        return result


app = typer.Typer(
    cls=_Commands,
    help="Delta tables: their history, detail, files and schema; and lakes of them under a commit owner.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(history)
app.command()(detail)
app.command()(files)
app.command()(schema)
app.command()(serve)
app.command(name="vacuum")(vacuum_command)
app.command(name="restore")(restore_command)
app.command(name="clone")(clone_command)
app.command(name="convert")(convert_command)
app.command(name="generate")(generate_command)
app.command(name="stream-state")(stream_state_command)
app.add_typer(token_app, name="token")
app.add_typer(lake_app, name="lake")
app.add_typer(log_app, name="log")
