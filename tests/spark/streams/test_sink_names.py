"""`toTable`: names of paths, of the session's catalog, of lakes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import slackwater
from slackwater import DeltaTable, errors
from tests.spark.committed import operation
from tests.spark.streams.queries import drop, files, finished, writer
from tests.spark.written import read, rows, save

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

DDL = "id BIGINT, name STRING"
WRITTEN = [(1, "a"), (2, "ö")]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder whose files are a stream of two rows."""
    drop(tmp_path / "source", id=[1, 2], name=["a", "ö"])
    return tmp_path / "source"


@pytest.mark.modes
def test_a_table_of_the_catalog_is_created_and_filled(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    stream = files(spark, source, DDL)
    spark.sql("DROP TABLE IF EXISTS streamed")
    try:
        finished(writer(stream, tmp_path / "check").partitionBy("name").toTable("streamed"))
        assert rows(spark.table("streamed")) == WRITTEN
        detail = DeltaTable.forName(spark, "streamed").detail().collect()[0]
        assert detail.partitionColumns == ["name"]
        assert operation(detail.location.removeprefix("file:"), 0)[0] == "CREATE TABLE"
        drop(source, id=[3], name=["c"])
        # A table that is there says by itself that it is Delta's.
        again = stream.writeStream.option("checkpointLocation", str(tmp_path / "check")).trigger(availableNow=True)
        finished(again.toTable("default.streamed"))
        assert rows(spark.table("streamed"))[2:] == [(3, "c")]
        with pytest.raises(errors.InvalidArgument, match="Leave the option out"):
            writer(stream, tmp_path / "check").toTable("streamed", path=str(tmp_path / "elsewhere"))
    finally:
        spark.sql("DROP TABLE IF EXISTS streamed")


def test_a_table_of_the_catalog_may_be_at_a_path(spark: SparkSession, path: str, source: Path, tmp_path: Path) -> None:
    spark.sql("DROP TABLE IF EXISTS streamed_at")
    try:
        stream = files(spark, source, DDL)
        finished(writer(stream, tmp_path / "check").toTable("streamed_at", outputMode="append", path=path))
        assert rows(spark.table("streamed_at")) == rows(read(spark, path)) == WRITTEN
    finally:
        spark.sql("DROP TABLE IF EXISTS streamed_at")


def test_a_path_is_a_name(spark: SparkSession, path: str, source: Path, tmp_path: Path) -> None:
    finished(writer(files(spark, source, DDL), tmp_path / "check").toTable(f"delta.`{path}`"))
    assert rows(read(spark, path)) == WRITTEN


def test_a_table_of_another_format_is_refused(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    spark.sql("DROP TABLE IF EXISTS plain_files")
    spark.sql("CREATE TABLE plain_files (id BIGINT) USING parquet")
    try:
        with pytest.raises(errors.InvalidArgument, match="not as a Delta table"):
            writer(files(spark, source, DDL), tmp_path / "check").toTable("plain_files")
    finally:
        spark.sql("DROP TABLE plain_files")
    assert not (tmp_path / "check").exists()


def test_tables_of_a_lake_take_streams(spark: SparkSession, source: Path, tmp_path: Path) -> None:
    stream = files(spark, source, DDL)
    with slackwater.Lake.open(tmp_path / "lake", spark=spark) as lake:
        lake.attach(spark, "shop")
        finished(writer(stream, tmp_path / "check").toTable("shop.events"))
        assert rows(lake.table("events").toDF()) == WRITTEN
        drop(source, id=[3], name=["c"])
        finished(writer(stream, tmp_path / "check").toTable("shop.events"))
        assert rows(lake.table("events").toDF())[2:] == [(3, "c")]
        # It is the same table by its path.
        drop(source, id=[4], name=["d"])
        finished(writer(stream, tmp_path / "check").start(lake.location("events")))
        assert lake.table("events").toDF().count() == 4
        spark.sql("BEGIN TRANSACTION")
        try:
            spark.sql("SELECT * FROM shop.events").collect()
            with pytest.raises(errors.OperationNotAllowed, match="COMMIT or ROLLBACK"):
                writer(stream, tmp_path / "check").toTable("shop.events")
        finally:
            spark.sql("ROLLBACK")


@pytest.mark.classic
def test_delta_as_the_default_source_is_meant_where_no_format_is_named(
    spark: SparkSession, path: str, source: Path, tmp_path: Path
) -> None:
    another = spark.newSession()
    another.conf.set("spark.sql.sources.default", "delta")
    stream = files(another, source, DDL).writeStream.option("checkpointLocation", str(tmp_path / "check"))
    finished(stream.trigger(availableNow=True).start(path))
    assert rows(read(spark, path)) == WRITTEN
    save(another.range(1), path + "_other")
