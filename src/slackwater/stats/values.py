"""Values of statistics in the types of their columns, whatever a writer made of them.

Source: delta-protocol.md "Per-file Statistics".
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_DATE_SHAPE = r"^\d{4}-\d{2}-\d{2}$"
_ZONED_SHAPE = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})$"
# Of a timestamp_ntz a "Z" is decoration; another offset is a riddle.
_LOCAL_SHAPE = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?Z?)?$"
# The widest offset of any zone: a time without one is somewhere within it.
_WIDEST_OFFSET_US = 18 * 3600 * 1_000_000


def wire_type(arrow: pa.DataType) -> pa.DataType | None:
    """The type in which a bound of type `arrow` stands in JSON; None where bounds have no agreed form there.

    Of a struct, the struct of what its fields stand in.
    """
    if pa.types.is_struct(arrow):
        return pa.struct([(field.name, wire_type(field.type)) for field in arrow])
    if pa.types.is_integer(arrow):
        return pa.int64()
    if pa.types.is_temporal(arrow) or pa.types.is_string(arrow):
        return pa.string()
    is_plain = pa.types.is_decimal(arrow) or pa.types.is_floating(arrow) or pa.types.is_boolean(arrow)
    return arrow if is_plain else None


def typed(values: pa.Array, arrow: pa.DataType) -> pa.Array:
    """`values` as `arrow`; null where a value does not fit, or has no exact form there: a time without an offset is no
    `timestamp`.
    """
    if values.type == arrow:
        return values
    is_text = _is_text(values.type)
    if is_text and pa.types.is_date(arrow):
        return _cast(_matching(values, _DATE_SHAPE), arrow)
    if is_text and pa.types.is_timestamp(arrow):
        texts = _matching(values, _LOCAL_SHAPE if arrow.tz is None else _ZONED_SHAPE)
        texts = pc.replace_substring_regex(texts, r"(\.\d{6})\d+", r"\1")
        return _cast(pc.replace_substring_regex(texts, r"Z$", "") if arrow.tz is None else texts, arrow)
    if is_text != pa.types.is_string(arrow) or pa.types.is_nested(values.type):
        return pa.nulls(len(values), arrow)
    return _cast(values, arrow)


def typed_bound(values: pa.Array, arrow: pa.DataType, is_max: bool) -> pa.Array:
    """Least values, or greatest ones with `is_max`, as `arrow`; a time without an offset is as wide as the earth."""
    found = typed(values, arrow)
    if not pa.types.is_timestamp(arrow) or arrow.tz is None or not _is_text(values.type):
        return found
    if found.null_count == values.null_count:
        return found
    shift = pa.scalar(_WIDEST_OFFSET_US if is_max else -_WIDEST_OFFSET_US, pa.duration("us"))
    return pc.coalesce(found, pc.add(typed(values, pa.timestamp("us")), shift).cast(arrow))


def _is_text(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow) or pa.types.is_large_string(arrow))


def _matching(texts: pa.Array, shape: str) -> pa.Array:
    return pc.if_else(pc.match_substring_regex(texts, shape), texts, pa.scalar(None, texts.type))


def _cast(values: pa.Array, arrow: pa.DataType) -> pa.Array:
    # Finer units are cut as writers cut them; everything else must fit.
    cuts = pa.types.is_timestamp(arrow) and pa.types.is_timestamp(values.type) and values.type.unit == "ns"
    try:
        return values.cast(arrow, safe=not cuts)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.array([_cast_one(value, arrow) for value in values], arrow)


def _cast_one(value: pa.Scalar, arrow: pa.DataType) -> Any:
    try:
        return value.cast(arrow).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError, OverflowError):
        return None
