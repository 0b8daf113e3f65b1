"""From a path and reader options to a DataFrame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from slackwater.errors import InvalidArgument
from slackwater.log.segment import LOG
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.change_feed import ChangeFeed
from slackwater.spark.options import Options, TimeTravel, split_path, time_travel
from slackwater.spark.scan_frame import ScanOptions, TableScan
from slackwater.storage.open import open_store


def load(spark: SparkSession, path: str, options: Mapping[str, Any] | None = None) -> DataFrame:
    """The Delta table at `path` as a DataFrame: `spark.read.format("delta").options(**options).load(path)`.

    Options (any case): `versionAsOf` or `timestampAsOf`, also `path@v3` and `path@yyyyMMddHHmmssSSS`;
    `readChangeFeed` with `startingVersion|startingTimestamp` and `endingVersion|endingTimestamp`; `rowTracking` adds
    `_row_id` and `_row_commit_version`; `strict` makes a timestamp after the last commit an error;
    `replay` = `spark` replays the log as a Spark job, `driver` never does, else its size decides;
    `allowPathsOutsideRoot` follows absolute paths in the log that leave the table's root. Unknown ones are ignored.
    Times without a zone are in the session's. Raises TableNotFound and every other error of reading.
    """
    opts = Options(options or {})
    zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    travel = time_travel(opts, zone)
    table, named = _table_and_version(path, zone, opts)
    if named != TimeTravel():
        if travel != TimeTravel():
            raise InvalidArgument(f"{path} names a version, and so do versionAsOf or timestampAsOf: give one")
        travel = named
    scan_options = ScanOptions(opts.flag("rowTracking"), opts.flag("allowPathsOutsideRoot"), opts.get("replay"))
    if opts.flag("readChangeFeed", "readChangeData"):
        if travel != TimeTravel():
            raise InvalidArgument("a change feed takes startingVersion and endingVersion, not a version to travel to")
        return ChangeFeed.of_options(spark, table, opts, scan_options, zone).dataframe()
    snapshot = Snapshot.load(
        table, travel.version, travel.timestamp_ms, opts.storage_options(), strict=opts.flag("strict")
    )
    return TableScan(spark, snapshot, scan_options).dataframe()


def _table_and_version(path: str, zone: str, options: Options) -> tuple[str, TimeTravel]:
    table, named = split_path(path, zone)
    if named == TimeTravel() or open_store(path, options.storage_options()).list_from(LOG):
        # A table whose own name ends in "@v3" goes before a version of another one.
        return path, TimeTravel()
    return table, named
