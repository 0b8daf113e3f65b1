"""Routes of a served owner. Each converts a request to a call of the owner, and the result to JSON."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from fastapi.types import DecoratedCallable
from starlette.requests import Request
from starlette.responses import Response

from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.api.commits import (
    CommitConflict,
    CommitRequest,
    CommitResponse,
    OwnershipProposal,
)
from slackwater.owner.api.field_types import ID_PATTERN, NAME_PATTERN
from slackwater.owner.api.transactions import TransactionConflict
from slackwater.owner.api.wire_model import ResponseModel
from slackwater.owner.served.admission import SCOPE, Admission, guarded_route, signed
from slackwater.owner.served.metrics import CONTENT_TYPE, Metrics
from slackwater.owner.served.request_observer import observation
from slackwater.owner.served.responses import json_response
from slackwater.owner.served.tokens import Scope
from slackwater.owner.served.transaction_ownership import TransactionOwners
from slackwater.owner.served.wire import calls
from slackwater.owner.served.wire.calls import (
    BackfillAnswer,
    BackfillRequest,
    Call,
    ErrorAnswer,
    HealthAnswer,
    OwnerInfo,
    RecentCommitsAnswer,
    RepairAnswer,
    RepairRequest,
    TablesResponse,
)
from slackwater.owner.served.wire.queries import CommitsQuery, RecentCommitsQuery
from slackwater.owner.served.worker_pools import WorkerPools

BEARER = "bearer"
"""Name of the security scheme in the OpenAPI document."""

TableId = Annotated[str, Path(pattern=ID_PATTERN, description="The table's UUID.")]
TableName = Annotated[str, Path(pattern=NAME_PATTERN, description="The table's name.")]

_MEANINGS = {
    400: "The owner refuses what was asked (InvalidArgument, PathNotAllowed), or its body broke off.",
    401: "No token, or one that is unknown, revoked or expired (NotAuthorized).",
    403: "The token lacks the scope, or the transaction was opened with another one (NotAuthorized).",
    404: "The owner does not know the table (TableNotFound), or the instant has not come (TimestampOutOfRange).",
    408: "The body did not come in time (CommitOwnerUnavailable).",
    409: "Another commit or transaction is in the way, or what the table is like forbids it.",
    413: "The body is too large (InvalidArgument).",
    415: "The body is encoded (InvalidArgument).",
    422: "The request is not what this document describes (InvalidArgument).",
    429: "Too many requests, or too many commits wait (CommitOwnerBusy); Retry-After says for how long.",
    500: "The store, or the owner itself, failed; a commit does not count.",
    503: "The owner's database does not answer (CommitOwnerUnavailable).",
    504: "Nobody can say whether the commit counts (CommitUnknown): ask again with isReplay.",
}
_READ = (401, 403, 422, 429, 500, 503)
TABLE = (*_READ, 404)
BODY = (400, 408, 413, 415)
COMMIT = (*TABLE, *BODY, 409, 504)
SHOWN = (ErrorAnswer, CommitConflict, TransactionConflict)
"""Response types other than 200. Defined once in the OpenAPI document instead of once per route."""


@dataclass(frozen=True, slots=True)
class Service:
    """Dependencies of the routes."""

    owner: CommitOwner
    workers: WorkerPools
    metrics: Metrics
    public_metrics: bool
    openers: TransactionOwners


def owner_router(service: Service, gate: Admission) -> APIRouter:
    """Return the routes of tables, commits and operation. API routes are under `/v1`. `gate` admits requests."""
    router = APIRouter(route_class=guarded_route(gate))
    _add_tables(router, service)
    _add_commits(router, service)
    _add_operations(router, service)
    _add_views(router, service)
    return router


def route(
    router: APIRouter,
    call: Call[Any],
    scope: Scope,
    statuses: tuple[int, ...],
    own: Mapping[int, dict[str, Any]] | None = None,
) -> Callable[[DecoratedCallable], DecoratedCallable]:
    """Return the decorator for the route of `call`. `own` replaces the default descriptions of statuses."""
    shown = _described(scope, statuses)
    if call.conflict is not None:
        shown["responses"][409] = answer(_MEANINGS[409], call.conflict, ErrorAnswer)
    shown["responses"].update(own or {})
    return router.api_route(call.path, methods=[call.method], response_model=call.answer, **shown)


def answer(description: str, *kinds: type[ResponseModel]) -> dict[str, Any]:
    """Return the OpenAPI description of a response with one of `kinds`, all in SHOWN."""
    refs = [{"$ref": f"#/components/schemas/{kind.__name__}"} for kind in kinds]
    schema = refs[0] if len(refs) == 1 else {"anyOf": refs}
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _described(scope: Scope | None, statuses: tuple[int, ...]) -> dict[str, Any]:
    """Return the OpenAPI entry of a route: its scope, and its responses other than 200."""
    responses: dict[int | str, dict[str, Any]] = {
        status: answer(_MEANINGS[status], ErrorAnswer) for status in sorted(statuses)
    }
    responses["default"] = answer("Another error of Slackwater.", ErrorAnswer)
    found: dict[str, Any] = {"responses": responses}
    if scope is not None:
        found["openapi_extra"] = {SCOPE: scope.value, "security": [{BEARER: []}]}
    return found


def _add_tables(router: APIRouter, service: Service) -> None:
    owner, workers = service.owner, service.workers

    @route(router, calls.GET_OWNER, Scope.READ, _READ)
    async def get_owner() -> Response:
        """Return the identity of this owner."""
        owner_id = await workers.look(lambda: owner.owner_id)
        return json_response(OwnerInfo(owner_id).to_json())

    @route(router, calls.LIST_TABLES, Scope.READ, _READ)
    async def list_tables() -> Response:
        """Return the tables of this owner by name, including proposed and releasing tables."""
        return json_response(TablesResponse(await workers.look(owner.tables)).to_json())

    @route(router, calls.GET_TABLE, Scope.READ, TABLE)
    async def get_table(name: TableName) -> Response:
        """Return the table with this name."""
        table = await workers.look(functools.partial(owner.table, name))
        return json_response(table.to_json())

    @route(router, calls.TAKE_TABLE, Scope.ADMIN, COMMIT)
    async def take_table(request: Request, body: OwnershipProposal) -> Response:
        """Acquire ownership of a table by the proposed commit. 409 with `latestVersion` if the version exists."""
        body = replace(body, actions=signed(request, body.actions))
        return _ratified(request, service, body, await workers.ratify(owner.take, body))


def _add_commits(router: APIRouter, service: Service) -> None:
    owner, workers = service.owner, service.workers

    @route(router, calls.COMMIT, Scope.COMMIT, COMMIT)
    async def commit(request: Request, table_id: TableId, body: CommitRequest) -> Response:
        """Commit the actions to the table. 409 with `latestVersion` if another commit has the version."""
        del table_id  # part of the body
        body = replace(body, actions=signed(request, body.actions))
        return _ratified(request, service, body, await workers.ratify(owner.commit, body))

    @route(router, calls.GET_COMMITS, Scope.READ, TABLE)
    async def get_commits(table_id: TableId, asked: Annotated[CommitsQuery, Query()]) -> Response:
        """Return the unbackfilled commits of the range, and the latest version."""
        call = functools.partial(owner.get_commits, table_id, asked.start_version, asked.end_version, asked.with_data)
        found = await workers.look(call)
        return json_response(found.to_json())

    @route(router, calls.BACKFILL, Scope.COMMIT, (*TABLE, *BODY, 409))
    async def backfill(table_id: TableId, body: BackfillRequest) -> Response:
        """Copy ratified commits to `_delta_log`, and return the latest backfilled version."""
        call = functools.partial(owner.backfill_to_version, table_id, body.version)
        return json_response(BackfillAnswer(await workers.settle(call)).to_json())

    @route(router, calls.RELEASE, Scope.ADMIN, COMMIT)
    async def release(request: Request, table_id: TableId, body: CommitRequest) -> Response:
        """Release the table to the file system, by a commit without the ownership."""
        del table_id  # part of the body
        body = replace(body, actions=signed(request, body.actions))
        return _ratified(request, service, body, await workers.ratify(owner.release, body))


def _add_operations(router: APIRouter, service: Service) -> None:
    owner, workers, metrics = service.owner, service.workers, service.metrics

    @route(router, calls.REPAIR, Scope.ADMIN, (*TABLE, *BODY, 409))
    async def repair(body: RepairRequest) -> Response:
        """Complete interrupted operations and delete unneeded files, in one table or all."""
        done = await workers.settle(functools.partial(owner.repair, body.table_id))
        return json_response(RepairAnswer(done).to_json())

    @router.get(
        "/healthz",
        response_model=HealthAnswer,
        responses={503: {"model": HealthAnswer, "description": "The owner does not answer."}},
    )
    async def health() -> Response:
        """Return whether the owner responds, without further data."""
        if await workers.is_well(owner.tables):
            return json_response(HealthAnswer("ok").to_json())
        return json_response(HealthAnswer("unavailable").to_json(), 503)

    scope = None if service.public_metrics else Scope.READ

    shown = _described(scope, _READ)
    shown["responses"][200] = {"content": {"text/plain": {"schema": {"type": "string"}}}}

    @router.get("/metrics", response_class=Response, **shown)
    async def get_metrics() -> Response:
        """Return the metrics for Prometheus."""
        return Response(await workers.look(metrics.exposition), media_type=CONTENT_TYPE)


def _add_views(router: APIRouter, service: Service) -> None:
    """Add the routes for monitoring. No decision depends on them."""
    owner, workers = service.owner, service.workers

    @route(router, calls.GET_ACTIVITY, Scope.READ, _READ)
    async def get_activity() -> Response:
        """Return open transactions, locks and waits, timestamp reservations, and the read timestamp table."""
        return json_response((await workers.look(owner.activity)).to_json())

    @route(router, calls.GET_RECENT_COMMITS, Scope.READ, _READ)
    async def get_recent_commits(asked: Annotated[RecentCommitsQuery, Query()]) -> Response:
        """Return the latest commits of all tables, newest first, with facts from their `commitInfo`."""
        found = await workers.look(functools.partial(owner.recent_commits, asked.limit))
        return json_response(RecentCommitsAnswer(found).to_json())


def _ratified(
    request: Request,
    service: Service,
    asked: CommitRequest | OwnershipProposal,
    outcome: CommitResponse | CommitConflict,
) -> Response:
    seen = observation(request.scope)
    seen.transaction = asked.commit_id
    seen.versions = {asked.table_id: outcome.commit.version if isinstance(outcome, CommitResponse) else None}
    service.metrics.count_commit(isinstance(outcome, CommitResponse))
    return json_response(outcome.to_json(), 200 if isinstance(outcome, CommitResponse) else 409)
