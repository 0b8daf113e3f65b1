"""Converts literals of a predicate to the type of the compared column.

A literal is converted only if the comparison keeps exactly Spark's meaning, with and without ANSI mode. Any other
literal results in None, and the condition becomes `Unprunable`.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal, localcontext
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from slackwater.predicate.predicate import Value
from slackwater.protocol.schema.schema import DataType, DecimalType, PrimitiveType

INTEGRAL_RANGES = {
    "byte": (-(2**7), 2**7 - 1),
    "short": (-(2**15), 2**15 - 1),
    "integer": (-(2**31), 2**31 - 1),
    "long": (-(2**63), 2**63 - 1),
}
# Spark compares a long with a double as doubles, which is exact below this magnitude.
EXACT_DOUBLE_LIMIT = 2**53

_EXACT_FLOAT_LIMIT = 2**24
_MAX_DIGITS = 38
_LONG_DIGITS = 20
_WIDE = Context(prec=100)
_INTEGER_TEXT = re.compile(r"[+-]?[0-9]{1,19}\Z")
_NUMBER_TEXT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?\Z")
_DATE_TEXT = re.compile(r"([0-9]{4})(?:-([0-9]{1,2})(?:-([0-9]{1,2}))?)?\Z")
_TIMESTAMP_TEXT = re.compile(
    r"([0-9]{4}-[0-9]{1,2}-[0-9]{1,2})[T ]([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?:\.([0-9]{1,9}))?"
    r"(Z|UTC|[+-][0-9]{2}:[0-9]{2})?\Z"
)


def coerce_literal(value: Value, data_type: DataType, zone: str = "UTC") -> Value | None:
    """Convert `value` to a literal that compares with a column of `data_type` exactly like `value` does in Spark.

    Integral columns keep fractions (`5.5` stays `Decimal("5.5")`). Columns of doubles and floats get a float, which
    compares as a double. Timestamps are converted to UTC; text without a zone and dates are read in the session's
    `zone`. Return None if no literal has the same meaning.
    """
    if isinstance(data_type, DecimalType):
        return _for_decimal(value, data_type)
    if not isinstance(data_type, PrimitiveType):
        return None
    name = data_type.name
    if name in INTEGRAL_RANGES:
        return _for_integral(value, name)
    if name == "double":
        return _for_double(value)
    if name == "float":
        return _for_float(value)
    if name == "string":
        return value if isinstance(value, str) else None
    if name == "binary":
        return value if isinstance(value, bytes) else None
    if name == "boolean":
        return _for_boolean(value)
    if name == "date":
        return _for_date(value)
    if name in ("timestamp", "timestamp_ntz"):
        return _for_timestamp(value, name, zone)
    return None


def coerce_literals(values: Sequence[Value], data_type: DataType, zone: str = "UTC") -> tuple[Value, ...] | None:
    """Convert the literals of an IN list like `coerce_literal`. Return None if one of the literals has no equivalent.

    Spark casts the column and the whole list to one common type. In one of Spark's modes text beside other types makes
    this type text. One decimal type must hold the digits of all literals.
    """
    if len({isinstance(value, str) for value in values}) > 1:
        return None
    coerced: list[Value] = []
    for value in values:
        literal = coerce_literal(value, data_type, zone)
        if literal is None or (isinstance(value, str) and not isinstance(literal, str) and str(literal) != value):
            return None
        coerced.append(literal)
    numeric = [v for v in values if isinstance(v, (int, float, Decimal)) and not isinstance(v, bool)]
    has_double = any(isinstance(v, float) for v in numeric)
    if (
        str(data_type) in INTEGRAL_RANGES
        and has_double
        and not all(-EXACT_DOUBLE_LIMIT < v < EXACT_DOUBLE_LIMIT for v in numeric)
    ):
        return None
    own = (_LONG_DIGITS, 0) if not isinstance(data_type, DecimalType) else _shape_of(data_type)
    shapes = [own, *(_shape(v) for v in numeric if not isinstance(v, float))]
    if str(data_type) not in ("float", "double") and not _fit_one_decimal(shapes):
        return None
    return tuple(coerced)


def cast_literal(value: Value, data_type: DataType, zone: str = "UTC") -> Value | None:
    """Return the value of `CAST(value AS data_type)` in Spark. None for NULL, an error, or an unsupported cast."""
    if isinstance(data_type, DecimalType):
        return _cast_to_decimal(value, data_type)
    if not isinstance(data_type, PrimitiveType):
        return None
    name = data_type.name
    if name in INTEGRAL_RANGES:
        low, high = INTEGRAL_RANGES[name]
        number = _for_integral(value, name)
        return number if type(number) is int and low <= number <= high else None
    if name == "double":
        return _for_double(value)
    if name == "float":
        return _cast_to_float(value)
    if name == "string":
        return str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else None
    if name == "binary":
        return value.encode() if isinstance(value, str) else coerce_literal(value, data_type)
    return coerce_literal(value, data_type, zone)


def _for_integral(value: Value, name: str) -> Value | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        if not _INTEGER_TEXT.match(value):
            return None
        low, high = INTEGRAL_RANGES[name]
        number = int(value)
        return number if low <= number <= high else None
    if isinstance(value, float):
        if not math.isfinite(value) or not value.is_integer():
            return value if not math.isfinite(value) or abs(value) < EXACT_DOUBLE_LIMIT else None
        return int(value) if abs(value) < EXACT_DOUBLE_LIMIT else None
    if isinstance(value, (int, Decimal)):
        low, high = INTEGRAL_RANGES["long"]
        # Beyond the range of a long, Spark replaces the comparison by a constant, also for null.
        if not low <= value <= high or not _fit_one_decimal([(_LONG_DIGITS, 0), _shape(value)]):
            return None
        return int(value) if value == int(value) else value
    return None


def _for_double(value: Value) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float, Decimal)):
        try:
            return float(value)
        except OverflowError:
            return None
    return float(value) if isinstance(value, str) and _NUMBER_TEXT.match(value) else None


def _for_float(value: Value) -> float | None:
    double = _for_double(value)
    if double is None or isinstance(value, (float, Decimal)):
        return double
    # Spark compares integers and text as float or as double, depending on the ANSI mode.
    exact = abs(double) <= _EXACT_FLOAT_LIMIT if isinstance(value, int) else _round_to_float(double) == double
    return double if exact else None


def _cast_to_float(value: Value) -> float | None:
    """Return the float nearest to `value`. None if rounding by way of a double may result in another float."""
    double = _for_double(value)
    if double is None or isinstance(value, float):
        return None if double is None else _round_to_float(double)
    around = {_round_to_float(math.nextafter(double, limit)) for limit in (-math.inf, math.inf)}
    exact = isinstance(value, (str, int, Decimal)) and Decimal(value) == Decimal(double)
    return _round_to_float(double) if exact or len(around) == 1 else None


def _round_to_float(value: float) -> float | None:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return None


def _for_decimal(value: Value, data_type: DecimalType) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        return None
    return Decimal(value) if _fit_one_decimal([_shape_of(data_type), _shape(value)]) else None


def _shape_of(data_type: DecimalType) -> tuple[int, int]:
    return data_type.precision - data_type.scale, data_type.scale


def _shape(value: int | Decimal) -> tuple[int, int]:
    """Return the digits before and after the decimal point of the literal's type in Spark."""
    if isinstance(value, int):
        return max(_LONG_DIGITS, len(str(abs(value)))), 0
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return _MAX_DIGITS + 1, 0
    return max(len(digits) + exponent, 0), max(-exponent, 0)


def _fit_one_decimal(shapes: Sequence[tuple[int, int]]) -> bool:
    """Return whether one decimal type holds all shapes. If not, Spark drops digits before the comparison."""
    return max(whole for whole, _ in shapes) + max(scale for _, scale in shapes) <= _MAX_DIGITS


def _cast_to_decimal(value: Value, data_type: DecimalType) -> Decimal | None:
    if isinstance(value, (bool, float)) or not isinstance(value, (int, Decimal, str)):
        return None
    if isinstance(value, str) and not _NUMBER_TEXT.match(value):
        return None
    with localcontext(_WIDE):
        exact = Decimal(value)
        if exact.adjusted() >= data_type.precision - data_type.scale and exact:
            return None
        rounded = exact.quantize(Decimal(1).scaleb(-data_type.scale), ROUND_HALF_UP)
        return rounded if len(rounded.as_tuple().digits) <= data_type.precision else None


def _for_boolean(value: Value) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower())
    return value if isinstance(value, bool) else None


def _for_date(value: Value) -> dt.date | None:
    if isinstance(value, str):
        return _parse_date(value)
    return value if isinstance(value, dt.date) and not isinstance(value, dt.datetime) else None


def _for_timestamp(value: Value, name: str, zone: str) -> dt.datetime | None:
    moment: Value | None = _parse_timestamp(value) if isinstance(value, str) else value
    if isinstance(moment, dt.date) and not isinstance(moment, dt.datetime):
        moment = dt.datetime(moment.year, moment.month, moment.day)  # noqa: DTZ001  a wall clock, on purpose
    if not isinstance(moment, dt.datetime):
        return None
    if name == "timestamp_ntz":
        return moment if moment.tzinfo is None else None
    return _in_utc(moment, zone)


def _in_utc(moment: dt.datetime, zone: str) -> dt.datetime | None:
    try:
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=ZoneInfo(zone))
        return moment.astimezone(dt.timezone.utc)
    except (ZoneInfoNotFoundError, ValueError, OverflowError, OSError):
        return None


def _parse_date(text: str) -> dt.date | None:
    match = _DATE_TEXT.match(text)
    if match is None:
        return None
    try:
        return dt.date(int(match[1]), int(match[2] or 1), int(match[3] or 1))
    except ValueError:
        return None


def _parse_timestamp(text: str) -> dt.date | dt.datetime | None:
    match = _TIMESTAMP_TEXT.match(text)
    if match is None:
        return _parse_date(text)
    date = _parse_date(match[1])
    if date is None:
        return None
    micros = int((match[5] or "").ljust(6, "0")[:6])
    try:
        time = dt.time(int(match[2]), int(match[3]), int(match[4]), micros, tzinfo=_parse_offset(match[6]))
    except ValueError:
        return None
    return dt.datetime.combine(date, time)


def _parse_offset(text: str | None) -> dt.tzinfo | None:
    if text is None:
        return None
    if text in ("Z", "UTC"):
        return dt.timezone.utc
    minutes = int(text[1:3]) * 60 + int(text[4:6])
    if minutes > 18 * 60:
        raise ValueError(text)
    return dt.timezone(dt.timedelta(minutes=-minutes if text[0] == "-" else minutes))
