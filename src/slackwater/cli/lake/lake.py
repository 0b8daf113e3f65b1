"""The commands of a lake: `slackwater lake tables | commits | backfill | adopt | release | repair`, and for disasters.

`slackwater lake backup | recover`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.cli.arguments import AsJson, StorageOption, storage_options
from slackwater.cli.render import print_human, print_json, print_note, table
from slackwater.errors import TableNotFound
from slackwater.markup.figures import format_bytes
from slackwater.storage.location import LOCAL, parse_location

if TYPE_CHECKING:
    from slackwater.lake.lake import LogLake
    from slackwater.owner.api.commits import ManagedTable

lake_app = typer.Typer(help="Named tables under a commit owner.", no_args_is_help=True)

_Lake = Annotated[
    str, typer.Argument(metavar="PATH", help="The lake's directory or URL, or its server's URL.", show_default=False)
]
_Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the table.", show_default=False)]
_AnyName = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="One table; without it all of them.", show_default=False)
]
_Database = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        envvar="SLACKWATER_DATABASE",
        help="The database of the lake's owner; by default a file below a local lake.",
    ),
]
_Token = Annotated[
    str | None,
    typer.Option("--token", metavar="TOKEN", envvar="SLACKWATER_TOKEN", help="For a served owner.", show_default=False),
]


@lake_app.command()
def tables(
    path: _Lake,
    database: _Database = None,
    token: _Token = None,
    storage_option: StorageOption = None,
    as_json: AsJson = False,
) -> None:
    """The tables, and how far each has come."""
    with _open(path, database, token, storage_option) as lake:
        found = lake.tables()
    if as_json:
        print_json([_record(each) for each in found])
        return
    headers = ("table", "version", "backfilled", "last commit (UTC)", "state", "location")
    rows = [
        (t.name, t.ratified_version, t.backfilled_version, _moment(t.timestamp_ms), t.problem or t.state.value,
         t.location)
        for t in found
    ]  # fmt: skip
    print_human(table(headers, rows, right=("version", "backfilled")))


@lake_app.command()
def commits(
    path: _Lake,
    name: _Name,
    database: _Database = None,
    token: _Token = None,
    storage_option: StorageOption = None,
    as_json: AsJson = False,
) -> None:
    """The commits of a table that count and are not backfilled yet."""
    with _open(path, database, token, storage_option) as lake:
        found = lake.owner.get_commits(lake.owner.table(name).table_id, 0)
    if as_json:
        print_json(
            {
                "latestVersion": found.latest_version,
                "commits": [
                    {
                        "version": c.version,
                        "timestamp": _moment(c.timestamp_ms),
                        "fileName": c.file_name,
                        "sizeInBytes": c.size_bytes,
                    }
                    for c in found.commits
                ],
            }
        )
        return
    rows = [(c.version, _moment(c.timestamp_ms), format_bytes(c.size_bytes), c.file_name) for c in found.commits]
    print_human(table(("version", "timestamp (UTC)", "size", "file"), rows, right=("version", "size")))
    print_note(f"latest version: {found.latest_version}")


@lake_app.command()
def backfill(
    path: _Lake,
    name: _AnyName = None,
    database: _Database = None,
    token: _Token = None,
    storage_option: StorageOption = None,
) -> None:
    """Copies every commit that counts to the log that everybody reads."""
    with _open(path, database, token, storage_option) as lake:
        for each in [name] if name is not None else [t.name for t in lake.tables()]:
            typer.echo(f"{each}: backfilled to version {lake.backfill(each)}")


@lake_app.command()
def adopt(
    path: _Lake,
    name: _Name,
    location: Annotated[str, typer.Argument(metavar="TABLE", help="Directory or URL of the table.")],
    database: _Database = None,
    token: _Token = None,
    storage_option: StorageOption = None,
) -> None:
    """Takes over a table of the file system: it is written through the lake from then on."""
    with _open(path, database, token, storage_option) as lake:
        lake.adopt(name, location)


@lake_app.command()
def release(
    path: _Lake,
    name: _Name,
    database: _Database = None,
    token: _Token = None,
    storage_option: StorageOption = None,
) -> None:
    """Hands a table back to the file system."""
    with _open(path, database, token, storage_option) as lake:
        lake.release(name)


@lake_app.command()
def repair(
    path: _Lake,
    name: _AnyName = None,
    database: _Database = None,
    token: _Token = None,
    storage_option: StorageOption = None,
) -> None:
    """Finishes what was cut short, removes what nobody needs, reports what it cannot mend, and says all it did."""
    with _open(path, database, token, storage_option) as lake:
        done = lake.repair(name)
    for line in done or ["there was nothing to repair"]:
        typer.echo(line)


@lake_app.command()
def recover(
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
    database: _Database = None,
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
) -> None:
    """Makes the owner's state, that is lost or older than the tables, anew from the tables.

    Stop every process of the lake before. Where the tables do not tell which commits counted, nothing is done, and the
    question is asked.
    """  # fmt: skip
    from slackwater.lake.lake import LogLake
    from slackwater.lake.recovery.recovery import RecoveryChoices

    choices = RecoveryChoices(tables or (), counts or (), counts_not or (), owner or (), accept_loss)
    options = storage_options(storage_option)
    for line in LogLake.recover_state(path, database, options, choices, dry_run).lines:
        typer.echo(line)


@lake_app.command()
def backup(
    path: Annotated[str, typer.Argument(metavar="PATH", help="The lake's directory.", show_default=False)],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where the copy is to be.", show_default=False)],
    database: _Database = None,
) -> None:
    """Copies the owner's SQLite database to a new file, while others go on; copy the tables after it."""
    from slackwater.owner.database.database import Database
    from slackwater.owner.embedded import database_url

    if database is None:
        _require_database(parse_location(path).key)
    opened = Database(database_url(path, database))
    try:
        opened.backup(file)
    finally:
        opened.close()


@contextmanager
def _open(path: str, database: str | None, token: str | None, storage_option: list[str] | None) -> Iterator[LogLake]:
    from slackwater.lake.lake import LogLake

    options = storage_options(storage_option)
    if path.lower().startswith(("http://", "https://")):
        with LogLake.connect(path, token, options) as lake:
            yield lake
        return
    location = parse_location(path)
    if database is None and location.scheme == LOCAL:
        _require_database(location.key)
    with LogLake.open(path, database, options) as lake:
        yield lake


def _require_database(key: str) -> None:
    """Looking at a lake must not make one."""
    from slackwater.owner.embedded import DATABASE_FILE

    if not (Path("/") / key / DATABASE_FILE).is_file():
        raise TableNotFound(
            f"/{key} is not a lake: it has no {DATABASE_FILE}; slackwater.Lake.open makes one, and where it was lost "
            "`slackwater lake recover` makes it anew from the tables"
        )


def _record(found: ManagedTable) -> dict[str, object]:
    return {
        "tableId": found.table_id,
        "name": found.name,
        "location": found.location,
        "state": found.state.value,
        "ratifiedVersion": found.ratified_version,
        "backfilledVersion": found.backfilled_version,
        "timestamp": _moment(found.timestamp_ms),
        "problem": found.problem,
    }


def _moment(ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(ms / 1000, dt.timezone.utc)
