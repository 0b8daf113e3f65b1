"""A process of its own whose session is stopped: one line for each thing that somebody does with it then."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

import slackwater
from tests.connected import connected
from tests.people.quiet_rules import attempt, say


def main(path: str, mode: str) -> None:
    """Tell on stdout what each use of the stopped session is answered by, and what goes on without one."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder
    builder = connected(builder, "local[1]") if mode == "connect" else builder.master("local[1]")
    spark = slackwater.enable(builder.getOrCreate())
    table = slackwater.DeltaTable.create(spark).location(path).addColumn("id", "BIGINT").execute()
    lake = slackwater.Lake.open(f"{path}-lake", spark=spark)
    lake.create_table("orders", "id BIGINT")
    frame, reader, name = spark.range(1), spark.read, f"delta.`{path}`"
    spark.stop()
    attempt("load", lambda: spark.read.format("delta").load(path))
    attempt("load by a reader of before", lambda: reader.format("delta").load(path))
    attempt("spark.table", lambda: spark.table(name))
    attempt("sql", lambda: spark.sql(f"SELECT * FROM {name}"))
    attempt("save", lambda: frame.write.format("delta").mode("append").save(path))
    attempt("insertInto", lambda: frame.write.insertInto(name))
    attempt("writeTo", lambda: frame.writeTo(name).append())
    attempt("forPath", lambda: slackwater.DeltaTable.forPath(spark, path))
    attempt("forName", lambda: slackwater.DeltaTable.forName(spark, name))
    attempt("create", lambda: slackwater.DeltaTable.create(spark))
    attempt("toDF", table.toDF)
    attempt("history", table.history)
    attempt("delete", lambda: table.delete("id = 1"))
    attempt("setProperties", lambda: table.setProperties({"team": "sales"}))
    attempt("optimize", lambda: table.optimize().executeCompaction())
    attempt("vacuum", table.vacuum)
    attempt("Lake.table", lambda: lake.table("orders").toDF())
    attempt("Lake.history", lake.history)
    attempt("Lake.transaction", lake.transaction)
    attempt("enable", lambda: slackwater.enable(spark))
    attempt("enable with a lake", lambda: slackwater.enable(spark, lake=lake))
    say(f"Lake.repair: {lake.repair()}")
    say(f"Lake.tables: {[each.name for each in lake.tables()]}")
    lake.close()
    say(f"version: {slackwater.Snapshot.load(path).version}")


if __name__ == "__main__":
    main(*sys.argv[1:])
