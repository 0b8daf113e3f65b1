"""The benchmarks of transactions over many tables run, lose nothing, and keep the order of timestamps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("matplotlib")

from benchmarks.__main__ import WITHOUT_SPARK
from benchmarks.harness import ROOT
from benchmarks.scales import SMALL
from benchmarks.timestamp_clients import Attempt, Session, Shelf
from benchmarks.timestamp_curves import with_table
from benchmarks.timestamp_grid import BASE, HOLD
from benchmarks.timestamp_history import require_order
from benchmarks.timestamp_real import DECIDING, DECLARED, EARLY, LATE, SETTINGS, real_runs, timestamps_real
from benchmarks.timestamp_workload import Access, Granule, Work
from benchmarks.transactions import TRANSACTION_CASES, as_of, transactions_served, transactions_two
from benchmarks.transactions_work import make_tables
from slackwater.lake.lake import LogLake
from tests.contract.owners import eventually

QUICK = replace(SMALL, log_repetitions=1, appends=2)
FAR, NEAR = Granule(0, 1), Granule(0, 2)


def test_the_rows_of_two_tables_are_all_there_and_every_commit_landed(tmp_path: Path) -> None:
    rows = transactions_two(tmp_path, QUICK)
    assert [(row.case, row.mark) for row in rows] == [("transactions-two", 1.5), ("transactions-two", None)]
    assert all(row.ours > 0 and row.rival for row in rows)


def test_the_rows_of_served_transactions_are_all_there_and_every_file_landed_once(tmp_path: Path) -> None:
    rows = transactions_served(tmp_path, QUICK, ["mixed"])
    assert [row.mark for row in rows] == [0.01, 10.0]
    assert all(row.ours > 0 for row in rows)
    assert not (tmp_path / "transactions-served").exists()


def test_the_rows_of_time_slices_are_all_there(tmp_path: Path) -> None:
    rows = as_of(tmp_path, QUICK, many=3)
    assert [(row.case, row.mark) for row in rows] == [("as-of", 3.0)] * 4
    assert all(row.ours > 0 and row.rival for row in rows)


def test_real_runs_report_what_the_goal_is_stated_for(tmp_path: Path) -> None:
    rows = timestamps_real(tmp_path, QUICK)
    assert [(row.unit, row.mark) for row in rows] == [("%", 1.0), ("s", 1.25)]


def test_a_real_run_commits_and_nobody_who_did_not_ask_is_aborted_for_a_stamp(tmp_path: Path) -> None:
    workload = replace(BASE, tables=3, clients=4, partitions=2)
    # A busy machine needs longer until anything is done.
    for seconds in (0.5, 5, 50):
        found = real_runs(tmp_path / str(seconds), workload, [LATE], seconds=seconds, rounds=1)[LATE]
        if found.counts["commit"]:
            break
    assert found.counts["commit"] > 0
    assert found.counts["stamp"] == 0
    assert found.counts.total() == found.counts["commit"] + found.counts["read"]


def _work(*accesses: Access, asks_at: float | None = None) -> Work:
    return Work(0.0, accesses, asks_at, 0.0)


def test_a_change_of_what_was_read_ends_an_attempt_and_another_partition_s_does_not(tmp_path: Path) -> None:
    """The clock has to pass the reader's time, or it commits before the change."""
    with LogLake.open(tmp_path) as lake:
        make_tables(lake, ("a", "b"))
        shelf = Shelf.of(lake.owner, ["a", "b"])
        session = Session(shelf, False, 0)
        update = _work(Access(0.5, FAR, reads=True, writes=True))
        done = []
        for changed, outcome in ((FAR, "read"), (NEAR, "commit")):
            attempt = Attempt(session, update)
            other = Attempt(session, _work(Access(0.5, changed, reads=False, writes=True)))
            assert other.run("ms") == "commit"
            assert attempt.run("ms") == outcome
            done += [one.committed for one in (other, attempt) if one.committed is not None]
        assert [write[1] for one in done for write in one.writes] == [1, 2, 3]
        require_order(done)


def test_who_was_told_a_time_is_aborted_by_a_later_read_of_what_it_writes(tmp_path: Path) -> None:
    with LogLake.open(tmp_path) as lake:
        make_tables(lake, ("a", "b"))
        shelf = Shelf.of(lake.owner, ["a", "b"])
        reader = _work(Access(0.5, FAR, reads=True, writes=False), Access(0.5, Granule(1, 1), reads=False, writes=True))

        class Overtaken(Attempt):
            """Between its ask and its write somebody else reads what it writes, in a later millisecond."""

            def _reach(self, access: Access) -> None:
                told_ms = lake.owner.cut().timestamp_ms
                eventually(lambda: lake.owner.cut().timestamp_ms > told_ms)
                others.append(Attempt(Session(shelf, False, 0), reader).run("ms"))
                super()._reach(access)

        others: list[str] = []
        work = _work(Access(0.5, FAR, reads=False, writes=True), asks_at=0.2)
        assert Overtaken(Session(shelf, False, 0), work).run("ms") == "stamp"
        assert others == ["commit"]


def test_the_settings_are_those_of_the_model_and_each_is_run_once() -> None:
    assert len(set(SETTINGS)) == len(SETTINGS)
    assert set(DECIDING) <= set(SETTINGS)
    assert DECLARED.policy.hold == HOLD.hold
    assert EARLY.policy.hold == "none"
    assert {setting.policy.slots for setting in SETTINGS} == {1, 64, 4096}


def test_the_page_has_a_place_for_the_real_runs() -> None:
    page = (ROOT / "docs" / "timestamp-curves.md").read_text(encoding="utf-8")
    assert "\n| a table |\n" in with_table(page, "real", "| a table |")


def test_every_case_is_on_the_command_line() -> None:
    assert list(TRANSACTION_CASES) == ["transactions-two", "transactions-served", "as-of", "timestamps-real"]
    assert TRANSACTION_CASES.items() <= WITHOUT_SPARK.items()
