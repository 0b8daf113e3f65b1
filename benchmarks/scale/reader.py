"""The process that reads a table: `reader.py ENGINE SETTINGS TABLE FILES` prints a JSON object of its measurements.

It runs in the Python of the engine, and needs nothing of this project for a rival. Each query runs twice with different
constants, the second time is reported. `Spark: one file` is the bound of a SELECT: Spark's own query of a single data
file. Peaks of memory are those of the whole process, after the selective queries.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROWS = 100


def main(engine: str, settings: dict[str, str], table: str, files: int) -> dict[str, Any]:
    """Return seconds by query, the answers, and the peaks of memory in MB."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    if engine == "slackwater":
        import slackwater

        slackwater.enable(spark)
    spark.range(1000).selectExpr("sum(id)").collect()

    def load() -> Any:
        return spark.read.format("delta").load(table)

    def select(run: int) -> Any:
        one = (files // 2 + run) * ROWS
        return spark.sql(f"SELECT max(id) FROM delta.`{table}` WHERE id = {one}").collect()[0][0]

    file = next(Path(table).glob("day=*/*.parquet"))

    def select_file(run: int) -> Any:
        return spark.sql(f"SELECT max(id) FROM parquet.`{file}` WHERE id >= {-run}").collect()[0][0]

    queries: dict[str, Callable[[int], Any]] = {
        "load": lambda _: load(),
        "where, one day": lambda run: load().where(f"day = DATE '2020-01-0{run + 1}'").count(),
        "SELECT, one file": select,
        "Spark: one file": select_file,
        "view, one day": lambda run: _view(spark, load(), run),
        "limit 10": lambda run: len(load().limit(10 - run).collect()),
    }
    seconds, answers = {}, {}
    for name, query in queries.items():
        for run in range(2):
            start = time.perf_counter()
            answer = query(run)
            seconds[name] = time.perf_counter() - start
        answers[name] = answer if isinstance(answer, int) or answer is None else ""
    jvm: Any = spark._jvm
    java = int(jvm.java.lang.ProcessHandle.current().pid())
    peaks = {"Python": _peak_mb(os.getpid()), "JVM": _peak_mb(java)}
    spark.stop()
    return {"seconds": seconds, "answers": answers, "peaks": peaks}


def _view(spark: Any, frame: Any, run: int) -> int:
    frame.createOrReplaceTempView("scale_of_reads")
    rows = "SELECT day, id + 1 AS n FROM scale_of_reads"
    query = f"SELECT count(*) FROM ({rows}) WHERE day = DATE '2020-01-0{run + 2}'"
    found: int = spark.sql(query).collect()[0][0]
    return found


def _peak_mb(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3], int(sys.argv[4]))) + "\n")
