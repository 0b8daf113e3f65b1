"""Observations of requests for the access log and the metrics. They never include tokens or content."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

UNMATCHED = "unmatched"

_KEY = "slackwater.observation"


@dataclass(slots=True)
class Observation:
    """Facts of one request: `route` is the path template, `caller` the token name, `error` the error class.

    `transaction` is the id of its transaction or single commit. `versions` has the committed versions by table id, None
    for a table without a new version. `used` has the ids of further tables that the request reads, locks or reserves,
    `names` the names of tables in the request.
    """

    method: str
    path: str
    client: str
    route: str = UNMATCHED
    caller: str | None = None
    error: str | None = None
    status: int = 500
    received_bytes: int = 0
    sent_bytes: int = 0
    seconds: float = 0.0
    transaction: str | None = None
    versions: dict[str, int | None] = field(default_factory=dict)
    used: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)


class ObserverMiddleware:
    """ASGI middleware that reports every request to `observers` after its response."""

    def __init__(
        self,
        app: ASGIApp,
        observers: Sequence[Callable[[Observation], None]],
        monotonic: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._app = app
        self._observers = observers
        self._monotonic = monotonic

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Observe one request. Source: ASGI specification, HTTP connection scope."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        client = scope.get("client")
        seen = Observation(scope["method"], scope["path"], client[0] if client else "")
        scope[_KEY] = seen
        started = self._monotonic()

        async def receiving() -> Message:
            message = await receive()
            seen.received_bytes += len(message.get("body", b""))
            return message

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                seen.status = message["status"]
            seen.sent_bytes += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receiving, sending)
        finally:
            seen.seconds = self._monotonic() - started
            for observer in self._observers:
                observer(seen)


def observation(scope: Scope) -> Observation:
    """Return the mutable observation of the request."""
    found: Observation = scope[_KEY]
    return found
