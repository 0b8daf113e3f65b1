"""Creating a table from a DataFrame and appending to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import slackwater
from slackwater import Snapshot, errors
from tests.spark.tables import write_table

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def enabled(spark: SparkSession) -> None:
    slackwater.enable(spark)


def test_a_frame_becomes_a_table_and_grows_by_appends(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    frame = spark.range(10).selectExpr("id", "id % 2 as part", "concat('é ', id) as name")
    frame.write.format("delta").partitionBy("part").save(path)
    frame.selectExpr("id + 10 as id", "'x' as name", "part").write.format("delta").mode("append").save(path)
    back = spark.read.format("delta").load(path)
    assert back.columns == ["id", "part", "name"]
    assert sorted(r["id"] for r in back.collect()) == list(range(20))
    snapshot = Snapshot.load(path)
    assert (snapshot.version, snapshot.metadata.partition_columns) == (1, ("part",))
    assert sum(json.loads(s)["numRecords"] for s in snapshot.files()["stats"].to_pylist()) == 20
    assert not [p for p in Path(path).iterdir() if p.name.startswith((".slackwater", "_SUCCESS"))]
    assert snapshot.report("id = 3").kept_files < snapshot.files().num_rows


def test_statistics_are_those_of_the_rows(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    rows = [(1, "a" * 40, 1.5, None), (3, "b", float("nan"), None)]
    spark.createDataFrame(rows, "id long, text string, number double, nothing int").coalesce(1).write.format(
        "delta"
    ).save(path)
    stats = json.loads(Snapshot.load(path).files()["stats"][0].as_py())
    assert stats["numRecords"] == 2
    assert stats["nullCount"] == {"id": 0, "text": 0, "number": 0, "nothing": 2}
    assert (stats["minValues"]["id"], stats["maxValues"]["id"]) == (1, 3)
    assert stats["minValues"]["text"] == "a" * 32
    assert "nothing" not in stats["minValues"]


def test_a_table_that_is_there_is_not_written_over(spark: SparkSession, tmp_path: Path) -> None:
    path = write_table(tmp_path / "t", [{"id": [1]}])
    frame = spark.range(1)
    with pytest.raises(errors.InvalidArgument, match="already"):
        frame.write.format("delta").save(path)
    frame.write.format("delta").mode("ignore").save(path)
    assert Snapshot.load(path).version == 0


@pytest.mark.parametrize(
    ("select", "message"),
    [("id as other", "missing"), ("cast(id as string) as id", "type long"), ("id, 1 as more", "not in the table")],
)
def test_columns_that_do_not_fit_are_named_and_nothing_is_written(
    spark: SparkSession, tmp_path: Path, select: str, message: str
) -> None:
    path = write_table(tmp_path / "t", [{"id": [1]}])
    before = sorted(p.name for p in Path(path).rglob("*"))
    frame = spark.range(1).selectExpr(*select.split(", "))
    with pytest.raises(errors.InvalidArgument, match=message):
        frame.write.format("delta").mode("append").save(path)
    assert sorted(p.name for p in Path(path).rglob("*")) == before


def test_modes_and_tables_beyond_this_version_are_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    path = write_table(tmp_path / "t", [{"id": [1]}])
    with pytest.raises(errors.UnsupportedFeature, match="overwrite"):
        spark.range(1).write.format("delta").mode("overwrite").save(path)
    commit = Path(path) / "_delta_log" / f"{1:020d}.json"
    features = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["rowTracking"]}
    commit.write_text(json.dumps({"protocol": features}) + "\n")
    with pytest.raises(errors.UnsupportedFeature, match="rowTracking"):
        spark.range(1).write.format("delta").mode("append").save(path)
