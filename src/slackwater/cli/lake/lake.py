"""Command group `slackwater lake …`."""

from __future__ import annotations

from slackwater.cli.common.help import Commands, HelpGroup
from slackwater.cli.lake import tables
from slackwater.cli.lake.activity import locks_command, transactions_command
from slackwater.cli.lake.backup_recover import backup_command, recover_command
from slackwater.cli.lake.create import create_command
from slackwater.cli.lake.history_commands import as_of_command, history_command
from slackwater.cli.lake.maintain import maintain_command

lake_app = Commands(
    cls=HelpGroup,
    help="""Manage the named tables of a lake under a commit owner.

    Examples:
        slackwater lake create /data/lake
        slackwater lake tables /data/lake
    """,
    no_args_is_help=True,
)

_INSPECT, _CHANGE, _REPAIR = "Inspect", "Change", "Repair"

lake_app.command(rich_help_panel=_INSPECT)(tables.tables)
lake_app.command(name="history", rich_help_panel=_INSPECT)(history_command)
lake_app.command(name="as-of", rich_help_panel=_INSPECT)(as_of_command)
lake_app.command(rich_help_panel=_INSPECT)(tables.commits)
lake_app.command(name="transactions", rich_help_panel=_INSPECT)(transactions_command)
lake_app.command(name="locks", rich_help_panel=_INSPECT)(locks_command)
lake_app.command(name="create", rich_help_panel=_CHANGE)(create_command)
lake_app.command(rich_help_panel=_CHANGE)(tables.adopt)
lake_app.command(rich_help_panel=_CHANGE)(tables.rename)
lake_app.command(rich_help_panel=_CHANGE)(tables.migrate)
lake_app.command(rich_help_panel=_CHANGE)(tables.drop)
lake_app.command(rich_help_panel=_CHANGE)(tables.release)
lake_app.command(name="maintain", rich_help_panel=_CHANGE)(maintain_command)
lake_app.command(rich_help_panel=_REPAIR)(tables.backfill)
lake_app.command(rich_help_panel=_REPAIR)(tables.repair)
lake_app.command(name="backup", rich_help_panel=_REPAIR)(backup_command)
lake_app.command(name="recover", rich_help_panel=_REPAIR)(recover_command)
