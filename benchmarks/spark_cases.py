"""The cases that need Spark, all in one session."""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.dml import DML, measure_dml
from benchmarks.harness import Row
from benchmarks.scales import Scale
from benchmarks.services.layout import LAYOUT, measure_layout
from benchmarks.spark_reading import READING, measure_reading
from benchmarks.spark_writing import WRITING, measure_writing
from benchmarks.sql.statements import SQL, measure_sql
from benchmarks.stores.cases import CONNECTOR, STORES, measure_stores
from benchmarks.streams.sinks import SINKS, measure_sinks
from benchmarks.streams.sources import SOURCES, measure_sources

_MASTER = "local[2]"
_SETTINGS = {
    "spark.driver.memory": "4g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
}


def measure_spark(cases: Sequence[str], data: Path, scale: Scale, connect: bool) -> list[Row]:
    """The rows of `cases`, in one Spark session."""
    with _session(connect) as spark:
        rows = measure_reading(spark, [name for name in READING if name in cases], data, scale)
        rows += measure_writing(spark, [name for name in WRITING if name in cases], data, scale)
        rows += measure_dml(
            spark, [name for name in DML if name in cases], data, scale, {"spark.master": _MASTER, **_SETTINGS}
        )
        rows += measure_sql(spark, [name for name in SQL if name in cases], data, scale)
        rows += measure_layout(
            spark, [name for name in LAYOUT if name in cases], data, scale, {"spark.master": _MASTER, **_SETTINGS}
        )
        rows += measure_sinks(
            spark, [name for name in SINKS if name in cases], data, scale, {"spark.master": _MASTER, **_SETTINGS}
        )
        rows += measure_sources(
            spark, [name for name in SOURCES if name in cases], data, scale, {"spark.master": _MASTER, **_SETTINGS}
        )
        return rows + measure_stores(spark, [name for name in STORES if name in cases], data, scale)


@contextmanager
def _session(connect: bool) -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    if connector := os.environ.get(CONNECTOR):
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"--driver-class-path {connector}/* pyspark-shell"
    builder = SparkSession.builder
    builder = builder.remote(_MASTER) if connect else builder.master(_MASTER)
    for key, value in _SETTINGS.items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        # A local Connect server starts with these settings, and then refuses to have them set again.
        warnings.filterwarnings("ignore", message="Failed to set")
        spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()
        shutil.rmtree("spark-warehouse", ignore_errors=True)
