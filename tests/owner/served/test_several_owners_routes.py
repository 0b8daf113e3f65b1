"""Votes and decisions over a real server and client, and what the server makes of an owner that fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from slackwater.errors import CommitOwnerUnavailable, InvalidArgument, LockTimeout, StorageError, TimestampConflict
from slackwater.lake.two_phase_commit import commit_joined, resolve
from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.api.timestamp_range import TimestampRange
from slackwater.owner.api.transactions import (
    InDoubt,
    TableRead,
    TableWrite,
    TransactionConflict,
    TransactionRequest,
    TransactionResponse,
    Vote,
)
from slackwater.owner.served.app import create_app
from slackwater.owner.served.client.http_owner import HttpOwner
from tests.owner.served.memory_owner import NOW_MS, OWNER_ID, MemoryOwner
from tests.owner.served.serving import AppClient, id_of_a_test, new_id, served, taken

OTHER = "99999999-2222-4333-8444-555555555555"


@pytest.fixture
def memory() -> MemoryOwner:
    return MemoryOwner()


@pytest.fixture
def owner(memory: MemoryOwner) -> Iterator[HttpOwner]:
    with served(memory) as url:
        client = HttpOwner(url)
        yield client
        client.close()


def _part(*writes: TableWrite, **fields: Any) -> TransactionRequest:
    return TransactionRequest(new_id(), TimestampRange(5), writes=writes, **fields)


def _write(table_id: str, version: int = 1) -> TableWrite:
    return TableWrite(table_id, version, [{"commitInfo": {}}, {"add": {"path": f"f{version}"}}])


def test_what_was_promised_is_carried_out_once(owner: HttpOwner, memory: MemoryOwner) -> None:
    request = _part(_write(taken(owner)))
    vote = owner.prepare(request, OTHER)
    assert vote == owner.prepare(request, OTHER) == Vote(TimestampRange(5), NOW_MS)
    assert owner.in_doubt() == [InDoubt(request.txn_id, OTHER, NOW_MS)]
    response = owner.finish(request.txn_id, NOW_MS + 3)
    assert isinstance(response, TransactionResponse)
    assert response.timestamp_ms == NOW_MS + 3
    assert response == memory.commit_transaction(request)
    assert owner.finish(request.txn_id, NOW_MS + 3) is None
    assert owner.in_doubt() == []


def test_what_was_promised_is_forgotten_where_that_was_decided(owner: HttpOwner) -> None:
    table_id = taken(owner)
    first, second = _part(_write(table_id)), _part(_write(table_id))
    owner.prepare(first, OTHER)
    with pytest.raises(LockTimeout, match=first.txn_id):
        owner.prepare(second, OTHER)
    owner.end(first.txn_id)
    assert owner.in_doubt() == [InDoubt(first.txn_id, OTHER, NOW_MS)]
    assert owner.finish(first.txn_id, None) is None
    assert isinstance(owner.prepare(second, OTHER), Vote)


def test_what_was_sent_is_what_the_owner_gets(owner: HttpOwner, memory: MemoryOwner) -> None:
    table_id = taken(owner)
    requests = [
        TransactionRequest(new_id(), TimestampRange(5, 9), [TableRead(table_id, 0, ["x"])], [], has_locks, is_replay)
        for has_locks in (True, False)
        for is_replay in (True, False)
    ]
    requests.append(TransactionRequest(new_id(), TimestampRange(5), [], [_write(table_id)]))
    for request in requests:
        owner.prepare(request, OTHER)
    assert memory.promised == [(request, OTHER) for request in requests]
    txn_id = new_id()
    owner.decide(txn_id, 7, [OTHER, OWNER_ID])
    owner.acknowledge(txn_id, OTHER)
    assert memory.decisions == {txn_id: (7, [OTHER, OWNER_ID])}
    assert memory.acknowledged == [(txn_id, OTHER)]


def test_the_first_decision_counts_and_who_asks_too_early_has_it_decided_that_nothing_commits(owner: HttpOwner) -> None:
    first, second = new_id(), new_id()
    assert owner.decide(first, 7, [OTHER]) == 7
    assert owner.decision(first) == owner.decide(first, None, []) == owner.decide(first, 8, [OTHER]) == 7
    assert owner.decision(second) is None
    assert owner.decide(second, 7, [OTHER]) is None


def test_conflicts_and_errors_arrive_as_the_owner_has_them(owner: HttpOwner) -> None:
    table_id = taken(owner)
    owner.commit_transaction(_part(_write(table_id)))
    request = _part(_write(table_id))
    assert owner.prepare(request, OTHER) == TransactionConflict({table_id: 1})
    owner.end(request.txn_id)
    with pytest.raises(TimestampConflict):
        owner.prepare(TransactionRequest(new_id(), TimestampRange(5, 5)), OTHER)
    promised = TransactionRequest(new_id(), TimestampRange(5, 9))
    owner.prepare(promised, OTHER)
    for outside in (5, 10):
        with pytest.raises(InvalidArgument, match="the decided timestamp"):
            owner.finish(promised.txn_id, outside)


def test_a_transaction_of_a_served_owner_commits_together_with_another_one(owner: HttpOwner) -> None:
    class Elsewhere(MemoryOwner):
        @property
        def owner_id(self) -> str:
            return OTHER

    elsewhere = Elsewhere()
    here, there = taken(owner), taken(elsewhere)
    request = _part(_write(here))
    parts = {OWNER_ID: request, OTHER: TransactionRequest(request.txn_id, TimestampRange(5), writes=[_write(there)])}
    owners: dict[str, CommitOwner] = {OWNER_ID: owner, OTHER: elsewhere}
    outcome = commit_joined(parts, owners, coordinator=owner)
    assert isinstance(outcome, TransactionResponse)
    assert outcome.timestamp_ms == NOW_MS
    assert set(outcome.commits) == {here, there}
    assert owner.in_doubt() == elsewhere.in_doubt() == []


def test_a_transaction_in_doubt_is_settled_over_the_wire(owner: HttpOwner) -> None:
    request = _part(_write(taken(owner)))
    owner.prepare(request, owner.owner_id)
    assert owner.decide(request.txn_id, NOW_MS, [owner.owner_id]) == NOW_MS
    assert [request.txn_id in line for line in resolve([owner])] == [True]
    assert resolve([owner]) == []
    assert owner.table("flights").ratified_version == 1


def _prepare(**changes: Any) -> dict[str, Any]:
    return {"coordinatorId": OTHER, "range": {"lowMs": 5, "highMs": None}, **changes}


BAD_PREPARES = [
    {"range": {"lowMs": 5, "highMs": None}},
    _prepare(coordinatorId="x"),
    _prepare(coordinatorId=None),
    _prepare(txnId=new_id()),
    _prepare(range={"lowMs": 5}),
    _prepare(writes=[{"tableId": new_id(), "version": 3, "actions": []}]),
]
BAD_DECISIONS = [
    {},
    {"timestampMs": 5},
    {"participants": [OTHER]},
    {"timestampMs": -1, "participants": []},
    {"timestampMs": "5", "participants": []},
    {"timestampMs": 253_402_128_000_001, "participants": []},
    {"timestampMs": 5, "participants": ["a,b"]},
    {"timestampMs": 5, "participants": [OTHER] * 10_001},
]
BAD_FINISHES = [{}, {"timestampMs": 5.5}, {"timestampMs": True}, {"timestampMs": 5, "participants": []}]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        *((f"{new_id()}/prepare", body) for body in BAD_PREPARES),
        *((f"{new_id()}/decision", body) for body in BAD_DECISIONS),
        *((f"{new_id()}/finish", body) for body in BAD_FINISHES),
        (f"{new_id()}/acknowledge", {}),
        (f"{new_id()}/acknowledge", {"participantId": "x"}),
        ("x/prepare", _prepare()),
        ("x/decision", {"timestampMs": 5, "participants": []}),
        ("x/decision/ask", None),
        ("x/finish", {"timestampMs": 5}),
        ("x/acknowledge", {"participantId": OTHER}),
    ],
    ids=id_of_a_test,
)
def test_what_is_no_request_never_reaches_the_owner(path: str, body: Any) -> None:
    class Untouched(MemoryOwner):
        def finish(self, txn_id: str, timestamp_ms: int | None) -> TransactionResponse | None:
            raise AssertionError("the owner was asked")

    memory = Untouched()
    answer = AppClient(create_app(memory, None)).post(f"/v1/transactions/{path}", json=body)
    assert (answer.status_code, answer.json()["error"]) == (422, "InvalidArgument"), answer.text
    assert (memory.promised, memory.decisions, memory.acknowledged) == ([], {}, [])


def test_no_get_request_decides_anything() -> None:
    memory = MemoryOwner()
    client = AppClient(create_app(memory, None))
    for path in ("decision", "decision/ask"):
        assert client.get(f"/v1/transactions/{new_id()}/{path}").status_code == 405
    assert memory.decisions == {}


class _Failing(MemoryOwner):
    """Fails in each of the calls."""

    def __init__(self, failure: Exception) -> None:
        super().__init__()
        self._failure = failure

    def prepare(self, request: TransactionRequest, coordinator_id: str) -> Vote | TransactionConflict:
        raise self._failure

    def decide(self, txn_id: str, timestamp_ms: int | None, participants: object) -> int | None:
        raise self._failure

    def finish(self, txn_id: str, timestamp_ms: int | None) -> TransactionResponse | None:
        raise self._failure


@pytest.mark.parametrize(
    ("failure", "repeatable", "decision"),
    [
        (RuntimeError("password=hunter2"), "CommitOwnerUnavailable", "CommitUnknown"),
        (CommitOwnerUnavailable("the database is gone"), "CommitOwnerUnavailable", "CommitUnknown"),
        (StorageError("the disk is full"), "StorageError", "StorageError"),
        (InvalidArgument("no"), "InvalidArgument", "InvalidArgument"),
    ],
)
def test_a_failure_is_to_be_asked_about_again_and_a_decision_may_be_recorded_all_the_same(
    failure: Exception, repeatable: str, decision: str
) -> None:
    client = AppClient(create_app(_Failing(failure), None))
    base = f"/v1/transactions/{new_id()}"
    answers = [
        client.post(f"{base}/prepare", json=_prepare()),
        client.post(f"{base}/finish", json={"timestampMs": 5}),
        client.post(f"{base}/decision", json={"timestampMs": 5, "participants": []}),
    ]
    assert [answer.json()["error"] for answer in answers] == [repeatable, repeatable, decision]
    assert not any("hunter2" in answer.text for answer in answers)


def test_metrics_count_what_was_carried_out_as_commits_and_what_was_not_promised_as_conflicts() -> None:
    memory = MemoryOwner()
    table_id, txn_id = taken(memory), new_id()
    client = AppClient(create_app(memory, None))
    write = {"tableId": table_id, "version": 1, "actions": [{"commitInfo": {}}]}
    client.post(f"/v1/transactions/{txn_id}/prepare", json=_prepare(writes=[write]))
    for _ in range(2):
        client.post(f"/v1/transactions/{txn_id}/finish", json={"timestampMs": 7})
    client.post(f"/v1/transactions/{new_id()}/prepare", json=_prepare(writes=[write]))
    lines = client.get("/metrics").text.splitlines()
    assert "slackwater_commits_total 1.0" in lines
    assert "slackwater_commit_conflicts_total 1.0" in lines
