"""Sidecars of a V2 checkpoint: reuses unchanged sidecars of the previous checkpoint, and writes the remaining actions.

Source: delta-protocol.md "Sidecar Files", "Sidecar File Information", "V2 Spec".
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import StorageError
from slackwater.log.checkpoints.checkpoint_schema import AddColumnLayout, sidecar_schema
from slackwater.log.files.action_parquet_writer import ActionParquetWriter
from slackwater.log.files.checkpoint import SIDECARS, Checkpoint, add_type
from slackwater.log.files.file_actions import not_among
from slackwater.protocol.actions.paths import encode_path
from slackwater.storage.store import ObjectStore

# More sidecars than this, each less than half full, are rewritten together.
_MOST_SMALL = 8


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A sidecar at `path` in the store: size in bytes, modification time in ms, number of actions of each kind."""

    path: str
    size_bytes: int
    modified_ms: int
    num_adds: int
    num_removes: int

    @property
    def num_actions(self) -> int:
        """The number of adds and removes."""
        return self.num_adds + self.num_removes

    def to_json(self) -> dict[str, Any]:
        """Return the `sidecar` action for this file, with the file name alone."""
        name = encode_path(self.path.rpartition("/")[2])
        return {
            "sidecar": {"path": name, "sizeInBytes": self.size_bytes, "modificationTime": self.modified_ms, "tags": {}}
        }


def reusable_sidecars(
    checkpoint: Checkpoint,
    newest: pa.Table,
    store: ObjectStore,
    form: AddColumnLayout,
    oldest_deletion_ms: int,
    sidecar_actions: int,
) -> list[Sidecar]:
    """Return the sidecars of `checkpoint` whose actions are all still part of the version of `newest`.

    None of their files is in `newest`, no tombstone is older than `oldest_deletion_ms`, and their adds have the layout
    `form`. Sidecars with fewer than half of `sidecar_actions` are small. More than eight small sidecars are left out,
    so that checkpoints do not fragment. Raises CorruptCheckpoint.
    """
    reusable = []
    for path in checkpoint.files:
        if path.startswith(f"{SIDECARS}/") and _has_form(store, path, form):
            found = _unchanged(checkpoint, path, newest, store, oldest_deletion_ms)
            reusable += [found] if found is not None else []
    small = [s for s in reusable if s.num_actions < sidecar_actions // 2]
    return reusable if len(small) <= _MOST_SMALL else [s for s in reusable if s not in small]


class SidecarWriter:
    """Writes file actions to new sidecars of at most `sidecar_actions` actions, one kind of action in each.

    Adds and tombstones are in separate sidecars, because tombstones expire. `directory` holds files before their
    upload.
    """

    def __init__(
        self,
        store: ObjectStore,
        directory: Path,
        form: AddColumnLayout,
        now_ms: int,
        sidecar_actions: int,
        new_uuid: Callable[[], UUID],
    ) -> None:
        self.written: list[Sidecar] = []
        self._store = store
        self._directory = directory
        self._schema = sidecar_schema(form)
        self._now_ms = now_ms
        self._sidecar_actions = sidecar_actions
        self._new_uuid = new_uuid

    def write(self, action: str, pieces: Iterable[pa.StructArray]) -> None:
        """Write `pieces`, values of the column `action`, to the required number of sidecars. Raises StorageError."""
        file: ActionParquetWriter | None = None
        held = 0
        for piece in pieces:
            start = 0
            while start < len(piece):
                if file is None:
                    file, held = ActionParquetWriter(self._directory / f"{self._new_uuid()}.parquet", self._schema), 0
                part = piece.slice(start, self._sidecar_actions - held)
                file.append(action, part)
                start, held = start + len(part), held + len(part)
                if held == self._sidecar_actions:
                    self._finish(file, action)
                    file = None
        if file is not None:
            self._finish(file, action)

    def discard(self) -> None:
        """Delete the written sidecars before a checkpoint refers to them.

        If the store fails, a later log cleanup deletes the sidecars.
        """
        with contextlib.suppress(StorageError):
            self._store.delete([sidecar.path for sidecar in self.written])
        self.written = []

    def _finish(self, file: ActionParquetWriter, action: str) -> None:
        file.close()
        path, size = f"{SIDECARS}/{file.path.name}", file.path.stat().st_size
        adds = file.num_actions if action == "add" else 0
        # Listed before the upload, so that `discard` also deletes an upload with a lost response.
        self.written.append(Sidecar(path, size, self._now_ms, adds, file.num_actions - adds))
        self._store.put_file(path, file.path)
        file.path.unlink()


def missing_sidecars(store: ObjectStore, paths: Sequence[str]) -> list[str]:
    """Return the paths in `paths` without a file."""
    return [path for path in paths if store.head(path) is None]


def _unchanged(
    checkpoint: Checkpoint, path: str, newest: pa.Table, store: ObjectStore, oldest_deletion_ms: int
) -> Sidecar | None:
    """Return the sidecar, None if one of its actions is overridden or has expired."""
    alone = replace(checkpoint, files=(path,), inline=None)
    counts = {"add": 0, "remove": 0}
    for action, columns in (("add", []), ("remove", ["deletionTimestamp"])):
        for piece in alone.batches(store, action, ["path", "deletionVector", *columns]):
            if not not_among(piece, newest).all():
                return None
            if columns and not pc.all(is_kept(piece, oldest_deletion_ms)).as_py():
                return None
            counts[action] += piece.num_rows
    meta = store.head(path)
    if meta is None or not sum(counts.values()):
        return None
    return Sidecar(path, meta.size_bytes, meta.modified_ms, counts["add"], counts["remove"])


def is_kept(tombstones: pa.Table, oldest_deletion_ms: int) -> pa.ChunkedArray:
    """Return for each tombstone whether it has not expired. A tombstone without a time has expired."""
    return pc.greater_equal(tombstones["deletionTimestamp"], oldest_deletion_ms).fill_null(False)


def _has_form(store: ObjectStore, path: str, form: AddColumnLayout) -> bool:
    found, wanted = add_type(store, path), form.add_type
    if found is None:
        return True
    return all(
        (found.get_field_index(name) >= 0) == (wanted.get_field_index(name) >= 0)
        and (wanted.get_field_index(name) < 0 or _agree(found.field(name).type, wanted.field(name).type))
        for name in ("stats", "stats_parsed", "partitionValues_parsed")
    )


def _agree(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether the fields common to both types have equal types.

    Columns may be added or dropped. A widened type does not agree.
    """
    if not pa.types.is_struct(found) or not pa.types.is_struct(wanted):
        return bool(found == wanted)
    return all(_agree(f.type, wanted.field(f.name).type) for f in found if wanted.get_field_index(f.name) >= 0)
