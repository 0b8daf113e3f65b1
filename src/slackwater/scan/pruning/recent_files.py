"""Files and statistics of recently read versions, kept for the next query of the same version.

A session opens a table again for each query. Without them, each query decodes the checkpoint and parses the JSON
statistics of all files again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.log.files.segment import LogSegment
from slackwater.log.table import Table
from slackwater.predicate.predicate import Predicate, columns_of
from slackwater.protocol.actions.actions import Metadata
from slackwater.protocol.schema.schema import DataType, StructType
from slackwater.scan.pruning.file_pruning import MOST_AT_ONCE, PruneReport, PruneResult, about_partitions
from slackwater.stats.file_stats import ColumnStats, Path, StatsColumns
from slackwater.stats.skipping import may_match
from slackwater.storage.store import ObjectStore

FEWEST_FILES = 1_000
"""Versions with fewer files are not kept, because reading them is cheap."""
_MOST_BYTES = 128 << 20
# Statistics of all files are not parsed for a query whose partition values leave fewer than a quarter of them.
_WORTH_SHARE = 4


class PlannedVersion(Protocol):
    """A version whose files are planned: a `Snapshot`."""

    @property
    def store(self) -> ObjectStore: ...

    @property
    def table(self) -> Table: ...

    @property
    def segment(self) -> LogSegment: ...

    @property
    def metadata(self) -> Metadata: ...

    @property
    def schema(self) -> StructType: ...

    @property
    def physical_paths(self) -> Mapping[Path, Path]: ...

    @property
    def has_all_files(self) -> bool:
        """Whether `live_files` returns all files of the version."""
        ...

    def stats_columns(self, data_columns: Sequence[Path]) -> list[str]:
        """Return the columns of live files with the statistics of `data_columns`, for `live_files`."""
        ...

    def live_files(self, columns: Sequence[str]) -> pa.Table: ...


class RecentFiles:
    """The least recently used versions leave if all versions together have more than `most_bytes`. Thread-safe."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._versions: OrderedDict[Hashable, tuple[_VersionFiles, int]] = OrderedDict()
        self._lock = threading.Lock()

    def plan(
        self,
        snapshot: PlannedVersion,
        predicate: Predicate,
        columns: Sequence[str],
        zone: str,
        read: pa.Table | None = None,
    ) -> PruneResult | None:
        """Return the files of `snapshot` that may hold a match for `predicate`, with `columns`.

        None if the version is not known, or if partition values leave few files whose statistics are not known. Call
        again with `read`, the needed columns of all files: a version with many files is known from then on. Raises as
        `LogSnapshot.live_files`.
        """
        if snapshot.table.branch is not None or not snapshot.has_all_files:
            # Other changes of the transaction, or other parts, can have the same version.
            return None
        key, names = _key(snapshot), list(dict.fromkeys([*columns, "partitionValues", "path"]))
        with self._lock:
            known = self._versions.get(key)
        if read is None:
            found = None if known is None else known[0]
        else:
            is_new = known is None and read.num_rows >= FEWEST_FILES
            found = _VersionFiles(_without_stats(read)) if is_new else None
        if found is None or found.nbytes > self._most_bytes:
            return None
        result = found.plan(snapshot, predicate, names, zone, read)
        self._put(key, found if _key(snapshot) == key else None)
        return result

    def _put(self, key: Hashable, files: _VersionFiles | None) -> None:
        with self._lock:
            self._versions.pop(key, None)
            # A version that is too large must not push out all others.
            if files is not None and (size := files.nbytes) <= self._most_bytes:
                self._versions[key] = files, size
            while sum(size for _, size in self._versions.values()) > self._most_bytes:
                self._versions.popitem(last=False)


class _VersionFiles:
    """The live files of one version with the columns read so far, and their statistics read so far, by time zone."""

    def __init__(self, files: pa.Table) -> None:
        self._files = files
        self._stats: dict[str, _AllStats] = {}
        self._lock = threading.Lock()

    @property
    def nbytes(self) -> int:
        return int(self._files.nbytes) + sum(stats.nbytes for stats in list(self._stats.values()))

    def plan(
        self,
        snapshot: PlannedVersion,
        predicate: Predicate,
        columns: Sequence[str],
        zone: str,
        read: pa.Table | None,
    ) -> PruneResult | None:
        with self._lock:
            missing = [name for name in columns if name not in self._files.column_names]
            if missing:
                more = snapshot.live_files([*missing, "path"])
                if not self._has_order_of(more):
                    return None
                for name in missing:
                    self._files = self._files.append_column(name, more[name])
            files = self._files
            stats = self._stats.setdefault(zone, _AllStats(snapshot, files, zone))
            by_partition = may_match(about_partitions(predicate, stats), stats.of_partitions)
            left, kept = by_partition.true_count, by_partition
            paths = [path for path in columns_of(predicate) if not stats.is_partition_column(path)]
            if paths and left:
                unread = stats.unread(paths)
                if unread:
                    if left * _WORTH_SHARE < files.num_rows:
                        return None
                    if read is None:
                        read = snapshot.live_files([*snapshot.stats_columns(unread), "path"])
                    if not self._has_order_of(read):
                        return None
                    stats.add(unread, read)
                kept = pc.and_(by_partition, may_match(predicate, stats))
        report = PruneReport(files.num_rows, files.num_rows - left, left - kept.true_count)
        return PruneResult(files.select(list(columns)).filter(kept), report)

    def _has_order_of(self, read: pa.Table) -> bool:
        """Return whether `read` has the same files in the same order. A replaced damaged checkpoint may have others."""
        return bool(read["path"].equals(self._files["path"]))


class _AllStats(StatsColumns):
    """Statistics of all files. Those of data columns are parsed in parts, because JSON needs much memory."""

    def __init__(self, snapshot: PlannedVersion, files: pa.Table, zone: str) -> None:
        partition_columns = snapshot.metadata.partition_columns
        super().__init__(files, snapshot.schema, partition_columns, snapshot.physical_paths, zone)
        self.of_partitions = StatsColumns(files, snapshot.schema, partition_columns, snapshot.physical_paths, zone)
        """Only the partition columns, because numbers of rows are statistics."""

    @property
    def nbytes(self) -> int:
        arrays = {id(each): each for stats in list(self._columns.values()) for each in stats.arrays}
        return sum(each.nbytes for each in arrays.values())

    def unread(self, paths: Sequence[Path]) -> list[Path]:
        """Return the leaf columns of `paths` without statistics so far."""
        return [path for path in paths if path not in self._columns and self._leaf_type(path) is not None]

    def add(self, paths: Sequence[Path], files: pa.Table) -> None:
        """Parse the statistics of the data columns `paths`, at least one, in `files`."""
        parts = []
        for start in range(0, files.num_rows, MOST_AT_ONCE):
            part = StatsColumns(files.slice(start, MOST_AT_ONCE), self._schema, (), self._physical_names, self._zone)
            part.load(paths)
            parts.append(part)
        for path in paths:
            found = [stats for part in parts if (stats := part.column(path)) is not None]
            self._columns[path] = ColumnStats.joined(found)
        one = self._columns[paths[0]]
        self._counts = one.num_records, one.tight

    def _partition_stats(self, path: Path, data_type: DataType) -> ColumnStats:
        del data_type  # known from the path
        self.of_partitions.load([path])
        return self.of_partitions._columns[path]

    def _read(self, wanted: dict[Path, DataType]) -> None:
        raise NotImplementedError("statistics are added")


def _without_stats(files: pa.Table) -> pa.Table:
    return files.select([name for name in files.column_names if name not in ("stats", "stats_parsed")])


def _key(snapshot: PlannedVersion) -> Hashable:
    # All commits, because a log compaction may have the files in another order. The schema, because a stream reads a
    # version with a later schema.
    segment, metadata = snapshot.segment, snapshot.metadata
    files = segment.version, segment.checkpoint, segment.commits
    return snapshot.store.root_url, metadata.id, metadata.schema_string, tuple(metadata.partition_columns), *files


recent_files = RecentFiles()
"""The versions of this process."""
