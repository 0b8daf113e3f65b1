"""Files required by the newest version and by every version current since a cutoff time.

The commits after a version determine its files, not deletion timestamps. Writers set deletion timestamps when they
begin, by their own clocks. Source: delta-protocol.md "Add File and Remove File" (tombstones), "Add CDC File", "Deletion
Vectors".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from slackwater.errors import TimestampOutOfRange, VersionNotFound
from slackwater.log.history import CommitHistory
from slackwater.maintenance.file_presence import file_and_vector_places
from slackwater.protocol.actions.deletion_vectors import INLINE, DeletionVectorDescriptor
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.path_guard import named_place, named_vector_place
from slackwater.storage.store import ObjectStore

# Maximum difference between the clocks of a store and of a writer.
_SKEW_MS = 3_600_000


@dataclass(frozen=True)
class RetainedFiles:
    """Files required by versions current since the cutoff, by `resolve_file`: data, deletion vectors, change data.

    `cutoff_version` was current at the cutoff. None if the log starts later, so that all its versions are retained.
    """

    places: frozenset[str]
    cutoff_version: int | None


def retained_files(snapshot: Snapshot, cutoff_ms: int) -> RetainedFiles:
    """Return the files required by versions current at `cutoff_ms` or later. `snapshot` is the newest version.

    `cutoff_ms` is in milliseconds since the epoch. Raises CorruptTable and its subclasses, StorageError.
    """
    store, history = snapshot.store, snapshot.history()
    cutoff_version = _version_at(history, cutoff_ms)
    places = _in_state(snapshot, cutoff_ms)
    for version in history.versions:
        if cutoff_version is None or version > cutoff_version:
            places.update(files_left(store, history.actions_but_adds(version)))
    return RetainedFiles(frozenset(places), cutoff_version)


def files_left(store: ObjectStore, actions: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the locations of files removed by a commit, and of its change data files, with sizes in bytes.

    `actions` are the actions of the commit. A size is 0 if the commit does not record the size, as for deletion
    vectors.
    """
    found: dict[str, int] = {}
    for action in actions:
        node = action.get("remove") or action.get("cdc")
        if not isinstance(node, Mapping) or not isinstance(node.get("path"), str):
            continue
        size = node.get("size")
        found[named_place(store, node["path"])] = size if isinstance(size, int) else 0
        vector = node.get("deletionVector")
        if vector is not None and vector.get("storageType") != INLINE:
            found[named_vector_place(store, DeletionVectorDescriptor.from_json(vector))] = 0
    return found


def _in_state(snapshot: Snapshot, cutoff_ms: int) -> set[str]:
    """Return the locations of live files, and of files removed at `cutoff_ms` or later."""
    places = set(file_and_vector_places(snapshot.store, snapshot.live_files(["path", "deletionVector"])))
    tombstones = snapshot.tombstones()
    recent = tombstones.filter(pc.fill_null(pc.greater_equal(tombstones["deletionTimestamp"], cutoff_ms), False))
    places.update(file_and_vector_places(snapshot.store, recent))
    return places


def files_named(snapshot: Snapshot, after: int, cutoff_ms: int) -> set[str]:
    """Return the locations of all files named by commits after version `after`, up to `snapshot`.

    If the log was cleaned up during the call: live files, and files removed at `cutoff_ms` or later.
    """
    store, places = snapshot.store, set[str]()
    if snapshot.version <= after:
        return places
    history = snapshot.history()
    try:
        for version in range(after + 1, snapshot.version + 1):
            actions = history.actions(version)
            # `add` and `remove` actions name a file by the same fields.
            added = ({"remove": action["add"]} for action in actions if isinstance(action.get("add"), Mapping))
            places.update(files_left(store, actions), files_left(store, added))
    except VersionNotFound:
        return _in_state(snapshot, cutoff_ms)
    return places


def dereferenced_files(snapshot: Snapshot, cutoff_version: int | None, oldest_ms: int) -> set[str]:
    """Return the locations of files once named by the log, and required by no retained version.

    Files of uncommitted transactions are never included. Reads tombstones, and commits up to the cutoff not older than
    `oldest_ms`. Thus the result may lack files older than `oldest_ms`.
    """
    store = snapshot.store
    places = set(file_and_vector_places(store, snapshot.tombstones()))
    if cutoff_version is None:
        return places
    history = snapshot.history()
    for version in reversed([v for v in history.versions if v <= cutoff_version]):
        if history.file_ms(version) < oldest_ms - _SKEW_MS:
            break
        try:
            places.update(files_left(store, history.actions_but_adds(version)))
        except VersionNotFound:
            break
    return places


def _version_at(history: CommitHistory, time_ms: int) -> int | None:
    try:
        return history.version_at(time_ms, allow_after_last_commit=True)
    except TimestampOutOfRange:
        return None
