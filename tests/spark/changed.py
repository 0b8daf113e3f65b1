"""Tables whose rows are changed: how they are made, and what a DELETE, an UPDATE or a MERGE says that it did."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from slackwater import DeltaTable, Snapshot
from slackwater.spark.dml.merge.builder import DeltaMergeBuilder
from tests.spark.written import actions, read

VECTORS, FEED, MAPPING = "delta.enableDeletionVectors", "delta.enableChangeDataFeed", "delta.columnMapping.mode"

# For tests of which rows and values are meant, which is settled before it matters how changed rows are written.
WRITTEN_ALIKE = pytest.mark.parametrize(
    "vectors", ["true", pytest.param("false", marks=pytest.mark.long)], ids=["vectors", "rewritten"]
)


def make(spark: SparkSession, path: str, sql: str, *partition_by: str, **properties: str) -> DeltaTable:
    """A table with the rows of `sql`, one file for each partition."""
    writer = spark.sql(sql).coalesce(1).write.format("delta").options(**properties)
    (writer.partitionBy(*partition_by) if partition_by else writer).save(path)
    return DeltaTable.forPath(spark, path)


def counts(merge: DeltaMergeBuilder) -> tuple[int, ...]:
    """Execute; the numbers of affected, updated, deleted and inserted rows."""
    (row,) = merge.execute().collect()
    return tuple(row)


def info(path: str) -> dict[str, Any]:
    """The commitInfo of the newest commit."""
    (found,) = actions(path, Snapshot.load(path).version, "commitInfo")
    return dict(found)


def ids(spark: SparkSession, path: str) -> list[int]:
    """The column `id` of every row, sorted."""
    return sorted(row[0] for row in read(spark, path).select("id").collect())
