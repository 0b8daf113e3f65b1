"""Commits that must look at what others did get a version among those that need not."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.owner.api.commits import CommitConflict, CommitRequest
from slackwater.owner.api.transactions import TransactionConflict
from slackwater.owner.commit.allocation import Allocation
from slackwater.owner.commit.allocation_outcomes import Attempt, Outcome, RetryAfterStaging, VersionsAllocated
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.state.clock import OwnerClock
from slackwater.owner.state.log_head import TURN_MS
from tests.contract.owners import (
    DATABASES,
    START_MS,
    FakeClock,
    OwnedLake,
    Table,
    created,
    landed,
    new_id,
    new_lake,
    releasing,
)

_hours = itertools.count()


@pytest.fixture(scope="module", params=DATABASES)
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnedLake]:
    found = new_lake(tmp_path_factory.mktemp("turns"), request.param)
    yield found
    found.close()


@pytest.fixture(params=DATABASES)
def lake_of_now(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OwnedLake]:
    """One whose owners have the machine's clock, which is ahead of that of the others."""
    found = new_lake(tmp_path, request.param)
    yield found
    found.close()


@pytest.fixture
def clock() -> FakeClock:
    """One that is ahead of all times that the tests before have told the lake."""
    return FakeClock(START_MS + next(_hours) * 3_600_000)


@pytest.fixture
def table(lake: OwnedLake, clock: FakeClock) -> Table:
    return created(lake, lake.embedded(clock=clock.owner_clock()))


def asked(table: Table, clock: FakeClock, request: CommitRequest, steady: OwnerClock | None = None) -> Outcome:
    """What a request is told, which then does nothing more."""
    assert isinstance(table.owner, EmbeddedOwner)
    attempt = Attempt.for_single_table(request, new_id(), "me:1:0", clock.now_ms + 10**6)
    allocation = Allocation(steady or clock.owner_clock(), 100)
    (outcome,) = table.owner.database.write(lambda c: allocation.allocate(c, [attempt]))
    return outcome


def behind(table: Table, latest: int) -> TransactionConflict:
    """The version that was wanted is of another."""
    return TransactionConflict({table.table_id: latest})


def test_a_commit_that_loses_its_version_again_is_waited_for(table: Table, clock: FakeClock) -> None:
    slow = new_id()
    for version in (1, 2):
        table.commit(version)
        assert asked(table, clock, table.request(version, commit_id=slow)) == behind(table, version)
    assert asked(table, clock, table.append(1)) == RetryAfterStaging()
    assert asked(table, clock, table.request(3)) == RetryAfterStaging()
    assert landed(table.owner.commit(table.request(3, commit_id=slow))).commit.version == 3
    # Then it is everybody's turn.
    assert isinstance(asked(table, clock, table.append(1)), VersionsAllocated)


def test_it_is_not_waited_for_where_it_lost_once_or_does_not_come(table: Table, clock: FakeClock) -> None:
    table.commit(1)
    slow = new_id()
    assert asked(table, clock, table.request(1, commit_id=slow)) == behind(table, 1)
    table.commit(2)
    assert asked(table, clock, table.request(2, commit_id=slow)) == behind(table, 2)
    assert asked(table, clock, table.append(1)) == RetryAfterStaging()
    # The commits before were told times that are a little ahead of the clock.
    clock.now_ms += TURN_MS + 10
    assert isinstance(asked(table, clock, table.append(1)), VersionsAllocated)


def test_a_turn_ends_also_where_the_clock_steps_back(table: Table, clock: FakeClock) -> None:
    slow, elapsed_ms = new_id(), 0
    steady = clock.owner_clock(elapsed_ms=lambda: elapsed_ms)
    for version in (1, 2):
        table.commit(version)
        asked(table, clock, table.request(version, commit_id=slow), steady)
    clock.now_ms -= 3_600_000
    assert asked(table, clock, table.append(1), steady) == RetryAfterStaging()
    elapsed_ms += 2 * TURN_MS
    assert isinstance(asked(table, clock, table.append(1), steady), VersionsAllocated)


def test_nobody_takes_the_turn_of_another(table: Table, clock: FakeClock) -> None:
    first, second = new_id(), new_id()
    for version in (1, 2):
        table.commit(version)
        asked(table, clock, table.request(version, commit_id=first))
    for _ in range(3):
        assert asked(table, clock, table.request(2, commit_id=second)) == behind(table, 2)
    assert asked(table, clock, table.request(3, commit_id=second)) == RetryAfterStaging()
    assert isinstance(asked(table, clock, table.request(3, commit_id=first)), VersionsAllocated)


def test_a_hand_back_that_lost_its_version_is_waited_for(table: Table, clock: FakeClock) -> None:
    table.commit(1)
    assert table.owner.release(releasing(table, 1)) == CommitConflict(1)
    assert asked(table, clock, table.append(1)) == RetryAfterStaging()
    assert landed(table.owner.release(releasing(table, 2))).commit.version == 2


def test_a_change_lands_within_a_few_attempts_among_writers_that_never_pause(lake_of_now: OwnedLake) -> None:
    table = created(lake_of_now, lake_of_now.embedded())
    done = threading.Event()

    def appends() -> None:
        while not done.is_set():
            landed(table.owner.commit(table.append(1)))

    threads = [threading.Thread(target=appends) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        commit_id, attempts = new_id(), 0
        while True:
            attempts += 1
            if not isinstance(table.owner.commit(table.request(table.latest + 1, commit_id=commit_id)), CommitConflict):
                break
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert attempts <= 10
    assert table.ids().count(commit_id) == 1
