"""Logs bigger than the driver: the same replay as a Spark plan, and planning that holds a part of the files at a time.

`live_files_frame` is action reconciliation as a plan over the files of the log. `plan_distributed` prunes without
holding all files: Spark reads the checkpoint bucket by bucket, and each is pruned by the code that prunes on the
driver. Source: delta-protocol.md "Action Reconciliation", "Checkpoints", "Sidecar Files", "Log Compaction Files".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from typing import TypeGuard

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (the name the field uses)
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type

from slackwater.errors import CorruptCheckpoint, CorruptLog, InvalidArgument, ObjectNotFound
from slackwater.log.checkpoint import SIDECARS
from slackwater.log.file_actions import ACTION_SCHEMA, ADD_SCHEMA
from slackwater.log.live_files import CheckpointFiles
from slackwater.log.replay import TableState
from slackwater.log.snapshot import LogSnapshot
from slackwater.protocol.schema import STRING
from slackwater.scan.columns import resolve_column
from slackwater.scan.predicate import And, Comparison, In, Predicate
from slackwater.scan.snapshot import Snapshot
from slackwater.scan.sql_predicate import parse_predicate
from slackwater.spark.locations import DataLocations
from slackwater.spark.modes import is_missing_path, listing_on_driver
from slackwater.storage.store import ObjectStore

DRIVER_LIMIT_BYTES = 4 * 1024**3
"""Up to here, in bytes of checkpoint and commit files, a log is replayed on the driver unless told otherwise."""

_ADD_TYPE = from_arrow_schema(ADD_SCHEMA, prefer_timestamp_ntz=False)
_REFERENCE_TYPE = spark_types.StructType([_ADD_TYPE["path"], _ADD_TYPE["deletionVector"]])
# A quarter of what spark.driver.maxResultSize allows unless set: Arrow is wider than encoded Parquet.
_BUCKET_BYTES = 256 * 1024**2
_MOST_PUSHED_VALUES = 1000
_FOOTERS_AT_ONCE = 16
_FILE, _ORDER, _NEWEST = (f"__slackwater_{part}" for part in ("file", "order", "newest"))
_PATH, _VECTOR = "__slackwater_path", "__slackwater_vector"
_NEWER_PATH, _NEWER_VECTOR = "__slackwater_newer_path", "__slackwater_newer_vector"


def should_distribute(snapshot: LogSnapshot, option: str | None = None, limit_bytes: int = DRIVER_LIMIT_BYTES) -> bool:
    """Whether Spark is to replay the log of `snapshot`: what the option `replay` asks for, else by the log's size.

    `option` is `driver`, `spark`, or `auto` (the same as None): Spark where the files of the segment, sidecars
    included, have more than `limit_bytes`. Sidecars are sized by one listing. Raises InvalidArgument for anything else.
    """
    choice = (option or "auto").strip().lower()
    if choice not in ("auto", "driver", "spark"):
        raise InvalidArgument(f"option replay must be driver, spark or auto, found {option!r}")
    if choice != "auto":
        return choice == "spark"
    return log_size_bytes(snapshot) > limit_bytes


def log_size_bytes(snapshot: LogSnapshot) -> int:
    """The bytes of all files that make up the version: checkpoint, sidecars, commits."""
    segment, checkpoint = snapshot.segment, _state(snapshot).checkpoint
    size_bytes = sum(commit.size_bytes for commit in segment.commits)
    if segment.checkpoint is not None:
        size_bytes += segment.checkpoint.size_bytes
    if checkpoint is not None:
        sidecars = {path for path in checkpoint.files if path.startswith(f"{SIDECARS}/")}
        if sidecars:
            found = snapshot.store.list_from(SIDECARS)
            size_bytes += sum(meta.size_bytes for meta in found if meta.path in sidecars)
    return size_bytes


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


def plan_distributed(
    spark: SparkSession,
    snapshot: Snapshot,
    predicate: str | Predicate | None = None,
    columns: Sequence[str] = tuple(ADD_SCHEMA.names),
    zone: str = "UTC",
    bucket_files: int = 500_000,
) -> pa.Table:
    """As `Snapshot.files(predicate, columns, zone)`, rows in another order, holding one bucket and the survivors.

    A bucket has about `bucket_files` files at most, fewer where their columns are wide. Small checkpoint files
    (sidecars, parts) fill buckets together and are read once; one with more files than a bucket holds is read once
    for each of its own buckets. `columns` are of ADD_SCHEMA. Nothing is left behind on the server. Errors as
    `live_files_frame` and `Snapshot.files`.
    """
    if bucket_files < 1:
        raise InvalidArgument(f"a bucket holds at least one file, found bucket_files={bucket_files}")
    unknown = [name for name in columns if name not in ADD_SCHEMA.names]
    if unknown:
        raise InvalidArgument(f"no columns of a live file: {unknown}; there are {ADD_SCHEMA.names}")
    where = parse_predicate(predicate, snapshot.schema, zone=zone) if isinstance(predicate, str) else predicate

    def parts() -> pa.Table:
        footers = _footers(snapshot)
        wanted = [*columns, "path", "deletionVector"]
        wanted += ["partitionValues", "stats", "stats_parsed"] if where is not None else []
        buckets = _buckets(footers, bucket_files, wanted)
        views = [_commits_view(snapshot), *_bucket_views(spark, snapshot, buckets, where)]
        return pa.concat_tables(
            [view.files(where, columns, zone).select(list(columns)) for view in views], promote_options="permissive"
        )

    return snapshot.despite_damage(parts)


def canonical_path_column(path: Column) -> Column:
    """`slackwater.protocol.paths.canonical_path` as an expression: decoded, `file:` URLs as plain paths."""
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


def _state(snapshot: LogSnapshot) -> TableState:
    return snapshot.state


def _live_files_frame(spark: SparkSession, snapshot: LogSnapshot) -> DataFrame:
    adds = _checkpoint_adds(spark, snapshot)
    commits = [commit.path for commit in snapshot.segment.commits]
    if not commits:
        return adds if adds is not None else spark.createDataFrame([], _ADD_TYPE)
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
    # Without these a session's settings could turn a line or a file that is bad into one that is not there.
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
    files, checkpoint = snapshot.segment.checkpoint, _state(snapshot).checkpoint
    if files is None or checkpoint is None:
        return None
    frames = [
        _parquet_adds(spark, snapshot.store, group).select(
            *(_conformed(name, group[0].add) for name in _ADD_TYPE.names)
        )
        for group in _alike(_footers(snapshot))
    ]
    if checkpoint.inline is not None:
        actions = _actions(spark, snapshot, files.paths, CorruptCheckpoint)
        frames.append(actions.where("add.path is not null").select("add.*"))
    return reduce(DataFrame.unionByName, frames) if frames else spark.createDataFrame([], _ADD_TYPE)


@dataclass(frozen=True, slots=True)
class _Footer:
    """What the footer of a checkpoint file says of it; `sizes` are bytes of the fields of `add`, not compressed."""

    path: str
    rows: int
    add: pa.StructType
    sizes: dict[str, int]


def _footers(snapshot: LogSnapshot) -> list[_Footer]:
    """Those of the Parquet files with adds, in the checkpoint's order. Raises CorruptCheckpoint."""
    checkpoint = _state(snapshot).checkpoint
    if checkpoint is None or not checkpoint.files:
        return []
    with ThreadPoolExecutor(min(_FOOTERS_AT_ONCE, len(checkpoint.files))) as pool:
        found = list(pool.map(lambda path: _footer(snapshot.store, path), checkpoint.files))
    return [footer for footer in found if footer is not None and footer.rows]


def _footer(store: ObjectStore, path: str) -> _Footer | None:
    where = f"{store.root_url}: {path}"
    try:
        with closing(pq.ParquetFile(store.open_file(path))) as file:
            metadata, schema = file.metadata, file.schema_arrow
    except ObjectNotFound as error:
        raise CorruptCheckpoint(f"{where} is gone") from error
    except (pa.ArrowException, OSError) as error:
        raise CorruptCheckpoint(f"{where} is not a readable Parquet file: {error}") from error
    if "add" not in schema.names:
        return None
    add = schema.field("add").type
    if not pa.types.is_struct(add) or add.get_field_index("path") < 0:
        raise CorruptCheckpoint(f"{where} must hold add as a struct with a path, found {add}")
    return _Footer(path, metadata.num_rows, add, _field_sizes(metadata))


def _field_sizes(metadata: pq.FileMetaData) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for index in range(metadata.num_columns):
        action, _, rest = metadata.schema.column(index).path.partition(".")
        if action == "add":
            chunks = (metadata.row_group(group).column(index) for group in range(metadata.num_row_groups))
            name = rest.partition(".")[0]
            sizes[name] = sizes.get(name, 0) + sum(chunk.total_uncompressed_size for chunk in chunks)
    return sizes


def _alike(footers: Sequence[_Footer]) -> Iterator[list[_Footer]]:
    """The files in groups that one schema reads."""
    for _, group in groupby(sorted(footers, key=lambda f: str(f.add)), key=lambda f: str(f.add)):
        yield list(group)


def _parquet_adds(
    spark: SparkSession, store: ObjectStore, files: Sequence[_Footer], stats: pa.StructType | None = None
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


def _conformed(name: str, found: pa.StructType) -> Column:
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
    locations = DataLocations(store)
    strict = reader.option("ignoreCorruptFiles", "false").option("ignoreMissingFiles", "false")
    with listing_on_driver(spark, len(paths) if locations.is_local else 0):
        try:
            frame = strict.format(source).load([locations.spark_path(path) for path in paths])
            _ = frame.schema
        except AnalysisException as refused:
            if is_missing_path(refused):
                raise error(f"{store.root_url}: a file of the log is gone: {str(refused).splitlines()[0]}") from refused
            raise
    return frame


@dataclass(frozen=True, slots=True)
class _Bucket:
    """Files of the checkpoint, and which of their rows: those whose path's hash is `number` modulo `count`."""

    files: tuple[_Footer, ...]
    number: int = 0
    count: int = 1


def _buckets(footers: Sequence[_Footer], bucket_files: int, fields: Sequence[str]) -> list[_Bucket]:
    buckets: list[_Bucket] = []
    shared: list[_Footer] = []
    fill = 0.0
    for footer in footers:
        size_bytes = sum(footer.sizes.get(name, 0) for name in set(fields))
        share = max(footer.rows / bucket_files, size_bytes / _BUCKET_BYTES)
        if share > 1:
            count = math.ceil(share)
            buckets += [_Bucket((footer,), number, count) for number in range(count)]
            continue
        if shared and fill + share > 1:
            buckets.append(_Bucket(tuple(shared)))
            shared, fill = [], 0.0
        shared.append(footer)
        fill += share
    return [*buckets, _Bucket(tuple(shared))] if shared else buckets


def _commits_view(snapshot: Snapshot) -> Snapshot:
    """The live files that are on the driver already: those of the commits, and those within a JSON checkpoint."""
    state, store = _state(snapshot), snapshot.store
    checkpoint = None if state.checkpoint is None else replace(state.checkpoint, files=())
    return Snapshot(store, snapshot.segment, state, CheckpointFiles(checkpoint, store))


def _bucket_views(
    spark: SparkSession, snapshot: Snapshot, buckets: Sequence[_Bucket], predicate: Predicate | None
) -> Iterator[Snapshot]:
    """Snapshots that each know the files of one bucket: planning is the driver's own, only the reading differs."""
    state = _state(snapshot)
    # What later commits say overrides every bucket; what they add is in none.
    index = ACTION_SCHEMA.get_field_index("is_add")
    none_added = pa.repeat(pa.scalar(False), state.newest.num_rows)
    overriding = replace(state, newest=state.newest.set_column(index, ACTION_SCHEMA.field(index), none_added))
    values = _partition_values(snapshot, predicate)
    for bucket in buckets:
        yield Snapshot(
            snapshot.store, snapshot.segment, overriding, _BucketFiles(spark, snapshot.store, bucket, values)
        )


class _BucketFiles(CheckpointFiles):
    """Columns of the adds of one bucket, read by Spark at every call."""

    def __init__(
        self, spark: SparkSession, store: ObjectStore, bucket: _Bucket, values: dict[str, frozenset[bytes]]
    ) -> None:
        super().__init__(None, store)
        self._spark = spark
        self._bucket = bucket
        self._values = values

    def read(self, columns: Sequence[str]) -> pa.Table:
        """As `CheckpointFiles.read`; a failure to read is Spark's own error."""
        tables = [self._collected(group, columns) for group in _alike(self._bucket.files)]
        return pa.concat_tables(tables, promote_options="permissive")

    def _collected(self, files: Sequence[_Footer], columns: Sequence[str]) -> pa.Table:
        found = files[0].add
        stats = _stats_type(found, columns)
        frame = _parquet_adds(self._spark, self._store, files, stats)
        if self._bucket.count > 1:
            in_bucket = F.pmod(F.xxhash64("add.path"), F.lit(self._bucket.count)) == self._bucket.number
            frame = frame.where(in_bucket)
        if found.get_field_index("partitionValues") >= 0:
            frame = frame.where(_may_hold(self._values))
        names = [name for name in ADD_SCHEMA.names if name in columns]
        parsed = [] if stats is None else [F.col("add.stats_parsed")]
        table = frame.select(*(_conformed(name, found) for name in names), *parsed).toArrow()
        arrays = {name: table[name].cast(ADD_SCHEMA.field(name).type) for name in names}
        return pa.table(arrays | ({} if stats is None else {"stats_parsed": table["stats_parsed"]}))


def _stats_type(add: pa.StructType, columns: Sequence[str]) -> pa.StructType | None:
    """`stats_parsed` with the fields that `columns` (`stats_parsed.minValues.id`) name, None where there is none."""
    wanted = tuple(name.partition(".")[2] for name in columns if name.partition(".")[0] == "stats_parsed")
    if not wanted or add.get_field_index("stats_parsed") < 0:
        return None
    return _narrowed(add.field("stats_parsed").type, wanted)


def _narrowed(found: pa.StructType, wanted: Sequence[str]) -> pa.StructType | None:
    """The fields of a struct whose dotted path is one of `wanted`, or leads to one; None where there is none."""
    fields = []
    for field in found:
        below = [name[len(field.name) + 1 :] for name in wanted if name.startswith(f"{field.name}.")]
        narrowed = field.type
        if field.name not in wanted and "" not in wanted:
            narrowed = _narrowed(field.type, below) if below and pa.types.is_struct(field.type) else None
        if narrowed is not None:
            fields.append(pa.field(field.name, narrowed))
    return pa.struct(fields) if fields else None


def _partition_values(snapshot: Snapshot, predicate: Predicate | None) -> dict[str, frozenset[bytes]]:
    """By physical name, the texts that a partition column must have one of where `predicate` is to hold.

    Only of plain text columns, where equal text in the log is equality of values. The driver's own pruning rules out
    the same files, so that this only saves carrying them there.
    """
    conjuncts: list[Predicate] = [predicate] if predicate is not None else []
    found: dict[str, frozenset[bytes]] = {}
    while conjuncts:
        leaf = conjuncts.pop()
        if isinstance(leaf, And):
            conjuncts += leaf.children
        elif _is_text_equality(leaf, snapshot):
            values = leaf.values if isinstance(leaf, In) else (leaf.value,)
            texts = frozenset(v.encode("utf-8", "surrogatepass") for v in values if isinstance(v, str))
            if len(texts) == len(set(values)) <= _MOST_PUSHED_VALUES:
                physical = snapshot.physical_paths.get(leaf.column, leaf.column)[-1]
                found[physical] = found.get(physical, texts) & texts
    return found


def _is_text_equality(leaf: Predicate, snapshot: Snapshot) -> TypeGuard[Comparison | In]:
    if not isinstance(leaf, In) and not (isinstance(leaf, Comparison) and leaf.operator in ("=", "<=>")):
        return False
    if leaf.column[0] not in snapshot.metadata.partition_columns or len(leaf.column) != 1:
        return False
    column = resolve_column(snapshot.schema, leaf.column)
    return column.type == STRING and column.comparable and column.path == leaf.column


def _may_hold(values: dict[str, frozenset[bytes]]) -> Column:
    """Whether the add's partition values may be among `values`; where the log has none, the driver decides."""
    condition = F.lit(True)
    for name, texts in values.items():
        value = F.col("add.partitionValues")[name]
        condition &= value.isNull() | value.cast("binary").isin([F.lit(text) for text in sorted(texts)])
    return condition
