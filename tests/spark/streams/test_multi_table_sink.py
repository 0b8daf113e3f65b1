"""Streams into several tables of a lake: each micro-batch is in all of them, once, with one time, or in none."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import slackwater
from slackwater.errors import InvalidArgument, TableNotFound
from slackwater.spark.session.classic_connect import is_connect
from slackwater.spark.streams.multi_table_sink import FREE_RETRIES
from tests.contract.owners import eventually
from tests.spark.streams.queries import failure, finished
from tests.spark.written import first_row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Iterator[slackwater.Lake]:
    with slackwater.Lake.open(tmp_path / "lake", spark=spark) as opened:
        opened.create_table("orders", "id BIGINT, k BIGINT, at TIMESTAMP")
        opened.create_table("totals", "k BIGINT, n BIGINT")
        opened.create_table("batches", "n BIGINT, at TIMESTAMP")
        yield opened


@pytest.fixture
def source(spark: SparkSession, path: str) -> str:
    for start in (0, 10, 20):
        append(spark, path, start)
    return path


def append(spark: SparkSession, path: str, start: int) -> None:
    rows = spark.range(start, start + 10, 1, 1).selectExpr("id", "id % 3 AS k")
    rows.write.format("delta").mode("append").save(path)


def meanings() -> dict[str, Any]:
    """What a batch means for each table; made here, the functions travel to a Connect server by value."""
    from pyspark.sql import functions as F

    def orders(batch: Any, tx: Any) -> Any:
        return batch.withColumn("at", F.lit(tx.current_timestamp()))

    def totals(batch: Any, tx: Any) -> None:
        found = batch.groupBy("k").agg(F.count("*").alias("n")).alias("s")
        merge = tx.table("totals").alias("t").merge(found, "t.k = s.k")
        merge.whenMatchedUpdate(set={"n": "t.n + s.n"}).whenNotMatchedInsertAll().execute()

    def batches(batch: Any, tx: Any) -> Any:
        return batch.groupBy().agg(F.count("*").alias("n")).withColumn("at", F.lit(tx.current_timestamp()))

    return {"orders": orders, "totals": totals, "batches": batches}


def started(spark: SparkSession, source: str, lake: slackwater.Lake, checkpoint: Path, tables: Any = None) -> Any:
    stream = spark.readStream.format("delta").option("maxFilesPerTrigger", 2).load(source)
    writer = slackwater.stream(stream).to(lake, meanings() if tables is None else tables).option("userName", "feeder")
    return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def require_agreement(lake: slackwater.Lake, count: int) -> None:
    """All tables tell of the same `count` rows, in the same batches."""
    found = rows(lake.table("orders").toDF())
    assert [row[0] for row in found] == list(range(count))
    assert rows(lake.table("totals").toDF()) == [(k, len(range(k, count, 3))) for k in range(3)]
    by_time: dict[Any, int] = {}
    for _, _, at in found:
        by_time[at] = by_time.get(at, 0) + 1
    assert rows(lake.table("batches").toDF()) == sorted((n, at) for at, n in by_time.items())


def test_each_batch_is_in_all_tables_at_one_time_and_is_not_done_again(
    spark: SparkSession, source: str, lake: slackwater.Lake, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = tmp_path / "c"
    finished(started(spark, source, lake, checkpoint))
    require_agreement(lake, 30)
    # Two files a batch: the timestamps of the transactions are those that the rows carry.
    history = lake.history().where("size(tables) = 3").select("timestamp").collect()
    assert {row[0] for row in history} == {row[1] for row in rows(lake.table("batches").toDF())}
    assert len(history) == 2
    assert {first_row(lake.table(name).history(1))["userName"] for name in ("orders", "batches")} == {"feeder"}
    # Spark forgot that it did the last batch, as where it is killed before it writes that down.
    shutil.rmtree(checkpoint / "commits")
    (checkpoint / "commits").mkdir()
    append(spark, source, 30)
    with caplog.at_level(logging.INFO, "slackwater.spark.streams.multi_table_sink"):
        finished(started(spark, source, lake, checkpoint))
    require_agreement(lake, 40)
    # Through Connect it is the server's Python that says so.
    if not is_connect(spark):
        assert len([text for text in caplog.messages if "is already in the tables and was skipped" in text]) == 1
        assert len([text for text in caplog.messages if "was committed at" in text]) == 1


def test_an_error_leaves_nothing_in_any_table_and_the_batch_is_done_when_it_is_mended(
    spark: SparkSession, source: str, lake: slackwater.Lake, tmp_path: Path
) -> None:
    def broken(batch: Any, tx: Any) -> None:
        raise ValueError("the totals are closed today")

    told = failure(started(spark, source, lake, tmp_path / "c", {**meanings(), "batches": broken}))
    assert "the totals are closed today" in told
    assert [lake.table(name).toDF().count() for name in meanings()] == [0, 0, 0]
    finished(started(spark, source, lake, tmp_path / "c"))
    require_agreement(lake, 30)


def test_a_feed_is_followed_by_key_whatever_happens_to_the_rows(
    spark: SparkSession, lake: slackwater.Lake, path: str, tmp_path: Path
) -> None:
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT, k BIGINT) USING delta "
        "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    customers = slackwater.DeltaTable.forPath(spark, path)
    lake.create_table("copy", "id BIGINT, k BIGINT")
    lake.create_table("ids", "id BIGINT")
    feed = spark.readStream.format("delta").option("readChangeFeed", "true").option("startingVersion", 0).load(path)

    def follow() -> None:
        tables = {"copy": slackwater.changes_by_key("id"), "ids": slackwater.changes_by_key(["id"])}
        writer = slackwater.stream(feed).to(lake, tables).option("checkpointLocation", str(tmp_path / "c"))
        finished(writer.trigger(availableNow=True).start())
        assert rows(lake.table("copy").toDF()) == rows(customers.toDF())
        assert rows(lake.table("ids").toDF()) == rows(customers.toDF().select("id"))

    spark.range(6).selectExpr("id", "0 AS k").write.format("delta").mode("append").save(path)
    customers.update("id = 2", {"k": "7"})
    customers.delete("id = 3")
    follow()
    # A key that changes takes its row along; one that goes and comes back is there.
    customers.update("id = 4", {"id": "40"})
    customers.delete("id = 5")
    spark.range(5, 7).selectExpr("id", "9 AS k").write.format("delta").mode("append").save(path)
    customers.update("id < 2", {"id": "1 - id", "k": "id"})
    follow()


def test_events_count_in_the_order_that_is_said(
    spark: SparkSession, lake: slackwater.Lake, path: str, tmp_path: Path
) -> None:
    lake.create_table("people", "id BIGINT, name STRING")
    events = "id BIGINT, full STRING, op STRING, ts BIGINT"
    rows_ = [(1, "new", "u", 3), (1, "old", "c", 1), (2, "b", "c", 1), (2, None, "d", 5), (3, "c", "c", 2)]
    spark.createDataFrame(rows_, events).write.format("delta").save(path)
    by_key = slackwater.changes_by_key("id", order_by="ts", deletes="op = 'd'", columns={"name": "upper(s.full)"})
    writer = slackwater.stream(spark.readStream.format("delta").load(path)).to(lake, {"people": by_key})
    finished(writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start())
    assert rows(lake.table("people").toDF()) == [(1, "NEW"), (3, "C")]


def test_what_cannot_be_is_refused_before_the_query_starts(
    spark: SparkSession, source: str, lake: slackwater.Lake
) -> None:
    stream = spark.readStream.format("delta").load(source)
    with pytest.raises(InvalidArgument, match="frame of a stream"):
        slackwater.stream(spark.range(1))
    with pytest.raises(TableNotFound, match="nowhere"):
        slackwater.stream(stream).to(lake, {"nowhere": lambda batch: batch})
    with pytest.raises(InvalidArgument, match="found 3 arguments"):
        slackwater.stream(stream).to(lake, {"orders": lambda a, b, c: a})
    with pytest.raises(InvalidArgument, match="a function for each table name"):
        slackwater.stream(stream).to(lake, {})
    with pytest.raises(InvalidArgument, match="checkpointLocation"):
        slackwater.stream(stream).to(lake, {"orders": lambda batch: batch}).start()
    with pytest.raises(InvalidArgument, match="Name the column"):
        slackwater.changes_by_key([])


def test_the_session_may_say_where_queries_keep_how_far_they_are(
    spark: SparkSession, source: str, lake: slackwater.Lake, tmp_path: Path, conf: Callable[[str, str], None]
) -> None:
    conf("spark.sql.streaming.checkpointLocation", str(tmp_path / "all"))
    stream = spark.readStream.format("delta").load(source).selectExpr("id AS k")
    lake.create_table("seen", "k BIGINT")
    writer = slackwater.stream(stream).to(lake, {"seen": lambda batch: batch}).queryName("seeing")
    for _ in range(2):
        finished(writer.trigger(availableNow=True).start())
    assert (tmp_path / "all/seeing/commits/0").exists()
    assert lake.table("seen").toDF().count() == spark.read.format("delta").load(source).count()


def test_a_function_that_gives_no_rows_is_told(
    spark: SparkSession, source: str, lake: slackwater.Lake, tmp_path: Path
) -> None:
    told = failure(started(spark, source, lake, tmp_path / "c", {"orders": lambda batch: None}))
    assert "must return the rows to append, found None" in told


def test_a_query_with_a_state_goes_on_behind_a_batch_that_is_skipped(
    spark: SparkSession, source: str, lake: slackwater.Lake, tmp_path: Path
) -> None:
    lake.create_table("seen", "k BIGINT")

    def run() -> None:
        stream = spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(source)
        writer = slackwater.stream(stream.select("k").dropDuplicates(["k"])).to(lake, {"seen": lambda batch: batch})
        finished(writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start())

    run()
    commits = sorted((tmp_path / "c" / "commits").iterdir())
    for file in commits:
        if file.name.strip(".").startswith("2"):
            file.unlink()
    append(spark, source, 30)
    run()
    assert rows(lake.table("seen").toDF()) == [(0,), (1,), (2,)]


@pytest.mark.long
def test_a_batch_that_others_are_always_in_the_way_of_lands_under_locks(
    spark: SparkSession, source: str, lake: slackwater.Lake, tmp_path: Path
) -> None:
    others, tried, free = lake.location("totals"), tmp_path / "tried", 1 + FREE_RETRIES

    def totals(batch: Any, tx: Any) -> Any:
        import threading

        read = tx.table("totals").toDF().count()
        rows = batch.sparkSession.createDataFrame([(1000 + read, 1)], "k BIGINT, n BIGINT")
        other = threading.Thread(target=rows.write.format("delta").mode("append").save, args=[others], daemon=True)
        other.start()
        # Once the batch has locked what it reads, the other one waits for it.
        other.join(60 if read < free else 3)
        with tried.open("a") as file:
            file.write("waits\n" if other.is_alive() else "first\n")
        return batch.selectExpr("id AS k", f"{read}L AS n")

    stream = spark.readStream.format("delta").load(source)
    writer = slackwater.stream(stream).to(lake, {"totals": totals})
    finished(writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start())
    assert tried.read_text().split() == ["first"] * free + ["waits"]
    expected = [(k, free) for k in range(30)] + [(1000 + read, 1) for read in range(free)]
    # The one that waited lands as well.
    expected.append((1000 + free, 1))
    eventually(lambda: rows(lake.table("totals").toDF()) == expected)
