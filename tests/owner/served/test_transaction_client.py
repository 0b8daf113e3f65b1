"""What the client makes of transactions whose answers are lost, and of locks that are waited for long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import httpx
import pytest

from slackwater.errors import (
    CommitOwnerUnavailable,
    CommitUnknown,
    DeadlockDetected,
    InvalidArgument,
    LockTimeout,
    SlackwaterError,
    TimestampConflict,
    TransactionEnded,
)
from slackwater.owner.api.timestamp_range import UNBOUNDED, TimestampRange
from slackwater.owner.api.transactions import (
    Cut,
    Item,
    LockRequest,
    TableVersion,
    TableWrite,
    TimeRequest,
    TransactionConflict,
    TransactionRequest,
    TransactionResponse,
)
from slackwater.owner.served.client.http_owner import HttpOwner
from tests.owner.served.scripted import LOST, NEVER_SENT, Script, Step, answered, failed
from tests.owner.served.serving import new_id

COUNTS = {"timestampMs": 5, "commits": {}}
RANGE = {"lowMs": 4, "highMs": 5}


def _transaction(**fields: Any) -> TransactionRequest:
    return TransactionRequest(new_id(), TimestampRange(4), **fields)


def _lock(timeout_s: float) -> LockRequest:
    return LockRequest(new_id(), 5, [Item(new_id())], True, timeout_s)


@pytest.mark.parametrize("lost", LOST, ids=repr)
def test_a_transaction_whose_answer_is_lost_is_sent_again_as_a_replay(lost: Step) -> None:
    script = Script(lost, answered(COUNTS))
    write = TableWrite(new_id(), 3, [{"commitInfo": {}}])
    assert script.owner.commit_transaction(_transaction(writes=[write])) == TransactionResponse(5, {})
    first, second = script.bodies
    assert first["isReplay"] is False
    assert {**first, "isReplay": True} == second
    assert second["writes"][0]["actions"] == [{"commitInfo": {}}]


@pytest.mark.parametrize("lost", LOST, ids=repr)
def test_a_transaction_that_is_never_answered_is_an_unknown_outcome(lost: Step) -> None:
    with pytest.raises(CommitUnknown):
        Script(lost).owner.commit_transaction(_transaction())


@pytest.mark.parametrize("unsent", NEVER_SENT, ids=repr)
def test_a_transaction_that_was_never_sent_certainly_does_not_count(unsent: Step) -> None:
    script = Script(unsent)
    with pytest.raises(CommitOwnerUnavailable):
        script.owner.commit_transaction(_transaction())
    assert not any(body["isReplay"] for body in script.bodies)


def test_a_transaction_that_is_a_replay_stays_one() -> None:
    script = Script(answered(COUNTS))
    script.owner.commit_transaction(_transaction(is_replay=True))
    assert script.bodies[0]["isReplay"] is True


def test_a_conflict_of_a_transaction_is_an_answer() -> None:
    table_id = new_id()
    script = Script(answered({"latestVersions": {table_id: 7}}, 409))
    assert script.owner.commit_transaction(_transaction()) == TransactionConflict({table_id: 7})


@pytest.mark.parametrize(
    ("found", "status"),
    [({}, 200), ({"timestampMs": 5}, 200), ({"latestVersions": 3}, 409), ({"latestVersion": 3}, 409)],
)
def test_an_answer_of_another_shape_leaves_a_transaction_unknown(found: object, status: int) -> None:
    with pytest.raises(CommitUnknown, match="is not valid"):
        Script(answered(found, status)).owner.commit_transaction(_transaction())


@pytest.mark.parametrize("kind", [TimestampConflict, LockTimeout, DeadlockDetected, TransactionEnded])
@pytest.mark.parametrize("before", [[], [httpx.ReadError("reset")]])
@pytest.mark.parametrize(
    "call",
    [
        lambda owner: owner.commit_transaction(_transaction()),
        lambda owner: owner.narrow(TimeRequest(new_id(), TimestampRange(4))),
        lambda owner: owner.lock(_lock(0)),
        lambda owner: owner.keep_alive(new_id()),
        lambda owner: owner.end(new_id()),
    ],
)
def test_what_is_in_a_transactions_way_is_raised_as_itself(
    call: Callable[[HttpOwner], object], before: list[Step], kind: type[SlackwaterError]
) -> None:
    script = Script(*before, failed(kind("in the way")))
    with pytest.raises(kind, match="in the way") as raised:
        call(script.owner)
    assert type(raised.value) is kind
    assert len(script.seen) == len(before) + 1


@pytest.mark.parametrize("lost", [*LOST[:10], *NEVER_SENT], ids=repr)
def test_steps_of_a_transaction_are_asked_again_word_for_word_and_then_the_owner_is_unavailable(lost: Step) -> None:
    txn_id = new_id()
    calls: list[tuple[Callable[[HttpOwner], Any], Any]] = [
        (lambda owner: owner.cut().timestamp_ms, {"timestampMs": 5, "tables": []}),
        (lambda owner: owner.cut(5).timestamp_ms, {"timestampMs": 5, "tables": []}),
        (lambda owner: owner.narrow(TimeRequest(txn_id, TimestampRange(4))).high_ms, RANGE),
        (lambda owner: owner.narrow(TimeRequest(txn_id, TimestampRange(4), holds=[txn_id])).high_ms, RANGE),
        (lambda owner: owner.lock(_lock(20)), {}),
        (lambda owner: owner.keep_alive(txn_id), {}),
        (lambda owner: owner.end(txn_id), {}),
    ]
    for call, value in calls:
        script = Script(lost, answered(value))
        assert call(script.owner) in (5, None)
        assert script.seen[0].content == script.seen[1].content
        with pytest.raises(CommitOwnerUnavailable):
            call(Script(lost).owner)


def test_a_lock_is_waited_for_in_shares_until_it_is_free() -> None:
    script = Script()
    held = script.passes(10, failed(LockTimeout("held")))
    script.steps += [held, held, script.passes(3, answered({}))]
    script.owner.lock(_lock(60))
    assert [body["timeoutS"] for body in script.bodies] == [10, 10, 10]
    assert script.waits == []


def test_a_lock_that_stays_another_s_is_given_up_when_the_time_is_over_and_the_last_answer_says_who() -> None:
    script = Script()
    script.steps += [
        script.passes(10, failed(LockTimeout("a holds it"))),
        script.passes(10, failed(LockTimeout("b holds it"))),
        script.passes(5, failed(LockTimeout("c holds it"))),
    ]
    with pytest.raises(LockTimeout, match="c holds it"):
        script.owner.lock(_lock(25))
    assert [body["timeoutS"] for body in script.bodies] == [10, 10, 5]


def test_a_lock_that_is_not_waited_for_is_asked_for_once() -> None:
    script = Script(failed(LockTimeout("held")))
    with pytest.raises(LockTimeout):
        script.owner.lock(_lock(0))
    assert [body["timeoutS"] for body in script.bodies] == [0]


def test_locks_that_were_lost_are_said_at_once() -> None:
    script = Script(failed(LockTimeout("not kept alive")))
    with pytest.raises(LockTimeout, match="not kept alive"):
        script.owner.lock(_lock(3600))
    assert len(script.seen) == 1


@pytest.mark.parametrize("timeout_s", [1.0, 30.0])
def test_a_request_for_a_lock_outlasts_the_wait_that_it_asks_for(timeout_s: float) -> None:
    script = Script(answered({}), timeout_s=timeout_s)
    script.owner.lock(_lock(60))
    assert script.seen[0].extensions["timeout"]["read"] > script.bodies[0]["timeoutS"]


def test_a_commit_has_patience_until_the_instant_that_was_answered_ahead_of_the_clock() -> None:
    script = Script(answered(RANGE), answered(COUNTS))
    script.owner.narrow(TimeRequest(new_id(), TimestampRange(4), ahead_ms=60_000))
    script.owner.commit_transaction(_transaction())
    assert script.seen[1].extensions["timeout"]["read"] > 60


def test_the_paths_and_bodies_are_as_the_document_says() -> None:
    table_id, txn_id = new_id(), new_id()
    script = Script(
        answered(
            {
                "timestampMs": 9,
                "tables": [
                    {
                        "tableId": table_id,
                        "name": "flights",
                        "location": "file:///lake/flights",
                        "version": None,
                        "timestampMs": None,
                        "knownFrom": 3,
                    }
                ],
            }
        ),
        answered({"lowMs": 4, "highMs": None}),
        answered({}),
        answered({}),
        answered({}),
    )
    cut = script.owner.cut(9)
    assert cut == Cut(9, [TableVersion(table_id, "flights", "file:///lake/flights", None, None, 3)])
    asked = TimeRequest(txn_id, TimestampRange(4, 9), "day", "Europe/Copenhagen", [Item(table_id, "x")], 7, [table_id])
    assert script.owner.narrow(asked) == TimestampRange(4, UNBOUNDED)
    script.owner.lock(replace(_lock(0), txn_id=txn_id, items=[Item(table_id)]))
    script.owner.keep_alive(txn_id)
    script.owner.end(txn_id)
    assert [(sent.method, sent.url.raw_path.decode().removeprefix("/lake")) for sent in script.seen] == [
        ("GET", "/v1/cut?timestampMs=9"),
        ("POST", f"/v1/transactions/{txn_id}/time"),
        ("POST", f"/v1/transactions/{txn_id}/locks"),
        ("POST", f"/v1/transactions/{txn_id}/keep-alive"),
        ("DELETE", f"/v1/transactions/{txn_id}"),
    ]
    assert httpx.Response(200, content=script.seen[1].content).json() == {
        "range": {"lowMs": 4, "highMs": 9},
        "precision": "day",
        "zone": "Europe/Copenhagen",
        "writes": [{"tableId": table_id, "granule": "x"}],
        "aheadMs": 7,
        "holds": [table_id],
    }
    assert httpx.Response(200, content=script.seen[2].content).json() == {
        "startedMs": 5,
        "items": [{"tableId": table_id, "granule": ""}],
        "isExclusive": True,
        "timeoutS": 0,
    }


@pytest.mark.parametrize(
    "call",
    [
        lambda owner: owner.cut(-1),
        lambda owner: owner.narrow(TimeRequest("../x", TimestampRange(4))),
        lambda owner: owner.lock(_lock(float("nan"))),
        lambda owner: owner.lock(_lock(-1)),
        lambda owner: owner.lock(replace(_lock(1), txn_id="x")),
        lambda owner: owner.keep_alive("x"),
        lambda owner: owner.end(""),
        lambda owner: owner.commit_transaction(TransactionRequest("x", TimestampRange(4))),
        lambda owner: owner.commit_transaction(_transaction(writes=[TableWrite(new_id(), 1, [{"add": {1: 2}}])])),
    ],
)
def test_what_is_no_request_is_not_sent(call: Callable[[HttpOwner], object]) -> None:
    script = Script(answered({}))
    with pytest.raises(InvalidArgument):
        call(script.owner)
    assert script.seen == []
