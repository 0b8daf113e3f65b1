"""The commands that say what a table's log says: `slackwater history | detail | files | schema`."""

from __future__ import annotations

from typing import Annotated

import orjson
import typer
from rich.text import Text

from slackwater.cli.arguments import (
    AsJson,
    Limit,
    StorageOption,
    TablePath,
    Timestamp,
    Version,
    moment_ms,
    storage_options,
)
from slackwater.cli.render import compact, print_human, print_json, print_note, table
from slackwater.cli.table.files import account, list_files
from slackwater.cli.table.schema import schema_tree
from slackwater.log.describe import describe_detail, describe_history
from slackwater.markup.figures import format_bytes, iso, visible
from slackwater.scan.snapshot import Snapshot


def history(
    path: TablePath,
    version: Version = None,
    timestamp: Timestamp = None,
    limit: Limit = None,
    as_json: AsJson = False,
    storage_option: StorageOption = None,
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


def detail(
    path: TablePath,
    version: Version = None,
    timestamp: Timestamp = None,
    as_json: AsJson = False,
    storage_option: StorageOption = None,
) -> None:
    """Name, place, size, properties and protocol of the table."""
    record = describe_detail(_load(path, version, timestamp, storage_option))
    if as_json:
        print_json(record)
        return
    moments = {name: None if record[name] is None else iso(record[name]) for name in ("createdAt", "lastModified")}
    shown = record | moments | {"sizeInBytes": format_bytes(record["sizeInBytes"])}
    print_human(table(("detail", "value"), shown.items()))


def files(
    path: TablePath,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="SQL", help="Only files that may hold a row for which this is true."),
    ] = None,
    version: Version = None,
    timestamp: Timestamp = None,
    limit: Limit = None,
    as_json: AsJson = False,
    storage_option: StorageOption = None,
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


def schema(
    path: TablePath,
    version: Version = None,
    timestamp: Timestamp = None,
    as_json: AsJson = False,
    storage_option: StorageOption = None,
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
