"""Columns that are NOT NULL in a table, in the schema of its frames and in Spark's plans."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

import slackwater
from slackwater import DeltaTable
from slackwater.spark.session.classic_connect import is_connect
from slackwater.spark.session.temporary_settings import with_settings

pytestmark = [pytest.mark.spark, pytest.mark.modes]

_COLUMNS = "id INT NOT NULL, v STRING, p INT NOT NULL, s STRUCT<a: INT NOT NULL, b: STRING>, day DATE NOT NULL"
_ROWS = (
    "(1, 'one', 1, named_struct('a', 1, 'b', 'x'), DATE'2026-11-21')",
    "(2, NULL, 2, NULL, DATE'2026-11-22')",
    "(3, 'three', 2, named_struct('a', 3, 'b', NULL), DATE'2026-11-22')",
)
_STRICT = {"id", "p", "day"}


@pytest.fixture(autouse=True)
def _enabled(spark: SparkSession) -> None:
    slackwater.enable(spark)


@pytest.fixture(params=["none", "name", "id"])
def path(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> str:
    """A table with NOT NULL columns of every place, by each mode of column mapping; row 1 is deleted by a vector."""
    place = f"{tmp_path}/a table"
    spark.sql(
        f"CREATE TABLE delta.`{place}` ({_COLUMNS}) USING delta PARTITIONED BY (p, day) TBLPROPERTIES ("
        f"'delta.columnMapping.mode' = '{request.param}', 'delta.enableDeletionVectors' = 'true', "
        "'delta.enableChangeDataFeed' = 'true')"
    )
    spark.sql(f"INSERT INTO delta.`{place}` VALUES {', '.join(_ROWS)}")
    return place


def strict(frame: DataFrame) -> set[str]:
    return {column.name for column in frame.schema if not column.nullable}


def test_columns_that_are_not_null_are_not_nullable_however_the_table_is_read(spark: SparkSession, path: str) -> None:
    frames = {
        "load": spark.read.format("delta").load(path),
        "an earlier version": spark.read.format("delta").option("versionAsOf", 0).load(path),
        "SQL": spark.sql(f"SELECT * FROM delta.`{path}`"),
        "fewer files": spark.read.format("delta").load(path).where("p = 1"),
        "no file": spark.read.format("delta").load(path).where("p = 7"),
        "DeltaTable": DeltaTable.forPath(spark, path).toDF(),
        "the feed": spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load(path),
    }
    found = {name: strict(frame) & {*_STRICT, "v", "s"} for name, frame in frames.items()}
    expected = dict.fromkeys(found, _STRICT)
    if is_connect(spark):
        # Of these the server tells the schema, and Spark's own reader says of no column that it is never null.
        expected |= {"SQL": set(), "the feed": set()}
    assert found == expected


def test_connect_frames_that_keep_the_columns_keep_the_schema_and_read_as_before(
    spark: SparkSession, path: str
) -> None:
    frame = spark.read.format("delta").load(path)
    for kept in (frame.where("v = 'one'"), frame.limit(2), frame.orderBy("id"), frame.alias("t")):
        assert strict(kept) == _STRICT
    plan = io.StringIO()
    with contextlib.redirect_stdout(plan), with_settings(spark, {"spark.sql.maxMetadataStringLength": "1000"}):
        frame.where("id > 1").where("v = 'three'").select("id").explain()
    assert "EqualTo" in plan.getvalue().partition("PushedFilters: [")[2].partition("]")[0]
    read = plan.getvalue().partition("ReadSchema: ")[2].splitlines()[0]
    assert read.count(":") == 2
    by_pandas: Any = frame.toPandas()
    assert by_pandas.shape == (3, 5)
    assert [row.id for row in frame.where("v = 'three'").select("id").collect()] == [3]


def test_columns_that_executors_read_are_not_nullable(spark: SparkSession, path: str) -> None:
    frame = spark.read.format("delta").option("rows", "arrow").load(path)
    assert strict(frame) == _STRICT
    assert {row.id: row.p for row in frame.collect()} == {1: 1, 2: 2, 3: 2}


def test_a_field_of_a_struct_is_not_nullable_and_null_where_its_struct_is(spark: SparkSession, path: str) -> None:
    frame = spark.read.format("delta").load(path)
    struct = frame.schema["s"].dataType
    assert isinstance(struct, spark_types.StructType)
    assert [field.nullable for field in struct] == [False, True]
    assert frame.where("s IS NOT NULL").select("s.a").schema["a"].nullable
    assert {tuple(row) for row in frame.select("id", "s.a").collect()} == {(1, 1), (2, None), (3, 3)}
    assert [row.id for row in frame.where("s.a IS NULL").collect()] == [2]


def test_rows_are_the_same_with_and_without_a_deletion_vector(spark: SparkSession, path: str) -> None:
    DeltaTable.forPath(spark, path).delete("id = 2")
    frame = spark.read.format("delta").load(path)
    assert strict(frame) == _STRICT
    assert {tuple(row) for row in frame.select("id", "p", F.col("day").cast("string")).collect()} == {
        (1, 1, "2026-11-21"),
        (3, 2, "2026-11-22"),
    }
    assert frame.where("id IS NULL OR p IS NULL").count() == 0


@pytest.mark.classic
def test_files_columns_and_rows_are_pruned_as_before(spark: SparkSession, path: str) -> None:
    frame = spark.read.format("delta").load(path).where("p = 2 AND id > 2").select("s.b", "_metadata.file_path")
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "GreaterThan" in plan.partition("PushedFilters: [")[2].partition("]")[0]
    leaf = frame._jdf.queryExecution().sparkPlan().collectLeaves().apply(0)
    assert leaf.requiredSchema().size() == 2
    if leaf.requiredSchema().fieldNames()[0] == "id":
        # A cast to other names, that of column mapping, needs all of a struct.
        assert leaf.requiredSchema().apply("s").dataType().simpleString() == "struct<b:string>"
    (row,) = frame.collect()
    assert row.b is None


@pytest.mark.classic
def test_spark_itself_prunes_partitions(spark: SparkSession, path: str) -> None:
    frame = spark.read.format("delta").load(path).alias("t").select("*").where("p = 1")
    assert "PartitionFilters: [(" in frame._jdf.queryExecution().executedPlan().toString()


def test_an_outer_join_makes_columns_nullable(spark: SparkSession, path: str) -> None:
    frame = spark.read.format("delta").load(path)
    keys = spark.range(1, 6).selectExpr("cast(id as int) AS k")
    joined = keys.join(frame, F.col("k") == F.col("id"), "left")
    assert sorted((row.k, row.id) for row in joined.select("k", "id").collect()) == [
        (1, 1),
        (2, 2),
        (3, 3),
        (4, None),
        (5, None),
    ]
    assert joined.where("id IS NULL").count() == 2


@pytest.mark.parametrize("rows", ["spark", "arrow"])
def test_partition_columns_are_not_nullable_whether_their_values_are_all_the_same_or_not(
    spark: SparkSession, tmp_path: Path, rows: str
) -> None:
    place = f"{tmp_path}/t"
    # Timestamps are no text that Spark reads from a directory as the log has it: they are joined to the rows.
    spark.sql(f"CREATE TABLE delta.`{place}` (id INT, p TIMESTAMP NOT NULL) USING delta PARTITIONED BY (p)")
    for number in (1, 2):
        spark.sql(f"INSERT INTO delta.`{place}` VALUES ({number}, TIMESTAMP'2026-11-2{number} 10:00:00')")
        frame = spark.read.format("delta").option("rows", rows).load(place)
        assert not frame.schema["p"].nullable
        assert frame.where("p IS NOT NULL").count() == number


def test_a_feed_over_versions_in_which_a_column_was_nullable_says_so(spark: SparkSession, tmp_path: Path) -> None:
    place = f"{tmp_path}/t"
    spark.sql(
        f"CREATE TABLE delta.`{place}` (id INT, v INT NOT NULL) USING delta "
        "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    spark.sql(f"INSERT INTO delta.`{place}` VALUES (NULL, 1), (2, 2)")
    spark.sql(f"DELETE FROM delta.`{place}` WHERE id IS NULL")
    spark.sql(f"ALTER TABLE delta.`{place}` ALTER COLUMN id SET NOT NULL")
    spark.sql(f"INSERT INTO delta.`{place}` VALUES (3, 3)")
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    whole, last = (reader.option("startingVersion", start).load(place) for start in (0, 4))
    assert strict(whole) & {"id", "v"} == set()
    assert strict(last) & {"id", "v"} == (set() if is_connect(spark) else {"id", "v"})
    assert whole.where("id IS NULL").count() == 2


def test_arrays_without_nulls_read_under_column_mapping(spark: SparkSession, tmp_path: Path) -> None:
    place = f"{tmp_path}/t"
    columns = spark_types.StructType(
        [
            spark_types.StructField("a", spark_types.ArrayType(spark_types.IntegerType(), False)),
            spark_types.StructField(
                "s",
                spark_types.StructType().add(
                    "m", spark_types.MapType(spark_types.StringType(), spark_types.IntegerType(), False)
                ),
            ),
        ]
    )
    builder = DeltaTable.create(spark).location(place).addColumns(columns)
    builder.property("delta.columnMapping.mode", "name").execute()
    spark.sql(f"INSERT INTO delta.`{place}` VALUES (array(1, 2), named_struct('m', map('k', 1)))")
    DeltaTable.forPath(spark, place).update("a[0] = 1", {"a": "array(7)"})
    frame = spark.read.format("delta").load(place)
    array = frame.schema["a"].dataType
    assert isinstance(array, spark_types.ArrayType)
    assert not array.containsNull
    assert [(row.a, row.s.m) for row in frame.collect()] == [([7], {"k": 1})]
