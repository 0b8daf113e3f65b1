"""Tables whose files are rewritten: how they are made, and what is live in them."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from slackwater import DeltaTable
from slackwater.scan.snapshot import Snapshot

TRACKED = "delta.enableRowTracking"


def made(spark: SparkSession, path: str, files: int, sql: str, *by: str, **properties: str) -> DeltaTable:
    """A table of some files; `sql` selects from `numbers`, ten of them a file."""
    spark.range(0, 10 * files, 1, files).createOrReplaceTempView("numbers")
    writer = spark.sql(sql).write.format("delta").options(**properties)
    (writer.partitionBy(*by) if by else writer).save(path)
    return DeltaTable.forPath(spark, path)


def metrics(done: DataFrame) -> Any:
    """The metrics of what was done."""
    (row,) = done.collect()
    return row["metrics"]


def live(path: str) -> list[dict[str, Any]]:
    """The live files."""
    names = ["path", "partitionValues", "size", "stats", "tags", "deletionVector", "clusteringProvider"]
    found: list[dict[str, Any]] = Snapshot.load(path).live_files(names).to_pylist()
    return found
