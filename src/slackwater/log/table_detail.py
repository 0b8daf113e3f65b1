"""The detail and the history of a table, in the form of delta-spark's `detail` and `history`.

Source: delta-protocol.md "Commit Provenance Information", "Change Metadata", "Clustered Table".
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from slackwater.errors import CorruptTable, VersionNotFound
from slackwater.log.snapshot import LogSnapshot
from slackwater.protocol.features import clustering
from slackwater.protocol.features.column_mapping import physical_name
from slackwater.protocol.features.table_features import supported_features
from slackwater.protocol.schema.schema import DataType, StructType

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


def describe_detail(snapshot: LogSnapshot) -> dict[str, Any]:
    """Return the record of `snapshot` under the 15 names of delta-spark's `detail`.

    `createdAt` and `lastModified` are datetimes in UTC. They are None if the log lacks the time (no `createdTime`, or
    the commit was cleaned up). `sizeInBytes` is the size of the data files alone. `clusteringColumns` are display
    names, with dots between the parts of a nested name. `tableFeatures` is sorted and includes features implied by a
    legacy protocol. Raises CorruptTable for clustering columns not readable or not in the schema, InvalidSchema,
    CorruptLog, CorruptCheckpoint.
    """
    # Imported here, because a history needs no files.
    from slackwater.log.checksum_totals import file_totals

    metadata, protocol = snapshot.metadata, snapshot.protocol
    num_files, size_bytes = file_totals(snapshot)
    return {
        "format": "delta",
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "location": snapshot.store.root_url,
        "createdAt": to_moment(metadata.created_time),
        "lastModified": to_moment(_last_modified_ms(snapshot)),
        "partitionColumns": list(metadata.partition_columns),
        "clusteringColumns": clustering_columns(snapshot),
        "numFiles": num_files,
        "sizeInBytes": size_bytes,
        "properties": dict(metadata.configuration),
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
        "tableFeatures": sorted(supported_features(protocol)),
    }


def describe_history(snapshot: LogSnapshot, limit: int | None = None) -> list[dict[str, Any]]:
    """Return the commits up to `snapshot` still in the log, newest first, at most `limit`.

    Each record has the 15 names of delta-spark's `history`. `timestamp` is a datetime in UTC. `operationParameters` and
    `operationMetrics` map text to text: other values become JSON text, and null becomes None. `job` and `notebook` are
    the objects of the commit. All values except `version` and `timestamp` are provenance: a writer may omit or shape
    them freely. An absent value, or a value of a wrong type, is None. Raises CorruptLog.
    """
    return [_commit_record(*entry) for entry in snapshot.history_up_to(limit).entries(limit)]


def clustering_columns(snapshot: LogSnapshot) -> list[str]:
    """Return the display names of the clustering columns, none if the table is not clustered.

    Dots join the parts of a nested column. Backticks quote a part containing a dot. Raises CorruptTable if the domain
    is malformed or names a column not in the schema.
    """
    where = f"{snapshot.store.root_url}, version {snapshot.version}: domain {clustering.DOMAIN}"
    paths = clustering.physical_columns(snapshot.domain_metadata.get(clustering.DOMAIN), where)
    return [_display_name(path, snapshot.schema, snapshot.column_mapping_mode, where) for path in paths]


def to_moment(timestamp_ms: int | None) -> dt.datetime | None:
    """Return the UTC datetime of a time in ms since the epoch. None for None, or out of the calendar's range."""
    if timestamp_ms is None:
        return None
    try:
        return _EPOCH + dt.timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return None


def _last_modified_ms(snapshot: LogSnapshot) -> int | None:
    try:
        return snapshot.timestamp_ms
    except VersionNotFound:
        return None


def _display_name(path: Sequence[str], schema: StructType, mode: str, where: str) -> str:
    parts: list[str] = []
    struct: DataType = schema
    for name in path:
        fields = struct if isinstance(struct, StructType) else ()
        column = next((f for f in fields if physical_name(f, mode) == name), None)
        if column is None:
            raise CorruptTable(f"{where} names the column {'.'.join(path)}, which is not in the schema")
        parts.append(f"`{column.name}`" if "." in column.name else column.name)
        struct = column.type
    return ".".join(parts)


def _commit_record(version: int, timestamp_ms: int, info: Mapping[str, Any]) -> dict[str, Any]:
    read_version, is_blind_append = info.get("readVersion"), info.get("isBlindAppend")
    return {
        "version": version,
        "timestamp": to_moment(timestamp_ms),
        "userId": _text(info.get("userId")),
        "userName": _text(info.get("userName")),
        "operation": _text(info.get("operation")),
        "operationParameters": _texts(info.get("operationParameters")),
        "job": _object(info.get("job")),
        "notebook": _object(info.get("notebook")),
        "clusterId": _text(info.get("clusterId")),
        "readVersion": read_version if isinstance(read_version, int) and not isinstance(read_version, bool) else None,
        "isolationLevel": _text(info.get("isolationLevel")),
        "isBlindAppend": is_blind_append if isinstance(is_blind_append, bool) else None,
        "operationMetrics": _texts(info.get("operationMetrics")),
        "userMetadata": _text(info.get("userMetadata")),
        "engineInfo": _text(info.get("engineInfo")),
    }


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError:
        # The value is nested too deeply for orjson.
        return None


def _texts(value: Any) -> dict[str, str | None] | None:
    return {key: _text(item) for key, item in value.items()} if isinstance(value, dict) else None


def _object(value: Any) -> dict[str, Any] | None:
    return dict(value) if isinstance(value, dict) and _text(value) is not None else None
