"""Creating a table from a DataFrame and appending to it: modes, layout, history."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from slackwater import Snapshot, errors
from slackwater.spark.table.table import DeltaTable
from tests.spark.tables import write_table
from tests.spark.written import actions, listing, read, rows, save

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]


def test_a_frame_becomes_a_table_and_grows_by_appends(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    frame = spark.range(10).selectExpr("id", "id % 2 as part", "concat('é ', id) as name")
    frame.write.format("delta").partitionBy("part").save(path)
    frame.selectExpr("id + 10 as id", "'x' as name", "part").write.format("delta").mode("append").save(path)
    back = read(spark, path)
    assert back.columns == ["id", "part", "name"]
    assert sorted(r["id"] for r in back.collect()) == list(range(20))
    snapshot = Snapshot.load(path)
    assert (snapshot.version, snapshot.metadata.partition_columns) == (1, ("part",))
    assert sum(json.loads(s)["numRecords"] for s in snapshot.files()["stats"].to_pylist()) == 20
    assert not [p for p in Path(path).iterdir() if p.name.startswith((".slackwater", "_SUCCESS"))]
    assert snapshot.report("id = 3").kept_files < snapshot.files().num_rows


def test_statistics_are_those_of_the_rows(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    data = [(1, "a" * 40, 1.5, None), (3, "b", float("nan"), None)]
    save(spark.createDataFrame(data, "id long, text string, number double, nothing int").coalesce(1), path)
    stats = json.loads(Snapshot.load(path).files()["stats"][0].as_py())
    assert stats["numRecords"] == 2
    assert stats["nullCount"] == {"id": 0, "text": 0, "number": 0, "nothing": 2}
    assert (stats["minValues"]["id"], stats["maxValues"]["id"]) == (1, 3)
    assert stats["minValues"]["text"] == "a" * 32
    assert "nothing" not in stats["minValues"]


@pytest.mark.parametrize("mode", ["error", "ErrorIfExists", "default", None])
def test_a_table_that_is_there_is_not_written_over(spark: SparkSession, tmp_path: Path, mode: str | None) -> None:
    path = write_table(tmp_path / "t", [{"id": [1]}])
    before = listing(path)
    writer = spark.range(1).write.format("delta")
    with pytest.raises(errors.TableAlreadyExists, match="already"):
        (writer.mode(mode) if mode else writer).save(path)
    assert listing(path) == before


def test_mode_ignore_writes_where_there_is_no_table_and_only_there(spark: SparkSession, tmp_path: Path) -> None:
    save(spark.range(2), tmp_path / "t", "ignore")
    save(spark.range(5).selectExpr("'x' as other"), tmp_path / "t", "IGNORE")
    assert rows(read(spark, tmp_path / "t")) == [(0,), (1,)]
    assert Snapshot.load(str(tmp_path / "t")).version == 0


@pytest.mark.parametrize("mode", ["append", "overwrite", "ignore", "error"])
def test_every_mode_creates_a_table(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    save(spark.range(2), tmp_path / "new" / "t", mode)
    assert rows(read(spark, tmp_path / "new" / "t")) == [(0,), (1,)]
    (info,) = actions(tmp_path / "new" / "t", 0, "commitInfo")
    assert (info["operation"], info["isBlindAppend"]) == ("WRITE", True)


def test_one_writer_saves_as_often_as_it_is_told(spark: SparkSession, tmp_path: Path) -> None:
    writer = spark.range(1).write.format("delta").mode("append")
    writer.save(str(tmp_path / "a"))
    writer.save(str(tmp_path / "a"))
    writer.save(str(tmp_path / "b"))
    assert (read(spark, tmp_path / "a").count(), read(spark, tmp_path / "b").count()) == (2, 1)


def test_the_path_may_be_an_option_and_save_may_say_everything(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(2).selectExpr("id", "id as p")
    frame.write.format("delta").option("path", str(tmp_path / "a")).save()
    frame.write.save(str(tmp_path / "b"), format="delta", mode="append", partitionBy="P", userMetadata="said")
    assert rows(read(spark, tmp_path / "a")) == rows(read(spark, tmp_path / "b")) == [(0, 0), (1, 1)]
    assert Snapshot.load(str(tmp_path / "b")).metadata.partition_columns == ("p",)
    assert actions(tmp_path / "b", 0, "commitInfo")[0]["userMetadata"] == "said"


def test_a_table_may_be_named_by_its_path(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(2).write.format("delta").saveAsTable(f"delta.`{tmp_path / 't'}`")
    assert rows(read(spark, tmp_path / "t")) == [(0,), (1,)]


def test_a_table_named_by_its_path_casts_what_is_appended_and_a_save_does_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "t")
    spark.sql("SELECT 1 AS id, named_struct('day', DATE'2026-01-01', 'n', 1L) AS at").write.format("delta").save(path)
    text = spark.sql("SELECT named_struct('N', '3', 'DAY', '2026-02-02') AS at, '2' AS ID").write.format("delta")
    with pytest.raises(errors.InvalidArgument, match="of type integer in the table and of type string in the data"):
        text.mode("append").save(path)
    text.mode("append").saveAsTable(f"delta.`{path}`")
    assert rows(read(spark, path))[1] == (2, (dt.date(2026, 2, 2), 3))
    with pytest.raises(PySparkException, match=r"INVALID_INPUT|does not fit"):
        spark.sql("SELECT 'two' AS id").write.format("delta").mode("append").saveAsTable(f"delta.`{path}`")
    with pytest.raises(errors.InvalidArgument, match="column id is of type int, and a value of type date"):
        spark.sql("SELECT DATE'2026-02-02' AS id").write.format("delta").mode("append").saveAsTable(f"delta.`{path}`")
    with pytest.raises(errors.InvalidArgument, match="of type string in the data"):
        text.mode("overwrite").saveAsTable(f"delta.`{path}`")
    assert len(actions(tmp_path / "t", 1, "add")) == len(read(spark, path).collect()) - 1 == 1


def test_buckets_are_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgument, match="bucketBy"):
        spark.range(1).write.bucketBy(2, "id").format("delta").save(str(tmp_path / "t"))
    assert listing(tmp_path) == []


def test_other_formats_are_as_before(spark: SparkSession, tmp_path: Path) -> None:
    writer = spark.range(2).write.format("delta").format("json")
    writer.save(str(tmp_path / "j"))
    assert spark.read.format("json").load(str(tmp_path / "j")).count() == 2
    assert not (tmp_path / "j" / "_delta_log").exists()


def test_history_tells_mode_partitioning_counts_and_what_the_user_said(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    frame = spark.range(0, 4, 1, 1).selectExpr("id", "id % 2 as p")
    frame.write.format("delta").partitionBy("p").save(path)
    save(frame, path, userMetadata="second")
    save(frame, path, "overwrite", replaceWhere="p = 1 or p = 0")
    last, second, first = DeltaTable.forPath(spark, path).history().collect()
    assert [r["operation"] for r in (first, second, last)] == ["WRITE"] * 3
    assert first["operationParameters"] == {"mode": "ErrorIfExists", "partitionBy": '["p"]'}
    assert second["operationParameters"] == {"mode": "Append", "partitionBy": "[]"}
    assert last["operationParameters"]["predicate"] == "p = 1 or p = 0"
    assert (second["userMetadata"], second["isBlindAppend"], last["isBlindAppend"]) == ("second", True, False)
    sizes = sum(add["size"] for add in actions(path, 1, "add"))
    assert second["operationMetrics"] == {"numFiles": "2", "numOutputRows": "4", "numOutputBytes": str(sizes)}
    assert last["operationMetrics"]["numRemovedFiles"] == "4"
    assert last["operationMetrics"]["numRemovedBytes"] == str(
        sum(add["size"] for version in (0, 1) for add in actions(path, version, "add"))
    )


def test_earlier_versions_outlive_an_overwrite(spark: SparkSession, tmp_path: Path) -> None:
    save(spark.range(3), tmp_path / "t")
    save(spark.range(3, 5), tmp_path / "t", "overwrite")
    assert rows(read(spark, tmp_path / "t")) == [(3,), (4,)]
    assert rows(read(spark, tmp_path / "t", versionAsOf=0)) == [(0,), (1,), (2,)]


def test_a_table_can_be_written_over_while_it_is_read(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    save(spark.range(10), path)
    save(read(spark, path).filter("id % 2 = 0").selectExpr("id + 100 as id"), path, "overwrite")
    save(read(spark, path), path)
    assert [r[0] for r in rows(read(spark, path))] == sorted([100, 102, 104, 106, 108] * 2)


def test_an_empty_frame_makes_a_table_without_files_and_appends_nothing(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    empty = spark.createDataFrame([], "id long, p string")
    empty.write.format("delta").partitionBy("p").save(str(path))
    save(empty, path)
    assert read(spark, path).schema == empty.schema
    assert rows(read(spark, path)) == []
    assert (Snapshot.load(str(path)).version, listing(path)[0]) == (1, "_delta_log")
    assert all(p.startswith("_delta_log") for p in listing(path))


def test_a_clustered_table_keeps_its_columns_and_statistics_of_them(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    frame = spark.range(2).selectExpr("id", "named_struct('x', id, 'y', 'z') as s")
    writer = frame.write.format("delta").option("delta.dataSkippingNumIndexedCols", "0").clusterBy("id", "s.x")
    writer.save(path)
    save(frame, path)
    frame.write.format("delta").mode("append").clusterBy("id", "s.x").save(path)
    (domain,) = actions(path, 0, "domainMetadata")
    assert json.loads(domain["configuration"])["clusteringColumns"] == [["id"], ["s", "x"]]
    assert all(set(json.loads(add["stats"])["minValues"]) == {"id", "s"} for add in actions(path, 2, "add"))
    with pytest.raises(errors.InvalidArgument, match="clustered by"):
        frame.write.format("delta").mode("append").clusterBy("id").save(path)
    with pytest.raises(errors.InvalidArgument, match="not both"):
        frame.write.clusterBy("id").save(str(tmp_path / "u"), format="delta", partitionBy="id")
    assert Snapshot.load(path).version == 2


def test_paths_with_special_characters_hold_tables_like_any_other(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "a b%20#c[1]{é}")
    save(spark.range(2), path)
    save(spark.range(2, 3), path, "overwrite", replaceWhere="id > 0")
    assert rows(read(spark, path)) == [(0,), (2,)]
