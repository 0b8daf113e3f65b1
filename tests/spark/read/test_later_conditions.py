"""A frame keeps the meaning of its conditions, whatever changes in the session before its next method is called."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from slackwater.spark.read import table_scan
from slackwater.spark.session.classic_connect import is_connect

pytestmark = [pytest.mark.spark, pytest.mark.modes, pytest.mark.usefixtures("enabled")]

Load = Callable[[], DataFrame]
Conf = Callable[[str, str], None]
ZONE = "spark.sql.session.timeZone"

# A condition, and what is so before it is given and after.
CHANGES = {
    "a variable": ("id <= q", "DECLARE OR REPLACE VARIABLE q INT DEFAULT 2", "SET VAR q = 4"),
    "a view": (
        "id IN (SELECT id FROM qv)",
        "CREATE OR REPLACE TEMPORARY VIEW qv AS SELECT 2 AS id",
        "CREATE OR REPLACE TEMPORARY VIEW qv AS SELECT 3 AS id",
    ),
    "a function": (
        "qf(id)",
        "CREATE OR REPLACE TEMPORARY FUNCTION qf(x INT) RETURNS BOOLEAN RETURN x = 2",
        "CREATE OR REPLACE TEMPORARY FUNCTION qf(x INT) RETURNS BOOLEAN RETURN x = 1",
    ),
    "ANSI": ("CAST(s AS INT) IS NULL", "spark.sql.ansi.enabled=false", "spark.sql.ansi.enabled=true"),
    "case": ("ID <= 2", "spark.sql.caseSensitive=false", "spark.sql.caseSensitive=true"),
    "the zone": ("s < CAST(TIMESTAMP_SECONDS(0) AS STRING)", f"{ZONE}=Asia/Kolkata", f"{ZONE}=UTC"),
}
ROWS = [(1, "1970-01-01 03"), (2, "1970-01-01 04"), (3, "a"), (4, "b")]


@pytest.fixture(params=["few files", "many files"])
def loads(
    request: pytest.FixtureRequest, spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> list[Load]:
    """The table and the same rows of plain Parquet, to be loaded."""
    if request.param == "many files":
        monkeypatch.setattr(table_scan, "FEW_FILES", 0)
    rows = spark.createDataFrame(ROWS, "id int, s string")
    rows.write.format("delta").partitionBy("id").save(path)
    rows.write.partitionBy("id").parquet(f"{path}-plain")
    return [lambda: spark.read.format("delta").load(path), lambda: spark.read.parquet(f"{path}-plain")]


@pytest.fixture
def change(spark: SparkSession, conf: Conf) -> Callable[[str], object]:
    """Runs a statement or sets a setting."""
    return lambda text: conf(*text.split("=")) if text.startswith("spark.sql.") else spark.sql(text)


def outcome(frame: DataFrame) -> object:
    """The ids, or that it failed."""
    try:
        return sorted(row["id"] for row in frame.collect())
    except PySparkException:
        return "failed"


@pytest.mark.parametrize("given", ["text", pytest.param("column", marks=pytest.mark.long)])
@pytest.mark.parametrize("changed", CHANGES)
def test_a_second_condition_leaves_the_first_one_as_it_was(
    spark: SparkSession, loads: list[Load], change: Callable[[str], object], changed: str, given: str
) -> None:
    """Through Connect, the server reads a condition with each query, unless it has the plan of the frame already."""
    condition, before, after = CHANGES[changed]

    def found(load: Load) -> list[object]:
        change(before)
        frame = load().where(condition if given == "text" else F.expr(condition))
        first = [] if is_connect(spark) else [outcome(frame)]
        change(after)
        return first + [outcome(frame.where(each)) for each in ("id < 4", "id > 1")]

    delta, parquet = map(found, loads)
    assert delta == parquet


@pytest.mark.classic
def test_a_condition_by_chance_leaves_the_same_rows(loads: list[Load]) -> None:
    for chance in (F.rand() < 0.5, F.expr("rand() < 0.5"), "rand(3) < 0.5"):
        frame = loads[0]().where(chance)
        rows = {row["id"] for row in frame.collect()}
        for condition in ("id <= 2", "id >= 2", "s = 'a'"):
            wanted = {row["id"] for row in loads[0]().where(condition).collect()} & rows
            assert {row["id"] for row in frame.where(condition).collect()} == wanted


def test_hidden_columns_and_selections_have_the_rows_of_the_frame(spark: SparkSession, path: str) -> None:
    rows = spark.createDataFrame(ROWS, "id int, s string")
    rows.write.format("delta").option("delta.enableRowTracking", "true").partitionBy("id").save(path)
    for options in ({}, {"rows": "arrow"}):
        spark.sql("DECLARE OR REPLACE VARIABLE q INT DEFAULT 2")
        frame = spark.read.format("delta").options(**options).load(path).where("id <= q")
        spark.sql("SET VAR q = 3")
        found = [frame, frame.select("id", "_metadata.row_id"), frame.select("id")]
        assert len({str(outcome(each)) for each in found}) == 1, options


@pytest.mark.classic
def test_a_second_condition_changes_no_setting_meanwhile(spark: SparkSession, loads: list[Load], conf: Conf) -> None:
    conf(ZONE, "Asia/Kolkata")
    frame = loads[0]().where("s < CAST(TIMESTAMP_SECONDS(0) AS STRING)")
    conf(ZONE, "UTC")
    seen, is_over = set(), threading.Event()

    def look() -> None:
        while not is_over.is_set():
            seen.add(spark.conf.get(ZONE))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for number in range(20):
            frame.where(f"id < {number % 4 + 1}")
    finally:
        is_over.set()
        thread.join()
    assert seen == {"UTC"}
