"""A job whose S3 endpoint only the environment names: arguments are the URL of the table and classic or connect."""

from __future__ import annotations

import sys

import slackwater


def main(url: str, mode: str) -> None:
    """Write a table with Spark, and print what Spark and `Snapshot.load` read of it."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.config("spark.ui.enabled", "false")
    spark = (builder.remote("local[1]") if mode == "connect" else builder.master("local[1]")).getOrCreate()
    slackwater.enable(spark)
    spark.range(3).write.format("delta").save(url)
    slackwater.DeltaTable.forPath(spark, url).delete("id = 1")
    found = sorted(row.id for row in spark.read.format("delta").load(url).collect())
    rows = sorted(slackwater.Snapshot.load(url).to_arrow()["id"].to_pylist())
    sys.stdout.write(f"spark: {found}\nsnapshot: {rows}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
