"""A process that works on tables which its Spark does not find where it does; it says on stdout what came of each step.

Arguments: a Connect server's address or a master, the directory that is hidden from Spark or its executors, a
directory that is not, and further settings of the session, as JSON. Without such a directory each step is done once.
What PACKAGE names in the environment is sent to the executors first.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable

from pyspark.sql import SparkSession

from slackwater import DeltaTable, enable
from slackwater.spark.session.classic_connect import is_connect


def main(address: str, hidden: str, shared: str, settings: str) -> None:
    """Each step on the hidden tables, before and after the shared directory was found to be shared."""
    builder = SparkSession.builder
    builder = builder.remote(address) if address.startswith("sc:") else builder.master(address)
    for key, value in json.loads(settings).items():
        builder = builder.config(key, value)
    spark = enable(builder.getOrCreate())
    if package := os.environ.get("PACKAGE"):
        spark.addArtifacts(package, pyfile=True)
    table, vectors = f"{hidden}/t", f"{hidden}/v"
    new = spark.range(100, 103)

    def save(mode: str, path: str) -> None:
        new.write.format("delta").mode(mode).save(path)

    def count(path: str, **options: str) -> int:
        return spark.read.format("delta").options(**options).load(path).count()

    def insert_only() -> None:
        merge = DeltaTable.forPath(spark, table).alias("t").merge(new.alias("s"), "t.id = s.id and t.id < 0")
        merge.whenNotMatchedInsertAll().execute()

    def merge() -> None:
        source = spark.range(1, 9).alias("s")
        merge = DeltaTable.forPath(spark, table).alias("t").merge(source, "t.id = s.id")
        merge.whenMatchedUpdate(set={"id": "s.id + 10"}).whenNotMatchedInsertAll().execute()

    steps: dict[str, Callable[[], object]] = {
        "read": lambda: count(table),
        "read by a log that Spark replays": lambda: count(table, replay="spark"),
        "read of rows that vectors hide": lambda: count(vectors),
        "change feed": lambda: count(vectors, readChangeFeed="true", startingVersion="0"),
        "create": lambda: save("error", f"{hidden}/new"),
        "append": lambda: save("append", table),
        "overwrite": lambda: save("overwrite", table),
        "insert-only merge": insert_only,
        "update": lambda: DeltaTable.forPath(spark, table).update("id = 1", {"id": "5"}),
        "merge": merge,
        "delete": lambda: DeltaTable.forPath(spark, table).delete("id = 1"),
        "delete by vectors": lambda: DeltaTable.forPath(spark, vectors).delete("id = 1"),
    }
    found = {"connect": is_connect(spark), "at first": {name: _outcome(step) for name, step in steps.items()}}
    if shared:
        save("append", f"{shared}/t")
        found["shared"] = count(f"{shared}/t")
        found["later"] = {name: _outcome(step) for name, step in steps.items()}
    sys.stdout.write(json.dumps(found))
    spark.stop()


def _outcome(step: Callable[[], object]) -> tuple[str, str]:
    try:
        return "done", repr(step())
    except Exception as error:  # noqa: BLE001  whatever it is, the test says what it must be
        return type(error).__name__, str(error)


if __name__ == "__main__":
    main(*sys.argv[1:])
