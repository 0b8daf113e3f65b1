"""Grants on every route: the table below has one decision for each route of the application."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from slackwater.owner.api.transactions import Item, LockRequest
from slackwater.owner.database.database import Database
from slackwater.owner.served.access.permissions import Scope
from slackwater.owner.served.app import create_app
from slackwater.owner.served.settings import ServedSettings
from slackwater.owner.served.tokens import Tokens
from tests.owner.served.memory_owner import MemoryOwner
from tests.owner.served.serving import AppClient, new_id, proposal, taken

VISIBLE, HIDDEN, UNKNOWN = "sales.orders", "hr.people", "hr.nobody"
RANGE = {"lowMs": 5, "highMs": None}
UNITY = "/api/2.1/unity-catalog"
BY_NAME = f"{UNITY}/delta/v1/catalogs/{{catalog}}/schemas/{{schema}}/tables/{{table}}"
PREVIEW = f"{UNITY}/delta/preview/commits"
ORDER = list(Scope)
# Not a new id, because processes that share the tests must collect the same ones.
_ANY = "00000000-0000-4000-8000-000000000001"


@dataclass(frozen=True)
class Target:
    """A table of a request: its name, id and location."""

    name: str
    table_id: str
    location: str

    @property
    def actions(self) -> list[Any]:
        return [{"commitInfo": {"operation": "WRITE"}}, {"add": {"path": "f", "size": 1}}]

    def commit(self, version: int = 1) -> dict[str, Any]:
        return {"commitId": new_id(), "version": version, "actions": self.actions}

    def write(self) -> dict[str, Any]:
        return {"tableId": self.table_id, "version": 1, "actions": self.actions}

    def read(self) -> dict[str, Any]:
        return {"tableId": self.table_id, "version": 0}

    def staged(self) -> dict[str, Any]:
        return {"version": 1, "timestamp": 1, "file_name": "x", "file_size": 1}


@dataclass(frozen=True)
class Names:
    """A route whose request names a table, with `scope` for this table. `body` has the request for a table."""

    method: str
    path: str
    scope: Scope
    body: Callable[[Target], Any] = lambda _: None
    query: str = ""

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.scope.value}"


@dataclass(frozen=True)
class Lists:
    """A route that returns facts of several tables: only of readable ones."""

    method: str
    path: str
    query: str = ""
    body: Any = None
    has_visible: bool = True


@dataclass(frozen=True)
class Free:
    """A route whose request and response name no table. A transaction belongs to the token that opened it."""

    method: str
    path: str
    body: Any = None
    query: str = ""


def _txn(**more: Any) -> dict[str, Any]:
    return {"range": RANGE, **more}


def _lock(table: Target, is_exclusive: bool) -> Any:
    return {"startedMs": 5, "items": [{"tableId": table.table_id}], "isExclusive": is_exclusive, "timeoutS": 0}


def _update(table: Target) -> Any:
    commit = {"version": 1, "timestamp": 1, "file-name": "x", "file-size": 1}
    return {"requirements": [], "updates": [{"action": "add-commit", "commit": commit}]}


_T = "/v1/transactions"
NAMES = [
    Names("GET", "/v1/tables/{name}", Scope.READ),
    Names("GET", "/v1/tables/{table_id}/commits", Scope.READ, query="?startVersion=0"),
    Names("POST", "/v1/tables/{table_id}/commits", Scope.COMMIT, Target.commit),
    Names("POST", "/v1/tables/{table_id}/backfill", Scope.COMMIT, lambda _: {}),
    Names("POST", "/v1/tables/{table_id}/release", Scope.ADMIN, Target.commit),
    Names("POST", "/v1/repair", Scope.ADMIN, lambda table: {"tableId": table.table_id}),
    Names("POST", _T, Scope.COMMIT, lambda table: _txn(txnId=new_id(), writes=[table.write()])),
    Names("POST", _T, Scope.READ, lambda table: _txn(txnId=new_id(), reads=[table.read()])),
    Names("POST", _T + "/{txn_id}/prepare", Scope.COMMIT, lambda t: _txn(coordinatorId=new_id(), writes=[t.write()])),
    Names("POST", _T + "/{txn_id}/prepare", Scope.READ, lambda t: _txn(coordinatorId=new_id(), reads=[t.read()])),
    Names("POST", _T + "/{txn_id}/time", Scope.COMMIT, lambda t: _txn(writes=[{"tableId": t.table_id}])),
    Names("POST", _T + "/{txn_id}/time", Scope.COMMIT, lambda t: _txn(holds=[t.table_id])),
    Names("POST", _T + "/{txn_id}/locks", Scope.COMMIT, lambda table: _lock(table, True)),
    Names("POST", _T + "/{txn_id}/locks", Scope.READ, lambda table: _lock(table, False)),
    Names("GET", PREVIEW, Scope.READ, lambda t: {"table_id": t.table_id, "table_uri": t.location, "start_version": 9}),
    Names("GET", PREVIEW, Scope.READ, lambda t: {"table_id": t.table_id, "table_uri": "file:///x", "start_version": 9}),
    Names(
        "POST", PREVIEW, Scope.COMMIT,
        lambda t: {"table_id": t.table_id, "table_uri": t.location, "commit_info": t.staged()},
    ),
    Names(
        "POST", PREVIEW, Scope.COMMIT,
        lambda t: {"table_id": t.table_id, "table_uri": t.location, "latest_backfilled_version": 0},
    ),
    Names(
        "POST", f"{UNITY}/delta/preview/transactions", Scope.COMMIT,
        lambda t: {
            "transaction_id": new_id(),
            "commits": [{"table_id": t.table_id, "table_uri": t.location, "commit_info": t.staged()}],
        },
    ),
    Names("GET", BY_NAME, Scope.READ),
    Names("POST", BY_NAME, Scope.COMMIT, _update),
    Names("DELETE", BY_NAME, Scope.ADMIN),
    Names("GET", f"{BY_NAME}/credentials", Scope.READ, query="?operation=READ"),
    Names("POST", f"{BY_NAME}/metrics", Scope.READ, lambda _: {}),
]  # fmt: skip
ADOPTS = ("POST", "/v1/tables")
CREATES = {
    ("POST", BY_NAME.removesuffix("tables/{table}") + "staging-tables"),
    ("POST", BY_NAME.removesuffix("/{table}")),
    ("GET", f"{UNITY}/delta/v1/staging-tables/{{table_id}}/credentials"),
}
LISTS = [
    Lists("GET", "/v1/tables"),
    Lists("GET", "/v1/cut"),
    Lists("GET", "/v1/cut", "?timestampMs=1700000000005"),
    Lists("GET", "/v1/activity"),
    Lists("GET", "/v1/commits", "?limit=1"),
    Lists("GET", "/metrics"),
    Lists("GET", f"{UNITY}/schemas", "?catalog_name=c"),
    Lists("GET", f"{UNITY}/tables", "?catalog_name=c&schema_name=hr", has_visible=False),
]
FREE = [
    Free("GET", "/v1/owner"),
    Free("GET", f"{UNITY}/metastore_summary"),
    Free("GET", "/api/2.0/settings/types/default_namespace_ws/names/default"),
    Free("GET", f"{UNITY}/delta/v1/config", query="?catalog=c&protocol-versions=1.0"),
    Free("POST", _T + "/{txn_id}/keep-alive"),
    Free("DELETE", _T + "/{txn_id}"),
    Free("POST", _T + "/{txn_id}/decision", {"timestampMs": 5, "participants": [_ANY]}),
    Free("POST", _T + "/{txn_id}/decision/ask"),
    Free("POST", _T + "/{txn_id}/finish", {"timestampMs": 5}),
    Free("POST", _T + "/{txn_id}/acknowledge", {"participantId": _ANY}),
]
FOR_ALL_TABLES = ("GET", "/v1/in-doubt")
WITHOUT_TOKEN = {("GET", "/healthz"), ("GET", "/"), ("GET", "/docs")}


@dataclass
class Team:
    """A token limited to the namespace `sales` at an owner with a table there and a table elsewhere."""

    tokens: Tokens
    secret: str
    owner: MemoryOwner = field(default_factory=MemoryOwner)

    def __post_init__(self) -> None:
        ids = {name: taken(self.owner, name) for name in (HIDDEN, VISIBLE)}
        # The newest commit is of the hidden table, and both have a lock of another transaction.
        places = {table.name: table.location for table in self.owner.tables()}
        self.targets = {name: Target(name, ids[name], places[name]) for name in ids}
        self.targets[UNKNOWN] = Target(UNKNOWN, new_id(), "file:///lake/hr.nobody")
        self.client = AppClient(create_app(self.owner, self.tokens), {"Authorization": f"Bearer {self.secret}"})

    def limit(self, scope: Scope) -> None:
        self.tokens.grant("sales", [f"sales.*:{scope.value}"])

    def ask(self, route: Names | Lists | Free, target: Target | None = None) -> httpx.Response:
        path = route.path
        if target is not None:
            schema, _, table = target.name.rpartition(".")
            named = {"name": target.name, "table_id": target.table_id, "schema": schema, "table": table}
            for key, value in {**named, "catalog": "c"}.items():
                path = path.replace(f"{{{key}}}", value)
        txn_id = new_id()
        path = path.replace("{txn_id}", txn_id)
        if isinstance(route, Free) and txn_id in path:
            opened = self.client.post(f"{_T}/{txn_id}/time", json=_txn())
            assert opened.status_code == 200
        body = route.body(target) if isinstance(route, Names) and target is not None else route.body
        return self.client.request(route.method, path + getattr(route, "query", ""), json=body)

    @property
    def effects(self) -> Any:
        owner = self.owner
        seen = owner.time_requests, owner.lock_requests, owner.transactions, owner.promised, owner.repaired
        return deepcopy((owner.tables(), owner.requests, seen))


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tokens]:
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('tokens')}/owner.db")
    yield Tokens(database)
    database.close()


@pytest.fixture(scope="module")
def secret(tokens: Tokens) -> str:
    return tokens.create("sales", [Scope.ADMIN], grants=["sales.*:read"])


@pytest.fixture
def team(tokens: Tokens, secret: str) -> Team:
    return Team(tokens, secret)


def test_every_route_has_a_decision_about_grants(tokens: Tokens) -> None:
    app = create_app(MemoryOwner(), tokens, ServedSettings())
    found = {(method, route.path) for route in _routes(app.routes) for method in route.methods or ()}
    routes: list[Names | Lists | Free] = [*NAMES, *LISTS, *FREE]
    decided = {(each.method, each.path) for each in routes}
    assert found - {("HEAD", path) for _, path in found} == decided | WITHOUT_TOKEN | CREATES | {ADOPTS, FOR_ALL_TABLES}
    assert len(found) > 30


def _routes(routes: Any) -> Iterator[APIRoute]:
    for route in routes:
        if isinstance(route, APIRoute):
            yield route
        elif hasattr(route, "original_router"):
            yield from _routes(route.original_router.routes)


@pytest.mark.parametrize("route", NAMES, ids=str)
def test_a_table_without_a_grant_is_answered_like_an_unknown_one(team: Team, route: Names) -> None:
    team.limit(Scope.ADMIN)
    before = team.effects
    # Another token has used the table, so that caches of the server have it.
    team.tokens.grant("sales", None)
    team.ask(Names("GET", PREVIEW, Scope.READ, NAMES[14].body), team.targets[HIDDEN])
    team.limit(Scope.ADMIN)
    answers = [_without_names(team, team.ask(route, team.targets[name])) for name in (HIDDEN, UNKNOWN)]
    assert answers[0] == answers[1]
    assert answers[0][0] == 404, answers[0]
    assert re.search('"(TableNotFound|NoSuchTableException)"', answers[0][1])
    assert VISIBLE not in answers[0][1]
    assert team.effects == before


def _without_names(team: Team, answer: httpx.Response) -> tuple[int, str]:
    text = answer.text
    for target in (team.targets[HIDDEN], team.targets[UNKNOWN]):
        text = text.replace(target.name, "NAME").replace(target.table_id, "ID")
    return answer.status_code, re.sub(r"people|nobody", "NAME", text)


@pytest.mark.parametrize("route", NAMES, ids=str)
@pytest.mark.parametrize("scope", ORDER, ids=lambda scope: scope.value)
def test_a_readable_table_needs_a_grant_with_the_scope_of_the_route(team: Team, route: Names, scope: Scope) -> None:
    team.limit(scope)
    before = team.effects
    answer = team.ask(route, team.targets[VISIBLE])
    if scope.includes(route.scope):
        assert answer.status_code != 403, answer.text
        assert "no table" not in answer.text
    else:
        assert answer.status_code == 403, answer.text
        assert re.search('"(NotAuthorized|PermissionDeniedException)"', answer.text)
        assert f"Request the grant 'sales.orders:{route.scope.value}'" in answer.text
        assert team.effects == before


@pytest.mark.parametrize("name", [HIDDEN, UNKNOWN, VISIBLE, "sales.new"])
def test_a_table_is_adopted_under_a_name_with_an_admin_grant_only(team: Team, name: str) -> None:
    table_id, before = new_id(), team.effects
    body = {**team.targets[VISIBLE].commit(0), "tableId": table_id, "name": name, "location": "file:///lake/new"}
    for scope in (Scope.READ, Scope.COMMIT):
        team.limit(scope)
        answer = team.client.post("/v1/tables", json=body)
        message = answer.json()["message"]
        assert (answer.status_code, message.replace(name, "NAME")) == (
            403, "table 'NAME': the token 'sales' has no grant with 'admin' for it. Request the grant 'NAME:admin'"
        )  # fmt: skip
    team.limit(Scope.ADMIN)
    status = team.client.post("/v1/tables", json=body).status_code
    assert status == {VISIBLE: 409, "sales.new": 200}.get(name, 403)
    assert name == "sales.new" or team.effects == before


@pytest.mark.parametrize("name", [HIDDEN, UNKNOWN, VISIBLE, "sales.new"])
def test_a_table_is_created_by_its_client_under_a_name_with_an_admin_grant_only(team: Team, name: str) -> None:
    schema, _, table = name.rpartition(".")
    api = BY_NAME.replace("{catalog}", "c").replace("{schema}", schema).removesuffix("tables/{table}")
    body = {"name": table, "location": "file:///lake/new"}
    for scope in (Scope.READ, Scope.COMMIT):
        team.limit(scope)
        for path in ("staging-tables", "tables"):
            answer = team.client.post(api + path, json=body)
            assert (answer.status_code, f"Request the grant '{name}:admin'" in answer.text) == (403, True)
    team.limit(Scope.ADMIN)
    assert team.client.post(f"{api}staging-tables", json=body).status_code == {VISIBLE: 409, "sales.new": 200}.get(
        name, 403
    )
    assert team.client.post(f"{api}tables", json=body).status_code == (400 if schema == "sales" else 403)
    assert team.client.request("HEAD", f"{api}tables/{table}").status_code == 404 or name == VISIBLE


def test_a_token_for_some_tables_gets_no_keys_of_the_store(team: Team) -> None:
    team.limit(Scope.ADMIN)
    settings = ServedSettings(credentials={"aws_access_key_id": "AK", "aws_secret_access_key": "SK"})
    team.owner.root_url = "s3://bucket/lake"
    client = AppClient(create_app(team.owner, team.tokens, settings), {"Authorization": f"Bearer {team.secret}"})
    path = f"{UNITY}/delta/v1/staging-tables/{new_id()}/credentials"
    assert (client.get(path).status_code, "AK" in client.get(path).text) == (400, False)
    team.tokens.grant("sales", None)
    team.client.get("/v1/owner")
    assert "AK" in client.get(path).text


@pytest.mark.parametrize("route", LISTS, ids=str)
def test_lists_contain_readable_tables_only(team: Team, route: Lists) -> None:
    for name in (VISIBLE, HIDDEN):
        team.owner.lock(LockRequest(new_id(), 5, [Item(team.targets[name].table_id)], True, 0))
    team.limit(Scope.READ)
    shown = team.ask(route)
    hidden = team.targets[HIDDEN]
    assert shown.status_code == 200
    assert not [text for text in (hidden.name, hidden.table_id, '"hr"') if text in shown.text]
    assert ("sales" in shown.text) is route.has_visible
    team.tokens.grant("sales", None)
    assert ("hr" in team.ask(route).text) is route.has_visible


@pytest.mark.parametrize("route", FREE, ids=str)
def test_routes_without_tables_answer_as_before(team: Team, route: Free) -> None:
    team.limit(Scope.COMMIT)
    answer = team.ask(route)
    assert answer.status_code == 200, answer.text
    assert not [name for name in (VISIBLE, HIDDEN) if name in answer.text]


def test_a_repair_of_all_tables_repairs_those_with_an_admin_grant(team: Team) -> None:
    team.limit(Scope.COMMIT)
    assert team.client.post("/v1/repair", json={}).status_code == 200
    assert team.owner.repaired == []
    team.limit(Scope.ADMIN)
    assert team.client.post("/v1/repair", json={}).status_code == 200
    assert team.owner.repaired == [team.targets[VISIBLE].table_id]


def test_transactions_of_other_tokens_need_an_admin_grant_for_all_tables(team: Team) -> None:
    other = team.tokens.create(f"other-{new_id()}", [Scope.COMMIT])
    txn_id = new_id()
    stranger = AppClient(create_app(team.owner, team.tokens), {"Authorization": f"Bearer {other}"})
    assert stranger.post(f"{_T}/{txn_id}/time", json=_txn()).status_code == 200
    team.limit(Scope.ADMIN)
    assert team.client.request("DELETE", f"{_T}/{txn_id}").status_code == 403
    refused = team.client.get("/v1/in-doubt")
    assert (refused.status_code, "'*:admin'" in refused.text) == (403, True)
    team.tokens.grant("sales", ["*:admin"])
    assert team.client.get("/v1/in-doubt").status_code == 200
    assert team.client.request("DELETE", f"{_T}/{txn_id}").status_code == 200


def test_an_adoption_with_the_id_of_a_hidden_table_gets_no_result_of_this_table(team: Team) -> None:
    team.limit(Scope.ADMIN)
    asked = proposal("hr.secret")
    team.owner.take(asked)
    before = team.effects
    body = {
        "tableId": asked.table_id, "commitId": asked.commit_id, "version": 0, "actions": asked.actions,
        "name": "sales.new", "location": "file:///lake/new",
    }  # fmt: skip
    answer = team.client.post("/v1/tables", json=body)
    assert (answer.status_code, answer.json()["error"]) == (409, "TableAlreadyExists"), answer.text
    assert "hr" not in answer.text
    assert team.effects == before
