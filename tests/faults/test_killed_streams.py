"""Streams whose driver is killed: every row of the source is in the table once, after however many restarts."""

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
from slackwater import Snapshot
from tests.faults import dying_stream
from tests.faults.dying_stream import POINTS
from tests.faults.fed_streams import TableFeed
from tests.faults.killed_tasks import killed_once
from tests.spark.streams.queries import batches, drop, failure, files, finished, writer
from tests.spark.written import read, rows

# It is another process with a Spark of its own that is killed: the mode of the session that looks is all the same.
pytestmark = [pytest.mark.spark, pytest.mark.classic, pytest.mark.usefixtures("enabled")]
_ROWS = 3
_COMMITTED = "committed, not in the checkpoint of the query"


@pytest.fixture
def enabled(spark: SparkSession) -> None:
    """The session that goes on where the killed ones ended."""
    slackwater.enable(spark)


def _more(tmp_path: Path, first: int, count: int) -> None:
    """So many further files of the source, each a batch; the number of the `first`."""
    for number in range(first, first + count):
        drop(tmp_path / "source", id=[number * _ROWS + each for each in range(_ROWS)])


def _started(tmp_path: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, dying_stream.__file__, *(str(tmp_path / name) for name in ("source", "check", "t"))]
    return subprocess.Popen(
        [*command, *more],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def _killed(tmp_path: Path, point: str, survived: int) -> None:
    assert _started(tmp_path, point, str(survived)).wait() == -signal.SIGKILL


def _goes_on(spark: SparkSession, tmp_path: Path) -> None:
    finished(writer(files(spark, tmp_path / "source", "id BIGINT"), tmp_path / "check").start(str(tmp_path / "t")))


def _require_each_row_once(spark: SparkSession, tmp_path: Path, count: int) -> None:
    path = str(tmp_path / "t")
    assert rows(read(spark, path).orderBy("id")) == sorted([(n,) for n in range(count * _ROWS)], key=repr)
    found = batches(path)
    assert [number for _, number in found] == list(range(count))
    assert len({query for query, _ in found}) == 1


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_query_goes_on_where_it_was(spark: SparkSession, tmp_path: Path, point: str) -> None:
    _more(tmp_path, 0, 3)
    _killed(tmp_path, point, 1)
    assert Snapshot.load(tmp_path / "t").version == (1 if point == _COMMITTED else 0)
    _goes_on(spark, tmp_path)
    _require_each_row_once(spark, tmp_path, 3)


# A restart of the driver is one of its JVM: the short run has few of them, and test_killed_batch_workers has more.
@pytest.mark.parametrize("restarts", [pytest.param(count, marks=pytest.mark.long) for count in (2, 200)])
def test_many_restarts_lose_and_double_nothing(spark: SparkSession, tmp_path: Path, restarts: int) -> None:
    chance = random.Random(restarts)  # noqa: S311  (no secret)
    count = 0
    for number in range(restarts):
        _more(tmp_path, count, 3)
        count += 3
        # Of three new batches at most two are survived, the last one never ends.
        _killed(tmp_path, chance.choice(list(POINTS)), chance.randrange(3))
        if number % 20 == 19:
            _goes_on(spark, tmp_path)
    _goes_on(spark, tmp_path)
    _require_each_row_once(spark, tmp_path, count)


@pytest.mark.long
def test_two_queries_on_one_checkpoint_by_mistake_write_each_row_once(spark: SparkSession, tmp_path: Path) -> None:
    _more(tmp_path, 0, 12)
    both = [_started(tmp_path), _started(tmp_path)]
    # Spark ends the one that comes late to its checkpoint; which, and when, is chance.
    for process in both:
        process.wait()
    _goes_on(spark, tmp_path)
    _require_each_row_once(spark, tmp_path, 12)


def test_a_task_whose_python_is_killed_leaves_its_batch_to_be_done(spark: SparkSession, tmp_path: Path) -> None:
    feed, mark = TableFeed(spark, tmp_path), tmp_path / "killed"
    feed.more(2)
    # In local mode no task is done again.
    failure(feed.start(killed_once(feed.frame(), mark)))
    assert mark.exists()
    assert feed.require_whole_batches() == 0
    finished(feed.start(killed_once(feed.frame(), mark)))
    feed.require_all()
