"""Values of one person leave a table for good: nothing on the disk holds them any more, wherever they were."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import slackwater
from slackwater import DeltaTable
from tests.spark.written import rows

pytestmark = [pytest.mark.spark, pytest.mark.classic, pytest.mark.usefixtures("enabled")]

NAME = "Xanthippe"
EVERYTHING = {
    "delta.enableDeletionVectors": "true",
    "delta.enableChangeDataFeed": "true",
    "delta.enableRowTracking": "true",
    "delta.checkpointInterval": "2",
}


def _held(root: Path) -> set[str]:
    """The files and directories below `root` whose name or content has NAME, however it is encoded."""
    return {str(path.relative_to(root)) for path in root.rglob("*") if NAME in path.name or NAME in _content(path)}


def _content(path: Path) -> str:
    if not path.is_file():
        return ""
    if path.suffix == ".parquet":
        return str(pq.ParquetFile(path).read().to_pylist()) + str(pq.read_metadata(path).to_dict())
    return path.read_bytes().decode("utf-8", "replace")


def _kinds(held: set[str]) -> set[str]:
    kinds = {"_change_data": "change data", "_delta_log": "log"}
    return {kinds.get(path.split("/")[0], "data") for path in held}


@pytest.fixture(params=["data column", "partition column", "owned"])
def table(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Iterator[DeltaTable]:
    """A table in which NAME is in data files, their statistics, change data, checkpoints and the history."""
    people = [(1, "Ann"), (2, NAME), (3, "Zoe")]
    frame = spark.createDataFrame(people, "id BIGINT, name STRING").coalesce(1)
    partitioned = ["name"] if request.param == "partition column" else []
    lake = slackwater.Lake.open(tmp_path / "lake", spark=spark)
    with lake:
        if request.param == "owned":
            made = lake.create_table("t", "id BIGINT, name STRING", properties=EVERYTHING)
        else:
            builder = DeltaTable.create(spark).location(str(tmp_path / "lake" / "t")).addColumns(frame.schema)
            for key, value in EVERYTHING.items():
                builder = builder.property(key, value)
            made = builder.partitionedBy(*partitioned).execute()
        frame.write.format("delta").mode("append").save(str(tmp_path / "lake" / "t"))
        made.update("id = 2", {"id": "20"})
        made.update("id = 3", {"id": "30"})
        yield made


def test_nothing_holds_the_value_after_the_last_step(table: DeltaTable, tmp_path: Path) -> None:
    root = tmp_path / "lake" / "t"
    assert _kinds(_held(root)) == {"data", "change data", "log"}
    table.setProperties({"delta.deletedFileRetentionDuration": "interval 0 hours"})
    table.delete(f"name = '{NAME}'")
    table.reorg().applyPurge()
    assert _kinds(_held(root)) == {"data", "change data", "log"}
    table.vacuum(untracked_hours=0)
    assert _kinds(_held(root)) == {"log"}
    table.truncateHistory()
    assert _held(root) == set()
    assert rows(table.toDF()) == [(1, "Ann"), (30, "Zoe")]
    table.unsetProperties("delta.deletedFileRetentionDuration")
    table.update("id = 1", {"id": "10"})
    assert rows(table.toDF()) == [(10, "Ann"), (30, "Zoe")]
    assert {"TRUNCATE HISTORY", "UPDATE"} <= {row.operation for row in table.history().collect()}
    # Of an owner's own files, too.
    assert _held(tmp_path / "lake") == set()
