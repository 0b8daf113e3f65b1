"""Versions that are not in the log because it has forgotten them: no writer may take them for free ones.

A writer that sleeps longer than the log's retention finds that the file of its version is not there, where others had
committed that version, and a cleanup has deleted it since. Every cleanup leaves a checkpoint of a later version.
Source: delta-protocol.md "Metadata Cleanup", "Creation of New Log Entries".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import ConcurrentWriteException
from slackwater.log.segment import LogListing, list_log
from slackwater.protocol.actions.file_names import commit_path
from slackwater.protocol.actions.paths import canonical_path, canonical_paths
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.store import ObjectStore

Actions = Sequence[Mapping[str, Any]]


def require_next(store: ObjectStore, version: int) -> None:
    """Let pass a `version` that may be the next one; nothing is written.

    Passes too where another writer has that version: the attempt to write it shows so. Raises ConcurrentWriteException
    where the log begins beyond `version`, or the version before it is nowhere, and StorageError.
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
            f"{store.root_url}: version {version - 1}, which the commit is to follow, is not in the log any more, and "
            "nothing later is: the table was removed, or moved away; nothing was committed"
        )


def is_remembered(store: ObjectStore, version: int, actions: Actions) -> bool | None:
    """Whether the commit of `version`, whose file was put, is part of the table; None where that is not known.

    Without a checkpoint of that version or a later one nothing was ever cleaned up that far, so the commit stands.
    Else others came between, before or after the put. The table as of that checkpoint speaks of the files that the
    commit added, or, of a table's first commit, has its id: then it stands. Where it does not, and commits beside the
    file are gone, it was put over a cleaned log. A commit that added no file stands where its neighbours are there.
    Raises StorageError, and as reading a table does.
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
    # Its files may have been removed since, and their tombstones forgotten.
    return None if has_neighbours or version not in listing.commits else False


def _is_spoken_of(table: Snapshot, version: int, actions: Actions) -> bool | None:
    """Whether a later state of the table shows the commit; None for one that would leave no trace there."""
    if version == 0:
        return any((action.get("metaData") or {}).get("id") == table.metadata.id for action in actions)
    added = _fresh_paths(actions)
    if not added:
        return None
    # By the path alone: the file may have got a deletion vector since.
    known = [canonical_paths(files["path"]) for files in (table.live_files(["path"]), table.tombstones())]
    return any(pc.any(pc.is_in(paths, value_set=pa.array(added, pa.string()))).as_py() for paths in known)


def forgotten(store: ObjectStore, version: int, listing: LogListing) -> ConcurrentWriteException:
    """The error of who came to commit a version that the log has forgotten."""
    starts = min((c.version for c in listing.checkpoints if c.version >= version), default=listing.latest_version)
    return ConcurrentWriteException(
        f"{store.root_url}: version {version} was committed by another writer and cleaned up since: the log begins at "
        f"version {starts} by now, the newest is {listing.latest_version}; nothing was committed: read the table again "
        "and repeat the work"
    )


def _fresh_paths(actions: Actions) -> list[str]:
    """The canonical paths of the files that a commit added, without those that it only states again."""
    removed = {canonical_path(str(a["remove"].get("path"))) for a in actions if a.get("remove")}
    adds = [a["add"] for a in actions if a.get("add")]
    paths = [canonical_path(node["path"]) for node in adds if removed or node.get("dataChange") is not False]
    return [path for path in paths if path not in removed]
