"""Finds files with columns dropped from the table, using Parquet footers.

With column mapping, dropping a column does not rewrite files. Source: delta-protocol.md "Column Mapping"; delta-spark's
REORG ... APPLY (PURGE).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import UnsupportedFeature
from slackwater.log.table import Table
from slackwater.protocol.features.column_mapping import FIELD_ID, ID, NONE, physical_schema
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.properties import (
    MATERIALIZED_ROW_COMMIT_VERSION,
    MATERIALIZED_ROW_ID,
    MAX_COLUMN_ID,
)
from slackwater.protocol.schema.schema import ArrayType, DataType, MapType, StructType, walk_fields
from slackwater.scan.earlier_types import column_of
from slackwater.stats.footers import parquet_footer
from slackwater.storage.path_guard import open_resolved, resolve_files
from slackwater.storage.store import ObjectStore

_THREADS = 16


def with_dropped_columns(table: Table, configuration: TableConfiguration, files: pa.Table) -> pa.Table:
    """Return the files of `files` (with the column `path`) with a column or struct field not in the table.

    No file is read if the table never dropped a column. Raises ObjectNotFound, InvalidArgument and UnsupportedFeature
    for a file whose columns cannot be determined.
    """
    if not _may_have_dropped(configuration):
        return files.slice(0, 0)
    mode = configuration.column_mapping_mode
    known = physical_schema(configuration.schema, mode)
    kept = {configuration.properties.get(key) for key in (MATERIALIZED_ROW_ID, MATERIALIZED_ROW_COMMIT_VERSION)}

    def holds_more(place: str) -> bool:
        found = _columns(*open_resolved(table.store, place))
        own = pa.struct([field for field in found if field.name not in kept])
        return _holds_more(own, known, mode == ID)

    places = resolve_files(table.store, files["path"].to_pylist(), table.follows_outside)
    with ThreadPoolExecutor(_THREADS) as pool:
        return files.filter(pa.array(pool.map(holds_more, places), pa.bool_()))


def to_purge(table: Table, configuration: TableConfiguration, files: pa.Table) -> pa.Table:
    """Return the files of `files` (columns of ADD_SCHEMA) with deletion vectors or dropped columns."""
    has_vector = pc.is_valid(files["deletionVector"])
    others = files.filter(pc.invert(has_vector))
    dropped = with_dropped_columns(table, configuration, others)["path"].combine_chunks()
    return files.filter(pc.or_(has_vector, pc.is_in(files["path"], value_set=dropped)))


def _may_have_dropped(configuration: TableConfiguration) -> bool:
    if configuration.column_mapping_mode == NONE:
        return False
    ids = {column.metadata.get(FIELD_ID) for _, column in walk_fields(configuration.schema)}
    return configuration.properties.integer(MAX_COLUMN_ID) != len(ids)


def _columns(store: ObjectStore, path: str) -> pa.Schema:
    footer, _ = parquet_footer(store, path)
    try:
        return footer.metadata.schema.to_arrow_schema()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UnsupportedFeature(f"{store.root_url}: {path} has columns of unknown types: {error}") from error


def _holds_more(found: pa.DataType, known: DataType, by_id: bool) -> bool:
    """Return whether a struct in `found` has a field not in `known`."""
    deeper = partial(_holds_more, by_id=by_id)
    if pa.types.is_struct(found) and isinstance(known, StructType):
        mates = [(field, column_of(field, known, by_id)) for field in found]
        return any(mate is None or deeper(field.type, mate.type) for field, mate in mates)
    if pa.types.is_map(found) and isinstance(known, MapType):
        return deeper(found.key_type, known.key_type) or deeper(found.item_type, known.value_type)
    if pa.types.is_nested(found) and isinstance(known, ArrayType):
        return deeper(found.value_type, known.element_type)
    return False
