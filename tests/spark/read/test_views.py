"""Views of a Delta table's frames: nothing is written through them."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameWriterV2, SparkSession

import slackwater
from slackwater import DeltaTable
from slackwater.errors import UnsupportedFeature
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.read.load import load
from slackwater.spark.read.table_scan import TableScan
from slackwater.spark.writer.save import save
from tests.spark.tables import write_table

pytestmark = [pytest.mark.spark, pytest.mark.modes, pytest.mark.usefixtures("enabled")]

WRITES = [
    "INSERT INTO {view} VALUES {row}",
    "INSERT OVERWRITE {view} VALUES {row}",
    "DELETE FROM {view} WHERE id = 1",
    "UPDATE {view} SET id = 5",
    "MERGE INTO {view} t USING (SELECT id FROM range(3)) s ON t.id = s.id WHEN MATCHED THEN DELETE",
]


def one_file(root: Path) -> str:
    return write_table(root, [{"id": [1, 2]}], names=["x.parquet"])


def files_of(path: str) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in Path(path).rglob("*") if file.is_file()}


def require_untouched(spark: SparkSession, path: str, frame: DataFrame) -> None:
    """That no statement and no writer changes anything through views of `frame`."""
    before, rows = files_of(path), sorted(map(repr, frame.collect()))
    name = f"v_{uuid.uuid4().hex}"
    frame.createOrReplaceTempView(name)
    frame.createOrReplaceGlobalTempView(name)
    row = "(" + ", ".join("NULL" for _ in frame.columns) + ")"
    for view in (name, f"global_temp.{name}"):
        for text in WRITES:
            with pytest.raises(UnsupportedFeature, match="temporary view"):
                spark.sql(text.format(view=view, row=row)).collect()
        for overwrite in (False, True):
            with pytest.raises(PySparkException, match=r"(?i)RDD.BASED|VIEW"):
                frame.limit(1).write.insertInto(view, overwrite=overwrite)
    writes: list[Callable[[DataFrameWriterV2], None]] = [lambda to: to.append(), lambda to: to.overwritePartitions()]
    for write in writes:
        with pytest.raises(PySparkException, match=r"(?i)VIEW"):
            write(frame.limit(1).writeTo(name))
    assert files_of(path) == before
    assert sorted(map(repr, spark.table(name).collect())) == rows
    spark.catalog.dropTempView(name)
    spark.catalog.dropGlobalTempView(name)


def filtered(spark: SparkSession, path: str) -> DataFrame:
    return load(spark, path).filter("id > 0").where("id < 100")


def located(spark: SparkSession, path: str) -> DataFrame:
    snapshot = Snapshot.load(path)
    return TableScan(spark, snapshot).located(snapshot.files()).frame


FRAMES: dict[str, Callable[[SparkSession, str], DataFrame]] = {
    "load": load,
    "filtered": filtered,
    "toDF": lambda spark, path: DeltaTable.forPath(spark, path).toDF(),
    "alias": lambda spark, path: DeltaTable.forPath(spark, path).alias("a").toDF(),
    "version": lambda spark, path: load(spark, path, {"versionAsOf": 0}),
    "located": located,
}


@pytest.mark.parametrize("frame", FRAMES)
def test_nothing_is_written_through_a_view_of_a_frame(spark: SparkSession, tmp_path: Path, frame: str) -> None:
    path = one_file(tmp_path / "t")
    require_untouched(spark, path, FRAMES[frame](spark, path))


def test_nothing_is_written_through_a_view_of_a_partitioned_or_an_empty_table_or_of_a_feed(
    spark: SparkSession, tmp_path: Path
) -> None:
    partitioned = write_table(tmp_path / "p", [{"id": [1], "part": [1]}], partition_by="part")
    require_untouched(spark, partitioned, load(spark, partitioned))
    empty = write_table(tmp_path / "e", [], extra_columns=[("id", "long")])
    require_untouched(spark, empty, load(spark, empty))
    fed = str(tmp_path / "f")
    save(spark.range(3), fed, "error", [], {"delta.enableChangeDataFeed": "true"})
    require_untouched(spark, fed, load(spark, fed, {"readChangeFeed": "true", "startingVersion": 0}))


def test_nothing_is_written_through_a_view_of_a_time_slice_or_of_rows_with_their_times(
    spark: SparkSession, tmp_path: Path
) -> None:
    with slackwater.Lake.open(str(tmp_path), spark=spark) as lake:
        lake.create_table("t", "id BIGINT", properties={"delta.enableRowTracking": "true"})
        path = lake.location("t")
        save(spark.range(3), path, "append", [], {})
        written = lake.table("t").history(1).collect()[0].timestamp
        require_untouched(spark, path, lake.as_of(written.astimezone(dt.timezone.utc)).table("t").toDF())
        require_untouched(spark, path, lake.table("t").system_time().all())


def test_a_session_that_is_left_alone_has_sparks_own_error(spark: SparkSession, tmp_path: Path) -> None:
    load(spark, one_file(tmp_path / "t")).createOrReplaceTempView("left_alone")
    spark.conf.set("spark.slackwater.enabled", "false")
    try:
        with pytest.raises(PySparkException, match=r"RDD.BASED"):
            spark.sql("INSERT INTO left_alone VALUES (1)").collect()
    finally:
        spark.conf.unset("spark.slackwater.enabled")
        spark.catalog.dropTempView("left_alone")


def test_where_rows_are_from_can_be_asked_of_a_frame(spark: SparkSession, tmp_path: Path) -> None:
    frame = load(spark, one_file(tmp_path / "t"))
    found = frame.where("id > 1").select("id", "_metadata.file_name", "_metadata.row_index").collect()
    assert list(map(tuple, found)) == [(2, "x.parquet", 1)]
