"""The binary encoding of variants: building values, and reading values as JSON text.

Source: the public Parquet format ("VariantEncoding"); delta-protocol.md is silent about the bytes.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
import struct
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from enum import IntEnum
from functools import lru_cache
from itertools import pairwise
from typing import Any

import orjson

from slackwater.errors import CorruptTable

VARIANT_NULL = b"\x00"
"""The encoded null of JSON, different from a missing value."""

_PRIMITIVE, _SHORT_STRING, _OBJECT, _ARRAY = range(4)
_MOST_SHORT = 63
_MOST_SMALL = 255
_VERSION = 1
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001  (written without a zone, or with +00:00 after it)
_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_DECIMAL_BYTES = {8: 4, 9: 8, 10: 16}
_MAX_DEPTH = 500


class VariantTypeId(IntEnum):
    """The type ids of primitive values."""

    NULL = 0
    TRUE = 1
    FALSE = 2
    INT8 = 3
    INT16 = 4
    INT32 = 5
    INT64 = 6
    DOUBLE = 7
    DECIMAL4 = 8
    DECIMAL8 = 9
    DECIMAL16 = 10
    DATE = 11
    TIMESTAMP = 12
    TIMESTAMP_NTZ = 13
    FLOAT = 14
    BINARY = 15
    STRING = 16
    TIME_NTZ = 17
    TIMESTAMP_NANOS = 18
    TIMESTAMP_NTZ_NANOS = 19
    UUID = 20


def encode_primitive(type_id: VariantTypeId, content: bytes = b"") -> bytes:
    """Return the value of a primitive type with the bytes `content`."""
    return bytes([type_id << 2]) + content


def encode_text(text: bytes) -> bytes:
    """Return the value of a UTF-8 text."""
    if len(text) <= _MOST_SHORT:
        return bytes([len(text) << 2 | _SHORT_STRING]) + text
    return encode_primitive(VariantTypeId.STRING, struct.pack("<I", len(text)) + text)


def encode_bytes(content: bytes) -> bytes:
    """Return the value of binary content."""
    return encode_primitive(VariantTypeId.BINARY, struct.pack("<I", len(content)) + content)


def encode_decimal(unscaled: int, precision: int, scale: int) -> bytes:
    """Return the value of a decimal."""
    type_id = (
        VariantTypeId.DECIMAL4
        if precision <= 9
        else VariantTypeId.DECIMAL8
        if precision <= 18
        else VariantTypeId.DECIMAL16
    )
    return encode_primitive(type_id, bytes([scale]) + unscaled.to_bytes(_DECIMAL_BYTES[type_id], "little", signed=True))


def encode_array(elements: Sequence[bytes]) -> bytes:
    """Return the value of an array of encoded `elements`."""
    content = b"".join(elements)
    size = _bytes_for(len(content))
    is_large = len(elements) > _MOST_SMALL
    head = ((size - 1) | is_large << 2) << 2 | _ARRAY
    return bytes([head]) + _count(len(elements), is_large) + _offsets(elements, size) + content


def encode_object(fields: Iterable[tuple[bytes, int, bytes]]) -> bytes:
    """Return the value of an object. Each field has a name in UTF-8, its id in the metadata, and an encoded value."""
    ordered = sorted(fields)
    values = [value for _, _, value in ordered]
    ids = [number for _, number, _ in ordered]
    content = b"".join(values)
    size, id_size = _bytes_for(len(content)), _bytes_for(max(ids, default=0))
    is_large = len(ordered) > _MOST_SMALL
    head = ((size - 1) | (id_size - 1) << 2 | is_large << 4) << 2 | _OBJECT
    listed = b"".join(number.to_bytes(id_size, "little") for number in ids)
    return bytes([head]) + _count(len(ordered), is_large) + listed + _offsets(values, size) + content


@lru_cache(1024)
def dictionary_of(metadata: bytes) -> tuple[bytes, ...]:
    """Return the field names of a variant's metadata, in UTF-8. Raises CorruptTable."""
    if not metadata or metadata[0] & 15 != _VERSION:
        raise damaged_variant("its metadata has no version 1")
    size = (metadata[0] >> 6) + 1
    count = _number(metadata, 1, size)
    offsets = [_number(metadata, 1 + size * (1 + at), size) for at in range(count + 1)]
    first = 1 + size * (count + 2)
    if offsets != sorted(offsets) or first + offsets[-1] > len(metadata):
        raise damaged_variant("its metadata is cut")
    return tuple(metadata[first + low : first + high] for low, high in pairwise(offsets))


def is_object(value: bytes) -> bool:
    """Return whether an encoded value is an object."""
    return bool(value) and value[0] & 3 == _OBJECT


def object_fields(value: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the fields of an encoded object: the id and the encoded value. Raises CorruptTable."""
    header = value[0] >> 2
    offset_size, id_size = (header & 3) + 1, (header >> 2 & 3) + 1
    count, at = _counted(value, bool(header >> 4 & 1))
    ids = [_number(value, at + id_size * n, id_size) for n in range(count)]
    at += id_size * count
    first = at + offset_size * (count + 1)
    for n, number in enumerate(ids):
        start = first + _number(value, at + offset_size * n, offset_size)
        yield number, value[start : start + _length(value, start)]


def variant_to_json(metadata: bytes, value: bytes) -> str:
    """Return a variant as JSON text.

    Dates and times are texts in ISO 8601, instants in UTC. Binary is Base64, NaN and infinite numbers are texts.
    Decimals keep their digits. Raises CorruptTable for a damaged variant.
    """
    try:
        return "".join(_json(dictionary_of(metadata), value, 0, 0))
    except (IndexError, struct.error, UnicodeDecodeError, ValueError, OverflowError) as error:
        raise damaged_variant(str(error)) from error


def _json(names: Sequence[bytes], value: bytes, start: int, depth: int) -> Iterator[str]:
    if depth > _MAX_DEPTH:
        raise damaged_variant(f"it is nested more than {_MAX_DEPTH} levels deep")
    kind, header = value[start] & 3, value[start] >> 2
    if kind == _OBJECT:
        yield "{"
        for n, (number, inner) in enumerate(object_fields(value[start:])):
            yield ("," if n else "") + _quoted(names[number]) + ":"
            yield from _json(names, inner, 0, depth + 1)
        yield "}"
    elif kind == _ARRAY:
        size = (header & 3) + 1
        count, at = _counted(value, bool(header >> 2 & 1), start)
        first = at + size * (count + 1)
        yield "["
        for n in range(count):
            yield "," if n else ""
            yield from _json(names, value, first + _number(value, at + size * n, size), depth + 1)
        yield "]"
    elif kind == _SHORT_STRING:
        yield _quoted(_part(value, start + 1, header))
    else:
        yield _primitive_json(header, value, start + 1)


def _primitive_json(type_id: int, value: bytes, at: int) -> str:
    if type_id in (VariantTypeId.NULL, VariantTypeId.TRUE, VariantTypeId.FALSE):
        return ("null", "true", "false")[type_id]
    if type_id in _INTEGERS:
        size = _INTEGERS[VariantTypeId(type_id)]
        return str(int.from_bytes(_part(value, at, size), "little", signed=True))
    if type_id in _DECIMAL_BYTES:
        unscaled = int.from_bytes(_part(value, at + 1, _DECIMAL_BYTES[type_id]), "little", signed=True)
        return format(Decimal(f"{unscaled}E-{value[at]}"), "f")
    if type_id == VariantTypeId.DOUBLE:
        return _float_json(struct.unpack("<d", _part(value, at, 8))[0])
    if type_id == VariantTypeId.FLOAT:
        return _float_json(struct.unpack("<f", _part(value, at, 4))[0])
    if type_id in (VariantTypeId.STRING, VariantTypeId.BINARY):
        content = _part(value, at + 4, _number(value, at, 4))
        return _quoted(content if type_id == VariantTypeId.STRING else base64.b64encode(content))
    if type_id == VariantTypeId.UUID:
        return f'"{uuid.UUID(bytes=_part(value, at, 16))}"'
    if type_id in _TIMES:
        size, write = _TIMES[VariantTypeId(type_id)]
        return f'"{write(int.from_bytes(_part(value, at, size), "little", signed=True))}"'
    raise damaged_variant(f"its type {type_id} is unknown")


def _moment(micros: int) -> str:
    return (_EPOCH + dt.timedelta(microseconds=micros)).isoformat(sep=" ")


def _nanos(nanos: int) -> str:
    seconds, rest = divmod(nanos, 10**9)
    return f"{_EPOCH + dt.timedelta(seconds=seconds)}.{rest:09d}"


_INTEGERS = {VariantTypeId.INT8: 1, VariantTypeId.INT16: 2, VariantTypeId.INT32: 4, VariantTypeId.INT64: 8}
_TIMES: dict[VariantTypeId, tuple[int, Callable[[int], str]]] = {
    VariantTypeId.DATE: (4, lambda days: dt.date.fromordinal(_EPOCH_DAY + days).isoformat()),
    VariantTypeId.TIMESTAMP: (8, lambda micros: _moment(micros) + "+00:00"),
    VariantTypeId.TIMESTAMP_NTZ: (8, _moment),
    VariantTypeId.TIME_NTZ: (8, lambda micros: (_EPOCH + dt.timedelta(microseconds=micros)).time().isoformat()),
    VariantTypeId.TIMESTAMP_NANOS: (8, lambda nanos: _nanos(nanos) + "+00:00"),
    VariantTypeId.TIMESTAMP_NTZ_NANOS: (8, _nanos),
}
_FIXED_BYTES = {
    **dict.fromkeys((VariantTypeId.NULL, VariantTypeId.TRUE, VariantTypeId.FALSE), 0),
    **_INTEGERS,
    **{type_id: size for type_id, (size, _) in _TIMES.items()},
    **{VariantTypeId(type_id): 1 + size for type_id, size in _DECIMAL_BYTES.items()},
    VariantTypeId.DOUBLE: 8,
    VariantTypeId.FLOAT: 4,
    VariantTypeId.UUID: 16,
}


def _length(value: bytes, start: int) -> int:
    """Return the number of bytes of the value that begins at `start`."""
    kind, header = value[start] & 3, value[start] >> 2
    if kind == _SHORT_STRING:
        return 1 + header
    if kind == _PRIMITIVE:
        if header in (VariantTypeId.STRING, VariantTypeId.BINARY):
            return 5 + _number(value, start + 1, 4)
        if header not in _FIXED_BYTES:
            raise damaged_variant(f"its type {header} is unknown")
        return 1 + _FIXED_BYTES[VariantTypeId(header)]
    size = (header & 3) + 1
    count, at = _counted(value, bool(header >> (4 if kind == _OBJECT else 2) & 1), start)
    if kind == _OBJECT:
        at += count * ((header >> 2 & 3) + 1)
    # The last offset is the length of all values.
    return at + size * (count + 1) + _number(value, at + size * count, size) - start


def _counted(value: bytes, is_large: bool, start: int = 0) -> tuple[int, int]:
    """Return the number of elements of an array or object, and the position after this number."""
    size = 4 if is_large else 1
    return _number(value, start + 1, size), start + 1 + size


def _part(value: bytes, start: int, size: int) -> bytes:
    found = value[start : start + size]
    if len(found) != size:
        raise damaged_variant("it is cut")
    return found


def _number(value: bytes, start: int, size: int) -> int:
    return int.from_bytes(_part(value, start, size), "little")


def _count(count: int, is_large: bool) -> bytes:
    return count.to_bytes(4 if is_large else 1, "little")


def _offsets(values: Sequence[bytes], size: int) -> bytes:
    found, end = [0], 0
    for value in values:
        end += len(value)
        found.append(end)
    return b"".join(offset.to_bytes(size, "little") for offset in found)


def _bytes_for(number: int) -> int:
    return max(1, (number.bit_length() + 7) // 8)


def _quoted(text: bytes) -> str:
    return orjson.dumps(text.decode()).decode()


def _float_json(number: float) -> str:
    return repr(number) if math.isfinite(number) else f'"{_NOT_FINITE.get(number, "NaN")}"'


_NOT_FINITE: dict[Any, str] = {math.inf: "Infinity", -math.inf: "-Infinity"}


def damaged_variant(reason: str) -> CorruptTable:
    """Return the error for a damaged variant."""
    return CorruptTable(f"a variant is damaged: {reason}. Restore the file, or read the other columns")
