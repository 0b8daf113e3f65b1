"""What a layout says that OPTIMIZE would do is what it does."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from slackwater import DeltaTable
from slackwater.scan.snapshot import Snapshot
from slackwater.visualization.layout import Layout, layout_of
from tests.spark.maintenance.rearranged import metrics

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled"), pytest.mark.shared]


def layout(path: str) -> Layout:
    return layout_of(Snapshot.load(path))


def test_files_that_become_one_are_foretold(spark: SparkSession, path: str) -> None:
    frame = spark.range(40).selectExpr("id", "id % 2 part").repartition(4)
    frame.write.format("delta").partitionBy("part").option("delta.enableDeletionVectors", "true").save(path)
    DeltaTable.forPath(spark, path).delete("id = 7")
    expected = layout(path).optimize
    done = metrics(DeltaTable.forPath(spark, path).optimize().executeCompaction())
    assert (done["numFilesRemoved"], done["numFilesAdded"]) == (expected.rewritten, expected.written)
    assert done["filesRemoved"]["totalSize"] == expected.rewritten_bytes
    after = layout(path)
    assert after.files == expected.files_after
    assert after.optimize.rewritten == 0
    assert after.deleted_rows == 0


def test_a_clustering_is_foretold(spark: SparkSession, path: str) -> None:
    DeltaTable.create(spark).location(path).addColumn("id", "long").clusterBy("id").execute()
    spark.range(100).repartition(5).write.format("delta").mode("append").save(path)
    before = layout(path)
    assert before.columns[0].look_up_files > 1
    done = metrics(DeltaTable.forPath(spark, path).optimize().executeCompaction())
    found = before.optimize
    assert found.is_clustered
    assert (done["numFilesRemoved"], done["numFilesAdded"]) == (found.rewritten, found.written)
    assert layout(path).columns[0].look_up_files == 1
