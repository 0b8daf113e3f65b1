"""Shallow clones through `DeltaTable`: rows, changes of rows, arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import slackwater
from slackwater import DeltaTable, errors
from tests.spark.written import first_row, read, rows, save

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> DeltaTable:
    """Rows (0, x) to (3, x) with deletion vectors and a change feed, partitioned; row 0 is gone in version 1."""
    frame = spark.range(4).selectExpr("id", "CASE WHEN id % 2 = 0 THEN 'e v' ELSE 'odd' END AS p")
    options = {
        "delta.enableDeletionVectors": "true",
        "delta.enableChangeDataFeed": "true",
        "delta.enableRowTracking": "true",
        "delta.columnMapping.mode": "name",
    }
    frame.coalesce(1).write.format("delta").partitionBy("p").options(**options).save(str(tmp_path / "a b"))
    table = DeltaTable.forPath(spark, str(tmp_path / "a b"))
    table.delete("id = 0")
    return table


@pytest.mark.modes
@pytest.mark.parametrize("way", ["spark", "arrow"])
def test_rows_of_a_clone_are_read_and_changed(
    spark: SparkSession, tmp_path: Path, source: DeltaTable, conf: Any, way: str
) -> None:
    conf("spark.slackwater.rows", way)
    clone = source.clone(str(tmp_path / "clone"), isShallow=True)
    assert rows(clone.toDF()) == [(1, "odd"), (2, "e v"), (3, "odd")]
    clone.delete("id = 1")
    clone.update("id = 2", {"id": "20"})
    news = spark.createDataFrame([(3, "odd"), (9, "e v")], "id BIGINT, p STRING").alias("s")
    merge = clone.alias("t").merge(news, "t.id = s.id").whenMatchedUpdate(set={"id": "s.id * 10"})
    merge.whenNotMatchedInsertAll().execute()
    assert rows(clone.toDF()) == [(20, "e v"), (30, "odd"), (9, "e v")]
    assert rows(source.toDF()) == [(1, "odd"), (2, "e v"), (3, "odd")]
    feed = clone.toDF(readChangeFeed="true", startingVersion=1).where("_change_type = 'insert'")
    assert [row.id for row in feed.collect()] == [9]
    assert clone.toDF(rowTracking="true").select("_row_id").distinct().count() == 3


@pytest.mark.modes
def test_a_clone_is_read_by_path_and_by_name(
    spark: SparkSession, tmp_path: Path, source: DeltaTable, conf: Any
) -> None:
    path = tmp_path / "clone"
    source.clone(str(path), isShallow=True)
    assert len(rows(read(spark, path))) == 3
    assert slackwater.Snapshot.load(str(path)).to_arrow().num_rows == 3
    assert first_row(spark.sql(f"select count(*) from delta.`{path}`"))[0] == 3
    spark.sql(f"create table trial_of_clone shallow clone delta.`{tmp_path / 'a b'}` location '{tmp_path / 'trial'}'")
    try:
        assert first_row(spark.sql("select count(*) from trial_of_clone"))[0] == 3
        assert spark.table("trial_of_clone").count() == 3
        strict = spark.read.option("allowPathsOutsideRoot", "false")
        with pytest.raises(errors.PathNotAllowed, match="allowPathsOutsideRoot"):
            strict.table("trial_of_clone").collect()
        conf("spark.slackwater.allowPathsOutsideRoot", "false")
        for refused in (lambda: read(spark, path).collect(), lambda: spark.table("trial_of_clone").count()):
            with pytest.raises(errors.PathNotAllowed, match="allowPathsOutsideRoot"):
                refused()
        assert len(rows(read(spark, path, allowPathsOutsideRoot="true"))) == 3
    finally:
        spark.sql("drop table trial_of_clone")


@pytest.mark.modes
def test_an_earlier_version_is_cloned(tmp_path: Path, source: DeltaTable) -> None:
    first = source.cloneAtVersion(0, str(tmp_path / "first"), isShallow=True, properties={"mine": "1"})
    assert [row[0] for row in rows(first.toDF())] == [0, 1, 2, 3]
    assert first.detail().collect()[0].properties["mine"] == "1"
    (moment,) = source.history().where("version = 0").selectExpr("cast(timestamp AS STRING) AS t").collect()
    then = source.cloneAtTimestamp(moment.t, f"delta.`{tmp_path / 'then'}`", isShallow=True)
    assert len(rows(then.toDF())) == 4
    again = source.clone(str(tmp_path / "then"), isShallow=True, replace=True)
    assert len(rows(again.toDF())) == 3
    assert again.history(1).collect()[0].operation == "CLONE"


def test_a_clone_is_vacuumed_without_touching_its_source(
    spark: SparkSession, tmp_path: Path, source: DeltaTable, conf: Any
) -> None:
    del spark
    conf("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    clone = source.clone(str(tmp_path / "clone"), isShallow=True)
    clone.delete()
    clone.vacuum(0, untracked_hours=0)
    assert len(rows(source.toDF())) == 3


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"isShallow": False}, errors.UnsupportedFeature, "only shallow clones"),
        ({"isShallow": "yes"}, ValueError, "isShallow needs to be a boolean but got"),
        ({"isShallow": True, "replace": 1}, ValueError, "replace needs to be a boolean"),
        ({"isShallow": True, "properties": "x"}, ValueError, "properties needs to be a dict"),
        ({"isShallow": True, "target": 5}, ValueError, "target needs to be a string"),
        ({"isShallow": True, "target": "name"}, errors.UnsupportedFeature, "must be a path"),
    ],
)
def test_arguments(
    spark: SparkSession, tmp_path: Path, arguments: dict[str, Any], error: type[Exception], match: str
) -> None:
    save(spark.range(1), tmp_path / "t")
    table: Any = DeltaTable.forPath(spark, str(tmp_path / "t"))
    with pytest.raises(error, match=match):
        table.clone(**{"target": str(tmp_path / "clone"), **arguments})
    with pytest.raises(ValueError, match="version needs to be an int"):
        table.cloneAtVersion("0", str(tmp_path / "clone"), isShallow=True)
    with pytest.raises(ValueError, match="timestamp needs to be a string"):
        table.cloneAtTimestamp(0, str(tmp_path / "clone"), isShallow=True)
    assert not (tmp_path / "clone").exists()


def test_a_lake_is_cloned(spark: SparkSession, tmp_path: Path, conf: Any) -> None:
    with slackwater.Lake.open(tmp_path / "lake", spark=spark) as lake:
        for name in ("a", "b"):
            lake.create_table(name, "id BIGINT")
        with lake.transaction(spark) as tx:
            tx.table("a").append(spark.range(2))
            tx.table("b").append(spark.range(3))
            with pytest.raises(errors.OperationNotAllowed, match="a clone cannot be part of a transaction"):
                tx.table("a").clone(str(tmp_path / "x"), isShallow=True)
        then = tx.commit_timestamp
        lake.table("a").delete()
        answer = lake.clone(then, tmp_path / "copy").collect()
        assert [(row.table, row.version, row.source_num_of_files > 0) for row in answer] == [
            ("a", 1, True),
            ("b", 1, True),
        ]
        past = lake.as_of(then).table("a").clone(str(tmp_path / "single"), isShallow=True)
        assert rows(past.toDF()) == [(0,), (1,)]
    conf("spark.slackwater.allowPathsOutsideRoot", "true")
    with slackwater.Lake.open(tmp_path / "copy", spark=spark) as copy:
        with copy.transaction(spark) as tx:
            tx.table("a").delete("id = 0")
            tx.table("b").append(spark.range(9, 10))
        assert rows(copy.table("a").toDF()) == [(1,)]
        assert rows(copy.table("b").toDF()) == [(0,), (1,), (2,), (9,)]
