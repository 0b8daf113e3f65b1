from __future__ import annotations

from collections import deque
from types import MappingProxyType
from typing import Any, cast

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import InvalidArgument
from slackwater.owner.api.commits import Commit, CommitResponse
from slackwater.owner.api.field_types import GREATEST_TIMESTAMP_MS, GREATEST_VERSION, Instant
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
    Timeout,
    TimeRequest,
    TransactionConflict,
    TransactionRequest,
    TransactionResponse,
    Vote,
)
from slackwater.owner.api.wire_model import WireModel, checked
from slackwater.owner.served.wire.calls import (
    DecisionAnswer,
    DecisionRequest,
    FinishAnswer,
    FinishRequest,
    InDoubtAnswer,
    PrepareRequest,
    prepare_request,
)

IDS = st.uuids().map(str)
LONGS = st.integers(-(2**63), 2**63 - 1)
VERSIONS = st.integers(0, GREATEST_VERSION)
KNOWN = st.integers(-1, GREATEST_VERSION)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
GRANULES = st.just(WHOLE) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters=[chr(code) for code in range(32)]), max_size=512
)
BOUNDS = st.integers(-1, GREATEST_TIMESTAMP_MS)
RANGES = st.builds(TimestampRange, BOUNDS, BOUNDS | st.just(UNBOUNDED))
ITEMS = st.lists(st.builds(Item, IDS, GRANULES), max_size=3)
CUTS = st.builds(
    Cut,
    LONGS,
    st.lists(st.builds(TableVersion, IDS, TEXTS, TEXTS, st.none() | KNOWN, st.none() | LONGS, LONGS), max_size=3),
)
COMMITS = st.builds(CommitResponse, st.builds(Commit, VERSIONS, TEXTS, LONGS, LONGS, st.none()), KNOWN)
ID = "11111111-2222-4333-8444-555555555555"
OTHER = "11111111-2222-4333-8444-666666666666"


def over_the_wire(value: Any) -> Any:
    return orjson.loads(orjson.dumps(value))


@given(CUTS)
def test_a_cut_arrives_as_it_was(cut: Cut) -> None:
    assert Cut.from_json(over_the_wire(cut.to_json())) == cut


@given(RANGES)
def test_a_range_arrives_as_it_was(range_: TimestampRange) -> None:
    assert TimestampRange.from_json(over_the_wire(range_.to_json())) == range_


@given(st.builds(TransactionResponse, LONGS, st.dictionaries(IDS, COMMITS, max_size=3)))
def test_the_answer_to_a_transaction_arrives_as_it_was(response: TransactionResponse) -> None:
    assert TransactionResponse.from_json(over_the_wire(response.to_json())) == response


@given(st.builds(TransactionConflict, st.dictionaries(IDS, KNOWN)))
def test_the_conflict_of_a_transaction_arrives_as_it_was(conflict: TransactionConflict) -> None:
    assert TransactionConflict.from_json(over_the_wire(conflict.to_json())) == conflict


@given(st.builds(Vote, RANGES, LONGS))
def test_a_vote_arrives_as_it_was(vote: Vote) -> None:
    assert Vote.from_json(over_the_wire(vote.to_json())) == vote


@given(st.none() | st.builds(TransactionResponse, LONGS, st.dictionaries(IDS, COMMITS, max_size=3)))
def test_what_was_carried_out_arrives_as_it_was(response: TransactionResponse | None) -> None:
    answer = FinishAnswer(response)
    assert FinishAnswer.from_json(over_the_wire(answer.to_json())) == answer


@given(st.lists(st.builds(InDoubt, IDS, IDS, LONGS), max_size=3))
def test_transactions_in_doubt_arrive_as_they_were(doubts: list[InDoubt]) -> None:
    answer = InDoubtAnswer(doubts)
    assert InDoubtAnswer.from_json(over_the_wire(answer.to_json())) == answer


@given(st.none() | st.integers(0, GREATEST_TIMESTAMP_MS), st.lists(IDS, max_size=3))
def test_a_decision_arrives_as_it_was(timestamp_ms: int | None, participants: list[str]) -> None:
    for value in (
        DecisionRequest(timestamp_ms, participants),
        FinishRequest(timestamp_ms),
        DecisionAnswer(timestamp_ms),
    ):
        assert type(value).from_json(over_the_wire(value.to_json())) == value


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
def test_a_request_for_the_time_arrives_as_it_was_without_what_stands_in_its_path(request: TimeRequest) -> None:
    body = over_the_wire(request.to_json())
    assert "txnId" not in body
    assert TimeRequest.from_json({**body, "txnId": ID}) == request


@given(st.builds(LockRequest, st.just(ID), st.integers(0, GREATEST_TIMESTAMP_MS), ITEMS, st.booleans(), st.just(0.5)))
def test_a_request_for_locks_arrives_as_it_was_without_what_stands_in_its_path(request: LockRequest) -> None:
    body = over_the_wire(request.to_json())
    assert "txnId" not in body
    assert LockRequest.from_json({**body, "txnId": ID}) == request


@given(
    st.lists(st.builds(TableRead, IDS, VERSIONS, st.lists(GRANULES, max_size=3)), max_size=3),
    st.lists(
        st.builds(TableWrite, IDS, VERSIONS, st.just([{"add": {"path": "f", "size": 2**62}}]), st.booleans()),
        max_size=3,
    ),
    RANGES,
    st.booleans(),
)
def test_a_transaction_arrives_as_it_was_also_where_it_is_to_be_promised(
    reads: list[TableRead], writes: list[TableWrite], range_: TimestampRange, is_replay: bool
) -> None:
    request = TransactionRequest(ID, range_, reads, writes, has_locks=not is_replay, is_replay=is_replay)
    assert TransactionRequest.from_json(over_the_wire(request.to_json())) == request
    body = over_the_wire(prepare_request(request, OTHER).to_json())
    assert "txnId" not in body
    promised = PrepareRequest.from_json({**body, "txnId": ID})
    assert (promised.transaction, promised.coordinator_id) == (request, OTHER)


def test_tuples_and_other_sequences_and_mappings_are_arrays_and_objects() -> None:
    request = TimeRequest(ID, TimestampRange(4), writes=(Item(ID),), holds=deque([ID]))
    assert over_the_wire(request.to_json())["writes"] == [{"tableId": ID, "granule": ""}]
    assert over_the_wire(request.to_json())["holds"] == [ID]
    conflict = TransactionConflict(MappingProxyType({ID: 7}))
    assert over_the_wire(conflict.to_json()) == {"latestVersions": {ID: 7}}


@pytest.mark.parametrize(
    "value",
    [Item(cast(str, 5)), LockRequest(ID, 5, [cast(Item, 7)], True, 0.0), FinishRequest(cast(int, "x"))],
)
def test_a_value_with_fields_of_other_types_is_not_sent(value: WireModel) -> None:
    with pytest.raises(InvalidArgument, match="cannot be written as JSON"):
        value.to_json()


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
        Cut.from_json(found)


@pytest.mark.parametrize("found", [None, {}, {"lowMs": 1}, {"highMs": None}, {"lowMs": None, "highMs": 2}])
def test_what_is_no_range_is_refused(found: object) -> None:
    with pytest.raises(ValueError, match="expected"):
        TimestampRange.from_json(found)


@pytest.mark.parametrize(
    "found", [None, {}, {"timestampMs": 1}, {"timestampMs": 1, "commits": []}, {"timestampMs": 1, "commits": {ID: 1}}]
)
def test_what_is_no_answer_to_a_transaction_is_refused(found: object) -> None:
    with pytest.raises(ValueError, match="expected"):
        TransactionResponse.from_json(found)


@pytest.mark.parametrize("found", [{"latestVersions": [1]}, {"latestVersions": {ID: "1"}}])
def test_what_is_no_conflict_of_a_transaction_is_refused(found: object) -> None:
    with pytest.raises(ValueError, match="expected"):
        TransactionConflict.from_json(found)


@pytest.mark.parametrize("found", [None, {}, {"range": {"lowMs": 1, "highMs": None}}, {"range": 3, "nowMs": 3}])
def test_what_is_no_vote_is_refused(found: object) -> None:
    with pytest.raises(ValueError, match="expected"):
        Vote.from_json(found)


@pytest.mark.parametrize("found", [None, {}, {"timestampMs": "5"}, {"timestampMs": False}])
def test_what_says_no_decision_is_refused(found: object) -> None:
    with pytest.raises(ValueError, match="expected"):
        DecisionAnswer.from_json(found)


@pytest.mark.parametrize("found", [None, {}, {"transaction": []}, {"transaction": {"timestampMs": 5}}])
def test_what_does_not_say_what_was_carried_out_is_refused(found: object) -> None:
    with pytest.raises(ValueError, match="expected"):
        FinishAnswer.from_json(found)


@pytest.mark.parametrize("found", [None, {}, {"transactions": [ID]}, {"transactions": [{"txnId": ID, "votedMs": 5}]}])
def test_what_is_no_list_of_transactions_in_doubt_is_refused(found: object) -> None:
    with pytest.raises(ValueError, match="expected"):
        InDoubtAnswer.from_json(found)


@pytest.mark.parametrize("timestamp_ms", [-1, GREATEST_TIMESTAMP_MS + 1, 1.5, True, None, "1"])
def test_other_timestamps_are_refused(timestamp_ms: Any) -> None:
    with pytest.raises(InvalidArgument, match="the timestamp is a number of ms"):
        checked(Instant, "timestamp", timestamp_ms)


@pytest.mark.parametrize("timeout_s", [-0.1, 3600.1, float("nan"), float("inf"), None, "1"])
def test_other_timeouts_are_refused(timeout_s: Any) -> None:
    with pytest.raises(InvalidArgument, match="the timeout is a number of seconds from 0 to 3600,"):
        checked(Timeout, "timeout", timeout_s)
