"""Prefetching Parquet source: fetches the ranges of a row group together, except from a local disk."""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from typing import Any

from slackwater.storage.parquet_footer import RowGroup
from slackwater.storage.range_reader import RangeReader
from slackwater.storage.store import ObjectStore

Range = tuple[int, int]
Parts = list[tuple[int, bytes]]
"""Bytes with their start offset in the object, in order."""

# Maximum gap between two ranges in one request: a larger gap takes longer to read than a second request.
_MOST_GAP_BYTES = 1 << 20
# Some old writers excluded the header of the dictionary from the size of a chunk.
_MARGIN_BYTES = 128
_TAIL_BYTES = 64 * 1024
# A small file is read completely, because this takes less time than a second request.
_SMALL_FILE_BYTES = 1 << 20


def ranges_of(group: RowGroup, leaves: Iterable[int], size_bytes: int) -> list[Range]:
    """Return the pages of leaf columns in a row group as (start, length). Adjacent ranges are merged."""
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


class PrefetchedFile(RangeReader):
    """An object with its end and fetched parts in memory. Any other read sends a request."""

    def __init__(self, store: ObjectStore, path: str, size_bytes: int) -> None:
        super().__init__(store, path, size_bytes)
        length = size_bytes if size_bytes <= _SMALL_FILE_BYTES else _TAIL_BYTES
        self._end: Parts = []
        self._held: Parts = []
        self._end = self.fetch([(size_bytes - length, length)] if length else [])

    def fetch(self, ranges: Iterable[Range]) -> Parts:
        """Fetch these ranges of the object for `reader`, except ranges in the end, which is in memory."""
        missing = sorted(found for found in ranges if not self._has_end_from(found[0]))
        parts = self._store.read_ranges(self._path, missing) if missing else []
        return [(start, part) for (start, _), part in zip(missing, parts, strict=True)]

    def reader(self, parts: Parts) -> Any:
        """Return a pyarrow source of the object with these parts in memory, for one thread only."""
        other = PrefetchedFile.__new__(PrefetchedFile)
        RangeReader.__init__(other, self._store, self._path, self._size)
        other._end, other._held = self._end, parts
        return other

    def _has_end_from(self, start: int) -> bool:
        return bool(self._end) and start >= self._end[0][0]

    def _bytes(self, start: int, length: int) -> Any:
        parts = self._end if self._has_end_from(start) else self._held
        at = bisect.bisect_right(parts, start, key=lambda found: found[0]) - 1
        if at >= 0:
            offset, part = start - parts[at][0], parts[at][1]
            if offset + length <= len(part):
                return part if not offset and length == len(part) else memoryview(part)[offset : offset + length]
        return super()._bytes(start, length)


class FileOnDisk:
    """A file on a local disk with the interface of `PrefetchedFile`, without prefetching.

    Reads go directly into Arrow's memory. Raises ObjectNotFound.
    """

    def __init__(self, store: ObjectStore, path: str) -> None:
        self._file = store.open_file(path)

    def size(self) -> int:
        """Return the file's size in bytes."""
        size: int = self._file.size()
        return size

    def seek(self, offset: int) -> None:
        """Set the position to byte `offset`."""
        self._file.seek(offset)

    def read(self, size: int) -> bytes:
        """Return `size` bytes from the current position, fewer at the end."""
        data: bytes = self._file.read(size)
        return data

    def fetch(self, _ranges: Iterable[Range]) -> Parts:
        """Fetch nothing."""
        return []

    def reader(self, _parts: Parts) -> Any:
        """Return a pyarrow source of the file, for any number of threads."""
        return self._file
