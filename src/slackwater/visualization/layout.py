"""File layout of a table: sizes, deleted rows, overlap of column ranges, and the expected effect of OPTIMIZE."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from slackwater.errors import InvalidArgument
from slackwater.html.number_format import short_bytes
from slackwater.html.redaction import without_secrets
from slackwater.log.files.file_actions import ADD_SCHEMA
from slackwater.maintenance.layout.optimize_estimate import ExpectedOptimize, expected_optimize
from slackwater.maintenance.layout.z_cubes import clustering_paths
from slackwater.predicate.columns import resolve_column
from slackwater.protocol.schema.column_paths import format_column_path, parse_column_path
from slackwater.protocol.schema.schema import ColumnPath, walk_fields
from slackwater.scan.snapshot import Snapshot
from slackwater.stats.file_stats import ColumnStats, StatsColumns, record_counts
from slackwater.visualization.range_overlap import Overlap, overlap_of

SMALL_BYTES = 16 << 20
"""Files below this size cost more to open than to read."""

_MOST_COLUMNS = 8
_LEAST_BIN = 10
"""Sizes below a kibibyte share one bin."""


@dataclass(frozen=True, slots=True)
class SizeBin:
    """The number and total bytes of files from `low_bytes` (inclusive) to `high_bytes` (exclusive)."""

    low_bytes: int
    high_bytes: int
    files: int
    bytes: int

    @property
    def label(self) -> str:
        """`16 – 32 MiB`."""
        low, high = short_bytes(self.low_bytes), short_bytes(self.high_bytes)
        if not self.low_bytes:
            return f"below {_whole(high)}"
        return f"{_whole(low)} – {_whole(high)}"


@dataclass(frozen=True, slots=True)
class Layout:
    """The files of one table version. `rows` are physical rows, None if any file lacks the statistics.

    `deleted_rows` are marked deleted by the vectors of `files_with_vectors` files. `small_files` are below SMALL_BYTES.
    `sizes` is the histogram of sizes in powers of two.
    """

    title: str
    place: str
    version: int
    files: int
    bytes: int
    rows: int | None
    median_bytes: int
    small_files: int
    files_with_vectors: int
    deleted_rows: int
    sizes: Sequence[SizeBin]
    columns: Sequence[Overlap]
    optimize: ExpectedOptimize
    has_more_columns: bool = False

    @property
    def deleted_share(self) -> float | None:
        """The fraction of rows marked deleted by vectors, 0 to 1."""
        return self.deleted_rows / self.rows if self.rows else (0.0 if not self.deleted_rows else None)

    def record(self) -> dict[str, Any]:
        """Return the layout as JSON. Sizes are bytes, shares are from 0 to 1."""
        optimize = self.optimize
        return {
            "title": self.title,
            "location": self.place,
            "version": self.version,
            "numFiles": self.files,
            "sizeInBytes": self.bytes,
            "numRecords": self.rows,
            "medianBytes": self.median_bytes,
            "smallFiles": self.small_files,
            "smallBytes": SMALL_BYTES,
            "filesWithVectors": self.files_with_vectors,
            "deletedRows": self.deleted_rows,
            "deletedShare": self.deleted_share,
            "sizes": [
                {"lowBytes": each.low_bytes, "highBytes": each.high_bytes, "files": each.files, "bytes": each.bytes}
                for each in self.sizes
            ],
            "columns": [
                {
                    "column": each.column,
                    "meanDepth": round(each.mean_depth, 3),
                    "maxDepth": each.max_depth,
                    "lookUpFiles": round(each.look_up_files, 3),
                    "filesWithoutStatistics": each.unknown,
                    "filesOfNulls": each.empty,
                }
                for each in self.columns
            ],
            "optimize": {
                "filesBefore": optimize.files_before,
                "filesAfter": optimize.files_after,
                "filesRewritten": optimize.rewritten,
                "bytesRewritten": optimize.rewritten_bytes,
                "filesWritten": optimize.written,
                "isClustered": optimize.is_clustered,
            },
        }


def layout_of(snapshot: Snapshot, by: Sequence[str] | None = None) -> Layout:
    """Return the layout of `snapshot`, with the overlap of the columns `by`, or of the most informative columns.

    The default columns are partition columns, clustering columns and the first others with statistics, at most eight.
    Memory O(files). Raises InvalidArgument if a column does not exist, CorruptTable, CorruptCheckpoint.
    """
    files = snapshot.live_files(ADD_SCHEMA.names)
    sizes: list[int] = files["size"].to_pylist()
    rows: list[int | None] = record_counts(files).to_pylist()
    vectors = [vector for vector in files["deletionVector"].to_pylist() if vector is not None]
    columns, has_more = _overlaps(snapshot, StatsColumns(
        files, snapshot.schema, snapshot.metadata.partition_columns, snapshot.physical_paths
    ), rows, by)  # fmt: skip
    place = without_secrets(snapshot.store.root_url)
    return Layout(
        title=snapshot.metadata.name or place.rstrip("/").rsplit("/", 1)[-1],
        place=place,
        version=snapshot.version,
        files=len(sizes),
        bytes=sum(sizes),
        rows=None if None in rows else sum(found for found in rows if found is not None),
        median_bytes=int(statistics.median(sizes)) if sizes else 0,
        small_files=sum(size < SMALL_BYTES for size in sizes),
        files_with_vectors=len(vectors),
        deleted_rows=sum(vector["cardinality"] for vector in vectors),
        sizes=_histogram(sizes),
        columns=columns,
        optimize=expected_optimize(snapshot, files),
        has_more_columns=has_more,
    )


def _overlaps(
    snapshot: Snapshot, stats: StatsColumns, rows: Sequence[int | None], by: Sequence[str] | None
) -> tuple[list[Overlap], bool]:
    if by is not None:
        paths = [_path(snapshot, name) for name in by]
        return [overlap_of(format_column_path(path), _told(snapshot, stats, path), rows) for path in paths], False
    found: list[Overlap] = []
    for path in _likely(snapshot):
        told = stats.column(path)
        if told is None or told.min.null_count == len(told.min):
            continue
        if len(found) == _MOST_COLUMNS:
            return found, True
        found.append(overlap_of(format_column_path(path), told, rows))
    return found, False


def _path(snapshot: Snapshot, name: str) -> ColumnPath:
    path: ColumnPath = resolve_column(snapshot.schema, parse_column_path(name)).path
    return path


def _told(snapshot: Snapshot, stats: StatsColumns, path: ColumnPath) -> ColumnStats:
    told = stats.column(path)
    if told is None:
        raise InvalidArgument(
            f"{snapshot.store.root_url}: {format_column_path(path)} has no order. Name a column, or a field of a "
            "struct, of numbers, texts or times"
        )
    return told


def _likely(snapshot: Snapshot) -> Iterator[ColumnPath]:
    """Yield the columns likely used by filters, the likeliest first."""
    first = [(name,) for name in snapshot.metadata.partition_columns] + clustering_paths(snapshot)
    others = [path for path, _ in walk_fields(snapshot.schema)]
    yield from dict.fromkeys([*first, *others])


def _histogram(sizes: Sequence[int]) -> list[SizeBin]:
    """Return bins of doubling sizes, from the least to the greatest used bin, including empty bins between."""
    counts: Counter[int] = Counter()
    totals: Counter[int] = Counter()
    for size in sizes:
        number = max(size.bit_length(), _LEAST_BIN)
        counts[number] += 1
        totals[number] += size
    if not counts:
        return []
    return [
        SizeBin(0 if number == _LEAST_BIN else 1 << (number - 1), 1 << number, counts[number], totals[number])
        for number in range(min(counts), max(counts) + 1)
    ]


def _whole(size: str) -> str:
    """`16 MiB` of `16.0 MiB`."""
    return size.replace(".0 ", " ")
