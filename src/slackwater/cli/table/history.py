"""Command `slackwater history`: the commits of a table, one line each."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from slackwater.cli.common.render import cell, compact, print_human, print_rows, table
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
from slackwater.cli.common.watch import Watch, watched
from slackwater.html.number_format import one_line, shortened, visible
from slackwater.log.table_detail import describe_history

COLUMNS = (
    "version",
    "timestamp",
    "userId",
    "userName",
    "operation",
    "operationParameters",
    "job",
    "notebook",
    "clusterId",
    "readVersion",
    "isolationLevel",
    "isBlindAppend",
    "operationMetrics",
    "userMetadata",
    "engineInfo",
)
_WIDTH = 100
_LONGEST_OPERATION = 24
_LONGEST_NAME = 16
_LEAST_DETAILS = 12
# Metrics for added, changed and removed rows and files, by the names of different writers.
_ROWS = (
    ("+", ("numTargetRowsInserted", "numOutputRows")),
    ("~", ("numTargetRowsUpdated", "numUpdatedRows")),
    ("-", ("numTargetRowsDeleted", "numDeletedRows")),
)
_FILES = (
    (
        "+",
        ("numTargetFilesAdded", "numAddedFiles", "numFiles", "numRestoredFiles", "numCopiedFiles", "numConvertedFiles"),
    ),
    ("-", ("numTargetFilesRemoved", "numRemovedFiles")),
)


def history(
    path: TablePath,
    version: Version = None,
    timestamp: Timestamp = None,
    limit: Limit = None,
    wide: Annotated[bool, typer.Option("--wide", help="Print all metrics, the user and the engine too.")] = False,
    watch: Watch = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    storage_option: StorageOption = None,
) -> None:
    """List the commits still in the log, newest first.

    With --version or --timestamp, list the commits up to this version. A line contains rows and files added (+),
    changed (~) and removed (-), and as many parameters as fit. With --wide each commit is a block of lines, without
    empty or zero parameters and metrics; --json and --csv include all of them.

    Examples:
        slackwater history /data/flights
        slackwater history /data/flights --wide --limit 5
        slackwater history /data/flights --json
    """
    form = form_of(as_json, as_csv)

    def show() -> None:
        records = describe_history(loaded(path, version, timestamp, storage_option), limit)
        print_rows(form, records, COLUMNS, lambda: print_human(*(_blocks(records) if wide else [_short(records)])))

    watched(watch, show)


def _blocks(records: Iterable[Mapping[str, Any]]) -> Iterator[Text]:
    """Yield one block per commit: a line starting with the version, then one line per attribute."""
    for number, record in enumerate(records):
        head = " ".join(cell(record[name]).plain for name in ("version", "timestamp", "operation"))
        told = {
            "parameters": compact(record["operationParameters"]),
            "metrics": compact(record["operationMetrics"]),
            "user": record["userName"] or record["userId"],
            "noted": record["userMetadata"],
            "engine": record["engineInfo"],
        }
        lines = [f"  {name:<10}  {line}" for name, value in told.items() for line in _lines(value)]
        yield Text("\n".join([*([""] if number else []), head, *lines]))


def _lines(value: Any) -> list[str]:
    """Return the lines of a value, one for each entry of a map, none for an empty value."""
    return [] if value is None or value == {} else cell(value).plain.split("\n")


def _short(records: Iterable[Mapping[str, Any]]) -> Table:
    """Return one line per commit. Text beyond the terminal's width, or 100 columns without one, ends with `…`."""
    headers = ["version", "timestamp (UTC)", "operation", "rows", "files", "by", "details"]
    rows = [
        [
            cell(record["version"]).plain,
            cell(record["timestamp"]).plain,
            shortened(_text(record["operation"]), _LONGEST_OPERATION),
            _counts(record["operationMetrics"], _ROWS),
            _counts(record["operationMetrics"], _FILES),
            shortened(_text(record["userName"] or record["userId"]), _LONGEST_NAME),
            _details(record),
        ]
        for record in records
    ]
    for name in ("rows", "files", "by"):
        column = headers.index(name)
        if not any(row[column] for row in rows):
            del headers[column]
            for row in rows:
                del row[column]
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)][:-1]
    room = _width() - sum(width + 2 for width in widths)
    operation = headers.index("operation")
    longest = max(len("operation"), widths[operation] - max(0, _LEAST_DETAILS - room))
    room = max(_LEAST_DETAILS, room + widths[operation] - longest)
    for row in rows:
        row[operation], row[-1] = shortened(row[operation], longest), shortened(row[-1], room)
    return table(headers, rows, right=("version",))


def _width() -> int:
    console = Console()
    return console.width if console.is_terminal or "COLUMNS" in os.environ else _WIDTH


def _counts(metrics: Mapping[str, str | None] | None, signs: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Format as `+5 ~2 -1`: the first available metric of added, changed and removed. Zero is omitted."""
    found = {name: value for name, value in (metrics or {}).items() if value is not None}
    said = [(sign, next((found[name] for name in names if name in found), "0")) for sign, names in signs]
    return " ".join(f"{sign}{_text(number)}" for sign, number in said if number != "0")


def _details(record: Mapping[str, Any]) -> str:
    parameters = ", ".join(f"{name}={value}" for name, value in compact(record["operationParameters"]).items())
    noted = record["userMetadata"]
    return _text(parameters if noted is None else f"“{noted}” {parameters}".rstrip())


def _text(value: object) -> str:
    return "" if value is None else visible(one_line(str(value)))
