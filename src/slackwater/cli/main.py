"""The command `slackwater`: what a table's log says, and what keeps it healthy, without Spark."""

from __future__ import annotations

import sys
import warnings
from typing import Annotated, Any

import orjson
import typer
from rich.text import Text
from typer.core import TyperGroup

from slackwater.cli.arguments import AsJson, TablePath, moment_ms, storage_options
from slackwater.cli.convert import convert_command, generate_command
from slackwater.cli.files import account, list_files
from slackwater.cli.lake import lake_app
from slackwater.cli.log import log_app
from slackwater.cli.render import (
    compact,
    format_bytes,
    iso,
    print_error,
    print_human,
    print_json,
    print_note,
    show_warning,
    table,
    visible,
)
from slackwater.cli.schema import schema_tree
from slackwater.cli.serve import serve, token_app
from slackwater.cli.services import clone_command, restore_command, vacuum_command
from slackwater.cli.streams import stream_state_command
from slackwater.errors import CheckpointFallbackWarning, SlackwaterError
from slackwater.log.describe import describe_detail, describe_history
from slackwater.scan.snapshot import Snapshot


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

_Version = Annotated[int | None, typer.Option("--version", min=0, metavar="N", help="This version, not the newest.")]
_Timestamp = Annotated[
    str | None,
    typer.Option(
        "--timestamp", metavar="T", help="The version at this moment: 2026-11-21T10:00:00Z; UTC where it names no zone."
    ),
]
_StorageOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--storage-option", metavar="KEY=VALUE", help="For the object store, e.g. AWS_REGION=eu-west-1; repeatable."
    ),
]
_Limit = Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="At most so many.")]


@app.command()
def history(
    path: TablePath,
    version: _Version = None,
    timestamp: _Timestamp = None,
    limit: _Limit = None,
    as_json: AsJson = False,
    storage_option: _StorageOptions = None,
) -> None:
    """The commits that the log still holds, newest first.

    With --version or --timestamp those up to that version. Parameters and metrics that are empty or zero are left
    out; --json shows them all.
    """
    records = describe_history(_load(path, version, timestamp, storage_option), limit)
    if as_json:
        print_json(records)
        return
    headers = ("version", "timestamp (UTC)", "operation", "parameters", "metrics", "user", "engine")
    rows = [
        (
            record["version"],
            record["timestamp"],
            record["operation"],
            compact(record["operationParameters"]),
            compact(record["operationMetrics"]),
            record["userName"] or record["userId"],
            record["engineInfo"],
        )
        for record in records
    ]
    print_human(table(headers, rows, right=("version",)))


@app.command()
def detail(
    path: TablePath,
    version: _Version = None,
    timestamp: _Timestamp = None,
    as_json: AsJson = False,
    storage_option: _StorageOptions = None,
) -> None:
    """Name, place, size, properties and protocol of the table."""
    record = describe_detail(_load(path, version, timestamp, storage_option))
    if as_json:
        print_json(record)
        return
    moments = {name: None if record[name] is None else iso(record[name]) for name in ("createdAt", "lastModified")}
    shown = record | moments | {"sizeInBytes": format_bytes(record["sizeInBytes"])}
    print_human(table(("detail", "value"), shown.items()))


@app.command()
def files(
    path: TablePath,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="SQL", help="Only files that may hold a row for which this is true."),
    ] = None,
    version: _Version = None,
    timestamp: _Timestamp = None,
    limit: _Limit = None,
    as_json: AsJson = False,
    storage_option: _StorageOptions = None,
) -> None:
    """The live files of the table.

    Paths are URI-encoded as in the log, sizes in bytes; rows are those in the file, of which its deletion vector
    marks some as deleted.
    """
    listing = list_files(_load(path, version, timestamp, storage_option), where, limit)
    said = account(listing.report, where)
    if as_json:
        print_json(listing.records)
        if where is not None:
            print_note(said)
        return
    if len(listing.records) < listing.report.kept_files:
        said += f"; the first {len(listing.records)} shown"
    headers = ("path", "size", "rows", "partition", "deleted", "modified (UTC)")
    rows = [tuple(record.values()) for record in listing.records]
    print_human(table(headers, rows, right=("size", "rows", "deleted")), Text(visible(said)))


@app.command()
def schema(
    path: TablePath,
    version: _Version = None,
    timestamp: _Timestamp = None,
    as_json: AsJson = False,
    storage_option: _StorageOptions = None,
) -> None:
    """The columns of the table, nested ones too; with column mapping their ids and physical names."""
    snapshot = _load(path, version, timestamp, storage_option)
    tree = schema_tree(snapshot)
    if as_json:
        print_json(orjson.loads(snapshot.metadata.schema_string))
    else:
        print_human(tree)


def _load(path: str, version: int | None, timestamp: str | None, storage_option: list[str] | None) -> Snapshot:
    if version is not None and timestamp is not None:
        raise typer.BadParameter("give a version or a timestamp, not both", param_hint="--version / --timestamp")
    return Snapshot.load(path, version, moment_ms(timestamp), storage_options(storage_option))
