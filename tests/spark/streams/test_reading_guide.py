"""The lines of the guide that read streams and write them to several tables, as they stand but for places."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import slackwater
from tests.spark.streams.queries import drop, files, finished, writer
from tests.spark.written import read, rows
from tests.stores.documents import blocks, run

pytestmark = [pytest.mark.spark, pytest.mark.classic]

GUIDE = "docs/guides/streaming.md"
DDL = "day DATE, carrier STRING, delay INT"
_FIRST = ("work/flights_of_aa", "create_table", 'create_table("board"')


def test_the_lines_that_read_and_land_in_several_tables(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    slackwater.enable(spark)
    (tmp_path / "incoming").mkdir()
    day = dt.date(2026, 11, 23)
    drop(tmp_path / "incoming", day=[day] * 3, carrier=["XX", "AA", "XX"], delay=pa.array([1, 2, 3], pa.int32()))
    flights = files(spark, tmp_path / "incoming", DDL)
    finished(writer(flights, tmp_path / "check").start(str(tmp_path / "flights")))
    names: dict[str, Any] = {"spark": spark, "slackwater": slackwater, "F": F, "flights": flights}
    for first in _FIRST:
        (block,) = [b for b in blocks(GUIDE) if first in b and (first != "create_table" or "board" not in b)]
        run(block, names, {"work/": f"{tmp_path}/"})
    try:
        assert rows(read(spark, tmp_path / "flights_of_aa")) == [(day, 2)]
        lake = names["lake"]
        assert lake.table("landed").toDF().count() == 3
        counted = sorted((row.carrier, row.flights) for row in lake.table("carriers").toDF().collect())
        assert counted == [("AA", 1), ("XX", 2)]
        assert rows(lake.table("board").toDF()) == rows(lake.table("carriers").toDF())
        (committed,) = lake.history().where("size(tables) = 2").collect()
        assert {row.at for row in lake.table("board").toDF().collect()} == {committed.timestamp}
    finally:
        names["lake"].close()
