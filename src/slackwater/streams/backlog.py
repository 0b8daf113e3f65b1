"""Backlog of a query on its source table, and the query's state in its sink table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from slackwater.errors import VersionNotFound
from slackwater.log.files.managed_log import read_commits
from slackwater.protocol.actions.actions import parse_commit
from slackwater.scan.snapshot import Snapshot
from slackwater.streams.checkpoint import StreamCheckpoint
from slackwater.streams.offsets import BASE_INDEX, SourceOffset
from slackwater.streams.options import StreamOptions
from slackwater.streams.version_files import VersionFiles, appended_files, snapshot_files

# Counts changed and appended rows, because the options of the stream are not in the checkpoint.
_ALL = StreamOptions(ignore_changes=True)
_READ_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class Backlog:
    """The part of a table after an offset: versions not read completely, and their added files.

    `newest` is the table's newest version. `lost` is the first required version missing from the log; lost files are
    not included. `is_ahead`: the offset is after the newest version, because the table was restored to an older
    version.
    """

    newest: int
    versions: int = 0
    files: int = 0
    size_bytes: int = 0
    lost: int | None = None
    is_ahead: bool = False


def backlog(snapshot: Snapshot, offset: SourceOffset) -> Backlog:
    """Return the part of the table not read by a stream at `offset`; `snapshot` is the newest version.

    Reads every remaining commit, and the initial snapshot if the stream has not completed it. Raises CorruptLog,
    StorageError.
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
    """Yield each version from `offset` on, its files (None if not in the log), and the last read index."""
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
    """Yield the versions from `start` on with the files added by their commits. Reads many commits together."""
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
    """The batches of a query recorded in its sink table, compared with the query's checkpoint."""

    NOTHING = "nothing"
    """No batch: the query wrote none, or its sink does not record batches in the table's log."""
    IN_STEP = "in step"
    """The last completed batch is the newest one in the table."""
    HAS_NEXT = "has the next batch"
    """The table has the batch repeated by the next start, and the sink skips it."""
    BEHIND = "behind"
    """A completed batch is missing: the table was restored to an older version or recreated, and lacks rows."""
    AHEAD = "ahead"
    """The table has batches not planned in the checkpoint, which was set back. Their new rows would be skipped."""


def sink_state(checkpoint: StreamCheckpoint, held: int | None) -> SinkState:
    """Return the state of a table with `held` as the last batch of the query in its log."""
    if held is None:
        return SinkState.NOTHING
    if held == checkpoint.repeats:
        return SinkState.HAS_NEXT
    if held >= checkpoint.next_batch:
        return SinkState.AHEAD
    done = -1 if checkpoint.done is None else checkpoint.done.number
    return SinkState.IN_STEP if held == done else SinkState.BEHIND
