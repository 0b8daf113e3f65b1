"""Tables without Spark: made by the package's own transactions, of files that nobody needs to have written."""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson
from pyroaring import BitMap64

from slackwater.predicate.predicate import Predicate
from slackwater.predicate.sql import parse_predicate
from slackwater.protocol.actions.actions import Metadata
from slackwater.protocol.actions.deletion_vectors import DeletionVectorDescriptor
from slackwater.protocol.actions.file_names import commit_path
from slackwater.protocol.actions.files import AddFile, RemoveFile
from slackwater.scan.deletion_vectors import load_deletion_vectors
from slackwater.scan.snapshot import Snapshot
from slackwater.storage import ObjectStore, open_store
from slackwater.storage.store import ChunkedBytes
from slackwater.transaction.clock import Clock
from slackwater.transaction.commit.transaction import TableTransaction
from slackwater.transaction.commit_result import CommitResult
from slackwater.transaction.committers.filesystem import FilesystemCommitter
from slackwater.transaction.post_commit import PostCommitHook
from slackwater.transaction.rows.file_action_rows import REMOVE_COLUMNS, as_removes
from slackwater.transaction.rows.row_deletion import RowDeletion
from slackwater.transaction.table.alteration import set_properties
from slackwater.transaction.table.public_transaction import Transaction

START_MS = 1_700_000_000_000
NOTHING_AFTER = PostCommitHook(checksums=False, checkpoints=False, cleanup=False)
ID = {"id": "long"}
VECTORS = {"delta.enableDeletionVectors": "true"}
_ids = itertools.count()


class FakeTime:
    """A clock that stands still until it is moved, and sleeps that are only written down."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.now_ms = now_ms
        self.slept: list[float] = []

    def clock(self, jitter: float = 1.0) -> Clock:
        return Clock(
            now_ms=lambda: self.now_ms,
            sleep=self.slept.append,
            jitter=lambda: jitter,
            new_id=lambda: f"id-{next(_ids)}",
        )


class StepStore:
    """A store that lets a test step in before a call: `before(operation, path)` may raise."""

    def __init__(self, store: ObjectStore, before: Callable[[str, str], None]) -> None:
        self._store = store
        self._before = before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def read(self, path: str) -> bytes:
        self._before("read", path)
        return self._store.read(path)

    def put_if_absent(self, path: str, data: bytes | ChunkedBytes, durable: bool = True) -> None:
        self._before("put_if_absent", path)
        self._store.put_if_absent(path, data, durable)

    def put(self, path: str, data: bytes) -> None:
        self._before("put", path)
        self._store.put(path, data)

    def put_file(self, path: str, local_file: Any) -> None:
        self._before("put_file", path)
        self._store.put_file(path, local_file)

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            self._before("delete", path)
        self._store.delete(paths)


def schema(columns: Mapping[str, Any], not_null: Sequence[str] = (), **metadata: Mapping[str, Any]) -> str:
    """A `schemaString` of columns by name and type; `metadata` by column name."""
    fields = [
        {"name": name, "type": kind, "nullable": name not in not_null, "metadata": dict(metadata.get(name, {}))}
        for name, kind in columns.items()
    ]
    return json.dumps({"type": "struct", "fields": fields})


def new_store() -> ObjectStore:
    return open_store(f"memory://{uuid.uuid4()}")


def table(
    columns: Mapping[str, Any] | str = ID,
    partition_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    cluster_by: Sequence[str] = (),
    path: Any = None,
    time: FakeTime | None = None,
) -> Snapshot:
    """Version 0 of a new table, in memory unless `path` says otherwise."""
    text = columns if isinstance(columns, str) else schema(columns)
    created = Transaction.create(
        path or f"memory://{uuid.uuid4()}",
        text,
        partition_by,
        cluster_by,
        properties,
        clock=(time or FakeTime()).clock(),
    )
    return created.commit("CREATE TABLE").snapshot


def begin(
    snapshot: Snapshot, time: FakeTime | None = None, committer: Any = None, after: PostCommitHook = NOTHING_AFTER
) -> TableTransaction:
    time = time or FakeTime()
    return TableTransaction(
        snapshot.table,
        committer or FilesystemCommitter(snapshot.store, time.slept.append),
        snapshot,
        time.clock(),
        after,
    )


def add(
    path: str,
    low: int = 0,
    high: int = 9,
    rows: int | None = 10,
    partition: Mapping[str, str | None] | None = None,
    data_change: bool = True,
    **more: Any,
) -> AddFile:
    """A file of `rows` rows whose `id` is from `low` to `high`; without `rows` it has no statistics."""
    stats = {"numRecords": rows, "minValues": {"id": low}, "maxValues": {"id": high}, "nullCount": {"id": 0}}
    text = None if rows is None else json.dumps(stats)
    return AddFile(path, partition or {}, 100, START_MS, data_change, text, **more)


def vector(name: str = "ab", cardinality: int = 1) -> DeletionVectorDescriptor:
    return DeletionVectorDescriptor("u", f"{name}^-aqEH.-t@S}}K{{vb[*k^", 36, cardinality, 4)


def append(snapshot: Snapshot, *files: AddFile, operation: str = "WRITE", time: FakeTime | None = None) -> CommitResult:
    """A blind append, on the newest version that `snapshot` leads to."""
    transaction = begin(snapshot, time)
    transaction.add(files)
    return transaction.commit(operation)


def removes(snapshot: Snapshot, *paths: str, data_change: bool = True) -> list[RemoveFile]:
    """The removes of live files."""
    files = snapshot.live_files(REMOVE_COLUMNS)
    wanted = [row for row in range(files.num_rows) if files["path"][row].as_py() in paths]
    assert len(wanted) == len(paths)
    return as_removes(files.take(wanted), START_MS, data_change)


def delete(snapshot: Snapshot, *paths: str, operation: str = "DELETE") -> CommitResult:
    transaction = begin(snapshot)
    transaction.remove(removes(snapshot, *paths))
    return transaction.commit(operation)


def delete_rows(transaction: TableTransaction, rows: Mapping[str, Iterable[int]]) -> RowDeletion:
    """Stage the deletion of rows of live files, by path."""
    assert transaction.read_snapshot is not None
    return transaction.delete_rows(
        transaction.read_snapshot.live_files(), {p: BitMap64(found) for p, found in rows.items()}
    )


def delete_rows_of(snapshot: Snapshot, rows: Mapping[str, Iterable[int]]) -> CommitResult:
    """A commit that deletes rows by deletion vectors, on the newest version that `snapshot` leads to."""
    transaction = begin(snapshot)
    delete_rows(transaction, rows)
    return transaction.commit("DELETE")


def live_rows(store: ObjectStore) -> dict[str, list[int]]:
    """The physical rows of each live file that are not deleted."""
    found: dict[str, list[int]] = {}
    for file in Snapshot.open(store).live_files().to_pylist():
        node = file["deletionVector"]
        gone = load_deletion_vectors(store, [node])[0] if node else BitMap64()
        assert file["path"] not in found, "one path twice"
        found[file["path"]] = [r for r in range(orjson.loads(file["stats"])["numRecords"]) if r not in gone]
    return found


def vector_files(store: ObjectStore) -> list[str]:
    return [meta.path for meta in store.list_from("") if meta.path.endswith(".bin")]


def set_props(snapshot: Snapshot, **properties: str) -> CommitResult:
    """Properties by keys with `__` for the dot."""
    changed = set_properties(snapshot, {key.replace("__", "."): value for key, value in properties.items()})
    return changed.commit(begin(snapshot))


def change_metadata(snapshot: Snapshot, metadata: Metadata) -> CommitResult:
    transaction = begin(snapshot)
    transaction.set_metadata(metadata)
    return transaction.commit("CHANGE COLUMN")


def where(snapshot: Snapshot, sql: str) -> Predicate:
    return parse_predicate(sql, snapshot.schema)


def live(store: ObjectStore) -> list[str]:
    """The paths of the newest version's files, sorted, doubles included."""
    return sorted(Snapshot.open(store).live_files(["path"])["path"].to_pylist())


def commit_actions(store: ObjectStore, version: int) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in store.read(commit_path(version)).splitlines()]


def only(store: ObjectStore, version: int, kind: str) -> dict[str, Any]:
    (found,) = [action[kind] for action in commit_actions(store, version) if kind in action]
    return dict(found)


def put_commit(store: ObjectStore, version: int, *actions: Mapping[str, Any]) -> None:
    """A commit by another engine, as it is."""
    store.put_if_absent(commit_path(version), b"".join(orjson.dumps(action) + b"\n" for action in actions))


def log_files(store: ObjectStore) -> list[str]:
    return [meta.path.removeprefix("_delta_log/") for meta in store.list_from("_delta_log", recursive=True)]
