"""Checkpoint reader: V1 and V2, classic, multi-part and UUID-named, with and without sidecars.

Source: delta-protocol.md "Checkpoints", "Checkpoint Specs", "Checkpoint Schema", "Sidecar File Information".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from slackwater.errors import CorruptCheckpoint, CorruptLog, ObjectNotFound
from slackwater.log.files.file_actions import ADD_SCHEMA, REMOVE_SCHEMA, actions_of_kind, file_actions, select_rows
from slackwater.log.files.plain_arrays import empty_table, is_valid
from slackwater.log.files.segment import CheckpointFiles
from slackwater.protocol.actions.actions import parse_actions
from slackwater.protocol.actions.file_names import LOG
from slackwater.storage.store import ObjectStore

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from slackwater.storage.parquet_footer import RowGroup

SIDECARS = f"{LOG}/_sidecars"
_SMALL_ACTIONS = ("protocol", "metaData", "txn", "domainMetadata", "checkpointMetadata", "sidecar")
_SCHEMAS = {"add": ADD_SCHEMA, "remove": REMOVE_SCHEMA}
_NO_SPARES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint with its small actions in memory; file actions are read on demand.

    `actions`: all JSON actions except file actions. `files`: the Parquet files with file actions. `inline`: file
    actions of a JSON checkpoint, in ACTION_SCHEMA. `sizes`: known sizes of the files in bytes.
    """

    version: int
    actions: tuple[dict[str, Any], ...]
    files: tuple[str, ...]
    inline: pa.Table | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)

    def read(self, store: ObjectStore, action: str, columns: Sequence[str]) -> pa.Table:
        """Return columns of all `add` or `remove` actions, one row each, in the same order on every call.

        `columns` are columns of ADD_SCHEMA or REMOVE_SCHEMA, or `stats_parsed` / `partitionValues_parsed` and paths
        below (`stats_parsed.minValues.id`). Parsed columns keep the types of the checkpoint. Memory O(rows × columns).
        Raises CorruptCheckpoint.
        """
        tables = list(self.batches(store, action, columns))
        if not tables:
            return empty_table(pa.schema([f for f in _SCHEMAS[action] if f.name in columns]))
        return pa.concat_tables(tables, promote_options="permissive")

    def batches(
        self, store: ObjectStore, action: str, columns: Sequence[str], spares: Mapping[str, str] = _NO_SPARES
    ) -> Iterator[pa.Table]:
        """Yield the rows of `read` in chunks: memory O(one chunk), for any size of checkpoint.

        `spares` maps a column to its substitute. The column is read only for row groups with gaps in the substitute,
        and is absent from other chunks. Raises CorruptCheckpoint.
        """
        for path in self.files:
            yield from _read_parquet_actions(store, path, action, columns, spares, self.sizes.get(path))
        if self.inline is not None:
            yield actions_of_kind(self.inline, action, [c for c in columns if c in _SCHEMAS[action].names])


_BATCH_ROWS = 131_072
_MIN_BATCH_ROWS = 1_024
_BATCH_BYTES = 64 * 1024 * 1024
_Gate = Callable[[Sequence[dict[str, Any]]], None]


def open_checkpoint(store: ObjectStore, checkpoint: CheckpointFiles, gate: _Gate) -> Checkpoint:
    """Read the small actions of `checkpoint`, and locate its file actions.

    `gate` receives the small actions before their use, and raises if the table must not be read. Raises
    CorruptCheckpoint if a file is missing or unreadable, if a sidecar is missing, or if the version in a V2 checkpoint
    contradicts its name.
    """
    if checkpoint.paths[0].endswith(".json"):
        data, where = _read(store, checkpoint.paths[0]), f"{store.root_url}/{checkpoint.paths[0]}"
        try:
            actions = parse_actions(data, where)
            if not actions:
                raise CorruptLog(f"{where} is empty")
            gate(actions)
            inline = file_actions([(checkpoint.version, where, actions)])
        except CorruptLog as error:
            raise CorruptCheckpoint(str(error)) from error
        small = [a for a in actions if a.get("add") is None and a.get("remove") is None]
        return _with_sidecars(store, checkpoint, small, (), inline if inline.num_rows else None)
    files = zip(checkpoint.paths, checkpoint.sizes, strict=True)
    small = [a for path, size in files for a in _small_parquet_actions(store, path, size)]
    gate(small)
    return _with_sidecars(store, checkpoint, small, checkpoint.paths, None)


def sidecar_paths(store: ObjectStore, checkpoint: CheckpointFiles) -> tuple[str, ...]:
    """Return the sidecars referenced by `checkpoint`, with paths in the store. Does not check their existence.

    Raises CorruptCheckpoint if the checkpoint cannot be read.
    """
    return tuple(sidecar_sizes(store, checkpoint))


def sidecar_sizes(store: ObjectStore, checkpoint: CheckpointFiles) -> dict[str, int | None]:
    """Return the sidecars of `sidecar_paths`, each with its size in bytes according to the checkpoint.

    The size is None if absent or not an integer. Raises as `sidecar_paths` does.
    """
    actions: list[dict[str, Any]] = []
    for path, size in zip(checkpoint.paths, checkpoint.sizes, strict=True):
        if path.endswith(".json"):
            try:
                actions += parse_actions(_read(store, path), f"{store.root_url}/{path}")
            except CorruptLog as error:
                raise CorruptCheckpoint(str(error)) from error
        else:
            actions += _small_parquet_actions(store, path, size, ("sidecar",))
    nodes = [a["sidecar"] for a in actions if a.get("sidecar")]
    sizes = [node.get("sizeInBytes") if isinstance(node, dict) else None for node in nodes]
    paths = [f"{SIDECARS}/{_sidecar_name(node, checkpoint)}" for node in nodes]
    return {path: size if isinstance(size, int) else None for path, size in zip(paths, sizes, strict=True)}


def add_type(store: ObjectStore, path: str) -> pa.StructType | None:
    """Return the type of the column `add` in a Parquet file of a checkpoint, None if the column is absent.

    Raises CorruptCheckpoint.
    """
    file, _ = open_parquet_of(store, path)
    with closing(file):
        return _action_type(store, file, path, "add")


def count_rows(store: ObjectStore, path: str) -> int:
    """Return the number of actions in a Parquet file of a checkpoint, from its footer. Raises CorruptCheckpoint."""
    file, _ = open_parquet_of(store, path)
    with closing(file):
        return int(file.metadata.num_rows)


def _with_sidecars(
    store: ObjectStore,
    checkpoint: CheckpointFiles,
    small: Sequence[dict[str, Any]],
    files: tuple[str, ...],
    inline: pa.Table | None,
) -> Checkpoint:
    sidecars = [f"{SIDECARS}/{_sidecar_name(a['sidecar'], checkpoint)}" for a in small if a.get("sidecar") is not None]
    sizes = dict(zip(checkpoint.paths, checkpoint.sizes, strict=True))
    for path in sidecars:
        meta = store.head(path)
        if meta is None:
            raise CorruptCheckpoint(f"{store.root_url}: {checkpoint.paths[0]} refers to {path}, which is missing")
        sizes[path] = meta.size_bytes
    for action in small:
        node = action.get("checkpointMetadata")
        declared = node.get("version") if isinstance(node, dict) else node
        if declared is not None and declared != checkpoint.version:
            raise CorruptCheckpoint(f"{store.root_url}: {checkpoint.paths[0]} records the wrong version {declared}")
    kept = tuple(a for a in small if a.get("sidecar") is None and a.get("checkpointMetadata") is None)
    return Checkpoint(checkpoint.version, kept, (*files, *sidecars), inline, sizes)


def _sidecar_name(node: Any, checkpoint: CheckpointFiles) -> str:
    path = node.get("path") if isinstance(node, dict) else None
    # Sidecars are always in the table's own directory, even if an absolute path names another one.
    name = unquote(path).rpartition("/")[2] if isinstance(path, str) else ""
    if name in ("", ".", "..") or "\0" in name:
        raise CorruptCheckpoint(f"{checkpoint.paths[0]}: a sidecar action has no file path: {node}")
    return name


def _read(store: ObjectStore, path: str) -> bytes:
    try:
        return store.read(path)
    except ObjectNotFound as error:
        raise CorruptCheckpoint(
            f"{store.root_url}: {path} is missing", error_class="DELTA_MISSING_PART_FILES"
        ) from error


# Damaged text raises UnicodeDecodeError, a ValueError.
_UNREADABLE = (pa.ArrowException, OSError, ValueError)


def _damaged(store: ObjectStore, path: str, how: str, error: Exception) -> CorruptCheckpoint:
    return CorruptCheckpoint(f"{store.root_url}: {path} {how}: {' '.join(str(error).split())}")


def open_parquet_of(
    store: ObjectStore, path: str, size_bytes: int | None = None
) -> tuple[pq.ParquetFile, tuple[RowGroup, ...]]:
    """Open the Parquet file of a checkpoint at `path`; return the file and its row groups. Raises CorruptCheckpoint.

    `size_bytes`, the known size, saves a request. If the file was rewritten since, its new size is requested.
    """
    # Imported here, because a log without a checkpoint needs no reader of Parquet.
    from slackwater.storage.parquet_footer import open_parquet

    try:
        return open_parquet(store.open_file(path, size_bytes))
    except ObjectNotFound as error:
        raise CorruptCheckpoint(
            f"{store.root_url}: {path} is missing", error_class="DELTA_MISSING_PART_FILES"
        ) from error
    except _UNREADABLE as error:
        if size_bytes is not None and (meta := store.head(path)) is not None and meta.size_bytes != size_bytes:
            return open_parquet_of(store, path, meta.size_bytes)
        raise _damaged(store, path, "is not a readable Parquet file", error) from error


def _small_parquet_actions(
    store: ObjectStore, path: str, size_bytes: int, names: Sequence[str] = _SMALL_ACTIONS
) -> list[dict[str, Any]]:
    actions: list[dict[str, Any]] = []
    file, groups = open_parquet_of(store, path, size_bytes)
    with closing(file):
        for name in names:
            if _action_type(store, file, path, name) is None:
                continue
            for group in _groups_with(file, groups, name):
                column = _read_group(store, file, path, group, [name])[name].combine_chunks()
                try:
                    nodes = [_plain(column[int(row)].as_py()) for row in np.flatnonzero(is_valid(column))]
                except _UNREADABLE as error:
                    raise _damaged(store, path, f"is damaged in {name}", error) from error
                # Some writers write a struct of nulls for an absent action.
                actions += [{name: node} for node in nodes if node]
    return actions


def _action_type(store: ObjectStore, file: pq.ParquetFile, path: str, action: str) -> pa.StructType | None:
    """Return the type of the action's column, None if the file has no such column. Raises CorruptCheckpoint."""
    if action not in file.schema_arrow.names:
        return None
    found = file.schema_arrow.field(action).type
    if not pa.types.is_struct(found) or (action in _SCHEMAS and found.get_field_index("path") < 0):
        raise CorruptCheckpoint(f"{store.root_url}: {path} must hold {action} as a struct, found {found}")
    return found


def _groups_with(file: pq.ParquetFile, groups: Sequence[RowGroup], action: str) -> list[int]:
    """Return the row groups possibly containing the action, based on the null counts in the footer."""
    leaves = _leaves(file, action)
    found = []
    for number, group in enumerate(groups):
        counts = [-1 if (nulls := group.columns[leaf].null_count) is None else nulls for leaf in leaves]
        # Null counts below a list or a map are per element, so only plain leaves prove the absence.
        if any(count < group.num_rows for count in counts):
            found.append(number)
    return found


def _read_group(store: ObjectStore, file: pq.ParquetFile, path: str, group: int, columns: list[str]) -> pa.Table:
    try:
        return file.read_row_group(group, columns=columns)
    except _UNREADABLE as error:
        raise _damaged(store, path, "is damaged", error) from error


def _read_parquet_actions(
    store: ObjectStore,
    path: str,
    action: str,
    columns: Sequence[str],
    spares: Mapping[str, str],
    size_bytes: int | None,
) -> Iterator[pa.Table]:
    file, groups = open_parquet_of(store, path, size_bytes)
    with closing(file):
        struct = _action_type(store, file, path, action)
        if struct is None:
            return
        present = [c for c in columns if struct.get_field_index(c.split(".")[0]) >= 0]
        for group in _groups_with(file, groups, action):
            wanted = [c for c in present if c not in spares or _has_gaps(file, groups[group], action, spares[c])]
            read = [f"{action}.{c}" for c in dict.fromkeys([*wanted, "path"])]
            # Batches, because decoding a whole row group needs twice its size while buffers grow.
            batches = file.iter_batches(_batch_rows(file, groups[group], read), [group], read)
            try:
                for batch in batches:
                    yield _unnested(batch.column(action), action, columns)
            except _UNREADABLE as error:
                raise _damaged(store, path, f"is damaged in {action}", error) from error


def _has_gaps(file: pq.ParquetFile, group: RowGroup, action: str, column: str) -> bool:
    """Return whether an action of the row group may lack `column`, based on the null counts in the footer."""
    absent = set()
    for name in ("path", column):
        nulls = [group.columns[leaf].null_count for leaf in _leaves(file, f"{action}.{name}")]
        if len(nulls) != 1 or nulls[0] is None:
            return True
        absent.add(nulls[0])
    return len(absent) > 1


def _batch_rows(file: pq.ParquetFile, group: RowGroup, columns: Sequence[str]) -> int:
    """Return the number of rows of the row group to decode in one batch: fewer for wide rows."""
    leaves = [leaf for column in columns for leaf in _leaves(file, column)]
    size = sum(group.columns[leaf].uncompressed_bytes for leaf in leaves)
    row_bytes = size // max(1, group.num_rows)
    return min(_BATCH_ROWS, max(_MIN_BATCH_ROWS, _BATCH_BYTES // max(1, row_bytes)))


def _leaves(file: pq.ParquetFile, path: str) -> list[int]:
    """Return the numbers of the leaf columns at `path` and below."""
    schema = file.metadata.schema
    return [i for i in range(file.metadata.num_columns) if f"{schema.column(i).path}.".startswith(f"{path}.")]


def _unnested(chunk: pa.StructArray, action: str, columns: Sequence[str]) -> pa.Table:
    """Return the fields of the rows with the action, one column each. Fields missing from the file are null."""
    present = {chunk.type.field(i).name: chunk.field(i) for i in range(chunk.type.num_fields)}
    schema = _SCHEMAS[action]
    arrays: dict[str, pa.Array] = {}
    for name in dict.fromkeys(c.split(".")[0] for c in columns):
        wanted = schema.field(name).type if name in schema.names else None
        if name not in present:
            if wanted is not None:
                arrays[name] = pa.nulls(len(chunk), wanted)
        else:
            arrays[name] = present[name] if wanted is None else _conform(present[name], wanted)
    # Parquet does not enforce UTF-8. Validate here, because a later failure would not name the file.
    for array in (present["path"], *arrays.values()):
        array.validate(full=True)
    keep = is_valid(chunk) & is_valid(present["path"])
    return select_rows(pa.table(arrays), keep)


def _conform(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if array.type == wanted:
        return array
    if pa.types.is_struct(wanted) and pa.types.is_struct(array.type):
        fields = [
            _conform(array.field(array.type.get_field_index(f.name)), f.type)
            if array.type.get_field_index(f.name) >= 0
            else pa.nulls(len(array), f.type)
            for f in wanted
        ]
        return pa.StructArray.from_arrays(fields, fields=list(wanted), mask=array.is_null())
    return array.cast(wanted)


def _plain(node: Any) -> Any:
    """Return an Arrow struct value in the form of the JSON action: without nulls, maps converted to objects."""
    if isinstance(node, dict):
        return {key: _plain(value) for key, value in node.items() if value is not None}
    return node
