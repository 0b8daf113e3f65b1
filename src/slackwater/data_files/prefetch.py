"""A Parquet file whose ranges that are about to be read are fetched together, but for one on a disk."""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from typing import Any

from slackwater.storage.parquet_footer import RowGroup
from slackwater.storage.range_reader import RangeReader
from slackwater.storage.store import ObjectStore

Range = tuple[int, int]
Parts = list[tuple[int, bytes]]
"""Bytes by where they start in the object, in order."""

# Between two ranges that go by one request: as much as is read in the time of another one.
_MOST_GAP_BYTES = 1 << 20
# Some writers of old counted a chunk without the header of its dictionary.
_MARGIN_BYTES = 128
_TAIL_BYTES = 64 * 1024
# Of a small file all is read at once: that takes less time than a second request.
_SMALL_FILE_BYTES = 1 << 20


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


class PrefetchedFile(RangeReader):
    """An object of which what was fetched comes from memory, its end first, and all else by a request of its own."""

    def __init__(self, store: ObjectStore, path: str, size_bytes: int) -> None:
        super().__init__(store, path, size_bytes)
        length = size_bytes if size_bytes <= _SMALL_FILE_BYTES else _TAIL_BYTES
        self._end: Parts = []
        self._held: Parts = []
        self._end = self.fetch([(size_bytes - length, length)] if length else [])

    def fetch(self, ranges: Iterable[Range]) -> Parts:
        """These ranges of the object, for `reader`; those at its end are in memory already, and not among them."""
        missing = sorted(found for found in ranges if not self._has_end_from(found[0]))
        parts = self._store.read_ranges(self._path, missing) if missing else []
        return [(start, part) for (start, _), part in zip(missing, parts, strict=True)]

    def reader(self, parts: Parts) -> Any:
        """What pyarrow reads the object from, with these parts in memory too; for one thread, others have their own."""
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
    """As `PrefetchedFile`, of which nothing is fetched before it is read: a disk answers at once.

    What is read goes straight into Arrow's own memory. Raises ObjectNotFound.
    """

    def __init__(self, store: ObjectStore, path: str) -> None:
        self._file = store.open_file(path)

    def size(self) -> int:
        """The file's size in bytes."""
        size: int = self._file.size()
        return size

    def seek(self, offset: int) -> None:
        """Go to byte `offset`."""
        self._file.seek(offset)

    def read(self, size: int) -> bytes:
        """As many bytes from where it stands, fewer at the end."""
        data: bytes = self._file.read(size)
        return data

    def fetch(self, _ranges: Iterable[Range]) -> Parts:
        """Nothing."""
        return []

    def reader(self, _parts: Parts) -> Any:
        """What pyarrow reads the file from, in any number of threads."""
        return self._file
