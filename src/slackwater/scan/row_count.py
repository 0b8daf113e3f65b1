"""How many rows a version has, by what the log says of its files where it says so of all."""

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
    """A number of rows; `by_statistics` where no data file was opened for it."""

    rows: int
    by_statistics: bool


def count_rows(snapshot: Snapshot, where: str | Predicate | None = None) -> RowCount:
    """The rows of `snapshot`, with `where` those for which it is true.

    Statistics count the rows of a file exactly, and its deletion vector the deleted ones: without `where` no file is
    opened where all have statistics, and of files without only their footers. Raises as `Snapshot.to_arrow`.
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
