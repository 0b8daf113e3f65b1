"""Adapts columns of a data file to the table schema: matches names or field ids, adds nulls, widens types.

The rules are those of Spark's Parquet reader: a field in another case matches if it is unambiguous, and a narrower type
is read as a wider type. Source: delta-protocol.md "Reader Requirements for Column Mapping", "Type Widening".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.data_files.variant_shredding import variant_conversion
from slackwater.errors import CorruptTable
from slackwater.protocol.schema.arrow_schema import has_variant, is_arrow_variant, shape_srid
from slackwater.storage.parquet_footer import FIELD_ID_KEY

Conversion = Callable[[pa.Array], pa.Array]

NAME_IN_FILES_KEY = b"slackwater.name_in_files"
"""Metadata key of a requested field: its name in files, if different from the field's name."""


_INTEGER_DIGITS = 20


@dataclass(frozen=True, slots=True)
class ColumnMatch:
    """A requested column: the matching column name of the file, None if missing, and the conversion of its values."""

    name: str | None
    convert: Conversion


def matched(found: pa.Schema, wanted: pa.Schema, by_id: bool, where: str) -> list[ColumnMatch]:
    """Match each column of `wanted` with a column of a file with the schema `found`. `where` names the file.

    With `by_id` a column with a field id matches the file's column with this id. Results have the names of `wanted`;
    fields with NAME_IN_FILES_KEY are matched by the name under this key. Raises CorruptTable for a type not readable as
    the requested type, and for an ambiguous name.
    """
    return [_matched(list(found), field, by_id, where, field.name) for field in wanted]


def _matched(found: Sequence[pa.Field], wanted: pa.Field, by_id: bool, where: str, path: str) -> ColumnMatch:
    field = _field(found, wanted, by_id, where, path)
    if field is None:
        return ColumnMatch(None, lambda array: pa.nulls(len(array), wanted.type))
    return ColumnMatch(field.name, _conversion(field.type, wanted.type, by_id, where, path))


def _field(found: Sequence[pa.Field], wanted: pa.Field, by_id: bool, where: str, path: str) -> pa.Field | None:
    number = (wanted.metadata or {}).get(FIELD_ID_KEY)
    if by_id and number is not None:
        return _only((f for f in found if (f.metadata or {}).get(FIELD_ID_KEY) == number), where, path)
    name = (wanted.metadata or {}).get(NAME_IN_FILES_KEY, wanted.name.encode()).decode()
    exact = _only((f for f in found if f.name == name), where, path)
    folded = name.lower()
    return exact if exact is not None else _only((f for f in found if f.name.lower() == folded), where, path)


def _only(fields: Iterable[pa.Field], where: str, path: str) -> pa.Field | None:
    found = list(fields)
    if len(found) > 1:
        raise CorruptTable(
            f"{where}: column {path} is ambiguous in the file: it may be any of {', '.join(f.name for f in found)}"
        )
    return found[0] if found else None


def _conversion(found: pa.DataType, wanted: pa.DataType, by_id: bool, where: str, path: str) -> Conversion:
    if isinstance(found, pa.BaseExtensionType):
        inner = _conversion(found.storage_type, wanted, by_id, where, path)
        return lambda array: inner(array.storage)
    if pa.types.is_dictionary(found):
        inner = _conversion(found.value_type, wanted, by_id, where, path)
        return lambda array: inner(array.dictionary_decode())
    if pa.types.is_null(found):
        return lambda array: pa.nulls(len(array), wanted)
    if shape_srid(wanted) is not None and not pa.types.is_nested(found):
        return _of_shape(found, wanted, where, path)
    if shape_srid(found) is not None and pa.types.is_binary(wanted):
        return lambda array: pc.struct_field(array, "wkb")
    if is_arrow_variant(wanted):
        return variant_conversion(found, where, path)
    if pa.types.is_struct(wanted) and pa.types.is_struct(found):
        return _of_struct(found, wanted, by_id, where, path)
    if pa.types.is_map(wanted) and pa.types.is_map(found):
        return _of_map(found, wanted, by_id, where, path)
    if pa.types.is_list(wanted) and _is_any_list(found):
        return _of_list(found, wanted, by_id, where, path)
    if found == wanted:
        return lambda array: array
    conversion = None if pa.types.is_nested(found) or pa.types.is_nested(wanted) else _of_leaf(found, wanted)
    if conversion is None:
        raise CorruptTable(f"{where}: column {path} is of type {found} in the file and cannot be read as {wanted}")
    return _explained(conversion, where, path)


def _explained(conversion: Conversion, where: str, path: str) -> Conversion:
    def convert(array: pa.Array) -> pa.Array:
        try:
            return conversion(array)
        except pa.ArrowInvalid as error:
            raise CorruptTable(f"{where}: column {path} has a value that does not fit its type: {error}") from error

    return convert


def _of_shape(found: pa.DataType, wanted: pa.StructType, where: str, path: str) -> Conversion:
    """Return the conversion of WKB to Spark's struct for shapes."""
    inner = _conversion(found, pa.binary(), False, where, path)

    def convert(array: pa.Array) -> pa.Array:
        system = pa.repeat(pa.scalar(shape_srid(wanted), pa.int32()), len(array))
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays([system, inner(array).fill_null(b"")], fields=list(wanted), mask=mask)

    return convert


def _of_struct(found: pa.StructType, wanted: pa.StructType, by_id: bool, where: str, path: str) -> Conversion:
    fields = [_matched(list(found), field, by_id, where, f"{path}.{field.name}") for field in wanted]
    at = {field.name: number for number, field in enumerate(found)}
    if (
        all(m.name == f.name for m, f in zip(fields, found, strict=False))
        and found == wanted
        and not has_variant(wanted)
    ):
        return lambda array: array

    def convert(array: pa.Array) -> pa.Array:
        nothing = pa.nulls(len(array))
        children = [m.convert(nothing if m.name is None else array.field(at[m.name])) for m in fields]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask)

    return convert


def _of_list(found: pa.DataType, wanted: pa.ListType, by_id: bool, where: str, path: str) -> Conversion:
    inner = _conversion(found.value_type, wanted.value_type, by_id, where, f"{path}.element")

    def convert(array: pa.Array) -> pa.Array:
        if not pa.types.is_list(array.type):
            array = array.cast(pa.list_(array.type.value_type))
        return with_children(array, wanted, [inner(array.values)])

    return convert


def _of_map(found: pa.MapType, wanted: pa.MapType, by_id: bool, where: str, path: str) -> Conversion:
    keys = _conversion(found.key_type, wanted.key_type, by_id, where, f"{path}.key")
    values = _conversion(found.item_type, wanted.item_type, by_id, where, f"{path}.value")

    def convert(array: pa.Array) -> pa.Array:
        fields = [wanted.key_field, wanted.item_field]
        entries = pa.StructArray.from_arrays([keys(array.keys), values(array.items)], fields=fields)
        return with_children(array, wanted, [entries])

    return convert


def with_children(array: pa.Array, wanted: pa.DataType, children: list[pa.Array]) -> pa.Array:
    """Replace the children of a list or map `array`. The offsets refer to the first value of the children."""
    return pa.Array.from_buffers(
        wanted, len(array), array.buffers()[:2], array.null_count, offset=array.offset, children=children
    )


def _is_any_list(found: pa.DataType) -> bool:
    return bool(pa.types.is_list(found) or pa.types.is_large_list(found) or pa.types.is_fixed_size_list(found))


def _of_leaf(found: pa.DataType, wanted: pa.DataType) -> Conversion | None:
    if pa.types.is_timestamp(wanted):
        return _of_time(found, wanted)
    if pa.types.is_string(wanted):
        if pa.types.is_binary(found):
            # Bytes without a logical type are text if the table declares text.
            return lambda array: array.view(wanted)
        return _cast(wanted) if _is_text(found) else None
    if pa.types.is_binary(wanted):
        return _cast(wanted) if _is_text(found) or _is_bytes(found) else None
    if pa.types.is_decimal(wanted):
        if pa.types.is_integer(found):
            return integers_as(wanted)
        return _cast(wanted) if pa.types.is_decimal(found) else None
    if pa.types.is_integer(wanted):
        return _cast(wanted) if pa.types.is_integer(found) else None
    if pa.types.is_floating(wanted):
        narrow = pa.types.is_floating(found) and found.bit_width <= wanted.bit_width
        # A 64-bit integer may not be exact in a double.
        whole = pa.types.is_integer(found) and found.bit_width <= 32 and wanted.bit_width == 64
        return _cast(wanted) if narrow or whole else None
    return None


def _of_time(found: pa.DataType, wanted: pa.TimestampType) -> Conversion | None:
    if pa.types.is_date32(found) and wanted.tz is None:
        return _cast(wanted)
    if not pa.types.is_timestamp(found):
        return None
    # The number is equal with and without zone: it is relative to the epoch as an instant or as a wall clock.
    micros = pa.timestamp("us", found.tz)
    return lambda array: _in_micros(array, micros).view(pa.int64()).view(wanted)


def _in_micros(array: pa.Array, micros: pa.TimestampType) -> pa.Array:
    if array.type.unit != "ns":
        return array.cast(micros)
    # Round down, also before 1970.
    nanos = array.view(pa.int64())
    down = pc.if_else(pc.less(nanos, 0), pc.subtract(nanos, 999), nanos)
    return pc.divide(down, 1000).view(micros)


def integers_as(wanted: pa.Decimal128Type) -> Conversion:
    """Return the conversion of integers to decimals. It raises ArrowInvalid for a number with too many digits."""
    # Arrow requires the maximum number of digits of the integer type; the values may have fewer.
    wide = pa.decimal256(_INTEGER_DIGITS + wanted.scale, wanted.scale)
    return lambda array: array.cast(wide).cast(wanted)


def _cast(wanted: pa.DataType) -> Conversion:
    return lambda array: array.cast(wanted)


def _is_text(found: pa.DataType) -> bool:
    return bool(pa.types.is_string(found) or pa.types.is_large_string(found) or pa.types.is_string_view(found))


def _is_bytes(found: pa.DataType) -> bool:
    is_large = pa.types.is_large_binary(found) or pa.types.is_binary_view(found)
    return bool(is_large or pa.types.is_fixed_size_binary(found))
