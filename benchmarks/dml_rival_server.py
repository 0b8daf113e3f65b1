"""The process that is a rival: `dml_rival_server.py ENGINE SETTINGS` answers JSON lines of standard input.

A request is `{"path": table, "source": directory of Parquet files, "updates": whether matched rows are updated}`: a
MERGE by `id` that inserts the rows that match none; `{"what": "compact", "path": table}` lets small files become one.
Its answer is `{"seconds": time}` or `{"error": message}`. It runs in the rival's own Python, and needs nothing of this
project.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

Works = dict[str, Callable[..., float]]
CONDITION = "t.id = s.id"


def delta_spark(settings: dict[str, str]) -> Works:
    """The works of delta-spark in a session of `settings`; reading the source is part of the time of a merge."""
    from delta.tables import DeltaTable
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(settings.pop("spark.master"))
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()

    def merge(path: str, source: str, updates: bool) -> float:
        start = time.perf_counter()
        table = DeltaTable.forPath(spark, path).alias("t")
        builder = table.merge(spark.read.parquet(source).alias("s"), CONDITION)
        if updates:
            builder = builder.whenMatchedUpdateAll()
        builder.whenNotMatchedInsertAll().execute()
        return time.perf_counter() - start

    def compact(path: str) -> float:
        start = time.perf_counter()
        DeltaTable.forPath(spark, path).optimize().executeCompaction().collect()
        return time.perf_counter() - start

    return {"merge": merge, "compact": compact}


def deltalake(_: dict[str, str]) -> Works:
    """The works of deltalake; the source of a merge is in memory before the time begins."""
    import pyarrow.parquet as pq
    from deltalake import DeltaTable

    def merge(path: str, source: str, updates: bool) -> float:
        rows = pq.read_table(source)
        start = time.perf_counter()
        merger = DeltaTable(path).merge(rows, CONDITION, source_alias="s", target_alias="t")
        if updates:
            merger = merger.when_matched_update_all()
        merger.when_not_matched_insert_all().execute()
        return time.perf_counter() - start

    return {"merge": merge}


ENGINES: dict[str, Callable[[dict[str, str]], Works]] = {"delta-spark": delta_spark, "deltalake": deltalake}


def serve(works: Works, calls: Any, answers: Any) -> None:
    """Answer every line of `calls` by one line of `answers`."""
    for line in calls:
        request = json.loads(line)
        answer: dict[str, Any]
        try:
            answer = {"seconds": works[request.pop("what", "merge")](**request)}
        except Exception as error:  # noqa: BLE001  (whatever it is, the one who asked shall know)
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    # Answers have the channel to themselves: whatever else is printed goes where errors go.
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(ENGINES[sys.argv[1]](json.loads(sys.argv[2])), sys.stdin, channel)
