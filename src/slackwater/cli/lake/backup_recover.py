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
        str, typer.Argument(metavar="PATH", help="The lake's directory or URL; it is not open.", show_default=False)
    ],
    tables: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TABLE]...",
            help="Tables that are not below PATH; NAME=TABLE says how one is called.",
            show_default=False,
        ),
    ] = None,
    database: DatabaseUrl = None,
    counts: Annotated[
        list[str] | None,
        typer.Option("--counts", metavar="FILE", help="A staged file that counts, by its name; repeatable."),
    ] = None,
    counts_not: Annotated[
        list[str] | None,
        typer.Option("--counts-not", metavar="FILE", help="A staged file that does not count; repeatable."),
    ] = None,
    owner: Annotated[
        list[str] | None,
        typer.Option("--owner", metavar="ID", help="Whose tables these are, where there are several; repeatable."),
    ] = None,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Without what the database has ratified and the tables do not have.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    storage_option: StorageOption = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Recreate the owner's state from the tables, if the state is lost or older than the tables.

    Stop every process of the lake first. If the tables do not show which commits were ratified, the command changes
    nothing and reports the undecided commits.
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
    path: Annotated[str, typer.Argument(metavar="PATH", help="The lake's directory.", show_default=False)],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where the copy is to be.", show_default=False)],
    database: DatabaseUrl = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Copy the owner's SQLite database to a new file, during normal operation; copy the tables after it."""
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
