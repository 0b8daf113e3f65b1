"""Streams that are planned in the driver's Python and read by Spark: once, whoever goes on, and however they end."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import slackwater
from slackwater.spark.streams import driver_source, jvm_source
from slackwater.streams.source import TableSource
from tests.spark.streams.queries import failure, finished, writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.classic, pytest.mark.usefixtures("enabled")]

# Who plans the batches, by the option that says how rows travel.
DRIVER, BESIDE = {"rows": "auto"}, {"rows": "arrow"}


def _append(spark: SparkSession, path: str, start: int, files: int = 1, **options: str) -> None:
    rows = spark.range(start, start + 10, 1, files)
    rows.write.format("delta").mode("append").options(**options).save(path)


def _stream(spark: SparkSession, path: str, **options: Any) -> DataFrame:
    return spark.readStream.format("delta").options(**options).load(path)


def _ids(spark: SparkSession, path: Path) -> list[int]:
    return sorted(row[0] for row in spark.read.format("delta").load(str(path)).collect())


def _drain(stream: DataFrame, place: Path) -> Any:
    return finished(writer(stream, place / "checkpoint").start(str(place / "out")))


def _offsets(place: Path, number: int) -> list[str]:
    """What the checkpoint says of each source at the end of a batch."""
    return (place / "checkpoint" / "offsets" / str(number)).read_text(encoding="utf-8").splitlines()[2:]


def _change(file: Path, change: Callable[[str], str]) -> None:
    file.write_text(change(file.read_text(encoding="utf-8")), encoding="utf-8")
    file.with_name(f".{file.name}.crc").unlink()


def _undone(place: Path, number: int) -> None:
    """As if the query had been killed before it wrote down that the batch is done."""
    for name in (str(number), f".{number}.crc"):
        (place / "checkpoint" / "commits" / name).unlink()


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> list[driver_source.DriverSource]:
    """The sources that are made in the driver's Python during a test."""
    found: list[driver_source.DriverSource] = []

    def kept(*args: Any) -> Any:
        found.append(driver_source.DriverSource(args[0]))
        return jvm_source.frame_of_source(args[0].spark, found[-1], args[0].output_schema)

    monkeypatch.setattr(driver_source, "frame_of_source", lambda _, source, __: kept(source._scan))
    return found


def test_spark_reads_the_files_of_a_plain_stream_and_says_of_which_table(
    spark: SparkSession, path: str, tmp_path: Path
) -> None:
    _append(spark, path, 0, files=3)
    query = _drain(_stream(spark, path, maxFilesPerTrigger=2), tmp_path)
    reports = [report.sources[0] for report in query.recentProgress]
    assert {each.description for each in reports} == {f"DeltaSource[file://{path}]"}
    assert sum(each.numInputRows for each in reports) == 10
    assert _ids(spark, tmp_path / "out") == list(range(10))
    (before,) = _offsets(tmp_path, 0)
    assert (json.loads(before)["isStartingVersion"], json.loads(before)["index"]) == (True, 1)


@pytest.mark.parametrize("turns", [(DRIVER, BESIDE) * 2, (BESIDE, DRIVER) * 2], ids=["driver", "beside"])
@pytest.mark.parametrize("limit", [1, 1000])
@pytest.mark.long
def test_a_checkpoint_goes_from_one_planner_to_the_other_and_back(
    spark: SparkSession, path: str, tmp_path: Path, turns: tuple[dict[str, str], ...], limit: int
) -> None:
    for number, how in enumerate(turns):
        _append(spark, path, 10 * number, files=2)
        if number == 2:
            slackwater.DeltaTable.forPath(spark, path).optimize().executeCompaction()
        stream = _stream(spark, path, maxFilesPerTrigger=limit, **how)
        _drain(stream, tmp_path)
        count = len(list((tmp_path / "checkpoint" / "commits").glob("[0-9]*")))
        assert _ids(spark, tmp_path / "out") == list(range(10 * (number + 1)))
        # Who goes on has nothing to do where nothing came.
        _drain(_stream(spark, path, **(BESIDE if how == DRIVER else DRIVER)), tmp_path)
        assert len(list((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))) == count


@pytest.mark.parametrize(("first", "second"), [(DRIVER, BESIDE), (BESIDE, DRIVER), (DRIVER, DRIVER)])
@pytest.mark.long
def test_a_batch_that_was_planned_and_not_done_is_done_by_whoever_goes_on(
    spark: SparkSession, path: str, tmp_path: Path, first: dict[str, str], second: dict[str, str]
) -> None:
    _append(spark, path, 0, files=3)
    _drain(_stream(spark, path, maxFilesPerTrigger=2, **first), tmp_path)
    whole = _ids(spark, tmp_path / "out")
    for number in (0, 1):
        _undone(tmp_path, number)
    for file in (tmp_path / "checkpoint" / "offsets").glob("*1*"):
        file.unlink()
    _append(spark, path, 10)
    # Into another table: the first one knows the batches by their numbers.
    query = writer(_stream(spark, path, maxFilesPerTrigger=2, **second), tmp_path / "checkpoint")
    finished(query.start(str(tmp_path / "again")))
    assert _ids(spark, tmp_path / "again") == [*whole, *range(10, 20)]


def test_text_of_an_offset_that_another_engine_wrote_is_no_news(spark: SparkSession, path: str, tmp_path: Path) -> None:
    _append(spark, path, 0)
    _drain(_stream(spark, path), tmp_path)
    _change(tmp_path / "checkpoint" / "offsets" / "0", lambda text: text.replace('": ', '":').replace(', "', ',"'))
    _drain(_stream(spark, path), tmp_path)
    assert not (tmp_path / "checkpoint" / "offsets" / "1").exists()


def test_a_query_goes_on_where_the_files_of_its_last_batch_are_gone(
    spark: SparkSession, path: str, tmp_path: Path
) -> None:
    _append(spark, path, 0, files=2)
    _drain(_stream(spark, path), tmp_path)
    slackwater.DeltaTable.forPath(spark, path).optimize().executeCompaction()
    for file in slackwater.Snapshot.load(path, version=0).files()["path"].to_pylist():
        Path(path, file).unlink()
    _append(spark, path, 10)
    _drain(_stream(spark, path), tmp_path)
    assert _ids(spark, tmp_path / "out") == list(range(20))


def test_a_file_that_is_gone_and_was_not_read_ends_the_query_and_is_named(
    spark: SparkSession, path: str, tmp_path: Path
) -> None:
    _append(spark, path, 0)
    (file,) = Path(path).glob("*.parquet")
    file.unlink()
    told = failure(writer(_stream(spark, path), tmp_path / "checkpoint").start(str(tmp_path / "out")))
    assert "a data file of the stream is missing" in told
    assert file.name in told


@pytest.mark.long
def test_a_file_that_was_removed_and_restored_within_a_batch_comes_twice(
    spark: SparkSession, path: str, tmp_path: Path
) -> None:
    _append(spark, path, 0, files=2)
    table = slackwater.DeltaTable.forPath(spark, path)
    table.delete()
    table.restoreToVersion(0)
    found: list[list[int]] = []
    for name, how in (("a", DRIVER), ("b", BESIDE)):
        _drain(_stream(spark, path, startingVersion=0, ignoreDeletes="true", **how), tmp_path / name)
        found.append(_ids(spark, tmp_path / name / "out"))
    assert found == [sorted([*range(10)] * 2)] * 2


@pytest.mark.long
def test_a_file_that_comes_again_with_other_deleted_rows_has_those_that_are_left_each_time(
    spark: SparkSession, path: str, tmp_path: Path
) -> None:
    _append(spark, path, 0, files=1, **{"delta.enableDeletionVectors": "true"})
    table = slackwater.DeltaTable.forPath(spark, path)
    table.delete("id = 3")
    table.delete("id = 5")
    found: list[list[int]] = []
    for name, how in (("a", DRIVER), ("b", BESIDE)):
        _drain(_stream(spark, path, startingVersion=0, ignoreChanges="true", **how), tmp_path / name)
        found.append(_ids(spark, tmp_path / name / "out"))
    assert found[0] == found[1] == sorted(n for gone in ((), (3,), (3, 5)) for n in range(10) if n not in gone)


@pytest.mark.long
def test_one_frame_is_read_by_several_queries_that_let_go_of_it_at_their_ends(
    spark: SparkSession, path: str, tmp_path: Path, sources: list[driver_source.DriverSource]
) -> None:
    _append(spark, path, 0, files=3)
    stream = _stream(spark, path, maxFilesPerTrigger=1)
    (source,) = sources
    queries = [
        writer(stream, tmp_path / name / "checkpoint").start(str(tmp_path / name / "out")) for name in ("a", "b")
    ]
    for query, name in zip(queries, ("a", "b"), strict=True):
        finished(query)
        assert _ids(spark, tmp_path / name / "out") == list(range(10))
    assert source._runs == {}
    _append(spark, path, 10)
    writing = stream.writeStream.format("delta").option("checkpointLocation", str(tmp_path / "a" / "checkpoint"))
    running = writing.start(str(tmp_path / "a" / "out"))
    try:
        running.processAllAvailable()
        # Long after its first batch.
        _append(spark, path, 20)
        running.processAllAvailable()
        assert len(source._runs) == 1
    finally:
        running.stop()
    assert source._runs == {}
    assert _ids(spark, tmp_path / "a" / "out") == list(range(30))


def test_a_query_that_fails_lets_go_and_starts_anew(
    spark: SparkSession,
    path: str,
    tmp_path: Path,
    sources: list[driver_source.DriverSource],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _append(spark, path, 0)
    both = _stream(spark, path).union(_stream(spark, path))
    asked: list[TableSource] = []

    def stop(source: TableSource) -> None:
        asked.append(source)
        if len(asked) == 2:
            raise OSError("the second source has no answer")
        source._last = source._newest()

    with monkeypatch.context() as patched:
        patched.setattr(TableSource, "stop_at_newest", stop)
        told = failure(writer(both, tmp_path / "checkpoint").start(str(tmp_path / "out")))
    assert "the second source has no answer" in told
    # What the first one was told then, that nothing to come counts, is of the run that failed.
    writing = both.writeStream.format("delta").option("checkpointLocation", str(tmp_path / "checkpoint"))
    running = writing.start(str(tmp_path / "out"))
    try:
        running.processAllAvailable()
        _append(spark, path, 10)
        running.processAllAvailable()
    finally:
        running.stop()
    assert _ids(spark, tmp_path / "out") == sorted([*range(20)] * 2)
    assert [source._runs for source in sources] == [{}, {}]


def test_available_now_ends_with_what_was_there_when_it_began(spark: SparkSession, path: str, tmp_path: Path) -> None:
    _append(spark, path, 0, files=2)
    grown: list[int] = []

    def write(batch: DataFrame, number: int) -> None:
        grown.extend(row[0] for row in batch.collect())
        if number < 4:
            _append(spark, path, 100 * (number + 1))

    query = _stream(spark, path, maxFilesPerTrigger=1).writeStream.foreachBatch(write).trigger(availableNow=True)
    finished(query.option("checkpointLocation", str(tmp_path / "checkpoint")).start())
    assert sorted(grown) == list(range(10))


@pytest.mark.long
def test_a_frame_in_two_places_of_a_query_is_read_twice(spark: SparkSession, path: str, tmp_path: Path) -> None:
    _append(spark, path, 0)
    twice: dict[str, Callable[[DataFrame], DataFrame]] = {
        "united": lambda stream: stream.union(stream),
        "joined": lambda s: s.alias("a").join(s.alias("b"), "id"),
    }
    for name, frame in twice.items():
        for start in (0, 10):
            if start:
                _append(spark, path, 10 * len(list(Path(path, "_delta_log").glob("0*.json"))))
            _drain(frame(_stream(spark, path)), tmp_path / name)
        rows = spark.read.format("delta").load(path).count()
        assert len(_ids(spark, tmp_path / name / "out")) == rows * (2 if name == "united" else 1)


@pytest.mark.long
def test_places_that_a_checkpoint_has_apart_are_not_read_as_one(spark: SparkSession, path: str, tmp_path: Path) -> None:
    _append(spark, path, 0)
    joined = _stream(spark, path, **BESIDE).alias("a").join(_stream(spark, path, **BESIDE).alias("b"), "id")
    _drain(joined, tmp_path)

    def behind(text: str) -> str:
        *before, last = text.splitlines()
        offset = json.loads(last) | {"reservoirVersion": 0, "isStartingVersion": True}
        return "\n".join([*before, json.dumps(offset)])

    _change(tmp_path / "checkpoint" / "offsets" / "0", behind)
    one = _stream(spark, path)
    query = writer(one.alias("a").join(one.alias("b"), "id"), tmp_path / "checkpoint")
    assert "their offsets in its checkpoint differ" in failure(query.start(str(tmp_path / "out")))
    # By frames of their own, each goes on from its own place.
    _append(spark, path, 10)
    apart = _stream(spark, path).alias("a").join(_stream(spark, path).alias("b"), "id")
    _drain(apart, tmp_path)
    assert _ids(spark, tmp_path / "out") == sorted([*range(10), *range(20)])


def test_streams_of_several_tables_and_views_of_them_come_together(
    spark: SparkSession, path: str, tmp_path: Path
) -> None:
    _append(spark, path, 0)
    _append(spark, f"{path}-other", 100)
    _stream(spark, path).createOrReplaceTempView("streamed_one")
    try:
        both = spark.sql("SELECT id + 1 AS id FROM streamed_one WHERE id > 3").union(_stream(spark, f"{path}-other"))
        _drain(both, tmp_path)
    finally:
        spark.catalog.dropTempView("streamed_one")
    assert _ids(spark, tmp_path / "out") == [*range(5, 11), *range(100, 110)]


def test_settings_of_the_session_are_those_of_the_start_and_left_alone(
    spark: SparkSession, conf: Callable[[str, str], None], path: str, tmp_path: Path
) -> None:
    _append(spark, path, 0, files=2, **{"delta.columnMapping.mode": "id"})
    conf("spark.sql.sources.parallelPartitionDiscovery.threshold", "1")
    before = dict(spark.conf.getAll)
    _drain(_stream(spark, path), tmp_path)
    assert dict(spark.conf.getAll) == before
    assert _ids(spark, tmp_path / "out") == list(range(10))


@pytest.mark.parametrize("why", ["other methods", "no relation", "another thread"])
def test_a_spark_that_is_not_as_expected_is_planned_beside_the_driver(
    spark: SparkSession, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    monkeypatch.delitem(spark.sparkContext.__dict__, jvm_source._RELATION, raising=False)
    if why == "other methods":
        monkeypatch.delattr(driver_source.DriverSource, "reportLatestOffset")
    elif why == "no relation":
        monkeypatch.setattr(jvm_source, "_PACKAGES", ("org.apache.spark.sql.nowhere",))
    else:
        monkeypatch.setattr(jvm_source, "calls_back_in_one_thread", lambda spark: False)
    _append(spark, path, 0)
    query = _drain(_stream(spark, path), tmp_path)
    assert "DeltaSource" not in query.recentProgress[0].sources[0].description
    assert _ids(spark, tmp_path / "out") == list(range(10))


def test_batches_wait_for_nobody(spark: SparkSession, path: str, tmp_path: Path) -> None:
    """The thread that started a query may be in the JVM, or in Python, while a batch is planned."""
    _append(spark, path, 0, files=4)
    query = writer(_stream(spark, path, maxFilesPerTrigger=1), tmp_path / "checkpoint").start(str(tmp_path / "out"))
    until = time.monotonic() + 60
    while query.isActive:
        assert time.monotonic() < until
        spark.range(1).collect()
    assert query.exception() is None
    assert _ids(spark, tmp_path / "out") == list(range(10))


def test_a_query_that_has_ended_leaves_no_thread_and_no_descriptor(
    spark: SparkSession, path: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also one of two tables, whose sources Spark stops one after the other."""
    other = str(tmp_path / "other")
    for each in (path, other):
        _append(spark, each, 0)

    def held() -> tuple[int, int]:
        return threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))

    before, after = (0, 0), (1, 1)
    for number in range(4):
        two = _stream(spark, path).unionAll(_stream(spark, other))
        _drain(two, tmp_path / f"two-{number}")
        after = held()
        deadline = time.monotonic() + 20
        while number and after > before and time.monotonic() < deadline:
            time.sleep(0.05)
            after = held()
        if number == 0:
            before = (after[0], after[1])
    assert after <= before
    assert "Failed to stop streaming source" not in capfd.readouterr().err
    assert _ids(spark, tmp_path / "two-3" / "out") == sorted([*range(10), *range(10)])
