"""Commands that print the contents of a table's log: `slackwater detail | files | schema`."""

from __future__ import annotations

from typing import Annotated

import orjson
import typer
from rich.text import Text

from slackwater.cli.common.render import Form, print_csv, print_human, print_json, print_note, print_rows, table
from slackwater.cli.common.shared_arguments import (
    AsCsv,
    AsJson,
    Limit,
    StorageOption,
    TablePath,
    Timestamp,
    Version,
    form_of,
    loaded,
)
from slackwater.cli.table.file_listing import RECORD, account, list_files
from slackwater.cli.table.schema import COLUMN_RECORD, column_records, schema_tree
from slackwater.html.number_format import format_bytes, iso, visible
from slackwater.log.table_detail import describe_detail


def detail(
    path: TablePath,
    version: Version = None,
    timestamp: Timestamp = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    storage_option: StorageOption = None,
) -> None:
    """Print name, location, size, properties and protocol of the table.

    Examples:
        slackwater detail /data/flights
    """
    form = form_of(as_json, as_csv)
    record = describe_detail(loaded(path, version, timestamp, storage_option))
    if form is Form.JSON:
        print_json(record)
        return
    if form is Form.CSV:
        print_csv([record], list(record))
        return
    moments = {name: None if record[name] is None else iso(record[name]) for name in ("createdAt", "lastModified")}
    shown = record | moments | {"sizeInBytes": format_bytes(record["sizeInBytes"])}
    print_human(table(("detail", "value"), shown.items()))


def files(
    path: TablePath,
    where: Annotated[
        str | None,
        typer.Option("--where", metavar="SQL", help="Condition. Print only files with a possible match."),
    ] = None,
    version: Version = None,
    timestamp: Timestamp = None,
    limit: Limit = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    storage_option: StorageOption = None,
) -> None:
    """List the live files of the table.

    Paths are URI-encoded as in the log, sizes in bytes. Row counts include rows deleted by a deletion vector.

    Examples:
        slackwater files /data/flights --where "month = 12"
        slackwater files /data/flights --csv
    """
    form = form_of(as_json, as_csv)
    listing = list_files(loaded(path, version, timestamp, storage_option), where, limit)
    said = account(listing.report, where)

    def show() -> None:
        left = f"; the first {len(listing.records)} shown" if len(listing.records) < listing.report.kept_files else ""
        headers = ("path", "size", "rows", "partition", "deleted", "modified (UTC)")
        rows = [tuple(record.values()) for record in listing.records]
        print_human(table(headers, rows, right=("size", "rows", "deleted")), Text(visible(said + left)))

    print_rows(form, listing.records, RECORD, show)
    if form is not Form.HUMAN and where is not None:
        print_note(said)


def schema(
    path: TablePath,
    version: Version = None,
    timestamp: Timestamp = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    storage_option: StorageOption = None,
) -> None:
    """Print the columns of the table, including nested columns.

    With column mapping, the output includes ids and physical names.

    Examples:
        slackwater schema /data/flights --version 1
    """
    form = form_of(as_json, as_csv)
    snapshot = loaded(path, version, timestamp, storage_option)
    tree = schema_tree(snapshot)
    if form is Form.JSON:
        print_json(orjson.loads(snapshot.metadata.schema_string))
    elif form is Form.CSV:
        print_csv(column_records(snapshot), COLUMN_RECORD)
    else:
        print_human(tree)
