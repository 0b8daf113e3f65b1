from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import InvalidArgument
from slackwater.owner.api.commits import Commit, CommitResponse
from slackwater.owner.api.timestamp_range import PRECISIONS, UNBOUNDED, TimestampRange, instants
from slackwater.owner.api.transactions import (
    LONGEST_AHEAD_MS,
    WHOLE,
    Cut,
    InDoubt,
    Item,
    LockRequest,
    TableRead,
    TableVersion,
    TableWrite,
    TimeRequest,
    TransactionConflict,
    TransactionRequest,
    TransactionResponse,
    Vote,
)
from slackwater.owner.served.wire import commits as wire
from slackwater.owner.served.wire import transaction_schemas
from slackwater.owner.served.wire import transactions as transaction_wire
from slackwater.owner.served.wire.transactions import GREATEST_TIMESTAMP_MS

IDS = st.uuids().map(str)
LONGS = st.integers(-(2**63), 2**63 - 1)
VERSIONS = st.integers(0, wire.GREATEST_VERSION)
TEXTS = st.text(st.characters(exclude_categories=("Cs",)))
GRANULES = st.just(WHOLE) | st.text(
    st.characters(exclude_categories=("Cs",), exclude_characters=[chr(code) for code in range(32)]), max_size=512
)
BOUNDS = st.integers(-1, GREATEST_TIMESTAMP_MS)
RANGES = st.builds(TimestampRange, BOUNDS, BOUNDS | st.just(UNBOUNDED))
ITEMS = st.lists(st.builds(Item, IDS, GRANULES), max_size=3)
CUTS = st.builds(
    Cut,
    LONGS,
    st.lists(st.builds(TableVersion, IDS, TEXTS, TEXTS, st.none() | LONGS, st.none() | LONGS, LONGS), max_size=3),
)
COMMITS = st.builds(CommitResponse, st.builds(Commit, VERSIONS, TEXTS, LONGS, LONGS, st.none()), LONGS)
ID = "11111111-2222-4333-8444-555555555555"


def over_the_wire(value: Any) -> Any:
    return orjson.loads(orjson.dumps(value))


@given(CUTS)
def test_a_cut_arrives_as_it_was(cut: Cut) -> None:
    assert transaction_wire.cut_from_json(over_the_wire(transaction_wire.cut_to_json(cut))) == cut


@given(RANGES)
def test_a_range_arrives_as_it_was(range_: TimestampRange) -> None:
    assert transaction_wire.range_from_json(over_the_wire(transaction_wire.range_to_json(range_))) == range_


@given(st.builds(TransactionResponse, LONGS, st.dictionaries(IDS, COMMITS, max_size=3)))
def test_the_answer_to_a_transaction_arrives_as_it_was(response: TransactionResponse) -> None:
    sent = over_the_wire(transaction_wire.transaction_response_to_json(response))
    assert transaction_wire.transaction_response_from_json(sent) == response


@given(st.builds(TransactionConflict, st.dictionaries(IDS, LONGS)))
def test_the_conflict_of_a_transaction_arrives_as_it_was(conflict: TransactionConflict) -> None:
    sent = over_the_wire(transaction_wire.transaction_conflict_to_json(conflict))
    assert transaction_wire.transaction_conflict_from_json(sent) == conflict


@given(st.builds(Vote, RANGES, LONGS))
def test_a_vote_arrives_as_it_was(vote: Vote) -> None:
    assert transaction_wire.vote_from_json(over_the_wire(transaction_wire.vote_to_json(vote))) == vote


@given(st.none() | st.builds(TransactionResponse, LONGS, st.dictionaries(IDS, COMMITS, max_size=3)))
def test_what_was_carried_out_arrives_as_it_was(response: TransactionResponse | None) -> None:
    sent = over_the_wire(transaction_wire.finished_to_json(response))
    assert transaction_wire.finished_from_json(sent) == response


@given(st.lists(st.builds(InDoubt, IDS, IDS, LONGS), max_size=3))
def test_transactions_in_doubt_arrive_as_they_were(doubts: list[InDoubt]) -> None:
    assert transaction_wire.in_doubt_from_json(over_the_wire(transaction_wire.in_doubt_to_json(doubts))) == doubts


@given(st.none() | st.integers(0, GREATEST_TIMESTAMP_MS), st.lists(IDS, max_size=3))
def test_a_decision_of_the_client_is_a_body_that_the_server_takes(
    timestamp_ms: int | None, participants: list[str]
) -> None:
    decision = over_the_wire(transaction_wire.decision_to_json(timestamp_ms, participants))
    finish = over_the_wire(transaction_wire.finish_to_json(timestamp_ms))
    assert transaction_schemas.DecisionBody.model_validate(decision).model_dump(by_alias=True) == decision
    assert transaction_schemas.FinishBody.model_validate(finish).model_dump(by_alias=True) == finish
    assert transaction_wire.decided_from_json(finish) == timestamp_ms
    assert decision["participants"] == participants


@given(
    st.builds(
        TimeRequest,
        st.just(ID),
        RANGES,
        st.sampled_from(PRECISIONS),
        st.sampled_from(["UTC", "America/Argentina/ComodRivadavia", "+01:00"]),
        ITEMS,
        st.integers(0, 60_000),
        st.lists(IDS, max_size=3),
    )
)
def test_what_the_client_asks_of_the_time_is_a_body_that_the_server_takes(request: TimeRequest) -> None:
    body = over_the_wire(transaction_wire.time_request_to_json(request))
    read = transaction_schemas.TimeBody.model_validate(body)
    assert read.model_dump(by_alias=True) == body


@given(st.builds(LockRequest, st.just(ID), st.integers(0, GREATEST_TIMESTAMP_MS), ITEMS, st.booleans(), st.just(99.0)))
def test_what_the_client_asks_of_locks_is_a_body_that_the_server_takes(request: LockRequest) -> None:
    body = over_the_wire(transaction_wire.lock_request_to_json(request, 0.5))
    assert body["timeoutS"] == 0.5
    read = transaction_schemas.LockBody.model_validate(body)
    assert read.model_dump(by_alias=True) == body


@given(
    st.lists(st.builds(TableRead, IDS, VERSIONS, st.lists(GRANULES, max_size=3)), max_size=3),
    st.lists(
        st.builds(TableWrite, IDS, VERSIONS, st.just([{"add": {"path": "f", "size": 2**62}}]), st.booleans()),
        max_size=3,
    ),
    RANGES,
    st.booleans(),
)
def test_a_transaction_of_the_client_is_a_body_that_the_server_takes(
    reads: list[TableRead], writes: list[TableWrite], range_: TimestampRange, is_replay: bool
) -> None:
    request = TransactionRequest(ID, range_, reads, writes)
    contents = [wire.commit_content(write.actions) for write in writes]
    body = over_the_wire(transaction_wire.transaction_to_json(request, contents, is_replay))
    read = transaction_schemas.TransactionBody.model_validate(body)
    assert read.model_dump(by_alias=True) == body
    assert read.is_replay is is_replay
    promised = over_the_wire(
        transaction_wire.prepare_to_json(replace(request, has_locks=True, is_replay=is_replay), contents, ID)
    )
    assert {**promised, "txnId": ID, "hasLocks": False} == {**body, "coordinatorId": ID}
    assert transaction_schemas.PrepareBody.model_validate(promised).model_dump(by_alias=True) == promised


def test_the_precisions_are_those_that_there_are() -> None:
    assert get_args(transaction_schemas.Precision) == PRECISIONS


@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Etc/GMT+12"])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_greatest_timestamp_is_an_instant_in_every_zone(precision: str, zone: str) -> None:
    greatest = GREATEST_TIMESTAMP_MS + LONGEST_AHEAD_MS
    first, last = instants(greatest, precision, zone)
    assert first <= greatest <= last


@pytest.mark.parametrize(
    "found",
    [
        None,
        {},
        {"timestampMs": 1},
        {"timestampMs": "1", "tables": []},
        {"timestampMs": 1, "tables": [{}]},
        {
            "timestampMs": 1,
            "tables": [{"tableId": ID, "name": "a", "location": "b", "version": 1, "knownFrom": 0}],
        },
    ],
)
def test_what_is_no_cut_is_refused(found: object) -> None:
    with pytest.raises(ValueError, match="expected"):
        transaction_wire.cut_from_json(found)


@pytest.mark.parametrize("found", [None, {}, {"lowMs": 1}, {"highMs": None}, {"lowMs": None, "highMs": 2}])
def test_what_is_no_range_is_refused(found: object) -> None:
    with pytest.raises(ValueError, match="expected"):
        transaction_wire.range_from_json(found)


@pytest.mark.parametrize(
    "found", [None, {}, {"timestampMs": 1}, {"timestampMs": 1, "commits": []}, {"timestampMs": 1, "commits": {ID: 1}}]
)
def test_what_is_no_answer_to_a_transaction_is_refused(found: object) -> None:
    with pytest.raises(ValueError, match="expected"):
        transaction_wire.transaction_response_from_json(found)


@pytest.mark.parametrize("found", [{"latestVersions": [1]}, {"latestVersions": {ID: "1"}}])
def test_what_is_no_conflict_of_a_transaction_is_refused(found: object) -> None:
    with pytest.raises(ValueError, match="expected"):
        transaction_wire.transaction_conflict_from_json(found)


@pytest.mark.parametrize("found", [None, {}, {"range": {"lowMs": 1, "highMs": None}}, {"range": 3, "nowMs": 3}])
def test_what_is_no_vote_is_refused(found: object) -> None:
    with pytest.raises(ValueError, match="expected"):
        transaction_wire.vote_from_json(found)


@pytest.mark.parametrize("found", [None, {}, {"timestampMs": "5"}, {"timestampMs": False}])
def test_what_says_no_decision_is_refused(found: object) -> None:
    with pytest.raises(ValueError, match="expected"):
        transaction_wire.decided_from_json(found)


@pytest.mark.parametrize("found", [None, {}, {"transaction": []}, {"transaction": {"timestampMs": 5}}])
def test_what_does_not_say_what_was_carried_out_is_refused(found: object) -> None:
    with pytest.raises(ValueError, match="expected"):
        transaction_wire.finished_from_json(found)


@pytest.mark.parametrize("found", [None, {}, {"transactions": [ID]}, {"transactions": [{"txnId": ID, "votedMs": 5}]}])
def test_what_is_no_list_of_transactions_in_doubt_is_refused(found: object) -> None:
    with pytest.raises(ValueError, match="expected"):
        transaction_wire.in_doubt_from_json(found)


@pytest.mark.parametrize("timestamp_ms", [-1, GREATEST_TIMESTAMP_MS + 1, 1.5, True, None, "1"])
def test_other_timestamps_are_refused(timestamp_ms: Any) -> None:
    with pytest.raises(InvalidArgument, match="a timestamp is a number of ms"):
        transaction_wire.checked_timestamp(timestamp_ms)


@pytest.mark.parametrize("timeout_s", [-0.1, 3600.1, float("nan"), float("inf"), None, "1"])
def test_other_timeouts_are_refused(timeout_s: Any) -> None:
    with pytest.raises(InvalidArgument, match="locks are waited for 0 to 3600 s"):
        transaction_wire.checked_timeout(timeout_s)
