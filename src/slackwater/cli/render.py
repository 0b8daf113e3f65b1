"""How the command line shows things: tables for people, JSON or CSV for machines, one line for an error."""

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
# Wider than any line: what another program reads is not folded.
_UNFOLDED = 1_000_000


class Form(enum.Enum):
    """For whom an answer is: `HUMAN`, people in a terminal; `JSON`, one document; `CSV`, rows below a header."""

    HUMAN = "human"
    JSON = "json"
    CSV = "csv"


def print_rows(
    form: Form, records: Sequence[Mapping[str, Any]], columns: Sequence[str], human: Callable[[], None]
) -> None:
    """`records` in the form that was asked for; `columns` are their keys, `human` prints them for people."""
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
    """What one command did: `done` as a JSON document or as one row of CSV, where that is not `rows` with `columns`."""
    if form is Form.JSON:
        print_json(done)
    elif form is Form.CSV:
        print_csv([done] if rows is None else rows, columns or tuple(done))
    else:
        human()


def print_lines(form: Form, lines: Sequence[str], else_human: str | None = None) -> None:
    """What was done, a sentence each: lines for people, a list in JSON, a column `done` in CSV."""
    if form is Form.JSON:
        print_json(list(lines))
    elif form is Form.CSV:
        print_csv([{"done": line} for line in lines], ("done",))
    else:
        for line in lines or ([] if else_human is None else [else_human]):
            typer.echo(line)


def print_csv(records: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """`records` as CSV (RFC 4180, lines ended by a line feed) on stdout, UTF-8, below a header of `columns`.

    Datetimes and numbers as in JSON; a list or a map is its JSON, True is `true`, None is empty.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_field(record.get(column)) for column in columns] for record in records)
    typer.echo(text.getvalue(), nl=False)


def print_json(document: Any) -> None:
    """`document` as JSON on stdout, UTF-8, indented: numbers exact, datetimes as ISO 8601 in UTC with milliseconds."""
    typer.echo(_json(document, indent=2))


def print_human(*parts: RenderableType) -> None:
    """Tables, trees and lines on stdout; what is too long for the terminal folds, and is never cut.

    Into a pipe or a file nothing folds, unless COLUMNS says how wide it is.
    """
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(width=_UNFOLDED)
    for part in parts:
        console.print(part)


def print_note(text: str) -> None:
    """One line on stderr, beside a JSON document on stdout."""
    _stderr().print(Text(visible(text)), soft_wrap=True)


def print_error(message: str) -> None:
    """`error: …` on stderr, one line however long it is, red where there is colour."""
    _stderr().print(Text(f"error: {visible(one_line(without_secrets(message)))}", style="red"), soft_wrap=True)


def show_warning(message: Warning | str, *_place: object, **_more: object) -> None:
    """`warning: …` on stderr, one line; stands in for `warnings.showwarning`."""
    _stderr().print(
        Text(f"warning: {visible(one_line(without_secrets(str(message))))}", style="yellow"), soft_wrap=True
    )


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[str] = ()) -> Table:
    """A table whose cells fold; the columns named in `right` are aligned to the right. None is an empty cell.

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
    """`value` as text, never as markup: moments by their UTC, lists and maps one entry a line, None as nothing."""
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
    """`entries` without those that say nothing: null, empty, an empty list or map, zero."""
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
        # It writes no number of more than 64 bits, which the name of a stray file may have for a version.
        return json.dumps(value, default=_json_value, ensure_ascii=False, indent=indent).encode()


def _json_value(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        return iso(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")
