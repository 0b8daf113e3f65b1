"""Limits per caller and in total: request rate, body size, and memory for bodies."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
from starlette.requests import ClientDisconnect, Request

from slackwater.errors import CommitOwnerBusy, CommitOwnerUnavailable, InvalidArgument
from slackwater.owner.served.http.body_parser import ValueCount
from slackwater.owner.served.responses import RequestRejected
from slackwater.owner.served.settings import ServedSettings

_MEMORY_OF_BYTE = 8
"""Memory per byte of a body: raw, in text of up to four bytes per character, and in log lines."""
_MEMORY_OF_VALUE_BYTES = 200
_BYTES_OF_VALUE = 32
_FEWEST_VALUES = 1000


class RateLimits:
    """Token buckets per caller: `per_s` requests per second, with a burst of one second."""

    def __init__(self, per_s: float | None, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._per_s = per_s
        self._burst = max(1.0, per_s or 0.0)
        self._monotonic = monotonic
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, caller: str) -> None:
        """Count a request of `caller`, a name of a bounded set. Raises RequestRejected (429) above the limit."""
        if self._per_s is None:
            return
        now = self._monotonic()
        left, since = self._left.get(caller, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._per_s)
        if left < 1.0:
            self._left[caller] = (left, now)
            raise RequestRejected(
                429,
                CommitOwnerBusy(f"more than {self._per_s:g} requests a second of one caller. Send fewer"),
                {"Retry-After": str(math.ceil((1.0 - left) / self._per_s))},
            )
        self._left[caller] = (left - 1.0, now)


class BodyLimits:
    """Reads request bodies within limits of size and total memory."""

    def __init__(self, settings: ServedSettings) -> None:
        self._max_bytes = settings.max_body_bytes
        self._max_values = max(_FEWEST_VALUES, settings.max_body_bytes // _BYTES_OF_VALUE)
        self._max_in_flight = settings.max_bytes_in_flight
        self._timeout_s = settings.body_timeout_s
        self._in_flight = 0

    @asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[bytearray]:
        """Return the body of `request`. Its memory, including parsed values, counts until the context ends.

        Raises:
            RequestRejected: 413 if too large or with too many values, by header or content. 415 if encoded. 408 after a
                timeout. 429 if too much memory is in flight. 400 if the body is incomplete.
        """
        self._check_headers(request)
        held = 0
        try:
            # One buffer, because many small chunks would take more memory.
            body, count = bytearray(), ValueCount()
            try:
                with anyio.fail_after(self._timeout_s):
                    async for chunk in request.stream():
                        self._check_size(len(body) + len(chunk))
                        count.add(chunk)
                        self._check_values(count.values)
                        body += chunk
                        before, held = held, _MEMORY_OF_BYTE * len(body) + _MEMORY_OF_VALUE_BYTES * count.values
                        self._in_flight += held - before
                        self._check_in_flight()
            except TimeoutError as error:
                raise RequestRejected(
                    408, CommitOwnerUnavailable(f"the request's body did not arrive within {self._timeout_s:g} s")
                ) from error
            except ClientDisconnect as error:
                raise RequestRejected(400, CommitOwnerUnavailable("the request ended before its body did")) from error
            yield body
        finally:
            self._in_flight -= held

    def _check_headers(self, request: Request) -> None:
        encoding = request.headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise RequestRejected(415, InvalidArgument("the body must be sent without a Content-Encoding"))
        length = request.headers.get("content-length", "")
        if length.isascii() and length.isdigit():
            self._check_size(int(length))

    def _check_size(self, size_bytes: int) -> None:
        if size_bytes > self._max_bytes:
            raise RequestRejected(
                413, InvalidArgument(f"a request has at most {self._max_bytes} bytes. Commit less at a time")
            )

    def _check_values(self, values: int) -> None:
        if values > self._max_values:
            raise RequestRejected(
                413, InvalidArgument(f"a request has at most {self._max_values} JSON values. Commit less at a time")
            )

    def _check_in_flight(self) -> None:
        if self._in_flight > self._max_in_flight:
            raise RequestRejected(429, CommitOwnerBusy("the commit owner has no memory for more requests"))
