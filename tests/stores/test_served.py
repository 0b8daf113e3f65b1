"""Rows in a bucket by Spark's own reader and writer, without a connector: this process serves it the store's files."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import cast

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import slackwater
from slackwater import DeltaTable
from slackwater.spark.hadoop import web_hdfs
from slackwater.spark.storage.row_transport import served_to_spark
from slackwater.storage import open_store
from tests.stores.connector import served as is_served
from tests.stores.servers import Place

pytestmark = [pytest.mark.spark, pytest.mark.classic, is_served]
_CSRF = "dfs.webhdfs.rest-csrf"


def plan(spark: SparkSession, path: str, **options: str) -> str:
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        spark.read.format("delta").options(**options).load(path).where("id > 3").select("id").explain(True)
    return shown.getvalue()


@pytest.fixture
def table(spark: SparkSession, s3: Place, path: str) -> str:
    del s3
    spark.range(10).selectExpr("id", "id % 2 AS p").write.format("delta").partitionBy("p").save(path)
    return path


def test_plans_are_those_of_a_disk(spark: SparkSession, table: str) -> None:
    found = plan(spark, table)
    assert "PushedFilters: [IsNotNull(id), GreaterThan(id,3)]" in found
    assert "ReadSchema: struct<id:bigint>" in found
    assert "MapInArrow" not in found
    assert "MapInArrow" in plan(spark, table, rows="arrow")


def test_the_secret_is_in_no_plan_and_no_setting_of_the_session(spark: SparkSession, table: str) -> None:
    served = served_to_spark(spark, open_store(table, {"aws_region": "us-east-1"}))
    assert served is not None
    secret = served.header.rpartition("-")[2]
    assert len(secret) == 48
    assert secret not in plan(spark, table) + "".join(spark.conf.getAll.values())


@pytest.mark.long
def test_a_file_of_several_parts_is_read_whole(spark: SparkSession, s3: Place) -> None:
    path = f"{s3.url}/large"
    values = spark.range(0, 700_000, 1, 1).selectExpr("id", f"concat('{'x' * 30}', id) AS s")
    values.write.format("delta").option("compression", "none").save(path)
    sums = [F.count("*"), F.sum("id"), F.sum(F.crc32("s"))]
    expected = values.agg(*sums).collect()
    assert spark.read.format("delta").load(path).agg(*sums).collect() == expected
    assert spark.read.format("delta").load(path).agg(sums[2]).collect()[0][0] == expected[0][2]
    (size,) = slackwater.Snapshot.load(path, storage_options=s3.options).files()["size"].to_pylist()
    assert size > 24 << 20


def test_a_clone_reads_files_of_another_place(spark: SparkSession, s3: Place, table: str) -> None:
    target = f"{s3.url}/clone of it"
    DeltaTable.forPath(spark, table).clone(target, isShallow=True)
    DeltaTable.forPath(spark, target).delete("id = 4")
    rows = spark.read.format("delta").load(target).collect()
    assert sorted(row.id for row in rows) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert spark.read.format("delta").load(table).count() == 10


def test_spark_replays_a_log(spark: SparkSession, table: str) -> None:
    changed = DeltaTable.forPath(spark, table)
    changed.delete("id = 3")
    changed.checkpoint()
    changed.update("id = 4", {"id": "id + 100"})
    rows = spark.read.format("delta").option("replay", "spark").load(table).collect()
    assert sorted(row.id for row in rows) == [0, 1, 2, 5, 6, 7, 8, 9, 104]


def test_files_are_called_by_their_paths_below_the_root(spark: SparkSession, s3: Place, table: str) -> None:
    rows = spark.read.format("delta").load(table).select("p", F.col("_metadata.file_path").alias("file")).collect()
    served = served_to_spark(spark, open_store(table, s3.options))
    assert served is not None
    (root,) = {row.file.rpartition("/p=")[0].rpartition("/")[0] for row in rows}
    assert root.rpartition("/")[0] == served.url
    assert {row.p for row in rows if "/p=1/" in row.file} == {1}


@pytest.fixture
def looked_anew(spark: SparkSession, table: str) -> Iterator[None]:
    del table  # Which is there before.
    settings = spark._jsc.hadoopConfiguration()
    names = [f"{_CSRF}.{name}" for name in ("enabled", "custom-header", "methods-to-ignore")]
    before, tried = [settings.get(name) for name in names], spark.__dict__.pop(web_hdfs._TRIED, None)
    yield
    for name, value in zip(names, before, strict=True):
        settings.unset(name) if value is None else settings.set(name, value)
    spark.__dict__[web_hdfs._TRIED] = tried


@pytest.mark.usefixtures("looked_anew")
def test_a_session_with_a_header_of_its_own_keeps_it(spark: SparkSession, table: str) -> None:
    settings = spark._jsc.hadoopConfiguration()
    settings.set(f"{_CSRF}.enabled", "true")
    settings.set(f"{_CSRF}.custom-header", "X-OURS")
    assert "MapInArrow" in plan(spark, table)
    assert settings.get(f"{_CSRF}.custom-header") == "X-OURS"
    with pytest.raises(slackwater.errors.UnsupportedFeature, match="no file system for s3a"):
        plan(spark, table, rows="spark")


@pytest.mark.usefixtures("looked_anew")
def test_where_hadoops_client_does_not_read_rows_go_by_arrow(
    spark: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web_hdfs, "_EXPECTED", "another")
    assert "MapInArrow" in plan(spark, table)


def test_two_sessions_read_by_one_server(spark: SparkSession, s3: Place, table: str) -> None:
    other = spark.newSession()
    for key in ("fs.s3a.endpoint", "fs.s3a.endpoint.region", "fs.s3a.access.key", "fs.s3a.secret.key"):
        other.conf.set(key, cast("str", spark.conf.get(key)))
    other.conf.set("fs.s3a.path.style.access", "true")
    slackwater.enable(other)
    assert other.read.format("delta").load(table).count() == 10
    assert served_to_spark(other, open_store(table, s3.options)) is served_to_spark(
        spark, open_store(table, s3.options)
    )
