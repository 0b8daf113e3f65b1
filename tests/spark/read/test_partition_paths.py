"""A path of a partition directory reads the partition: by the values of the log, at any version."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from slackwater import DeltaTable, errors, refresh
from slackwater.spark.read.load import load
from tests.spark.tables import write_table
from tests.spark.written import rows

pytestmark = [pytest.mark.spark, pytest.mark.modes, pytest.mark.usefixtures("enabled")]
NULL = "__HIVE_DEFAULT_PARTITION__"


@pytest.fixture
def table(spark: SparkSession, path: str) -> str:
    """Version 0 has the ids 0 to 7, by a text and by a number; version 1 one more, in p=a/k=0."""
    texts = F.array(*map(F.lit, ("a", "b c/%", None, "007")))
    frame = spark.range(0, 8, 1, 1).withColumn("p", F.element_at(texts, (F.col("id") % 4 + 1).cast("int")))
    frame = frame.withColumn("k", (F.col("id") % 2).cast("int"))
    frame.write.format("delta").partitionBy("p", "k").save(path)
    frame.where("id = 0").withColumn("id", F.lit(100).cast("long")).write.format("delta").mode("append").save(path)
    return path


def ids(spark: SparkSession, path: str, **options: object) -> list[int]:
    frame = load(spark, path, options)
    assert frame.columns == ["id", "p", "k"]
    return sorted(row["id"] for row in frame.collect())


def test_a_partition_directory_reads_the_partition(spark: SparkSession, table: str) -> None:
    assert (
        ids(spark, f"{table}/p=a") == ids(spark, f"{table}/p=a/k=0/") == ids(spark, f"{table}/k=0/p=a") == [0, 4, 100]
    )
    assert ids(spark, f"{table}/k=00") == [0, 2, 4, 6, 100], "values are compared in their types"
    assert ids(spark, f"{table}/p=007") == [3, 7]
    assert ids(spark, f"{table}/p=b c%2F%25") == ids(spark, f"{table}/p=b%20c%2F%25/k=1") == [1, 5]
    assert ids(spark, f"{table}/p={NULL}") == ids(spark, f"{table}/k=0/p={NULL}") == [2, 6]
    assert sorted(r[0] for r in spark.sql(f"SELECT id FROM delta.`{table}/p=a` WHERE id > 0").collect()) == [4, 100]


def test_a_partition_is_read_at_any_version(spark: SparkSession, table: str) -> None:
    assert ids(spark, f"{table}/p=a", versionAsOf=0) == ids(spark, f"{table}/p=a@v0") == [0, 4]
    assert ids(spark, f"{table}/p=a/k=0@v0") == [0, 4]
    frame = load(spark, f"{table}/p=a")
    DeltaTable.forPath(spark, table).delete("id = 4")
    assert (rows(frame.select("id")), rows(refresh(frame).select("id"))) == ([(0,), (100,), (4,)], [(0,), (100,)])
    with pytest.raises(errors.InvalidArgument, match="the path names a version"):
        load(spark, f"{table}/p=a@v0", {"versionAsOf": 0})


def test_only_files_of_the_partition_are_read(spark: SparkSession, table: str) -> None:
    frame = load(spark, f"{table}/p=a")
    assert len(frame.inputFiles()) == 2
    assert len(frame.where("id = 100").inputFiles()) == 1
    assert rows(frame.where("id > 3").select("id")) == [(100,), (4,)]
    assert rows(frame.where("p = '007'")) == []


def test_what_is_no_partition_is_told(spark: SparkSession, table: str) -> None:
    for fragment in ("p=zz", "p=7", "p=a/k=1", "p=a/p=007"):
        with pytest.raises(errors.TableNotFound, match=rf"version 1 has no partition {fragment}") as told:
            load(spark, f"{table}/{fragment}")
        assert told.value.error_class == "DELTA_PATH_DOES_NOT_EXIST"
    for fragment in ("P=a", "id=1", "p=a/v=x", "x=1/y=2"):
        with pytest.raises(errors.InvalidArgument, match="the table is partitioned by p, k"):
            load(spark, f"{table}/{fragment}")
    with pytest.raises(errors.InvalidArgument, match="'x' is not a value of type integer"):
        load(spark, f"{table}/p=a/k=x")
    with pytest.raises(errors.InvalidArgument, match="a change feed covers a whole table"):
        load(spark, f"{table}/p=a", {"readChangeFeed": "true", "startingVersion": 0})
    for path in (f"{table}/p=a/sub", f"{table}/sub", f"{table}-no/p=a", f"{table}/@v0/p=a"):
        with pytest.raises(errors.TableNotFound, match="_delta_log"):
            load(spark, path)


def test_a_table_in_a_directory_that_looks_like_a_partition_is_itself(spark: SparkSession, path: str) -> None:
    spark.range(3).write.format("delta").save(f"{path}/env=prod")
    spark.range(5).withColumn("env", F.lit("prod")).write.format("delta").partitionBy("env").save(path)
    assert (load(spark, f"{path}/env=prod").count(), load(spark, path).count()) == (3, 5)


def test_values_of_all_types_are_found_by_their_directories(spark: SparkSession, path: str, table: str) -> None:
    typed = str(Path(path).parent / "typed")
    frame = spark.sql(
        "SELECT id, DATE '2024-01-02' AS day, TIMESTAMP_LTZ '2024-01-02 03:04:05.5 UTC' AS at, "
        "TIMESTAMP_NTZ '2024-01-02 03:04:05' AS local, CAST('NaN' AS DOUBLE) AS x, CAST(1.50 AS DECIMAL(4, 2)) AS d, "
        "true AS b, X'00FF' AS raw FROM range(0, 2, 1, 1)"
    )
    names = ["day", "at", "local", "x", "d", "b", "raw"]
    other = frame.where("id = 0").selectExpr(
        "id + 7 AS id", *(f"CAST(NULL AS {t}) AS {n}" for n, t in frame.dtypes[1:])
    )
    frame.unionAll(other).write.format("delta").partitionBy(*names).save(typed)
    (file,) = (f for f in Path(typed).rglob("*.parquet") if NULL not in str(f) and "_delta_log" not in str(f))
    segments = file.relative_to(typed).parts[:-1]
    assert [segment.partition("=")[0] for segment in segments] == names
    for segment in (*segments, "/".join(segments), "at=2024-01-02 03:04:05.5", "b=TRUE", "d=1.5"):
        assert rows(load(spark, f"{typed}/{segment}").select("id")) == [(0,), (1,)], segment
    for name in names:
        assert rows(load(spark, f"{typed}/{name}={NULL}").select("id")) == [(7,)]


def test_mapped_columns_are_named_as_the_table_names_them(spark: SparkSession, path: str) -> None:
    frame = spark.range(4).withColumn("p", F.col("id") % 2)
    frame.write.format("delta").partitionBy("p").option("delta.columnMapping.mode", "name").save(path)
    spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN p TO q")
    assert rows(load(spark, f"{path}/q=1").select("id")) == [(1,), (3,)]


@pytest.mark.parametrize("few", [0, 256])
def test_two_partitions_of_one_table_are_two_frames(
    spark: SparkSession, tmp_path: Path, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slackwater.spark.read.table_scan.FEW_FILES", few)
    path = write_table(tmp_path / "t", [{"p": [n], "id": [n]} for n in range(3)], partition_by="p")
    frames = [load(spark, f"{path}/p={n}") for n in range(3)]
    assert [[row.id for row in frame.collect()] for frame in frames] == [[0], [1], [2]]
    assert [frame.select("*").where("id >= 0").count() for frame in frames] == [1, 1, 1]
    assert not frames[0].sameSemantics(frames[1])
