"""The commits of all tables in one order of time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import slackwater
from slackwater.errors import InvalidArgument
from slackwater.lake import history
from slackwater.lake.history import LakeCommit
from slackwater.lake.lake import LogLake
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.clock import Clock
from tests.contract.owners import FakeClock
from tests.transaction.tables import add, schema

ID = schema({"id": "long"})


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def lake(tmp_path: Path, clock: FakeClock) -> Iterator[LogLake]:
    """A lake that backfills on request only, on a clock that stands still."""
    owner = EmbeddedOwner.open(tmp_path / "lake", backfill_delay_s=None, clock=clock.owner_clock())
    with LogLake(owner, owner.root_url) as found:
        yield found


def append(lake: LogLake, name: str, path: str) -> None:
    transaction = slackwater.Transaction(lake.snapshot(name))
    transaction.add(add(path))
    transaction.commit("WRITE")


def shown(commits: list[LakeCommit]) -> list[dict[str, int]]:
    return [dict(commit.tables) for commit in commits]


def test_transactions_stand_in_order_of_time_newest_first(lake: LogLake, clock: FakeClock) -> None:
    for name in ("a", "b"):
        clock.now_ms += 1000
        lake._create_log(name, ID)
    clock.now_ms += 1000
    append(lake, "a", "1")
    clock.now_ms += 1000
    with lake.transaction() as tx:
        for name in ("b", "a"):
            of_table = tx.log(name)
            of_table.add(add(f"{name}-1"))
            of_table.commit("WRITE")
    clock.now_ms += 1000
    append(lake, "b", "2")
    found = lake.history()
    assert shown(found) == [{"b": 2}, {"a": 2, "b": 1}, {"a": 1}, {"b": 0}, {"a": 0}]
    assert [commit.timestamp for commit in found] == sorted((c.timestamp for c in found), reverse=True)
    both = found[1]
    assert (both.timestamp, both.transaction_id) == (tx.commit_timestamp, tx.id)
    assert both.operations == {"a": "WRITE", "b": "WRITE"}
    assert list(both.commits) == ["a", "b"]
    assert found[-1].operations == {"a": "CREATE TABLE"}
    assert both.user_metadata == {}
    lake.backfill("a")
    assert lake.history() == found


def test_those_of_one_instant_stand_in_the_order_of_names(lake: LogLake) -> None:
    for name in ("c", "a", "b"):
        lake._create_log(name, ID)
    found = lake.history()
    stamps = [commit.timestamp for commit in found]
    assert stamps == sorted(stamps, reverse=True)
    ties = [(-c.timestamp.timestamp(), next(iter(c.tables))) for c in found]
    assert ties == sorted(ties)
    assert lake.history() == found


def test_what_is_older_than_the_limit_is_not_read(
    lake: LogLake, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        clock.now_ms += 1000
        lake._create_log(name, ID)
    for number in range(5):
        clock.now_ms += 1000
        append(lake, "b", str(number))
    opened: list[str] = []
    table_of = lake._table_of

    def counting(at: Any) -> Any:
        opened.append(at.name)
        return table_of(at)

    monkeypatch.setattr(lake, "_table_of", counting)
    assert lake.history(limit=0) == []
    assert opened == []
    assert shown(lake.history(limit=3)) == [{"b": 5}, {"b": 4}, {"b": 3}]
    assert opened == ["b"]
    assert len(lake.history(limit=100)) == 8


def test_older_commits_are_listed_after_the_newest(lake: LogLake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake._create_log("a", ID)
    for number in range(6):
        append(lake, "a", str(number))
    monkeypatch.setattr(history, "_LISTED_FIRST", 3)
    asked: list[int | None] = []
    up_to = Snapshot.history_up_to

    def counting(snapshot: Snapshot, newest: int | None = None) -> Any:
        asked.append(newest)
        return up_to(snapshot, newest)

    monkeypatch.setattr(Snapshot, "history_up_to", counting)
    assert shown(lake.history(limit=2)) == [{"a": 6}, {"a": 5}]
    assert asked == [3]
    assert shown(lake.history()) == [{"a": version} for version in range(6, -1, -1)]
    assert asked == [3, 3, None]


def test_a_table_with_an_earlier_life_has_all_of_its_versions_in_their_order(
    lake: LogLake, clock: FakeClock, tmp_path: Path
) -> None:
    path, time = tmp_path / "plain", Clock(now_ms=lambda: clock.now_ms)
    slackwater.Transaction.create(path, ID, clock=time).commit("CREATE TABLE")
    transaction = slackwater.Transaction(path, clock=time)
    transaction.add(add("1"))
    transaction.commit("WRITE")
    dated(path, clock.now_ms)
    clock.now_ms += 1000
    lake._create_log("a", ID)
    lake.adopt("b", path)
    append(lake, "b", "2")
    # The first versions go by the times of their files, and these were copied.
    dated(path, clock.now_ms + 99_000)
    of_b = [commit.commits["b"] for commit in lake.history() if "b" in commit.commits]
    assert [commit.version for commit in of_b] == [3, 2, 1, 0]
    assert [commit.operation for commit in of_b] == ["WRITE", "ADOPT TABLE", "WRITE", "CREATE TABLE"]


def dated(path: Path, ms: int) -> None:
    for version in range(2):
        os.utime(path / "_delta_log" / f"{version:020}.json", (ms / 1000, ms / 1000))


def test_a_lake_without_tables_has_no_history(lake: LogLake) -> None:
    assert lake.history() == []


@pytest.mark.parametrize("bad", [-1, True, 1.5, "3"])
def test_a_limit_is_a_whole_number(lake: LogLake, bad: Any) -> None:
    with pytest.raises(InvalidArgument, match="limit must be a whole number from 0"):
        lake.history(bad)
