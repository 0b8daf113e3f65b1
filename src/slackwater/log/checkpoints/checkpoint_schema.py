"""The columns of checkpoints, and the conversion of actions to rows.

Source: delta-protocol.md "Checkpoints", "Checkpoint Schema".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import InvalidSchema
from slackwater.log.files.file_actions import ADD_SCHEMA, REMOVE_SCHEMA, STRING_MAP
from slackwater.log.files.plain_arrays import plain_array
from slackwater.log.snapshot import LogSnapshot
from slackwater.protocol.actions.actions import Protocol
from slackwater.protocol.actions.partition_values import parse_partition_column
from slackwater.protocol.features import clustering
from slackwater.protocol.features.column_mapping import data_columns, physical_name
from slackwater.protocol.features.table_features import FEATURES_READER_VERSION, FEATURES_WRITER_VERSION
from slackwater.protocol.properties.properties import (
    CHECKPOINT_WRITE_STATS_AS_JSON,
    CHECKPOINT_WRITE_STATS_AS_STRUCT,
    DATA_SKIPPING_NUM_INDEXED_COLS,
    DATA_SKIPPING_STATS_COLUMNS,
)
from slackwater.protocol.schema.arrow_schema import to_arrow_type
from slackwater.protocol.schema.schema import DataType, StructType
from slackwater.stats.stats_parsed import conform_stats, parse_stats, stats_to_json, stats_type

_NAMES = pa.list_(pa.string())
_SMALL_TYPES: Mapping[str, pa.StructType] = {
    "protocol": pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", _NAMES),
            ("writerFeatures", _NAMES),
        ]
    ),
    "metaData": pa.struct(
        [
            ("id", pa.string()),
            ("name", pa.string()),
            ("description", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", STRING_MAP)])),
            ("schemaString", pa.string()),
            ("partitionColumns", _NAMES),
            ("configuration", STRING_MAP),
            ("createdTime", pa.int64()),
        ]
    ),
    "txn": pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]),
    "domainMetadata": pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
    "checkpointMetadata": pa.struct([("version", pa.int64()), ("tags", STRING_MAP)]),
    "sidecar": pa.struct(
        [
            ("path", pa.string()),
            ("sizeInBytes", pa.int64()),
            ("modificationTime", pa.int64()),
            ("tags", STRING_MAP),
        ]
    ),
}
_V2_ONLY = ("checkpointMetadata", "sidecar")
_REMOVE_TYPE = pa.struct(list(REMOVE_SCHEMA))


class AddColumnLayout:
    """The layout of the column `add` in the checkpoints of a table: forms of statistics and partition values.

    Columns have physical names. Statistics are written in JSON unless `delta.checkpoint.writeStatsAsJson` is false, and
    in columns if `delta.checkpoint.writeStatsAsStruct` is true. The schema is parsed only if a form needs it. Raises
    InvalidSchema then, and CorruptTable for a property neither true nor false.
    """

    def __init__(self, snapshot: LogSnapshot) -> None:
        self._snapshot = snapshot
        self.json_stats = snapshot.properties.flag(CHECKPOINT_WRITE_STATS_AS_JSON, default=True)
        self.struct_stats = snapshot.properties.flag(CHECKPOINT_WRITE_STATS_AS_STRUCT, default=False)

    @cached_property
    def all_stats(self) -> pa.StructType:
        """The type of the statistics of all columns of the table."""
        return stats_type(self._data_columns)

    @cached_property
    def stats(self) -> pa.StructType | None:
        """The type of `stats_parsed`, None if statistics are not written in columns.

        Covers all columns if JSON is off, so that no statistics are lost, else the columns with statistics from
        writers.
        """
        if not self.struct_stats:
            return None
        if not self.json_stats:
            return self.all_stats
        return stats_type(self._data_columns, _most_leaves(self._snapshot))

    @cached_property
    def partition_types(self) -> tuple[tuple[str, DataType], ...]:
        """The partition columns with typed values in `partitionValues_parsed`."""
        return self._partitions if self.struct_stats else ()

    @cached_property
    def add_type(self) -> pa.StructType:
        """The type of the column `add`."""
        fields = [field for field in ADD_SCHEMA if field.name != "stats" or self.json_stats]
        if self.partition_types:
            values = pa.struct([(name, to_arrow_type(data_type)) for name, data_type in self.partition_types])
            fields.append(pa.field("partitionValues_parsed", values))
        if self.stats is not None:
            fields.append(pa.field("stats_parsed", self.stats))
        return pa.struct(fields)

    @property
    def sources(self) -> tuple[str, ...]:
        """The columns read from an older checkpoint, from which `add_rows` builds rows in this layout."""
        stats = ("stats", "stats_parsed") if self.json_stats or self.struct_stats else ()
        return (*(name for name in ADD_SCHEMA.names if name not in ("stats", "dataChange")), *stats)

    @property
    def spares(self) -> Mapping[str, str]:
        """The columns of `sources` made unnecessary by a substitute, see `Checkpoint.batches`."""
        return {} if self.struct_stats else {"stats_parsed": "stats"}

    @cached_property
    def _partitions(self) -> tuple[tuple[str, DataType], ...]:
        found = []
        for name in self._snapshot.metadata.partition_columns:
            column = self._snapshot.schema.get(name)
            if column is None:
                raise InvalidSchema(
                    f"{self._snapshot.store.root_url}: the partition column {name} is not in the schema"
                )
            found.append((physical_name(column, self._snapshot.column_mapping_mode), column.type))
        return tuple(found)

    @cached_property
    def _data_columns(self) -> StructType:
        found = self._snapshot
        return data_columns(found.schema, found.metadata.partition_columns, found.column_mapping_mode)


def checkpoint_schema(form: AddColumnLayout, v2: bool) -> pa.Schema:
    """Return the columns of a checkpoint file."""
    fields = [pa.field(name, kind) for name, kind in _SMALL_TYPES.items() if v2 or name not in _V2_ONLY]
    return pa.schema([*fields, *sidecar_schema(form)])


def sidecar_schema(form: AddColumnLayout) -> pa.Schema:
    """Return the columns of a sidecar file."""
    return pa.schema([("add", form.add_type), ("remove", _REMOVE_TYPE)])


def small_rows(name: str, actions: Sequence[Mapping[str, Any]]) -> pa.StructArray:
    """Return the actions of the kind `name` (JSON, `{name: {…}}`) in a struct array for the column `name`."""
    kind = _SMALL_TYPES[name]
    values = [action[name] for action in actions]
    plain = plain_array(values, kind)
    return pa.array([_arrow_value(value, kind) for value in values], kind) if plain is None else plain


def protocol_action(protocol: Protocol) -> dict[str, Any]:
    """Return the `protocol` action for a checkpoint, with feature lists only if its versions require the lists."""
    node: dict[str, Any] = {
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
    }
    if protocol.min_reader_version >= FEATURES_READER_VERSION:
        node["readerFeatures"] = list(protocol.reader_features or ())
    if protocol.min_writer_version >= FEATURES_WRITER_VERSION:
        node["writerFeatures"] = list(protocol.writer_features or ())
    return {"protocol": node}


def add_rows(files: pa.Table, form: AddColumnLayout, zone: str = "UTC") -> pa.StructArray:
    """Return live files in a struct array for the column `add`, with `dataChange` false.

    `files` has the columns `form.sources`; `stats_parsed` may be absent. Statistics present in one form only are
    converted to the other. Partition values without a time zone are interpreted in `zone`. Raises CorruptLog for a
    partition value not valid for its type.
    """
    columns: dict[str, pa.Array] = {
        name: _one(files[name]) for name in files.column_names if name not in ("stats", "stats_parsed", "dataChange")
    }
    columns["dataChange"] = _all_false(files.num_rows)
    if form.json_stats:
        columns["stats"] = _json_stats(files, form)
    if form.stats is not None:
        columns["stats_parsed"] = _parsed_stats(files, form.stats, prefer_json=not form.json_stats)
    if form.partition_types:
        columns["partitionValues_parsed"] = _partition_values(columns["partitionValues"], form.partition_types, zone)
    kind = form.add_type
    return pa.StructArray.from_arrays([columns[field.name] for field in kind], fields=list(kind))


def remove_rows(tombstones: pa.Table) -> pa.StructArray:
    """Return tombstones (REMOVE_SCHEMA) in a struct array for the column `remove`, without statistics and tags."""
    columns = {name: _one(tombstones[name]) for name in REMOVE_SCHEMA.names if name != "dataChange"}
    columns["dataChange"] = _all_false(tombstones.num_rows)
    return pa.StructArray.from_arrays([columns[f.name] for f in _REMOVE_TYPE], fields=list(_REMOVE_TYPE))


def _all_false(length: int) -> pa.BooleanArray:
    return pa.Array.from_buffers(pa.bool_(), length, [None, pa.py_buffer(bytes(length // 8 + 1))])


def _most_leaves(snapshot: LogSnapshot) -> int | None:
    """Return the number of leading leaf columns with statistics from writers, None for any column."""
    properties = snapshot.properties
    if DATA_SKIPPING_STATS_COLUMNS in properties or clustering.DOMAIN in snapshot.domain_metadata:
        return None
    most = properties.integer(DATA_SKIPPING_NUM_INDEXED_COLS)
    return None if most is None or most < 0 else most


def _json_stats(files: pa.Table, form: AddColumnLayout) -> pa.Array:
    texts = _one(files["stats"]).cast(pa.string())
    if "stats_parsed" not in files.column_names or not texts.null_count:
        return texts
    # The types in the file may not distinguish timestamps with and without a time zone.
    return pc.coalesce(texts, stats_to_json(conform_stats(_one(files["stats_parsed"]), form.all_stats)))


def _parsed_stats(files: pa.Table, wanted: pa.StructType, prefer_json: bool) -> pa.Array:
    """Return the statistics in columns.

    With `prefer_json`, JSON statistics win, because they are not written again and may cover more columns.
    """
    texts = _one(files["stats"]).cast(pa.string())
    if "stats_parsed" not in files.column_names:
        return parse_stats(texts, wanted)
    found = conform_stats(_one(files["stats_parsed"]), wanted)
    # Some writers write a struct of nulls for missing statistics.
    known = pc.struct_field(found, "numRecords").is_valid()
    taken = texts.is_null() if prefer_json else pc.or_(known, texts.is_null())
    if not pc.any(pc.invert(taken)).as_py():
        return found
    return pc.if_else(taken, found, parse_stats(pc.if_else(taken, pa.scalar(None, pa.string()), texts), wanted))


def _partition_values(pairs: pa.Array, types: Sequence[tuple[str, DataType]], zone: str) -> pa.Array:
    values = [parse_partition_column(pc.map_lookup(pairs, name, "first"), kind, zone) for name, kind in types]
    fields = [pa.field(name, to_arrow_type(kind)) for name, kind in types]
    return pa.StructArray.from_arrays(values, fields=fields)


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks or [pa.array([], column.type)])


def _arrow_value(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _arrow_value(value.get(field.name), field.type) for field in kind}
    return list(value.items()) if pa.types.is_map(kind) else value
