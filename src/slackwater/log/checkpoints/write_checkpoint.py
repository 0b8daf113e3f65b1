"""Streaming checkpoint writer: V1 and V2, classic and UUID-named, with sidecars.

Source: delta-protocol.md "Checkpoints", "Checkpoint Specs", "Checkpoint Naming Scheme", "Action Reconciliation"; the
RFC "Checkpoint Protection", rule b.
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from slackwater.errors import CorruptCheckpoint, InvalidArgument
from slackwater.log.checkpoints.checkpoint_schema import (
    AddColumnLayout,
    add_rows,
    checkpoint_schema,
    protocol_action,
    remove_rows,
    small_rows,
)
from slackwater.log.checkpoints.write_sidecars import (
    Sidecar,
    SidecarWriter,
    is_kept,
    missing_sidecars,
    reusable_sidecars,
)
from slackwater.log.files.action_parquet_writer import ActionParquetWriter
from slackwater.log.files.checkpoint import Checkpoint, count_rows
from slackwater.log.files.last_checkpoint import LAST_CHECKPOINT, CheckpointInfo, read_last_checkpoint
from slackwater.log.files.segment import has_checkpoint
from slackwater.log.live_files import live_batches, tombstone_batches
from slackwater.log.snapshot import LogSnapshot
from slackwater.protocol.actions.file_names import LOG, checkpoint_name, commit_name, uuid_checkpoint_name
from slackwater.protocol.actions.json_checksum import checksum
from slackwater.protocol.features.table_features import validate_known_to_writers
from slackwater.protocol.properties.properties import (
    CHECKPOINT_POLICY,
    DELETED_FILE_RETENTION,
    SET_TRANSACTION_RETENTION,
)
from slackwater.storage.store import ObjectStore

V2_FEATURE = "v2Checkpoint"
SIDECAR_ACTIONS = 100_000
"""Default maximum number of actions in a sidecar."""

# Checksum file of Hadoop's local file system, compared with the file on every read.
_HADOOP_CHECKSUM = "_delta_log/._last_checkpoint.crc"

_Group = tuple[str, Sequence[dict[str, Any]]]


class CheckpointLayout(str, Enum):
    """The format and name of a checkpoint. All layouts except `V1` need the feature v2Checkpoint.

    `V2` and `V2_JSON` have a unique name. Clients without support for V2 checkpoints find `V2_CLASSIC`, and reject it
    with a clear error. Write one now and then for such clients.
    """

    V1 = "v1"
    V2 = "v2"
    V2_JSON = "v2-json"
    V2_CLASSIC = "v2-classic"


def write_checkpoint(
    snapshot: LogSnapshot,
    now_ms: int,
    layout: CheckpointLayout | None = None,
    *,
    sidecar_actions: int = SIDECAR_ACTIONS,
    zone: str = "UTC",
    new_uuid: Callable[[], uuid.UUID] = uuid.uuid4,
) -> CheckpointInfo:
    """Write a checkpoint of the version of `snapshot`, and verify it before the return.

    The layout is `V2` if `delta.checkpointPolicy` requests it and the table supports it, else `V1`. Tombstones and
    transaction identifiers past their retention at `now_ms` are omitted, and so are removed metadata domains. Unchanged
    sidecars of the previous checkpoint are referenced again. Partition values without a time zone are interpreted in
    `zone`. Memory O(one row group + the commits since the previous checkpoint). Does not write `_last_checkpoint`, see
    `write_last_checkpoint`. Raises UnsupportedFeature if this package cannot write tables with the protocol of the
    version. Raises InvalidArgument for a layout not supported by the table or a version without a commit in the log,
    CorruptTable and its kinds, StorageError.
    """
    validate_known_to_writers(snapshot.protocol, f"{snapshot.store.root_url}, version {snapshot.version}")
    chosen = _layout(snapshot, layout)
    if sidecar_actions < 1:
        raise InvalidArgument(f"a sidecar holds at least one action, found sidecar_actions={sidecar_actions}")
    store, commit = snapshot.store, f"{LOG}/{commit_name(snapshot.version)}"
    if store.head(commit) is None:
        raise InvalidArgument(
            f"{store.root_url}: a checkpoint of version {snapshot.version} needs the commit {commit}, which does not "
            "exist"
        )
    with tempfile.TemporaryDirectory(prefix="slackwater-") as directory:
        work = _Work(snapshot, now_ms, zone, sidecar_actions, new_uuid, Path(directory))
        written: _Written = snapshot.retry_without_damaged_checkpoint(lambda: work.write(chosen))
    _verify(store, written)
    return written.info


def write_last_checkpoint(store: ObjectStore, info: CheckpointInfo) -> bool:
    """Point `_last_checkpoint` at the checkpoint `info`. Return False if it names a newer checkpoint.

    In this case, the hint stays unchanged. A hint at a newer version without a checkpoint is wrong, and is replaced.
    Raises StorageError.
    Source: delta-protocol.md "Last Checkpoint File Schema".
    """
    hint = read_last_checkpoint(store)
    if hint is not None and hint.version > info.version and has_checkpoint(store, hint.version):
        return False
    node = {
        "version": info.version,
        "size": info.num_actions,
        "sizeInBytes": info.size_bytes,
        "numOfAddFiles": info.num_add_files,
    }
    node_with_checksum = {**node, "checksum": checksum(orjson.dumps(node))}
    store.delete([_HADOOP_CHECKSUM])
    store.put(LAST_CHECKPOINT, orjson.dumps(node_with_checksum))
    return True


@dataclass(frozen=True, slots=True)
class _Written:
    """A written checkpoint. `num_rows` and `size_bytes` describe its own file, without sidecars."""

    info: CheckpointInfo
    num_rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class _Work:
    snapshot: LogSnapshot
    now_ms: int
    zone: str
    sidecar_actions: int
    new_uuid: Callable[[], uuid.UUID]
    directory: Path

    def write(self, layout: CheckpointLayout) -> _Written:
        form = AddColumnLayout(self.snapshot)
        return self._write_v1(form) if layout is CheckpointLayout.V1 else self._write_v2(form, layout)

    def _write_v1(self, form: AddColumnLayout) -> _Written:
        checkpoint = self.snapshot.state.checkpoint
        file = ActionParquetWriter(self._local_path(), checkpoint_schema(form, v2=False))
        _append_small(file, self._small_actions())
        for rows in self._removes(checkpoint):
            file.append("remove", rows)
        num_others = file.num_actions
        for rows in self._adds(checkpoint, form):
            file.append("add", rows)
        file.close()
        size = file.path.stat().st_size
        path = f"{LOG}/{checkpoint_name(self.snapshot.version)}"
        self._publish_classic(path, file.path)
        num_adds = file.num_actions - num_others
        info = CheckpointInfo(self.snapshot.version, path, file.num_actions, size, num_adds)
        return _Written(info, file.num_actions, size)

    def _write_v2(self, form: AddColumnLayout, layout: CheckpointLayout) -> _Written:
        reused, rest = self._reused(form)
        writer = SidecarWriter(
            self.snapshot.store, self.directory, form, self.now_ms, self.sidecar_actions, self.new_uuid
        )
        try:
            writer.write("add", self._adds(rest, form))
            writer.write("remove", self._removes(rest))
            sidecars = [*reused, *writer.written]
            top = [
                ("checkpointMetadata", [{"checkpointMetadata": {"version": self.snapshot.version, "tags": {}}}]),
                *self._small_actions(),
                ("sidecar", [sidecar.to_json() for sidecar in sidecars]),
            ]
            data = self._top_level(top, layout, form)
        except BaseException:
            # No checkpoint refers to the sidecars before `_publish`, so they can be deleted.
            writer.discard()
            raise
        path = self._publish(data, layout)
        num_rows = sum(len(actions) for _, actions in top)
        size = len(data) if isinstance(data, bytes) else data.stat().st_size
        info = CheckpointInfo(
            self.snapshot.version,
            path,
            num_rows + sum(s.num_actions for s in sidecars),
            size + sum(s.size_bytes for s in sidecars),
            sum(s.num_adds for s in sidecars),
            tuple(s.path for s in sidecars),
            tuple(s.path for s in reused),
        )
        return _Written(info, num_rows, size)

    def _reused(self, form: AddColumnLayout) -> tuple[list[Sidecar], Checkpoint | None]:
        """Return the sidecars to reference again, and the previous checkpoint without these sidecars."""
        state = self.snapshot.state
        if state.checkpoint is None:
            return [], None
        oldest_ms = self._oldest_deletion_ms()
        reused = reusable_sidecars(
            state.checkpoint, state.newest, self.snapshot.store, form, oldest_ms, self.sidecar_actions
        )
        kept = {sidecar.path for sidecar in reused}
        rest = tuple(path for path in state.checkpoint.files if path not in kept)
        return reused, replace(state.checkpoint, files=rest)

    def _top_level(self, groups: Sequence[_Group], layout: CheckpointLayout, form: AddColumnLayout) -> bytes | Path:
        """Return the bytes of a JSON file, or the local path of a Parquet file."""
        if layout is CheckpointLayout.V2_JSON:
            return b"".join(orjson.dumps(action) + b"\n" for _, actions in groups for action in actions)
        # The schema includes file actions, although they are in sidecars, because other engines expect the columns.
        file = ActionParquetWriter(self._local_path(), checkpoint_schema(form, v2=True))
        _append_small(file, groups)
        file.close()
        return file.path

    def _publish(self, data: bytes | Path, layout: CheckpointLayout) -> str:
        version, store = self.snapshot.version, self.snapshot.store
        if isinstance(data, bytes):
            path = f"{LOG}/{uuid_checkpoint_name(version, self.new_uuid(), 'json')}"
            store.put(path, data)
        elif layout is CheckpointLayout.V2_CLASSIC:
            path = f"{LOG}/{checkpoint_name(version)}"
            self._publish_classic(path, data)
        else:
            path = f"{LOG}/{uuid_checkpoint_name(version, self.new_uuid(), 'parquet')}"
            store.put_file(path, data)
        return path

    def _publish_classic(self, path: str, file: Path) -> None:
        # Hadoop's checksum of a replaced file would make the new file unreadable for a JVM.
        parent, _, name = path.rpartition("/")
        self.snapshot.store.delete([f"{parent}/.{name}.crc"])
        self.snapshot.store.put_file(path, file)

    def _local_path(self) -> Path:
        return self.directory / f"{self.new_uuid()}.parquet"

    def _small_actions(self) -> list[_Group]:
        state = self.snapshot.state
        retention_ms = self.snapshot.properties.duration_ms(SET_TRANSACTION_RETENTION)
        # An identifier without a time has an unknown age. Dropping it could let a write run twice.
        kept = [
            transaction
            for transaction in state.transactions.values()
            if retention_ms is None
            or transaction.last_updated is None
            or transaction.last_updated + retention_ms >= self.now_ms
        ]
        return [
            ("protocol", [protocol_action(state.protocol)]),
            ("metaData", [state.metadata.to_json()]),
            ("txn", [transaction.to_json() for transaction in kept]),
            ("domainMetadata", [domain.to_json() for domain in state.domains.values()]),
        ]

    def _adds(self, checkpoint: Checkpoint | None, form: AddColumnLayout) -> Iterator[pa.StructArray]:
        snapshot = self.snapshot
        for files in live_batches(checkpoint, snapshot.state.newest, snapshot.store, form.sources, form.spares):
            yield add_rows(files, form, self.zone)

    def _removes(self, checkpoint: Checkpoint | None) -> Iterator[pa.StructArray]:
        oldest_ms = self._oldest_deletion_ms()
        for files in tombstone_batches(checkpoint, self.snapshot.state.newest, self.snapshot.store):
            yield remove_rows(files.filter(is_kept(files, oldest_ms)))

    def _oldest_deletion_ms(self) -> int:
        return self.now_ms - (self.snapshot.properties.duration_ms(DELETED_FILE_RETENTION) or 0)


def _layout(snapshot: LogSnapshot, layout: CheckpointLayout | None) -> CheckpointLayout:
    supported = snapshot.configuration.supports(V2_FEATURE)
    if layout is None:
        asked = snapshot.properties.get(CHECKPOINT_POLICY, "classic").lower() == "v2"
        return CheckpointLayout.V2 if asked and supported else CheckpointLayout.V1
    if layout is not CheckpointLayout.V1 and not supported:
        raise InvalidArgument(
            f"{snapshot.store.root_url}: a checkpoint of layout {layout.value} needs the table feature {V2_FEATURE}, "
            "which the table does not support. Add the feature, or write a v1 checkpoint"
        )
    return layout


def _append_small(file: ActionParquetWriter, groups: Sequence[_Group]) -> None:
    for name, actions in groups:
        file.append(name, small_rows(name, actions))


def _verify(store: ObjectStore, written: _Written) -> None:
    """Raise CorruptCheckpoint unless the stored checkpoint is complete."""
    info = written.info
    missing = missing_sidecars(store, info.sidecars)
    if missing:
        # A concurrent cleanup deleted the sidecars. Without them no reader can read the checkpoint.
        store.delete([info.path])
        raise CorruptCheckpoint(
            f"{store.root_url}: sidecar {missing[0]} was deleted while a new checkpoint referred to it. The new "
            "checkpoint was removed. Write it again from a fresh snapshot"
        )
    meta = store.head(info.path)
    if meta is None:
        raise CorruptCheckpoint(f"{store.root_url}: {info.path} disappeared right after it was written")
    found = count_rows(store, info.path) if info.path.endswith(".parquet") else written.num_rows
    # A different size means another writer replaced the file by its own checkpoint of this version, which is valid.
    if meta.size_bytes == written.size_bytes and found != written.num_rows:
        raise CorruptCheckpoint(
            f"{store.root_url}: {info.path} must hold {written.num_rows} actions, but its footer counts {found}"
        )
