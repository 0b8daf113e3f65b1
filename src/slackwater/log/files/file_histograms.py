"""Histograms of a version checksum: the sizes of files, and the numbers of deleted rows per file.

Source: the public protocol's "File Size Histogram Schema", "Deleted Record Counts Histogram Schema". The bins of sizes
are the default bins of delta-spark.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

_KB, _MB, _GB = 1024, 1024**2, 1024**3
SIZE_BINS = (
    0,
    *(size * _KB for size in (8, 16, 32, 64, 128, 256, 512)),
    *(size * _MB for size in (1, 2, 4)),
    *(size * _MB for size in range(8, 41, 4)),
    *(size * _MB for size in range(48, 121, 8)),
    *(size * _MB for size in range(124, 145, 4)),
    *(size * _MB for size in range(160, 577, 16)),
    *(size * _MB for size in range(640, 1409, 64)),
    *(size * _MB for size in range(1536, 2049, 128)),
    *(size * _MB for size in range(2304, 4097, 256)),
    *(size * _GB for size in (8, 16, 32, 64, 128, 256)),
)
"""The smallest size of each bin in bytes. The last bin has no upper bound."""
_ROW_BINS = (0, 1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 2**31 - 1)
_FEW = 1_000


@dataclass(frozen=True, slots=True)
class FileSizeHistogram:
    """Number of files and their bytes, by size.

    `bins` are the smallest sizes of the bins in bytes, ascending from 0.
    """

    bins: tuple[int, ...]
    file_counts: tuple[int, ...]
    total_bytes: tuple[int, ...]

    @staticmethod
    def of(sizes: Sequence[int] | pa.ChunkedArray, bins: tuple[int, ...] = SIZE_BINS) -> FileSizeHistogram:
        """Return the histogram of `sizes` in bytes, without nulls."""
        # A conversion by pyarrow imports pandas, which takes longer than the histogram of few files.
        if isinstance(sizes, pa.ChunkedArray) and len(sizes) <= _FEW:
            sizes = sizes.to_pylist()
        values = np.asarray(sizes, np.int64)
        at = np.maximum(np.searchsorted(np.asarray(bins, np.int64), values, side="right") - 1, 0)
        total = np.zeros(len(bins), np.int64)
        np.add.at(total, at, values)
        return FileSizeHistogram(bins, tuple(np.bincount(at, minlength=len(bins)).tolist()), tuple(total.tolist()))

    def changed(
        self, added: Sequence[int] | pa.ChunkedArray, removed: Sequence[int] | pa.ChunkedArray
    ) -> FileSizeHistogram | None:
        """Return the histogram after files of these sizes were added and removed, None if a removed file is missing."""
        more, less = FileSizeHistogram.of(added, self.bins), FileSizeHistogram.of(removed, self.bins)
        counts = _after(self.file_counts, more.file_counts, less.file_counts)
        total = _after(self.total_bytes, more.total_bytes, less.total_bytes)
        return None if counts is None or total is None else FileSizeHistogram(self.bins, counts, total)

    @staticmethod
    def from_json(node: Any) -> FileSizeHistogram | None:
        """Return the histogram in `node`, None if absent or malformed."""
        if not isinstance(node, Mapping):
            return None
        bins, counts, total = (_numbers(node.get(k)) for k in ("sortedBinBoundaries", "fileCounts", "totalBytes"))
        if bins is None or counts is None or total is None or not len(bins) == len(counts) == len(total):
            return None
        return FileSizeHistogram(bins, counts, total) if bins[:1] == (0,) and bins == tuple(sorted(set(bins))) else None

    def to_json(self) -> dict[str, list[int]]:
        """Return the histogram with the names of the protocol."""
        return {
            "sortedBinBoundaries": list(self.bins),
            "fileCounts": list(self.file_counts),
            "totalBytes": list(self.total_bytes),
        }


@dataclass(frozen=True, slots=True)
class DeletedRows:
    """Totals of deletion vectors: deleted rows, vectors, and the number of files in each of ten bins of deleted rows.

    A value is None if unknown.
    """

    num_rows: int | None
    num_vectors: int | None
    file_counts: tuple[int, ...] | None

    @staticmethod
    def of(cardinalities: Iterable[int | None]) -> DeletedRows:
        """Return the totals for files with these numbers of deleted rows, None for a file without a vector."""
        found = list(cardinalities)
        counts = [0] * len(_ROW_BINS)
        for cardinality in found:
            counts[bisect_right(_ROW_BINS, cardinality or 0) - 1] += 1
        vectors = [cardinality for cardinality in found if cardinality is not None]
        return DeletedRows(sum(vectors), len(vectors), tuple(counts))

    def changed(self, added: Iterable[int | None], removed: Iterable[int | None]) -> DeletedRows | None:
        """Return the totals after files were added and removed, see `of`. None if a removed file is missing."""
        more, less = DeletedRows.of(added), DeletedRows.of(removed)
        rows = None if self.num_rows is None else self.num_rows + (more.num_rows or 0) - (less.num_rows or 0)
        vectors = self.num_vectors
        vectors = None if vectors is None else vectors + (more.num_vectors or 0) - (less.num_vectors or 0)
        counts = self.file_counts
        if counts is not None:
            counts = _after(counts, more.file_counts or (), less.file_counts or ())
            if counts is None:
                return None
        return None if min(rows or 0, vectors or 0) < 0 else DeletedRows(rows, vectors, counts)

    @staticmethod
    def from_json(node: Mapping[str, Any]) -> DeletedRows | None:
        """Return the totals in a checksum file, None if it has none. Malformed values are unknown."""
        histogram = node.get("deletedRecordCountsHistogramOpt")
        counts = _numbers(histogram.get("deletedRecordCounts")) if isinstance(histogram, Mapping) else None
        rows, vectors = _number(node.get("numDeletedRecordsOpt")), _number(node.get("numDeletionVectorsOpt"))
        counts = counts if counts is not None and len(counts) == len(_ROW_BINS) else None
        is_absent = rows is None and vectors is None and counts is None
        return None if is_absent else DeletedRows(rows, vectors, counts)

    def to_json(self) -> dict[str, Any]:
        """Return the known totals with the names of the protocol."""
        counts = None if self.file_counts is None else {"deletedRecordCounts": list(self.file_counts)}
        fields = {
            "numDeletedRecordsOpt": self.num_rows,
            "numDeletionVectorsOpt": self.num_vectors,
            "deletedRecordCountsHistogramOpt": counts,
        }
        return {key: value for key, value in fields.items() if value is not None}


def deleted_rows(files: pa.Table) -> list[int | None]:
    """Return the number of deleted rows of each of `files` (column `deletionVector`), None without a vector."""
    import pyarrow.compute as pc

    vectors = files["deletionVector"]
    if vectors.null_count == len(vectors):
        return [None] * len(vectors)
    found: list[int | None] = pc.struct_field(vectors, "cardinality").to_pylist()
    return found


def _after(before: Sequence[int], more: Sequence[int], less: Sequence[int]) -> tuple[int, ...] | None:
    found = tuple(a + b - c for a, b, c in zip(before, more, less, strict=True))
    return None if min(found, default=0) < 0 else found


def _numbers(value: Any) -> tuple[int, ...] | None:
    if not isinstance(value, list) or not all(_number(each) is not None for each in value):
        return None
    return tuple(value)


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
