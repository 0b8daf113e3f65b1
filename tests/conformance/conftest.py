"""Golden tables that are absent are skipped visibly, and fail the run where CI says that they must be there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from .golden import GoldenTable, require_golden_tables, table_hash

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(autouse=True)
def _golden_tables() -> None:
    require_golden_tables()


@pytest.fixture(scope="session")
def our_answer(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[GoldenTable], OurAnswer]:
    """The latest version of a readable table as `spark.read` gives it, read once in a run."""
    from slackwater.spark.read.load import load

    known: dict[str, OurAnswer] = {}

    def answer(table: GoldenTable) -> OurAnswer:
        if table.id not in known:
            frame = load(spark, str(table.root))
            rows = _by_files(frame, tmp_path_factory) if _is_new(frame) else frame.toArrow()
            known[table.id] = (frame.schema, table_hash()(rows))
        return known[table.id]

    return answer


# Spark 4.3 misreads shapes in arrays and maps without generated code, which other tests do without.
_WITH_CODE = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}


def _is_new(frame: DataFrame) -> bool:
    """Whether a column is a variant or a shape: PySpark cannot convert nulls of them to Arrow."""
    return any(kind in frame.schema.simpleString() for kind in ("variant", "geometry", "geography"))


def _by_files(frame: DataFrame, tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    """The rows of a frame, through Parquet files that Spark writes: shapes are WKB there, as in the index."""
    from slackwater.spark.session.temporary_settings import with_settings

    directory = tmp_path_factory.mktemp("rows")
    writer = frame.coalesce(1).write.option("spark.sql.variant.inferShreddingSchema", "false")
    with with_settings(frame.sparkSession, _WITH_CODE):
        writer.mode("overwrite").parquet(str(directory))
    return pq.read_table(directory)


OurAnswer = tuple[Any, dict[str, Any]]
