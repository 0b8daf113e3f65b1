"""A program that rearranges a table by Spark, and is killed: `python dying_optimize.py TABLE OPERATION POINT`.

It has a Spark of its own, unless its environment tells of one that runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

import slackwater
from slackwater import DeltaTable
from slackwater.storage.local_store import LocalObjectStore
from tests.faults.attached_spark import PORT, attached_session
from tests.faults.dying_writer import die_at

Point = tuple[Any, str, str, int, bool]


def _appended(spark: SparkSession, path: str) -> None:
    spark.conf.set("spark.databricks.delta.autoCompact.minNumFiles", "2")
    spark.sql("select 100L id, 1L n, 0L p").coalesce(1).write.format("delta").mode("append").save(path)


@dataclass(frozen=True)
class Operation:
    """What is done to a table, the version of the commit that rearranges it, and the data files put before that."""

    do: Callable[[SparkSession, str], Any]
    version: int
    others: int = 0


COMPACTION, CLUSTERING, PURGE, AUTO = "compaction", "clustering", "purge", "auto compaction"
OPERATIONS = {
    COMPACTION: Operation(lambda spark, path: DeltaTable.forPath(spark, path).optimize().executeCompaction(), 1),
    "z-order": Operation(lambda spark, path: DeltaTable.forPath(spark, path).optimize().executeZOrderBy("id", "n"), 1),
    CLUSTERING: Operation(lambda spark, path: DeltaTable.forPath(spark, path).optimize().executeCompaction(), 2),
    PURGE: Operation(lambda spark, path: DeltaTable.forPath(spark, path).reorg().applyPurge(), 2),
    AUTO: Operation(_appended, 3, others=1),
}


def point_of(operation: Operation, point: str) -> Point:
    """Where an operation dies: as in `dying_writer.POINTS`."""
    commit = f"{operation.version:020d}.json"
    points: dict[str, Point] = {
        "rows written, no file in its place": (LocalObjectStore, "move", ".parquet", operation.others, False),
        "one file in its place": (LocalObjectStore, "move", ".parquet", operation.others, True),
        "all files in their places": (LocalObjectStore, "put_if_absent", commit, 0, False),
        "commit staged, not yet visible": (os, "link", commit, 0, False),
        "commit visible, not answered": (os, "link", commit, 0, True),
    }
    return points[point]


POINTS = (
    "rows written, no file in its place",
    "one file in its place",
    "all files in their places",
    "commit staged, not yet visible",
    "commit visible, not answered",
)


def _session() -> SparkSession:
    if PORT in os.environ:
        return attached_session()
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    return builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()


def main(table: str, name: str, point: str) -> None:
    spark = slackwater.enable(_session())
    operation = OPERATIONS[name]
    die_at(*point_of(operation, point))
    operation.do(spark, table)


if __name__ == "__main__":
    main(*sys.argv[1:])
