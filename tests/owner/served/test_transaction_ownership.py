"""Transactions of a served owner are bound to the token that opened them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from slackwater.errors import CommitUnknown, NotAuthorized
from slackwater.lake.two_phase_commit import commit_joined, resolve
from slackwater.owner.api.timestamp_range import TimestampRange
from slackwater.owner.api.transactions import Item, LockRequest, TimeRequest, TransactionRequest, TransactionResponse
from slackwater.owner.database.database import Database
from slackwater.owner.database.schema import openers as openers_table
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.served.access.permissions import Principal, Scope
from slackwater.owner.served.app import create_app
from slackwater.owner.served.client.http_owner import HttpOwner
from slackwater.owner.served.tokens import Tokens
from slackwater.owner.served.transaction_ownership import KEPT_MS, TransactionCall, TransactionOwners
from slackwater.owner.state.clock import OwnerClock
from tests.contract.owners import OwnedLake, Table, created, new_id, new_lake
from tests.contract.transactions import Txn
from tests.owner.served.memory_owner import MemoryOwner
from tests.owner.served.serving import AppClient, served

RANGE = {"lowMs": 5, "highMs": None}
LOCK = {"startedMs": 5, "items": [], "isExclusive": True, "timeoutS": 0}
WORK: list[tuple[str, str, Any]] = [
    ("POST", "/{txn}/time", {"range": RANGE}),
    ("POST", "/{txn}/locks", LOCK),
    ("POST", "/{txn}/keep-alive", None),
    ("POST", "", {"txnId": "{txn}", "range": RANGE}),
    ("POST", "/{txn}/prepare", {"range": RANGE, "coordinatorId": new_id()}),
    ("POST", "/{txn}/decision", {"timestampMs": 9, "participants": [new_id()]}),
]
END: list[tuple[str, str, Any]] = [
    ("DELETE", "/{txn}", None),
    ("POST", "/{txn}/decision/ask", None),
    ("POST", "/{txn}/finish", {"timestampMs": 9}),
    ("POST", "/{txn}/acknowledge", {"participantId": new_id()}),
]
ADMIN = Principal("root", frozenset({Scope.ADMIN}))


@dataclass
class Served:
    """A served owner that remembers what reached it, and tokens by their names."""

    database: Database
    owner: MemoryOwner = field(default_factory=MemoryOwner)
    secrets: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tokens = Tokens(self.database)
        self.restart()

    def restart(self) -> None:
        self.app = create_app(self.owner, self.tokens)

    def ask(self, name: str, txn_id: str, method: str, path: str, body: Any) -> httpx.Response:
        """What the token of that name, which is made where there is none, is answered."""
        if name not in self.secrets:
            self.secrets[name] = self.tokens.create(name, [Scope.ADMIN if name == "root" else Scope.COMMIT])
        body = {**body, "txnId": txn_id} if body and "txnId" in body else body
        headers = {"Authorization": f"Bearer {self.secrets[name]}"}
        return AppClient(self.app, headers).request(method, f"/v1/transactions{path.format(txn=txn_id)}", json=body)

    @property
    def reached(self) -> list[Any]:
        found = self.owner
        return [
            *found.time_requests, *found.lock_requests, *found.transactions, *found.alive, *found.ended,
            *found.promised, *found.acknowledged, *found.decisions,
        ]  # fmt: skip


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('tokens')}/owner.db")
    yield Served(database)
    database.close()


def _is_refused(serving: Served, txn_id: str, step: tuple[str, str, Any]) -> None:
    before = serving.reached
    refused = serving.ask("mallory", txn_id, *step)
    assert (refused.status_code, refused.json()["error"]) == (403, "NotAuthorized"), refused.text
    assert txn_id in refused.json()["message"]
    assert "mallory" in refused.json()["message"]
    assert "alice" not in refused.json()["message"]
    assert serving.reached == before


@pytest.mark.parametrize("step", [*WORK, *END], ids=lambda step: " ".join(step[:2]))
def test_nothing_is_done_with_a_transaction_of_another_token(serving: Served, step: tuple[str, str, Any]) -> None:
    txn_id = new_id()
    assert serving.ask("alice", txn_id, *WORK[0]).status_code == 200
    _is_refused(serving, txn_id, step)
    assert serving.ask("alice", txn_id, *step).status_code == 200


@pytest.mark.parametrize("opening", WORK, ids=lambda step: " ".join(step[:2]))
def test_whatever_comes_first_opens_it(serving: Served, opening: tuple[str, str, Any]) -> None:
    txn_id = new_id()
    assert serving.ask("alice", txn_id, *opening).status_code == 200
    _is_refused(serving, txn_id, END[0])


def test_another_server_and_one_that_was_started_again_know_who_opened_it(serving: Served) -> None:
    txn_id = new_id()
    assert serving.ask("alice", txn_id, *WORK[1]).status_code == 200
    serving.restart()
    _is_refused(serving, txn_id, WORK[3])
    assert serving.ask("alice", txn_id, *WORK[3]).status_code == 200


@pytest.mark.parametrize("step", END, ids=lambda step: " ".join(step[:2]))
def test_an_admin_token_brings_a_transaction_of_another_one_to_an_end(
    serving: Served, step: tuple[str, str, Any]
) -> None:
    txn_id = new_id()
    serving.ask("alice", txn_id, *WORK[0])
    assert serving.ask("root", txn_id, *step).status_code == 200
    # And has not taken it over.
    assert serving.ask("alice", txn_id, *WORK[0]).status_code == 200


@pytest.mark.parametrize("step", WORK, ids=lambda step: " ".join(step[:2]))
def test_nor_does_an_admin_token_go_on_with_it(serving: Served, step: tuple[str, str, Any]) -> None:
    txn_id = new_id()
    serving.ask("alice", txn_id, *WORK[0])
    assert serving.ask("root", txn_id, *step).status_code == 403


def test_a_token_that_was_made_anew_under_its_name_goes_on(serving: Served) -> None:
    txn_id = new_id()
    serving.ask("alice", txn_id, *WORK[1])
    serving.tokens.revoke("alice")
    del serving.secrets["alice"]
    assert serving.ask("alice", txn_id, *WORK[3]).status_code == 200


def test_what_is_not_known_is_ended_by_anybody_and_given_up_by_an_admin_token_alone(serving: Served) -> None:
    # Who could not open it tidies up all the same.
    assert serving.ask("alice", new_id(), *END[0]).status_code == 200
    assert serving.ask("alice", new_id(), *END[2]).status_code == 200
    txn_id = new_id()
    assert serving.ask("alice", txn_id, *END[1]).status_code == 403
    assert txn_id not in serving.owner.decisions
    assert serving.ask("root", txn_id, *END[1]).status_code == 200


def test_without_tokens_nobody_is_remembered(serving: Served) -> None:
    txn_id = new_id()
    client = AppClient(create_app(serving.owner, None))
    assert client.post(f"/v1/transactions/{txn_id}/time", json={"range": RANGE}).status_code == 200
    assert client.request("DELETE", f"/v1/transactions/{txn_id}").status_code == 200
    assert txn_id not in _remembered(serving.database)


@dataclass
class Owned:
    """A lake whose owner is served to tokens, on one of the databases."""

    lake: OwnedLake
    embedded: EmbeddedOwner
    tokens: Tokens
    url: str
    clients: list[HttpOwner] = field(default_factory=list)

    def client(self, name: str, scope: Scope = Scope.COMMIT) -> HttpOwner:
        self.clients.append(HttpOwner(self.url, self.tokens.create(name, [scope])))
        return self.clients[-1]

    def table(self) -> Table:
        return created(self.lake, self.embedded)


def _owned(root: Path, combination: str) -> Iterator[Owned]:
    root.mkdir()
    lake = new_lake(root, combination)
    embedded = lake.embedded()
    tokens = Tokens(embedded.database)
    with served(embedded, tokens) as url:
        found = Owned(lake, embedded, tokens, url)
        yield found
        for client in found.clients:
            client.close()
    lake.close()


@pytest.fixture(params=["sqlite-http", "postgres-http"])
def owned(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Owned]:
    yield from _owned(tmp_path / "first", request.param)


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Owned]:
    yield from _owned(tmp_path / "second", "sqlite-http")


def test_locks_of_another_token_stay(owned: Owned) -> None:
    table, alice, mallory = owned.table(), owned.client("alice"), owned.client("mallory")
    txn_id = new_id()
    alice.lock(LockRequest(txn_id, 1, [Item(table.table_id)], True, 0))
    with pytest.raises(NotAuthorized, match=txn_id):
        mallory.end(txn_id)
    with pytest.raises(NotAuthorized, match=txn_id):
        mallory.commit_transaction(TransactionRequest(txn_id, TimestampRange(0), has_locks=True))
    alice.keep_alive(txn_id)


def test_what_was_opened_without_a_token_is_of_no_token(owned: Owned) -> None:
    table, mallory, root = owned.table(), owned.client("mallory"), owned.client("root", Scope.ADMIN)
    locked, told, voted = new_id(), new_id(), Txn(owned.embedded).write(table).request()
    owned.embedded.lock(LockRequest(locked, 1, [Item(table.table_id)], False, 0))
    owned.embedded.narrow(TimeRequest(told, TimestampRange(0)))
    owned.embedded.end(locked)
    owned.embedded.prepare(voted, owned.embedded.owner_id)
    for txn_id in (told, voted.txn_id):
        with pytest.raises(NotAuthorized, match="without a token"):
            mallory.end(txn_id)
        with pytest.raises(NotAuthorized, match="without a token"):
            mallory.finish(txn_id, None)
    assert [doubt.txn_id for doubt in root.in_doubt()] == [voted.txn_id]
    assert root.finish(voted.txn_id, None) is None
    assert root.in_doubt() == []


def test_owners_vote_for_whom_each_has_another_token(owned: Owned, other: Owned) -> None:
    first, second = owned.client("alice"), other.client("loader")
    pairs, txn_id = [(owned.table(), first), (other.table(), second)], new_id()
    parts = {client.owner_id: Txn(client, txn_id).write(table).request() for table, client in pairs}
    answer = commit_joined(parts, {first.owner_id: first, second.owner_id: second}, second)
    assert isinstance(answer, TransactionResponse)
    assert set(answer.commits) == {table.table_id for table, _ in pairs}


def test_what_a_client_left_in_doubt_an_admin_token_settles_and_no_other(owned: Owned, other: Owned) -> None:
    table = owned.table()
    alice, coordinator = owned.client("alice"), other.client("alice")
    request = Txn(alice).write(table).request()
    alice.prepare(request, coordinator.owner_id)
    admin, weak = owned.client("root", Scope.ADMIN), other.client("weak")
    told = resolve([admin, weak])
    assert f"transaction {request.txn_id} is still in doubt" in told[0]
    assert len(admin.in_doubt()) == 1
    assert "was aborted" in resolve([admin, other.client("root", Scope.ADMIN)])[0]
    assert admin.in_doubt() == []


def test_a_replay_under_another_token_says_that_nobody_knows(owned: Owned) -> None:
    table, alice, mallory = owned.table(), owned.client("alice"), owned.client("mallory")
    request = Txn(alice).write(table).request()
    answer = alice.commit_transaction(request)
    assert isinstance(answer, TransactionResponse)
    again = TransactionRequest(request.txn_id, request.range, request.reads, request.writes, is_replay=True)
    with pytest.raises(CommitUnknown, match="cannot use transaction"):
        mallory.commit_transaction(again)
    assert alice.commit_transaction(again).timestamp_ms == answer.timestamp_ms  # type: ignore[union-attr]


def test_who_opened_what_goes_on_is_kept_and_of_the_rest_for_a_while(owned: Owned) -> None:
    table, other_table, database = owned.table(), owned.table(), owned.embedded.database
    now_ms = 1_700_000_000_000
    openers = TransactionOwners(database, OwnerClock(now_ms=lambda: now_ms))
    granted = Principal("alice", frozenset({Scope.COMMIT}))
    idle, locked, voted = new_id(), new_id(), Txn(owned.embedded).write(other_table).request()
    for txn_id in (idle, locked, voted.txn_id):
        openers.require(granted, txn_id, TransactionCall.WORK)
    owned.embedded.lock(LockRequest(locked, 1, [Item(table.table_id)], True, 0))
    owned.embedded.prepare(voted, new_id())
    now_ms += KEPT_MS
    openers.require(granted, later := new_id(), TransactionCall.WORK)
    assert _remembered(database) == {idle, locked, voted.txn_id, later}
    now_ms += KEPT_MS // 2
    openers.require(granted, last := new_id(), TransactionCall.WORK)
    assert _remembered(database) == {locked, voted.txn_id, later, last}


def test_of_two_that_come_together_one_has_opened_it(owned: Owned) -> None:
    # Two servers of one owner, neither of which knows what the other has in mind.
    servers = [TransactionOwners(owned.embedded.database), TransactionOwners(owned.embedded.database)]
    txn_id, found = new_id(), []
    for name, openers in zip(("alice", "mallory"), servers, strict=True):
        try:
            openers.require(Principal(name, frozenset({Scope.COMMIT})), txn_id, TransactionCall.WORK)
            found.append(name)
        except NotAuthorized:
            pass
    assert found == ["alice"]
    servers[1].require(ADMIN, txn_id, TransactionCall.END)


def _remembered(database: Database) -> set[str]:
    return set(database.read(lambda c: c.execute(sa.select(openers_table.c.txn_id)).scalars().all()))
