"""Tables of a lake that become again what they were at one instant: all of them, or none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slackwater.errors import (
    ConcurrentWriteException,
    DataFileNotFound,
    InvalidArgument,
    TableAlreadyExists,
    TableNotFound,
    TimestampOutOfRange,
)
from slackwater.lake.bulk_restore import restore_tables
from slackwater.lake.lake import LogLake
from slackwater.log.table import Table
from slackwater.maintenance.restore import restore
from slackwater.maintenance.vacuum import VacuumRequest, vacuum
from slackwater.protocol.features.managed_commits import ownership
from slackwater.scan.snapshot import Snapshot
from tests.lake.test_transaction import SCHEMA, Kit, add, remove
from tests.transaction import tables


class Filled(Kit):
    """Tables `a` and `b` of one file each, whose files went after `then`."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.root = root
        with self.lake.transaction() as tx:
            for name in ("a", "b"):
                add(tx, name, self.written(name, "old"))
        self.later(5000)
        self.then = self.clock.now_ms
        self.later(5000)
        with self.lake.transaction() as tx:
            for name in ("a", "b"):
                remove(tx, name, "old")
        self.later()
        with self.lake.transaction() as tx:
            add(tx, "a", self.written("a", "new"))
        self.later()

    def written(self, name: str, file: str) -> str:
        (self.root / name / file).write_bytes(b"x")
        return file

    def present(self, name: str) -> list[str]:
        return sorted(path.name for path in (self.root / name).iterdir() if path.is_file())


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Filled]:
    found = Filled(tmp_path)
    yield found
    found.lake.close()


def test_all_tables_become_again_what_they_were_with_one_timestamp(kit: Filled) -> None:
    kit.lake._create_log("later", SCHEMA)
    done = kit.lake.restore(kit.then, user_metadata="why")
    assert {each.name: (each.version, each.result.num_restored_files) for each in done} == {
        "a": (1, 1),
        "b": (1, 1),
        "days": (0, 0),
    }
    assert (kit.files("a"), kit.files("b")) == (["old"], ["old"])
    newest = kit.lake.history(1)[0]
    assert dict(newest.tables) == {"a": 4, "b": 3, "days": 1}
    assert set(newest.operations.values()) == {"RESTORE"}
    assert set(newest.user_metadata.values()) == {"why"}
    assert kit.lake.as_of(newest.timestamp).snapshot("a").version == 4


def test_only_the_tables_that_are_named(kit: Filled) -> None:
    assert [each.name for each in kit.lake.restore(kit.then, ["b"])] == ["b"]
    assert (kit.files("a"), kit.files("b")) == (["new"], ["old"])


def test_nothing_is_changed_where_one_table_cannot_be(kit: Filled) -> None:
    (kit.root / "b" / "old").unlink()
    with pytest.raises(DataFileNotFound, match="files that do not exist"):
        kit.lake.restore(kit.then)
    assert (kit.files("a"), kit.files("b")) == (["new"], [])
    kit.lake.restore(kit.then, ignore_missing_files=True)
    assert (kit.files("a"), kit.files("b")) == (["old"], ["old"])


def test_what_comes_back_stays_on_the_disk_when_the_transaction_is_rolled_back(kit: Filled) -> None:
    tx = kit.lake.transaction()
    restore(tx.writing("a").table, 1)
    assert [f["path"] for f in tx.snapshot("a").files().to_pylist()] == ["old"]
    tx.rollback()
    assert kit.files("a") == ["new"]
    assert kit.present("a") == ["new", "old"]


def test_a_table_that_is_restored_and_written_in_one_transaction(kit: Filled) -> None:
    with kit.lake.transaction() as tx:
        restore(tx.writing("a").table, 1)
        add(tx, "a", kit.written("a", "more"))
    assert kit.files("a") == ["more", "old"]


def test_restored_and_written_the_files_of_then_stay_after_a_roll_back(kit: Filled) -> None:
    tx = kit.lake.transaction()
    restore(tx.writing("a").table, 1)
    add(tx, "a", kit.written("a", "more"))
    tx.rollback()
    assert kit.present("a") == ["new", "old"]


def test_where_others_were_faster_it_is_done_again(kit: Filled) -> None:
    tries = []
    past = kit.lake.as_of(kit.then)

    def work(tx: object) -> None:
        restore_tables(tx, past, ["a"])  # type: ignore[arg-type]
        tries.append(1)
        if len(tries) == 1:
            log = kit.lake.transaction()
            add(log, "a", kit.written("a", "other"))
            log.commit()
            kit.later()

    kit.lake.run(work)
    assert (len(tries), kit.files("a")) == (2, ["old"])


@pytest.mark.parametrize("more", [False, True])
def test_a_restore_never_goes_behind_another_commit(kit: Filled, more: bool) -> None:
    tx = kit.lake.transaction()
    restore(tx.writing("a").table, 1)
    if more:
        add(tx, "a", kit.written("a", "more"))
    other = kit.lake.transaction()
    add(other, "a", kit.written("a", "other"))
    other.commit()
    with pytest.raises(ConcurrentWriteException, match="re-adds may have been deleted"):
        tx.commit()
    assert kit.files("a") == ["new", "other"]


def test_a_table_that_was_adopted_keeps_its_owner_when_it_is_what_it_was_before(tmp_path: Path) -> None:
    kit = Kit(tmp_path)
    first = tables.append(tables.table(path=str(tmp_path / "plain")), tables.add("f")).snapshot
    (tmp_path / "plain" / "f").write_bytes(b"x")
    tables.delete(first, "f")
    for commit in (tmp_path / "plain" / "_delta_log").iterdir():
        os.utime(commit, (kit.clock.now_ms / 1000 - 60,) * 2)
    kit.lake.adopt("plain", str(tmp_path / "plain"))
    table = kit.lake.snapshot("plain").table
    restore(table, 1)
    after = kit.lake.snapshot("plain")
    assert after.files()["path"].to_pylist() == ["f"]
    assert ownership(after.configuration, "") is not None
    kit.lake.release("plain")
    plain = kit.lake._table_at(tmp_path / "plain")
    restore(plain, after.version)
    released = Snapshot.open(plain)
    assert (released.version, ownership(released.configuration, "")) == (after.version + 2, None)
    kit.lake.close()


@pytest.mark.parametrize(
    ("names", "error"), [(["nobody"], TableNotFound), (["a", "a"], InvalidArgument), (["late"], TableNotFound)]
)
def test_names_that_cannot_be(kit: Filled, names: list[str], error: type[Exception]) -> None:
    kit.lake._create_log("late", SCHEMA)
    with pytest.raises(error):
        kit.lake.restore(kit.then, names)


def test_the_future_is_refused(kit: Filled) -> None:
    with pytest.raises(TimestampOutOfRange):
        kit.lake.restore(kit.clock.now_ms + 10**9)


def test_a_lake_is_cloned_as_it_was(kit: Filled, tmp_path: Path) -> None:
    done = kit.lake.clone(kit.then, tmp_path / "copy", user_metadata="why")
    assert {each.name: (each.version, each.result.source_num_of_files) for each in done} == {
        "a": (1, 1),
        "b": (1, 1),
        "days": (0, 0),
    }
    with LogLake.open(tmp_path / "copy") as copy:
        assert [table.name for table in copy.tables()] == ["a", "b", "days"]
        (path,) = copy.snapshot("a").files()["path"].to_pylist()
        assert path == f"file:{kit.lake.snapshot('a').store.local_root}/old"
        with copy.transaction() as tx:
            add(tx, "a", "own")
        assert len(copy.snapshot("a").files()) == 2
    assert kit.files("a") == ["new"]


def test_tables_are_cloned_into_a_lake_that_is_open(kit: Filled, tmp_path: Path) -> None:
    with LogLake.open(tmp_path / "copy") as copy:
        copy._create_log("b", SCHEMA)
        with pytest.raises(TableAlreadyExists):
            kit.lake.clone(kit.then, copy)
        assert [table.name for table in copy.tables()] == ["b"]
        assert [each.name for each in kit.lake.clone(kit.then, copy, ["a"])] == ["a"]
        (tmp_path / "copy" / "days").mkdir()
        (tmp_path / "copy" / "days" / "x").write_bytes(b"x")
        with pytest.raises(InvalidArgument, match="not empty"):
            kit.lake.clone(kit.then, copy, ["days"])


@pytest.mark.parametrize("is_in_lake", [True, False])
def test_no_file_comes_back_while_a_vacuum_deletes(kit: Filled, is_in_lake: bool) -> None:
    """Its entries are the owner's commits, and a restore is refused in a transaction as outside."""
    refused = []

    def restored() -> None:
        if is_in_lake:
            with kit.lake.transaction() as tx:
                restore(tx.writing("a").table, 1)
        else:
            restore(kit.lake.snapshot("a").table, 1)

    def before(operation: str, path: str) -> None:
        if operation == "delete" and path == "old":
            with pytest.raises(ConcurrentWriteException, match="a running VACUUM may delete"):
                restored()
            refused.append(path)

    os.utime(kit.root / "a" / "old", (0, 0))
    snapshot = kit.lake.snapshot("a")
    store: Any = tables.StepStore(snapshot.store, before)
    table = Table(store, snapshot.table.owned)
    assert vacuum(table, VacuumRequest(0, checks_retention=False)).paths == ("old",)
    assert (refused, kit.files("a"), kit.present("a")) == (["old"], ["new"], ["new"])


def test_a_restore_in_a_transaction_that_began_before_a_vacuum_does_not_land_behind_it(kit: Filled) -> None:
    os.utime(kit.root / "a" / "old", (0, 0))
    tx = kit.lake.transaction()
    restore(tx.writing("a").table, 1)
    assert vacuum(kit.lake.snapshot("a").table, VacuumRequest(0, checks_retention=False)).paths == ("old",)
    with pytest.raises(ConcurrentWriteException, match="re-adds may have been deleted"):
        tx.commit()
    assert (kit.files("a"), kit.present("a")) == (["new"], ["new"])
