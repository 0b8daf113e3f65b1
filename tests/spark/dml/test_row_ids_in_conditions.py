"""`_metadata.row_id` and `_metadata.row_commit_version` in the conditions and values of DELETE, UPDATE and MERGE."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from slackwater import DeltaTable, Snapshot
from slackwater.errors import ConcurrentAppendException, InvalidArgument
from tests.spark.changed import VECTORS
from tests.spark.dml.test_concurrent_dml import meanwhile
from tests.spark.dml.test_row_tracking_of_dml import TRACKED, numbers, tracked
from tests.spark.written import read

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]


def test_exact_duplicates_are_deleted_by_their_row_ids(spark: SparkSession, tmp_path: Path, vectors: str) -> None:
    table = numbers(spark, tmp_path, **TRACKED, **{VECTORS: vectors})
    read(spark, tmp_path).where("id < 7").write.format("delta").mode("append").save(str(tmp_path))
    ids = read(spark, tmp_path, rowTracking="true").selectExpr("id", "_row_id AS row_id")
    later = ids.selectExpr("row_id", "row_number() OVER (PARTITION BY id ORDER BY row_id) AS n").where("n > 1")
    merge = table.merge(later.alias("s"), "tgt._metadata.row_id = s.row_id").whenMatchedDelete()
    found = merge.execute()
    (counted,) = found.collect()
    assert counted.num_deleted_rows == 7
    assert sorted(row.id for row in read(spark, tmp_path).collect()) == list(range(20))


def test_update_and_delete_take_conditions_on_ids_and_versions(
    spark: SparkSession, tmp_path: Path, vectors: str
) -> None:
    table = numbers(spark, tmp_path, **TRACKED, **{VECTORS: vectors})
    before = tracked(spark, tmp_path)
    chosen = before[13][0]
    table.update(f"_metadata.row_id = {chosen}", {"k": "_metadata.row_id + 100"})
    assert [tuple(row) for row in read(spark, tmp_path).where("k > 50").select("id", "k").collect()] == [
        (13, chosen + 100)
    ]
    spark.sql(f"DELETE FROM delta.`{tmp_path}` WHERE _metadata.row_commit_version = 1")
    assert tracked(spark, tmp_path) == {n: found for n, found in before.items() if n != 13}
    spark.sql(f"UPDATE delta.`{tmp_path}` AS u SET k = -1 WHERE u._metadata.row_id IN ({before[2][0]}, {chosen})")
    assert [row.id for row in read(spark, tmp_path).where("k = -1").collect()] == [2]


def test_a_table_without_row_tracking_has_no_ids_in_conditions(spark: SparkSession, tmp_path: Path) -> None:
    table = numbers(spark, tmp_path)
    with pytest.raises(InvalidArgument, match="_metadata"):
        table.delete("_metadata.row_id = 1")
    assert Snapshot.load(tmp_path).version == 0


def test_a_column_of_the_table_is_called_metadata(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(3).selectExpr("id", "named_struct('row_id', id * 10) AS _metadata")
    frame.write.format("delta").options(**TRACKED).save(str(tmp_path))
    DeltaTable.forPath(spark, str(tmp_path)).delete("_metadata.row_id = 20")
    assert sorted(row.id for row in read(spark, tmp_path).collect()) == [0, 1]


def test_rows_that_others_append_meanwhile_are_tested_by_their_ids(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict = {**TRACKED, "delta.isolationLevel": "Serializable"}
    table = numbers(spark, tmp_path, **strict)
    highest = max(row_id for row_id, _ in tracked(spark, tmp_path).values())
    more = spark.range(50, 52, 1, 1).selectExpr("id", "0L AS k", "0L AS p")

    def append() -> None:
        more.write.format("delta").mode("append").save(str(tmp_path))

    meanwhile(monkeypatch, append)
    # The appended rows get higher ids, so they do not match.
    table.delete(f"_metadata.row_id <= {highest}")
    assert sorted(row.id for row in read(spark, tmp_path).collect()) == [50, 51]
    table = numbers(spark, tmp_path / "other", **strict)
    meanwhile(monkeypatch, lambda: more.write.format("delta").mode("append").save(str(tmp_path / "other")))
    with pytest.raises(ConcurrentAppendException):
        table.delete("_metadata.row_commit_version >= 0")
