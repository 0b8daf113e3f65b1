"""Databases and lakes for tests of SQL, gone again after each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import slackwater

_numbers = itertools.count(1)


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """A database of the session's catalog that is current, and empty."""
    slackwater.enable(spark)
    name = f"d{next(_numbers)}"
    before = spark.catalog.currentDatabase()
    spark.sql(f"CREATE DATABASE {name} LOCATION '{tmp_path / name}'")
    spark.sql(f"USE {name}")
    yield name
    spark.sql(f"USE {before}")
    spark.sql(f"DROP DATABASE {name} CASCADE")


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, db: str) -> Iterator[slackwater.Lake]:
    """A lake with the tables `stock` and `orders`, attached as `lake`."""
    with slackwater.Lake.open(tmp_path / "lake", spark=spark) as opened:
        opened.create_table("stock", "sku STRING, qty INT, at TIMESTAMP")
        opened.create_table("orders", "id INT, sku STRING")
        opened.attach(spark)
        yield opened
        _end_transaction(spark)
        spark.sql(f"USE {db}")
        opened.detach(spark)


def _end_transaction(spark: SparkSession) -> None:
    from slackwater.errors import OperationNotAllowed

    try:
        spark.sql("ROLLBACK")
    except OperationNotAllowed:
        return


@pytest.fixture
def rows(spark: SparkSession) -> Callable[..., list[tuple[Any, ...]]]:
    """What a statement answers, in the order of its rows' text."""

    def answer(text: str, *args: Any, **frames: Any) -> list[tuple[Any, ...]]:
        return sorted((tuple(row) for row in spark.sql(text, *args, **frames).collect()), key=str)

    return answer
