"""Variants of Arrow data as JSON text, at every depth."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.data_files.schema_adapter import with_children
from slackwater.data_files.variant_encoding import variant_to_json
from slackwater.protocol.schema.arrow_schema import (
    EXTENSION_METADATA,
    EXTENSION_NAME,
    VARIANT_EXTENSION,
    is_arrow_variant,
)


def with_json(schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return `schema` and `batches` with JSON text instead of variants.

    The batches raise CorruptTable for a damaged variant.
    """
    wanted = pa.schema([_field(field) for field in schema])
    if all(field.type == given.type for field, given in zip(wanted, schema, strict=True)):
        return schema, batches
    return wanted, map(partial(_batch, wanted), batches)


def _batch(wanted: pa.Schema, batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [_array(array, field.type) for array, field in zip(batch.columns, batch.schema, strict=True)], schema=wanted
    )


def _field(field: pa.Field) -> pa.Field:
    metadata = field.metadata or {}
    if metadata.get(EXTENSION_NAME) == VARIANT_EXTENSION:
        metadata = {key: value for key, value in metadata.items() if key not in (EXTENSION_NAME, EXTENSION_METADATA)}
    return pa.field(field.name, _type(field.type), field.nullable, metadata or None)


def _type(arrow: pa.DataType) -> pa.DataType:
    if is_arrow_variant(arrow):
        return pa.string()
    if pa.types.is_struct(arrow):
        return pa.struct([_field(field) for field in arrow])
    if pa.types.is_map(arrow):
        return pa.map_(_field(arrow.key_field), _field(arrow.item_field))
    return pa.list_(_field(arrow.value_field)) if pa.types.is_list(arrow) else arrow


def _array(array: pa.Array, given: pa.DataType) -> pa.Array:
    """Return `array` with JSON text instead of variants. `given` is its type with the mark of variants."""
    wanted = _type(given)
    if wanted == given:
        return array
    if is_arrow_variant(given):
        values, metadata = (pc.struct_field(array, name).to_pylist() for name in ("value", "metadata"))
        pairs = zip(metadata, values, array.is_valid().to_pylist(), strict=True)
        return pa.array([variant_to_json(*pair) if is_valid else None for *pair, is_valid in pairs], pa.string())
    if pa.types.is_struct(given):
        children = [_array(array.field(at), field.type) for at, field in enumerate(given)]
        return pa.StructArray.from_arrays(
            children, fields=list(wanted), mask=array.is_null() if array.null_count else None
        )
    if pa.types.is_map(given):
        entries = [_array(array.keys, given.key_type), _array(array.items, given.item_type)]
        children = [pa.StructArray.from_arrays(entries, fields=[wanted.key_field, wanted.item_field])]
    else:
        children = [_array(array.values, given.value_type)]
    return with_children(array, wanted, children)
