"""Who a served owner with tokens says made a commit: the token, whatever the client says; and what the log tells."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

import slackwater
from slackwater.lake.lake import LogLake
from slackwater.log.table_detail import describe_history
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.served.access.permissions import Scope
from slackwater.owner.served.http.access_log import log_to
from slackwater.owner.served.tokens import Tokens
from slackwater.protocol.schema.schema import LONG, StructField, StructType
from slackwater.scan.snapshot import Snapshot
from tests.owner.served.serving import served

SCHEMA = StructType((StructField("id", LONG),))
Lines = list[dict[str, object]]


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """What the server says; the loggers are as before afterwards."""
    loggers = [logging.getLogger(name) for name in ("slackwater", "uvicorn", "asyncio")]
    before = [(logger.handlers[:], logger.level, logger.propagate) for logger in loggers]
    stream = io.StringIO()
    log_to(stream)
    yield stream
    for logger, (handlers, level, propagate) in zip(loggers, before, strict=True):
        logger.handlers[:] = handlers
        logger.setLevel(level)
        logger.propagate = propagate


@dataclass
class Serving:
    """A served lake with tokens, or without where `tokens` is None."""

    url: str
    tokens: Tokens | None

    def lake(self, name: str) -> LogLake:
        return LogLake.connect(self.url, None if self.tokens is None else self.tokens.create(name, [Scope.ADMIN]))


@pytest.fixture(params=[True, False], ids=["tokens", "no-tokens"])
def serving(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Serving]:
    owner = EmbeddedOwner.open(tmp_path / "lake")
    tokens = Tokens(owner.database) if request.param else None
    with served(owner, tokens) as url:
        yield Serving(url, tokens)


def _write(lake: LogLake, *names: str) -> None:
    with lake.transaction() as tx:
        for name in names:
            work = tx.log(name)
            work.set_transaction("together", 1)
            work.commit("WRITE", user_name="mallory")


def _alone(lake: LogLake, name: str) -> None:
    work = slackwater.Transaction(lake.snapshot(name))
    work.set_transaction("alone", 1)
    work.commit("WRITE", user_name="mallory")


def test_the_history_names_the_token_and_without_tokens_who_the_client_says(serving: Serving, tmp_path: Path) -> None:
    with serving.lake("loader") as lake:
        for name in ("a", "b"):
            lake._create_log(name, SCHEMA, location=tmp_path / "lake" / name, user_name="mallory")
        _write(lake, "a", "b")
        _alone(lake, "a")
    with serving.lake("colleague") as lake:
        _alone(lake, "b")
        told = [(set(commit.commits), {c.user_name for c in commit.commits.values()}) for commit in lake.history()]
        ids = {row["userId"] for row in describe_history(lake.snapshot("a"))}
        lake.release("a")
        path = tmp_path / "lake" / "a"
    loader, colleague = ("loader", "colleague") if serving.tokens else ("mallory", "mallory")
    assert told == [
        ({"b"}, {colleague}),
        ({"a"}, {loader}),
        ({"a", "b"}, {loader}),
        ({"b"}, {loader}),
        ({"a"}, {loader}),
    ]
    if serving.tokens:
        assert ids == {"loader"}
        assert describe_history(Snapshot.load(path))[0]["userName"] == "colleague"


def test_the_log_has_table_version_and_transaction(log: io.StringIO, tmp_path: Path) -> None:
    owner = EmbeddedOwner.open(tmp_path / "lake")
    tokens = Tokens(owner.database)
    with (
        served(owner, tokens) as url,
        LogLake.connect(url, tokens.create("loader", [Scope.ADMIN])) as lake,
    ):
        for name in ("a", "b"):
            lake._create_log(name, SCHEMA, location=tmp_path / "lake" / name)
        ids = {table.name: table.table_id for table in lake.tables()}
        _write(lake, "a", "b")
        _alone(lake, "a")
        last = lake.history(1)[0]
    lines: Lines = [line for line in map(orjson.loads, log.getvalue().splitlines()) if line.get("event") == "request"]
    posts = [line for line in lines if line["method"] == "POST" and line["status"] == 200]
    taken = [line for line in posts if line["route"] == "/v1/tables"]
    assert [(line["table"], line["version"]) for line in taken] == [(ids["a"], 0), (ids["b"], 0)]
    (both,) = [line for line in posts if line["route"] == "/v1/transactions"]
    assert (both["table"], both["version"], both["versions"]) == (None, None, {ids["a"]: 1, ids["b"]: 1})
    (alone,) = [line for line in posts if line["route"] == "/v1/tables/{table_id}/commits"]
    assert (alone["table"], alone["version"], alone["transaction"]) == (ids["a"], 2, last.transaction_id)
    assert {line["caller"] for line in posts} == {"loader"}
    looked = [line for line in lines if line["route"] == "/v1/tables/{table_id}/commits" and line["method"] == "GET"]
    assert {(line["table"], line["version"]) for line in looked} <= {(ids["a"], None), (ids["b"], None)}
