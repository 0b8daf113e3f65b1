"""Changes of one commit to rows, bytes, files and deletion vectors, from its actions and the metrics of its writer.

Source: delta-protocol.md "Add File and Remove File", "Commit Provenance Information"; delta-spark's operation metrics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slackwater.protocol.actions.commit_info import info_of
from slackwater.protocol.actions.files import num_records_of

_MERGED = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")
# Operations with copied rows in numOutputRows.
_REWRITES = frozenset({"DELETE", "UPDATE", "MERGE", "OPTIMIZE", "REORG"})


@dataclass(frozen=True, slots=True)
class CommitChanges:
    """Rows, bytes and files added and removed by one commit. None if neither metrics nor actions give the number.

    An updated row is in `rows_updated` alone. Copied or rearranged rows are in no field. A file with only a new
    deletion vector is neither added nor removed. `vectors` is the number of such files. `vector_rows` is the number of
    rows additionally marked as deleted, negative if fewer rows are marked. Sizes are the sizes of data files.
    """

    rows_added: int | None = None
    rows_updated: int | None = None
    rows_removed: int | None = None
    bytes_added: int | None = 0
    bytes_removed: int | None = 0
    files_added: int = 0
    files_removed: int = 0
    vectors: int = 0
    vector_rows: int = 0


def commit_changes(actions: Sequence[Mapping[str, Any]]) -> CommitChanges:
    """Return the changes of the commit with these `actions`. Never raises for missing or malformed writer output.

    Row numbers come from the metrics of the commit if present, else from the statistics of the files. Statistics give
    added and removed rows for commits with only adds or only removes, and for overwrites. For operations that rewrite
    files, statistics give only the difference, reported in `rows_removed` if negative.
    """
    adds = _by_path(actions, "add")
    removes = _by_path(actions, "remove")
    changed = adds.keys() & removes.keys()
    came = [node for path, node in adds.items() if path not in changed]
    went = [node for path, node in removes.items() if path not in changed]
    marked = {path: _deleted(adds[path]) - _deleted(removes[path]) for path in changed}
    info = info_of(actions)
    rows = _by_metrics(info) or _by_files(info, came, went, sum(marked.values()))
    return CommitChanges(
        *rows,
        bytes_added=_sum(node.get("size") for node in came),
        bytes_removed=_sum(node.get("size") for node in went),
        files_added=len(came),
        files_removed=len(went),
        vectors=sum(1 for rows_marked in marked.values() if rows_marked),
        vector_rows=sum(marked.values()),
    )


_Rows = tuple["int | None", "int | None", "int | None"]


def _by_path(actions: Sequence[Mapping[str, Any]], kind: str) -> dict[str, Mapping[str, Any]]:
    nodes = (action.get(kind) for action in actions)
    return {node["path"]: node for node in nodes if isinstance(node, Mapping) and isinstance(node.get("path"), str)}


def _by_metrics(info: Mapping[str, Any]) -> _Rows | None:
    metrics = info.get("operationMetrics")
    if not isinstance(metrics, Mapping):
        return None
    operation = str(info.get("operation")).split(" ")[0]
    counts = [_count(metrics.get(name)) for name in _MERGED]
    if any(count is not None for count in counts):
        added, updated, removed = (count or 0 for count in counts)
        return added, updated, removed
    if operation in ("OPTIMIZE", "REORG"):
        return 0, 0, 0
    updated_rows, deleted_rows = _count(metrics.get("numUpdatedRows")), _count(metrics.get("numDeletedRows"))
    if operation == "UPDATE" and updated_rows is not None:
        return 0, updated_rows, 0
    if operation == "DELETE" and deleted_rows is not None:
        return 0, 0, deleted_rows
    output_rows = _count(metrics.get("numOutputRows"))
    if operation in _REWRITES or output_rows is None or deleted_rows is None:
        return None
    # A partial overwrite writes unchanged rows again, and delta-spark reports them in numCopiedRows.
    return output_rows - (_count(metrics.get("numCopiedRows")) or 0), 0, deleted_rows


def _by_files(
    info: Mapping[str, Any], came: Sequence[Mapping[str, Any]], went: Sequence[Mapping[str, Any]], marked: int
) -> _Rows:
    if not any(node.get("dataChange", True) for node in (*came, *went)) and not marked:
        return 0, 0, 0
    added, removed = _sum(_live_rows(node) for node in came), _sum(_live_rows(node) for node in went)
    if added is not None:
        added += max(-marked, 0)
    if removed is not None:
        removed += max(marked, 0)
    if str(info.get("operation")) in _REWRITES:
        if added is None or removed is None:
            return None, None, None
        updated = 0 if info.get("operation") == "DELETE" else None
        return max(added - removed, 0), updated, max(removed - added, 0)
    metrics = info.get("operationMetrics")
    if added is None and isinstance(metrics, Mapping):
        added = _count(metrics.get("numOutputRows"))
    return added, 0, removed


def _live_rows(node: Mapping[str, Any]) -> int | None:
    stats = node.get("stats")
    rows = num_records_of(stats) if isinstance(stats, str) else None
    return None if rows is None else rows - _deleted(node)


def _deleted(node: Mapping[str, Any]) -> int:
    vector = node.get("deletionVector")
    return _count(vector.get("cardinality")) or 0 if isinstance(vector, Mapping) else 0


def _sum(values: Any) -> int | None:
    """Return the sum, None if a value is not a whole number."""
    total = 0
    for value in values:
        if not isinstance(value, int) or isinstance(value, bool):
            return None
        total += value
    return total


def _count(value: Any) -> int | None:
    """Return a count from a JSON number or from text of digits, else None."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return int(value) if isinstance(value, str) and value.isdecimal() and value.isascii() else None
