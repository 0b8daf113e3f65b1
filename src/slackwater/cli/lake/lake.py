"""Command group `slackwater lake …`."""

from __future__ import annotations

import typer

from slackwater.cli.lake import tables
from slackwater.cli.lake.activity import locks_command, transactions_command
from slackwater.cli.lake.backup_recover import backup_command, recover_command
from slackwater.cli.lake.create import create_command
from slackwater.cli.lake.history_commands import as_of_command, history_command

lake_app = typer.Typer(help="Named tables under a commit owner.", no_args_is_help=True)

_LOOK, _CHANGE, _MEND = "Look", "Change", "Mend"

lake_app.command(rich_help_panel=_LOOK)(tables.tables)
lake_app.command(name="history", rich_help_panel=_LOOK)(history_command)
lake_app.command(name="as-of", rich_help_panel=_LOOK)(as_of_command)
lake_app.command(rich_help_panel=_LOOK)(tables.commits)
lake_app.command(name="transactions", rich_help_panel=_LOOK)(transactions_command)
lake_app.command(name="locks", rich_help_panel=_LOOK)(locks_command)
lake_app.command(name="create", rich_help_panel=_CHANGE)(create_command)
lake_app.command(rich_help_panel=_CHANGE)(tables.adopt)
lake_app.command(rich_help_panel=_CHANGE)(tables.rename)
lake_app.command(rich_help_panel=_CHANGE)(tables.drop)
lake_app.command(rich_help_panel=_CHANGE)(tables.release)
lake_app.command(rich_help_panel=_MEND)(tables.backfill)
lake_app.command(rich_help_panel=_MEND)(tables.repair)
lake_app.command(name="backup", rich_help_panel=_MEND)(backup_command)
lake_app.command(name="recover", rich_help_panel=_MEND)(recover_command)
