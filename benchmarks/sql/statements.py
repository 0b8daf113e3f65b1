"""What `spark.sql` costs: a statement without a Delta table, a long query's plan, a MERGE, a selective SELECT."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import slackwater
from benchmarks.harness import Row, agree, interleaved, middle, timed
from benchmarks.scales import Scale, once
from slackwater import DeltaTable

SQL = ("sql-nothing", "sql-plan", "sql-merge", "sql-select")
_DATABASE = "sql_bench"
_TABLES = 5
_LINES = 200
_AT_ONCE = 200
_PARTS = 10
_KEY = "t.id = s.id"
_MERGE = f"MERGE INTO target t USING source s ON {_KEY} WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
_SELECT = "SELECT id, v FROM selected WHERE p = 3 AND id BETWEEN {low} AND {high}"


def measure_sql(spark: SparkSession, cases: Sequence[str], data: Path, scale: Scale) -> list[Row]:
    """The rows of `cases`, those of SQL that are asked for."""
    if not cases:
        return []
    slackwater.enable(spark)
    works = {"sql-nothing": _nothing, "sql-plan": _plan, "sql-merge": _merge, "sql-select": _select}
    with _database(spark, data / "sql" / "names"):
        return [works[name](spark, data / "sql", scale) for name in cases]


@contextmanager
def _database(spark: SparkSession, place: Path) -> Iterator[None]:
    shutil.rmtree(place, ignore_errors=True)
    spark.sql(f"DROP DATABASE IF EXISTS {_DATABASE} CASCADE")
    spark.sql(f"CREATE DATABASE {_DATABASE} LOCATION '{place}'")
    spark.sql(f"USE {_DATABASE}")
    try:
        yield
    finally:
        spark.sql("USE default")
        spark.sql(f"DROP DATABASE {_DATABASE} CASCADE")


def _nothing(spark: SparkSession, data: Path, scale: Scale) -> Row:
    del data
    stock = spark.newSession()
    stock.conf.set("spark.slackwater.enabled", "false")
    sides = {name: partial(_repeated, session) for name, session in (("ours", spark), ("stock", stock))}
    found = interleaved(sides, 2 * scale.spark_repetitions + 1, scale.spark_warmups)
    more = (middle(found["ours"]) - middle(found["stock"])) / _AT_ONCE
    return Row("sql-nothing", "SELECT 1, more than stock Spark takes", "0.001 s", max(more, 0.0), mark=0.001)


def _repeated(session: SparkSession) -> float:
    return timed(lambda: [session.sql("SELECT 1") for _ in range(_AT_ONCE)])[0]


def _plan(spark: SparkSession, data: Path, scale: Scale) -> Row:
    for number in range(_TABLES):
        place = once(data / f"wide-{number}", partial(_wide, spark, number))
        spark.sql(f"CREATE TABLE wide_{number} USING delta LOCATION '{place}'")
        spark.read.parquet(f"{place}/*.parquet").createOrReplaceTempView(f"plain_{number}")
    sides = {name: partial(_planned, spark, _long_query(name)) for name in ("wide", "plain")}
    found = interleaved(sides, scale.spark_repetitions, scale.spark_warmups)
    columns = {name: spark.sql(_long_query(name)).columns for name in sides}
    lines = _long_query("wide").count("\n") + 1
    answers = (len(columns["wide"]), len(columns["plain"]))
    agree(*answers)
    work = f"plan a query of {lines} lines over {_TABLES} tables"
    return Row("sql-plan", work, "Parquet views", middle(found["wide"]), middle(found["plain"]), 1.3, answers=answers)


def _planned(spark: SparkSession, text: str) -> float:
    def work() -> None:
        frame = spark.sql(text)
        if hasattr(frame, "_jdf"):
            frame._jdf.queryExecution().executedPlan()
        else:
            _ = frame.schema

    return timed(work)[0]


def _wide(spark: SparkSession, number: int, place: Path) -> None:
    columns = [f"id * {at} AS c{at}" for at in range(20)]
    rows = spark.range(0, 1_000, 1, 2).selectExpr("id", *columns)
    rows.write.format("delta").option("description", number).save(str(place))


def _long_query(name: str) -> str:
    """A query of many expressions over all tables, joined by their keys."""
    expressions = [f"  sum(t{n % _TABLES}.c{n % 20} + {n}) AS x{n}" for n in range(_LINES - 2 * _TABLES - 1)]
    joins = [f"JOIN {name}_{n} t{n}\n  ON t0.id = t{n}.id" for n in range(1, _TABLES)]
    condition = "WHERE t0.id > 10 AND t1.c1 < 900"
    return "\n".join(["SELECT", ",\n".join(expressions), f"FROM {name}_0 t0", *joins, condition])


def _merge(spark: SparkSession, data: Path, scale: Scale) -> Row:
    rows = scale.target_rows // 10
    source = once(data / f"merged-{rows}", partial(_target, spark, rows))
    spark.range(rows // 2, rows // 2 + rows // 20).selectExpr("id", "'new' AS v").createOrReplaceTempView("source")
    place = data / "changed"
    sides: dict[str, Callable[[], Any]] = {
        "SQL": partial(_merged, spark, source, place, lambda: spark.sql(_MERGE).collect()),
        "builder": partial(_merged, spark, source, place, lambda: _built(spark, place)),
    }
    results = interleaved(sides, 2 * scale.change_repetitions + 1, scale.change_warmups)
    times = {name: middle([seconds for seconds, _ in runs]) for name, runs in results.items()}
    answers = tuple(agree(*(answer for _, answer in runs)) for runs in results.values())
    agree(*answers)
    return Row(
        "sql-merge", f"MERGE into {rows:,} rows", "builder", times["SQL"], times["builder"], 1.05, answers=answers
    )


def _target(spark: SparkSession, rows: int, place: Path) -> None:
    spark.range(0, rows, 1, 8).selectExpr("id", "concat('v', id) AS v").write.format("delta").save(str(place))


def _merged(spark: SparkSession, source: Path, place: Path, work: Callable[[], Any]) -> tuple[float, int]:
    spark.sql("DROP TABLE IF EXISTS target")
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(source, place)
    spark.sql(f"CREATE TABLE target USING delta LOCATION '{place}'")
    seconds, _ = timed(work)
    return seconds, spark.table("target").where("v = 'new'").count()


def _built(spark: SparkSession, place: Path) -> None:
    builder = DeltaTable.forPath(spark, str(place)).alias("t").merge(spark.table("source").alias("s"), _KEY)
    builder.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute().collect()


def _select(spark: SparkSession, data: Path, scale: Scale) -> Row:
    rows = scale.rows // 10
    place = once(data / f"selected-{rows}", partial(_selected, spark, rows))
    spark.sql(f"CREATE TABLE selected USING delta LOCATION '{place}'")
    low, high = rows // 2, rows // 2 + rows // 1000 + _PARTS
    text = _SELECT.format(low=low, high=high)

    def by_frame() -> DataFrame:
        frame = spark.read.format("delta").load(str(place)).where(f"p = 3 AND id BETWEEN {low} AND {high}")
        return frame.select("id", "v")

    sides = {"SQL": partial(_counted, lambda: spark.sql(text)), "where": partial(_counted, by_frame)}
    results = interleaved(sides, scale.spark_repetitions, scale.spark_warmups)
    agree(sorted(spark.sql(text).inputFiles()), sorted(by_frame().inputFiles()))
    times = {name: middle([seconds for seconds, _ in runs]) for name, runs in results.items()}
    answers = tuple(agree(*(answer for _, answer in runs)) for runs in results.values())
    agree(*answers)
    work = f"select {answers[0]} of {rows:,} rows by a partition and a range"
    return Row("sql-select", work, "load().where()", times["SQL"], times["where"], 1.1, answers=answers)


def _selected(spark: SparkSession, rows: int, place: Path) -> None:
    frame = spark.range(0, rows, 1, 20).selectExpr("id", f"id % {_PARTS} AS p", "concat('v', id) AS v")
    frame.write.format("delta").partitionBy("p").save(str(place))


def _counted(frame: Callable[[], DataFrame]) -> tuple[float, int]:
    seconds, found = timed(lambda: frame().collect())
    return seconds, len(found)
