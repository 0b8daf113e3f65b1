"""Converts Arrow columns to the types of a table's columns, without loss.

A value without an exact counterpart is an error: a number out of range, a fraction for an integer, nanoseconds.
Source: delta-protocol.md "Primitive Types"; Arrow's columnar format.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.data_files.schema_adapter import integers_as
from slackwater.data_files.variant_shredding import variant_conversion
from slackwater.errors import CorruptTable, ValueDoesNotFit
from slackwater.protocol.schema.arrow_schema import to_arrow_type
from slackwater.protocol.schema.column_paths import format_column_path
from slackwater.protocol.schema.schema import (
    ArrayType,
    ColumnPath,
    DataType,
    MapType,
    StructType,
    VariantType,
    nullable_type,
)
from slackwater.rows.arrow_types import is_any_list

Conversion = Callable[[pa.Array], pa.Array]
"""Converts the values of a column. Raises ValueDoesNotFit."""


def conversion(found: pa.DataType, wanted: DataType, path: ColumnPath) -> Conversion:
    """Return the conversion from the Arrow type `found` to the column type `wanted`, in `to_arrow_type`.

    All parts of the result are nullable. Struct fields match by name in any case, and a missing field is null. The
    types must fit: see `assigned_schema`. `path` is the column, for messages.
    """
    if isinstance(found, pa.BaseExtensionType):
        inner = conversion(found.storage_type, wanted, path)
        return lambda array: inner(array.storage)
    if pa.types.is_dictionary(found):
        inner = conversion(found.value_type, wanted, path)
        return lambda array: inner(array.dictionary_decode())
    if pa.types.is_run_end_encoded(found):
        inner = conversion(found.value_type, wanted, path)
        return lambda array: inner(pc.run_end_decode(array))
    target = to_arrow_type(nullable_type(wanted))
    if found == target:
        return lambda array: array
    if pa.types.is_null(found):
        return lambda array: pa.nulls(len(array), target)
    if isinstance(wanted, VariantType):
        return _explained(variant_conversion(found, "the rows", format_column_path(path)), wanted, path)
    if isinstance(wanted, StructType):
        return _of_struct(found, wanted, path)
    if isinstance(wanted, ArrayType):
        return _of_list(found, wanted, path)
    if isinstance(wanted, MapType):
        return _of_map(found, wanted, path)
    return _explained(_leaf(found, target), wanted, path)


def position_of(name: str, names: Sequence[str]) -> int | None:
    """Return the index of `name` in `names`, else of the first name that differs in case only, else None."""
    if name in names:
        return names.index(name)
    folded = [each.lower() for each in names]
    return folded.index(name.lower()) if name.lower() in folded else None


def _explained(convert: Conversion, wanted: DataType, path: ColumnPath) -> Conversion:
    """Return `convert` with its errors as ValueDoesNotFit for the column."""

    def explained(array: pa.Array) -> pa.Array:
        try:
            return convert(array)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, CorruptTable) as error:
            raise ValueDoesNotFit(
                f"column {format_column_path(path)} is of type {wanted}, and a value of the Arrow type {array.type} "
                f"does not fit: {error}. Nothing was written. Correct the value, or cast the column",
                error_class="DELTA_CAST_OVERFLOW_IN_TABLE_WRITE",
            ) from error

    return explained


def _leaf(found: pa.DataType, target: pa.DataType) -> Conversion:
    if pa.types.is_decimal(target) and pa.types.is_integer(found):
        return integers_as(target)
    if pa.types.is_floating(target) and pa.types.is_floating(found) and found.bit_width > target.bit_width:
        return partial(_narrowed, target=target)
    if pa.types.is_floating(found) and pa.types.is_float16(found):
        return lambda array: array.cast(pa.float32()).cast(target)
    return lambda array: array.cast(target)


def _narrowed(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return the numbers in single precision. Raises ArrowInvalid for a number without an exact counterpart."""
    narrow = array.cast(target)
    again = narrow.cast(array.type)
    same = pc.or_(pc.equal(again, array), pc.and_(pc.is_nan(array), pc.is_nan(again)))
    if pc.all(same).as_py() is False:
        inexact = array[pc.index(same, pa.scalar(False)).as_py()].as_py()
        raise pa.ArrowInvalid(f"{inexact!r} is not exact in single precision")
    return narrow


def _of_struct(found: pa.DataType, wanted: StructType, path: ColumnPath) -> Conversion:
    names = [field.name for field in found]
    parts: list[tuple[int | None, Conversion]] = []
    for column in wanted:
        at = position_of(column.name, names)
        arrow = pa.null() if at is None else found.field(at).type
        parts.append((at, conversion(arrow, column.type, (*path, column.name))))
    fields = list(to_arrow_type(nullable_type(wanted)))

    def convert(array: pa.Array) -> pa.Array:
        nothing = pa.nulls(len(array))
        children = [inner(nothing if at is None else array.field(at)) for at, inner in parts]
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null() if array.null_count else None)

    return convert


def _of_list(found: pa.DataType, wanted: ArrayType, path: ColumnPath) -> Conversion:
    assert is_any_list(found)  # noqa: S101  (the types were compared before)
    inner = conversion(found.value_type, wanted.element_type, (*path, "element"))
    target = to_arrow_type(nullable_type(wanted))

    def convert(array: pa.Array) -> pa.Array:
        # `flatten` leaves out the values of null lists.
        lengths = pc.fill_null(pc.list_value_length(array), 0)
        return _listed(array, lengths, target, [inner(array.flatten())])

    return convert


def _of_map(found: pa.DataType, wanted: MapType, path: ColumnPath) -> Conversion:
    keys = conversion(found.key_type, wanted.key_type, (*path, "key"))
    values = conversion(found.item_type, wanted.value_type, (*path, "value"))
    target = to_arrow_type(nullable_type(wanted))
    entries = pa.list_(pa.struct([("key", found.key_type), ("value", found.item_type)]))

    def convert(array: pa.Array) -> pa.Array:
        pairs = array.cast(entries)
        flat = pairs.flatten()
        lengths = pc.fill_null(pc.list_value_length(pairs), 0)
        fields = [target.key_field, target.item_field]
        items = pa.StructArray.from_arrays([keys(flat.field(0)), values(flat.field(1))], fields=fields)
        return _listed(array, lengths, target, [items])

    return convert


def _listed(array: pa.Array, lengths: pa.Array, target: pa.DataType, children: Sequence[pa.Array]) -> pa.Array:
    """Return a list or map with the nulls of `array`, and the consecutive values of `children`."""
    offsets = np.zeros(len(array) + 1, np.int32)
    np.cumsum(_numpy(lengths), out=offsets[1:])
    validity = None
    if array.null_count:
        bits = np.packbits(_numpy(array.is_valid()), bitorder="little")
        validity = pa.py_buffer(bits)
    buffers = [validity, pa.py_buffer(offsets)]
    return pa.Array.from_buffers(target, len(array), buffers, array.null_count, children=list(children))


def _numpy(array: pa.Array) -> Any:
    return array.to_numpy(zero_copy_only=False)
