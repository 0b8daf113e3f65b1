"""Finds files with values of the types before a type change, using Parquet footers.

Type widening rewrites no files. Source: the protocol's "Type Widening"; delta-spark's DROP FEATURE.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.data_files.footer_schema import leaf_type
from slackwater.errors import UnsupportedFeature
from slackwater.log.table import Table
from slackwater.protocol.features.column_mapping import FIELD_ID, ID, physical_schema
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.schema.schema import ArrayType, DataType, MapType, StructField, StructType
from slackwater.protocol.schema.type_widening import TYPE_CHANGES, widened_columns
from slackwater.stats.footers import parquet_footer
from slackwater.storage.parquet_footer import FIELD_ID_KEY
from slackwater.storage.path_guard import open_resolved, resolve_files

_THREADS = 16


def with_earlier_types(table: Table, configuration: TableConfiguration, files: pa.Table) -> pa.Table:
    """Return the files of `files` (with the column `path`) with an earlier type in a column with a type history.

    No file is read if no type was changed. Raises ObjectNotFound, InvalidArgument and UnsupportedFeature for a file
    whose columns cannot be determined.
    """
    if not files.num_rows or not widened_columns(configuration.schema):
        return files.slice(0, 0)
    mode = configuration.column_mapping_mode
    check = _TypeCheck(physical_schema(configuration.schema, mode), by_id=mode == ID)

    def is_earlier(place: str) -> bool:
        store, path = open_resolved(table.store, place)
        footer, _ = parquet_footer(store, path)
        try:
            return check.is_earlier(footer.metadata)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise UnsupportedFeature(f"{store.root_url}: {path} has columns of unknown types: {error}") from error

    places = resolve_files(table.store, files["path"].to_pylist(), table.follows_outside)
    with ThreadPoolExecutor(_THREADS) as pool:
        return files.filter(pa.array(pool.map(is_earlier, places), pa.bool_()))


def column_of(field: pa.Field, among: StructType, by_id: bool) -> StructField | None:
    """Return the table's column for a column of a file: by field id, if there is one and `by_id`, else by name."""
    number = (field.metadata or {}).get(FIELD_ID_KEY) if by_id else None
    if number is not None:
        return next((column for column in among if column.metadata.get(FIELD_ID) == int(number)), None)
    return next((column for column in among if column.name.lower() == field.name.lower()), None)


class _TypeCheck:
    """Comparison of the columns of files with `schema`, the physical schema of the table."""

    def __init__(self, schema: StructType, by_id: bool) -> None:
        self._schema = schema
        self._by_id = by_id

    def is_earlier(self, metadata: pq.FileMetaData) -> bool:
        """Return whether a column with a type history has another type in the file."""
        leaves = (metadata.schema.column(at) for at in range(metadata.num_columns))
        return self._any_field(metadata.schema.to_arrow_schema(), self._schema, leaves)

    # Each step takes all leaves of its column, so that the next column starts at its own leaf.

    def _any_field(self, fields: Iterable[pa.Field], among: DataType | None, leaves: Iterator[pq.ColumnSchema]) -> bool:
        answers = [self._field(field, among, leaves) for field in fields]
        return any(answers)

    def _field(self, field: pa.Field, among: DataType | None, leaves: Iterator[pq.ColumnSchema]) -> bool:
        column = column_of(field, among, self._by_id) if isinstance(among, StructType) else None
        known = None if column is None else column.type
        return self._type(field.type, known, leaves, column is not None and bool(column.metadata.get(TYPE_CHANGES)))

    def _type(
        self, found: pa.DataType, known: DataType | None, leaves: Iterator[pq.ColumnSchema], is_widened: bool
    ) -> bool:
        if isinstance(found, pa.BaseExtensionType):
            return self._type(found.storage_type, known, leaves, is_widened)
        if pa.types.is_struct(found):
            return self._any_field(found, known, leaves)
        if pa.types.is_map(found):
            key, value = (known.key_type, known.value_type) if isinstance(known, MapType) else (None, None)
            is_earlier = self._type(found.key_type, key, leaves, is_widened)
            return self._type(found.item_type, value, leaves, is_widened) or is_earlier
        if pa.types.is_nested(found):
            element = known.element_type if isinstance(known, ArrayType) else None
            return self._type(found.value_type, element, leaves, is_widened)
        leaf = next(leaves)
        return is_widened and leaf_type(leaf) not in (None, known)
