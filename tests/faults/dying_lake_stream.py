"""A program that streams a table into two tables of a lake by a Spark of its own, and may be killed on the way.

`python dying_lake_stream.py SOURCE CHECKPOINT LAKE [POINT SURVIVED]`: death comes at the POINT of the batch after
SURVIVED others. Without a POINT it lives, and ends when it has written what is there.
"""

from __future__ import annotations

import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import slackwater
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.spark.lake.transaction import TransactionTable
from slackwater.spark.streams.driver_source import DriverSource
from tests.faults.dying_writer import die_at

# What is called, on what, and whether death comes before or after the call.
POINTS: dict[str, tuple[Any, str, bool]] = {
    "rows of the first table written": (TransactionTable, "append", True),
    "all written, nothing ratified": (EmbeddedOwner, "commit_transaction", False),
    "ratified, not in the checkpoint of the query": (EmbeddedOwner, "commit_transaction", True),
}
# Of a source in the driver's Python, besides.
DRIVER_POINTS: dict[str, tuple[Any, str, bool]] = {
    "looked how far it goes, nothing planned": (DriverSource, "latestOffset", True),
    "planned in the checkpoint, no row read": (DriverSource, "getBatch", False),
}


def start(spark: SparkSession, source: str, checkpoint: str, lake: slackwater.Lake) -> Any:
    """The query of the table at `source`, a file of it a batch."""
    stream = spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(source)
    return started(stream, checkpoint, lake)


def started(stream: DataFrame, checkpoint: str, lake: slackwater.Lake) -> Any:
    """The query: rows into one table, what they add up to into the other."""

    def sums(batch: DataFrame, tx: Any) -> DataFrame:
        found = batch.agg(F.count("*").alias("n"), F.sum("id").alias("total"))
        return found.withColumn("at", F.lit(tx.current_timestamp()))

    writer = slackwater.stream(stream).to(lake, {"rows": lambda batch: batch, "sums": sums})
    return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()


def main(source: str, checkpoint: str, lake: str, point: str | None = None, survived: str = "0") -> None:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = slackwater.enable(builder.config("spark.sql.shuffle.partitions", "2").getOrCreate())
    if point is not None:
        owner, name, afterwards = {**POINTS, **DRIVER_POINTS}[point]
        die_at(owner, name, "", int(survived), afterwards)
    with slackwater.Lake.open(lake, spark=spark) as opened:
        start(spark, source, checkpoint, opened).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
