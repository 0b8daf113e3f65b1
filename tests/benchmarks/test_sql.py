"""The benchmarks of SQL run, and SQL gives what frames give."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from benchmarks.scales import SMALL
from benchmarks.sql.statements import SQL, measure_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.classic]


def test_sql_does_what_frames_do(spark: SparkSession, tmp_path: Path) -> None:
    small = replace(SMALL, rows=10_000, target_rows=1_000, spark_repetitions=1, spark_warmups=0)
    rows = measure_sql(spark, SQL, tmp_path, small)
    assert [(row.case, row.unit, row.mark) for row in rows] == [
        ("sql-nothing", "s", 0.001),
        ("sql-plan", "s", 1.3),
        ("sql-merge", "s", 1.05),
        ("sql-select", "s", 1.1),
    ]
    assert rows[2].answers == (5, 5)
    assert rows[3].answers == (1, 1)
    assert spark.catalog.currentDatabase() == "default"
