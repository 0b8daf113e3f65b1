from __future__ import annotations

import string
import uuid
from types import MappingProxyType
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import InvalidArgument
from slackwater.owner.api.actions import checked_actions
from slackwater.owner.api.commits import (
    Commit,
    CommitRequest,
    CommitResponse,
    GetCommitsResponse,
    ManagedTable,
    TableState,
)
from slackwater.owner.api.field_types import GREATEST_VERSION, Id, Known, Name, Version
from slackwater.owner.api.wire_model import checked
from slackwater.owner.served.wire.calls import TablesResponse
from slackwater.owner.served.wire.queries import CommitsQuery, CutQuery

AN_ID = "8c2c4f0e-31f5-4d2c-9a53-0f3f0f8a7b11"
LONGS = st.integers(-(2**63), 2**63 - 1)
VERSIONS = st.integers(0, GREATEST_VERSION)
KNOWN = st.integers(-1, GREATEST_VERSION)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
COMMITS = st.builds(
    Commit,
    version=VERSIONS,
    file_name=TEXTS,
    timestamp_ms=LONGS,
    size_bytes=LONGS,
    data=st.none() | TEXTS.map(str.encode),
)
TABLES = st.builds(
    ManagedTable,
    table_id=st.uuids().map(str),
    name=TEXTS,
    location=TEXTS,
    state=st.sampled_from(TableState),
    ratified_version=KNOWN,
    backfilled_version=KNOWN,
    timestamp_ms=LONGS,
    problem=TEXTS,
)
VALUES = st.recursive(
    st.none() | st.booleans() | LONGS | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=8,
)
ACTIONS = st.lists(
    st.tuples(TEXTS, st.dictionaries(TEXTS, VALUES)).map(lambda pair: {pair[0]: pair[1]}), min_size=1, max_size=4
)


def over_the_wire(value: Any) -> Any:
    return orjson.loads(orjson.dumps(value))


@given(COMMITS)
def test_a_commit_arrives_as_it_was(commit: Commit) -> None:
    assert Commit.from_json(over_the_wire(commit.to_json())) == commit


@given(COMMITS, KNOWN)
def test_the_answer_to_a_commit_arrives_as_it_was(commit: Commit, latest_version: int) -> None:
    response = CommitResponse(commit, latest_version)
    assert CommitResponse.from_json(over_the_wire(response.to_json())) == response


@given(st.lists(COMMITS, max_size=4), st.integers(0, 100), KNOWN)
def test_commits_of_a_range_arrive_as_they_were(found: list[Commit], first: int, latest_version: int) -> None:
    commits = [
        Commit(first + index, commit.file_name, commit.timestamp_ms, commit.size_bytes, commit.data)
        for index, commit in enumerate(found)
    ]
    response = GetCommitsResponse(commits, latest_version)
    assert GetCommitsResponse.from_json(over_the_wire(response.to_json())) == response


@given(st.lists(TABLES, max_size=3))
def test_tables_arrive_as_they_were(tables: list[ManagedTable]) -> None:
    answer = TablesResponse(tables)
    assert TablesResponse.from_json(over_the_wire(answer.to_json())) == answer


@given(ACTIONS)
def test_actions_arrive_as_they_were_and_pass_the_check(actions: list[dict[str, Any]]) -> None:
    request = CommitRequest(str(uuid.uuid4()), str(uuid.uuid4()), 1, actions, is_replay=True)
    sent = over_the_wire(request.to_json())
    assert sent["actions"] == actions
    assert sent["isReplay"] is True
    assert checked_actions(sent["actions"]) == actions


def test_actions_that_are_mappings_but_no_dicts_are_sent_too() -> None:
    actions = [MappingProxyType({"add": MappingProxyType({"path": "f"})})]
    request = CommitRequest(str(uuid.uuid4()), str(uuid.uuid4()), 1, actions)
    sent = over_the_wire(request.to_json())
    assert sent["actions"] == [{"add": {"path": "f"}}]


@pytest.mark.parametrize("value", [object(), 2**64, "\ud800", {1: 2}])
def test_actions_that_json_cannot_hold_are_refused_before_they_are_sent(value: object) -> None:
    with pytest.raises(InvalidArgument, match="cannot be written as JSON"):
        CommitRequest(AN_ID, AN_ID, 1, [{"add": {"x": value}}]).to_json()


def test_a_commit_whose_file_is_no_text_leaves_it_to_the_file() -> None:
    assert Commit(1, "f", 1, 1, b"\xff").to_json()["data"] is None


def test_commits_with_a_gap_are_no_answer() -> None:
    commits = [Commit(version, "f", 1, 1).to_json() for version in (1, 3)]
    with pytest.raises(ValueError, match="gap"):
        GetCommitsResponse.from_json({"commits": commits, "latestVersion": 3})


@pytest.mark.parametrize(
    "found",
    [None, [], {}, {"commit": {}}, {"commit": {"version": True}}, {"commit": None, "latestVersion": 1}],
)
def test_what_is_no_answer_to_a_commit_is_refused(found: object) -> None:
    with pytest.raises(ValueError, match="expected"):
        CommitResponse.from_json(found)


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([], "at least one action"),
        (["add"], "action 0 must be an object"),
        ([{"commitInfo": {}}, {}], "action 1 must be an object with exactly one key"),
        ([{"add": {}, "remove": {}}], "exactly one key"),
        ([{"add": None}], "have an object under 'add'"),
        ([{"add": {"size": 2**63}}], "does not fit 64 bits"),
        ([{"add": {"x": [{"y": 1e300}]}}], "does not fit 64 bits"),
        ([{"add": {"x": float("nan")}}], "does not fit 64 bits"),
    ],
)
def test_what_is_no_list_of_actions_is_refused(actions: list[Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        checked_actions(actions)


def test_actions_nested_too_deep_for_the_log_are_refused() -> None:
    value: Any = 1
    for _ in range(300):
        value = [value]
    with pytest.raises(InvalidArgument, match="nested more than"):
        checked_actions([{"add": {"x": value}}])


@given(st.text(string.ascii_letters + string.digits + "_.-", min_size=1, max_size=255))
def test_names_are_plain_and_begin_with_no_dot(name: str) -> None:
    if name.startswith("."):
        with pytest.raises(InvalidArgument):
            checked(Name, "table's name", name)
    else:
        assert checked(Name, "table's name", name) == name


@pytest.mark.parametrize("name", ["", "a/b", "a b", "ä", "a\n", "..", "x" * 256, None])
def test_other_names_are_refused(name: Any) -> None:
    with pytest.raises(InvalidArgument, match="the table's name is 1 to 255 of the characters"):
        checked(Name, "table's name", name)


@pytest.mark.parametrize("text", ["", "x", AN_ID.upper(), AN_ID + "a", "{" + AN_ID + "}", "../x", None])
def test_only_canonical_uuids_are_ids(text: Any) -> None:
    with pytest.raises(InvalidArgument, match="the table id is a UUID"):
        checked(Id, "table id", text)


@pytest.mark.parametrize("version", [-1, 2**63, True, 1.5, "1", None])
def test_other_versions_are_refused(version: Any) -> None:
    with pytest.raises(InvalidArgument, match="the version is a number from 0"):
        checked(Version, "version", version)


def test_a_version_that_is_a_whole_number_to_json_is_one() -> None:
    found = checked(Version, "version", 1.0)
    assert (found, type(found)) == (1, int)
    assert checked(Known, "version", -1) == -1


def test_a_query_says_all_that_counts_and_nothing_that_is_not_asked() -> None:
    said = CommitsQuery.sent(start_version=3, with_data=True)
    assert said == {"startVersion": "3", "endVersion": "-1", "withData": "true"}
    assert CutQuery.sent() == {}


@pytest.mark.parametrize("asked", [{"start_version": "3"}, {"end_version": 3}, {"start_version": 3, "end": 4}])
def test_what_no_query_may_say_is_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=r"the query is not valid: (startVersion|end): "):
        CommitsQuery.sent(**asked)
