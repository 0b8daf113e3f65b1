"""Row tracking through DELETE, UPDATE and MERGE: ids stay with their rows, commit versions say when they changed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from slackwater import DeltaTable, Snapshot
from tests.spark.changed import FEED, VECTORS, WRITTEN_ALIKE
from tests.spark.written import actions, changes, read

pytestmark = [pytest.mark.spark, pytest.mark.classic, pytest.mark.usefixtures("enabled")]

TRACKED = {"delta.enableRowTracking": "true"}


def numbers(spark: SparkSession, path: Path, **properties: str) -> DeltaTable:
    """The numbers from 0 to 19 as `id`, ten to a file."""
    data = spark.range(0, 20, 1, 2).selectExpr("id", "id % 5 AS k", "id DIV 10 AS p")
    data.write.format("delta").options(**properties).save(str(path))
    return DeltaTable.forPath(spark, str(path)).alias("tgt")


def tracked(spark: SparkSession, path: Path) -> dict[int, tuple[int, int]]:
    """By `id`, each row's id and commit version."""
    frame = read(spark, path, rowTracking="true").select("id", "_row_id", "_row_commit_version")
    found = {row[0]: (row[1], row[2]) for row in frame.collect()}
    assert len({row_id for row_id, _ in found.values()}) == len(found)
    return found


def test_ids_stay_through_one_operation_after_the_other(spark: SparkSession, tmp_path: Path, vectors: str) -> None:
    table = numbers(spark, tmp_path, **TRACKED, **{VECTORS: vectors})
    expected = tracked(spark, tmp_path)
    table.delete("id % 10 = 4")
    expected = {n: found for n, found in expected.items() if n % 10 != 4}
    assert tracked(spark, tmp_path) == expected
    table.update("id < 3", {"k": "k"})
    expected |= {n: (expected[n][0], 2) for n in range(3)}
    assert tracked(spark, tmp_path) == expected
    source = spark.range(2, 4).unionAll(spark.range(30, 33)).selectExpr("id", "0L AS k", "0L AS p").alias("src")
    merge = table.merge(source, "tgt.id = src.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    merge.whenNotMatchedBySourceUpdate("tgt.id = 19", {"k": "7"}).execute()
    expected |= {n: (expected[n][0], 3) for n in (2, 3, 19)}
    found = tracked(spark, tmp_path)
    assert {n: found[n] for n in expected} == expected
    new = [found[n] for n in (30, 31, 32)]
    assert {version for _, version in new} == {3}
    assert min(row_id for row_id, _ in new) > 19
    # Rows that an insert brought are as good as any.
    table.update("id >= 31", {"k": "id"})
    assert tracked(spark, tmp_path) == {**found, 31: (found[31][0], 4), 32: (found[32][0], 4)}
    for version in range(5):
        (info,) = actions(tmp_path, version, "commitInfo")
        assert info["tags"]["delta.rowTracking.preserved"] == "true"


@WRITTEN_ALIKE
def test_an_id_that_went_never_comes_back(spark: SparkSession, tmp_path: Path, vectors: str) -> None:
    table = numbers(spark, tmp_path, **TRACKED, **{VECTORS: vectors})
    before = tracked(spark, tmp_path)
    table.delete("id >= 10")
    source = spark.range(10, 20).selectExpr("id", "0L AS k", "0L AS p").alias("src")
    table.merge(source, "tgt.id = src.id").whenNotMatchedInsertAll().execute()
    after = tracked(spark, tmp_path)
    assert {n: after[n] for n in range(10)} == {n: before[n] for n in range(10)}
    assert not {row_id for row_id, _ in before.values()} & {after[n][0] for n in range(10, 20)}


def test_a_file_with_a_new_vector_keeps_what_is_said_of_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    table = numbers(spark, tmp_path, **TRACKED, **{VECTORS: "true"})
    said = {a["path"]: (a["baseRowId"], a["defaultRowCommitVersion"]) for a in actions(tmp_path, 0, "add")}
    table.delete("id % 5 = 1")
    table.delete("id % 5 = 2")
    for version in (1, 2):
        again = actions(tmp_path, version, "add")
        assert {a["path"]: (a["baseRowId"], a["defaultRowCommitVersion"]) for a in again} == said
        gone = actions(tmp_path, version, "remove")
        assert {r["path"]: (r["baseRowId"], r["defaultRowCommitVersion"]) for r in gone} == said


def test_rows_from_before_tracking_was_on_keep_the_ids_they_got_then(
    spark: SparkSession, tmp_path: Path, vectors: str
) -> None:
    table = numbers(spark, tmp_path, **{VECTORS: vectors})
    table.delete("id = 0")
    table.setProperties(TRACKED)
    since = Snapshot.load(tmp_path).version
    before = tracked(spark, tmp_path)
    assert {version for _, version in before.values()} == {since}
    table.update("id IN (5, 15)", {"k": "-1"})
    expected = {**before, 5: (before[5][0], since + 1), 15: (before[15][0], since + 1)}
    assert tracked(spark, tmp_path) == expected


def test_ids_that_nobody_reads_are_given_all_the_same(spark: SparkSession, tmp_path: Path, vectors: str) -> None:
    table = numbers(spark, tmp_path, **{"delta.feature.rowTracking": "supported", VECTORS: vectors})
    table.update("id = 3", {"k": "-1"})
    added = actions(tmp_path, 1, "add")
    assert all(add["baseRowId"] >= (0 if "deletionVector" in add else 20) for add in added)
    assert sorted(row[0] for row in table.toDF().select("id").collect()) == list(range(20))


def test_ids_are_neither_in_the_table_nor_in_its_feed(spark: SparkSession, tmp_path: Path, vectors: str) -> None:
    table = numbers(spark, tmp_path, **TRACKED, **{FEED: "true", VECTORS: vectors})
    table.update("id % 10 = 3", {"k": "-1"})
    assert table.toDF().columns == ["id", "k", "p"]
    pairs = [("update_postimage", n, -1) for n in (13, 3)] + [("update_preimage", n, 3) for n in (13, 3)]
    assert changes(spark, tmp_path, 1, "id", "k") == pairs
    options = {"readChangeFeed": "true", "startingVersion": "0"}
    names = ["id", "k", "p", "_change_type", "_commit_version", "_commit_timestamp"]
    assert read(spark, tmp_path, **options).columns == names
    assert tracked(spark, tmp_path)[13][1] == 1
