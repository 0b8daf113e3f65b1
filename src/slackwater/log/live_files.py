"""The live files of a version: files of the checkpoint not touched by later commits, and files added by later commits.

Checkpoint columns are read on first use, and shared by the snapshots of later versions.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slackwater.errors import CorruptCheckpoint
from slackwater.log.files.checkpoint import Checkpoint
from slackwater.log.files.file_actions import (
    ADD_SCHEMA,
    FEW_ROWS,
    REMOVE_SCHEMA,
    actions_of_kind,
    file_keys,
    not_among,
    select_rows,
)
from slackwater.log.files.plain_arrays import empty_table
from slackwater.storage.store import ObjectStore

_KEY = ("path", "deletionVector")
# Larger statistics are not cached, so that a snapshot in memory does not hold a large checkpoint's statistics.
_CACHED_STATS_BYTES = 64 * 1024 * 1024
# Cached columns of all checkpoints. Frames of Spark retain their snapshots until the JVM collects its garbage.
_CACHED_BYTES = 512 * 1024 * 1024
# Duplicates are searched among at most so many files. For larger tables the version checksum detects duplicates.
_MOST_COMPARED = 50_000


class CheckpointAdds:
    """Columns of the `add` actions of one checkpoint, all rows, read on demand and cached.

    The least recently read checkpoints lose their cached columns if all cached columns of the process are large.
    """

    def __init__(self, checkpoint: Checkpoint | None, store: ObjectStore) -> None:
        self._checkpoint = checkpoint
        self._store = store
        self._columns: dict[str, pa.ChunkedArray] = {}
        self._removed_row_ids: pa.ChunkedArray | None = None

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Return the columns with rows in one fixed order. `stats_parsed…` columns not in the checkpoint are absent.

        Raises CorruptCheckpoint.
        """
        if self._checkpoint is None:
            return empty_table(pa.schema([ADD_SCHEMA.field(c) for c in columns if c in ADD_SCHEMA.names]))
        cached = dict(self._columns)
        missing = [c for c in columns if c not in cached]
        fresh = self._checkpoint.read(self._store, "add", missing) if missing else None
        if fresh is not None and "path" in fresh.column_names and fresh.num_rows <= _MOST_COMPARED:
            self._validate_once(self._checkpoint, fresh["path"])
        table = {}
        for name in dict.fromkeys(c.split(".")[0] for c in columns):
            if name in cached:
                table[name] = cached[name]
            elif fresh is not None and name in fresh.column_names:
                table[name] = fresh[name]
                if name in ADD_SCHEMA.names and (name != "stats" or fresh[name].nbytes <= _CACHED_STATS_BYTES):
                    self._columns[name] = fresh[name]
        _used.touch(self)
        return pa.table(table)

    @property
    def cached_bytes(self) -> int:
        """The size of the cached columns in bytes."""
        return sum(column.nbytes for column in list(self._columns.values()))

    def release(self) -> None:
        """Release the cached columns. They are read again on demand."""
        self._columns = {}

    def removed_row_ids(self) -> pa.ChunkedArray:
        """Return the `baseRowId` of the checkpoint's `remove` actions, read once. Raises CorruptCheckpoint."""
        if self._removed_row_ids is None:
            table = empty_table(REMOVE_SCHEMA)
            if self._checkpoint is not None:
                table = self._checkpoint.read(self._store, "remove", ["baseRowId"])
            self._removed_row_ids = table["baseRowId"]
        return self._removed_row_ids

    def _validate_once(self, checkpoint: Checkpoint, paths: pa.ChunkedArray) -> None:
        """Raise CorruptCheckpoint if the checkpoint names a live file twice, because its rows would be read twice."""
        if len(paths) <= FEW_ROWS and len(set(paths.to_pylist())) == len(paths):
            return
        import pyarrow.compute as pc

        if len(pc.unique(paths)) == len(paths):
            return
        counts = pc.value_counts(file_keys(checkpoint.read(self._store, "add", _KEY)))
        if pc.max(counts.field("counts")).as_py() > 1:
            twice = counts.field("values")[pc.index(pc.greater(counts.field("counts"), 1), True).as_py()]
            raise CorruptCheckpoint(
                f"{self._store.root_url}: the checkpoint of version {checkpoint.version} names {twice.as_py()!r} "
                "twice as a live file. Its rows would be read twice"
            )


class _RecentlyUsed:
    """The checkpoints with cached columns and the sizes of the columns, the least recently read first."""

    def __init__(self) -> None:
        self._order: OrderedDict[int, tuple[weakref.ref[CheckpointAdds], int]] = OrderedDict()
        self._total = 0
        # Reentrant, because the garbage collector can call `_forget` within `touch`.
        self._lock = threading.RLock()

    def touch(self, adds: CheckpointAdds) -> None:
        """Move `adds` to the end, and release the first ones until all have `_CACHED_BYTES` or one is left."""
        key = id(adds)
        with self._lock:
            self._forget(key)
            size = adds.cached_bytes
            self._order[key] = weakref.ref(adds, lambda _: self._forget(key)), size
            self._total += size
            while self._total > _CACHED_BYTES and len(self._order) > 1:
                oldest = next(iter(self._order))
                found = self._order[oldest][0]()
                self._forget(oldest)
                if found is not None:
                    found.release()

    def _forget(self, key: int) -> None:
        with self._lock:
            self._total -= self._order.pop(key, (None, 0))[1]


_used = _RecentlyUsed()


class LiveFiles:
    """The live files of one version."""

    def __init__(self, base: CheckpointAdds, newest: pa.Table) -> None:
        self._base = base
        self._newest = newest
        self._keep: npt.NDArray[np.bool_] | None = None

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Return columns of ADD_SCHEMA (and `stats_parsed…` paths), one row per live file.

        `stats_parsed` and `partitionValues_parsed` are null for files added after the checkpoint, and absent if no file
        has values. Raises CorruptCheckpoint.
        """
        base = self._base.read([*dict.fromkeys([*columns, *_KEY])] if self._newest.num_rows else columns)
        if self._newest.num_rows:
            if self._keep is None:
                self._keep = not_among(base, self._newest)
            base = select_rows(base, self._keep)
        base = base.select([c for c in dict.fromkeys(c.split(".")[0] for c in columns) if c in base.column_names])
        added = actions_of_kind(self._newest, "add", [c for c in dict.fromkeys(columns) if c in ADD_SCHEMA.names])
        if not added.num_rows:
            return base
        return pa.concat_tables([base, added], promote_options="default") if base.num_rows else added


def live_tombstones(checkpoint: Checkpoint | None, newest: pa.Table, store: ObjectStore) -> pa.Table:
    """Return the retained tombstones in REMOVE_SCHEMA. Raises CorruptCheckpoint."""
    removed = actions_of_kind(newest, "remove", REMOVE_SCHEMA.names)
    if checkpoint is None:
        return removed
    base = checkpoint.read(store, "remove", REMOVE_SCHEMA.names).select(REMOVE_SCHEMA.names)
    return pa.concat_tables([select_rows(base, not_among(base, newest)), removed])


_PIECE_ROWS = 65_536


def live_batches(
    checkpoint: Checkpoint | None,
    newest: pa.Table,
    store: ObjectStore,
    columns: Sequence[str],
    spares: Mapping[str, str],
) -> Iterator[pa.Table]:
    """Yield the live files in chunks, files of the checkpoint first. Memory O(one chunk + `newest`), without caching.

    `columns` are the columns of `LiveFiles.read`: each chunk has the columns known for its files. See
    `Checkpoint.batches` for `spares`. Raises CorruptCheckpoint.
    """
    read = list(dict.fromkeys([*columns, *_KEY]))
    for piece in checkpoint.batches(store, "add", read, spares) if checkpoint is not None else ():
        yield select_rows(piece, not_among(piece, newest))
    yield from _pieces(actions_of_kind(newest, "add", ADD_SCHEMA.names))


def tombstone_batches(checkpoint: Checkpoint | None, newest: pa.Table, store: ObjectStore) -> Iterator[pa.Table]:
    """Yield the tombstones in chunks of REMOVE_SCHEMA, tombstones of the checkpoint first; see `live_batches`."""
    for piece in checkpoint.batches(store, "remove", REMOVE_SCHEMA.names) if checkpoint is not None else ():
        yield select_rows(piece.select(REMOVE_SCHEMA.names), not_among(piece, newest))
    yield from _pieces(actions_of_kind(newest, "remove", REMOVE_SCHEMA.names))


def _pieces(table: pa.Table) -> Iterator[pa.Table]:
    for start in range(0, table.num_rows, _PIECE_ROWS):
        yield table.slice(start, _PIECE_ROWS)
