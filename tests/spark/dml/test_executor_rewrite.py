"""Rows that a change leaves as they are, in files of which others go: executors in Python move them, or Spark does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64
from pyspark.sql import SparkSession

from slackwater import DeltaTable, Snapshot
from slackwater.errors import CorruptTable, InvalidArgument
from slackwater.spark.dml import executor_rewrite
from slackwater.spark.write.files.bin_rewrite import BinWritten, rewrite_bins
from tests.spark.changed import FEED, MAPPING, VECTORS, counts, info
from tests.spark.written import actions, listing, read, rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

TRACKED = "delta.enableRowTracking"
TABLES: dict[str, dict[str, str]] = {
    "all": {MAPPING: "id", TRACKED: "true", FEED: "true"},
    "plain": {},
    "mapped": {MAPPING: "name"},
    "tracked": {TRACKED: "true"},
    "with a feed": {FEED: "true"},
}
# Of six files in three partitions: some rows go, all of a file go, none do; NULL is a partition and a value.
ROWS = "select id, if(id % 3 = 2, null, id % 3) p, if(id % 7 = 0, null, named_struct('x', id, 'y', array(id))) v"
EXPECTED = [
    (i, i % 3 if i % 3 != 2 else None, ("new", [0]) if i in (3, 4, 30) else None if i % 7 == 0 else (str(i), [i]))
    for i in [*(i for i in range(31) if i not in (5, 8))]
]


@pytest.fixture(autouse=True)
def small_ones_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_rewrite, "_WORTH_BYTES", 0)


def make(spark: SparkSession, path: str, *by: str, **properties: str) -> DeltaTable:
    typed = f"{ROWS}, cast(null as string) none from range(0, 30)"
    frame = spark.sql(typed.replace("'x', id", "'x', cast(id as string)")).repartitionByRange(2, "id")
    writer = frame.write.format("delta").options(**properties)
    (writer.partitionBy(*by) if by else writer).save(path)
    return DeltaTable.forPath(spark, path)


def merge(spark: SparkSession, table: DeltaTable) -> tuple[int, ...]:
    """Update 3 and 4, delete 5 and 8, insert 30."""
    source = spark.sql("select explode(array(3, 4, 5, 8, 30)) id").alias("s")
    new = {"v": "named_struct('x', 'new', 'y', array(0L))"}
    return counts(
        table.alias("t")
        .merge(source, "t.id = s.id")
        .whenMatchedDelete("s.id in (5, 8)")
        .whenMatchedUpdate(set=new)
        .whenNotMatchedInsert(values={"id": "s.id", "p": "0", **new})
    )


def told(spark: SparkSession, path: str) -> list[Any]:
    found = read(spark, path).select("id", "p", "v").collect()
    return sorted((r[0], r[1], None if r[2] is None else (r[2][0], list(r[2][1]))) for r in found)


def writers(path: str) -> set[str]:
    """Who wrote the files of the newest version."""
    files = Snapshot.load(path).files(columns=["path"])["path"].to_pylist()
    created = [pq.read_metadata(Path(path) / unquote(file)).created_by for file in files]
    return {"python" if "parquet-cpp" in who else "spark" for who in created}


@pytest.mark.parametrize("partitioned", [True, False], ids=["partitioned", "not partitioned"])
@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.long
def test_rows_that_stay_are_what_they_were_whoever_moves_them(
    spark: SparkSession, tmp_path: Path, conf: Callable[[str, str], None], kind: str, partitioned: bool
) -> None:
    ids: dict[str, dict[int, int]] = {}
    for way in ("auto", "spark"):
        path = str(tmp_path / way)
        table = make(spark, path, *(["p"] if partitioned else []), **{VECTORS: "false", **TABLES[kind]})
        conf("spark.slackwater.rows", way)
        assert merge(spark, table) == (5, 2, 2, 1)
        assert told(spark, path) == EXPECTED
        metrics = info(path)["operationMetrics"]
        assert int(metrics["numOutputRows"]) == int(metrics["numTargetRowsCopied"]) + 3
        assert ("python" in writers(path)) is (way == "auto")
        if TRACKED in TABLES[kind]:
            ids[way] = ids_of(spark, path)
        conf("spark.slackwater.rows", "auto")
    if ids:
        stayed = {i for i, _, _ in EXPECTED} - {30}
        assert {i: ids["auto"][i] for i in stayed} == {i: ids["spark"][i] for i in stayed}
        assert len(set(ids["auto"].values())) == len(EXPECTED)


CHANGES: dict[str, tuple[Callable[[DeltaTable], Any], Callable[[int], tuple[bool, bool]]]] = {
    # What is done, and of an id whether its row stays, and whether it has a new value.
    "delete": (lambda t: t.delete("id in (5, 8) or v.x = '11'"), lambda i: (i not in (5, 8, 11), False)),
    "update": (
        lambda t: t.update("id in (3, 4)", {"v": "named_struct('x', 'new', 'y', array(0L))"}),
        lambda i: (True, i in (3, 4)),
    ),
    "update of a partition": (
        lambda t: t.update("p = 1", {"v": "named_struct('x', 'new', 'y', array(0L))"}),
        lambda i: (True, i % 3 == 1),
    ),
    "update of most": (
        lambda t: t.update("id > 4", {"v": "named_struct('x', 'new', 'y', array(0L))"}),
        lambda i: (True, i > 4),
    ),
}


@pytest.mark.parametrize("partitioned", [True, False], ids=["partitioned", "not partitioned"])
@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("name", CHANGES)
def test_delete_and_update_move_rows_too(
    spark: SparkSession, tmp_path: Path, conf: Callable[[str, str], None], name: str, kind: str, partitioned: bool
) -> None:
    change, outcome = CHANGES[name]
    expected = []
    for i in range(30):
        stays, is_new = outcome(i)
        value = ("new", [0]) if is_new else None if i % 7 == 0 else (str(i), [i])
        expected += [(i, i % 3 if i % 3 != 2 else None, value)] if stays else []
    metrics = {}
    for way in ("auto", "spark"):
        path = str(tmp_path / way)
        table = make(spark, path, *(["p"] if partitioned else []), **{VECTORS: "false", **TABLES[kind]})
        before = ids_of(spark, path) if TRACKED in TABLES[kind] else None
        conf("spark.slackwater.rows", way)
        change(table)
        assert told(spark, path) == expected
        assert all(said["dataChange"] for action in ("add", "remove") for said in actions(path, 1, action))
        if before is not None:
            assert ids_of(spark, path) == {i: before[i] for i, _, _ in expected}
        told_of_it = info(path)["operationMetrics"]
        metrics[way] = {key: told_of_it.get(key) for key in ("numDeletedRows", "numUpdatedRows", "numCopiedRows")}
        conf("spark.slackwater.rows", "auto")
    assert metrics["auto"] == metrics["spark"]


def ids_of(spark: SparkSession, path: str) -> dict[int, int]:
    """The row ids by `id`."""
    found = read(spark, path, rowTracking="true").select("id", "_row_id").collect()
    return {row[0]: row[1] for row in found}


def test_rows_that_vectors_deleted_before_do_not_come_back(spark: SparkSession, path: str) -> None:
    table = make(spark, path, **{VECTORS: "true"})
    table.delete("id in (0, 6, 29)")
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('{VECTORS}' = 'false')")
    assert merge(spark, DeltaTable.forPath(spark, path)) == (5, 2, 2, 1)
    assert told(spark, path) == [row for row in EXPECTED if row[0] not in (0, 6, 29)]
    files = Snapshot.load(path).files(columns=["path", "deletionVector"])
    # The file that has nothing to do with the MERGE keeps its own.
    assert len(files) - files["deletionVector"].null_count == 1


def test_columns_that_come_with_the_merge_are_null_in_rows_that_stay(spark: SparkSession, path: str) -> None:
    make(spark, path, **{VECTORS: "false"})
    source = spark.sql("select 3L id, 'more' extra").alias("s")
    builder = DeltaTable.forPath(spark, path).alias("t").merge(source, "t.id = s.id").withSchemaEvolution()
    builder.whenMatchedUpdateAll().execute()
    found = rows(read(spark, path).select("id", "extra").where("id < 5"))
    assert found == [(0, None), (1, None), (2, None), (3, "more"), (4, None)]


def test_few_bytes_are_copied_by_spark(spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(spark, path, **{VECTORS: "false"})
    size = sum(Snapshot.load(path).files(columns=["size"])["size"].to_pylist())
    monkeypatch.setattr(executor_rewrite, "_WORTH_BYTES", size + 1)
    assert merge(spark, table) == (5, 2, 2, 1)
    table.delete("id = 9")
    table.update("id = 10", {"p": "4"})
    assert writers(path) == {"spark"}


@pytest.mark.parametrize(("condition", "by"), [("id IN (3, 4)", {"python", "spark"}), ("id > 4", {"spark"})])
def test_an_update_of_most_rows_lets_spark_copy_the_others(
    spark: SparkSession, path: str, condition: str, by: set[str]
) -> None:
    make(spark, path, **{VECTORS: "false"}).update(condition, {"v": "null"})
    assert writers(path) == by


def test_files_that_python_cannot_read_are_copied_by_spark(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(spark, path, **{VECTORS: "false"})

    def unreadable(*_: Any) -> list[BinWritten]:
        raise CorruptTable("only Spark reads that")

    monkeypatch.setattr(executor_rewrite, "rewrite_bins", unreadable)
    assert merge(spark, table) == (5, 2, 2, 1)
    assert told(spark, path) == EXPECTED
    assert writers(path) == {"spark"}


def test_a_row_that_is_lost_on_the_way_fails_the_merge_and_leaves_nothing(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(spark, path, **{VECTORS: "false"})
    before = listing(path)

    def losing(session: Any, store: Any, works: Any, how: Any) -> list[BinWritten]:
        fewer = [replace(split, deleted=split.deleted | BitMap64([0])) for work in works for split in work.splits]
        return rewrite_bins(session, store, [replace(works[0], splits=fewer)], how)

    monkeypatch.setattr(executor_rewrite, "rewrite_bins", losing)
    with pytest.raises(InvalidArgument, match="rows to write, but wrote"):
        merge(spark, table)
    assert listing(path) == before
