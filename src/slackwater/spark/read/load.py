"""Load of a table by path and reader options."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from slackwater.errors import InvalidArgument
from slackwater.log.table import Table
from slackwater.protocol.actions.file_names import LOG
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.read.change_feed import ChangeFeed
from slackwater.spark.read.partition_paths import PartitionPath, is_partition_name, partition_path
from slackwater.spark.read.table_scan import ScanOptions, TableScan
from slackwater.spark.session.reader_options import Options, TimeTravel, split_path, time_travel
from slackwater.spark.session.settings import session_zone
from slackwater.spark.storage.stores import table_at
from slackwater.transaction.committers.factory import require_not_past_transaction

_LOADED = "_slackwater_loaded"


def load(spark: SparkSession, path: str, options: Mapping[str, Any] | None = None) -> DataFrame:
    """Return the Delta table at `path` as a DataFrame: `spark.read.format("delta").options(**options).load(path)`.

    `options` (any case): `versionAsOf` or `timestampAsOf`, also `path@v3` and `path@yyyyMMddHHmmssSSS`;
    `allowAfterLastCommit` uses the newest version for a time after the last commit, otherwise an error (`strict=false`
    is the same); `readChangeFeed` with `startingVersion|startingTimestamp` and `endingVersion|endingTimestamp`;
    `rowTracking` adds `_row_id` and `_row_commit_version`; `replay` = `spark` replays the log in a Spark job, `driver`
    on the driver, the default depends on the log's size; `allowPathsOutsideRoot` follows absolute paths in the log
    outside the table's root; `rows` chooses the row transport. Unknown options are ignored, unless their name is
    similar to a known option. A path may name a partition of a table, such as `/t/p=1`. Then only the rows of this
    partition are read. Times without a zone are in the session's time zone. The frame stays at its version; `refresh`
    returns a newer one.

    Raises TableNotFound if there is no table, OperationNotAllowed if the table belongs to a lake of the open
    transaction, and all other errors of reading.
    """
    given = Options(options or {})
    table, named, partition = _located(spark, path, session_zone(spark), given)
    frame = _frame(spark, table, given, named, partition)
    frame.__dict__[_LOADED] = partial(load, spark, path, dict(options or {}))
    return frame


def load_table(spark: SparkSession, table: Table, options: Mapping[str, Any] | None = None) -> DataFrame:
    """Load an opened table like `load`."""
    frame = _frame(spark, table, Options(options or {}))
    frame.__dict__[_LOADED] = partial(load_table, spark, table, dict(options or {}))
    return frame


def refresh(frame: DataFrame) -> DataFrame:
    """Repeat the `load` or `DeltaTable.toDF` of `frame` at the newest version of the table. `frame` stays unchanged.

    A version or time of time travel applies again. Raises InvalidArgument if `frame` was derived from another frame:
    refresh the other frame, and derive again.

    >>> spark.range(3).write.format("delta").save(path)
    >>> frame = spark.read.format("delta").load(path)
    >>> spark.range(2).write.format("delta").mode("append").save(path)
    >>> frame.count(), slackwater.refresh(frame).count()
    (3, 5)
    """
    made = frame.__dict__.get(_LOADED)
    if made is None:
        raise InvalidArgument(
            "refresh takes a frame as returned by load or DeltaTable.toDF, found a frame derived from another one (by "
            "filter, select, alias …) or of another source. Refresh the table's frame, then derive this frame again"
        )
    remade: DataFrame = made()
    return remade


def _frame(
    spark: SparkSession,
    table: Table,
    options: Options,
    named: TimeTravel = TimeTravel(),  # noqa: B008
    partition: PartitionPath | None = None,
) -> DataFrame:
    zone = session_zone(spark)
    travel = time_travel(options, zone)
    if named != TimeTravel():
        if travel != TimeTravel():
            raise InvalidArgument(
                f"{table.location}: the path names a version, and versionAsOf or timestampAsOf too. Use one of them",
                error_class="DELTA_UNSUPPORTED_TIME_TRAVEL_MULTIPLE_FORMATS",
            )
        travel = named
    scan_options = ScanOptions.of(options)
    if options.flag("readChangeFeed", "readChangeData"):
        if travel != TimeTravel():
            raise InvalidArgument(
                "a change feed does not support time travel. Use startingVersion and endingVersion",
                error_class="DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS",
            )
        if partition is not None:
            raise InvalidArgument(
                f"{table.location}: a change feed covers a whole table, but the path names the partition "
                f"{partition.fragment}. Load the table's path, and filter the feed"
            )
        return ChangeFeed.of_options(spark, table, options, scan_options, zone).dataframe()
    snapshot = Snapshot.open(table, travel.version, travel.timestamp_ms, options.after_last_commit_allowed)
    require_not_past_transaction(snapshot)
    if partition is not None:
        return partition.scan(spark, snapshot, scan_options).dataframe()
    return TableScan(spark, snapshot, scan_options).dataframe()


def _located(
    spark: SparkSession, path: str, zone: str, options: Options
) -> tuple[Table, TimeTravel, PartitionPath | None]:
    """Return the table at the path, and the version and the partition named by the path."""
    shorter, named = split_path(path, zone)
    at = partial(table_at, spark, options=options)
    table = at(path)
    # A table with a name such as "t@v3" or "p=1" has priority over a version or a partition of another table.
    if not (named != TimeTravel() or is_partition_name(path)) or table.store.list_from(LOG):
        return table, TimeTravel(), None
    table = table if named == TimeTravel() else at(shorter)
    is_partition = is_partition_name(shorter) and not table.store.list_from(LOG)
    partition = partition_path(shorter, at) if is_partition else None
    return table if partition is None else partition.table, named, partition
