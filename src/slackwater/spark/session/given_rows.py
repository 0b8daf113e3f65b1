"""Frames of rows that this process has. Classic PySpark sends those of a list through the Python of executors, which
need none where Spark moves the rows of tables; as Arrow, or with no rows at all, they go by the JVM alone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from slackwater.spark.session.arrow_types import to_arrow_schema
from slackwater.spark.session.modes import empty_frame, is_connect


def given_rows(spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: spark_types.StructType) -> DataFrame:
    """`rows` as a frame with `schema`, as `createDataFrame` makes it: structs are tuples, maps dicts."""
    if not rows:
        return empty_frame(spark, schema)
    if is_connect(spark):
        return spark.createDataFrame(list(rows), schema)
    arrow = to_arrow_schema(schema)
    columns = [
        pa.array([_arrow_value(row[at], field.dataType) for row in rows], arrow.field(at).type)
        for at, field in enumerate(schema.fields)
    ]
    return spark.createDataFrame(pa.Table.from_arrays(columns, schema=arrow), schema=schema)


def _arrow_value(value: Any, kind: spark_types.DataType) -> Any:
    if value is None:
        return None
    if isinstance(kind, spark_types.StructType):
        return {f.name: _arrow_value(each, f.dataType) for f, each in zip(kind.fields, value, strict=True)}
    if isinstance(kind, spark_types.MapType) and isinstance(value, Mapping):
        return [(_arrow_value(k, kind.keyType), _arrow_value(v, kind.valueType)) for k, v in value.items()]
    if isinstance(kind, spark_types.ArrayType):
        return [_arrow_value(each, kind.elementType) for each in value]
    if isinstance(kind, spark_types.TimestampType) and isinstance(value, dt.datetime):
        # Without a zone it is of this machine's, as in PySpark.
        return value.astimezone(dt.timezone.utc)
    return value
