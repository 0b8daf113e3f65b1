"""Rows in one form, whichever engine read them: what makes two engines' answers comparable."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa

Rows = list[str]
"""One JSON text per row, sorted: rows are a bag, and a difference shows as the rows that differ."""


def rows_of(table: pa.Table, without: Sequence[str] = ()) -> Rows:
    """The rows of what an engine read, columns in its order; `without` columns that two writers fill differently."""
    kept = table.drop_columns([name for name in without if name in table.column_names])
    return expected_rows(kept.column_names, (tuple(row.values()) for row in kept.to_pylist()))


def expected_rows(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Rows:
    """The same of Python values: a struct is a dict, a map a list of pairs, an instant a datetime with a zone."""
    return sorted(
        json.dumps({c: _plain(v) for c, v in zip(columns, row, strict=True)}, ensure_ascii=False) for row in rows
    )


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else repr(value)
    if isinstance(value, Decimal):
        return f"decimal {value:f}"
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, datetime):
        instant = value if value.tzinfo is None else value.astimezone(timezone.utc)
        return instant.isoformat(" ", "microseconds")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in sorted(value.items())}
    pairs = [_pair(element) for element in value]
    if pairs and all(pair is not None for pair in pairs):
        return {"map": sorted([_plain(key), _plain(item)] for key, item in filter(None, pairs))}
    return [_plain(element) for element in value]


def _pair(element: Any) -> tuple[Any, Any] | None:
    """A map's entry: a pair for Arrow, a struct of key and value for engines whose maps are lists."""
    if isinstance(element, tuple) and len(element) == 2:
        return element[0], element[1]
    if isinstance(element, Mapping) and set(element) == {"key", "value"}:
        return element["key"], element["value"]
    return None
