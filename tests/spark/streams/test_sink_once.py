"""Batches that are sent again are passed over, and what fails in a batch is told and tried again."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from slackwater import DeltaTable, Snapshot
from slackwater.log.table import Table
from slackwater.spark.session.classic_connect import is_connect
from slackwater.spark.streams.connect_foreach_batch import remote_batch_writer
from slackwater.spark.streams.sink import SinkRequest, StreamSink
from tests.spark.streams.queries import batches, drop, failure, files, finished, writer
from tests.spark.written import data_files, read, rows, save

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

DDL = "id BIGINT, name STRING"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder whose files are a stream: two rows so far."""
    drop(tmp_path / "source", id=[1, 2], name=["a", "ö"])
    return tmp_path / "source"


def _forget_the_last_batch(checkpoint: Path, number: int) -> None:
    """Let the checkpoint be as it is between a commit to the table and that to the checkpoint."""
    (checkpoint / "commits" / str(number)).unlink()
    (checkpoint / "commits" / f".{number}.crc").unlink(missing_ok=True)


def test_a_batch_is_logged_and_one_that_is_sent_again_is_skipped(
    spark: SparkSession, path: str, source: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint, stream = tmp_path / "check", files(spark, source, DDL)
    finished(writer(stream, checkpoint).start(path))
    drop(source, id=[3], name=["c"])
    finished(writer(stream, checkpoint).start(path))
    known = data_files(path)
    _forget_the_last_batch(checkpoint, 1)
    with caplog.at_level(logging.INFO, "slackwater.spark.streams.sink"):
        finished(writer(stream, checkpoint).start(path))
    assert [number for _, number in batches(path)] == [0, 1]
    assert rows(read(spark, path)) == [(1, "a"), (2, "ö"), (3, "c")]
    assert data_files(path) == known
    # The query is past it.
    drop(source, id=[4, 5], name=["d", "e"])
    with caplog.at_level(logging.INFO, "slackwater.spark.streams.sink"):
        finished(writer(stream, checkpoint).start(path))
    assert [number for _, number in batches(path)] == [0, 1, 2]
    # Through Connect it is the server's Python that tells.
    if not is_connect(spark):
        (query, _) = batches(path)[0]
        assert f"batch 1 of query {query} is already in the table" in caplog.text
        assert f"{Path(path).as_uri()}: batch 2 of query {query} was committed as version 2, 2 rows, " in caplog.text


def test_a_batch_of_complete_mode_that_is_sent_again_replaces_nothing(
    spark: SparkSession, path: str, source: Path, tmp_path: Path
) -> None:
    counted = files(spark, source, DDL).groupBy("name").count()
    finished(writer(counted, tmp_path / "check").outputMode("complete").start(path))
    _forget_the_last_batch(tmp_path / "check", 0)
    finished(writer(counted, tmp_path / "check").outputMode("complete").start(path))
    assert Snapshot.load(path).version == 0
    assert rows(read(spark, path)) == [("a", 1), ("ö", 1)]


def test_two_queries_with_checkpoints_of_their_own_both_write(
    spark: SparkSession, path: str, source: Path, tmp_path: Path
) -> None:
    stream = files(spark, source, DDL)
    both = [writer(stream, tmp_path / f"check{number}").start(path) for number in range(2)]
    for query in both:
        finished(query)
    assert len(rows(read(spark, path))) == 4
    assert sorted(batches(path)) == sorted((str(query.id), 0) for query in both)


def test_a_copied_checkpoint_is_the_same_query(spark: SparkSession, path: str, source: Path, tmp_path: Path) -> None:
    stream = files(spark, source, DDL)
    finished(writer(stream, tmp_path / "check").start(path))
    shutil.copytree(tmp_path / "check", tmp_path / "copy")
    drop(source, id=[3], name=["c"])
    for checkpoint in (tmp_path / "check", tmp_path / "copy"):
        finished(writer(stream, checkpoint).start(path))
    assert rows(read(spark, path)) == [(1, "a"), (2, "ö"), (3, "c")]


def test_what_fails_in_a_batch_is_what_the_query_says(
    spark: SparkSession, path: str, source: Path, tmp_path: Path
) -> None:
    save(spark.createDataFrame([(0, "z")], DDL), path)
    DeltaTable.forPath(spark, path).addConstraint("named", "name <> 'c'")
    stream = files(spark, source, DDL)
    query = writer(stream, tmp_path / "check").start(path)
    finished(query)
    assert query.exception() is None
    drop(source, id=[3], name=["c"])
    version = Snapshot.load(path).version
    said = failure(writer(stream, tmp_path / "check").start(path))
    assert "CHECK constraint named" in said
    assert Snapshot.load(path).version == version


def test_a_query_that_is_stopped_leaves_whole_batches(
    spark: SparkSession, path: str, source: Path, tmp_path: Path
) -> None:
    stream = files(spark, source, DDL)
    query = stream.writeStream.format("delta").option("checkpointLocation", str(tmp_path / "check")).start(path)
    query.processAllAvailable()
    drop(source, id=[3], name=["c"])
    query.stop()
    assert query.exception() is None
    finished(writer(stream, tmp_path / "check").start(path))
    assert rows(read(spark, path)) == [(1, "a"), (2, "ö"), (3, "c")]
    assert [number for _, number in batches(path)] == [0, 1]


def test_a_table_that_is_made_anew_while_the_query_runs_is_written_from_its_start(
    spark: SparkSession, path: str, source: Path, tmp_path: Path
) -> None:
    stream = files(spark, source, DDL)
    query = stream.writeStream.format("delta").option("checkpointLocation", str(tmp_path / "check")).start(path)
    query.processAllAvailable()
    shutil.rmtree(path)
    drop(source, id=[3], name=["c"])
    query.processAllAvailable()
    query.stop()
    assert Snapshot.load(path).version == 0
    assert rows(read(spark, path)) == [(3, "c")]


def test_a_server_without_slackwater_says_so(tmp_path: Path) -> None:
    request = SinkRequest("append", {}, str(tmp_path / "check"))
    content = cloudpickle.dumps(  # type: ignore[no-untyped-call]
        remote_batch_writer(partial(StreamSink, table=Table.at(tmp_path / "t"), request=request))
    )
    # As in a Python that has PySpark, and not this package.
    program = "import pickle, sys; sys.modules['slackwater'] = None; pickle.loads(sys.stdin.buffer.read())(None, 0)"
    done = subprocess.run([sys.executable, "-c", program], input=content, capture_output=True, check=False)
    assert done.returncode != 0
    assert "Slackwater is not installed there" in done.stderr.decode()
