"""OPTIMIZE, VACUUM, RESTORE, CONVERT, GENERATE and REORG by SQL: what the methods of `DeltaTable` do."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

import slackwater
from slackwater.errors import InvalidArgument, SlackwaterError, TableNotFound, UnsupportedFeature

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("db")]


def made(spark: SparkSession, more: str = "", name: str = "t") -> slackwater.DeltaTable:
    """A table of three files, in two partitions where it is split."""
    spark.sql(f"CREATE TABLE {name} (id INT, day STRING) USING delta {more}")
    for at in range(3):
        spark.sql(f"INSERT INTO {name} VALUES ({at}, 'd{at % 2}')")
    return slackwater.DeltaTable.forName(spark, name)


def test_optimize_compacts(spark: SparkSession, db: str, tmp_path: Path) -> None:
    table = made(spark)
    found = spark.sql("OPTIMIZE t")
    assert found.schema == table.optimize().executeCompaction().schema
    (row,) = found.collect()
    assert (row.metrics.numFilesRemoved, row.metrics.numFilesAdded) == (3, 1)
    spark.sql("INSERT INTO t VALUES (9, 'd9')")
    (row,) = spark.sql(f"OPTIMIZE '{tmp_path}/{db}/t'").collect()
    assert row.metrics.numFilesRemoved == 2
    assert spark.table("t").count() == 4


def test_optimize_of_some_partitions_along_a_curve(spark: SparkSession) -> None:
    table = made(spark, "PARTITIONED BY (day)")
    (row,) = spark.sql("OPTIMIZE t WHERE day = :day ZORDER BY (`id`)", args={"day": "d0"}).collect()
    assert (row.metrics.numFilesRemoved, row.metrics.numFilesAdded) == (2, 1)
    assert table.history(1).collect()[0].operationParameters["zOrderBy"] == '["id"]'
    assert spark.sql("OPTIMIZE t ZORDER BY id").collect()[0].metrics.numFilesAdded == 2


def test_optimize_full_is_for_clustered_tables(spark: SparkSession) -> None:
    made(spark)
    with pytest.raises(InvalidArgument, match="clustered"):
        spark.sql("OPTIMIZE t FULL")
    made(spark, "CLUSTER BY (id)", "c")
    assert spark.sql("OPTIMIZE c FULL").collect()[0].metrics.numFilesRemoved == 3


def test_vacuum_tells_what_would_go_and_lets_it_go(
    spark: SparkSession, conf: Callable[[str, str], None], db: str, tmp_path: Path
) -> None:
    conf("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    table = made(spark)
    spark.sql("OPTIMIZE t")
    found = spark.sql("VACUUM t RETAIN 0 HOURS DRY RUN").collect()
    assert len(found) == 3
    assert found == spark.sql("VACUUM t DRY RUN FULL RETAIN 0 HOURS").collect()
    assert found == table.vacuum(0, dry_run=True).collect()
    assert spark.sql("VACUUM t").collect() == table.vacuum().collect() == [(f"{tmp_path}/{db}/t",)]
    files = {path.name for path in (tmp_path / db / "t").glob("*.parquet")}
    assert len(files) == 4
    stray = tmp_path / db / "t" / "stray.parquet"
    stray.write_bytes(b"of no commit")
    os.utime(stray, (0, 0))
    spark.sql(f"VACUUM '{tmp_path}/{db}/t' LITE RETAIN 0 HOURS")
    assert stray.is_file()
    spark.sql("VACUUM t FULL")
    assert not stray.exists()
    assert len(list((tmp_path / db / "t").glob("*.parquet"))) == 1
    assert spark.table("t").count() == 3


def test_vacuum_goes_by_an_inventory(
    spark: SparkSession, conf: Callable[[str, str], None], db: str, tmp_path: Path
) -> None:
    conf("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    made(spark)
    spark.sql("OPTIMIZE t")
    gone = [row.path for row in spark.sql("VACUUM t RETAIN 0 HOURS DRY RUN").collect()]
    frame = spark.createDataFrame(
        [(gone[0], 1, False, 1)], "path STRING, length BIGINT, isDir BOOLEAN, modificationTime BIGINT"
    )
    frame.write.format("delta").saveAsTable("inventory")
    for inventory in ("inventory", "(SELECT * FROM inventory WHERE NOT isDir)"):
        found = spark.sql(f"VACUUM t USING INVENTORY {inventory} RETAIN 0 HOURS DRY RUN").collect()
        assert [row.path for row in found] == gone[:1]


def test_vacuum_keeps_to_the_retention(spark: SparkSession) -> None:
    made(spark)
    with pytest.raises(InvalidArgument, match="168"):
        spark.sql("VACUUM t RETAIN 1 HOURS")
    with pytest.raises(InvalidArgument, match="each clause once"):
        spark.sql("VACUUM t DRY RUN DRY RUN")


def test_restore_to_a_version_and_a_time(spark: SparkSession) -> None:
    table = made(spark)
    (row,) = spark.sql("RESTORE TABLE t TO VERSION AS OF 1").collect()
    assert (row.num_removed_files, row.num_of_files_after_restore) == (2, 1)
    assert [row.id for row in spark.table("t").collect()] == [0]
    times = {row.version: row.timestamp for row in table.history().collect()}
    spark.sql("RESTORE t TIMESTAMP AS OF :then", args={"then": times[2]})
    assert sorted(row.id for row in spark.table("t").collect()) == [0, 1]
    spark.sql("RESTORE t TO VERSION AS OF ?", args=[3])
    assert spark.table("t").count() == 3
    assert table.history(1).collect()[0].operation == "RESTORE"


def test_a_table_of_a_lake_is_restored_also_in_a_transaction(spark: SparkSession, lake: slackwater.Lake) -> None:
    spark.sql("USE lake")
    spark.sql("INSERT INTO orders VALUES (1, 'a')")
    spark.sql("INSERT INTO orders VALUES (2, 'b')")
    spark.sql("RESTORE orders TO VERSION AS OF 1")
    assert [row.id for row in spark.sql("SELECT * FROM orders").collect()] == [1]
    spark.sql("BEGIN TRANSACTION")
    spark.sql("RESTORE TABLE orders TO VERSION AS OF 2")
    assert spark.sql("SELECT * FROM orders").count() == 2
    spark.sql("ROLLBACK")
    assert spark.sql("SELECT * FROM orders").count() == 1


def test_parquet_files_become_a_table(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(1, "a"), (2, "b")], "id INT, part STRING")
    frame.write.partitionBy("part").parquet(str(tmp_path / "p"))
    assert spark.sql(f"CONVERT TO DELTA parquet.`{tmp_path}/p` PARTITIONED BY (part STRING)").collect() == []
    table = slackwater.DeltaTable.forPath(spark, str(tmp_path / "p"))
    assert table.detail().collect()[0].partitionColumns == ["part"]
    assert sorted(map(tuple, table.toDF().collect())) == [(1, "a"), (2, "b")]
    frame.write.parquet(str(tmp_path / "q"))
    spark.sql(f"CONVERT TO DELTA parquet.`{tmp_path}/q` NO STATISTICS")
    assert spark.sql(f"SELECT * FROM delta.`{tmp_path}/q`").count() == 2
    assert (_statistics(spark, tmp_path / "p"), _statistics(spark, tmp_path / "q")) == ({True}, {False})
    assert table.history(1).collect()[0].operation == "CONVERT"
    with pytest.raises(UnsupportedFeature, match="path"):
        spark.sql("CONVERT TO DELTA p")


def _statistics(spark: SparkSession, path: Path) -> set[bool]:
    """Whether the files of a table have statistics."""
    snapshot = slackwater.DeltaTable.forPath(spark, str(path))._snapshot()
    return {text is not None for text in snapshot.live_files(["stats"])["stats"].to_pylist()}


def test_manifests_are_generated(spark: SparkSession, db: str, tmp_path: Path) -> None:
    made(spark)
    assert spark.sql("GENERATE symlink_format_manifest FOR TABLE t").collect() == []
    assert len((tmp_path / db / "t" / "_symlink_format_manifest" / "manifest").read_text().split()) == 3
    with pytest.raises(InvalidArgument, match="nope"):
        spark.sql("GENERATE nope FOR TABLE t")


def test_reorg_rewrites_files_with_deleted_rows(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t (id BIGINT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    spark.range(0, 100, 1, 1).write.insertInto("t")
    spark.sql("DELETE FROM t WHERE id = 3")
    found = spark.sql("REORG TABLE t APPLY (PURGE)")
    (row,) = found.collect()
    assert (row.metrics.numFilesRemoved, row.metrics.numFilesAdded) == (1, 1)
    assert spark.sql("REORG TABLE t APPLY (PURGE)").collect()[0].metrics.numFilesRemoved == 0
    with pytest.raises(UnsupportedFeature, match="UPGRADE UNIFORM"):
        spark.sql("REORG TABLE t APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2))")


def test_refresh_has_nothing_to_do(spark: SparkSession, lake: slackwater.Lake) -> None:
    assert spark.sql("REFRESH TABLE lake.orders").collect() == []
    assert spark.sql(f"REFRESH TABLE delta.`{lake.location('stock')}`").collect() == []
    made(spark)
    assert spark.sql("REFRESH TABLE t").collect() == []
    assert spark.sql("REFRESH t").collect() == []


REFUSED: list[tuple[str, type[SlackwaterError], str]] = [
    ("ANALYZE TABLE t COMPUTE STATISTICS", UnsupportedFeature, "ANALYZE TABLE"),
    ("MSCK REPAIR TABLE t", UnsupportedFeature, "MSCK REPAIR TABLE"),
    ("FSCK REPAIR TABLE t DRY RUN", UnsupportedFeature, "FSCK REPAIR TABLE"),
    ("LOAD DATA INPATH '/x' INTO TABLE t", UnsupportedFeature, "LOAD DATA"),
    ("UNCACHE TABLE t", UnsupportedFeature, "UNCACHE TABLE"),
    ("OPTIMIZE t ZORDER BY ()", InvalidArgument, "column"),
    ("OPTIMIZE t WHERE", InvalidArgument, "condition"),
    ("OPTIMIZE t WHERE id = 1", InvalidArgument, "partition columns"),
    ("VACUUM t RETAIN many HOURS", InvalidArgument, "number of hours"),
    ("VACUUM t QUICKLY", InvalidArgument, "LITE, FULL"),
    ("RESTORE t TO VERSION AS OF 'x'", InvalidArgument, "a version number"),
    ("RESTORE t TO YESTERDAY", InvalidArgument, "VERSION AS OF or TIMESTAMP AS OF"),
    ("REORG TABLE t APPLY (WISHES)", InvalidArgument, "PURGE"),
    ("VACUUM nope", TableNotFound, "nope"),
    ("OPTIMIZE '/there/is/nothing'", TableNotFound, "nothing"),
    ("RESTORE nope TO VERSION AS OF 1", TableNotFound, "nope"),
]


@pytest.mark.parametrize(("text", "error", "said"), REFUSED, ids=[each[0] for each in REFUSED])
@pytest.mark.shared
def test_what_cannot_be_is_refused_by_name(
    spark: SparkSession, text: str, error: type[SlackwaterError], said: str
) -> None:
    spark.sql("CREATE TABLE t (id INT) USING delta")
    with pytest.raises(error, match=f"(?i){said}"):
        spark.sql(text)


def test_tables_of_others_are_sparks(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE p (id INT) USING parquet")
    spark.sql("ANALYZE TABLE p COMPUTE STATISTICS")
    spark.sql("CACHE TABLE p")
    spark.sql("UNCACHE TABLE p")
    spark.sql("REFRESH TABLE p")
    with pytest.raises((ParseException, AnalysisException)):
        spark.sql("FSCK REPAIR TABLE p")
