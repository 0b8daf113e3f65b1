"""The owner's time is one clock for all who share the database, however wrong the clocks of their processes are."""

from __future__ import annotations

import itertools
import time as real_time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from slackwater.errors import LockTimeout
from slackwater.owner.commit.allocation_outcomes import Attempt, WaitForLock
from slackwater.owner.database.schema import commits, tables
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.locks.timestamp_reservations import active_reservations
from slackwater.owner.state import clock as clock_module
from slackwater.owner.state.clock import OwnerClock, is_dead
from slackwater.owner.state.log_head import TURN_MS, PriorityReservation
from slackwater.owner.state.shared_clock import read_clock
from tests.contract.owners import DATABASES, START_MS, FakeClock, OwnedLake, Table, created, foreign_holder, new_lake
from tests.contract.transactions import Txn

HOUR_MS = 3_600_000
SKEWS_MS = (20, -200, HOUR_MS, -HOUR_MS)
# The tests share lakes, whose time does not go back: each begins when those before it are long over.
_starts = itertools.count(START_MS, 10 * HOUR_MS)


class Two:
    """Two processes on machines whose clocks differ by `skew_ms`; both have used the lake."""

    def __init__(self, lake: OwnedLake, skew_ms: int) -> None:
        start_ms = next(_starts)
        self.clocks = FakeClock(start_ms + skew_ms), FakeClock(start_ms)
        self.one, self.other = (
            lake.embedded(clock=clock.owner_clock(holder=foreign_holder() + str(number)))
            for number, clock in enumerate(self.clocks)
        )
        self.a, self.b = created(lake, self.one), created(lake, self.other)

    def later(self, ms: int) -> None:
        for clock in self.clocks:
            clock.now_ms += ms

    def at(self, owner: EmbeddedOwner, table: Table) -> Table:
        return Table(owner, table.table_id, table.name, table.store)


@pytest.fixture(scope="module", params=DATABASES)
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnedLake]:
    found = new_lake(tmp_path_factory.mktemp("clock"), request.param)
    yield found
    found.close()


def now_of(owner: EmbeddedOwner) -> int:
    return owner.database.read(lambda c: read_clock(c, owner._clock))


def is_blocked(owner: EmbeddedOwner, table: Table) -> bool:
    """Whether a commit of somebody else to the table has to wait."""
    request = table.request(table.latest + 1)
    attempt = Attempt.for_single_table(request, request.commit_id, "nobody", 30_000)
    (outcome,) = owner._commits._allocate_batch([attempt])
    return isinstance(outcome, WaitForLock)


@pytest.mark.parametrize("skew_ms", SKEWS_MS)
def test_what_one_process_promised_the_other_keeps(lake: OwnedLake, skew_ms: int) -> None:
    two = Two(lake, skew_ms)
    for owner, other in ((two.one, two.other), (two.other, two.one)):
        txn = Txn(owner).write(two.a)
        told = txn.ask(holds=[two.a])
        assert is_blocked(other, two.a)
        two.later(20_000)
        owner.keep_alive(txn.txn_id)
        two.later(20_000)
        assert is_blocked(other, two.a), "it said that it goes on"
        assert txn.commit().timestamp_ms == told.high_ms
    assert two.a.latest == 2


@pytest.mark.parametrize("skew_ms", SKEWS_MS)
def test_a_promise_of_one_who_is_gone_ends_for_every_process(lake: OwnedLake, skew_ms: int) -> None:
    two = Two(lake, skew_ms)
    Txn(two.one).write(two.a).ask(holds=[two.a])
    assert is_blocked(two.other, two.a)
    two.later(40_000)
    assert not is_blocked(two.other, two.a)


@pytest.mark.parametrize("skew_ms", SKEWS_MS)
def test_a_client_keeps_its_locks_however_wrong_its_clock_is(lake: OwnedLake, skew_ms: int) -> None:
    two = Two(lake, skew_ms)
    txn = Txn(two.one)
    txn.lock(two.a, exclusive=True)
    for _ in range(3):
        two.later(20_000)
        two.one.keep_alive(txn.txn_id)
    two.later(20_000)
    with pytest.raises(LockTimeout, match=r"waited 0\.0 seconds"):
        Txn(two.other).lock(two.a, timeout_s=0.0)
    txn.write(two.a).commit()
    assert two.a.latest == 1


@pytest.mark.parametrize("skew_ms", SKEWS_MS)
def test_the_turn_that_one_process_gave_counts_for_the_other(lake: OwnedLake, skew_ms: int) -> None:
    two = Two(lake, skew_ms)
    two.at(two.one, two.a).commit(1)
    # It loses its version twice, so it is its turn.
    late = two.a.request(1)
    for owner in (two.one, two.one):
        owner.commit(late)
    turn = two.other.database.read(
        lambda c: PriorityReservation.of(c.execute(sa.select(tables).where(tables.c.name == two.a.name)).one())
    )
    assert turn.commit_id == late.commit_id
    assert turn.is_of_another("somebody", now_of(two.other))
    two.later(2 * TURN_MS)
    assert not turn.is_of_another("somebody", now_of(two.other))


@pytest.mark.parametrize("skew_ms", SKEWS_MS)
def test_a_version_that_is_being_staged_is_not_taken_away_by_a_clock_that_is_ahead(
    lake: OwnedLake, skew_ms: int
) -> None:
    two = Two(lake, skew_ms)
    request = two.a.request(1)
    lease_ms = 30_000
    attempt = Attempt.for_single_table(request, request.commit_id, foreign_holder(), lease_ms)
    two.one._commits._allocate_batch([attempt])
    two.later(lease_ms // 2)
    two.other.repair()

    def staged(connection: sa.Connection) -> list[str]:
        return list(
            connection.execute(sa.select(commits.c.state).where(commits.c.commit_id == request.commit_id)).scalars()
        )

    assert two.other.database.read(staged) == ["allocated"]
    two.later(lease_ms)
    two.other.repair()
    assert two.other.database.read(staged) == []


@pytest.mark.parametrize("skew_ms", SKEWS_MS)
def test_nobody_begins_before_what_another_was_told(lake: OwnedLake, skew_ms: int) -> None:
    two = Two(lake, skew_ms)
    for owner, other in ((two.one, two.other), (two.other, two.one)):
        two.later(1000)
        read = Txn(owner).read(two.a).commit().timestamp_ms
        assert other.cut().timestamp_ms >= read
        two.later(1000)
        nothing = Txn(owner).commit().timestamp_ms
        assert other.cut().timestamp_ms >= nothing
        two.later(1000)
        asked = Txn(owner)
        asked.ask()
        told = asked.commit().timestamp_ms
        assert Txn(other).write(two.b).commit().timestamp_ms >= told
        # What was served is of the past for everybody.
        now_ms = now_of(owner)
        owner.cut(now_ms)
        assert other.cut(now_ms).timestamp_ms == now_ms
        assert Txn(other).write(two.a).commit().timestamp_ms > now_ms


def test_on_a_server_nobody_goes_by_the_clock_of_a_process(
    lake: OwnedLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = lake.another(tmp_path)
    wrong = SimpleNamespace(
        time_ns=lambda: real_time.time_ns() + HOUR_MS * 1_000_000, monotonic_ns=real_time.monotonic_ns
    )
    owner = lake.embedded(clock=OwnerClock())
    monkeypatch.setattr(clock_module, "time", wrong)
    ahead_ms = owner.cut().timestamp_ms - real_time.time_ns() // 1_000_000
    if owner.database.is_sqlite:
        assert ahead_ms > HOUR_MS // 2
    else:
        assert ahead_ms < HOUR_MS // 2
    lake.close()


def test_what_was_promised_to_one_who_then_wrote_nothing_holds_nobody_up(lake: OwnedLake) -> None:
    two = Two(lake, 0)
    txn = Txn(two.one).read(two.a)
    txn.ask(holds=[two.b])
    txn.commit()
    assert two.other.database.read(lambda c: active_reservations(c, [two.b.table_id], 0, is_dead)) == []
    assert not is_blocked(two.other, two.b)


def test_a_process_whose_clock_is_behind_goes_on_from_what_it_saw_a_little_slower() -> None:
    clock = FakeClock(0)
    goes_on = clock.owner_clock().goes_on

    def now(least_ms: int) -> int:
        return goes_on(clock.now_ms, least_ms)

    assert now(100_000) == 100_000
    clock.now_ms = 1000
    assert now(100_000) == 100_900
    clock.now_ms = 1010
    assert now(100_000) == 100_909
    # In small steps nothing is lost.
    for clock.now_ms in range(1010, 11_001):
        last_ms = now(100_000)
    assert last_ms == 100_000 + 11_000 * 9 // 10
    # Others are further.
    assert now(120_000) == 120_000
    clock.now_ms = 12_000
    assert now(120_000) == 120_900
    # It has nearly caught up: the rest is waited for.
    clock.now_ms = 120_000
    assert now(120_000) == 120_900
    clock.now_ms = 120_800
    assert now(120_000) == 120_900
    clock.now_ms = 121_000
    assert now(120_000) == 121_000


def test_a_clock_that_is_set_to_and_fro_does_not_drive_the_time_ahead() -> None:
    elapsed = FakeClock(0)
    clock = OwnerClock(now_ms=lambda: 0, elapsed_ms=lambda: elapsed.now_ms)
    for _ in range(100):
        elapsed.now_ms += 1
        assert clock.goes_on(START_MS + elapsed.now_ms, 0) - START_MS == elapsed.now_ms
        assert clock.goes_on(START_MS - 200_000, 0) - START_MS == elapsed.now_ms
