"""Files of one table version for a stream, in index order.

Source: delta-spark's DeltaSource: relevant actions and rejected commits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import UnsupportedFeature
from slackwater.log.files.file_actions import ADD_SCHEMA, file_actions
from slackwater.scan.file_changes import FileChange, data_changes, derived_changes, recorded_changes
from slackwater.scan.snapshot import Snapshot
from slackwater.streams.event_times import NEEDED, in_event_order
from slackwater.streams.options import StreamOptions


@dataclass(frozen=True)
class VersionFiles:
    """Files by index: rows of `files`, with columns of ADD_SCHEMA, or `changes` of a change feed.

    `sizes` are in bytes, one per file. `counts` is False for excluded files. `whole`: all files belong to one
    micro-batch. `order`: the rows of `files` by index, None for their own order. `ends`: a mask of files that may end a
    micro-batch, None if all may.
    """

    version: int
    sizes: npt.NDArray[np.int64]
    counts: npt.NDArray[np.bool_]
    files: pa.Table | None = None
    changes: Sequence[FileChange] = ()
    whole: bool = False
    order: npt.NDArray[np.int64] | None = None
    ends: npt.NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        return len(self.sizes)

    def rows(self, indexes: npt.NDArray[np.int64]) -> pa.Table:
        """Return the rows of `files` with these indexes."""
        files = ADD_SCHEMA.empty_table() if self.files is None else self.files
        return files.take(pa.array(indexes if self.order is None else self.order[indexes], pa.int64()))

    def end_from(self, index: int) -> int:
        """Return the first index from `index` on that may end a micro-batch."""
        if self.whole:
            return len(self) - 1
        return index if self.ends is None else index + int(np.argmax(self.ends[index:]))


def snapshot_files(snapshot: Snapshot, options: StreamOptions, columns: Sequence[str]) -> VersionFiles:
    """Return all files of a version, the oldest first, for the start of a stream. Memory O(live files).

    The files have `columns` of ADD_SCHEMA, and the columns required for ordering. With `event_time`, the files are in
    event time order. Raises InvalidArgument if `event_time` is not a time column.
    """
    timed = NEEDED if options.event_time is not None else ()
    files = snapshot.live_files(list(dict.fromkeys([*columns, "path", "size", "modificationTime", *timed])))
    order, ends = _oldest_first(files), None
    if options.event_time is not None:
        order, ends = in_event_order(snapshot, files, options.event_time, order)
    found = _of_files(snapshot.version, files, options)
    return replace(found, sizes=found.sizes[order], counts=found.counts[order], order=order, ends=ends)


def _oldest_first(files: pa.Table) -> npt.NDArray[np.int64]:
    """Return the rows by modification time, then by path."""
    times = files["modificationTime"].to_numpy()
    order = np.argsort(times, kind="stable")
    same = times[order][1:] == times[order][:-1]
    tied = np.zeros(len(order), bool)
    tied[1:] |= same
    tied[:-1] |= same
    rows = order[tied]
    if len(rows):
        # Sorts paths only among equal times, because sorting text is slow.
        both = pa.table({"time": times[rows], "path": files["path"].take(pa.array(rows))})
        by_both = pc.sort_indices(both, sort_keys=[("time", "ascending"), ("path", "ascending")])
        order[tied] = rows[by_both.to_numpy()]
    return order


def appended_files(
    actions: Sequence[Mapping[str, Any]], version: int, where: str, options: StreamOptions
) -> VersionFiles:
    """Return the files added by a commit, none if the commit is skipped.

    Raises as `require_appended`, and CorruptLog.
    """
    found = file_actions([(version, where, actions)])
    changing = found.filter(pc.fill_null(found["dataChange"], True))
    added, removed = changing.filter(changing["is_add"]), changing.filter(pc.invert(changing["is_add"]))
    if removed.num_rows:
        require_appended(added.num_rows > 0, removed["path"][0].as_py(), actions, version, where, options)
        if options.skip_change_commits:
            added = added.slice(0, 0)
    return _of_files(version, added.select(ADD_SCHEMA.names), options)


def sizes_of_files(
    actions: Sequence[Mapping[str, Any]], version: int, where: str, options: StreamOptions
) -> VersionFiles:
    """Return the result of `appended_files` with only numbers and sizes of files, in less time."""
    if any(action.get("remove") is not None for action in actions):
        return appended_files(actions, version, where, options)
    adds = [add for action in actions if (add := action.get("add")) is not None and add.get("dataChange") is not False]
    sizes = np.array([add.get("size") or 0 for add in adds], np.int64)
    return VersionFiles(version, sizes, _counted([str(add.get("path")) for add in adds], options))


def changed_files(
    snapshot: Snapshot,
    actions: Sequence[Mapping[str, Any]],
    version: int,
    where: str,
    options: StreamOptions,
) -> VersionFiles:
    """Return the row changes of a commit, for a stream of the change feed. Raises as `derived_changes`."""
    changes = recorded_changes(actions, version, where)
    whole = False
    if not changes:
        both = data_changes(actions, "add", where).keys() & data_changes(actions, "remove", where).keys()
        changes = derived_changes(snapshot, actions, version, where, snapshot.table.follows_outside)
        # One file has two actions here, and an index between the two would split its change.
        whole = bool(both)
    sizes = np.array([change.size_bytes or 0 for change in changes], np.int64)
    counts = _counted([change.path for change in changes], options)
    return VersionFiles(version, sizes, counts, changes=changes, whole=whole)


def require_appended(
    adds: bool,
    removed: str,
    actions: Sequence[Mapping[str, Any]],
    version: int,
    where: str,
    options: StreamOptions,
) -> None:
    """Check a commit with removed rows against the options; `adds` is True if it also added rows.

    `ignore_deletes` accepts commits with removes only. `ignore_changes` accepts all commits, and rows of rewritten
    files are read again. `skip_change_commits` skips commits with removes. Raises UnsupportedFeature.
    """
    if options.allows_changes or (options.ignore_deletes and not adds):
        return
    if not adds:
        raise UnsupportedFeature(
            f"{where}: version {version} deleted rows (for example all of {removed}), but the stream reads only "
            "appended rows. Set the option ignoreDeletes or skipChangeCommits to true to skip it, or read the change "
            "feed (readChangeFeed)",
            error_class="DELTA_SOURCE_IGNORE_DELETE",
        )
    info: Mapping[str, Any] = next((a["commitInfo"] for a in actions if isinstance(a.get("commitInfo"), dict)), {})
    done = f"{info.get('operation', 'a change')} {info.get('operationParameters') or ''}".strip()
    raise UnsupportedFeature(
        f"{where}: version {version} changed rows (for example {done[:200]}), but the stream reads only appended "
        "rows. Set the option skipChangeCommits to true to skip such commits, read the change feed (readChangeFeed), "
        "or begin with a new checkpoint",
        error_class="DELTA_SOURCE_TABLE_IGNORE_CHANGES",
    )


def _of_files(version: int, files: pa.Table, options: StreamOptions) -> VersionFiles:
    sizes = pc.fill_null(files["size"], 0).to_numpy().astype(np.int64)
    counts = np.ones(len(sizes), bool) if options.exclude is None else _counted(files["path"].to_pylist(), options)
    return VersionFiles(version, sizes, counts, files=files)


def _counted(paths: Sequence[str], options: StreamOptions) -> npt.NDArray[np.bool_]:
    if options.exclude is None:
        return np.ones(len(paths), bool)
    pattern = re.compile(options.exclude)
    return np.array([pattern.search(path) is None for path in paths], bool)
