"""Python functions over the rows of a DataFrame, in Arrow batches. Column names can hold any characters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as spark_types

ArrowFunction: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def mapped_in_arrow(frame: DataFrame, function: ArrowFunction, schema: spark_types.StructType | str) -> DataFrame:
    """Return `frame.mapInArrow(function, schema)`, with literal column names.

    PySpark parses the names as SQL: backticks quote, and dots separate fields.
    """
    names = frame.columns
    if not any("." in name or "`" in name for name in names):
        return frame.mapInArrow(function, schema)

    def with_names(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return function(pa.RecordBatch.from_arrays(batch.columns, names=names) for batch in batches)

    return frame.toDF(*(f"_{at}" for at in range(len(names)))).mapInArrow(with_names, schema)
