"""The lines of the guide that watch streams and that chain them, as they stand but for places."""

from __future__ import annotations

import datetime as dt
import shlex
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import slackwater
from slackwater.spark.session.classic_connect import is_connect
from tests.cli.commands import document
from tests.spark.streams.queries import drop
from tests.spark.written import read, rows
from tests.stores.documents import blocks, run

pytestmark = [pytest.mark.spark]

GUIDE = "docs/guides/streaming.md"


def block(text: str, language: str = "python") -> str:
    (found,) = [each for each in blocks(GUIDE, language) if text in each]
    return found


def test_the_lines_that_watch(spark: SparkSession, tmp_path: Path) -> None:
    slackwater.enable(spark)
    flights = spark.range(3).coalesce(1).write.format("delta")
    flights.save(f"{tmp_path}/flights")
    names: dict[str, Any] = {"spark": spark, "slackwater": slackwater}
    run(block("lastProgress"), names, {"work/": f"{tmp_path}/"})
    assert (names["source"].numInputRows, names["newest"] - names["read"]) == (3, 0)
    assert names["read"] == 1
    flights.mode("append").save(f"{tmp_path}/flights")
    program, *arguments = shlex.split(block("stream-state", "console").replace("work/", f"{tmp_path}/"))
    assert program == "slackwater"
    found = document(*arguments)
    (source,) = found["sources"]
    assert (found["queryId"], found["nextBatch"]) == (str(names["watched"].id), 1)
    assert (source["behind"]["versions"], source["behind"]["files"]) == (1, 1)
    assert [(sink["batchId"], sink["state"]) for sink in found["sinks"]] == [(0, "in step")]
    if is_connect(spark):
        return
    run(block("slackwater.watch("), names, {"work/": f"{tmp_path}/"})
    until = time.monotonic() + 60
    # Spark tells it when the query has gone on, or ended.
    while not names["measured"]:
        assert time.monotonic() < until
        time.sleep(0.05)
    names["watching"].stop()
    told = [(batch.query_id, batch.batch_id, batch.rows, batch.versions_behind) for batch in names["measured"]]
    assert told == [(str(names["again"].id), 1, 3, 0)]
    assert [(batch.files_behind, batch.bytes_behind) for batch in names["measured"]] == [(0, 0)]


def test_the_lines_that_chain_streams(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "incoming").mkdir()
    first, second = dt.date(2026, 11, 22), dt.date(2026, 11, 23)

    def arrive(days: list[dt.date], carriers: list[str], delays: list[int]) -> None:
        drop(tmp_path / "incoming", day=days, carrier=carriers, delay=pa.array(delays, pa.int32()))
        run(block("def merge"), {"spark": spark}, {"work/": f"{tmp_path}/"})

    arrive([first, first, second], ["XX", "XX", "AA"], [1, 5, 3])
    arrive([first, second], ["XX", "BB"], [7, 2])
    assert read(spark, tmp_path / "bronze").count() == 5
    silver = sorted(read(spark, tmp_path / "silver").collect())
    assert [tuple(row) for row in silver] == [(first, "XX", 7), (second, "AA", 3), (second, "BB", 2)]
    assert rows(read(spark, tmp_path / "gold")) == [("AA", 1), ("BB", 1), ("XX", 3)]
