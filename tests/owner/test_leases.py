"""Versions that were given out and are not ratified: of the dead, of the slow, and of those behind them."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from slackwater.errors import CommitFailed, CommitUnknown, StorageError, StorageRefused
from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.api.commits import CommitConflict
from slackwater.owner.database.schema import commits
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.state.clock import LEASE_MS, OwnerClock
from slackwater.owner.state.log_head import TURN_MS
from tests.contract.owners import (
    DATABASES,
    PATIENCE_S,
    START_MS,
    Action,
    FakeClock,
    Killed,
    OwnedLake,
    Table,
    at_once,
    created,
    dead_holder,
    eventually,
    foreign_holder,
    info_in,
    landed,
    new_lake,
    releasing,
    with_row_ids,
)


@pytest.fixture(scope="module", params=DATABASES)
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnedLake]:
    found = new_lake(tmp_path_factory.mktemp("leases"), request.param)
    yield found
    found.close()


def _cannot_be_read(*_: object) -> str:
    raise StorageError("the log does not answer")


# The tests share lakes, whose time does not go back: each begins when those before it are long over.
_starts = itertools.count(START_MS, 3_600_000)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(next(_starts))


@pytest.fixture
def table(lake: OwnedLake, clock: FakeClock) -> Table:
    return created(lake, lake.embedded(clock=clock.owner_clock()))


def rows(table: Table) -> list[tuple[int, str]]:
    """Version and state of each commit since the creation that the database knows."""
    owner = table.owner
    assert isinstance(owner, EmbeddedOwner)
    query = sa.select(commits.c.version, commits.c.state).where(
        commits.c.table_id == table.table_id, commits.c.version > 0
    )
    return [
        (row.version, row.state) for row in owner.database.read(lambda c: c.execute(query.order_by("version")).all())
    ]


def abandon(lake: OwnedLake, table: Table, clock: OwnerClock, when: str = "before", *actions: Action) -> str:
    """Let a process end while it stages the next version; the name of that commit."""

    def end(at: str, operation: str, path: str) -> None:
        if at == when and operation == "put":
            raise Killed

    request = table.append(table.latest + 1, *actions)
    with pytest.raises(Killed):
        lake.embedded(step=end, clock=clock).commit(request)
    return request.commit_id


@pytest.mark.parametrize("when", ["before", "after"])
def test_the_version_of_a_dead_process_is_free_at_once(
    lake: OwnedLake, table: Table, clock: FakeClock, when: str
) -> None:
    lost = abandon(lake, table, clock.owner_clock(holder=dead_holder()), when)
    assert rows(table) == [(1, "allocated")]
    own = table.request(1)
    assert landed(table.owner.commit(own)).commit.version == 1
    assert lost not in table.ids()
    assert table.ids()[1:] == [own.commit_id]


def test_a_version_is_kept_for_whoever_may_live_until_the_lease_ends(
    lake: OwnedLake, table: Table, clock: FakeClock
) -> None:
    abandon(lake, table, clock.owner_clock(holder=foreign_holder()))
    clock.now_ms += LEASE_MS
    assert table.owner.repair(table.table_id) == []
    assert rows(table) == [(1, "allocated")]
    # A commit of few actions gets a little more than the bare lease.
    clock.now_ms += 10
    (said,) = table.owner.repair(table.table_id)
    assert said == f"{table.name}: the versions allocated to a crashed process were released"
    assert rows(table) == []
    assert table.commit(1).commit.version == 1


def test_a_commit_waits_for_the_lease_and_then_gets_the_version(
    lake: OwnedLake, table: Table, clock: FakeClock
) -> None:
    abandon(lake, table, clock.owner_clock(holder=foreign_holder()))

    def let_time_pass() -> None:
        clock.now_ms += LEASE_MS + 1000

    response, _ = at_once(lambda: table.owner.commit(table.request(1)), let_time_pass)
    assert landed(response).commit.version == 1


def test_those_behind_an_abandoned_version_are_given_others_and_land(
    lake: OwnedLake, table: Table, clock: FakeClock
) -> None:
    abandon(lake, table, clock.owner_clock(holder=foreign_holder()), "before", *with_row_ids(1, -1, 9))
    requests = [table.append(1, *with_row_ids(1, -1, 5)) for _ in range(3)]

    def let_time_pass() -> None:
        eventually(lambda: [state for _, state in rows(table)] == ["allocated", "staged", "staged", "staged"])
        assert table.latest == 0
        clock.now_ms += LEASE_MS + 1000

    calls: list[Callable[[], Any]] = [lambda r=r: table.owner.commit(r) for r in requests]  # type: ignore[misc]
    *outcomes, none = at_once(*calls, let_time_pass)
    assert none is None
    assert sorted(landed(outcome).commit.version for outcome in outcomes) == [1, 2, 3]
    assert sorted(table.ids()[1:]) == sorted(request.commit_id for request in requests)
    bases = [actions[2]["add"]["baseRowId"] for version, actions in table.everything().items() if version]
    assert bases == [0, 5, 10]
    # The files of the first attempts are gone.
    assert len(table.staged()) == 4


@pytest.mark.parametrize("movable", [False, True])
def test_a_slow_writer_whose_version_was_taken_away_counts_once_or_not_at_all(
    lake: OwnedLake, table: Table, clock: FakeClock, movable: bool
) -> None:
    staging, go_on = threading.Event(), threading.Event()

    def wait(when: str, operation: str, path: str) -> None:
        if (when, operation) == ("before", "put") and not staging.is_set():
            staging.set()
            assert go_on.wait(PATIENCE_S)

    slow = lake.embedded(step=wait, clock=clock.owner_clock())
    late = table.append(1) if movable else table.request(1)
    own = table.request(1)

    def overtake() -> Any:
        assert staging.wait(PATIENCE_S)
        clock.now_ms += LEASE_MS + 1000
        try:
            return table.owner.commit(own)
        finally:
            go_on.set()

    outcome, faster = at_once(lambda: slow.commit(late), overtake)
    assert landed(faster).commit.version == 1
    if movable:
        assert landed(outcome).commit.version == 2
        assert table.ids()[1:] == [own.commit_id, late.commit_id]
    else:
        assert outcome == CommitConflict(1)
        assert table.ids()[1:] == [own.commit_id]
    assert len(table.staged()) == 2 + movable


@pytest.mark.parametrize("readable", [True, False])
def test_a_commit_that_others_ratified_and_purged_while_its_writer_slept_is_found_in_the_log(
    lake: OwnedLake, table: Table, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, readable: bool
) -> None:
    """Where the log cannot be read it may count: nobody may take it for one that does not."""
    first_stages, first_goes_on = threading.Event(), threading.Event()
    asleep, awake = threading.Event(), threading.Event()

    def hold_first(when: str, operation: str, path: str) -> None:
        if (when, operation) == ("before", "put"):
            first_stages.set()
            assert first_goes_on.wait(PATIENCE_S)

    first = lake.embedded(step=hold_first, clock=clock.owner_clock())
    sleeper = lake.embedded(clock=clock.owner_clock())
    read = sleeper.database.read

    def read_late(work: Any) -> Any:
        asleep.set()
        assert awake.wait(PATIENCE_S)
        return read(work)

    own = table.append(1)

    def sleep_behind() -> Any:
        assert first_stages.wait(PATIENCE_S)
        sleeper._locations[table.table_id] = table.name
        monkeypatch.setattr(sleeper.database, "read", read_late)
        if readable:
            return sleeper.commit(own)
        with pytest.raises(CommitUnknown, match="because the log could not be read"):
            sleeper.commit(own)
        return None

    def purge() -> None:
        assert asleep.wait(PATIENCE_S)
        first_goes_on.set()
        eventually(lambda: table.latest == 2)
        purging = replace(table, owner=lake.embedded(rows_kept=0))
        purging.commits(2)
        purging.owner.backfill_to_version(table.table_id)
        assert rows(table) == []
        if not readable:
            monkeypatch.setattr("slackwater.owner.commit.log_lookup.transaction_at", _cannot_be_read)
        awake.set()

    one, other, none = at_once(lambda: first.commit(table.append(1)), sleep_behind, purge)
    assert none is None
    assert landed(one).commit.version == 1
    assert landed(other).commit.version == 2 if readable else other is None
    assert table.ids().count(own.commit_id) == 1
    assert table.latest == 4


def test_a_version_that_could_not_be_staged_goes_to_those_behind(
    lake: OwnedLake, table: Table, clock: FakeClock
) -> None:
    others_wait = threading.Event()

    def refuse(when: str, operation: str, path: str) -> None:
        if (when, operation) == ("before", "put"):
            assert others_wait.wait(PATIENCE_S)
            raise StorageRefused("no space left")

    failing = lake.embedded(step=refuse, clock=clock.owner_clock())

    def behind() -> Any:
        eventually(lambda: len(rows(table)) == 1)
        return at_once(*[lambda: table.owner.commit(table.append(1))] * 2)

    def let_fail() -> None:
        eventually(lambda: [state for _, state in rows(table)] == ["allocated", "staged", "staged"])
        others_wait.set()

    failed, landed_ones, none = at_once(lambda: failing.commit(table.request(1)), behind, let_fail)
    assert none is None
    assert isinstance(failed, CommitFailed)
    assert "no space left" in str(failed)
    assert sorted(landed(outcome).commit.version for outcome in landed_ones) == [1, 2]


def test_a_table_is_handed_back_although_a_dead_process_holds_a_version(
    lake: OwnedLake, table: Table, clock: FakeClock
) -> None:
    lost = abandon(lake, table, clock.owner_clock(holder=dead_holder()))
    assert landed(table.owner.release(releasing(table, 1))).commit.version == 1
    assert info_in(table.backfilled(1))["txnId"] != lost


def test_a_hand_back_waits_for_commits_that_are_being_staged(lake: OwnedLake, table: Table, clock: FakeClock) -> None:
    staging, go_on = threading.Event(), threading.Event()

    def wait(when: str, operation: str, path: str) -> None:
        if (when, operation) == ("before", "put"):
            staging.set()
            assert go_on.wait(PATIENCE_S)

    slow = lake.embedded(step=wait, clock=clock.owner_clock())
    own = table.request(1)
    waits: list[float] = []

    def look(seconds: float) -> None:
        # The first wait shows that the hand-back neither took the version nor gave up.
        waits.append(seconds)
        go_on.set()
        eventually(lambda: table.latest == 1)

    def release() -> Any:
        assert staging.wait(PATIENCE_S)
        releaser: CommitOwner = lake.embedded(clock=OwnerClock(lambda: clock.now_ms, look))
        return releaser.release(releasing(table, 1))

    committed, released = at_once(lambda: slow.commit(own), release)
    assert landed(committed).commit.version == 1
    assert released == CommitConflict(1)
    assert len(waits) == 1
    # The hand-back is waited for, but not for ever.
    # A process whose clock is behind what the owner has told goes on more slowly than its clock.
    clock.now_ms += 3 * TURN_MS
    assert table.commit(2).commit.version == 2


def test_a_file_that_a_dead_process_staged_is_garbage(lake: OwnedLake, table: Table, clock: FakeClock) -> None:
    abandon(lake, table, clock.owner_clock(holder=dead_holder()), "after")
    assert len(table.staged()) == 2
    table.commit(1)
    assert len(table.staged()) == 3
    found = table.owner.get_commits(table.table_id, 0, with_data=True)
    assert [commit.version for commit in found.commits] == [1]


def test_a_backfill_that_a_dead_process_claimed_is_taken_up(tmp_path: Path, lake: OwnedLake) -> None:
    table = created(lake, lake.embedded(backfill_delay_s=0.001))
    owner: Any = table.owner
    query = "UPDATE tables SET backfill_holder = :holder, backfill_until_ms = 9000000000000 WHERE table_id = :id"
    values = {"holder": dead_holder(), "id": table.table_id}
    owner.database.write(lambda c: c.execute(sa.text(query), values))
    table.commit(1)
    eventually(lambda: table.backfilled(1) is not None)
