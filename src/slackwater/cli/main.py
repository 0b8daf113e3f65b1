"""Command `slackwater`: reads logs and maintains tables, without Spark."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated, Any

import typer

from slackwater.cli.common.help import Commands, HelpGroup
from slackwater.cli.common.render import print_error, show_warning
from slackwater.cli.lake.lake import lake_app
from slackwater.cli.lake.lake_argument import lake_settings, opened
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

_IS_HELP = "slackwater.is_help"


class _Program(HelpGroup):
    """Command group. Errors are one line with exit code 1; a bug keeps its traceback."""

    def invoke(self, ctx: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("always", CheckpointFallbackWarning)
            warnings.showwarning = show_warning
            ctx.meta[_IS_HELP] = "--help" in ctx.args
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


app = Commands(
    cls=_Program,
    help="""Inspect and maintain Delta tables, and lakes of tables under a commit owner. Spark is not needed.

    Examples:
        slackwater history /data/flights
        slackwater lake tables /data/lake
    """,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def _program(
    context: typer.Context,
    lake: Annotated[
        str | None,
        typer.Option(
            "--lake",
            metavar="LAKE",
            envvar="SLACKWATER_LAKE",
            help="Open this lake, to read tables whose versions only its commit owner knows.",
            show_default=False,
        ),
    ] = None,
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version of Slackwater and exit."
        ),
    ] = False,
) -> None:
    # Commands of lakes name their lake themselves, and help needs none.
    if lake is not None and context.invoked_subcommand not in _OF_LAKES and not context.meta[_IS_HELP]:
        context.with_resource(opened(lake, *lake_settings()))


_OF_LAKES = ("lake", "serve", "token")
_INSPECT = "Inspect a table"
_MAINTAIN = "Maintain a table"
_MANAGE = "Manage a lake"
_VISUALIZE = "Visualize"

app.command(rich_help_panel=_INSPECT)(history)
app.command(rich_help_panel=_INSPECT)(detail)
app.command(rich_help_panel=_INSPECT)(files)
app.command(rich_help_panel=_INSPECT)(schema)
app.command(name="head", rich_help_panel=_INSPECT)(head_command)
app.command(name="count", rich_help_panel=_INSPECT)(count_command)
app.command(name="query", rich_help_panel=_INSPECT)(query_command)
app.command(name="diff", rich_help_panel=_INSPECT)(diff_command)
app.command(name="verify", rich_help_panel=_INSPECT)(verify_command)
app.command(name="stream-state", rich_help_panel=_INSPECT)(stream_state_command)
app.command(name="layout", rich_help_panel=_VISUALIZE)(layout_command)
app.command(name="timeline", rich_help_panel=_VISUALIZE)(timeline_command)
app.command(name="vacuum", rich_help_panel=_MAINTAIN)(vacuum_command)
app.command(name="restore", rich_help_panel=_MAINTAIN)(restore_command)
app.command(name="clone", rich_help_panel=_MAINTAIN)(clone_command)
app.command(name="convert", rich_help_panel=_MAINTAIN)(convert_command)
app.command(name="generate", rich_help_panel=_MAINTAIN)(generate_command)
app.add_typer(log_app, name="log", rich_help_panel=_MAINTAIN)
app.add_typer(lake_app, name="lake", rich_help_panel=_MANAGE)
app.command(rich_help_panel=_MANAGE)(serve)
app.add_typer(token_app, name="token", rich_help_panel=_MANAGE)
register(app)
