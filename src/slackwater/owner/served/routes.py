"""The routes of a served owner: each turns a request into one call of the owner, and its answer into JSON."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel
from starlette.responses import Response

from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.api.commits import CommitConflict, CommitRequest, CommitResponse, OwnershipProposal
from slackwater.owner.served.answers import json_response
from slackwater.owner.served.gate import SCOPE, Gate, guarded_route
from slackwater.owner.served.metrics import CONTENT_TYPE, Metrics
from slackwater.owner.served.openers import Openers
from slackwater.owner.served.tokens import Scope
from slackwater.owner.served.wire import commits as wire
from slackwater.owner.served.wire import schemas
from slackwater.owner.served.workers import Workers

BEARER = "bearer"
"""The security scheme's name in the OpenAPI document."""

TableId = Annotated[str, Path(pattern=wire.ID_PATTERN, description="The table's UUID.")]
TableName = Annotated[str, Path(pattern=wire.NAME_PATTERN, description="The table's name.")]

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


@dataclass(frozen=True, slots=True)
class Service:
    """What the routes answer with."""

    owner: CommitOwner
    workers: Workers
    metrics: Metrics
    public_metrics: bool
    openers: Openers


def owner_router(service: Service, gate: Gate) -> APIRouter:
    """The routes of tables and commits, and those of operating; those of the API under `/v1`, behind `gate`."""
    router = APIRouter(route_class=guarded_route(gate))
    _add_tables(router, service)
    _add_commits(router, service)
    _add_operations(router, service)
    return router


def described(
    scope: Scope | None, statuses: tuple[int, ...], conflict: type[BaseModel] = schemas.ConflictAnswer
) -> dict[str, Any]:
    """How a route stands in the OpenAPI document: its scope, and what it answers besides 200.

    A commit's answer to having lost is a `conflict`.
    """
    responses: dict[int | str, dict[str, Any]] = {
        status: {"model": schemas.ErrorAnswer, "description": _MEANINGS[status]} for status in sorted(statuses)
    }
    if 504 in statuses:
        responses[409]["model"] = conflict | schemas.ErrorAnswer
    responses["default"] = {"model": schemas.ErrorAnswer, "description": "Another error of Slackwater."}
    found: dict[str, Any] = {"responses": responses}
    if scope is not None:
        found["openapi_extra"] = {SCOPE: scope.value, "security": [{BEARER: []}]}
    return found


def _add_tables(router: APIRouter, service: Service) -> None:
    owner, workers = service.owner, service.workers

    @router.get("/v1/owner", response_model=schemas.OwnerAnswer, **described(Scope.READ, _READ))
    async def get_owner() -> Response:
        """Who this owner is."""
        owner_id = await workers.look(lambda: owner.owner_id)
        return json_response({"ownerId": owner_id, "apiVersion": wire.API_VERSION})

    @router.get("/v1/tables", response_model=schemas.TablesAnswer, **described(Scope.READ, _READ))
    async def list_tables() -> Response:
        """The tables that are this owner's, or on their way, by name."""
        found = await workers.look(owner.tables)
        return json_response({"tables": [wire.table_to_json(table) for table in found]})

    @router.get("/v1/tables/{name}", response_model=schemas.TableRecord, **described(Scope.READ, TABLE))
    async def get_table(name: TableName) -> Response:
        """The table of that name."""
        return json_response(wire.table_to_json(await workers.look(functools.partial(owner.table, name))))

    @router.post("/v1/tables", response_model=schemas.CommitAnswer, **described(Scope.ADMIN, COMMIT))
    async def take_table(body: schemas.ProposalBody) -> Response:
        """Own a table from the proposed commit on. 409 with `latestVersion` where the version exists already."""
        proposal = OwnershipProposal(
            table_id=body.table_id,
            name=body.name,
            location=body.location,
            commit_id=body.commit_id,
            version=body.version,
            actions=body.actions,
            previous_timestamp_ms=body.previous_timestamp_ms,
            row_id_mark=body.row_id_mark,
        )
        return _ratified(service, await workers.ratify(owner.take, proposal))


def _add_commits(router: APIRouter, service: Service) -> None:
    owner, workers = service.owner, service.workers

    @router.post(
        "/v1/tables/{table_id}/commits", response_model=schemas.CommitAnswer, **described(Scope.COMMIT, COMMIT)
    )
    async def commit(table_id: TableId, body: schemas.CommitBody) -> Response:
        """Make the actions a version of the table. 409 with `latestVersion` where the version is another commit's."""
        return _ratified(service, await workers.ratify(owner.commit, _request(table_id, body)))

    @router.get("/v1/tables/{table_id}/commits", response_model=schemas.CommitsAnswer, **described(Scope.READ, TABLE))
    async def get_commits(table_id: TableId, asked: Annotated[schemas.CommitsQuery, Query()]) -> Response:
        """The ratified commits of the range that are not backfilled, and the latest version."""
        call = functools.partial(owner.get_commits, table_id, asked.start_version, asked.end_version, asked.with_data)
        return json_response(wire.commits_to_json(await workers.look(call)))

    @router.post(
        "/v1/tables/{table_id}/backfill",
        response_model=schemas.BackfilledAnswer,
        **described(Scope.COMMIT, (*TABLE, *BODY, 409)),
    )
    async def backfill(table_id: TableId, body: schemas.BackfillBody) -> Response:
        """Copy ratified commits to `_delta_log`; the version that it reaches to now."""
        call = functools.partial(owner.backfill_to_version, table_id, body.version)
        return json_response({"version": await workers.settle(call)})

    @router.post("/v1/tables/{table_id}/release", response_model=schemas.CommitAnswer, **described(Scope.ADMIN, COMMIT))
    async def release(table_id: TableId, body: schemas.CommitBody) -> Response:
        """Hand the table back to the file system, by the commit that removes the ownership."""
        return _ratified(service, await workers.ratify(owner.release, _request(table_id, body)))


def _add_operations(router: APIRouter, service: Service) -> None:
    owner, workers, metrics = service.owner, service.workers, service.metrics

    @router.post("/v1/repair", response_model=schemas.RepairedAnswer, **described(Scope.ADMIN, (*TABLE, *BODY, 409)))
    async def repair(body: schemas.RepairBody) -> Response:
        """Finish what was cut short and remove what nobody needs, in one table or all."""
        done = await workers.settle(functools.partial(owner.repair, body.table_id))
        return json_response({"done": list(done)})

    @router.get(
        "/healthz",
        response_model=schemas.HealthAnswer,
        responses={503: {"model": schemas.HealthAnswer, "description": "The owner does not answer."}},
    )
    async def health() -> Response:
        """Whether the owner answers, and nothing else."""
        if await workers.is_well(owner.tables):
            return json_response({"status": "ok"})
        return json_response({"status": "unavailable"}, 503)

    scope = None if service.public_metrics else Scope.READ

    shown = described(scope, _READ)
    shown["responses"][200] = {"content": {"text/plain": {"schema": {"type": "string"}}}}

    @router.get("/metrics", response_class=Response, **shown)
    async def get_metrics() -> Response:
        """What Prometheus asks for."""
        return Response(await workers.look(metrics.exposition), media_type=CONTENT_TYPE)


def _request(table_id: str, body: schemas.CommitBody) -> CommitRequest:
    return CommitRequest(
        table_id=table_id,
        commit_id=body.commit_id,
        version=body.version,
        actions=body.actions,
        may_move=body.may_move,
        is_replay=body.is_replay,
    )


def _ratified(service: Service, answer: CommitResponse | CommitConflict) -> Response:
    service.metrics.count_commit(isinstance(answer, CommitResponse))
    if isinstance(answer, CommitResponse):
        return json_response(wire.response_to_json(answer))
    return json_response({"latestVersion": answer.latest_version}, 409)
