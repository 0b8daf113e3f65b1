"""`executeZOrderBy`: the same rows, sorted along a curve, so that conditions on any of its columns read few files."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from slackwater import DeltaTable, Snapshot, errors
from tests.spark.changed import MAPPING, VECTORS, info
from tests.spark.maintenance.rearranged import TRACKED, live, made, metrics
from tests.spark.written import listing, read, rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]
MOST = "spark.databricks.delta.optimize.maxFileSize"


def test_conditions_on_either_column_read_few_files(
    spark: SparkSession, path: str, conf: Callable[[str, str], None]
) -> None:
    points = spark.range(0, 4096, 1, 4).selectExpr("(id * 7919) % 4096 n").selectExpr("n div 64 x", "n % 64 y")
    points.write.format("delta").save(path)
    size = sum(file["size"] for file in live(path))
    conf(MOST, str(size // 16 + 1))
    table = DeltaTable.forPath(spark, path)
    before = rows(table.toDF())
    found = metrics(table.optimize().executeZOrderBy("x", "y"))
    assert (found["numFilesRemoved"], found["numFilesAdded"]) == (4, 16)
    assert found["zOrderStats"]["strategyName"] == "all"
    assert found["zOrderStats"]["mergedFiles"]["num"] == 4
    assert rows(table.toDF()) == before
    counts = [json.loads(file["stats"])["numRecords"] for file in live(path)]
    assert max(counts) <= 300
    for condition, most in (("x = 5", 5), ("y = 60", 5), ("x between 8 and 15 and y between 8 and 15", 2)):
        assert Snapshot.load(path).files(condition).num_rows <= most
    assert json.loads(info(path)["operationParameters"]["zOrderBy"]) == ["x", "y"]
    assert info(path)["operation"] == "OPTIMIZE"


@pytest.mark.parametrize("mode", ["none", "id"])
@pytest.mark.long
def test_rows_keep_their_ids_and_deleted_ones_stay_away(spark: SparkSession, path: str, way: str, mode: str) -> None:
    properties = {VECTORS: "true", TRACKED: "true", MAPPING: mode}
    sql = "select id, nullif(id % 2, 1) p, nullif(id % 5, 4) v, struct(concat('s', id) s) st from numbers"
    table = made(spark, path, 2, sql, "p", **properties)
    table.delete("id % 7 = 0")
    expected = rows(read(spark, path, rowTracking="true"))
    found = metrics(table.optimize().where("p is null").executeZOrderBy(["v", "st.s", "ID"]))
    assert (found["numFilesRemoved"], found["numFilesAdded"], found["zOrderStats"]["numOutputCubes"]) == (2, 1, 1)
    assert metrics(table.optimize().executeZOrderBy("v"))["numFilesAdded"] == 2
    assert rows(read(spark, path, rowTracking="true")) == expected
    assert not any(file["deletionVector"] for file in live(path))


def test_columns_that_cannot_be_ordered_by_are_named(spark: SparkSession, path: str) -> None:
    sql = "select id, id % 2 p, array(id) a, struct(id x) st, id late from numbers"
    table = made(spark, path, 2, sql, "p", **{"delta.dataSkippingNumIndexedCols": "3"})
    before = listing(path)
    optimize = table.optimize()
    for names, told in (
        (["nowhere"], "no column nowhere"),
        (["P"], "P is a partition column"),
        (["a"], "no statistics of a"),
        (["st"], "no statistics of st"),
        (["late"], "no statistics of late"),
        (["id", "ID"], "names ID twice"),
        ([], "at least one column"),
    ):
        with pytest.raises(errors.InvalidArgument, match=told):
            optimize.executeZOrderBy(names)
    with pytest.raises(errors.InvalidArgument, match="non-partition column"):
        optimize.where("id = 1").executeZOrderBy("id")
    with pytest.raises(errors.InvalidArgument, match=r"full\(\)"):
        optimize.full().executeZOrderBy("id")
    with pytest.raises(TypeError, match="must be strings"):
        optimize.executeZOrderBy(1)  # type: ignore[arg-type]
    assert listing(path) == before


def test_an_empty_table_and_an_empty_partition_have_nothing_to_order(spark: SparkSession, path: str) -> None:
    table = made(spark, path, 1, "select id, id % 2 p from numbers where id < 0", "p")
    before = listing(path)
    assert metrics(table.optimize().executeZOrderBy("id"))["numFilesAdded"] == 0
    assert metrics(table.optimize().executeCompaction())["numFilesAdded"] == 0
    assert listing(path) == before
