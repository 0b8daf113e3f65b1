"""Tables in S3, whose rows executors read and write in Python; by `make stores` Spark's own connector does."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from slackwater import DeltaTable, Lake
from slackwater.errors import StorageError
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.session.temporary_settings import with_settings
from slackwater.spark.storage.stores import storage_options, table_at
from tests.contract.owners import eventually

pytestmark = pytest.mark.spark


def save(frame: object, path: str, mode: str = "append", **options: str) -> None:
    frame.write.format("delta").mode(mode).options(**options).partitionBy("p").save(path)  # type: ignore[attr-defined]


def numbers(spark: SparkSession, first: int, end: int) -> object:
    return spark.range(first, end).withColumn("p", F.col("id") % 2)


def ids(spark: SparkSession, path: str, **options: str) -> list[int]:
    return sorted(row.id for row in spark.read.format("delta").options(**options).load(path).collect())


def data_files(spark: SparkSession, path: str) -> set[str]:
    # The connector leaves objects without bytes where directories were.
    found = (meta for meta in table_at(spark, path).store.list_from("", recursive=True) if meta.size_bytes)
    return {meta.path for meta in found if not meta.path.startswith("_delta_log/")}


def live_files(spark: SparkSession, path: str) -> set[str]:
    files = Snapshot.load(path, storage_options=storage_options(spark, path)).live_files(["path"])
    return set(files["path"].to_pylist())


def test_what_people_do_with_a_table(spark: SparkSession, path: str) -> None:
    save(numbers(spark, 0, 6), path)
    table = DeltaTable.forPath(spark, path)
    table.delete("id = 0")
    table.update("id = 1", {"id": "id + 100"})
    source = numbers(spark, 4, 8).alias("s")  # type: ignore[attr-defined]
    merge = table.alias("t").merge(source, "t.id = s.id")
    merge.whenMatchedUpdate(set={"id": "s.id + 1000"}).whenNotMatchedInsertAll().execute()
    assert ids(spark, path) == [2, 3, 6, 7, 101, 1004, 1005]
    assert ids(spark, path, versionAsOf="0") == list(range(6))
    save(numbers(spark, 51, 52), path, "overwrite", replaceWhere="p = 1")
    table.checkpoint()
    assert ids(spark, path) == [2, 6, 51, 1004]
    assert spark.read.format("delta").load(path).where("p = 1").count() == 1
    assert [row.operation for row in table.history().collect()] == ["WRITE", "MERGE", "UPDATE", "DELETE", "WRITE"]


def test_what_keeps_a_table_healthy(spark: SparkSession, path: str) -> None:
    for first in range(0, 12, 4):
        save(numbers(spark, first, first + 4).repartition(1), path)  # type: ignore[attr-defined]
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    table = DeltaTable.forPath(spark, path)
    (compacted,) = table.optimize().executeCompaction().collect()
    assert (compacted.metrics.numFilesRemoved, compacted.metrics.numFilesAdded) == (6, 2)
    (ordered,) = table.optimize().where("p = 1").executeZOrderBy("id").collect()
    assert (ordered.metrics.numFilesRemoved, ordered.metrics.numFilesAdded) == (1, 1)
    table.delete("id in (3, 4)")
    (purged,) = table.reorg().applyPurge().collect()
    assert (purged.metrics.numFilesRemoved, purged.metrics.numFilesAdded) == (2, 2)
    expected = [number for number in range(12) if number not in (3, 4)]
    assert ids(spark, path) == expected
    with with_settings(spark, {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}):
        table.vacuum(0, untracked_hours=0)
    assert data_files(spark, path) == live_files(spark, path)
    assert len(live_files(spark, path)) == 2
    assert ids(spark, path) == expected


def test_only_files_that_the_log_names_are_left(spark: SparkSession, path: str) -> None:
    save(numbers(spark, 0, 9), path)
    named = set(table_at(spark, path).list_log().commits)
    assert named == {0}
    assert data_files(spark, path) == live_files(spark, path)


def test_a_write_that_fails_leaves_nothing(spark: SparkSession, path: str) -> None:
    save(numbers(spark, 0, 2), path)
    before = data_files(spark, path)
    broken = numbers(spark, 0, 4).withColumn("id", F.expr("IF(id = 3, raise_error('broken'), id)"))  # type: ignore[attr-defined]
    with pytest.raises((PySparkException, StorageError)):
        save(broken, path)
    # A task that had begun may still put its file, which is then taken away.
    eventually(lambda: data_files(spark, path) == before)
    assert ids(spark, path) == [0, 1]


def test_one_place_by_either_scheme(spark: SparkSession, path: str) -> None:
    save(numbers(spark, 0, 3), path)
    other = path.replace("s3a://", "s3://", 1)
    save(numbers(spark, 3, 5), other)
    assert ids(spark, path) == ids(spark, other) == list(range(5))


def test_a_transaction_over_two_tables(spark: SparkSession, path: str, tmp_path: Path) -> None:
    with Lake.open(path, database=f"sqlite:///{tmp_path}/owner.db", spark=spark) as lake:
        for name in ("orders", "stock"):
            lake.create_table(name, "id BIGINT")
        with lake.transaction(spark) as tx:
            now = tx.current_timestamp()
            tx.table("orders").append(spark.range(2))
            tx.table("stock").append(spark.range(3))
        assert tx.commit_timestamp == now
        past = lake.as_of(now)
        assert [past.table(name).toDF().count() for name in ("orders", "stock")] == [2, 3]


def test_files_in_a_bucket_become_a_table(spark: SparkSession, path: str) -> None:
    store = table_at(spark, path).store
    for number in range(3):
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"id": [number]}), sink)
        store.put(f"p=a%20{number % 2}/part {number}", sink.getvalue().to_pybytes())
    table = DeltaTable.convertToDelta(spark, f"parquet.`{path}`", "p STRING")
    assert sorted(tuple(row) for row in table.toDF().collect()) == [(0, "a 0"), (1, "a 1"), (2, "a 0")]
    table.delete("id = 0")
    table.generate("symlink_format_manifest")
    (line,) = store.read("_symlink_format_manifest/p=a 1/manifest").decode().splitlines()
    assert line == f"{unquote(store.root_url)}/p=a%201/part 1"
