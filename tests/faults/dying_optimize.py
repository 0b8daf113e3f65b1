"""A program that compacts a table by a Spark of its own, and is killed: `python dying_optimize.py TABLE POINT`."""

from __future__ import annotations

import os
import sys
from typing import Any

from pyspark.sql import SparkSession

import slackwater
from slackwater import DeltaTable
from slackwater.storage.local_store import LocalObjectStore
from tests.faults.dying_writer import die_at

_COMMIT = f"{1:020d}.json"

# As in `dying_writer.POINTS`.
POINTS: dict[str, tuple[Any, str, str, int, bool]] = {
    "rows written, no file in its place": (LocalObjectStore, "move", ".parquet", 0, False),
    "one of two files in its place": (LocalObjectStore, "move", ".parquet", 0, True),
    "all files in their places": (LocalObjectStore, "put_if_absent", _COMMIT, 0, False),
    "commit staged, not yet visible": (os, "link", _COMMIT, 0, False),
    "commit visible, not answered": (os, "link", _COMMIT, 0, True),
}


def main(table: str, point: str) -> None:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = slackwater.enable(builder.config("spark.sql.shuffle.partitions", "2").getOrCreate())
    die_at(*POINTS[point])
    DeltaTable.forPath(spark, table).optimize().executeCompaction()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
