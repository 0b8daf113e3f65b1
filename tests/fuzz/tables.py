"""The tables that are mutated: small logs with every kind of file that `_delta_log` can hold, and vectors beside."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

from pyroaring import BitMap64

from slackwater.log.checksum_totals import checksum_of
from slackwater.log.compaction import compact_log
from slackwater.log.files.version_checksum import write_version_checksum
from slackwater.protocol.actions.deletion_vectors import serialize_bitmap, write_file
from slackwater.protocol.actions.z85 import encode_uuid
from tests.fuzz.data_files import SCHEMA_STRING, data_file
from tests.log.tables import (
    DEFAULT,
    Action,
    TableLog,
    add,
    checkpoint_metadata,
    commit_info,
    domain,
    metadata,
    protocol,
    remove,
    txn,
)

Files = dict[str, bytes]
"""What a table's directory holds, by path."""

T = 1_700_000_000_000
_DATA = Path(__file__).parents[1] / "data" / "tables"
_FEATURES = ("deletionVectors", "columnMapping", "timestampNtz", "v2Checkpoint")
_WRITERS = (*_FEATURES, "inCommitTimestamp", "domainMetadata", "rowTracking")
_CONFIGURATION = {
    "delta.enableInCommitTimestamps": "true",
    "delta.enableDeletionVectors": "true",
    "delta.enableRowTracking": "true",
}
_SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": True, "metadata": {}},
            {"name": "p", "type": "date", "nullable": True, "metadata": {}},
            {
                "name": "s",
                "type": {"type": "struct", "fields": [{"name": "d", "type": "decimal(9,2)", "nullable": True}]},
                "nullable": True,
                "metadata": {},
            },
        ],
    }
)
_VECTOR_UUID = UUID(int=9)
_VECTORS, _PLACES = write_file([serialize_bitmap(BitMap64([0, 3])), serialize_bitmap(BitMap64(range(70_000)))])


def _file(version: int, number: int = 0, **fields: Any) -> Action:
    values = {"minValues": {"id": version, "s": {"d": 1.5}}, "maxValues": {"id": version + 9}, "nullCount": {"id": 0}}
    stats = json.dumps({"numRecords": 10, "tightBounds": True, **values})
    partition = {"p": f"2024-01-{version + 1:02d}"}
    path = f"p=2024-01-{version + 1:02d}/part-{version}-{number}.parquet"
    ids: dict[str, Any] = {"baseRowId": 10 * version, "defaultRowCommitVersion": version}
    return add(path, partitionValues=partition, stats=stats, **ids, **fields)


def _with_vector(version: int, number: int) -> Action:
    offset, size = _PLACES[number]
    text = encode_uuid(_VECTOR_UUID)
    vector = {"storageType": "u", "pathOrInlineDv": text, "offset": offset, "sizeInBytes": size}
    return _file(version, deletionVector={**vector, "cardinality": (2, 70_000)[number]})


def _commits(last: int) -> list[list[Action]]:
    features = protocol(3, 7, readers=_FEATURES, writers=_WRITERS)
    described = metadata(_CONFIGURATION, schemaString=_SCHEMA, partitionColumns=["p"])
    commits = [[commit_info(inCommitTimestamp=T), features, described, _file(0)]]
    for version in range(1, last + 1):
        gone = _file(version - 1)["add"]["path"] if version % 3 == 0 else None
        commits.append(
            [
                commit_info(inCommitTimestamp=T + 10 * version, operationParameters={"mode": "Append"}),
                _with_vector(version, version % 2) if version % 2 else _file(version),
                _file(version, 1),
                txn("app", version),
                domain("delta.rowTracking", json.dumps({"rowIdHighWaterMark": 10 * version})),
                *([remove(gone)] if gone and (version - 1) % 2 == 0 else []),
            ]
        )
    return commits


def _state(commits: list[list[Action]], version: int) -> tuple[list[Action], list[Action]]:
    """The small actions and the file actions of a checkpoint of `version`."""
    small = [commits[0][1], commits[0][2], txn("app", version)]
    actions = [action for commit in commits[: version + 1] for action in commit]
    removed = {action["remove"]["path"] for action in actions if "remove" in action}
    files = [a for a in actions if "remove" in a or ("add" in a and a["add"]["path"] not in removed)]
    return small, files


def _new(last: int) -> tuple[TableLog, list[list[Action]]]:
    log, commits = TableLog(), _commits(last)
    for version, actions in enumerate(commits):
        log.commit(version, *actions)
    log.store.put(f"deletion_vector_{_VECTOR_UUID}.bin", _VECTORS)
    return log, commits


def _commits_alone() -> TableLog:
    log, _ = _new(5)
    for version in (0, 3, 5):
        write_version_checksum(log.store, checksum_of(log.load(version)))
    compact_log(log.store, 1, 4)
    return log


def _classic(keep_commits: bool) -> TableLog:
    log, commits = _new(6)
    for version in (2, 4):
        small, files = _state(commits, version)
        log.classic(version, *small, *files)
    log.hint(4)
    write_version_checksum(log.store, checksum_of(log.load()))
    if not keep_commits:
        log.delete_commits(0, 1, 2)
    return log


def _sidecars(extension: str) -> TableLog:
    log, commits = _new(6)
    for version in (3, 5):
        small, files = _state(commits, version)
        half = len(files) // 2
        sidecars = [log.sidecar(*files[:half]), log.sidecar(*files[half:])]
        log.v2(version, extension, checkpoint_metadata(version), *small, *sidecars)
    log.hint(5)
    return log


def _parts() -> TableLog:
    log, commits = _new(4)
    small, files = _state(commits, 3)
    log.multipart(3, small, files[:2], files[2:])
    log.hint(3, parts=3)
    return log


def _without_json() -> TableLog:
    log = TableLog()
    log.classic(4, *DEFAULT, add("f"))
    return log


def _data_files() -> TableLog:
    log = TableLog()
    log.commit(0, protocol(1, 2), metadata(schemaString=SCHEMA_STRING), add("a.parquet"), add("b.parquet"))
    spark = min((_DATA / "ntz-id-mode" / "delta").rglob("part-*.parquet"))
    log.store.put("a.parquet", data_file())
    log.store.put("b.parquet", spark.read_bytes())
    return log


def _stored(make: Callable[[], TableLog]) -> Files:
    log = make()
    return {meta.path: log.store.read(meta.path) for meta in log.store.list_from("", recursive=True)}


@cache
def bases() -> tuple[Files, ...]:
    """The tables as they are before they are mutated."""
    made = [
        _stored(_commits_alone),
        _stored(lambda: _classic(True)),
        _stored(lambda: _classic(False)),
        _stored(lambda: _sidecars("json")),
        _stored(lambda: _sidecars("parquet")),
        _stored(_parts),
        _stored(_without_json),
        _stored(_data_files),
    ]
    for name in ("cdc-ict", "basic-partitioned", "table-with-dv-small", "ntz-id-mode/delta"):
        root = _DATA / name
        found = {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        made.append({name: data for name, data in found.items() if "_delta_log" in name or "deletion_vector" in name})
    return tuple(made)
