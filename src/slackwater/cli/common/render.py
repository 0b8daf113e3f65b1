"""Output of the command line: tables for people, JSON or CSV for machines, one line for an error."""

from __future__ import annotations

import csv
import datetime as dt
import enum
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson
import typer
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from slackwater.html.number_format import iso, one_line, utc_text, visible
from slackwater.html.redaction import without_secrets

_EMPTY = frozenset({"", "[]", "{}", "0"})
_TIME_OF_DAY = len("16:36:53.881")
# Wider than any line, so that output for other programs is not wrapped.
_UNFOLDED = 1_000_000


class Form(enum.Enum):
    """Output format: `HUMAN`, for people at a terminal; `JSON`, one document; `CSV`, rows below a header."""

    HUMAN = "human"
    JSON = "json"
    CSV = "csv"


def print_rows(
    form: Form, records: Sequence[Mapping[str, Any]], columns: Sequence[str], human: Callable[[], None]
) -> None:
    """Print `records` in the requested format. `columns` are their keys, and `human` prints the records for people."""
    if form is Form.JSON:
        print_json(records)
    elif form is Form.CSV:
        print_csv(records, columns)
    else:
        human()


def print_done(
    form: Form,
    done: Mapping[str, Any],
    human: Callable[[], None] = lambda: None,
    rows: Sequence[Mapping[str, Any]] | None = None,
    columns: Sequence[str] = (),
) -> None:
    """Print the result of a command: `done` as a JSON document, or CSV `rows` with `columns`, by default `done`."""
    if form is Form.JSON:
        print_json(done)
    elif form is Form.CSV:
        print_csv([done] if rows is None else rows, columns or tuple(done))
    else:
        human()


def print_lines(form: Form, lines: Sequence[str], else_human: str | None = None) -> None:
    """Print the actions of a command, one sentence each: lines for people, a list in JSON, a column `done` in CSV."""
    if form is Form.JSON:
        print_json(list(lines))
    elif form is Form.CSV:
        print_csv([{"done": line} for line in lines], ("done",))
    else:
        for line in lines or ([] if else_human is None else [else_human]):
            typer.echo(line)


def print_csv(records: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Print `records` to stdout as CSV (RFC 4180, lines end with a line feed), UTF-8, below a header of `columns`.

    Datetimes and numbers have their JSON form; a list or a map is JSON, True is `true`, None is empty.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_field(record.get(column)) for column in columns] for record in records)
    typer.echo(text.getvalue(), nl=False)


def print_json(document: Any) -> None:
    """Print `document` to stdout as indented JSON, UTF-8: exact numbers, datetimes in ISO 8601 UTC with ms."""
    typer.echo(_json(document, indent=2))


def print_human(*parts: RenderableType) -> None:
    """Print tables, trees and lines to stdout. Content too long for the terminal is wrapped, never cut.

    Output to a pipe or a file is not wrapped, unless COLUMNS sets a width.
    """
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(width=_UNFOLDED)
    for part in parts:
        console.print(part)


def print_note(text: str) -> None:
    """Print one line to stderr, in addition to a JSON document on stdout."""
    _stderr().print(Text(visible(text)), soft_wrap=True)


def print_error(message: str) -> None:
    """Print `error: …` to stderr, always on one line, in red if colours are supported."""
    _stderr().print(Text(f"error: {visible(one_line(without_secrets(message)))}", style="red"), soft_wrap=True)


def show_warning(message: Warning | str, *_place: object, **_more: object) -> None:
    """Print `warning: …` to stderr, on one line; replaces `warnings.showwarning`."""
    _stderr().print(
        Text(f"warning: {visible(one_line(without_secrets(str(message))))}", style="yellow"), soft_wrap=True
    )


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[str] = ()) -> Table:
    """Return a table with wrapped cells. Columns named in `right` are right-aligned. None is an empty cell.

    A column named `… (UTC)` stays wide enough for the time of day.
    """
    drawn = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for header in headers:
        least = _TIME_OF_DAY if header.endswith("(UTC)") else None
        drawn.add_column(header, overflow="fold", justify="right" if header in right else "left", min_width=least)
    for row in rows:
        drawn.add_row(*(cell(value) for value in row))
    return drawn


def cell(value: object) -> Text:
    """Convert `value` to text, never to markup: times in UTC, lists and maps with one entry per line, None as empty."""
    if value is None:
        return Text()
    if isinstance(value, dt.datetime):
        return Text(utc_text(value))
    if isinstance(value, Mapping):
        return Text(visible("\n".join(f"{key}={'null' if item is None else item}" for key, item in value.items())))
    if isinstance(value, (list, tuple)):
        return Text(visible("\n".join(str(item) for item in value)))
    return Text(visible(str(value)))


def compact(entries: Mapping[str, str | None] | None) -> dict[str, str]:
    """Return `entries` without empty values: null, empty text, an empty list or map, zero."""
    return {key: value for key, value in (entries or {}).items() if value is not None and value not in _EMPTY}


def _stderr() -> Console:
    return Console(file=sys.stderr)


def _field(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, dt.datetime):
        return iso(value)
    return _json(value).decode()


def _json(value: object, indent: int | None = None) -> bytes:
    options = orjson.OPT_PASSTHROUGH_DATETIME | (orjson.OPT_INDENT_2 if indent else 0)
    try:
        return orjson.dumps(value, default=_json_value, option=options)
    except orjson.JSONEncodeError:
        # orjson rejects integers above 64 bits, and the name of a stray file may contain such a version.
        return json.dumps(value, default=_json_value, ensure_ascii=False, indent=indent).encode()


def _json_value(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return iso(value)
    raise TypeError(f"{type(value).__name__} cannot be represented in JSON")
