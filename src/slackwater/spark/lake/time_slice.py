"""Time travel over all tables of a lake, as DataFrames: one state of them, and what was done to them.

Source: paper §1 (timeslice); design §6, §7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from slackwater.errors import InvalidArgument
from slackwater.lake.history import LakeCommit
from slackwater.lake.tables import LakeTables
from slackwater.lake.time_slice import LogTimeSlice
from slackwater.spark.read.table_scan import ScanOptions, TableScan
from slackwater.spark.session.options import Options

_TEXT, _LONG = spark_types.StringType(), spark_types.LongType()
_TEXTS = spark_types.MapType(_TEXT, _TEXT)

LAKE_HISTORY_SCHEMA = (
    spark_types.StructType()
    .add("timestamp", "timestamp")
    .add("transactionId", "string")
    .add("tables", spark_types.MapType(_TEXT, _LONG))
    .add("operations", _TEXTS)
    .add("operationParameters", spark_types.MapType(_TEXT, _TEXTS))
    .add("operationMetrics", spark_types.MapType(_TEXT, _TEXTS))
    .add("userMetadata", _TEXTS)
    .add("engineInfo", _TEXTS)
)
"""The columns of `Lake.history`: one row for each transaction, its maps by the names of the tables.

`tables` are the versions that it made. `transactionId` is NULL, and the row of one table, where the writer gave none.
"""

_OTHER_TRAVEL = ("versionAsOf", "timestampAsOf", "readChangeFeed", "readChangeData")


class TimeSlice(LogTimeSlice):
    """The tables of a lake as they were at one instant, for a session; `Lake.as_of` gives it.

    past = lake.as_of("2026-11-21T10:00:00Z")
    past.table("orders").join(past.table("stock"), "sku")
    """

    def __init__(self, lake: LakeTables, spark: SparkSession, timestamp_ms: int) -> None:
        super().__init__(lake, timestamp_ms)
        self._spark = spark

    def table(self, name: str, **options: Any) -> DataFrame:
        """A table as it was: what `versionAsOf` reads of its version then.

        Options as `spark.read` takes them: `rowTracking`, `allowPathsOutsideRoot`, `replay`. Raises as `snapshot`,
        InvalidArgument for options that name another version, DataFileNotFound where files of then were vacuumed.
        """
        given = Options(options)
        if clash := [key for key in _OTHER_TRAVEL if given.get(key) is not None]:
            raise InvalidArgument(f"a table of a time slice is of one version already: leave out {', '.join(clash)}")
        return TableScan(self._spark, self.snapshot(name), ScanOptions.of(given)).dataframe()


def history_frame(spark: SparkSession, commits: Sequence[LakeCommit]) -> DataFrame:
    """Transactions as LAKE_HISTORY_SCHEMA, in their order."""
    rows = [
        (
            commit.timestamp,
            commit.transaction_id,
            dict(commit.tables),
            dict(commit.operations),
            {name: dict(of_table.operation_parameters) for name, of_table in commit.commits.items()},
            {name: dict(of_table.operation_metrics) for name, of_table in commit.commits.items()},
            dict(commit.user_metadata),
            {name: of_table.engine_info for name, of_table in commit.commits.items()},
        )
        for commit in commits
    ]
    return spark.createDataFrame(rows, LAKE_HISTORY_SCHEMA)
