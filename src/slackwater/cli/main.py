"""Command `slackwater`: reads logs and maintains tables, without Spark."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from slackwater.cli.common.render import print_error, show_warning
from slackwater.cli.lake.lake import lake_app
from slackwater.cli.lake.serve import serve, token_app
from slackwater.cli.rows.diff import diff_command
from slackwater.cli.rows.head_count import count_command, head_command
from slackwater.cli.rows.query import query_command
from slackwater.cli.table.convert import convert_command, generate_command
from slackwater.cli.table.describe import detail, files, schema
from slackwater.cli.table.history import history
from slackwater.cli.table.log_commands import log_app
from slackwater.cli.table.maintenance_commands import clone_command, restore_command, vacuum_command
from slackwater.cli.table.spark_only_commands import register
from slackwater.cli.table.stream_state import stream_state_command
from slackwater.cli.table.verify import verify_command
from slackwater.cli.visualize.layout import layout_command
from slackwater.cli.visualize.timeline import timeline_command
from slackwater.errors import CheckpointFallbackWarning, SlackwaterError
from slackwater.version import __version__


class _Commands(TyperGroup):
    """Command group. Errors are one line with exit code 1; a bug keeps its traceback."""

    def invoke(self, ctx: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("always", CheckpointFallbackWarning)
            warnings.showwarning = show_warning
            try:
                result = super().invoke(ctx)
            except SlackwaterError as error:
                print_error(str(error))
                raise typer.Exit(1) from error
        # Flush here so that a closed pipe raises before the interpreter's exit, and can be handled silently.
        sys.stdout.flush()
        return result


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"slackwater {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=_Commands,
    help="Delta tables: look at them, keep them healthy; and lakes of them under a commit owner. No Spark is needed.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


@app.callback()
def _program(
    _: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    pass


_OF_A_TABLE = "A table"
_UPKEEP = "Upkeep of a table"
_OF_A_LAKE = "A lake and its owner"
_PICTURES = "Pictures"

app.command(rich_help_panel=_OF_A_TABLE)(history)
app.command(rich_help_panel=_OF_A_TABLE)(detail)
app.command(rich_help_panel=_OF_A_TABLE)(files)
app.command(rich_help_panel=_OF_A_TABLE)(schema)
app.command(name="head", rich_help_panel=_OF_A_TABLE)(head_command)
app.command(name="count", rich_help_panel=_OF_A_TABLE)(count_command)
app.command(name="query", rich_help_panel=_OF_A_TABLE)(query_command)
app.command(name="diff", rich_help_panel=_OF_A_TABLE)(diff_command)
app.command(name="verify", rich_help_panel=_OF_A_TABLE)(verify_command)
app.command(name="stream-state", rich_help_panel=_OF_A_TABLE)(stream_state_command)
app.command(name="layout", rich_help_panel=_PICTURES)(layout_command)
app.command(name="timeline", rich_help_panel=_PICTURES)(timeline_command)
app.command(name="vacuum", rich_help_panel=_UPKEEP)(vacuum_command)
app.command(name="restore", rich_help_panel=_UPKEEP)(restore_command)
app.command(name="clone", rich_help_panel=_UPKEEP)(clone_command)
app.command(name="convert", rich_help_panel=_UPKEEP)(convert_command)
app.command(name="generate", rich_help_panel=_UPKEEP)(generate_command)
app.add_typer(log_app, name="log", rich_help_panel=_UPKEEP)
app.add_typer(lake_app, name="lake", rich_help_panel=_OF_A_LAKE)
app.command(rich_help_panel=_OF_A_LAKE)(serve)
app.add_typer(token_app, name="token", rich_help_panel=_OF_A_LAKE)
register(app)
