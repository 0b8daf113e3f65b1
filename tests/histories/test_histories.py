"""Recorded histories of concurrent runs, in which clients and servers are killed, paused and lied to by their clocks.

Each run is serializable in the order of its timestamps, shows no transaction in part, and loses nothing.
Source: docs/guarantees.md; paper §3.1, §3.2.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.contract.postgres import shared_server
from tests.faults.owner_processes import Server, serving
from tests.histories.checker import dependencies
from tests.histories.crew import Conditions, Crew, crew_of
from tests.histories.history import Outcome
from tests.histories.recording import Run
from tests.histories.verdicts import faults_of
from tests.histories.workload import SLICE, STAMPED, Workload

HOUR_MS = 3_600_000
DRIFT_MS = 200
SHORT_LEASE_MS = 300


@dataclass(frozen=True)
class Case:
    """A run: so many `processes` with so many clients each, which together commit at least `goal` transactions.

    `kills` and `pauses` are of processes of clients, `restarts` of the server that the owner is served by, if there is
    one.
    """

    database: str
    processes: int
    threads: int
    goal: int
    kills: int = 0
    pauses: int = 0
    restarts: int = 0
    is_served: bool = False
    conditions: tuple[Conditions, ...] = (Conditions(),)
    workload: Workload = field(default_factory=Workload)


STEPPING = tuple(Conditions(late_ms=late_ms, drift_ms=DRIFT_MS) for late_ms in (0, -HOUR_MS, 0))
FORGOTTEN = tuple(Conditions(drift_ms=DRIFT_MS, settings={"lease_ms": SHORT_LEASE_MS}) for _ in range(2))
LOSSY = (Conditions(loss=0.04),)
SHORT = {
    "threads of one process, SQLite": Case("sqlite", 1, 6, 36),
    "processes that are killed, clocks that step, SQLite": Case("sqlite", 3, 1, 36, kills=2, conditions=STEPPING),
    "processes that are killed and paused, short leases, PostgreSQL": Case(
        "postgres", 4, 1, 36, kills=1, pauses=2, conditions=FORGOTTEN
    ),
    "groups in the logs, processes that are killed, short leases, SQLite": Case(
        "sqlite", 3, 1, 36, kills=2, conditions=FORGOTTEN, workload=Workload(has_groups=True)
    ),
    "a server that is killed, answers that are lost, PostgreSQL": Case(
        "postgres", 2, 3, 36, kills=1, pauses=1, restarts=2, is_served=True, conditions=LOSSY
    ),
}
LONG = {
    "groups in the logs, 16 clients of a server, PostgreSQL": Case(
        "postgres", 4, 4, 500, kills=3, restarts=7, is_served=True, workload=Workload(has_groups=True)
    ),
    "16 threads, SQLite": Case("sqlite", 1, 16, 330),
    "16 processes, SQLite": Case("sqlite", 16, 1, 330, kills=7, pauses=7, conditions=STEPPING),
    "16 processes, PostgreSQL": Case("postgres", 16, 1, 500, kills=10, pauses=10, conditions=FORGOTTEN),
    "8 processes of 2 threads, PostgreSQL, clocks hours apart": Case(
        "postgres", 8, 2, 500, kills=7, conditions=STEPPING
    ),
    "16 clients of a server, PostgreSQL": Case(
        "postgres", 4, 4, 500, kills=3, pauses=3, restarts=7, is_served=True, conditions=LOSSY
    ),
    "16 clients of a server, SQLite": Case(
        "sqlite", 4, 4, 330, kills=3, pauses=3, restarts=7, is_served=True, conditions=LOSSY
    ),
    "late choosers only, few lists": Case(
        "postgres", 8, 1, 330, kills=3, workload=Workload(tables=("t0", "t1"), keys=("row0", "log0"), early=0.0)
    ),
    "early choosers only, few lists": Case(
        "postgres", 8, 1, 200, kills=3, workload=Workload(tables=("t0", "t1"), keys=("row0", "log0"), early=1.0)
    ),
    "two-phase locking only": Case("postgres", 8, 1, 330, kills=3, workload=Workload(locking=1.0)),
}


@pytest.mark.parametrize("name", SHORT)
def test_concurrent_transactions_are_serializable_in_the_order_of_their_timestamps(name: str, tmp_path: Path) -> None:
    _judge(SHORT[name], tmp_path, seed=len(name))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", LONG)
def test_long_runs_are_serializable_in_the_order_of_their_timestamps(name: str, seed: int, tmp_path: Path) -> None:
    _judge(LONG[name], tmp_path, seed)


def _judge(case: Case, directory: Path, seed: int) -> None:
    run = _run(case, directory, seed)
    found = faults_of(run)
    lines = "\n".join(f"  {each}" for each in found)
    assert not found, f"seed {seed}, of {run.counts}; the record is in {directory}:\n{lines}"
    _require_a_contest(case, run)


def _require_a_contest(case: Case, run: Run) -> None:
    """There was enough that could have gone wrong."""
    committed = [t for t in run.history.transactions if t.outcome is Outcome.COMMITTED]
    edges = Counter(dependency.kind for dependency in dependencies(run.history))
    assert len(committed) >= case.goal
    assert edges["rw"] >= case.goal / 4, edges
    assert edges["wr"] >= case.goal / 4, edges
    assert sum(len(t.versions) > 1 for t in committed) >= case.goal / 10
    assert len({frozenset(cut.items()) for cut in run.cuts}) >= case.goal / 4
    assert len(run.sights) >= case.goal / 4
    if case.workload.early:
        assert any(t.row_timestamps_ms and len(t.versions) > 1 for t in committed)
    assert run.history.slices
    if case.workload.has_groups:
        assert sum(map(len, run.history.groups.values())) >= case.goal / 5


def _run(case: Case, directory: Path, seed: int) -> Run:
    root = directory / "lake"
    root.mkdir()
    is_sqlite = case.database == "sqlite"
    database = f"sqlite:///{directory}/owner.db" if is_sqlite else shared_server().new_database()
    with (
        _served(case, root, database) as server,
        crew_of(root, database, case.workload, directory / "record", seed, server.url if server else None) as crew,
    ):
        _drive(case, crew, server, random.Random(seed))  # noqa: S311  (a run is repeated by its seed)
        return crew.run()


@contextmanager
def _served(case: Case, root: Path, database: str) -> Iterator[Server | None]:
    if not case.is_served:
        yield None
        return
    with serving(root, database) as server:
        yield server


def _drive(case: Case, crew: Crew, server: Server | None, chance: random.Random) -> None:
    """Let them work, and in between kill, pause and restart, in any order."""
    events = ["kill"] * case.kills + ["pause"] * case.pauses + ["restart"] * case.restarts
    chance.shuffle(events)
    started = 0

    def start(number: int) -> None:
        nonlocal started
        for _ in range(number):
            crew.start(1, case.threads, case.conditions[started % len(case.conditions)])
            started += 1

    start(case.processes)
    for event in events:
        crew.let_commit(chance.randint(1, max(1, 2 * case.goal // (len(events) + 1))))
        if event == "kill":
            crew.kill(chance)
            start(1)
        elif event == "pause":
            crew.pause(chance, commits=5)
        else:
            assert server is not None
            server.kill()
            server.start()
    crew.let_commit(max(case.processes, case.goal - crew.ends["committed"]))
    # What a run is not worth much without, and chance may have left out.
    crew.let_reach(SLICE, 1)
    if case.workload.early:
        crew.let_reach(STAMPED, 1)
    crew.stop()
