"""Tables of many files for the scale benchmarks, written without an engine."""

from __future__ import annotations

import datetime as dt
import json
import os
import uuid
from pathlib import Path
from typing import TextIO

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from slackwater.log.checkpoints.write_checkpoint import write_checkpoint
from slackwater.log.table import Table
from slackwater.protocol.actions.deletion_vectors import DeletionVectorDescriptor
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.open import open_store
from slackwater.transaction.rows.vector_files import write_deletion_vectors

ROWS = 100
FILES_PER_DAY = 300
FIRST_DAY = dt.date(2020, 1, 1)
# Files are links to few files, because a file system allows a limited number of links to one.
_LINKS = 30_000
_TIME_MS = 1_700_000_000_000
_COLUMNS = [("id", "long"), ("v", "string"), ("day", "date")]


def many_files(root: Path, files: int, deleted: int = 0) -> None:
    """Write a table of `files` files of 100 rows to `root`: 300 files for each day, and a checkpoint.

    `id` is 0 to 99 in each file, and the statistics state a range of its own for each file. Each file has a deletion
    vector of its first `deleted` rows.
    """
    log = root / "_delta_log"
    log.mkdir(parents=True)
    vectors = []
    if deleted:
        bitmaps = [BitMap64(range(deleted))] * files
        vectors = write_deletion_vectors(open_store(root), bitmaps, uuid.uuid4).descriptors
    with (log / f"{0:020d}.json").open("w") as commit:
        _write_head(commit, has_vectors=deleted > 0)
        original = root
        for number in range(files):
            day = (FIRST_DAY + dt.timedelta(days=number // FILES_PER_DAY)).isoformat()
            path = root / f"day={day}" / f"part-{number:08d}.parquet"
            path.parent.mkdir(exist_ok=True)
            if number % _LINKS == 0:
                original = path
                pq.write_table(pa.table({"id": range(ROWS), "v": [f"v{row}" for row in range(ROWS)]}), path)
                size = path.stat().st_size
            else:
                os.link(original, path)
            vector = vectors[number] if vectors else None
            commit.write(json.dumps({"add": _add(path.relative_to(root), day, size, number, vector)}) + "\n")
    write_checkpoint(Snapshot.open(Table.at(root)), _TIME_MS)
    (log / "_last_checkpoint").write_text(json.dumps({"version": 0, "size": files + 2}))


def _write_head(commit: TextIO, has_vectors: bool) -> None:
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]} if has_vectors else {}
    versions = (
        {"minReaderVersion": 3, "minWriterVersion": 7}
        if has_vectors
        else {"minReaderVersion": 1, "minWriterVersion": 2}
    )
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in _COLUMNS]
    metadata = {
        "id": "scale",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": ["day"],
        "configuration": {"delta.enableDeletionVectors": "true"} if has_vectors else {},
        "createdTime": _TIME_MS,
    }
    info = {"timestamp": _TIME_MS, "operation": "WRITE", "operationParameters": {}}
    commit.writelines(
        json.dumps(action) + "\n"
        for action in ({"commitInfo": info}, {"protocol": versions | features}, {"metaData": metadata})
    )


def _add(path: Path, day: str, size: int, number: int, vector: DeletionVectorDescriptor | None) -> dict[str, object]:
    low = number * ROWS
    stats = {
        "numRecords": ROWS,
        "minValues": {"id": low, "v": "v0"},
        "maxValues": {"id": low + ROWS - 1, "v": f"v{ROWS - 1}"},
        "nullCount": {"id": 0, "v": 0},
        "tightBounds": vector is None,
    }
    add: dict[str, object] = {
        "path": str(path),
        "partitionValues": {"day": day},
        "size": size,
        "modificationTime": _TIME_MS,
        "dataChange": True,
        "stats": json.dumps(stats),
    }
    if vector is not None:
        add["deletionVector"] = vector.to_json()
    return add
