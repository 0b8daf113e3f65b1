from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import slackwater
from slackwater.errors import (
    CommitOwnerRequired,
    InvalidArgument,
    OperationNotAllowed,
    TableAlreadyExists,
    TableNotFound,
)
from slackwater.lake.lake import LogLake
from slackwater.owner.embedded import EmbeddedOwner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Iterator[slackwater.Lake]:
    """A lake that backfills on request only: what is read here, the file system alone does not show."""
    owner = EmbeddedOwner.open(tmp_path / "lake", backfill_delay_s=None)
    with slackwater.Lake(owner, owner.root_url, spark=spark) as opened:
        yield opened


def _rows(spark: SparkSession, *ids: int) -> DataFrame:
    return spark.createDataFrame([(i, i % 3) for i in ids], "id BIGINT, part INT")


def _ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


def _commit(path: str, version: int) -> list[dict[str, Any]]:
    text = (Path(path) / "_delta_log" / f"{version:020d}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("managed", ["managedCommit", "catalogManaged"])
def test_every_operation_works_on_a_managed_table(
    spark: SparkSession, lake: slackwater.Lake, tmp_path: Path, managed: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "slackwater")
    properties = {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}
    table = lake.create_table("t", "id BIGINT, part INT", ["part"], properties=properties, managed=managed)
    path = lake.location("t")
    _rows(spark, 1, 2, 3, 4).write.format("delta").mode("append").save(path)
    table.delete("id = 1")
    table.update("id = 2", {"id": "20"})
    changed = _rows(spark, 3, 9).alias("s")
    table.alias("t").merge(changed, "t.id = s.id").whenMatchedDelete().whenNotMatchedInsertAll().execute()
    table.setProperties({"mine": "1"})
    assert _ids(table.toDF()) == _ids(spark.read.format("delta").load(path)) == [4, 9, 20]
    operations = [row.operation for row in table.history().select("operation").collect()]
    assert operations == ["SET TBLPROPERTIES", "MERGE", "UPDATE", "DELETE", "WRITE", "CREATE TABLE"]
    # None of it is in the log that others read, except the commit that made the table.
    assert [f.name for f in (Path(path) / "_delta_log").glob("*.json")] == [f"{0:020d}.json"]
    assert _ids(spark.read.format("delta").option("versionAsOf", 1).load(path)) == [1, 2, 3, 4]
    stamps = [row.timestamp for row in table.history().orderBy("version").select("timestamp").collect()]
    assert stamps == sorted(set(stamps))
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1).load(path)
    assert feed.where("_change_type = 'delete'").count() == 2
    stream = spark.readStream.format("delta").option("skipChangeCommits", "true").load(path)
    sink = stream.writeStream.format("delta").option("checkpointLocation", str(tmp_path / "checkpoint"))
    sink.trigger(availableNow=True).start(str(tmp_path / "copy")).awaitTermination()
    assert _ids(spark.read.format("delta").load(str(tmp_path / "copy"))) == [4, 9, 20]
    lines = [record.slackwater for record in caplog.records if hasattr(record, "slackwater")]
    # One line for each commit; the commit of a stream through Connect is reported by the server.
    own = [(each["version"], each["operation"]) for each in lines if each["table"] == path]
    assert own == list(enumerate(reversed(operations)))
    assert lake.backfill("t") == 5
    assert [_commit(path, v)[0]["commitInfo"]["operation"] for v in (2, 4)] == ["DELETE", "MERGE"]
    assert _ids(table.toDF()) == [4, 9, 20]


def test_a_table_is_read_and_written_by_its_path_while_the_lake_is_open(spark: SparkSession, tmp_path: Path) -> None:
    owner = EmbeddedOwner.open(tmp_path / "lake", backfill_delay_s=None)
    with slackwater.Lake(owner, owner.root_url, spark=spark) as lake:
        lake.create_table("t", "id BIGINT, part INT")
        path = lake.location("t")
        _rows(spark, 1).write.format("delta").mode("append").save(path)
        assert _ids(spark.read.format("delta").load(path)) == [1]
    # Now only what is backfilled is known, and nothing can be written.
    assert _ids(spark.read.format("delta").load(path)) == []
    with pytest.raises(CommitOwnerRequired, match=r"Open its lake first"):
        _rows(spark, 2).write.format("delta").mode("append").save(path)
    with pytest.raises(CommitOwnerRequired, match=r"Lake\.open"):
        slackwater.DeltaTable.forPath(spark, path).delete("id = 1")
    with slackwater.Lake.open(tmp_path / "lake", spark=spark) as lake:
        # Whoever comes by a path alone finds the owner by the table's own word.
        assert _ids(spark.read.format("delta").load(path)) == [1]
        assert lake.backfill("t") == 1
    assert _ids(spark.read.format("delta").load(path)) == [1]


def test_sql_makes_a_catalog_managed_table_which_nobody_reads_without_its_lake(
    spark: SparkSession, tmp_path: Path
) -> None:
    with slackwater.Lake.open(tmp_path / "lake", spark=spark) as lake:
        lake.attach(name="catalogs")
        created = "TBLPROPERTIES ('delta.feature.catalogManaged' = 'supported')"
        spark.sql(f"CREATE TABLE catalogs.t (id BIGINT) USING delta {created}")
        spark.sql("INSERT INTO catalogs.t VALUES (1), (2)")
        spark.sql("DELETE FROM catalogs.t WHERE id = 1")
        assert _ids(spark.table("catalogs.t")) == [2]
        path = lake.location("t")
        assert "catalogManaged" in lake.table("t").detail().collect()[0].tableFeatures
        lake.backfill("t")
        lake.detach()
    for call in (
        lambda: spark.read.format("delta").load(path).collect(),
        lambda: spark.sql(f"SELECT * FROM delta.`{path}`").collect(),
        lambda: slackwater.DeltaTable.forPath(spark, path).toDF().collect(),
        lambda: spark.range(1).write.format("delta").mode("append").save(path),
        lambda: slackwater.DeltaTable.forPath(spark, path).delete("id = 2"),
    ):
        with pytest.raises(CommitOwnerRequired, match=r"Open its lake first"):
            call()
    assert slackwater.Snapshot.load(path, published_only=True).to_arrow().to_pylist() == [{"id": 2}]


def test_a_table_is_adopted_with_its_rows_and_handed_back(
    spark: SparkSession, lake: slackwater.Lake, tmp_path: Path
) -> None:
    path = str(tmp_path / "old")
    _rows(spark, 1, 2).write.format("delta").save(path)
    before = slackwater.DeltaTable.forPath(spark, path)
    lake.adopt("old", path)
    lake.table("old").delete("id = 1")
    assert _ids(before.toDF()) == [2]
    features = before.detail().collect()[0].tableFeatures
    assert {"managedCommit", "inCommitTimestamp"} <= set(features)
    lake.release("old")
    assert "managedCommit" not in before.detail().collect()[0].tableFeatures
    _rows(spark, 5).write.format("delta").mode("append").save(path)
    assert _ids(before.toDF()) == [2, 5]
    assert [row.operation for row in before.history().select("operation").collect()] == [
        "WRITE", "RELEASE TABLE", "DELETE", "ADOPT TABLE", "WRITE",
    ]  # fmt: skip
    with pytest.raises(TableNotFound, match="old"):
        lake.table("old")


def test_the_ownership_is_not_for_users_to_change(spark: SparkSession, lake: slackwater.Lake) -> None:
    table = lake.create_table("t", "id BIGINT, part INT")
    with pytest.raises(InvalidArgument, match="commitOwner"):
        table.setProperties({"delta.managedCommit.commitOwner": "me"})
    with pytest.raises(OperationNotAllowed, match="commitOwner"):
        table.unsetProperties("delta.managedCommit.commitOwner")
    with pytest.raises((InvalidArgument, OperationNotAllowed), match=r"inCommitTimestamp|in-commit"):
        table.setProperties({"delta.enableInCommitTimestamps": "false"})
    with pytest.raises(OperationNotAllowed, match=r"Lake\.release"):
        table.dropFeatureSupport("managedCommit")
    with pytest.raises(TableAlreadyExists, match="'t'"):
        lake.create_table("t", "id BIGINT")
    assert [row.version for row in table.history().collect()] == [0]


def test_a_managed_table_that_is_replaced_stays_managed(spark: SparkSession, lake: slackwater.Lake) -> None:
    lake.create_table("t", "id BIGINT, part INT")
    path = lake.location("t")
    _rows(spark, 1).write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(path)
    slackwater.DeltaTable.createOrReplace(spark).location(path).addColumn("other", "STRING").execute()
    (found,) = lake.tables()
    assert found.ratified_version == 2
    assert lake.table("t").toDF().columns == ["other"]
    assert "managedCommit" in lake.table("t").detail().collect()[0].tableFeatures


def test_without_spark_a_lake_has_snapshots(lake: slackwater.Lake, tmp_path: Path) -> None:
    lake.create_table("t", "id BIGINT")
    assert lake.snapshot("t").version == 0
    assert isinstance(lake, LogLake)
    with pytest.raises(InvalidArgument, match="name"):
        lake.create_table("../t", "id BIGINT")


def test_maintenance_merges_small_files_of_partitions_with_enough_of_them(
    spark: SparkSession, lake: slackwater.Lake
) -> None:
    lake.create_table("t", "id BIGINT, part INT", ["part"])
    lake.create_table("other", "id BIGINT")
    for ids in ((0, 1), (3,), (6,)):
        _rows(spark, *ids).coalesce(1).write.format("delta").mode("append").save(lake.location("t"))
    expected = ("t", "optimize", "due", 3, "3 of 4 files become 1")
    planned = lake.maintain(["t"], small_files=3).first()
    assert planned is not None
    assert (planned.table, planned.task, planned.state, planned.files, planned.detail) == expected
    assert lake.snapshot("t").version == 3
    states = {(row.table, row.task): row.state for row in lake.maintain(dry_run=False, small_files=3).collect()}
    assert {key for key, state in states.items() if state != "not due"} == {("t", "optimize")}
    assert states["t", "optimize"] == "done"
    files = lake.snapshot("t").files(columns=["partitionValues"])["partitionValues"].to_pylist()
    assert sorted(dict(each)["part"] for each in files) == ["0", "1"]
    assert _ids(lake.table("t").toDF()) == [0, 1, 3, 6]
    again = lake.maintain(["t"], tasks=["optimize"], small_files=3).first()
    assert again is not None
    assert again.state == "not due"
