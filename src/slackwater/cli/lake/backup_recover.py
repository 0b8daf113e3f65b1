"""Backup and recovery commands: `slackwater lake backup | recover`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slackwater.cli.common.progress import working
from slackwater.cli.common.render import print_done, print_lines
from slackwater.cli.common.shared_arguments import AsCsv, AsJson, StorageOption, form_of, storage_options
from slackwater.cli.lake.lake_argument import DatabaseUrl, require_lake


def recover_command(
    path: Annotated[
        str,
        typer.Argument(metavar="LAKE", help="Directory or URL of the lake. No process may use it.", show_default=False),
    ],
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TABLE",
            help="Directories or URLs of tables outside LAKE; NAME=TABLE sets the name of a table.",
            show_default=False,
        ),
    ] = None,
    database: DatabaseUrl = None,
    counts: Annotated[
        list[str] | None,
        typer.Option("--counts", metavar="FILE", help="Name of a staged file to accept. Repeatable."),
    ] = None,
    counts_not: Annotated[
        list[str] | None,
        typer.Option("--counts-not", metavar="FILE", help="Name of a staged file to reject. Repeatable."),
    ] = None,
    owner: Annotated[
        list[str] | None,
        typer.Option("--owner", metavar="ID", help="Former owner of the tables, if they had several. Repeatable."),
    ] = None,
    accept_loss: Annotated[
        bool,
        typer.Option(
            "--accept-loss", help="Continue without commits ratified in the database but missing in the tables."
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the actions, and do nothing.")] = False,
    storage_option: StorageOption = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Recreate the owner's state from the tables, if the state is lost or older than the tables.

    Stop every process of the lake first. If the tables do not show which commits were ratified, the command changes
    nothing and reports the undecided commits.

    Examples:
        slackwater lake recover /data/lake --dry-run
    """  # fmt: skip
    from slackwater.lake.lake import LogLake
    from slackwater.lake.recovery.recovery import RecoveryOptions

    form = form_of(as_json, as_csv)
    choices = RecoveryOptions(tables or (), counts or (), counts_not or (), owner or (), accept_loss)
    options = storage_options(storage_option)
    with working("reading the tables' logs"):
        lines = LogLake.recover_state(path, database, options, choices, dry_run).lines
    print_lines(form, lines)


def backup_command(
    path: Annotated[str, typer.Argument(metavar="LAKE", help="Directory of the lake.", show_default=False)],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="New file for the copy.", show_default=False)],
    database: DatabaseUrl = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Copy the owner's SQLite database to a new file, during normal operation.

    Copy the tables after the database.

    Examples:
        slackwater lake backup /data/lake /data/owner-backup.db
    """
    from slackwater.owner.database.database import Database
    from slackwater.owner.embedded import database_url

    form = form_of(as_json, as_csv)
    require_lake(path, database)
    opened = Database(database_url(path, database))
    try:
        with working("copying the database"):
            opened.backup(file)
    finally:
        opened.close()
    print_done(form, {"file": str(file)})
