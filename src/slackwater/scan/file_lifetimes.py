"""Lifetimes of row positions in data files, derived from the log alone.

An `add` starts and a `remove` ends the lifetime of a file. Deletion vectors hide rows in between. Therefore the rows of
a file fall into few classes, each with its own intervals of commit time. Source: paper §1 (transaction-time relations);
delta-protocol.md "Add File and Remove File", "Deletion Vectors", "Row Tracking", "In-Commit Timestamps".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyroaring import BitMap64

from slackwater.errors import (
    CorruptLog,
    CorruptTable,
    ObjectNotFound,
    TimestampOutOfRange,
    VersionNotFound,
)
from slackwater.log.files.commits import ParsedCommit, parsed_commit
from slackwater.log.files.managed_log import read_commits
from slackwater.log.files.reconciliation import file_key
from slackwater.log.files.segment import CommitFile
from slackwater.protocol.actions.paths import canonical_path
from slackwater.protocol.properties.properties import (
    ENABLE_ROW_TRACKING,
)
from slackwater.scan.deletion_vectors import load_deletion_vectors
from slackwater.scan.history_coverage import (
    ASKED,
    HistoryCoverage,
    followed_from,
    not_covered,
    oldest_version,
    require_enabled,
)
from slackwater.scan.snapshot import Snapshot

FOREVER_MS = 2**63 - 1
"""The end of intervals of current rows."""

Intervals = tuple[tuple[int, int], ...]
"""Half-open `[start, end)` in ms since the epoch, ascending and disjoint; FOREVER_MS ends a current interval."""

_BATCH = 256


@dataclass(frozen=True)
class FileLifetime:
    """A data file with the intervals during which its rows were part of the table.

    `intervals` apply to rows in none of `classes`. A class is a set of row indexes with its own intervals, empty for
    rows never visible. `may_continue`: a row may be in another file immediately before or after.
    """

    path: str
    partition_values: Sequence[tuple[str, str | None]]
    base_row_id: int
    default_row_commit_version: int
    intervals: Intervals
    classes: Sequence[tuple[BitMap64, Intervals]] = ()
    may_continue: bool = False

    @property
    def all_intervals(self) -> set[tuple[int, int]]:
        """The intervals of all rows."""
        return {i for intervals in (self.intervals, *(c[1] for c in self.classes)) for i in intervals}


def file_lifetimes(
    snapshot: Snapshot, since_ms: int | None = None, allow_outside_root: bool = False
) -> tuple[HistoryCoverage, list[FileLifetime]]:
    """Return the coverage and the lifetimes of all files up to `snapshot`, from `since_ms` on or as early as possible.

    A path occurs more than once only if its files differ in row ids. Memory O(files and commits of the range, and the
    deletion vectors of its files).

    Raises:
        OperationNotAllowed: If row tracking or in-commit timestamps are not enabled; names the property.
        TimestampOutOfRange: If `since_ms` is before the coverage.
        VersionNotFound: If the log is cleaned up concurrently.
        CorruptTable: If the log is corrupt.
    """
    require_enabled(snapshot)
    return _Covered.of(snapshot, since_ms).lifetimes(allow_outside_root)


@dataclass(frozen=True, slots=True)
class _State:
    """A file after one commit; `node` is None if the file is removed."""

    version: int
    node: Mapping[str, Any] | None


@dataclass(frozen=True)
class _Covered:
    base: Snapshot
    coverage: HistoryCoverage
    commits: Sequence[ParsedCommit]
    times: Mapping[int, int]

    @staticmethod
    def of(snapshot: Snapshot, since_ms: int | None) -> _Covered:
        listing = snapshot.table.list_log()
        first, reason = oldest_version(snapshot, listing)
        files = [listing.commits[v] for v in range(first, snapshot.version + 1)]
        commits = list(_parsed(snapshot, files))
        times = {commit.version: _timestamp_ms(commit) for commit in commits}
        base = snapshot if first == snapshot.version else Snapshot.open(snapshot.table, first)
        start, reason = followed_from(snapshot, base, commits, reason)
        if since_ms is not None:
            if since_ms < times[start]:
                raise _not_covered(snapshot, since_ms, HistoryCoverage(start, times[start], reason))
            asked = max(v for v, at in times.items() if v >= start and at <= since_ms)
            start, reason = (asked, ASKED) if asked > start else (start, reason)
        if start != first:
            base = snapshot if start == snapshot.version else Snapshot.open(snapshot.table, start)
        later = [commit for commit in commits if commit.version > start]
        return _Covered(base, HistoryCoverage(start, times[start], reason), later, times)

    def lifetimes(self, allow_outside_root: bool) -> tuple[HistoryCoverage, list[FileLifetime]]:
        tracks = self._tracks()
        periods = [period for track in tracks.values() for period in _periods(track)]
        described = [
            state.node["deletionVector"]
            for period in periods
            for state in period
            if state.node is not None and state.node.get("deletionVector")
        ]
        bitmaps = iter(load_deletion_vectors(self.base.store, described, allow_outside_root))
        found = [self._lifetime(period, bitmaps) for period in periods]
        begun = {start for lifetime in found for start, _ in lifetime.all_intervals}
        ended = {end for lifetime in found for _, end in lifetime.all_intervals}
        return self.coverage, [_linked(lifetime, begun, ended) for lifetime in found]

    def _tracks(self) -> dict[str, list[_State]]:
        """Return the states of every path, ascending."""
        tracks: dict[str, list[_State]] = defaultdict(list)
        columns = ["path", "partitionValues", "deletionVector", "baseRowId", "defaultRowCommitVersion"]
        for node in self.base.live_files(columns).to_pylist():
            tracks[canonical_path(node["path"])].append(_State(self.coverage.version, node))
        for commit in self.commits:
            # A new deletion vector is a remove and an add of the same path, so the add overrides the remove.
            touched: dict[str, Mapping[str, Any] | None] = {}
            for kind in ("remove", "add"):
                for node in _nodes(commit, kind):
                    path = canonical_path(node["path"])
                    live = tracks[path][-1].node if path in tracks else None
                    # A remove with another deletion vector names another logical file, so the live file stays.
                    if kind == "add" or live is None or file_key(live) == file_key(node):
                        touched[path] = node if kind == "add" else None
            for path, left in touched.items():
                tracks[path].append(_State(commit.version, left))
        return tracks

    def _lifetime(self, period: Sequence[_State], bitmaps: Iterable[BitMap64]) -> FileLifetime:
        """Return the lifetime of a file with one identity, from its states including removals. Raises CorruptTable."""
        vectors = iter(bitmaps)
        spans = _spans(period, self.times, vectors)
        node = period[0].node or {}
        where = f"{self.base.store.root_url}: the file {node.get('path')!r} of version {period[0].version}"
        base, version = node.get("baseRowId"), node.get("defaultRowCommitVersion")
        if not isinstance(base, int) or not isinstance(version, int):
            raise CorruptTable(f"{where} has no row ids, but {ENABLE_ROW_TRACKING} is true")
        values = node.get("partitionValues") or {}
        pairs = list(values.items()) if isinstance(values, Mapping) else list(values)
        untouched = _joined([(start, end) for start, end, _ in spans])
        classes = row_classes(spans)
        return FileLifetime(str(node["path"]), pairs, base, version, untouched, classes)


def _not_covered(snapshot: Snapshot, asked_ms: int, coverage: HistoryCoverage) -> TimestampOutOfRange:
    return TimestampOutOfRange(not_covered(snapshot.store.root_url, asked_ms, coverage))


def row_classes(spans: Sequence[tuple[int, int, BitMap64]]) -> list[tuple[BitMap64, Intervals]]:
    """Return classes of the rows hidden at some time: rows with equal intervals are in one class.

    `spans` has (start, end, hidden rows) of each period without a change of the file, ascending and disjoint. Each such
    row is in exactly one class. A row never visible has no intervals.
    """
    hidden = BitMap64()
    for _, _, vector in spans:
        hidden |= vector
    live: list[tuple[BitMap64, Intervals]] = [(hidden, ())] if hidden else []
    gone: list[tuple[BitMap64, Intervals]] = []
    before = BitMap64()
    for start, end, vector in spans:
        if not before.issubset(vector):
            # Some hidden rows are visible again.
            live, gone = [*live, *gone], []
        kept: list[tuple[BitMap64, Intervals]] = []
        for rows, intervals in live:
            if dying := rows & vector:
                gone.append((dying, intervals))
            if staying := rows - vector:
                kept.append((staying, _joined([*intervals, (start, end)])))
        live, before = kept, vector
    together: dict[Intervals, BitMap64] = {}
    for rows, intervals in (*live, *gone):
        together[intervals] = together[intervals] | rows if intervals in together else rows
    return [(rows, intervals) for intervals, rows in together.items()]


def _parsed(snapshot: Snapshot, files: Sequence[CommitFile]) -> Iterable[ParsedCommit]:
    store = snapshot.store
    for start in range(0, len(files), _BATCH):
        batch = files[start : start + _BATCH]
        try:
            contents = read_commits(store, batch)
        except ObjectNotFound as error:
            raise VersionNotFound(
                f"{store.root_url}: commits from version {batch[0].version} were cleaned up while the log was being "
                "read. Retry"
            ) from error
        for file, data in zip(batch, contents, strict=True):
            yield parsed_commit(store, file.version, data, file)


def _timestamp_ms(commit: ParsedCommit) -> int:
    value = commit.info.get("inCommitTimestamp")
    if not isinstance(value, int) or isinstance(value, bool):
        raise CorruptLog(
            f"{commit.where}: in-commit timestamps are enabled, but its commitInfo has no inCommitTimestamp (found "
            f"{value!r})",
            error_class="DELTA_MISSING_COMMIT_TIMESTAMP",
        )
    return value


_FIELDS: dict[str, type] = {
    "baseRowId": int,
    "defaultRowCommitVersion": int,
    "partitionValues": dict,
    "deletionVector": dict,
}


def _nodes(commit: ParsedCommit, kind: str) -> Iterable[Mapping[str, Any]]:
    for action in commit.actions:
        node = action.get(kind)
        if node is None:
            continue
        if not isinstance(node, dict) or not isinstance(node.get("path"), str):
            raise CorruptLog(f"{commit.where}: a file action must have a path, found {str(node)[:120]}")
        for name, wanted in _FIELDS.items():
            if node.get(name) is not None and not isinstance(node[name], wanted):
                raise CorruptLog(
                    f"{commit.where}: field {name} of a file action must be of type {wanted.__name__}, found "
                    f"{str(node[name])[:120]} for the path {node['path'][:200]!r}"
                )
        yield node


def _periods(states: Sequence[_State]) -> list[list[_State]]:
    """Return the states of one path grouped by row identity.

    A group starts with the file present and includes its removals. A file re-added without a change belongs to the same
    group. States of a group ascend.
    """
    by_identity: dict[Any, list[_State]] = {}
    current: list[_State] | None = None
    for state in states:
        if state.node is None:
            if current is not None and current[-1].node is not None:
                current.append(state)
            continue
        identity = (state.node.get("baseRowId"), state.node.get("defaultRowCommitVersion"))
        found = by_identity.setdefault(identity, [])
        if current is not None and current is not found and current[-1].node is not None:
            current.append(_State(state.version, None))
        found.append(state)
        current = found
    return list(by_identity.values())


def _spans(
    period: Sequence[_State], times: Mapping[int, int], vectors: Iterable[BitMap64]
) -> list[tuple[int, int, BitMap64]]:
    """Return (start, end, hidden rows) of each period without a change of the file."""
    ends = [*(times[state.version] for state in period[1:]), FOREVER_MS]
    spans = []
    supply = iter(vectors)
    for state, end in zip(period, ends, strict=True):
        if state.node is not None:
            hidden = next(supply) if state.node.get("deletionVector") else BitMap64()
            spans.append((times[state.version], end, hidden))
    return spans


def _joined(intervals: Sequence[tuple[int, int]]) -> Intervals:
    joined: list[tuple[int, int]] = []
    for start, end in intervals:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return tuple(joined)


def _linked(lifetime: FileLifetime, begun: set[int], ended: set[int]) -> FileLifetime:
    """Return `lifetime` with `may_continue` set if other files start or end at one of its boundaries."""
    intervals = lifetime.all_intervals
    may_continue = any(start in ended or end in begun for start, end in intervals)
    return replace(lifetime, may_continue=may_continue)
