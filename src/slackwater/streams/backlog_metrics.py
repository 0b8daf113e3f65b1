"""The files that a running stream has still to read, and their bytes, known without looking at the table once more.

Source: the backlog metrics of Delta sources on Databricks, whose names these are; delta-spark's source has none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slackwater.log.segment import CommitFile, LogListing
from slackwater.streams.offsets import BASE_INDEX
from slackwater.streams.version_files import VersionFiles

_FILES, _BYTES = "numFilesOutstanding", "numBytesOutstanding"
# A micro-batch waits for it: it is to cost much less than to plan one.
_MOST_COMMITS, _MOST_BYTES = 256, 4 * 1024**2


@dataclass(frozen=True, slots=True)
class Outstanding:
    """What a micro-batch leaves to those after it, of files that the stream's options let it read."""

    files: int = 0
    size_bytes: int = 0

    def __add__(self, other: Outstanding) -> Outstanding:
        return Outstanding(self.files + other.files, self.size_bytes + other.size_bytes)

    def __sub__(self, other: Outstanding) -> Outstanding:
        return Outstanding(self.files - other.files, self.size_bytes - other.size_bytes)

    @staticmethod
    def of(found: VersionFiles, after: int) -> Outstanding:
        """The files of a version behind the index `after`."""
        counts, sizes = found.counts[after + 1 :], found.sizes[after + 1 :]
        return Outstanding(int(np.count_nonzero(counts)), int(np.sum(sizes if counts.all() else sizes[counts])))

    def metrics(self) -> dict[str, str]:
        """As a progress report has it."""
        return {_FILES: str(self.files), _BYTES: str(self.size_bytes)}

    @staticmethod
    def of_metrics(told: Mapping[str, Any] | None) -> Outstanding | None:
        """What a progress report says, None where it says nothing of it."""
        try:
            return Outstanding(int((told or {})[_FILES]), int((told or {})[_BYTES]))
        except (KeyError, TypeError, ValueError):
            return None


class CommitsAhead:
    """What the commits ahead of a stream add up to, each of them read once, and only so many at a time."""

    def __init__(self) -> None:
        self._counted: deque[Outstanding] = deque()
        self._first = 0
        self._total = Outstanding()

    def outstanding(
        self,
        first: int,
        newest: int,
        listing: LogListing,
        read: Callable[[Sequence[CommitFile]], Iterator[VersionFiles]],
    ) -> Outstanding | None:
        """The files of the versions from `first` to `newest`; None while there are commits that were not looked at.

        `listing` has them, but for those that are gone, and `read` gives the files of some of them. Of a commit that is
        too large to be read ahead nothing is known until the stream has come to it.
        """
        self._go_on(first, newest)
        start = first + len(self._counted)
        end, there = _within_bounds(start, newest, listing)
        found = {each.version: Outstanding.of(each, BASE_INDEX) for each in read(there)}
        for version in range(start, end):
            self._append(found.get(version, Outstanding()))
        return self._total if end > newest else None

    def _go_on(self, first: int, newest: int) -> None:
        while self._counted and self._first < first:
            self._total -= self._counted.popleft()
            self._first += 1
        if not self._counted or self._first != first or first + len(self._counted) > newest + 1:
            self._counted.clear()
            self._first, self._total = first, Outstanding()

    def _append(self, found: Outstanding) -> None:
        self._counted.append(found)
        self._total += found


def _within_bounds(start: int, newest: int, listing: LogListing) -> tuple[int, list[CommitFile]]:
    """The version up to which commits from `start` on may be read at once, and those of them that are there."""
    there: list[CommitFile] = []
    left = _MOST_BYTES
    for version in range(start, min(start + _MOST_COMMITS, newest + 1)):
        file = listing.commits.get(version)
        if file is not None:
            left -= file.size_bytes
            if left < 0:
                return version, there
            there.append(file)
    return start + min(_MOST_COMMITS, newest + 1 - start), there
