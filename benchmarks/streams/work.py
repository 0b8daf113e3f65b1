"""Streams of files into a Delta table, and out of one, by whichever engine answers `format("delta")` here.

As a program, `work.py delta-spark SETTINGS`, it is the rival: delta-spark, in a Python of its own that needs nothing of
this project. It answers JSON lines of standard input, `{"what": "streamed", …}` or `{"what": "drained", …}` with the
arguments of the function, by what that answers or `{"error": message}`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

SCHEMA = "id BIGINT, name STRING, value DOUBLE"


def streamed(spark: SparkSession, source: str, checkpoint: str, table: str, condition: str) -> dict[str, Any]:
    """The rows of the files in `source` for which `condition` is true, streamed to a new table; the time of it all."""
    start = time.perf_counter()
    stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(source).where(condition)
    writer = stream.writeStream.format("delta").option("checkpointLocation", checkpoint).trigger(availableNow=True)
    writer.start(table).awaitTermination()
    seconds = time.perf_counter() - start
    versions = len(list(Path(table, "_delta_log").glob("0*.json")))
    return {"seconds": seconds, "rows": spark.read.format("delta").load(table).count(), "versions": versions}


def drained(spark: SparkSession, table: str, checkpoint: str, condition: str, columns: list[str]) -> dict[str, Any]:
    """The rows of a table for which `condition` is true, read as a stream, with these columns; the time of it all."""
    start = time.perf_counter()
    stream = spark.readStream.format("delta").load(table).where(condition)
    writer = (stream.select(*columns) if columns else stream).writeStream.format("noop")
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "rows": sum(progress["numInputRows"] for progress in query.recentProgress)}


def first_offset(spark: SparkSession, table: str, checkpoint: str) -> dict[str, Any]:
    """One micro-batch of one file of a table: the time until it is there."""
    start = time.perf_counter()
    stream = spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(table)
    writer = stream.writeStream.foreachBatch(lambda *_: None)
    query = writer.option("checkpointLocation", checkpoint).start()
    while not list(Path(checkpoint, "commits").glob("0")):
        if query.exception() is not None:
            raise RuntimeError(str(query.exception()))
        time.sleep(0.01)
    seconds = time.perf_counter() - start
    query.stop()
    return {"seconds": seconds, "rows": 1}


WORKS: dict[str, Callable[..., dict[str, Any]]] = {
    "streamed": streamed,
    "drained": drained,
    "first_offset": first_offset,
}


def _session(settings: dict[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(settings.pop("spark.master"))
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _serve(spark: SparkSession, calls: Any, answers: Any) -> None:
    for line in calls:
        try:
            request = json.loads(line)
            answer = WORKS[request.pop("what")](spark, **request)
        except Exception as error:  # noqa: BLE001  (whatever it is, the one who asked shall know)
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    # Answers have the channel to themselves: whatever else is printed goes where errors go.
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    _serve(_session(json.loads(sys.argv[2])), sys.stdin, channel)
