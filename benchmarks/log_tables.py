"""Delta logs of a given size, written straight to disk: the data files they name do not exist.

Shapes follow what delta-spark writes: uuid file names, JSON statistics on a few columns, one partition column.
"""

from __future__ import annotations

import json
import random
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

FIRST_MS = 1_700_000_000_000
SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": "id", "type": "long", "nullable": True, "metadata": {}},
            {"name": "at", "type": "timestamp", "nullable": True, "metadata": {}},
            {"name": "amount", "type": "double", "nullable": True, "metadata": {}},
            {"name": "name", "type": "string", "nullable": True, "metadata": {}},
            {"name": "month", "type": "integer", "nullable": True, "metadata": {}},
        ],
    }
)
PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
METADATA: dict[str, Any] = {
    "id": "5fba94ed-9794-4965-ba6e-6ee3c0d22af9",
    "format": {"provider": "parquet", "options": {}},
    "schemaString": SCHEMA,
    "partitionColumns": ["month"],
    "configuration": {},
    "createdTime": FIRST_MS,
}


def file_stats(number: int) -> str:
    """Statistics of the `number`th file as JSON: 1,000 rows, ids that rise with the number."""
    low = number * 1000
    return (
        f'{{"numRecords":1000,"minValues":{{"id":{low},"at":"2026-01-01T00:00:00.000Z","amount":{number % 97}.5,'
        f'"name":"customer-{number:09d}"}},"maxValues":{{"id":{low + 999},"at":"2026-02-01T00:00:00.000Z",'
        f'"amount":{number % 97 + 1000}.5,"name":"customer-{number + 1:09d}"}},'
        f'"nullCount":{{"id":0,"at":0,"amount":{number % 7},"name":0}}}}'
    )


def file_path(number: int, rng: random.Random) -> str:
    """A path as Spark would name it, in the directory of its month."""
    name = uuid.UUID(int=rng.getrandbits(128), version=4)
    return f"month={number % 12 + 1}/part-{number % 100000:05d}-{name}.c000.snappy.parquet"


def add_action(number: int, rng: random.Random) -> dict[str, object]:
    """The `add` action of the `number`th file."""
    return {
        "path": file_path(number, rng),
        "partitionValues": {"month": str(number % 12 + 1)},
        "size": 100_000 + number % 1000,
        "modificationTime": FIRST_MS + number,
        "dataChange": True,
        "stats": file_stats(number),
    }


def write_commit(log: Path, version: int, actions: list[dict[str, object]]) -> None:
    """Write `<version>.json` with a commitInfo and `actions`."""
    lines = [
        {"commitInfo": {"timestamp": FIRST_MS + version, "operation": "WRITE", "operationParameters": {}}},
        *actions,
    ]
    (log / f"{version:020d}.json").write_text("\n".join(json.dumps(line) for line in lines) + "\n")


def checkpointed_table(root: Path, files: int, commits: int, adds_per_commit: int) -> Path:
    """A table with one checkpoint of `files` adds at version 10 and `commits` commits after it.

    Each commit adds `adds_per_commit` files and removes one file of the checkpoint.
    """
    log = root / "_delta_log"
    log.mkdir(parents=True)
    rng = random.Random(7)  # noqa: S311
    paths = [file_path(n, rng) for n in range(files)]
    add = pa.StructArray.from_arrays(
        [
            pa.array(paths),
            pa.MapArray.from_arrays(
                pa.array(range(files + 1), pa.int32()),
                pa.array(["month"] * files),
                pa.array([str(n % 12 + 1) for n in range(files)]),
            ),
            pa.array([100_000 + n % 1000 for n in range(files)], pa.int64()),
            pa.array([FIRST_MS + n for n in range(files)], pa.int64()),
            pa.array([False] * files),
            pa.array([file_stats(n) for n in range(files)]),
        ],
        names=["path", "partitionValues", "size", "modificationTime", "dataChange", "stats"],
    )
    metadata_type = pa.struct(
        [
            ("id", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", pa.map_(pa.string(), pa.string()))])),
            ("schemaString", pa.string()),
            ("partitionColumns", pa.list_(pa.string())),
            ("configuration", pa.map_(pa.string(), pa.string())),
            ("createdTime", pa.int64()),
        ]
    )
    protocol_type = pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])
    head = {
        "protocol": pa.array([PROTOCOL, None], protocol_type),
        "metaData": pa.array(
            [None, {**METADATA, "format": {"provider": "parquet", "options": []}, "configuration": []}], metadata_type
        ),
    }
    columns = {
        "protocol": pa.concat_arrays([head["protocol"], pa.nulls(files, protocol_type)]),
        "metaData": pa.concat_arrays([head["metaData"], pa.nulls(files, metadata_type)]),
        "add": pa.concat_arrays([pa.nulls(2, add.type), add]),
    }
    pq.write_table(pa.table(columns), log / f"{10:020d}.checkpoint.parquet", compression="snappy")
    (log / "_last_checkpoint").write_text(json.dumps({"version": 10, "size": files + 2}))
    write_commit(log, 10, [{"add": add_action(0, rng)}])
    number = files
    for version in range(11, 11 + commits):
        adds: list[dict[str, object]] = [{"add": add_action(number + i, rng)} for i in range(adds_per_commit)]
        gone = {"path": paths[(version - 11) * 37], "deletionTimestamp": FIRST_MS + version, "dataChange": True}
        write_commit(log, version, [*adds, {"remove": gone}])
        number += adds_per_commit
    return root


def json_only_table(root: Path, commits: int) -> Path:
    """A table of `commits` JSON commits, one add each, without a checkpoint."""
    log = root / "_delta_log"
    log.mkdir(parents=True)
    rng = random.Random(7)  # noqa: S311
    write_commit(log, 0, [{"protocol": PROTOCOL}, {"metaData": METADATA}])
    for version in range(1, commits):
        write_commit(log, version, [{"add": add_action(version, rng)}])
    return root
