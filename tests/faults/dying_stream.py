"""A program that streams files into a table by a Spark of its own, and may be killed on the way.

`python dying_stream.py SOURCE CHECKPOINT TABLE [POINT SURVIVED]`: death comes at the POINT of the batch after SURVIVED
others. Without a POINT it lives, and ends when it has written what is there.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from pyspark.sql import SparkSession

import slackwater
from slackwater.storage.local_store import LocalObjectStore
from tests.faults.dying_writer import die_at

# What is called, on what, and whether death comes before or after the call.
POINTS: dict[str, tuple[Any, str, str, bool]] = {
    "files written, not committed": (LocalObjectStore, "put_if_absent", ".json", False),
    "commit staged, not yet visible": (os, "link", ".json", False),
    "committed, not in the checkpoint of the query": (LocalObjectStore, "put_if_absent", ".json", True),
}


def main(source: str, checkpoint: str, table: str, point: str | None = None, survived: str = "0") -> None:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = slackwater.enable(builder.config("spark.sql.shuffle.partitions", "2").getOrCreate())
    if point is not None:
        owner, name, part, afterwards = POINTS[point]
        die_at(owner, name, part, int(survived), afterwards)
    stream = spark.readStream.schema("id BIGINT").option("maxFilesPerTrigger", 1).parquet(source)
    writer = stream.writeStream.format("delta").option("checkpointLocation", checkpoint).trigger(availableNow=True)
    writer.start(table).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
