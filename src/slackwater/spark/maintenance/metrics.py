"""Result of an OPTIMIZE: the columns of the returned frame, and the metrics in the table's history.

Source: delta-spark's OptimizeMetrics, with its names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from pyspark.sql import types as spark_types

from slackwater.protocol.actions.files import AddFile


def _struct(**fields: str | spark_types.DataType) -> spark_types.StructType:
    found = spark_types.StructType()
    for name, kind in fields.items():
        found = found.add(name, kind)
    return found


_SIZES = _struct(min="long", max="long", avg="double", totalFiles="long", totalSize="long")
_CUBE_FILES = _struct(num="long", size="long")
_CLUSTER_FILES = _struct(numFiles="long", size="long")
_Z_ORDER = _struct(
    strategyName="string",
    inputCubeFiles=_CUBE_FILES,
    inputOtherFiles=_CUBE_FILES,
    inputNumCubes="long",
    mergedFiles=_CUBE_FILES,
    numOutputCubes="long",
    mergedNumCubes="long",
)
_CLUSTERING = _struct(
    inputZCubeFiles=_CLUSTER_FILES,
    inputOtherFiles=_CLUSTER_FILES,
    inputNumZCubes="long",
    mergedFiles=_CLUSTER_FILES,
    numOutputZCubes="long",
)
_PARALLELISM = _struct(
    maxClusterActiveParallelism="long",
    minClusterActiveParallelism="long",
    maxSessionActiveParallelism="long",
    minSessionActiveParallelism="long",
)
METRICS = _struct(
    numFilesAdded="long",
    numFilesRemoved="long",
    filesAdded=_SIZES,
    filesRemoved=_SIZES,
    partitionsOptimized="long",
    zOrderStats=_Z_ORDER,
    clusteringStats=_CLUSTERING,
    numBins="long",
    numBatches="long",
    totalConsideredFiles="long",
    totalFilesSkipped="long",
    preserveInsertionOrder="boolean",
    numFilesSkippedToReduceWriteAmplification="long",
    numBytesSkippedToReduceWriteAmplification="long",
    startTimeMs="long",
    endTimeMs="long",
    totalClusterParallelism="long",
    totalScheduledTasks="long",
    autoCompactParallelismStats=_PARALLELISM,
    deletionVectorStats=_struct(numDeletionVectorsRemoved="long", numDeletionVectorRowsRemoved="long"),
    numTableColumns="long",
    numTableColumnsWithStats="long",
)
RESULT = _struct(path="string", metrics=METRICS)
"""The columns of the result: sizes in bytes, times in milliseconds since the epoch."""


@dataclass
class OptimizeMetrics:
    """The work done by an OPTIMIZE. The default values mean no work.

    `added` and `removed` are file sizes in bytes. `z_order` and `clustering` are the values of the result's structs,
    None if not applicable.
    """

    start_ms: int
    end_ms: int = 0
    added: Sequence[int] = ()
    removed: Sequence[int] = ()
    num_partitions: int = 0
    num_bins: int = 0
    num_considered: int = 0
    num_skipped: int = 0
    parallelism: int = 0
    num_vectors: int = 0
    num_vector_rows: int = 0
    num_columns: int = 0
    num_columns_with_stats: int = 0
    z_order: Mapping[str, Any] | None = None
    clustering: Mapping[str, Any] | None = None
    applied: Mapping[str, int] = field(default_factory=dict)

    def row(self, path: str) -> tuple[Any, ...]:
        """Return the single row of the result."""
        values = {
            "numFilesAdded": len(self.added),
            "numFilesRemoved": len(self.removed),
            "filesAdded": _sizes(self.added),
            "filesRemoved": _sizes(self.removed),
            "partitionsOptimized": self.num_partitions,
            "zOrderStats": self.z_order,
            "clusteringStats": self.clustering,
            "numBins": self.num_bins,
            "numBatches": int(bool(self.num_bins)),
            "totalConsideredFiles": self.num_considered,
            "totalFilesSkipped": self.num_skipped,
            "preserveInsertionOrder": self.z_order is None and self.clustering is None,
            "numFilesSkippedToReduceWriteAmplification": 0,
            "numBytesSkippedToReduceWriteAmplification": 0,
            "startTimeMs": self.start_ms,
            "endTimeMs": self.end_ms,
            "totalClusterParallelism": self.parallelism,
            "totalScheduledTasks": min(self.num_bins, self.parallelism),
            "autoCompactParallelismStats": None,
            "deletionVectorStats": {
                "numDeletionVectorsRemoved": self.num_vectors,
                "numDeletionVectorRowsRemoved": self.num_vector_rows,
            },
            "numTableColumns": self.num_columns,
            "numTableColumnsWithStats": self.num_columns_with_stats,
        }
        return path, _ordered(values, METRICS)

    def operation_metrics(self) -> dict[str, int]:
        """Return the metrics of the commit."""
        sizes = np.array(sorted(self.added), np.int64)
        spread = {}
        if len(sizes):
            quarters = {
                f"p{part}FileSize": int(sizes[min(len(sizes) * part // 100, len(sizes) - 1)]) for part in (25, 50, 75)
            }
            spread = {"minFileSize": int(sizes[0]), **quarters, "maxFileSize": int(sizes[-1])}
        return {
            "numAddedFiles": len(self.added),
            "numRemovedFiles": len(self.removed),
            "numAddedBytes": sum(self.added),
            "numRemovedBytes": sum(self.removed),
            **spread,
            "numDeletionVectorsRemoved": self.num_vectors,
        }


def sizes_of(adds: Sequence[AddFile]) -> list[int]:
    """Return the file sizes in bytes."""
    return [add.size for add in adds]


def _sizes(sizes: Sequence[int]) -> dict[str, Any]:
    total = sum(sizes)
    return {
        "min": min(sizes, default=None),
        "max": max(sizes, default=None),
        "avg": total / len(sizes) if sizes else 0.0,
        "totalFiles": len(sizes),
        "totalSize": total,
    }


def _ordered(values: Mapping[str, Any], schema: spark_types.StructType) -> tuple[Any, ...]:
    """Return the values in the order of the schema, with tuples for structs."""
    return tuple(
        _ordered(value, found.dataType)
        if isinstance(value := values.get(found.name), Mapping) and isinstance(found.dataType, spark_types.StructType)
        else value
        for found in schema.fields
    )
