"""Parquet field ids of array elements, map keys and map values, required by IcebergCompatV2.

Spark's writer assigns ids to columns and struct fields only, so the file is rewritten one row group at a time.
Source: delta-protocol.md "Writer Requirements for IcebergCompatV2", "Example of storing identifiers for nested fields".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.errors import UnsupportedFeature
from slackwater.protocol.features.column_mapping import physical_name
from slackwater.protocol.features.iceberg_compat import nested_ids
from slackwater.protocol.schema.schema import ArrayType, DataType, MapType, StructType
from slackwater.storage.parquet_footer import FIELD_ID_KEY, open_parquet
from slackwater.storage.store import ObjectStore

_SUFFIX = ".ids"
# A page header starts with the page type DATA_PAGE_V2, in Thrift's compact protocol.
_PAGE_V2 = b"\x15\x06"


def with_nested_field_ids(schema: StructType, mode: str) -> Callable[[ObjectStore, str], None] | None:
    """Return a function that adds the nested ids of `schema` to a staged data file, None without arrays and maps.

    The function replaces the file in place. The file must not be part of the table yet. Memory O(row group). The
    function raises UnsupportedFeature if the store is not on a local disk.
    """
    if not _has_parts(schema):
        return None

    def finish(store: ObjectStore, path: str) -> None:
        if store.local_root is None:
            raise UnsupportedFeature(f"{store.root_url}: nested field ids are written on local disks only")
        _rewrite(Path(store.local_root) / path, schema, mode)

    return finish


def with_ids(arrow: pa.Schema, schema: StructType, mode: str) -> pa.Schema:
    """Return `arrow`, the schema of a data file, with the ids of `schema` on array and map parts."""
    columns = {physical_name(column, mode): column for column in schema}
    return pa.schema(
        [
            found
            if (column := columns.get(found.name)) is None
            else found.with_type(_typed(found.type, column.type, nested_ids(column), "", mode))
            for found in arrow
        ],
        metadata=arrow.metadata,
    )


def _has_parts(data_type: DataType) -> bool:
    if isinstance(data_type, StructType):
        return any(_has_parts(column.type) for column in data_type)
    return isinstance(data_type, ArrayType | MapType)


def _typed(arrow: Any, data_type: DataType, ids: Mapping[str, int], prefix: str, mode: str) -> Any:
    if isinstance(data_type, StructType):
        columns = {physical_name(column, mode): column for column in data_type}
        return pa.struct(
            [
                f.with_type(_typed(f.type, columns[f.name].type, nested_ids(columns[f.name]), "", mode))
                for f in (arrow.field(i) for i in range(arrow.num_fields))
            ]
        )
    if isinstance(data_type, ArrayType):
        return pa.list_(_part(arrow.value_field, data_type.element_type, ids, f"{prefix}element", mode))
    if isinstance(data_type, MapType):
        return pa.map_(
            _part(arrow.key_field, data_type.key_type, ids, f"{prefix}key", mode),
            _part(arrow.item_field, data_type.value_type, ids, f"{prefix}value", mode),
        )
    return arrow


def _part(found: pa.Field, data_type: DataType, ids: Mapping[str, int], name: str, mode: str) -> pa.Field:
    typed = found.with_type(_typed(found.type, data_type, ids, f"{name}.", mode))
    return typed.with_metadata({**(found.metadata or {}), FIELD_ID_KEY: str(ids[name]).encode()})


def _rewrite(path: Path, schema: StructType, mode: str) -> None:
    again = path.with_name(path.name + _SUFFIX)
    file, groups = open_parquet(pa.OSFile(str(path)))
    with closing(file):
        wanted = with_ids(file.schema_arrow, schema, mode)
        codec = groups[0].columns[0].codec if groups else "snappy"
        # Spark and Iceberg store small decimals as integers.
        with pq.ParquetWriter(
            again,
            wanted,
            compression=codec,
            store_schema=False,
            store_decimal_as_integer=True,
            data_page_version="2.0" if _has_pages_v2(path, file) else "1.0",
        ) as writer:
            writer.add_key_value_metadata(file.metadata.metadata or {})
            for group in range(file.metadata.num_row_groups):
                table = file.read_row_group(group)
                columns = [_as(column, field) for column, field in zip(table.columns, wanted, strict=True)]
                writer.write_table(pa.Table.from_arrays(columns, schema=wanted))
    again.replace(path)


def _has_pages_v2(path: Path, file: pq.ParquetFile) -> bool:
    """Return whether the first data page of a file just written has version 2."""
    if not file.metadata.num_row_groups or not file.metadata.num_columns:
        return False
    with path.open("rb") as data:
        data.seek(file.metadata.row_group(0).column(0).data_page_offset)
        return data.read(len(_PAGE_V2)) == _PAGE_V2


def _as(column: pa.ChunkedArray, wanted: pa.Field) -> pa.ChunkedArray:
    return column if column.type.equals(wanted.type, check_metadata=True) else column.cast(wanted.type)
