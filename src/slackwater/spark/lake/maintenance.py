"""Maintenance of a lake with Spark: OPTIMIZE by a session, and the report as a DataFrame."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from slackwater.lake.maintenance.maintain import TableMaintenance
from slackwater.log.table import Table
from slackwater.maintenance.layout.bin_packing import BinPackingOptions
from slackwater.maintenance.layout.z_cubes import clustering_paths
from slackwater.maintenance.vacuum_request import VacuumRequest
from slackwater.protocol.properties.properties import TableProperties
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.maintenance.clustered import cluster
from slackwater.spark.maintenance.optimize import PartitionFilter, compact, packing_of
from slackwater.spark.session.local_frame import result_frame
from slackwater.spark.session.settings import SessionSettings

LAKE_MAINTENANCE_RESULT = (
    spark_types.StructType()
    .add("table", "string")
    .add("task", "string")
    .add("state", "string")
    .add("files", "long")
    .add("sizeInBytes", "long")
    .add("detail", "string")
)
"""The columns of the result of `Lake.maintain`: one row for each table and task."""


class SessionOptimizer:
    """OPTIMIZE of tables by the session `spark`, with its settings."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def packing(self, properties: TableProperties) -> BinPackingOptions:
        """Return the target sizes of the session, else of the table. Raises InvalidArgument."""
        return packing_of(SessionSettings.of(self._spark), properties)

    def optimize(self, table: Table, least_files: int) -> tuple[int, int, int]:
        """Merge small files, or cluster new files of a clustered table. Raises as `compact`.

        Return the number of rewritten files, their size in bytes, and the number of new files.
        """
        if clustering_paths(Snapshot.open(table)):
            done = cluster(self._spark, table)
        else:
            done = compact(self._spark, table, PartitionFilter(), least_files=least_files)
        return len(done.removed), sum(done.removed), len(done.added)


def vacuum_request(spark: SparkSession) -> VacuumRequest:
    """Return the options of VACUUM in the settings of the session."""
    settings = SessionSettings.of(spark)
    return VacuumRequest(logs=settings.logs_vacuum, user_metadata=settings.user_metadata, user_name=settings.user_name)


def maintenance_frame(spark: SparkSession, rows: Sequence[TableMaintenance]) -> DataFrame:
    """Return the report as a frame with the columns LAKE_MAINTENANCE_RESULT."""
    values = [(each.table, each.task, each.state, each.files, each.size_bytes, each.detail) for each in rows]
    return result_frame(spark, values, LAKE_MAINTENANCE_RESULT, "Lake.maintain")


@contextmanager
def started_session() -> Iterator[SessionOptimizer]:
    """Start a Spark session for OPTIMIZE, or use the active session. SPARK_REMOTE chooses a Spark Connect server."""
    active = SparkSession.getActiveSession()
    if "SPARK_REMOTE" not in os.environ:
        # Otherwise Spark starts the first `python3` of the path, which may lack the packages of this environment.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = active or SparkSession.builder.appName("slackwater lake maintain").getOrCreate()
    try:
        yield SessionOptimizer(spark)
    finally:
        if active is None:
            spark.stop()
