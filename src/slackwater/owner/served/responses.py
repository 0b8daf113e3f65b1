"""JSON responses of the server, including rejected requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import Response

from slackwater.errors import SlackwaterError
from slackwater.owner.served.wire.errors import error_to_json, status_of

BUSY_WAIT_S = 1
"""Default value of `Retry-After` in seconds."""


class RequestRejected(Exception):
    """Rejection of a request by the server, without a call of the owner: `error` with a status and headers."""

    def __init__(self, status: int, error: SlackwaterError, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(str(error))
        self.status = status
        self.error = error
        self.headers = headers


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return `value` in a JSON response. Intermediaries must not cache it."""
    return Response(
        orjson.dumps(value), status, {"Cache-Control": "no-store", **(headers or {})}, media_type="application/json"
    )


def error_response(
    error: SlackwaterError,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
    body: Mapping[str, Any] | None = None,
) -> Response:
    """Return the response for `error`, with its status and JSON form, or `status` and `body`.

    Responses 429 and 503 have `Retry-After`.
    """
    status = status_of(error) if status is None else status
    if status in (429, 503):
        headers = {"Retry-After": str(BUSY_WAIT_S), **(headers or {})}
    return json_response(error_to_json(error) if body is None else body, status, headers)
