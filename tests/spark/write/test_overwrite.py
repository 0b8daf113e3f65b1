"""What an overwrite takes away and what it leaves: conditions, partitions, the change feed, rearranged rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from slackwater import Snapshot, errors
from tests.spark.written import actions, changes, data_files, listing, read, rows, save

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

FEED = {"delta.enableChangeDataFeed": "true"}


def _partitioned(spark: SparkSession, path: Path, **options: str) -> None:
    """Rows 0 to 5, where p is "a", "b" or null, by turns."""
    frame = spark.range(0, 6, 1, 1).selectExpr("id", "element_at(array('a', 'b', null), int(id % 3) + 1) as p")
    frame.write.format("delta").options(**options).partitionBy("p").save(str(path))


def test_a_condition_on_partitions_replaces_whole_files(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    _partitioned(spark, path)
    save(spark.sql("select 9L id, 'b' p"), path, "overwrite", replaceWhere="P = 'b'")
    assert rows(read(spark, path)) == [(0, "a"), (2, None), (3, "a"), (5, None), (9, "b")]
    (gone,) = actions(path, 1, "remove")
    assert (gone["partitionValues"], gone["dataChange"], gone["extendedFileMetadata"]) == ({"p": "b"}, True, True)


@pytest.mark.parametrize(
    ("condition", "gone"),
    [
        ("p is null", [2, 5]),
        ("p <=> null", [2, 5]),
        ("p <> 'a'", [1, 4]),
        ("p in ('a', 'c') or p is null", [0, 2, 3, 5]),
        ("upper(p) = 'B'", [1, 4]),
        ("true", [0, 1, 2, 3, 4, 5]),
        ("p = 'nowhere'", []),
        ("id >= 4", [4, 5]),
        ("p is null and id < 4", [2]),
        ("id % 2 = 0 and p <> 'a'", [4]),
        ("id > 100", []),
    ],
)
def test_rows_for_which_the_condition_is_not_true_stay_nulls_too(
    spark: SparkSession, tmp_path: Path, condition: str, gone: list[int]
) -> None:
    path = tmp_path / "t"
    _partitioned(spark, path)
    save(spark.createDataFrame([], "id long, p string"), path, "overwrite", replaceWhere=condition)
    assert sorted(r["id"] for r in read(spark, path).collect()) == [i for i in range(6) if i not in gone]
    assert Snapshot.load(str(path)).version == 1


def test_rows_that_do_not_satisfy_the_condition_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    _partitioned(spark, path)
    before = listing(path)
    for bad in ("select 9L id, 'a' p", "select 9L id, string(null) p"):
        with pytest.raises(errors.InvariantViolationException, match=r"p = 'b'.*\"p\":(\"a\"|null)"):
            save(spark.sql(bad), path, "overwrite", replaceWhere="p = 'b'")
    assert [p for p in listing(path) if not (path / p).is_dir()] == [p for p in before if not (path / p).is_dir()]


def test_the_check_of_the_condition_can_be_turned_off(spark: SparkSession, tmp_path: Path, conf: Any) -> None:
    path = tmp_path / "t"
    _partitioned(spark, path)
    conf("spark.databricks.delta.replaceWhere.constraintCheck.enabled", "false")
    save(spark.sql("select 9L id, 'a' p"), path, "overwrite", replaceWhere="p = 'b'")
    assert rows(read(spark, path)) == [(0, "a"), (2, None), (3, "a"), (5, None), (9, "a")]


@pytest.mark.parametrize("check", ["true", "false"])
@pytest.mark.parametrize(
    "condition", ["nowhere = 1", "id + 1", "id >", "p = 'x' and nowhere = 1", "sum(id) > 1", "rand() > 0.5"]
)
def test_a_condition_that_makes_no_sense_is_refused(
    spark: SparkSession, tmp_path: Path, conf: Any, condition: str, check: str
) -> None:
    path = tmp_path / "t"
    _partitioned(spark, path)
    before = listing(path)
    conf("spark.databricks.delta.replaceWhere.constraintCheck.enabled", check)
    with pytest.raises(errors.InvalidArgument, match="replaceWhere"):
        save(spark.sql("select 9L id, 'b' p"), path, "overwrite", replaceWhere=condition)
    assert listing(path) == before


def test_a_condition_on_rows_leaves_a_feed_of_deletes_and_inserts_only(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(spark.range(0, 6, 1, 1).selectExpr("id", "'old' as v"), path, **FEED)
    save(spark.sql("select 4L id, 'new' v union all select 7L, 'new'"), path, "overwrite", replaceWhere="id >= 4")
    assert rows(read(spark, path)) == [(0, "old"), (1, "old"), (2, "old"), (3, "old"), (4, "new"), (7, "new")]
    expected = [("delete", 4, "old"), ("delete", 5, "old"), ("insert", 4, "new"), ("insert", 7, "new")]
    assert changes(spark, path, 1, "id", "v") == expected
    assert read(spark, path).columns == ["id", "v"]
    save(spark.sql("select 8L id, 'empty' v"), path, "overwrite", replaceWhere="id = 8")
    assert changes(spark, path, 2, "id", "v") == [("insert", 8, "empty")]
    assert len(rows(read(spark, path))) == 7


@pytest.mark.long
def test_the_feed_of_a_partitioned_table_is_right_by_rows_and_by_partitions(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    _partitioned(spark, path, **FEED)
    save(spark.sql("select 9L id, 'b' p"), path, "overwrite", replaceWhere="p = 'b'")
    assert changes(spark, path, 1, "id", "p") == [("delete", 1, "b"), ("delete", 4, "b"), ("insert", 9, "b")]
    save(spark.sql("select 2L id, string(null) p"), path, "overwrite", replaceWhere="id = 2")
    assert changes(spark, path, 2, "id", "p") == [("delete", 2, None), ("insert", 2, None)]
    save(spark.sql("select 0L id, 'z' p"), path, "overwrite")
    assert len(changes(spark, path, 3, "id", "p")) == 6
    assert rows(read(spark, path)) == [(0, "z")]


def test_overwriting_while_the_same_rows_are_read_under_a_condition(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(spark.range(0, 6, 1, 2), path)
    frame = read(spark, path).filter("id >= 3").selectExpr("id * 10 as id")
    save(frame, path, "overwrite", replaceWhere="id >= 3")
    assert [r[0] for r in rows(read(spark, path))] == [0, 1, 2, 30, 40, 50]


def test_only_the_partitions_of_the_new_rows_are_overwritten_by_option(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    _partitioned(spark, path)
    data = spark.sql("select 9L id, string(null) p union all select 8L, 'new'")
    save(data, path, "overwrite", partitionOverwriteMode="DYNAMIC")
    assert rows(read(spark, path)) == [(0, "a"), (1, "b"), (3, "a"), (4, "b"), (8, "new"), (9, None)]
    save(spark.createDataFrame([], "id long, p string"), path, "overwrite", partitionOverwriteMode="dynamic")
    assert read(spark, path).count() == 6
    save(data, path, "overwrite", partitionOverwriteMode="static")
    assert rows(read(spark, path)) == [(8, "new"), (9, None)]


def test_only_the_partitions_of_the_new_rows_are_overwritten_by_setting(
    spark: SparkSession, tmp_path: Path, conf: Any
) -> None:
    path = tmp_path / "t"
    _partitioned(spark, path)
    conf("spark.sql.sources.partitionOverwriteMode", "dynamic")
    save(spark.sql("select 9L id, 'a' p"), path, "overwrite")
    assert rows(read(spark, path)) == [(1, "b"), (2, None), (4, "b"), (5, None), (9, "a")]
    save(spark.sql("select 7L id, 'b' p"), path, "overwrite", replaceWhere="id < 3 or p = 'b'")
    assert rows(read(spark, path)) == [(5, None), (7, "b"), (9, "a")]
    save(spark.sql("select 1L id, 'b' p"), path, "overwrite", partitionOverwriteMode="static")
    assert rows(read(spark, path)) == [(1, "b")]
    save(spark.range(1), tmp_path / "flat", "overwrite")
    save(spark.range(1, 2), tmp_path / "flat", "overwrite")
    assert rows(read(spark, tmp_path / "flat")) == [(1,)]


def test_partitions_are_told_apart_by_value_not_by_how_a_writer_spells_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    frame = spark.sql(
        "select id, double(v) d, timestamp(ts) ts, unhex(x) x from values (1, 'NaN', '2024-01-01', '00ff'), "
        "(2, '0.0', '2024-01-01', '00ff'), (3, 'NaN', '2024-01-02', null), (4, '1.5', null, '61') as t(id, v, ts, x)"
    )
    frame.write.format("delta").partitionBy("d", "ts", "x").save(str(path))
    log = path / "_delta_log" / f"{0:020d}.json"
    # As older writers have it: local time without a zone.
    log.write_text(log.read_text().replace("2024-01-01T00:00:00.000000Z", "2024-01-01 00:00:00"))
    again = frame.filter("id in (1, 2, 4)").selectExpr("id * 10 as id", "if(d = 0, -d, d) as d", "ts", "x")
    save(again, path, "overwrite", partitionOverwriteMode="dynamic")
    assert sorted(r["id"] for r in read(spark, path).collect()) == [3, 10, 20, 40]


def test_dynamic_overwrite_works_by_physical_names(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    _partitioned(spark, path, **{"delta.columnMapping.mode": "name"})
    save(spark.sql("select 9L id, 'a' p"), path, "overwrite", partitionOverwriteMode="dynamic")
    assert rows(read(spark, path)) == [(1, "b"), (2, None), (4, "b"), (5, None), (9, "a")]
    save(spark.sql("select 8L id, 'b' p"), path, "overwrite", replaceWhere="p = 'b' or id = 5")
    assert rows(read(spark, path)) == [(2, None), (8, "b"), (9, "a")]


@pytest.mark.long
def test_rows_can_be_rearranged_without_a_change_of_data(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(spark.range(0, 6, 1, 3), path, **FEED)
    save(read(spark, path).coalesce(1), path, "overwrite", dataChange="false")
    file_actions = actions(path, 1, "add") + actions(path, 1, "remove")
    assert [a["dataChange"] for a in file_actions] == [False] * 4
    assert changes(spark, path, 1, "id") == []
    save(read(spark, path).filter("id > 2"), path, "overwrite", dataChange="false", replaceWhere="id > 2")
    assert {a["dataChange"] for a in actions(path, 2, "add") + actions(path, 2, "remove")} == {False}
    assert [r[0] for r in rows(read(spark, path))] == list(range(6))


def test_rearranging_must_leave_as_many_rows(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(spark.range(6), path)
    before = listing(path)
    with pytest.raises(errors.InvalidArgument, match="replaces 6 rows by 5"):
        save(read(spark, path).filter("id > 0"), path, "overwrite", dataChange="false")
    with pytest.raises(errors.InvalidArgument, match="mode overwrite"):
        save(spark.range(1), path, dataChange="false")
    assert listing(path) == before


def test_an_append_only_table_is_appended_to_and_rearranged_alone(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(spark.range(2), path, **{"delta.appendOnly": "true"})
    save(spark.range(2, 3), path)
    before = listing(path)
    for options in ({}, {"replaceWhere": "id = 1"}):
        with pytest.raises(errors.OperationNotAllowed, match="append-only"):
            save(spark.range(1, 2), path, "overwrite", **options)
    assert listing(path) == before
    save(read(spark, path).coalesce(1), path, "overwrite", dataChange="false")
    assert rows(read(spark, path)) == [(0,), (1,), (2,)]


def test_files_that_are_replaced_keep_what_the_log_said_of_them(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(spark.range(0, 4, 1, 2), path)
    save(spark.range(1), path, "overwrite")
    added = {a["path"]: a for a in actions(path, 0, "add")}
    removed = actions(path, 1, "remove")
    assert {r["path"] for r in removed} == set(added)
    assert all(r["size"] == added[r["path"]]["size"] for r in removed)
    assert len(data_files(path)) == 3
    assert json.loads(actions(path, 1, "add")[0]["stats"])["numRecords"] == 1
