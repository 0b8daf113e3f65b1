"""Tables of a catalog as this process knows them: names by id, the latest known version, and credentials.

A catalog finds tables by name only, and a commit follows the version that the catalog described last.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from slackwater.owner.unity.catalog_client import CatalogTable, StorageCredential, TableName

FOREVER_MS = 2**63 - 1


@dataclass(frozen=True, slots=True)
class KnownTable:
    """A table by name and location, with the last description by its catalog.

    `table` is the last description. `timestamp_ms` is that of its latest version, None if unknown.
    `published_version` is the latest version that this process has found or put in `_delta_log`. `options` are
    credentials, valid until `expires_ms`.
    """

    name: TableName
    location: str
    table: CatalogTable | None = None
    timestamp_ms: int | None = None
    published_version: int = -1
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    expires_ms: int = 0


class KnownTables:
    """The known tables by id. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: dict[str, KnownTable] = {}

    def get(self, table_id: str) -> KnownTable | None:
        """Return the table with this id, None if unknown."""
        return self._tables.get(table_id)

    def at(self, location: str) -> tuple[str, KnownTable] | None:
        """Return the id and the table at this URL, None if unknown."""
        with self._lock:
            return next(((key, known) for key, known in self._tables.items() if known.location == location), None)

    def all(self) -> Sequence[KnownTable]:
        """Return all known tables."""
        with self._lock:
            return list(self._tables.values())

    def add(self, table_id: str, name: TableName, location: str) -> None:
        """Add a table, or change its name and location."""
        with self._lock:
            known = self._tables.get(table_id)
            found = KnownTable(name, location) if known is None else replace(known, name=name, location=location)
            self._tables[table_id] = found

    def forget(self, table_id: str) -> None:
        """Remove a table that its catalog does not have any more."""
        with self._lock:
            self._tables.pop(table_id, None)

    def forget_name(self, name: TableName) -> None:
        """Remove the table called `name`, because its catalog has renamed it."""
        with self._lock:
            self._tables = {key: known for key, known in self._tables.items() if known.name != name}

    def record_description(self, table: CatalogTable, timestamp_ms: int | None = None) -> None:
        """Record a description, unless a later one is known. `timestamp_ms` is that of its latest version, if known."""
        with self._lock:
            known = self._tables.get(table.table_id) or KnownTable(table.name, table.location)
            before = known.table
            if before is not None and before.latest_version > table.latest_version:
                return
            if timestamp_ms is None and table.unpublished:
                timestamp_ms = table.unpublished[-1].timestamp_ms
            if timestamp_ms is None and before is not None and before.latest_version == table.latest_version:
                timestamp_ms = known.timestamp_ms
            published = max(known.published_version, table.published_version)
            self._tables[table.table_id] = replace(
                known, table=table, timestamp_ms=timestamp_ms, published_version=published
            )

    def record_published(self, table_id: str, version: int) -> None:
        """Record that the versions up to `version` are in `_delta_log`."""
        with self._lock:
            known = self._tables.get(table_id)
            if known is not None and known.published_version < version:
                self._tables[table_id] = replace(known, published_version=version)

    def record_credentials(self, table_id: str, credentials: Sequence[StorageCredential]) -> Mapping[str, str]:
        """Record the credentials for a known table, and return the options of the one for its location."""
        with self._lock:
            known = self._tables.get(table_id)
            if known is None:
                return {}
            inside = f"{known.location.rstrip('/')}/"
            fitting = [each for each in credentials if inside.startswith(f"{each.prefix.rstrip('/')}/")]
            best = max(fitting, key=lambda each: len(each.prefix), default=None)
            options, expires_ms = ({}, FOREVER_MS) if best is None else (best.options, best.expires_ms)
            self._tables[table_id] = replace(known, options=options, expires_ms=expires_ms)
            return options
