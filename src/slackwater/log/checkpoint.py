"""Reading checkpoints: V1 and V2, classic, multi-part and UUID-named, with and without sidecars.

Source: delta-protocol.md "Checkpoints", "Checkpoint Specs", "Checkpoint Schema", "Sidecar File Information".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.errors import CorruptCheckpoint, CorruptLog, ObjectNotFound
from slackwater.log.file_actions import ADD_SCHEMA, REMOVE_SCHEMA, file_actions, select_rows
from slackwater.log.segment import LOG, CheckpointFiles
from slackwater.protocol.actions import parse_actions
from slackwater.storage.store import ObjectStore

SIDECARS = f"{LOG}/_sidecars"
_SMALL_ACTIONS = ("protocol", "metaData", "txn", "domainMetadata", "checkpointMetadata", "sidecar")
_SCHEMAS = {"add": ADD_SCHEMA, "remove": REMOVE_SCHEMA}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint whose small actions are read and whose file actions wait to be asked for.

    `actions`: everything but file actions, as in a commit. `files`: the Parquet files that hold file actions;
    `inline`: file actions of a JSON checkpoint, as ACTION_SCHEMA.
    """

    version: int
    actions: tuple[dict[str, Any], ...]
    files: tuple[str, ...]
    inline: pa.Table | None = None

    def read(self, store: ObjectStore, action: str, columns: Sequence[str]) -> pa.Table:
        """Columns of all `add` or `remove` actions, one row each, in an order that is the same at every call.

        `columns` are of ADD_SCHEMA or REMOVE_SCHEMA, or `stats_parsed` / `partitionValues_parsed` and paths below
        them (`stats_parsed.minValues.id`), which come as the checkpoint has them. Memory O(rows × columns).
        Raises CorruptCheckpoint.
        """
        tables = [table for path in self.files for table in _read_parquet_actions(store, path, action, columns)]
        if self.inline is not None:
            rows = self.inline.filter(pa.compute.equal(self.inline["is_add"], action == "add"))
            tables.append(rows.select([c for c in columns if c in _SCHEMAS[action].names]))
        if not tables:
            return pa.schema([f for f in _SCHEMAS[action] if f.name in columns]).empty_table()
        return pa.concat_tables(tables, promote_options="permissive")


def open_checkpoint(store: ObjectStore, checkpoint: CheckpointFiles) -> Checkpoint:
    """Read the small actions of `checkpoint` and find out where its file actions are.

    Raises CorruptCheckpoint where a file is gone or unreadable, a sidecar is missing, or a V2 checkpoint's version
    contradicts its name.
    """
    if checkpoint.paths[0].endswith(".json"):
        data = _read(store, checkpoint.paths[0])
        try:
            actions = parse_actions(data, checkpoint.paths[0])
            inline = file_actions([(checkpoint.version, checkpoint.paths[0], actions)])
        except CorruptLog as error:
            raise CorruptCheckpoint(str(error)) from error
        small = [a for a in actions if "add" not in a and "remove" not in a]
        return _with_sidecars(store, checkpoint, small, (), inline if inline.num_rows else None)
    small = [a for path in checkpoint.paths for a in _small_parquet_actions(store, path)]
    return _with_sidecars(store, checkpoint, small, checkpoint.paths, None)


def _with_sidecars(
    store: ObjectStore,
    checkpoint: CheckpointFiles,
    small: Sequence[dict[str, Any]],
    files: tuple[str, ...],
    inline: pa.Table | None,
) -> Checkpoint:
    sidecars = [f"{SIDECARS}/{_sidecar_name(a['sidecar'], checkpoint)}" for a in small if a.get("sidecar")]
    for path in sidecars:
        if store.head(path) is None:
            raise CorruptCheckpoint(f"{store.root_url}: {checkpoint.paths[0]} refers to {path}, which is missing")
    for action in small:
        declared = (action.get("checkpointMetadata") or {}).get("version")
        if declared is not None and declared != checkpoint.version:
            raise CorruptCheckpoint(f"{store.root_url}: {checkpoint.paths[0]} says that it is of version {declared}")
    kept = tuple(a for a in small if not a.get("sidecar") and not a.get("checkpointMetadata"))
    return Checkpoint(checkpoint.version, kept, (*files, *sidecars), inline)


def _sidecar_name(node: dict[str, Any], checkpoint: CheckpointFiles) -> str:
    path = node.get("path")
    if not isinstance(path, str) or not path:
        raise CorruptCheckpoint(f"{checkpoint.paths[0]}: a sidecar without a path: {node}")
    # Sidecars always are in the table's own directory, whatever an absolute path says.
    return unquote(path).rpartition("/")[2]


def _read(store: ObjectStore, path: str) -> bytes:
    try:
        return store.read(path)
    except ObjectNotFound as error:
        raise CorruptCheckpoint(f"{store.root_url}: {path} is gone") from error


def _open_parquet(store: ObjectStore, path: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(store.open_file(path))
    except ObjectNotFound as error:
        raise CorruptCheckpoint(f"{store.root_url}: {path} is gone") from error
    except (pa.ArrowException, OSError) as error:
        raise CorruptCheckpoint(f"{store.root_url}: {path} is not a readable Parquet file: {error}") from error


def _small_parquet_actions(store: ObjectStore, path: str) -> list[dict[str, Any]]:
    actions: list[dict[str, Any]] = []
    with closing(_open_parquet(store, path)) as file:
        for name in _SMALL_ACTIONS:
            if name not in file.schema_arrow.names:
                continue
            for group in _groups_with(file, name):
                column = _read_group(store, file, path, group, [name])[name].combine_chunks()
                actions += [{name: _plain(node)} for node in column.drop_null().to_pylist()]
    return actions


def _groups_with(file: pq.ParquetFile, action: str) -> list[int]:
    """The row groups that may hold an action of the kind, by the null counts in the footer."""
    metadata = file.metadata
    leaves = [i for i in range(metadata.num_columns) if metadata.schema.column(i).path.startswith(action + ".")]
    groups = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        counts = [
            s.null_count if (s := group.column(i).statistics) is not None and s.has_null_count else -1 for i in leaves
        ]
        # A leaf below a list or a map counts its own slots, hence only plain leaves prove an absence.
        if any(count < group.num_rows for count in counts):
            groups.append(number)
    return groups


def _read_group(store: ObjectStore, file: pq.ParquetFile, path: str, group: int, columns: list[str]) -> pa.Table:
    try:
        return file.read_row_group(group, columns=columns)
    except (pa.ArrowException, OSError) as error:
        raise CorruptCheckpoint(f"{store.root_url}: {path} is damaged: {error}") from error


def _read_parquet_actions(store: ObjectStore, path: str, action: str, columns: Sequence[str]) -> Iterator[pa.Table]:
    with closing(_open_parquet(store, path)) as file:
        if action not in file.schema_arrow.names:
            return
        struct = file.schema_arrow.field(action).type
        wanted = [c for c in columns if struct.get_field_index(c.split(".")[0]) >= 0]
        for group in _groups_with(file, action):
            read = list(dict.fromkeys([*wanted, "path"]))
            table = _read_group(store, file, path, group, [f"{action}.{c}" for c in read])
            yield from (_unnested(chunk, action, columns) for chunk in table[action].chunks)


def _unnested(chunk: pa.StructArray, action: str, columns: Sequence[str]) -> pa.Table:
    """The fields of the rows that hold the action, as columns; what the file lacks is null."""
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
    keep = np.asarray(chunk.is_valid()) & np.asarray(present["path"].is_valid())
    return select_rows(pa.table(arrays), keep)


def _conform(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if array.type == wanted:
        return array
    if pa.types.is_struct(wanted):
        fields = [
            _conform(array.field(array.type.get_field_index(f.name)), f.type)
            if array.type.get_field_index(f.name) >= 0
            else pa.nulls(len(array), f.type)
            for f in wanted
        ]
        return pa.StructArray.from_arrays(fields, fields=list(wanted), mask=array.is_null())
    try:
        return array.cast(wanted)
    except pa.ArrowException as error:
        raise CorruptCheckpoint(f"a checkpoint column of type {array.type} does not hold {wanted}: {error}") from error


def _plain(node: Any) -> Any:
    """An Arrow struct value without its nulls, maps as objects: the same as the action in JSON."""
    if isinstance(node, dict):
        return {key: _plain(value) for key, value in node.items() if value is not None}
    return node
