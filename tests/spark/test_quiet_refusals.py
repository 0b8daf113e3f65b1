"""An expression that Spark refuses is one sentence: nothing is logged beside it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from slackwater import DeltaTable
from slackwater.errors import InvalidArgument
from tests.spark.written import save

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]


class Heard(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


@pytest.fixture
def heard() -> Any:
    """What PySpark logs of its errors."""
    from pyspark.logger import PySparkLogger

    loggers = [PySparkLogger.getLogger(f"{kind}QueryContextLogger") for kind in ("SQL", "DataFrame")]
    handler = Heard()
    for logger in loggers:
        logger.addHandler(handler)
    yield handler
    for logger in loggers:
        logger.removeHandler(handler)


@pytest.mark.modes
def test_a_condition_that_is_refused_is_not_logged_by_spark(spark: SparkSession, tmp_path: Path, heard: Heard) -> None:
    save(spark.range(3), tmp_path / "t")
    table = DeltaTable.forPath(spark, str(tmp_path / "t"))
    new = spark.range(1).alias("s")
    refused: list[Callable[[], Any]] = [
        lambda: table.delete("nowhere = 1"),
        lambda: table.update("nowhere = 1", {"id": "1"}),
        lambda: table.update(set={"id": "nowhere"}),
        lambda: table.merge(new, "id = id").whenMatchedDelete().execute(),
        lambda: table.addConstraint("c", "nowhere > 1"),
        lambda: save(new, tmp_path / "t", "overwrite", replaceWhere="nowhere = 1"),
        lambda: save(new, tmp_path / "t", "overwrite", replaceOn="id = id"),
    ]
    for each in refused:
        with pytest.raises(InvalidArgument):
            each()
    assert heard.said == []
    # What a user asks of Spark is logged as ever.
    with pytest.raises(AnalysisException):
        _ = spark.range(1).selectExpr("nowhere").schema
    assert len(heard.said) == 1
