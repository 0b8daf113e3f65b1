"""Cost of a lock on one more partition: the same for any number of locks on the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Connection

from slackwater.owner.api.transactions import Item, LockRequest
from slackwater.owner.database.database import Database
from slackwater.owner.database.schema import locks as lock_rows
from slackwater.owner.database.schema import owner, tables
from slackwater.owner.locks import lock_queue
from slackwater.owner.locks.lock_table import Lock
from slackwater.owner.state.clock import LEASE_MS
from tests.contract.owners import DATABASES, START_MS, new_lake
from tests.owner.locks.test_lock_queue import table_row

FEW, MANY = 40, 2_000


@dataclass
class Cost:
    """Work of one call: statements, rows returned as locks, rows changed, instructions of SQLite's virtual machine."""

    statements: int = 0
    locks_read: int = 0
    rows_changed: int = 0
    instructions: int = 0


@pytest.fixture(params=DATABASES)
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    lake = new_lake(tmp_path_factory.mktemp("costs"), request.param)
    opened = Database(lake.database)
    opened.write(lambda c: c.execute(sa.insert(tables), [table_row(name) for name in "ab"]))
    opened.write(lambda c: c.execute(sa.insert(owner).values(owner_id="x", created_ms=1, last_ms=0)))
    yield opened
    opened.close()


def lock(database: Database, txn_id: str, first: int, count: int = 1) -> None:
    items = [Item("a", f'["p","{number}"]') for number in range(first, first + count)]
    request = LockRequest(txn_id, START_MS, items, True, 0.0)
    found = database.write(
        lambda c: lock_queue.acquire(c, request, "here:1:1", START_MS, START_MS + LEASE_MS, lambda _: False)
    )
    assert found is None


def fill(database: Database, count: int, transactions: int) -> None:
    """Lock `count` partitions of the table a."""
    database.write(lambda c: c.execute(sa.delete(lock_rows)))
    for number in range(transactions):
        lock(database, f"t{number}", number * count, count // transactions)


def cost(database: Database, monkeypatch: pytest.MonkeyPatch, work: Callable[[Connection], object]) -> Cost:
    """Run `work` in a database transaction, and return its cost."""
    found = Cost()
    lock_of = Lock.of

    def read(row: Any) -> Lock:
        found.locks_read += 1
        return lock_of(row)

    def executed(_: Any, cursor: Any, statement: str, *rest: Any) -> None:
        found.statements += 1
        if not statement.startswith("SELECT"):
            found.rows_changed += max(0, cursor.rowcount)

    def step() -> int:
        found.instructions += 1
        return 0

    def measured(connection: Connection) -> None:
        driver: Any = connection.connection.driver_connection
        sa.event.listen(connection, "after_cursor_execute", executed)
        if connection.dialect.name == "sqlite":
            driver.set_progress_handler(step, 1)
        try:
            work(connection)
        finally:
            sa.event.remove(connection, "after_cursor_execute", executed)
            if connection.dialect.name == "sqlite":
                driver.set_progress_handler(None, 1)

    with monkeypatch.context() as patched:
        patched.setattr(Lock, "of", staticmethod(read))
        database.write(measured)
    return found


def assert_equal(few: Cost, many: Cost) -> None:
    assert replace(many, instructions=few.instructions) == few
    assert many.instructions <= 1.1 * few.instructions


def acquired(connection: Connection, txn_id: str, partition: str, holder: str, now_ms: int = START_MS) -> bool:
    request = LockRequest(txn_id, START_MS, [Item("a", f'["p","{partition}"]')], True, 0.0)
    return lock_queue.acquire(connection, request, holder, now_ms, now_ms + LEASE_MS, lambda _: False) is None


def one_more(connection: Connection) -> None:
    assert acquired(connection, "t0", "new", "here:1:1", START_MS + 1)


def by_another_process(connection: Connection) -> None:
    assert acquired(connection, "t0", "new", "there:1:1", START_MS + 1)


def of_a_new_transaction(connection: Connection) -> None:
    assert acquired(connection, "new", "new", "here:1:1")


def renewal(connection: Connection) -> None:
    assert lock_queue.renew(connection, "t0", START_MS + 2 * LEASE_MS, START_MS + LEASE_MS)


def commit(connection: Connection) -> None:
    reads, writes = [Item("a", '["p","other"]')], [Item("a", '["p","new"]')]
    assert lock_queue.conflicting_lock(connection, "new", reads, writes, START_MS, lambda _: False) is None


CALLS = {
    "one more": one_more,
    "by another process": by_another_process,
    "of a new transaction": of_a_new_transaction,
    "renewal": renewal,
    "commit": commit,
}


@pytest.mark.parametrize("transactions", [1, 4])
@pytest.mark.parametrize("call", CALLS)
def test_cost_of_a_call_is_independent_of_the_locks_on_the_table(
    database: Database, monkeypatch: pytest.MonkeyPatch, call: str, transactions: int
) -> None:
    costs = []
    for count in (FEW, MANY):
        fill(database, count, transactions)
        costs.append(cost(database, monkeypatch, CALLS[call]))
    assert_equal(*costs)


def test_cost_of_a_first_lock_reads_no_compatible_locks_of_other_transactions(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(database, MANY, 200)
    found = cost(database, monkeypatch, of_a_new_transaction)
    assert found.locks_read == 0


def test_cost_of_a_wait_depends_on_the_contested_items(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(connection: Connection) -> None:
        assert not acquired(connection, "new", "3", "here:1:1")

    costs = []
    for count in (FEW, MANY):
        fill(database, count, 1)
        costs.append(cost(database, monkeypatch, wait))
        database.write(lambda c: lock_queue.release(c, "new"))
    assert_equal(*costs)


def test_the_locks_of_a_partition_end_with_the_lease_of_the_transaction(database: Database) -> None:
    lock(database, "t0", 0, 3)
    database.write(one_more)
    # The later lock renewed the lease of the locks before it.
    ended_ms = START_MS + 1 + LEASE_MS
    assert not database.write(lambda c: acquired(c, "new", "1", "here:1:1", ended_ms))
    assert database.write(lambda c: acquired(c, "new", "1", "here:1:1", ended_ms + 1))
    assert not database.write(lambda c: lock_queue.renew(c, "t0", START_MS + 2 * LEASE_MS, START_MS))
