"""Streams: flights arrive as files by day, land in three tables in one transaction a batch, and a reader follows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import slackwater
from demo.terminal import console, show, yes

_DAYS = 3
_FEED = {"delta.enableChangeDataFeed": "true"}


def stream_flights(spark: SparkSession, flights: DataFrame, root: Path) -> None:
    """Batches that are in all tables or in none, and a copy of one of them that is kept up to date by its feed."""
    console.print("\n[bold]13. Streams: one micro-batch, several tables, exactly once")
    arriving, checkpoints = root / "arriving", root / "checkpoints"
    day = flights.where("month = 1").select("day", "carrier", "flight", "dep_delay").coalesce(1)
    with slackwater.Lake.open(root, spark=spark) as lake:
        lake.create_table("landed", day.schema, managed="catalogManaged")
        lake.create_table("carriers", "carrier STRING, flights BIGINT", properties=_FEED, managed="catalogManaged")
        lake.create_table("batches", "at TIMESTAMP, flights BIGINT", managed="catalogManaged")
        lake.create_table("board", "carrier STRING, flights BIGINT", managed="catalogManaged")
        for number in range(1, _DAYS + 1):
            day.where(F.col("day") == number).write.mode("append").parquet(str(arriving))
            land(spark, lake, arriving, checkpoints)
            follow(spark, lake, checkpoints)
        console.print("   slackwater.stream(df).to(lake, {'landed': …, 'carriers': …, 'batches': …}).start()")
        show(lake.table("batches").toDF().orderBy("at"), "one row a batch, at the time of its commit")
        same_times = {row["timestamp"] for row in lake.history(2 * _DAYS).where("size(tables) = 3").collect()}
        told = {row["at"] for row in lake.table("batches").toDF().collect()}
        console.print(f"   the times of its rows are those of the transactions: {yes(same_times == told)}")
        landed, counted = lake.table("landed").toDF().count(), total(lake, "carriers")
        console.print(f"   {landed:,} flights landed, the carriers have as many: {yes(landed == counted)}")
        agrees = lake.table("board").toDF().exceptAll(lake.table("carriers").toDF()).isEmpty()
        console.print(f"   the board that follows the feed agrees: {yes(agrees and total(lake, 'board') == counted)}")


def land(spark: SparkSession, lake: slackwater.Lake, arriving: Path, checkpoints: Path) -> None:
    """What has arrived, file by file: its rows, the count of each carrier, and a row that says when."""

    def carriers(batch: DataFrame, tx: Any) -> None:
        news = batch.groupBy("carrier").agg(F.count("*").alias("flights")).alias("s")
        merge = tx.table("carriers").alias("t").merge(news, "t.carrier = s.carrier")
        merge.whenMatchedUpdate(set={"flights": "t.flights + s.flights"}).whenNotMatchedInsertAll().execute()

    def batches(batch: DataFrame, tx: Any) -> DataFrame:
        return batch.agg(F.lit(tx.current_timestamp()).alias("at"), F.count("*").alias("flights"))

    files = spark.readStream.schema(lake.table("landed").toDF().schema).parquet(str(arriving))
    writer = slackwater.stream(files).to(lake, {"landed": lambda b: b, "carriers": carriers, "batches": batches})
    drain(writer, checkpoints / "land")


def follow(spark: SparkSession, lake: slackwater.Lake, checkpoints: Path) -> None:
    """The change feed of the carriers, applied to the board by key."""
    feed = spark.readStream.format("delta").option("readChangeFeed", "true").option("startingVersion", 0)
    changes = feed.load(lake.location("carriers"))
    writer = slackwater.stream(changes).to(lake, {"board": slackwater.changes_by_key("carrier")})
    drain(writer, checkpoints / "board")


def drain(writer: Any, checkpoint: Path) -> None:
    """Run the query to the end of what is there."""
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()


def total(lake: slackwater.Lake, name: str) -> int:
    """The flights that a table counts."""
    row = lake.table(name).toDF().agg(F.sum("flights").alias("n")).first()
    return 0 if row is None else int(row["n"])
