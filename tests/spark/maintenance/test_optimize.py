"""`DeltaTable.optimize` and `reorg`: the same rows in fewer files, and what the commit says of it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from slackwater import DeltaTable, errors
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.maintenance.metrics import RESULT
from slackwater.spark.maintenance.rewrite_command import RewriteCommand
from tests.spark.changed import FEED, MAPPING, VECTORS, ids, info
from tests.spark.maintenance.rearranged import TRACKED, live, made, metrics
from tests.spark.written import actions, data_files, first_row, listing, read, rows, save

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]


def test_small_files_become_one_and_rows_stay_as_they_are(spark: SparkSession, path: str, way: str) -> None:
    table = made(spark, path, 3, "select id, cast(id as string) s, array(id, null) a, struct(id x) st from numbers")
    before = rows(table.toDF())
    done = table.optimize().executeCompaction()
    assert done.schema == RESULT
    assert first_row(done)["path"] == Snapshot.load(path).store.root_url
    found = metrics(done)
    assert (found["numFilesRemoved"], found["numFilesAdded"], found["numBins"]) == (3, 1, 1)
    assert found["filesRemoved"]["totalSize"] == sum(a["size"] for a in actions(path, 0, "add"))
    assert rows(table.toDF()) == before
    (file,) = live(path)
    stats = json.loads(file["stats"])
    assert (stats["numRecords"], stats["minValues"]["id"], stats["maxValues"]["id"]) == (30, 0, 29)
    ids_now = [row[0] for row in spark.read.parquet(f"{path}/{file['path']}").collect()]
    by_time = sorted(actions(path, 0, "add"), key=lambda add: (add["modificationTime"], add["path"]))
    firsts = [json.loads(add["stats"])["minValues"]["id"] for add in by_time]
    assert ids_now == [first + n for first in firsts for n in range(10)], "in their order"
    told = actions(path, 1)
    assert all(a["dataChange"] is False for each in told for kind, a in each.items() if kind in ("add", "remove"))
    said = info(path)
    assert (said["operation"], said["isBlindAppend"], said["readVersion"]) == ("OPTIMIZE", False, 0)
    expected = {"predicate": "[]", "zOrderBy": "[]", "clusterBy": "[]", "auto": "false"}
    assert said["operationParameters"] == expected
    for name, value in {"numAddedFiles": "1", "numRemovedFiles": "3", "numDeletionVectorsRemoved": "0"}.items():
        assert said["operationMetrics"][name] == value
    sizes = {said["operationMetrics"][f"{name}FileSize"] for name in ("min", "p25", "p50", "p75", "max")}
    assert sizes == {str(found["filesAdded"]["max"])}


def test_a_second_run_finds_nothing_to_do(spark: SparkSession, path: str) -> None:
    table = made(spark, path, 2, "select id, id % 3 p from numbers", "p")
    table.optimize().executeCompaction()
    before = listing(path)
    found = metrics(table.optimize().executeCompaction())
    assert listing(path) == before
    assert (found["numFilesRemoved"], found["numFilesAdded"], found["totalConsideredFiles"]) == (0, 0, 3)


def test_files_are_about_as_large_as_the_session_or_the_table_says(
    spark: SparkSession, path: str, conf: Callable[[str, str], None]
) -> None:
    table = made(spark, path, 6, "select id, uuid() u from numbers")
    size = max(a["size"] for a in actions(path, 0, "add"))
    spark_confs = {"minFileSize": 2 * size, "maxFileSize": 2 * size + 10}
    for name, value in spark_confs.items():
        conf(f"spark.databricks.delta.optimize.{name}", str(value))
    table.optimize().executeCompaction()
    assert len(live(path)) == 3
    before = listing(path)
    table.optimize().executeCompaction()
    assert listing(path) == before, "what became of full bins is left alone, though it is smaller than they were"


def test_only_partitions_that_are_named_are_touched(spark: SparkSession, path: str, way: str) -> None:
    sql = "select id, nullif(id % 4, 3) p, timestamp'2026-01-01 12:00:00' + make_interval(0,0,0,int(id % 2)) t"
    table = made(spark, path, 2, f"{sql} from numbers", "p", "t")
    before = rows(table.toDF())
    places = {json.dumps(dict(f["partitionValues"]), sort_keys=True) for f in live(path)}
    found = metrics(table.optimize().where("p = 1 and t > '2026-01-01'").executeCompaction())
    assert (found["numFilesRemoved"], found["numFilesAdded"], found["partitionsOptimized"]) == (2, 1, 1)
    assert json.loads(info(path)["operationParameters"]["predicate"]) == ["(('p = 1) AND ('t > 2026-01-01))"]
    assert metrics(table.optimize().where(F.col("p").isNull()).executeCompaction())["numFilesRemoved"] == 2
    assert metrics(table.optimize().executeCompaction())["numFilesRemoved"] == 4
    assert rows(table.toDF()) == before
    assert {json.dumps(dict(f["partitionValues"]), sort_keys=True) for f in live(path)} == places
    assert len(live(path)) == 4


def test_a_condition_on_other_columns_is_refused_by_name(spark: SparkSession, path: str) -> None:
    table = made(spark, path, 2, "select id, id % 2 p, id v from numbers", "p")
    before = listing(path)
    for wrong in ("p = 1 and v > 3", F.col("V") == 1, "exists(array(1), x -> x = v + p)"):
        with pytest.raises(
            errors.InvalidArgument, match=r"non-partition column 'v'\. Only the partition columns .*: \[p\]"
        ):
            table.optimize().where(wrong).executeCompaction()
    for wrong in ("nowhere = 1", "p + 1", "p = and 1"):
        with pytest.raises(errors.InvalidArgument, match=re.escape(wrong)):
            table.optimize().where(wrong).executeCompaction()
    with pytest.raises(TypeError, match="partitionFilter"):
        table.optimize().where(True)  # type: ignore[arg-type]
    assert listing(path) == before


@pytest.mark.parametrize("mode", ["none", "name", "id"])
def test_deleted_rows_leave_and_row_ids_stay(spark: SparkSession, path: str, way: str, mode: str) -> None:
    properties = {VECTORS: "true", TRACKED: "true", FEED: "true", MAPPING: mode}
    table = made(spark, path, 3, "select id, id % 2 p, struct(id x) st from numbers", "p", **properties)
    table.delete("id % 7 = 0")
    table.update("id = 8", {"st": "null"})
    expected = rows(read(spark, path, rowTracking="true"))
    found = metrics(table.optimize().executeCompaction())
    assert found["deletionVectorStats"]["numDeletionVectorsRemoved"] > 0
    assert found["numFilesAdded"] == 2
    assert rows(read(spark, path, rowTracking="true")) == expected
    assert not any(file["deletionVector"] for file in live(path))
    assert actions(path, 3, "cdc") == []
    assert info(path)["tags"]["delta.rowTracking.preserved"] == "true"
    table.delete("id = 9")
    assert rows(read(spark, path, rowTracking="true")) == [row for row in expected if row[0] != 9]


def test_rules_of_the_table_are_not_asked_again(spark: SparkSession, path: str, way: str) -> None:
    builder = DeltaTable.create(spark).location(path).addColumn("id", "BIGINT")
    table = builder.addColumn("later", "BIGINT", generatedAlwaysAs="id + 1").execute()
    for n in range(2):
        save(spark.range(n, n + 1), path)
    # Another writer let rows in that break the rules.
    log = Path(path) / "_delta_log" / f"{0:020d}.json"
    log.write_text(log.read_text().replace("id + 1", "id + 2"))
    for checksum in log.parent.glob("*.crc"):
        checksum.unlink()
    table.optimize().executeCompaction()
    assert rows(table.toDF()) == [(0, 1), (1, 2)]
    with pytest.raises(errors.InvariantViolationException):
        save(spark.sql("select 5L id, 6L later"), path)


def test_columns_that_came_later_are_null(spark: SparkSession, path: str, way: str) -> None:
    table = made(spark, path, 1, "select id, struct(id x) st from numbers")
    save(spark.range(3).selectExpr("id", "id v", "struct(id x, id y) st"), path, mergeSchema="true")
    before = rows(table.toDF())
    table.optimize().executeCompaction()
    assert rows(table.toDF()) == before
    assert len(live(path)) == 1


@pytest.mark.parametrize("mode", ["name", "id"])
def test_purge_takes_dropped_columns_out_of_files(spark: SparkSession, path: str, way: str, mode: str) -> None:
    table = made(
        spark, path, 2, "select id, cast(id as string) s, array(struct(id x, uuid() y)) st from numbers",
        **{MAPPING: mode, TRACKED: "true", VECTORS: "true"},
    )  # fmt: skip
    table.delete("id = 11")
    assert _num_leaves(path) == {4}
    table.dropColumns("s", "st.element.y")
    save(spark.range(20, 21).selectExpr("id", "array(struct(id x)) st"), path)
    before = rows(read(spark, path, rowTracking="true"))
    (newest,) = {f["path"] for f in live(path)} - {a["path"] for n in (0, 1) for a in actions(path, n, "add")}
    found = metrics(table.reorg().applyPurge())
    assert found["numFilesRemoved"] == 2
    assert _num_leaves(path) == {2}
    assert newest in {f["path"] for f in live(path)}
    assert rows(read(spark, path, rowTracking="true")) == before
    assert metrics(table.reorg().applyPurge())["numFilesRemoved"] == 0


def _num_leaves(path: str) -> set[int]:
    """How many leaf columns the live files have, but for those of row ids, which no table drops."""
    footers = [pq.read_metadata(f"{path}/{file['path']}") for file in live(path)]
    names = [[footer.schema.column(at).path for at in range(footer.num_columns)] for footer in footers]
    return {sum(not name.startswith("_row-") for name in each) for each in names}


def test_purge_rewrites_each_file_with_deleted_rows_and_no_other(spark: SparkSession, path: str, way: str) -> None:
    table = made(spark, path, 3, "select id, uuid() u from numbers", **{VECTORS: "true"})
    table.delete("id = 11")
    clean = {f["path"] for f in live(path) if not f["deletionVector"]}
    before = rows(table.toDF())
    found = metrics(table.reorg().applyPurge())
    assert (found["numFilesRemoved"], found["numFilesAdded"]) == (1, 1)
    assert clean < {f["path"] for f in live(path)}
    assert not any(f["deletionVector"] for f in live(path))
    assert rows(table.toDF()) == before
    assert (info(path)["operation"], info(path)["operationParameters"]["applyPurge"]) == ("REORG", "true")
    before_files = listing(path)
    assert metrics(table.reorg().applyPurge())["numFilesRemoved"] == 0
    assert listing(path) == before_files


def meanwhile(monkeypatch: pytest.MonkeyPatch, work: Callable[[], Any]) -> None:
    """Have `work` done by another writer once the next OPTIMIZE has written its files."""
    original = RewriteCommand.rewrite
    pending = [work]

    def step_in(change: RewriteCommand, *args: Any) -> None:
        original(change, *args)
        if pending:
            pending.pop()()

    monkeypatch.setattr(RewriteCommand, "rewrite", step_in)


def test_rows_that_another_appends_meanwhile_land(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(spark, path, 2, "select id from numbers")
    meanwhile(monkeypatch, lambda: save(spark.range(100, 103), path))
    table.optimize().executeCompaction()
    assert ids(spark, path) == [*range(20), 100, 101, 102]
    assert info(path)["operation"] == "OPTIMIZE"
    assert len(live(path)) > 1


def test_rows_that_another_deletes_meanwhile_stay_deleted_and_files_go_again(
    spark: SparkSession, path: str, vectors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(spark, path, 2, "select id from numbers", **{VECTORS: vectors})
    left: list[str] = []

    def delete() -> None:
        table.delete("id = 3")
        left.extend(listing(path))

    meanwhile(monkeypatch, delete)
    written = set(map(str, data_files(path)))
    with pytest.raises(errors.ConcurrentDeleteDeleteException):
        table.optimize().executeCompaction()
    assert ids(spark, path) == [n for n in range(20) if n != 3]
    new = set(map(str, data_files(path))) - written
    assert len(new) == (0 if vectors == "true" else 1), "only what the DELETE wrote is left"
    table.optimize().executeCompaction()
    assert ids(spark, path) == [n for n in range(20) if n != 3]


def test_a_delete_behind_an_optimize_of_its_file_is_told_so(
    spark: SparkSession, path: str, vectors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(spark, path, 2, "select id from numbers", **{VECTORS: vectors})
    from tests.spark.dml.test_concurrent_dml import meanwhile as while_changing

    while_changing(monkeypatch, lambda: table.optimize().executeCompaction())
    with pytest.raises(errors.DeltaConcurrentModificationException):
        table.delete("id = 3")
    assert ids(spark, path) == list(range(20))


def test_an_append_only_table_is_compacted(spark: SparkSession, path: str) -> None:
    table = made(spark, path, 2, "select id from numbers", **{"delta.appendOnly": "true"})
    assert metrics(table.optimize().executeCompaction())["numFilesAdded"] == 1


def test_rows_that_do_not_add_up_commit_nothing(spark: SparkSession, path: str, way: str) -> None:
    table = made(spark, path, 2, "select id from numbers")
    log = Path(path) / "_delta_log" / f"{0:020d}.json"
    log.write_text(log.read_text().replace('\\"numRecords\\":10', '\\"numRecords\\":11'))
    (Path(path) / "_delta_log" / f"{0:020d}.crc").unlink(missing_ok=True)
    before = listing(path)
    with pytest.raises(errors.InvalidArgument, match="found 22 rows to write, but wrote 20"):
        table.optimize().executeCompaction()
    assert listing(path) == before


def test_a_file_that_is_gone_is_named_and_nothing_is_left(spark: SparkSession, path: str, way: str) -> None:
    table = made(spark, path, 2, "select id from numbers")
    data_files(path)[0].unlink()
    before = listing(path)
    with pytest.raises(errors.DataFileNotFound):
        table.optimize().executeCompaction()
    assert listing(path) == before


@pytest.mark.classic
def test_an_optimize_is_not_what_an_application_does_once(
    spark: SparkSession, path: str, conf: Callable[[str, str], None]
) -> None:
    conf("spark.databricks.delta.write.txnAppId", "app")
    conf("spark.databricks.delta.write.txnVersion", "7")
    table = made(spark, path, 2, "select id from numbers")
    assert metrics(table.optimize().executeCompaction())["numFilesAdded"] == 1
    assert actions(path, 1, "txn") == []
