"""Servers of a lake's owner that are killed or stopped while clients commit, and PostgreSQL that is killed under both.

Source: managed-commits.md "Commit Protocol".
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy.exc import OperationalError

from slackwater.lake.lake import LogLake
from slackwater.owner.commit import ratification
from slackwater.owner.commit.allocation import Allocation
from slackwater.owner.database.database import Database
from slackwater.owner.ownership_transfer import OwnershipTransfer
from slackwater.owner.publish.backfill import Backfill
from slackwater.scan.snapshot import Snapshot
from tests.contract.owners import at_once, landed, new_lake, proposal, releasing, table_of
from tests.contract.postgres import PostgresServer, shared_server
from tests.faults.checked_log import check_log
from tests.faults.dying_owner import COMMIT, append
from tests.faults.owner_processes import serving, writing
from tests.faults.shared_lake import Place

CLIENTS = 4

# A server that is killed.


@pytest.mark.parametrize("point", COMMIT)
def test_a_client_whose_server_was_killed_gets_the_one_result_of_its_commit(place: Place, point: str) -> None:
    name, told = place.managed(published=1, ratified=1)
    with serving(place.root, place.database, "commit", point) as server, LogLake.connect(server.url) as lake:
        snapshot = lake.snapshot(name)
        with ThreadPoolExecutor(1) as threads:
            committed = threads.submit(append, snapshot, "asked-twice", may_move=False)
            server.await_death()
            server.start()
            result = committed.result()
        assert result.version == 3
        told += ["asked-twice", "later"]
        later = append(lake.snapshot(name), "later")
        assert (later.version, later.timestamp_ms > result.timestamp_ms) == (4, True)
        lake.backfill(name)
        assert lake.repair(name) == []
    check_log(place.path(name), told)


@pytest.mark.parametrize(
    "point", ["the commit staged", "promised", "after the put-if-absent", "activated, not yet answered"]
)
def test_a_client_whose_server_was_killed_gets_the_table_that_it_takes(place: Place, point: str) -> None:
    name, told = place.of_the_file_system()
    with serving(place.root, place.database, "adopt", point) as server, LogLake.connect(server.url) as lake:
        with ThreadPoolExecutor(1) as threads:
            adopted = threads.submit(lake.adopt, name, place.path(name))
            server.await_death()
            server.start()
            adopted.result()
        assert append(lake.snapshot(name), "later").version == 4
        lake.backfill(name)
        assert lake.repair(name) == []
    check_log(place.path(name), [*told, None, "later"])


@pytest.mark.parametrize(
    "point", ["the commit staged", "commits stopped", "after the put-if-absent", "let go, not yet answered"]
)
def test_a_client_whose_server_was_killed_gets_its_table_handed_back(place: Place, point: str) -> None:
    name, told = place.managed(published=0, ratified=2)
    with serving(place.root, place.database, "release", point) as server, LogLake.connect(server.url) as lake:
        with ThreadPoolExecutor(1) as threads:
            released = threads.submit(lake.release, name)
            server.await_death()
            server.start()
            released.result()
        assert name not in [table.name for table in lake.tables()]
    assert append(Snapshot.load(place.path(name)), "free").version == 4
    check_log(place.path(name), [*told, None, "free"])


@pytest.mark.parametrize("end", ["kill", "terminate"])
def test_no_commit_is_lost_or_doubled_while_the_server_goes_and_comes_back(
    place: Place, request: pytest.FixtureRequest, end: str
) -> None:
    times = 20 if request.config.getoption("--long") else 2
    name, _ = place.managed(published=0, ratified=0)
    with (
        serving(place.root, place.database) as server,
        writing(place.root, place.database, name, server.url) as writers,
    ):
        writers.start(CLIENTS)
        for _ in range(times):
            writers.let_land(10)
            getattr(server, end)()
            server.start()
        writers.let_land(10)
        writers.stop()
        # The server was back before anybody's patience had ended.
        assert not writers.failed | writers.unknown | writers.doubtful
        server.terminate()
        # What was ratified is backfilled before a server ends in order.
        writers.check()


# PostgreSQL that is killed.


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    server = shared_server()
    yield server
    if not server.is_running:
        server.start()


@pytest.fixture(scope="module")
def on_postgres(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("lake"), shared_server().new_database())


@pytest.mark.parametrize("access", ["embedded", "http"])
def test_no_commit_is_lost_or_doubled_while_the_database_is_killed(
    on_postgres: Place, postgres: PostgresServer, request: pytest.FixtureRequest, access: str
) -> None:
    place, times = on_postgres, 10 if request.config.getoption("--long") else 1
    name, _ = place.managed(published=0, ratified=0)
    with (
        serving(place.root, place.database) as server,
        writing(place.root, place.database, name, server.url if access == "http" else None) as writers,
    ):
        writers.start(CLIENTS)
        for _ in range(times):
            writers.let_land(10)
            postgres.kill()
            postgres.start()
        writers.let_land(10)
        writers.stop()
        with place.opened() as lake:
            lake.repair(name)
            assert lake.repair(name) == []
        writers.check()


STEPS: dict[str, tuple[Any, str]] = {
    "a version is given out": (Allocation, "allocate"),
    "a commit is ratified": (ratification, "ratify"),
    "a backfill is recorded": (Backfill, "_record"),
    "a promise is made": (OwnershipTransfer, "_promise"),
    "a table is activated": (OwnershipTransfer, "_activate"),
    "commits are stopped": (OwnershipTransfer, "_stop_commits"),
    "a table is let go": (OwnershipTransfer, "_let_go"),
}


@pytest.mark.parametrize("counts", [False, True], ids=["does not count", "counts, and nobody is told"])
@pytest.mark.parametrize("step", STEPS)
def test_a_database_that_is_killed_as_a_transaction_ends_does_each_thing_once(
    on_postgres: Place, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, step: str, counts: bool
) -> None:
    place = on_postgres
    name, told = place.of_the_file_system()
    with place.opened() as lake:
        kills = _kill_once(postgres, monkeypatch, STEPS[step], counts)
        lake.adopt(name, place.path(name))
        assert append(lake.snapshot(name), "moving").version == 4
        assert append(lake.snapshot(name), "in place", may_move=False).version == 5
        assert lake.backfill(name) == 5
        assert lake.repair(name) == []
        lake.release(name)
        assert name not in [table.name for table in lake.tables()]
        assert kills == [1]
    check_log(place.path(name), [*told, None, "moving", "in place", None])


def _kill_once(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch, step: tuple[Any, str], counts: bool
) -> list[int]:
    """Kill the database at the end of the first transaction that does `step`: before it counts, or right after.

    What is returned grows when it has happened.
    """
    owner, method = step
    do, run = getattr(owner, method), Database._run
    kills: list[int] = []
    done = threading.local()

    def killed() -> None:
        kills.append(1)
        postgres.kill()
        postgres.start()

    def doing(*arguments: Any, **more: Any) -> Any:
        answer = do(*arguments, **more)
        done.by_this_transaction = True
        if not counts and not kills:
            killed()
        return answer

    def running(database: Database, work: Callable[..., Any], begin: str, durable: bool) -> Any:
        done.by_this_transaction = False
        answer = run(database, work, begin, durable)
        if counts and done.by_this_transaction and not kills:
            killed()
            raise OperationalError("COMMIT", None, psycopg.OperationalError("the connection was lost"))
        return answer

    monkeypatch.setattr(owner, method, doing)
    monkeypatch.setattr(Database, "_run", running)
    return kills


# Requests that come twice.


@pytest.mark.parametrize("combination", ["sqlite-embedded", "postgres-http"])
def test_equal_requests_for_a_table_at_once_have_one_result(tmp_path: Path, combination: str) -> None:
    lake = new_lake(tmp_path, combination)
    owner = lake.owner()
    for _ in range(3):
        asked = proposal(lake)
        taken = [landed(answer) for answer in at_once(*[partial(owner.take, asked)] * 4)]
        table = table_of(owner, asked)
        assert {(answer.commit.version, answer.commit.timestamp_ms) for answer in taken} == {
            (0, taken[0].commit.timestamp_ms)
        }
        assert table.commit(1).commit.version == 1
        given_back = releasing(table, 2)
        released = [landed(answer) for answer in at_once(*[partial(owner.release, given_back)] * 4)]
        assert {answer.commit.version for answer in released} == {2}
    lake.close()
