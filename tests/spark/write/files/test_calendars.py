"""Dates and timestamps from before the Gregorian calendar: every writer of files and every rebase mode keeps them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from slackwater import DeltaTable, Snapshot
from slackwater.spark.dml import executor_rewrite
from tests.spark.changed import FEED, MAPPING, VECTORS

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

MODES = ("LEGACY", "EXCEPTION", "CORRECTED")
READ_MODES = ("spark.sql.parquet.datetimeRebaseModeInRead", "spark.sql.parquet.int96RebaseModeInRead")
# Sentinels of many tables, and days that the Julian calendar counts otherwise.
ROWS = """
    select id, d, t, n, named_struct('d', d, 'a', array(t), 'm', map('k', d)) s from values
    (1, date'0001-01-01', timestamp'0001-01-01 00:00:00', timestamp_ntz'0001-01-01 00:00:00'),
    (2, date'1500-03-01', timestamp'1500-03-01 12:30:00', timestamp_ntz'1500-03-01 12:30:00'),
    (3, date'1582-10-04', timestamp'1899-12-31 23:59:59', timestamp_ntz'1582-10-04 01:00:00'),
    (4, date'2024-02-29', timestamp'2024-02-29 00:00:00', timestamp_ntz'2024-02-29 00:00:00') as v(id, d, t, n)
"""
TEXTS = "cast(id as string) id, cast(d as string) d, cast(t as string) t, cast(n as string) n, to_json(s) s"


@pytest.fixture(autouse=True)
def small_files_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_rewrite, "_WORTH_BYTES", 0)


def texts(frame: Any) -> list[tuple[str, ...]]:
    return sorted(map(tuple, frame.selectExpr(*TEXTS.split(", ")).collect()))


def files(path: str) -> list[Path]:
    return [Path(path) / unquote(each) for each in Snapshot.load(path).files(columns=["path"])["path"].to_pylist()]


def by_arrow(path: str) -> list[Path]:
    """The files that pyarrow wrote, of all versions, change files too."""
    found = (each for each in Path(path).rglob("*.parquet") if "_delta_log" not in each.parts)
    return [each for each in found if "parquet-cpp" in pq.read_metadata(each).created_by]


def make(spark: SparkSession, path: str, **properties: str) -> DeltaTable:
    frame = spark.sql(ROWS).repartitionByRange(2, "id")
    frame.write.format("delta").options(**{VECTORS: "false", **properties}).save(path)
    return DeltaTable.forPath(spark, path)


def reorg(spark: SparkSession, table: DeltaTable, path: str) -> None:
    spark.sql(f"alter table delta.`{path}` set tblproperties ('{VECTORS}' = 'true')")
    table.delete("id = 5")
    spark.sql(f"reorg table delta.`{path}` apply (purge)")


def cluster(spark: SparkSession, table: DeltaTable, path: str) -> None:
    spark.sql(f"alter table delta.`{path}` cluster by (id)")
    table.optimize().executeCompaction()


def merge(spark: SparkSession, table: DeltaTable, _path: str) -> None:
    source = spark.sql("select 5 id").alias("s")
    table.alias("t").merge(source, "t.id = s.id").whenMatchedDelete().execute()


# Each rewrites files with row 5, which then is gone or stays out of sight, with all other rows.
WRITERS: dict[str, Callable[[SparkSession, DeltaTable, str], Any]] = {
    "optimize": lambda _, table, __: table.optimize().executeCompaction(),
    "z-order": lambda _, table, __: table.optimize().executeZOrderBy("id"),
    "clustering": cluster,
    "reorg": reorg,
    "delete": lambda _, table, __: table.delete("id = 5"),
    "update": lambda _, table, __: table.update("id = 5", {"id": "6"}),
    "merge": merge,
}

# Spark's own writer orders rows along a curve.
BY_SPARK = ("z-order", "clustering")


@pytest.mark.parametrize("name", WRITERS)
def test_rewritten_files_read_the_same_in_every_rebase_mode(
    spark: SparkSession, path: str, conf: Callable[[str, str], None], name: str
) -> None:
    mapping = {MAPPING: "name"} if name == "merge" else {}
    table = make(spark, path, **mapping)
    expected = texts(spark.sql(ROWS))
    extra = spark.sql(ROWS).where("id = 4").selectExpr("5 id", "d", "t", "n", "s")
    extra.unionAll(spark.sql(ROWS).where("id = 2").selectExpr("7 id", "d", "t", "n", "s")).coalesce(1).write.format(
        "delta"
    ).mode("append").save(path)
    WRITERS[name](spark, table, path)
    assert bool(by_arrow(path)) is (name not in BY_SPARK)
    shown = {one: texts(spark.read.format("delta").load(path).where("id < 5")) for one in modes(conf)}
    assert shown == dict.fromkeys(MODES, expected)
    if by_arrow(path) and not mapping:
        plain = [texts(spark.read.parquet(*map(str, by_arrow(path))).where("id = 7")) for _ in modes(conf)]
        assert plain == [[("7", *expected[1][1:])]] * 3


@pytest.mark.parametrize("name", ["optimize", "merge"])
def test_files_of_early_releases_without_a_version_of_spark_read_right(
    spark: SparkSession, path: str, conf: Callable[[str, str], None], name: str
) -> None:
    table = make(spark, path, **{FEED: "true"})
    expected = texts(spark.sql(ROWS))
    spark.sql(ROWS).selectExpr("id + 4 id", "d", "t", "n", "s").write.format("delta").mode("append").save(path)
    WRITERS[name](spark, table, path)
    spark.sql(ROWS).selectExpr("id + 20 id", "d", "t", "n", "s").write.format("delta").mode("append").save(path)
    for file in by_arrow(path):
        without_version(file)
    shown, feeds = {}, {}
    for one in modes(conf):
        shown[one] = texts(spark.read.format("delta").load(path).where("id < 5"))
        feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load(path)
        feeds[one] = texts(feed.where("id < 5"))
    assert shown == dict.fromkeys(MODES, expected)
    assert feeds == dict.fromkeys(MODES, expected)


@pytest.mark.parametrize("legacy", ["false", "true"], ids=["version 3", "legacy keys"])
def test_files_of_the_julian_calendar_keep_their_values_when_rewritten(
    spark: SparkSession, path: str, conf: Callable[[str, str], None], legacy: str
) -> None:
    """Spark rewrites what pyarrow cannot rebase: INT96 and days that a legacy session wrote."""
    table = make(spark, path)
    expected = texts(spark.sql(ROWS))
    conf("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY" if legacy == "true" else "CORRECTED")
    conf("spark.sql.parquet.int96RebaseModeInWrite", "LEGACY" if legacy == "true" else "CORRECTED")
    conf("spark.sql.parquet.outputTimestampType", "INT96")
    for number, file in enumerate(files(path)):
        again = Path(path) / f"again-{number}"
        spark.read.parquet(str(file)).coalesce(1).write.parquet(str(again))
        next(again.glob("*.parquet")).replace(file)
        (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
    # The log says how long the files were.
    assert texts(spark.read.format("delta").load(path)) == expected
    table.optimize().executeCompaction()
    for _ in modes(conf):
        assert texts(spark.read.format("delta").load(path)) == expected


@pytest.mark.long
def test_rows_written_and_changed_by_arrow_read_the_same_in_every_rebase_mode(
    spark: SparkSession, path: str, conf: Callable[[str, str], None]
) -> None:
    conf("spark.slackwater.rows", "arrow")
    expected = texts(spark.sql(ROWS))
    table = make(spark, path, **{FEED: "true"})
    spark.sql(ROWS).selectExpr("id + 4 id", "d", "t", "n", "s").write.format("delta").mode("append").save(path)
    table.update("id > 4", {"id": "id + 10"})
    assert any("_change_data" in file.parts for file in by_arrow(path))
    for rows in ("auto", "arrow"):
        conf("spark.slackwater.rows", rows)
        for mode in modes(conf):
            assert texts(spark.read.format("delta").load(path).where("id < 5")) == expected, (rows, mode)
            feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load(path)
            assert texts(feed.where("id < 5")) == expected, (rows, mode)
            plain = texts(spark.read.parquet(*map(str, by_arrow(path))).where("id = 2"))
            assert set(plain) == set(expected[1:2]), mode


def test_rewriting_in_a_session_that_rebases_keeps_files_of_both_calendars(
    spark: SparkSession, path: str, conf: Callable[[str, str], None]
) -> None:
    """A file without a version is Julian in a LEGACY session, unless an early release of this package wrote it."""
    table = make(spark, path)
    table.optimize().executeCompaction()
    for file in by_arrow(path):
        without_version(file)
    spark.sql(ROWS).selectExpr("id + 4 id", "d", "t", "n", "s").coalesce(1).write.format("delta").mode("append").save(
        path
    )
    (other,) = set(files(path)) - set(by_arrow(path))
    without_version(other)
    (other.parent / f".{other.name}.crc").unlink(missing_ok=True)
    for key in READ_MODES:
        conf(key, "LEGACY")
    before = texts(spark.read.format("delta").load(path))
    assert len({row[1] for row in before}) == 7, "days of the other file are rebased, but for those of today"
    table.optimize().executeCompaction()
    for _ in modes(conf):
        assert texts(spark.read.format("delta").load(path)) == before


def modes(conf: Callable[[str, str], None]) -> Any:
    """Every rebase mode, in which the session is while the caller goes on."""
    for mode in MODES:
        for key in READ_MODES:
            conf(key, mode)
        yield mode


def without_version(file: Path) -> None:
    """Write `file` again as early releases did: with no metadata."""
    table = pq.read_table(file).replace_schema_metadata(None)
    pq.write_table(table, file, store_schema=False)
    assert b"org.apache.spark.version" not in (pq.read_metadata(file).metadata or {})
