"""A small lake on a disk of its own, that a script looks at in the middle of its commits."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from slackwater.lake.lake import LogLake
from slackwater.log.files.segment import list_log
from slackwater.owner.api.owner_registry import OwnedTable
from slackwater.owner.database.database import Database
from slackwater.owner.database.schema import tables
from slackwater.owner.embedded import EmbeddedOwner, database_url
from slackwater.owner.state.clock import OwnerClock, system_ms
from slackwater.owner.state.table_stores import TableStores
from slackwater.protocol.actions.file_names import COMMITS_DIRECTORY, LOG
from slackwater.protocol.actions.files import AddFile
from slackwater.protocol.schema.schema import LONG, StructField, StructType
from slackwater.storage.open import open_store
from slackwater.storage.store import ChunkedBytes, ObjectStore

NAMES = ("orders", "stock")
SCHEMA = StructType((StructField("id", LONG),))
Step = Callable[[str], None]
"""Told `staged` and `copied` when a commit's file is in its place, and `copies` before that."""


@dataclass(frozen=True)
class TableSeen:
    """A table at one moment: versions that are given out and that count, by the owner; versions of files; and readers.

    `by_owner` is the newest version for who asks the owner, `by_log` for who reads the log alone.
    """

    given: int
    ratified: int
    staged: tuple[int, ...]
    log: tuple[int, ...]
    by_owner: int
    by_log: int


class SmallLake(LogLake):
    """A lake whose tables come in the order of their making, wherever their order by id matters."""

    @classmethod
    def at(cls, root: Path, step: Step | None = None, later_ms: int = 0) -> SmallLake:
        """The lake at `root`, whose clock is `later_ms` ahead; it backfills on request only."""
        clock = OwnerClock(now_ms=lambda: system_ms() + later_ms)
        owner = EmbeddedOwner(Database(database_url(root)), _WatchedPlaces(root, step), clock, backfill_delay_s=None)
        return cls(owner, owner.root_url)

    def _newly_owned(self) -> OwnedTable:
        return OwnedTable(self.owner, str(uuid.UUID(int=len(self.tables()) + 1, version=4)))

    def write(self, *names: str) -> None:
        """One transaction that adds a file to each of these tables."""
        with self.transaction() as transaction:
            for name in names:
                of_table = transaction.log(name)
                of_table.add(AddFile(f"{uuid.uuid4()}.parquet", {}, 1, 0, True, '{"numRecords":1}'), fresh=True)
                of_table.commit("WRITE")

    def seen(self, name: str) -> TableSeen:
        """A table as it is now."""
        store = open_store(self.owner.table(name).location)
        staged = [meta.path.rpartition("/")[2] for meta in store.list_from(f"{LOG}/{COMMITS_DIRECTORY}")]
        listing = list_log(store)
        found = self.owner.table(name)
        return TableSeen(
            self._given(found.table_id),
            found.ratified_version,
            tuple(sorted(int(file.partition(".")[0]) for file in staged)),
            tuple(sorted(listing.commits)),
            self.snapshot(name).version,
            max(listing.commits),
        )

    def _given(self, table_id: str) -> int:
        asked = sa.select(tables.c.allocated_version).where(tables.c.table_id == table_id)
        owner: Any = self.owner
        return int(owner.database.read(lambda connection: connection.execute(asked).scalar_one()))


class _WatchedPlaces(TableStores):
    """Places whose stores tell `step` of files of commits."""

    def __init__(self, root: Path, step: Step | None) -> None:
        super().__init__(root)
        self._step = step

    def store(self, written: str) -> ObjectStore:
        found = super().store(written)
        return found if self._step is None else _WatchedStore(found, self._step)


class _WatchedStore:
    def __init__(self, store: ObjectStore, step: Step) -> None:
        self._store, self._step = store, step

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def put_if_absent(self, path: str, data: bytes | ChunkedBytes, durable: bool = True) -> None:
        self._store.put_if_absent(path, data, durable)
        if path.startswith(f"{LOG}/{COMMITS_DIRECTORY}/"):
            self._step("staged")

    def copy_if_absent(self, src: str, dst: str) -> None:
        self._step("copies")
        self._store.copy_if_absent(src, dst)
        self._step("copied")


@contextmanager
def small_lake(*names: str) -> Iterator[Path]:
    """The root of a lake with these tables, each at version 1, all of it in the logs; it goes afterwards."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "lake"
        root.mkdir()
        with SmallLake.at(root) as lake:
            for name in names:
                lake._create_log(name, SCHEMA)
                lake.write(name)
                lake.backfill(name)
        yield root
