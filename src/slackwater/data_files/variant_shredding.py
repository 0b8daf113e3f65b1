"""Assembles shredded variants: the typed columns of a file and the remaining binary values become one binary value.

Source: the public Parquet format ("VariantShredding"); the protocol's "Reader Requirements for Variant Shredding".
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.data_files.variant_encoding import (
    VARIANT_NULL,
    VariantTypeId,
    damaged_variant,
    dictionary_of,
    encode_array,
    encode_bytes,
    encode_decimal,
    encode_object,
    encode_primitive,
    encode_text,
    is_object,
    object_fields,
)
from slackwater.errors import CorruptTable
from slackwater.protocol.schema.arrow_schema import ARROW_VARIANT

_VALUE, _TYPED, _METADATA = "value", "typed_value", "metadata"
_UUID_BYTES = 16


def variant_conversion(found: pa.DataType, where: str, path: str) -> Callable[[pa.Array], pa.Array]:
    """Return the conversion of a variant column of a file, shredded or not, to the Arrow type of a variant.

    Raises CorruptTable if the column of type `found` is no variant. The conversion raises CorruptTable for damaged or
    contradictory values. `where` names the file, `path` the column.
    """
    names = [field.name for field in found] if pa.types.is_struct(found) else []
    is_known = _METADATA in names and (_VALUE in names or _TYPED in names) and set(names) <= {_METADATA, _VALUE, _TYPED}
    if not is_known or not _is_binary(found.field(_METADATA).type):
        raise CorruptTable(f"{where}: column {path} is of type {found} in the file, which is no variant")
    if _TYPED not in names:
        return lambda array: _variants(array, _child(array, _VALUE).cast(pa.binary()))

    def assembled(array: pa.Array) -> pa.Array:
        try:
            metadata = _child(array, _METADATA).cast(pa.binary()).to_pylist()
            known = {each: _ids(each) for each in set(metadata)}
            dictionaries = [known[each] for each in metadata]
            values = [VARIANT_NULL if value is None else value for value in _values(array, dictionaries)]
        except CorruptTable as error:
            raise CorruptTable(f"{where}: column {path}: {error}") from error
        return _variants(array, pa.array(values, pa.binary()))

    return assembled


def _variants(array: pa.Array, values: pa.Array) -> pa.Array:
    # Rows without a variant have children too, which must not be null.
    children = [values.fill_null(b""), _child(array, _METADATA).cast(pa.binary()).fill_null(b"")]
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(ARROW_VARIANT), mask=mask)


def _child(array: pa.Array, name: str) -> pa.Array:
    """Return a field of a struct, null where the struct is null."""
    return pc.struct_field(array, [array.type.get_field_index(name)])


_Ids = dict[bytes, int]


def _ids(metadata: bytes | None) -> _Ids:
    return {} if metadata is None else {name: number for number, name in enumerate(dictionary_of(metadata))}


def _values(group: pa.Array, dictionaries: Sequence[_Ids]) -> list[bytes | None]:
    """Return the encoded values of a struct with `value` and `typed_value`, None where both are null."""
    names = [field.name for field in group.type]
    plain: list[bytes | None] = [None] * len(group)
    if _VALUE in names:
        plain = _child(group, _VALUE).cast(pa.binary()).to_pylist()
    if _TYPED not in names:
        return plain
    typed = _child(group, _TYPED)
    if isinstance(typed.type, pa.BaseExtensionType):
        typed = typed.storage
    if pa.types.is_struct(typed.type):
        return _objects(typed, plain, dictionaries)
    found = _arrays(typed, dictionaries) if pa.types.is_nested(typed.type) else _primitives(typed)
    if any(one is not None and other is not None for one, other in zip(found, plain, strict=True)):
        raise damaged_variant("a value is stored both in a typed column and in binary form")
    return [one if one is not None else other for one, other in zip(found, plain, strict=True)]


def _objects(typed: pa.Array, rest: Sequence[bytes | None], dictionaries: Sequence[_Ids]) -> list[bytes | None]:
    columns = {
        field.name.encode(): _values(pc.struct_field(typed, [at]), dictionaries) for at, field in enumerate(typed.type)
    }
    found: list[bytes | None] = []
    for row, is_typed in enumerate(typed.is_valid().to_pylist()):
        value = rest[row]
        if not is_typed:
            found.append(value)
            continue
        ids = dictionaries[row]
        fields = [_field(name, ids, inner) for name, values in columns.items() if (inner := values[row]) is not None]
        if value is not None:
            if not is_object(value):
                raise damaged_variant("a shredded object has a rest that is no object")
            names = {number: name for name, number in ids.items()}
            others = [(names.get(number, b""), number, inner) for number, inner in object_fields(value)]
            if any(name in columns for name, _, _ in others):
                raise damaged_variant("a field is stored both in a typed column and in binary form")
            fields += others
        found.append(encode_object(fields))
    return found


def _field(name: bytes, ids: _Ids, value: bytes) -> tuple[bytes, int, bytes]:
    number = ids.get(name)
    if number is None:
        raise damaged_variant(f"its metadata lacks the field {name.decode(errors='replace')!r}")
    return name, number, value


def _arrays(typed: pa.Array, dictionaries: Sequence[_Ids]) -> list[bytes | None]:
    lists = typed if pa.types.is_list(typed.type) else typed.cast(pa.list_(typed.type.value_type))
    counts = pc.list_value_length(lists).to_pylist()
    owners = [ids for ids, count in zip(dictionaries, counts, strict=True) for _ in range(count or 0)]
    elements = _values(lists.flatten(), owners)
    found: list[bytes | None] = []
    at = 0
    for count in counts:
        if count is None:
            found.append(None)
            continue
        found.append(encode_array([VARIANT_NULL if each is None else each for each in elements[at : at + count]]))
        at += count
    return found


def _primitives(typed: pa.Array) -> list[bytes | None]:
    """Return the encoded values of a column of a primitive type."""
    numbers, encode = _encoder(typed)
    return [None if value is None else encode(value) for value in numbers.to_pylist()]


def _encoder(typed: pa.Array) -> tuple[pa.Array, Callable[..., bytes]]:
    """Return the column in a form that Python reads exactly, and the encoding of its values."""
    kind = typed.type
    if pa.types.is_boolean(kind):
        return typed, lambda value: encode_primitive(VariantTypeId.TRUE if value else VariantTypeId.FALSE)
    if kind in _NUMBERS:
        number_id, form = _NUMBERS[kind]
        return typed, lambda value: encode_primitive(number_id, struct.pack(form, value))
    if pa.types.is_decimal(kind):
        scale, precision = kind.scale, kind.precision
        return typed, lambda value: encode_decimal(int(f"{value:f}".replace(".", "")), precision, scale)
    if pa.types.is_date32(kind):
        return typed.view(pa.int32()), lambda days: encode_primitive(VariantTypeId.DATE, struct.pack("<i", days))
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        type_id = _time_id(kind)
        return typed.view(pa.int64()), lambda count: encode_primitive(type_id, struct.pack("<q", count))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return typed.cast(pa.large_string()).cast(pa.large_binary()), encode_text
    if pa.types.is_fixed_size_binary(kind) and kind.byte_width == _UUID_BYTES:
        return typed, lambda content: encode_primitive(VariantTypeId.UUID, content)
    if _is_binary(kind):
        return typed, encode_bytes
    raise damaged_variant(f"a typed column is of type {kind}, which variants do not have")


_NUMBERS = {
    pa.int8(): (VariantTypeId.INT8, "<b"),
    pa.int16(): (VariantTypeId.INT16, "<h"),
    pa.int32(): (VariantTypeId.INT32, "<i"),
    pa.int64(): (VariantTypeId.INT64, "<q"),
    pa.float32(): (VariantTypeId.FLOAT, "<f"),
    pa.float64(): (VariantTypeId.DOUBLE, "<d"),
}


def _time_id(kind: pa.DataType) -> VariantTypeId:
    if pa.types.is_time64(kind) and kind.unit == "us":
        return VariantTypeId.TIME_NTZ
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        return VariantTypeId.TIMESTAMP if kind.tz else VariantTypeId.TIMESTAMP_NTZ
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        return VariantTypeId.TIMESTAMP_NANOS if kind.tz else VariantTypeId.TIMESTAMP_NTZ_NANOS
    raise damaged_variant(f"a typed column is of type {kind}, which variants do not have")


def _is_binary(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))
