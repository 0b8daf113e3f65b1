"""Queries and views made, named and read in different time zones of the session: rows are those of plain Parquet."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import slackwater
from slackwater.errors import InvalidArgument, UnsupportedFeature
from slackwater.spark.read import table_scan
from slackwater.spark.session.classic_connect import is_connect
from tests.spark.times import CONDITIONS, ZONE, ZONES, two_days

pytestmark = [pytest.mark.spark, pytest.mark.modes]

# The zones of `spark.sql` and of two reads of its frame.
STEPS = ["UKU", "KUN"]
BY_DAY = "day <= '2024-01-04 06:00:00'"

Conf = Callable[[str, str], None]


@pytest.fixture(params=["few files", "many files"])
def tables(
    request: pytest.FixtureRequest, spark: SparkSession, db: str, conf: Conf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables `delta` and `parquet` of the current database, with the same rows in many files."""
    if request.param == "many files":
        monkeypatch.setattr(table_scan, "FEW_FILES", 0)
    conf(ZONE, "UTC")
    rows = two_days(spark)
    rows.write.format("delta").option("maxRecordsPerFile", 3).partitionBy("day").saveAsTable(f"{db}.by_delta")
    rows.write.format("parquet").saveAsTable(f"{db}.by_parquet")


def ids(frame: DataFrame) -> list[int]:
    return sorted(row["id"] for row in frame.select("id").collect())


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("query", ["SELECT id FROM {0} WHERE {1}", "SELECT * FROM (SELECT * FROM {0}) WHERE {1}"])
def test_the_zone_changes_between_a_query_and_its_reads(
    spark: SparkSession, tables: None, db: str, steps: str, query: str, conf: Conf
) -> None:
    def found(kind: str, condition: str) -> list[list[int]]:
        conf(ZONE, ZONES[steps[0]])
        frame = spark.sql(query.format(f"{db}.by_{kind}", condition))
        rows = []
        for step in steps[1:]:
            conf(ZONE, ZONES[step])
            rows.append(ids(frame))
        return rows

    for condition in [*CONDITIONS, BY_DAY]:
        delta, parquet = (found(kind, condition) for kind in ("delta", "parquet"))
        assert delta == parquet, condition
        assert any(parquet), condition


@pytest.mark.parametrize("kind", ["VIEW", "TEMP VIEW", "GLOBAL TEMP VIEW"])
def test_a_view_reads_times_in_the_zone_of_its_creation(
    spark: SparkSession, tables: None, db: str, kind: str, conf: Conf
) -> None:
    names = {"VIEW": f"{db}.v_{{}}", "TEMP VIEW": "v_{}", "GLOBAL TEMP VIEW": "global_temp.v_{}"}

    def found(source: str, condition: str, query: str) -> list[list[int] | None]:
        name, whole = f"v_{source}", names[kind].format(source)
        conf(ZONE, "UTC")
        spark.sql(f"CREATE OR REPLACE {kind} {name} AS SELECT * FROM {db}.by_{source} WHERE {condition}")

        def read(zones: str) -> list[int]:
            conf(ZONE, ZONES[zones[0]])
            frame = spark.sql(query.format(whole)) if query else spark.table(whole)
            conf(ZONE, ZONES[zones[1]])
            return ids(frame)

        rows: list[list[int] | None] = [read("UU")]
        for zones in ("KK", "KU", "UK"):
            if source == "delta" and is_connect(spark):
                with pytest.raises(UnsupportedFeature, match=f"{name}.* was created with {ZONE}=UTC.*has Asia/Kolkata"):
                    read(zones)
                rows.append(None)
            else:
                rows.append(read(zones))
        return rows

    outer = "SELECT id FROM {} WHERE day < '2024-01-05 03:00:00'"
    for condition, query in ((CONDITIONS[0], ""), (BY_DAY, outer)):
        delta, parquet = (found(source, condition, query) for source in ("delta", "parquet"))
        if is_connect(spark):
            delta, parquet = delta[:1], parquet[:1]
        assert delta == parquet, (condition, query)
        assert any(parquet), condition
    for source in ("delta", "parquet"):
        spark.sql(f"DROP VIEW {names[kind].format(source)}")


NOON = dt.datetime(2024, 1, 2, 12, tzinfo=dt.timezone.utc)


def three_versions(spark: SparkSession, path: Path) -> None:
    """Create the table `t` with versions of 12, 16 and 20 o'clock in UTC. Each has one more row."""
    spark.sql("CREATE TABLE t USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true) AS SELECT 0 AS id")
    for each in (1, 2):
        spark.sql(f"INSERT INTO t VALUES ({each})")
    for version in range(3):
        seconds = (NOON + version * dt.timedelta(hours=4)).timestamp()
        os.utime(path / "_delta_log" / f"{version:020}.json", (seconds, seconds))


@pytest.mark.parametrize("kind", ["TIMESTAMP_LTZ", "TIMESTAMP_NTZ"])
def test_a_version_by_its_time_is_that_of_the_zone(
    spark: SparkSession, db: str, tmp_path: Path, conf: Conf, kind: str
) -> None:
    three_versions(spark, tmp_path / db / "t")
    conf(ZONE, "America/New_York")
    conf("spark.sql.timestampType", kind)
    for time in ("'2024-01-02 09:00:00'", "TIMESTAMP'2024-01-02 09:00:00'"):
        assert ids(spark.sql(f"SELECT id FROM t TIMESTAMP AS OF {time}")) == [0]
        assert ids(spark.sql(f"SELECT id FROM table_changes('{db}.t', {time})")) == [1, 2]


@pytest.mark.parametrize("kind", ["VIEW", "TEMP VIEW", "GLOBAL TEMP VIEW"])
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT id FROM t TIMESTAMP AS OF '2024-01-02 14:00:00'", [0]),
        ("SELECT id FROM t TIMESTAMP AS OF TIMESTAMP'2024-01-02 14:00:00' + INTERVAL 1 HOUR", [0]),
        ("SELECT id FROM t TIMESTAMP AS OF '2024-01-02T19:00:00Z'", [0, 1]),
        ("SELECT id FROM t FOR SYSTEM_TIME AS OF '2024-01-02 14:00:00'", [0]),
        ("SELECT id FROM t@20240102140000000", [0]),
        ("SELECT id FROM table_changes('{db}.t', '2024-01-02 14:00:00', '2024-01-02 18:00:00')", [1]),
        ("SELECT id FROM table_changes('{db}.t', TIMESTAMP'2024-01-02 14:00:00', '2024-01-02T18:00:00Z')", [1]),
        ("SELECT id FROM table_changes('{db}.t', 1)", [1, 2]),
    ],
)
def test_a_view_reads_versions_by_times_in_the_zone_of_its_creation(
    spark: SparkSession, db: str, tmp_path: Path, conf: Conf, kind: str, query: str, expected: list[int]
) -> None:
    conf(ZONE, "UTC")
    three_versions(spark, tmp_path / db / "t")
    if is_connect(spark) and kind == "VIEW":
        return  # Refused: the catalog knows no versions.
    spark.sql(f"CREATE OR REPLACE {kind} v_t AS {query.format(db=db)}")
    name = "global_temp.v_t" if kind.startswith("GLOBAL") else "v_t"
    try:
        assert ids(spark.sql(f"SELECT * FROM {name}")) == expected
        for zone in ("Asia/Kolkata", "America/New_York"):
            conf(ZONE, zone)
            if is_connect(spark) and not (kind.startswith("GLOBAL") and "table_changes" in query):
                with pytest.raises(UnsupportedFeature, match=f"was created with {ZONE}=UTC"):
                    spark.table(name)
            else:
                for frame in (spark.table(name), spark.sql(f"SELECT * FROM {name} WHERE id >= 0")):
                    assert ids(frame) == expected
    finally:
        spark.sql(f"DROP VIEW {name}")


def test_a_lake_is_read_and_changed_in_the_zone_of_the_statement(
    spark: SparkSession, lake: slackwater.Lake, conf: Conf
) -> None:
    """`lake` was opened by a session in another zone."""
    conf(ZONE, "UTC")
    lake.create_table("times", "id BIGINT, ts TIMESTAMP")
    rows = two_days(spark).drop("day")
    rows.write.format("delta").mode("append").option("maxRecordsPerFile", 3).save(lake.location("times"))
    other = spark.newSession()
    other.conf.set(ZONE, "Asia/Kolkata")
    lake.attach(other)
    left = set(range(96))

    def removed(statement: str) -> set[int]:
        nonlocal left
        other.sql(statement)
        before, left = left, {row["id"] for row in lake.table("times").toDF().collect()}
        return before - left

    try:
        assert ids(other.sql("SELECT id FROM lake.times WHERE ts = '2024-01-05 05:00:00'")) == [47]
        assert ids(other.table("lake.times").where("ts = '2024-01-05 05:00:00'")) == [47]
        assert ids(other.sql("SELECT id FROM lake.times VERSION AS OF 1 WHERE ts = '2024-01-05 05:00:00'")) == [47]
        assert removed("DELETE FROM lake.times WHERE ts = '2024-01-05 05:00:00'") == {47}
        assert removed(
            "UPDATE lake.times SET id = -1, ts = '2024-03-01 00:00:00' WHERE ts = '2024-01-05 05:30:00'"
        ) == {48}
        assert ids(lake.table("times").toDF().where("ts = '2024-02-29 18:30:00'")) == [-1]
        merge = "MERGE INTO lake.times t USING (SELECT 1 AS n) s ON t.ts = '2024-01-05 06:30:00'"
        assert removed(f"{merge} WHEN MATCHED THEN DELETE") == {50}
        other.sql("BEGIN TRANSACTION ON lake")
        assert ids(other.sql("SELECT id FROM lake.times WHERE ts = '2024-01-05 07:30:00'")) == [52]
        other.sql("DELETE FROM lake.times WHERE ts = '2024-01-05 07:30:00'")
        assert removed("COMMIT") == {52}
    finally:
        lake.detach(other)


def test_a_lake_for_another_session_is_the_same_lake(spark: SparkSession, tmp_path: Path) -> None:
    slackwater.enable(spark)
    other = spark.newSession()
    lake = slackwater.Lake.open(tmp_path / "lake", spark=spark)
    lake.create_table("t", "id INT")
    mine = lake.in_session(other)
    assert mine is not lake
    assert lake.in_session(spark) is lake
    mine.attach(other)
    lake.attach(other)
    other.sql("INSERT INTO lake.t VALUES (1), (2)")
    mine.run(lambda tx: tx.table("t").delete("id = 1"))
    assert ids(lake.table("t").toDF()) == ids(mine.table("t").toDF()) == [2]
    mine.close()
    for each in (lake, mine, lake.in_session(spark.newSession())):
        with pytest.raises(InvalidArgument, match="is closed"):
            each.table("t")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        other.sql("SELECT * FROM lake.t").collect()
