"""Row changes of one commit, file by file, for the change data feed.

Source: delta-protocol.md "Add CDC File", "Reader Requirements for AddCDCFile".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyroaring import BitMap64

from slackwater.errors import ChangeFeedNotEnabled, CorruptLog
from slackwater.log.snapshot import LogSnapshot
from slackwater.protocol.actions.paths import canonical_path, canonical_paths
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.properties import ENABLE_CHANGE_DATA_FEED
from slackwater.scan.deletion_vectors import load_deletion_vectors

CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"
"""The additional columns of a change data feed."""
INSERT, DELETE = "insert", "delete"


@dataclass(frozen=True)
class FileChange:
    """A data file changed by one commit: rows of `path` inserted or deleted by `version`.

    `kind` is `insert` or `delete`. It is empty for a change file, whose rows contain the kind. `rows` limits the change
    to a set of row indexes, `without` excludes a set. `size_bytes` is None if the log has no size.
    """

    path: str
    partition_values: Sequence[tuple[str, str | None]]
    version: int
    kind: str
    rows: BitMap64 | None = None
    without: BitMap64 | None = None
    size_bytes: int | None = None


def recorded_changes(actions: Sequence[Mapping[str, Any]], version: int, where: str) -> list[FileChange]:
    """Return the change files of a commit, in its order. Raises CorruptLog."""
    return [_recorded(action["cdc"], version, where) for action in actions if action.get("cdc")]


def derived_changes(
    snapshot: LogSnapshot, actions: Sequence[Mapping[str, Any]], version: int, where: str, follows_outside: bool
) -> list[FileChange]:
    """Return the row changes implied by the added and removed files of a commit without change files.

    `snapshot` is a snapshot of the same table. Its earlier versions are opened if a remove lacks partition values.
    Files outside the root are opened if `follows_outside`. Raises CorruptLog and all errors of reading.
    """
    added = data_changes(actions, "add", where)
    removed = data_changes(actions, "remove", where)
    vectors = [n["deletionVector"] for n in (*added.values(), *removed.values()) if n.get("deletionVector")]
    bitmaps = iter(load_deletion_vectors(snapshot.store, vectors, follows_outside))
    hidden = {
        (kind, path): next(bitmaps) if node.get("deletionVector") else None
        for kind, nodes in (("add", added), ("remove", removed))
        for path, node in nodes.items()
    }
    changes: list[FileChange] = []
    for path, node in added.items():
        values, size = _values(node, where), _size(node)
        after = hidden["add", path]
        if path not in removed:
            changes.append(FileChange(path, values, version, INSERT, without=after, size_bytes=size))
            continue
        # For a new deletion vector of the same file, only newly hidden or visible rows are changes.
        before = hidden["remove", path] or BitMap64()
        deleted, restored = (after or BitMap64()) - before, before - (after or BitMap64())
        if deleted:
            changes.append(FileChange(path, values, version, DELETE, rows=deleted, size_bytes=size))
        if restored:
            changes.append(FileChange(path, values, version, INSERT, rows=restored, size_bytes=size))
    gone = {path: node for path, node in removed.items() if path not in added}
    for path, values in _removed_values(snapshot, gone, version, where).items():
        vector = hidden["remove", path]
        changes.append(FileChange(path, values, version, DELETE, without=vector, size_bytes=_size(gone[path])))
    return changes


def require_feed(table: TableConfiguration, version: int, where: str) -> None:
    """Raise ChangeFeedNotEnabled if `table`, the configuration of a version, has no change data feed."""
    if not table.properties.flag(ENABLE_CHANGE_DATA_FEED):
        raise ChangeFeedNotEnabled(
            f"{where}: the change data feed was not enabled in version {version}. Read versions in which "
            f"{ENABLE_CHANGE_DATA_FEED} is true"
        )


def data_changes(actions: Sequence[Mapping[str, Any]], kind: str, where: str) -> dict[str, Mapping[str, Any]]:
    """Return the `add` or `remove` actions with data changes, by path, in the commit's order. Raises CorruptLog."""
    nodes = [action[kind] for action in actions if action.get(kind) is not None]
    for node in nodes:
        if not isinstance(node, dict) or not isinstance(node.get("path"), str):
            raise CorruptLog(f"{where}: a file action must have a path, found {str(node)[:120]}")
    return {node["path"]: node for node in nodes if node.get("dataChange", True)}


def _removed_values(
    snapshot: LogSnapshot, removed: Mapping[str, Mapping[str, Any]], version: int, where: str
) -> dict[str, Sequence[tuple[str, str | None]]]:
    """Return the partition values of the `removed` files, by their paths in the commit. Raises CorruptLog."""
    found = {path: _values(node, where) for path, node in removed.items()}
    # Partition values are optional in a remove, and some writers leave them empty. The earlier add has them.
    silent = [path for path, values in found.items() if not values] if snapshot.metadata.partition_columns else []
    if not silent:
        return found
    files = LogSnapshot.open(snapshot.table, version - 1).live_files(["path", "partitionValues"])
    known = dict(zip(canonical_paths(files["path"]).to_pylist(), files["partitionValues"].to_pylist(), strict=True))
    for path in silent:
        if canonical_path(path) not in known:
            raise CorruptLog(
                f"{where}: the remove of {path!r} has no partition values, and no earlier add of it has any"
            )
        found[path] = list(known[canonical_path(path)] or ())
    return found


def _recorded(node: Mapping[str, Any], version: int, where: str) -> FileChange:
    if not isinstance(node, dict) or not isinstance(node.get("path"), str):
        raise CorruptLog(f"{where}: a cdc action must have a path, found {str(node)[:120]}")
    return FileChange(node["path"], _values(node, where), version, "", size_bytes=_size(node))


def _values(node: Mapping[str, Any], where: str) -> Sequence[tuple[str, str | None]]:
    values = node.get("partitionValues") or {}
    if not isinstance(values, dict):
        raise CorruptLog(f"{where}: partitionValues must be an object, found {values!r}")
    return list(values.items())


def _size(node: Mapping[str, Any]) -> int | None:
    size = node.get("size")
    return size if isinstance(size, int) else None
