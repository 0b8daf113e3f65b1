"""Admission of requests: authentication, scope, rate and size limits, and the mapping of errors to responses."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from anyio import CapacityLimiter, to_thread
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from slackwater.errors import CommitOwnerUnavailable, InvalidArgument, NotAuthorized, SlackwaterError
from slackwater.owner.api.actions import Action
from slackwater.owner.api.field_types import Id, Name
from slackwater.owner.api.wire_model import RequestModel, checked
from slackwater.owner.served.access.permissions import Principal, Scope, table_name
from slackwater.owner.served.client.addresses import is_loopback
from slackwater.owner.served.http.body_parser import BodyParser
from slackwater.owner.served.http.limits import BodyLimits, RateLimits
from slackwater.owner.served.request_observer import Observation, observation
from slackwater.owner.served.responses import RequestRejected, error_response
from slackwater.owner.served.settings import ServedSettings
from slackwater.owner.served.tokens import Tokens
from slackwater.owner.served.unity.errors import is_unity, unity_error
from slackwater.owner.served.wire.errors import INTERNAL
from slackwater.owner.state.commit_content import made_by

if TYPE_CHECKING:
    from slackwater.owner.served.access.identity_provider import IdentityProvider

SCOPE = "x-required-scope"
"""Key of a route's required scope in the OpenAPI document. A route without the key needs no token."""

_MOST_FAULTS = 5
_VERIFYING = 8
_INVALID_TOKEN = {"WWW-Authenticate": 'Bearer error="invalid_token"'}
_GRANTED = "slackwater.granted"
_ANYBODY = Principal("anybody", frozenset({Scope.ADMIN}))
_log = logging.getLogger(__name__)


class Admission:
    """Admits requests. Without `tokens`, every client on this machine has full access."""

    def __init__(
        self, tokens: Tokens | None, settings: ServedSettings, provider: IdentityProvider | None = None
    ) -> None:
        self._tokens = tokens
        self._provider = provider
        # Separate threads, because a slow identity provider must not delay own tokens.
        self._verifying = CapacityLimiter(_VERIFYING)
        self._rates = RateLimits(settings.rate_per_s)
        self.bodies = BodyLimits(settings)
        self.parser = BodyParser()

    async def admit(self, request: Request, scope: Scope) -> Principal:
        """Return the principal of the request.

        Raises RequestRejected: 401 without a valid token, 403 if the token lacks `scope`, 429 above the rate limit.
        """
        granted = _local(request) if self._tokens is None else await self._authorized(request, self._tokens)
        # Before the checks, so that the logs name the caller of a rejected request.
        observation(request.scope).caller = granted.name
        self._rates.take(granted.name)
        if not granted.allows(scope):
            raise RequestRejected(
                403,
                NotAuthorized(
                    f"the token {granted.name!r} lacks the scope {scope.value!r}. Request a token with that scope"
                ),
            )
        return granted

    async def _authorized(self, request: Request, tokens: Tokens) -> Principal:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise RequestRejected(
                401,
                NotAuthorized("the request has no token. Send it as 'Authorization: Bearer …'"),
                {"WWW-Authenticate": "Bearer"},
            )
        if self._provider is not None and self._provider.is_jwt(token):
            return await self._verified(self._provider, token)
        granted = tokens.recent(token)
        return await _looked_up(tokens, token) if granted is None else granted

    async def _verified(self, provider: IdentityProvider, token: str) -> Principal:
        granted = provider.recent(token)
        if granted is not None:
            return granted
        try:
            return await to_thread.run_sync(provider.authorize, token, limiter=self._verifying)
        except NotAuthorized as error:
            raise RequestRejected(401, error, _INVALID_TOKEN) from error


def guarded_route(gate: Admission) -> type[APIRoute]:
    """Return a route class: `gate` checks every request before its body is read."""

    class GuardedRoute(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            answer = super().get_route_handler()
            needed = (self.openapi_extra or {}).get(SCOPE)
            scope = None if needed is None else Scope(needed)
            kind = None if self.body_field is None else cast(type[RequestModel], self.body_field.field_info.annotation)

            async def pass_gate(request: Request) -> Response:
                seen = observation(request.scope)
                if scope is not None:
                    _note_subject(seen, request.path_params)
                    request.scope[_GRANTED] = await gate.admit(request, scope)
                    _require_once(request)
                if kind is None:
                    return await answer(request)
                async with gate.bodies.body(request) as body:
                    parsed = await gate.parser.parsed(body, kind, request.path_params)
                    return await answer(_ReadRequest(request, body, parsed))

            async def handle(request: Request) -> Response:
                observation(request.scope).route = self.path
                try:
                    return await pass_gate(request)
                except Exception as error:  # noqa: BLE001 - every error has a response
                    return answered(request, error)

            return handle

    return GuardedRoute


def _note_subject(seen: Observation, path_params: Mapping[str, str]) -> None:
    """Record the table or transaction in the path for the log, if the id or the name is well-formed."""
    with suppress(InvalidArgument):
        if "table_id" in path_params:
            seen.versions = {checked(Id, "table id", path_params["table_id"]): None}
        if "txn_id" in path_params:
            seen.transaction = checked(Id, "transaction id", path_params["txn_id"])
        if "name" in path_params:
            seen.names = [checked(Name, "table's name", path_params["name"])]
        if "schema" in path_params and "table" in path_params:
            named = table_name(path_params["schema"], path_params["table"])
            seen.names = [checked(Name, "table's name", named)]


def _require_once(request: Request) -> None:
    """Reject a query with a repeated parameter, because only the last value would be used.

    Raises RequestRejected.
    """
    names = [name for name, _ in request.query_params.multi_items()]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise RequestRejected(422, InvalidArgument(f"the query has {twice[:60]!r} more than once. Send it once"))


def granted_to(request: Request) -> Principal:
    """Return the principal of an admitted `request`."""
    found: Principal = request.scope[_GRANTED]
    return found


def signed(request: Request, actions: Sequence[Action]) -> Sequence[Action]:
    """Return `actions` with the name of the sender's token in the commit history. Unchanged without tokens."""
    granted = granted_to(request)
    return actions if granted is _ANYBODY else made_by(actions, granted.name)


def answered(request: Request, error: Exception) -> Response:
    """Return the error response for `request`. Details of unexpected errors are only logged."""
    status, headers = None, None
    if isinstance(error, RequestRejected):
        ours, status, headers = error.error, error.status, error.headers
    elif isinstance(error, RequestValidationError):
        ours, status = InvalidArgument(_faults(error)), 422
    elif isinstance(error, SlackwaterError):
        ours = error
    else:
        _log.error("a request failed", exc_info=error)
        ours, status = SlackwaterError("the commit owner failed. Its log contains the cause"), INTERNAL
    observation(request.scope).error = type(ours).__name__
    path = request.scope["path"]
    if is_unity(path):
        body, status = unity_error(path, ours, status)
        return error_response(ours, status, headers, body)
    return error_response(ours, status, headers)


class _ReadRequest(Request):
    """A request with its body already read, parsed and validated."""

    def __init__(self, request: Request, body: bytearray, parsed: RequestModel | None) -> None:
        super().__init__(request.scope, request.receive)
        self._read = body
        self._parsed = parsed

    async def body(self) -> Any:
        return self._read

    async def json(self) -> Any:
        return self._parsed


async def _looked_up(tokens: Tokens, token: str) -> Principal:
    try:
        granted = await to_thread.run_sync(tokens.authorize, token)
    except CommitOwnerUnavailable as error:
        # The caller is not authenticated yet, so the response has no details.
        _log.warning("tokens cannot be looked up: %s", error)
        raise RequestRejected(
            503, CommitOwnerUnavailable("the commit owner cannot look up tokens now. Retry later")
        ) from error
    if granted is None:
        raise RequestRejected(
            401, NotAuthorized("the token is unknown, revoked or expired. Request a new one"), _INVALID_TOKEN
        )
    return granted


def _local(request: Request) -> Principal:
    # Check the host, because a web page in a local browser may reach the server under a foreign name (DNS rebinding).
    try:
        host = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    except ValueError:
        host = ""
    if not is_loopback(host):
        raise RequestRejected(403, NotAuthorized("a server without tokens accepts only requests from localhost"))
    return _ANYBODY


def _faults(error: RequestValidationError) -> str:
    """Return the errors with their locations, without the request's content."""
    found = error.errors()
    said = [f"{'.'.join(str(part) for part in fault['loc'])}: {fault['msg']}" for fault in found[:_MOST_FAULTS]]
    more = f" and {len(found) - _MOST_FAULTS} more" if len(found) > _MOST_FAULTS else ""
    return f"the request cannot be understood: {'; '.join(said)}{more}"
