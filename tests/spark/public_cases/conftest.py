"""Databases and rows of statements, as the tests of SQL have them; no temporary view stays for other tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.spark.sql.conftest import db, rows

__all__ = ["db", "rows"]


@pytest.fixture(autouse=True)
def no_views(spark: SparkSession) -> Iterator[None]:
    yield
    for name in ("s", "src", "news"):
        spark.catalog.dropTempView(name)
