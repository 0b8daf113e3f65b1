"""Rows of a table with their addresses, and sets of them as bitmaps."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyroaring import BitMap64
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import slackwater
from slackwater import DeltaTable
from slackwater.log.files.file_actions import ADD_SCHEMA
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.read.row_addresses import AddressedRows, united
from slackwater.spark.read.table_scan import TableScan
from tests.spark.written import read, rows

pytestmark = [pytest.mark.spark, pytest.mark.modes]

ROWS_PER_FILE = 70_000


@pytest.fixture(scope="module")
def located(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> AddressedRows:
    """Three files, each of more rows than two of the buckets that bits are collected in."""
    path = str(tmp_path_factory.mktemp("located") / "t")
    slackwater.enable(spark)
    spark.range(0, 3 * ROWS_PER_FILE, 1, 3).write.format("delta").save(path)
    snapshot = Snapshot.load(path)
    return TableScan(spark, snapshot).located(snapshot.live_files(ADD_SCHEMA.names))


def test_bitmaps_hold_the_row_indexes_of_every_file(located: AddressedRows) -> None:
    found = located.bitmaps(located.frame.filter("id % 1000 = 999"))
    # File n begins with the value n * ROWS_PER_FILE, and so do its row indexes with 0.
    expected = BitMap64(range(999, ROWS_PER_FILE, 1000))
    assert [found[path] for path in located.files["path"].to_pylist()] == [expected] * 3
    assert located.counts(located.frame.filter("id % 1000 = 999")) == dict.fromkeys(found, 70)


def test_no_match_is_no_bitmap(located: AddressedRows) -> None:
    assert located.bitmaps(located.frame.filter("id < 0")) == {}
    assert located.grouped_bitmaps(located.frame.filter("id < 0"), F.lit(1)) == {}


@pytest.mark.long
def test_rows_of_bitmaps_are_found_again_and_left_out(located: AddressedRows) -> None:
    wanted = located.bitmaps(located.frame.filter("id % 7 = 3"))
    chosen, others = located.only(wanted), located.without(wanted)
    assert chosen.filter("id % 7 <> 3").isEmpty()
    assert others.filter("id % 7 = 3").isEmpty()
    assert chosen.count() + others.count() == 3 * ROWS_PER_FILE


def test_groups_count_each_occurrence_and_hold_each_row_once(located: AddressedRows) -> None:
    some = located.frame.filter("id < 4")
    groups = located.grouped_bitmaps(some.unionAll(some.filter("id = 2")), (F.col("id") % 2).cast("int"))
    assert {number: (group.occurrences, group.num_rows) for number, group in groups.items()} == {0: (3, 2), 1: (2, 2)}


def test_united_sets_leave_what_they_are_made_of_as_it_is() -> None:
    first, second = {"a": BitMap64([1])}, {"a": BitMap64([2]), "b": BitMap64([3])}
    assert united(first, second) == {"a": BitMap64([1, 2]), "b": BitMap64([3])}
    assert first == {"a": BitMap64([1])}


@pytest.mark.parametrize("vectors", ["false", "true"])
def test_a_column_with_a_dot_is_not_the_field_of_a_struct(spark: SparkSession, tmp_path: Path, vectors: str) -> None:
    path = str(tmp_path / "t")
    slackwater.enable(spark)
    frame = spark.range(4).select("id", F.struct(F.lit("field").alias("b")).alias("a"), F.lit("column").alias("a.b"))
    properties = {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": vectors}
    frame.coalesce(1).write.format("delta").options(**properties).save(path)
    table = DeltaTable.forPath(spark, path)
    source = spark.createDataFrame([(0, "merged"), (9, "new")], "key INT, value STRING")
    merge = table.alias("t").merge(source, "t.id = key")
    merge.whenMatchedDelete("false").whenMatchedUpdate(set={"`a.b`": "value"}).whenNotMatchedBySourceDelete(
        "t.id = 3"
    ).execute()
    table.update("`a.b` = 'column' and id = 1", {"`a.b`": "'updated'", "a.b": "'inner'"})
    table.delete("`a.b` = 'field'")
    assert rows(read(spark, path).selectExpr("id", "a.b", "`a.b`")) == [
        (0, "field", "merged"),
        (1, "inner", "updated"),
        (2, "field", "column"),
    ]
