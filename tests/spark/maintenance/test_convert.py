"""Parquet files become a table that reads as `spark.read.parquet` did, cell by cell."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types

from slackwater import DeltaTable, errors
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.maintenance import convert as service
from tests.spark.written import read, rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

Setting = Callable[[str, str], None]

# Of every type, with its edges.
_CELLS = """
    SELECT CAST(id AS BIGINT) AS l, CAST(id AS TINYINT) AS b, CAST(id AS SMALLINT) AS s, CAST(id AS INT) AS i,
           IF(id = 0, NULL, concat('é', id)) AS t, CAST(concat('b', id) AS BINARY) AS y, id % 2 = 0 AS o,
           IF(id = 2, CAST('NaN' AS DOUBLE), id / 3) AS d, CAST(IF(id = 2, 'NaN', -0.0) AS FLOAT) AS f,
           CAST(id * 1.25 AS DECIMAL(12, 3)) AS dec, CAST(id AS DECIMAL(38, 18)) AS wide,
           date_add(DATE '1500-01-01', CAST(id * 100000 AS INT)) AS day,
           timestamp_micros(id * 3333333333333333 - 9999999999999999) AS ts,
           make_timestamp_ntz(1899 + CAST(id AS INT) * 100, 1, 2, 3, 4, 5.123456) AS ntz,
           named_struct('x', IF(id = 1, NULL, id), 'y', array(id, NULL)) AS st, map('k', named_struct('v', id)) AS m,
           array(array(CAST(id AS STRING))) AS aa
    FROM range(3)
"""
_PARTITIONS = """
    SELECT id, IF(id = 0, NULL, CAST(id AS INT)) AS pi, IF(id = 1, NULL, concat('a=b/%:', id)) AS ps,
           date_add(DATE '2026-01-01', CAST(id AS INT)) AS pd, timestamp_micros(id * 1234567890123456) AS pt,
           CAST(id * 1.5 AS DECIMAL(10, 2)) AS pc
    FROM range(4)
"""
_SCHEMA = "pi INT, ps STRING, pd DATE, pt TIMESTAMP, pc DECIMAL(10, 2)"


def _convert(spark: SparkSession, path: Path, partitions: Any = None, **more: Any) -> DeltaTable:
    return DeltaTable.convertToDelta(spark, f"parquet.`{path}`", partitions, **more)


@pytest.mark.modes
@pytest.mark.parametrize("times", ["INT96", "TIMESTAMP_MILLIS", "TIMESTAMP_MICROS"])
@pytest.mark.parametrize("calendar", ["CORRECTED", "LEGACY"])
def test_every_cell_is_as_it_was(spark: SparkSession, tmp_path: Path, conf: Setting, times: str, calendar: str) -> None:
    conf("spark.sql.parquet.outputTimestampType", times)
    conf("spark.sql.parquet.datetimeRebaseModeInWrite", calendar)
    conf("spark.sql.parquet.int96RebaseModeInWrite", calendar)
    path = tmp_path / "t"
    spark.sql(_CELLS).write.parquet(str(path))
    frame = spark.read.parquet(str(path))
    before = repr(rows(frame))
    table = _convert(spark, path)
    assert table.toDF().schema == frame.schema
    assert repr(rows(table.toDF())) == before
    # Files are left out by their statistics only where no row is lost.
    for cell in (
        "l = 2",
        "day < DATE '1600-01-01'",
        "ts < TIMESTAMP '1800-01-01 00:00:00'",
        "d > 5",
        "f >= 0",
        "t > 'é1'",
    ):
        assert repr(rows(read(spark, path).where(cell))) == repr(rows(frame.where(cell))), cell


@pytest.mark.modes
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_every_partition_is_as_it_was(spark: SparkSession, tmp_path: Path, conf: Setting, zone: str) -> None:
    conf("spark.sql.session.timeZone", zone)
    path = tmp_path / "t"
    names = ["pi", "ps", "pd", "pt", "pc"]
    spark.sql(_PARTITIONS).write.partitionBy(*names).parquet(str(path))
    frame = spark.read.schema(f"id BIGINT, {_SCHEMA}").parquet(str(path))
    before = rows(frame)
    assert before == rows(spark.sql(_PARTITIONS))
    table = _convert(spark, path, _SCHEMA)
    assert table.toDF().schema == frame.schema
    assert rows(table.toDF()) == before
    conf("spark.sql.session.timeZone", "Asia/Tokyo")
    assert rows(read(spark, path).where("pi IS NULL")) == [row for row in before if row[1] is None]
    assert table.detail().collect()[0].partitionColumns == names


def test_the_schema_may_be_a_value_and_columns_may_differ(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    spark.sql("SELECT 1 AS id, 's' AS a").write.parquet(f"{path}/p=1")
    spark.sql("SELECT 2 AS id, named_struct('x', 1) AS b").write.parquet(f"{path}/p=2")
    frame = spark.read.option("mergeSchema", "true").parquet(str(path))
    before = rows(frame.select("id", "a", "b", "p"))
    table = _convert(spark, path, spark_types.StructType().add("p", "integer"))
    assert rows(table.toDF().select("id", "a", "b", "p")) == before


def test_who_goes_on_writes_into_the_same_table(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    spark.range(3).selectExpr("id", "id % 2 AS p").write.partitionBy("p").parquet(str(path))
    table = _convert(spark, path, "p BIGINT", collect_stats=False)
    files = Snapshot.load(path).live_files(["stats"])
    assert files["stats"].null_count == files.num_rows
    spark.sql("SELECT 9L AS id, 1L AS p").write.format("delta").mode("append").save(str(path))
    table.update("id = 0", {"id": "7L"})
    table.delete("id = 1")
    assert rows(table.toDF()) == [(2, 0), (7, 0), (9, 1)]
    assert [row.operation for row in table.history().collect()] == ["DELETE", "UPDATE", "WRITE", "CONVERT"]


def test_a_table_is_left_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    spark.range(2).write.format("delta").save(str(path))
    for identifier in (f"parquet.`{path}`", f"delta.`{path}`", f"PARQUET.`{path}`"):
        assert rows(DeltaTable.convertToDelta(spark, identifier).toDF()) == [(0,), (1,)]
    assert Snapshot.load(path).version == 0


def test_properties_of_the_session_are_the_tables(spark: SparkSession, tmp_path: Path, conf: Setting) -> None:
    conf("spark.databricks.delta.properties.defaults.enableChangeDataFeed", "true")
    conf("spark.databricks.delta.commitInfo.userMetadata", "moved")
    spark.range(2).write.parquet(str(tmp_path / "t"))
    table = _convert(spark, tmp_path / "t")
    assert table.detail().collect()[0].properties["delta.enableChangeDataFeed"] == "true"
    assert table.history().collect()[0].userMetadata == "moved"


@pytest.mark.modes
@pytest.mark.parametrize(
    ("identifier", "partitions", "kind", "text"),
    [
        ("some.table", None, errors.UnsupportedFeature, "Use parquet"),
        ("iceberg.`/x`", None, errors.UnsupportedFeature, "Use parquet"),
        ("parquet.`{path}`", "p INT,,", errors.InvalidArgument, "not a data type"),
        ("parquet.`{path}`", 5, errors.InvalidArgument, "partitionSchema must be"),
        ("parquet.`{path}`", None, errors.InvalidArgument, r"names partition columns \['p'\]"),
        ("parquet.`{path}/nowhere`", None, errors.InvalidArgument, "there is no Parquet file"),
        (7, None, errors.InvalidArgument, "identifier must be a text"),
    ],
)
def test_what_cannot_be_converted_is_told(
    spark: SparkSession, tmp_path: Path, identifier: Any, partitions: Any, kind: type[Exception], text: str
) -> None:
    path = tmp_path / "t"
    spark.range(1).selectExpr("id", "1 AS p").write.partitionBy("p").parquet(str(path))
    named = identifier.format(path=path) if isinstance(identifier, str) else identifier
    with pytest.raises(kind, match=text):
        DeltaTable.convertToDelta(spark, named, partitions)
    assert not (path / "_delta_log").exists()


@pytest.mark.modes
def test_footers_of_many_files_are_read_by_tasks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    spark.range(6).repartition(6).write.parquet(str(path))
    _convert(spark, path)
    files = Snapshot.load(path).live_files(["path", "size", "stats"])
    shutil.rmtree(path / "_delta_log")
    monkeypatch.setattr(service, "_MANY", 3)
    _convert(spark, path)
    assert Snapshot.load(path).live_files(["path", "size", "stats"]).equals(files)
    shutil.rmtree(path / "_delta_log")
    (path / "notes").write_text("hello")
    with pytest.raises(errors.InvalidArgument, match="notes is not a Parquet file"):
        _convert(spark, path)


@pytest.mark.modes
def test_manifests_name_files_that_other_engines_read(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    spark.range(4).selectExpr("id", "id % 2 AS p").write.partitionBy("p").format("delta").save(str(path))
    table = DeltaTable.forPath(spark, str(path))
    table.generate("Symlink_Format_Manifest")
    listed = (path / "_symlink_format_manifest" / "p=1" / "manifest").read_text().splitlines()
    assert rows(spark.read.parquet(*listed)) == [(1,), (3,)]
    table.delete("p = 1")
    table.generate("symlink_format_manifest")
    assert [p.name for p in (path / "_symlink_format_manifest").glob("*/manifest")] == ["manifest"]
    with pytest.raises(errors.InvalidArgument, match="no manifests of mode"):
        table.generate("other")


@pytest.mark.parametrize("way", ["auto", "arrow"])
def test_variants_of_other_writers_read_as_before(
    spark: SparkSession, tmp_path: Path, conf: Setting, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    conf("spark.slackwater.rows", way)
    place = tmp_path / "t"
    place.mkdir()
    values = ["'x'::VARIANT", "{'a': 1, 'b': [1, 2.5]}::VARIANT", "[]::VARIANT", "5::VARIANT"]
    selected = " UNION ALL ".join(f"SELECT {number} AS id, {value} AS v" for number, value in enumerate(values))
    duckdb.sql(f"COPY ({selected}) TO '{place}/f.parquet'")
    before = rows(spark.read.parquet(str(place)).selectExpr("id", "typeof(v)", "to_json(v)"))
    monkeypatch.setattr(service, "_MANY", 1)
    table = _convert(spark, place)
    assert table.toDF().dtypes == [("id", "int"), ("v", "variant")]
    assert rows(table.toDF().selectExpr("id", "typeof(v)", "to_json(v)")) == before
    assert rows(table.toDF().selectExpr("v:a::int").where("id = 1")) == [(1,)]
    assert "variantShredding" in (Snapshot.load(str(place)).protocol.reader_features or ())
    spark.sql(f"UPDATE delta.`{place}` SET v = parse_json('7') WHERE id = 3")
    assert rows(table.toDF().selectExpr("to_json(v)").where("id = 3")) == [("7",)]
