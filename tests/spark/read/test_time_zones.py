"""Frames that are loaded, filtered and read in different time zones of the session: rows are those of plain Parquet."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession

from slackwater.spark.read import table_scan
from tests.spark.times import CONDITIONS, ZONE, ZONES, two_days

pytestmark = [pytest.mark.spark, pytest.mark.modes, pytest.mark.usefixtures("enabled")]

# The zones of the load, of the first and second `where`, and of two queries.
STEPS = ["UKKKU", "UUUKU", "UKKUK", "KUKUK", "UKUNU", "UUKUK"]
BY_DAY = "day <= '2024-01-04 02:00:00'"


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
    conf(ZONE, "UTC")
    rows = two_days(spark)
    rows.write.format("delta").option("maxRecordsPerFile", 3).partitionBy("day").save(path)
    rows.write.parquet(f"{path}-plain")
    return [lambda: spark.read.format("delta").load(path), lambda: spark.read.parquet(f"{path}-plain")]


@pytest.mark.parametrize("steps", STEPS)
def test_the_zone_changes_between_load_conditions_and_queries(
    frames: list[Callable[[], DataFrame]], steps: str, conf: Callable[[str, str], None]
) -> None:
    def in_zone(step: int) -> None:
        conf(ZONE, ZONES[steps[step]])

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

    for condition in [*CONDITIONS, BY_DAY]:
        delta, parquet = (found(load, condition) for load in frames)
        assert delta == parquet, condition
        assert any(parquet) or condition == BY_DAY, condition


def test_files_are_pruned_in_the_zone_of_the_load(
    frames: list[Callable[[], DataFrame]], conf: Callable[[str, str], None]
) -> None:
    frame = frames[0]()
    everything = len(frame.inputFiles())
    assert len(frame.where("ts = '2024-01-05 06:00:00'").inputFiles()) == 1
    conf(ZONE, "Asia/Kolkata")
    assert len(frame.where("ts = '2024-01-05 06:30:00'").inputFiles()) == everything
    assert len(frame.where("id = 7").inputFiles()) == 1
    assert len(frames[0]().where("ts = '2024-01-05 06:30:00'").inputFiles()) == 1
