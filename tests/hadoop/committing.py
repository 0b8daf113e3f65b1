"""A process that commits without end, and says what is there: `python -m tests.hadoop.committing URL`; to be killed."""

from __future__ import annotations

import itertools
import sys
from typing import Any

from pyspark.sql import SparkSession

from slackwater.spark.storage.stores import table_at

COMMIT_BYTES = 60_000_000


def commit(number: int) -> bytes:
    """What the commit of this number is."""
    return str(number % 10).encode() * COMMIT_BYTES


def main(url: str) -> None:
    """Commit 0, 1, … to the log of the table at `url`; the JVM's process is printed, then each number."""
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    store = table_at(spark, url).store
    jvm: Any = spark._jvm
    sys.stdout.write(f"{jvm.java.lang.ProcessHandle.current().pid()}\n")
    for number in itertools.count():
        store.put_if_absent(f"_delta_log/{number:020}.json", commit(number))
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
