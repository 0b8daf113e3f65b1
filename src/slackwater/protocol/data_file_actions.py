"""The actions that speak of files, as values: `add`, `remove` and `cdc`.

Writers make these one by one; readers keep file actions in Arrow: see `slackwater.log.file_actions`.
Source: delta-protocol.md "Add File and Remove File", "Add CDC File".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from slackwater.protocol.deletion_vectors import DeletionVectorDescriptor


@dataclass(frozen=True, slots=True)
class AddFile:
    """A logical file to add: size in bytes, times in ms since the epoch, `path` URI-encoded, `stats` as JSON.

    `base_row_id` and `default_row_commit_version` are left out where the commit is to assign them.
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
        """The rows of the data file, deleted ones included, as its statistics say; None where they do not."""
        return num_records_of(self.stats)

    @property
    def deletion_vector_id(self) -> str | None:
        """The unique id of the deletion vector; with the path the key of the logical file."""
        return self.deletion_vector.unique_id if self.deletion_vector else None

    def to_json(self) -> dict[str, Any]:
        """The `add` action; a null partition value stays null, other fields without a value are left out."""
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
    """A logical file to remove: size in bytes, `deletion_timestamp` in ms since the epoch, `path` as its `add` had it.

    The fields after `data_change` are those of the last `add` of the file.
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
        """The unique id of the deletion vector; with the path the key of the logical file."""
        return self.deletion_vector.unique_id if self.deletion_vector else None

    def to_json(self) -> dict[str, Any]:
        """The `remove` action; `extendedFileMetadata` says whether partition values and size are there."""
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
    """A change data file: size in bytes, `path` URI-encoded; it never changes data itself."""

    path: str
    partition_values: Mapping[str, str | None]
    size: int
    tags: Mapping[str, str] | None = None

    def to_json(self) -> dict[str, Any]:
        """The `cdc` action."""
        node: dict[str, Any] = {
            "path": self.path,
            "partitionValues": dict(self.partition_values),
            "size": self.size,
            "dataChange": False,
        }
        return {"cdc": node if self.tags is None else node | {"tags": dict(self.tags)}}


FileAction = AddFile | RemoveFile | AddCDCFile


def num_records_of(stats: str | None) -> int | None:
    """`numRecords` of an `add`'s statistics, None where they do not say."""
    if not stats:
        return None
    try:
        found = orjson.loads(stats).get("numRecords")
    except (orjson.JSONDecodeError, AttributeError):
        return None
    return found if isinstance(found, int) and not isinstance(found, bool) else None
