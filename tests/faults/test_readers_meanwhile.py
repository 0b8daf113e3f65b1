"""Whoever reads a managed table by its path while processes commit to it: a whole, possibly older version, no error."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.errors import MissingCommit
from slackwater.protocol.actions.file_names import commit_name
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.store import ObjectMeta, ObjectStore
from tests.faults.dying_owner import append
from tests.faults.owner_processes import writing
from tests.faults.shared_lake import Place
from tests.interop.peers import PEERS, why_absent
from tests.transaction.tables import table

ROWS = 10


def _rows_of_peer(peer: str, path: Path) -> int:
    found: int = PEERS[peer](str(path)).num_rows
    return found


def _rows_by_log(path: Path) -> int:
    return ROWS * int(Snapshot.load(path).live_files(["path"]).num_rows)


READERS: dict[str, Callable[[Path], int]] = {
    "slackwater": _rows_by_log,
    **{peer: partial(_rows_of_peer, peer) for peer in PEERS},
}


@pytest.mark.interop
@pytest.mark.parametrize("reader", READERS)
def test_who_reads_by_the_path_sees_a_whole_version_while_commits_go_on(
    place: Place, request: pytest.FixtureRequest, reader: str
) -> None:
    absent = why_absent(reader) if reader in PEERS else None
    if absent is not None:
        pytest.skip(absent)
    reads = 100 if request.config.getoption("--long") else 5
    name, _ = place.managed(published=0, ratified=0, **{"delta.checkpointInterval": "10"})
    path, seen = place.path(name), 0
    with writing(place.root, place.database, name, data=_parquet()) as writers:
        writers.start(2)
        for _ in range(reads):
            writers.let_land(5)
            oldest = _last_backfilled(path)
            rows = READERS[reader](path)
            # Each version has one file more than the one before.
            assert rows % ROWS == 0
            assert max(oldest, seen) <= rows // ROWS <= _last_backfilled(path)
            seen = rows // ROWS
        writers.stop()
        with place.opened() as lake:
            lake.backfill(name)
        writers.check()
    assert READERS[reader](path) == ROWS * len(writers.landed)


def _parquet() -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": pa.array(range(ROWS), pa.int64())}), sink)
    return bytes(sink.getvalue())


def _last_backfilled(path: Path) -> int:
    """The newest version that is there for everybody; one after the other, since a listing is no moment."""
    version = 0
    while (path / "_delta_log" / commit_name(version + 1)).exists():
        version += 1
    return version


class HastyStore:
    """A store whose first listing misses the file called `missed`, as when it comes while the directory is read."""

    def __init__(self, store: ObjectStore, missed: str) -> None:
        self._store = store
        self._missed = missed
        self.listings = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def list_from(self, prefix: str, start_after: str = "", recursive: bool = False) -> list[ObjectMeta]:
        self.listings += 1
        found = self._store.list_from(prefix, start_after, recursive)
        return [meta for meta in found if self.listings > 1 or not meta.path.endswith(self._missed)]


@pytest.mark.parametrize("missed", [0, 1, 2])
def test_a_listing_that_shows_a_commit_without_those_before_it_is_repeated(missed: int) -> None:
    snapshot = table()
    for number in range(1, 4):
        snapshot = append(snapshot, f"f{number}").snapshot
    store: Any = HastyStore(snapshot.store, commit_name(missed))
    assert Snapshot.open(store).live_files(["path"]).num_rows == 3
    assert store.listings == 2


def test_a_commit_that_stays_away_is_missed() -> None:
    snapshot = table()
    for number in range(1, 4):
        snapshot = append(snapshot, f"f{number}").snapshot
    snapshot.store.delete([f"_delta_log/{commit_name(1)}"])
    store: Any = HastyStore(snapshot.store, "nothing")
    with pytest.raises(MissingCommit, match="version 1 is missing"):
        Snapshot.open(store)
    assert store.listings == 2
