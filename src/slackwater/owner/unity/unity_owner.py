"""A Unity Catalog as the commit owner of its tables: this process stages, the catalog ratifies, this process publishes.

The timestamp of a commit is the time of this process, after the timestamp of the version before. The catalog offers no
transactions over several tables. Source: PROTOCOL.md "Commit Protocol"; unitycatalog `api/delta.yaml`.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

from slackwater.errors import (
    CommitOwnerBusy,
    CommitOwnerUnavailable,
    CommitUnknown,
    ConcurrentWriteException,
    InvalidArgument,
    NotAuthorized,
    ObjectExists,
    ObjectNotFound,
    SlackwaterError,
    StorageError,
    TableNotFound,
    UnratifiedCommit,
    UnsupportedFeature,
)
from slackwater.owner.api.catalog import UNITY_SCHEME, StagedTable
from slackwater.owner.api.commits import (
    LATEST,
    Commit,
    CommitConflict,
    CommitRequest,
    CommitResponse,
    GetCommitsResponse,
    ManagedTable,
    OwnershipProposal,
    TableState,
)
from slackwater.owner.api.owner_registry import register_table, reopened
from slackwater.owner.commit.commit_validation import require_valid
from slackwater.owner.state.commit_content import content, facts_of
from slackwater.owner.state.commit_files import is_published, stage, transaction_at
from slackwater.owner.unity.catalog_client import (
    CatalogClient,
    CatalogTable,
    TableName,
    TooManyUnpublished,
)
from slackwater.owner.unity.catalog_stores import CatalogStores
from slackwater.owner.unity.known_tables import KnownTables
from slackwater.owner.unity.single_table_owner import SingleTableOwner
from slackwater.owner.unity.table_updates import new_table, updates_of
from slackwater.protocol.actions.actions import Metadata, Protocol, parse_commit
from slackwater.protocol.actions.file_names import STAGED_COMMITS_DIRECTORY, commit_path, staged_file_name, staged_path
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.storage.conditional_puts import copy_assuming_single_writer, put_assuming_single_writer
from slackwater.storage.store import ObjectStore

_MOST_ATTEMPTS = 20
_MOST_LOADS = 8
_log = logging.getLogger(__name__)


class UnityCatalogOwner(SingleTableOwner):
    """A `CommitOwner` for the catalog-managed tables of one catalog. Tables are called `schema.table`. Thread-safe."""

    def __init__(self, client: CatalogClient, storage_options: Mapping[str, str] | None = None) -> None:
        """Connect. `storage_options` override the catalog's credentials.

        Raises TableNotFound without the catalog, UnsupportedFeature if it lacks the Delta API, CommitOwnerUnavailable,
        NotAuthorized.
        """
        super().__init__(f"the catalog {client.catalog} at {client.url}")
        self._client = client
        self._options = dict(storage_options or {})
        client.require_delta_api()
        self._owner_id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{client.metastore_id()}/{client.catalog}"))
        self._known = KnownTables()
        self._stores = CatalogStores(client, self._known, self._options)

    @property
    def owner_id(self) -> str:
        """Identity of the catalog, derived from its metastore and name."""
        return self._owner_id

    @property
    def endpoint(self) -> str | None:
        """URL of the catalog's API."""
        return self._client.url

    @property
    def catalog(self) -> str:
        """Name of the catalog."""
        return self._client.catalog

    def __repr__(self) -> str:
        return f"UnityCatalogOwner({self._client.url!r}, {self.catalog!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the client for other processes. They use the same catalog."""
        return reopened, (self._owner_id, partial(UnityCatalogOwner, self._client, self._options))

    def commit(self, request: CommitRequest) -> CommitResponse | CommitConflict:
        """See CommitOwner. A commit never moves to a later version, also with `may_move`."""
        require_valid(request.actions)
        facts_of(request.actions, request.commit_id)
        known = self._known.get(request.table_id)
        table = None if known is None else known.table
        # The last description saves a request. If it is old, the catalog refuses the commit.
        if table is None or request.is_replay or table.latest_version != request.version - 1:
            table = self._load(request.table_id)
        store = self._stores.open(table.location)
        for attempt in range(_MOST_ATTEMPTS):
            if table.latest_version >= request.version:
                return self._result(table, store, request)
            if table.latest_version < request.version - 1:
                raise InvalidArgument(
                    f"{table.name}: version {request.version - 1} does not exist. The latest is {table.latest_version}"
                )
            try:
                done = self._try_commit(table, store, request)
            except TableNotFound:
                # Another client renamed the table after its description.
                if self._load(request.table_id).name == table.name:
                    raise
                done = None
            if done is not None:
                return done
            if attempt:
                # The catalog refused the timestamp, because its clock is ahead or it has assigned later times.
                time.sleep(min(0.01 * 2**attempt, 1.0))
            table = self._load(request.table_id)
        raise CommitOwnerBusy(
            f"{self._client.url} refused {_MOST_ATTEMPTS} commits of {table.name} in turn. Retry later"
        )

    def _try_commit(self, table: CatalogTable, store: ObjectStore, request: CommitRequest) -> CommitResponse | None:
        """Stage the commit and have it ratified. None if the catalog refused it without effect."""
        timestamp_ms = max(_now_ms(), self._timestamp_ms(table, store) + 1)
        data = content(request.actions, request.version, timestamp_ms)
        file_name = staged_file_name(request.version, str(uuid.uuid4()), STAGED_COMMITS_DIRECTORY)
        stage(store, file_name, data)
        commit = Commit(request.version, file_name, timestamp_ms, len(data), data)
        try:
            after = self._ratified(table, store, commit, request)
        except CommitUnknown:
            raise
        except ConcurrentWriteException:
            # The catalog may refuse a repeated request, because the first one was carried out.
            try:
                after = self._load(request.table_id)
                is_committed = self._has(after, store, commit)
            except SlackwaterError as error:
                raise CommitUnknown(
                    f"{table.name}: the outcome of the commit is unknown, because the table cannot be loaded: {error}. "
                    "Read the table"
                ) from error
            if not is_committed:
                # As long as the version is free, an earlier try may still arrive, and needs its file.
                if after.latest_version >= commit.version:
                    _delete_staged(store, file_name)
                return None
        self._known.record_description(after, timestamp_ms if after.latest_version == commit.version else None)
        self._publish(after, store, LATEST)
        return CommitResponse(commit, max(after.latest_version, commit.version))

    def _ratified(
        self, table: CatalogTable, store: ObjectStore, commit: Commit, request: CommitRequest
    ) -> CatalogTable:
        updates = updates_of(request.actions, table.properties, table.partition_columns)
        try:
            return self._client.add_commit(table, commit, updates, self._unreported(table))
        except TooManyUnpublished:
            self._publish(table, store, LATEST)
            self._report(table)
        try:
            return self._client.add_commit(table, commit, updates, None)
        except TooManyUnpublished as error:
            raise CommitOwnerBusy(f"{table.name} has too many commits that are not published yet: {error}") from error

    def _result(
        self, table: CatalogTable, store: ObjectStore, request: CommitRequest
    ) -> CommitResponse | CommitConflict:
        """Return the response to a request whose version exists: its own commit, or a conflict."""
        found = next((each for each in table.unpublished if each.version == request.version), None)
        try:
            data = store.read(commit_path(request.version) if found is None else staged_path(found.file_name))
        except ObjectNotFound:
            if not request.is_replay:
                return CommitConflict(table.latest_version)
            raise CommitUnknown(
                f"{table.name}: the file of version {request.version} is gone, so the outcome of an earlier request "
                "is unknown. Read the table"
            ) from None
        info = parse_commit(data, store.root_url)[0].get("commitInfo") or {}
        if info.get("txnId") != request.commit_id:
            return CommitConflict(table.latest_version)
        name = "" if found is None else found.file_name
        commit = Commit(request.version, name, int(info["inCommitTimestamp"]), len(data), data)
        return CommitResponse(commit, table.latest_version)

    def _has(self, table: CatalogTable, store: ObjectStore, commit: Commit) -> bool:
        """Return whether the version of `commit` is this commit. Raises CommitUnknown if its file is gone."""
        for each in table.unpublished:
            if each.version == commit.version:
                return each.file_name == commit.file_name
        if table.latest_version < commit.version:
            return False
        try:
            return store.read(commit_path(commit.version)) == commit.data
        except ObjectNotFound as error:
            raise CommitUnknown(
                f"{table.name}: the file of version {commit.version} is gone. Read the table"
            ) from error

    def get_commits(
        self, table_id: str, start_version: int, end_version: int = LATEST, with_data: bool = False
    ) -> GetCommitsResponse:
        """See CommitOwner. Commits never include their content."""
        del with_data
        table = self._load(table_id)
        last = table.latest_version if end_version == LATEST else end_version
        return GetCommitsResponse(
            [commit for commit in table.unpublished if start_version <= commit.version <= last], table.latest_version
        )

    def backfill_to_version(self, table_id: str, version: int = LATEST) -> int:
        """See CommitOwner."""
        known = self._known.get(table_id)
        if known is not None and version != LATEST and known.published_version >= version:
            return known.published_version
        table = self._load(table_id)
        reached = self._publish(table, self._stores.open(table.location), version, raises=True)
        self._report(table)
        return reached

    def tables(self) -> list[ManagedTable]:
        """See CommitOwner. Each table is loaded by a request."""
        return [self._managed(table) for table in self._load_all()]

    def table(self, name: str) -> ManagedTable:
        """See CommitOwner. A name without a schema is in the schema `default`."""
        return self._managed(self._named(TableName.parse(name)))

    def table_names(self) -> list[str]:
        """See Catalog."""
        return sorted(str(each.name) for each in self._client.tables())

    def has_table(self, name: str) -> bool:
        """See Catalog."""
        with suppress(TableNotFound):
            self._named(TableName.parse(name))
            return True
        return False

    def stage_table(self, name: str) -> StagedTable:
        """See Catalog."""
        parsed = TableName.parse(name)
        staged, credentials = self._client.stage_table(parsed)
        self._known.add(staged.table_id, parsed, staged.location)
        self._known.record_credentials(staged.table_id, credentials)
        return staged

    def take(self, proposal: OwnershipProposal) -> CommitResponse | CommitConflict:
        """Create a table in its staging place, see `stage_table`: write version 0, then register it in the catalog.

        Raises OperationNotAllowed for an existing table, because a catalog adopts none.
        """
        if proposal.version:
            raise self._unsupported("adopt existing tables")
        require_valid(proposal.actions)
        facts_of(proposal.actions, proposal.commit_id)
        store = self._stores.open(proposal.location)
        data = content(proposal.actions, 0, _now_ms())
        try:
            put_assuming_single_writer(store, commit_path(0), data)
        except ObjectExists:
            if transaction_at(store, 0) != proposal.commit_id:
                return CommitConflict(0)
            data = store.read(commit_path(0))
        actions = parse_commit(data, store.root_url)
        nodes = {kind: node for action in actions for kind, node in action.items()}
        configuration = TableConfiguration(
            Protocol.from_json(nodes["protocol"], store.root_url), Metadata.from_json(nodes["metaData"], store.root_url)
        )
        name = TableName.parse(proposal.name)
        table = self._create(name, proposal, new_table(name.table, proposal.location, configuration, actions))
        timestamp_ms = int(actions[0]["commitInfo"]["inCommitTimestamp"])
        self._remember(name, proposal.table_id, proposal.location)
        self._known.record_description(table, timestamp_ms if table.latest_version == 0 else None)
        return CommitResponse(Commit(0, "", timestamp_ms, len(data), data), 0)

    def _create(self, name: TableName, proposal: OwnershipProposal, description: Mapping[str, Any]) -> CatalogTable:
        try:
            return self._client.create_table(name, description)
        except SlackwaterError as error:
            # The response may be lost, or a repeated request may find the table of the first one.
            try:
                found = self._client.load(name)
            except TableNotFound:
                raise error from None
            except SlackwaterError as second:
                raise CommitUnknown(
                    f"{name}: the outcome of the creation is unknown, because the catalog does not return the table: "
                    f"{second}. Look the table up"
                ) from error
            if found.table_id == proposal.table_id:
                return found
            raise

    def drop(self, name: str) -> None:
        """See Catalog."""
        self._client.drop_table(TableName.parse(name))

    def rename(self, name: str, to: str) -> None:
        """See Catalog."""
        before, after = TableName.parse(name), TableName.parse(to)
        if before.schema != after.schema:
            raise InvalidArgument(f"{before} cannot be renamed to {after}: a catalog renames within a schema only")
        self._client.rename_table(before, after.table)
        self._known.forget_name(before)

    def repair(self, table_id: str | None = None) -> list[str]:
        """Publish what is ratified, in one table or all. Return a text for each table with unpublished commits."""
        done = []
        for table in self._load_all() if table_id is None else [self._load(table_id)]:
            if table.unpublished:
                reached = self._publish(table, self._stores.open(table.location), LATEST, raises=True)
                self._report(table)
                done.append(f"{table.name}: versions {table.unpublished[0].version} to {reached} were published")
        return done

    def storage_options(self, location: str) -> Mapping[str, str]:
        """See Catalog."""
        return self._stores.options(location)

    def use_options(self, options_of: Callable[[str], Mapping[str, str]]) -> None:
        """See Catalog."""
        self._stores.use_session_options(options_of)

    def close(self) -> None:
        """Report what this process published, best effort, and close the connections."""
        with suppress(CommitOwnerUnavailable):
            for known in self._known.all():
                if known.table is not None:
                    self._report_if_possible(known.table)
        self._client.close()

    def _load(self, table_id: str) -> CatalogTable:
        """Return the table with this id. Raises TableNotFound."""
        table = self._under_known_name(table_id)
        if table is None:
            # Unknown, dropped, or renamed by another client.
            for each in self._client.tables():
                self._remember(each.name, each.table_id, each.location)
            table = self._under_known_name(table_id)
        if table is None:
            raise TableNotFound(f"the catalog {self.catalog} at {self._client.url} has no table {table_id}")
        return table

    def _under_known_name(self, table_id: str) -> CatalogTable | None:
        """Return the table under its last known name. If it is not there, forget the name, and return None."""
        known = self._known.get(table_id)
        if known is None:
            return None
        with suppress(TableNotFound):
            table = self._named(known.name)
            if table.table_id == table_id:
                return table
        self._known.forget(table_id)
        return None

    def _load_all(self) -> list[CatalogTable]:
        """Return the tables of all schemas that can be loaded, by name."""

        def load(name: TableName) -> CatalogTable | None:
            # A listed table may be dropped, not managed by the catalog, or forbidden for this token.
            with suppress(TableNotFound, UnsupportedFeature, NotAuthorized):
                return self._named(name)
            return None

        names = [each.name for each in self._client.tables()]
        with ThreadPoolExecutor(_MOST_LOADS) as pool:
            found = [table for table in pool.map(load, names) if table is not None]
        return sorted(found, key=lambda table: str(table.name))

    def _named(self, name: TableName) -> CatalogTable:
        table = self._client.load(name)
        self._remember(name, table.table_id, table.location)
        self._known.record_description(table)
        return table

    def _remember(self, name: TableName, table_id: str, location: str) -> None:
        self._known.add(table_id, name, location)
        register_table(self, table_id, location)

    def _managed(self, table: CatalogTable) -> ManagedTable:
        stamps = [commit.timestamp_ms for commit in table.unpublished]
        return ManagedTable(
            table.table_id,
            str(table.name),
            table.location,
            TableState.ACTIVE,
            table.latest_version,
            table.published_version,
            max(stamps, default=table.updated_ms),
        )

    def _timestamp_ms(self, table: CatalogTable, store: ObjectStore) -> int:
        """Return the in-commit timestamp of the latest version."""
        if table.unpublished:
            return table.unpublished[-1].timestamp_ms
        known = self._known.get(table.table_id)
        described = None if known is None else known.table
        is_known = described is not None and described.latest_version == table.latest_version
        if known is not None and is_known and known.timestamp_ms is not None:
            return known.timestamp_ms
        path = commit_path(table.latest_version)
        try:
            info = parse_commit(store.read(path), f"{store.root_url}/{path}")[0].get("commitInfo") or {}
        except ObjectNotFound as error:
            raise UnratifiedCommit(
                f"{store.root_url}/{path} does not exist, but {self.catalog} records it as published. Restore the file"
            ) from error
        found = info.get("inCommitTimestamp")
        if not isinstance(found, int):
            raise UnratifiedCommit(f"{store.root_url}/{path} has no in-commit timestamp, which its table requires")
        return found

    def _publish(self, table: CatalogTable, store: ObjectStore, version: int, *, raises: bool = False) -> int:
        """Copy ratified commits up to `version` to `_delta_log`, and return the latest published version.

        Errors are only logged, unless `raises`: any client may publish later.
        """
        last = table.latest_version if version == LATEST else version
        known = self._known.get(table.table_id)
        reached = max(table.published_version, -1 if known is None else known.published_version)
        try:
            for commit in table.unpublished:
                if reached < commit.version <= last:
                    _publish_commit(store, commit)
                    reached = commit.version
        except SlackwaterError as error:
            if raises:
                raise
            _log.warning("%s was not published: %s", table.name, error)
        self._known.record_published(table.table_id, reached)
        return reached

    def _unreported(self, table: CatalogTable) -> int | None:
        """Return the latest published version, None if the catalog knows it."""
        known = self._known.get(table.table_id)
        reached = -1 if known is None else known.published_version
        return reached if table.published_version < reached <= table.latest_version else None

    def _report_if_possible(self, table: CatalogTable) -> None:
        """Report as `_report`. Raises CommitOwnerUnavailable, and ignores other errors: any client may report."""
        try:
            self._report(table)
        except CommitOwnerUnavailable:
            raise
        except SlackwaterError as error:
            _log.warning("%s: the published versions were not reported: %s", table.name, error)

    def _report(self, table: CatalogTable) -> None:
        """Report published versions that the catalog does not know. A commit reports them without a request."""
        reached = self._unreported(table)
        if reached is not None:
            self._known.record_description(self._client.report_published(table, reached))


def connect_catalog(
    url: str,
    catalog: str | None,
    token: str | None,
    storage_options: Mapping[str, str] | None,
    timeout_s: float,
    allow_http: bool,
    ca_file: str | None,
) -> UnityCatalogOwner:
    """Return the owner of the tables of a Unity Catalog at `url`, which begins with `uc:`.

    See `Lake.connect` for the parameters. Raises InvalidArgument if the prefix or the name of the catalog is missing.
    """
    if not url.startswith(UNITY_SCHEME) or not catalog:
        raise InvalidArgument(
            "a Unity Catalog needs its address and a catalog. Call connect('uc:https://host/api/2.1/unity-catalog', "
            "catalog='main')"
        )
    client = CatalogClient(
        url.removeprefix(UNITY_SCHEME), catalog, token, timeout_s, allow_http=allow_http, ca_file=ca_file
    )
    try:
        return UnityCatalogOwner(client, storage_options)
    except BaseException:
        client.close()
        raise


def _publish_commit(store: ObjectStore, commit: Commit) -> None:
    """Copy a ratified commit to `_delta_log`. Raises UnratifiedCommit if another commit is there."""
    staged, published = staged_path(commit.file_name), commit_path(commit.version)
    try:
        copy_assuming_single_writer(store, staged, published)
    except ObjectExists:
        # Another client published the commit, or a writer bypassed the catalog.
        if not is_published(store, commit.version, commit.file_name, None):
            raise UnratifiedCommit(
                f"{store.root_url}/{published} is not the version {commit.version} that the catalog ratified, "
                f"{staged}. Another writer bypassed the catalog"
            ) from None
    except ObjectNotFound:
        if store.head(published) is None:
            raise


def _delete_staged(store: ObjectStore, file_name: str) -> None:
    with suppress(StorageError):
        store.delete([staged_path(file_name)])


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
