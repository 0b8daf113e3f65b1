"""The actions of the log as immutable values, and their JSON form.

Snapshot reads do not create one of these objects per file: see `slackwater.log.files.file_actions`.
Source: delta-protocol.md "Actions".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from slackwater.errors import CorruptLog
from slackwater.protocol.actions.action_fields import names, optional, required, string_map

NO_COLUMNS = '{"type":"struct","fields":[]}'
"""The schema string of a table without columns."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """The versions and features required to read and to write the table. Source: "Protocol Evolution"."""

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None

    @staticmethod
    def from_json(node: Mapping[str, Any], where: str) -> Protocol:
        """Return the protocol in `node`. Raises CorruptLog, naming `where`, for a missing or malformed field."""
        return Protocol(
            required(node, "minReaderVersion", int, where, "protocol"),
            required(node, "minWriterVersion", int, where, "protocol"),
            names(node, "readerFeatures", where, "protocol"),
            names(node, "writerFeatures", where, "protocol"),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the `protocol` action."""
        node: dict[str, Any] = {
            "minReaderVersion": self.min_reader_version,
            "minWriterVersion": self.min_writer_version,
        }
        if self.reader_features is not None:
            node["readerFeatures"] = list(self.reader_features)
        if self.writer_features is not None:
            node["writerFeatures"] = list(self.writer_features)
        return {"protocol": node}


@dataclass(frozen=True, slots=True)
class Format:
    """The encoding of the table's data files. Source: "Format Specification"."""

    provider: str = "parquet"
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Metadata:
    """Schema, partitioning and configuration of the table; `created_time` in ms. Source: "Change Metadata"."""

    id: str
    schema_string: str
    partition_columns: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    description: str | None = None
    format: Format = field(default_factory=Format)
    created_time: int | None = None

    @staticmethod
    def from_json(node: Mapping[str, Any], where: str) -> Metadata:
        """Return the metadata in `node`. Raises CorruptLog, naming `where`, for a missing or malformed field."""
        if not isinstance(node, Mapping):
            raise CorruptLog(f"{where}: metaData must be an object, found {node!r}")
        encoding = optional(node, "format", Mapping, where, "metaData") or {}
        if node.get("schemaString") is None:
            # Accept tables without columns, because the reference implementation reads them too.
            node = {**node, "schemaString": NO_COLUMNS}
        return Metadata(
            id=str(node.get("id") or ""),
            schema_string=required(node, "schemaString", str, where, "metaData"),
            partition_columns=names(node, "partitionColumns", where, "metaData") or (),
            configuration=string_map(node, "configuration", where, "metaData"),
            name=optional(node, "name", str, where, "metaData"),
            description=optional(node, "description", str, where, "metaData"),
            format=Format(
                optional(encoding, "provider", str, where, "metaData.format") or "parquet",
                string_map(encoding, "options", where, "metaData.format"),
            ),
            created_time=optional(node, "createdTime", int, where, "metaData"),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the `metaData` action; optional fields without a value are omitted."""
        node: dict[str, Any] = {"id": self.id}
        if self.name is not None:
            node["name"] = self.name
        if self.description is not None:
            node["description"] = self.description
        node |= {
            "format": {"provider": self.format.provider, "options": dict(self.format.options)},
            "schemaString": self.schema_string,
            "partitionColumns": list(self.partition_columns),
            "configuration": dict(self.configuration),
        }
        if self.created_time is not None:
            node["createdTime"] = self.created_time
        return {"metaData": node}


@dataclass(frozen=True, slots=True)
class SetTransaction:
    """The last transaction version of an application; `last_updated` in ms. Source: "Transaction Identifiers"."""

    app_id: str
    version: int
    last_updated: int | None = None

    @staticmethod
    def from_json(node: Mapping[str, Any], where: str) -> SetTransaction:
        """Return the transaction identifier in `node`. Raises CorruptLog, naming `where`, for a malformed field."""
        return SetTransaction(
            required(node, "appId", str, where, "txn"),
            required(node, "version", int, where, "txn"),
            optional(node, "lastUpdated", int, where, "txn"),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the `txn` action."""
        node: dict[str, Any] = {"appId": self.app_id, "version": self.version}
        if self.last_updated is not None:
            node["lastUpdated"] = self.last_updated
        return {"txn": node}


@dataclass(frozen=True, slots=True)
class DomainMetadata:
    """The configuration of one metadata domain; `removed` marks a tombstone. Source: "Domain Metadata"."""

    domain: str
    configuration: str
    removed: bool = False

    @staticmethod
    def from_json(node: Mapping[str, Any], where: str) -> DomainMetadata:
        """Return the domain metadata in `node`. Raises CorruptLog, naming `where`, for a missing or malformed field."""
        return DomainMetadata(
            required(node, "domain", str, where, "domainMetadata"),
            optional(node, "configuration", str, where, "domainMetadata") or "",
            optional(node, "removed", bool, where, "domainMetadata") or False,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the `domainMetadata` action."""
        return {"domainMetadata": {"domain": self.domain, "configuration": self.configuration, "removed": self.removed}}


def parse_actions(data: bytes, where: str) -> list[dict[str, Any]]:
    """Return the actions of one commit, compaction or JSON checkpoint: one object per line, e.g. `{"add": {…}}`.

    Skips empty lines. Raises CorruptLog, with `where` and the line number, for a line that is not a JSON object.
    """
    actions = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line or line.isspace():
            continue
        try:
            action = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise CorruptLog(f"{where}, line {number}: not JSON ({error}). The file may be truncated") from error
        if not isinstance(action, dict):
            raise CorruptLog(f"{where}, line {number}: expected one JSON object per line, found {line[:60]!r}")
        actions.append(action)
    return actions


def parse_commit(data: bytes, where: str) -> list[dict[str, Any]]:
    """Return the actions of one commit file. Unlike `parse_actions`, reject a file without actions.

    Such a file is not a version without changes. It remains after a machine crash if the file was not synced to disk.
    Raises CorruptLog.
    """
    actions = parse_actions(data, where)
    if not actions:
        raise CorruptLog(
            f"{where}: the commit contains no action, found {len(data)} bytes. The writer's machine may have stopped "
            "before the file was on the disk. Restore the file, or delete it if it is the newest version and its "
            "writer was not notified of a commit"
        )
    return actions
