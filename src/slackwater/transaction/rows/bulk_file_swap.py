"""Bulk adds and removes of whole files as Arrow tables: files of another table or another version.

Source: delta-protocol.md "Add File and Remove File", "Requirements for Writers".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.log.files.bulk_commit import BulkActions
from slackwater.log.files.file_actions import ACTION_SCHEMA, file_keys, one_array
from slackwater.protocol.actions.files import AddFile, RemoveFile, num_records_of
from slackwater.protocol.actions.partition_values import parse_partition_column
from slackwater.protocol.actions.paths import are_distinct, canonical_paths
from slackwater.protocol.features import iceberg_compat, row_tracking
from slackwater.protocol.features.column_mapping import physical_schema
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.rows.file_action_rows import as_adds, as_removes

_CONTENT = pa.schema([field for field in ACTION_SCHEMA if field.name != "version"])
_OF_ADDS = ("modificationTime", "clusteringProvider")


@dataclass(frozen=True, slots=True, eq=False)
class BulkFileSwap:
    """Files to add and live files to remove, each with the columns of ADD_SCHEMA. Both change data."""

    adds: pa.Table
    removes: pa.Table
    deletion_timestamp_ms: int

    @property
    def add_files(self) -> list[AddFile]:
        """The files to add, as single actions."""
        return as_adds(self.adds, data_change=True)

    @property
    def remove_files(self) -> list[RemoveFile]:
        """The files to remove, as single actions."""
        return as_removes(self.removes, self.deletion_timestamp_ms)

    def actions(self, small: Sequence[Mapping[str, Any]]) -> BulkActions:
        """Return the actions of a commit with the single actions `small`."""
        removed: dict[str, Any] = {
            "deletionTimestamp": pa.scalar(self.deletion_timestamp_ms, pa.int64()),
            "extendedFileMetadata": pc.is_valid(self.removes["size"]),
            **dict.fromkeys(_OF_ADDS),
        }
        return BulkActions(small, as_actions(self.removes, False, removed), as_actions(self.adds, True, {}))

    def is_plain(self, table: TableConfiguration, before: Snapshot | None) -> bool:
        """Return whether a commit on `before` that results in `table` may use these files unchanged.

        False only means that the files need per-file handling: new row ids, or validation with an error.
        """
        if not can_reuse_actions(table):
            return False
        if self.removes.num_rows and (before is None or table.is_active("appendOnly")):
            return False
        return (
            are_plain(self.adds, table)
            and _has_json_of_its_own(self.removes)
            and self._are_distinct()
            and (before is None or self._follow(before))
        )

    def _are_distinct(self) -> bool:
        """Return whether each file has only one action."""
        if not (are_distinct(self.adds["path"]) and are_distinct(self.removes["path"])):
            return False
        if not (self.adds.num_rows and self.removes.num_rows):
            return True
        both = pc.is_in(file_keys(self.adds), value_set=one_array(file_keys(self.removes)))
        return not pc.any(both).as_py()

    def _follow(self, before: Snapshot) -> bool:
        """Return whether `before` contains every removed file and no added file.

        An added file may be live in `before` if the same commit removes its old deletion vector.
        """
        live = before.live_files(["path", "deletionVector"])
        keys = one_array(file_keys(live))
        removed = one_array(file_keys(self.removes))
        if not _are_among(removed, keys):
            return False
        added = one_array(canonical_paths(self.adds["path"]))
        again = pc.is_in(one_array(canonical_paths(live["path"])), value_set=added)
        return _are_among(keys.filter(again), removed)


def can_reuse_actions(table: TableConfiguration) -> bool:
    """Return whether `table` can accept files unchanged. Row tracking, for example, would assign row ids."""
    return not (row_tracking.is_supported(table) or iceberg_compat.active_version(table))


def are_plain(files: pa.Table, table: TableConfiguration) -> bool:
    """Return whether `table` may have `files` unchanged. Raises CorruptLog for an invalid partition value."""
    return _has_json_of_its_own(files) and _has_partition_values(files, table) and _has_vectors(files, table)


def as_actions(files: pa.Table, is_add: bool, values: Mapping[str, Any]) -> pa.Table:
    """Return `files` in ACTION_SCHEMA without the version. `values` sets columns, None sets null."""
    always = {"is_add": pa.scalar(is_add), "dataChange": pa.scalar(True), **values}
    columns = []
    for field in _CONTENT:
        value = always.get(field.name)
        if isinstance(value, pa.Scalar):
            value = pa.repeat(value, files.num_rows)
        elif value is None and field.name in files.column_names and field.name not in always:
            value = files[field.name]
        columns.append(pa.nulls(files.num_rows, field.type) if value is None else value)
    return pa.table(columns, schema=_CONTENT)


def _has_json_of_its_own(files: pa.Table) -> bool:
    """Return whether the JSON of an action equals its columns: no map is null, and no tag value is null."""
    tags = (chunk.items[_entries(chunk)] for chunk in files["tags"].chunks if chunk.null_count < len(chunk))
    return not files["partitionValues"].null_count and not any(found.null_count for found in tags)


def _has_partition_values(files: pa.Table, table: TableConfiguration) -> bool:
    """Return whether each file has a value for each partition column. Raises CorruptLog for an invalid value."""
    named = zip(table.schema.names, physical_schema(table.schema, table.column_mapping_mode), strict=True)
    physical = dict(named)
    columns = {physical[name].name: physical[name].type for name in table.metadata.partition_columns}
    for chunk in files["partitionValues"].chunks:
        if not (np.diff(chunk.offsets.to_numpy()) == len(columns)).all():
            return False
        keys, values = chunk.keys[_entries(chunk)], chunk.items[_entries(chunk)]
        seen = 0
        for name, data_type in columns.items():
            of_name = values.filter(pc.equal(keys, name))
            seen += len(of_name)
            if len(of_name) != len(chunk):
                return False
            parse_partition_column(pc.unique(of_name), data_type)
        if seen != len(keys):
            return False
    return True


def _entries(maps: pa.MapArray) -> slice:
    offsets = maps.offsets
    return slice(offsets[0].as_py(), offsets[-1].as_py())


def _has_vectors(files: pa.Table, table: TableConfiguration) -> bool:
    """Return whether the table supports the deletion vectors of the files, and such files have a number of records."""
    with_vector = files.filter(pc.is_valid(files["deletionVector"]))
    if not with_vector.num_rows:
        return True
    known = (num_records_of(stats) is not None for stats in with_vector["stats"].to_pylist())
    return table.supports("deletionVectors") and all(known)


def _are_among(keys: pa.Array, others: pa.Array) -> bool:
    return bool(pc.all(pc.is_in(keys, value_set=others), min_count=0).as_py())
