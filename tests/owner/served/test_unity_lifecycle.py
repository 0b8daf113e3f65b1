"""The routes of Unity Catalog that create and drop tables, and give out credentials."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from slackwater.errors import CommitOwnerBusy
from slackwater.lake.lake import LogLake
from slackwater.owner.api.owner_registry import detach
from slackwater.owner.database.database import Database
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.served.access.permissions import Scope
from slackwater.owner.served.settings import ServedSettings
from slackwater.owner.served.tokens import Tokens
from slackwater.owner.state.clock import OwnerClock
from slackwater.protocol.actions.file_names import commit_path
from slackwater.storage.open import open_store
from slackwater.storage.store import ObjectStore
from tests.contract.owners import SCHEMA, OwnedLake, actions_in, added, created, new_lake
from tests.contract.test_staged_by_client import staged
from tests.owner.served.serving import served

API = "/api/2.1/unity-catalog/delta/v1"
TABLES = "/catalogs/main/schemas/sales"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[OwnedLake]:
    found = new_lake(tmp_path, "sqlite-embedded-catalogManaged")
    yield found
    found.close()


@pytest.fixture
def owner(lake: OwnedLake) -> EmbeddedOwner:
    return lake.embedded()


@pytest.fixture
def url(owner: EmbeddedOwner) -> Iterator[str]:
    with served(owner) as found:
        yield found + API


def staging(url: str, name: str = "orders") -> dict[str, Any]:
    answer = httpx.post(f"{url}{TABLES}/staging-tables", json={"name": name})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def version_0(told: dict[str, Any], timestamp_ms: int | None = None, **changed: Any) -> list[dict[str, Any]]:
    """The first version as the staging table asks for it. `changed` are actions in the place of these."""
    protocol = {
        "minReaderVersion": told["required-protocol"]["min-reader-version"],
        "minWriterVersion": told["required-protocol"]["min-writer-version"],
        "readerFeatures": told["required-protocol"]["reader-features"],
        "writerFeatures": told["required-protocol"]["writer-features"],
    }
    metadata = {
        "id": str(uuid.uuid4()),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": SCHEMA,
        "partitionColumns": [],
        "configuration": told["required-properties"],
    }
    now_ms = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
    info = {"inCommitTimestamp": now_ms, "txnId": str(uuid.uuid4()), "operation": "CREATE TABLE"}
    return [
        {kind: changed.get(kind, node)}
        for kind, node in (("commitInfo", info), ("protocol", protocol), ("metaData", metadata))
    ]


def written(told: dict[str, Any], actions: list[dict[str, Any]]) -> ObjectStore:
    store = open_store(told["location"])
    store.put_if_absent(commit_path(0), b"".join(orjson.dumps(action) + b"\n" for action in actions))
    return store


def creation(url: str, told: dict[str, Any], name: str = "orders", **more: Any) -> httpx.Response:
    body = {"name": name, "location": told["location"], "table-type": "MANAGED", "columns": {}, "properties": {}}
    return httpx.post(f"{url}{TABLES}/tables", json=body | more)


def refusal(answer: httpx.Response) -> tuple[int, str]:
    error = answer.json()["error"]
    assert error["code"] == answer.status_code
    return answer.status_code, error["type"]


def test_a_client_creates_a_table_in_the_place_that_the_server_allocates(url: str, owner: EmbeddedOwner) -> None:
    told = staging(url)
    actions = version_0(told)
    written(told, actions)
    found = creation(url, told)
    assert found.status_code == 200, found.text
    assert found.json()["latest-table-version"] == 0
    assert found.json()["metadata"]["table-uuid"] == told["table-id"]
    known = owner.table("sales.orders")
    assert (known.table_id, known.location, known.ratified_version) == (told["table-id"], told["location"], 0)
    assert known.timestamp_ms == actions[0]["commitInfo"]["inCommitTimestamp"]
    # A repeated request finds its result, another table of this name does not replace it.
    assert creation(url, told).status_code == 200
    assert refusal(httpx.post(f"{url}{TABLES}/staging-tables", json={"name": "orders"})) == (
        409,
        "AlreadyExistsException",
    )
    assert httpx.head(f"{url}{TABLES}/tables/orders").status_code == 204
    assert httpx.head(f"{url}{TABLES}/tables/missing").status_code == 404
    lake = LogLake(owner, owner.root_url)
    with lake.transaction() as tx:
        assert tx.snapshot("sales.orders").version == 0
    detach(owner)


def test_two_clients_that_create_one_name_get_places_of_their_own(url: str, owner: EmbeddedOwner) -> None:
    first, second = staging(url), staging(url)
    assert first["location"] != second["location"]
    for told in (first, second):
        written(told, version_0(told))
    assert creation(url, second).status_code == 200
    assert refusal(creation(url, first)) == (409, "AlreadyExistsException")
    assert owner.table("sales.orders").table_id == second["table-id"]


@pytest.mark.parametrize(
    ("changed", "expected", "message"),
    [
        ({"commitInfo": {"operation": "CREATE TABLE"}}, "InvalidParameterValueException", "inCommitTimestamp"),
        ({"commitInfo": {"inCommitTimestamp": 2**52, "txnId": "x"}}, "InvalidParameterValueException", "future"),
        ({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, "BadRequestException", "catalogManaged"),
        ({"metaData": {}}, "InvalidParameterValueException", "io.unitycatalog.tableId"),
    ],
)
def test_a_first_version_that_no_owner_can_go_on_with_is_refused(
    url: str, owner: EmbeddedOwner, changed: dict[str, Any], expected: str, message: str
) -> None:
    told = staging(url)
    written(told, version_0(told, **changed))
    answer = creation(url, told)
    assert refusal(answer) == (400, expected)
    assert message in answer.text
    assert owner.tables() == []


def test_a_table_without_its_first_version_or_outside_the_roots_is_refused(lake: OwnedLake, tmp_path: Path) -> None:
    with served(lake.embedded(roots=[lake.root])) as server:
        url = server + API
        answer = creation(url, staging(url))
        assert (refusal(answer)[0], "Write version 0" in answer.text) == (400, True)
        told = staging(url)
        told["location"] = (tmp_path / "outside").as_uri()
        written(told, version_0(told))
        assert refusal(creation(url, told))[0] == 400
        assert refusal(creation(url, told, **{"table-type": "EXTERNAL"}))[0] == 400


def test_a_table_of_another_owner_is_refused(url: str, owner: EmbeddedOwner) -> None:
    told = staging(url)
    properties = dict(told["required-properties"])
    (key,) = (key for key in properties if key.endswith("conf") or "Conf" in key)
    properties[key] = properties[key].replace(owner.owner_id, str(uuid.uuid4()))
    told["required-properties"] = properties
    written(told, version_0(told))
    assert refusal(creation(url, told)) == (400, "BadRequestException")
    assert owner.tables() == []


@pytest.mark.parametrize("name", ["", "my table", "x\ny", "tä", "a/b"])
def test_a_name_that_no_table_may_have_is_refused(url: str, owner: EmbeddedOwner, name: str) -> None:
    assert httpx.post(f"{url}{TABLES}/staging-tables", json={"name": name}).status_code in (400, 422)
    told = staging(url)
    written(told, version_0(told))
    assert creation(url, told, name=name).status_code in (400, 422)
    assert owner.tables() == []


def test_a_table_is_created_under_the_name_that_it_was_staged_for(url: str, owner: EmbeddedOwner) -> None:
    told = staging(url)
    written(told, version_0(told))
    answer = creation(url, told, name="other")
    assert (refusal(answer), "'sales.orders'" in answer.text) == ((400, "InvalidParameterValueException"), True)
    assert owner.tables() == []
    assert creation(url, told).status_code == 200


def test_a_commit_that_is_ratified_is_never_reported_as_failed(
    url: str, lake: OwnedLake, owner: EmbeddedOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = created(lake, owner, "sales.orders")

    def busy(*_: object) -> None:
        raise CommitOwnerBusy("too many requests wait")

    monkeypatch.setattr("slackwater.owner.served.unity.tables.loaded", busy)
    commit = staged(table, 1, OwnerClock().now_ms(), added())
    told = {"version": 1, "timestamp": commit.timestamp_ms, "file-name": commit.file_name}
    sizes = {"file-size": commit.size_bytes, "file-modification-timestamp": 1}
    body = {
        "requirements": [{"type": "assert-table-uuid", "uuid": table.table_id}],
        "updates": [{"action": "add-commit", "commit": told | sizes}],
    }
    answer = httpx.post(f"{url}{TABLES}/tables/orders", json=body)
    assert refusal(answer) == (500, "CommitStateUnknownException")
    assert table.latest == 1


def test_a_dropped_table_is_released_with_its_files(url: str, lake: OwnedLake, owner: EmbeddedOwner) -> None:
    table = created(lake, owner, "sales.orders")
    table.commits(2)
    assert httpx.delete(f"{url}{TABLES}/tables/orders").status_code == 204
    assert owner.tables() == []
    last = {kind: node for action in actions_in(table.store.read(commit_path(3))) for kind, node in action.items()}
    assert last["commitInfo"]["operation"] == "RELEASE TABLE"
    assert "catalogManaged" not in last["protocol"]["writerFeatures"]
    assert not any("slackwater" in key for key in last["metaData"]["configuration"])
    assert refusal(httpx.delete(f"{url}{TABLES}/tables/orders")) == (404, "NoSuchTableException")


@pytest.mark.parametrize(
    ("method", "path", "needed"),
    [
        ("GET", "/config?catalog=main&protocol-versions=1.0", Scope.READ),
        ("POST", f"{TABLES}/staging-tables", Scope.ADMIN),
        ("POST", f"{TABLES}/tables", Scope.ADMIN),
        ("GET", f"{TABLES}/tables/orders", Scope.READ),
        ("HEAD", f"{TABLES}/tables/orders", Scope.READ),
        ("POST", f"{TABLES}/tables/orders", Scope.COMMIT),
        ("DELETE", f"{TABLES}/tables/orders", Scope.ADMIN),
        ("GET", f"{TABLES}/tables/orders/credentials?operation=READ", Scope.READ),
        ("POST", f"{TABLES}/tables/orders/metrics", Scope.COMMIT),
        ("GET", "/staging-tables/00000000-0000-4000-8000-000000000000/credentials", Scope.ADMIN),
    ],
)
def test_a_route_takes_the_tokens_whose_scope_includes_its_own(
    served_with_tokens: tuple[str, Tokens], method: str, path: str, needed: Scope
) -> None:
    url, tokens = served_with_tokens
    order = list(Scope)
    for scope in (None, *Scope):
        headers = {} if scope is None else {"Authorization": f"Bearer {tokens.create(uuid.uuid4().hex, [scope])}"}
        status = httpx.request(method, url + path, headers=headers, json={"name": "n"}).status_code
        if scope is None:
            assert status == 401
        else:
            assert (status != 403) == (order.index(scope) >= order.index(needed)), (scope, status)
            assert status != 401


@pytest.fixture(scope="module")
def served_with_tokens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Tokens]]:
    lake = new_lake(tmp_path_factory.mktemp("scopes"), "sqlite-embedded-catalogManaged")
    tokens = Tokens(Database(lake.database))
    with served(lake.embedded(), tokens) as url:
        yield url + API, tokens
    tokens.database.close()
    lake.close()


def test_config_names_the_routes_that_the_server_has(url: str) -> None:
    names = {"catalog": "main", "protocol-versions": "1.2,2.0"}
    found = httpx.get(f"{url}/config", params=names).json()
    assert found["protocol-version"] == "1.0"
    document = httpx.get(url.removesuffix(API) + "/openapi.json").json()
    ours = {
        f"{method.upper()} {path.removeprefix('/api/2.1/unity-catalog/delta')}"
        for path, methods in document["paths"].items()
        for method in methods
        if path.startswith(API) and not path.endswith("/config")
    }
    assert set(found["endpoints"]) == ours
    assert refusal(httpx.get(f"{url}/config", params=names | {"protocol-versions": "2.0"})) == (
        400,
        "InvalidParameterValueException",
    )


def test_metrics_of_a_known_table_are_accepted(url: str, lake: OwnedLake, owner: EmbeddedOwner) -> None:
    table = created(lake, owner, "sales.orders")
    body = {"table-id": table.table_id, "report": {"commit-report": {"num-files-added": 1}}}
    assert httpx.post(f"{url}{TABLES}/tables/orders/metrics", json=body).status_code == 204
    assert httpx.post(f"{url}{TABLES}/tables/missing/metrics", json=body).status_code == 404


def test_credentials_are_given_out_only_if_the_operator_says_so(tmp_path: Path) -> None:
    lake = new_lake(tmp_path, "sqlite-embedded-catalogManaged")
    table = created(lake, lake.embedded(), "sales.orders")
    asked = f"{TABLES}/tables/orders/credentials"
    keys = {"aws_access_key_id": "AK", "aws_secret_access_key": "SK", "aws_region": "somewhere"}
    with served(lake.embedded(), settings=ServedSettings(credentials=keys)) as server:
        # Files of this machine need none.
        found = httpx.get(f"{server}{API}{asked}", params={"operation": "READ"})
        assert found.json() == {"storage-credentials": []}
        assert httpx.get(f"{server}{API}{asked}", params={"operation": "ALL"}).status_code == 422
    assert table.latest == 0
