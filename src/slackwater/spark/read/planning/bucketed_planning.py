"""Planning in buckets: Spark reads the checkpoint bucket by bucket, so that the driver holds only a part of the files.

The driver's pruning code prunes each bucket. Source: delta-protocol.md "Action Reconciliation".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard, TypeVar

import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from slackwater.errors import InvalidArgument
from slackwater.log.files.checkpoint import SIDECARS
from slackwater.log.files.file_actions import ACTION_SCHEMA, ADD_SCHEMA
from slackwater.log.live_files import CheckpointAdds
from slackwater.log.snapshot import LogSnapshot
from slackwater.predicate.columns import resolve_column
from slackwater.predicate.predicate import And, Comparison, In, Predicate
from slackwater.predicate.sql import parse_predicate
from slackwater.protocol.schema.schema import STRING
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.read.planning.distributed_checkpoint import (
    CheckpointFooter,
    alike,
    checkpoint_footers,
    conformed,
    parquet_adds,
    require_same_log,
)
from slackwater.storage.store import ObjectStore

DRIVER_LIMIT_BYTES = 4 * 1024**3
"""Maximum size in bytes (checkpoint and commit files) of a log replayed on the driver by default."""

# A quarter of the default spark.driver.maxResultSize, because Arrow is larger than encoded Parquet.
_BUCKET_BYTES = 256 * 1024**2
_MOST_PUSHED_VALUES = 1000
T = TypeVar("T")


def should_distribute(snapshot: LogSnapshot, option: str | None = None, limit_bytes: int = DRIVER_LIMIT_BYTES) -> bool:
    """Return whether Spark replays the log of `snapshot`: by the option `replay`, else by the log's size.

    `option` is `driver`, `spark`, or `auto` (the same as None). `auto` means Spark if the files of the segment,
    including sidecars, are larger than `limit_bytes`. The sizes of sidecars take one listing. Raises InvalidArgument
    for another value.
    """
    choice = (option or "auto").strip().lower()
    if choice not in ("auto", "driver", "spark"):
        raise InvalidArgument(f"option replay must be driver, spark or auto, found {option!r}")
    if choice != "auto":
        return choice == "spark"
    return log_size_bytes(snapshot) > limit_bytes


def log_size_bytes(snapshot: LogSnapshot) -> int:
    """Return the size in bytes of all files of the version: checkpoint, sidecars, commits."""
    segment, checkpoint = snapshot.segment, snapshot.state.checkpoint
    size_bytes = sum(commit.size_bytes for commit in segment.commits)
    if segment.checkpoint is not None:
        size_bytes += segment.checkpoint.size_bytes
    if checkpoint is not None:
        sidecars = {path for path in checkpoint.files if path.startswith(f"{SIDECARS}/")}
        if sidecars:
            found = snapshot.store.list_from(SIDECARS)
            size_bytes += sum(meta.size_bytes for meta in found if meta.path in sidecars)
    return size_bytes


def plan_distributed(
    spark: SparkSession,
    snapshot: Snapshot,
    predicate: str | Predicate | None = None,
    columns: Sequence[str] = tuple(ADD_SCHEMA.names),
    zone: str = "UTC",
    bucket_files: int = 500_000,
) -> pa.Table:
    """Return the table of `Snapshot.files(predicate, columns, zone)` in another row order, planned in buckets by Spark.

    Only one bucket and the matching files are in memory at a time. A bucket has at most about `bucket_files` files,
    fewer if their columns are wide. Small checkpoint files (sidecars, parts) share buckets and are read once. A larger
    file is read once for each of its buckets. `columns` are columns of ADD_SCHEMA. Leaves no state on the server.

    Raises the errors of `Snapshot.files`, CorruptCheckpoint if a file of the checkpoint is missing, and InvalidArgument
    for an unknown column or for `bucket_files` below 1.
    """
    if bucket_files < 1:
        raise InvalidArgument(f"bucket_files must be at least 1, found {bucket_files}")
    unknown = [name for name in columns if name not in ADD_SCHEMA.names]
    if unknown:
        raise InvalidArgument(f"unknown columns of a live file: {unknown}. Its columns are {ADD_SCHEMA.names}")
    where = parse_predicate(predicate, snapshot.schema, zone=zone) if isinstance(predicate, str) else predicate

    require_same_log(spark, snapshot)

    def parts() -> pa.Table:
        footers = checkpoint_footers(snapshot)
        wanted = [*columns, "path", "deletionVector"]
        wanted += ["partitionValues", "stats", "stats_parsed"] if where is not None else []
        buckets = _buckets(footers, bucket_files, wanted)
        views = [_commits_view(snapshot), *_bucket_views(spark, snapshot, buckets, where)]
        found = pa.concat_tables(
            [view.files(where, columns, zone).select(list(columns)) for view in views], promote_options="permissive"
        )
        if where is None:
            snapshot.compare_with_checksum(found)
        return found

    return snapshot.retry_without_damaged_checkpoint(parts)


@dataclass(frozen=True, slots=True)
class _Bucket:
    """Files of the checkpoint. Selects the rows with a path hash of `number` modulo `count`."""

    files: tuple[CheckpointFooter, ...]
    number: int = 0
    count: int = 1


def _buckets(footers: Sequence[CheckpointFooter], bucket_files: int, fields: Sequence[str]) -> list[_Bucket]:
    buckets: list[_Bucket] = []
    shared: list[CheckpointFooter] = []
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


class _Part(Snapshot):
    """A part of a version's live files.

    Skips the checksum and the recovery from damage, because both need all files.
    """

    has_all_files = False

    def retry_without_damaged_checkpoint(self, read: Callable[[], T]) -> T:
        return read()

    def compare_with_checksum(self, files: pa.Table) -> None:
        """Accept any number of files."""


def _commits_view(snapshot: Snapshot) -> Snapshot:
    """Return the live files already on the driver: from the commits, and from a JSON checkpoint."""
    state, table = snapshot.state, snapshot.table
    checkpoint = None if state.checkpoint is None else replace(state.checkpoint, files=())
    return _Part(table, snapshot.segment, state, CheckpointAdds(checkpoint, table.store))


def _bucket_views(
    spark: SparkSession, snapshot: Snapshot, buckets: Sequence[_Bucket], predicate: Predicate | None
) -> Iterator[Snapshot]:
    """Yield a snapshot for each bucket. The driver plans as usual; only reading the files differs."""
    state = snapshot.state
    # Later commits override adds and removes in every bucket; their own adds are in no bucket.
    index = ACTION_SCHEMA.get_field_index("is_add")
    none_added = pa.repeat(pa.scalar(False), state.newest.num_rows)
    overriding = replace(state, newest=state.newest.set_column(index, ACTION_SCHEMA.field(index), none_added))
    values = _partition_values(snapshot, predicate)
    for bucket in buckets:
        yield _Part(snapshot.table, snapshot.segment, overriding, _BucketFiles(spark, snapshot.store, bucket, values))


class _BucketFiles(CheckpointAdds):
    """Columns of the adds of one bucket. Spark reads the bucket on every call."""

    def __init__(
        self, spark: SparkSession, store: ObjectStore, bucket: _Bucket, values: dict[str, frozenset[bytes]]
    ) -> None:
        super().__init__(None, store)
        self._spark = spark
        self._bucket = bucket
        self._values = values

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Return the columns like `CheckpointAdds.read`. A failed read raises Spark's own error."""
        tables = [self._collected(group, columns) for group in alike(self._bucket.files)]
        return pa.concat_tables(tables, promote_options="permissive")

    def _collected(self, files: Sequence[CheckpointFooter], columns: Sequence[str]) -> pa.Table:
        found = files[0].add
        stats = _stats_type(found, columns)
        frame = parquet_adds(self._spark, self._store, files, stats)
        if self._bucket.count > 1:
            in_bucket = F.pmod(F.xxhash64("add.path"), F.lit(self._bucket.count)) == self._bucket.number
            frame = frame.where(in_bucket)
        if found.get_field_index("partitionValues") >= 0:
            frame = frame.where(_may_hold(self._values))
        names = [name for name in ADD_SCHEMA.names if name in columns]
        parsed = [] if stats is None else [F.col("add.stats_parsed")]
        table = frame.select(*(conformed(name, found) for name in names), *parsed).toArrow()
        arrays = {name: table[name].cast(ADD_SCHEMA.field(name).type) for name in names}
        return pa.table(arrays | ({} if stats is None else {"stats_parsed": table["stats_parsed"]}))


def _stats_type(add: pa.StructType, columns: Sequence[str]) -> pa.StructType | None:
    """Return the fields of `stats_parsed` named in `columns` (`stats_parsed.minValues.id`), None if there are none."""
    wanted = tuple(name.partition(".")[2] for name in columns if name.partition(".")[0] == "stats_parsed")
    if not wanted or add.get_field_index("stats_parsed") < 0:
        return None
    return _narrowed(add.field("stats_parsed").type, wanted)


def _narrowed(found: pa.StructType, wanted: Sequence[str]) -> pa.StructType | None:
    """Return the fields of a struct with a dotted path in `wanted`, or on the way to one. None if there are none."""
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
    """Return the texts that `predicate` allows for each partition column, by physical name.

    Only for plain text columns, because there equal text in the log means equal values. The driver's pruning excludes
    the same files. This filter only avoids their transfer to the driver.
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
    """Return whether the add's partition values may be in `values`.

    A missing value passes; the driver decides on it.
    """
    condition = F.lit(True)
    for name, texts in values.items():
        value = F.col("add.partitionValues")[name]
        condition &= value.isNull() | value.cast("binary").isin([F.lit(text) for text in sorted(texts)])
    return condition
