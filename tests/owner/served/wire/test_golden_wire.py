"""Every request and every answer as it stands on the wire: clients and servers of any two versions understand them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, cast

import httpx
import orjson
import pytest

from slackwater.errors import SlackwaterError
from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.api.commits import (
    Commit,
    CommitConflict,
    CommitRequest,
    CommitResponse,
    GetCommitsResponse,
    ManagedTable,
    OwnershipProposal,
    TableState,
)
from slackwater.owner.api.timestamp_range import UNBOUNDED, TimestampRange
from slackwater.owner.api.transactions import (
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
from slackwater.owner.served.app import create_app
from tests.owner.served.scripted import Script
from tests.owner.served.serving import AppClient

TABLE = "11111111-2222-4333-8444-555555555555"
OTHER_TABLE = "11111111-2222-4333-8444-666666666666"
TXN = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"
OWNER = "5f0c7f65-8f8e-4e5c-9a63-6f1f1a9b3f10"
OTHER_OWNER = "5f0c7f65-8f8e-4e5c-9a63-6f1f1a9b3f11"
DAY = '["day","2026-11-21"]'
ACTIONS: list[Any] = [
    {"commitInfo": {"txnId": TXN, "operation": "näher"}},
    {"add": {"path": "f", "size": 2**62, "stats": None}},
]
ACTIONS_JSON = (
    f'[{{"commitInfo":{{"operation":"näher","txnId":"{TXN}"}}}},'
    '{"add":{"path":"f","size":4611686018427387904,"stats":null}}]'
)
COMMIT = CommitResponse(Commit(3, "3.a.json", 1_700_000_000_000, 12, None), 4)
COMMIT_JSON = (
    '{"commit":{"data":null,"fileName":"3.a.json","sizeBytes":12,"timestampMs":1700000000000,"version":3},'
    '"latestVersion":4}'
)
OWNED = ManagedTable(TABLE, "flights", "file:///lake/flights", TableState.RELEASING, 7, -1, 9, "the log is not whole")
OWNED_JSON = (
    '{"backfilledVersion":-1,"location":"file:///lake/flights","name":"flights","problem":"the log is not whole",'
    f'"ratifiedVersion":7,"state":"releasing","tableId":"{TABLE}","timestampMs":9}}'
)
REQUEST = CommitRequest(TABLE, TXN, 3, ACTIONS, may_move=True, is_replay=False)
REQUEST_JSON = f'{{"actions":{ACTIONS_JSON},"commitId":"{TXN}","isReplay":false,"mayMove":true,"version":3}}'
PROPOSAL = OwnershipProposal(TABLE, "flights", "file:///lake/flights", TXN, 4, ACTIONS, 1_600_000_000_000, -1)
TRANSACTION = TransactionRequest(
    TXN,
    TimestampRange(4, 9),
    [TableRead(TABLE, 3, [DAY, ""])],
    [TableWrite(TABLE, 4, ACTIONS, may_move=True), TableWrite(OTHER_TABLE, 0, ACTIONS)],
    has_locks=True,
    is_replay=True,
)
WORK_JSON = (
    '"hasLocks":true,"isReplay":true,"range":{"highMs":9,"lowMs":4},'
    f'"reads":[{{"granules":["[\\"day\\",\\"2026-11-21\\"]",""],"tableId":"{TABLE}","version":3}}]'
)
WRITES_JSON = (
    f'"writes":[{{"actions":{ACTIONS_JSON},"mayMove":true,"tableId":"{TABLE}","version":4}},'
    f'{{"actions":{ACTIONS_JSON},"mayMove":false,"tableId":"{OTHER_TABLE}","version":0}}]'
)
COUNTS = TransactionResponse(5, {TABLE: COMMIT, OTHER_TABLE: CommitResponse(Commit(0, "f", 5, 1), 0)})
COUNTS_JSON = (
    f'{{"commits":{{"{TABLE}":{COMMIT_JSON},"{OTHER_TABLE}":'
    '{"commit":{"data":null,"fileName":"f","sizeBytes":1,"timestampMs":5,"version":0},"latestVersion":0}},'
    '"timestampMs":5}'
)
LATEST_JSON = f'{{"latestVersions":{{"{TABLE}":7}}}}'
CUT = Cut(
    8,
    [
        TableVersion(TABLE, "flights", "file:///lake/flights", 3, 7, 1, is_released=True, change_version=2),
        TableVersion(OTHER_TABLE, "later", "file:///lake/later", None, None, 2, is_released=False),
    ],
)
CUT_JSON = (
    '{"tables":[{"changeVersion":2,"isReleased":true,"knownFrom":1,"location":"file:///lake/flights","name":"flights",'
    f'"tableId":"{TABLE}","timestampMs":7,"version":3}},'
    '{"changeVersion":null,"isReleased":false,"knownFrom":2,"location":"file:///lake/later","name":"later",'
    f'"tableId":"{OTHER_TABLE}","timestampMs":null,"version":null}}],"timestampMs":8}}'
)


@dataclass(frozen=True)
class Case:
    """A call: `asked` of the owner by the name of its method, as a request with `body`, and its answer."""

    call: Callable[[CommitOwner], Any]
    request: str
    asked: tuple[Any, ...]
    value: Any
    answer: str
    body: str | None = None
    status: int = 200
    may_be_missing: frozenset[str] = field(default=frozenset())
    """Keys that a server does without."""
    may_be_missing_in_answer: frozenset[str] = field(default=frozenset())
    """Keys that a client does without."""


_DATA = frozenset({"data"})
_REPLAY = frozenset({"mayMove", "isReplay"})
_WORK = frozenset({"granules", "mayMove", "reads", "writes", "hasLocks", "isReplay"})
CASES = {
    "who": Case(
        lambda o: o.owner_id,
        "GET /v1/owner",
        ("owner_id",),
        OWNER,
        f'{{"apiVersion":1,"ownerId":"{OWNER}"}}',
        may_be_missing_in_answer=frozenset({"apiVersion"}),
    ),
    "commit": Case(
        lambda o: o.commit(REQUEST),
        f"POST /v1/tables/{TABLE}/commits",
        ("commit", REQUEST),
        COMMIT,
        COMMIT_JSON,
        REQUEST_JSON,
        may_be_missing=_REPLAY,
        may_be_missing_in_answer=_DATA,
    ),
    "commit of a replay that lost": Case(
        lambda o: o.commit(replace(REQUEST, is_replay=True, may_move=False)),
        f"POST /v1/tables/{TABLE}/commits",
        ("commit", replace(REQUEST, is_replay=True, may_move=False)),
        CommitConflict(9),
        '{"latestVersion":9}',
        f'{{"actions":{ACTIONS_JSON},"commitId":"{TXN}","isReplay":true,"mayMove":false,"version":3}}',
        status=409,
        may_be_missing=_REPLAY,
    ),
    "release": Case(
        lambda o: o.release(REQUEST),
        f"POST /v1/tables/{TABLE}/release",
        ("release", REQUEST),
        COMMIT,
        COMMIT_JSON,
        REQUEST_JSON,
        may_be_missing=_REPLAY,
        may_be_missing_in_answer=_DATA,
    ),
    "commits": Case(
        lambda o: o.get_commits(TABLE, 3, 4, with_data=True),
        f"GET /v1/tables/{TABLE}/commits?startVersion=3&endVersion=4&withData=true",
        ("get_commits", TABLE, 3, 4, True),
        GetCommitsResponse([Commit(3, "a", 1, 2, "näher\n".encode()), Commit(4, "b", 2, 3)], 4),
        '{"commits":[{"data":"näher\\n","fileName":"a","sizeBytes":2,"timestampMs":1,"version":3},'
        '{"data":null,"fileName":"b","sizeBytes":3,"timestampMs":2,"version":4}],"latestVersion":4}',
        may_be_missing_in_answer=_DATA,
    ),
    "backfill": Case(
        lambda o: o.backfill_to_version(TABLE),
        f"POST /v1/tables/{TABLE}/backfill",
        ("backfill_to_version", TABLE, -1),
        5,
        '{"version":5}',
        '{"version":-1}',
        may_be_missing=frozenset({"version"}),
    ),
    "tables": Case(lambda o: o.tables(), "GET /v1/tables", ("tables",), [OWNED], f'{{"tables":[{OWNED_JSON}]}}'),
    "table": Case(lambda o: o.table("flights"), "GET /v1/tables/flights", ("table", "flights"), OWNED, OWNED_JSON),
    "take": Case(
        lambda o: o.take(PROPOSAL),
        "POST /v1/tables",
        ("take", PROPOSAL),
        COMMIT,
        COMMIT_JSON,
        f'{{"actions":{ACTIONS_JSON},"commitId":"{TXN}","location":"file:///lake/flights","name":"flights",'
        f'"previousTimestampMs":1600000000000,"rowIdMark":-1,"tableId":"{TABLE}","version":4}}',
        may_be_missing=frozenset({"previousTimestampMs", "rowIdMark"}),
        may_be_missing_in_answer=_DATA,
    ),
    "take a new table": Case(
        lambda o: o.take(replace(PROPOSAL, version=0, previous_timestamp_ms=None, row_id_mark=None)),
        "POST /v1/tables",
        ("take", replace(PROPOSAL, version=0, previous_timestamp_ms=None, row_id_mark=None)),
        CommitConflict(0),
        '{"latestVersion":0}',
        f'{{"actions":{ACTIONS_JSON},"commitId":"{TXN}","location":"file:///lake/flights","name":"flights",'
        f'"previousTimestampMs":null,"rowIdMark":null,"tableId":"{TABLE}","version":0}}',
        status=409,
        may_be_missing=frozenset({"previousTimestampMs", "rowIdMark"}),
    ),
    "repair": Case(
        lambda o: o.repair(TABLE),
        "POST /v1/repair",
        ("repair", TABLE),
        ["backfilled version 3"],
        '{"done":["backfilled version 3"]}',
        f'{{"tableId":"{TABLE}"}}',
        may_be_missing=frozenset({"tableId"}),
    ),
    "repair all": Case(
        lambda o: o.repair(),
        "POST /v1/repair",
        ("repair", None),
        [],
        '{"done":[]}',
        '{"tableId":null}',
        may_be_missing=frozenset({"tableId"}),
    ),
    "cut": Case(
        lambda o: o.cut(),
        "GET /v1/cut",
        ("cut",),
        CUT,
        CUT_JSON,
        may_be_missing_in_answer=frozenset({"isReleased", "changeVersion"}),
    ),
    "cut of the past": Case(
        lambda o: o.cut(8), "GET /v1/cut?timestampMs=8", ("cut", 8), Cut(8, []), '{"tables":[],"timestampMs":8}'
    ),
    "narrow": Case(
        lambda o: o.narrow(
            TimeRequest(TXN, TimestampRange(-1), "day", "Asia/Kathmandu", [Item(TABLE, DAY)], 7, [TABLE])
        ),
        f"POST /v1/transactions/{TXN}/time",
        ("narrow", TimeRequest(TXN, TimestampRange(-1), "day", "Asia/Kathmandu", [Item(TABLE, DAY)], 7, [TABLE])),
        TimestampRange(4, 9),
        '{"highMs":9,"lowMs":4}',
        f'{{"aheadMs":7,"holds":["{TABLE}"],"precision":"day","range":{{"highMs":null,"lowMs":-1}},'
        f'"writes":[{{"granule":"[\\"day\\",\\"2026-11-21\\"]","tableId":"{TABLE}"}}],"zone":"Asia/Kathmandu"}}',
        may_be_missing=frozenset({"precision", "zone", "writes", "aheadMs", "holds", "granule"}),
    ),
    "narrow to nothing": Case(
        lambda o: o.narrow(TimeRequest(TXN, TimestampRange(3, 8), writes=[], holds=[])),
        f"POST /v1/transactions/{TXN}/time",
        ("narrow", TimeRequest(TXN, TimestampRange(3, 8), writes=[], holds=[])),
        TimestampRange(4),
        '{"highMs":null,"lowMs":4}',
        '{"aheadMs":0,"holds":[],"precision":"millisecond","range":{"highMs":8,"lowMs":3},"writes":[],"zone":"UTC"}',
        may_be_missing=frozenset({"precision", "zone", "writes", "aheadMs", "holds"}),
    ),
    "lock": Case(
        lambda o: o.lock(LockRequest(TXN, 5, [Item(TABLE), Item(TABLE, DAY)], True, 0.0)),
        f"POST /v1/transactions/{TXN}/locks",
        ("lock", LockRequest(TXN, 5, [Item(TABLE), Item(TABLE, DAY)], True, 0.0)),
        None,
        "{}",
        f'{{"isExclusive":true,"items":[{{"granule":"","tableId":"{TABLE}"}},'
        f'{{"granule":"[\\"day\\",\\"2026-11-21\\"]","tableId":"{TABLE}"}}],"startedMs":5,"timeoutS":0.0}}',
        may_be_missing=frozenset({"granule"}),
    ),
    "keep alive": Case(
        lambda o: o.keep_alive(TXN), f"POST /v1/transactions/{TXN}/keep-alive", ("keep_alive", TXN), None, "{}"
    ),
    "end": Case(lambda o: o.end(TXN), f"DELETE /v1/transactions/{TXN}", ("end", TXN), None, "{}"),
    "transaction": Case(
        lambda o: o.commit_transaction(TRANSACTION),
        "POST /v1/transactions",
        ("commit_transaction", TRANSACTION),
        COUNTS,
        COUNTS_JSON,
        f'{{{WORK_JSON},"txnId":"{TXN}",{WRITES_JSON}}}',
        may_be_missing=_WORK,
        may_be_missing_in_answer=_DATA,
    ),
    "transaction that lost": Case(
        lambda o: o.commit_transaction(TransactionRequest(TXN, TimestampRange(4), [], [])),
        "POST /v1/transactions",
        ("commit_transaction", TransactionRequest(TXN, TimestampRange(4), [], [])),
        TransactionConflict({TABLE: 7}),
        LATEST_JSON,
        '{"hasLocks":false,"isReplay":false,"range":{"highMs":null,"lowMs":4},"reads":[],'
        f'"txnId":"{TXN}","writes":[]}}',
        status=409,
        may_be_missing=_WORK,
    ),
    "prepare": Case(
        lambda o: o.prepare(TRANSACTION, OTHER_OWNER),
        f"POST /v1/transactions/{TXN}/prepare",
        ("prepare", TRANSACTION, OTHER_OWNER),
        Vote(TimestampRange(4, UNBOUNDED), 9),
        '{"nowMs":9,"range":{"highMs":null,"lowMs":4}}',
        f'{{"coordinatorId":"{OTHER_OWNER}",{WORK_JSON},{WRITES_JSON}}}',
        may_be_missing=_WORK,
    ),
    "prepare what lost": Case(
        lambda o: o.prepare(TRANSACTION, OTHER_OWNER),
        f"POST /v1/transactions/{TXN}/prepare",
        ("prepare", TRANSACTION, OTHER_OWNER),
        TransactionConflict({TABLE: 7}),
        LATEST_JSON,
        f'{{"coordinatorId":"{OTHER_OWNER}",{WORK_JSON},{WRITES_JSON}}}',
        status=409,
        may_be_missing=_WORK,
    ),
    "decide": Case(
        lambda o: o.decide(TXN, 5, [OWNER, OTHER_OWNER]),
        f"POST /v1/transactions/{TXN}/decision",
        ("decide", TXN, 5, [OWNER, OTHER_OWNER]),
        5,
        '{"timestampMs":5}',
        f'{{"participants":["{OWNER}","{OTHER_OWNER}"],"timestampMs":5}}',
    ),
    "decide not to": Case(
        lambda o: o.decide(TXN, None, []),
        f"POST /v1/transactions/{TXN}/decision",
        ("decide", TXN, None, []),
        None,
        '{"timestampMs":null}',
        '{"participants":[],"timestampMs":null}',
    ),
    "decision": Case(
        lambda o: o.decision(TXN),
        f"POST /v1/transactions/{TXN}/decision/ask",
        ("decision", TXN),
        5,
        '{"timestampMs":5}',
    ),
    "finish": Case(
        lambda o: o.finish(TXN, 5),
        f"POST /v1/transactions/{TXN}/finish",
        ("finish", TXN, 5),
        COUNTS,
        f'{{"transaction":{COUNTS_JSON}}}',
        '{"timestampMs":5}',
        may_be_missing_in_answer=_DATA,
    ),
    "finish nothing": Case(
        lambda o: o.finish(TXN, None),
        f"POST /v1/transactions/{TXN}/finish",
        ("finish", TXN, None),
        None,
        '{"transaction":null}',
        '{"timestampMs":null}',
    ),
    "acknowledge": Case(
        lambda o: o.acknowledge(TXN, OWNER),
        f"POST /v1/transactions/{TXN}/acknowledge",
        ("acknowledge", TXN, OWNER),
        None,
        "{}",
        f'{{"participantId":"{OWNER}"}}',
    ),
    "in doubt": Case(
        lambda o: o.in_doubt(),
        "GET /v1/in-doubt",
        ("in_doubt",),
        [InDoubt(TXN, OTHER_OWNER, 9)],
        f'{{"transactions":[{{"coordinatorId":"{OTHER_OWNER}","txnId":"{TXN}","votedMs":9}}]}}',
    ),
}
WITH_BODY = [name for name, case in CASES.items() if case.body is not None]


class Answering:
    """An owner that writes down what it is asked, and answers `value` to everything."""

    def __init__(self) -> None:
        self.value: Any = None
        self.asked: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        def answer(*args: Any) -> Any:
            self.asked.append((name, *args))
            return self.value

        return answer() if name == "owner_id" else answer


@functools.cache
def _server() -> tuple[Answering, AppClient]:
    owner = Answering()
    return owner, AppClient(create_app(cast(CommitOwner, owner), None))


def served(case: Case, body: str | None) -> tuple[list[tuple[Any, ...]], httpx.Response]:
    """What the owner is asked when `body` is sent, and the answer."""
    owner, client = _server()
    owner.value, owner.asked = case.value, []
    method, path = case.request.split(" ")
    content = None if body is None else body.encode()
    answer = client.request(method, path, content=content, headers={"Content-Type": "application/json"})
    return owner.asked, answer


def in_order(text: bytes) -> str:
    """The JSON `text` with its keys in alphabetical order."""
    return orjson.dumps(orjson.loads(text), option=orjson.OPT_SORT_KEYS).decode()


def read_by_the_client(case: Case, answer: str) -> Any:
    return case.call(Script(httpx.Response(case.status, content=answer.encode())).owner)


def objects(value: Any, key: str = "") -> Iterator[dict[str, Any]]:
    """The objects in `value` that have fields: neither actions, nor what is under ids."""
    if isinstance(value, dict):
        if not value.keys() & {TABLE, OTHER_TABLE}:
            yield value
        for below, item in value.items():
            yield from objects(item, below)
    elif isinstance(value, list) and key != "actions":
        for item in value:
            yield from objects(item)


@pytest.mark.parametrize("name", CASES)
def test_the_client_sends_and_understands_just_this(name: str) -> None:
    case = CASES[name]
    script = Script(httpx.Response(case.status, content=case.answer.encode()))
    assert case.call(script.owner) == case.value
    (sent,) = script.seen
    assert f"{sent.method} {sent.url.raw_path.decode().removeprefix('/lake')}" == case.request
    assert (in_order(sent.content) if sent.content else None) == case.body


@pytest.mark.parametrize("name", CASES)
def test_the_server_understands_and_answers_just_this(name: str) -> None:
    case = CASES[name]
    asked, answer = served(case, case.body)
    assert asked == [case.asked]
    assert (answer.status_code, in_order(answer.content)) == (case.status, case.answer)


@pytest.mark.parametrize("name", CASES)
def test_the_client_reads_over_what_a_newer_server_adds(name: str) -> None:
    case = CASES[name]
    found = orjson.loads(case.answer)
    for each in list(objects(found)):
        each["aNewKey"] = {"x": 1}
    assert read_by_the_client(case, orjson.dumps(found).decode()) == case.value


@pytest.mark.parametrize("name", CASES)
def test_the_client_does_without_few_keys(name: str) -> None:
    case = CASES[name]
    for number, each in enumerate(objects(orjson.loads(case.answer))):
        for key in each:
            found = orjson.loads(case.answer)
            del list(objects(found))[number][key]
            try:
                read_by_the_client(case, orjson.dumps(found).decode())
            except SlackwaterError:
                assert key not in case.may_be_missing_in_answer
            else:
                assert key in case.may_be_missing_in_answer


@pytest.mark.parametrize("name", WITH_BODY)
def test_the_server_refuses_keys_that_it_does_not_know(name: str) -> None:
    case = CASES[name]
    for number, _ in enumerate(objects(orjson.loads(case.body or ""))):
        found = orjson.loads(case.body or "")
        list(objects(found))[number]["aNewKey"] = None
        asked, answer = served(case, orjson.dumps(found).decode())
        assert (answer.status_code, asked) == (422, [])
        assert "aNewKey: Extra inputs are not permitted" in answer.json()["message"]


@pytest.mark.parametrize("name", WITH_BODY)
def test_the_server_does_without_keys_that_have_a_default(name: str) -> None:
    case = CASES[name]
    for number, each in enumerate(objects(orjson.loads(case.body or ""))):
        for key in each:
            found = orjson.loads(case.body or "")
            del list(objects(found))[number][key]
            asked, answer = served(case, orjson.dumps(found).decode())
            assert (answer.status_code, len(asked)) == ((case.status, 1) if key in case.may_be_missing else (422, 0)), (
                key
            )


@pytest.mark.parametrize("name", ["commit", "narrow", "lock", "prepare"])
@pytest.mark.parametrize("key", ["tableId", "txnId"])
def test_an_id_that_stands_in_the_path_does_not_stand_in_the_body(name: str, key: str) -> None:
    case = CASES[name]
    found = {**orjson.loads(case.body or ""), key: TXN}
    asked, answer = served(case, orjson.dumps(found).decode())
    assert (answer.status_code, asked) == (422, [])
    assert answer.json()["message"] == f"the request cannot be understood: body.{key}: Extra inputs are not permitted"


def test_an_id_in_the_path_that_is_none_is_said_to_be_there() -> None:
    case = replace(CASES["commit"], request="POST /v1/tables/x/commits")
    asked, answer = served(case, case.body)
    assert (answer.status_code, asked) == (422, [])
    assert "path.table_id: String should match pattern" in answer.json()["message"]
