"""Creating a table from a DataFrame, and appending to one.

Data files are written by Spark's Parquet writer beside the table's other files, given their final names, and then
committed; statistics come from their footers.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

import orjson
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (the name the field uses)

from slackwater.commit.filesystem import FilesystemCommitter
from slackwater.errors import CommitUnknown, InvalidArgument, TableNotFound, UnsupportedFeature
from slackwater.protocol.actions import AddFile, Metadata, Protocol
from slackwater.protocol.partition_values import HIVE_DEFAULT_PARTITION, hive_unescape
from slackwater.protocol.paths import canonical_path, encode_path
from slackwater.protocol.schema import (
    TIMESTAMP_NTZ,
    ArrayType,
    DataType,
    MapType,
    StructType,
    as_nullable,
    nullable_type,
    schema_to_json,
)
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.locations import DataLocations
from slackwater.spark.names import quoted
from slackwater.spark.options import Options
from slackwater.spark.types import from_spark_schema
from slackwater.storage.open import open_store
from slackwater.storage.store import ObjectMeta, ObjectStore
from slackwater.transaction.file_stats import stats_of_footer
from slackwater.transaction.transaction import Transaction, validate_appendable

_ERROR_MODES = ("error", "errorifexists", "default")
_MODES = ("append", "ignore", *_ERROR_MODES)
# Types whose text in a directory name is just the text of the log.
_PARTITION_TYPES = frozenset({"string", "long", "integer", "short", "byte", "boolean", "date"})


def save(
    frame: DataFrame,
    path: str,
    mode: str = "error",
    partition_by: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
) -> int | None:
    """Write `frame` as the Delta table at `path`, or append it; the version committed, None where nothing was.

    `mode`: `error` (the default; the table must not exist), `append`, `ignore`. Columns are matched by name. Raises
    InvalidArgument where the columns or partitioning do not fit the table, UnsupportedFeature for a table whose writer
    rules are not honoured, CommitConflict, CommitUnknown. Nothing is visible unless it returns.
    """
    opts = Options(options or {})
    if mode.lower() not in _MODES:
        raise UnsupportedFeature(
            f"write mode {mode!r} is not supported by this version: use one of {', '.join(_MODES)}"
        )
    store = open_store(path, opts.storage_options())
    if store.local_root is None:
        raise UnsupportedFeature(f"{store.root_url}: this version writes tables on local disks only")
    try:
        snapshot: Snapshot | None = Snapshot.open(store)
    except TableNotFound:
        snapshot = None
    if snapshot is not None and mode.lower() == "ignore":
        return None
    if snapshot is not None and mode.lower() in _ERROR_MODES:
        raise InvalidArgument(f"{store.root_url} is a Delta table already: write with mode append, or elsewhere")
    return _write(frame, store, snapshot, partition_by)


def _write(frame: DataFrame, store: ObjectStore, snapshot: Snapshot | None, partition_by: Sequence[str]) -> int:
    if snapshot is None:
        schema = as_nullable(from_spark_schema(frame.schema))
        columns = _checked_partitions(schema, partition_by)
        _checked_new_schema(schema)
    else:
        validate_appendable(snapshot)
        schema, columns = snapshot.schema, snapshot.metadata.partition_columns
        if partition_by and tuple(partition_by) != columns:
            raise InvalidArgument(f"{store.root_url} is partitioned by {list(columns)}, not by {list(partition_by)}")
        _checked_partitions(schema, columns)
        frame = _aligned(frame, schema, store.root_url)
    adds = _write_files(frame, store, schema, columns)
    parameters = {
        "mode": "Append" if snapshot else "ErrorIfExists",
        "partitionBy": orjson.dumps(list(columns)).decode(),
    }
    metrics = {"numFiles": str(len(adds)), "numOutputBytes": str(sum(a.size for a in adds))}
    metrics["numOutputRows"] = str(sum(orjson.loads(a.stats or "{}").get("numRecords", 0) for a in adds))
    transaction = Transaction(FilesystemCommitter(store), snapshot, "WRITE", parameters, metrics)
    try:
        if snapshot is not None:
            return transaction.append(adds)
        metadata = Metadata(
            str(uuid.uuid4()), schema_to_json(schema), columns, created_time=time.time_ns() // 1_000_000
        )
        return transaction.create(_protocol(schema), metadata, adds)
    except CommitUnknown:
        raise
    except Exception:
        # It certainly did not land: what was written for it is nobody's.
        store.delete([canonical_path(add.path) for add in adds])
        raise


def _write_files(frame: DataFrame, store: ObjectStore, schema: StructType, columns: Sequence[str]) -> list[AddFile]:
    """Write the rows, give the files their final names, and describe them."""
    staging = f".slackwater-{uuid.uuid4()}"
    root = DataLocations(store).root
    writer = frame.select(*(F.col(quoted(c.name)) for c in schema)).write
    try:
        writer.partitionBy(*columns).parquet(f"{root}/{staging}")
        written = [m for m in store.list_from(staging, recursive=True) if m.path.endswith(".parquet")]
        return [_finished(store, meta, meta.path.removeprefix(f"{staging}/"), columns) for meta in written]
    finally:
        shutil.rmtree(f"{root}/{staging}", ignore_errors=True)


def _finished(store: ObjectStore, meta: ObjectMeta, path: str, columns: Sequence[str]) -> AddFile:
    store.move(meta.path, path)
    with closing(pq.ParquetFile(store.open_file(path))) as file:
        stats = stats_of_footer(file.metadata)
    values = [hive_unescape(part.partition("=")[2]) for part in path.split("/")[: len(columns)]]
    partition_values = {
        name: None if value == HIVE_DEFAULT_PARTITION else value for name, value in zip(columns, values, strict=True)
    }
    return AddFile(encode_path(path), partition_values, meta.size_bytes, meta.modified_ms, True, stats)


def _checked_partitions(schema: StructType, partition_by: Sequence[str]) -> tuple[str, ...]:
    names = []
    for name in partition_by:
        column = schema.get(name)
        if column is None:
            raise InvalidArgument(f"partition column {name!r} is not among the columns {list(schema.names)}")
        if str(column.type) not in _PARTITION_TYPES:
            raise UnsupportedFeature(f"partitioning by {name} of type {column.type} is not supported by this version")
        names.append(column.name)
    if names and len(names) == len(schema):
        raise InvalidArgument("a table needs at least one column that it is not partitioned by")
    return tuple(names)


def _checked_new_schema(schema: StructType) -> None:
    folded = [name.lower() for name in schema.names]
    double = sorted({name for name in folded if folded.count(name) > 1})
    if double:
        raise InvalidArgument(f"column names must differ in more than case, found {double} more than once")
    illegal = [name for name in schema.names if any(c in " ,;{}()\n\t=" for c in name)]
    if illegal:
        raise InvalidArgument(f"column names {illegal} hold one of the characters ' ,;{{}}()\\n\\t=': rename them")


def _aligned(frame: DataFrame, schema: StructType, where: str) -> DataFrame:
    found = from_spark_schema(frame.schema)
    missing = [c.name for c in schema if found.get(c.name) is None]
    extra = [c.name for c in found if schema.get(c.name) is None]
    if missing or extra:
        raise InvalidArgument(f"{where}: the columns do not fit the table: missing {missing}, not in the table {extra}")
    for column in schema:
        given = found.get(column.name)
        if given is not None and nullable_type(given.type) != nullable_type(column.type):
            raise InvalidArgument(f"{where}: column {column.name} is of type {column.type}, found {given.type}")
    return frame.select(*(F.col(quoted(c.name)) for c in schema))


def _protocol(schema: StructType) -> Protocol:
    if _has_ntz(schema):
        return Protocol(3, 7, ("timestampNtz",), ("timestampNtz",))
    return Protocol(1, 2)


def _has_ntz(data_type: DataType) -> bool:
    if isinstance(data_type, StructType):
        return any(_has_ntz(c.type) for c in data_type)
    if isinstance(data_type, ArrayType):
        return _has_ntz(data_type.element_type)
    if isinstance(data_type, MapType):
        return _has_ntz(data_type.key_type) or _has_ntz(data_type.value_type)
    return data_type == TIMESTAMP_NTZ
