"""Single rows of the flights: an upsert with its change feed, a partition that goes, an update by deletion vectors."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

import slackwater
from demo.terminal import console, show, yes

KEY = ("year", "month", "day", "carrier", "flight", "origin")
REPORTED_LATE = 5
CORRECTED, CANCELLED, REPORTED = "corrected", "cancelled", "reported late"


def change_rows(spark: SparkSession, path: Path) -> None:
    """Merge, delete and update; no data file is rewritten."""
    console.print("\n[bold]8. Change single rows, and read the changes")
    table = slackwater.DeltaTable.forPath(spark, str(path))
    table.setProperties({"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"})
    console.print("   properties delta.enableDeletionVectors and delta.enableChangeDataFeed: true")
    upsert(spark, table, path)
    drop_month(spark, table, path)
    update(table, path)


def corrections_of(flights: DataFrame) -> DataFrame:
    """February as the airports know it later: delays an hour too long, flights that did not fly, and some unknown."""
    february = flights.where("month = 2")
    known = february.withColumn(
        "status", F.when(F.col("dep_time").isNull(), CANCELLED).when(F.col("dep_delay") > 300, CORRECTED)
    ).where("status IS NOT NULL")
    corrected = F.col("status") == CORRECTED
    known = known.withColumns({name: less_an_hour(name, corrected) for name in ("dep_delay", "arr_delay")})
    unknown = february.where("day = 28 AND dep_time IS NOT NULL").orderBy(*KEY).limit(REPORTED_LATE)
    return known.unionByName(unknown.withColumns({"flight": F.col("flight") + 9000, "status": F.lit(REPORTED)}))


def less_an_hour(name: str, corrected: Column) -> Column:
    """The column, an hour less where `corrected`."""
    return F.when(corrected, F.col(name) - 60).otherwise(F.col(name))


def upsert(spark: SparkSession, table: slackwater.DeltaTable, path: Path) -> None:
    """Correct, remove and add flights in one commit, then read what that commit changed."""
    corrections = corrections_of(table.toDF()).cache()
    rows, expected = table.toDF().count(), counts_of(corrections, "status")
    found = (
        table.alias("f")
        .merge(corrections.alias("c"), " AND ".join(f"f.{name} = c.{name}" for name in KEY))
        .whenMatchedUpdate(f"c.status = '{CORRECTED}'", {"dep_delay": "c.dep_delay", "arr_delay": "c.arr_delay"})
        .whenMatchedDelete(f"c.status = '{CANCELLED}'")
        .whenNotMatchedInsertAll()
        .execute()
    )
    console.print("   table.merge(corrections, 'f.year = c.year AND …')")
    console.print("        .whenMatchedUpdate(…).whenMatchedDelete(…).whenNotMatchedInsertAll()")
    show(found, "what the merge did")
    changes = feed_of(spark, path).cache()
    show(some_of(changes), "readChangeFeed: some of its changes")
    updated, deleted, inserted = (expected[status] for status in (CORRECTED, CANCELLED, REPORTED))
    told = {"update_preimage": updated, "update_postimage": updated, "delete": deleted, "insert": inserted}
    console.print(f"   the feed tells each correction once: {yes(counts_of(changes, '_change_type') == told)}")
    after = table.toDF().count()
    console.print(f"   {rows:,} rows became {after:,}, as it should be: {yes(after == rows + inserted - deleted)}")


def feed_of(spark: SparkSession, path: Path) -> DataFrame:
    """The changes of the newest version."""
    version = slackwater.Snapshot.load(path).version
    reader = spark.read.format("delta").option("readChangeFeed", "true")
    return reader.option("startingVersion", version).option("endingVersion", version).load(str(path))


def some_of(changes: DataFrame) -> DataFrame:
    """Two of each kind, what a row was before what it became."""
    of_kind = F.row_number().over(Window.partitionBy("_change_type").orderBy(*KEY))
    some = changes.withColumn("number", of_kind).where("number <= 2").orderBy(*KEY, F.desc("_change_type"))
    return some.select("_change_type", "month", "day", "carrier", "flight", "origin", "dep_delay")


def counts_of(frame: DataFrame, column: str) -> dict[str, int]:
    """How many rows have each value of a column."""
    return {row[column]: row["count"] for row in frame.groupBy(column).count().collect()}


def drop_month(spark: SparkSession, table: slackwater.DeltaTable, path: Path) -> None:
    """A condition that the log decides: no data file is read or written, and the feed knows the rows all the same."""
    before = data_files(path)
    table.delete("month = 1")
    metrics = last_metrics(table)
    rows = int(metrics["numDeletedRows"])
    untouched = data_files(path) == before and table.toDF().where("month = 1").isEmpty()
    console.print(
        f"   table.delete('month = 1')   → {rows:,} rows; files removed: {metrics['numRemovedFiles']}, "
        f"written: {metrics['numAddedFiles']}: {yes(untouched)}"
    )
    console.print(f"   the feed tells them: {yes(counts_of(feed_of(spark, path), '_change_type') == {'delete': rows})}")


def update(table: slackwater.DeltaTable, path: Path) -> None:
    """Rows that are marked as deleted where they were, and written anew elsewhere."""
    early = "month > 10 AND carrier = 'UA' AND dep_delay < 0"
    expected = table.toDF().where(early).count()
    table.update(early, {"dep_delay": "0"})
    metrics = last_metrics(table)
    done = int(metrics["numUpdatedRows"]) == expected and table.toDF().where(early).isEmpty()
    console.print(f"   table.update(\"{early}\", {{…: '0'}})")
    console.print(
        f"   → {expected:,} rows, {metrics['numDeletionVectorsAdded']} deletion vectors, "
        f"{metrics['numCopiedRows']} rows copied: {yes(done)}"
    )
    vectors = len(list(path.glob("deletion_vector_*.bin")))
    console.print(f"   the table's deletion vectors are in {vectors} files")


def last_metrics(table: slackwater.DeltaTable) -> dict[str, str]:
    """What the newest commit says of itself."""
    newest = table.history(1).head()
    assert newest is not None  # noqa: S101
    return dict(newest["operationMetrics"])


def data_files(path: Path) -> set[Path]:
    """The data files on disk, live or not."""
    return set(path.rglob("*.parquet")) - set((path / "_delta_log").rglob("*.parquet"))
