"""Converts Arrow rows of live files to the actions that re-add or remove the files.

Source: delta-protocol.md "Add File and Remove File", "Writer Requirements for Row Tracking" (fields that a file keeps).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from slackwater.log.files.file_actions import ADD_SCHEMA
from slackwater.protocol.actions.deletion_vectors import DeletionVectorDescriptor
from slackwater.protocol.actions.files import AddFile, RemoveFile

REMOVE_COLUMNS = (
    "path",
    "partitionValues",
    "size",
    "stats",
    "tags",
    "deletionVector",
    "baseRowId",
    "defaultRowCommitVersion",
)
"""The columns of live files required by `as_removes`."""


def as_adds(files: pa.Table, data_change: bool) -> list[AddFile]:
    """Return the `add` of each of `files` (columns of ADD_SCHEMA), unchanged except for `dataChange`."""
    return [
        AddFile(
            node["path"],
            _map(node["partitionValues"]) or {},
            node["size"],
            node["modificationTime"],
            data_change,
            node["stats"],
            _tags(node["tags"]),
            _vector(node["deletionVector"]),
            node["baseRowId"],
            node["defaultRowCommitVersion"],
            node["clusteringProvider"],
        )
        for node in files.select(ADD_SCHEMA.names).to_pylist()
    ]


def as_removes(files: pa.Table, deletion_timestamp_ms: int, data_change: bool = True) -> list[RemoveFile]:
    """Return the `remove` of each of `files` (columns REMOVE_COLUMNS), with the fields of its `add`."""
    return [
        RemoveFile(
            node["path"],
            deletion_timestamp_ms,
            data_change,
            _map(node["partitionValues"]) or {},
            node["size"],
            node["stats"],
            _tags(node["tags"]),
            _vector(node["deletionVector"]),
            node["baseRowId"],
            node["defaultRowCommitVersion"],
        )
        for node in files.select(REMOVE_COLUMNS).to_pylist()
    ]


def _map(pairs: Any) -> dict[str, str | None] | None:
    return None if pairs is None else dict(pairs)


def _tags(pairs: Any) -> Mapping[str, str] | None:
    return None if pairs is None else {key: value for key, value in pairs if value is not None}


def _vector(node: Mapping[str, Any] | None) -> DeletionVectorDescriptor | None:
    return None if node is None else DeletionVectorDescriptor.from_json(node)
