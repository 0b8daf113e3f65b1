"""A server that answers as a test has written down, and a client of it whose time is made up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import orjson

from slackwater.errors import CommitUnknown, SlackwaterError
from slackwater.owner.served.client.deadline import ClientClock
from slackwater.owner.served.client.http_owner import HttpOwner
from slackwater.owner.served.wire.errors import error_to_json, status_of

TOKEN = "slw_" + "s" * 43
Step = Callable[[httpx.Request], httpx.Response] | Exception | httpx.Response


class Script:
    """A server that answers by `steps`, the last of them for ever, and a client of it whose time is made up."""

    def __init__(self, *steps: Step, timeout_s: float = 30.0) -> None:
        self.steps = list(steps)
        self.seen: list[httpx.Request] = []
        self.waits: list[float] = []
        self.now = 1000.0
        self.owner = HttpOwner(
            "https://owner.example:8443/lake",
            TOKEN,
            timeout_s,
            httpx.Client(transport=httpx.MockTransport(self._answer)),
            clock=ClientClock(monotonic=lambda: self.now, sleep=self._sleep, jitter=lambda: 1.0),
        )

    def passes(self, seconds: float, answer: httpx.Response) -> Callable[[httpx.Request], httpx.Response]:
        """The step that answers after `seconds`."""

        def step(request: httpx.Request) -> httpx.Response:
            del request
            self.now += seconds
            return answer

        return step

    @property
    def bodies(self) -> list[Any]:
        return [orjson.loads(request.content) for request in self.seen]

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        step = self.steps[min(len(self.seen), len(self.steps)) - 1]
        if isinstance(step, httpx.TimeoutException):
            self.now += request.extensions["timeout"]["read"]
        if isinstance(step, Exception):
            raise step
        return step if isinstance(step, httpx.Response) else step(request)

    def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


def answered(value: Any, status: int = 200, **headers: str) -> httpx.Response:
    return httpx.Response(status, json=value, headers=headers)


def failed(error: SlackwaterError, **headers: str) -> httpx.Response:
    return answered(error_to_json(error), status_of(error), **headers)


LOST = [
    httpx.ReadError("reset"),
    httpx.WriteError("broken pipe"),
    httpx.RemoteProtocolError("server disconnected without sending a response"),
    httpx.ReadTimeout("timed out"),
    httpx.Response(502, text="bad gateway"),
    httpx.Response(503, text="no upstream"),
    httpx.Response(504, text="gateway time-out"),
    httpx.Response(500, text="<html>"),
    httpx.Response(200, text="<html>captive portal"),
    httpx.Response(200, json=[]),
    failed(CommitUnknown("nobody knows")),
    answered({"error": "NewKindOfUnknown", "message": "x"}, 500),
]
NEVER_SENT = [httpx.ConnectError("refused"), httpx.ConnectTimeout("timed out"), httpx.PoolTimeout("full")]
