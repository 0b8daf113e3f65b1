"""The action `transactionGroup` at a commit owner: its versions are those of the commits, and groups are whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from slackwater.errors import InvalidArgument, OperationNotAllowed
from slackwater.owner.api.commits import CommitRequest
from slackwater.protocol.actions.transaction_groups import ACTION, GROUP_TAG, TransactionGroup
from tests.contract.owners import OwnedLake, Table, actions_in, added, created, new_id, new_lake
from tests.contract.transactions import Txn


class Shelf:
    """Three tables of one owner."""

    def __init__(self, lake: OwnedLake) -> None:
        self.owner = lake.owner()
        self.tables = [created(lake, self.owner) for _ in range(3)]

    def grouped(self, *tables: Table, may_move: bool = False, **changed: Any) -> Txn:
        """A transaction over `tables` whose commits have the group; `changed` are fields of the group."""
        txn = Txn(self.owner)
        group = self.group(txn, *tables)
        action = {ACTION: {**group.to_json()[ACTION], **changed}}
        for table in tables:
            txn.write(table, action, added(), may_move=may_move)
        return txn

    def group(self, txn: Txn, *tables: Table) -> TransactionGroup:
        versions = {table.table_id: txn.versions[table.table_id] + 1 for table in tables}
        return TransactionGroup.of(txn.txn_id, versions, self.owner.owner_id)


@pytest.fixture(scope="module", params=("sqlite-http-catalogManaged", "postgres-embedded-catalogManaged"))
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnedLake]:
    found = new_lake(tmp_path_factory.mktemp("owner"), request.param)
    yield found
    found.close()


@pytest.fixture
def shelf(lake: OwnedLake) -> Shelf:
    return Shelf(lake)


def groups(*tables: Table) -> list[TransactionGroup | None]:
    """The group in the newest version of each table, as published."""
    return [TransactionGroup.among(_newest(table), table.name) for table in tables]


def _newest(table: Table) -> list[dict[str, Any]]:
    return table.everything()[table.latest]


def test_every_commit_of_a_group_describes_the_whole_group(shelf: Shelf) -> None:
    one, two, _ = shelf.tables
    one.commit(1)
    txn = shelf.grouped(one, two)
    committed = txn.commit()
    expected = shelf.group(txn, one, two)
    assert expected.versions == {one.table_id: 2, two.table_id: 1}
    assert groups(one, two) == [expected, expected]
    for table in (one, two):
        actions = _newest(table)
        assert [next(iter(action)) for action in actions] == ["commitInfo", ACTION, "add"]
        info = actions[0]["commitInfo"]
        assert info["tags"] == {GROUP_TAG: txn.txn_id}
        assert info["txnId"] == txn.txn_id
        response = committed.commits[table.table_id].commit
        assert response.data is None or actions_in(response.data) == actions


def test_the_group_has_the_versions_that_the_owner_allocated(shelf: Shelf) -> None:
    one, two, _ = shelf.tables
    txn = shelf.grouped(one, two, may_move=True)
    # Other commits are first, so that both commits of the transaction move.
    one.commit(1)
    one.commit(2)
    two.commit(1)
    response = txn.commit()
    versions = {table_id: each.commit.version for table_id, each in response.commits.items()}
    assert versions == {one.table_id: 3, two.table_id: 2}
    expected = TransactionGroup.of(txn.txn_id, versions, shelf.owner.owner_id)
    assert groups(one, two) == [expected, expected]
    again = shelf.owner.commit_transaction(txn.request(is_replay=True))
    assert {t: each.commit.version for t, each in again.commits.items()} == versions  # type: ignore[union-attr]


def test_a_transaction_without_the_action_stays_as_it_is(shelf: Shelf) -> None:
    one, two, _ = shelf.tables
    txn = Txn(shelf.owner).write(one).write(two)
    tagged: Mapping[str, Any] = {"commitInfo": {"txnId": txn.txn_id, "tags": {"mine": "1"}}}
    txn.writes[0] = type(txn.writes[0])(one.table_id, 1, [tagged, added()])
    txn.commit()
    assert groups(one, two) == [None, None]
    assert _newest(one)[0]["commitInfo"]["tags"] == {"mine": "1"}
    assert "tags" not in _newest(two)[0]["commitInfo"]


def test_a_commit_of_one_table_with_a_group_is_refused(shelf: Shelf) -> None:
    one, two, _ = shelf.tables
    commit_id = new_id()
    group = TransactionGroup.of(commit_id, {one.table_id: 1, two.table_id: 1}, shelf.owner.owner_id)
    info = {"commitInfo": {"txnId": commit_id, "operation": "WRITE"}}
    request = CommitRequest(one.table_id, commit_id, 1, [info, group.to_json(), added()])
    with pytest.raises(InvalidArgument, match=r"action 2 of the commit is a transactionGroup.*in one request"):
        shelf.owner.commit(request)
    txn = shelf.grouped(one, two)
    txn.writes.pop()
    with pytest.raises(InvalidArgument, match="part of a multi-table transaction"):
        txn.commit()
    assert (one.latest, two.latest) == (0, 0)


def test_a_group_that_is_not_the_transaction_is_refused(shelf: Shelf) -> None:
    one, two, three = shelf.tables
    own = shelf.group(Txn(shelf.owner), one, two, three).to_json()[ACTION]["participants"]
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"transactionId": new_id()}, "Use the transaction's id"),
        ({"coordinatingCatalog": new_id()}, "but the catalog of the table is"),
        ({"participants": own}, "Name all tables of the transaction"),
        ({"participants": [{**part, "proposedVersion": 7} for part in own if part["tableId"] != three.table_id]}, "7"),
        ({"participants": own[:1]}, "two or more participants"),
    ]
    for changed, message in wrong:
        with pytest.raises(InvalidArgument, match=message):
            shelf.grouped(one, two, **changed).commit()
    partial = shelf.grouped(one, two).write(three)
    with pytest.raises(InvalidArgument, match="has no transactionGroup, but another has one"):
        partial.commit()
    assert [table.latest for table in shelf.tables] == [0, 0, 0]


def test_a_vote_for_a_group_that_is_not_whole_is_refused(shelf: Shelf) -> None:
    one, two, _ = shelf.tables
    txn = shelf.grouped(one, two, coordinatingCatalog="another")
    with pytest.raises(InvalidArgument, match="at their own catalog"):
        shelf.owner.prepare(txn.request(), new_id())


def test_a_group_of_tables_that_are_not_catalog_managed_is_refused(tmp_path: Path) -> None:
    lake = new_lake(tmp_path, "sqlite-embedded-managedCommit")
    try:
        shelf = Shelf(lake)
        with pytest.raises(OperationNotAllowed, match=r"has no feature catalogManaged.*lake migrate"):
            shelf.grouped(*shelf.tables[:2]).commit()
    finally:
        lake.close()
