"""Commands on the history of a lake: `slackwater lake history | as-of`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slackwater.cli.common.render import Form, print_csv, print_human, print_json, print_note, print_rows, table
from slackwater.cli.common.shared_arguments import AsCsv, AsJson, StorageOption, form_of
from slackwater.cli.common.watch import Watch, watched
from slackwater.cli.lake.lake_argument import CaFile, DatabaseUrl, LakePath, Token, opened
from slackwater.errors import SlackwaterError
from slackwater.html.number_format import iso

if TYPE_CHECKING:
    from slackwater.lake.history import LakeCommit
    from slackwater.lake.time_slice import LogTimeSlice

_HISTORY_RECORD = (
    "timestamp",
    "transactionId",
    "table",
    "version",
    "operation",
    "userName",
    "userMetadata",
    "engineInfo",
)
_AS_OF_RECORD = ("table", "version", "location", "problem")


def history_command(
    path: LakePath,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, metavar="COUNT", help="Maximum number of transactions.")
    ] = 20,
    database: DatabaseUrl = None,
    token: Token = None,
    ca_file: CaFile = None,
    storage_option: StorageOption = None,
    watch: Watch = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """List the transactions of all tables in one order of time, newest first.

    One line for each table changed by a transaction. All lines of a transaction have the same timestamp.

    Examples:
        slackwater lake history /data/lake --limit 10
    """
    form = form_of(as_json, as_csv)

    def show() -> None:
        with opened(path, database, token, ca_file, storage_option) as lake:
            found = lake.history(limit)
        print_rows(
            form, [record for each in found for record in _records(each)], _HISTORY_RECORD, lambda: _print(found)
        )

    watched(watch, show)


def as_of_command(
    path: LakePath,
    instant: Annotated[
        str,
        typer.Argument(
            metavar="TIMESTAMP",
            help="Point in time, for example 2026-11-21T10:00:00Z, or a date. Without a time zone: UTC.",
            show_default=False,
        ),
    ],
    database: DatabaseUrl = None,
    token: Token = None,
    ca_file: CaFile = None,
    storage_option: StorageOption = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """List the versions of all tables at one point in time. The result never changes.

    Examples:
        slackwater lake as-of /data/lake 2026-11-21T10:00:00Z
    """
    form = form_of(as_json, as_csv)
    with opened(path, database, token, ca_file, storage_option) as lake:
        past = lake.as_of(instant)
        places = {each.name: each.location for each in lake.tables()}
        records = [_table_then(past, name, places.get(name)) for name in past.tables()]
    if form is Form.JSON:
        print_json({"timestamp": past.timestamp, "tables": records})
    elif form is Form.CSV:
        print_csv(records, _AS_OF_RECORD)
    else:
        rows = [(each["table"], each["version"], each["problem"] or each["location"]) for each in records]
        if rows:
            print_human(table(("table", "version", "location"), rows, right=("version",)))
            print_note(f"as of {iso(past.timestamp)}")
        else:
            print_note(f"as of {iso(past.timestamp)} the lake had no table: its first one was created later")


def _table_then(past: LogTimeSlice, name: str, location: str | None) -> dict[str, Any]:
    """Return the record of one table. `location` is its current location, None if the table was released since."""
    version, problem = None, None
    try:
        version = past.version(name)
    except SlackwaterError as error:
        # A table with a log too short for this time does not affect other tables.
        problem = str(error)
    return dict(zip(_AS_OF_RECORD, (name, version, location, problem), strict=True))


def _records(found: LakeCommit) -> list[dict[str, Any]]:
    return [
        {
            "timestamp": found.timestamp,
            "transactionId": found.transaction_id,
            "table": name,
            "version": commit.version,
            "operation": commit.operation,
            "userName": commit.user_name,
            "userMetadata": commit.user_metadata,
            "engineInfo": commit.engine_info,
        }
        for name, commit in found.commits.items()
    ]


def _print(found: Sequence[LakeCommit]) -> None:
    headers = ("timestamp (UTC)", "table", "version", "operation", "by", "noted")
    rows = [
        # Only the first line of a transaction shows the time.
        (each.timestamp if number == 0 else None, name, one.version, one.operation, one.user_name, one.user_metadata)
        for each in found
        for number, (name, one) in enumerate(each.commits.items())
    ]
    print_human(table(headers, rows, right=("version",)))
