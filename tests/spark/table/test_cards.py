"""Cards of what a session holds: no Spark job runs for them, they never fail a cell, and tell what is not done yet."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import slackwater
from slackwater.html.number_format import counted, short_bytes
from tests.html.well_formed import words

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]


def _words(shown: Any) -> str:
    return words(shown._repr_html_())


def _no_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever needs a frame from now on fails."""
    for place in ("slackwater.spark.table.table.load_table", "slackwater.spark.table.table.result_frame"):
        monkeypatch.setattr(place, None)


def test_a_table_is_its_newest_version_with_the_last_commits(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "it's <b>&`.x"
    spark.range(4).write.format("delta").save(str(place))
    table = slackwater.DeltaTable.forPath(spark, str(place))
    table.delete("id < 2")
    _no_jobs(monkeypatch)
    shown = _words(table.alias("t"))
    assert f"DeltaTable {place} AS t" in shown
    assert "version 1 rows 2 files" in shown
    assert "DELETE −2" in shown
    assert "WRITE +4" in shown
    sizes = slackwater.Snapshot.load(place).files()["size"].to_pylist()
    brief = f"version 1, 1 column, {counted(len(sizes), 'file')}, {short_bytes(sum(sizes))}"
    assert repr(table) == f"<DeltaTable {place}: {brief}>"
    assert repr(table.alias("t")) == f"<DeltaTable {place}: {brief} AS t>"


def test_a_table_that_is_gone_says_so(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(1).write.format("delta").save(str(tmp_path / "t"))
    table = slackwater.DeltaTable.forPath(spark, str(tmp_path / "t"))
    shutil.rmtree(tmp_path / "t")
    assert repr(table) == f"<DeltaTable {tmp_path / 't'}>"
    assert "TableNotFound" in _words(table)
    assert repr(table)


def test_tables_of_a_lake_are_told_as_they_are_seen(spark: SparkSession, tmp_path: Path) -> None:
    with slackwater.Lake.open(tmp_path / "lake", spark=spark) as lake:
        stock = lake.create_table("stock", "sku STRING, qty INT", properties={"delta.enableRowTracking": "true"})
        with lake.transaction() as tx:
            inside = tx.table("stock")
            inside.append(spark.createDataFrame([("A1", 10)], "sku STRING, qty INT"))
            assert "TransactionTable stock written in this transaction" in _words(inside)
            assert repr(inside) == f"<TransactionTable stock in transaction {tx.id}>"
        assert "TransactionEnded" in _words(inside)
        assert "committed" in _words(tx)
        stock.delete()
        past = lake.as_of(tx.commit_timestamp).table("stock")
        assert repr(past) == "<TimeSliceTable stock: version 1>"
        assert "TimeSliceTable stock as it was" in _words(past)
        assert "stock 2" in _words(lake)
        assert repr(lake) == f"<Lake {tmp_path / 'lake'}: 1 table>"
        history = stock.system_time()
        assert "changes(key)" in _words(history)
        assert "not yet" not in _words(history)
        assert str(tmp_path / "lake") in repr(history)


def test_system_time_of_a_table_that_does_not_keep_it_says_what_to_set(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(1).write.format("delta").save(str(tmp_path / "t"))
    shown = _words(slackwater.DeltaTable.forPath(spark, str(tmp_path / "t")).system_time())
    assert "not yet" in shown
    assert "delta.enableRowTracking" in shown


def test_what_is_not_executed_says_so(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(1).write.format("delta").save(str(tmp_path / "t"))
    table = slackwater.DeltaTable.forPath(spark, str(tmp_path / "t"))
    merge = table.alias("t").merge(spark.range(1).alias("s"), "t.id = s.id").whenMatchedDelete()
    assert repr(merge) == "<DeltaMergeBuilder ON t.id = s.id: WHEN MATCHED THEN DELETE; execute() runs it>"
    assert "nothing is done yet; executeCompaction()" in repr(table.optimize())
    builder = slackwater.DeltaTable.create(spark).location(str(tmp_path / "new")).addColumn("id", "INT")
    assert repr(builder) == f"<DeltaTableBuilder CREATE TABLE {tmp_path / 'new'}: 1 column; execute() makes it>"


def test_a_stream_that_is_not_started_tells_no_secret(spark: SparkSession, tmp_path: Path) -> None:
    with slackwater.Lake.open(tmp_path / "lake", spark=spark) as lake:
        lake.create_table("orders", "id BIGINT")
        frame = spark.readStream.format("rate").load()
        writer = slackwater.stream(frame).to(lake, {"orders": lambda batch: batch})
        given = writer.option("fs.s3a.secret.key", "hunter2").option("checkpointLocation", "/c").queryName("<q>")
        shown = _words(given)
        assert "LakeStreamWriter <q> not started" in shown
        assert "checkpointLocation /c" in shown
        assert "hunter2" not in shown + repr(given)
        assert "into orders" in repr(given)
