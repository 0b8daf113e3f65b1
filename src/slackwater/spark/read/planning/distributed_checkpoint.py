"""Checkpoint files read by Spark, for logs larger than the driver's memory.

Source: delta-protocol.md "Checkpoints", "Sidecar Files".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type

from slackwater.errors import CorruptCheckpoint, DataFileNotFound
from slackwater.log.files.checkpoint import open_parquet_of
from slackwater.log.files.file_actions import ADD_SCHEMA
from slackwater.log.snapshot import LogSnapshot
from slackwater.spark.read.file_relations import read_files
from slackwater.spark.storage.locations import DataLocations
from slackwater.spark.storage.row_transport import served_to_spark
from slackwater.spark.storage.shared_storage import all_here, log_sample, not_shared, require_shared
from slackwater.storage.parquet_footer import RowGroup
from slackwater.storage.store import ObjectStore

_ADD_TYPE = from_arrow_schema(ADD_SCHEMA, prefer_timestamp_ntz=False)
_FOOTERS_AT_ONCE = 16


def require_same_log(spark: SparkSession, snapshot: LogSnapshot) -> None:
    """Raise StorageRefused if Spark finds another log at the path. File names alone do not distinguish logs."""
    require_shared(spark, snapshot.store, lambda: log_sample(snapshot.segment), each_table=True)


@dataclass(frozen=True, slots=True)
class CheckpointFooter:
    """The footer of a checkpoint file. `sizes` are the uncompressed sizes in bytes of the fields of `add`."""

    path: str
    rows: int
    add: pa.StructType
    sizes: dict[str, int]


def checkpoint_footers(snapshot: LogSnapshot) -> list[CheckpointFooter]:
    """Return the footers of the Parquet files with adds, in the checkpoint's order. Raises CorruptCheckpoint."""
    checkpoint = snapshot.state.checkpoint
    if checkpoint is None or not checkpoint.files:
        return []
    with ThreadPoolExecutor(min(_FOOTERS_AT_ONCE, len(checkpoint.files))) as pool:
        found = list(pool.map(lambda path: _footer(snapshot.store, path, checkpoint.sizes.get(path)), checkpoint.files))
    return [footer for footer in found if footer is not None and footer.rows]


def _footer(store: ObjectStore, path: str, size_bytes: int | None) -> CheckpointFooter | None:
    where = f"{store.root_url}: {path}"
    file, groups = open_parquet_of(store, path, size_bytes)
    with closing(file):
        metadata, schema = file.metadata, file.schema_arrow
    if "add" not in schema.names:
        return None
    add = schema.field("add").type
    if not pa.types.is_struct(add) or add.get_field_index("path") < 0:
        raise CorruptCheckpoint(f"{where} must contain add as a struct with a path, found {add}")
    return CheckpointFooter(path, metadata.num_rows, add, _field_sizes(metadata, groups))


def _field_sizes(metadata: pq.FileMetaData, groups: Sequence[RowGroup]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for index in range(metadata.num_columns):
        action, _, rest = metadata.schema.column(index).path.partition(".")
        if action == "add":
            name = rest.partition(".")[0]
            sizes[name] = sizes.get(name, 0) + sum(group.columns[index].uncompressed_bytes for group in groups)
    return sizes


def alike(footers: Sequence[CheckpointFooter]) -> Iterator[list[CheckpointFooter]]:
    """Yield the files in groups with the same type of `add`."""
    for _, group in groupby(sorted(footers, key=lambda f: str(f.add)), key=lambda f: str(f.add)):
        yield list(group)


def parquet_adds(
    spark: SparkSession, store: ObjectStore, files: Sequence[CheckpointFooter], stats: pa.StructType | None = None
) -> DataFrame:
    """Return the rows with an add, as the column `add` with the files' own types. `files` must have one type of `add`.

    `stats` are the fields of `stats_parsed` to read.
    """
    found = files[0].add
    fields = [f for f in ADD_SCHEMA if found.get_field_index(f.name) >= 0]
    add = spark_types.StructType()
    for field in fields:
        add = add.add(field.name, _stored_type(found.field(field.name).type, field.type))
    if stats is not None:
        add = add.add("stats_parsed", _stored_type(stats, stats))
    # CORRECTED, so that the session's calendar settings do not change stored values.
    reader = spark.read.schema(spark_types.StructType().add("add", add))
    reader = reader.option("datetimeRebaseMode", "CORRECTED").option("int96RebaseMode", "CORRECTED")
    paths = [file.path for file in files]
    locations = DataLocations(store, served=served_to_spark(spark, store))
    try:
        frame = read_files(spark, reader, locations, paths)
    except DataFileNotFound as refused:
        if all_here(store, paths):
            raise not_shared(store.root_url, "no such log") from refused
        raise CorruptCheckpoint(f"{store.root_url}: a file of the log is missing: {refused}") from refused
    return frame.where("add.path is not null")


def _stored_type(found: pa.DataType, wanted: pa.DataType) -> spark_types.DataType:
    """Return the type to request from Spark's Parquet reader: integers in their stored width, existing fields only."""
    if pa.types.is_struct(wanted) and pa.types.is_struct(found):
        fields = spark_types.StructType()
        for field in wanted:
            if found.get_field_index(field.name) >= 0:
                fields = fields.add(field.name, _stored_type(found.field(field.name).type, field.type))
        return fields
    if pa.types.is_timestamp(found) and found.unit == "ns":
        # INT96: a timestamp without a zone in Arrow, an instant in Spark.
        return spark_types.TimestampType()
    stored = found if pa.types.is_signed_integer(found) else wanted
    return from_arrow_type(stored, prefer_timestamp_ntz=True)


def conformed(name: str, found: pa.StructType) -> Column:
    """Return the field `name` of `add` in its type in ADD_SCHEMA, null if the files do not have the field."""
    wanted = _ADD_TYPE[name].dataType
    if found.get_field_index(name) < 0:
        return F.lit(None).cast(wanted).alias(name)
    column = F.col(f"add.{name}")
    if not isinstance(wanted, spark_types.StructType):
        return column.cast(wanted).alias(name)
    stored = found.field(name).type
    fields = [
        (column[f.name] if stored.get_field_index(f.name) >= 0 else F.lit(None)).cast(f.dataType).alias(f.name)
        for f in wanted
    ]
    return F.when(column.isNotNull(), F.struct(*fields)).alias(name)
