"""Routes of Unity Catalog that find, load and update tables by name, for clients such as DuckDB.

The lake is one catalog, whatever name a client gives it. A table `sales.orders` is in the schema `sales`, a table
without a dot in the schema `default`. Only catalog-managed tables are shown, because clients ask for their commits.
Source: unitycatalog `api/all.yaml` (schemas, tables) and `api/delta.yaml` (loadTable, updateTable).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Annotated, Any, Protocol, cast

import orjson
from fastapi import APIRouter, Path, Query
from starlette.requests import Request
from starlette.responses import Response

from slackwater.errors import CommitOwnerBusy, CommitUnknown, InvalidArgument, SlackwaterError, TableNotFound
from slackwater.log.files.managed_log import list_managed_log
from slackwater.log.files.segment import load_segment
from slackwater.log.replay import LogState, replay
from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.api.commits import GetCommitsResponse, ManagedTable, StagedCommit
from slackwater.owner.api.field_types import NAME_PATTERN, Known, Many
from slackwater.owner.api.owner_registry import OwnedTable
from slackwater.owner.api.wire_model import RequestModel
from slackwater.owner.served.access.permissions import DEFAULT_NAMESPACE, Scope, namespace_of, table_name
from slackwater.owner.served.responses import json_response
from slackwater.owner.served.routes import Service, described
from slackwater.owner.served.unity.commits import StagedCommitInfo, commit_info, ratify_staged
from slackwater.owner.served.unity.errors import DELTA, PREFIX, DeltaErrorAnswer, RequirementFailed, UnityErrorAnswer
from slackwater.owner.served.unity.table_json import columns_json
from slackwater.protocol.features.managed_commits import CATALOG_MANAGED, form_of
from slackwater.protocol.schema.char_varchar import SPARK_NAMES
from slackwater.protocol.schema.schema import ArrayType, DataType, MapType, StructField, StructType, schema_to_json
from slackwater.storage.store import ObjectStore

_OWNER = "slackwater.owner"
_MOST_LOADS = 20
_PUBLISHED = "set-latest-backfilled-version"
TABLE = f"{DELTA}/catalogs/{{catalog}}/schemas/{{schema}}/tables/{{table}}"
_DEFAULT_SCHEMA = "/api/2.0/settings/types/default_namespace_ws/names/default"

_CatalogName = Annotated[str, Query(pattern=NAME_PATTERN, description="Any name: the lake is one catalog.")]
_SchemaName = Annotated[str, Query(pattern=NAME_PATTERN, description="The part of table names before the last dot.")]
InPath = Annotated[str, Path(pattern=NAME_PATTERN)]


def _kebab(name: str) -> str:
    return name.replace("_", "-")


KEBAB = {"alias_generator": _kebab, "extra": "ignore"}
"""Settings of values with keys such as `table-uuid`. Other keys are ignored."""


@dataclass(frozen=True, slots=True)
class Requirement(RequestModel):
    """A condition for an update. Other keys are ignored."""

    __pydantic_config__ = RequestModel.__pydantic_config__ | KEBAB

    type: str
    uuid: str | None = None
    etag: str | None = None


@dataclass(frozen=True, slots=True)
class AddedCommit(StagedCommitInfo):
    """A commit staged by its client in `_delta_log/_staged_commits/`. Times are in ms. Other keys are ignored."""

    __pydantic_config__ = RequestModel.__pydantic_config__ | KEBAB


@dataclass(frozen=True, slots=True)
class TableUpdate(RequestModel):
    """A change of a table. Other keys are ignored."""

    __pydantic_config__ = RequestModel.__pydantic_config__ | KEBAB

    action: str
    commit: AddedCommit | None = None
    latest_published_version: Known | None = None


@dataclass(frozen=True, slots=True)
class UpdateTableRequest(RequestModel):
    """Changes of a table, all of them or none, if the requirements hold."""

    __pydantic_config__ = RequestModel.__pydantic_config__ | KEBAB

    requirements: Many[Requirement]
    updates: Many[TableUpdate]


class TableStoresOwner(Protocol):
    """An owner with access to the stores of its tables."""

    def store(self, table_id: str) -> ObjectStore:
        """Return the store of the table. Raises TableNotFound."""
        ...


def add_catalog(router: APIRouter, service: Service) -> None:
    """Add the routes to `router`."""
    owner_of, workers = service.owner_for, service.workers

    @router.get(_DEFAULT_SCHEMA, **described(Scope.READ, error=UnityErrorAnswer))
    async def get_default_schema() -> Response:
        """Return the schema of names without one, for DuckDB."""
        return json_response({"setting_name": "default", "namespace": {"value": DEFAULT_NAMESPACE}})

    @router.get(f"{PREFIX}/schemas", **described(Scope.READ, error=UnityErrorAnswer))
    async def list_schemas(request: Request, catalog_name: _CatalogName) -> Response:
        """Return the schemas of the lake."""
        tables = await workers.look(owner_of(request).tables)
        names = sorted({namespace_of(table.name) for table in tables} | {DEFAULT_NAMESPACE})
        schemas = [{"name": n, "catalog_name": catalog_name, "full_name": f"{catalog_name}.{n}"} for n in names]
        return json_response({"schemas": schemas})

    @router.get(f"{PREFIX}/tables", **described(Scope.READ, error=UnityErrorAnswer))
    async def list_tables(request: Request, catalog_name: _CatalogName, schema_name: _SchemaName) -> Response:
        """Return the catalog-managed tables of a schema, with their columns."""
        found = await workers.look(_tables_of, owner_of(request), schema_name)
        return json_response({"tables": [_table_info(catalog_name, table, state) for table, state in found]})

    @router.get(TABLE, **described(Scope.READ, 404, error=DeltaErrorAnswer))
    async def load_table(request: Request, catalog: InPath, schema: InPath, table: InPath) -> Response:
        """Return the metadata of a catalog-managed table, its commits not published yet, and its latest version."""
        del catalog
        known, state, recent = await workers.look(catalog_managed, owner_of(request), table_name(schema, table))
        return json_response(load_response(known, state, recent))

    @router.post(TABLE, **described(Scope.COMMIT, 400, 404, 408, 409, 413, 415, error=DeltaErrorAnswer))
    async def update_table(
        request: Request, catalog: InPath, schema: InPath, table: InPath, body: UpdateTableRequest
    ) -> Response:
        """Ratify a commit that its client staged, and return the table. 409 if another commit was first."""
        del catalog
        owner = owner_of(request)
        known = await workers.look(owner.table, table_name(schema, table))
        commit = _required_commit(known, body)
        if commit is not None:
            await ratify_staged(request, service, commit)
        try:
            return await respond_to_update(owner, known, body)
        except SlackwaterError as error:
            if commit is None:
                raise
            # The commit is ratified already, so no other error may be the response.
            raise CommitUnknown(
                f"version {commit.version} of {known.name!r} is ratified, but the table cannot be described: {error}. "
                "Load the table"
            ) from error

    async def respond_to_update(owner: CommitOwner, known: ManagedTable, body: UpdateTableRequest) -> Response:
        published = [update.latest_published_version for update in body.updates if update.action == _PUBLISHED]
        if published and published[0] is not None:
            await workers.settle(owner.backfill_to_version, known.table_id, published[0])
        known, state, recent = await workers.look(loaded, owner, known)
        return json_response(load_response(known, state, recent))


def _required_commit(known: ManagedTable, asked: UpdateTableRequest) -> StagedCommit | None:
    """Return the commit of the request, None if it only reports published versions. Raises if a requirement fails.

    Other updates repeat what the commit's file says, so a request with them and without a commit is refused.
    """
    for requirement in asked.requirements:
        actual = {"assert-table-uuid": known.table_id, "assert-etag": _etag(known)}.get(requirement.type)
        if actual is None:
            raise InvalidArgument(f"the requirement {requirement.type[:40]!r} is unknown")
        found = requirement.uuid if requirement.type == "assert-table-uuid" else requirement.etag
        if found != actual:
            raise RequirementFailed(
                f"the table {known.name!r} does not fulfil {requirement.type}: it has {actual}, and the request asks "
                f"for {str(found)[:80]}. Load the table again"
            )
    commits = [update.commit for update in asked.updates if update.action == "add-commit"]
    others = {update.action for update in asked.updates} - {"add-commit", _PUBLISHED}
    if len(commits) > 1 or None in commits or (others and not commits):
        raise InvalidArgument(
            "a request must have one add-commit with its commit, or only set-latest-backfilled-version. Properties and "
            "columns change by the commit's file"
        )
    added = commits[0] if commits else None
    return None if added is None else added.of_table(known.table_id)


def _tables_of(owner: CommitOwner, schema: str) -> list[tuple[ManagedTable, LogState]]:
    found = []
    for table in owner.tables():
        if namespace_of(table.name) != schema:
            continue
        # A table may be dropped since.
        with suppress(TableNotFound):
            table, state, _ = loaded(owner, table)  # noqa: PLW2901
            if form_of(state.configuration) is CATALOG_MANAGED:
                found.append((table, state))
    return found


def catalog_managed(owner: CommitOwner, name: str) -> tuple[ManagedTable, LogState, GetCommitsResponse]:
    """Return the table `name` as `loaded`. Raises TableNotFound, also for a table that is not catalog-managed."""
    found = loaded(owner, owner.table(name))
    if form_of(found[1].configuration) is not CATALOG_MANAGED:
        raise TableNotFound(f"no catalog-managed table named {name!r} exists. `slackwater lake migrate` makes it one")
    return found


def loaded(owner: CommitOwner, known: ManagedTable) -> tuple[ManagedTable, LogState, GetCommitsResponse]:
    """Return the table, the state of its latest version, and the commits not published yet, of the same version."""
    store = cast(TableStoresOwner, owner).store(known.table_id)
    listing = partial(list_managed_log, store, OwnedTable(owner, known.table_id))
    for _ in range(_MOST_LOADS):
        _, state = replay(load_segment(store, None, frozenset(), listing), store)
        recent = owner.get_commits(known.table_id, 0)
        if state.version == recent.latest_version:
            return replace(known, ratified_version=state.version), state, recent
    raise CommitOwnerBusy(f"the table {known.name!r} has new versions faster than it can be read. Retry")


def _table_info(catalog: str, table: ManagedTable, state: LogState) -> Mapping[str, Any]:
    schema, name = namespace_of(table.name), table.name.rpartition(".")[2]
    return {
        "name": name,
        "catalog_name": catalog,
        "schema_name": schema,
        "full_name": f"{catalog}.{schema}.{name}",
        "table_type": "MANAGED",
        "data_source_format": "DELTA",
        "columns": [_column_info(at, column) for at, column in enumerate(state.configuration.schema)],
        "storage_location": table.location,
        "table_id": table.table_id,
        "properties": _properties(state),
        **_if_known("comment", state.configuration.metadata.description),
        **_if_known("owner", state.configuration.metadata.configuration.get(_OWNER)),
    }


def _if_known(key: str, text: object) -> Mapping[str, object]:
    return {} if text is None else {key: text}


def _column_info(position: int, column: StructField) -> Mapping[str, Any]:
    (node,) = orjson.loads(schema_to_json(StructType((column,))))["fields"]
    text = type_text(column.type)
    return {
        "name": column.name,
        "type_text": text,
        "type_name": text.partition("(")[0].partition("<")[0].replace("bigint", "long").upper(),
        "type_json": orjson.dumps(node).decode(),
        "position": position,
        "nullable": column.nullable,
        **_if_known("comment", column.metadata.get("comment")),
    }


def type_text(data_type: DataType) -> str:
    """Return the name of the type in Spark, like `bigint` and `struct<a:array<int>>`."""
    if isinstance(data_type, StructType):
        return f"struct<{','.join(f'{column.name}:{type_text(column.type)}' for column in data_type)}>"
    if isinstance(data_type, ArrayType):
        return f"array<{type_text(data_type.element_type)}>"
    if isinstance(data_type, MapType):
        return f"map<{type_text(data_type.key_type)},{type_text(data_type.value_type)}>"
    return SPARK_NAMES.get(str(data_type), str(data_type))


def _properties(state: LogState) -> Mapping[str, str]:
    """Return the table properties, with those that a catalog derives from the protocol."""
    configuration, protocol = state.configuration, state.configuration.protocol
    features = {f"delta.feature.{name}": "supported" for name in protocol.writer_features or ()}
    versions = {
        "delta.minReaderVersion": str(protocol.min_reader_version),
        "delta.minWriterVersion": str(protocol.min_writer_version),
    }
    return {**configuration.metadata.configuration, **features, **versions}


def _etag(known: ManagedTable) -> str:
    """Return the text that changes with each version of the table."""
    return f"{known.table_id}-{known.ratified_version}"


def load_response(known: ManagedTable, state: LogState, recent: GetCommitsResponse) -> Mapping[str, Any]:
    metadata = state.configuration.metadata
    commits = [
        {_kebab(key): value for key, value in asdict(commit_info(commit)).items()}
        for commit in sorted(recent.commits, key=lambda commit: -commit.version)
    ]
    return {
        "metadata": {
            "etag": _etag(known),
            "table-type": "MANAGED",
            "data-source-format": "DELTA",
            "table-uuid": known.table_id,
            "location": known.location,
            "created-time": metadata.created_time or 0,
            "updated-time": known.timestamp_ms,
            "columns": columns_json(metadata.schema_string),
            "partition-columns": list(metadata.partition_columns),
            "properties": dict(_properties(state)),
        },
        "commits": commits,
        "latest-table-version": recent.latest_version,
    }
