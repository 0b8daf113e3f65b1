"""A stream of files into a Delta table, one file a batch, by whichever engine answers `format("delta")` here.

As a program, `sink_work.py delta-spark SETTINGS`, it is the rival: delta-spark, in a Python of its own that needs
nothing of this project. It answers JSON lines of standard input: `{"source", "checkpoint", "table", "condition"}` by
`{"seconds": time, "rows": of the table, "versions": commits}` or `{"error": message}`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
            answer = streamed(spark, **json.loads(line))
        except Exception as error:  # noqa: BLE001  (whatever it is, the one who asked shall know)
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    # Answers have the channel to themselves: whatever else is printed goes where errors go.
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    _serve(_session(json.loads(sys.argv[2])), sys.stdin, channel)
