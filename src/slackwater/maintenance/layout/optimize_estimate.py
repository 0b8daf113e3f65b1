"""Estimates the effect of OPTIMIZE on a table, without changes.

Source: delta-spark's OPTIMIZE; delta-protocol.md "Writer Requirements for Clustered Table".
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from slackwater.log.files.file_actions import total_size
from slackwater.maintenance.layout.bin_packing import (
    BinPackingOptions,
    compaction,
    in_crowded_partitions,
    packing_of_table,
    parts_of,
)
from slackwater.maintenance.layout.z_cubes import CubeRules, clustering_paths, to_cluster
from slackwater.protocol.schema.column_paths import format_column_path
from slackwater.scan.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ExpectedOptimize:
    """Estimate: OPTIMIZE would rewrite `rewritten` of `files_before` live files as `written` new files.

    The rewritten files have `rewritten_bytes`. In a clustered table (`is_clustered`) rows are also reordered, and
    `written` is approximate.
    """

    files_before: int
    rewritten: int
    rewritten_bytes: int
    written: int
    is_clustered: bool = False

    @property
    def files_after(self) -> int:
        """The number of live files after OPTIMIZE."""
        return self.files_before - self.rewritten + self.written


def expected_optimize(
    snapshot: Snapshot, files: pa.Table, packing: BinPackingOptions | None = None, least_files: int = 0
) -> ExpectedOptimize:
    """Return the estimate for `files`, all live files of `snapshot` (columns of ADD_SCHEMA).

    `packing` is the session's target size, None for the table's. Partitions with fewer than `least_files` files to
    rewrite are left out, and so is a clustered table. Raises InvalidArgument for an invalid size, CorruptTable.
    """
    packing = packing or packing_of_table(snapshot.properties)
    clustered_by = [format_column_path(path) for path in clustering_paths(snapshot)]
    if clustered_by:
        bins = to_cluster(files, CubeRules(clustered_by)).bins
        if sum(each.files.num_rows for each in bins) < least_files:
            bins = []
        written = sum(parts_of(each, packing) for each in bins)
    else:
        bins = in_crowded_partitions(compaction(files, packing), least_files)
        written = len(bins)
    rewritten = sum(each.files.num_rows for each in bins)
    size = sum(total_size(each.files) for each in bins)
    return ExpectedOptimize(files.num_rows, rewritten, size, written, bool(clustered_by))
