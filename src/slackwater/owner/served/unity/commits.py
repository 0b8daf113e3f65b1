"""Routes of Unity Catalog's commit API, for clients of catalog-managed tables: Delta Kernel and its engines.

Paths and names are those of Unity Catalog, so keys are in snake_case. Clients stage their commits themselves.
Source: unitycatalog `api/Apis/DeltaCommitsApi.md` and `api/Models/DeltaGetCommits*.md`; PROTOCOL.md "Getting Ratified
Commits from the Catalog".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, cast

from fastapi import APIRouter
from starlette.requests import Request

from slackwater.errors import ConcurrentWriteException, InvalidArgument, OperationNotAllowed, TableNotFound
from slackwater.owner.api.commits import LATEST, Commit, CommitConflict, CommitResponse, StagedCommit
from slackwater.owner.api.field_types import Id, Instant, Known, Listed, Many, Version
from slackwater.owner.api.transactions import TransactionConflict, TransactionResponse
from slackwater.owner.api.wire_model import RequestModel, ResponseModel
from slackwater.owner.served.access.permissions import Scope
from slackwater.owner.served.request_observer import observation
from slackwater.owner.served.routes import Service, route
from slackwater.owner.served.transaction_ownership import TransactionCall
from slackwater.owner.served.unity.errors import PREFIX, UnityErrorAnswer
from slackwater.owner.served.wire.calls import Call
from slackwater.protocol.actions.file_names import STAGED_COMMITS_DIRECTORY
from slackwater.storage.location import Location, parse_location

_NAMES = {"alias_generator": lambda name: name}


@dataclass(frozen=True, slots=True)
class MetastoreSummary(ResponseModel):
    """The identity of the catalog: the id of the owner."""

    __pydantic_config__ = ResponseModel.__pydantic_config__ | _NAMES

    metastore_id: str
    name: str = "slackwater"


@dataclass(frozen=True, slots=True)
class DeltaGetCommits(RequestModel):
    """A table by id and location, and the range of versions. Unknown keys are ignored."""

    __pydantic_config__ = RequestModel.__pydantic_config__ | _NAMES | {"extra": "ignore"}

    table_id: Id
    table_uri: str
    start_version: Version = 0
    end_version: Known | None = None


@dataclass(frozen=True, slots=True)
class DeltaCommitInfo(ResponseModel):
    """A ratified commit not published yet. `file_name` is in `_delta_log/_staged_commits/`; times in ms."""

    __pydantic_config__ = ResponseModel.__pydantic_config__ | _NAMES

    version: int
    timestamp: int
    file_name: str
    file_size: int
    file_modification_timestamp: int


@dataclass(frozen=True, slots=True)
class DeltaGetCommitsResponse(ResponseModel):
    """Ratified commits not published yet, and the latest ratified version."""

    __pydantic_config__ = ResponseModel.__pydantic_config__ | _NAMES

    commits: Listed[DeltaCommitInfo]
    latest_table_version: int


@dataclass(frozen=True, slots=True)
class StagedCommitInfo(RequestModel):
    """A commit staged by its client in `_delta_log/_staged_commits/`. Times are in ms. Other keys are ignored."""

    __pydantic_config__ = RequestModel.__pydantic_config__ | _NAMES | {"extra": "ignore"}

    version: Version
    timestamp: Instant
    file_name: str
    file_size: Instant

    def of_table(self, table_id: str) -> StagedCommit:
        """Return the commit as one of the table with this id."""
        return StagedCommit(table_id, self.version, self.timestamp, self.file_name, self.file_size)


@dataclass(frozen=True, slots=True)
class DeltaCommit(RequestModel):
    """A commit to ratify, or the version up to which the client published. Other keys are ignored."""

    __pydantic_config__ = RequestModel.__pydantic_config__ | _NAMES | {"extra": "ignore"}

    table_id: Id
    table_uri: str
    commit_info: StagedCommitInfo | None = None
    latest_backfilled_version: Known | None = None


@dataclass(frozen=True, slots=True)
class DeltaCommitResponse(ResponseModel):
    """The commit is ratified. The object is empty."""


@dataclass(frozen=True, slots=True)
class DeltaTransaction(RequestModel):
    """Commits of one multi-table transaction, each with its `transactionGroup`. Not a part of Unity Catalog's API.

    `transaction_id` is the `transactionId` of the group, and the `txnId` of all its commits. Other keys are ignored.
    """

    __pydantic_config__ = RequestModel.__pydantic_config__ | _NAMES | {"extra": "ignore"}

    transaction_id: Id
    commits: Many[DeltaCommit]


_PREFIX = f"{STAGED_COMMITS_DIRECTORY}/"
_METASTORE = Call("GET", f"{PREFIX}/metastore_summary", MetastoreSummary)
_COMMITS = Call("GET", f"{PREFIX}/delta/preview/commits", DeltaGetCommitsResponse)
_COMMIT = Call("POST", f"{PREFIX}/delta/preview/commits", DeltaCommitResponse)
_TRANSACTION = Call("POST", f"{PREFIX}/delta/preview/transactions", DeltaCommitResponse)


class StagedCommitOwner(Protocol):
    """An owner that ratifies commits staged by their clients."""

    def commit_staged(self, asked: StagedCommit) -> CommitResponse | CommitConflict:
        """Ratify the commit at its own timestamp. At most once: a repeated request gets the first result.

        Raises the errors of `CommitOwner.commit`; TimestampConflict if the timestamp is not after everything that
        other transactions read or wrote in the table; OperationNotAllowed if the table is not catalog-managed.
        """
        ...

    def commit_staged_group(
        self, txn_id: str, asked: Sequence[StagedCommit]
    ) -> TransactionResponse | TransactionConflict:
        """Ratify all commits of a group, or none, at their common timestamp. At most once, as `commit_staged`.

        Each commit has the same `transactionGroup`, with all tables and versions, and its tag. Raises the errors of
        `commit_staged`; InvalidArgument if the commits are not the whole group, or differ in the timestamp.
        """
        ...


def add_unity_catalog(router: APIRouter, service: Service) -> None:
    """Add the routes of Unity Catalog's commit API to `router`."""
    owner_of, workers, places = service.owner_for, service.workers, _Places(service)

    @route(router, _METASTORE, Scope.READ, error=UnityErrorAnswer)
    async def get_metastore_summary(request: Request) -> MetastoreSummary:
        """Return the identity of this owner as a catalog."""
        return MetastoreSummary(await workers.look(lambda: owner_of(request).owner_id))

    @route(router, _COMMITS, Scope.READ, 404, error=UnityErrorAnswer)
    async def get_unpublished_commits(request: Request, body: DeltaGetCommits) -> DeltaGetCommitsResponse:
        """Return the commits of a catalog-managed table not published yet, and its latest version."""
        owner = owner_of(request)
        observation(request.scope).used = [body.table_id]
        await service.require_readable(request, body.table_id)
        await places.require(body)
        end = LATEST if body.end_version is None else body.end_version
        found = await workers.look(owner.get_commits, body.table_id, body.start_version, end, False)
        if any(not commit.file_name.startswith(_PREFIX) for commit in found.commits):
            raise OperationNotAllowed(
                f"the table {body.table_id} has the feature managedCommit, not catalogManaged. Migrate it with "
                "`slackwater lake migrate`"
            )
        return DeltaGetCommitsResponse([commit_info(commit) for commit in found.commits], found.latest_version)

    @route(router, _COMMIT, Scope.COMMIT, 404, 409, error=UnityErrorAnswer)
    async def commit_staged(request: Request, body: DeltaCommit) -> DeltaCommitResponse:
        """Ratify a commit that its client staged. 409 if another commit has the version or a later timestamp."""
        owner = owner_of(request)
        observation(request.scope).used = [body.table_id]
        await service.require_readable(request, body.table_id)
        await places.require(body)
        asked = body.commit_info
        if asked is not None:
            await ratify_staged(request, service, asked.of_table(body.table_id))
        elif body.latest_backfilled_version is not None:
            await workers.settle(owner.backfill_to_version, body.table_id, body.latest_backfilled_version)
        return DeltaCommitResponse()

    @route(router, _TRANSACTION, Scope.COMMIT, 404, 409, error=UnityErrorAnswer)
    async def commit_staged_group(request: Request, body: DeltaTransaction) -> DeltaCommitResponse:
        """Ratify all commits of a multi-table transaction that its client staged, or none. 409 as for one commit."""
        asked = []
        observation(request.scope).used = [commit.table_id for commit in body.commits]
        for commit in body.commits:
            await service.require_readable(request, commit.table_id)
            await places.require(commit)
            if commit.commit_info is None:
                raise InvalidArgument(f"the commit to table {commit.table_id} has no commit_info. Name its staged file")
            asked.append(commit.commit_info.of_table(commit.table_id))
        await _ratify_group(request, service, body.transaction_id, asked)
        return DeltaCommitResponse()


def commit_info(commit: Commit) -> DeltaCommitInfo:
    """Return a ratified commit of a catalog-managed table as Unity Catalog describes it."""
    name = commit.file_name.removeprefix(_PREFIX)
    return DeltaCommitInfo(commit.version, commit.timestamp_ms, name, commit.size_bytes, commit.timestamp_ms)


async def ratify_staged(request: Request, service: Service, commit: StagedCommit) -> None:
    """Have the owner ratify the commit. Raises ConcurrentWriteException if another commit has the version."""
    owner = cast(StagedCommitOwner, service.owner_for(request))
    outcome = await service.workers.ratify(owner.commit_staged, commit)
    is_committed = isinstance(outcome, CommitResponse)
    observation(request.scope).versions = {commit.table_id: commit.version if is_committed else None}
    service.metrics.count_commit(is_committed)
    if isinstance(outcome, CommitConflict):
        raise ConcurrentWriteException(
            f"version {commit.version} of the table {commit.table_id} belongs to another commit. The latest version is "
            f"{outcome.latest_version}. Read it, and commit the next version"
        )


async def _ratify_group(request: Request, service: Service, txn_id: str, commits: Sequence[StagedCommit]) -> None:
    """Have the owner ratify a group. Raises ConcurrentWriteException if a version belongs to another commit."""
    owner = cast(StagedCommitOwner, service.owner_for(request))
    seen = observation(request.scope)
    seen.transaction, seen.versions = txn_id, {commit.table_id: None for commit in commits}
    call = partial(owner.commit_staged_group, txn_id)
    guarded = service.openers.guarded(request, txn_id, TransactionCall.WORK, call)
    outcome = await service.workers.ratify(guarded, commits)
    service.metrics.count_commit(isinstance(outcome, TransactionResponse))
    if isinstance(outcome, TransactionConflict):
        latest = ", ".join(f"{table_id} {version}" for table_id, version in sorted(outcome.latest_versions.items()))
        raise ConcurrentWriteException(
            f"transaction {txn_id} was not ratified, because other commits have versions of its tables. The latest "
            f"versions are: {latest}. Read them, and stage the transaction again"
        )
    seen.versions = {commit.table_id: commit.version for commit in commits}


class _Places:
    """Locations of tables by id. A table never moves, so each location is read once."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._known: dict[str, Location] = {}

    async def require(self, asked: DeltaGetCommits | DeltaCommit) -> None:
        """Raise TableNotFound for an unknown table, InvalidArgument for a table at another location."""
        if asked.table_id not in self._known:
            tables = await self._service.workers.look(self._service.unrestricted_owner.tables)
            self._known |= {table.table_id: parse_location(table.location) for table in tables}
        known = self._known.get(asked.table_id)
        if known is None:
            raise TableNotFound(f"the commit owner has no table {asked.table_id}")
        if known != parse_location(asked.table_uri):
            raise InvalidArgument(f"the table {asked.table_id} is at {known.url}, found {asked.table_uri}")
