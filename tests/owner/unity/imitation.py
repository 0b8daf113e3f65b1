"""An imitation of a Unity Catalog after its API description, in this process: no server of it can be had here.

It keeps tables in memory, knows nothing of Slackwater, and publishes nothing. Its log of requests is for tests.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import orjson

API = "https://catalog.example.com/api/2.1/unity-catalog"
_DELTA = "/api/2.1/unity-catalog/delta/v1"
_TABLE = re.compile(rf"{_DELTA}/catalogs/main/schemas/(\w+)/tables/(\w+)(/\w+)?")
_SCHEMA = re.compile(rf"{_DELTA}/catalogs/main/schemas/(\w+)/(staging-tables|tables)")


class Refused(Exception):
    """An error response of the catalog."""

    def __init__(self, status: int, kind: str, message: str = "no") -> None:
        super().__init__(message)
        self.status, self.kind, self.message = status, kind, message


@dataclass
class Entry:
    """A table of the catalog."""

    table_id: str
    location: str
    description: dict[str, Any]
    commits: list[dict[str, Any]] = field(default_factory=list)
    latest: int = 0


@dataclass
class Imitation:
    """The catalog `main` with the schema `sales`. `most_unpublished` limits the commits of a table."""

    root: Path
    most_unpublished: int = 100
    tables: dict[tuple[str, str], Entry] = field(default_factory=dict)
    staged: dict[str, str] = field(default_factory=dict)
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    fault: Callable[[httpx.Request, Callable[[], httpx.Response]], httpx.Response] | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    expires_ms: int = 2**60

    def client(self) -> httpx.Client:
        """A client whose requests end here."""
        return httpx.Client(transport=httpx.MockTransport(self.handle))

    def handle(self, request: httpx.Request) -> httpx.Response:
        return self._answer(request) if self.fault is None else self.fault(request, lambda: self._answer(request))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        body = orjson.loads(request.content) if request.content else None
        self.requests.append((request.method, request.url.path, body))
        try:
            return httpx.Response(200, json=self._handled(request, request.url.path, body))
        except Refused as error:
            return httpx.Response(
                error.status, json={"error": {"message": error.message, "type": error.kind, "code": error.status}}
            )

    def _handled(self, request: httpx.Request, path: str, body: Any) -> Any:
        if path.endswith("/metastore_summary"):
            return {"metastore_id": "19a85dee-54bc-43a2-87ab-023d0ec16013", "name": "imitation"}
        if path == f"{_DELTA}/config":
            if request.url.params["catalog"] != "main":
                raise Refused(404, "NoSuchCatalogException", "no such catalog")
            return {"endpoints": [], "protocol-version": "1.0"}
        if path.endswith("/schemas"):
            # One schema a page.
            last = request.url.params.get("page_token") == "2"
            return (
                {"schemas": [{"name": "sales"}]} if last else {"schemas": [{"name": "empty"}], "next_page_token": "2"}
            )
        if path == "/api/2.1/unity-catalog/tables":
            return {"tables": self._listed(request.url.params["schema_name"])}
        if found := _TABLE.fullmatch(path):
            return self._table(request, (found[1], found[2]), found[3], body)
        if found := _SCHEMA.fullmatch(path):
            return self._stage(body) if found[2] == "staging-tables" else self._create(found[1], body)
        raise Refused(404, "NotFoundException")

    def _listed(self, schema: str) -> list[dict[str, Any]]:
        managed = {"data_source_format": "DELTA", "table_type": "MANAGED"}
        found = [
            {"name": name, "table_id": entry.table_id, "storage_location": entry.location, **managed}
            for (of, name), entry in self.tables.items()
            if of == schema
        ]
        outside = {"name": "outside", "table_id": str(uuid.uuid4()), "storage_location": "file:///nowhere"}
        return [*found, {**outside, "data_source_format": "PARQUET", "table_type": "EXTERNAL"}]

    def _stage(self, body: Any) -> Any:
        table_id = str(uuid.uuid4())
        self.staged[table_id] = f"{self.root.as_uri()}/{table_id}"
        return {
            "table-id": table_id,
            "table-type": "MANAGED",
            "location": self.staged[table_id],
            "storage-credentials": [],
            "required-protocol": {
                "min-reader-version": 3,
                "min-writer-version": 7,
                "reader-features": ["catalogManaged", "deletionVectors", "v2Checkpoint", "vacuumProtocolCheck"],
                "writer-features": [
                    "catalogManaged", "deletionVectors", "inCommitTimestamp", "v2Checkpoint", "vacuumProtocolCheck",
                ],
            },
            "required-properties": {
                "delta.checkpointPolicy": "v2",
                "delta.enableDeletionVectors": "true",
                "delta.enableInCommitTimestamps": "true",
                "io.unitycatalog.tableId": table_id,
            },
            "suggested-properties": {"delta.columnMapping.mode": "name"},
        }  # fmt: skip

    def _create(self, schema: str, body: Any) -> Any:
        key = (schema, body["name"])
        if key in self.tables:
            raise Refused(409, "AlreadyExistsException")
        table_id = body["properties"].get("io.unitycatalog.tableId")
        if self.staged.get(table_id) != body["location"]:
            raise Refused(400, "InvalidParameterValueException", "not a staging table")
        self.tables[key] = Entry(table_id, body["location"], body)
        return self._loaded(self.tables[key])

    def _table(self, request: httpx.Request, key: tuple[str, str], rest: str | None, body: Any) -> Any:
        entry = self.tables.get(key)
        if entry is None:
            raise Refused(404, "NoSuchTableException")
        if rest == "/credentials":
            return {
                "storage-credentials": [
                    {
                        "prefix": prefix,
                        "operation": request.url.params["operation"],
                        "expiration-time-ms": self.expires_ms,
                        "config": {**self.config, "azure.sas-token": None},
                    }
                    for prefix in ((entry.location,) if self.config else ())
                ]
            }
        if rest == "/rename":
            self.tables[key[0], body["new-name"]] = self.tables.pop(key)
            return {}
        if request.method == "DELETE":
            del self.tables[key]
            return {}
        return self._loaded(entry) if request.method == "GET" else self._updated(entry, body)

    def _updated(self, entry: Entry, body: Any) -> Any:
        (requirement,) = body["requirements"]
        if requirement != {"type": "assert-table-uuid", "uuid": entry.table_id}:
            raise Refused(409, "UpdateRequirementConflictException")
        updates = {update["action"]: update for update in body["updates"]}
        assert len(updates) == len(body["updates"]), "at most one update of each kind"
        if "add-commit" in updates:
            self._commit(entry, updates["add-commit"]["commit"])
        properties = entry.description["properties"]
        properties.update(updates.get("set-properties", {}).get("updates", {}))
        for key in updates.get("remove-properties", {}).get("removals", ()):
            del properties[key]
        entry.description["columns"] = updates.get("set-columns", entry.description)["columns"]
        entry.description["protocol"] = updates.get("set-protocol", entry.description)["protocol"]
        if "set-latest-backfilled-version" in updates:
            reached = updates["set-latest-backfilled-version"]["latest-published-version"]
            entry.commits = [commit for commit in entry.commits if commit["version"] > reached]
        return self._loaded(entry)

    def _commit(self, entry: Entry, commit: Any) -> None:
        if commit["version"] != entry.latest + 1:
            raise Refused(409, "CommitVersionConflictException")
        if len(entry.commits) >= self.most_unpublished:
            raise Refused(429, "ResourceExhaustedException")
        entry.commits.append(commit)
        entry.latest = commit["version"]

    def _loaded(self, entry: Entry) -> Any:
        told = entry.description
        derived = {"delta.minReaderVersion": "3", "delta.feature.catalogManaged": "supported"}
        return {
            "metadata": {
                "etag": str(entry.latest),
                "table-type": "MANAGED",
                "table-uuid": entry.table_id,
                "location": entry.location,
                "created-time": 1,
                "updated-time": told["last-commit-timestamp-ms"],
                "columns": told["columns"],
                "partition-columns": told.get("partition-columns", []),
                "properties": {**told["properties"], **derived},
            },
            "commits": entry.commits[::-1],
            "latest-table-version": entry.latest,
        }
