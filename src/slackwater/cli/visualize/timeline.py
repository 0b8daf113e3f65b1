"""Command `slackwater timeline`: commits of a table, or of the tables of a lake, in a picture."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slackwater.cli.common.render import Form, print_done, print_human, print_note, table
from slackwater.cli.common.shared_arguments import (
    AsCsv,
    AsJson,
    Limit,
    StorageOption,
    form_of,
    moment_ms,
    storage_options,
)
from slackwater.cli.lake.lake_argument import CaFile, DatabaseUrl, Token, opened
from slackwater.cli.visualize.output_file import OutFile, kind_of_file, write
from slackwater.owner.api.timestamp_range import at_ms
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.location import LOCAL, parse_location

if TYPE_CHECKING:
    from slackwater.visualization.timeline import Timeline, TimeWindow

_MOST_LINES = 50
_FILES = ("html", "svg", "png")
_OF_A_COMMIT = tuple(
    "timestamp transactionId table version operation userName userMetadata rowsAdded rowsUpdated rowsRemoved "
    "bytesAdded bytesRemoved filesAdded filesRemoved vectorsChanged vectorRows".split()
)


def timeline_command(
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH", help="Directory or URL of a table or lake, or URL of a lake's server.", show_default=False
        ),
    ],
    out: OutFile = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIMESTAMP", help="Start of the period, inclusive. Without a time zone: UTC."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="TIMESTAMP", help="End of the period, inclusive. Without a time zone: UTC."),
    ] = None,
    limit: Limit = None,
    database: DatabaseUrl = None,
    token: Token = None,
    ca_file: CaFile = None,
    storage_option: StorageOption = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Draw a timeline of the commits still in the log, or print the newest 50 without --out.

    For a lake, each table is a lane, and a transaction over several tables is a line across its lanes. A page (.html)
    has a slider for the state at an instant. .svg and .png contain only the picture. --csv has a row for each commit.

    Examples:
        slackwater timeline /data/flights
        slackwater timeline /data/flights --out /data/flights.html
    """
    form = form_of(as_json, as_csv)
    # Import lakes for this command only.
    from slackwater.visualization.timeline import TimeWindow

    is_text = out is None and form is Form.HUMAN
    kind = None if out is None else kind_of_file(out, _FILES)
    most = limit or (_MOST_LINES if is_text else None)
    window = TimeWindow(moment_ms(since, "--since"), moment_ms(until, "--until"), most)
    found = _timeline(path, window, database, token, ca_file, storage_option)
    if out is not None:
        write(out, _drawn(found, kind))
    if is_text:
        _print(found)
    elif form is not Form.HUMAN:
        record = found.record()
        print_done(
            form, record, rows=[row for deed in record["transactions"] for row in _rows(deed)], columns=_OF_A_COMMIT
        )


def _print(found: Timeline) -> None:
    """Print one line for each commit, newest first. The lines of a transaction have one timestamp."""
    from slackwater.visualization.commit_columns import files_of, rows_of
    from slackwater.visualization.commit_text import change, lane_marks

    headers = ["timestamp (UTC)", "table", "version", "operation", "rows", "files", "by", "noted"]
    lanes, rows = len(found.lanes), []
    for deed in reversed(found.deeds):
        for number, mark in enumerate(deed.marks):
            head = [at_ms(deed.at_ms), lane_marks(deed, lanes)] if not number else [None, " ".join("│" * lanes)]
            done = [mark.version, mark.operation, change(rows_of([mark])), change(files_of([mark]))]
            rows.append([*head, found.lanes[mark.lane], *done, mark.user, mark.note])
    names = [headers[0], "", *headers[1:]]
    # One table needs no lanes. A column without values is left out.
    columns = [at for at in range(len(names)) if any(row[at] for row in rows) and (at != 1 or lanes > 1)]
    shown = [[row[at] for at in columns] for row in rows]
    print_human(table([names[at] for at in columns], shown, right=("version",)))
    if found.has_more:
        print_note("there are more commits: --limit, --since and --until choose them")


def _rows(deed: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the commits of a transaction."""
    return [
        {"timestamp": deed["timestamp"], "transactionId": deed["transactionId"], **each} for each in deed["commits"]
    ]


def _timeline(
    path: str,
    window: TimeWindow,
    database: str | None,
    token: str | None,
    ca_file: str | None,
    storage_option: list[str] | None,
) -> Timeline:
    from slackwater.visualization.timeline import timeline_of_lake, timeline_of_table

    if _is_lake(path, database):
        with opened(path, database, token, ca_file, storage_option) as lake:
            return timeline_of_lake(lake, _place(path), window)
    return timeline_of_table(Snapshot.load(path, storage_options=storage_options(storage_option)), window)


def _is_lake(path: str, database: str | None) -> bool:
    from slackwater.owner.embedded import DATABASE_FILE

    if database is not None or path.lower().startswith(("http://", "https://")):
        return True
    location = parse_location(path)
    return location.scheme == LOCAL and (Path("/") / location.key / DATABASE_FILE).is_file()


def _place(path: str) -> str:
    """Return the full location of a lake."""
    if path.lower().startswith(("http://", "https://")):
        return path
    location = parse_location(path)
    return f"/{location.key}" if location.scheme == LOCAL else location.url


def _drawn(timeline: Timeline, kind: str | None) -> str | bytes:
    from slackwater.visualization.svg import raster, standalone
    from slackwater.visualization.timeline_page import timeline_page
    from slackwater.visualization.timeline_picture import draw_timeline

    if kind == "html":
        return timeline_page(timeline)
    picture = draw_timeline(timeline).picture
    return standalone(picture) if kind == "svg" else raster(picture)
