"""Schema log of a stream: the schemas used to read a table, in order, to follow renamed and dropped columns.

Each schema is a numbered file at the option schemaTrackingLocation, in the format of delta-spark's source.
Source: delta-spark's DeltaSourceMetadataTrackingLog, PersistedMetadata.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from slackwater.errors import (
    CorruptLog,
    CorruptTable,
    ObjectExists,
    OperationNotAllowed,
    SlackwaterError,
    StorageRefused,
)
from slackwater.protocol.actions.actions import Metadata, Protocol
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.schema.schema import StructType, parse_schema, schema_to_json
from slackwater.storage.store import ObjectStore

_HEADER = b"v1\n"
_METADATA, _FIRST = "metadata", "sources/0"


@dataclass(frozen=True)
class TrackedSchema:
    """The configuration of a table at `version`, used by a stream from this version on.

    `number` is the position of the entry in the log. `before` is the number of the previous entry, None for the entry
    directly before. `source` is the location of Spark's metadata of the source, used by delta-spark to identify the
    owner of the log; '' if unknown.
    """

    number: int
    version: int
    configuration: TableConfiguration
    before: int | None = None
    source: str = ""


@dataclass(frozen=True)
class SchemaLog:
    """The schema log of one source: the directory `directory` of `store`, for the table with `table_id`.

    `location` is the location of the store in the user's form.
    """

    store: ObjectStore
    directory: str
    table_id: str
    location: str = ""

    @staticmethod
    def of(store: ObjectStore, table_id: str, tracking_id: str | None = None, location: str = "") -> SchemaLog:
        """Return the log in `store`, opened at the schemaTrackingLocation `location` in the user's form.

        `tracking_id` distinguishes two sources of one query on the same table.
        """
        own = "" if tracking_id is None else f"_{tracking_id}"
        return SchemaLog(store, f"_schema_log_{table_id}{own}", table_id, location)

    def newest(self) -> TrackedSchema | None:
        """Return the current schema of the stream, None before its start. Raises CorruptLog, CorruptTable."""
        numbers = self._numbers()
        return self._entry(numbers[-1]) if numbers else None

    def before(self, entry: TrackedSchema) -> TrackedSchema | None:
        """Return the schema of the stream before `entry`, None for the first entry. Raises as `newest`."""
        number = entry.number - 1 if entry.before is None else entry.before
        return self._entry(number) if number in self._numbers() else None

    def append(self, version: int, configuration: TableConfiguration) -> TrackedSchema:
        """Append an entry: the stream reads with `configuration` from `version` on.

        Raises OperationNotAllowed if another stream has written the same entry, StorageRefused if the store has no
        conditional puts. Nothing is written then.
        """
        try:
            self.store.require_conditional_puts(self.directory)
        except StorageRefused as error:
            raise StorageRefused(
                f"{self.location or self.store.root_url}: schemas of a stream cannot be tracked there. Choose a "
                f"schemaTrackingLocation in another store: {error}"
            ) from error
        numbers = self._numbers()
        source = self._entry(numbers[-1]).source if numbers else source_place(self.store, self.location)
        entry = TrackedSchema(numbers[-1] + 1 if numbers else 0, version, configuration, source=source)
        try:
            self.store.put_if_absent(self._path(entry.number), _HEADER + orjson.dumps(_to_json(entry)))
        except ObjectExists as error:
            raise OperationNotAllowed(
                f"{self.store.root_url}: another stream tracks its schemas at the same schemaTrackingLocation. Use "
                "another location for each stream, and a streamingSourceTrackingId for each of two sources of a "
                "query on one table",
                error_class="DELTA_STREAMING_SCHEMA_LOCATION_CONFLICT",
            ) from error
        return entry

    def _numbers(self) -> list[int]:
        names = (meta.path.rpartition("/")[2] for meta in self.store.list_from(self.directory))
        return sorted(int(name) for name in names if name.isdigit())

    def _path(self, number: int) -> str:
        return f"{self.directory}/{number}"

    def _entry(self, number: int) -> TrackedSchema:
        where = f"{self.store.root_url}/{self._path(number)}"
        header, _, text = self.store.read(self._path(number)).partition(b"\n")
        try:
            node = orjson.loads(text)
            if header + b"\n" != _HEADER or not isinstance(node, dict):
                raise ValueError(header)
            entry = _from_json(node, number, where)
        except (ValueError, KeyError, TypeError, CorruptLog) as error:
            raise CorruptLog(
                f"{where} is not a schema of a stream's source ({error}). Choose another schemaTrackingLocation",
                error_class="DELTA_STREAMING_SCHEMA_LOG_DESERIALIZE_FAILED",
            ) from error
        if entry.configuration.metadata.id != self.table_id:
            raise CorruptTable(
                f"{where} belongs to the table with the id {entry.configuration.metadata.id}, but the stream reads "
                f"the table with the id {self.table_id}. Choose another schemaTrackingLocation",
                error_class="DELTA_STREAMING_SCHEMA_LOG_INCOMPATIBLE_DELTA_TABLE_ID",
            )
        return entry


def _to_json(entry: TrackedSchema) -> dict[str, Any]:
    metadata = entry.configuration.metadata
    fields = tuple(f for f in entry.configuration.schema if f.name in metadata.partition_columns)
    by_name = {field.name: field for field in fields}
    partitions = StructType(tuple(by_name[name] for name in metadata.partition_columns))
    return {
        "tableId": metadata.id,
        "deltaCommitVersion": entry.version,
        "dataSchemaJson": metadata.schema_string,
        "partitionSchemaJson": schema_to_json(partitions),
        "sourceMetadataPath": entry.source,
        "tableConfigurations": dict(metadata.configuration),
        "protocolJson": orjson.dumps(entry.configuration.protocol.to_json()).decode(),
    }


def _from_json(node: Mapping[str, Any], number: int, where: str) -> TrackedSchema:
    protocol = orjson.loads(node["protocolJson"])["protocol"]
    metadata = Metadata(
        str(node["tableId"]),
        node["dataSchemaJson"],
        tuple(parse_schema(node["partitionSchemaJson"]).names),
        {str(key): str(value) for key, value in (node.get("tableConfigurations") or {}).items()},
    )
    configuration = TableConfiguration(Protocol.from_json(protocol, where), metadata)
    before = node.get("previousMetadataSeqNum")
    return TrackedSchema(
        number,
        int(node["deltaCommitVersion"]),
        configuration,
        None if before is None else int(before),
        str(node.get("sourceMetadataPath") or ""),
    )


def source_place(store: ObjectStore, location: str) -> str:
    """Return the location of the query's first source, in Spark's form, for a `store` inside the query's checkpoint.

    `location` is the root of `store` in the user's form. Returns '' if the root is in no checkpoint. For a query with
    several sources, the result may belong to a different source, because Spark does not identify the source.
    """
    for url, place in zip(_parents(store.root_url), _parents(_as_hadoop(store, location)), strict=False):
        try:
            holder, path = store.at(f"{url}/{_METADATA}")
            if _is_query(holder.read(path)):
                return f"{place}/{_FIRST}"
        except SlackwaterError:
            # The file does not exist, or cannot be read.
            continue
    return ""


def _parents(place: str) -> Iterator[str]:
    """Yield the parent directories, the nearest first, down to the last one with a name."""
    scheme, separator, path = place.partition(":")
    root = len(scheme) + len(separator) + (2 if path.startswith("//") else 0)
    while place.rfind("/") > root:
        place = place[: place.rfind("/")]
        yield place


def _as_hadoop(store: ObjectStore, location: str) -> str:
    """Return the location in the form of Hadoop's Path: one slash for a local file system, no percent-encoding."""
    if store.local_root is not None:
        return f"file:{store.local_root}"
    return location.rstrip("/")


def _is_query(metadata: bytes) -> bool:
    """Return whether a file named `metadata` belongs to a checkpoint: it contains the id of a query."""
    try:
        found = orjson.loads(metadata)
    except ValueError:
        return False
    return isinstance(found, dict) and "id" in found
