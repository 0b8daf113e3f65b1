"""Groups that clients stage themselves: the owner ratifies all their commits in one operation, or none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from slackwater.errors import InvalidArgument, SlackwaterError, TableNotFound, TimestampConflict
from slackwater.owner.api.commits import StagedCommit
from slackwater.owner.api.transactions import TransactionConflict, TransactionResponse
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.state.clock import OwnerClock
from slackwater.protocol.actions.transaction_groups import GROUP_TAG, TransactionGroup
from tests.contract.owners import DATABASES, FakeClock, OwnedLake, Table, added, at_once, created, new_id, new_lake
from tests.contract.test_staged_by_client import content, staged
from tests.contract.transactions import Txn


class Shelf:
    """Tables `a` and `b` of an owner on a clock that stands still."""

    def __init__(self, lake: OwnedLake) -> None:
        self.clock = FakeClock()
        self.owner: EmbeddedOwner = lake.embedded(clock=self.clock.owner_clock(sleep=self._pass))
        self.a, self.b, self.c = (created(lake, self.owner) for _ in range(3))
        self.clock.now_ms += 1000

    def _pass(self, seconds: float) -> None:
        self.clock.now_ms += int(seconds * 1000)

    def stage(
        self,
        versions: Mapping[str, int],
        txn_id: str,
        at_ms: int | None = None,
        catalog: str | None = None,
        **info: Any,
    ) -> list[StagedCommit]:
        """The staged commits of a group of tables, by name."""
        tables: dict[str, Table] = {name: getattr(self, name) for name in versions}
        ids = {tables[name].table_id: version for name, version in versions.items()}
        group = TransactionGroup.of(txn_id, ids, catalog or self.owner.owner_id)
        told = {"txnId": txn_id, "tags": {GROUP_TAG: txn_id}, **info}
        at_ms = self.clock.now_ms if at_ms is None else at_ms
        return [
            staged(tables[name], version, at_ms, group.to_json(), added(), **told) for name, version in versions.items()
        ]

    def latest(self) -> tuple[int, int]:
        return self.a.latest, self.b.latest


@pytest.fixture(params=DATABASES)
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shelf]:
    lake = new_lake(tmp_path, f"{request.param}-embedded-catalogManaged")
    yield Shelf(lake)
    lake.close()


def test_all_commits_of_a_group_are_ratified_as_they_are_at_their_timestamp(shelf: Shelf) -> None:
    shelf.b.commits(2)
    shelf.clock.now_ms += 10
    txn_id = new_id()
    asked = shelf.stage({"a": 1, "b": 3}, txn_id)
    done = shelf.owner.commit_staged_group(txn_id, asked)
    assert isinstance(done, TransactionResponse)
    assert {t: c.commit.version for t, c in done.commits.items()} == {shelf.a.table_id: 1, shelf.b.table_id: 3}
    assert done.timestamp_ms == shelf.clock.now_ms
    for table, version, each in ((shelf.a, 1, asked[0]), (shelf.b, 3, asked[1])):
        assert done.commits[table.table_id].commit.size_bytes == each.size_bytes
        assert shelf.owner.backfill_to_version(table.table_id) == version
        assert table.backfilled(version) == content(table, each)
    assert shelf.owner.repair() == []
    assert shelf.a.commit(2).commit.timestamp_ms > done.timestamp_ms


def test_a_stale_version_of_one_participant_ratifies_none(shelf: Shelf) -> None:
    shelf.b.commit(1)
    txn_id = new_id()
    shelf.clock.now_ms += 10
    asked = shelf.stage({"a": 1, "b": 1}, txn_id)
    assert shelf.owner.commit_staged_group(txn_id, asked) == TransactionConflict({shelf.b.table_id: 1})
    assert shelf.latest() == (0, 1)
    assert content(shelf.a, asked[0])
    # The writer stages the group again at fresh versions.
    again = shelf.stage({"a": 1, "b": 2}, txn_id)
    assert isinstance(shelf.owner.commit_staged_group(txn_id, again), TransactionResponse)
    assert shelf.latest() == (1, 2)


def test_a_repeated_request_gets_the_first_result(shelf: Shelf) -> None:
    txn_id = new_id()
    asked = shelf.stage({"a": 1, "b": 1}, txn_id)
    first = shelf.owner.commit_staged_group(txn_id, asked)
    shelf.a.commit(2)
    again = shelf.owner.commit_staged_group(txn_id, list(reversed(asked)))
    assert isinstance(first, TransactionResponse)
    assert isinstance(again, TransactionResponse)
    assert again.timestamp_ms == first.timestamp_ms
    assert {t: c.commit for t, c in again.commits.items()} == {
        t: replace(c.commit, data=None) for t, c in first.commits.items()
    }
    other = shelf.stage({"a": 1, "b": 1}, txn_id)
    assert isinstance(shelf.owner.commit_staged_group(txn_id, other), TransactionConflict)
    assert shelf.latest() == (2, 1)


def test_a_timestamp_before_a_read_of_one_table_ratifies_none(shelf: Shelf) -> None:
    read = shelf.owner.commit_transaction(Txn(shelf.owner).read(shelf.b).write(shelf.c).request())
    assert isinstance(read, TransactionResponse)
    txn_id = new_id()
    with pytest.raises(TimestampConflict):
        shelf.owner.commit_staged_group(txn_id, shelf.stage({"a": 1, "b": 1}, txn_id, read.timestamp_ms))
    assert shelf.latest() == (0, 0)


def test_of_concurrent_groups_one_wins_each_version_of_both_tables(tmp_path: Path) -> None:
    lake = new_lake(tmp_path, "sqlite-embedded-catalogManaged")
    shelf = Shelf(lake)
    owner, now = lake.embedded(), OwnerClock()
    for version in range(1, 4):
        ids = [new_id() for _ in range(3)]
        calls = [
            partial(
                owner.commit_staged_group, txn_id, shelf.stage({"a": version, "b": version}, txn_id, now.now_ms() + n)
            )
            for n, txn_id in enumerate(ids)
        ]
        outcomes = at_once(*calls)
        won = [outcome for outcome in outcomes if isinstance(outcome, TransactionResponse)]
        assert len(won) == 1, outcomes
        assert shelf.latest() == (version, version)
    assert shelf.a.ids()[1:] == shelf.b.ids()[1:]
    lake.close()


def test_a_group_that_is_not_whole_is_refused_by_name(shelf: Shelf) -> None:
    txn_id = new_id()
    at_ms = shelf.clock.now_ms
    both = shelf.stage({"a": 1, "b": 1}, txn_id)
    later = shelf.stage({"a": 1, "b": 1}, txn_id, at_ms + 1)
    plain = [staged(table, 1, at_ms, added(), txnId=txn_id, tags={GROUP_TAG: txn_id}) for table in (shelf.a, shelf.b)]
    wrong: list[tuple[list[StagedCommit], str]] = [
        (both[:1], "Commit all tables of the transaction in one request"),
        ([*both, both[0]], "two commits to one table"),
        ([both[0], later[1]], "with the same inCommitTimestamp"),
        (shelf.stage({"a": 1, "b": 1}, txn_id, tags={}), "lacks the tag"),
        (shelf.stage({"a": 1, "b": 1}, txn_id, txnId=new_id()), "txnId must be"),
        (plain, "has no transactionGroup"),
        (shelf.stage({"a": 1, "b": 1, "c": 1}, txn_id)[:2], "Name all tables of the transaction"),
        (shelf.stage({"a": 1, "b": 1}, txn_id, catalog="another"), "at their own catalog"),
    ]
    for asked, message in wrong:
        with pytest.raises(InvalidArgument, match=message):
            shelf.owner.commit_staged_group(txn_id, asked)
    with pytest.raises(TableNotFound):
        shelf.owner.commit_staged_group(txn_id, [both[0], replace(both[1], table_id=new_id())])
    with pytest.raises(SlackwaterError):
        shelf.owner.commit_staged_group(txn_id, [])
    assert shelf.latest() == (0, 0)
