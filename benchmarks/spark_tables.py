"""Delta tables whose Parquet files Spark or pyarrow wrote, and whose log is made here from the footers."""

from __future__ import annotations

import json
import os
import random
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from benchmarks.log_tables import FIRST_MS, METADATA, PROTOCOL, write_commit
from slackwater.protocol.actions.deletion_vectors import (
    ON_DISK_RELATIVE,
    DeletionVectorDescriptor,
    serialize_bitmap,
    write_file,
)
from slackwater.protocol.actions.z85 import encode_uuid
from slackwater.protocol.features.column_mapping import NONE
from slackwater.protocol.schema.schema import PrimitiveType, StructField, StructType
from slackwater.stats.footers import stats_leaves, stats_of_footer
from slackwater.storage.parquet_footer import read_footer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DATA_COLUMNS = {"k": "long", "v": "long", "s": "string"}
PARTITION = "p"
_SCHEMA = StructType(tuple(StructField(name, PrimitiveType(kind)) for name, kind in DATA_COLUMNS.items()))
_LEAVES = stats_leaves(_SCHEMA, NONE, (), {})


def plain_table(spark: SparkSession, root: Path, rows: int, files: int) -> None:
    """`rows` rows in `files` files, no partitions: k counts, v is spread over a million values, s is a short text."""
    _frame(spark, rows, files).write.parquet(str(root))
    _write_log(root, _files(root), [])


def partitioned_table(spark: SparkSession, root: Path, rows: int, partitions: int) -> None:
    """As `plain_table`, one file in each of `partitions` directories."""
    frame = _frame(spark, rows, 8).selectExpr("*", f"cast(k % {partitions} as int) as {PARTITION}")
    frame.repartition(PARTITION).write.partitionBy(PARTITION).parquet(str(root))
    _write_log(root, _files(root), [PARTITION])


def with_deletion_vectors(plain: Path, root: Path, share: float) -> None:
    """The table at `plain` with a random `share` of the rows of each file deleted; data files are hard links."""
    root.mkdir()
    files = []
    for file in _files(plain):
        os.link(file, root / file.name)
        files.append(root / file.name)
    rng = np.random.default_rng(5)
    bitmaps = [_random_rows(rng, pq.read_metadata(file).num_rows, share) for file in files]
    content, places = write_file([serialize_bitmap(bitmap) for bitmap in bitmaps])
    name = uuid.UUID(int=random.Random(5).getrandbits(128), version=4)  # noqa: S311
    (root / f"deletion_vector_{name}.bin").write_bytes(content)
    vectors = [
        DeletionVectorDescriptor(ON_DISK_RELATIVE, encode_uuid(name), offset, size, len(bitmap))
        for (offset, size), bitmap in zip(places, bitmaps, strict=True)
    ]
    _write_log(root, files, [], vectors)


def small_files_table(root: Path, files: int, rows_per_file: int, partitions: int) -> None:
    """`files` small files over `partitions` directories; file n holds the ids from n × `rows_per_file` on."""
    written = []
    for number in range(files):
        file = root / f"{PARTITION}={number % partitions}" / f"part-{number:05d}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        k = pa.array(range(number * rows_per_file, (number + 1) * rows_per_file), pa.int64())
        v = pc.multiply(k, 7)
        pq.write_table(pa.table({"k": k, "v": v, "s": pc.cast(k, pa.string())}), file)
        written.append(file)
    _write_log(root, written, [PARTITION])


def live_answer(root: Path, deleted: Path | None = None) -> tuple[int, int]:
    """(sum of v, greatest k) of the rows of `plain_table` at `root`, read without Spark and without slackwater.

    With `deleted`, a table of `with_deletion_vectors` over the same files, only of its live rows: the same seed
    deletes the same rows.
    """
    share = float(deleted.name.rsplit("-", 1)[1]) if deleted else 0.0
    rng = np.random.default_rng(5)
    total, greatest = 0, 0
    for file in _files(root):
        table = pq.read_table(file, columns=["k", "v"])
        if deleted:
            keep = np.ones(table.num_rows, dtype=bool)
            keep[np.array(_random_rows(rng, table.num_rows, share).to_array(), dtype=np.int64)] = False
            table = table.filter(pa.array(keep))
        total += pc.sum(table["v"]).as_py()
        greatest = max(greatest, pc.max(table["k"]).as_py())
    return total, greatest


def _frame(spark: SparkSession, rows: int, slices: int) -> Any:
    return spark.range(0, rows, 1, slices).selectExpr(
        "id as k", "(id * 2654435761) % 1000003 as v", "concat('customer-', id % 1000) as s"
    )


def _files(root: Path) -> list[Path]:
    return sorted(root.rglob("*.parquet"))


def _random_rows(rng: np.random.Generator, rows: int, share: float) -> BitMap64:
    count = max(1, round(rows * share))
    return BitMap64(rng.choice(rows, size=count, replace=False).astype(np.uint64).tolist())


def _write_log(
    root: Path,
    files: list[Path],
    partition_columns: list[str],
    vectors: list[DeletionVectorDescriptor] | None = None,
) -> None:
    for success in root.glob("*_SUCCESS*"):
        success.unlink()
    log = root / "_delta_log"
    shutil.rmtree(log, ignore_errors=True)
    log.mkdir()
    types = DATA_COLUMNS | dict.fromkeys(partition_columns, "integer")
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in types.items()]
    schema = json.dumps({"type": "struct", "fields": fields})
    metadata = METADATA | {"schemaString": schema, "partitionColumns": partition_columns}
    protocol: dict[str, Any] = dict(PROTOCOL)
    if vectors is not None:
        feature = ["deletionVectors"]
        protocol = {
            "minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": feature, "writerFeatures": feature
        }  # fmt: skip
        metadata["configuration"] = {"delta.enableDeletionVectors": "true"}
    actions: list[dict[str, object]] = [{"protocol": protocol}, {"metaData": metadata}]
    actions += [{"add": _add(root, file, vectors[n] if vectors else None)} for n, file in enumerate(files)]
    write_commit(log, 0, actions)


def _add(root: Path, file: Path, vector: DeletionVectorDescriptor | None) -> dict[str, Any]:
    path = file.relative_to(root).as_posix()
    values = dict(part.split("=", 1) for part in path.split("/")[:-1])
    stats = stats_of_footer(read_footer(pa.OSFile(str(file))), _LEAVES)
    add = {
        "path": path, "partitionValues": values, "size": file.stat().st_size, "modificationTime": FIRST_MS,
        "dataChange": True, "stats": stats,
    }  # fmt: skip
    if vector is None:
        return add
    # Statistics of a file with deleted rows bound its live rows, and need not be met by one of them.
    return add | {"stats": json.dumps(json.loads(stats) | {"tightBounds": False}), "deletionVector": vector.to_json()}
