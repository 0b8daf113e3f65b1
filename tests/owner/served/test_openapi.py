"""The OpenAPI document, fuzzed: what it allows is taken, what it does not is refused, and answers are as it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, assume, given, settings
from schemathesis import GenerationMode
from schemathesis.core.parameters import ParameterLocation
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation

from slackwater.owner.api.field_types import GREATEST_VERSION
from slackwater.owner.database.database import Database
from slackwater.owner.served.access.permissions import Scope
from slackwater.owner.served.app import create_app
from slackwater.owner.served.tokens import Tokens
from slackwater.owner.served.wire import calls
from tests.owner.served.memory_owner import MemoryOwner
from tests.owner.served.serving import commit_request, proposal, taken

_DEFAULT_SCHEMA = "/api/2.0/settings/types/default_namespace_ws/names/default"
_DELTA = "/api/2.1/unity-catalog/delta/v1"
_SCHEMA = f"{_DELTA}/catalogs/{{catalog}}/schemas/{{schema}}"
_METASTORE = "/api/2.1/unity-catalog/metastore_summary"
OPERATIONS = [
    ("/v1/owner", "GET"),
    ("/v1/tables", "GET"),
    ("/v1/tables", "POST"),
    ("/v1/tables/{name}", "GET"),
    ("/v1/tables/{table_id}/commits", "GET"),
    ("/v1/tables/{table_id}/commits", "POST"),
    ("/v1/tables/{table_id}/backfill", "POST"),
    ("/v1/tables/{table_id}/release", "POST"),
    ("/v1/repair", "POST"),
    ("/v1/cut", "GET"),
    ("/v1/transactions", "POST"),
    ("/v1/transactions/{txn_id}", "DELETE"),
    ("/v1/transactions/{txn_id}/time", "POST"),
    ("/v1/transactions/{txn_id}/locks", "POST"),
    ("/v1/transactions/{txn_id}/keep-alive", "POST"),
    ("/v1/transactions/{txn_id}/prepare", "POST"),
    ("/v1/transactions/{txn_id}/decision", "POST"),
    ("/v1/transactions/{txn_id}/decision/ask", "POST"),
    ("/v1/transactions/{txn_id}/finish", "POST"),
    ("/v1/transactions/{txn_id}/acknowledge", "POST"),
    ("/v1/in-doubt", "GET"),
    ("/v1/activity", "GET"),
    ("/v1/commits", "GET"),
    (_METASTORE, "GET"),
    ("/api/2.1/unity-catalog/delta/preview/commits", "GET"),
    ("/api/2.1/unity-catalog/delta/preview/commits", "POST"),
    ("/api/2.1/unity-catalog/delta/preview/transactions", "POST"),
    (_DEFAULT_SCHEMA, "GET"),
    ("/api/2.1/unity-catalog/schemas", "GET"),
    ("/api/2.1/unity-catalog/tables", "GET"),
    (f"{_DELTA}/config", "GET"),
    (f"{_SCHEMA}/staging-tables", "POST"),
    (f"{_SCHEMA}/tables", "POST"),
    *((f"{_SCHEMA}/tables/{{table}}", method) for method in ("GET", "POST", "HEAD", "DELETE")),
    (f"{_SCHEMA}/tables/{{table}}/credentials", "GET"),
    (f"{_SCHEMA}/tables/{{table}}/metrics", "POST"),
    (f"{_DELTA}/staging-tables/{{table_id}}/credentials", "GET"),
    ("/healthz", "GET"),
    ("/metrics", "GET"),
]
# What a good request meets may forbid it all the same: a version that is not there, a table that nobody knows.
CONFIG = {"checks": {"positive_data_acceptance": {"expected-statuses": ["2xx", 400, 404, 409]}}}


@pytest.fixture(scope="module")
def authorized(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Tokens, dict[str, str]]]:
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('tokens')}/owner.db")
    tokens = Tokens(database)
    yield tokens, {"Authorization": f"Bearer {tokens.create('fuzzer', [Scope.ADMIN])}"}
    database.close()


@pytest.fixture(scope="module")
def schema(authorized: tuple[Tokens, dict[str, str]]) -> schemathesis.BaseSchema:
    owner = MemoryOwner()
    owner.commit(commit_request(taken(owner), 1))
    owner.take(proposal("later", version=7))
    app = create_app(owner, authorized[0])
    return schemathesis.openapi.from_asgi("/openapi.json", app, config=schemathesis.Config.from_dict(CONFIG))


def test_the_operations_below_are_all_there_are(schema: schemathesis.BaseSchema) -> None:
    documented = set()
    for found in schema.get_all_operations():
        assert isinstance(found, Ok)
        documented.add((found.ok().path, found.ok().method.upper()))
    assert documented == set(OPERATIONS)


def test_the_calls_are_the_operations_of_the_api() -> None:
    made = {(call.path, call.method) for call in vars(calls).values() if isinstance(call, calls.Call)}
    assert made == {(path, method) for path, method in OPERATIONS if path.startswith("/v1/")}


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_requests_and_answers_are_as_the_document_says(
    schema: schemathesis.BaseSchema,
    authorized: tuple[Tokens, dict[str, str]],
    path: str,
    method: str,
    mode: GenerationMode,
    request: pytest.FixtureRequest,
) -> None:
    operation: APIOperation[Any, Any, Any, Any] = schema[path][method]
    if (
        mode is GenerationMode.NEGATIVE
        and path
        in (
            _METASTORE,
            _DEFAULT_SCHEMA,
            "/v1/owner",
            "/healthz",
            "/metrics",
            "/v1/tables",
            "/v1/in-doubt",
            "/v1/activity",
            "/api/2.1/unity-catalog/schemas",
            "/api/2.1/unity-catalog/tables",
        )
        and method == "GET"
    ):
        # Nothing can be wrong with a request that says nothing, and little with names: a number is one in a URL.
        mode = GenerationMode("positive")
    examples = 400 if request.config.getoption("--long") else 15

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), database=None)
    @given(case=operation.as_strategy(generation_mode=mode))
    def each(case: schemathesis.Case[Any]) -> None:
        assume(mode is GenerationMode.POSITIVE or _is_wrong(case))
        case.call_and_validate(headers=authorized[1])

    each()


def _is_wrong(case: schemathesis.Case[Any]) -> bool:
    """Whether the server gets something that is wrong: not in the token, which this test sends in place of the case's.

    Nor is it in lists without content and None, which do not stand in a URL.
    """
    values = [
        one for each in (case.query or {}).values() for one in (each if isinstance(each, list) and each else [each])
    ]
    unseen = {ParameterLocation.HEADER, ParameterLocation.COOKIE}
    if any(value is None or value == [] for value in values):
        unseen.add(ParameterLocation.QUERY)
    assert case.meta is not None
    return any(
        part.mode is GenerationMode.NEGATIVE for place, part in case.meta.components.items() if place not in unseen
    )


def test_the_document_names_the_scope_of_each_operation_and_its_greatest_version(
    schema: schemathesis.BaseSchema,
) -> None:
    scopes = _scopes(schema)
    assert scopes["/v1/tables/{table_id}/commits", "POST"] == "commit"
    assert scopes["/v1/tables", "POST"] == "admin"
    assert scopes["/v1/cut", "GET"] == "read"
    assert scopes["/v1/in-doubt", "GET"] == "admin"
    assert {scopes["/v1/activity", "GET"], scopes["/v1/commits", "GET"]} == {"read"}
    assert {scope for (path, _), scope in scopes.items() if path.startswith("/v1/transactions")} == {"commit"}
    assert [key for key, scope in scopes.items() if scope is None] == [("/healthz", "GET")]
    version = schema.raw_schema["components"]["schemas"]["CommitRequest"]["properties"]["version"]
    assert version["maximum"] == GREATEST_VERSION


def test_the_page_on_the_owner_has_each_call_with_its_scope(schema: schemathesis.BaseSchema) -> None:
    page = (Path(__file__).parents[3] / "docs/commit-owner.md").read_text()
    rows = re.findall(r"^\| `(\w+) (\S+)` \| (\w+) \|", page, re.MULTILINE)
    told = {(path, method): scope for method, path, scope in rows}
    assert told == {key: scope for key, scope in _scopes(schema).items() if key[0].startswith(("/v1/", "/api/"))}


def _scopes(schema: schemathesis.BaseSchema) -> dict[tuple[str, str], str | None]:
    """The scope of each operation, by its path and method, as the document has it."""
    return {
        (path, method.upper()): operation.get("x-required-scope")
        for path, methods in schema.raw_schema["paths"].items()
        for method, operation in methods.items()
    }
