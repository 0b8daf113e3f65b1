"""The file actions `add`, `remove` and `cdc` as values.

Writers create these objects. Readers store file actions in Arrow: see `slackwater.log.files.file_actions`.
Source: delta-protocol.md "Add File and Remove File", "Add CDC File".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from slackwater.errors import CorruptDeletionVector, CorruptLog
from slackwater.protocol.actions.action_fields import nullable_map, optional, required, string_map
from slackwater.protocol.actions.deletion_vectors import DeletionVectorDescriptor

_INT = 2**31


@dataclass(frozen=True, slots=True)
class AddFile:
    """A logical file to add: `size` in bytes, times in ms since the epoch, `path` URI-encoded, `stats` as JSON.

    `partition_values` maps physical names to texts, with None for null; it is empty for a table without partitions.
    `modification_time` is the time of the file. `data_change` is False if the commit only rearranges rows or adds
    statistics. `tags` maps names to texts. `deletion_vector` marks the deleted rows of the file. Leave out
    `base_row_id` and `default_row_commit_version` to let the commit assign them. `clustering_provider` is the name of
    the clustering implementation.

    >>> slackwater.AddFile("day=2026-11-22/a", {"day": "2026-11-22"}, 45, 0, stats='{"numRecords":3}').num_records
    3
    """

    path: str
    partition_values: Mapping[str, str | None]
    size: int
    modification_time: int
    data_change: bool = True
    stats: str | None = None
    tags: Mapping[str, str] | None = None
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    clustering_provider: str | None = None

    @property
    def num_records(self) -> int | None:
        """The number of rows of the data file from its statistics, deleted rows included; None if unknown."""
        return num_records_of(self.stats)

    @property
    def deletion_vector_id(self) -> str | None:
        """The unique id of the deletion vector. Together with the path, it is the key of the logical file."""
        return self.deletion_vector.unique_id if self.deletion_vector else None

    @staticmethod
    def from_json(node: Mapping[str, Any], where: str) -> AddFile:
        """Return the file in `node`. Raises CorruptLog, naming `where`, for a missing or malformed field."""
        return AddFile(
            _path(node, where, "add"),
            nullable_map(node, "partitionValues", where, "add"),
            required(node, "size", int, where, "add"),
            required(node, "modificationTime", int, where, "add"),
            required(node, "dataChange", bool, where, "add"),
            optional(node, "stats", str, where, "add"),
            _tags(node, where, "add"),
            _deletion_vector(node, where, "add"),
            optional(node, "baseRowId", int, where, "add"),
            optional(node, "defaultRowCommitVersion", int, where, "add"),
            optional(node, "clusteringProvider", str, where, "add"),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the `add` action. Null partition values stay null; other fields without a value are omitted.

        >>> slackwater.AddFile("a.parquet", {}, 45, 0).to_json()["add"]["size"]
        45
        """
        node: dict[str, Any] = {
            "path": self.path,
            "partitionValues": dict(self.partition_values),
            "size": self.size,
            "modificationTime": self.modification_time,
            "dataChange": self.data_change,
        }
        optional = {
            "stats": self.stats,
            "tags": None if self.tags is None else dict(self.tags),
            "deletionVector": self.deletion_vector.to_json() if self.deletion_vector else None,
            "baseRowId": self.base_row_id,
            "defaultRowCommitVersion": self.default_row_commit_version,
            "clusteringProvider": self.clustering_provider,
        }
        return {"add": node | {key: value for key, value in optional.items() if value is not None}}


@dataclass(frozen=True, slots=True)
class RemoveFile:
    """A logical file to remove: size in bytes, `deletion_timestamp` in ms since the epoch, `path` equal to its `add`.

    `data_change` is False if the commit only rearranges rows. The other fields repeat the last `add` of the file:
    `partition_values`, `size`, `stats`, `tags`, `deletion_vector`, `base_row_id` and `default_row_commit_version`. None
    means absent or unknown.

    >>> tx = slackwater.Transaction(flights)
    >>> tx.remove(slackwater.RemoveFile("month=3/part-1.parquet", 1_780_000_000_000, partition_values={"month": "3"}))
    >>> tx.commit("DELETE").version, slackwater.Snapshot.load(flights).files()["path"].to_pylist()
    (2, ['month=4/part-1.parquet'])
    """

    path: str
    deletion_timestamp: int
    data_change: bool = True
    partition_values: Mapping[str, str | None] | None = None
    size: int | None = None
    stats: str | None = None
    tags: Mapping[str, str] | None = None
    deletion_vector: DeletionVectorDescriptor | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None

    @property
    def deletion_vector_id(self) -> str | None:
        """The unique id of the deletion vector. Together with the path, it is the key of the logical file."""
        return self.deletion_vector.unique_id if self.deletion_vector else None

    @staticmethod
    def from_json(node: Mapping[str, Any], where: str) -> RemoveFile:
        """Return the file in `node`. Raises CorruptLog, naming `where`, for a missing or malformed field."""
        values = None if _is_absent(node, "partitionValues") else nullable_map(node, "partitionValues", where, "remove")
        optional(node, "extendedFileMetadata", bool, where, "remove")
        return RemoveFile(
            _path(node, where, "remove"),
            optional(node, "deletionTimestamp", int, where, "remove") or 0,
            required(node, "dataChange", bool, where, "remove"),
            values,
            optional(node, "size", int, where, "remove"),
            optional(node, "stats", str, where, "remove"),
            _tags(node, where, "remove"),
            _deletion_vector(node, where, "remove"),
            optional(node, "baseRowId", int, where, "remove"),
            optional(node, "defaultRowCommitVersion", int, where, "remove"),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the `remove` action. `extendedFileMetadata` is true if partition values and size are present.

        >>> slackwater.RemoveFile("a.parquet", 1_780_000_000_000, size=45).to_json()["remove"]["deletionTimestamp"]
        1780000000000
        """
        extended = self.partition_values is not None and self.size is not None
        node: dict[str, Any] = {
            "path": self.path,
            "deletionTimestamp": self.deletion_timestamp,
            "dataChange": self.data_change,
            "extendedFileMetadata": extended,
        }
        optional = {
            "partitionValues": None if self.partition_values is None else dict(self.partition_values),
            "size": self.size,
            "stats": self.stats,
            "tags": None if self.tags is None else dict(self.tags),
            "deletionVector": self.deletion_vector.to_json() if self.deletion_vector else None,
            "baseRowId": self.base_row_id,
            "defaultRowCommitVersion": self.default_row_commit_version,
        }
        return {"remove": node | {key: value for key, value in optional.items() if value is not None}}


@dataclass(frozen=True, slots=True)
class AddCDCFile:
    """A change data file: size in bytes, `path` URI-encoded. Its `dataChange` is always false."""

    path: str
    partition_values: Mapping[str, str | None]
    size: int
    tags: Mapping[str, str] | None = None

    @staticmethod
    def from_json(node: Mapping[str, Any], where: str) -> AddCDCFile:
        """Return the file in `node`. Raises CorruptLog, naming `where`, for a missing or malformed field."""
        if required(node, "dataChange", bool, where, "cdc"):
            raise CorruptLog(f"{where}: cdc must have dataChange false, found true")
        return AddCDCFile(
            _path(node, where, "cdc"),
            nullable_map(node, "partitionValues", where, "cdc"),
            required(node, "size", int, where, "cdc"),
            _tags(node, where, "cdc"),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the `cdc` action."""
        node: dict[str, Any] = {
            "path": self.path,
            "partitionValues": dict(self.partition_values),
            "size": self.size,
            "dataChange": False,
        }
        return {"cdc": node if self.tags is None else node | {"tags": dict(self.tags)}}


FileAction = AddFile | RemoveFile | AddCDCFile


def num_records_of(stats: str | None) -> int | None:
    """Return `numRecords` of the statistics of an `add`, or None if absent or malformed."""
    if not stats:
        return None
    try:
        found = orjson.loads(stats).get("numRecords")
    except (orjson.JSONDecodeError, AttributeError):
        return None
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _path(node: Mapping[str, Any], where: str, action: str) -> str:
    path: str = required(node, "path", str, where, action)
    if not path:
        raise CorruptLog(f"{where}: {action} must have a path, found ''")
    return path


def _is_absent(node: Mapping[str, Any], key: str) -> bool:
    return node.get(key) is None


def _tags(node: Mapping[str, Any], where: str, action: str) -> dict[str, str] | None:
    return None if _is_absent(node, "tags") else string_map(node, "tags", where, action)


def _deletion_vector(node: Mapping[str, Any], where: str, action: str) -> DeletionVectorDescriptor | None:
    found = optional(node, "deletionVector", dict, where, action)
    if found is None:
        return None
    try:
        descriptor = DeletionVectorDescriptor.from_json(found)
    except CorruptDeletionVector as error:
        raise CorruptLog(f"{where}: {action} has a malformed deletionVector: {error}") from error
    if max(descriptor.offset or 0, descriptor.size_in_bytes) >= _INT:
        raise CorruptLog(f"{where}: {action} must have a deletionVector of less than {_INT} bytes, found {found}")
    return descriptor
