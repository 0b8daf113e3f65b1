"""Streams whose executor is killed amid a batch: Spark repeats its tasks, and each batch is there once."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.faults.fed_streams import LakeFeed, TableFeed
from tests.faults.killed_tasks import killed_once
from tests.spark.streams.queries import finished

pytestmark = [pytest.mark.spark, pytest.mark.modes, pytest.mark.usefixtures("enabled")]


def test_a_batch_into_a_table_whose_executor_is_killed_is_there_once(spark: SparkSession, tmp_path: Path) -> None:
    feed, mark = TableFeed(spark, tmp_path), tmp_path / "killed"
    feed.more(3)
    finished(feed.start(killed_once(feed.frame(), mark, executor=True)))
    assert mark.exists()
    feed.require_all()


def test_a_batch_into_several_tables_whose_executor_is_killed_is_there_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    mark = tmp_path / "killed"
    with LakeFeed(spark, tmp_path) as feed:
        feed.more(3)
        finished(feed.start(killed_once(feed.frame(), mark, executor=True)))
        assert mark.exists()
        feed.require_all()
