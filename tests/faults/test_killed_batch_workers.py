"""Streams through Spark Connect whose batches are written by a Python that is killed: each batch is there once.

A restart costs no Spark: there are many more of them than of drivers that are killed.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import slackwater
from slackwater.spark.session.classic_connect import is_connect
from tests.faults import dying_lake_stream, dying_stream
from tests.faults.dying_batch_worker import dying_batches
from tests.faults.fed_streams import LakeFeed, TableFeed
from tests.spark.streams.queries import failure, finished

pytestmark = [pytest.mark.spark]
RESTARTS = [3, pytest.param(100, marks=pytest.mark.long)]


@pytest.fixture(autouse=True)
def _connected(spark: SparkSession) -> None:
    if not is_connect(spark):
        pytest.skip("in a classic session batches are written by the driver, which test_killed_streams kills")
    slackwater.enable(spark)


@pytest.mark.parametrize("restarts", RESTARTS)
def test_many_deaths_of_what_writes_a_table_lose_and_double_nothing(
    spark: SparkSession, tmp_path: Path, restarts: int
) -> None:
    _die_often(TableFeed(spark, tmp_path), dying_stream.POINTS, restarts)


@pytest.mark.parametrize("restarts", RESTARTS)
def test_many_deaths_of_what_writes_several_tables_leave_them_in_agreement(
    spark: SparkSession, tmp_path: Path, restarts: int
) -> None:
    told = dying_lake_stream.POINTS.items()
    points = {name: (owner, call, "", afterwards) for name, (owner, call, afterwards) in told}
    with LakeFeed(spark, tmp_path) as feed:
        _die_often(feed, points, restarts)


def _die_often(feed: Any, points: dict[str, tuple[Any, str, str, bool]], restarts: int) -> None:
    chance = random.Random(restarts)  # noqa: S311  (no secret)
    names = list(points)
    for number in range(restarts):
        feed.more(2)
        # Each point comes up, in any order. Of two new batches at most one is survived.
        if number % len(names) == 0:
            chance.shuffle(names)
        with dying_batches(*points[names[number % len(names)]], chance.randrange(2)):
            failure(feed.start())
        feed.require_whole_batches()
    finished(feed.start())
    feed.require_all()
