"""Formats rows for the command line: text for people, JSON values for machines."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
from rich.console import Console

from slackwater.cli.common.render import Form, print_human, print_rows, table

_MOST_TEXT = 60


def show_rows(rows: pa.Table, form: Form) -> None:
    """Print rows to stdout. For people, one line per row, or one column per line if the terminal is too narrow."""
    records = records_of(rows)
    names = list(records[0]) if records else unique_names(rows.column_names)
    print_rows(form, records, names, lambda: _show(records, names, rows.schema.types))


def records_of(rows: pa.Table) -> list[dict[str, Any]]:
    """Convert rows to JSON records, see `plain`. Repeated column names get a number."""
    names = unique_names(rows.column_names)
    columns = [[plain(value) for value in _values(column)] for column in rows.columns]
    if not columns:
        return [{} for _ in range(rows.num_rows)]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def plain(value: Any) -> Any:
    """Convert a value of a row to JSON: numbers, texts, booleans, null, lists and objects.

    Decimals, dates and times are texts, instants in UTC with microseconds and Z, bytes hexadecimal, NaN and infinities
    texts. A map with non-text keys is a list of objects with `key` and `value`.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dt.datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="microseconds")
        return text if value.tzinfo is None else f"{text}Z"
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return _list(value)
    return value


def unique_names(names: Sequence[str]) -> list[str]:
    """Return `names` with a number on repeated names: `n`, `n_1`."""
    found: list[str] = []
    for name in names:
        at, fresh = 0, name
        while fresh in found:
            at += 1
            fresh = f"{name}_{at}"
        found.append(fresh)
    return found


def _values(column: pa.ChunkedArray) -> list[Any]:
    try:
        found: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):
        # Python has no dates for some years.
        found = column.cast(pa.string()).to_pylist()
    return found


def _list(values: Sequence[Any]) -> Any:
    if not values or not all(isinstance(value, tuple) for value in values):
        return [plain(value) for value in values]
    # Arrow's maps are lists of pairs.
    if all(isinstance(key, str) for key, _ in values):
        return {key: plain(value) for key, value in values}
    return [{"key": plain(key), "value": plain(value)} for key, value in values]


def _show(records: Sequence[Mapping[str, Any]], names: Sequence[str], types: Sequence[pa.DataType]) -> None:
    texts = [[_text(record[name]) for name in names] for record in records]
    widths = [max([len(name), *(len(row[at]) for row in texts)]) for at, name in enumerate(names)]
    console = Console()
    if console.is_terminal and sum(min(width, _MOST_TEXT) + 2 for width in widths) > console.width:
        for number, row in enumerate(texts, 1):
            print_human(table((f"row {number}", "value"), zip(names, row, strict=True)))
        return
    right = [name for name, kind in zip(names, types, strict=True) if pa.types.is_integer(kind) or _is_number(kind)]
    print_human(table(names, texts, right=right))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return value
    return orjson.dumps(value).decode()
