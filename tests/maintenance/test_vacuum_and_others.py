"""What comes back while a VACUUM deletes: nothing that anybody needs is lost, whoever comes first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import slackwater.maintenance.vacuum as of_vacuum
from slackwater.errors import ConcurrentWriteException, DataFileNotFound, StorageRefused
from slackwater.log.table import Table
from slackwater.maintenance.clone import shallow_clone
from slackwater.maintenance.restore import restore
from slackwater.maintenance.vacuum import VacuumRequest, VacuumResult, vacuum
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.log_maintenance import checkpoint
from slackwater.transaction.running_vacuum import AT_WORK_MS, END, SIGN, SIGN_OF_LIFE_MS, START
from tests.maintenance.aged import AgedTable
from tests.transaction.tables import StepStore, add, begin, live

WEEK = 24 * 7
LATER = 3 * WEEK


@pytest.fixture
def aged(tmp_path: Path) -> AgedTable:
    """A table with the file `keep`, of whose first version `a`, `b` and `c` went long ago."""
    table = AgedTable(tmp_path / "t")
    table.at(1).append("a", "b", "c", "keep")
    table.at(2).remove("a", "b", "c")
    return table.at(LATER)


def _vacuumed(aged: AgedTable, before_deletion: Callable[[str], None], **more: Any) -> VacuumResult:
    """A VACUUM that others step into before each file goes."""

    def before(operation: str, path: str) -> None:
        if operation == "delete" and not path.startswith("_delta_log"):
            before_deletion(path)

    store: Any = StepStore(aged.snapshot.store, before)
    return vacuum(Table(store), VacuumRequest(**more), aged.time.clock())


def _once(work: Callable[[], Any]) -> Callable[[str], None]:
    done: list[Any] = []

    def step(_: str) -> None:
        if not done:
            done.append(None)
            work()

    return step


def _restored(aged: AgedTable, **more: Any) -> None:
    restore(aged.snapshot.table, 1, clock=aged.time.clock(), **more)


def _brought_back(aged: AgedTable, *paths: str) -> int:
    """A commit as that of an engine that knows of no VACUUM."""
    transaction = begin(aged.snapshot, aged.time)
    transaction.add([add(path) for path in paths])
    return transaction.commit("RESTORE").version


def _operations(aged: AgedTable) -> list[str]:
    return [info["operation"] for _, _, info in aged.snapshot.history().entries()][::-1][3:]


def _said(aged: AgedTable, operation: str, sign: str | None = None) -> None:
    """An entry of a VACUUM, at this time; without a `sign` as other engines make it."""
    tags = None if sign is None else {SIGN: sign}
    aged._landed(begin(aged.snapshot, aged.time).commit(operation, tags=tags).version)


@pytest.mark.parametrize("way", [{}, {"lite": True}])
def test_a_restore_that_begins_while_files_go_is_refused_and_nothing_is_lost(aged: AgedTable, way: Any) -> None:
    refused = []

    def restored() -> None:
        with pytest.raises(ConcurrentWriteException, match=r"a running VACUUM may delete\. Version 3 records") as error:
            _restored(aged)
        refused.append(error.value.retryable)

    assert _vacuumed(aged, _once(restored), **way).paths == ("a", "b", "c")
    assert (refused, aged.files(), live(aged.snapshot.store)) == ([True], ["keep"], ["keep"])
    assert _operations(aged) == [START, END]
    with pytest.raises(DataFileNotFound):
        _restored(aged)


def test_a_restore_that_brings_no_file_back_is_not_in_the_way(aged: AgedTable) -> None:
    aged.append("new")
    _vacuumed(aged, _once(lambda: restore(aged.snapshot.table, 2, clock=aged.time.clock())))
    assert live(aged.snapshot.store) == ["keep"]


def test_a_restore_goes_on_where_missing_files_are_no_error(aged: AgedTable) -> None:
    with pytest.raises(
        DataFileNotFound,
        match=r"deleted 3 files \(a, b, c\) that other writers re-added .*, by a commit after version 2",
    ):
        _vacuumed(aged, _once(lambda: _restored(aged, ignore_missing_files=True)))
    assert _operations(aged) == [START, "RESTORE", END]


@pytest.mark.parametrize("way", [{}, {"lite": True}, {"logs": False}])
def test_what_another_engine_brings_back_between_two_batches_stays(
    aged: AgedTable, monkeypatch: pytest.MonkeyPatch, way: Any
) -> None:
    monkeypatch.setattr(of_vacuum, "_BATCH_ON_DISK", 1)
    found = _vacuumed(aged, _once(lambda: _brought_back(aged, "b", "c")), **way)
    assert (found.paths, found.size_bytes, aged.files()) == (("a",), 100, ["b", "c", "keep"])


def test_what_another_engine_brings_back_in_the_moment_in_which_it_goes_is_told(aged: AgedTable) -> None:
    with pytest.raises(DataFileNotFound, match=r"deleted 1 files \(b\) that other writers re-added"):
        _vacuumed(aged, _once(lambda: _brought_back(aged, "b")))
    (_, _, end) = next(aged.snapshot.history().entries(1))
    assert end["operationParameters"] == {"status": "FAILED"}


def test_what_comes_back_is_looked_for_where_the_log_was_cleaned_up_meanwhile(
    aged: AgedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_vacuum, "_BATCH_ON_DISK", 1)

    def cleaned_up() -> None:
        version = _brought_back(aged, "b")
        aged.append("new")
        checkpoint(aged.snapshot, aged.time.now_ms)
        (aged.root / f"_delta_log/{version:020}.json").unlink()

    assert _vacuumed(aged, _once(cleaned_up)).paths == ("a", "c")
    assert aged.files() == ["b", "keep", "new"]


def test_a_vacuum_that_lasts_says_again_and_again_that_it_is_at_work(
    aged: AgedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_vacuum, "_BATCH_ON_DISK", 1)

    def later(_: str) -> None:
        aged.time.now_ms += SIGN_OF_LIFE_MS

    _vacuumed(aged, later)
    assert _operations(aged) == [START, START, START, END]
    signs = {info["tags"][SIGN] for _, _, info in aged.snapshot.history().entries(4)}
    assert len(signs) == 1
    assert SIGN_OF_LIFE_MS < AT_WORK_MS


def test_a_vacuum_that_was_killed_is_in_the_way_for_half_an_hour(aged: AgedTable) -> None:
    _said(aged, START, "killed")
    aged.time.now_ms += AT_WORK_MS - 1
    with pytest.raises(ConcurrentWriteException, match=r"or from .* if it was killed"):
        _restored(aged)
    aged.time.now_ms += 2
    _restored(aged)
    assert live(aged.snapshot.store) == ["a", "b", "c", "keep"]


@pytest.mark.parametrize(
    ("entries", "is_in_the_way"),
    [
        ([(START, None)], True),
        ([(START, None), (END, None)], False),
        ([(START, None), (START, None), (END, None)], True),
        ([(START, None), (START, None), (END, None), (END, None)], False),
        ([(START, "1"), (END, "1")], False),
        ([(START, "1"), (START, "1"), (END, "1")], False),
        ([(START, "1"), (START, "2"), (END, "2")], True),
        ([(START, "1"), (START, None), (END, None)], True),
        ([(START, None), (START, "1"), (END, "1")], True),
        ([(START, "1"), (END, "1"), (START, "2")], True),
    ],
)
def test_an_end_is_that_of_its_own_beginning(
    aged: AgedTable, entries: list[tuple[str, str | None]], is_in_the_way: bool
) -> None:
    for entry in entries:
        _said(aged, *entry)
    if is_in_the_way:
        with pytest.raises(ConcurrentWriteException, match="a running VACUUM"):
            _restored(aged)
    else:
        _restored(aged)
    assert ("a" in live(aged.snapshot.store)) is not is_in_the_way


def test_a_vacuum_that_failed_has_ended(aged: AgedTable) -> None:
    def refused(_: str) -> None:
        raise StorageRefused("not for you")

    with pytest.raises(StorageRefused):
        _vacuumed(aged, refused)
    _restored(aged)
    assert live(aged.snapshot.store) == ["a", "b", "c", "keep"]


def test_a_clone_that_brings_files_of_the_tables_own_back_is_refused_while_files_go(
    aged: AgedTable, tmp_path: Path
) -> None:
    copy = Table.at(str(tmp_path / "copy"))
    shallow_clone(Snapshot.load(str(aged.root), 1), copy, clock=aged.time.clock())

    def replaced() -> None:
        back = Snapshot.open(Table.at(str(tmp_path / "copy"), follows_outside=True))
        with pytest.raises(ConcurrentWriteException, match="a clone of a clone of the table itself needs files"):
            shallow_clone(back, aged.snapshot.table, True, clock=aged.time.clock())

    _vacuumed(aged, _once(replaced))
    assert live(aged.snapshot.store) == aged.files() == ["keep"]


def test_a_clone_of_another_table_takes_the_place_of_one_whose_files_go(aged: AgedTable, tmp_path: Path) -> None:
    other = AgedTable(tmp_path / "other")
    other.append("x")
    _vacuumed(aged, _once(lambda: shallow_clone(other.snapshot, aged.snapshot.table, True, clock=aged.time.clock())))
    assert len(live(aged.snapshot.store)) == 1
