"""What the client makes of votes and decisions whose answers are lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slackwater.errors import (
    CommitOwnerUnavailable,
    CommitUnknown,
    InvalidArgument,
    LockTimeout,
    NotAuthorized,
    SlackwaterError,
    StorageError,
    TimestampConflict,
)
from slackwater.owner.api.timestamp_range import UNBOUNDED, TimestampRange
from slackwater.owner.api.transactions import (
    InDoubt,
    TableRead,
    TableWrite,
    TransactionConflict,
    TransactionRequest,
    TransactionResponse,
    Vote,
)
from slackwater.owner.served.client.http_owner import HttpOwner
from tests.owner.served.scripted import LOST, NEVER_SENT, Script, Step, answered, failed
from tests.owner.served.serving import new_id

ID = "11111111-2222-4333-8444-555555555555"
OTHER = "99999999-2222-4333-8444-555555555555"
VOTE = {"range": {"lowMs": 4, "highMs": None}, "nowMs": 9}


def _part(**fields: Any) -> TransactionRequest:
    return TransactionRequest(ID, TimestampRange(4), **fields)


CALLS: dict[str, tuple[Callable[[HttpOwner], Any], Any, Any]] = {
    "prepare": (lambda owner: owner.prepare(_part(), OTHER), VOTE, Vote(TimestampRange(4), 9)),
    "decide": (lambda owner: owner.decide(ID, 5, [ID, OTHER]), {"timestampMs": 5}, 5),
    "decision": (lambda owner: owner.decision(ID), {"timestampMs": None}, None),
    "finish": (
        lambda owner: owner.finish(ID, 5),
        {"transaction": {"timestampMs": 5, "commits": {}}},
        TransactionResponse(5, {}),
    ),
    "acknowledge": (lambda owner: owner.acknowledge(ID, OTHER), {}, None),
    "in_doubt": (lambda owner: owner.in_doubt(), {"transactions": []}, []),
}


@pytest.mark.parametrize("lost", [*LOST, *NEVER_SENT], ids=repr)
@pytest.mark.parametrize("name", CALLS)
def test_what_is_not_answered_is_asked_again_word_for_word(name: str, lost: Step) -> None:
    call, value, expected = CALLS[name]
    script = Script(lost, answered(value))
    assert call(script.owner) == expected
    assert script.seen[0].content == script.seen[1].content
    assert script.seen[0].url == script.seen[1].url


@pytest.mark.parametrize("lost", LOST, ids=repr)
@pytest.mark.parametrize("timestamp_ms", [5, None])
def test_a_decision_that_is_never_answered_is_asked_for_until_patience_is_over_and_then_unknown(
    timestamp_ms: int | None, lost: Step
) -> None:
    script = Script(lost)
    with pytest.raises(CommitUnknown):
        script.owner.decide(ID, timestamp_ms, [ID])
    assert len(script.seen) > 1
    assert script.now >= 1028


@pytest.mark.parametrize("lost", LOST, ids=repr)
@pytest.mark.parametrize("then", [failed(NotAuthorized("revoked")), *NEVER_SENT], ids=repr)
def test_a_decision_whose_answer_was_lost_stays_unknown_whatever_keeps_the_client_from_asking(
    lost: Step, then: Step
) -> None:
    with pytest.raises(CommitUnknown):
        Script(lost, then).owner.decide(ID, 5, [ID])


@pytest.mark.parametrize("unsent", NEVER_SENT, ids=repr)
def test_a_decision_that_was_never_sent_is_certainly_not_recorded(unsent: Step) -> None:
    with pytest.raises(CommitOwnerUnavailable):
        Script(unsent).owner.decide(ID, 5, [ID])


@pytest.mark.parametrize(("found", "status"), [({}, 200), ({"timestampMs": "5"}, 200), ({"latestVersion": 3}, 409)])
def test_an_answer_of_another_shape_leaves_a_decision_unknown(found: object, status: int) -> None:
    with pytest.raises(CommitUnknown, match="is not valid"):
        Script(answered(found, status)).owner.decide(ID, 5, [ID])


@pytest.mark.parametrize("timestamp_ms", [7, None])
def test_an_earlier_decision_is_the_answer(timestamp_ms: int | None) -> None:
    assert Script(answered({"timestampMs": timestamp_ms})).owner.decide(ID, 5, [ID]) == timestamp_ms


@pytest.mark.parametrize("lost", [*LOST[:10], *NEVER_SENT], ids=repr)
@pytest.mark.parametrize("name", [name for name in CALLS if name != "decide"])
def test_whatever_else_is_never_answered_can_be_repeated_so_the_owner_is_unavailable(name: str, lost: Step) -> None:
    with pytest.raises(CommitOwnerUnavailable):
        CALLS[name][0](Script(lost).owner)


@pytest.mark.parametrize("name", ["prepare", "decision", "finish", "in_doubt"])
def test_an_answer_of_another_shape_is_none_of_a_commit_owner(name: str) -> None:
    with pytest.raises(CommitOwnerUnavailable, match="does not respond as a commit owner does"):
        CALLS[name][0](Script(answered({})).owner)


@pytest.mark.parametrize("found", [{"latestVersions": 3}, {"latestVersion": 3}])
def test_a_conflict_of_another_kind_is_no_answer_to_prepare(found: object) -> None:
    with pytest.raises(CommitOwnerUnavailable, match="does not respond as a commit owner does"):
        Script(answered(found, 409)).owner.prepare(_part(), OTHER)


@pytest.mark.parametrize("versions", [{}, {OTHER: 7}])
def test_a_conflict_is_an_answer_to_prepare(versions: dict[str, int]) -> None:
    answer = Script(answered({"latestVersions": versions}, 409)).owner.prepare(_part(), OTHER)
    assert answer == TransactionConflict(versions)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("prepare", TimestampConflict("none left")),
        ("prepare", LockTimeout("held")),
        ("finish", StorageError("the disk is full")),
        ("finish", InvalidArgument("the vote was for others")),
        ("decide", InvalidArgument("no")),
    ],
)
def test_errors_of_the_owner_are_raised_as_themselves_and_at_once(name: str, error: SlackwaterError) -> None:
    script = Script(failed(error))
    with pytest.raises(type(error)) as raised:
        CALLS[name][0](script.owner)
    assert type(raised.value) is type(error)
    assert len(script.seen) == 1


@pytest.mark.parametrize("timeout_s", [1.0, 30.0])
def test_a_request_to_prepare_outlasts_the_waits_for_both_kinds_of_locks(timeout_s: float) -> None:
    script = Script(answered(VOTE), timeout_s=timeout_s)
    script.owner.prepare(_part(), OTHER)
    assert script.seen[0].extensions["timeout"]["read"] > 20


def test_the_paths_and_bodies_are_as_the_document_says() -> None:
    doubt = {"txnId": ID, "coordinatorId": OTHER, "votedMs": 9}
    values = [CALLS[name][1] for name in CALLS if name != "in_doubt"]
    script = Script(*map(answered, values), answered({"transactions": [doubt]}))
    table_id = new_id()
    reads, writes = [TableRead(table_id, 3)], [TableWrite(table_id, 4, [{"commitInfo": {}}])]
    vote = script.owner.prepare(_part(reads=reads, writes=writes, has_locks=True), OTHER)
    assert vote == Vote(TimestampRange(4, UNBOUNDED), 9)
    script.owner.decide(ID, 5, [ID, OTHER])
    script.owner.decision(ID)
    script.owner.finish(ID, None)
    script.owner.acknowledge(ID, OTHER)
    assert script.owner.in_doubt() == [InDoubt(ID, OTHER, 9)]
    assert [(sent.method, sent.url.path.removeprefix("/lake")) for sent in script.seen] == [
        ("POST", f"/v1/transactions/{ID}/prepare"),
        ("POST", f"/v1/transactions/{ID}/decision"),
        ("POST", f"/v1/transactions/{ID}/decision/ask"),
        ("POST", f"/v1/transactions/{ID}/finish"),
        ("POST", f"/v1/transactions/{ID}/acknowledge"),
        ("GET", "/v1/in-doubt"),
    ]
    del script.seen[5], script.seen[2]
    assert script.bodies == [
        {
            "coordinatorId": OTHER,
            "range": {"lowMs": 4, "highMs": None},
            "reads": [{"tableId": table_id, "version": 3, "granules": [""]}],
            "writes": [{"tableId": table_id, "version": 4, "mayMove": False, "actions": [{"commitInfo": {}}]}],
            "hasLocks": True,
            "isReplay": False,
        },
        {"timestampMs": 5, "participants": [ID, OTHER]},
        {"timestampMs": None},
        {"participantId": OTHER},
    ]


@pytest.mark.parametrize(
    "call",
    [
        lambda owner: owner.prepare(TransactionRequest("x", TimestampRange(4)), ID),
        lambda owner: owner.prepare(_part(), "x"),
        lambda owner: owner.prepare(_part(writes=[TableWrite(ID, 1, [{"add": {1: 2}}])]), ID),
        lambda owner: owner.decide("../x", 5, [ID]),
        lambda owner: owner.decide(ID, -1, [ID]),
        lambda owner: owner.decide(ID, True, [ID]),
        lambda owner: owner.decide(ID, 5, ["a,b"]),
        lambda owner: owner.decision("x"),
        lambda owner: owner.finish("x", 5),
        lambda owner: owner.finish(ID, 5.5),
        lambda owner: owner.acknowledge("x", ID),
        lambda owner: owner.acknowledge(ID, "x"),
    ],
)
def test_what_is_no_request_is_not_sent(call: Callable[[HttpOwner], object]) -> None:
    script = Script(answered({}))
    with pytest.raises(InvalidArgument):
        call(script.owner)
    assert script.seen == []
