"""Tables read as streams: what comes is what the table holds, once, with everything that tables may have."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import slackwater
from slackwater.errors import (
    ChangeFeedNotEnabled,
    InvalidArgument,
    OperationNotAllowed,
    SlackwaterError,
    TableNotFound,
    TimestampOutOfRange,
    VersionNotFound,
)
from slackwater.spark.session.classic_connect import is_connect
from slackwater.spark.streams.query_watcher import StreamBatch
from slackwater.spark.streams.reader import stream_of
from tests.spark.committed import actions
from tests.spark.streams.queries import failure, finished, writer
from tests.spark.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]


@pytest.fixture
def drained(spark: SparkSession, tmp_path: Path) -> Callable[..., list[tuple[Any, ...]]]:
    """The rows that a stream gave by now, all its batches together; called again, it carries on."""

    def rows(stream: DataFrame, name: str = "out") -> list[tuple[Any, ...]]:
        options = {"mergeSchema": "true", "delta.columnMapping.mode": "name"}
        finished(writer(stream, tmp_path / f"{name}-checkpoint", **options).start(str(tmp_path / name)))
        return found(spark.read.format("delta").load(str(tmp_path / name)))

    return rows


def found(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


# Partition columns that hold null, deletion vectors, files written anew, void columns.
@pytest.mark.parametrize("name", ["basic-partitioned", "table-with-dv-small", "cdf-table-partitioned", "void-column"])
def test_the_rows_of_a_table_of_another_engine_all_come(
    spark: SparkSession, drained: Callable[..., list[tuple[Any, ...]]], tmp_path: Path, name: str
) -> None:
    path = str(shutil.copytree(TABLES / name, tmp_path / "t"))
    table = spark.read.format("delta").load(path)
    readable = [column for column, kind in table.dtypes if kind != "void"]
    stream = spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(path)
    assert (stream.schema, stream.isStreaming) == (table.schema, True)
    assert drained(stream.select(readable)) == found(table.select(readable)) != []


TYPES = (
    "CAST(id AS BYTE) AS b",
    "CAST(id AS SHORT) AS h",
    "CAST(id AS INT) AS i",
    "id AS l",
    "CAST(id AS FLOAT) AS f",
    "id / 3 AS d",
    "CAST(id / 7 AS DECIMAL(20, 6)) AS m",
    "nullif(id, 4) % 2 = 0 AS t",
    "CAST(id AS STRING) AS s",
    "CAST(CAST(id AS STRING) AS BINARY) AS y",
    "DATE_ADD(DATE'2026-01-01', CAST(id AS INT)) AS day",
    "TIMESTAMP'2026-11-23 01:02:03.456789' + MAKE_INTERVAL(0, 0, 0, CAST(id AS INT)) AS at",
    "TIMESTAMP_NTZ'1969-11-23 01:02:03.456789' AS n",
    "NAMED_STRUCT('a b', id, 'c', ARRAY(MAP('k', id), NULL)) AS st",
)


@pytest.mark.parametrize("partition_by", [[], ["at", "day", "s", "m"], ["t", "n"]], ids=["none", "times", "flags"])
def test_values_of_every_type_come_as_they_are_read_at_once_whatever_the_zone(
    spark: SparkSession,
    conf: Callable[[str, str], None],
    drained: Callable[..., list[tuple[Any, ...]]],
    path: str,
    partition_by: list[str],
) -> None:
    conf("spark.sql.session.timeZone", "America/New_York")
    rows = spark.range(6).selectExpr(*TYPES).repartition(1)
    rows.write.format("delta").option("delta.columnMapping.mode", "name").partitionBy(*partition_by).save(path)
    stream = spark.readStream.format("delta").load(path)
    assert drained(stream) == found(spark.read.format("delta").load(path))


def test_a_stream_carries_on_where_it_stopped_and_takes_no_more_files_than_it_may(
    spark: SparkSession, drained: Callable[..., list[tuple[Any, ...]]], path: str, tmp_path: Path
) -> None:
    for start in (0, 10, 20):
        spark.range(start, start + 10, 1, 2).write.format("delta").mode("append").save(path)
    stream = spark.readStream.format("delta").option("maxFilesPerTrigger", 2).load(path)
    assert drained(stream) == [(number,) for number in sorted(range(30), key=lambda n: repr((n,)))]
    assert slackwater.Snapshot.load(str(tmp_path / "out")).version == 2
    spark.range(30, 40).write.format("delta").mode("append").save(path)
    slackwater.DeltaTable.forPath(spark, path).optimize().executeCompaction()
    spark.range(40, 50).write.format("delta").mode("append").save(path)
    assert len(drained(stream)) == 50
    assert len(drained(stream)) == 50


@pytest.mark.parametrize("who", ["auto", "arrow"])
@pytest.mark.long
def test_each_report_says_how_many_files_and_bytes_the_batches_after_it_read(
    spark: SparkSession, path: str, tmp_path: Path, who: str
) -> None:
    for start in (0, 30):
        rows = spark.range(start, start + 30, 1, 3).write.format("delta")
        rows.mode("append").save(path)
    options: dict[str, Any] = {"maxFilesPerTrigger": 1, "startingVersion": 1, "rows": who}
    stream = spark.readStream.format("delta").options(**options).load(path)
    query = finished(writer(stream, tmp_path / "checkpoint").start(str(tmp_path / "out")))
    sizes = [add["size"] for add in actions(path, 1, "add")]
    left = [(2, sum(sizes[1:])), (1, sizes[2]), (0, 0)]
    reports = [report.sources[0] for report in query.recentProgress]
    names = [{"numFilesOutstanding": str(files), "numBytesOutstanding": str(size)} for files, size in left]
    if who == "auto" and not is_connect(spark):
        assert [each.metrics for each in reports] == names
    else:
        latest = [json.loads(each.latestOffset) for each in reports]
        assert [{name: found[name] for name in names[0]} for found in latest] == names
    told = [StreamBatch.of(report) for report in query.recentProgress]
    assert [(batch.files_behind, batch.bytes_behind) for batch in told] == left


@pytest.mark.parametrize("mapping", ["none", "name"])
@pytest.mark.long
def test_a_stream_of_the_change_feed_reproduces_the_table_at_every_version(
    spark: SparkSession, drained: Callable[..., list[tuple[Any, ...]]], path: str, vectors: str, mapping: str
) -> None:
    features = f"'delta.enableDeletionVectors' = '{vectors}', 'delta.columnMapping.mode' = '{mapping}'"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, part STRING, v INT) USING delta PARTITIONED BY (part) "
        f"TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true', {features})"
    )
    table = slackwater.DeltaTable.forPath(spark, path)
    rows = spark.range(8).selectExpr("id", "IF(id < 5, 'a', NULL) AS part", "0 AS v")
    rows.write.format("delta").mode("append").save(path)
    table.delete("id = 1")
    table.update("id > 5", {"v": "v + 1"})
    table.delete("part = 'a'")
    news = spark.range(6, 10).selectExpr("id", "'b' AS part", "7 AS v").alias("s")
    merge = table.alias("t").merge(news, "t.id = s.id").whenMatchedUpdate(set={"v": "s.v"})
    merge.whenNotMatchedInsertAll().execute()
    table.optimize().executeCompaction()
    newest = slackwater.Snapshot.load(path).version
    stream = spark.readStream.format("delta").option("readChangeFeed", "true").option("startingVersion", 0)
    changes = drained(stream.option("maxFilesPerTrigger", 1).load(path))
    for version in range(newest + 1):
        held: Counter[tuple[Any, ...]] = Counter()
        for *row, kind, at, _ in changes:
            if at <= version and kind in ("insert", "update_postimage"):
                held[tuple(row)] += 1
            elif at <= version:
                held[tuple(row)] -= 1
        expected = spark.read.format("delta").option("versionAsOf", version).load(path)
        assert sorted(held.elements(), key=repr) == found(expected), version
        assert not [count for count in held.values() if count < 0]
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load(path)
    assert changes == found(feed)


def test_a_feed_without_a_start_begins_with_all_rows_as_inserts(
    spark: SparkSession, drained: Callable[..., list[tuple[Any, ...]]], path: str
) -> None:
    spark.range(3).write.format("delta").option("delta.enableChangeDataFeed", "true").save(path)
    slackwater.DeltaTable.forPath(spark, path).delete("id = 1")
    stream = spark.readStream.format("delta").option("readChangeFeed", "true").load(path)
    assert [row[:3] for row in drained(stream)] == [(0, "insert", 1), (2, "insert", 1)]


def test_where_leaves_out_files_and_select_columns(
    spark: SparkSession, drained: Callable[..., list[tuple[Any, ...]]], path: str
) -> None:
    rows = spark.range(20).selectExpr("id", "id % 2 AS part", "CAST(id AS STRING) AS s")
    rows.write.format("delta").partitionBy("part").save(path)
    # What is not read need not be there.
    for file in Path(path).glob("part=0/*.parquet"):
        file.unlink()
    stream = spark.readStream.format("delta").load(path)
    chosen = stream.where("part = 1").where(stream.id > 3).select("s", stream.id)
    assert drained(chosen) == sorted(((str(n), n) for n in range(5, 20, 2)), key=repr)


def test_rows_are_counted_and_joined_by_streams_of_no_column(spark: SparkSession, path: str, tmp_path: Path) -> None:
    spark.range(20).selectExpr("id", "id % 3 AS k").write.format("delta").save(path)
    counted = spark.readStream.format("delta").load(path).selectExpr("1 AS one").groupBy().count()
    query = counted.writeStream.format("delta").outputMode("complete").trigger(availableNow=True)
    finished(query.option("checkpointLocation", str(tmp_path / "c")).start(str(tmp_path / "counts")))
    assert found(spark.read.format("delta").load(str(tmp_path / "counts"))) == [(20,)]


def test_row_ids_come_with_their_rows(
    spark: SparkSession, drained: Callable[..., list[tuple[Any, ...]]], path: str
) -> None:
    spark.range(4).coalesce(1).write.format("delta").option("delta.enableRowTracking", "true").save(path)
    slackwater.DeltaTable.forPath(spark, path).update("id = 2", {"id": "id + 10"})
    stream = spark.readStream.format("delta").option("rowTracking", "true").load(path)
    batch = spark.read.format("delta").option("rowTracking", "true").load(path)
    assert drained(stream) == found(batch)
    assert stream.columns == ["id", "_row_id", "_row_commit_version"]


def test_a_schema_that_grows_is_followed_after_a_start(
    spark: SparkSession, drained: Callable[..., list[tuple[Any, ...]]], path: str, tmp_path: Path
) -> None:
    spark.range(2).write.format("delta").save(path)
    stream = spark.readStream.format("delta").load(path)
    assert len(drained(stream)) == 2
    spark.range(2, 4).selectExpr("id", "'x' AS s").write.format("delta").mode("append").option(
        "mergeSchema", "true"
    ).save(path)
    told = failure(writer(stream, tmp_path / "out-checkpoint").start(str(tmp_path / "out")))
    assert "another schema than the stream reads with" in told
    assert drained(spark.readStream.format("delta").load(path)) == [(0, None), (1, None), (2, "x"), (3, "x")]


def test_an_error_of_a_source_is_told_by_its_sentence(spark: SparkSession, path: str, tmp_path: Path) -> None:
    frame = spark.range(2).coalesce(1)
    frame.write.format("delta").save(path)

    def start(name: str) -> Any:
        # Into files: what foreachBatch raises has the traceback of its function.
        stream = spark.readStream.format("delta").load(path).writeStream.format("parquet").trigger(availableNow=True)
        return stream.option("checkpointLocation", str(tmp_path / f"{name}-c")).start(str(tmp_path / name))

    finished(start("first"))
    frame.write.format("delta").mode("overwrite").save(path)
    of_plan = failure(start("first"))
    assert "Set the option skipChangeCommits to true" in of_plan
    for file in Path(path).glob("*.parquet"):
        file.unlink()
    of_task = failure(start("second"))
    assert "vacuum" in of_task.lower()
    for told in (of_plan, of_task):
        assert "slackwater.errors." in told
        # Where the driver's Python plans the stream, Py4J tells of itself, and of who it called.
        assert told.count('File "') == (0 if is_connect(spark) else 2)


def test_a_table_of_a_lake_is_streamed_by_name_also_what_is_not_backfilled(
    spark: SparkSession, drained: Callable[..., list[tuple[Any, ...]]], tmp_path: Path
) -> None:
    with slackwater.Lake.open(tmp_path / "lake", spark=spark) as lake:
        lake.create_table("orders", "id BIGINT")
        lake.attach(spark, "shop")
        stream = spark.readStream.table("shop.orders")
        with lake.transaction(spark) as tx:
            tx.table("orders").append(spark.range(3))
        assert drained(stream) == [(0,), (1,), (2,)]
        with lake.transaction(spark) as tx:
            tx.table("orders").append(spark.range(3, 5))
        assert len(drained(stream)) == 5
        by_path = spark.readStream.format("delta").load(lake.location("orders"))
        assert drained(by_path, "again") == [(0,), (1,), (2,), (3,), (4,)]
        tx = lake.transaction(spark)
        with pytest.raises(OperationNotAllowed, match="outlives the transaction"):
            stream_of(spark, tx.table("orders")._table)
        tx.rollback()


def test_a_table_of_the_catalog_is_streamed_by_name(
    spark: SparkSession, drained: Callable[..., list[tuple[Any, ...]]], path: str
) -> None:
    spark.sql(f"CREATE TABLE streamed (id BIGINT) USING delta LOCATION '{path}'")
    try:
        spark.range(2).write.insertInto("streamed")
        assert drained(spark.readStream.table("streamed")) == [(0,), (1,)]
        assert drained(spark.readStream.table(f"delta.`{path}`"), "again") == [(0,), (1,)]
    finally:
        spark.sql("DROP TABLE streamed")


BAD: list[tuple[dict[str, Any], type[SlackwaterError], str, str]] = [
    ({"startingVersion": 5}, VersionNotFound, "version 5: the newest is 0", "DELTA_VERSION_NOT_FOUND"),
    (
        {"startingVersion": 0, "startingTimestamp": "2026-01-01"},
        InvalidArgument,
        "not both",
        "DELTA_STARTING_VERSION_AND_TIMESTAMP_BOTH_SET",
    ),
    ({"startingVersion": "newest"}, InvalidArgument, "whole number", "DELTA_ILLEGAL_OPTION"),
    (
        {"startingTimestamp": "soon"},
        InvalidArgument,
        "cannot be converted to a valid timestamp",
        "DELTA_TIMESTAMP_INVALID",
    ),
    (
        {"startingTimestamp": "2100-01-01"},
        TimestampOutOfRange,
        "after the last commit",
        "DELTA_TIMESTAMP_GREATER_THAN_COMMIT",
    ),
    ({"readChangeFeed": "true", "ignoreDeletes": "true"}, InvalidArgument, "contains every", "DELTA_ILLEGAL_OPTION"),
    (
        {"readChangeFeed": "true", "skipChangeCommits": "true"},
        InvalidArgument,
        "contains every",
        "DELTA_ILLEGAL_OPTION",
    ),
    ({"allowSourceColumnDrop": "always"}, InvalidArgument, "schemaTrackingLocation", "DELTA_ILLEGAL_OPTION"),
    ({"streamingSourceTrackingId": "a"}, InvalidArgument, "schemaTrackingLocation", "DELTA_ILLEGAL_OPTION"),
    ({"maxFilesPerTrigger": 0}, InvalidArgument, "maxFilesPerTrigger must be greater", "DELTA_ILLEGAL_OPTION"),
    ({"maxBytesPerTrigger": "10 lots"}, InvalidArgument, "maxBytesPerTrigger must be a size", "DELTA_ILLEGAL_OPTION"),
    ({"excludeRegex": "("}, InvalidArgument, "excludeRegex", "DELTA_REGEX_OPT_SYNTAX_ERROR"),
    ({"versionAsOf": 0}, InvalidArgument, "versionAsOf", "DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS"),
    ({"readChangeFeed": "true"}, ChangeFeedNotEnabled, "not enabled", "DELTA_MISSING_CHANGE_DATA"),
    ({"withEventTimeOrder": "true"}, InvalidArgument, "needs the option eventTimeColumn", "DELTA_ILLEGAL_OPTION"),
    ({"eventTimeColumn": "id"}, InvalidArgument, "withEventTimeOrder = true", "DELTA_ILLEGAL_OPTION"),
    (
        {"withEventTimeOrder": "true", "eventTimeColumn": "id"},
        InvalidArgument,
        "column of times",
        "DELTA_ILLEGAL_OPTION",
    ),
    ({"withEventTimeOrder": "true", "eventTimeColumn": "no"}, InvalidArgument, "no column no", ""),
]


@pytest.mark.parametrize(("options", "kind", "told", "error_class"), BAD)
def test_options_that_cannot_be_are_refused_before_a_query_starts(
    spark: SparkSession, path: str, options: dict[str, Any], kind: type[SlackwaterError], told: str, error_class: str
) -> None:
    spark.range(1).write.format("delta").save(path)
    with pytest.raises(kind, match=told) as caught:
        spark.readStream.format("delta").options(**options).load(path)
    assert not error_class or caught.value.error_class == error_class


@pytest.mark.long
def test_no_row_of_what_a_query_begins_with_is_late_where_its_files_come_in_event_time_order(
    spark: SparkSession, drained: Callable[..., list[tuple[Any, ...]]], path: str
) -> None:
    # Written in another order than their times have.
    for day in (5, 1, 3, 2, 4):
        rows = f"SELECT id, TIMESTAMP'2026-11-0{day} 00:00:00' + MAKE_INTERVAL(0, 0, 0, 0, CAST(id AS INT)) AS at"
        spark.sql(f"{rows} FROM range(0, 20, 1, 1)").write.format("delta").mode("append").save(path)

    def days(name: str, **options: Any) -> list[tuple[Any, ...]]:
        stream = spark.readStream.format("delta").options(maxFilesPerTrigger=1, **options).load(path)
        kept = stream.withWatermark("at", "1 hour").dropDuplicatesWithinWatermark(["id", "at"])
        counted = drained(kept.selectExpr("day(at) AS day", "id"), name)
        return sorted(Counter(day for day, _ in counted).items())

    assert days("ordered", withEventTimeOrder="true", eventTimeColumn="AT") == [(day, 20) for day in range(1, 6)]
    if spark.version >= "4.2":
        # Sources in Python know no limits before: all is one micro-batch, and nothing is late.
        assert len(days("as-written")) < 5


def test_what_is_no_table_is_refused_before_a_query_starts(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TableNotFound):
        spark.readStream.format("delta").load(str(tmp_path))
    with pytest.raises(InvalidArgument, match="its own schema"):
        spark.readStream.format("delta").schema("id BIGINT").load(str(tmp_path))
    with pytest.raises(InvalidArgument, match="the path of one Delta table"):
        spark.readStream.format("delta").load()


@pytest.mark.classic
def test_a_source_keeps_the_name_that_it_was_given(
    spark: SparkSession, conf: Callable[[str, str], None], path: str, tmp_path: Path
) -> None:
    if not hasattr(spark.readStream, "name"):
        pytest.skip("this release of PySpark has no names of sources")
    conf("spark.sql.streaming.queryEvolution.enableSourceEvolution", "true")
    conf("spark.sql.streaming.offsetLog.formatVersion", "2")
    spark.range(2).write.format("delta").save(path)
    stream = spark.readStream.name("clicks").format("delta").load(path)
    finished(writer(stream, tmp_path / "c").start(str(tmp_path / "out")))
    assert "clicks" in (tmp_path / "c" / "offsets" / "0").read_text(encoding="utf-8")
