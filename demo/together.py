"""Several tables changed at once: one timestamp for all, which their rows carry and every time slice respects."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import slackwater
from demo.terminal import console, show, yes

SUMMARY, AUDIT = "flights_per_day", "audit"


def change_together(spark: SparkSession, root: Path, name: str) -> None:
    """A correction of flights, their summary and an audit row: all of it, or nothing, as of one instant."""
    console.print("\n[bold]11. Change several tables at once, as of one instant")
    with slackwater.Lake.open(root, spark=spark) as lake:
        lake.create_table(
            SUMMARY, "month INT, day INT, flights BIGINT, delay DOUBLE, at TIMESTAMP", managed="catalogManaged"
        )
        lake.create_table(AUDIT, "at TIMESTAMP, what STRING, flights BIGINT", managed="catalogManaged")
        summarise(spark, lake, name, "the summary is made")
        first = lake.history(1).first()
        told = summarise(spark, lake, name, "flights without an airplane are taken out", "aircraft IS NULL")
        before = first["timestamp"] if first else told
        console.print("   with lake.transaction(spark) as tx: tx.current_timestamp(); tx.table('flights').delete(…); …")
        agree(lake, name, told)
        slices(lake, name, before.astimezone(dt.timezone.utc), told)
        show(lake.history(4).select("timestamp", "tables", "operations"), "lake.history(4)")


def summarise(
    spark: SparkSession, lake: slackwater.Lake, name: str, why: str, without: str | None = None
) -> dt.datetime:
    """Take flights out, count those that are left for each day, and write down why: the time that all of it carries."""
    with lake.transaction(spark, writes=[name, SUMMARY, AUDIT]) as tx:
        now = F.lit(tx.current_timestamp())
        flights = tx.table(name)
        if without is not None:
            flights.delete(without)
        # The transaction sees what it has done.
        left = flights.toDF()
        days = left.groupBy("month", "day").agg(
            F.count(F.lit(1)).alias("flights"), F.avg("dep_delay").cast("double").alias("delay")
        )
        tx.table(SUMMARY).overwrite(days.withColumn("at", now))
        row = left.select(now.alias("at"), F.lit(why).alias("what"), F.count(F.lit(1)).alias("flights"))
        tx.table(AUDIT).append(row)
    return tx.commit_timestamp


def agree(lake: slackwater.Lake, name: str, told: dt.datetime) -> None:
    """The time in the rows, the transaction's, and that in each table's log."""
    stamps = {n: lake.snapshot(n).timestamp_ms for n in (name, SUMMARY, AUDIT)}
    rows = {round(r["at"].timestamp() * 1000) for r in lake.table(SUMMARY).toDF().select("at").distinct().collect()}
    newest = lake.table(AUDIT).toDF().agg(F.max("at").alias("at")).first()
    carried = rows | ({round(newest["at"].timestamp() * 1000)} if newest else set())
    same = {round(told.timestamp() * 1000)} == carried == set(stamps.values())
    console.print(f"   commit_timestamp {told.isoformat(timespec='milliseconds')}")
    console.print(f"   = current_timestamp in its rows = inCommitTimestamp of all {len(stamps)} tables: {yes(same)}")


def slices(lake: slackwater.Lake, name: str, before: dt.datetime, told: dt.datetime) -> None:
    """Reports of two instants, each over all tables: they add up."""
    for at in (before, told):
        past = lake.as_of(at)
        flights = past.table(name).toDF().count()
        summed = past.table(SUMMARY).toDF().agg(F.sum("flights").alias("n")).first()
        audited = past.table(AUDIT).toDF().orderBy(F.desc("at")).first()
        same = summed is not None and audited is not None and flights == summed["n"] == audited["flights"]
        console.print(
            f"   lake.as_of({at.isoformat(timespec='milliseconds')}): {flights:,} flights; summary and audit say the "
            f"same: {yes(same)}"
        )
