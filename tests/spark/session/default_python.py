"""A program that names no Python for Spark's workers, and lets them run rows: it says on stdout by which they ran.

`python default_python.py classic|connect DIRECTORY`
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

import slackwater
from tests.connected import connected


def main(mode: str, directory: str) -> None:
    builder = SparkSession.builder
    if mode == "connect":
        slackwater.enable()
        spark = connected(builder, "local[1]", {"spark.ui.enabled": "false"}).getOrCreate()
    else:
        spark = builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
        slackwater.enable(spark)
    spark.range(0, 9, 1, 3).write.format("delta").option("rows", "arrow").save(directory)
    rows = spark.read.format("delta").option("rows", "arrow").load(directory).count()
    slackwater.DeltaTable.forPath(spark, directory).optimize().executeZOrderBy("id")
    (row,) = spark.range(1).mapInArrow(_executable, "python STRING").collect()
    sys.stdout.write(json.dumps([rows, row[0] == sys.executable, os.environ.get("PYSPARK_PYTHON")]))
    spark.stop()


def _executable(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"python": [sys.executable]})


if __name__ == "__main__":
    main(*sys.argv[1:])
