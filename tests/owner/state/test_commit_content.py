"""What an owner makes of a request's actions."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import InvalidArgument
from slackwater.owner.state.commit_content import content, facts_of, timestamp_of

INFO = {"commitInfo": {"txnId": "x", "operation": "WRITE"}}


def mark(value: int, removed: bool = False) -> dict[str, Any]:
    configuration = orjson.dumps({"rowIdHighWaterMark": value}).decode()
    return {"domainMetadata": {"domain": "delta.rowTracking", "configuration": configuration, "removed": removed}}


def lines(data: bytes) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in data.splitlines()]


@pytest.mark.parametrize(
    ("kind", "may_move", "is_change"),
    [
        ("add", True, False),
        ("remove", False, False),
        ("cdc", False, False),
        ("txn", False, False),
        ("metaData", False, True),
        ("protocol", False, True),
        ("something new", False, False),
    ],
)
def test_the_kinds_of_its_actions_decide_whether_a_commit_may_move(kind: str, may_move: bool, is_change: bool) -> None:
    facts = facts_of([INFO, {kind: {}}], "x")
    assert (facts.may_move, facts.is_change, facts.mark, facts.first_row_id) == (may_move, is_change, None, None)


def test_row_ids_are_those_that_a_commit_gives_out_itself() -> None:
    adds: list[dict[str, Any]] = [{"add": {"baseRowId": 12}}, {"add": {"baseRowId": 7}}, {"add": {}}]
    facts = facts_of([INFO, *adds, mark(20)], "x")
    assert (facts.mark, facts.first_row_id, facts.may_move) == (20, 7, True)
    # Without a mark they were given out before: the files are only told again.
    assert facts_of([INFO, *adds], "x").first_row_id is None
    other = {"domainMetadata": {"domain": "com.example", "configuration": "", "removed": False}}
    assert facts_of([INFO, *adds, other], "x").may_move is False


@pytest.mark.parametrize(
    "actions", [[], [{"add": {}}], [{"commitInfo": None}], [{"commitInfo": {}}], [{"commitInfo": {"txnId": "y"}}]]
)
def test_actions_without_the_identity_of_their_commit_are_refused(actions: Any) -> None:
    with pytest.raises(InvalidArgument):
        facts_of(actions, "x")


def test_time_is_the_owners_and_the_first_thing_in_the_file() -> None:
    data = content([{"commitInfo": {"txnId": "x", "timestamp": 1, "inCommitTimestamp": 2}}], 3, 99)
    assert data == b'{"commitInfo":{"inCommitTimestamp":99,"txnId":"x","timestamp":99}}\n'
    assert timestamp_of(data) == 99


def test_the_record_of_since_when_timestamps_count_is_of_this_commit_only_where_it_says_so() -> None:
    keys = ("delta.inCommitTimestampEnablementVersion", "delta.inCommitTimestampEnablementTimestamp")
    for version, stamp in ((3, "99"), (4, "1")):
        configuration = {keys[0]: "3", keys[1]: "1", "other": "kept"}
        metadata = lines(content([INFO, {"metaData": {"id": "i", "configuration": configuration}}], version, 99))[1]
        assert metadata == {"metaData": {"id": "i", "configuration": {**configuration, keys[1]: stamp}}}
    without = {"metaData": {"id": "i"}}
    assert lines(content([INFO, without], 3, 99))[1] == without


@given(st.integers(0, 2**40), st.integers(0, 2**40), st.lists(st.integers(1, 1000), min_size=1, max_size=4))
def test_what_is_moved_keeps_its_distances(first: int, shift: int, rows: list[int]) -> None:
    actions: list[dict[str, Any]] = []
    base = first
    for number in rows:
        actions.append({"add": {"path": "p", "baseRowId": base, "defaultRowCommitVersion": 1, "tags": {"a": "b"}}})
        base += number
    given_actions = [INFO, mark(base - 1), {"add": {"path": "q"}}, *actions]
    before = [dict(action) for action in given_actions]
    _, domain, plain, *moved = lines(content(given_actions, 9, 5, shift, 9))
    assert given_actions == before
    assert plain == {"add": {"path": "q"}}
    assert orjson.loads(domain["domainMetadata"]["configuration"])["rowIdHighWaterMark"] == base - 1 + shift
    for old, new in zip(actions, moved, strict=True):
        changed = {"baseRowId": old["add"]["baseRowId"] + shift, "defaultRowCommitVersion": 9}
        assert new == {"add": {**old["add"], **changed}}


def test_what_stays_is_written_as_it_came() -> None:
    actions = [mark(5), {"add": {"path": "p", "baseRowId": 1, "defaultRowCommitVersion": 1}}, {"remove": {"path": "ü"}}]
    assert lines(content([INFO, *actions], 1, 5))[1:] == actions
