"""A small table on a disk of its own, whose files are called by letters and whose days a script counts."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from slackwater.errors import DataFileNotFound, ObjectExists
from slackwater.log.table import Table
from slackwater.maintenance.vacuum import vacuum
from slackwater.protocol.actions.deletion_vectors import DeletionVectorDescriptor
from slackwater.protocol.actions.file_names import LOG, commit_path
from slackwater.protocol.actions.files import AddFile
from slackwater.protocol.schema.schema import LONG, StructField, StructType
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.open import open_store
from slackwater.storage.path_guard import resolve_deletion_vector
from slackwater.storage.store import ChunkedBytes, ObjectStore
from slackwater.transaction.clock import Clock
from slackwater.transaction.commit.factory import begin
from slackwater.transaction.table.public_transaction import Transaction

SCHEMA = StructType((StructField("id", LONG),))
START_MS = 1_795_420_800_000
DAY_MS = 86_400_000


@dataclass
class SmallTable:
    """The table at `root`; whatever it writes is of the day that it is."""

    root: Path
    day: float = 0
    vectors: list[str] = field(default_factory=list)
    _seen: set[Path] = field(default_factory=set)

    def snapshot(self, version: int | None = None) -> Snapshot:
        """A version of it, the newest for None."""
        return Snapshot.load(self.root, version)

    def create(self, **properties: str) -> None:
        """Version 0; of `properties` the names without `delta.`."""
        named = {f"delta.{name}": value for name, value in properties.items()}
        Transaction.create(self.root, SCHEMA, properties=named, clock=self.clock).commit("CREATE TABLE")
        self._dated()

    def write(self, letter: str, ids: Sequence[int] = (1, 2)) -> AddFile:
        """A file of rows, which no commit names yet."""
        path = self.root / f"{letter}.parquet"
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), path)
        self._dated()
        return AddFile(path.name, {}, path.stat().st_size, self.now_ms(), True, json.dumps({"numRecords": len(ids)}))

    def commit(self, operation: str, add: str = "", remove: str = "") -> int:
        """A commit that adds and removes files, by their letters; its version."""
        transaction = Transaction(self.snapshot(), clock=self.clock)
        transaction.add(*[self.write(letter) for letter in add])
        transaction.remove(*[f"{letter}.parquet" for letter in remove])
        return self._landed(transaction.commit(operation).version)

    def delete_rows(self, letter: str, *rows: int) -> int:
        """A commit that marks rows of a file as gone, by their places in it."""
        snapshot = self.snapshot()
        transaction = begin(snapshot, clock=self.clock)
        transaction.delete_rows(snapshot.live_files(), {f"{letter}.parquet": BitMap64(rows)})
        return self._landed(transaction.commit("DELETE").version)

    def purge(self, letter: str, new: str) -> int:
        """A commit that writes the rows that are left into a file of their own."""
        transaction = Transaction(self.snapshot(), clock=self.clock)
        file = self.write(new, self.ids())
        transaction.remove(f"{letter}.parquet", data_change=False)
        transaction.add(AddFile(file.path, {}, file.size, file.modification_time, False, file.stats))
        return self._landed(transaction.commit("REORG").version)

    def vacuum(self) -> list[str]:
        """The letters of the files that a VACUUM of today deletes."""
        deleted = vacuum(Table.at(self.root), clock=self.clock).paths
        self._dated()
        return sorted(letter_of(path) for path in deleted)

    def ids(self, version: int | None = None) -> list[int]:
        """The rows of a version, as a reader finds them."""
        return sorted(self.snapshot(version).to_arrow()["id"].to_pylist())

    def letters(self, version: int | None = None) -> list[str]:
        """The files of a version."""
        return sorted(map(letter_of, self.snapshot(version).files()["path"].to_pylist()))

    def present(self) -> list[str]:
        """The files that lie there, whatever the log says of them: letters, and deletion vectors by their numbers."""
        for path in sorted(self.root.glob("*.bin")):
            if path.name not in self.vectors:
                self.vectors.append(path.name)
        letters = sorted(letter_of(path.name) for path in self.root.glob("*.parquet"))
        return letters + [f"vector {n}" for n, name in enumerate(self.vectors, 1) if (self.root / name).is_file()]

    def actions(self, version: int) -> list[dict[str, Any]]:
        """What a commit says."""
        return actions_in((self.root / commit_path(version)).read_bytes())

    def operation(self, version: int) -> str:
        """What a commit calls itself."""
        return str(
            next(action["commitInfo"]["operation"] for action in self.actions(version) if "commitInfo" in action)
        )

    def ids_in(self, letter: str) -> list[int]:
        """All rows of a file, in order, whatever a vector says of them."""
        found: list[int] = pq.read_table(self.root / f"{letter}.parquet")["id"].to_pylist()
        return found

    def vector_of(self, node: dict[str, Any] | None) -> str:
        """The deletion vector that a file's action names, by its number; '' for none."""
        if node is None:
            return ""
        place = resolve_deletion_vector(open_store(self.root), DeletionVectorDescriptor.from_json(node))
        return f"vector {self.vectors.index(place) + 1}"

    def is_readable(self, version: int) -> bool:
        """Whether the rows of a version can still be read."""
        try:
            self.snapshot(version).to_arrow()
        except DataFileNotFound:
            return False
        return True

    @property
    def latest(self) -> int:
        """The newest version."""
        return self.snapshot().version

    @property
    def clock(self) -> Clock:
        """A clock that stands still on this day."""
        return Clock(now_ms=self.now_ms, sleep=lambda _: None, jitter=lambda: 0.5)

    def now_ms(self) -> int:
        """The day, in ms since the epoch."""
        return START_MS + round(self.day * DAY_MS)

    def _landed(self, version: int) -> int:
        self._dated()
        return version

    def _dated(self) -> None:
        """Make what was just written of this day."""
        for path in self.root.rglob("*"):
            if path.is_file() and path not in self._seen:
                self._seen.add(path)
                os.utime(path, (self.now_ms() / 1000,) * 2)


class TellingStore:
    """A store that notes what is put into the log and what is read there, by `who`, and whether a put landed."""

    def __init__(self, store: ObjectStore, who: str, events: list[tuple[str, str, str, str]]) -> None:
        self._store, self._who, self._events = store, who, events

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def put_if_absent(self, path: str, data: bytes | ChunkedBytes, durable: bool = True) -> None:
        """As of the store."""
        try:
            self._store.put_if_absent(path, data, durable)
        except ObjectExists:
            self._note("put", path, "is there")
            raise
        self._note("put", path, "lands")

    def read(self, path: str) -> bytes:
        """As of the store."""
        data = self._store.read(path)
        said = [f"{kind} {letter_of(action[kind]['path'])}" for action in actions_in(data) for kind in _changes(action)]
        self._note("read", path, ", ".join(said))
        return data

    def _note(self, operation: str, path: str, outcome: str) -> None:
        if path.startswith(f"{LOG}/") and path.endswith(".json"):
            self._events.append((self._who, operation, short_name(path), outcome))


def _changes(action: dict[str, Any]) -> list[str]:
    return [kind for kind in ("add", "remove") if kind in action]


def actions_in(data: bytes) -> list[dict[str, Any]]:
    """The actions of a commit's file."""
    return [json.loads(line) for line in data.splitlines()]


def letter_of(path: str) -> str:
    """A file by its letter."""
    return path.partition(".")[0]


def short_name(path: str) -> str:
    """The name of a file of the log without its zeros."""
    name = path.rpartition("/")[2]
    number, _, rest = name.partition(".")
    return f"{int(number)}.{rest}" if number.isdigit() else name


@contextmanager
def small_table(**properties: str) -> Iterator[SmallTable]:
    """A table with version 0, in a directory that goes."""
    with tempfile.TemporaryDirectory() as directory:
        table = SmallTable(Path(directory) / "table")
        table.create(**properties)
        yield table
