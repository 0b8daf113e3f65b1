"""Arrow arrays of a few JSON values, of flags and of row numbers, built from buffers and read from them.

`pyarrow.array` and conversions to NumPy import pandas if it is installed, and methods such as `cast`, `filter` and
`is_valid` import `pyarrow.compute`. Each import takes longer than the rest of a read of a small log.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_INTEGERS = {pa.int32(): ("i", 32), pa.int64(): ("q", 64)}


def plain_array(values: Sequence[Any], data_type: pa.DataType) -> pa.Array | None:
    """Return the array of `values`. None if a value has another type: `pyarrow.array` converts or rejects it.

    Supports strings, booleans, integers of 32 and 64 bits, and lists, maps and structs of these types.
    """
    if pa.types.is_string(data_type):
        return _strings(values) if _are_all(values, str) else None
    if pa.types.is_boolean(data_type):
        return _built(data_type, values, [_bits(values)]) if _are_all(values, bool) else None
    if data_type in _INTEGERS:
        code, bits = _INTEGERS[data_type]
        if not _are_all(values, int) or any(value.bit_length() >= bits for value in values if value is not None):
            return None
        return _built(data_type, values, [_buffer(code, (value or 0 for value in values))])
    if pa.types.is_list(data_type):
        return _lists(values, data_type) if _are_all(values, list) else None
    if not _are_all(values, dict):
        return None
    if pa.types.is_map(data_type):
        return _maps(values, data_type)
    return _structs(values, data_type) if pa.types.is_struct(data_type) else None


def empty_table(schema: pa.Schema) -> pa.Table:
    """Return a table without rows. `Schema.empty_table` imports pandas, too."""
    return pa.Table.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def text_array(values: Sequence[str | None]) -> pa.StringArray:
    """Return the array of texts."""
    plain = plain_array(values, pa.string())
    return pa.array(values, pa.string()) if plain is None else plain


def flags_of(array: pa.BooleanArray | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Return the values of an array that has no nulls. `numpy.asarray` of an Arrow array imports pandas, too."""
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    parts = [_unpacked(chunk.buffers()[1], chunk) for chunk in chunks if len(chunk)]
    return np.concatenate(parts) if parts else np.zeros(0, np.bool_)


def is_valid(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Return a flag for each value of `array`: False for null."""
    return np.ones(len(array), np.bool_) if not array.null_count else _unpacked(array.buffers()[0], array)


def flag_array(flags: npt.NDArray[np.bool_]) -> pa.BooleanArray:
    """Return the array of `flags`."""
    bits = np.packbits(flags, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(flags), [None, pa.py_buffer(bits.tobytes())])


def row_array(rows: npt.NDArray[np.intp]) -> pa.Int64Array:
    """Return the array of row numbers."""
    return pa.Array.from_buffers(pa.int64(), len(rows), [None, pa.py_buffer(rows.astype(np.int64).tobytes())])


def _unpacked(bits: pa.Buffer, array: pa.Array) -> npt.NDArray[np.bool_]:
    """Return the part of `bits` that belongs to `array`, which can be a slice."""
    first, offset = divmod(array.offset, 8)
    end = offset + len(array)
    found = np.unpackbits(np.frombuffer(bits, np.uint8)[first:], count=end, bitorder="little")
    return found[offset:].view(np.bool_)


def _strings(values: Sequence[str | None]) -> pa.Array:
    texts = [(value or "").encode() for value in values]
    return _built(pa.string(), values, [_offsets(texts), pa.py_buffer(b"".join(texts))])


def _lists(values: Sequence[list[Any] | None], data_type: pa.ListType) -> pa.Array | None:
    parts = [value or [] for value in values]
    items = plain_array([item for part in parts for item in part], data_type.value_type)
    return None if items is None else _built(data_type, values, [_offsets(parts)], [items])


def _maps(values: Sequence[dict[str, Any] | None], data_type: pa.MapType) -> pa.Array | None:
    entries = [value or {} for value in values]
    keys = plain_array([key for entry in entries for key in entry], data_type.key_type)
    items = plain_array([item for entry in entries for item in entry.values()], data_type.item_type)
    if keys is None or items is None:
        return None
    pairs = pa.StructArray.from_arrays([keys, items], fields=[data_type.key_field, data_type.item_field])
    return _built(data_type, values, [_offsets(entries)], [pairs])


def _structs(values: Sequence[dict[str, Any] | None], data_type: pa.StructType) -> pa.Array | None:
    children = [plain_array([(value or {}).get(field.name) for value in values], field.type) for field in data_type]
    return None if None in children else _built(data_type, values, [], children)


def _are_all(values: Iterable[Any], kind: type) -> bool:
    """Return whether all values are None or of exactly this type: a bool is not an int."""
    return all(value is None or type(value) is kind for value in values)


def _built(
    data_type: pa.DataType, values: Sequence[Any], buffers: Sequence[pa.Buffer], children: Sequence[pa.Array] = ()
) -> pa.Array:
    valid = None if None not in values else _bits([value is not None for value in values])
    return pa.Array.from_buffers(data_type, len(values), [valid, *buffers], children=list(children) or None)


def _bits(flags: Sequence[bool | None]) -> pa.Buffer:
    number = sum(1 << position for position, flag in enumerate(flags) if flag)
    return pa.py_buffer(number.to_bytes(len(flags) // 8 + 1, "little"))


def _offsets(parts: Iterable[bytes | list[Any] | dict[str, Any]]) -> pa.Buffer:
    return _buffer("i", accumulate(map(len, parts), initial=0))


def _buffer(code: str, numbers: Iterable[int]) -> pa.Buffer:
    return pa.py_buffer(array(code, numbers).tobytes())
