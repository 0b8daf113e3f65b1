"""Tables written by the tests themselves: every kind of file that `_delta_log` can hold, byte by byte as told."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.log.files.file_actions import ADD_SCHEMA, REMOVE_SCHEMA, STRING_MAP
from slackwater.log.snapshot import LogSnapshot
from slackwater.protocol.actions.file_names import (
    checkpoint_name,
    commit_name,
    compacted_name,
    uuid_checkpoint_name,
    version_prefix,
)
from slackwater.protocol.actions.json_checksum import checksum
from slackwater.storage import ObjectStore, open_store

Action = dict[str, Any]
SCHEMA_STRING = json.dumps(
    {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
)
_NAMES = pa.list_(pa.string())
CHECKPOINT_SCHEMA = pa.schema(
    [
        ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])),
        ("add", pa.struct(list(ADD_SCHEMA))),
        ("remove", pa.struct(list(REMOVE_SCHEMA))),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("name", pa.string()),
                    ("format", pa.struct([("provider", pa.string()), ("options", STRING_MAP)])),
                    ("schemaString", pa.string()),
                    ("partitionColumns", _NAMES),
                    ("configuration", STRING_MAP),
                    ("createdTime", pa.int64()),
                ]
            ),
        ),
        (
            "protocol",
            pa.struct(
                [
                    ("minReaderVersion", pa.int32()),
                    ("minWriterVersion", pa.int32()),
                    ("readerFeatures", _NAMES),
                    ("writerFeatures", _NAMES),
                ]
            ),
        ),
        (
            "domainMetadata",
            pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())]),
        ),
        ("checkpointMetadata", pa.struct([("version", pa.int64()), ("tags", STRING_MAP)])),
        (
            "sidecar",
            pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64())]),
        ),
    ]
)


def protocol(
    reader: int = 1, writer: int = 2, readers: Sequence[str] | None = None, writers: Sequence[str] | None = None
) -> Action:
    node: dict[str, Any] = {"minReaderVersion": reader, "minWriterVersion": writer}
    if readers is not None:
        node["readerFeatures"] = list(readers)
    if writers is not None:
        node["writerFeatures"] = list(writers)
    return {"protocol": node}


def metadata(configuration: Mapping[str, str] | None = None, **fields: Any) -> Action:
    node = {
        "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": SCHEMA_STRING,
        "partitionColumns": [],
        "configuration": dict(configuration or {}),
        "createdTime": 1587968585495,
    }
    return {"metaData": node | fields}


def vector(name: str) -> dict[str, Any]:
    """A deletion vector whose unique id is `u` + `name` + `@1`."""
    return {"storageType": "u", "pathOrInlineDv": name, "offset": 1, "sizeInBytes": 36, "cardinality": 2}


def add(path: str, dv: str | None = None, **fields: Any) -> Action:
    node = {"path": path, "partitionValues": {}, "size": 100, "modificationTime": 1, "dataChange": True} | fields
    return {"add": node | ({"deletionVector": vector(dv)} if dv else {})}


def remove(path: str, dv: str | None = None, **fields: Any) -> Action:
    node = {"path": path, "deletionTimestamp": 5, "dataChange": True} | fields
    return {"remove": node | ({"deletionVector": vector(dv)} if dv else {})}


def txn(app_id: str, version: int) -> Action:
    return {"txn": {"appId": app_id, "version": version}}


def domain(name: str, configuration: str = "{}", removed: bool = False) -> Action:
    return {"domainMetadata": {"domain": name, "configuration": configuration, "removed": removed}}


def commit_info(**fields: Any) -> Action:
    return {"commitInfo": {"operation": "WRITE", **fields}}


def json_lines(actions: Iterable[Action]) -> bytes:
    return b"".join(json.dumps(action).encode() + b"\n" for action in actions)


def parquet(actions: Sequence[Action], schema: pa.Schema = CHECKPOINT_SCHEMA, **options: Any) -> bytes:
    """The actions as a checkpoint or sidecar file: one row each, one column for each kind in `schema`."""
    columns = [
        pa.array([_arrow_value(action.get(field.name), field.type) for action in actions], field.type)
        for field in schema
    ]
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns, schema=schema), buffer, **options)
    return buffer.getvalue()


def _arrow_value(value: Any, data_type: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(data_type):
        return {field.name: _arrow_value(value.get(field.name), field.type) for field in data_type}
    return list(value.items()) if pa.types.is_map(data_type) else value


class TableLog:
    """The log of one table, in memory unless `path` says otherwise, to be filled with files of any kind."""

    def __init__(self, path: str | None = None) -> None:
        self.path = path or f"memory://{uuid.uuid4().hex}/table"
        self.store: ObjectStore = open_store(self.path)

    def put(self, name: str, data: bytes) -> str:
        """Write the file `name` of `_delta_log`; its path in the store."""
        path = f"_delta_log/{name}"
        self.store.put(path, data)
        return path

    def delete(self, *names: str) -> None:
        self.store.delete([f"_delta_log/{name}" for name in names])

    def delete_commits(self, *versions: int) -> None:
        self.delete(*(commit_name(v) for v in versions))

    def create(self, *actions: Action, configuration: Mapping[str, str] | None = None) -> TableLog:
        """Version 0: protocol, metadata and `actions`."""
        self.commit(0, protocol(), metadata(configuration), *actions)
        return self

    def grow(self, last: int, first: int = 1) -> TableLog:
        """Versions `first` to `last`, where version v adds the file `f<v>`."""
        for version in range(first, last + 1):
            self.commit(version, commit_info(), add(f"f{version}"))
        return self

    def commit(self, version: int, *actions: Action) -> str:
        return self.put(commit_name(version), json_lines(actions))

    def compaction(self, start: int, end: int, *actions: Action) -> str:
        return self.put(compacted_name(start, end), json_lines(actions))

    def classic(self, version: int, *actions: Action, **options: Any) -> str:
        """A V1 checkpoint, or a V2 one in a classic name where `actions` say so."""
        return self.put(checkpoint_name(version), parquet(actions, **options))

    def multipart(self, version: int, *parts: Sequence[Action], only: Sequence[int] = ()) -> None:
        """A multi-part checkpoint; with `only`, no more than those parts (from 1) of it are written."""
        for number, actions in enumerate(parts, 1):
            if not only or number in only:
                self.put(
                    f"{version_prefix(version)}.checkpoint.{number:010d}.{len(parts):010d}.parquet", parquet(actions)
                )

    def v2(self, version: int, extension: str, *actions: Action) -> str:
        """A UUID-named V2 checkpoint; `actions` with its checkpointMetadata and sidecars."""
        data = json_lines(actions) if extension == "json" else parquet(actions)
        return self.put(uuid_checkpoint_name(version, uuid.uuid4(), extension), data)

    def sidecar(self, *actions: Action) -> Action:
        """Write a sidecar with the file actions; the `sidecar` action that refers to it."""
        name, data = f"{uuid.uuid4()}.parquet", parquet(actions, pa.schema([CHECKPOINT_SCHEMA.field(n) for n in FILES]))
        self.put(f"_sidecars/{name}", data)
        return {"sidecar": {"path": name, "sizeInBytes": len(data), "modificationTime": 7}}

    def hint(self, version: int, right_checksum: bool = True, **fields: Any) -> None:
        """Write `_last_checkpoint` with a checksum."""
        node = {"version": version, "size": 3, **fields}
        found = checksum(json.dumps(node))
        self.put("_last_checkpoint", json.dumps({**node, "checksum": found if right_checksum else "0" * 32}).encode())

    def load(self, version: int | None = None, **options: Any) -> LogSnapshot:
        return LogSnapshot.load(self.path, version, **options)


FILES = ("add", "remove")
DEFAULT = (protocol(), metadata())


def checkpoint_metadata(version: int) -> Action:
    return {"checkpointMetadata": {"version": version}}


def paths(snapshot: LogSnapshot) -> list[str]:
    """The paths of the live files, sorted."""
    return sorted(snapshot.live_files(["path"]).column("path").to_pylist())


def keys(table: pa.Table) -> list[tuple[str, str | None]]:
    """Path and deletion vector of each row, sorted."""
    vectors = [v and v["pathOrInlineDv"] for v in table["deletionVector"].to_pylist()]
    return sorted(zip(table["path"].to_pylist(), vectors, strict=True), key=str)


def facts(snapshot: LogSnapshot) -> dict[str, Any]:
    """All that a snapshot says, comparable."""
    return {
        "version": snapshot.version,
        "protocol": snapshot.protocol,
        "metadata": snapshot.metadata,
        "transactions": snapshot.transactions,
        "domains": snapshot.domain_metadata,
        "live": keys(snapshot.live_files()),
        "tombstones": keys(snapshot.tombstones()),
    }


class SpyStore:
    """A store that tells what was read from it, and lets a test step in before each read."""

    def __init__(self, store: ObjectStore, before_read: Callable[[str], None] = lambda path: None) -> None:
        self._store = store
        self._before_read = before_read
        self.reads: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def read(self, path: str) -> bytes:
        self.reads.append(path)
        self._before_read(path)
        return self._store.read(path)

    def read_many(self, paths: Sequence[str]) -> list[bytes]:
        return [self.read(path) for path in paths]

    def open_file(self, path: str, size_bytes: int | None = None) -> Any:
        self.reads.append(path)
        self._before_read(path)
        return self._store.open_file(path, size_bytes)
