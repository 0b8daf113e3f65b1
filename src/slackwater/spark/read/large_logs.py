"""Logs bigger than the driver: action reconciliation as a Spark plan over the files of the log.

Source: delta-protocol.md "Action Reconciliation", "Checkpoints", "Sidecar Files", "Log Compaction Files".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import reduce
from itertools import groupby

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type

from slackwater.errors import CorruptCheckpoint, CorruptLog, DataFileNotFound
from slackwater.log.checkpoints.checkpoint import open_parquet_of
from slackwater.log.file_actions import ADD_SCHEMA
from slackwater.log.snapshot import LogSnapshot
from slackwater.spark.read.file_relations import read_files
from slackwater.spark.session.locations import DataLocations
from slackwater.spark.session.modes import empty_frame
from slackwater.spark.session.shared_storage import all_here, log_sample, not_shared, require_shared
from slackwater.storage.parquet_footer import RowGroup
from slackwater.storage.store import ObjectStore

_ADD_TYPE = from_arrow_schema(ADD_SCHEMA, prefer_timestamp_ntz=False)
_REFERENCE_TYPE = spark_types.StructType([_ADD_TYPE["path"], _ADD_TYPE["deletionVector"]])
_FOOTERS_AT_ONCE = 16
_FILE, _ORDER, _NEWEST = (f"__slackwater_{part}" for part in ("file", "order", "newest"))
_PATH, _VECTOR = "__slackwater_path", "__slackwater_vector"
_NEWER_PATH, _NEWER_VECTOR = "__slackwater_newer_path", "__slackwater_newer_vector"


def live_files_frame(spark: SparkSession, snapshot: LogSnapshot) -> DataFrame:
    """The live files as a plan, one row each: the columns of ADD_SCHEMA, maps as `map<string,string>`.

    The checkpoint's adds but for those that a later commit speaks of, and the newest reference to each file in the
    commits where that is an add. Sizes in bytes, times in ms since the epoch; rows in no order. Only footers of the
    checkpoint are read here; damage in its pages shows when the plan runs, as Spark's own error. A checkpoint whose
    footers are damaged is dealt with as in `LogSnapshot.live_files`. Raises CorruptCheckpoint and CorruptLog where a
    file of the log is gone. Source: delta-protocol.md "Action Reconciliation".
    """
    frame: DataFrame = snapshot.despite_damage(lambda: _live_files_frame(spark, snapshot))
    return frame


def canonical_path_column(path: Column) -> Column:
    """`slackwater.protocol.actions.paths.canonical_path` as an expression: decoded, `file:` URLs as plain paths."""
    # url_decode refuses a '%' that begins no escape, and takes '+' for a space; the log means both literally.
    whole_escapes = F.regexp_replace(path, "%(?![0-9A-Fa-f]{2})", "%25")
    decoded = F.url_decode(F.replace(whole_escapes, F.lit("+"), F.lit("%2B")))
    decoded = F.when(F.contains(path, F.lit("%")), decoded).otherwise(path)
    local = F.regexp_replace(F.regexp_replace(decoded, "^file:", ""), r"^//[^/]*(?:/|\z)", "/")
    return F.when(F.startswith(path, F.lit("file:")), local).otherwise(F.regexp_replace(decoded, r"^\./", ""))


def unique_id_column(vector: Column) -> Column:
    """The `uniqueId` of a deletion vector, null where there is none. Source: "Derived Fields"."""
    plain = F.concat(vector["storageType"], vector["pathOrInlineDv"])
    offset = vector["offset"]
    return F.when(offset.isNull(), plain).otherwise(F.concat(plain, F.lit("@"), offset.cast("string")))


def require_same_log(spark: SparkSession, snapshot: LogSnapshot) -> None:
    """Raise StorageRefused where Spark has another log there: its files have the same names in every table."""
    require_shared(spark, snapshot.store, lambda: log_sample(snapshot.segment), each_table=True)


def _live_files_frame(spark: SparkSession, snapshot: LogSnapshot) -> DataFrame:
    require_same_log(spark, snapshot)
    adds = _checkpoint_adds(spark, snapshot)
    commits = [commit.path for commit in snapshot.segment.commits]
    if not commits:
        return adds if adds is not None else empty_frame(spark, _ADD_TYPE)
    newest = _newest_references(_actions(spark, snapshot, commits, CorruptLog))
    added = newest.where(f"{_NEWEST}.add is not null").select(f"{_NEWEST}.add.*")
    return added if adds is None else _without(adds, newest).unionByName(added)


def _without(adds: DataFrame, newest: DataFrame) -> DataFrame:
    """`adds` but for the logical files of `newest`."""
    keyed = adds.select(
        "*",
        canonical_path_column(F.col("path")).alias(_PATH),
        unique_id_column(F.col("deletionVector")).alias(_VECTOR),
    )
    newer = newest.select(F.col(_PATH).alias(_NEWER_PATH), F.col(_VECTOR).alias(_NEWER_VECTOR))
    same = (F.col(_PATH) == F.col(_NEWER_PATH)) & F.col(_VECTOR).eqNullSafe(F.col(_NEWER_VECTOR))
    return keyed.join(newer, same, "left_anti").select(*ADD_SCHEMA.names)


def _newest_references(actions: DataFrame) -> DataFrame:
    """One row per logical file of the commits: its key, and its newest action, whose `add` is null for a removal."""
    reference = F.when(F.col("add").isNotNull(), _reference("add")).otherwise(F.col("remove"))
    # Neither commits nor lines within one are in any order in Spark. An offset in the file orders the splits of it, and
    # within a split the id rises from line to line.
    order = F.struct(
        F.substring(f"{_FILE}.file_name", 1, 20).cast("long"),
        F.col(f"{_FILE}.file_block_start"),
        F.monotonically_increasing_id(),
    )
    found = actions.select(order.alias(_ORDER), "add", reference.alias(_NEWEST)).where(f"{_NEWEST}.path is not null")
    keys = (
        canonical_path_column(F.col(f"{_NEWEST}.path")).alias(_PATH),
        unique_id_column(F.col(f"{_NEWEST}.deletionVector")).alias(_VECTOR),
    )
    return found.groupBy(*keys).agg(F.max_by(F.struct("add"), F.col(_ORDER)).alias(_NEWEST))


def _reference(action: str) -> Column:
    return F.struct(F.col(f"{action}.path").alias("path"), F.col(f"{action}.deletionVector").alias("deletionVector"))


def _actions(
    spark: SparkSession, snapshot: LogSnapshot, paths: Sequence[str], error: type[CorruptLog | CorruptCheckpoint]
) -> DataFrame:
    """The lines of JSON files of the log, as `add` and `remove`."""
    schema = spark_types.StructType().add("add", _lenient(_ADD_TYPE)).add("remove", _lenient(_REFERENCE_TYPE))
    # Else a session's settings could turn a line that is bad into one that is not there.
    reader = spark.read.schema(schema).option("mode", "FAILFAST").option("lineSep", "\n")
    frame = _relation(spark, reader, "json", snapshot.store, paths, error)
    typed = (F.col("add").cast(_ADD_TYPE).alias("add"), F.col("remove").cast(_REFERENCE_TYPE).alias("remove"))
    return frame.select(*typed, F.col("_metadata").alias(_FILE))


def _lenient(wanted: spark_types.StructType) -> spark_types.StructType:
    """`wanted` for Spark's JSON reader: a whole number may be written as 1.0 or 1e3, which only decimals may be."""
    fields = spark_types.StructType()
    for field in wanted:
        found = field.dataType
        if isinstance(found, spark_types.StructType):
            found = _lenient(found)
        elif isinstance(found, spark_types.IntegralType):
            found = spark_types.DecimalType(38, 0)
        fields = fields.add(field.name, found)
    return fields


def _checkpoint_adds(spark: SparkSession, snapshot: LogSnapshot) -> DataFrame | None:
    """The adds of the checkpoint, None where there is no checkpoint."""
    files, checkpoint = snapshot.segment.checkpoint, snapshot.state.checkpoint
    if files is None or checkpoint is None:
        return None
    frames = [
        parquet_adds(spark, snapshot.store, group).select(*(conformed(name, group[0].add) for name in _ADD_TYPE.names))
        for group in alike(checkpoint_footers(snapshot))
    ]
    if checkpoint.inline is not None:
        actions = _actions(spark, snapshot, files.paths, CorruptCheckpoint)
        frames.append(actions.where("add.path is not null").select("add.*"))
    return reduce(DataFrame.unionByName, frames) if frames else empty_frame(spark, _ADD_TYPE)


@dataclass(frozen=True, slots=True)
class CheckpointFooter:
    """What the footer of a checkpoint file says of it; `sizes` are bytes of the fields of `add`, not compressed."""

    path: str
    rows: int
    add: pa.StructType
    sizes: dict[str, int]


def checkpoint_footers(snapshot: LogSnapshot) -> list[CheckpointFooter]:
    """Those of the Parquet files with adds, in the checkpoint's order. Raises CorruptCheckpoint."""
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
        raise CorruptCheckpoint(f"{where} must hold add as a struct with a path, found {add}")
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
    """The files in groups that one schema reads."""
    for _, group in groupby(sorted(footers, key=lambda f: str(f.add)), key=lambda f: str(f.add)):
        yield list(group)


def parquet_adds(
    spark: SparkSession, store: ObjectStore, files: Sequence[CheckpointFooter], stats: pa.StructType | None = None
) -> DataFrame:
    """The rows with an add of files that are alike, as the column `add` with the files' own types.

    `stats`: the fields of `stats_parsed` to read.
    """
    found = files[0].add
    fields = [f for f in ADD_SCHEMA if found.get_field_index(f.name) >= 0]
    add = spark_types.StructType()
    for field in fields:
        add = add.add(field.name, _stored_type(found.field(field.name).type, field.type))
    if stats is not None:
        add = add.add("stats_parsed", _stored_type(stats, stats))
    # The driver reads what is stored, whatever calendar the session takes old dates for.
    reader = spark.read.schema(spark_types.StructType().add("add", add))
    reader = reader.option("datetimeRebaseMode", "CORRECTED").option("int96RebaseMode", "CORRECTED")
    frame = _relation(spark, reader, "parquet", store, [file.path for file in files], CorruptCheckpoint)
    return frame.where("add.path is not null")


def _stored_type(found: pa.DataType, wanted: pa.DataType) -> spark_types.DataType:
    """The type to ask Spark's Parquet reader for: integers as wide as they were written, fields that are there."""
    if pa.types.is_struct(wanted) and pa.types.is_struct(found):
        fields = spark_types.StructType()
        for field in wanted:
            if found.get_field_index(field.name) >= 0:
                fields = fields.add(field.name, _stored_type(found.field(field.name).type, field.type))
        return fields
    if pa.types.is_timestamp(found) and found.unit == "ns":
        # INT96, which has no zone in Arrow and is an instant in Spark.
        return spark_types.TimestampType()
    stored = found if pa.types.is_signed_integer(found) else wanted
    return from_arrow_type(stored, prefer_timestamp_ntz=True)


def conformed(name: str, found: pa.StructType) -> Column:
    """The field `name` of `add` with its type in ADD_SCHEMA; null where the files have no such field."""
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


def _relation(
    spark: SparkSession,
    reader: DataFrameReader,
    source: str,
    store: ObjectStore,
    paths: Sequence[str],
    error: type[CorruptLog | CorruptCheckpoint],
) -> DataFrame:
    try:
        return read_files(spark, reader, source, DataLocations(store), paths)
    except DataFileNotFound as refused:
        if all_here(store, paths):
            raise not_shared(store.root_url, "no such log") from refused
        raise error(f"{store.root_url}: a file of the log is gone: {refused}") from refused
