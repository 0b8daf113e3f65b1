"""Golden tables that are absent are skipped visibly, and fail the run where CI says that they must be there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from .golden import GoldenTable, require_golden_tables, table_hash

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def _golden_tables() -> None:
    require_golden_tables()


@pytest.fixture(scope="session")
def our_answer(spark: SparkSession) -> Callable[[GoldenTable], OurAnswer]:
    """The latest version of a readable table as `spark.read` gives it, read once in a run."""
    from slackwater.spark.read.load import load

    known: dict[str, OurAnswer] = {}

    def answer(table: GoldenTable) -> OurAnswer:
        if table.id not in known:
            frame = load(spark, str(table.root))
            known[table.id] = (frame.schema, table_hash()(frame.toArrow()))
        return known[table.id]

    return answer


OurAnswer = tuple[Any, dict[str, Any]]
