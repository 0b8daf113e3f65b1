"""How far a query is behind the table that it reads, and what the table that it writes has of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from slackwater.errors import VersionNotFound
from slackwater.log.managed_log import read_commits
from slackwater.protocol.actions.actions import parse_commit
from slackwater.scan.snapshot import Snapshot
from slackwater.streams.checkpoint import StreamCheckpoint
from slackwater.streams.offsets import BASE_INDEX, SourceOffset
from slackwater.streams.options import StreamOptions
from slackwater.streams.version_files import VersionFiles, appended_files, snapshot_files

# Rows that were changed are counted with those that were appended: which commits a stream lets pass its options say,
# and no checkpoint has these.
_ALL = StreamOptions(ignore_changes=True)
_READ_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Backlog:
    """What of a table is after an offset: versions that are not read, or not all of them, and the files they added.

    `newest` is the table's newest version. `lost` is the first version that the stream needs and the log does not have
    any more; what was lost is not counted. `is_ahead`: the offset is behind the table's end, which was set back.
    """

    newest: int
    versions: int = 0
    files: int = 0
    size_bytes: int = 0
    lost: int | None = None
    is_ahead: bool = False


def backlog(snapshot: Snapshot, offset: SourceOffset) -> Backlog:
    """What of the table, whose newest version `snapshot` is, a stream at `offset` has not read.

    Every commit that is left is read, and the snapshot that the stream is amid. Raises CorruptLog, StorageError.
    """
    newest = snapshot.version
    if offset.version > newest + 1:
        return Backlog(newest, is_ahead=True)
    versions = files = size_bytes = 0
    lost: int | None = None
    for version, found, after in _left(snapshot, offset):
        if found is None:
            lost = version if lost is None else lost
            versions += 1
        elif after < len(found) - 1 or after == BASE_INDEX:
            versions += 1
            sizes = found.sizes[after + 1 :]
            files += len(sizes)
            size_bytes += int(np.sum(sizes))
    return Backlog(newest, versions, files, size_bytes, lost)


def _left(snapshot: Snapshot, offset: SourceOffset) -> Iterator[tuple[int, VersionFiles | None, int]]:
    """Each version from `offset` on, its files, None where they are gone, and the index up to which they are read."""
    version, index = offset.version, offset.index
    if offset.is_initial:
        yield version, _initial(snapshot, offset), index
        version, index = version + 1, BASE_INDEX
    for each, found in _commits(snapshot, version):
        yield each, found, index if each == version else BASE_INDEX


def _initial(snapshot: Snapshot, offset: SourceOffset) -> VersionFiles | None:
    asked = replace(_ALL, event_time=offset.ordered_by)
    try:
        return snapshot_files(Snapshot.open(snapshot.table, offset.version), asked, ["size"])
    except VersionNotFound:
        return None


def _commits(snapshot: Snapshot, start: int) -> Iterator[tuple[int, VersionFiles | None]]:
    """The versions from `start` on with the files that their commits added, many of them read at once."""
    listing = snapshot.table.list_log(start)
    for first in range(start, snapshot.version + 1, _READ_AT_ONCE):
        versions = range(first, min(first + _READ_AT_ONCE, snapshot.version + 1))
        there = [listing.commits[version] for version in versions if version in listing.commits]
        found: dict[int, VersionFiles] = {}
        for file, data in zip(there, read_commits(snapshot.store, there), strict=True):
            where = f"{snapshot.table.root_url}/{file.path}"
            found[file.version] = appended_files(parse_commit(data, where), file.version, where, _ALL)
        for version in versions:
            yield version, found.get(version)


class SinkState(Enum):
    """What the table that a query writes to has of it, against the query's checkpoint."""

    NOTHING = "nothing"
    """No batch of the query: none was written, or not by a sink that says so in the table's log."""
    IN_STEP = "in step"
    """The last batch that was done, and none after it."""
    HAS_NEXT = "has the next batch"
    """The batch that the next start runs again: it is skipped there."""
    BEHIND = "behind"
    """Less than what was done: the table was set back, or made anew; its rows are missing."""
    AHEAD = "ahead"
    """Batches that the checkpoint has not planned: it was set back, and new rows of these batches would be skipped."""


def sink_state(checkpoint: StreamCheckpoint, held: int | None) -> SinkState:
    """Where a table stands whose log has `held` as the last batch of the query."""
    if held is None:
        return SinkState.NOTHING
    if held == checkpoint.repeats:
        return SinkState.HAS_NEXT
    if held >= checkpoint.next_batch:
        return SinkState.AHEAD
    done = -1 if checkpoint.done is None else checkpoint.done.number
    return SinkState.IN_STEP if held == done else SinkState.BEHIND
