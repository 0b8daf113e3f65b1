"""Two changes of the same table at the same time: disjoint rows of one file both land, others do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import slackwater
from slackwater import DeltaTable, errors
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.dml.dml_command import DmlCommand
from tests.spark.written import data_files, listing, read, rows

pytestmark = pytest.mark.spark


@pytest.fixture
def path(spark: SparkSession, tmp_path: Path) -> str:
    """One file of twenty rows: `id` from 0, `v` its text, and row level changes turned on."""
    slackwater.enable(spark)
    where = str(tmp_path / "t")
    frame = spark.range(20).selectExpr("id", "cast(id AS STRING) AS v").coalesce(1)
    properties = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
    frame.write.format("delta").options(**properties).save(where)
    return where


def meanwhile(monkeypatch: pytest.MonkeyPatch, work: Callable[[], Any]) -> None:
    """Have `work` done by another writer once the next change has read the table, before it writes anything."""
    original = DmlCommand.read
    pending = [work]

    def step_in(change: DmlCommand, *args: Any) -> None:
        original(change, *args)
        if pending:
            pending.pop()()

    monkeypatch.setattr(DmlCommand, "read", step_in)


def values(spark: SparkSession, path: str) -> dict[int, str]:
    return {row["id"]: row["v"] for row in read(spark, path).collect()}


def test_deletes_of_disjoint_rows_of_one_file_both_land(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = DeltaTable.forPath(spark, path)
    meanwhile(monkeypatch, lambda: table.delete("id % 5 = 1"))
    table.delete("id % 5 = 2")
    assert sorted(values(spark, path)) == [n for n in range(20) if n % 5 not in (1, 2)]
    assert Snapshot.load(path).version == 2
    (vector,) = Snapshot.load(path).live_files(["deletionVector"])["deletionVector"].to_pylist()
    assert vector["cardinality"] == 8
    feed = read(spark, path, readChangeFeed="true", startingVersion="1").select("_commit_version", "id")
    assert rows(feed) == sorted([(1, n) for n in (1, 6, 11, 16)] + [(2, n) for n in (2, 7, 12, 17)], key=repr)


def test_updates_of_disjoint_rows_whose_ranges_overlap_both_land(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = DeltaTable.forPath(spark, path)
    meanwhile(monkeypatch, lambda: table.update("id in (1, 9)", {"v": "'first'"}))
    # The statistics of the other's new file leave room for 5, only its rows say that it has none.
    table.update("id in (0, 5, 12)", {"v": "'second'"})
    found = values(spark, path)
    assert {n: v for n, v in found.items() if not v.isdigit()} == {
        1: "first",
        9: "first",
        0: "second",
        5: "second",
        12: "second",
    }
    assert len(found) == 20


def test_a_merge_and_a_delete_of_other_rows_both_land(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = DeltaTable.forPath(spark, path)
    source = spark.createDataFrame([(3, "merged"), (100, "new")], "id LONG, v STRING")
    meanwhile(monkeypatch, lambda: table.delete("id = 4"))
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id")
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    found = values(spark, path)
    assert (found[3], found[100], 4 in found, len(found)) == ("merged", "new", False, 20)


def test_a_row_that_both_change_is_a_conflict_and_the_second_leaves_nothing(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = DeltaTable.forPath(spark, path)
    seen: list[str] = []

    def other() -> None:
        table.delete("id in (3, 4)")
        seen.extend(listing(path))

    meanwhile(monkeypatch, other)
    with pytest.raises(errors.DeltaConcurrentModificationException, match=r"version 1 \(DELETE\)"):
        table.update("id in (4, 5)", {"v": "'lost'"})
    assert listing(path) == seen
    assert sorted(values(spark, path)) == [n for n in range(20) if n not in (3, 4)]


def test_a_row_that_now_fulfils_the_condition_is_a_conflict(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = DeltaTable.forPath(spark, path)
    meanwhile(monkeypatch, lambda: table.update("id = 7", {"v": "'doomed'"}))
    with pytest.raises(errors.ConcurrentAppendException, match="version 1"):
        table.delete("v = 'doomed' or id = 2")
    assert values(spark, path)[7] == "doomed"
    assert 2 in values(spark, path)


def test_files_that_are_rewritten_conflict_with_a_change_of_any_of_their_rows(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = DeltaTable.forPath(spark, path)
    table.setProperties({"delta.enableDeletionVectors": "false"})
    before = data_files(path)
    meanwhile(monkeypatch, lambda: table.delete("id = 1"))
    with pytest.raises(errors.ConcurrentDeleteDeleteException, match="version 2"):
        table.delete("id = 2")
    assert sorted(values(spark, path)) == [n for n in range(20) if n != 1]
    assert len(data_files(path)) == len(before) + 2  # what the first wrote: the rewritten file and its change data


def test_a_key_that_another_writer_appends_is_not_inserted_twice(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = DeltaTable.forPath(spark, path)
    table.setProperties({"delta.isolationLevel": "Serializable"})
    source = spark.createDataFrame([(100, "mine")], "id LONG, v STRING")
    other = spark.createDataFrame([(100, "theirs")], "id LONG, v STRING")
    meanwhile(monkeypatch, lambda: other.write.format("delta").mode("append").save(path))
    with pytest.raises(errors.ConcurrentAppendException):
        table.alias("t").merge(source.alias("s"), "t.id = s.id").whenNotMatchedInsertAll().execute()
    assert values(spark, path)[100] == "theirs"
