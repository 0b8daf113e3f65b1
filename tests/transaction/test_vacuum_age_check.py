"""A transaction that lasted: what it wrote is there when it is committed, and stays, or nothing is committed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slackwater.errors import ConcurrentWriteException
from slackwater.log.table import Table
from slackwater.maintenance.vacuum import VacuumRequest, vacuum
from slackwater.protocol.actions.files import AddFile
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.commit.factory import begin as begin_on
from slackwater.transaction.running_vacuum import END, SIGN, SPARES, START
from tests.lake.test_transaction import Kit
from tests.maintenance.aged import HOUR_MS, AgedTable
from tests.transaction.tables import VECTORS, StepStore, add, begin, delete_rows, live

NOW = VacuumRequest(0, checks_retention=False)


@pytest.fixture
def aged(tmp_path: Path) -> AgedTable:
    table = AgedTable(tmp_path / "t", VECTORS)
    table.at(1).append("a")
    return table.at(2)


def _said(aged: AgedTable, operation: str, sign: str = "1", spares_ms: int = 24 * HOUR_MS) -> None:
    tags = {SIGN: sign, SPARES: str(spares_ms)}
    aged._landed(begin(aged.snapshot, aged.time).commit(operation, tags=tags).version)


def _vacuumed(aged: AgedTable) -> tuple[str, ...]:
    return vacuum(aged.snapshot.table, NOW, aged.time.clock()).paths


def test_files_that_a_vacuum_took_for_those_of_a_killed_writer_are_not_committed(aged: AgedTable) -> None:
    transaction = begin(aged.snapshot, aged.time)
    transaction.add([add(aged.file("late")), add(aged.file("later"))])
    aged.at(2 + 25)
    assert _vacuumed(aged) == ("late", "later")
    version = aged.snapshot.version
    with pytest.raises(
        ConcurrentWriteException, match=r"2 files .* are missing \(late, later\)\. It began 25\.0 hours"
    ):
        transaction.commit("WRITE")
    assert (aged.snapshot.version, live(aged.snapshot.store)) == (version, ["a"])


def test_files_of_deletion_vectors_are_looked_for_as_well(aged: AgedTable) -> None:
    transaction = begin(aged.snapshot, aged.time)
    delete_rows(transaction, {"a": (1,)})
    for path in transaction.vector_paths:
        aged._touch(aged.root / path)
    aged.at(2 + 25)
    assert _vacuumed(aged) == tuple(transaction.vector_paths)
    with pytest.raises(ConcurrentWriteException, match="1 files written by this transaction are missing"):
        transaction.commit("DELETE")


def test_what_is_there_is_committed_however_late(aged: AgedTable) -> None:
    transaction = begin(aged.snapshot, aged.time)
    transaction.add([add(aged.file("late"))])
    transaction.remove(())
    aged.at(2 + 25)
    transaction.commit("WRITE")
    assert live(aged.snapshot.store) == ["a", "late"]
    assert _vacuumed(aged) == ()


def test_a_young_transaction_is_not_looked_at(aged: AgedTable) -> None:
    transaction = begin(aged.snapshot, aged.time)
    transaction.add([add("never-written")])
    aged.at(2.9)
    transaction.commit("WRITE")


def test_a_late_commit_waits_for_a_vacuum_that_may_take_its_files(aged: AgedTable) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            _said(aged, END)

    clock = replace(aged.time.clock(), sleep=sleep)
    transaction = begin_on(aged.snapshot, clock=clock)
    transaction.add([add(aged.file("late"))])
    aged.at(2 + 25)
    _said(aged, START)
    transaction.commit("WRITE")
    assert len(slept) == 3
    assert live(aged.snapshot.store) == ["a", "late"]


def test_a_vacuum_that_does_not_end_is_not_waited_for_for_ever(aged: AgedTable) -> None:
    transaction = begin(aged.snapshot, aged.time)
    transaction.add([add(aged.file("late"))])
    aged.at(2 + 25)
    _said(aged, START)
    with pytest.raises(ConcurrentWriteException, match="a commit of files written long ago needs"):
        transaction.commit("WRITE")
    assert sum(aged.time.slept) == 1800
    assert (aged.root / "late").exists()


@pytest.mark.parametrize(("hours", "spares_hours", "waits"), [(22.9, 24, False), (23.1, 24, True), (1.5, 2, True)])
def test_a_vacuum_that_spares_files_of_this_age_is_not_waited_for(
    aged: AgedTable, hours: float, spares_hours: int, waits: bool
) -> None:
    transaction = begin(aged.snapshot, aged.time)
    transaction.add([add(aged.file("late"))])
    aged.at(2 + hours)
    _said(aged, START, spares_ms=spares_hours * HOUR_MS)
    if waits:
        with pytest.raises(ConcurrentWriteException):
            transaction.commit("WRITE")
    else:
        transaction.commit("WRITE")
    assert bool(aged.time.slept) is waits


def test_a_vacuum_that_begins_while_a_late_commit_is_tried_is_seen_by_its_next_attempt(aged: AgedTable) -> None:
    """Its files were there when they were looked for first."""
    done: list[tuple[str, ...]] = []

    def before(operation: str, path: str) -> None:
        if operation == "put_if_absent" and path.endswith(".json") and not done:
            done.append(())
            done[0] = _vacuumed(aged)

    store: Any = StepStore(aged.snapshot.store, before)
    transaction = begin(Snapshot.open(Table(store)), aged.time)
    transaction.add([add(aged.file("late"))], fresh=True)
    aged.at(2 + 25)
    with pytest.raises(ConcurrentWriteException, match="1 files written by this transaction are missing"):
        transaction.commit("WRITE")
    assert (done, live(aged.snapshot.store)) == ([("late",)], ["a"])


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Kit]:
    found = Kit(tmp_path / "lake")
    yield found
    found.lake.close()


def _add(name: str) -> AddFile:
    return AddFile(name, {}, 1, 1, stats='{"numRecords":1}')


@pytest.mark.parametrize("parts", [1, 2])
def test_a_transaction_of_a_lake_that_lasted_does_not_commit_what_is_gone(kit: Kit, parts: int) -> None:
    tx = kit.lake.transaction()
    for part in range(parts):
        log = tx.log("a")
        log.add(_add(f"late-{part}"), fresh=True)
        log.commit("WRITE")
    for joined in tx.writing("a")._branch.joined:
        joined.transaction.begun_ms -= 25 * HOUR_MS
    with pytest.raises(ConcurrentWriteException, match=rf"{parts} files written by this transaction are missing"):
        tx.commit()
    assert kit.files("a") == []


def test_the_owner_moves_no_late_append_behind_a_vacuum_by_itself(kit: Kit) -> None:
    transaction = begin_on(kit.lake.snapshot("a"))
    transaction.add([_add("late")], fresh=True)
    assert transaction.may_move
    transaction.begun_ms -= 25 * HOUR_MS
    assert not transaction.may_move
