"""The benchmarks of tables in a store run, and both sides of each find the same."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pyspark")
pytest.importorskip("moto")

import deltalake

from benchmarks.harness import SidesDisagree
from benchmarks.scales import SMALL
from benchmarks.stores import cases
from benchmarks.stores.cases import CONNECTOR, STORES, measure_stores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.classic]

_SCALE = replace(SMALL, rows=2_000, files=2, spark_repetitions=1, spark_warmups=0)


def test_the_rows_of_stores_are_all_there(spark: SparkSession, tmp_path: Path) -> None:
    rows = measure_stores(spark, list(STORES), tmp_path, _SCALE)
    has_connector = CONNECTOR in os.environ
    # By the connector, or as Spark is served the files; and by executors in Python.
    assert [(row.case, row.mark) for row in rows] == [
        ("store-scan", None),
        *([("store-scan", 1.1)] if has_connector else [("store-scan", 1.5)] * 2),
        *[("store-scan", 1.5)] * 2,
        *([] if has_connector else [("store-append", 1.5)]),
        ("store-append", 1.5),
    ]
    assert all(row.ours > 0 for row in rows)
    assert all(row.answers == ((2_000,), (2_000,)) for row in rows if row.case == "store-append")
    scans = [row.answers for row in rows[1:] if row.case == "store-scan"]
    assert scans == [scans[0]] * len(scans)
    assert len(set(scans[0])) == 1
    assert spark.conf.get("fs.s3a.endpoint", None) is None


def test_rows_that_are_lost_end_the_run(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_fewer(bench: Any, url: str) -> None:
        deltalake.write_deltalake(url, pa.table({"k": [1]}), storage_options=bench.bucket.options)

    monkeypatch.setattr(cases, "_by_deltalake", write_fewer)
    with pytest.raises(SidesDisagree, match=r"2000.*1,"):
        measure_stores(spark, ["store-append"], tmp_path, _SCALE)
