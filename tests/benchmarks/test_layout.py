"""The benchmarks of layouts run, and every side keeps the rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pyspark")

from benchmarks.scales import SMALL
from benchmarks.services import layout
from benchmarks.services.layout import LAYOUT, measure_layout
from tests.benchmarks.settings import RIVAL_SETTINGS
from tests.interop.install_delta_spark import HOW_TO_INSTALL, find

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.classic]


_SCALE = replace(SMALL, small_files=5, rows=4_000)


def test_the_rows_of_layouts_are_all_there(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "find", lambda: None)
    rows = measure_layout(spark, LAYOUT, tmp_path, _SCALE, RIVAL_SETTINGS)
    assert rows[1].note == HOW_TO_INSTALL
    assert [(row.case, row.unit, row.mark) for row in rows] == [
        ("compact", "s", 1.0),
        ("compact", "s", None),
        ("z-order", "s", 1.0),
        ("z-order", "files", 1.1),
        ("z-order", "files", 1.0),
        ("z-order", "s", None),
    ]
    assert rows[0].answers == (5_000, 5_000)
    assert not (tmp_path / "layout" / "changed").exists()


@pytest.mark.interop
def test_delta_spark_compacts_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    if find() is None:
        pytest.skip(HOW_TO_INSTALL)
    rows = measure_layout(spark, ["compact"], tmp_path, _SCALE, RIVAL_SETTINGS)
    assert [(row.against, row.mark) for row in rows] == [("deltalake", 1.0), ("delta-spark", 1.0)]
    assert all(row.answers == (5_000, 5_000) for row in rows)
    assert all(row.rival is not None and row.rival > 0 for row in rows)
