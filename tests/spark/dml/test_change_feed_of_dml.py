"""The change feed of DELETE, UPDATE and MERGE: every changed row, once, as it was and as it became."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from slackwater import DeltaTable
from tests.spark.changed import FEED, VECTORS
from tests.spark.written import actions, changes, first_row, read

pytestmark = [pytest.mark.spark, pytest.mark.classic, pytest.mark.usefixtures("enabled")]


def numbers(spark: SparkSession, path: Path, partitioned: bool = False, **properties: str) -> DeltaTable:
    """The numbers from 0 to 19 as `id`, ten to a file; `p` is the file's number."""
    data = spark.range(0, 20, 1, 2).selectExpr("id", "id % 5 AS k", "id DIV 10 AS p")
    writer = data.write.format("delta").options(**{FEED: "true", **properties})
    (writer.partitionBy("p") if partitioned else writer).save(str(path))
    return DeltaTable.forPath(spark, str(path)).alias("tgt")


def test_an_update_that_changes_no_value_is_told_all_the_same(
    spark: SparkSession, tmp_path: Path, vectors: str
) -> None:
    numbers(spark, tmp_path, partitioned=False, **{VECTORS: vectors}).update("id IN (3, 14)", {"k": "k"})
    pairs = [(kind, n, n % 5) for kind in ("update_postimage", "update_preimage") for n in (14, 3)]
    assert sorted(changes(spark, tmp_path, 1, "id", "k")) == sorted(pairs)


def test_a_row_that_moves_to_another_partition_is_told_with_both(
    spark: SparkSession, tmp_path: Path, vectors: str
) -> None:
    table = numbers(spark, tmp_path, partitioned=True, **{VECTORS: vectors})
    table.update("id = 3", {"p": "p + 7"})
    assert changes(spark, tmp_path, 1, "id", "p") == [("update_postimage", 3, 7), ("update_preimage", 3, 0)]
    assert {c["partitionValues"]["p"] for c in actions(tmp_path, 1, "cdc")} == {"0", "7"}
    assert first_row(read(spark, tmp_path).where("p = 7"))["id"] == 3


def test_rows_deleted_before_are_not_told_again(spark: SparkSession, tmp_path: Path, vectors: str) -> None:
    table = numbers(spark, tmp_path, partitioned=False, **{VECTORS: vectors})
    table.delete("id % 10 = 1")
    table.delete("id % 10 = 2")
    table.update("id % 10 = 3 AND id > 10", {"k": "-1"})
    table.delete("id < 10")
    assert changes(spark, tmp_path, 1, "id") == [("delete", 1), ("delete", 11)]
    assert changes(spark, tmp_path, 2, "id") == [("delete", 12), ("delete", 2)]
    assert changes(spark, tmp_path, 3, "id", "k") == [("update_postimage", 13, -1), ("update_preimage", 13, 3)]
    assert changes(spark, tmp_path, 4, "id") == [("delete", n) for n in (0, 3, 4, 5, 6, 7, 8, 9)]


def test_a_merge_that_takes_whole_files_and_adds_rows_needs_no_change_files(
    spark: SparkSession, tmp_path: Path, vectors: str
) -> None:
    table = numbers(spark, tmp_path, partitioned=False, **{VECTORS: vectors})
    source = spark.range(0, 10).unionAll(spark.range(20, 22)).selectExpr("id", "0L AS k", "2L AS p").alias("src")
    table.merge(source, "tgt.id = src.id").whenMatchedDelete().whenNotMatchedInsertAll().execute()
    assert actions(tmp_path, 1, "cdc") == []
    expected = [*(("delete", n) for n in range(10)), ("insert", 20), ("insert", 21)]
    assert changes(spark, tmp_path, 1, "id") == expected


def test_a_merge_of_all_kinds_is_told_once_a_row(spark: SparkSession, tmp_path: Path, vectors: str) -> None:
    table = numbers(spark, tmp_path, partitioned=True, **{VECTORS: vectors})
    source = spark.createDataFrame([(1, 10), (2, 20), (15, 30), (40, 40), (41, None)], "id LONG, n LONG").alias("src")
    merge = table.merge(source, "tgt.id = src.id").whenMatchedDelete("src.n = 20")
    merge = merge.whenMatchedUpdate(set={"k": "src.n"}).whenNotMatchedInsert("src.n > 0", {"id": "src.id", "p": "0"})
    merge = merge.whenNotMatchedBySourceUpdate("tgt.id = 19", {"k": "NULL"}).whenNotMatchedBySourceDelete("tgt.id = 0")
    assert tuple(first_row(merge.execute())) == (6, 3, 2, 1)
    assert Counter(changes(spark, tmp_path, 1, "id", "k", "p")) == Counter(
        [
            ("delete", 2, 2, 0),
            ("delete", 0, 0, 0),
            ("update_preimage", 1, 1, 0),
            ("update_postimage", 1, 10, 0),
            ("update_preimage", 15, 0, 1),
            ("update_postimage", 15, 30, 1),
            ("update_preimage", 19, 4, 1),
            ("update_postimage", 19, None, 1),
            ("insert", 40, None, 0),
        ]
    )


def test_change_files_add_nothing_to_the_table(spark: SparkSession, tmp_path: Path, vectors: str) -> None:
    table = numbers(spark, tmp_path, partitioned=False, **{VECTORS: vectors})
    before = table.toDF().columns
    table.update("id % 7 = 0", {"k": "k + 1"})
    change_files = actions(tmp_path, 1, "cdc")
    assert change_files
    assert not any(change["dataChange"] for change in change_files)
    assert all((tmp_path / change["path"]).stat().st_size == change["size"] for change in change_files)
    assert table.toDF().columns == before
    assert table.toDF().count() == 20
    for add in actions(tmp_path, 1, "add"):
        assert set(json.loads(add["stats"])["nullCount"]) <= set(before)


def test_the_feed_from_the_start_rebuilds_the_table(spark: SparkSession, tmp_path: Path, vectors: str) -> None:
    table = numbers(spark, tmp_path, partitioned=True, **{VECTORS: vectors})
    table.delete("id % 6 = 0")
    source = spark.range(15, 25).selectExpr("id", "-1L AS k", "1L AS p").alias("src")
    table.merge(source, "tgt.id = src.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    table.update("k = -1 AND id > 18", {"p": "9", "k": "id"})
    table.delete("p = 0")
    options: dict[str, Any] = {"readChangeFeed": "true", "startingVersion": "0"}
    state: Counter[tuple[Any, ...]] = Counter()
    feed = read(spark, tmp_path, **options).select("_commit_version", "_change_type", "id", "k", "p").collect()
    for version in range(5):
        told = [row for row in feed if row[0] == version]
        state.subtract(tuple(row[2:]) for row in told if row[1] in ("delete", "update_preimage"))
        state.update(tuple(row[2:]) for row in told if row[1] in ("insert", "update_postimage"))
        assert not -state, f"version {version} takes away rows that were not there"
    assert +state == Counter(tuple(row) for row in table.toDF().select("id", "k", "p").collect())
