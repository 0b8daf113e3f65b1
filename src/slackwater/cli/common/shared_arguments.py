"""Arguments shared by several commands, and their parsers."""

from __future__ import annotations

from typing import Annotated

import typer

from slackwater.cli.common.key_value_options import key_values
from slackwater.cli.common.render import Form
from slackwater.errors import InvalidArgument
from slackwater.log.history import to_ms
from slackwater.scan.snapshot import Snapshot

TablePath = Annotated[str, typer.Argument(metavar="PATH", help="Directory or URL of the table.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document with the complete result.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV rows below a header.")]
StorageOption = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option",
        metavar="KEY=VALUE",
        help="Setting of the object store, for example AWS_REGION=eu-west-1. Repeatable.",
    ),
]
Version = Annotated[
    int | None,
    typer.Option("--version", min=0, metavar="VERSION", help="Version of the table.", show_default="newest"),
]
Timestamp = Annotated[
    str | None,
    typer.Option(
        "--timestamp",
        metavar="TIMESTAMP",
        help="Version at this time, for example 2026-11-21T10:00:00Z. Without a time zone: UTC.",
    ),
]
Outside = Annotated[
    bool,
    typer.Option(
        "--allow-paths-outside-root/--no-paths-outside-root",
        help="Read files outside the table's directory, for example of a shallow clone.",
    ),
]
Limit = Annotated[
    int | None,
    typer.Option("--limit", min=1, metavar="COUNT", help="Maximum number of entries.", show_default="all"),
]


def form_of(as_json: bool, as_csv: bool) -> Form:
    """Return the output format of `--json` and `--csv`. Raises typer.BadParameter for both."""
    if as_json and as_csv:
        raise typer.BadParameter("use one of them, not both", param_hint="--json / --csv")
    return Form.JSON if as_json else Form.CSV if as_csv else Form.HUMAN


def storage_options(given: list[str] | None) -> dict[str, str]:
    """Parse the `--storage-option` values. Raises typer.BadParameter."""
    return key_values(given or [], "--storage-option")


def moment_ms(timestamp: str | None, option: str = "--timestamp") -> int | None:
    """Parse the time in `option` to ms since the epoch, by default in UTC. Raises typer.BadParameter."""
    try:
        return None if timestamp is None else to_ms(timestamp)
    except InvalidArgument as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def loaded(
    path: str,
    version: int | None,
    timestamp: str | None,
    storage_option: list[str] | None,
    outside: bool = True,
) -> Snapshot:
    """Load the table at `path` with the options of a command, and with files `outside` of its directory.

    Raises typer.BadParameter, and the errors of `Snapshot.load`.
    """
    if version is not None and timestamp is not None:
        raise typer.BadParameter("use a version or a timestamp, not both", param_hint="--version / --timestamp")
    return Snapshot.load(
        path, version, moment_ms(timestamp), storage_options(storage_option), allow_paths_outside_root=outside
    )
