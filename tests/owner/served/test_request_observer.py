from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import orjson
import pytest

from slackwater.errors import CommitOwnerUnavailable
from slackwater.owner.api.commits import ManagedTable
from slackwater.owner.database.database import Database
from slackwater.owner.served.access.permissions import Scope
from slackwater.owner.served.app import create_app
from slackwater.owner.served.http.access_log import JsonLines, log_to
from slackwater.owner.served.tokens import Tokens
from tests.owner.served.memory_owner import MemoryOwner
from tests.owner.served.serving import AppClient, new_id, taken


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """What the server says; the loggers are as before afterwards."""
    loggers = [logging.getLogger(name) for name in ("slackwater", "uvicorn")]
    before = [(logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    stream = io.StringIO()
    log_to(stream)
    yield stream
    for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
        logger.handlers[:] = handlers
        logger.setLevel(level)
        logger.propagate = propagate


def _body(version: int) -> dict[str, object]:
    return {"commitId": new_id(), "version": version, "actions": [{"commitInfo": {"userName": "confidential"}}]}


def test_a_request_is_one_line_of_json_without_token_and_content(
    log: io.StringIO, tmp_path_factory: pytest.TempPathFactory
) -> None:
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('tokens')}/owner.db")
    tokens = Tokens(database)
    token = tokens.create("writer", [Scope.ADMIN])
    owner = MemoryOwner()
    table_id = taken(owner)
    client = AppClient(create_app(owner, tokens), {"Authorization": f"Bearer {token}"})
    client.post(f"/v1/tables/{table_id}/commits", json=_body(1))
    client.get(f"/v1/tables/{table_id}/commits?startVersion=0&token={token}")
    client.get("/nothing%0a%1b[31mthere")
    database.close()
    text = log.getvalue()
    assert token not in text
    assert "confidential" not in text
    lines = [orjson.loads(line) for line in text.splitlines()]
    assert [(line["method"], line["route"], line["status"], line["caller"], line["error"]) for line in lines] == [
        ("POST", "/v1/tables/{table_id}/commits", 200, "writer", None),
        ("GET", "/v1/tables/{table_id}/commits", 422, "writer", "InvalidArgument"),
        ("GET", "unmatched", 404, None, "UnsupportedFeature"),
    ]
    first = lines[0]
    assert first["path"] == f"/v1/tables/{table_id}/commits"
    assert first["receivedBytes"] > 100
    assert first["sentBytes"] > 100
    assert first["durationMs"] > 0
    assert first["event"] == "request"


def test_what_fails_inside_is_logged_in_full_on_one_line(log: io.StringIO) -> None:
    class Broken(MemoryOwner):
        def tables(self) -> list[ManagedTable]:
            raise RuntimeError("the reason")

    answer = AppClient(create_app(Broken(), None)).get("/v1/tables")
    assert answer.status_code == 500
    failure, request = (orjson.loads(line) for line in log.getvalue().splitlines())
    assert failure["level"] == "error"
    assert "RuntimeError: the reason" in failure["exception"]
    assert (request["status"], request["error"]) == (500, "SlackwaterError")


def test_a_line_that_is_no_text_is_logged_all_the_same() -> None:
    record = logging.LogRecord("x", logging.INFO, "", 0, "path \ud800", (), None)
    assert orjson.loads(JsonLines().format(record))["event"] == "'path \\ud800'"


def test_metrics_count_requests_commits_and_conflicts_and_name_the_backlog() -> None:
    owner = MemoryOwner()
    table_id = taken(owner)
    client = AppClient(create_app(owner, None))
    for version in (1, 2, 2):
        client.post(f"/v1/tables/{table_id}/commits", json=_body(version))
    client.request("BREW", "/v1/tables")
    client.get("/nothing/there")
    lines = client.get("/metrics").text.splitlines()
    route = 'route="/v1/tables/{table_id}/commits"'
    assert f'slackwater_requests_total{{method="POST",{route},status="200"}} 2.0' in lines
    assert f'slackwater_requests_total{{method="POST",{route},status="409"}} 1.0' in lines
    assert 'slackwater_requests_total{method="other",route="unmatched",status="405"} 1.0' in lines
    assert 'slackwater_requests_total{method="GET",route="unmatched",status="404"} 1.0' in lines
    assert f'slackwater_request_seconds_count{{method="POST",{route}}} 3.0' in lines
    assert "slackwater_commits_total 2.0" in lines
    assert "slackwater_commit_conflicts_total 1.0" in lines
    assert 'slackwater_unbackfilled_commits{table="flights"} 3.0' in lines
    assert "slackwater_owner_up 1.0" in lines
    owner.backfill_to_version(table_id)
    assert 'slackwater_unbackfilled_commits{table="flights"} 0.0' in client.get("/metrics").text.splitlines()


def test_metrics_say_that_the_owner_does_not_answer() -> None:
    class Gone(MemoryOwner):
        def tables(self) -> list[ManagedTable]:
            raise CommitOwnerUnavailable("no database")

    answer = AppClient(create_app(Gone(), None)).get("/metrics")
    assert answer.status_code == 200
    assert "slackwater_owner_up 0.0" in answer.text.splitlines()


def test_two_applications_count_for_themselves() -> None:
    for _ in range(2):
        client = AppClient(create_app(MemoryOwner(), None))
        client.get("/v1/tables")
        assert (
            'slackwater_requests_total{method="GET",route="/v1/tables",status="200"} 1.0' in client.get("/metrics").text
        )
