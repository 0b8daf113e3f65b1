"""Blind appends that lose a race, and requests that come more than once. Source: docs/guarantees.md."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import orjson
import pytest

from slackwater.errors import ProtocolChangedException
from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.api.commits import CommitConflict, CommitResponse
from tests.contract.owners import (
    OwnedLake,
    Table,
    actions_in,
    added,
    at_once,
    created,
    filesystem_table,
    info_in,
    landed,
    proposal,
    releasing,
    taken,
    with_row_ids,
)


@pytest.fixture(scope="module")
def owner(lake: OwnedLake) -> CommitOwner:
    return lake.owner()


@pytest.fixture
def table(lake: OwnedLake, owner: CommitOwner) -> Table:
    return created(lake, owner)


# Appends that may move.


def test_a_blind_append_moves_behind_what_others_committed(table: Table) -> None:
    table.commits(3)
    request = table.append(1)
    response = landed(table.owner.commit(request))
    assert (response.commit.version, response.latest_version) == (4, 4)
    assert f"{4:020d}." in response.commit.file_name
    info, action = actions_in(table.content(response))
    assert action == request.actions[1]
    assert info["commitInfo"]["inCommitTimestamp"] == response.commit.timestamp_ms
    assert table.ids()[4] == request.commit_id


def test_of_many_blind_appends_none_bounces(table: Table) -> None:
    requests = [table.append(1) for _ in range(12)]
    outcomes = at_once(*(lambda request=request: table.owner.commit(request) for request in requests))
    versions = {landed(o).commit.version: r.commit_id for r, o in zip(requests, outcomes, strict=True)}
    assert sorted(versions) == list(range(1, 13))
    assert table.ids()[1:] == [versions[version] for version in range(1, 13)]


def test_row_ids_of_appends_that_moved_are_contiguous_and_unique(table: Table) -> None:
    landed(table.owner.commit(table.append(1, *with_row_ids(1, -1, 7))))
    requests = [table.append(2, *with_row_ids(2, 6, 10, 5)) for _ in range(8)]
    outcomes = at_once(*(lambda request=request: table.owner.commit(request) for request in requests))
    assert sorted(landed(outcome).commit.version for outcome in outcomes) == list(range(2, 10))
    _require_row_ids(table)


def test_row_ids_begin_at_0_for_the_first_of_several_appends_to_an_empty_table(table: Table) -> None:
    for _ in range(3):
        landed(table.owner.commit(table.append(1, *with_row_ids(1, -1, 4, 3))))
    _require_row_ids(table)


def test_row_ids_move_across_commits_that_give_out_none(table: Table) -> None:
    landed(table.owner.commit(table.append(1, *with_row_ids(1, -1, 4))))
    table.commits(2)
    landed(table.owner.commit(table.append(2, *with_row_ids(2, 3, 5))))
    landed(table.owner.commit(table.append(4, *with_row_ids(4, 3, 6))))
    _require_row_ids(table)


def test_row_ids_go_on_where_those_of_a_table_that_was_taken_over_ended(lake: OwnedLake) -> None:
    store = filesystem_table(lake, 2)
    asked = replace(proposal(lake, version=2, location=store.root_url), row_id_mark=41)
    table = taken(lake.owner(), asked)
    for _ in range(3):
        landed(table.owner.commit(table.append(3, *with_row_ids(3, 41, 4))))
    found = [action["add"]["baseRowId"] for v in (3, 4, 5) for action in table.everything()[v] if "add" in action]
    assert found == [42, 46, 50]


def _require_row_ids(table: Table) -> None:
    """Row ids are given out in the order of versions without a gap, and each commit records the mark after it."""
    next_id = 0
    for version, actions in table.everything().items():
        marks = []
        for action in actions:
            if "add" in action:
                node = action["add"]
                assert node["defaultRowCommitVersion"] == version
                assert node["baseRowId"] == next_id
                next_id += orjson.loads(node["stats"])["numRecords"]
            elif "domainMetadata" in action:
                assert action["domainMetadata"]["domain"] == "delta.rowTracking"
                assert action["domainMetadata"]["removed"] is False
                marks.append(orjson.loads(action["domainMetadata"]["configuration"])["rowIdHighWaterMark"])
        assert marks in ([], [next_id - 1])


@pytest.mark.parametrize("change", ["metaData", "protocol"])
def test_no_append_moves_across_a_change_of_the_table(table: Table, change: str) -> None:
    table.commit(1)
    node: Any = table.protocol if change == "protocol" else table.metadata(owner="me")
    table.commit(2, {change: node})
    table.commit(3)
    for version in (1, 2):
        assert table.owner.commit(table.append(version)) == CommitConflict(3)
    # Those that knew of the change move.
    assert landed(table.owner.commit(table.append(3))).commit.version == 4


@pytest.mark.parametrize(
    "action",
    [
        {"remove": {"path": "a", "dataChange": True, "deletionTimestamp": 1}},
        {"txn": {"appId": "a", "version": 1}},
        {"domainMetadata": {"domain": "com.example", "configuration": "", "removed": False}},
        {"cdc": {"path": "c", "partitionValues": {}, "size": 1, "dataChange": False}},
        {"metaData": ...},
    ],
    ids=lambda action: next(iter(action)),
)
def test_a_promise_to_be_movable_that_the_actions_break_does_not_count(table: Table, action: Any) -> None:
    table.commit(1)
    told = {"metaData": table.metadata()} if "metaData" in action else action
    assert table.owner.commit(table.append(1, added(), told)) == CommitConflict(1)


def test_an_append_that_did_not_say_that_it_may_move_does_not(table: Table) -> None:
    table.commit(1)
    assert table.owner.commit(table.request(1, added())) == CommitConflict(1)


# Replays.


def _replayed(table: Table, request: Any, owner: CommitOwner | None = None) -> CommitResponse:
    return landed((owner or table.owner).commit(replace(request, is_replay=True)))


def _same(first: CommitResponse, second: CommitResponse) -> bool:
    """Whether both answers speak of one commit; how the file was called may be forgotten."""
    one, other = first.commit, second.commit
    if len({one.file_name, other.file_name} - {""}) > 1:
        return False
    return (one.version, one.timestamp_ms, one.size_bytes) == (other.version, other.timestamp_ms, other.size_bytes)


@pytest.mark.parametrize("movable", [False, True])
def test_a_replay_is_answered_with_the_first_result_whatever_has_come_since(table: Table, movable: bool) -> None:
    table.commit(1)
    request = table.append(1) if movable else table.request(2)
    first = landed(table.owner.commit(request))
    assert first.commit.version == 2
    assert _same(first, _replayed(table, request))
    table.commits(2)
    assert _same(first, _replayed(table, request))
    table.owner.backfill_to_version(table.table_id)
    assert _same(first, _replayed(table, request))
    assert table.latest == 4


@pytest.mark.parametrize("movable", [False, True])
def test_a_replay_is_answered_with_the_first_result_after_its_row_was_purged(lake: OwnedLake, movable: bool) -> None:
    table = created(lake, lake.owner(rows_kept=0))
    table.commits(2)
    request = table.append(1) if movable else table.request(3)
    first = landed(table.owner.commit(request))
    table.commits(3)
    table.owner.backfill_to_version(table.table_id)
    again = _replayed(table, request)
    assert _same(first, again)
    assert again.commit.data == table.backfilled(3)
    assert (again.latest_version, table.latest) == (6, 6)
    # One that was never carried out is: a conflict, or behind the others.
    assert table.owner.commit(replace(table.request(3), is_replay=True)) == CommitConflict(6)
    assert _replayed(table, table.append(3)).commit.version == 7


def test_a_replay_of_the_very_commit_that_was_purged_last_is_answered_with_it(lake: OwnedLake) -> None:
    table = created(lake, lake.owner(rows_kept=0))
    request = table.request(1)
    first = landed(table.owner.commit(request))
    table.owner.backfill_to_version(table.table_id)
    assert _same(first, _replayed(table, request))
    assert table.latest == 1


def test_a_request_that_comes_again_without_saying_so_counts_once(table: Table) -> None:
    request = table.append(1)
    first = landed(table.owner.commit(request))
    table.commit(2)
    assert _same(first, landed(table.owner.commit(request)))
    assert table.latest == 2


def test_a_replay_of_what_never_arrived_is_carried_out(table: Table) -> None:
    request = table.request(1)
    assert _replayed(table, request).commit.version == 1
    assert table.ids()[1] == request.commit_id


def test_a_replay_of_a_commit_that_lost_its_version_is_the_same_conflict(table: Table) -> None:
    table.commit(1)
    request = table.request(1)
    assert table.owner.commit(request) == CommitConflict(1)
    assert table.owner.commit(replace(request, is_replay=True)) == CommitConflict(1)
    assert table.latest == 1


@pytest.mark.parametrize("movable", [False, True])
def test_a_replay_while_the_first_is_under_way_waits_for_its_result(lake: OwnedLake, movable: bool) -> None:
    entered, go_on, directory = threading.Event(), threading.Event(), lake.form.directory

    def step(when: str, operation: str, path: str) -> None:
        if when == "before" and operation == "put" and f"/{directory}/" in path and not path.endswith(first_name):
            entered.set()
            assert go_on.wait(30)

    first_name = "nothing"
    slow = lake.embedded(step=step)
    asked = created(lake, lake.owner())
    table = replace(asked, owner=lake.owner())
    request = table.append(1) if movable else table.request(1)

    def replay() -> CommitResponse:
        assert entered.wait(30)
        threading.Timer(0.05, go_on.set).start()
        return _replayed(table, request)

    first, again = at_once(lambda: slow.commit(request), replay)
    assert _same(landed(first), landed(again))
    assert landed(again).commit.version == 1
    assert table.latest == 1


@pytest.mark.parametrize("movable", [False, True])
def test_equal_requests_at_once_count_once_at_most(table: Table, movable: bool) -> None:
    request = table.append(1) if movable else table.request(1)
    other = table.append(1)
    again = replace(request, is_replay=True)
    *same, apart = at_once(*(lambda r=r: table.owner.commit(r) for r in [again] * 6 + [other]))
    assert len({o.commit.version if isinstance(o, CommitResponse) else None for o in same}) == 1, same
    if movable:
        assert {landed(same[0]).commit.version, landed(apart).commit.version} == {1, 2}
    # Where the other was faster it is a conflict for all of them.
    assert table.ids().count(request.commit_id) == isinstance(same[0], CommitResponse)


def test_a_replay_is_answered_with_the_first_result_after_the_table_was_handed_back(table: Table) -> None:
    request = table.request(1)
    first = landed(table.owner.commit(request))
    landed(table.owner.release(releasing(table, 2)))
    assert _same(first, _replayed(table, request))
    with pytest.raises(ProtocolChangedException):
        table.owner.commit(table.request(3, is_replay=True))
    assert info_in(table.backfilled(1))["txnId"] == request.commit_id
