"""Minimum and maximum of a Parquet column, in the format of Delta's JSON statistics.

A bound is written only if it is valid in the sort order of every engine. Spark sorts NaN above all numbers. Some
engines compare text by UTF-8 bytes, others by UTF-16 code units. If the types of file and table differ, a reader may
see other values than the footer. Source: delta-protocol.md "Per-file Statistics".
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow.parquet as pq

from slackwater.predicate.literals import INTEGRAL_RANGES
from slackwater.protocol.schema.schema import DataType, DecimalType, PrimitiveType

Pair = tuple[Any, Any]

_NOTHING: Pair = (None, None)
_INTEGERS = ("INT32", "INT64")

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_DAY_US = 86_400_000_000
_UNITS_PER_MS = {"milliseconds": 1, "microseconds": 1_000, "nanoseconds": 1_000_000}
# Before these days, calendars and time zones differ between old and new versions of Spark.
_GREGORIAN_DAY = dt.date(1582, 10, 15).toordinal() - _EPOCH_DAY
_ZONES_MS = (dt.date(1900, 1, 2).toordinal() - _EPOCH_DAY) * 86_400_000
LEGACY_DATES_KEY = b"org.apache.spark.legacyDateTime"
"""Footer key: dates and timestamps use the hybrid Julian calendar."""

SPARK_VERSION_KEY = b"org.apache.spark.version"
"""Footer key: the version of Spark that defines the calendar rules of the file."""

# Parquet for Java sorts NaN above all numbers, also in its bounds; other writers exclude NaN from the bounds.
_COUNTS_NAN = re.compile(r"parquet-mr version 1\.1[0-7]\.")
# Writers with complete values as text bounds; other writers may truncate long values and raise the end of a maximum.
_KEEPS_TEXT_WHOLE = re.compile(r"parquet-(mr|cpp)\b")
_SHORTEST_CUT_BYTES = 32

_TIE_BREAKER = "\ufffd"
_ORDERED_AFTER_SURROGATES = re.compile("[\ue000-\uffff]")
_LAST_OF_PLANE = "\uffff"
_BEFORE_SURROGATES, _AFTER_SURROGATES = "\ud7ff", "\ue000"


@dataclass(frozen=True, slots=True)
class Writer:
    """The relevant properties of a file's writer: NaN in bounds, complete text bounds, old calendar."""

    counts_nan: bool
    keeps_text_whole: bool
    old_calendar: bool

    @classmethod
    def of(cls, name: str, notes: Mapping[bytes, bytes]) -> Writer:
        """Return the writer called `name` in a footer with the key-value pairs `notes`."""
        old = LEGACY_DATES_KEY in notes or notes.get(SPARK_VERSION_KEY, b"").startswith((b"1.", b"2."))
        return cls(_COUNTS_NAN.match(name) is not None, _KEEPS_TEXT_WHOLE.match(name) is not None, old)


def json_bounds(
    lows: Sequence[Any],
    highs: Sequence[Any],
    column: pq.ColumnSchema,
    data_type: DataType,
    writer: Writer,
    prefix_characters: int,
) -> Pair:
    """Return minimum and maximum of a column for JSON statistics; None for a bound that is unknown or not valid.

    `lows` and `highs` are the bounds of the row groups, at least one of each, in the physical type of `column`.
    `data_type` is the type of the column in the table. Text is cut to `prefix_characters`. Times are cut to
    milliseconds; a maximum is rounded up. Decimals retain all digits: pass the values to `orjson.dumps`.
    """
    physical = column.physical_type
    logical = orjson.loads(column.logical_type.to_json())
    if isinstance(data_type, DecimalType):
        return _decimals(lows, highs, physical, logical, data_type)
    if not isinstance(data_type, PrimitiveType):
        return _NOTHING
    name = data_type.name
    if name in INTEGRAL_RANGES:
        return _integers(lows, highs, name) if _is_integral(physical, logical) else _NOTHING
    if name in ("float", "double"):
        return _floats(lows, highs, physical, logical, name, writer)
    if name == "string" and physical == "BYTE_ARRAY" and logical["Type"] in ("String", "None"):
        return _texts(min(lows), max(highs), prefix_characters, writer)
    if name == "date" and logical["Type"] == "Date":
        return _day(min(lows), writer), _day(max(highs), writer)
    if name in ("timestamp", "timestamp_ntz"):
        return _times(min(lows), max(highs), physical, logical, name == "timestamp", writer)
    # The reference implementation has no bounds of binary and boolean columns.
    return _NOTHING


def _is_integral(physical: str, logical: dict[str, Any]) -> bool:
    """Return whether the stored values are plain signed integers."""
    return physical in _INTEGERS and (logical["Type"] == "None" or logical.get("isSigned") is True)


def _integers(lows: Sequence[int], highs: Sequence[int], name: str) -> Pair:
    low, high = min(lows), max(highs)
    least, most = INTEGRAL_RANGES[name]
    # Readers return other values for integers outside the range of the table's type.
    return (low, high) if least <= low and high <= most else _NOTHING


def _floats(
    lows: Sequence[float], highs: Sequence[float], physical: str, logical: dict[str, Any], name: str, writer: Writer
) -> Pair:
    if name == "double" and physical == "INT32" and _is_integral(physical, logical):
        return float(min(lows)), float(max(highs))
    if logical["Type"] != "None" or physical not in (("FLOAT",) if name == "float" else ("FLOAT", "DOUBLE")):
        return _NOTHING
    low = min((number for number in lows if not math.isnan(number)), default=math.inf)
    high = math.inf if any(math.isnan(number) for number in highs) else max(highs)
    # Use -0.0 as minimum and 0.0 as maximum, because a zero bound covers both signs.
    return (
        (low or -0.0) if math.isfinite(low) else None,
        (high or 0.0) if math.isfinite(high) and writer.counts_nan else None,
    )


def _decimals(
    lows: Sequence[Any], highs: Sequence[Any], physical: str, logical: dict[str, Any], data_type: DecimalType
) -> Pair:
    if logical["Type"] == "Decimal":
        shift = data_type.scale - int(logical["scale"])
    elif _is_integral(physical, logical):
        shift = data_type.scale
    else:
        return _NOTHING
    if shift < 0:
        return _NOTHING
    low = min(map(_unscaled, lows)) * 10**shift
    high = max(map(_unscaled, highs)) * 10**shift
    limit = 10**data_type.precision
    if not (-limit < low and high < limit):
        return _NOTHING
    return _decimal_text(low, data_type.scale), _decimal_text(high, data_type.scale)


def _unscaled(raw: Any) -> int:
    return int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else int(raw)


def _decimal_text(unscaled: int, scale: int) -> orjson.Fragment:
    """Return the exact number, because a double would lose digits."""
    digits = str(abs(unscaled)).zfill(scale + 1)
    whole, fraction = digits[: len(digits) - scale], digits[len(digits) - scale :]
    return orjson.Fragment(("-" if unscaled < 0 else "") + whole + ("." + fraction if fraction else ""))


def _texts(low: bytes, high: bytes, prefix_characters: int, writer: Writer) -> Pair:
    return (
        _lower_text(low, prefix_characters, writer.keeps_text_whole),
        _upper_text(high, prefix_characters, writer.keeps_text_whole),
    )


def _lower_text(raw: bytes, prefix_characters: int, whole: bool) -> str | None:
    text = _decoded(raw, prefix_characters, whole)
    if text is None:
        return None
    head = text[:prefix_characters]
    # UTF-16 sorts these characters above characters beyond U+FFFF, possible in greater values.
    return None if not raw.isascii() and _ORDERED_AFTER_SURROGATES.search(head) else head


def _upper_text(raw: bytes, prefix_characters: int, whole: bool) -> str | None:
    text = _decoded(raw, prefix_characters, whole)
    if text is None:
        return None
    head = text[:prefix_characters]
    if not raw.isascii() and any(character > _LAST_OF_PLANE for character in head):
        # In UTF-16 order, lesser values may contain characters above these.
        return None
    if len(text) <= prefix_characters:
        return text
    return head + _TIE_BREAKER if text[prefix_characters] < _TIE_BREAKER else _raised(head)


def _decoded(raw: bytes, prefix_characters: int, whole: bool) -> str | None:
    """Return the text of a bound, None if it is not UTF-8 or may be truncated by the writer."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return None
    may_be_cut = not whole and len(raw) >= _SHORTEST_CUT_BYTES
    return None if may_be_cut and len(text) <= prefix_characters else text


def _raised(head: str) -> str | None:
    """Return the shortest text above all texts with the prefix `head`, in both sort orders; None if impossible."""
    head = head.rstrip(_LAST_OF_PLANE)
    if not head:
        return None
    last = head[-1]
    return head[:-1] + (_AFTER_SURROGATES if last == _BEFORE_SURROGATES else chr(ord(last) + 1))


def _day(days: int, writer: Writer) -> str | None:
    ordinal = days + _EPOCH_DAY
    if not 1 <= ordinal <= dt.date.max.toordinal() or (days < _GREGORIAN_DAY and writer.old_calendar):
        return None
    return dt.date.fromordinal(ordinal).isoformat()


def _times(low: int, high: int, physical: str, logical: dict[str, Any], zoned: bool, writer: Writer) -> Pair:
    if logical["Type"] == "Date" and not zoned:
        low, high, per_ms = low * _DAY_US, high * _DAY_US, 1_000
    elif physical == "INT64" and logical["Type"] == "Timestamp" and logical["isAdjustedToUTC"] == zoned:
        per_ms = _UNITS_PER_MS.get(logical["timeUnit"], 0)
    else:
        return _NOTHING
    if not per_ms:
        return _NOTHING
    return _moment(low // per_ms, zoned, writer), _moment(-(-high // per_ms), zoned, writer)


def _moment(ms: int, zoned: bool, writer: Writer) -> str | None:
    if ms < _ZONES_MS and writer.old_calendar:
        return None
    try:
        moment = _EPOCH + dt.timedelta(milliseconds=ms)
    except OverflowError:
        return None
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + ("Z" if zoned else "")
