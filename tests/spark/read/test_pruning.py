"""`where` straight on a table's DataFrame reads only the files that may match, and stays a DataFrame in every way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from slackwater.spark.read.load import load
from tests.spark.tables import TABLES, write_table
from tests.spark.written import first_row

pytestmark = pytest.mark.spark


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> DataFrame:
    files: list[dict[str, list[Any]]] = [
        {"part": [n % 2] * 2, "id": [n * 10, n * 10 + 9], "name": [f"n{n}", None]} for n in range(6)
    ]
    return load(spark, write_table(tmp_path / "t", files, partition_by="part"))


def file_count(frame: DataFrame) -> int:
    return len(frame.inputFiles())


def test_text_and_columns_prune_alike(table: DataFrame) -> None:
    for condition in ("id = 20", F.col("id") == 20, table.id == 20, table["id"] == 20, "ID = 20"):
        found = table.where(condition)
        assert file_count(found) == 1
        assert [row["id"] for row in found.collect()] == [20]


def test_partition_values_prune(table: DataFrame) -> None:
    assert file_count(table.filter("part = 1")) == 3
    assert table.filter("part = 1").count() == 6


def test_conditions_one_after_the_other_prune_together(table: DataFrame) -> None:
    found = table.where("part = 0").where(table.id > 15).filter(F.col("id") < 25)
    assert file_count(found) == 1
    assert [row["id"] for row in found.collect()] == [20]


def test_references_to_the_unpruned_frame_still_resolve(table: DataFrame) -> None:
    found = table.where(table.id >= 50)
    assert [tuple(r) for r in found.select(table.name, table["id"]).orderBy(table.id).collect()] == [
        ("n5", 50),
        (None, 59),
    ]
    again = found.where(found.id == 50)
    assert [r["name"] for r in again.select(found.name).collect()] == ["n5"]


def test_a_table_joins_with_a_pruned_part_of_itself(table: DataFrame) -> None:
    part = table.where(table.id >= 50).select(F.col("id").alias("other"))
    assert table.join(part, table.id == part.other).count() == 2


def test_a_condition_that_nothing_is_known_about_reads_everything(table: DataFrame) -> None:
    found = table.where("id % 20 = 9")
    assert file_count(found) == 6
    assert sorted(r["id"] for r in found.collect()) == [9, 29, 49]


def test_no_file_may_match(table: DataFrame) -> None:
    found = table.where("id > 1000")
    assert found.columns == ["part", "id", "name"]
    assert found.count() == 0
    assert found.groupBy("part").count().collect() == []


def test_files_can_be_named_on_a_pruned_frame(table: DataFrame) -> None:
    assert table.where("id < 15").select("_metadata.file_path").distinct().count() == 2


def test_a_wrong_condition_is_sparks_own_error(table: DataFrame) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(AnalysisException):
        table.where(F.col("nowhere") == 1).collect()


def test_deleted_rows_stay_deleted_under_a_condition(spark: SparkSession) -> None:
    frame = load(spark, str(TABLES / "table-with-dv-small"))
    assert [r[0] for r in frame.where("value < 3").orderBy("value").collect()] == [1, 2]
    assert frame.where("value = 0").count() == 0
    assert frame.where("value = 100").count() == 0


def test_the_result_is_a_dataframe_of_the_session(table: DataFrame, spark: SparkSession) -> None:
    found = table.where("id = 20")
    assert isinstance(found, DataFrame)
    assert found.sparkSession is spark
    found.createOrReplaceTempView("pruned_rows")
    assert first_row(spark.sql("select count(*) from pruned_rows"))[0] == 1
    assert found.union(table.where("id = 30")).count() == 2
