"""Row counts of a version, from file statistics if complete."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.predicate.predicate import Predicate
from slackwater.scan.snapshot import Snapshot
from slackwater.stats.file_stats import record_counts

_COLUMNS = ("deletionVector", "stats", "stats_parsed.numRecords")


@dataclass(frozen=True, slots=True)
class RowCount:
    """A number of rows. `by_statistics` is True if no data file was opened."""

    rows: int
    by_statistics: bool


def count_rows(snapshot: Snapshot, where: str | Predicate | None = None) -> RowCount:
    """Return the number of rows of `snapshot`, or of its rows for which `where` is true.

    Statistics give the exact number of rows in a file, and its deletion vector the number of deleted rows. Without
    `where`, no file is opened if all files have statistics. Otherwise only footers are read. Raises as
    `Snapshot.to_arrow`.
    """
    if where is None:
        files = snapshot.live_files(_COLUMNS)
        counts = record_counts(files)
        if not counts.null_count:
            deleted = pc.struct_field(files["deletionVector"], "cardinality")
            return RowCount(_sum(counts) - _sum(deleted), by_statistics=True)
    with snapshot.to_batches([], where) as batches:
        return RowCount(sum(batch.num_rows for batch in batches), by_statistics=False)


def _sum(numbers: pa.ChunkedArray | pa.Array) -> int:
    total: int | None = pc.sum(numbers).as_py()
    return total or 0
