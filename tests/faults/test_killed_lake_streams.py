"""Streams into several tables whose driver is killed: each batch is in all tables once, or in none."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import slackwater
from tests.faults import dying_lake_stream
from tests.faults.dying_lake_stream import DRIVER_POINTS, POINTS, start
from tests.faults.fed_streams import LakeFeed
from tests.faults.killed_tasks import killed_once
from tests.spark.streams.queries import failure, finished

# It is another process with a Spark of its own that is killed: the mode of the session that looks is all the same.
pytestmark = [pytest.mark.spark, pytest.mark.classic, pytest.mark.usefixtures("enabled")]
_ROWS = 3


@pytest.fixture
def enabled(spark: SparkSession) -> None:
    """The session that goes on where the killed ones ended."""
    slackwater.enable(spark)


@pytest.fixture
def places(spark: SparkSession, tmp_path: Path) -> tuple[str, str, str]:
    """The source, the checkpoint and the lake, whose two tables are empty."""
    with slackwater.Lake.open(tmp_path / "lake", spark=spark) as lake:
        lake.create_table("rows", "id BIGINT")
        lake.create_table("sums", "n BIGINT, total BIGINT, at TIMESTAMP")
    return str(tmp_path / "t"), str(tmp_path / "check"), str(tmp_path / "lake")


def _more(spark: SparkSession, source: str, first: int, count: int) -> None:
    """So many further files of the source, each a batch."""
    for number in range(first, first + count):
        rows = spark.range(number * _ROWS, (number + 1) * _ROWS, 1, 1)
        rows.write.format("delta").mode("append").save(source)


def _killed(places: tuple[str, str, str], point: str, survived: int) -> None:
    process = subprocess.Popen(
        [sys.executable, dying_lake_stream.__file__, *places, point, str(survived)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert process.wait() == -signal.SIGKILL


def _require_agreement(spark: SparkSession, places: tuple[str, str, str], count: int | None = None) -> int:
    """The batches that both tables tell of, all rows of each; `count` of them where that is known."""
    with slackwater.Lake.open(places[2], spark=spark) as lake:
        ids = sorted(row[0] for row in lake.table("rows").toDF().collect())
        sums = lake.table("sums").toDF().collect()
        assert ids == list(range(len(sums) * _ROWS))
        assert sorted(row.total for row in sums) == [3 * _ROWS * n + 3 for n in range(len(sums))]
        history = lake.history().where("size(tables) = 2").collect()
        assert sorted(row.at for row in sums) == sorted(row.timestamp for row in history)
    assert count is None or len(sums) == count
    return len(sums)


def _goes_on(spark: SparkSession, places: tuple[str, str, str]) -> None:
    source, checkpoint, where = places
    with slackwater.Lake.open(where, spark=spark) as lake:
        start(spark, source, checkpoint, lake).awaitTermination()


@pytest.mark.parametrize(("point", "landed"), list(zip([*POINTS, *DRIVER_POINTS], (1, 1, 2, 1, 1), strict=True)))
def test_a_killed_batch_is_in_both_tables_or_in_none(
    spark: SparkSession, places: tuple[str, str, str], point: str, landed: int
) -> None:
    _more(spark, places[0], 0, 3)
    # Two appends a batch: the third is of the second batch.
    _killed(places, point, 2 if "first table" in point else 1)
    _require_agreement(spark, places, landed)
    _goes_on(spark, places)
    _require_agreement(spark, places, 3)


@pytest.mark.parametrize("restarts", [pytest.param(100, marks=pytest.mark.long)])
def test_many_restarts_leave_the_tables_in_agreement(
    spark: SparkSession, places: tuple[str, str, str], restarts: int
) -> None:
    chance = random.Random(restarts)  # noqa: S311  (no secret)
    for number in range(restarts):
        _more(spark, places[0], 2 * number, 2)
        _killed(places, chance.choice([*POINTS, *DRIVER_POINTS]), 0)
        _require_agreement(spark, places)
    _goes_on(spark, places)
    _require_agreement(spark, places, 2 * restarts)


def test_a_task_whose_python_is_killed_leaves_its_batch_to_be_done(spark: SparkSession, tmp_path: Path) -> None:
    mark = tmp_path / "killed"
    with LakeFeed(spark, tmp_path) as feed:
        feed.more(2)
        # In local mode no task is done again.
        failure(feed.start(killed_once(feed.frame(), mark)))
        assert mark.exists()
        assert feed.require_whole_batches() == 0
        finished(feed.start(killed_once(feed.frame(), mark)))
        feed.require_all()
