"""What OPTIMIZE would do to a table, by the rules that it goes by; nothing is done.

Source: delta-spark's OPTIMIZE; delta-protocol.md "Writer Requirements for Clustered Table".
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from slackwater.log.file_actions import total_size
from slackwater.maintenance.layout.bin_packing import compaction, packing_of_table, parts_of
from slackwater.maintenance.layout.z_cubes import CubeRules, clustering_paths, to_cluster
from slackwater.protocol.schema.column_paths import format_column_path
from slackwater.scan.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ExpectedOptimize:
    """Of `files_before` live files, `rewritten` of `rewritten_bytes` would be written as `written` new ones.

    Of a table that `is_clustered` the rows would be put in order too, and the number of new files is about that many.
    """

    files_before: int
    rewritten: int
    rewritten_bytes: int
    written: int
    is_clustered: bool = False

    @property
    def files_after(self) -> int:
        """How many files there would be."""
        return self.files_before - self.rewritten + self.written


def expected_optimize(snapshot: Snapshot, files: pa.Table) -> ExpectedOptimize:
    """What OPTIMIZE would do to `files`, all live files of `snapshot` (columns of ADD_SCHEMA), as the table says.

    Settings of a session may want other sizes. Raises InvalidArgument for a size that is none, CorruptTable.
    """
    packing = packing_of_table(snapshot.properties)
    clustered_by = [format_column_path(path) for path in clustering_paths(snapshot)]
    if clustered_by:
        bins = to_cluster(files, CubeRules(clustered_by)).bins
        written = sum(parts_of(each, packing) for each in bins)
    else:
        bins = compaction(files, packing)
        written = len(bins)
    rewritten = sum(each.files.num_rows for each in bins)
    size = sum(total_size(each.files) for each in bins)
    return ExpectedOptimize(files.num_rows, rewritten, size, written, bool(clustered_by))
