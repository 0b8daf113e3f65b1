"""Conversion of statistics values to the types of their columns, for the formats of all known writers.

Source: delta-protocol.md "Per-file Statistics".
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_DATE_SHAPE = r"^\d{4}-\d{2}-\d{2}$"
_ZONED_SHAPE = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})$"
# A "Z" of a timestamp_ntz is ignored; another offset is ambiguous.
_LOCAL_SHAPE = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?Z?)?$"
# The widest offset of any zone. A time without an offset is within this distance.
_WIDEST_OFFSET_US = 18 * 3600 * 1_000_000
_MINUTE_US = 60 * 1_000_000


def wire_type(arrow: pa.DataType) -> pa.DataType | None:
    """Return the JSON type of a bound of type `arrow`, None without an agreed JSON format.

    For a struct, return the struct of the JSON types of its fields.
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
    """Return `values` as `arrow`; null for a value that does not fit or has no exact form.

    A time without an offset, or with a possibly truncated offset, is not an exact `timestamp`.
    """
    if values.type == arrow:
        return values
    is_text = _is_text(values.type)
    if is_text and pa.types.is_date(arrow):
        return _cast(_matching(values, _DATE_SHAPE), arrow)
    if is_text and pa.types.is_timestamp(arrow):
        if arrow.tz is not None:
            found = _instants(values, arrow)
            return pc.if_else(_may_be_cut(values, found), pa.scalar(None, arrow), found)
        texts = pc.replace_substring_regex(_with_micros(_matching(values, _LOCAL_SHAPE)), r"Z$", "")
        return _cast(texts, arrow)
    if is_text != pa.types.is_string(arrow) or pa.types.is_nested(values.type):
        return pa.nulls(len(values), arrow)
    return _cast(values, arrow)


def typed_bound(values: pa.Array, arrow: pa.DataType, is_max: bool) -> pa.Array:
    """Return minimum values, or maximum values with `is_max`, as `arrow`.

    A timestamp without an offset is widened by the widest offset of any zone. A timestamp with a possibly truncated
    offset is widened by one minute.
    """
    found = typed(values, arrow)
    if not pa.types.is_timestamp(arrow) or arrow.tz is None:
        return found
    minute, widest = (_shift(us, is_max) for us in (_MINUTE_US, _WIDEST_OFFSET_US))
    if not _is_text(values.type):
        # Other writers derive these columns from texts with truncated offsets.
        early = pc.fill_null(pc.less(found, _first_exact(arrow)), False)
        return pc.if_else(early, pc.add(found, minute), found) if pc.any(early).as_py() else found
    if found.null_count == values.null_count:
        return found
    local = pc.add(typed(values, pa.timestamp("us")), widest).cast(arrow)
    return pc.coalesce(found, pc.add(_instants(values, arrow), minute), local)


def _instants(texts: pa.Array, arrow: pa.TimestampType) -> pa.Array:
    """Return the timestamps of texts with an offset; null for others."""
    return _cast(_with_micros(_matching(texts, _ZONED_SHAPE)), arrow)


def _may_be_cut(texts: pa.Array, instants: pa.Array) -> pa.Array:
    """Return whether the offset in each text may lack its seconds.

    Delta 3.2 and 3.3 wrote `+00:53` for the offset +00:53:28. Since 1972 all offsets are whole minutes.
    """
    is_early = pc.less(instants, _first_exact(instants.type))
    has_offset = pc.invert(pc.match_substring_regex(texts, r"(Z|[+-]00:?00)$"))
    return pc.fill_null(pc.and_(is_early, has_offset), False)


def _first_exact(arrow: pa.TimestampType) -> pa.Scalar:
    return pa.scalar(dt.datetime(1972, 1, 8, tzinfo=dt.timezone.utc)).cast(arrow)


def _shift(micros: int, is_max: bool) -> pa.Scalar:
    return pa.scalar(micros if is_max else -micros, pa.duration("us"))


def _with_micros(texts: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(texts, r"(\.\d{6})\d+", r"\1")


def _is_text(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow) or pa.types.is_large_string(arrow))


def _matching(texts: pa.Array, shape: str) -> pa.Array:
    return pc.if_else(pc.match_substring_regex(texts, shape), texts, pa.scalar(None, texts.type))


def _cast(values: pa.Array, arrow: pa.DataType) -> pa.Array:
    # Finer units are truncated, like writers do; all other values must fit.
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
