"""Operation name, parameters and metrics of a write for the table history, like delta-spark's.

Source: delta-spark's DeltaOperations.Write and DeltaOperations.StreamingUpdate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import orjson

from slackwater.protocol.actions.actions import Metadata
from slackwater.protocol.actions.files import AddFile, RemoveFile
from slackwater.protocol.schema.column_paths import format_column_path, parse_column_path
from slackwater.spark.write.options import WriteOptions

_MODE_NAMES = {"error": "ErrorIfExists", "ignore": "Ignore", "append": "Append", "overwrite": "Overwrite"}


@dataclass(frozen=True)
class OperationInfo:
    """An operation: its name, its parameters, and its metrics (files, bytes, rows) in text form."""

    operation: str
    parameters: dict[str, str]
    metrics: dict[str, str]


def described(
    request: WriteOptions,
    metadata: Metadata,
    adds: Sequence[AddFile],
    removes: Sequence[RemoveFile],
    is_new: bool,
    counts_of_where: Mapping[str, int] = MappingProxyType({}),
) -> OperationInfo:
    """Return the operation of the write `request`, to a new table (`is_new`) or an existing table.

    `counts_of_where` are the metrics of a `replaceWhere`.
    """
    rows = sum(add.num_records or 0 for add in adds)
    size_bytes = sum(add.size for add in adds)
    batch = request.micro_batch
    if batch is not None:
        counts = {
            "numAddedFiles": len(adds),
            "numRemovedFiles": len(removes),
            "numOutputRows": rows,
            "numOutputBytes": size_bytes,
        }
        parameters = {
            "outputMode": "Complete" if request.mode == "overwrite" else "Append",
            "queryId": batch.query_id,
            "epochId": str(batch.batch_id),
        }
        return OperationInfo("STREAMING UPDATE", parameters, _texts(counts))
    counts = {"numFiles": len(adds), "numOutputBytes": size_bytes, "numOutputRows": rows}
    if request.mode == "overwrite" and not is_new:
        counts |= {"numRemovedFiles": len(removes), "numRemovedBytes": sum(r.size or 0 for r in removes)}
        counts |= counts_of_where
    if request.operation is not None:
        return OperationInfo(request.operation, definition_parameters(metadata, request.cluster_by), _texts(counts))
    # Like delta-spark, the parameter is empty unless the write itself requested partitioning.
    partitioned_by = metadata.partition_columns if request.partition_by else ()
    parameters = {"mode": _MODE_NAMES[request.mode], "partitionBy": _json(partitioned_by)}
    switches = {
        "isDynamicPartitionOverwrite": request.dynamic_partitions and request.mode == "overwrite",
        "canOverwriteSchema": request.overwrite_schema,
        "canMergeSchema": request.merge_schema,
    }
    parameters |= {name: "true" for name, is_on in switches.items() if is_on}
    if request.replace_where is not None:
        parameters["predicate"] = request.replace_where
    if request.matching is not None:
        parameters |= request.matching.parameters
    return OperationInfo("WRITE", parameters, _texts(counts))


def definition_parameters(metadata: Metadata, clustered_by: Sequence[str]) -> dict[str, str]:
    """Return the operation parameters of CREATE TABLE and related operations."""
    return {
        "isManaged": "false",
        **({} if metadata.description is None else {"description": metadata.description}),
        "partitionBy": _json(metadata.partition_columns),
        "clusterBy": _json([format_column_path(parse_column_path(name)) for name in clustered_by]),
        "properties": _json(dict(metadata.configuration)),
    }


def _json(value: Sequence[str] | dict[str, str]) -> str:
    return orjson.dumps(value if isinstance(value, dict) else list(value)).decode()


def _texts(counts: dict[str, int]) -> dict[str, str]:
    return {key: str(value) for key, value in counts.items()}
