"""Routes of Unity Catalog that create and drop tables, and give out credentials for their files.

A client requests a place, writes version 0 there with the features and properties of the response, and then creates
the table. Source: unitycatalog `api/delta.yaml` (config, staging-tables, tables, credentials, metrics).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, cast

from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from slackwater.errors import (
    ConcurrentWriteException,
    InvalidArgument,
    OperationNotAllowed,
    TableAlreadyExists,
    TableNotFound,
)
from slackwater.owner.api.catalog import CREDENTIALS
from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.api.commits import CommitConflict, CommitRequest, CommitResponse
from slackwater.owner.api.field_types import ID_PATTERN, NAME_PATTERN, Location, Name
from slackwater.owner.api.wire_model import RequestModel, checked
from slackwater.owner.served.access.permissions import Scope, table_name
from slackwater.owner.served.admission import granted_to, signed
from slackwater.owner.served.request_observer import observation
from slackwater.owner.served.responses import json_response
from slackwater.owner.served.routes import Service, described
from slackwater.owner.served.unity.errors import DELTA, DeltaErrorAnswer
from slackwater.owner.served.unity.table_json import protocol_json
from slackwater.owner.served.unity.tables import (
    KEBAB,
    TABLE,
    InPath,
    catalog_managed,
    load_response,
    loaded,
)
from slackwater.protocol.actions.actions import Metadata
from slackwater.protocol.actions.actions import Protocol as TableProtocol
from slackwater.protocol.features.managed_commits import CATALOG_MANAGED, own_conf, with_owner, without_owner
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.storage.location import LOCAL, parse_location
from slackwater.version import __version__

_SCHEMA = f"{DELTA}/catalogs/{{catalog}}/schemas/{{schema}}"
_BODY = (400, 408, 413, 415)
_VERSION = "1.0"
_CREDENTIAL_MS = 3_600_000
_MOST_RELEASES = 10
_NO_CONTENT = 204
_ENDPOINTS = (
    "POST /v1/catalogs/{catalog}/schemas/{schema}/staging-tables",
    "POST /v1/catalogs/{catalog}/schemas/{schema}/tables",
    "GET /v1/catalogs/{catalog}/schemas/{schema}/tables/{table}",
    "POST /v1/catalogs/{catalog}/schemas/{schema}/tables/{table}",
    "DELETE /v1/catalogs/{catalog}/schemas/{schema}/tables/{table}",
    "HEAD /v1/catalogs/{catalog}/schemas/{schema}/tables/{table}",
    "GET /v1/catalogs/{catalog}/schemas/{schema}/tables/{table}/credentials",
    "GET /v1/staging-tables/{table_id}/credentials",
    "POST /v1/catalogs/{catalog}/schemas/{schema}/tables/{table}/metrics",
)


@dataclass(frozen=True, slots=True)
class StagingTableRequest(RequestModel):
    """The name of a new table. Other keys are ignored."""

    __pydantic_config__ = RequestModel.__pydantic_config__ | KEBAB

    name: Name


@dataclass(frozen=True, slots=True)
class CreateTableRequest(RequestModel):
    """A table whose version 0 is written. Version 0 has the columns, so other keys are ignored."""

    __pydantic_config__ = RequestModel.__pydantic_config__ | KEBAB

    name: Name
    location: Location
    table_type: str = "MANAGED"


@dataclass(frozen=True, slots=True)
class MetricsReport(RequestModel):
    """Metrics of a commit, which are ignored."""

    __pydantic_config__ = RequestModel.__pydantic_config__ | KEBAB


class RegisteringOwner(CommitOwner, Protocol):
    """An owner that accepts new tables whose client wrote version 0."""

    @property
    def root_url(self) -> str:
        """URL of the lake's root."""
        ...

    def require_creatable(self, name: str) -> None:
        """Raise NotAuthorized if the sender of the request may not create or drop a table called `name`."""
        ...

    def register(self, name: str, location: str) -> CommitResponse | CommitConflict:
        """Acquire ownership of the table. See OwnershipTransfer."""
        ...


def add_lifecycle(router: APIRouter, service: Service) -> None:
    """Add the routes to `router`."""
    owner_of, workers = service.owner_for, service.workers

    def given_to(request: Request) -> Mapping[str, str]:
        # The keys open the files of all tables, so a token for some tables gets none.
        return service.credentials if granted_to(request).grants is None else {}

    @router.get(f"{DELTA}/config", **described(Scope.READ, 400, error=DeltaErrorAnswer))
    async def get_config(
        catalog: Annotated[str, Query(pattern=NAME_PATTERN)],
        protocol_versions: Annotated[str, Query(alias="protocol-versions", pattern=r"^\d+\.\d+(,\d+\.\d+)*$")],
    ) -> Response:
        """Return the routes of the Delta API, version 1.0."""
        del catalog
        if not any(version.startswith("1.") for version in protocol_versions.split(",")):
            raise InvalidArgument(f"this server has only version {_VERSION} of the Delta API. Use a client with it")
        return json_response({"endpoints": list(_ENDPOINTS), "protocol-version": _VERSION})

    @router.post(f"{_SCHEMA}/staging-tables", **described(Scope.ADMIN, *_BODY, 409, error=DeltaErrorAnswer))
    async def create_staging_table(
        request: Request, catalog: InPath, schema: InPath, body: StagingTableRequest
    ) -> Response:
        """Return a place for a new catalog-managed table, with the features and properties of its version 0."""
        del catalog
        owner = cast(RegisteringOwner, owner_of(request))
        return json_response(await workers.look(_staging_table, owner, _new_name(schema, body.name), given_to(request)))

    @router.post(f"{_SCHEMA}/tables", **described(Scope.ADMIN, *_BODY, 404, 409, error=DeltaErrorAnswer))
    async def create_table(request: Request, catalog: InPath, schema: InPath, body: CreateTableRequest) -> Response:
        """Acquire ownership of a new table whose client wrote version 0, and return the table."""
        del catalog
        if body.table_type != "MANAGED":
            raise InvalidArgument(
                f"this catalog has managed tables only, found {body.table_type[:40]!r}. Adopt others by `slackwater "
                "lake adopt`"
            )
        owner, name = cast(RegisteringOwner, owner_of(request)), _new_name(schema, body.name)
        outcome = await workers.settle(owner.register, name, body.location)
        if isinstance(outcome, CommitConflict):
            raise TableAlreadyExists(f"{body.location} belongs to another table. Ask for a staging table again")
        known = await workers.look(owner.table, name)
        observation(request.scope).versions = {known.table_id: outcome.commit.version}
        known, state, recent = await workers.look(loaded, owner, known)
        return json_response(load_response(known, state, recent))

    @router.head(TABLE, status_code=_NO_CONTENT, **described(Scope.READ, 404, error=DeltaErrorAnswer))
    async def table_exists(request: Request, catalog: InPath, schema: InPath, table: InPath) -> Response:
        """Return 204 if the schema has the table."""
        del catalog
        await workers.look(catalog_managed, owner_of(request), table_name(schema, table))
        return Response(status_code=_NO_CONTENT)

    @router.delete(TABLE, status_code=_NO_CONTENT, **described(Scope.ADMIN, 400, 404, error=DeltaErrorAnswer))
    async def delete_table(request: Request, catalog: InPath, schema: InPath, table: InPath) -> Response:
        """Release the table to the file system. Its files stay."""
        del catalog
        await workers.settle(_released, request, cast(RegisteringOwner, owner_of(request)), table_name(schema, table))
        return Response(status_code=_NO_CONTENT)

    @router.get(f"{TABLE}/credentials", **described(Scope.READ, 400, 404, error=DeltaErrorAnswer))
    async def get_table_credentials(
        request: Request,
        catalog: InPath,
        schema: InPath,
        table: InPath,
        operation: Annotated[str, Query(pattern="^(READ|READ_WRITE)$")],
    ) -> Response:
        """Return credentials for the files of the table, if the operator gives them out."""
        del catalog
        known, _, _ = await workers.look(catalog_managed, owner_of(request), table_name(schema, table))
        found = _credentials(given_to(request), known.location, operation)
        return json_response({"storage-credentials": found})

    @router.get(
        f"{DELTA}/staging-tables/{{table_id}}/credentials", **described(Scope.ADMIN, 400, error=DeltaErrorAnswer)
    )
    async def get_staging_table_credentials(
        request: Request, table_id: Annotated[str, Path(pattern=ID_PATTERN)]
    ) -> Response:
        """Return credentials for the files of new tables, if the operator gives them out."""
        del table_id
        root = cast(RegisteringOwner, owner_of(request)).root_url
        return json_response({"storage-credentials": _credentials(given_to(request), root, "READ_WRITE")})

    @router.post(
        f"{TABLE}/metrics", status_code=_NO_CONTENT, **described(Scope.COMMIT, *_BODY, 404, error=DeltaErrorAnswer)
    )
    async def report_metrics(
        request: Request, catalog: InPath, schema: InPath, table: InPath, body: MetricsReport
    ) -> Response:
        """Accept metrics of a commit, and ignore them."""
        del catalog, body
        await workers.look(owner_of(request).table, table_name(schema, table))
        return Response(status_code=_NO_CONTENT)


def _new_name(schema: str, name: str) -> str:
    """Return the name of a new table in the lake. Raises InvalidArgument for a name that no table may have."""
    return checked(Name, "table's name", table_name(schema, name))


def _staging_table(owner: RegisteringOwner, name: str, credentials: Mapping[str, str]) -> Mapping[str, Any]:
    owner.require_creatable(name)
    try:
        known = owner.table(name)
    except TableNotFound:
        pass
    else:
        raise TableAlreadyExists(f"a table named {name!r} already exists at {known.location}. Choose another name")
    table_id = str(uuid.uuid4())
    # A place of its own, because several clients may create tables of this name at once.
    location = f"{owner.root_url}/{name}-{table_id}"
    conf = own_conf(owner.owner_id, table_id, owner.endpoint, name)
    empty = TableConfiguration(TableProtocol(3, 7, (), ()), Metadata("", "{}"))
    required = with_owner(empty, conf, CATALOG_MANAGED)
    return {
        "table-id": table_id,
        "table-type": "MANAGED",
        "location": location,
        "storage-credentials": _credentials(credentials, location, "READ_WRITE", required=False),
        "required-protocol": protocol_json(required.protocol),
        "required-properties": dict(required.metadata.configuration),
    }


def _credentials(
    credentials: Mapping[str, str], location: str, operation: str, required: bool = True
) -> list[Mapping[str, Any]]:
    """Return the credentials given out for `location`. Without `required`, none instead of an error.

    Raises OperationNotAllowed if the operator gives out none.
    """
    if parse_location(location).scheme == LOCAL:
        return []
    config = {CREDENTIALS[key]: value for key, value in credentials.items() if key in CREDENTIALS}
    if not config:
        if not required:
            return []
        raise OperationNotAllowed(
            "this server gives this client no credentials for the store of its tables. Pass storage options to the "
            "client. `slackwater serve --give-credentials` gives credentials to tokens for all tables"
        )
    expires_ms = time.time_ns() // 1_000_000 + _CREDENTIAL_MS
    return [{"prefix": location, "operation": operation, "config": config, "expiration-time-ms": expires_ms}]


def _released(request: Request, owner: RegisteringOwner, name: str) -> None:
    """Release the table to the file system, again after each conflict. Raises the errors of `CommitOwner.release`."""
    owner.table(name)
    owner.require_creatable(name)
    for _ in range(_MOST_RELEASES):
        known, state, _ = catalog_managed(owner, name)
        owner.backfill_to_version(known.table_id)
        released = without_owner(state.configuration)
        commit_id = str(uuid.uuid4())
        info = {
            "timestamp": time.time_ns() // 1_000_000,
            "operation": "RELEASE TABLE",
            "operationParameters": {"name": name},
            "engineInfo": f"Slackwater/{__version__}",
            "txnId": commit_id,
        }
        actions = [
            {"commitInfo": info},
            released.protocol.to_json(),
            released.metadata.to_json(),
        ]
        asked = CommitRequest(known.table_id, commit_id, state.version + 1, signed(request, actions))
        outcome = owner.release(asked)
        if isinstance(outcome, CommitResponse):
            observation(request.scope).versions = {known.table_id: outcome.commit.version}
            return
    raise ConcurrentWriteException(f"the table {name!r} has new commits all the time, so it was not dropped. Retry")
