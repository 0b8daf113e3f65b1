"""Candidates of VACUUM: files below a table's root not required by any retained version.

Source: delta-protocol.md "Data Files" (lazy deletion), "Change Data Files"; delta-spark's VACUUM (names that it passes
over).
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

from slackwater.protocol.actions.paths import is_absolute
from slackwater.protocol.features.column_mapping import physical_name
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.local_store import is_staged
from slackwater.storage.store import HIDDEN, ObjectMeta, ObjectStore

_CHANGE_DATA = "_change_data"
_CLUSTER_INDEX = "_delta_index"
_ICEBERG = "metadata/"
# Some writers use temporary names with a further suffix.
_WRITTEN = (".parquet", ".bin", ".crc")


def unneeded_files(
    snapshot: Snapshot,
    present: Iterable[ObjectMeta],
    retained: Collection[str],
    expired_ms: int,
    untracked_ms: int,
    given_up: Callable[[int], Collection[str]],
) -> list[ObjectMeta]:
    """Return the files of `present` for deletion, sorted by path.

    A file older than both times is deleted unless it is in `retained`. A file older than `expired_ms` alone may belong
    to a writer before its commit. Such a file is deleted only if the log named it once, or if no writer uses such
    names. `given_up` takes a time and returns unreferenced files named by the log, if not older. Times are in
    milliseconds since the epoch.
    """
    visible = _Visible(snapshot)
    plain, staged = [], []
    for meta in present:
        if meta.path.startswith(HIDDEN):
            staged.append(meta)
        elif meta.path not in retained and visible.is_seen(meta.path):
            plain.append(meta)
    old = [meta for meta in plain if meta.modified_ms < min(expired_ms, untracked_ms)]
    young = [meta for meta in plain if min(expired_ms, untracked_ms) <= meta.modified_ms < expired_ms]
    old += [meta for meta in young if not _may_be_written(meta.path)]
    written = [meta for meta in young if _may_be_written(meta.path)]
    if written:
        known = given_up(min(meta.modified_ms for meta in written))
        old += [meta for meta in written if meta.path in known]
    left_behind = list(_left_behind(staged, min(expired_ms, untracked_ms)))
    return sorted([*old, *left_behind], key=lambda meta: meta.path)


def _may_be_written(path: str) -> bool:
    """Return whether table writers use such names for data files or deletion vectors.

    A name without a dot is undecidable and returns True.
    """
    name = path.rpartition("/")[2]
    return "." not in name or any(ending in name for ending in _WRITTEN)


class _Visible:
    """Selects the names to inspect. Hidden names belong to other programs, except change data and partitions."""

    def __init__(self, snapshot: Snapshot) -> None:
        mode, schema = snapshot.column_mapping_mode, snapshot.schema
        named = [schema.get(name) for name in snapshot.metadata.partition_columns]
        columns = [name for c in named if c is not None for name in (c.name, physical_name(c, mode))]
        self._shown = (_CHANGE_DATA, _CLUSTER_INDEX, *(f"{name}=" for name in columns))
        formats = snapshot.properties.get("delta.universalFormat.enabledFormats") or ""
        self._passed_over = (_ICEBERG,) if "iceberg" in formats.lower() else ()

    def is_seen(self, path: str) -> bool:
        if path.startswith(self._passed_over):
            return False
        if "_" not in path and "." not in path:
            return True
        return not any(part.startswith(("_", ".")) and not part.startswith(self._shown) for part in path.split("/"))


def _left_behind(staged: Sequence[ObjectMeta], before_ms: int) -> Iterator[ObjectMeta]:
    """Return the files of jobs ended long ago without cleanup. Nothing in their directories is newer."""
    newest: dict[str, int] = {}
    for meta in staged:
        directory = meta.path.partition("/")[0]
        newest[directory] = max(newest.get(directory, 0), meta.modified_ms)
    return (meta for meta in staged if newest[meta.path.partition("/")[0]] < before_ms)


def abandoned_files(store: ObjectStore, before_ms: int) -> list[ObjectMeta]:
    """Return unnamed files on a local disk left by killed processes and older than `before_ms`.

    Listings of the store omit such files. Files in the log directory are included.
    """
    if store.local_root is None:
        return []
    found = []
    for entry in _staged_below(store.local_root):
        with contextlib.suppress(FileNotFoundError):
            state = entry.stat()
            path = Path(entry.path).relative_to(store.local_root).as_posix()
            found.append(ObjectMeta(path, state.st_size, state.st_mtime_ns // 1_000_000))
    return [meta for meta in found if meta.modified_ms < before_ms]


def _staged_below(directory: str) -> Iterator[os.DirEntry[str]]:
    with contextlib.suppress(FileNotFoundError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _staged_below(entry.path)
            elif is_staged(entry.name):
                yield entry


def abandoned_directories(root: str, emptied: Collection[str], before_ms: int) -> set[str]:
    """Return directories below the root created by killed writers, including inner directories.

    The result contains directories in `emptied`, and directories without content newer than `before_ms`.
    """
    found: set[str] = set()
    for directory in Path(root).glob(f"{HIDDEN}*/"):
        held = [Path(place) for place, _, _ in os.walk(directory)]
        if directory.name in emptied or all(_modified_ms(place) < before_ms for place in held):
            found.update(place.relative_to(root).as_posix() for place in held)
    return found


def _modified_ms(place: Path) -> float:
    with contextlib.suppress(FileNotFoundError):
        return place.stat().st_mtime_ns / 1_000_000
    return math.inf


def below_root(places: Iterable[str]) -> list[str]:
    """Return the relative paths of `places`. Absolute paths are not this table's to delete."""
    return [place for place in places if not is_absolute(place)]
