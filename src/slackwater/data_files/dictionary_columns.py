"""Selection of the columns that a Parquet writer encodes with a dictionary.

A column with too many distinct numbers does not fit into a dictionary page. The writer then discards the dictionary.
Source: the public Parquet format ("Encodings").
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

_SAMPLE_ROWS = 1 << 16
# The share of distinct values in the sample of a column whose dictionary just fits into a page of 1 MiB: 2^17 values of
# 8 bytes, or 2^18 of 4 bytes.
_SHARES = {64: 0.79, 32: 0.88}


def dictionary_columns(rows: pa.Table) -> bool | list[str]:
    """Return the paths of the columns to encode with a dictionary, True for all columns.

    `rows` are the first rows of a file. Columns of numbers and times are left out if a sample has too many distinct
    values.
    """
    if rows.num_rows < _SAMPLE_ROWS or any("." in name for name in rows.column_names):
        return True
    sample = rows.slice(0, _SAMPLE_ROWS)
    kept: list[str] = []
    for field in rows.schema:
        if not _is_number(field.type) or not _is_distinct(sample.column(field.name)):
            kept += _leaf_paths(field, "")
    return True if len(kept) == sum(len(list(_leaf_paths(field, ""))) for field in rows.schema) else kept


def _is_number(arrow: pa.DataType) -> bool:
    is_plain = pa.types.is_integer(arrow) or pa.types.is_floating(arrow) or pa.types.is_temporal(arrow)
    return bool(is_plain and arrow.bit_width in _SHARES)


def _is_distinct(values: pa.ChunkedArray) -> bool:
    count: int = pc.count_distinct(values).as_py()
    return count > len(values) * _SHARES[values.type.bit_width]


def _leaf_paths(field: pa.Field, parent: str) -> Iterator[str]:
    path = f"{parent}{field.name}"
    if pa.types.is_struct(field.type):
        for inner in field.type:
            yield from _leaf_paths(inner, f"{path}.")
    elif pa.types.is_map(field.type):
        for inner in (field.type.key_field.with_name("key"), field.type.item_field.with_name("value")):
            yield from _leaf_paths(inner, f"{path}.key_value.")
    elif pa.types.is_list(field.type):
        yield from _leaf_paths(field.type.value_field.with_name("element"), f"{path}.list.")
    else:
        yield path
