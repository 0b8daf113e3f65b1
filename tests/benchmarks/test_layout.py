"""The benchmarks of layouts run, and every side keeps the rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pyspark")

from benchmarks.scales import SMALL
from benchmarks.services.layout import LAYOUT, measure_layout

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.classic]


def test_the_rows_of_layouts_are_all_there(spark: SparkSession, tmp_path: Path) -> None:
    rows = measure_layout(spark, LAYOUT, tmp_path, replace(SMALL, small_files=5, rows=4_000))
    assert [(row.case, row.unit, row.mark) for row in rows] == [
        ("compact", "s", 1.0),
        ("z-order", "s", 1.0),
        ("z-order", "files", 1.1),
        ("z-order", "files", 1.0),
        ("z-order", "s", None),
    ]
    assert rows[0].answers == (5_000, 5_000)
    assert not (tmp_path / "layout" / "changed").exists()
