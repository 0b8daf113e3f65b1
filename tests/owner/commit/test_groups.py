"""Commits of many requests at once: few statements for all of them, results told without asking, and no deadlocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import Engine, event

from slackwater.errors import UnratifiedCommit
from slackwater.owner.api.transactions import TransactionConflict, TransactionResponse
from slackwater.owner.commit import ratification
from slackwater.owner.commit.allocation_outcomes import Attempt, RetryAfterStaging, VersionsAllocated
from slackwater.owner.commit.ratification import StagedCommits
from slackwater.owner.commit.staging import content_of
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.state import notifications
from slackwater.owner.state.log_head import locked_table
from slackwater.protocol.actions.file_names import commit_path, staged_path
from tests.contract.owners import DATABASES, Table, created, eventually, new_lake
from tests.contract.transactions import Txn


class Kit:
    def __init__(self, root: Path, database: str, num_tables: int, delay_s: float | None) -> None:
        self.lake = new_lake(root, database)
        self.owner: EmbeddedOwner = self.lake.embedded(backfill_delay_s=delay_s)
        self.tables = [created(self.lake, self.owner) for _ in range(num_tables)]
        self.steps = self.owner._commits

    def transaction(self, *tables: Table) -> Txn:
        txn = Txn(self.owner)
        for table in tables:
            txn = txn.write(table, may_move=True)
        return txn

    def staged(self, *attempts: Attempt) -> list[StagedCommits]:
        """The attempts with versions of one group, and their files."""
        found = []
        for attempt, given in zip(attempts, self.steps._allocate_batch(attempts), strict=True):
            assert isinstance(given, VersionsAllocated)
            content = content_of(attempt, given)
            self.steps.stage(content)
            found.append(content.staged)
        return found


@pytest.fixture(params=DATABASES)
def kit(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kit]:
    found = Kit(tmp_path, request.param, 3, None)
    yield found
    found.lake.close()


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """The statements that a database gets, by their first word; one with many rows is one."""
    found: Counter[str] = Counter()

    def count(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        found[statement.split(maxsplit=1)[0]] += 1

    event.listen(Engine, "before_cursor_execute", count)
    try:
        yield found
    finally:
        event.remove(Engine, "before_cursor_execute", count)


@pytest.mark.parametrize("is_in_turn", [False, True], ids=["at once", "behind another one"])
def test_the_statements_of_a_group_do_not_grow_with_its_transactions(kit: Kit, is_in_turn: bool) -> None:
    seen, num_commits = [], 0
    for size in (3, 30):
        first = kit.staged(kit.steps.attempt(kit.transaction(*kit.tables[:1]).request())) if is_in_turn else []
        attempts = [kit.steps.attempt(kit.transaction(*kit.tables[n % 2 :][:2]).request()) for n in range(size)]
        with counted() as statements:
            staged = kit.staged(*attempts)
            kit.steps._ratify_batch([*first, *staged[1:]])
            kit.steps._ratify_batch(staged)
        seen.append(statements.total())
        num_commits += 2 * size + len(first)
        assert sum(table.latest for table in kit.tables) == num_commits
    assert seen[1] <= seen[0] < 40


def test_the_statements_of_a_backfill_do_not_grow_with_its_tables_and_commits(kit: Kit) -> None:
    seen = []
    for tables, commits in ((1, 1), (3, 20)):
        for _ in range(commits):
            kit.transaction(*kit.tables[:tables]).commit()
        with counted() as statements:
            assert kit.owner._backfill._together([table.table_id for table in kit.tables[:tables]]) == set()
        seen.append(statements.total())
    # One statement for the transactions of each number of commits.
    assert abs(seen[0] - seen[1]) <= 1
    assert [table.latest for table in kit.tables] == [21, 20, 20]
    assert all(table.backfilled(table.latest) for table in kit.tables)
    assert kit.owner.database.read(lambda c: c.execute(sa.text("SELECT count(*) FROM transactions")).scalar()) == 0


@pytest.mark.parametrize("fault", ["missing", "foreign"])
def test_a_commit_that_cannot_be_copied_is_not_recorded_as_backfilled(kit: Kit, fault: str) -> None:
    """Nor are those after it in the table. Other tables are backfilled."""
    a, b, _ = kit.tables
    kit.transaction(a, b).commit()
    kit.transaction(a).commit()
    store = a.store
    if fault == "missing":
        store.delete([staged_path(name) for name in a.staged() if name.startswith(f"{1:020d}")])
    else:
        store.put(commit_path(1), b'{"commitInfo":{"operation":"FOREIGN"}}')
    staged = a.staged()
    assert kit.owner._backfill._together([a.table_id, b.table_id]) == set()
    query = sa.text("SELECT table_id, backfilled_version, problem <> '' AS is_faulty FROM tables")
    found = {row.table_id: row for row in kit.owner.database.read(lambda c: c.execute(query).all())}
    assert (found[a.table_id].backfilled_version, found[a.table_id].is_faulty) == (0, True)
    assert (found[b.table_id].backfilled_version, found[b.table_id].is_faulty) == (1, False)
    assert (b.backfilled(1) is not None, a.staged()) == (True, staged)
    recent = kit.owner.get_commits(a.table_id, 1)
    assert [commit.version for commit in recent.commits] == [1, 2]
    with pytest.raises(UnratifiedCommit):
        kit.transaction(a).commit()


def test_a_commit_is_told_that_it_was_ratified_with_the_one_before_it(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks the database for nothing: it waits for this process alone."""
    monkeypatch.setattr(notifications, "_LONGEST_WAIT_FOR_OWN_S", 30.0)
    asked: list[StagedCommits] = []
    monkeypatch.setattr(ratification, "outcome_of", lambda _, staged: asked.append(staged))
    a, b, _ = kit.tables
    (first,) = kit.staged(kit.steps.attempt(kit.transaction(a).request()))
    second = kit.transaction(a, b)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(kit.owner.commit_transaction, second.request())
        eventually(lambda: b.latest == 0 and len(kit.steps._awaited.requests) == 1 and _is_staged(kit, b))
        assert isinstance(kit.steps.ratify(first), TransactionResponse)
        response = waiting.result(20)
    assert asked == []
    assert isinstance(response, TransactionResponse)
    found = {table_id: (each.commit.version, each.latest_version) for table_id, each in response.commits.items()}
    assert found == {a.table_id: (2, 2), b.table_id: (1, 1)}
    assert kit.steps._awaited.requests == []


def test_all_waits_for_one_commit_are_told_of_it() -> None:
    awaited: notifications.AwaitedCommits[str] = notifications.AwaitedCommits()
    with awaited.awaiting("t", "1.json", "first") as first:
        with awaited.awaiting("t", "1.json", "repeated") as repeated:
            assert awaited.requests == ["first", "repeated"]
            awaited.report([("t", "2.json"), ("u", "1.json")], {"t": 2})
            assert (first(), repeated()) == (None, None)
        awaited.report([("t", "1.json")], {"t": 1})
        assert (first(), repeated()) == ({"t": 1}, None)
    assert (awaited.requests, awaited._results) == ([], {})


def test_a_commit_behind_one_of_another_process_asks_the_database(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications, "_LONGEST_WAIT_FOR_OWN_S", 30.0)
    a, b, _ = kit.tables
    other = kit.lake.embedded(clock=kit.owner._clock.__class__(holder="another:1:1"))
    attempt = other._commits.attempt(kit.transaction(a).request())
    given = other._commits.allocate(attempt)
    assert isinstance(given, VersionsAllocated)
    content = content_of(attempt, given)
    other._commits.stage(content)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(kit.owner.commit_transaction, kit.transaction(a, b).request())
        eventually(lambda: _is_staged(kit, b))
        assert isinstance(other._commits.ratify(content.staged), TransactionResponse)
        assert isinstance(waiting.result(20), TransactionResponse)
    assert (a.latest, b.latest) == (2, 1)


def test_a_commit_that_waits_for_another_one_has_not_lost_yet(kit: Kit) -> None:
    """However often it asks: the reservation of one who has lost twice would keep everybody else waiting."""
    a, _, _ = kit.tables
    waiting = kit.steps.attempt(Txn(kit.owner).write(a).request())
    (first,) = kit.staged(kit.steps.attempt(kit.transaction(a).request()))
    for _ in range(3):
        (outcome,) = kit.steps._allocate_batch([waiting])
        assert isinstance(outcome, RetryAfterStaging)
    kit.steps.ratify(first)
    (outcome,) = kit.steps._allocate_batch([waiting])
    assert isinstance(outcome, TransactionConflict)
    (outcome,) = kit.steps._allocate_batch([kit.steps.attempt(kit.transaction(a).request())])
    assert isinstance(outcome, VersionsAllocated)


def test_a_transaction_that_ends_after_its_losses_is_waited_for_no_more(kit: Kit) -> None:
    a, b, _ = kit.tables
    lost = Txn(kit.owner)
    for _ in range(2):
        # Each attempt is for the newest versions, of which one is taken before it is asked for.
        attempt = Txn(kit.owner, lost.txn_id).write(a).write(b)
        kit.transaction(b).commit()
        assert isinstance(kit.owner.commit_transaction(attempt.request()), TransactionConflict)
    (waiting,) = kit.steps._allocate_batch([kit.steps.attempt(kit.transaction(b).request())])
    assert isinstance(waiting, RetryAfterStaging)
    kit.owner.end(lost.txn_id)
    (given,) = kit.steps._allocate_batch([kit.steps.attempt(kit.transaction(b).request())])
    assert isinstance(given, VersionsAllocated)


def test_an_operation_that_does_not_end_delays_others_for_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    operations = notifications.InProgress()
    operations.add(["lost"])
    operations.wait_for_none(0.001)
    assert "lost" in operations._started
    monkeypatch.setattr(notifications, "_FORGOTTEN_S", 0.0)
    operations.wait_for_none(0.001)
    assert operations._started == {}
    operations.add(["ended"])
    operations.remove("ended")
    operations.remove("never begun")
    operations.wait_for_none(30.0)


@pytest.mark.parametrize("step", ["claim", "record"])
def test_a_backfill_that_waits_for_a_table_has_locked_none_after_it(tmp_path: Path, step: str) -> None:
    """All processes lock the rows of tables in the order of the ids. Otherwise they would wait in a circle."""
    kit = Kit(tmp_path, "postgres", 3, None)
    kit.tables.sort(key=lambda table: table.table_id)
    first, *others = in_order = [table.table_id for table in kit.tables]
    # Nothing is to be recorded for the first table, but its claim ends.
    kit.transaction(*kit.tables[1:]).commit()
    backfill, database = kit.owner._backfill, kit.owner.database
    claimed = database.write(lambda c: backfill._claim(c, in_order[::-1]))
    copied = {table_id: found[1] for table_id, found in claimed.items() if found is not None and found[1]}
    assert sorted(copied) == others

    def work(connection: sa.Connection) -> None:
        if step == "claim":
            backfill._claim(connection, in_order[::-1])
        else:
            backfill._record(connection, copied, claimed)

    def hold(connection: sa.Connection, pool: ThreadPoolExecutor) -> Future[None]:
        locked_table(connection, first)
        waiting = pool.submit(database.write, work)
        eventually(lambda: _is_waiting(kit))
        connection.execute(sa.text("SET LOCAL lock_timeout = 500"))
        for table_id in others:
            locked_table(connection, table_id)
        return waiting

    with ThreadPoolExecutor(1) as pool:
        database.write(lambda c: hold(c, pool)).result(20)
    kit.lake.close()


def test_a_release_that_waits_for_a_table_has_locked_none_after_it(tmp_path: Path) -> None:
    """What is released with the versions of one table is in another table, whose id is before the first one's."""
    kit = Kit(tmp_path, "postgres", 3, None)
    first, second, third = kit.tables = sorted(kit.tables, key=lambda table: table.table_id)
    given, _ = kit.staged(
        kit.steps.attempt(kit.transaction(second, third).request()),
        kit.steps.attempt(kit.transaction(first, second).request()),
    )

    def hold(connection: sa.Connection, pool: ThreadPoolExecutor) -> Future[None]:
        locked_table(connection, first.table_id)
        waiting = pool.submit(kit.owner.database.write, lambda c: ratification.release_versions(c, given))
        eventually(lambda: _is_waiting(kit))
        connection.execute(sa.text("SET LOCAL lock_timeout = 500"))
        for table in (second, third):
            locked_table(connection, table.table_id)
        return waiting

    with ThreadPoolExecutor(1) as pool:
        kit.owner.database.write(lambda c: hold(c, pool)).result(20)
    left = sa.text("SELECT count(*) FROM commits WHERE version > 0")
    assert kit.owner.database.read(lambda c: c.execute(left).scalar()) == 0
    kit.lake.close()


def _is_waiting(kit: Kit) -> bool:
    query = sa.text(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    return bool(kit.owner.database.read(lambda c: c.execute(query).scalar()))


def _is_staged(kit: Kit, table: Table) -> bool:
    query = sa.text("SELECT count(*) FROM commits WHERE table_id = :id AND state = 'staged'")
    return bool(kit.owner.database.read(lambda c: c.execute(query, {"id": table.table_id}).scalar()))
