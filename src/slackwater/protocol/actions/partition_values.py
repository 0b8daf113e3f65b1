"""Partition values: the strings of `add.partitionValues`, and the Hive-style directory names.

Source: delta-protocol.md "Partition Value Serialization".
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import CorruptLog, InvalidArgument, UnsupportedFeature
from slackwater.protocol.actions.time_zones import time_zone
from slackwater.protocol.schema.arrow_schema import to_arrow_type
from slackwater.protocol.schema.schema import DataType, DecimalType, PrimitiveType, is_string

HIVE_DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"

_INTEGER_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_ESCAPED_BYTES = re.compile(r"(?:\\u00[0-9A-Fa-f]{2})+")
_DATE = r"(?P<year>[+-]?[0-9]{4,5})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
_TIME = r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2}):(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]{1,9}))?"
_OFFSET = r"(?P<offset>Z|(?P<sign>[+-])(?P<offset_hour>[0-9]{1,2})(?::?(?P<offset_minute>[0-9]{2}))?)"
_DATE_ONLY = f"^{_DATE}$"
_DATE_TIME = f"^{_DATE}(?:[ T]{_TIME})?$"
_DATE_TIME_OFFSET = f"^{_DATE}(?:[ T]{_TIME})?{_OFFSET}?$"
_FIXED_ZONE = re.compile(r"(?:UTC|GMT|Z)?(?:([+-])(0?[0-9]|1[0-8])(?::?([0-5][0-9]))?)?")
_FRACTION_DIGITS = 6
_FLOAT_MAX = float(np.finfo(np.float32).max)
_EARLIEST = "1970-01-01"
_DAY_US = 86_400_000_000
_LATE_US = (dt.date(2037, 1, 1) - dt.date(1970, 1, 1)).days * _DAY_US
_CYCLE_US = 146_097 * _DAY_US

_HIVE_ESCAPED = frozenset(map(chr, [*range(0x20), *b"\"#%'*/:=?\\{[]^", 0x7F]))
_HIVE_ESCAPES = {ord(character): f"%{ord(character):02X}" for character in _HIVE_ESCAPED}
_HIVE_ESCAPE = re.compile("%([0-9A-Fa-f]{2})")

_Int64s = npt.NDArray[np.int64]


def parse_partition_value(text: str | None, data_type: DataType, zone: str | None = None) -> Any:
    """Return the Python value of one partition value, None for null. See `parse_partition_column`.

    `zone` None means UTC. Raises UnsupportedFeature for a date or time outside the years 1 to 9999, the range of
    Python's types, and the errors of `parse_partition_column`.
    """
    parsed = parse_partition_column(pa.array([text], pa.string()), data_type, zone or "UTC")
    try:
        return parsed[0].as_py()
    except (ValueError, OverflowError) as error:
        raise UnsupportedFeature(
            f"partition value {text!r} of type {data_type} cannot be represented in Python: {error}"
        ) from error


# From arrays, because pyarrow imports pandas when it converts a Python value.
_NO_TEXT = pa.nulls(1, pa.string())[0]
_EMPTY = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(bytes(8)), pa.py_buffer(b"")])[0]


def parse_partition_column(values: pa.Array | pa.ChunkedArray, data_type: DataType, zone: str = "UTC") -> pa.Array:
    """Return the typed values of one partition column, an array of `to_arrow_type(data_type)`.

    `values` are strings, dictionary-encoded or not; nulls and "" become null. A timestamp without an offset is a local
    time in `zone` (IANA name or offset such as `+02:00`). An ambiguous local time is the earlier instant. A local time
    inside a gap uses the offset before the gap, like Java. Digits after the microsecond are cut. Binary is the text's
    UTF-8 bytes, or the escaped bytes if the whole text consists of `\\u00XX` escapes. Each distinct text is parsed
    once.

    Raises CorruptLog, naming the text and the type, for a text that is not a value of the type. Raises InvalidArgument
    for an unknown zone, or for a type without partition values.
    Source: delta-protocol.md "Partition Value Serialization".
    """
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if is_string(data_type):
        return _without_empty(array.cast(pa.string()))
    encoded = array if pa.types.is_dictionary(array.type) else array.cast(pa.string()).dictionary_encode()
    texts = _without_empty(encoded.dictionary.cast(pa.string()))
    return _parse_texts(texts, data_type, zone).take(encoded.indices)


def serialize_partition_value(value: Any, data_type: DataType) -> str | None:
    """Return the text of `value` for `add.partitionValues`; None for null and for an empty string or binary.

    Timestamps must have a zone and are written in UTC, in ISO 8601 with microseconds. `timestamp_ntz` must not have a
    zone. Floats are written in the format of Java, and negative zero becomes `0.0`, like in Spark. Binary that is not
    UTF-8 text becomes `\\u00XX` escapes. Raises InvalidArgument for a value that is not of the type.
    Source: delta-protocol.md "Partition Value Serialization".
    """
    if value is None:
        return None
    text = _serialize(value, data_type)
    if text is None:
        raise InvalidArgument(
            f"{value!r} is not a value of the partition column type {data_type}",
            error_class="DELTA_PARTITION_COLUMN_CAST_FAILED",
        )
    return text or None


def hive_escape(text: str) -> str:
    """Return `text` with `%XX` escapes for the characters not allowed by Hive and Spark in directory names."""
    return text.translate(_HIVE_ESCAPES)


def hive_unescape(text: str) -> str:
    """Return `text` with every `%XX` decoded; a `%` followed by anything else stays."""
    return _HIVE_ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


def hive_directory(columns: Sequence[tuple[str, str | None]]) -> str:
    """Return the directory for files with these partition values, such as `a=1/b=2/`; "" without columns.

    Ends with a slash, so that a file name can follow. Null and "" become `__HIVE_DEFAULT_PARTITION__`. The result is
    not yet percent-encoded for a URL or `add.path`.
    """
    return "".join(
        f"{hive_escape(name)}={hive_escape(text) if text else HIVE_DEFAULT_PARTITION}/" for name, text in columns
    )


def _without_empty(texts: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(texts, _EMPTY), _NO_TEXT, texts)


def _parse_texts(texts: pa.Array, data_type: DataType, zone: str) -> pa.Array:
    if isinstance(data_type, DecimalType):
        return _parse_each(texts, data_type, _decimal_parser(data_type))
    if not isinstance(data_type, PrimitiveType):
        raise InvalidArgument(
            f"a column of type {data_type} cannot partition a table", error_class="DELTA_INVALID_PARTITION_COLUMN_TYPE"
        )
    name = data_type.name
    if name in _INTEGER_BITS:
        return _parse_integers(texts, data_type)
    if name in ("float", "double"):
        return _cast(texts, texts, data_type)
    if name == "boolean":
        return _parse_booleans(texts)
    if name == "binary":
        return _parse_each(texts, data_type, _parse_binary)
    if name == "void":
        _require(texts, pc.is_null(texts), data_type, "null")
        return pa.nulls(len(texts))
    return _parse_temporal(texts, data_type, zone)


def _parse_integers(texts: pa.Array, data_type: PrimitiveType) -> pa.Array:
    _require(texts, pc.match_substring_regex(texts, r"^[+-]?[0-9]+$"), data_type, "an integer")
    return _cast(pc.utf8_ltrim(texts, "+"), texts, data_type)


def _parse_booleans(texts: pa.Array) -> pa.Array:
    lowered = pc.ascii_lower(texts)
    _require(texts, pc.is_in(lowered, pa.array(["true", "false", None])), PrimitiveType("boolean"), "true or false")
    return pc.equal(lowered, "true")


def _cast(plain: pa.Array, texts: pa.Array, data_type: DataType) -> pa.Array:
    arrow_type = to_arrow_type(data_type)
    try:
        return plain.cast(arrow_type)
    except pa.ArrowInvalid:
        bad = next(text for text, candidate in zip(texts, plain, strict=True) if not _castable(candidate, arrow_type))
        _refuse(bad.as_py(), data_type, "a number in its range")


def _castable(scalar: pa.Scalar, arrow_type: pa.DataType) -> bool:
    try:
        scalar.cast(arrow_type)
    except pa.ArrowInvalid:
        return False
    return True


def _parse_each(texts: pa.Array, data_type: DataType, parse: Callable[[str], Any]) -> pa.Array:
    parsed = []
    for text in texts.to_pylist():
        value = None if text is None else parse(text)
        if text is not None and value is None:
            _refuse(text, data_type, "a value that fits it")
        parsed.append(value)
    return pa.array(parsed, to_arrow_type(data_type))


def _decimal_parser(data_type: DecimalType) -> Callable[[str], decimal.Decimal | None]:
    unit = decimal.Decimal(1).scaleb(-data_type.scale)
    # Inexact: a digit beyond the scale would be lost. InvalidOperation: more digits than the precision.
    context = decimal.Context(prec=data_type.precision, traps=[decimal.Inexact, decimal.InvalidOperation])

    def parse(text: str) -> decimal.Decimal | None:
        if not _DECIMAL.fullmatch(text):
            return None
        try:
            return decimal.Decimal(text).quantize(unit, context=context)
        except decimal.DecimalException:
            return None

    return parse


def _parse_binary(text: str) -> bytes:
    if _ESCAPED_BYTES.fullmatch(text):
        return bytes.fromhex(text.replace("\\u00", ""))
    return text.encode("utf-8")


def _parse_temporal(texts: pa.Array, data_type: PrimitiveType, zone: str) -> pa.Array:
    pattern = {"date": _DATE_ONLY, "timestamp": _DATE_TIME_OFFSET, "timestamp_ntz": _DATE_TIME}[data_type.name]
    parts = pc.extract_regex(texts.fill_null(_EARLIEST), pattern)
    expected = "a date" if data_type.name == "date" else "a date and time, years at most 5 digits"
    _require(texts, parts.is_valid(), data_type, expected)
    days = _days(parts, texts, data_type)
    if data_type.name == "date":
        return _typed(days.astype(np.int32), texts, data_type)
    wall_us = days * _DAY_US + _time_of_day_us(parts, texts, data_type)
    if data_type.name == "timestamp_ntz":
        return _typed(wall_us, texts, data_type)
    offsets = pc.struct_field(parts, "offset")
    has_offset = pc.not_equal(offsets, "").to_numpy(zero_copy_only=False)
    exact_us = wall_us - _offset_us(parts, texts, data_type)
    return _typed(np.where(has_offset, exact_us, _local_to_utc_us(wall_us, zone)), texts, data_type)


def _typed(numbers: npt.NDArray[Any], texts: pa.Array, data_type: PrimitiveType) -> pa.Array:
    missing = texts.is_null().to_numpy(zero_copy_only=False)
    return pa.array(numbers, mask=missing).cast(to_arrow_type(data_type))


def _days(parts: pa.Array, texts: pa.Array, data_type: PrimitiveType) -> _Int64s:
    year, month, day = _numbers(parts, "year"), _numbers(parts, "month"), _numbers(parts, "day")
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    first = months.astype("datetime64[D]").astype(np.int64)
    following = (months + 1).astype("datetime64[D]").astype(np.int64)
    valid = (month >= 1) & (month <= 12) & (day >= 1) & (day <= following - first)
    _require(texts, pa.array(valid), data_type, "a day of the calendar")
    return first + day - 1


def _time_of_day_us(parts: pa.Array, texts: pa.Array, data_type: PrimitiveType) -> _Int64s:
    hour, minute, second = _numbers(parts, "hour"), _numbers(parts, "minute"), _numbers(parts, "second")
    _require(texts, pa.array((hour < 24) & (minute < 60) & (second < 60)), data_type, "a time of the day")
    digits = pc.ascii_rpad(pc.struct_field(parts, "fraction"), _FRACTION_DIGITS, "0")
    micros = _to_int64s(pc.utf8_slice_codeunits(digits, 0, _FRACTION_DIGITS))
    return ((hour * 60 + minute) * 60 + second) * 1_000_000 + micros


def _offset_us(parts: pa.Array, texts: pa.Array, data_type: PrimitiveType) -> _Int64s:
    hour, minute = _numbers(parts, "offset_hour"), _numbers(parts, "offset_minute")
    _require(texts, pa.array((hour <= 18) & (minute < 60)), data_type, "an offset of at most 18 hours")
    west = pc.equal(pc.struct_field(parts, "sign"), "-").to_numpy(zero_copy_only=False)
    offset_us: _Int64s = np.where(west, -1, 1) * (hour * 60 + minute) * 60_000_000
    return offset_us


def _local_to_utc_us(wall_us: _Int64s, zone: str) -> _Int64s:
    if zone and (match := _FIXED_ZONE.fullmatch(zone)):
        minutes = int(match[2] or 0) * 60 + int(match[3] or 0)
        return wall_us - (-1 if match[1] == "-" else 1) * minutes * 60_000_000
    walls = pa.array(wall_us, pa.timestamp("us"))
    try:
        # Inside a gap, "earliest" is the instant before the gap. Java applies the offset of that instant.
        instants = pc.assume_timezone(walls, zone, ambiguous="earliest", nonexistent="earliest")
        local_us = _to_int64s(pc.local_timestamp(instants))
    except pa.ArrowInvalid as error:
        raise InvalidArgument(f"unknown time zone {zone!r}. Use an IANA name or an offset") from error
    utc_us: _Int64s = wall_us - (local_us - _to_int64s(instants))
    late = wall_us >= _LATE_US
    if late.any():
        utc_us[late] = wall_us[late] - _late_offsets_us(wall_us[late], zone)
    return utc_us


def _late_offsets_us(wall_us: _Int64s, zone: str) -> _Int64s:
    """Return the offsets of local times too late for the daylight saving rules of Arrow.

    Uses an earlier year with the same calendar, because calendars repeat every 400 years.
    """
    rules, epoch = time_zone(zone), dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
    same = (wall_us - _LATE_US) % _CYCLE_US + _LATE_US
    walls = (epoch + dt.timedelta(microseconds=int(each)) for each in same)
    offsets = (wall.replace(tzinfo=rules).utcoffset() or dt.timedelta() for wall in walls)
    return np.array([offset // dt.timedelta(microseconds=1) for offset in offsets], np.int64)


def _numbers(parts: pa.Array, field: str) -> _Int64s:
    texts = pc.utf8_ltrim(pc.struct_field(parts, field), "+")
    return _to_int64s(pc.if_else(pc.equal(texts, ""), "0", texts))


def _to_int64s(array: pa.Array) -> _Int64s:
    numbers: _Int64s = array.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return numbers


def _require(texts: pa.Array, fits: pa.Array, data_type: DataType, expected: str) -> None:
    if pc.all(fits).as_py() in (True, None):
        return
    unfit = pc.and_(pc.invert(fits), texts.is_valid())
    if pc.any(unfit).as_py():
        _refuse(texts[pc.index(unfit, True).as_py()].as_py(), data_type, expected)


def _refuse(text: str, data_type: DataType, expected: str) -> NoReturn:
    raise CorruptLog(f"partition value {text!r} of a column of type {data_type}: expected {expected}")


def _serialize(value: Any, data_type: DataType) -> str | None:
    """Return the text of a non-null value, or None if the value is not of the type."""
    if isinstance(data_type, DecimalType):
        return _decimal_text(value, data_type)
    name = data_type.name if isinstance(data_type, PrimitiveType) else ""
    if name in _INTEGER_BITS:
        return _integer_text(value, _INTEGER_BITS[name])
    if name in ("float", "double"):
        return _float_text(value, single=name == "float")
    if name == "string":
        return value if isinstance(value, str) else None
    if name == "boolean":
        return str(value).lower() if isinstance(value, bool) else None
    if name == "binary":
        return _binary_text(value) if isinstance(value, bytes) else None
    if name == "date":
        return value.isoformat() if isinstance(value, dt.date) and not isinstance(value, dt.datetime) else None
    if name.startswith("timestamp") and isinstance(value, dt.datetime):
        return _timestamp_text(value, zoned=name == "timestamp")
    return None


def _integer_text(value: Any, bits: int) -> str | None:
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return str(value) if -(1 << (bits - 1)) <= value < 1 << (bits - 1) else None


def _decimal_text(value: Any, data_type: DecimalType) -> str | None:
    if not isinstance(value, decimal.Decimal | int) or isinstance(value, bool):
        return None
    fitting = _decimal_parser(data_type)(str(value))
    return None if fitting is None else f"{fitting:f}"


def _float_text(value: Any, *, single: bool) -> str | None:
    if not isinstance(value, float | int | np.floating) or isinstance(value, bool):
        return None
    if isinstance(value, int) and value.bit_length() > 1000:
        return None
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if single and abs(float(value)) > _FLOAT_MAX:
        return None
    number = np.float32(value) if single else np.float64(value)
    if number == 0:
        return "0.0"
    if 1e-3 <= abs(number) < 1e7:
        return np.format_float_positional(number, trim="0")
    mantissa, exponent = np.format_float_scientific(number, trim="0").split("e")
    return f"{mantissa}E{int(exponent)}"


def _binary_text(value: bytes) -> str:
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        text = None
    if text is None or _ESCAPED_BYTES.fullmatch(text):
        return "".join(f"\\u{byte:04X}" for byte in value)
    return text


def _timestamp_text(value: dt.datetime, *, zoned: bool) -> str | None:
    if zoned != (value.tzinfo is not None):
        return None
    if not zoned:
        return value.isoformat(sep=" ")
    return value.astimezone(dt.timezone.utc).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
