"""The lines of the guide that write streams, as they stand but for places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spark.written import read, rows
from tests.stores.documents import blocks, run

pytestmark = [pytest.mark.spark]

GUIDE = "docs/guides/streaming.md"


def test_the_lines_that_write(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("DROP TABLE IF EXISTS flights_by_carrier")
    names: dict[str, Any] = {}
    writing = [block for block in blocks(GUIDE) if "writeStream" in block and "readStream.format" not in block]
    try:
        for block in (blocks(GUIDE)[0], *writing):
            run(block, names, {"work/": f"{tmp_path}/"})
        assert names["query"].exception() is None
        assert read(spark, tmp_path / "flights").count() == 3
        assert rows(spark.table("flights_by_carrier")) == [("AA", 1), ("XX", 2)]
    finally:
        spark.sql("DROP TABLE IF EXISTS flights_by_carrier")
