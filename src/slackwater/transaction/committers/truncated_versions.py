"""Versions removed by log cleanup. No writer may treat such a version as free.

A writer may be suspended for longer than the log retention. Other writers may then have committed its version, and a
cleanup may have deleted the commit's file. Every cleanup leaves a checkpoint of a later version.
Source: delta-protocol.md "Metadata Cleanup", "Creation of New Log Entries".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import ConcurrentWriteException
from slackwater.log.files.segment import LogListing, list_log
from slackwater.protocol.actions.file_names import commit_path
from slackwater.protocol.actions.paths import canonical_path, canonical_paths
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.store import ObjectStore

Actions = Sequence[Mapping[str, Any]]


def require_next(store: ObjectStore, version: int) -> None:
    """Validate that `version` may be the next version. Nothing is written.

    Accepts a version already taken by another writer, because the write attempt detects this. Raises
    ConcurrentWriteException if the log starts after `version` or the previous version does not exist, and StorageError.
    """
    if version and store.head(commit_path(version - 1)) is not None:
        return
    listing = list_log(store, max(version - 1, 0))
    if version in listing.commits:
        return
    latest = listing.latest_version
    if latest is not None and latest >= version:
        raise forgotten(store, version, listing)
    if version and not any(checkpoint.version == version - 1 for checkpoint in listing.checkpoints):
        raise ConcurrentWriteException(
            f"{store.root_url}: the log has neither version {version - 1}, which the commit follows, nor a later one. "
            "The table was removed, or moved away. Nothing was committed"
        )


def is_remembered(store: ObjectStore, version: int, actions: Actions) -> bool | None:
    """Return whether the commit of `version`, whose file was put, is part of the table; None if unknown.

    Without a checkpoint at or after `version`, no cleanup has reached the version, so the commit is valid. Otherwise
    the nearest checkpoint decides. The commit is valid if the table at the checkpoint names a file added by the commit.
    A first commit is valid if the table has its id. A commit without added files is valid if the neighbouring commits
    exist. The file was put over a cleaned log if the checkpoint shows no trace and neighbouring commits are missing.
    Raises StorageError, and the errors of reading a table.
    """
    listing = list_log(store, version)
    beyond = [checkpoint.version for checkpoint in listing.checkpoints if checkpoint.version >= version]
    if not beyond:
        return True
    nearest = min(beyond)
    has_neighbours = all(between in listing.commits for between in range(version, nearest + 1)) and (
        version == 0 or store.head(commit_path(version - 1)) is not None
    )
    proof = _is_spoken_of(Snapshot.open(store, nearest), version, actions)
    if proof is None:
        return True if has_neighbours else None
    if proof:
        return True
    # The added files may have been removed since, and their tombstones expired.
    return None if has_neighbours or version not in listing.commits else False


def _is_spoken_of(table: Snapshot, version: int, actions: Actions) -> bool | None:
    """Return whether a later state of the table shows the commit; None if the commit would leave no trace."""
    if version == 0:
        return any((action.get("metaData") or {}).get("id") == table.metadata.id for action in actions)
    added = _fresh_paths(actions)
    if not added:
        return None
    # Compare only paths, because the file may have a new deletion vector.
    known = [canonical_paths(files["path"]) for files in (table.live_files(["path"]), table.tombstones())]
    return any(pc.any(pc.is_in(paths, value_set=pa.array(added, pa.string()))).as_py() for paths in known)


def forgotten(store: ObjectStore, version: int, listing: LogListing) -> ConcurrentWriteException:
    """Return the error for a commit to a version removed by log cleanup."""
    starts = min((c.version for c in listing.checkpoints if c.version >= version), default=listing.latest_version)
    return ConcurrentWriteException(
        f"{store.root_url}: version {version} was committed by another writer and cleaned up since (the log begins at "
        f"version {starts}, the newest is {listing.latest_version}). Nothing was committed. Read the table again and "
        "retry"
    )


def _fresh_paths(actions: Actions) -> list[str]:
    """Return the canonical paths of files added by a commit, without re-added files."""
    removed = {canonical_path(str(a["remove"].get("path"))) for a in actions if a.get("remove")}
    adds = [a["add"] for a in actions if a.get("add")]
    paths = [canonical_path(node["path"]) for node in adds if removed or node.get("dataChange") is not False]
    return [path for path in paths if path not in removed]
