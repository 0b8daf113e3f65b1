"""Time slices and history of a lake, with Spark.

Source: paper §1 (timeslice); docs/time-travel.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from slackwater.errors import OperationNotAllowed
from slackwater.html.components import badge
from slackwater.html.element import Markup
from slackwater.lake.history import LakeCommit
from slackwater.lake.tables import LakeTables
from slackwater.lake.time_slice import LogTimeSlice
from slackwater.log.table import Table
from slackwater.scan.snapshot import Snapshot
from slackwater.scan.snapshot_html import LAST_COMMITS, snapshot_card
from slackwater.spark.read.table_scan import ScanOptions, TableScan
from slackwater.spark.session.local_frame import result_frame
from slackwater.spark.session.reader_options import Options
from slackwater.spark.table.table import DeltaTable
from slackwater.transaction.commit_result import CommitResult
from slackwater.transaction.table.alteration import Alteration

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
"""The columns of `Lake.history`: one row for each transaction, with maps by table name.

`tables` are the new versions. Without a recorded id, `transactionId` is NULL and the row has a single table.
"""

_SHOWN = ("timestamp", "tables", "operations", "operationMetrics", "userMetadata", "transactionId")


class TimeSlice(LogTimeSlice):
    """The tables of a lake as of one instant, for a session. `Lake.as_of` returns it.

    >>> with lake.transaction(spark) as tx:
    ...     tx.table("stock").delete()
    >>> past = lake.as_of(tx.begun_at)
    >>> [(row.sku, row.qty) for row in past.table("stock").toDF().collect()], lake.table("stock").toDF().count()
    ([('A1', 10)], 0)
    """

    def __init__(self, lake: LakeTables, spark: SparkSession, timestamp_ms: int) -> None:
        super().__init__(lake, timestamp_ms)
        self._spark = spark

    def table(self, name: str) -> TimeSliceTable:
        """Return the table `name` as of the instant. Raises as `snapshot`.

        >>> now = lake.run(lambda tx: tx.current_timestamp())
        >>> lake.as_of(now).table("stock").version
        1
        """
        return TimeSliceTable(self._spark, name, self.snapshot(name))


class TimeSliceTable(DeltaTable):
    """A read-only DeltaTable as of the instant of a time slice.

    >>> with lake.transaction(spark) as tx:
    ...     tx.table("stock").delete()
    >>> stock = lake.as_of(tx.begun_at).table("stock")
    >>> stock.version, stock.toDF().count()
    (1, 1)
    """

    def __init__(self, spark: SparkSession, name: str, snapshot: Snapshot) -> None:
        super().__init__(spark, snapshot.table)
        self._name = name
        self._slice = snapshot

    def _card(self) -> Markup:
        marks = [badge("as it was", "accent")]
        return snapshot_card(self._slice, type(self).__name__, self._name, marks, LAST_COMMITS)

    def _told_place(self) -> str:
        return f"{self._name}: version {self.version}"

    def _brief(self) -> str:
        return ""

    @property
    def version(self) -> int:
        """The newest version at the instant."""
        return self._slice.version

    def toDF(self, **options: Any) -> DataFrame:
        """Return the rows of the version, as `versionAsOf` does.

        `options` as in `spark.read`: `rowTracking`, `allowPathsOutsideRoot`, `replay`, `rows`. Raises InvalidArgument
        if the options select another version, DataFileNotFound if required files were vacuumed.

        >>> now = lake.run(lambda tx: tx.current_timestamp())
        >>> lake.as_of(now).table("stock").toDF().first().qty
        10
        """
        given = Options(options)
        given.require_no_travel("a table of a time slice")
        return self._framed(TableScan(self._spark, self._slice, ScanOptions.of(given)).dataframe())

    def _snapshot(self) -> Snapshot:
        return self._slice

    def _snapshot_for_rows(self) -> Snapshot:
        raise self._refused("system time")

    def _snapshot_to_clone(self, version: int | None = None, timestamp: int | None = None) -> Snapshot:
        if version is not None or timestamp is not None:
            raise self._refused("a clone of another version")
        return self._slice

    def _snapshot_for_upkeep(self, what: str) -> Snapshot:
        raise self._refused(what)

    def _changing(self) -> Table:
        raise self._refused("a change of rows")

    def _alter(self, change: Callable[[Snapshot], Alteration], reads_rows: bool = False) -> CommitResult | None:
        del change, reads_rows
        raise self._refused("a change of the table")

    def _refused(self, what: str) -> OperationNotAllowed:
        return OperationNotAllowed(
            f"{what}: not possible in a time slice of lake.as_of, which shows the table at one instant. Use "
            f"lake.table({self._name!r})"
        )


def history_frame(spark: SparkSession, commits: Sequence[LakeCommit]) -> DataFrame:
    """Return the transactions in their order, with the schema LAKE_HISTORY_SCHEMA."""
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
    return result_frame(spark, rows, LAKE_HISTORY_SCHEMA, "Lake.history", _SHOWN)
