"""Which files of a table are needed: by the newest version, and by every version that was current since a moment.

A version is told by the commits that follow it, not by the times that removals bear: writers set these when they begin,
by clocks of their own. Source: delta-protocol.md "Add File and Remove File" (tombstones), "Add CDC File", "Deletion
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

# A store's clock and that of a commit's writer may differ so much.
_SKEW_MS = 3_600_000


@dataclass(frozen=True)
class RetainedFiles:
    """The files that versions current since the cutoff need, by `resolve_file`: data, deletion vectors, change data.

    `cutoff_version` was current at the cutoff; None where the log does not reach back so far, so that all of it counts.
    """

    places: frozenset[str]
    cutoff_version: int | None


def retained_files(snapshot: Snapshot, cutoff_ms: int) -> RetainedFiles:
    """What versions that were current at `cutoff_ms` or later need; `snapshot` is of the newest one.

    Raises CorruptTable and its kinds, StorageError.
    """
    store, history = snapshot.store, snapshot.history()
    cutoff_version = _version_at(history, cutoff_ms)
    places = _in_state(snapshot, cutoff_ms)
    for version in history.versions:
        if cutoff_version is None or version > cutoff_version:
            places.update(files_left(store, history.actions_but_adds(version)))
    return RetainedFiles(frozenset(places), cutoff_version)


def files_left(store: ObjectStore, actions: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Where the files are that a commit with `actions` removed, and its change data files, with their sizes in bytes.

    A size that the commit does not tell is 0, as that of a deletion vector's file is.
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
    """Where the live files are, and those that were removed at `cutoff_ms` or later."""
    places = set(file_and_vector_places(snapshot.store, snapshot.live_files(["path", "deletionVector"])))
    tombstones = snapshot.tombstones()
    recent = tombstones.filter(pc.fill_null(pc.greater_equal(tombstones["deletionTimestamp"], cutoff_ms), False))
    places.update(file_and_vector_places(snapshot.store, recent))
    return places


def files_named(snapshot: Snapshot, after: int, cutoff_ms: int) -> set[str]:
    """Where the files are that commits after the version `after` name, up to `snapshot`, whatever they say of them.

    Where the log was cleaned up meanwhile: the live ones, and those that were removed at `cutoff_ms` or later.
    """
    store, places = snapshot.store, set[str]()
    if snapshot.version <= after:
        return places
    history = snapshot.history()
    try:
        for version in range(after + 1, snapshot.version + 1):
            actions = history.actions(version)
            # What removes a file and what adds one name it in the same words.
            added = ({"remove": action["add"]} for action in actions if isinstance(action.get("add"), Mapping))
            places.update(files_left(store, actions), files_left(store, added))
    except VersionNotFound:
        return _in_state(snapshot, cutoff_ms)
    return places


def dereferenced_files(snapshot: Snapshot, cutoff_version: int | None, oldest_ms: int) -> set[str]:
    """Where files are that the log once named and no retained version needs, as far as they may be new: `oldest_ms`.

    What a writer is about to commit is never among them. Looks at the tombstones, and at the commits up to the cutoff
    that are not older than `oldest_ms`.
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
