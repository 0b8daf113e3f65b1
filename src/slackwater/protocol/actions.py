"""The actions of the log, as values, and their JSON form.

Reading the files of a snapshot does not make one of these per file: see `slackwater.log.file_actions`.
Source: delta-protocol.md "Actions".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from slackwater.errors import CorruptLog

NO_COLUMNS = '{"type":"struct","fields":[]}'
"""The schema string of a table without columns."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """What a client must implement to read and to write the table. Source: "Protocol Evolution"."""

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None

    @staticmethod
    def from_json(node: Mapping[str, Any], where: str) -> Protocol:
        """The protocol in `node`; raises CorruptLog, naming `where`, for a missing or malformed field."""
        return Protocol(
            _required(node, "minReaderVersion", int, where, "protocol"),
            _required(node, "minWriterVersion", int, where, "protocol"),
            _names(node, "readerFeatures", where, "protocol"),
            _names(node, "writerFeatures", where, "protocol"),
        )

    def to_json(self) -> dict[str, Any]:
        """The content of a `protocol` action."""
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
        """The metadata in `node`; raises CorruptLog, naming `where`, for a missing or malformed field."""
        if not isinstance(node, Mapping):
            raise CorruptLog(f"{where}: metaData must be an object, found {node!r}")
        encoding = _optional(node, "format", Mapping, where, "metaData") or {}
        if node.get("schemaString") is None:
            # Tables that were set up without columns exist; the reference implementation reads them so too.
            node = {**node, "schemaString": NO_COLUMNS}
        return Metadata(
            id=str(node.get("id") or ""),
            schema_string=_required(node, "schemaString", str, where, "metaData"),
            partition_columns=_names(node, "partitionColumns", where, "metaData") or (),
            configuration=_string_map(node, "configuration", where, "metaData"),
            name=_optional(node, "name", str, where, "metaData"),
            description=_optional(node, "description", str, where, "metaData"),
            format=Format(
                _optional(encoding, "provider", str, where, "metaData.format") or "parquet",
                _string_map(encoding, "options", where, "metaData.format"),
            ),
            created_time=_optional(node, "createdTime", int, where, "metaData"),
        )

    def to_json(self) -> dict[str, Any]:
        """The content of a `metaData` action; optional fields without a value are left out."""
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
    """How far an application has come; `last_updated` in ms. Source: "Transaction Identifiers"."""

    app_id: str
    version: int
    last_updated: int | None = None

    @staticmethod
    def from_json(node: Mapping[str, Any], where: str) -> SetTransaction:
        """The transaction identifier in `node`; raises CorruptLog, naming `where`."""
        return SetTransaction(
            _required(node, "appId", str, where, "txn"),
            _required(node, "version", int, where, "txn"),
            _optional(node, "lastUpdated", int, where, "txn"),
        )

    def to_json(self) -> dict[str, Any]:
        """The content of a `txn` action."""
        node: dict[str, Any] = {"appId": self.app_id, "version": self.version}
        if self.last_updated is not None:
            node["lastUpdated"] = self.last_updated
        return {"txn": node}


@dataclass(frozen=True, slots=True)
class DomainMetadata:
    """The configuration of one metadata domain; `removed` makes it a tombstone. Source: "Domain Metadata"."""

    domain: str
    configuration: str
    removed: bool = False

    @staticmethod
    def from_json(node: Mapping[str, Any], where: str) -> DomainMetadata:
        """The domain metadata in `node`; raises CorruptLog, naming `where`."""
        return DomainMetadata(
            _required(node, "domain", str, where, "domainMetadata"),
            _optional(node, "configuration", str, where, "domainMetadata") or "",
            _optional(node, "removed", bool, where, "domainMetadata") or False,
        )

    def to_json(self) -> dict[str, Any]:
        """The content of a `domainMetadata` action."""
        return {"domainMetadata": {"domain": self.domain, "configuration": self.configuration, "removed": self.removed}}


def parse_actions(data: bytes, where: str) -> list[dict[str, Any]]:
    """The actions of one commit, compaction or JSON checkpoint: one object per line, e.g. `{"add": {…}}`.

    Empty lines are skipped. Raises CorruptLog for a line that is not a JSON object, naming `where` and the line.
    """
    actions = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line or line.isspace():
            continue
        try:
            action = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise CorruptLog(f"{where}, line {number}: not JSON ({error}); the file may be truncated") from error
        if not isinstance(action, dict):
            raise CorruptLog(f"{where}, line {number}: expected one JSON object per line, found {line[:60]!r}")
        actions.append(action)
    return actions


def _required(node: Mapping[str, Any], key: str, kind: type, where: str, action: str) -> Any:
    value = node.get(key) if isinstance(node, Mapping) else None
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise CorruptLog(f"{where}: {action} must have {key} of type {kind.__name__}, found {value!r}")
    return value


def _optional(node: Mapping[str, Any], key: str, kind: type, where: str, action: str) -> Any:
    return None if node.get(key) is None else _required(node, key, kind, where, action)


def _names(node: Mapping[str, Any], key: str, where: str, action: str) -> tuple[str, ...] | None:
    names = _optional(node, key, list, where, action)
    if names is None:
        return None
    if not all(isinstance(name, str) for name in names):
        raise CorruptLog(f"{where}: {action} must have {key} that is a list of names, found {names!r}")
    return tuple(names)


def _string_map(node: Mapping[str, Any], key: str, where: str, action: str) -> dict[str, str]:
    """A map without its null values, as JSON has it (an object) or as Arrow gives it (a list of pairs)."""
    value = {} if node.get(key) is None else node[key]
    entries = list(value.items()) if isinstance(value, Mapping) else value
    if not isinstance(entries, list) or not all(
        isinstance(entry, tuple) and isinstance(entry[0], str) and isinstance(entry[1], str | None) for entry in entries
    ):
        raise CorruptLog(f"{where}: {action} must have {key} that maps text to text, found {value!r}")
    return {name: text for name, text in entries if text is not None}
