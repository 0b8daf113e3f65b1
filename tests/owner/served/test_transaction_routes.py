"""Transactions over a real server and client, and what the server refuses before it asks its owner."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from slackwater.errors import InvalidArgument, LockTimeout, TableNotFound, TimestampConflict, TimestampOutOfRange
from slackwater.owner.api.commits import CommitConflict
from slackwater.owner.api.timestamp_range import UNBOUNDED, TimestampRange
from slackwater.owner.api.transactions import (
    WHOLE,
    Item,
    LockRequest,
    TableRead,
    TableWrite,
    TimeRequest,
    TransactionConflict,
    TransactionRequest,
    TransactionResponse,
)
from slackwater.owner.served.app import create_app
from slackwater.owner.served.client.http_owner import HttpOwner
from tests.owner.served.memory_owner import NOW_MS, MemoryOwner
from tests.owner.served.serving import AppClient, commit_request, id_of_a_test, new_id, served, taken

DAY = '["day","2026-11-21"]'
LATER_MS = 253_402_128_000_001
"""Just too late to be a timestamp."""


@pytest.fixture
def memory() -> MemoryOwner:
    return MemoryOwner()


@pytest.fixture
def owner(memory: MemoryOwner) -> Iterator[HttpOwner]:
    with served(memory) as url:
        client = HttpOwner(url)
        yield client
        client.close()


def _write(table_id: str, version: int = 1) -> TableWrite:
    return TableWrite(table_id, version, [{"commitInfo": {}}, {"add": {"path": f"f{version}"}}])


def test_a_transaction_commits_to_its_tables_and_counts_once(owner: HttpOwner, memory: MemoryOwner) -> None:
    orders, stock = taken(owner, "orders"), taken(owner, "stock")
    request = TransactionRequest(new_id(), TimestampRange(5), writes=[_write(orders), _write(stock)])
    answer = owner.commit_transaction(request)
    assert isinstance(answer, TransactionResponse)
    assert answer == owner.commit_transaction(request) == memory.commit_transaction(request)
    assert answer.timestamp_ms == NOW_MS
    assert {table_id: found.commit.version for table_id, found in answer.commits.items()} == {orders: 1, stock: 1}
    other = TransactionRequest(new_id(), TimestampRange(5), writes=[_write(orders), _write(stock, 2)])
    assert owner.commit_transaction(other) == TransactionConflict({orders: 1})
    assert owner.commit(commit_request(stock, 1)) == CommitConflict(1)


def test_what_was_sent_is_what_the_owner_gets(owner: HttpOwner, memory: MemoryOwner) -> None:
    table_id, txn_id = taken(owner), new_id()
    items = [Item(table_id), Item(table_id, DAY)]
    asked = TimeRequest(txn_id, TimestampRange(-1), "day", "Europe/Copenhagen", items, 60_000, [table_id])
    locks = [LockRequest(txn_id, 7, items, is_exclusive, 0.0) for is_exclusive in (False, True)]
    reads = [TableRead(table_id, 0, [WHOLE]), TableRead(table_id, 3, [DAY, "x" * 512])]
    writes = [TableWrite(table_id, 1, [{"commitInfo": {}}], may_move=True)]
    transactions = [
        TransactionRequest(txn_id, TimestampRange(5, high_ms), reads, writes, is_replay)
        for is_replay in (False, True)
        for high_ms in (6, UNBOUNDED)
    ]
    narrowed = owner.narrow(asked)
    assert narrowed == memory.narrow(asked)
    for lock in locks:
        owner.lock(lock)
    owner.keep_alive(txn_id)
    for transaction in transactions:
        owner.commit_transaction(transaction)
    owner.end(txn_id)
    assert memory.time_requests == [asked, asked]
    assert memory.lock_requests == locks
    assert memory.transactions == transactions
    assert (memory.alive, memory.ended) == ([txn_id], [txn_id])


def test_a_cut_answers_as_the_owner_itself_does(owner: HttpOwner, memory: MemoryOwner) -> None:
    table_id = taken(owner)
    owner.commit(commit_request(table_id, 1))
    before_ms, after_ms = 0, NOW_MS - 1
    for timestamp_ms in (None, before_ms, after_ms):
        assert owner.cut(timestamp_ms) == memory.cut(timestamp_ms)
    assert owner.cut(before_ms).tables[0].version is None
    assert owner.cut(after_ms).tables[0].version == 1
    with pytest.raises(TimestampOutOfRange, match="is in the future"):
        owner.cut(NOW_MS + 1)


def test_errors_arrive_as_the_owner_raised_them(owner: HttpOwner) -> None:
    table_id, first, second = taken(owner), new_id(), new_id()
    owner.lock(LockRequest(first, 5, [Item(table_id)], True, 0))
    with pytest.raises(LockTimeout, match=f"transaction {first} holds"):
        owner.lock(LockRequest(second, 6, [Item(table_id)], True, 0.01))
    owner.end(first)
    owner.lock(LockRequest(second, 6, [Item(table_id)], True, 0))
    with pytest.raises(TimestampConflict):
        owner.narrow(TimeRequest(second, TimestampRange(NOW_MS), "millisecond"))
    with pytest.raises(InvalidArgument, match="unknown time zone 'Nowhere'"):
        owner.narrow(TimeRequest(second, TimestampRange(5), "day", "Nowhere"))
    with pytest.raises(InvalidArgument, match="precision"):
        owner.narrow(TimeRequest(second, TimestampRange(5), "fortnight"))
    with pytest.raises(TableNotFound):
        owner.commit_transaction(TransactionRequest(second, TimestampRange(5), writes=[_write(new_id())]))


def test_ten_thousand_items_pass_and_one_more_is_refused(owner: HttpOwner, memory: MemoryOwner) -> None:
    table_id = taken(owner)
    items = [Item(table_id, f"g{number}") for number in range(10_000)]
    owner.lock(LockRequest(new_id(), 5, items, False, 0))
    with pytest.raises(InvalidArgument, match="at most 10000 items"):
        owner.lock(LockRequest(new_id(), 5, [*items, Item(table_id)], False, 0))
    assert len(memory.lock_requests) == 1


def _time(**changes: Any) -> dict[str, Any]:
    return {"range": {"lowMs": 5, "highMs": None}, **changes}


def _locks(**changes: Any) -> dict[str, Any]:
    return {"startedMs": 5, "items": [], "isExclusive": True, "timeoutS": 0, **changes}


def _transaction(**changes: Any) -> dict[str, Any]:
    return {"txnId": new_id(), **_time(), **changes}


READ = {"tableId": new_id(), "version": 3, "granules": [WHOLE]}
WRITE = {"tableId": new_id(), "version": 3, "actions": [{"commitInfo": {}}]}
BAD_TRANSACTIONS = [
    _transaction(txnId="x"),
    _transaction(range={"lowMs": 5}),
    _transaction(range={"lowMs": None, "highMs": None}),
    _transaction(range={"lowMs": LATER_MS, "highMs": None}),
    _transaction(range={"lowMs": -2, "highMs": None}),
    _transaction(range={"lowMs": 5, "highMs": 5.5}),
    _transaction(reads=[READ | {"version": -1}]),
    _transaction(reads=[READ | {"granules": ["x" * 513]}]),
    _transaction(reads=[READ | {"granules": ["a\x00"]}]),
    _transaction(reads=[READ | {"granules": [None]}]),
    _transaction(reads=[READ | {"tableId": "x"}]),
    _transaction(reads=[READ] * 10_001),
    _transaction(writes=[WRITE | {"actions": []}]),
    _transaction(writes=[WRITE | {"actions": [{"add": {"size": 2**63}}]}]),
    _transaction(writes=[WRITE | {"mayMove": 1}]),
    _transaction(writes=[WRITE | {"commitId": new_id()}]),
    _transaction(isReplay="true"),
    _transaction(writes=None),
]
BAD_TIMES = [
    {},
    _time(precision="microsecond"),
    _time(zone=""),
    _time(zone="x" * 256),
    _time(zone="a\n"),
    _time(aheadMs=-1),
    _time(aheadMs=60_001),
    _time(aheadMs=1.5),
    _time(holds=["x"]),
    _time(holds=[new_id()] * 10_001),
    _time(writes=[{"granule": ""}]),
    _time(txnId=new_id()),
    _time(startedMs=5),
]
BAD_LOCKS = [
    _locks(timeoutS=-0.1),
    _locks(timeoutS=3600.5),
    _locks(timeoutS=None),
    _locks(timeoutS="1"),
    _locks(timeoutS=True),
    _locks(isExclusive=None),
    _locks(startedMs=-1),
    _locks(startedMs=LATER_MS),
    _locks(items=[{"tableId": "x"}]),
]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        *(("/v1/transactions", body) for body in BAD_TRANSACTIONS),
        *((f"/v1/transactions/{new_id()}/time", body) for body in BAD_TIMES),
        *((f"/v1/transactions/{new_id()}/locks", body) for body in BAD_LOCKS),
        ("/v1/transactions/x/time", _time()),
        ("/v1/transactions/x/locks", _locks()),
        ("/v1/transactions/x/keep-alive", None),
    ],
    ids=id_of_a_test,
)
def test_what_is_no_request_never_reaches_the_owner(path: str, body: Any) -> None:
    memory = MemoryOwner()
    answer = AppClient(create_app(memory, None)).post(path, json=body)
    assert (answer.status_code, answer.json()["error"]) == (422, "InvalidArgument"), answer.text
    assert (memory.transactions, memory.time_requests, memory.lock_requests, memory.alive) == ([], [], [], [])


@pytest.mark.parametrize("value", [b"NaN", b"1e999", b"Infinity"])
def test_a_timeout_that_is_no_number_is_refused(value: bytes) -> None:
    content = b'{"startedMs":5,"items":[],"isExclusive":true,"timeoutS":%b}' % value
    path = f"/v1/transactions/{new_id()}/locks"
    answer = AppClient(create_app(MemoryOwner(), None)).post(
        path, content=content, headers={"Content-Type": "application/json"}
    )
    assert (answer.status_code, answer.json()["error"]) == (422, "InvalidArgument")


@pytest.mark.parametrize(
    "query",
    ["timestampMs=-1", "timestampMs=", "timestampMs=x", "timestampMs=1.5", "at=1", "timestampMs=1&timestampMs=1"],
)
def test_an_instant_that_is_none_is_refused(query: str) -> None:
    answer = AppClient(create_app(MemoryOwner(), None)).get(f"/v1/cut?{query}")
    assert (answer.status_code, answer.json()["error"]) == (422, "InvalidArgument")


@pytest.mark.parametrize("asked_s", [11, 3600])
def test_one_request_does_not_wait_for_a_lock_as_long_as_anybody_may_like(asked_s: float) -> None:
    waited: list[float] = []

    class Held(MemoryOwner):
        def lock(self, request: LockRequest) -> None:
            waited.append(request.timeout_s)
            raise LockTimeout("held")

    answer = AppClient(create_app(Held(), None)).post(
        f"/v1/transactions/{new_id()}/locks", json=_locks(timeoutS=asked_s)
    )
    assert (answer.status_code, answer.json()["error"]) == (409, "LockTimeout")
    assert waited == [10]


@pytest.mark.parametrize("failure", [RuntimeError("password=hunter2"), KeyError("x")])
def test_a_failure_while_committing_a_transaction_is_an_unknown_outcome(failure: Exception) -> None:
    def fail() -> None:
        raise failure

    answer = AppClient(create_app(MemoryOwner(fail), None)).post("/v1/transactions", json=_transaction())
    assert (answer.status_code, answer.json()["error"]) == (504, "CommitUnknown")
    assert "hunter2" not in answer.text


def test_metrics_count_transactions_as_commits_under_routes_without_ids() -> None:
    memory = MemoryOwner()
    table_id = taken(memory)
    client = AppClient(create_app(memory, None))
    commit: Callable[[], Any] = lambda: client.post(  # noqa: E731
        "/v1/transactions", json=_transaction(writes=[WRITE | {"tableId": table_id, "version": 1}])
    )
    assert [commit().status_code, commit().status_code] == [200, 409]
    for _ in range(3):
        client.request("DELETE", f"/v1/transactions/{new_id()}")
        client.post(f"/v1/transactions/{new_id()}/keep-alive")
    lines = client.get("/metrics").text.splitlines()
    assert "slackwater_commits_total 1.0" in lines
    assert "slackwater_commit_conflicts_total 1.0" in lines
    route = 'route="/v1/transactions/{txn_id}"'
    assert f'slackwater_requests_total{{method="DELETE",{route},status="200"}} 3.0' in lines
    assert f'slackwater_requests_total{{method="POST",{route[:-1]}/keep-alive",status="200"}} 3.0' in lines
