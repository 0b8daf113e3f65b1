"""File actions in Arrow tables: conversion from JSON commits, and lookup by key.

One table holds both `add` and `remove` actions in the order of the log. Source: delta-protocol.md
"Add File and Remove File", "Action Reconciliation".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.errors import CorruptLog
from slackwater.log.files.bulk_commit import BulkActions
from slackwater.log.files.plain_arrays import flag_array, flags_of, plain_array, row_array
from slackwater.protocol.actions.paths import canonical_paths

STRING_MAP = pa.map_(pa.string(), pa.string())
DELETION_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
ADD_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("partitionValues", STRING_MAP),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("tags", STRING_MAP),
        ("deletionVector", DELETION_VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
        ("clusteringProvider", pa.string()),
    ]
)
"""The columns of a live file: sizes in bytes, times in ms since the epoch, paths URI-encoded as in the log."""

REMOVE_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", STRING_MAP),
        ("size", pa.int64()),
        ("deletionVector", DELETION_VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
    ]
)
"""The columns of a tombstone."""

ACTION_SCHEMA = pa.schema(
    [
        ("version", pa.int64()),
        ("is_add", pa.bool_()),
        *ADD_SCHEMA,
        *(f for f in REMOVE_SCHEMA if f.name not in ADD_SCHEMA.names),
    ]
)
_CONTENT = [f for f in ACTION_SCHEMA if f.name not in ("version", "is_add")]


def file_actions(commits: Iterable[tuple[int, str, Sequence[Mapping[str, Any]]]]) -> pa.Table:
    """Return the `add` and `remove` actions of `commits` (version, where, actions), in their order, in ACTION_SCHEMA.

    Raises CorruptLog, naming the commit, for an action without a path or with a value of a wrong type.
    """
    commits = list(commits)
    if any(isinstance(actions, BulkActions) for _, _, actions in commits):
        return pa.concat_tables(
            [
                actions.files.add_column(0, ACTION_SCHEMA.field(0), pa.repeat(version, len(actions.files)))
                if isinstance(actions, BulkActions)
                else file_actions([(version, where, actions)])
                for version, where, actions in commits
            ]
        )
    versions: list[int] = []
    places: list[str] = []
    kinds: list[bool] = []
    nodes: list[dict[str, Any]] = []
    for version, where, actions in commits:
        for action in actions:
            node = action.get("add")
            is_add = node is not None
            if not is_add:
                node = action.get("remove")
                if node is None:
                    continue
            if not isinstance(node, dict) or not isinstance(node.get("path"), str):
                raise CorruptLog(f"{where}: a file action must have a path, found {str(node)[:120]}")
            versions.append(version)
            places.append(where)
            kinds.append(is_add)
            nodes.append(node)
    columns: list[pa.Array] = [_array(versions, pa.int64()), _array(kinds, pa.bool_())]
    named = set[str]().union(*nodes)
    for column in _CONTENT:
        if column.name not in named:
            columns.append(pa.nulls(len(nodes), column.type))
            continue
        values: list[Any] = [node.get(column.name) for node in nodes]
        try:
            columns.append(_array(values, column.type))
        except _NOT_OF_TYPE as error:
            at = next((row for row, value in enumerate(values) if not _holds(value, column.type)), 0)
            raise CorruptLog(
                f"{places[at]}: field {column.name} of a file action must be {column.type}, found "
                f"{str(nodes[at].get(column.name))[:120]} for the path {nodes[at]['path'][:200]!r}"
            ) from error
    return pa.table(columns, schema=ACTION_SCHEMA)


_OBJECTS = {dict, type(None)}
_NOT_OF_TYPE = (pa.ArrowException, TypeError, ValueError, OverflowError)


def _array(values: list[Any], data_type: pa.DataType) -> pa.Array:
    plain = plain_array(values, data_type) if len(values) <= _FEW_VALUES else None
    if plain is not None:
        return plain
    kinds = set(map(type, values))
    if pa.types.is_nested(data_type) and not kinds <= _OBJECTS:
        # Arrow accepts a list for a struct or a map if the other values are lists too.
        raise TypeError("expected JSON objects")
    if float in kinds and pa.types.is_integer(data_type) and not all(map(_is_whole, values)):
        # Arrow truncates fractions.
        raise TypeError("expected whole numbers")
    if pa.types.is_map(data_type):
        values = [None if value is None else list(value.items()) for value in values]
    return pa.array(values, data_type)


def _is_whole(value: Any) -> bool:
    return not isinstance(value, float) or value.is_integer()


def _holds(value: Any, data_type: pa.DataType) -> bool:
    try:
        _array([value], data_type)
    except _NOT_OF_TYPE:
        return False
    return True


def file_keys(actions: pa.Table) -> pa.ChunkedArray:
    """Return the primary key of each logical file: canonical path, and unique id of its deletion vector if any."""
    paths = canonical_paths(actions["path"])
    vectors = actions["deletionVector"]
    if vectors.null_count == len(vectors):
        return _chunked(paths)
    import pyarrow.compute as pc

    return _chunked(pc.binary_join_element_wise(paths, unique_ids(vectors), "\t", null_handling="skip"))


def unique_ids(vectors: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the `uniqueId` of each deletion vector, null for null. Source: "Derived Fields"."""
    import pyarrow.compute as pc

    storage, path, offset = (pc.struct_field(vectors, name) for name in ("storageType", "pathOrInlineDv", "offset"))
    plain = pc.binary_join_element_wise(storage, path, "")
    placed = pc.binary_join_element_wise(plain, pc.cast(offset, pa.string()), "@")
    return _chunked(pc.if_else(pc.is_valid(offset), placed, plain))


def newest_per_file(actions: pa.Table) -> pa.Table:
    """Return the newest reference to each logical file, in the order of `actions`, which ascend by version.

    Source: delta-protocol.md "Action Reconciliation".
    """
    if actions.num_rows < 2:
        return actions
    if actions.num_rows <= FEW_ROWS:
        newest = {key: row for row, key in enumerate(file_keys(actions).to_pylist())}
        if len(newest) == actions.num_rows:
            return actions
        keep = np.zeros(actions.num_rows, dtype=bool)
        keep[list(newest.values())] = True
        return select_rows(actions, keep).combine_chunks()
    indexed = pa.table({"key": file_keys(actions), "row": np.arange(actions.num_rows)})
    # For few actions, starting threads costs more time than it saves.
    grouped = indexed.group_by("key", use_threads=actions.num_rows > _ROWS_FOR_THREADS)
    rows = grouped.aggregate([("row", "max")])["row_max"].to_numpy()
    if len(rows) == actions.num_rows:
        return actions
    return actions.take(pa.array(np.sort(rows)))


def not_among(files: pa.Table, newer: pa.Table) -> npt.NDArray[np.bool_]:
    """Return a boolean for each of `files` (columns `path`, `deletionVector`): True if `newer` does not name it."""
    keep = np.ones(files.num_rows, dtype=bool)
    if not newer.num_rows or not files.num_rows:
        return keep
    if files.num_rows + newer.num_rows <= FEW_ROWS:
        keys = set(file_keys(newer).to_pylist())
        return np.array([key not in keys for key in file_keys(files).to_pylist()])
    import pyarrow.compute as pc

    paths = canonical_paths(files["path"])
    touched = pc.is_in(paths, value_set=one_array(canonical_paths(newer["path"])))
    rows = np.flatnonzero(flags_of(touched))
    if len(rows):
        candidates = files.select(["path", "deletionVector"]).take(row_array(rows))
        keep[rows] = ~flags_of(pc.is_in(file_keys(candidates), value_set=one_array(file_keys(newer))))
    return keep


def actions_of_kind(actions: pa.Table, action: str, columns: Sequence[str]) -> pa.Table:
    """Return `columns` of the `add` or the `remove` actions of `actions`."""
    is_add = flags_of(actions["is_add"])
    return select_rows(actions.select(list(columns)), is_add if action == "add" else ~is_add)


def select_rows(table: pa.Table, keep: npt.NDArray[np.bool_]) -> pa.Table:
    """Return the rows of `table` marked in `keep`, without copying if only a few rows are dropped."""
    gone = np.flatnonzero(~keep)
    if not len(gone):
        return table
    if len(gone) > _MOST_SLICES:
        return table.filter(flag_array(keep))
    edges = np.concatenate(([-1], gone, [table.num_rows]))
    slices = [table.slice(int(low) + 1, int(high - low) - 1) for low, high in pairwise(edges) if high - low > 1]
    return pa.concat_tables(slices) if slices else table.slice(0, 0)


# For a few values, the import of pandas by `pyarrow.array` takes longer than all conversions.
_FEW_VALUES = 50
FEW_ROWS = 1_000
"""Up to this many rows, Python compares keys in less time than the import of `pyarrow.compute` takes."""

_MOST_SLICES = 200
_ROWS_FOR_THREADS = 10_000


def total_size(files: pa.Table) -> int:
    """Return the total size of `files` in bytes. Files without a size add nothing."""
    if files.num_rows <= FEW_ROWS:
        return sum(size or 0 for size in files["size"].to_pylist())
    import pyarrow.compute as pc

    return int(pc.sum(files["size"], min_count=0).as_py() or 0)


def one_array(values: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return the values in one contiguous array."""
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _chunked(values: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray:
    return values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])
