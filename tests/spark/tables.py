"""Tables for the Spark tests: Parquet files by pyarrow, logs by hand."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

TABLES = Path(__file__).resolve().parent.parent / "data" / "tables"
_TYPES = {pa.int64(): "long", pa.string(): "string", pa.float64(): "double", pa.bool_(): "boolean"}


def write_table(
    root: Path,
    files: Sequence[dict[str, list[Any]]],
    *,
    partition_by: str | None = None,
    commits: bool = False,
    directories: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    values: Sequence[dict[str, str | None]] | None = None,
    extra_columns: Sequence[tuple[str, str]] = (),
    actions: Sequence[str] = (),
) -> str:
    """A table with one data file per element of `files`; in one commit, or with `commits` in one each.

    `partition_by` splits nothing: every file holds one value of it. `extra_columns` are partition columns that only
    `values` give, or plain ones of an empty table. `actions` are paths of further adds, as they shall stand in the log.
    """
    log = root / "_delta_log"
    log.mkdir(parents=True)
    columns: dict[str, str] = {}
    adds = []
    for number, content in enumerate(files):
        table = pa.table(content)
        columns |= {f.name: _TYPES[f.type] for f in table.schema}
        partition = dict(values[number]) if values else {}
        directory = directories[number] if directories else ""
        if partition_by:
            partition = {partition_by: str(content[partition_by][0])}
            directory = f"{partition_by}={content[partition_by][0]}"
            table = table.drop_columns([partition_by])
        name = names[number] if names else f"part-{number:05d}-{uuid.uuid4()}.parquet"
        file = root / directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, file)
        adds.append(_add(quote(file.relative_to(root).as_posix()), partition, table))
    adds += [_add(path, {}, None) for path in actions]
    columns |= dict(extra_columns)
    partition_columns = [partition_by] if partition_by else [n for n, _ in extra_columns] if values else []
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in columns.items()]
    head = [_protocol(columns), _metadata(fields, partition_columns)]
    batches = [[add] for add in adds] if commits else [adds]
    for version, batch in enumerate(batches or [[]]):
        lines = [*(head if version == 0 else []), *batch]
        (log / f"{version:020d}.json").write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    return str(root)


def _protocol(columns: dict[str, str]) -> dict[str, Any]:
    if "timestamp_ntz" in columns.values():
        features = ["timestampNtz"]
        return {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": features,
                "writerFeatures": features,
            }
        }
    return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}


def _metadata(fields: list[dict[str, Any]], partition_columns: list[str]) -> dict[str, Any]:
    return {
        "metaData": {
            "id": str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": partition_columns,
            "configuration": {},
            "createdTime": 1_700_000_000_000,
        }
    }


def _add(path: str, partition: dict[str, str | None], table: pa.Table | None) -> dict[str, Any]:
    add: dict[str, Any] = {
        "path": path,
        "partitionValues": partition,
        "size": 1,
        "modificationTime": 1,
        "dataChange": True,
    }
    if table is not None:
        low, high, nulls = {}, {}, {}
        for name in table.column_names:
            present = table[name].drop_null()
            nulls[name] = table[name].null_count
            if len(present):
                low[name], high[name] = min(present.to_pylist()), max(present.to_pylist())
        stats = {"numRecords": table.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}
        add["stats"] = json.dumps(stats)
    return {"add": add}
