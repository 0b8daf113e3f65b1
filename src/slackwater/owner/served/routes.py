"""Routes of a served owner. Each converts a request to a call of the owner, and the result to JSON."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.api.commits import (
    CommitConflict,
    CommitRequest,
    CommitResponse,
    GetCommitsResponse,
    ManagedTable,
    OwnershipProposal,
)
from slackwater.owner.api.field_types import ID_PATTERN, NAME_PATTERN
from slackwater.owner.api.monitoring import Activity
from slackwater.owner.api.transactions import TransactionConflict
from slackwater.owner.api.wire_model import WireModel, adapter
from slackwater.owner.served.access.granted_owner import GrantedOwner, TableNames, owner_for
from slackwater.owner.served.access.permissions import Scope
from slackwater.owner.served.admission import SCOPE, granted_to, signed
from slackwater.owner.served.metrics import CONTENT_TYPE, Metrics
from slackwater.owner.served.request_observer import observation
from slackwater.owner.served.responses import json_response
from slackwater.owner.served.transaction_ownership import TransactionOwners
from slackwater.owner.served.unity.errors import DeltaError, DeltaErrorAnswer, UnityErrorAnswer
from slackwater.owner.served.wire import calls
from slackwater.owner.served.wire.calls import Call
from slackwater.owner.served.wire.queries import CommitsQuery, RecentCommitsQuery
from slackwater.owner.served.worker_pools import WorkerPools

A = TypeVar("A", bound=WireModel)
R = TypeVar("R", CommitRequest, OwnershipProposal)

BEARER = "bearer"
"""Name of the security scheme in the OpenAPI document."""

TableId = Annotated[str, Path(pattern=ID_PATTERN, description="The table's UUID.")]
TableName = Annotated[str, Path(pattern=NAME_PATTERN, description="The table's name.")]

_MEANINGS = {
    400: "The owner refuses what was asked (InvalidArgument, PathNotAllowed), or its body broke off.",
    401: "No token, or one that is unknown, revoked or expired (NotAuthorized).",
    403: "The token lacks the scope or a grant, or the transaction was opened with another token (NotAuthorized).",
    404: "The owner does not know the table (TableNotFound), or the instant has not come (TimestampOutOfRange).",
    408: "The body did not come in time (CommitOwnerUnavailable).",
    409: "Another commit or transaction is in the way, or what the table is like forbids it.",
    413: "The body is too large (InvalidArgument).",
    415: "The body is encoded (InvalidArgument).",
    422: "The request is not what this document describes (InvalidArgument).",
    429: "Too many requests, or too many commits wait (CommitOwnerBusy); Retry-After says for how long.",
    500: "The store, or the owner itself, failed; a commit does not count.",
    503: "The owner's database does not answer (CommitOwnerUnavailable).",
    504: "The outcome of the commit is unknown (CommitUnknown). Repeat the request with isReplay.",
}
_READ = (401, 403, 422, 429, 500, 503)
_BODY = (400, 408, 413, 415)
SHOWN = (calls.ErrorAnswer, DeltaErrorAnswer, DeltaError, UnityErrorAnswer, CommitConflict, TransactionConflict)
"""Response types other than 200. Defined once in the OpenAPI document instead of once per route."""


@dataclass(frozen=True, slots=True)
class Service:
    """Dependencies of the routes. `credentials` are storage options given out to clients, empty for none."""

    unrestricted_owner: CommitOwner
    names: TableNames
    workers: WorkerPools
    metrics: Metrics
    public_metrics: bool
    openers: TransactionOwners
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)

    def owner_for(self, request: Request) -> CommitOwner:
        """Return the owner as far as the grants of the sender of `request` permit. Use no other owner for a request."""
        return owner_for(self.unrestricted_owner, granted_to(request), self.names)

    async def require_readable(self, request: Request, table_id: str) -> None:
        """Raise TableNotFound if the sender of `request` has grants, and none to read the table."""
        owner = self.owner_for(request)
        if isinstance(owner, GrantedOwner):
            await self.workers.look(owner.require, Scope.READ, [table_id])


def route(
    router: APIRouter,
    call: Call[A],
    scope: Scope,
    *statuses: int,
    own: Mapping[int, dict[str, Any]] | None = None,
    error: type[WireModel] = calls.ErrorAnswer,
) -> Callable[[Callable[..., Awaitable[A]]], None]:
    """Return the decorator for the route of `call`. The decorated function returns the value of the response.

    The route has the statuses of a read, of a body and of conflicts, `statuses`, and `own` with its descriptions.
    `error` is the form of its errors.
    """

    def add(handle: Callable[..., Awaitable[A]]) -> None:
        conflict = call.conflict
        found = {*_READ, *statuses, *(_BODY if "body" in handle.__annotations__ else ())}
        if conflict is not None:
            found |= {409, 504} if call.is_commit else {409}
        shown = _described(scope, found, error)
        if conflict is not None:
            shown["responses"][409] = answer(_MEANINGS[409], conflict, error)
        shown["responses"].update(own or {})

        @functools.wraps(handle)
        async def respond(**asked: Any) -> Response:
            value = await handle(**asked)
            is_conflict = conflict is not None and isinstance(value, conflict)
            return json_response(value.to_json(), 409 if is_conflict else 200)

        # Evaluated here, because FastAPI would look for the names of the annotations in this module.
        signature = inspect.signature(handle, eval_str=True)
        for kind in [call.answer, *(each.annotation for each in signature.parameters.values())]:
            if isinstance(kind, type) and issubclass(kind, WireModel):
                adapter(kind)
        respond.__signature__ = signature  # type: ignore[attr-defined]
        router.add_api_route(call.path, respond, methods=[call.method], response_model=call.answer, **shown)

    return add


def answer(description: str, *kinds: type[WireModel]) -> dict[str, Any]:
    """Return the OpenAPI description of a response with one of `kinds`, all in SHOWN."""
    refs = [{"$ref": f"#/components/schemas/{kind.__name__}"} for kind in kinds]
    schema = refs[0] if len(refs) == 1 else {"anyOf": refs}
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def described(scope: Scope | None, *statuses: int, error: type[WireModel] = calls.ErrorAnswer) -> dict[str, Any]:
    """Return the OpenAPI entry of a reading route: its scope, and its responses other than 200, with `statuses`.

    `error` is the form of its errors.
    """
    return _described(scope, {*_READ, *statuses}, error)


def _described(
    scope: Scope | None, statuses: Iterable[int], error: type[WireModel] = calls.ErrorAnswer
) -> dict[str, Any]:
    """Return the OpenAPI entry of a route: its scope, and its responses other than 200."""
    responses: dict[int | str, dict[str, Any]] = {
        status: answer(_MEANINGS[status], error) for status in sorted(statuses)
    }
    responses["default"] = answer("Another error of Slackwater.", error)
    found: dict[str, Any] = {"responses": responses}
    if scope is not None:
        found["openapi_extra"] = {SCOPE: scope.value, "security": [{BEARER: []}]}
    return found


def add_tables(router: APIRouter, service: Service) -> None:
    """Add the routes of tables and their commits to `router`."""
    workers, owner_of = service.workers, service.owner_for

    @route(router, calls.GET_OWNER, Scope.READ)
    async def get_owner(request: Request) -> calls.OwnerInfo:
        """Return the identity of this owner."""
        return calls.OwnerInfo(await workers.look(lambda: owner_of(request).owner_id))

    @route(router, calls.LIST_TABLES, Scope.READ)
    async def list_tables(request: Request) -> calls.TablesResponse:
        """Return the tables of this owner by name, including proposed and releasing tables."""
        return calls.TablesResponse(await workers.look(owner_of(request).tables))

    @route(router, calls.GET_TABLE, Scope.READ, 404)
    async def get_table(request: Request, name: TableName) -> ManagedTable:
        """Return the table with this name."""
        return await workers.look(owner_of(request).table, name)

    @route(router, calls.TAKE_TABLE, Scope.ADMIN, 404)
    async def take_table(request: Request, body: OwnershipProposal) -> CommitResponse | CommitConflict:
        """Acquire ownership of a table by the proposed commit. 409 with `latestVersion` if the version exists."""
        observation(request.scope).names = [body.name]
        return await _ratified(request, service, owner_of(request).take, body)

    @route(router, calls.COMMIT, Scope.COMMIT, 404)
    async def commit(request: Request, table_id: TableId, body: CommitRequest) -> CommitResponse | CommitConflict:
        """Commit the actions to the table. 409 with `latestVersion` if another commit has the version."""
        del table_id  # part of the body
        return await _ratified(request, service, owner_of(request).commit, body)

    @route(router, calls.GET_COMMITS, Scope.READ, 404)
    async def get_commits(
        request: Request, table_id: TableId, asked: Annotated[CommitsQuery, Query()]
    ) -> GetCommitsResponse:
        """Return the unbackfilled commits of the range, and the latest version."""
        return await workers.look(
            owner_of(request).get_commits, table_id, asked.start_version, asked.end_version, asked.with_data
        )

    @route(router, calls.BACKFILL, Scope.COMMIT, 404, 409)
    async def backfill(request: Request, table_id: TableId, body: calls.BackfillRequest) -> calls.BackfillAnswer:
        """Copy ratified commits to `_delta_log`, and return the latest backfilled version."""
        return calls.BackfillAnswer(await workers.settle(owner_of(request).backfill_to_version, table_id, body.version))

    @route(router, calls.RELEASE, Scope.ADMIN, 404)
    async def release(request: Request, table_id: TableId, body: CommitRequest) -> CommitResponse | CommitConflict:
        """Release the table to the file system, by a commit without the ownership."""
        del table_id  # part of the body
        return await _ratified(request, service, owner_of(request).release, body)


def add_operations(router: APIRouter, service: Service) -> None:
    """Add the routes of operation and monitoring to `router`. No decision depends on the monitoring."""
    workers, owner_of = service.workers, service.owner_for

    @route(router, calls.REPAIR, Scope.ADMIN, 404, 409)
    async def repair(request: Request, body: calls.RepairRequest) -> calls.RepairAnswer:
        """Complete interrupted operations and delete unneeded files, in one table or all."""
        observation(request.scope).used = [] if body.table_id is None else [body.table_id]
        return calls.RepairAnswer(await workers.settle(owner_of(request).repair, body.table_id))

    @router.get(
        "/healthz",
        response_model=calls.HealthAnswer,
        responses={503: {"model": calls.HealthAnswer, "description": "The owner does not answer."}},
    )
    async def health() -> Response:
        """Return whether the owner responds, without further data."""
        if await workers.is_well(service.unrestricted_owner.tables):
            return json_response(calls.HealthAnswer("ok").to_json())
        return json_response(calls.HealthAnswer("unavailable").to_json(), 503)

    shown = _described(None if service.public_metrics else Scope.READ, _READ)
    shown["responses"][200] = {"content": {"text/plain": {"schema": {"type": "string"}}}}

    @router.get("/metrics", response_class=Response, **shown)
    async def get_metrics(request: Request) -> Response:
        """Return the metrics for Prometheus, without tables that the token may not read."""
        is_shown = None if service.public_metrics else functools.partial(granted_to(request).may, Scope.READ)
        return Response(await workers.look(service.metrics.exposition, is_shown), media_type=CONTENT_TYPE)

    @route(router, calls.GET_ACTIVITY, Scope.READ)
    async def get_activity(request: Request) -> Activity:
        """Return open transactions, locks and waits, timestamp reservations, and the read timestamp table."""
        return await workers.look(owner_of(request).activity)

    @route(router, calls.GET_RECENT_COMMITS, Scope.READ)
    async def get_recent_commits(
        request: Request, asked: Annotated[RecentCommitsQuery, Query()]
    ) -> calls.RecentCommitsAnswer:
        """Return the latest commits of all tables, newest first, with facts from their `commitInfo`."""
        return calls.RecentCommitsAnswer(await workers.look(owner_of(request).recent_commits, asked.limit))


async def _ratified(
    request: Request, service: Service, call: Callable[[R], CommitResponse | CommitConflict], asked: R
) -> CommitResponse | CommitConflict:
    asked = replace(asked, actions=signed(request, asked.actions))
    seen = observation(request.scope)
    seen.transaction, seen.versions = asked.commit_id, {asked.table_id: None}
    outcome = await service.workers.ratify(call, asked)
    version = outcome.commit.version if isinstance(outcome, CommitResponse) else None
    seen.versions = {asked.table_id: version}
    service.metrics.count_commit(version is not None)
    return outcome
