"""The conditions of a frame choose its files, also above a selection of columns.

Through Connect the plan that is sent has them; a classic session asks for files when Spark plans the query.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from slackwater.spark.read import table_scan
from slackwater.spark.read.load import load
from slackwater.spark.read.table_scan import TableScan
from slackwater.spark.session.classic_connect import is_connect
from slackwater.spark.writer.save import save

pytestmark = [pytest.mark.spark, pytest.mark.modes, pytest.mark.usefixtures("enabled")]

CONDITION = "day = DATE '2026-01-03'"


@pytest.fixture
def days(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DataFrame:
    """A frame of 20 files: four ids in each of 20 days, read like a large table."""
    monkeypatch.setattr(table_scan, "FEW_FILES", 0)
    path = str(tmp_path / "days")
    rows = spark.range(0, 80, 1, 1).selectExpr(
        "id", "date_add(DATE '2026-01-01', cast(id / 4 as int)) AS day", "id % 7 AS n"
    )
    save(rows, path, "error", ["day"], {})
    return load(spark, path)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of files of each plan that is sent."""
    found: list[int] = []
    original = TableScan.frame_of

    def counted(self: TableScan, files: pa.Table, *more: Any) -> DataFrame:
        found.append(files.num_rows)
        return original(self, files, *more)

    monkeypatch.setattr(TableScan, "frame_of", counted)
    return found


def test_conditions_above_a_selection_of_columns(spark: SparkSession, days: DataFrame, read: list[int]) -> None:
    chosen = days.select("id", "day")
    instant = dt.date(2026, 1, 3)
    ways: list[Callable[[], DataFrame]] = [
        lambda: days.where(CONDITION).select("id"),
        lambda: chosen.where(CONDITION),
        lambda: days.select(["day", "id"]).where(CONDITION),
        lambda: days.select(F.col("id"), days.day).where(F.col("day") == instant),
        lambda: chosen.where(chosen.day == instant),
        lambda: days.where("id >= 0").select("id", "day").filter(CONDITION).select("id"),
        lambda: chosen.where("id >= 0").where(CONDITION),
    ]
    for way in ways:
        del read[:]
        assert sorted(row.id for row in way().collect()) == [8, 9, 10, 11]
        assert set(read) == ({1} if is_connect(spark) else set())
    assert chosen.where(CONDITION).columns == ["id", "day"]
    assert chosen.columns == ["id", "day"]
    assert chosen.count() == 80


def test_other_selections_are_sparks_own(days: DataFrame) -> None:
    renamed = days.select(F.col("id").alias("day"), (F.col("n") + 1).alias("n"))
    assert sorted(row.day for row in renamed.where("day < 2 AND n >= 0").collect()) == [0, 1]
    assert days.select("*").where(CONDITION).count() == 4
    assert days.select("id", "id").where(CONDITION).count() == 4
    assert days.select().count() == 80
    names = ["id", "day"]
    chosen = days.select(names)
    names.append("n")
    assert chosen.where(CONDITION).columns == ["id", "day"]
    assert days.select("`id`", "day").where(CONDITION).count() == 4
    with pytest.raises(AnalysisException, match="missing"):
        days.select("missing").where(CONDITION).collect()


def test_selected_frames_are_joined_and_counted_like_others(days: DataFrame, read: list[int]) -> None:
    left = days.select("id", "day").where(CONDITION)
    right = days.select("id", "n").where("id < 10")
    joined = left.join(right, left.id == right.id)
    assert sorted(row[0] for row in joined.select(left.id).collect()) == [8, 9]
    assert left.groupBy("day").count().collect()[0][1] == 4
    assert left.withColumn("more", F.lit(1)).drop("day").columns == ["id", "more"]
    assert left.union(left).count() == 8
    assert 20 not in read
