"""Streams over tables whose columns are renamed and dropped: with schemaTrackingLocation they go on, a run a schema."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import slackwater
from slackwater.errors import OperationNotAllowed
from tests.spark.streams.queries import append, failure, finished, writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

MAPPED = {"delta.columnMapping.mode": "name", "delta.enableChangeDataFeed": "true"}


@pytest.fixture
def path(spark: SparkSession, tmp_path: Path) -> str:
    """A table with the columns id, v, w, and one row."""
    found = str(tmp_path / "t")
    append(spark, found, "1L AS id, 'a' AS v, 10 AS w", **MAPPED)
    return found


class Query:
    """A query that is started again and again."""

    def __init__(self, spark: SparkSession, path: str, place: Path, **options: str) -> None:
        self.spark, self.path, self.place = spark, path, place
        self.options = {"schemaTrackingLocation": str(place / "checkpoint" / "schemas"), **options}

    def read(self, **options: str) -> DataFrame:
        return self.spark.readStream.format("delta").options(**self.options, **options).load(self.path)

    def start(self, **options: str) -> Any:
        sink = {"mergeSchema": "true", "delta.columnMapping.mode": "name"}
        return writer(self.read(**options), self.place / "checkpoint", **sink).start(str(self.place / "out"))

    def rows(self) -> list[dict[str, Any]]:
        found = self.spark.read.format("delta").load(str(self.place / "out"))
        rows = [{name: value for name, value in row.asDict().items() if value is not None} for row in found.collect()]
        return sorted(rows, key=repr)


@pytest.mark.shared
@pytest.mark.long
def test_a_renamed_and_a_dropped_column_are_gone_over(spark: SparkSession, path: str, tmp_path: Path) -> None:
    query = Query(spark, path, tmp_path)
    finished(query.start())
    table = slackwater.DeltaTable.forPath(spark, path)
    append(spark, path, "2L AS id, 'b' AS v, 20 AS w")
    table.renameColumn("v", "name")
    append(spark, path, "3L AS id, 'c' AS name, 30 AS w")
    assert "Start the query again" in failure(query.start())
    # The new schema is there, and it is for the user to say that it may be read.
    with pytest.raises(OperationNotAllowed, match=r"v to name.*allowSourceColumnRename = 2"):
        query.read()
    finished(query.start(allowSourceColumnRename="2"))
    spark.sql(f"ALTER TABLE delta.`{path}` DROP COLUMN w")
    append(spark, path, "4L AS id, 'd' AS name")
    assert "Start the query again" in failure(query.start(allowSourceColumnRename="always"))
    spark.conf.set("spark.databricks.delta.streaming.allowSourceColumnRenameAndDrop", "always")
    try:
        assert query.read().columns == ["id", "name"]
        finished(query.start())
    finally:
        spark.conf.unset("spark.databricks.delta.streaming.allowSourceColumnRenameAndDrop")
    assert query.rows() == [
        {"id": 1, "v": "a", "w": 10},
        {"id": 2, "v": "b", "w": 20},
        {"id": 3, "name": "c", "w": 30},
        {"id": 4, "name": "d"},
    ]


def test_columns_that_are_added_take_one_more_start(spark: SparkSession, path: str, tmp_path: Path) -> None:
    query = Query(spark, path, tmp_path, readChangeFeed="true", startingVersion="0")
    finished(query.start())
    spark.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN x INT")
    append(spark, path, "2L AS id, 'b' AS v, 20 AS w, 200 AS x")
    assert query.read().columns[:4] == ["id", "v", "w", "_change_type"]
    assert "Start the query again" in failure(query.start())
    finished(query.start())
    rows = [{name: row[name] for name in ("id", "x", "_commit_version") if name in row} for row in query.rows()]
    assert rows == [{"id": 1, "_commit_version": 0}, {"id": 2, "x": 200, "_commit_version": 2}]


def test_the_schema_of_an_old_version_is_read_where_its_commit_is_gone(
    spark: SparkSession, path: str, tmp_path: Path
) -> None:
    query = Query(spark, path, tmp_path)
    finished(query.start())
    slackwater.DeltaTable.forPath(spark, path).checkpoint()
    (tmp_path / "t" / "_delta_log" / f"{0:020}.json").unlink()
    append(spark, path, "2L AS id, 'b' AS v, 20 AS w")
    finished(query.start())
    assert [row["id"] for row in query.rows()] == [1, 2]
