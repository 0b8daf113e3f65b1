from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from slackwater.errors import CommitOwnerUnavailable
from slackwater.owner.database.database import Database
from slackwater.owner.served.access.permissions import Scope
from slackwater.owner.served.app import create_app
from slackwater.owner.served.settings import ServedSettings
from slackwater.owner.served.tokens import Tokens
from tests.owner.served.memory_owner import MemoryOwner
from tests.owner.served.serving import AppClient, new_id, taken

ID = "11111111-2222-4333-8444-555555555555"
COMMIT = {"commitId": ID, "version": 1, "actions": [{"commitInfo": {}}]}
PROPOSAL = {**COMMIT, "version": 0, "tableId": ID, "name": "new", "location": "file:///lake/new"}
RANGE = {"lowMs": 5, "highMs": None}
TRANSACTION = {"txnId": ID, "range": RANGE}
LOCK = {"startedMs": 5, "items": [], "isExclusive": True, "timeoutS": 0}
UNITY = {"start_version": 1000}
STAGED = {"commit_info": {"version": 1, "timestamp": 1, "file_name": "x", "file_size": 1}}
GROUP = {"transaction_id": ID, "commits": [STAGED]}
ROUTES = [
    ("GET", "/v1/owner", None, Scope.READ),
    ("GET", "/v1/tables", None, Scope.READ),
    ("POST", "/v1/tables", PROPOSAL, Scope.ADMIN),
    ("GET", "/v1/tables/flights", None, Scope.READ),
    ("GET", "/v1/tables/{table}/commits?startVersion=0", None, Scope.READ),
    ("POST", "/v1/tables/{table}/commits", COMMIT, Scope.COMMIT),
    ("POST", "/v1/tables/{table}/backfill", {}, Scope.COMMIT),
    ("POST", "/v1/tables/{table}/release", COMMIT, Scope.ADMIN),
    ("POST", "/v1/repair", {}, Scope.ADMIN),
    ("GET", "/v1/cut", None, Scope.READ),
    ("GET", "/api/2.1/unity-catalog/metastore_summary", None, Scope.READ),
    ("GET", "/api/2.1/unity-catalog/delta/preview/commits", UNITY, Scope.READ),
    ("POST", "/api/2.1/unity-catalog/delta/preview/commits", STAGED, Scope.COMMIT),
    ("POST", "/api/2.1/unity-catalog/delta/preview/transactions", GROUP, Scope.COMMIT),
    ("GET", "/api/2.0/settings/types/default_namespace_ws/names/default", None, Scope.READ),
    ("GET", "/api/2.1/unity-catalog/schemas?catalog_name=c", None, Scope.READ),
    ("GET", "/api/2.1/unity-catalog/tables?catalog_name=c&schema_name=none", None, Scope.READ),
    ("POST", "/v1/transactions", TRANSACTION, Scope.COMMIT),
    ("DELETE", f"/v1/transactions/{ID}", None, Scope.COMMIT),
    ("POST", f"/v1/transactions/{ID}/time", {"range": RANGE}, Scope.COMMIT),
    ("POST", f"/v1/transactions/{ID}/locks", LOCK, Scope.COMMIT),
    ("POST", f"/v1/transactions/{ID}/keep-alive", None, Scope.COMMIT),
    ("POST", f"/v1/transactions/{ID}/prepare", {"range": RANGE, "coordinatorId": ID}, Scope.COMMIT),
    ("POST", f"/v1/transactions/{ID}/decision", {"timestampMs": 5, "participants": [ID]}, Scope.COMMIT),
    ("POST", f"/v1/transactions/{ID}/decision/ask", None, Scope.COMMIT),
    ("POST", f"/v1/transactions/{ID}/finish", {"timestampMs": 5}, Scope.COMMIT),
    ("POST", f"/v1/transactions/{ID}/acknowledge", {"participantId": ID}, Scope.COMMIT),
    ("GET", "/v1/in-doubt", None, Scope.ADMIN),
    ("GET", "/v1/activity", None, Scope.READ),
    ("GET", "/v1/commits?limit=5", None, Scope.READ),
    ("GET", "/metrics", None, Scope.READ),
]
ORDER = list(Scope)


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tokens]:
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('tokens')}/owner.db")
    yield Tokens(database)
    database.close()


@pytest.fixture(scope="module")
def secrets(tokens: Tokens) -> dict[Scope, str]:
    return {scope: tokens.create(scope.value, [scope]) for scope in Scope}


def _client(tokens: Tokens | None, owner: MemoryOwner, settings: ServedSettings | None = None) -> AppClient:
    return AppClient(create_app(owner, tokens, settings))


def test_the_matrix_below_has_every_route(tokens: Tokens) -> None:
    paths = create_app(MemoryOwner(), tokens).openapi()["paths"]
    documented = {
        (method.upper(), path.replace("{table_id}", "{table}").replace("{name}", "flights").replace("{txn_id}", ID))
        for path, methods in paths.items()
        for method in methods
    }
    tested = {(method, path.partition("?")[0]) for method, path, _, _ in ROUTES}
    # The tests of the routes of Unity Catalog try these with and without a scope.
    by_name = {(method, path) for method, path in documented if path.startswith("/api/2.1/unity-catalog/delta/v1/")}
    assert documented == tested | {("GET", "/healthz")} | by_name


@pytest.mark.parametrize("held", [None, *Scope])
@pytest.mark.parametrize(("method", "path", "body", "needed"), ROUTES)
def test_a_route_takes_the_tokens_whose_scope_includes_its_own(
    tokens: Tokens,
    secrets: dict[Scope, str],
    method: str,
    path: str,
    body: object,
    needed: Scope,
    held: Scope | None,
) -> None:
    owner = MemoryOwner()
    table_id = taken(owner)
    before = owner.tables()
    headers = {} if held is None else {"Authorization": f"Bearer {secrets[held]}"}
    client, txn_id = _client(tokens, owner), new_id()
    if held is not None and path.startswith("/v1/transactions/"):
        # A transaction of its own, where it may have one.
        client.post(f"/v1/transactions/{txn_id}/time", json={"range": RANGE}, headers=headers)
    if body is TRANSACTION:
        body = {**TRANSACTION, "txnId": txn_id}
    if body is UNITY or body is STAGED:
        body = {**body, "table_id": table_id, "table_uri": before[0].location}
    if body is GROUP:
        place = {"table_id": table_id, "table_uri": before[0].location}
        body = {"transaction_id": txn_id, "commits": [{**STAGED, **place}]}
    path = path.format(table=table_id).replace(ID, txn_id)
    answer = client.request(method, path, json=body, headers=headers)
    expected = 200 if held is not None and ORDER.index(held) >= ORDER.index(needed) else 403 if held else 401
    assert answer.status_code == expected, answer.text
    if expected != 200:
        said = answer.json()
        assert said.get("error_code", said.get("error")) in (
            "NotAuthorized",
            "NotAuthorizedException",
            "PermissionDeniedException",
        )
        assert owner.tables() == before
        assert (owner.promised, owner.decisions, owner.acknowledged) == ([], {}, [])
        assert ("WWW-Authenticate" in answer.headers) == (expected == 401)


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Bearer ", "Bearer x", "Basic dXNlcjpwYXNz", "Bearer slw_" + "A" * 43, "slw_" + "A" * 43]
)
def test_other_credentials_are_refused_and_not_repeated(tokens: Tokens, header: str) -> None:
    answer = _client(tokens, MemoryOwner()).get("/v1/owner", headers={"Authorization": header})
    assert answer.status_code == 401
    assert "AAAA" not in answer.text


def test_the_scheme_of_a_token_may_be_spelled_in_any_case(tokens: Tokens, secrets: dict[Scope, str]) -> None:
    answer = _client(tokens, MemoryOwner()).get("/v1/owner", headers={"Authorization": f"bEARER {secrets[Scope.READ]}"})
    assert answer.status_code == 200


def test_a_body_is_not_read_of_whoever_may_not_send_it(tokens: Tokens, secrets: dict[Scope, str]) -> None:
    async def body() -> AsyncIterator[bytes]:
        raise AssertionError("the body was read")
        yield b""  # type: ignore[unreachable]  # makes it a generator

    headers = {"Authorization": f"Bearer {secrets[Scope.READ]}", "Content-Type": "application/json"}
    answer = _client(tokens, MemoryOwner()).post("/v1/repair", content=body(), headers=headers)
    assert answer.status_code == 403


@pytest.mark.parametrize("path", ["/healthz", "/openapi.json"])
def test_health_and_the_document_need_no_token(tokens: Tokens, path: str) -> None:
    assert _client(tokens, MemoryOwner()).get(path).status_code == 200


def test_metrics_need_no_token_where_the_settings_say_so(tokens: Tokens) -> None:
    settings = ServedSettings(public_metrics=True)
    assert _client(tokens, MemoryOwner(), settings).get("/metrics").status_code == 200


def test_health_says_nothing_but_how_it_is(tokens: Tokens) -> None:
    class Broken(MemoryOwner):
        def tables(self) -> list[object]:  # type: ignore[override]
            raise RuntimeError("password=hunter2")

    well = _client(tokens, MemoryOwner()).get("/healthz")
    ill = _client(tokens, Broken()).get("/healthz")
    assert (well.status_code, well.json()) == (200, {"status": "ok"})
    assert (ill.status_code, ill.json()) == (503, {"status": "unavailable"})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8080", "localhost:1", "LOCALHOST", "[::1]:80"])
def test_without_tokens_this_machine_may_do_everything(host: str) -> None:
    answer = _client(None, MemoryOwner()).post("/v1/repair", json={}, headers={"Host": host})
    assert answer.status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", "", "[::1", "user@evil"])
def test_without_tokens_a_page_under_another_name_may_do_nothing(host: str) -> None:
    answer = _client(None, MemoryOwner()).post("/v1/repair", json={}, headers={"Host": host})
    assert (answer.status_code, answer.json()["error"]) == (403, "NotAuthorized")


def test_a_form_that_a_page_can_send_is_no_request() -> None:
    owner = MemoryOwner()
    table_id = taken(owner)
    for kind in ("text/plain", "application/x-www-form-urlencoded", None):
        headers = {} if kind is None else {"Content-Type": kind}
        content = b'{"commitId":"%b","version":1,"actions":[{"commitInfo":{}}]}' % new_id().encode()
        answer = _client(None, owner).post(f"/v1/tables/{table_id}/commits", content=content, headers=headers)
        assert answer.status_code == 422
    assert owner.requests == []


@pytest.mark.parametrize("path", ["/v1", "/v1/tables/", "/v1/tables/a/b", "/v2/owner", "/docs/a", "/redoc"])
def test_what_is_not_there_is_said_in_json_and_never_redirected(path: str) -> None:
    answer = _client(None, MemoryOwner()).get(path)
    assert (answer.status_code, answer.json()["error"]) == (404, "UnsupportedFeature")


def test_a_method_that_is_not_there_is_said_in_json() -> None:
    answer = _client(None, MemoryOwner()).request("DELETE", "/v1/tables/flights")
    assert (answer.status_code, answer.json()["error"]) == (405, "UnsupportedFeature")
    assert answer.headers["Allow"] == "GET"


def test_who_has_no_good_token_learns_nothing_of_a_database_that_is_away(
    tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(token: str) -> Any:
        raise CommitOwnerUnavailable("the database postgresql://u:s3cr3t@db/owner?password=s3cr3t does not answer")

    monkeypatch.setattr(tokens, "authorize", away)
    answer = _client(tokens, MemoryOwner()).get("/v1/tables", headers={"Authorization": "Bearer made-up"})
    assert answer.status_code == 503
    assert answer.json()["message"] == "the commit owner cannot look up tokens now. Retry later"
