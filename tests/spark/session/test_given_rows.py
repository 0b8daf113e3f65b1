"""Frames of rows that this process has: as PySpark makes them, and without Python on executors."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from slackwater import DeltaTable, Lake
from slackwater.spark.session.given_rows import given_rows
from slackwater.spark.session.modes import empty_frame
from tests.spark.written import read, save

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

_NOW = dt.datetime(2026, 3, 1, 12, 30, 0, 5)
_STRUCT = spark_types.StructType().add("a", "long").add("at", "timestamp")
_SCHEMA = (
    spark_types.StructType()
    .add("n", "long", nullable=False)
    .add("at", "timestamp")
    .add("s", _STRUCT)
    .add("m", spark_types.MapType(spark_types.StringType(), spark_types.MapType(spark_types.StringType(), _STRUCT)))
    .add("l", spark_types.ArrayType(spark_types.TimestampType()), metadata={"comment": "of times"})
)
_ROWS: list[tuple[Any, ...]] = [
    (1, _NOW, (2, _NOW), {"x": {"y": (None, _NOW), "z": None}}, [_NOW, None]),
    (2, _NOW.replace(tzinfo=dt.timezone.utc), None, {}, []),
    (3, None, (None, None), None, None),
]


def test_rows_are_those_that_spark_itself_would_make(spark: SparkSession) -> None:
    for given in (_ROWS, []):
        expected, found = spark.createDataFrame(given, _SCHEMA), given_rows(spark, given, _SCHEMA)
        assert found.schema == expected.schema == empty_frame(spark, _SCHEMA).schema == _SCHEMA
        assert found.collect() == expected.collect()
    assert empty_frame(spark, spark_types.StructType().add("v", spark_types.NullType())).collect() == []


@pytest.mark.classic
def test_frames_of_what_this_process_knows_need_no_python_of_executors(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(spark.range(0), path, **{"delta.enableChangeDataFeed": "true", "delta.enableRowTracking": "true"})
    table = DeltaTable.forPath(spark, str(path))
    merged = table.alias("t").merge(spark.range(2), "false").whenNotMatchedInsert(values={"id": "id"}).execute()
    with Lake.open(tmp_path / "lake", spark=spark) as lake:
        lake.create_table("of", "id long")
        frames = {
            "history": table.history(),
            "detail": table.detail(),
            "merged": merged,
            "no rows": read(spark, path, versionAsOf="0"),
            "no changes": read(spark, path, readChangeFeed="true", startingVersion="0", endingVersion="0"),
            "no lake": lake.table("of").toDF(),
        }
        assert {name for name, frame in frames.items() if "Python" in _lineage(frame)} == set()
    assert "Python" in _lineage(spark.createDataFrame([(1,)], "id long"))


def _lineage(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().toRdd().toDebugString())
