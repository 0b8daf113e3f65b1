"""What a commit may do to a table: valid actions, and never what only taking it and handing it back do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from slackwater.errors import InvalidArgument, OperationNotAllowed
from tests.contract.owners import PROTOCOL, OwnedLake, Table, actions_in, added, created, metadata, new_id, releasing
from tests.contract.transactions import Txn

REFUSED: dict[str, list[Any]] = {
    "Lake.release": [
        [{"metaData": metadata(None)}],
        [{"metaData": metadata(new_id())}],
        [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}],
    ],
    "action [23] of the commit": [
        [{"something new": {}}],
        [{"add": {"path": None}}],
        [added(size="large")],
        [{"metaData": {"id": "x", "configuration": {}, "schemaString": "{"}}],
        [{"protocol": PROTOCOL}, {"protocol": PROTOCOL}],
    ],
}


@contextmanager
def _refused(told: str) -> Iterator[None]:
    error = InvalidArgument if told.startswith("action") else OperationNotAllowed
    with pytest.raises(error, match=told):
        yield


def _is_untouched(*tables: Table) -> None:
    """Nothing was staged after the commit that created it, and whoever comes next commits at once."""
    for table in tables:
        assert (table.latest, len(table.staged())) == (0, 1)
        assert table.commit(1).commit.version == 1


@pytest.mark.parametrize("told", REFUSED)
def test_a_commit_neither_disowns_a_table_nor_brings_garbage(lake: OwnedLake, told: str) -> None:
    table = created(lake, lake.owner())
    for actions in REFUSED[told]:
        for asked in (table.request(1, *actions), table.append(1, *actions, is_replay=True)):
            with _refused(told):
                table.owner.commit(asked)
    _is_untouched(table)


@pytest.mark.parametrize("told", REFUSED)
def test_neither_does_a_transaction_over_several_tables(lake: OwnedLake, told: str) -> None:
    owner = lake.owner()
    table, other = created(lake, owner), created(lake, owner)
    for actions in REFUSED[told]:
        with _refused(told):
            owner.commit_transaction(Txn(owner).write(other).write(table, *actions).request())
    _is_untouched(table, other)


@pytest.mark.parametrize("told", REFUSED)
def test_no_vote_is_given_for_either(lake: OwnedLake, told: str) -> None:
    owner = lake.owner()
    table, other = created(lake, owner), created(lake, owner)
    for actions in REFUSED[told]:
        with _refused(told):
            owner.prepare(Txn(owner).write(other).write(table, *actions).request(), owner.owner_id)
    assert owner.in_doubt() == []
    _is_untouched(table, other)


def test_the_owner_hands_a_table_back_by_its_own_call_alone(lake: OwnedLake) -> None:
    table = created(lake, lake.owner())
    asked = releasing(table, 1)
    with pytest.raises(OperationNotAllowed):
        table.owner.commit(asked)
    table.owner.release(asked)
    assert actions_in(table.backfilled(1) or b"")[2]["metaData"]["configuration"] == {}
