"""Frames that are loaded, filtered and read in different time zones of the session: rows are those of plain Parquet."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from slackwater.spark.read import table_scan

pytestmark = [pytest.mark.spark, pytest.mark.modes, pytest.mark.usefixtures("enabled")]

ZONES = {"U": "UTC", "K": "Asia/Kolkata", "N": "America/New_York"}
# The zones of the load, of the first and second `where`, and of two queries.
STEPS = ["UKKKU", "UUUKU", "UKKUK", "KUKUK", "UKUNU", "UUKUK"]
CONDITIONS = [
    "ts = '2024-01-05 05:00:00'",
    "ts >= DATE'2024-01-05' AND ts < '2024-01-05 04:00:00'",
    "CAST(ts AS DATE) = DATE'2024-01-05'",
    "day <= '2024-01-04 02:00:00'",
]


@pytest.fixture(params=["few files", "many files"])
def frames(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    path: str,
    conf: Callable[[str, str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> list[Callable[[], DataFrame]]:
    """The table and the same rows of plain Parquet, to be loaded."""
    if request.param == "many files":
        monkeypatch.setattr(table_scan, "FEW_FILES", 0)
    conf("spark.sql.session.timeZone", "UTC")
    # Two days from 2024-01-04 in UTC.
    times = F.timestamp_seconds(F.lit(1_704_326_400) + F.col("id") * 1800)
    rows = spark.range(0, 96, 1, 1).select("id", times.alias("ts"), F.date_trunc("day", times).alias("day"))
    rows.write.format("delta").option("maxRecordsPerFile", 3).partitionBy("day").save(path)
    rows.write.parquet(f"{path}-plain")
    return [lambda: spark.read.format("delta").load(path), lambda: spark.read.parquet(f"{path}-plain")]


@pytest.mark.parametrize("steps", STEPS)
def test_the_zone_changes_between_load_conditions_and_queries(
    frames: list[Callable[[], DataFrame]], steps: str, conf: Callable[[str, str], None]
) -> None:
    def in_zone(step: int) -> None:
        conf("spark.sql.session.timeZone", ZONES[steps[step]])

    def found(load: Callable[[], DataFrame], condition: str) -> list[list[int]]:
        in_zone(0)
        frame = load()
        in_zone(1)
        frame = frame.where(condition)
        in_zone(2)
        frame = frame.where("id >= 0").select("id")
        rows = []
        for query in (3, 4):
            in_zone(query)
            rows.append(sorted(row["id"] for row in frame.collect()))
        return rows

    for condition in CONDITIONS:
        delta, parquet = (found(load, condition) for load in frames)
        assert delta == parquet, condition
        assert any(parquet) or condition == CONDITIONS[-1], condition


def test_files_are_pruned_in_the_zone_of_the_load(
    frames: list[Callable[[], DataFrame]], conf: Callable[[str, str], None]
) -> None:
    frame = frames[0]()
    everything = len(frame.inputFiles())
    assert len(frame.where("ts = '2024-01-05 06:00:00'").inputFiles()) == 1
    conf("spark.sql.session.timeZone", "Asia/Kolkata")
    assert len(frame.where("ts = '2024-01-05 06:30:00'").inputFiles()) == everything
    assert len(frame.where("id = 7").inputFiles()) == 1
    assert len(frames[0]().where("ts = '2024-01-05 06:30:00'").inputFiles()) == 1
