"""Locks of transactions: who gets them, who waits for whom, who gives way, and what ends with a lease."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Connection

from slackwater.errors import DeadlockDetected, InvalidArgument, LockTimeout, TableNotFound
from slackwater.owner.api.transactions import Item, LockRequest
from slackwater.owner.database.database import Database
from slackwater.owner.database.schema import commits, owner, tables
from slackwater.owner.database.schema import locks as lock_rows
from slackwater.owner.lock_manager import LockManager
from slackwater.owner.locks import lock_queue
from slackwater.owner.locks.lock_modes import LockMode, are_compatible
from slackwater.owner.locks.lock_queue import BlockingLock, LockWait
from slackwater.owner.locks.lock_table import REMEMBERED_MS
from slackwater.owner.state.clock import LEASE_MS, OwnerClock
from tests.contract.owners import (
    DATABASES,
    PATIENCE_S,
    START_MS,
    FakeClock,
    at_once,
    dead_holder,
    eventually,
    foreign_holder,
    new_lake,
)

A, B, C = Item("a"), Item("b"), Item("c")
A1, A2, B1 = Item("a", '["p","1"]'), Item("a", '["p","2"]'), Item("b", '["p","1"]')
US, THEM = "here:1:1", "there:1:1"


@pytest.fixture(scope="module", params=DATABASES)
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    lake = new_lake(tmp_path_factory.mktemp("locks"), request.param)
    database = Database(lake.database)
    database.write(lambda c: c.execute(sa.insert(tables), [table_row(name) for name in "abc"]))
    database.write(lambda c: c.execute(sa.insert(owner).values(owner_id="x", created_ms=1, last_ms=0)))
    yield database
    database.close()


@pytest.fixture
def database(opened: Database) -> Database:
    """One with the tables a, b and c, and no locks."""
    empty(opened)
    return opened


def empty(database: Database) -> None:
    database.write(lambda c: [c.execute(sa.delete(rows)) for rows in (lock_rows, commits)])
    database.write(lambda c: c.execute(sa.update(tables).values(allocated_version=4, ratified_version=4)))
    database.write(lambda c: c.execute(sa.update(owner).values(last_ms=0)))


def table_row(name: str) -> dict[str, Any]:
    numbers = {
        column.name: 4
        for column in tables.columns
        if isinstance(column.type, sa.BigInteger) and not column.nullable and column.server_default is None
    }
    return {**numbers, "table_id": name, "name": f"{name}-table", "location": name, "state": "active"}


@dataclass
class Desk:
    """Asks for locks, of processes that are dead when they are in `dead`, at a time that is set."""

    database: Database
    now_ms: int = START_MS
    dead: set[str] = field(default_factory=set)
    began: dict[str, int] = field(default_factory=dict)

    def ask(self, txn_id: str, *items: Item, exclusive: bool = False, holder: str = US) -> LockWait | None:
        """Transactions that come later in the alphabet began later."""
        started_ms = self.began.get(txn_id, START_MS + ord(txn_id[0]))
        request = LockRequest(txn_id, started_ms, items, exclusive, 0.0)
        until_ms = self.now_ms + LEASE_MS
        return self.database.write(
            lambda c: lock_queue.acquire(c, request, holder, self.now_ms, until_ms, self.dead.__contains__)
        )

    def read(self, txn_id: str, *items: Item, **more: Any) -> LockWait | None:
        return self.ask(txn_id, *items, **more)

    def write(self, txn_id: str, *items: Item, **more: Any) -> LockWait | None:
        return self.ask(txn_id, *items, exclusive=True, **more)

    def release(self, txn_id: str) -> None:
        self.database.write(lambda c: lock_queue.release(c, txn_id))

    def give_way(self, txn_id: str) -> None:
        self.database.write(lambda c: lock_queue.release_as_victim(c, txn_id, self.now_ms))

    def keep(self, txn_id: str) -> bool:
        return self.database.write(lambda c: lock_queue.renew(c, txn_id, self.now_ms + LEASE_MS, self.now_ms))

    def in_the_way(
        self, txn_id: str | None = None, reads: Sequence[Item] = (), writes: Sequence[Item] = ()
    ) -> BlockingLock | None:
        return self.database.write(
            lambda c: lock_queue.conflicting_lock(c, txn_id, reads, writes, self.now_ms, self.dead.__contains__)
        )

    def held(self, txn_id: str) -> dict[Item, str]:
        """What the transaction holds."""
        return {Item(row.table_id, row.granule): row.held for row in self.rows() if row.txn_id == txn_id and row.held}

    def rows(self) -> list[Any]:
        return self.database.read(lambda c: list(c.execute(sa.select(lock_rows))))


@pytest.fixture
def desk(database: Database) -> Desk:
    return Desk(database)


def blockers(waiting: LockWait | None) -> set[str]:
    assert waiting is not None, "nothing is waited for"
    return {blocker.txn_id for blocker in waiting.blockers}


# Who gets them.


def test_two_readers_go_together(desk: Desk) -> None:
    assert desk.read("r", A) is None
    assert desk.read("s", A) is None
    assert desk.held("r") == desk.held("s") == {A: "S"}


def test_a_writer_waits_for_readers_and_readers_for_a_writer(desk: Desk) -> None:
    desk.read("r", A)
    desk.read("s", A)
    assert blockers(desk.write("w", A)) == {"r", "s"}
    desk.release("r")
    assert blockers(desk.write("w", A)) == {"s"}
    desk.release("s")
    assert desk.write("w", A) is None
    assert blockers(desk.read("t", A)) == {"w"}


def test_who_is_waited_for_is_told(desk: Desk) -> None:
    desk.write("w", A1, holder=THEM)
    waiting = desk.read("x", A)
    assert waiting is not None
    assert waiting.blockers == [BlockingLock("w", A, LockMode.INTENT_EXCLUSIVE, True, THEM, START_MS + ord("w"))]


def test_writers_of_different_partitions_go_together_and_a_reader_of_all_waits_for_both(desk: Desk) -> None:
    assert desk.write("v", A1) is None
    assert desk.write("w", A2) is None
    assert desk.held("v") == {A: "IX", A1: "X"}
    assert blockers(desk.read("x", A)) == {"v", "w"}
    assert blockers(desk.read("y", A1)) == {"v"}


def test_readers_of_a_partition_wait_for_its_writer_only(desk: Desk) -> None:
    desk.write("w", A1)
    assert desk.read("x", A2) is None
    assert desk.held("x") == {A: "IS", A2: "S"}
    assert blockers(desk.read("y", A1)) == {"w"}


def test_all_items_of_a_request_are_granted_together_or_none(desk: Desk) -> None:
    desk.read("r", B)
    assert blockers(desk.write("w", A, B)) == {"r"}
    assert desk.held("w") == {}
    desk.release("r")
    assert desk.write("w", A, B) is None
    assert desk.held("w") == {A: "X", B: "X"}


def test_modes_that_a_transaction_has_are_joined(desk: Desk) -> None:
    desk.read("t", A)
    assert desk.write("t", A1) is None
    assert desk.held("t") == {A: "SIX", A1: "X"}
    assert desk.read("r", A2) is None
    assert blockers(desk.write("w", A2)) == {"r", "t"}


def test_a_granule_that_the_lock_of_its_table_covers_is_not_locked_by_itself(desk: Desk) -> None:
    desk.read("r", A)
    assert desk.read("r", A1) is None
    assert desk.held("r") == {A: "S"}
    assert desk.write("w", B, B1) is None
    assert desk.held("w") == {B: "X"}


def test_a_request_without_items_is_granted(desk: Desk) -> None:
    assert desk.read("r") is None
    assert desk.rows() == []


def test_tables_that_are_not_known_and_ids_that_are_none_are_refused(desk: Desk) -> None:
    with pytest.raises(TableNotFound, match="no table nowhere"):
        desk.read("r", A, Item("nowhere"))
    with pytest.raises(InvalidArgument, match="UUID"):
        desk.read("r" * 37, A)
    with pytest.raises(InvalidArgument, match="at most 512 characters"):
        desk.read("r", Item("a", "x" * 513))
    assert desk.rows() == []


def test_many_granules_are_locked_at_once(desk: Desk) -> None:
    many = [Item("a", str(number)) for number in range(600)]
    assert desk.write("w", *many) is None
    assert blockers(desk.read("r", many[599])) == {"w"}
    assert desk.in_the_way(reads=many) is not None
    desk.release("w")
    assert desk.in_the_way(reads=many) is None


# The order of coming.


def test_new_readers_wait_behind_a_writer_that_waits(desk: Desk) -> None:
    desk.read("r", A)
    desk.write("w", A)
    assert blockers(desk.read("s", A)) == {"w"}
    desk.release("r")
    assert blockers(desk.read("s", A)) == {"w"}
    assert desk.write("w", A) is None


def test_a_request_overtakes_those_that_it_does_not_conflict_with(desk: Desk) -> None:
    desk.write("w", A1)
    desk.read("r", A1)
    assert desk.read("s", A2) is None
    assert desk.read("t", A2) is None


def test_who_asks_again_keeps_the_place(desk: Desk) -> None:
    desk.read("r", A)
    desk.write("v", A)
    desk.write("w", A)
    assert blockers(desk.write("v", A)) == {"r"}
    assert blockers(desk.write("w", A)) == {"r", "v"}
    desk.release("r")
    assert blockers(desk.write("w", A)) == {"v"}
    assert desk.write("v", A) is None


def test_an_upgrade_goes_before_those_who_wait(desk: Desk) -> None:
    desk.read("r", A)
    desk.write("w", A)
    assert desk.write("r", A) is None
    assert desk.held("r") == {A: "X"}
    assert blockers(desk.write("w", A)) == {"r"}


def test_an_upgrade_waits_for_other_holders_and_goes_before_who_came_earlier(desk: Desk) -> None:
    desk.read("r", A)
    desk.read("s", A)
    desk.write("w", A)
    assert blockers(desk.write("r", A)) == {"s"}
    desk.release("s")
    assert blockers(desk.write("w", A)) == {"r"}
    assert desk.write("r", A) is None


def test_a_reader_of_all_is_not_starved_by_readers_that_go_on_to_write(desk: Desk) -> None:
    desk.write("w", A1)
    desk.read("t", A2)
    assert blockers(desk.read("r", A)) == {"w"}
    assert blockers(desk.write("t", A2)) == {"r"}
    desk.release("w")
    assert desk.read("r", A) is None


def test_a_wish_that_is_withdrawn_stands_in_nobodys_way(desk: Desk) -> None:
    desk.read("r", A)
    desk.read("w", B)
    desk.write("w", A)
    desk.database.write(lambda c: lock_queue.withdraw(c, "w"))
    assert desk.read("s", A) is None
    assert desk.held("w") == {B: "S"}


def test_another_request_takes_the_place_of_one_that_was_not_waited_for(desk: Desk) -> None:
    desk.read("r", A)
    desk.write("w", A)
    assert desk.write("w", B) is None
    assert desk.held("w") == {B: "X"}
    assert desk.read("s", A) is None


# Circles.


def test_of_two_readers_that_both_want_to_write_the_younger_gives_way(desk: Desk) -> None:
    desk.read("o", A)
    desk.read("y", A)
    assert blockers(desk.write("o", A)) == {"y"}
    with pytest.raises(DeadlockDetected, match="transaction y and other transactions \\(o\\)"):
        desk.write("y", A)
    desk.give_way("y")
    assert desk.write("o", A) is None


def test_where_the_oldest_closes_the_circle_the_youngest_gives_way(desk: Desk) -> None:
    desk.read("o", A)
    desk.read("y", A)
    assert blockers(desk.write("y", A)) == {"o"}
    assert desk.write("o", A) is None
    assert desk.held("y") == {}
    assert not desk.keep("y")
    with pytest.raises(DeadlockDetected, match="transaction y"):
        desk.write("y", A)
    with pytest.raises(DeadlockDetected):
        desk.read("y", B)
    desk.release("y")
    assert desk.read("y", B) is None


@pytest.mark.parametrize("order", tuple(itertools.permutations("xyz")))
def test_of_a_circle_of_three_one_gives_way_and_never_the_oldest(desk: Desk, order: str) -> None:
    holds = {"x": A, "y": B, "z": C}
    wants = {"x": B, "y": C, "z": A}
    for txn_id, item in holds.items():
        assert desk.write(txn_id, item) is None
    lost = []
    for txn_id in order:
        try:
            desk.write(txn_id, wants[txn_id])
        except DeadlockDetected:
            desk.give_way(txn_id)
            lost.append(txn_id)
    lost += [txn_id for txn_id in holds if txn_id not in lost and not desk.keep(txn_id)]
    assert lost == (["z"] if order[-1] == "x" else [order[-1]])
    for txn_id in (predecessor(lost[0]), predecessor(predecessor(lost[0]))):
        assert desk.write(txn_id, wants[txn_id]) is None
        desk.release(txn_id)


def predecessor(txn_id: str) -> str:
    """Who waits for it in the circle."""
    return {"x": "z", "y": "x", "z": "y"}[txn_id]


def test_a_circle_over_one_that_only_came_earlier_is_found(desk: Desk) -> None:
    desk.read("r", A)
    desk.write("w", B)
    assert blockers(desk.write("w", A)) == {"r"}
    desk.write("v", C)
    assert blockers(desk.read("v", A)) == {"w"}
    with pytest.raises(DeadlockDetected):
        desk.write("w", A, C)


def test_several_circles_that_one_request_closes_are_all_broken(desk: Desk) -> None:
    for txn_id in "oyz":
        desk.read(txn_id, A)
    desk.write("o", B)
    assert blockers(desk.read("y", B)) == {"o"}
    assert blockers(desk.read("z", B)) == {"o"}
    assert desk.write("o", A) is None
    assert desk.held("y") == desk.held("z") == {}


def test_the_age_of_equals_is_that_of_their_ids(desk: Desk) -> None:
    desk.began = {"m": START_MS, "n": START_MS}
    desk.read("m", A)
    desk.read("n", A)
    desk.write("m", A)
    with pytest.raises(DeadlockDetected):
        desk.write("n", A)


# Leases.


def test_a_lease_that_ended_counts_until_another_wants_the_item(desk: Desk) -> None:
    desk.write("w", A)
    desk.now_ms += LEASE_MS + 1
    assert desk.keep("w")
    assert blockers(desk.read("r", A)) == {"w"}
    desk.now_ms += LEASE_MS + 1
    assert desk.read("r", A) is None
    assert not desk.keep("w")


def test_a_transaction_that_lost_its_locks_gets_no_others(desk: Desk) -> None:
    desk.write("w", A, B)
    desk.now_ms += LEASE_MS + 1
    assert desk.read("r", A) is None
    assert desk.held("w") == {}
    with pytest.raises(LockTimeout, match="did not renew its lease in time"):
        desk.read("w", C)
    assert not desk.keep("w")
    desk.release("w")
    assert desk.read("w", C) is None


def test_what_is_remembered_of_lost_locks_is_forgotten_after_a_day(desk: Desk) -> None:
    desk.write("w", A)
    desk.now_ms += LEASE_MS + 1
    desk.read("r", A)
    desk.now_ms += REMEMBERED_MS + 1
    assert desk.write("x", A) is None
    assert {row.txn_id for row in desk.rows()} == {"r", "x"}


def test_each_request_keeps_all_locks_of_the_transaction(desk: Desk) -> None:
    desk.write("w", A)
    desk.now_ms += LEASE_MS - 10
    assert desk.write("w", B) is None
    desk.now_ms += LEASE_MS - 10
    assert blockers(desk.read("r", A)) == {"w"}


def test_a_later_lock_starts_the_lease_of_the_earlier_ones_anew(desk: Desk) -> None:
    desk.write("w", A)
    desk.now_ms += 10
    desk.write("w", B)
    desk.now_ms += LEASE_MS
    assert blockers(desk.read("r", A)) == {"w"}


def test_a_circle_through_one_that_is_dead_is_none(desk: Desk) -> None:
    desk.write("v", A, holder=THEM)
    desk.write("w", B)
    desk.write("x", C)
    assert blockers(desk.write("v", C, holder=THEM)) == {"x"}
    assert blockers(desk.write("w", A)) == {"v"}
    desk.dead.add(THEM)
    assert blockers(desk.write("x", B)) == {"w"}
    assert desk.write("w", A) is None


def test_who_waits_keeps_the_locks_that_it_has(desk: Desk) -> None:
    desk.write("v", B)
    desk.write("w", A)
    for _ in range(5):
        desk.now_ms += LEASE_MS - 10
        assert desk.keep("v")
        assert blockers(desk.write("w", B)) == {"v"}
    assert blockers(desk.read("r", A)) == {"w"}


def test_who_waits_no_more_and_whose_lease_ended_is_not_waited_for(desk: Desk) -> None:
    desk.read("r", A)
    desk.write("w", A)
    desk.now_ms += LEASE_MS + 1
    assert desk.keep("r")
    assert desk.read("s", A) is None


def test_locks_of_dead_processes_are_free(desk: Desk) -> None:
    desk.write("w", A, holder=THEM)
    assert blockers(desk.read("r", A)) == {"w"}
    desk.dead.add(THEM)
    assert desk.read("r", A) is None
    assert not desk.keep("w")


def test_locks_that_another_process_took_over_are_that_ones(desk: Desk) -> None:
    desk.write("w", A, holder=THEM)
    assert desk.write("w", A) is None
    desk.dead.add(THEM)
    assert blockers(desk.read("r", A)) == {"w"}


def test_only_who_has_locks_keeps_them(desk: Desk) -> None:
    assert not desk.keep("w")
    desk.write("w", A)
    assert desk.keep("w")
    desk.release("w")
    assert not desk.keep("w")


# Commits that lock nothing.

HOLDERS: dict[str, Callable[[Desk], object]] = {
    "S": lambda desk: desk.read("h", A),
    "X": lambda desk: desk.write("h", A),
    "IS 1": lambda desk: desk.read("h", A1),
    "IX 1": lambda desk: desk.write("h", A1),
    "SIX 1": lambda desk: (desk.read("h", A), desk.write("h", A1)),
}
COMMITS = {
    "reads all": ([A], []),
    "reads 1": ([A1], []),
    "reads 2": ([A2], []),
    "writes all": ([], [A]),
    "writes 1": ([], [A1]),
    "writes 2": ([], [A2]),
    "reads 1, writes 2": ([A1], [A2]),
    "another table": ([B], [B1]),
}
FORBIDDEN = {
    "S": {"writes all", "writes 1", "writes 2", "reads 1, writes 2"},
    "X": set(COMMITS) - {"another table"},
    "IS 1": {"writes all", "writes 1"},
    "IX 1": {"reads all", "reads 1", "writes all", "writes 1", "reads 1, writes 2"},
    "SIX 1": set(COMMITS) - {"reads 2", "another table"},
}


@pytest.mark.parametrize("commit", COMMITS)
@pytest.mark.parametrize("holder", HOLDERS)
def test_locks_forbid_the_commits_that_they_conflict_with(desk: Desk, holder: str, commit: str) -> None:
    HOLDERS[holder](desk)
    reads, writes = COMMITS[commit]
    found = desk.in_the_way(None, reads, writes)
    assert (found is not None) == (commit in FORBIDDEN[holder])
    assert found is None or (found.txn_id, found.holder, found.is_held) == ("h", US, True)
    assert desk.in_the_way("other", reads, writes) == found
    assert desk.in_the_way("h", reads, writes) is None


def test_locks_that_are_only_waited_for_forbid_no_commit(desk: Desk) -> None:
    desk.read("r", A)
    desk.write("w", A)
    assert desk.in_the_way(reads=[A]) is None


def test_locks_of_the_dead_and_of_ended_leases_forbid_no_commit(desk: Desk) -> None:
    desk.write("v", A, holder=THEM)
    desk.write("w", B)
    desk.dead.add(THEM)
    assert desk.in_the_way(writes=[A]) is None
    assert desk.in_the_way(writes=[B]) is not None
    desk.now_ms += LEASE_MS + 1
    assert desk.in_the_way(writes=[B]) is None
    assert not desk.keep("v")
    assert not desk.keep("w")


def test_where_there_are_no_locks_one_statement_tells(desk: Desk) -> None:
    counted: list[str] = []

    def look(connection: Connection) -> object:
        def count(conn: Any, cursor: Any, statement: str, *rest: Any) -> None:
            counted.append(statement)

        sa.event.listen(connection, "before_cursor_execute", count)
        try:
            return lock_queue.conflicting_lock(connection, "w", [A, B], [A1, C], START_MS, lambda _: False)
        finally:
            sa.event.remove(connection, "before_cursor_execute", count)

    assert desk.database.write(look) is None
    assert len(counted) == 1


# All together.


def test_whatever_is_asked_locks_exclude_each_other_and_somebody_always_goes_on(desk: Desk) -> None:
    for seed in range(12):
        empty(desk.database)
        Crowd(desk, seeded(seed)).run(steps=120)


def seeded(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - a schedule that can be had again, no secret


class Crowd:
    """Transactions that ask for locks at random, until some of them wait; then they are asked again, or end."""

    items = (A, A1, A2, B, B1)

    def __init__(self, desk: Desk, chance: random.Random) -> None:
        self.desk = desk
        self.random = chance
        self.asked: dict[str, tuple[tuple[Item, ...], bool] | None] = {}
        self.names = (f"{number:03}" for number in itertools.count())
        self.desk.began = {}

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
            self.check_exclusion()
        while self.asked:
            self.end(self.someone_who_goes_on())
            self.check_exclusion()
        assert self.desk.rows() == []

    def step(self) -> None:
        if len(self.asked) < 6:
            name = next(self.names)
            self.asked[name] = None
            self.desk.began[name] = START_MS + self.random.randrange(1000)
        name = self.random.choice(sorted(self.asked))
        if self.asked[name] is None and self.random.random() < 0.25:
            self.end(name)
            return
        if self.asked[name] is None:
            some = self.random.sample(self.items, self.random.randint(1, 2))
            self.asked[name] = (tuple(some), self.random.random() < 0.5)
        self.poll(name)

    def poll(self, name: str) -> bool:
        """Whether it goes on: it has its locks, or it is no more."""
        wish = self.asked[name]
        if wish is None:
            return True
        try:
            if self.desk.ask(name, *wish[0], exclusive=wish[1]) is not None:
                return False
        except DeadlockDetected:
            self.desk.give_way(name)
            self.end(name)
            return True
        self.asked[name] = None
        return True

    def someone_who_goes_on(self) -> str:
        for name in sorted(self.asked):
            if self.poll(name):
                return name
        raise AssertionError(f"all wait for each other: {self.desk.rows()}")

    def end(self, name: str) -> None:
        self.desk.release(name)
        self.asked.pop(name, None)

    def check_exclusion(self) -> None:
        for one, other in itertools.combinations([row for row in self.desk.rows() if row.held], 2):
            if (one.table_id, one.granule) == (other.table_id, other.granule):
                assert are_compatible(LockMode(one.held), LockMode(other.held)), (one, other)


# Waiting.


@pytest.fixture
def locking(database: Database) -> LockManager:
    return LockManager(database, FakeClock().owner_clock(holder=US))


def wanted(txn_id: str, *items: Item, exclusive: bool = True, timeout_s: float = PATIENCE_S) -> LockRequest:
    return LockRequest(txn_id, START_MS + ord(txn_id[0]), items, exclusive, timeout_s)


def is_waiting(database: Database, txn_id: str) -> bool:
    found = database.read(lambda c: c.execute(sa.select(lock_rows.c.wanted).where(lock_rows.c.txn_id == txn_id)).all())
    return any(row.wanted for row in found)


def test_a_release_wakes_who_waits(database: Database, locking: LockManager) -> None:
    locking.lock(wanted("v", A))

    def release() -> None:
        eventually(lambda: is_waiting(database, "w"))
        locking.release("v")

    assert at_once(lambda: locking.lock(wanted("w", A)), release) == [None, None]
    locking.keep_alive("w")


def test_who_waits_for_another_process_looks_again_and_again(database: Database) -> None:
    others = LockManager(database, FakeClock().owner_clock(holder=THEM))
    others.lock(wanted("v", A))
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 25:
            others.release("v")

    LockManager(database, FakeClock().owner_clock(holder=US, sleep=sleep)).lock(wanted("w", A))
    assert len(slept) == 25
    assert slept[:3] == [0.001, 0.002, 0.004]
    assert max(slept) == 0.05


def test_a_timeout_says_who_holds_what_since_when(database: Database) -> None:
    LockManager(database, FakeClock().owner_clock(holder=THEM)).lock(wanted("v", A1))
    slept: list[float] = []
    locking = LockManager(database, FakeClock().owner_clock(holder=US, sleep=slept.append))
    with pytest.raises(LockTimeout) as caught:
        locking.lock(wanted("w", A1, B, timeout_s=PATIENCE_S))
    assert sum(slept) == pytest.approx(PATIENCE_S, rel=0.1)
    assert 'transaction v of process there:1:1, begun at 2023-11-14T22:13:20.118+00:00, holds X on ["p","1"]' in str(
        caught.value
    )
    assert "of table a-table" in str(caught.value)
    assert "transaction w waited 30.0 seconds for exclusive locks" in str(caught.value)
    assert not is_waiting(database, "w")


def test_what_was_held_before_a_timeout_is_still_held(database: Database, locking: LockManager) -> None:
    locking.lock(wanted("v", A))
    locking.lock(wanted("w", B))
    with pytest.raises(LockTimeout):
        locking.lock(wanted("w", A, timeout_s=0.0))
    locking.keep_alive("w")
    assert Desk(database).held("w") == {B: "X"}


def test_a_timeout_that_is_none_is_refused(locking: LockManager) -> None:
    for timeout_s in (-1.0, float("nan")):
        with pytest.raises(InvalidArgument, match="timeout"):
            locking.lock(wanted("w", A, timeout_s=timeout_s))


def test_who_gave_way_has_no_locks_and_gets_none(database: Database, locking: LockManager) -> None:
    locking.lock(wanted("o", A, exclusive=False))
    locking.lock(wanted("y", A, exclusive=False))

    def give_way() -> None:
        eventually(lambda: is_waiting(database, "o"))
        locking.lock(wanted("y", A))

    older, younger = at_once(lambda: locking.lock(wanted("o", A)), give_way)
    assert older is None
    assert isinstance(younger, DeadlockDetected)
    assert Desk(database).held("o") == {A: "X"}
    with pytest.raises(LockTimeout, match="transaction y has no locks"):
        locking.keep_alive("y")
    with pytest.raises(DeadlockDetected):
        locking.lock(wanted("y", B))
    locking.release("y")
    locking.lock(wanted("y", B))


def test_who_was_chosen_while_it_waits_is_told(database: Database, locking: LockManager) -> None:
    locking.lock(wanted("o", A))
    locking.lock(wanted("y", B))

    def close_the_circle() -> None:
        eventually(lambda: is_waiting(database, "y"))
        locking.lock(wanted("o", B))

    younger, older = at_once(lambda: locking.lock(wanted("y", A)), close_the_circle)
    assert isinstance(younger, DeadlockDetected)
    assert older is None


def test_locks_last_as_long_as_they_are_kept(database: Database) -> None:
    clock = FakeClock()
    locking = LockManager(database, clock.owner_clock(holder=US))
    locking.lock(wanted("v", A))
    clock.now_ms += LEASE_MS - 1
    locking.keep_alive("v")
    clock.now_ms += LEASE_MS - 1
    with pytest.raises(LockTimeout):
        locking.lock(wanted("w", A, timeout_s=0.0))
    clock.now_ms += 2
    locking.lock(wanted("w", A, timeout_s=0.0))
    with pytest.raises(LockTimeout, match="transaction v has no locks"):
        locking.keep_alive("v")


def test_who_waits_finds_that_a_lease_has_ended(database: Database) -> None:
    clock = FakeClock()
    LockManager(database, clock.owner_clock(holder=THEM)).lock(wanted("v", A))

    def sleep(seconds: float) -> None:
        clock.now_ms += round(seconds * 1000)

    LockManager(database, clock.owner_clock(holder=US, sleep=sleep)).lock(wanted("w", A, timeout_s=2 * LEASE_MS / 1000))
    assert LEASE_MS < clock.now_ms - START_MS < LEASE_MS + 1000


def test_locks_of_a_process_that_has_ended_are_free_and_of_a_foreign_one_are_not(database: Database) -> None:
    LockManager(database, FakeClock().owner_clock(holder=dead_holder())).lock(wanted("u", A))
    LockManager(database, FakeClock().owner_clock(holder=foreign_holder())).lock(wanted("v", B))
    locking = LockManager(database, FakeClock().owner_clock())
    locking.lock(wanted("w", A, timeout_s=0.0))
    with pytest.raises(LockTimeout, match="elsewhere"):
        locking.lock(wanted("w", B, timeout_s=0.0))


def test_a_wait_that_is_broken_off_leaves_no_wish(database: Database) -> None:
    LockManager(database, FakeClock().owner_clock(holder=THEM)).lock(wanted("v", A))

    def sleep(seconds: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LockManager(database, FakeClock().owner_clock(holder=US, sleep=sleep)).lock(wanted("w", A))
    assert not is_waiting(database, "w")


def allocate(database: Database, until_ms: int) -> None:
    """Give out version 5 of the table a, to be staged until then."""
    row = {
        "table_id": "a", "version": 5, "commit_id": "x", "file_name": "5.x.json", "state": "allocated",
        "timestamp_ms": START_MS, "size_bytes": 0, "is_change": False, "holder": foreign_holder(), "until_ms": until_ms,
    }  # fmt: skip
    database.write(lambda c: c.execute(sa.insert(commits).values(row)))
    head = sa.update(tables).where(tables.c.table_id == "a")
    database.write(lambda c: c.execute(head.values(allocated_version=5)))


def test_a_lock_is_had_when_commits_that_were_under_way_count(database: Database, locking: LockManager) -> None:
    allocate(database, START_MS + LEASE_MS)
    ratified = []

    def ratify() -> None:
        eventually(lambda: Desk(database).held("w") == {A1: "X", A: "IX"})
        ratified.append(True)
        database.write(lambda c: c.execute(sa.update(tables).values(ratified_version=tables.c.allocated_version)))

    def lock() -> bool:
        locking.lock(wanted("w", A1))
        return bool(ratified)

    assert at_once(lock, ratify) == [True, None]


def test_commits_that_are_not_done_in_time_are_told(database: Database, locking: LockManager) -> None:
    allocate(database, START_MS + LEASE_MS)
    locking.lock(wanted("v", B, timeout_s=0.0))
    with pytest.raises(LockTimeout, match="a-table after version 4 did not end"):
        locking.lock(wanted("w", A, timeout_s=0.0))
    assert Desk(database).held("w") == {A: "X"}


def test_versions_that_nobody_stages_any_more_are_not_waited_for(database: Database, locking: LockManager) -> None:
    allocate(database, START_MS - 1)
    locking.lock(wanted("w", A))
    assert database.read(lambda c: c.execute(sa.select(commits)).all()) == []


def test_many_threads_never_hold_what_excludes_each_other_and_all_come_to_their_end(database: Database) -> None:
    crowd = 6
    users: dict[Item, list[bool]] = {item: [] for item in (A, B, C)}
    guard = threading.Lock()

    def run(number: int) -> None:
        chance = seeded(number)
        locking = LockManager(database, OwnerClock(holder=f"process{number % 2}:1:1"))
        for turn in range(6):
            done = False
            while not done:
                done = attempt(locking, f"{turn}-{number}", chance)

    def attempt(locking: LockManager, txn_id: str, chance: random.Random) -> bool:
        using = {item: chance.random() < 0.5 for item in chance.sample((A, B, C), 2)}
        try:
            for item, is_exclusive in using.items():
                locking.lock(wanted(txn_id, item, exclusive=is_exclusive))
        except DeadlockDetected:
            locking.release(txn_id)
            return False
        with guard:
            for item, is_exclusive in using.items():
                users[item].append(is_exclusive)
            assert all(len(found) == 1 or not any(found) for found in users.values() if found), users
        locking.keep_alive(txn_id)
        with guard:
            for item, is_exclusive in using.items():
                users[item].remove(is_exclusive)
        locking.release(txn_id)
        return True

    assert at_once(*(lambda number=number: run(number) for number in range(crowd))) == [None] * crowd
    assert Desk(database).rows() == []
