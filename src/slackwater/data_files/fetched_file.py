"""A Parquet file in a store, of which the ranges that are about to be read are fetched together."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from typing import Any

from slackwater.storage.parquet_footer import RowGroup
from slackwater.storage.range_reader import RangeReader
from slackwater.storage.store import ObjectStore

Range = tuple[int, int]

# Between two ranges that go by one request: as much as is read in the time of another one.
_MOST_GAP_BYTES = 1 << 20
# Some writers of old counted a chunk without the header of its dictionary.
_MARGIN_BYTES = 128
_TAIL_BYTES = 64 * 1024


def ranges_of(group: RowGroup, leaves: Iterable[int], size_bytes: int) -> list[Range]:
    """Where the pages of some leaf columns of a row group are, as (start, length); near ones in one range."""
    chunks = sorted((group.columns[leaf].start, group.columns[leaf].stored_bytes) for leaf in leaves)
    merged: list[Range] = []
    for start, length in chunks:
        end = min(start + length + _MARGIN_BYTES, size_bytes)
        if start >= end:
            continue
        if merged and start - sum(merged[-1]) <= _MOST_GAP_BYTES:
            merged[-1] = (merged[-1][0], max(end, sum(merged[-1])) - merged[-1][0])
        else:
            merged.append((start, end - start))
    return merged


class FetchedFile(RangeReader):
    """An object of which what was fetched comes from memory, its end first, and all else by a request of its own."""

    def __init__(self, store: ObjectStore, path: str, size_bytes: int) -> None:
        super().__init__(store, path, size_bytes)
        self._starts: list[int] = []
        self._parts: list[bytes] = []
        self.fetch([(max(0, size_bytes - _TAIL_BYTES), min(size_bytes, _TAIL_BYTES))])

    def fetch(self, ranges: Sequence[Range]) -> None:
        """Have these ranges in memory, in place of those before."""
        ordered = sorted(ranges)
        self._starts = [start for start, _ in ordered]
        self._parts = self._store.read_ranges(self._path, ordered) if ordered else []

    def _bytes(self, start: int, length: int) -> Any:
        at = bisect.bisect_right(self._starts, start) - 1
        if at >= 0:
            offset = start - self._starts[at]
            part = self._parts[at]
            if offset + length <= len(part):
                return part if not offset and length == len(part) else memoryview(part)[offset : offset + length]
        return super()._bytes(start, length)
