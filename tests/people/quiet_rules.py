"""A process of its own that breaks rules of a table: one line for each."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from pyspark.sql import SparkSession

import slackwater
from tests.connected import connected

BEGINS, ENDS = "---- from here on nothing is to be said", "---- up to here"


def main(path: str, mode: str) -> None:
    """Tell on stdout what each mistake is answered by; on stderr is what Spark says, nothing from BEGINS to ENDS."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder
    builder = connected(builder, "local[2]") if mode == "connect" else builder.master("local[2]")
    settings = {"spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "2"}
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = slackwater.enable(builder.getOrCreate())
    table = slackwater.DeltaTable.create(spark).location(path).addColumn("id", "BIGINT", nullable=False).execute()
    spark.range(9).write.format("delta").mode("append").save(path)
    table.addConstraint("small", "id < 9")
    mark(BEGINS)
    writer = spark.range(70, 72).write.format("delta")
    attempt("CHECK", lambda: writer.mode("append").save(path))
    nulls = spark.sql("SELECT CAST(NULL AS BIGINT) AS id").write.format("delta")
    attempt("NOT NULL", lambda: nulls.mode("append").save(path))
    attempt("replaceWhere", lambda: writer.mode("overwrite").option("replaceWhere", "id = 1").save(path))
    attempt("UPDATE", lambda: table.update("id = 1", {"id": "90"}))
    say(f"rows: {spark.read.format('delta').load(path).count()}")
    # A server of Connect complains of sessions that are closed.
    mark(ENDS)
    spark.stop()


def attempt(name: str, work: Callable[[], object]) -> None:
    """Say in a line what `work` is answered by."""
    try:
        work()
        say(f"{name}: nothing was said")
    except slackwater.errors.SlackwaterError as error:
        say(f"{name}: {error}")


def mark(line: str) -> None:
    """A line on stderr."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def say(line: str) -> None:
    """A line on stdout."""
    sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
