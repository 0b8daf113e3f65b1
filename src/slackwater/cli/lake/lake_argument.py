"""Arguments for the lake of a command, and access to the lake. Reading or serving a lake never creates one."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.cli.common.shared_arguments import storage_options
from slackwater.errors import InvalidArgument, TableNotFound
from slackwater.storage.location import LOCAL, parse_location

if TYPE_CHECKING:
    from slackwater.lake.lake import LogLake

LakePath = Annotated[
    str, typer.Argument(metavar="LAKE", help="Directory or URL of the lake, or URL of its server.", show_default=False)
]
LakeRoot = Annotated[str, typer.Argument(metavar="LAKE", help="Directory or URL of the lake.", show_default=False)]
TableName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the table.", show_default=False)]
AnyTableName = Annotated[
    str | None, typer.Argument(metavar="NAME", help="Name of the table.", show_default="all tables")
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        envvar="SLACKWATER_DATABASE",
        help="Database of the commit owner: PostgreSQL or SQLite.",
        show_default="a file below the local lake",
    ),
]
Token = Annotated[
    str | None,
    typer.Option("--token", metavar="TOKEN", envvar="SLACKWATER_TOKEN", help="Access token of the lake's server."),
]
CaFile = Annotated[
    str | None,
    typer.Option(
        "--ca-file",
        metavar="PEM",
        envvar="SSL_CERT_FILE",
        help="File with trusted certificates, if no known authority signed the server's certificate.",
    ),
]


_LOOK_S = 10.0
WORK_S = 60.0
"""Timeout in seconds for responses of a served owner in commands that change a lake, see `LogLake.connect`."""


@contextmanager
def opened(
    path: str,
    database: str | None,
    token: str | None,
    ca_file: str | None,
    storage_option: list[str] | None,
    timeout_s: float = _LOOK_S,
) -> Iterator[LogLake]:
    """Open the lake at `path`, a directory, a URL, the address of its served owner, or of a Unity Catalog (`uc:`).

    `timeout_s` is passed to `LogLake.connect`. The default is short, because a read should not wait long for an absent
    server. Raises TableNotFound if the lake does not exist, and the errors of `LogLake.open` and `LogLake.connect`.
    """
    from slackwater.lake.lake import LogLake
    from slackwater.owner.embedded import EmbeddedOwner

    options = storage_options(storage_option)
    if path.startswith("uc:"):
        catalog = os.environ.get("SLACKWATER_CATALOG")
        if not catalog:
            raise InvalidArgument("a Unity Catalog needs the name of its catalog. Set SLACKWATER_CATALOG")
        with LogLake.connect(path, token, options, timeout_s, ca_file=ca_file, catalog=catalog) as lake:
            # A table of another catalog is found by path after it was looked up.
            lake.tables()
            yield lake
        return
    if path.lower().startswith(("http://", "https://")):
        with LogLake.connect(path, token, options, timeout_s, ca_file=ca_file) as lake:
            yield lake
        return
    require_lake(path, database)
    owner = EmbeddedOwner.open(path, database, options, when_new=lambda: refuse_new(path, options))
    with LogLake(owner, owner.root_url, options) as lake:
        yield lake


def lake_settings() -> tuple[str | None, str | None, str | None, list[str] | None]:
    """Return the database, token, file of certificates and storage options that the environment has for a lake."""
    names = ("SLACKWATER_DATABASE", "SLACKWATER_TOKEN", "SSL_CERT_FILE")
    database, token, ca_file = (os.environ.get(name) or None for name in names)
    return database, token, ca_file, None


def require_lake(root: str, database: str | None = None) -> None:
    """Verify that the database file of the lake at `root` exists, without opening it. Raises TableNotFound."""
    from slackwater.owner.database.database import sqlite_file
    from slackwater.owner.embedded import DATABASE_FILE, database_url

    file = sqlite_file(database_url(root, database))
    if file is not None and not Path(file).is_file():
        missing = f"it has no {DATABASE_FILE}" if database is None else f"{file} does not exist"
        raise _no_lake(root, missing)


def refuse_new(root: str, options: dict[str, str]) -> None:
    """Raise TableNotFound or OperationNotAllowed for a root without a lake in its database."""
    from slackwater.lake.recovery.recovery import require_no_orphaned_tables

    require_no_orphaned_tables(root, options)
    raise _no_lake(root, "its database records no lake")


def moment(ms: int) -> dt.datetime:
    """Convert milliseconds since the epoch to a datetime in UTC."""
    return dt.datetime.fromtimestamp(ms / 1000, dt.timezone.utc)


def _no_lake(root: str, missing: str) -> TableNotFound:
    location = parse_location(root)
    where = f"/{location.key}" if location.scheme == LOCAL else location.url
    return TableNotFound(
        f"{where} is not a lake: {missing}. Create one with `slackwater lake create`. If its state was lost, recreate "
        "it from the tables with `slackwater lake recover`"
    )
