"""Files below a table's root that no retained version needs: what VACUUM may delete, and what it leaves alone.

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
# Temporary names of some writers go on after the ending.
_WRITTEN = (".parquet", ".bin", ".crc")


def unneeded_files(
    snapshot: Snapshot,
    present: Iterable[ObjectMeta],
    retained: Collection[str],
    expired_ms: int,
    untracked_ms: int,
    given_up: Callable[[int], Collection[str]],
) -> list[ObjectMeta]:
    """Those of `present` that may go.

    A file older than both moments goes where it is not `retained`. One that is older than `expired_ms` alone might
    be a writer's that has not committed yet: it goes only if the log once named it, or if its name is not one that
    writers give; `given_up` answers what the log named of files not older than a moment. Moments are in ms since the
    epoch.
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
    """Return whether writers of tables name data files or deletion vectors so, as far as a name without a dot tells."""
    name = path.rpartition("/")[2]
    return "." not in name or any(ending in name for ending in _WRITTEN)


class _Visible:
    """Which names are looked at: hidden ones are somebody else's, but for change data and partitions."""

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
    """The files of jobs that ended long ago without tidying up: nothing in their directory is newer."""
    newest: dict[str, int] = {}
    for meta in staged:
        directory = meta.path.partition("/")[0]
        newest[directory] = max(newest.get(directory, 0), meta.modified_ms)
    return (meta for meta in staged if newest[meta.path.partition("/")[0]] < before_ms)


def abandoned_files(store: ObjectStore, before_ms: int) -> list[ObjectMeta]:
    """Bytes on a local disk that were never given a name, by a process that was killed, older than `before_ms`.

    No listing of the store has them; those in the log's directory are among them.
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
    """The directories below the root that writers gave their files before they were killed, inner ones too.

    Those whose files are gone now, which are `emptied`, and those in which nothing is newer than `before_ms`.
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
    """Those of `places` that are relative to the root: others are not this table's to delete."""
    return [place for place in places if not is_absolute(place)]
