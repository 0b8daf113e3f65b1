"""Input that a table cannot take: a clear error, and nothing in the table's directory has changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from slackwater import DeltaTable, errors
from tests.contract.owners import eventually
from tests.spark.written import column, listing, read, rows, save, table_log

pytestmark = [pytest.mark.spark, pytest.mark.shared, pytest.mark.usefixtures("enabled")]


def _files(path: Path) -> dict[str, bytes]:
    return {p: (path / p).read_bytes() for p in listing(path) if (path / p).is_file()}


@pytest.mark.parametrize(
    ("select", "message"),
    [
        ("1 as other", "lacks: other"),
        ("cast(id as string) as id", "type long"),
        ("id, 1 as more, 2 as `and another`", "more"),
        ("interval '1' day as id", "interval"),
        ("array(id) as id", "type long"),
    ],
)
def test_columns_that_do_not_fit_are_named(spark: SparkSession, tmp_path: Path, select: str, message: str) -> None:
    path = table_log(tmp_path / "t", [column("id", "long")])
    before = listing(path)
    with pytest.raises((errors.InvalidArgument, errors.UnsupportedFeature), match=message):
        save(spark.range(1).selectExpr(*select.split(", ")), path)
    assert listing(path) == before


def _struct(**names: str) -> T.StructType:
    return T.StructType([T.StructField(n, T.LongType()) for n in names])


@pytest.mark.parametrize("mode", ["none", "name"])
@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (T.StructType([T.StructField("a", T.LongType()), T.StructField("A", T.LongType())]), "case"),
        (T.StructType([T.StructField("s", _struct(x="", X=""))]), "case"),
        (T.StructType([T.StructField("a", T.NullType())]), "void"),
        (T.StructType([T.StructField("id", T.LongType()), T.StructField("l", T.ArrayType(T.NullType()))]), "void"),
        (T.StructType([T.StructField("id", T.LongType()), T.StructField("s", T.StructType())]), "without fields"),
        (T.StructType([T.StructField("__slackwater_x", T.LongType())]), "reserved"),
        (T.StructType([]), "no columns"),
    ],
)
def test_a_table_is_not_created_with_columns_that_none_can_have(
    spark: SparkSession, tmp_path: Path, schema: T.StructType, message: str, mode: str
) -> None:
    frame = spark.createDataFrame([], schema)
    with pytest.raises(errors.InvalidArgument, match=message):
        save(frame, tmp_path / "t", **{"delta.columnMapping.mode": mode})
    assert listing(tmp_path) == []


@pytest.mark.parametrize("name", ["a b", "a,b", "a;b", "{a}", "(a)", "a\nb", "a\tb", "a=b"])
def test_illegal_characters_in_names_need_column_mapping(spark: SparkSession, tmp_path: Path, name: str) -> None:
    frame = spark.range(1).select(F.struct(F.col("id").alias(name)).alias("s"))
    with pytest.raises(errors.InvalidArgument, match="columnMapping"):
        save(frame, tmp_path / "t")
    assert listing(tmp_path) == []
    save(spark.range(1), tmp_path / "t")
    before = listing(tmp_path)
    with pytest.raises(errors.InvalidArgument, match="columnMapping"):
        save(spark.range(1).select("id", F.lit(1).alias(name)), tmp_path / "t", mergeSchema="true")
    assert listing(tmp_path) == before


def test_any_name_will_do_with_column_mapping(spark: SparkSession, tmp_path: Path) -> None:
    names = [" ,;{}()\n\t=", "a.b", "`", "é%20/\\", "id'\"", "__HIVE"]
    frame = spark.range(2).select(*(F.col("id").alias(name) for name in names))
    options = {"delta.columnMapping.mode": "name"}
    frame.write.format("delta").options(**options).partitionBy(names[0], names[3]).save(str(tmp_path / "t"))
    save(frame, tmp_path / "t")
    assert read(spark, tmp_path / "t").columns == names
    assert rows(read(spark, tmp_path / "t")) == [(0,) * 6, (0,) * 6, (1,) * 6, (1,) * 6]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["id", "p", "s", "n"], "cannot be partitioned by s"),
        (["id", "p"], "at least one column"),
        (["s.x"], "top-level"),
        (["nowhere"], "nowhere"),
        (["p", "P"], "twice"),
        (["n"], "void"),
    ],
)
def test_partitioning_that_cannot_be_is_refused(
    spark: SparkSession, tmp_path: Path, columns: list[str], message: str
) -> None:
    frame = spark.range(1).selectExpr("id", "1 as p", "named_struct('x', 1) as s", "null as n")
    if message == "at least one column":
        frame = frame.select("id", "p")
    with pytest.raises(errors.InvalidArgument, match=message):
        frame.write.format("delta").partitionBy(*columns).save(str(tmp_path / "t"))
    assert listing(tmp_path) == []


def test_a_frame_without_columns_is_not_appended(spark: SparkSession, tmp_path: Path) -> None:
    save(spark.range(1), tmp_path / "t")
    before = listing(tmp_path)
    with pytest.raises(errors.InvalidArgument, match="no columns"):
        save(spark.range(3).select(), tmp_path / "t")
    assert listing(tmp_path) == before


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        ({"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["fromTheFuture"]}, "fromTheFuture"),
        ({"minReaderVersion": 1, "minWriterVersion": 99}, "99"),
        (
            {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["timestampNanos"],
                "writerFeatures": ["timestampNanos"],
            },
            "timestampNanos",
        ),
    ],
)
def test_a_table_that_asks_too_much_of_writers_is_left_alone(
    spark: SparkSession, tmp_path: Path, protocol: dict[str, Any], message: str
) -> None:
    path = table_log(tmp_path / "t", [column("id", "long")])
    (path / "_delta_log" / f"{1:020d}.json").write_text(json.dumps({"protocol": protocol}) + "\n")
    before = _files(path)
    for mode in ("append", "overwrite"):
        with pytest.raises(errors.UnsupportedFeature, match=message):
            save(spark.range(1), path, mode)
    assert _files(path) == before


@pytest.mark.classic
def test_the_rows_of_a_table_that_is_not_parquet_are_neither_read_nor_changed(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = table_log(tmp_path / "t", [column("id", "long")])
    log = path / "_delta_log" / f"{0:020d}.json"
    log.write_text(log.read_text().replace('"provider": "parquet"', '"provider": "orc"'))
    assert '"orc"' in log.read_text()
    before = _files(path)
    table = DeltaTable.forPath(spark, str(path))
    for work in (
        lambda: save(spark.range(1), path, "append"),
        lambda: save(spark.range(1), path, "overwrite"),
        lambda: table.delete("id = 1"),
        table.toDF,
        lambda: read(spark, path),
    ):
        with pytest.raises(errors.UnsupportedFeature, match="have the format 'orc'"):
            work()
    assert _files(path) == before


def test_an_error_of_the_users_own_plan_is_sparks_and_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(0, 4, 1, 2).select(F.when(F.col("id") < 3, F.col("id")).otherwise(F.raise_error(F.lit("mine"))))
    with pytest.raises(Exception, match="mine") as raised:
        save(frame.toDF("id"), tmp_path / "t")
    assert not isinstance(raised.value, errors.SlackwaterError)
    # The task that did not fail may go on for a while.
    eventually(lambda: listing(tmp_path) == [])
    save(spark.range(1), tmp_path / "t")
    before = listing(tmp_path)
    with pytest.raises(Exception, match="mine"):
        save(frame.toDF("id"), tmp_path / "t", "overwrite")
    eventually(lambda: listing(tmp_path) == before)


def test_rows_must_say_their_partition(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    spark.sql("select 1L as id, 'a' as p").write.format("delta").partitionBy("p").save(str(path))
    before = listing(path)
    with pytest.raises(errors.InvalidArgument, match="partition column p"):
        save(spark.range(1), path)
    assert listing(path) == before
