"""Backlog metrics of a running stream: files and bytes not read yet, computed without another listing of the table.

Source: the backlog metrics of Delta sources on Databricks, with the same names. delta-spark's source has no such
metrics.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slackwater.log.files.segment import CommitFile, LogListing
from slackwater.streams.offsets import BASE_INDEX
from slackwater.streams.version_files import VersionFiles

_FILES, _BYTES = "numFilesOutstanding", "numBytesOutstanding"
# Limits per call, because a micro-batch waits for the metrics.
_MOST_COMMITS, _MOST_BYTES = 256, 4 * 1024**2


@dataclass(frozen=True, slots=True)
class Outstanding:
    """Files and bytes left for later micro-batches, limited to files selected by the stream's options."""

    files: int = 0
    size_bytes: int = 0

    def __add__(self, other: Outstanding) -> Outstanding:
        return Outstanding(self.files + other.files, self.size_bytes + other.size_bytes)

    def __sub__(self, other: Outstanding) -> Outstanding:
        return Outstanding(self.files - other.files, self.size_bytes - other.size_bytes)

    @staticmethod
    def of(found: VersionFiles, after: int) -> Outstanding:
        """Return the files of a version after the index `after`."""
        counts, sizes = found.counts[after + 1 :], found.sizes[after + 1 :]
        return Outstanding(int(np.count_nonzero(counts)), int(np.sum(sizes if counts.all() else sizes[counts])))

    def metrics(self) -> dict[str, str]:
        """Return the metrics for a progress report."""
        return {_FILES: str(self.files), _BYTES: str(self.size_bytes)}

    @staticmethod
    def of_metrics(told: Mapping[str, Any] | None) -> Outstanding | None:
        """Return the metrics from a progress report, None if absent."""
        try:
            return Outstanding(int((told or {})[_FILES]), int((told or {})[_BYTES]))
        except (KeyError, TypeError, ValueError):
            return None


class CommitsAhead:
    """Totals of the commits ahead of a stream. Each commit is read once, with a limit per call."""

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
        """Return the files of the versions from `first` to `newest`, None while some commits are not read yet.

        `listing` has the commits; missing commits add nothing. `read` returns the files of some commits. A commit too
        large to be read ahead stays unknown until the stream has passed it.
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
    """Return the exclusive end of the versions from `start` to read in one call, and their commits in the log."""
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
