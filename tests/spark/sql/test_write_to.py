"""`df.writeTo(name)` on Delta tables, and on all others as before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import slackwater
from slackwater.errors import InvalidArgument, TableAlreadyExists, TableNotFound, UnsupportedFeature

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("db")]

Rows = Callable[..., list[tuple[Any, ...]]]


def test_a_table_is_created_filled_and_replaced(spark: SparkSession, rows: Rows) -> None:
    frame = spark.range(4).withColumn("p", F.col("id") % 2)
    writer = frame.writeTo("t").using("delta").partitionedBy(F.col("p")).tableProperty("delta.appendOnly", "false")
    writer.tableProperty("k", "v").create()
    detail = slackwater.DeltaTable.forName(spark, "t").detail().collect()[0]
    assert detail.partitionColumns == ["p"]
    assert (detail.properties["delta.appendOnly"], detail.properties["k"]) == ("false", "v")
    frame.selectExpr("p", "id + 10 AS id").where("id = 11").writeTo("t").append()
    assert rows("SELECT * FROM t") == [(0, 0), (1, 1), (11, 1), (2, 0), (3, 1)]
    spark.createDataFrame([(7, 1)], "id BIGINT, p BIGINT").writeTo("t").overwritePartitions()
    assert rows("SELECT * FROM t") == [(0, 0), (2, 0), (7, 1)]
    spark.createDataFrame([(8, 0)], "id BIGINT, p BIGINT").writeTo("t").overwrite("p = 0")
    assert rows("SELECT * FROM t") == [(7, 1), (8, 0)]
    spark.createDataFrame([(9, 0)], "id BIGINT, p BIGINT").writeTo("t").overwrite(F.lit(True))
    assert rows("SELECT * FROM t") == [(9, 0)]
    spark.range(1).writeTo("t").using("delta").createOrReplace()
    assert rows("SELECT * FROM t") == [(0,)]
    spark.range(2).toDF("x").writeTo("t").using("delta").replace()
    assert spark.table("t").columns == ["x"]


def test_mistakes_are_named(spark: SparkSession) -> None:
    frame = spark.range(1)
    frame.writeTo("t").using("delta").create()
    with pytest.raises(TableAlreadyExists):
        frame.writeTo("t").using("delta").create()
    with pytest.raises(TableNotFound, match="cannot be replaced"):
        frame.writeTo("missing").using("delta").replace()
    with pytest.raises(InvalidArgument, match="SQL text"):
        frame.writeTo("t").overwrite(F.col("id") == 1)
    with pytest.raises(UnsupportedFeature, match="partitioned by columns"):
        frame.writeTo("u").using("delta").partitionedBy(F.partitioning.bucket(4, "id")).create()
    with pytest.raises(Exception, match=r"(?i)not.*found|cannot be found"):
        frame.writeTo("missing").append()
    assert not spark.catalog.tableExists("u")


def test_other_formats_are_spark_s(spark: SparkSession, rows: Rows, tmp_path: Path) -> None:
    spark.range(2).writeTo("plain").using("parquet").create()
    assert rows("SELECT * FROM plain") == [(0,), (1,)]
    assert list(tmp_path.rglob("*.parquet"))


def test_tables_of_a_lake(spark: SparkSession, rows: Rows, lake: slackwater.Lake) -> None:
    spark.range(2).writeTo("lake.numbers").create()
    spark.range(2, 3).writeTo("lake.numbers").append()
    assert rows("SELECT * FROM lake.numbers") == [(0,), (1,), (2,)]
