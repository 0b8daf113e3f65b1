"""Statistics of a data file, from its Parquet footer: no second pass over data.

Source: delta-protocol.md "Per-file Statistics" (strings are cut to a prefix, timestamps to milliseconds).
"""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import orjson
import pyarrow.parquet as pq

_PREFIX_CHARACTERS = 32
_MAX_CHARACTER = "\U0010ffff"


def stats_of_footer(footer: pq.FileMetaData) -> str:
    """The `stats` of the file with this footer, as JSON; a bound that the footer does not prove is left out."""
    minimum: dict[str, Any] = {}
    maximum: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    for index in range(footer.num_columns):
        column = footer.schema.column(index)
        path = column.path.split(".")
        if column.max_repetition_level or len(path) > 1:
            continue
        groups = [footer.row_group(g).column(index).statistics for g in range(footer.num_row_groups)]
        if not groups or any(s is None for s in groups):
            continue
        if all(s.has_null_count for s in groups):
            nulls[path[0]] = sum(s.null_count for s in groups)
        bounded = [s for s in groups if s.has_min_max]
        empty = [s for s in groups if not s.has_min_max and s.has_null_count and s.num_values == 0]
        if not bounded or len(bounded) + len(empty) != len(groups):
            continue
        low, high = lower_bound(min(s.min for s in bounded)), upper_bound(max(s.max for s in bounded))
        if low is not None and high is not None:
            minimum[path[0]], maximum[path[0]] = low, high
    stats = {"numRecords": footer.num_rows, "minValues": minimum, "maxValues": maximum, "nullCount": nulls}
    return orjson.dumps(stats).decode()


def lower_bound(value: Any) -> Any:
    """`value` as JSON holds it, cut downwards; None where it cannot be a bound."""
    if isinstance(value, str):
        return value[:_PREFIX_CHARACTERS]
    return _plain(value, up=False)


def upper_bound(value: Any) -> Any:
    """`value` as JSON holds it, cut upwards: the result is not less than it; None where there is no such value."""
    if not isinstance(value, str):
        return _plain(value, up=True)
    if len(value) <= _PREFIX_CHARACTERS:
        return value
    return value[:_PREFIX_CHARACTERS] + _MAX_CHARACTER


def _plain(value: Any, up: bool) -> Any:
    if isinstance(value, bool) or value is None or isinstance(value, bytes):
        # The reference implementation keeps no bounds of booleans and binaries.
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        # Footers leave NaN out of the bounds, and a zero may be of either sign.
        return None if not math.isfinite(value) else value
    if isinstance(value, Decimal):
        number = float(value)
        return number if Decimal(number) == value else None
    if isinstance(value, dt.datetime):
        return _timestamp(value, up)
    return value.isoformat() if isinstance(value, dt.date) else None


def _timestamp(value: dt.datetime, up: bool) -> str:
    cut = value.replace(microsecond=value.microsecond // 1000 * 1000)
    if up and cut != value:
        cut += dt.timedelta(milliseconds=1)
    return cut.replace(tzinfo=None).isoformat(timespec="milliseconds") + ("Z" if value.tzinfo else "")
