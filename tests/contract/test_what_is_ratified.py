"""What a commit may do to a table: valid actions, and never what only taking it and handing it back do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import orjson
import pytest
import sqlalchemy as sa

from slackwater.errors import InvalidArgument, OperationNotAllowed
from slackwater.owner.database.schema import tables
from tests.contract.owners import (
    PROTOCOL,
    OwnedLake,
    Table,
    actions_in,
    added,
    created,
    filesystem_table,
    landed,
    metadata,
    new_id,
    proposal,
    releasing,
    taken,
)
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


ENABLED = "delta.inCommitTimestampEnablementVersion", "delta.inCommitTimestampEnablementTimestamp"


def _conf(table: Table, **changed: str | None) -> dict[str, str]:
    key = table.form.conf_property
    conf = {**orjson.loads(table.metadata()["configuration"][key]), **changed}
    return {key: orjson.dumps({key: value for key, value in conf.items() if value is not None}).decode()}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"endpoint": "https://elsewhere.example.com"}, r"commitOwnerConf \(endpoint\)"),
        ({"endpoint": None}, r"commitOwnerConf \(endpoint\)"),
        ({"name": "another"}, r"commitOwnerConf \(name\)"),
        ({"ofTheFuture": "x"}, r"commitOwnerConf \(ofTheFuture\)"),
    ],
    ids=str,
)
def test_no_commit_changes_where_the_owner_is(lake: OwnedLake, changed: dict[str, str | None], told: str) -> None:
    table = created(lake, lake.owner())
    spoilt = {"metaData": table.metadata(**_conf(table, **changed))}
    with pytest.raises(OperationNotAllowed, match=told):
        table.owner.commit(table.request(1, spoilt))
    joint = Txn(table.owner).write(table, spoilt).request()
    with pytest.raises(OperationNotAllowed, match=told):
        table.owner.commit_transaction(joint)
    _is_untouched(table)


@pytest.mark.parametrize(
    "configuration",
    [
        {"conf": '{"tableId": "%s", "endpoint": "https://lake.example.com", "name": "of the owner"}'},
        {ENABLED[0]: "1", ENABLED[1]: "5"},
        {ENABLED[1].lower(): "5"},
        {"delta.managedCommit.tableConf": "{}"},
        {"delta.coordinatedCommits.commitCoordinator-preview": "dynamodb"},
    ],
    ids=lambda configuration: next(iter(configuration)),
)
def test_no_commit_changes_what_others_take_the_table_for(lake: OwnedLake, configuration: dict[str, str]) -> None:
    table = created(lake, lake.owner())
    keys = {"conf": table.form.conf_property}
    spoilt = {keys.get(key, key): value.replace("%s", table.table_id) for key, value in configuration.items()}
    with pytest.raises(OperationNotAllowed, match=re.escape(next(iter(spoilt)))):
        table.owner.commit(table.request(1, {"metaData": table.metadata(**spoilt)}))
    _is_untouched(table)


def test_since_when_a_table_that_was_adopted_has_timestamps_stays(lake: OwnedLake) -> None:
    owner = lake.owner()
    store = filesystem_table(lake, versions=3)
    asked = proposal(lake, version=3, location=store.root_url)
    own = asked.actions[2]["metaData"]
    adopted = {**own, "configuration": {**own["configuration"], ENABLED[0]: "3", ENABLED[1]: "0"}}
    table = taken(owner, replace(asked, actions=[*asked.actions[:2], {"metaData": adopted}]))
    actual = actions_in(table.backfilled(3) or b"")[2]["metaData"]
    assert actual["configuration"][ENABLED[1]] != "0"
    for lost in ENABLED:
        spoilt = {key: value for key, value in actual["configuration"].items() if key != lost}
        with pytest.raises(OperationNotAllowed, match=lost):
            owner.commit(table.request(4, {"metaData": {**actual, "configuration": spoilt}}))
    with pytest.raises(OperationNotAllowed, match=ENABLED[1]):
        owner.commit(table.request(4, {"metaData": adopted}))
    landed(owner.commit(table.request(4, {"metaData": {**actual, "createdTime": 5}})))


def test_what_an_earlier_version_took_is_held_to_what_is_known_of_it(lake: OwnedLake) -> None:
    table = created(lake, lake.owner())
    lake.embedded().database.write(lambda c: c.execute(sa.update(tables).values(kept=None)))
    with pytest.raises(OperationNotAllowed):
        table.owner.commit(table.request(1, {"metaData": metadata(new_id())}))
    table.commit(1, {"metaData": table.metadata()})


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
