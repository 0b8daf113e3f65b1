"""Conversion of file statistics between JSON and columns: `stats` and `stats_parsed` of a checkpoint, in batches.

Source: delta-protocol.md "Per-file Statistics", "Checkpoints" (`stats`, `stats_parsed`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.protocol.schema.arrow_schema import to_arrow_type
from slackwater.protocol.schema.schema import DataType, GeospatialType, StructType, VariantType
from slackwater.stats.json_structs import plant, read_json_structs, struct_of
from slackwater.stats.stats_values import typed, wire_type

Leaf: TypeAlias = tuple[tuple[str, ...], DataType]
"""A leaf column with statistics: its physical path and its type."""

_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_DAY_US = 86_400_000_000


def stats_type(columns: StructType, most_leaves: int | None = None) -> pa.StructType:
    """Return the type of `stats_parsed` for a table with the data `columns`, by physical names.

    Has bounds for every leaf column with a JSON format of its bounds, and null counts for every leaf column. Limited to
    the first `most_leaves` leaf columns if not None. Empty groups are omitted, because Parquet has no empty struct.
    """
    return _type_of(list(_leaves(columns, ()))[:most_leaves])


def read_stats(texts: pa.Array, leaves: Sequence[Leaf]) -> pa.Array:
    """Return one struct per element of `texts`: the `stats` of the protocol for `leaves`, bounds in their `wire_type`.

    Unreadable parts are null: a malformed text loses the statistics of its own file, an invalid value its own field.
    """
    return read_json_structs(texts, wire_type(_type_of(leaves)))


def parse_stats(texts: pa.Array, wanted: pa.StructType) -> pa.StructArray:
    """Return the JSON statistics `texts` as `wanted`, a `stats_type`; null if a text is null or malformed.

    A field is null if it is absent, of another kind, or not exactly convertible to the column's type (such as a time
    without an offset for a `timestamp`). Memory O(rows).
    """
    return conform_stats(read_json_structs(texts, wire_type(wanted)), wanted)


def conform_stats(stats: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return `stats`, a struct column of any writer, as `wanted`; missing or inconvertible values are null."""
    if not pa.types.is_struct(wanted):
        return typed(stats, wanted)
    if not pa.types.is_struct(stats.type):
        return pa.nulls(len(stats), wanted)
    fields = []
    for field in wanted:
        index = stats.type.get_field_index(field.name)
        found = pa.nulls(len(stats), field.type) if index < 0 else pc.struct_field(stats, [index])
        fields.append(conform_stats(found, field.type))
    return pa.StructArray.from_arrays(fields, fields=list(wanted), mask=stats.is_null())


def stats_to_json(stats: pa.Array) -> pa.Array:
    """Return one JSON text per struct of `stats`, for `add.stats`; null if the struct has no value.

    Omits null values, and values without a format in JSON statistics: binary, and times outside the years 1 to 9999.
    Times have milliseconds, or microseconds if needed; `timestamp` is in UTC.
    """
    return _json_of(stats).cast(pa.string())


def _leaves(struct: StructType, parent: tuple[str, ...]) -> Iterator[Leaf]:
    for column in struct:
        if isinstance(column.type, StructType):
            yield from _leaves(column.type, (*parent, column.name))
        else:
            yield (*parent, column.name), column.type


def _type_of(leaves: Sequence[Leaf]) -> pa.StructType:
    tree: dict[str, Any] = {"numRecords": pa.int64()}
    bounds = [(path, arrow) for path, kind in leaves if (arrow := _bound_type(kind)) is not None]
    for group in ("minValues", "maxValues"):
        for path, arrow in bounds:
            plant(tree, (group, *path), arrow)
    for path, _ in leaves:
        plant(tree, ("nullCount", *path), pa.int64())
    return struct_of({**tree, "tightBounds": pa.bool_()})


def _bound_type(kind: DataType) -> pa.DataType | None:
    """Return the type of minimum and maximum, None if JSON and columns have no common form of them.

    Bounds of variants and shapes are texts in JSON, and binary in columns.
    """
    if isinstance(kind, VariantType | GeospatialType):
        return None
    arrow = to_arrow_type(kind)
    return None if wire_type(arrow) is None else arrow


def _json_of(values: pa.Array) -> pa.Array:
    """Return the JSON text of every value, null if there is no value."""
    if pa.types.is_struct(values.type):
        return _object_of(values)
    if pa.types.is_boolean(values.type) or pa.types.is_integer(values.type) or pa.types.is_decimal(values.type):
        return values.cast(pa.large_string())
    if pa.types.is_floating(values.type):
        return _number_of(values.cast(pa.large_string()))
    if pa.types.is_temporal(values.type):
        return _quoted(_time_of(values).cast(pa.large_string()))
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return _quoted(_escaped(values.cast(pa.large_string())))
    return pa.nulls(len(values), pa.large_string())


def _object_of(structs: pa.Array) -> pa.Array:
    empty = pa.scalar("", pa.large_string())
    entries = [pa.array([""] * len(structs), pa.large_string())]
    for index, field in enumerate(structs.type):
        value = _json_of(pc.struct_field(structs, [index]))
        entries.append(_between(value, f",{orjson.dumps(field.name).decode()}:", ""))
    # Not null_handling="skip", because Arrow then drops rows of nulls.
    inner = pc.binary_join_element_wise(*entries, empty, null_handling="replace", null_replacement="")
    inner = pc.if_else(pc.equal(inner, ""), pa.scalar(None, pa.large_string()), inner)
    return _between(pc.utf8_slice_codeunits(inner, 1), "{", "}")


def _between(texts: pa.Array, before: str, after: str) -> pa.Array:
    first, last, joint = (pa.scalar(text, pa.large_string()) for text in (before, after, ""))
    return pc.binary_join_element_wise(first, texts, last, joint)


def _quoted(texts: pa.Array) -> pa.Array:
    return _between(texts, '"', '"')


def _number_of(texts: pa.Array) -> pa.Array:
    for plain, name in (("nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity")):
        texts = pc.if_else(pc.equal(texts, plain), pa.scalar(f'"{name}"', pa.large_string()), texts)
    return texts


def _escaped(texts: pa.Array) -> pa.Array:
    odd = pc.match_substring_regex(texts, r'["\\\x00-\x1f]').fill_null(False)
    if not pc.any(odd).as_py():
        return texts
    escaped = [orjson.dumps(text)[1:-1].decode() for text in texts.filter(odd).to_pylist()]
    return pc.replace_with_mask(texts, odd, pa.array(escaped, pa.large_string()))


def _time_of(values: pa.Array) -> pa.Array:
    if pa.types.is_date(values.type):
        days = values.cast(pa.date32())
        return _within(days, days.cast(pa.int32()), _FIRST_DAY, _LAST_DAY).cast(pa.string())
    if not pa.types.is_timestamp(values.type):
        return pa.nulls(len(values), pa.string())
    # Truncate, because writers of statistics truncate too.
    plain = values.cast(pa.timestamp("us", values.type.tz), safe=False)
    micros = plain.cast(pa.int64())
    plain = _within(plain, micros, _FIRST_DAY * _DAY_US, (_LAST_DAY + 1) * _DAY_US - 1)
    texts = pc.replace_substring(plain.cast(pa.timestamp("us")).cast(pa.string()), " ", "T")
    texts = pc.replace_substring_regex(texts, r"(\.\d{3})000$", r"\1")
    if values.type.tz is None:
        return texts
    return pc.binary_join_element_wise(texts, pa.scalar("Z"), "")


def _within(values: pa.Array, numbers: pa.Array, low: int, high: int) -> pa.Array:
    fits = pc.and_(pc.greater_equal(numbers, low), pc.less_equal(numbers, high))
    return pc.if_else(fits, values, pa.scalar(None, values.type))
