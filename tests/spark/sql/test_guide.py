"""The lines of the guide to SQL, as they stand but for places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.stores.documents import blocks, run

pytestmark = [pytest.mark.spark]

GUIDE = "docs/guides/sql.md"


def test_the_lines_of_the_guide(spark: SparkSession, db: str, tmp_path: Path) -> None:
    names: dict[str, Any] = {"spark": spark}
    spark.catalog.dropTempView("news")
    for block in blocks(GUIDE):
        run(block, names, {"work/": f"{tmp_path}/"} if "work/" in block else {})
    spark.catalog.dropTempView("news")
    stock, orders = (names["lake"].table(name).toDF().collect() for name in ("stock", "orders"))
    assert [(row.sku, row.qty) for row in stock] == [("A1", 9)]
    assert stock[0].at == orders[0].at
    spark.sql(f"USE {db}")
    names["lake"].detach(spark)
    names["lake"].close()
    assert sorted(row.id for row in spark.table("flights").collect()) == [2, 3]
