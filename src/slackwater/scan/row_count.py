"""Row counts of a version and of its files, from file statistics."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.predicate.predicate import Predicate
from slackwater.protocol.actions.files import num_records_of
from slackwater.scan.public_snapshot import Snapshot
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
        files = snapshot.files(columns=_COLUMNS)
        counts = record_counts(files)
        if not counts.null_count:
            deleted = pc.struct_field(files["deletionVector"], "cardinality")
            return RowCount(_sum(counts) - _sum(deleted), by_statistics=True)
    with snapshot.to_batches([], where) as batches:
        return RowCount(sum(batch.num_rows for batch in batches), by_statistics=False)


def _sum(numbers: pa.ChunkedArray | pa.Array) -> int:
    total: int | None = pc.sum(numbers).as_py()
    return total or 0


def live_row_counts(files: pa.Table) -> dict[str, int | None]:
    """Return the number of live rows of each file by path, None if the log does not record it."""
    columns = zip(*(files[name].to_pylist() for name in ("path", "stats", "deletionVector")), strict=True)
    counts: dict[str, int | None] = {}
    for path, stats, vector in columns:
        physical = num_records_of(stats)
        counts[path] = None if physical is None else physical - (vector["cardinality"] if vector else 0)
    return counts


def rows_left(files: pa.Table, taken: Mapping[str, int | None]) -> int | None:
    """Return the number of live rows of `files` without the rows in `taken` (by path).

    None if the log does not record the number.
    """
    return total(None if n is None else n - (taken[path] or 0) for path, n in live_row_counts(files).items())


def total(counts: Iterable[int | None]) -> int | None:
    """Return the sum, None if one of `counts` is unknown."""
    found = list(counts)
    return None if None in found else sum(count or 0 for count in found)


def files_of(files: pa.Table, paths: Collection[str]) -> pa.Table:
    """Return the files with a path in `paths`."""
    return files.filter(pc.is_in(files["path"], value_set=pa.array(list(paths), pa.string())))
