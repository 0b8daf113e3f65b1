"""Histograms of a version checksum: bins, changes, and the form in JSON."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.log.files.file_histograms import SIZE_BINS, DeletedRows, FileSizeHistogram

SIZES = st.lists(st.integers(0, 2**41), max_size=30)
ROWS = st.lists(st.none() | st.integers(1, 2**33), max_size=30)


def test_the_bins_are_those_of_delta_spark() -> None:
    assert len(SIZE_BINS) == 95
    assert list(SIZE_BINS) == sorted(set(SIZE_BINS))
    assert (SIZE_BINS[0], SIZE_BINS[1], SIZE_BINS[-1]) == (0, 8192, 256 * 1024**3)
    for size_mb in (4, 8, 40, 48, 120, 124, 144, 160, 576, 640, 1408, 1536, 2048, 2304, 3840, 4096):
        assert size_mb * 1024**2 in SIZE_BINS


def test_a_size_at_a_boundary_is_in_the_bin_above() -> None:
    counts = FileSizeHistogram.of([0, 8191, 8192, 2**60]).file_counts
    assert (counts[0], counts[1], counts[-1]) == (2, 1, 1)


@given(sizes=SIZES)
def test_each_file_is_in_the_bin_of_its_size(sizes: list[int]) -> None:
    found = FileSizeHistogram.of(sizes)
    assert found == FileSizeHistogram.of(pa.chunked_array([pa.array(sizes, pa.int64())]))
    for at, (count, total) in enumerate(zip(found.file_counts, found.total_bytes, strict=True)):
        inside = [size for size in sizes if bisect_right(SIZE_BINS, size) - 1 == at]
        assert (count, total) == (len(inside), sum(inside))


@given(before=SIZES, added=SIZES, data=st.data())
def test_a_changed_histogram_is_that_of_the_files_left(
    before: list[int], added: list[int], data: st.DataObject
) -> None:
    removed = before[: data.draw(st.integers(0, len(before)))]
    left = before[len(removed) :] + added
    assert FileSizeHistogram.of(before).changed(added, removed) == FileSizeHistogram.of(left)


@given(before=ROWS, added=ROWS, data=st.data())
def test_changed_totals_of_deleted_rows_are_those_of_the_files_left(
    before: list[int | None], added: list[int | None], data: st.DataObject
) -> None:
    removed = before[: data.draw(st.integers(0, len(before)))]
    assert DeletedRows.of(before).changed(added, removed) == DeletedRows.of(before[len(removed) :] + added)


def test_a_file_that_is_not_counted_cannot_be_removed() -> None:
    assert FileSizeHistogram.of([5]).changed([], [6]) is None
    assert DeletedRows.of([3]).changed([], [4]) is None
    assert DeletedRows(None, 0, None).changed([], [4]) is None


@pytest.mark.parametrize(
    ("rows", "at"),
    [(None, 0), (1, 1), (9, 1), (10, 2), (99, 2), (100, 3), (9_999_999, 7), (2**31 - 2, 8), (2**31 - 1, 9), (2**40, 9)],
)
def test_the_bins_of_deleted_rows_are_those_of_the_protocol(rows: int | None, at: int) -> None:
    counts = DeletedRows.of([rows]).file_counts
    assert counts is not None
    assert (len(counts), counts.index(1)) == (10, at)


def test_histograms_are_read_back() -> None:
    sizes = FileSizeHistogram.of([1, 2**40])
    assert FileSizeHistogram.from_json(sizes.to_json()) == sizes
    for rows in (DeletedRows.of([None, 3]), DeletedRows(1, None, None)):
        assert DeletedRows.from_json(rows.to_json()) == rows
    assert DeletedRows.from_json({}) is None


@pytest.mark.parametrize(
    "node",
    [
        None,
        {},
        [],
        {"sortedBinBoundaries": [0], "fileCounts": [1, 2], "totalBytes": [1]},
        {"sortedBinBoundaries": [1], "fileCounts": [1], "totalBytes": [1]},
        {"sortedBinBoundaries": [0, 5, 5], "fileCounts": [1, 1, 1], "totalBytes": [1, 1, 1]},
        {"sortedBinBoundaries": [0], "fileCounts": [-1], "totalBytes": [1]},
        {"sortedBinBoundaries": [0], "fileCounts": ["1"], "totalBytes": [1]},
    ],
)
def test_a_malformed_histogram_is_unknown(node: Any) -> None:
    assert FileSizeHistogram.from_json(node) is None
    assert DeletedRows.from_json({"deletedRecordCountsHistogramOpt": node, "numDeletedRecordsOpt": -1}) is None
