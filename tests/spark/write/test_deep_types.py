"""Types nested as deeply as Spark reads and writes them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types

from slackwater import DeltaTable, Snapshot
from tests.spark.written import read

pytestmark = [pytest.mark.spark, pytest.mark.shared, pytest.mark.usefixtures("enabled")]

Kind = spark_types.DataType


def in_struct(kind: Kind) -> Kind:
    return spark_types.StructType([spark_types.StructField("a", kind)])


@pytest.mark.parametrize(
    ("levels", "wrap", "nest"),
    [(100, in_struct, lambda value: {"a": value}), (50, spark_types.ArrayType, lambda value: [value])],
    ids=["structs", "arrays"],
)
def test_deep_types_are_written_changed_and_read(
    spark: SparkSession, path: str, levels: int, wrap: Callable[[Kind], Kind], nest: Callable[[object], object]
) -> None:
    kind: Kind = spark_types.IntegerType()
    value: object = 7
    for _ in range(levels):
        kind, value = wrap(kind), nest(value)
    schema = spark_types.StructType().add("id", "integer").add("c", kind)
    spark.createDataFrame([(1, value), (2, None)], schema).coalesce(1).write.format("delta").save(path)
    table = DeltaTable.forPath(spark, path)
    table.update("id = 2", {"id": "3"})
    table.optimize().executeCompaction()
    found = sorted(read(spark, path).collect())
    assert [row.id for row in found] == [1, 3]
    assert (found[0].c.asDict(recursive=True) if levels == 100 else found[0].c) == value
    rows = {row["id"]: row["c"] for row in Snapshot.load(path).to_arrow().to_pylist()}
    assert rows == {1: value, 3: None}
