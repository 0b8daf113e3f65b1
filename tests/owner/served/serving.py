"""A real server in a thread of this process, on a free port, and requests to make of it."""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx
from starlette.types import ASGIApp

from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.api.commits import CommitRequest, CommitResponse, OwnershipProposal
from slackwater.owner.served.server import Binding, OwnerServer
from slackwater.owner.served.settings import ServedSettings
from slackwater.owner.served.tokens import Tokens

_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def address_of(url: str) -> tuple[str, int]:
    """Host and port of a server."""
    place = urlsplit(url)
    assert place.hostname is not None
    assert place.port is not None
    return place.hostname, place.port


@contextmanager
def served(
    owner: CommitOwner,
    tokens: Tokens | None = None,
    settings: ServedSettings | None = None,
    binding: Binding | None = None,
) -> Iterator[str]:
    """The URL of a server of `owner`; it has ended, and closed the owner, when the context has."""
    server = OwnerServer(owner, tokens, binding or Binding(port=0), settings)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server.url
    finally:
        server.stop()
        thread.join()


class AppClient:
    """Requests to an application in this process, without a server; `headers` go with each."""

    def __init__(self, app: ASGIApp, headers: Mapping[str, str] | None = None) -> None:
        self._app = app
        self._headers = headers

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self._app, raise_app_exceptions=False)
            async with httpx.AsyncClient(
                transport=transport, base_url="http://127.0.0.1", headers=self._headers
            ) as client:
                return await client.request(method, path, **options)

        return anyio.run(ask)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.request("POST", path, **options)


def new_id() -> str:
    return str(uuid.uuid4())


def id_of_a_test(value: Any) -> str:
    """What names a test with this parameter: the same in each process, hence without ids that are made anew."""
    return _UUID.sub("ID", str(value))[:80]


def commit_request(table_id: str, version: int, **fields: Any) -> CommitRequest:
    commit_id = new_id()
    actions = [{"commitInfo": {"operation": "WRITE", "txnId": commit_id}}, {"add": {"path": f"f{version}", "size": 1}}]
    return CommitRequest(table_id, **{"commit_id": commit_id, "version": version, "actions": actions, **fields})


def proposal(name: str, version: int = 0) -> OwnershipProposal:
    table_id, commit_id = new_id(), new_id()
    actions = [{"commitInfo": {"txnId": commit_id}}, {"metaData": {"id": table_id}}]
    previous_ms = None if version == 0 else 1_600_000_000_000
    return OwnershipProposal(table_id, name, f"file:///lake/{name}", commit_id, version, actions, previous_ms)


def taken(owner: CommitOwner, name: str = "flights") -> str:
    """The id of a new table that `owner` owns at version 0."""
    asked = proposal(name)
    answer = owner.take(asked)
    assert isinstance(answer, CommitResponse)
    return asked.table_id


def eventually_ready(url: str) -> None:
    """Return as soon as a server answers at `url`."""
    end = time.monotonic() + 30
    while True:
        try:
            httpx.get(url, timeout=5)
        except httpx.HTTPError:
            assert time.monotonic() < end, "no server answers"
            time.sleep(0.02)
        else:
            return
