"""DeltaTable: names and results as delta-spark's."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from slackwater import DeltaTable, Snapshot, errors
from tests.spark.tables import TABLES, write_table

pytestmark = pytest.mark.spark

HISTORY = (
    "version timestamp userId userName operation operationParameters job notebook clusterId readVersion "
    "isolationLevel isBlindAppend operationMetrics userMetadata engineInfo"
).split()
DETAIL = (
    "format id name description location createdAt lastModified partitionColumns clusteringColumns numFiles "
    "sizeInBytes properties minReaderVersion minWriterVersion tableFeatures"
).split()


def test_to_df_reads_the_newest_version_each_time(spark: SparkSession, tmp_path: Path) -> None:
    path = write_table(tmp_path / "t", [{"id": [1]}])
    table = DeltaTable.forPath(spark, path)
    assert [r["id"] for r in table.toDF().collect()] == [1]
    commit = tmp_path / "t" / "_delta_log" / f"{1:020d}.json"
    commit.write_text('{"remove":{"path":"none","dataChange":true}}\n')
    assert Snapshot.load(path).version == 1
    assert [r["id"] for r in table.toDF().collect()] == [1]


def test_history_has_delta_sparks_columns_newest_first(spark: SparkSession) -> None:
    table = DeltaTable.forPath(spark, str(TABLES / "cdc-ict"))
    history = table.history()
    assert history.columns == HISTORY
    found = history.selectExpr("version", "unix_millis(timestamp) as ms", "operation", "operationMetrics").collect()
    times = Snapshot.load(TABLES / "cdc-ict").history()
    assert [(r["version"], r["ms"]) for r in found] == [(v, times.timestamp_ms(v)) for v in (3, 2, 1, 0)]
    assert found[0]["operation"]
    assert isinstance(found[0]["operationMetrics"], dict)
    assert [r["version"] for r in table.history(2).collect()] == [3, 2]


def test_detail_is_one_row_with_delta_sparks_columns(spark: SparkSession, tmp_path: Path) -> None:
    path = write_table(tmp_path / "t", [{"part": [1], "id": [1]}, {"part": [2], "id": [2]}], partition_by="part")
    detail = DeltaTable.forPath(spark, path).detail()
    assert detail.columns == DETAIL
    [row] = detail.collect()
    assert (row["format"], row["numFiles"], row["sizeInBytes"]) == ("delta", 2, 2)
    assert (row["partitionColumns"], row["clusteringColumns"]) == (["part"], [])
    assert (row["minReaderVersion"], row["minWriterVersion"]) == (1, 2)
    assert row["tableFeatures"] == ["appendOnly", "invariants"]
    assert row["location"].endswith("/t")


def test_tables_are_found_by_path_and_by_path_name(spark: SparkSession, tmp_path: Path) -> None:
    path = write_table(tmp_path / "t", [{"id": [1]}])
    assert DeltaTable.isDeltaTable(spark, path)
    assert not DeltaTable.isDeltaTable(spark, str(tmp_path))
    assert DeltaTable.forName(spark, f"delta.`{path}`").toDF().count() == 1
    with pytest.raises(errors.TableNotFound, match="no table of that name"):
        DeltaTable.forName(spark, "flights")
    with pytest.raises(errors.InvalidArgument, match="not understood"):
        DeltaTable.forName(spark, "a b c")
    with pytest.raises(errors.TableNotFound, match="not a Delta table"):
        DeltaTable.forPath(spark, str(tmp_path))
    with pytest.raises(errors.InvalidArgument, match="fs"):
        DeltaTable.forPath(spark, path, {"other": "x"})


def test_an_alias_names_the_columns(spark: SparkSession, tmp_path: Path) -> None:
    table = DeltaTable.forPath(spark, write_table(tmp_path / "t", [{"id": [1]}])).alias("t")
    assert table.toDF().where("t.id = 1").count() == 1


@pytest.mark.classic
def test_the_log_is_kept_up_when_somebody_asks_for_it(spark: SparkSession, tmp_path: Path) -> None:
    path = write_table(tmp_path / "t", [{"id": [number]} for number in range(3)], commits=True)
    newest = Snapshot.load(path).version
    table = DeltaTable.forPath(spark, path)
    table.compactLog(0, 1)
    table.checkpoint()
    names = {file.name for file in (tmp_path / "t" / "_delta_log").iterdir()}
    assert f"{0:020d}.{1:020d}.compacted.json" in names
    assert f"{newest:020d}.checkpoint.parquet" in names
    with pytest.raises(errors.InvalidArgument, match="no two commits"):
        table.compactLog()
    assert table.cleanUpLog() == 0
    assert sorted(row["id"] for row in table.toDF().collect()) == [0, 1, 2]
