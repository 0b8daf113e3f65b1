"""Which version of each table was there at an instant, and what is waited for until that is sure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from slackwater.owner.database.database import Database
from slackwater.owner.database.schema import commits, owner, tables
from slackwater.owner.state.clock import this_process
from slackwater.owner.state.log_head import ALLOCATED, RATIFIED, STAGED
from slackwater.owner.state.notifications import ChangeNotifier
from slackwater.owner.state.table_stores import TableStores
from slackwater.owner.time.time_slices import TimeSlices
from tests.contract.owners import START_MS, FakeClock

AT = START_MS - 1000


class RatifyingChanges(ChangeNotifier):
    """In place of waiting, the commits of the tables are ratified, and counted."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database
        self.waits = 0

    def wait(self, seconds: float, until: Callable[[], bool] | None = None) -> None:
        self.waits += 1
        assert self.waits < 5, "what is waited for has come"
        self._database.write(lambda c: c.execute(sa.update(commits).values(state=RATIFIED)))
        newest = sa.select(sa.func.max(commits.c.version)).where(commits.c.table_id == tables.c.table_id)
        ratified = sa.func.coalesce(newest.scalar_subquery(), tables.c.ratified_version)
        self._database.write(lambda c: c.execute(sa.update(tables).values(ratified_version=ratified)))


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(f"sqlite:///{tmp_path / 'owner.db'}")
    opened.write(lambda c: c.execute(sa.insert(owner).values(owner_id="x", created_ms=1, last_ms=0)))
    yield opened
    opened.close()


def _table(database: Database, name: str, ratified_version: int, ratified_ms: int) -> None:
    numbers = {
        column.name: 0
        for column in tables.columns
        if isinstance(column.type, sa.BigInteger) and not column.nullable and column.server_default is None
    }
    named = {"table_id": name, "name": name, "location": name, "state": "active"}
    known = {"ratified_version": ratified_version, "ratified_ms": ratified_ms, "purged_version": -1}
    database.write(lambda c: c.execute(sa.insert(tables).values({**numbers, **named, **known})))


def _commit(database: Database, table: str, version: int, timestamp_ms: int, state: str = RATIFIED) -> None:
    row: dict[str, Any] = {
        "table_id": table, "version": version, "commit_id": f"{table}{version}", "file_name": "f", "state": state,
        "timestamp_ms": timestamp_ms, "size_bytes": 1, "is_change": True, "holder": this_process(),
        "until_ms": START_MS + 10**9,
    }  # fmt: skip
    database.write(lambda c: c.execute(sa.insert(commits).values(row)))


def _slice(database: Database, at_ms: int = AT) -> tuple[dict[str, int | None], int]:
    """The version of each table as of the instant, and how often was waited."""
    changes = RatifyingChanges(database)
    slices = TimeSlices(database, TableStores("memory://slices"), FakeClock().owner_clock(), lambda _: None, changes)
    return {table.name: table.version for table in slices.cut(at_ms).tables}, changes.waits


@pytest.mark.parametrize("state", [ALLOCATED, STAGED])
def test_a_commit_that_is_under_way_at_the_instant_is_waited_for(database: Database, state: str) -> None:
    _table(database, "a", 4, AT - 50)
    _table(database, "b", 9, AT - 50)
    _commit(database, "a", 5, AT, state)
    found, waits = _slice(database)
    assert found == {"a": 5, "b": 9}
    assert waits == 1


def test_commits_after_the_instant_and_those_that_lost_are_not_waited_for(database: Database) -> None:
    _table(database, "a", 4, AT - 50)
    _table(database, "b", 9, AT - 50)
    _commit(database, "a", 5, AT + 1, STAGED)
    _commit(database, "b", 9, AT - 50, STAGED)
    assert _slice(database) == ({"a": 4, "b": 9}, 0)


def test_of_versions_around_the_instant_the_last_one_up_to_it_counts(database: Database) -> None:
    _table(database, "a", 6, AT + 2)
    for version, timestamp_ms in ((3, AT - 1), (4, AT), (5, AT + 1), (6, AT + 2)):
        _commit(database, "a", version, timestamp_ms)
    assert _slice(database) == ({"a": 4}, 0)
    assert _slice(database, AT - 1) == ({"a": 3}, 0)
    assert _slice(database, AT - 2) == ({"a": None}, 0)
    assert _slice(database, AT + 2) == ({"a": 6}, 0)


def test_what_was_served_is_kept_free_of_later_commits(database: Database) -> None:
    for at_ms, served_ms in ((AT, AT), (AT - 5, AT), (AT + 5, AT + 5)):
        _slice(database, at_ms)
        assert database.read(lambda c: c.execute(sa.select(owner.c.served_ms)).scalar()) == served_ms
