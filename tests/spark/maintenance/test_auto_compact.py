"""Compaction by itself, and writes that deal their rows anew: where they are wanted, and never a failure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import slackwater
from slackwater import DeltaTable, Snapshot, errors
from slackwater.spark.maintenance import auto_compact
from slackwater.spark.write.write_command import OPTIMIZED
from slackwater.spark.writer.save import save as commit
from tests.spark.changed import VECTORS, ids, info
from tests.spark.maintenance.rearranged import live, made
from tests.spark.written import actions, listing, rows, save

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]
AUTO, WRITE = "delta.autoOptimize.autoCompact", "delta.autoOptimize.optimizeWrite"


@pytest.fixture
def two_files(conf: Callable[[str, str], None]) -> None:
    """Two small files are enough."""
    conf("spark.databricks.delta.autoCompact.minNumFiles", "2")


@pytest.mark.usefixtures("two_files")
def test_small_files_become_one_after_writes_and_changes_of_rows(spark: SparkSession, path: str) -> None:
    table = made(spark, path, 2, "select id from numbers", **{AUTO: "true"})
    assert len(live(path)) == 1
    assert Snapshot.load(path).version == 1
    assert info(path)["operation"] == "OPTIMIZE"
    assert info(path)["operationParameters"]["auto"] == "true"
    save(spark.range(20, 23).coalesce(1), path)
    assert len(live(path)) == 1
    table.update("id = 3", {"id": "33"})
    assert len(live(path)) == 1, "an UPDATE rewrites the one file, and leaves nothing to do"
    source = spark.range(40, 42).coalesce(1)
    table.alias("t").merge(source.alias("s"), "t.id = s.id").whenNotMatchedInsertAll().execute()
    assert len(live(path)) == 1
    assert ids(spark, path) == sorted([*range(3), *range(4, 23), 33, 40, 41])
    with_vectors = f"{path}_v"
    other = made(spark, with_vectors, 2, "select id from numbers", **{VECTORS: "true"})
    other.setProperties({AUTO: "auto"})
    other.delete("id = 3")
    assert [file["deletionVector"] for file in live(with_vectors)] == [None]
    assert ids(spark, with_vectors) == [n for n in range(20) if n != 3]


@pytest.mark.usefixtures("two_files")
def test_nothing_is_compacted_unasked_nor_in_partitions_with_few_files(spark: SparkSession, path: str) -> None:
    made(spark, path, 2, "select id, 0 p from numbers", "p", **{AUTO: "false"})
    assert len(live(path)) == 2
    DeltaTable.forPath(spark, path).setProperties({AUTO: "true"})
    save(spark.range(3).selectExpr("id", "1 p").coalesce(1), path)
    assert len(live(path)) == 2, "one file of p = 0, and one of p = 1"
    before = listing(path)
    assert DeltaTable.forPath(spark, path).toDF().count() == 23
    assert listing(path) == before


@pytest.mark.usefixtures("two_files")
@pytest.mark.classic
def test_a_compaction_that_fails_is_no_failure_of_the_commit(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*args: Any) -> None:
        raise errors.ConcurrentDeleteDeleteException("another was first")

    monkeypatch.setattr(auto_compact, "compact", lost)
    result = commit(spark.range(0, 20, 1, 2), path, options={AUTO: "true"})
    assert result is not None
    assert result.version == 0
    assert result.upkeep_errors[-1].startswith("auto compaction failed: ConcurrentDeleteDeleteException: another")
    assert ids(spark, path) == list(range(20))
    monkeypatch.undo()
    again = commit(spark.range(20, 30), path, "append")
    assert again is not None
    assert again.upkeep[-1].startswith("auto compaction of ")


@pytest.mark.usefixtures("two_files")
@pytest.mark.classic
def test_tables_of_a_lake_are_compacted_outside_and_inside_transactions(spark: SparkSession, tmp_path: Path) -> None:
    with slackwater.Lake.open(tmp_path / "lake", spark=spark) as lake:
        lake.create_table("a", spark.range(1).schema)
        table = lake.table("a")
        save_to = str(tmp_path / "lake" / "a")
        for n in range(3):
            save(spark.range(n, n + 1).coalesce(1), save_to)
        table.setProperties({AUTO: "true"})
        before = Snapshot.load(save_to).version
        with lake.transaction(spark) as tx:
            tx.table("a").append(spark.range(3, 5, 1, 2))
            assert tx.table("a").toDF().count() == 5
        assert tx.versions == {"a": before + 1}, "a transaction is one commit of each table"
        with lake.transaction(spark) as tx:
            (done,) = tx.table("a").optimize().executeCompaction().collect()
            assert done["metrics"]["numFilesAdded"] == 1
            tx.table("a").append(spark.range(5, 6).coalesce(1))
            assert tx.table("a").toDF().count() == 6
        assert sorted(row.id for row in table.toDF().collect()) == list(range(6))
        assert Snapshot.load(save_to).files().num_rows == 2
        table.optimize().executeCompaction()
        assert Snapshot.load(save_to).files().num_rows == 1
        table.optimize().executeZOrderBy("id")
        assert sorted(row.id for row in table.toDF().collect()) == list(range(6))


def test_an_optimized_write_makes_few_files_and_keeps_all_rows(spark: SparkSession, path: str) -> None:
    many = spark.range(0, 40, 1, 8).select("id", (F.col("id") % 2).alias("p"))
    many.write.format("delta").partitionBy("p").option(WRITE, "true").save(path)
    assert len(live(path)) == 2
    save(many, path, optimizeWrite="false")
    assert len(live(path)) > 6
    save(many, path, "overwrite")
    assert len(live(path)) == 2
    assert rows(DeltaTable.forPath(spark, path).toDF()) == sorted(((n, n % 2) for n in range(40)), key=repr)
    told = [actions(path, version, "commitInfo")[0].get("tags") for version in range(3)]
    assert told == [{OPTIMIZED: "true"}, None, {OPTIMIZED: "true"}]
