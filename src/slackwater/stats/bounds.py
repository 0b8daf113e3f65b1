"""Proven bounds of a column: for each file, bounds valid for every non-null value in it.

Values are converted to one sort order per type, the order of Spark: text as UTF-8 bytes, dates and times as integers,
booleans as 0 and 1, decimals at the scale of the column. NaN is above every number in Spark and absent from the
statistics; `normalize` handles it.

Source: delta-protocol.md "Per-file Statistics".
"""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from typing import Literal as OneOf

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.predicate.literals import EXACT_DOUBLE_LIMIT, INTEGRAL_RANGES
from slackwater.predicate.predicate import ComparisonOperator, Value
from slackwater.protocol.schema.schema import DataType, DecimalType, PrimitiveType
from slackwater.stats.file_stats import ColumnStats

AFTER_PREFIX = b"\xff"
"""A suffix that sorts after any continuation of a prefix: UTF-8 text never contains this byte."""

Verdict = OneOf["always", "never", "unknown"]
"""Result for all non-null values: the comparison is true, false, or undecided. "always" does not promise a value."""

Test = Verdict | tuple[ComparisonOperator, pa.Scalar]

_MILLI_US = 999
_WIDE = Context(prec=120)
_WIDE_DECIMAL_DIGITS = 60
_DOUBLE_DIGITS = 15
# Writers never cut shorter texts. In longer texts, the last unit may be halved, replaced or raised.
_WHOLE_TEXT_UNITS = 31
_BEFORE_FFFD = r"(?s)(?:.[\x{FFFD}-\x{FFFF}\x{10FFFF}]|[\x{E000}-\x{10FFFF}]).*$"
_BEFORE_E000 = r"(?s)[\x{E000}-\x{10FFFF}].*$"
_FIRST_BYTE_FROM_E000 = b"\xee"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds per file: every non-null value is in [`low`, `high`], in the type's sort order; null if unknown.

    `has_values` is False if every row is null, `has_nulls` is False if no row is null. Both are True if unknown.
    """

    low: pa.Array
    high: pa.Array
    has_values: pa.Array
    has_nulls: pa.Array


def prove_bounds(stats: ColumnStats) -> Bounds:
    """Return the bounds proven by `stats`, wide or tight.

    A null count is used only if it is 0 or the number of records.
    """
    low, high = stats.min, stats.max
    arrow = low.type
    if pa.types.is_string(arrow):
        low, high = _text_bounds(low, high, stats.exact)
    elif pa.types.is_floating(arrow):
        low, high = _float_bounds(low, high, stats.exact)
    elif pa.types.is_timestamp(arrow):
        low, high = low.cast(pa.int64()), high.cast(pa.int64())
        if not stats.exact:
            low, high = _untruncated_times(low, high)
    elif pa.types.is_decimal(arrow):
        low, high = _decimal_bounds(low, high, stats.exact)
    elif pa.types.is_date(arrow):
        low, high = low.cast(pa.int32()).cast(pa.int64()), high.cast(pa.int32()).cast(pa.int64())
    elif not pa.types.is_binary(arrow):
        low, high = low.cast(pa.int64()), high.cast(pa.int64())
    has_values = pc.not_equal(stats.null_count, stats.num_records).fill_null(True)
    return Bounds(low, high, has_values, pc.not_equal(stats.null_count, 0).fill_null(True))


def normalize(operator: ComparisonOperator, value: Value, data_type: DataType, exact: bool) -> Test:
    """Return `column operator value` as a comparison with the column's bounds, or its verdict without the bounds.

    `exact` is true if the bounds equal the value, as for partition columns. The result is "unknown" for a literal that
    does not match the type of the column, or that Spark would compare inexactly. The operator of the result is never
    `<=>`.
    """
    if operator == "<=>":
        operator = "="
    if isinstance(data_type, DecimalType):
        if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
            return "unknown"
        limit = Decimal(10) ** (data_type.precision - data_type.scale)
        return _on_grid(operator, Decimal(value), (-limit, limit), _wide_decimal(data_type))
    if not isinstance(data_type, PrimitiveType):
        return "unknown"
    if data_type.name in INTEGRAL_RANGES:
        return _integral_test(operator, value)
    if data_type.name in ("float", "double"):
        return _float_test(operator, value, exact)
    scalar = _scalar(value, data_type.name)
    return "unknown" if scalar is None else (operator, scalar)


def _integral_test(operator: ComparisonOperator, value: Value) -> Test:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return "unknown"
    if isinstance(value, float):
        if math.isnan(value):
            return _beyond(operator, above=True)
        if math.isfinite(value) and abs(value) >= EXACT_DOUBLE_LIMIT:
            return "unknown"
    low, high = INTEGRAL_RANGES["long"]
    return _on_grid(operator, Decimal(value), (Decimal(low), Decimal(high)), pa.int64())


def _float_test(operator: ComparisonOperator, value: Value, exact: bool) -> Test:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "unknown"
    if isinstance(value, int) and abs(value) > EXACT_DOUBLE_LIMIT:
        return "unknown"
    if math.isnan(value):
        # Bounds do not include NaN; no value is above NaN.
        return "never" if operator == ">" else "unknown"
    if operator in (">", ">=", "!=") and not exact:
        return "unknown"
    return operator, pa.scalar(float(value), pa.float64())


def _on_grid(
    operator: ComparisonOperator, number: Decimal, limits: tuple[Decimal, Decimal], arrow: pa.DataType
) -> Test:
    """Return the comparison with `number` for a column with only the values of the Arrow type within `limits`."""
    if number < limits[0] or number > limits[1]:
        return _beyond(operator, above=number > limits[1])
    with localcontext(_WIDE):
        unit = Decimal(1).scaleb(-arrow.scale) if pa.types.is_decimal(arrow) else Decimal(1)
        floor = number.quantize(unit, ROUND_FLOOR)
        if floor != number:
            if operator in ("=", "!="):
                return "never" if operator == "=" else "always"
            upward = operator in (">", ">=")
            operator = ">=" if upward else "<="
            number = number.quantize(unit, ROUND_CEILING) if upward else floor
        else:
            number = floor
    return operator, pa.scalar(int(number) if pa.types.is_integer(arrow) else number, arrow)


def _beyond(operator: ComparisonOperator, above: bool) -> Verdict:
    """Return the verdict for a literal above, or below, all values of the type."""
    holds = operator == "!=" or operator in (("<", "<=") if above else (">", ">="))
    return "always" if holds else "never"


def _scalar(value: Value, type_name: str) -> pa.Scalar | None:
    if type_name == "string" and isinstance(value, str):
        try:
            return pa.scalar(value.encode(), pa.binary())
        except UnicodeEncodeError:
            return None
    if type_name == "binary" and isinstance(value, bytes):
        return pa.scalar(value, pa.binary())
    if type_name == "boolean" and isinstance(value, bool):
        return pa.scalar(int(value), pa.int64())
    if isinstance(value, dt.datetime):
        if type_name != ("timestamp_ntz" if value.tzinfo is None else "timestamp"):
            return None
        epoch = dt.datetime(1970, 1, 1, tzinfo=None if value.tzinfo is None else dt.timezone.utc)
        return pa.scalar((value - epoch) // dt.timedelta(microseconds=1), pa.int64())
    if type_name == "date" and isinstance(value, dt.date):
        return pa.scalar((value - dt.date(1970, 1, 1)).days, pa.int64())
    return None


def _text_bounds(low: pa.Array, high: pa.Array, exact: bool) -> tuple[pa.Array, pa.Array]:
    """Return bounds as bytes, valid for any truncation and sort order of the writer.

    Writers truncate after a number of UTF-16 units or code points, and may halve a character. They raise the last
    character, or append a tie-breaker not above every text. Some compare UTF-16 units, with another order of the
    characters from U+E000 up. Therefore only the text before such characters is used.
    """
    if exact:
        return low.cast(pa.binary()), high.cast(pa.binary())
    lower, upper = low, high
    if not _all_ascii(low):
        lower = pc.replace_substring_regex(low, _BEFORE_E000, "")
    if not _all_ascii(high):
        upper = pc.replace_substring_regex(high, _BEFORE_FFFD, "")
    upper = pc.utf8_slice_codeunits(upper, 0, _WHOLE_TEXT_UNITS)
    cut = pc.not_equal(upper, high)
    return (
        _append_where(pc.not_equal(lower, low), lower, _FIRST_BYTE_FROM_E000),
        _append_where(cut, upper, AFTER_PREFIX),
    )


def _all_ascii(texts: pa.Array) -> bool:
    return pc.all(pc.string_is_ascii(texts)).as_py() is not False


def _append_where(condition: pa.Array, texts: pa.Array, suffix: bytes) -> pa.Array:
    raw = texts.cast(pa.binary())
    if not pc.any(condition).as_py():
        return raw
    return pc.if_else(condition, pc.binary_join_element_wise(raw, pa.scalar(suffix), pa.scalar(b"")), raw)


def _float_bounds(low: pa.Array, high: pa.Array, exact: bool) -> tuple[pa.Array, pa.Array]:
    is_double = pa.types.is_float64(low.type)
    low, high = (pc.if_else(pc.is_nan(b), pa.scalar(None, pa.float64()), b) for b in (_doubles(low), _doubles(high)))
    if is_double and not exact:
        # Bounds of a column widened from float are printed as floats, so they differ slightly from the doubles read.
        low = pc.min_element_wise(low, _doubles(low.cast(pa.float32(), safe=False)))
        high = pc.max_element_wise(high, _doubles(high.cast(pa.float32(), safe=False)))
    return low, high


def _doubles(numbers: pa.Array) -> pa.Array:
    return numbers.cast(pa.float64())


def _untruncated_times(low: pa.Array, high: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return bounds widened by the truncated fraction of a millisecond.

    The maximum may lack it. Before the epoch, truncation towards zero may have raised the minimum too.
    """
    least, greatest = INTEGRAL_RANGES["long"]
    unknown = pa.scalar(None, pa.int64())
    high = pc.if_else(pc.greater(high, greatest - _MILLI_US), unknown, high)
    low = pc.if_else(pc.less(low, least + _MILLI_US), unknown, low)
    return pc.if_else(pc.less_equal(low, 0), pc.subtract(low, _MILLI_US), low), pc.add(high, _MILLI_US)


def _wide_decimal(data_type: DecimalType) -> pa.DataType:
    return pa.decimal256(_WIDE_DECIMAL_DIGITS, data_type.scale)


def _decimal_bounds(low: pa.Array, high: pa.Array, exact: bool) -> tuple[pa.Array, pa.Array]:
    scale = low.type.scale
    wide = pa.decimal256(_WIDE_DECIMAL_DIGITS, scale)
    if low.type.precision > _DOUBLE_DIGITS and not exact:
        # Some writers print decimals via a double, so the digits beyond its precision are noise.
        low, high = (
            pc.subtract(low.cast(wide), _double_noise(low, wide)),
            pc.add(high.cast(wide), _double_noise(high, wide)),
        )
    return low.cast(wide), high.cast(wide)


def _double_noise(bound: pa.Array, wide: pa.DataType) -> pa.Array:
    return pc.multiply(pc.abs(bound.cast(pa.float64())), 2.0**-50).cast(wide)
