"""Requests to the Delta API of a Unity Catalog, and its responses.

Source: unitycatalog `api/delta.yaml` (version 1.0) and `api/all.yaml` (schemas, tables, metastore_summary).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import httpx

from slackwater.errors import (
    CommitOwnerBusy,
    CommitOwnerUnavailable,
    CommitUnknown,
    ConcurrentWriteException,
    InvalidArgument,
    NotAuthorized,
    SlackwaterError,
    TableAlreadyExists,
    TableNotFound,
    UnsupportedFeature,
)
from slackwater.owner.api.catalog import CREDENTIALS, StagedTable
from slackwater.owner.api.commits import Commit
from slackwater.owner.served.client.deadline import ClientClock
from slackwater.owner.served.client.http_session import HttpSession
from slackwater.owner.served.client.retrying_transport import (
    OwnerRequest,
    ReportedError,
    RetryingTransport,
)
from slackwater.protocol.actions.file_names import STAGED_COMMITS_DIRECTORY

DEFAULT_SCHEMA = "default"
_VERSIONS = "1.0"
_DELTA = "/delta/v1"
_MOST_PAGES = 10_000
_STAGED = f"{STAGED_COMMITS_DIRECTORY}/"


class TooManyUnpublished(SlackwaterError):
    """The catalog accepts no commit of a table until earlier commits are published."""


@dataclass(frozen=True, slots=True)
class TableName:
    """A table by schema and name in its catalog."""

    schema: str
    table: str

    @staticmethod
    def parse(text: str) -> TableName:
        """Return the table called `schema.table`, or `table` in the schema `default`."""
        schema, _, table = text.rpartition(".")
        return TableName(schema or DEFAULT_SCHEMA, table)

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table as its catalog knows it: identity, place, properties, and ratified commits.

    `unpublished` are the ratified commits not published yet, oldest first.
    """

    name: TableName
    table_id: str
    location: str
    properties: Mapping[str, str]
    partition_columns: Sequence[str]
    unpublished: Sequence[Commit]
    latest_version: int
    updated_ms: int

    @property
    def published_version(self) -> int:
        """The latest version that the catalog knows to be in `_delta_log`."""
        return self.unpublished[0].version - 1 if self.unpublished else self.latest_version


@dataclass(frozen=True, slots=True)
class ListedTable:
    """A Delta table in the list of its schema."""

    name: TableName
    table_id: str
    location: str


@dataclass(frozen=True, slots=True)
class StorageCredential:
    """Storage options for the files below `prefix` (a URL), until `expires_ms`."""

    prefix: str
    options: Mapping[str, str] = field(repr=False)
    expires_ms: int


class CatalogClient:
    """Client of one catalog. Thread-safe. All calls raise CommitOwnerUnavailable and NotAuthorized."""

    def __init__(
        self,
        url: str,
        catalog: str,
        token: str | None,
        timeout_s: float,
        *,
        allow_http: bool = False,
        ca_file: str | None = None,
        client: httpx.Client | None = None,
        clock: ClientClock | None = None,
    ) -> None:
        """Create the client. `url` ends in `/api/2.1/unity-catalog`. The other parameters as `HttpSession`."""
        self._session = HttpSession(url, token, client, allow_http=allow_http, ca_file=ca_file)
        self._again = (url, catalog, token, timeout_s, ca_file)
        self.catalog = catalog
        self._timeout_s = timeout_s
        self._transport = RetryingTransport(self.url, self._send, clock or ClientClock(), _unity_error)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the client for other processes, with its token."""
        return _opened, self._again

    @property
    def url(self) -> str:
        """URL of the catalog's API."""
        return self._session.url

    def metastore_id(self) -> str:
        """Return the identity of the server's metastore. Raises CommitOwnerUnavailable if no catalog responds."""
        return _text(self._get("/metastore_summary"), "metastore_id")

    def require_delta_api(self) -> None:
        """Raise UnsupportedFeature if the server has no Delta API of version 1, TableNotFound without the catalog."""
        try:
            found = self._get(f"{_DELTA}/config", {"catalog": self.catalog, "protocol-versions": _VERSIONS})
        except TableNotFound as error:
            raise TableNotFound(
                f"{self.url} has no catalog named {self.catalog!r}, or no Delta API: {error}. Correct the address, or "
                "use Unity Catalog 0.5 or newer"
            ) from error
        if _text(found, "protocol-version").partition(".")[0] != "1":
            raise UnsupportedFeature(
                f"{self.url} has the Delta API {found['protocol-version']}, but only version 1 is supported"
            )

    def load(self, name: TableName) -> CatalogTable:
        """Return the table. Raises TableNotFound, and UnsupportedFeature if it is not managed by its catalog."""
        return self._loaded(name, self._get(self._path(name)))

    def tables(self) -> list[ListedTable]:
        """Return the catalog-managed tables of all schemas."""
        found = []
        for schema in self._pages("/schemas", {"catalog_name": self.catalog}, "schemas"):
            query = {"catalog_name": self.catalog, "schema_name": _text(schema, "name")}
            for node in self._pages("/tables", query, "tables"):
                if node.get("data_source_format") == "DELTA" and node.get("table_type") == "MANAGED":
                    name = TableName(query["schema_name"], _text(node, "name"))
                    found.append(ListedTable(name, _text(node, "table_id"), _text(node, "storage_location")))
        return found

    def add_commit(
        self, known: CatalogTable, commit: Commit, updates: Sequence[Mapping[str, Any]], published_version: int | None
    ) -> CatalogTable:
        """Have the catalog ratify a staged commit, and return the table.

        `updates` are the other changes of the commit. The request also reports `published_version`, if not None.

        Raises:
            ConcurrentWriteException: If another commit has the version, or the timestamp is too early.
            TooManyUnpublished: If earlier commits must be published first.
            CommitUnknown: If the outcome is unknown.
        """
        added = {
            "action": "add-commit",
            "commit": {
                "version": commit.version,
                "timestamp": commit.timestamp_ms,
                "file-name": commit.file_name.removeprefix(_STAGED),
                "file-size": commit.size_bytes,
                "file-modification-timestamp": commit.timestamp_ms,
            },
        }
        reports = [] if published_version is None else [_published(published_version)]
        body = _update(known.table_id, [added, *updates, *reports])
        return self._committed(known.name, self._send_body(self._path(known.name), body, is_commit=True))

    def report_published(self, known: CatalogTable, version: int) -> CatalogTable:
        """Report that the versions up to `version` are in `_delta_log`, and return the table."""
        body = _update(known.table_id, [_published(version)])
        return self._loaded(known.name, self._send_body(self._path(known.name), body, is_commit=False))

    def stage_table(self, name: TableName) -> tuple[StagedTable, Sequence[StorageCredential]]:
        """Allocate the place of a new table, and return it with credentials for its files.

        Raises TableAlreadyExists, TableNotFound without the schema.
        """
        path = f"{self._schema(name.schema)}/staging-tables"
        node = self._send_body(path, {"name": name.table}, is_commit=False)
        protocol = node.get("required-protocol") or {}
        features = [*(protocol.get("reader-features") or ()), *(protocol.get("writer-features") or ())]
        properties = {key: value for key, value in (node.get("required-properties") or {}).items() if value is not None}
        credentials = []
        for each in node.get("storage-credentials") or ():
            # An unknown kind does not matter if the caller has keys. If not, the store reports them missing.
            with suppress(UnsupportedFeature):
                credentials.append(_credential(each))
        names = sorted(set(features))
        return StagedTable(_text(node, "table-id"), _text(node, "location"), names, properties), credentials

    def create_table(self, name: TableName, description: Mapping[str, Any]) -> CatalogTable:
        """Create the table whose version 0 is in its place. Raises TableAlreadyExists, CommitUnknown."""
        path = f"{self._schema(name.schema)}/tables"
        return self._committed(name, self._send_body(path, description, is_commit=True))

    def drop_table(self, name: TableName) -> None:
        """Remove the table from the catalog, which may delete its files. Raises TableNotFound."""
        self._ask("DELETE", self._path(name), None, None, is_commit=True)

    def rename_table(self, name: TableName, to: str) -> None:
        """Rename the table within its schema. Raises TableNotFound, TableAlreadyExists."""
        self._send_body(f"{self._path(name)}/rename", {"new-name": to}, is_commit=True)

    def credentials(self, name: TableName) -> list[StorageCredential]:
        """Return credentials for the files of the table, to read if it may not be written. Empty if there are none.

        Raises UnsupportedFeature for a kind of credential without a storage option.
        """
        path = f"{self._path(name)}/credentials"
        try:
            found = self._get(path, {"operation": "READ_WRITE"})
        except NotAuthorized:
            found = self._get(path, {"operation": "READ"})
        return [_credential(node) for node in found.get("storage-credentials") or ()]

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def _schema(self, schema: str) -> str:
        return f"{_DELTA}/catalogs/{quote(self.catalog, safe='')}/schemas/{quote(schema, safe='')}"

    def _path(self, name: TableName) -> str:
        return f"{self._schema(name.schema)}/tables/{quote(name.table, safe='')}"

    def _pages(self, path: str, query: Mapping[str, str], key: str) -> Iterator[Mapping[str, Any]]:
        token = None
        for _ in range(_MOST_PAGES):
            found = self._get(path, dict(query) | ({"page_token": token} if token else {}))
            yield from found.get(key) or ()
            token = found.get("next_page_token")
            if not token:
                return

    def _get(self, path: str, query: Mapping[str, str] | None = None) -> Mapping[str, Any]:
        return self._ask("GET", path, None, query, is_commit=False)

    def _send_body(self, path: str, body: Mapping[str, Any], *, is_commit: bool) -> Mapping[str, Any]:
        return self._ask("POST", path, body, None, is_commit=is_commit)

    def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        query: Mapping[str, str] | None,
        *,
        is_commit: bool,
    ) -> Mapping[str, Any]:
        return self._transport.ask(OwnerRequest(method, path, body, query, is_commit, self._timeout_s)).value

    def _send(self, question: OwnerRequest, content: bytes | None, timeout_s: float) -> httpx.Response:
        response = self._session.send(question.method, question.path, question.query, content, timeout_s)
        if response.status_code == httpx.codes.NO_CONTENT:
            # The transport expects a JSON object.
            return httpx.Response(httpx.codes.OK, json={})
        return response

    def _committed(self, name: TableName, node: Mapping[str, Any]) -> CatalogTable:
        """Return the table in the response to a commit. Raises CommitUnknown for a malformed response."""
        try:
            return self._loaded(name, node)
        except SlackwaterError as error:
            raise CommitUnknown(f"{name}: the response to a commit is malformed: {error}. Read the table") from error

    def _loaded(self, name: TableName, node: Mapping[str, Any]) -> CatalogTable:
        metadata = node.get("metadata")
        if not isinstance(metadata, Mapping):
            raise self._malformed("metadata")
        latest = node.get("latest-table-version")
        if metadata.get("table-type") != "MANAGED" or not isinstance(latest, int):
            raise UnsupportedFeature(
                f"{self.catalog}.{name} is not managed by its catalog. Read it by its path, {metadata.get('location')}"
            )
        commits = sorted((_commit(each) for each in node.get("commits") or ()), key=lambda commit: commit.version)
        return CatalogTable(
            name,
            _text(metadata, "table-uuid"),
            _text(metadata, "location"),
            metadata.get("properties") or {},
            metadata.get("partition-columns") or (),
            commits,
            latest,
            int(metadata.get("updated-time") or 0),
        )

    def _malformed(self, key: str) -> CommitOwnerUnavailable:
        return CommitOwnerUnavailable(f"{self.url} sent a response without {key!r}. Compare the versions of the API")


def _opened(url: str, catalog: str, token: str | None, timeout_s: float, ca_file: str | None) -> CatalogClient:
    # `allow_http`, because the original client has already checked the URL for its token.
    return CatalogClient(url, catalog, token, timeout_s, allow_http=True, ca_file=ca_file)


def _update(table_id: str, updates: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return {"requirements": [{"type": "assert-table-uuid", "uuid": table_id}], "updates": list(updates)}


def _published(version: int) -> Mapping[str, Any]:
    return {"action": "set-latest-backfilled-version", "latest-published-version": version}


def _commit(node: Mapping[str, Any]) -> Commit:
    version, timestamp_ms, size = (_whole(node, key) for key in ("version", "timestamp", "file-size"))
    return Commit(version, _STAGED + _text(node, "file-name"), timestamp_ms, size)


def _whole(node: Mapping[str, Any], key: str) -> int:
    found = node.get(key)
    if not isinstance(found, int):
        raise CommitOwnerUnavailable(f"the catalog sent a commit without {key!r}. Compare the versions of the API")
    return found


def _text(node: Mapping[str, Any], key: str) -> str:
    found = node.get(key)
    if not isinstance(found, str) or not found:
        raise CommitOwnerUnavailable(f"the catalog sent a response without {key!r}. Compare the versions of the API")
    return found


_OPTIONS = {key: option for option, key in CREDENTIALS.items()}


def _credential(node: Mapping[str, Any]) -> StorageCredential:
    config = {key: value for key, value in (node.get("config") or {}).items() if value is not None}
    unknown = sorted(config.keys() - _OPTIONS.keys())
    if unknown:
        raise UnsupportedFeature(
            f"the catalog sent credentials of the kind {unknown[0]!r}, which no store here accepts. Pass "
            "storage_options instead"
        )
    options = {_OPTIONS[key]: str(value) for key, value in config.items()}
    return StorageCredential(_text(node, "prefix"), options, int(node.get("expiration-time-ms") or 0))


_BY_TYPE: Mapping[str, type[SlackwaterError]] = {
    "NotAuthorizedException": NotAuthorized,
    "PermissionDeniedException": NotAuthorized,
    "AlreadyExistsException": TableAlreadyExists,
    "CommitVersionConflictException": ConcurrentWriteException,
    "UpdateRequirementConflictException": ConcurrentWriteException,
    "ResourceExhaustedException": TooManyUnpublished,
    "TooManyRequestsException": CommitOwnerBusy,
    "CommitStateUnknownException": CommitUnknown,
    "NotImplementedException": UnsupportedFeature,
    "UnsupportedTableFormatException": UnsupportedFeature,
}
_BY_STATUS: Mapping[int, type[SlackwaterError]] = {
    400: InvalidArgument,
    401: NotAuthorized,
    403: NotAuthorized,
    404: TableNotFound,
    409: ConcurrentWriteException,
    429: CommitOwnerBusy,
    501: UnsupportedFeature,
}


def _unity_error(status: int, found: dict[str, Any] | None) -> ReportedError | None:
    """Return the error of a Unity Catalog: `error` with message and type, or `error_code` with a message."""
    node = found or {}
    detail = node["error"] if isinstance(node.get("error"), Mapping) else node
    name, message = detail.get("type") or detail.get("error_code"), detail.get("message")
    if not isinstance(name, str) or not isinstance(message, str):
        # A fresh server may have other bodies for unknown routes.
        return ReportedError(TableNotFound("the catalog has no such route"), True) if status == 404 else None
    kind = _BY_TYPE.get(name) or _BY_STATUS.get(status)
    if kind is None:
        return None
    # The API has no mark for a repeated request, so only a conflict is checked by the owner. A rejected repeat tells
    # nothing of the first request.
    return ReportedError(
        kind(message), True, ends_doubt=issubclass(kind, (ConcurrentWriteException, TableAlreadyExists))
    )
