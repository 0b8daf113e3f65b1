"""What the settings of a session change: every row of docs/settings.md is looked at, and every operation."""

from __future__ import annotations

import logging
import os
import pwd
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

import slackwater
from slackwater import DeltaTable, Snapshot, errors
from slackwater.spark.progress.progress import Progress
from slackwater.spark.read.load import load
from slackwater.spark.session.enabled_sessions import take_back_catalog
from slackwater.spark.storage.row_transport import ROWS
from slackwater.storage.open import open_store
from slackwater.streams.schema_log import SchemaLog
from tests.spark.written import actions, read, rows, save

pytestmark = [pytest.mark.spark, pytest.mark.classic, pytest.mark.usefixtures("enabled")]

DELTA = "spark.databricks.delta."
DOCUMENT = Path(__file__).parents[3] / "docs" / "settings.md"
CUBE = f"{DELTA}optimize.clustering.mergeStrategy.minCubeSize"
_ROW = re.compile(r"\| `([^`]+)` \| ([a-z ]+) \|")
CATALOG = "spark.sql.catalog.spark_catalog"
Setting = Callable[[str, str], None]


def made(spark: SparkSession, path: Path) -> DeltaTable:
    """A table of the rows (1, 10) and (2, 20), version 0."""
    save(spark.createDataFrame([(1, 10), (2, 20)], "id BIGINT, v BIGINT"), path)
    return DeltaTable.forPath(spark, str(path))


CHANGES: dict[str, tuple[Callable[[DeltaTable], object], list[tuple[int, int]]]] = {
    "UPDATE": (lambda t: t.update("id = 1", {"v": "v + 1"}), [(1, 11), (2, 20)]),
    "DELETE": (lambda t: t.delete("id = 1"), [(2, 20)]),
    "MERGE": (
        lambda t: (
            t.alias("t")
            .merge(t.toDF().alias("s"), "t.id = s.id AND t.id = 1")
            .whenMatchedUpdate(set={"v": "t.v + 1"})
            .whenNotMatchedInsert(values={"id": "s.id + 10", "v": "s.v"})
            .execute()
        ),
        [(1, 11), (12, 20), (2, 20)],
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_rows_that_was_done_before_is_skipped(
    spark: SparkSession, tmp_path: Path, conf: Setting, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    change, expected = CHANGES[name]
    table = made(spark, tmp_path / "t")
    conf(f"{DELTA}write.txnAppId", "job")
    conf(f"{DELTA}write.txnVersion", "5")
    first = change(table)
    assert rows(table.toDF()) == expected
    (txn,) = actions(tmp_path / "t", 1, "txn")
    assert (txn["appId"], txn["version"]) == ("job", 5)
    with caplog.at_level(logging.INFO, "slackwater.spark.dml"):
        again = change(table)
    (told,) = caplog.messages
    assert re.fullmatch(r"file:///.*: this [A-Z]+ changes nothing at version 1: application 'job' .* 5", told)
    conf(f"{DELTA}write.txnVersion", "4")
    change(table)
    assert (rows(table.toDF()), Snapshot.load(str(tmp_path / "t")).version) == (expected, 1)
    if isinstance(first, DataFrame) and isinstance(again, DataFrame):
        assert (first.count(), again.count(), again.columns) == (1, 0, first.columns)
    conf(f"{DELTA}write.txnVersion", "6")
    change(table)
    assert Snapshot.load(str(tmp_path / "t")).version == 2


@pytest.mark.parametrize("name", ["DELETE", *(pytest.param(n, marks=pytest.mark.long) for n in ("UPDATE", "MERGE"))])
def test_a_change_that_finds_no_row_is_recorded_as_done(
    spark: SparkSession, tmp_path: Path, conf: Setting, name: str
) -> None:
    path = tmp_path / "t"
    table = made(spark, path)
    table.delete()
    before = Snapshot.load(str(path)).version
    conf(f"{DELTA}write.txnAppId", "job")
    conf(f"{DELTA}write.txnVersion", "5")
    CHANGES[name][0](table)
    assert Snapshot.load(str(path)).transactions["job"].version == 5
    save(spark.createDataFrame([(1, 10)], "id BIGINT, v BIGINT"), path, txnAppId="other", txnVersion=1)
    CHANGES[name][0](table)
    assert (rows(table.toDF()), Snapshot.load(str(path)).version) == ([(1, 10)], before + 2)


def test_the_version_serves_one_operation_where_the_session_says_so(
    spark: SparkSession, tmp_path: Path, conf: Setting
) -> None:
    table = made(spark, tmp_path / "t")
    version = f"{DELTA}write.txnVersion"
    conf(f"{DELTA}write.txnAppId", "job")
    conf(f"{version}.autoReset.enabled", "true")
    # Once for the operation that was done, once for the one that is skipped.
    for _ in range(2):
        conf(version, "5")
        table.update("id = 1", {"v": "v + 1"})
        assert spark.conf.get(version, None) is None
    assert rows(table.toDF()) == [(1, 11), (2, 20)]
    with pytest.raises(errors.InvalidArgument, match=r"only .*txnAppId and .*txnVersion together"):
        table.delete()
    conf(version, "6")
    save(spark.createDataFrame([(3, 30)], "id BIGINT, v BIGINT"), tmp_path / "t", txnAppId="a", txnVersion=1)
    assert spark.conf.get(version, None) == "6"
    with pytest.raises(errors.InvalidArgument, match="only txnAppId and txnVersion together"):
        save(spark.createDataFrame([(3, 30)], "id BIGINT, v BIGINT"), tmp_path / "t", txnAppId="a")
    assert len(rows(table.toDF())) == 3


def test_of_two_that_do_the_same_at_once_one_is_skipped(
    spark: SparkSession, tmp_path: Path, conf: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slackwater.spark.dml import dml_command

    path = tmp_path / "t"
    table = made(spark, path)
    conf(f"{DELTA}write.txnAppId", "job")
    conf(f"{DELTA}write.txnVersion", "5")
    stage = dml_command.DmlCommand._stage_table

    def overtaken(self: dml_command.DmlCommand) -> None:
        monkeypatch.setattr(dml_command.DmlCommand, "_stage_table", stage)
        DeltaTable.forPath(spark, str(path)).update("id = 1", {"v": "v + 1"})
        stage(self)

    monkeypatch.setattr(dml_command.DmlCommand, "_stage_table", overtaken)
    table.update("id = 1", {"v": "v + 1"})
    assert (rows(table.toDF()), Snapshot.load(str(path)).version) == ([(1, 11), (2, 20)], 1)


def test_every_commit_says_what_the_session_says(spark: SparkSession, tmp_path: Path, conf: Setting) -> None:
    path = tmp_path / "t"
    conf(f"{DELTA}commitInfo.userMetadata", "me")
    conf("spark.slackwater.userName", "Ada <ada@example.com>")
    table = DeltaTable.create(spark).location(str(path)).addColumn("id", "BIGINT").addColumn("v", "BIGINT").execute()
    save(spark.createDataFrame([(1, 10), (2, 20)], "id BIGINT, v BIGINT"), path)
    for change, _ in CHANGES.values():
        change(table)
    table.setProperties({"mine": "1", "delta.enableDeletionVectors": "true"})
    table.addColumns(StructType().add("new", "long"))
    table.addConstraint("positive", "id > 0")
    table.addFeatureSupport("appendOnly")
    table.dropFeatureSupport("appendOnly")
    lake = slackwater.Lake.open(tmp_path / "lake", spark=spark)
    lake.create_table("named", "id BIGINT")
    commits = [*table.history().collect(), *lake.table("named").history().collect()]
    assert len(commits) == 10
    assert {(row["operation"], row["userMetadata"]) for row in commits if row["userMetadata"] != "me"} == set()
    assert {row["userName"] for row in commits} == {"Ada <ada@example.com>"}
    assert {row["userId"] for row in commits} == {str(os.geteuid())}
    save(spark.createDataFrame([(3, 10)], "id BIGINT, v BIGINT"), path, "append", userName="Grace")
    assert table.history(1).collect()[0]["userName"] == "Grace"
    table.vacuum()
    assert {row["userName"] for row in table.history(2).collect()} == {"Ada <ada@example.com>"}
    conf("spark.slackwater.userName", "")
    conf(f"{DELTA}commitInfo.userMetadata", "")
    table.delete()
    assert table.history(1).collect()[0]["userMetadata"] == ""
    assert table.history(1).collect()[0]["userName"] == pwd.getpwuid(os.geteuid()).pw_name


@pytest.mark.parametrize(
    ("clauses", "columns"),
    [
        (lambda merge: merge.whenMatchedUpdateAll().whenNotMatchedInsertAll(), ["id", "v", "new"]),
        pytest.param(lambda merge: merge.whenNotMatchedInsertAll(), ["id", "v", "new"], marks=pytest.mark.long),
        pytest.param(
            lambda merge: merge.whenMatchedUpdate(set={"new": "s.new"}), ["id", "v", "new"], marks=pytest.mark.long
        ),
        (lambda merge: merge.whenMatchedUpdate(set={"v": "s.v"}), ["id", "v"]),
        pytest.param(lambda merge: merge.whenMatchedDelete(), ["id", "v"], marks=pytest.mark.long),
    ],
    ids=["all", "insert all", "the new one", "another one", "delete"],
)
def test_a_merge_takes_the_sources_new_columns_where_the_session_says_so(
    spark: SparkSession, tmp_path: Path, conf: Setting, clauses: Callable[[Any], Any], columns: list[str]
) -> None:
    conf(f"{DELTA}schema.autoMerge.enabled", "TRUE")
    table = made(spark, tmp_path / "t")
    source = spark.createDataFrame([(1, 5, "n")], "id BIGINT, v BIGINT, new STRING")
    clauses(table.alias("t").merge(source.alias("s"), "t.id = s.id")).execute()
    assert table.toDF().columns == columns


# One look at each row of the document.


def _property_defaults(spark: SparkSession, path: Path, conf: Setting) -> None:
    conf(f"{DELTA}properties.defaults.appendOnly", "true")
    made(spark, path)
    assert Snapshot.load(str(path)).metadata.configuration["delta.appendOnly"] == "true"


def _auto_merge(spark: SparkSession, path: Path, conf: Setting) -> None:
    made(spark, path)
    wide = spark.createDataFrame([(3, 30, "n")], "id BIGINT, v BIGINT, new STRING")
    conf(f"{DELTA}schema.autoMerge.enabled", "true")
    with pytest.raises(errors.InvalidArgument):
        save(wide, path, mergeSchema="false")
    save(wide, path)
    assert read(spark, path).columns == ["id", "v", "new"]


def _application(spark: SparkSession, path: Path, conf: Setting) -> None:
    conf(f"{DELTA}write.txnAppId", "job")
    with pytest.raises(errors.InvalidArgument, match="txnVersion"):
        made(spark, path)
    conf(f"{DELTA}write.txnVersion", "1")
    made(spark, path)
    save(spark.createDataFrame([(1, 10)], "id BIGINT, v BIGINT"), path)
    assert len(rows(read(spark, path))) == 2


def _auto_reset(spark: SparkSession, path: Path, conf: Setting) -> None:
    conf(f"{DELTA}write.txnVersion.autoReset.enabled", "true")
    conf(f"{DELTA}write.txnAppId", "job")
    conf(f"{DELTA}write.txnVersion", "1")
    made(spark, path)
    assert spark.conf.get(f"{DELTA}write.txnVersion", None) is None


def _user_metadata(spark: SparkSession, path: Path, conf: Setting) -> None:
    conf(f"{DELTA}commitInfo.userMetadata", "me")
    made(spark, path)
    assert actions(path, 0, "commitInfo")[0]["userMetadata"] == "me"


def _constraint_check(spark: SparkSession, path: Path, conf: Setting) -> None:
    made(spark, path)
    other = spark.createDataFrame([(3, 30)], "id BIGINT, v BIGINT")
    with pytest.raises(errors.InvariantViolationException):
        save(other, path, "overwrite", replaceWhere="id = 1")
    conf(f"{DELTA}replaceWhere.constraintCheck.enabled", "False")
    save(other, path, "overwrite", replaceWhere="id = 1")
    assert rows(read(spark, path)) == [(2, 20), (3, 30)]


def _data_columns(spark: SparkSession, path: Path, conf: Setting) -> None:
    frame = spark.createDataFrame([(1, 10)], "id BIGINT, v BIGINT")
    frame.write.format("delta").partitionBy("id").save(str(path))
    conf(f"{DELTA}replaceWhere.dataColumns.enabled", "false")
    save(frame, path, "overwrite", replaceWhere="ID = 1")
    with pytest.raises(errors.InvalidArgument, match=r"\['v'\].*partition columns"):
        save(frame, path, "overwrite", replaceWhere="id = 1 AND v = 10")
    assert Snapshot.load(str(path)).version == 1


def _late_feed(spark: SparkSession, path: Path, conf: Setting) -> None:
    conf(f"{DELTA}properties.defaults.enableChangeDataFeed", "true")
    made(spark, path)
    late = {"readChangeFeed": "true", "startingTimestamp": "2190-01-01"}
    with pytest.raises(errors.TimestampOutOfRange):
        load(spark, str(path), late)
    conf(f"{DELTA}changeDataFeed.timestampOutOfRange.enabled", "true")
    assert load(spark, str(path), late).count() == 0


def _dynamic(spark: SparkSession, path: Path, conf: Setting) -> None:
    frame = spark.createDataFrame([(1, 10), (2, 20)], "id BIGINT, v BIGINT")
    frame.write.format("delta").partitionBy("id").save(str(path))
    conf("spark.sql.sources.partitionOverwriteMode", "dynamic")
    save(frame.where("id = 1").withColumn("v", F.lit(0).cast("long")), path, "overwrite")
    assert rows(read(spark, path)) == [(1, 0), (2, 20)]


def _zone(spark: SparkSession, path: Path, conf: Setting) -> None:
    before = spark.conf.get("spark.sql.session.timeZone")
    made(spark, path)
    try:
        conf("spark.sql.session.timeZone", "Asia/Tokyo")
        with pytest.raises(errors.TimestampOutOfRange, match="2019-12-31 15:00"):
            load(spark, str(path), {"timestampAsOf": "2020-01-01"})
    finally:
        conf("spark.sql.session.timeZone", str(before))


def _default_source(spark: SparkSession, path: Path, conf: Setting) -> None:
    conf("spark.sql.sources.default", "delta")
    spark.range(1).write.save(str(path))
    assert Snapshot.load(str(path)).version == 0
    assert rows(spark.read.load(str(path))) == [(0,)]


def _enabled(spark: SparkSession, path: Path, conf: Setting) -> None:
    conf("spark.slackwater.enabled", "false")
    with pytest.raises(errors.InvalidArgument, match="does not change the session"):
        made(spark, path)


def _rows(spark: SparkSession, path: Path, conf: Setting) -> None:
    # Spark's own writer names the task that a file is of, by five digits.
    for way, by_task in (("arrow", False), ("spark", True)):
        conf(ROWS, way)
        made(spark, path / way)
        names = [file.name for file in (path / way).glob("*.parquet")]
        assert [re.match(r"part-\d{5}-", name) is not None for name in names] == [by_task] * len(names) != []


def _emptied(spark: SparkSession, path: Path) -> DeltaTable:
    table = made(spark, path)
    table.delete()
    return table


def _retention_check(spark: SparkSession, path: Path, conf: Setting) -> None:
    table = _emptied(spark, path)
    with pytest.raises(errors.InvalidArgument, match="retentionDurationCheck"):
        table.vacuum(0)
    assert list(path.glob("*.parquet"))
    conf(f"{DELTA}retentionDurationCheck.enabled", "false")
    table.vacuum(0)
    assert not list(path.glob("*.parquet"))


def _own_retention_check(spark: SparkSession, path: Path, conf: Setting) -> None:
    table = _emptied(spark, path)
    conf(f"{DELTA}retentionDurationCheck.enabled", "false")
    conf("spark.slackwater.retentionDurationCheck.enabled", "true")
    with pytest.raises(errors.InvalidArgument, match=r"set spark\.slackwater\.retentionDurationCheck\.enabled"):
        table.vacuum(0)
    conf("spark.slackwater.retentionDurationCheck.enabled", "false")
    table.vacuum(0)
    assert not list(path.glob("*.parquet"))


def _vacuum_lite(spark: SparkSession, path: Path, conf: Setting) -> None:
    table = made(spark, path)
    (path / "unknown").write_bytes(b"x")
    os.utime(path / "unknown", (0, 0))
    conf(f"{DELTA}vacuum.lite.enabled", "true")
    table.vacuum()
    assert (path / "unknown").exists()
    table.vacuum(lite=False)
    assert not (path / "unknown").exists()


def _vacuum_logging(spark: SparkSession, path: Path, conf: Setting) -> None:
    table = made(spark, path)
    conf(f"{DELTA}vacuum.logging.enabled", "false")
    table.vacuum()
    assert Snapshot.load(str(path)).version == 0


def _missing_files(spark: SparkSession, path: Path, conf: Setting) -> None:
    table = _emptied(spark, path)
    for file in path.glob("*.parquet"):
        file.unlink()
    with pytest.raises(errors.DataFileNotFound):
        table.restoreToVersion(0)
    conf("spark.sql.files.ignoreMissingFiles", "true")
    assert table.restoreToVersion(0).count() == 1


def _user_name(spark: SparkSession, path: Path, conf: Setting) -> None:
    conf("spark.slackwater.userName", "Ada")
    table = made(spark, path)
    assert table.history(1).collect()[0]["userName"] == "Ada"


def _outside(spark: SparkSession, path: Path, conf: Setting) -> None:
    clone = made(spark, path).clone(str(path.parent / "clone"), isShallow=True)
    assert rows(clone.toDF()) == [(1, 10), (2, 20)]
    conf("spark.slackwater.allowPathsOutsideRoot", "false")
    with pytest.raises(errors.PathNotAllowed, match="allowPathsOutsideRoot"):
        read(spark, path.parent / "clone")
    conf("spark.slackwater.allowPathsOutsideRoot", "true")
    assert rows(read(spark, path.parent / "clone")) == [(1, 10), (2, 20)]
    DeltaTable.forPath(spark, str(path.parent / "clone")).delete("id = 1")
    assert rows(read(spark, path.parent / "clone")) == [(2, 20)]


def _progress(spark: SparkSession, path: Path, conf: Setting) -> None:
    del path
    conf("spark.slackwater.progress", "false")
    silent = type(Progress.of(spark, "MERGE"))
    conf("spark.slackwater.progress", "true")
    assert (silent, issubclass(type(Progress.of(spark, "MERGE")), Progress)) == (Progress, True)
    assert type(Progress.of(spark, "MERGE")) is not Progress


def _catalog(spark: SparkSession, path: Path, conf: Setting) -> None:
    del conf, path
    session = spark.newSession()
    session.conf.set(CATALOG, "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    with pytest.warns(errors.SettingIgnoredWarning, match="removed from this session"):
        take_back_catalog(session)
    session.sql("SHOW TABLES").collect()


def _three_files(spark: SparkSession, path: Path, **properties: str) -> DeltaTable:
    spark.range(0, 30, 1, 3).write.format("delta").options(**properties).save(str(path))
    return DeltaTable.forPath(spark, str(path))


def _rewritten(table: DeltaTable) -> int:
    return int(table.optimize().executeCompaction().collect()[0]["metrics"]["numFilesRemoved"])


def _optimize_min(spark: SparkSession, path: Path, conf: Setting) -> None:
    table = _three_files(spark, path)
    conf(f"{DELTA}optimize.minFileSize", "10")
    assert _rewritten(table) == 0
    conf(f"{DELTA}optimize.minFileSize", "100000")
    assert _rewritten(table) == 3


def _optimize_max(spark: SparkSession, path: Path, conf: Setting) -> None:
    table = _three_files(spark, path)
    conf(f"{DELTA}optimize.maxFileSize", "10")
    assert _rewritten(table) == 0
    conf(f"{DELTA}optimize.maxFileSize", "1200")
    assert _rewritten(table) == 2


def _optimize_deleted(spark: SparkSession, path: Path, conf: Setting) -> None:
    table = _three_files(spark, path, **{"delta.enableDeletionVectors": "true"})
    table.delete("id = 3")
    conf(f"{DELTA}optimize.minFileSize", "10")
    conf(f"{DELTA}optimize.maxDeletedRowsRatio", "0.1")
    assert _rewritten(table) == 0, "a row of ten is not more than a tenth"
    conf(f"{DELTA}optimize.maxDeletedRowsRatio", "0.09")
    assert _rewritten(table) == 1


def _clustered(spark: SparkSession, path: Path) -> DeltaTable:
    table = _three_files(spark, path)
    table.clusterBy("id")
    return table


def _cube_threshold(spark: SparkSession, path: Path, conf: Setting) -> None:
    table = _clustered(spark, path)
    assert _rewritten(table) == 3
    spark.range(3).write.format("delta").mode("append").save(str(path))
    conf(f"{CUBE}.threshold", "10")
    _rewritten(table)
    assert Snapshot.load(path).files().num_rows == 2, "the cube was full"


def _cube_target(spark: SparkSession, path: Path, conf: Setting) -> None:
    conf(f"{CUBE}.threshold", "10")
    conf(f"{CUBE}.targetCubeSize", "10")
    assert _rewritten(_clustered(spark, path)) == 3
    assert Snapshot.load(path).files().num_rows == 3, "each file became a cube"


def _small_files(spark: SparkSession, path: Path) -> int:
    """How many files there are of three that are written."""
    spark.range(0, 30, 1, 3).write.format("delta").mode("append").save(str(path))
    return len(Snapshot.load(path).files())


def _auto_compact(spark: SparkSession, path: Path, conf: Setting) -> None:
    conf(f"{DELTA}autoCompact.minNumFiles", "3")
    assert _small_files(spark, path) == 3
    conf(f"{DELTA}autoCompact.enabled", "true")
    assert _small_files(spark, path) == 1
    DeltaTable.forPath(spark, str(path)).setProperties({"delta.autoOptimize.autoCompact": "true"})
    conf(f"{DELTA}autoCompact.enabled", "false")
    assert _small_files(spark, path) == 4


def _auto_min(spark: SparkSession, path: Path, conf: Setting) -> None:
    conf(f"{DELTA}autoCompact.enabled", "auto")
    conf(f"{DELTA}autoCompact.minNumFiles", "3")
    conf(f"{DELTA}autoCompact.minFileSize", "10")
    assert _small_files(spark, path) == 3


def _auto_max(spark: SparkSession, path: Path, conf: Setting) -> None:
    conf(f"{DELTA}autoCompact.enabled", "true")
    conf(f"{DELTA}autoCompact.minNumFiles", "2")
    conf(f"{DELTA}autoCompact.minFileSize", "100000")
    conf(f"{DELTA}autoCompact.maxFileSize", "1200")
    assert _small_files(spark, path) == 2


def _auto_files(spark: SparkSession, path: Path, conf: Setting) -> None:
    conf(f"{DELTA}autoCompact.enabled", "true")
    conf(f"{DELTA}autoCompact.minNumFiles", "4")
    assert _small_files(spark, path) == 3
    assert _small_files(spark, path) == 1


def _optimize_write(spark: SparkSession, path: Path, conf: Setting) -> None:
    conf(f"{DELTA}optimizeWrite.enabled", "true")
    assert _small_files(spark, path) == 1


def _optimize_write_bin(spark: SparkSession, path: Path, conf: Setting) -> None:
    conf(f"{DELTA}optimizeWrite.enabled", "true")
    conf(f"{DELTA}optimizeWrite.binSize", "1")
    spark.range(0, 400_000, 1, 4).write.format("delta").save(str(path))
    assert Snapshot.load(path).files().num_rows > 1


def _unblocks(change: str, *names: str) -> Callable[[SparkSession, Path, Setting], None]:
    """Streams are let go on behind a change of schema by any of the settings, and not by the version of another."""

    def looked_at(spark: SparkSession, path: Path, conf: Setting) -> None:
        spark.sql(
            f"CREATE TABLE delta.`{path}` (a INT, b INT) USING delta TBLPROPERTIES "
            "('delta.columnMapping.mode' = 'name')"
        )
        log = SchemaLog.of(open_store(path / "schemas"), Snapshot.load(path).metadata.id)
        log.append(0, Snapshot.load(path).configuration)
        spark.sql(change.format(f"delta.`{path}`"))
        log.append(1, Snapshot.load(path).configuration)
        stream = spark.readStream.format("delta").option("schemaTrackingLocation", str(path / "schemas"))
        for name in names:
            conf(name, "2")
            with pytest.raises(errors.OperationNotAllowed, match="allowSourceColumn"):
                stream.load(str(path))
            conf(name, "1")
            assert stream.load(str(path)).isStreaming
            spark.conf.unset(name)

    return looked_at


BOTH = f"{DELTA}streaming.allowSourceColumnRenameAndDrop"
OBEYED: dict[str, Callable[[SparkSession, Path, Setting], None]] = {
    f"{DELTA}properties.defaults.<name>": _property_defaults,
    f"{DELTA}schema.autoMerge.enabled": _auto_merge,
    f"{DELTA}write.txnAppId": _application,
    f"{DELTA}write.txnVersion": _application,
    f"{DELTA}write.txnVersion.autoReset.enabled": _auto_reset,
    f"{DELTA}commitInfo.userMetadata": _user_metadata,
    f"{DELTA}replaceWhere.constraintCheck.enabled": _constraint_check,
    f"{DELTA}replaceWhere.dataColumns.enabled": _data_columns,
    f"{DELTA}changeDataFeed.timestampOutOfRange.enabled": _late_feed,
    f"{DELTA}retentionDurationCheck.enabled": _retention_check,
    f"{DELTA}vacuum.lite.enabled": _vacuum_lite,
    f"{DELTA}vacuum.logging.enabled": _vacuum_logging,
    "spark.sql.files.ignoreMissingFiles": _missing_files,
    f"{DELTA}optimize.minFileSize": _optimize_min,
    f"{DELTA}optimize.maxFileSize": _optimize_max,
    f"{DELTA}optimize.maxDeletedRowsRatio": _optimize_deleted,
    f"{CUBE}.threshold": _cube_threshold,
    f"{CUBE}.targetCubeSize": _cube_target,
    f"{DELTA}autoCompact.enabled": _auto_compact,
    f"{DELTA}autoCompact.minFileSize": _auto_min,
    f"{DELTA}autoCompact.maxFileSize": _auto_max,
    f"{DELTA}autoCompact.minNumFiles": _auto_files,
    f"{DELTA}optimizeWrite.enabled": _optimize_write,
    f"{DELTA}optimizeWrite.binSize": _optimize_write_bin,
    f"{DELTA}streaming.allowSourceColumnRename": _unblocks(
        "ALTER TABLE {} RENAME COLUMN a TO c", f"{DELTA}streaming.allowSourceColumnRename"
    ),
    f"{DELTA}streaming.allowSourceColumnDrop": _unblocks(
        "ALTER TABLE {} DROP COLUMN a", f"{DELTA}streaming.allowSourceColumnDrop", BOTH
    ),
    BOTH: _unblocks("ALTER TABLE {} RENAME COLUMN a TO c", BOTH),
    f"{DELTA}streaming.allowSourceColumnTypeChange": _unblocks(
        "CREATE OR REPLACE TABLE {} (a BIGINT, b INT) USING delta", f"{DELTA}streaming.allowSourceColumnTypeChange"
    ),
    "spark.sql.sources.partitionOverwriteMode": _dynamic,
    "spark.sql.session.timeZone": _zone,
    "spark.sql.sources.default": _default_source,
    "spark.slackwater.enabled": _enabled,
    ROWS: _rows,
    "spark.slackwater.userName": _user_name,
    "spark.slackwater.retentionDurationCheck.enabled": _own_retention_check,
    "spark.slackwater.allowPathsOutsideRoot": _outside,
    "spark.slackwater.progress": _progress,
    CATALOG: _catalog,
}
DOCUMENTED = _ROW.findall(DOCUMENT.read_text(encoding="utf-8"))


def test_each_setting_that_is_obeyed_is_looked_at_and_no_row_is_there_twice() -> None:
    assert [name for name, kind in DOCUMENTED if kind in ("obeyed", "taken back")] == list(OBEYED)
    assert len({name for name, _ in DOCUMENTED}) == len(DOCUMENTED)
    assert {kind for _, kind in DOCUMENTED} == {"obeyed", "taken back", "without meaning", "warned of"}


@pytest.mark.parametrize("name", OBEYED)
def test_a_setting_that_is_documented_as_obeyed_is(
    spark: SparkSession, tmp_path: Path, conf: Setting, name: str
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", errors.SettingIgnoredWarning)
        OBEYED[name](spark, tmp_path / "t", conf)


def test_settings_without_an_effect_are_warned_of_unless_they_have_no_meaning(
    spark: SparkSession, tmp_path: Path, conf: Setting
) -> None:
    conf(f"{DELTA}no.such.setting", "1")
    for name, _ in DOCUMENTED:
        if name not in OBEYED and name.startswith(DELTA):
            conf(name, "1")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always", errors.SettingIgnoredWarning)
        made(spark, tmp_path / "t")
    expected = {name for name, kind in DOCUMENTED if kind == "warned of"} | {f"{DELTA}no.such.setting"}
    assert {str(found.message).split()[2] for found in seen} == expected


@pytest.mark.parametrize(
    "name", ["schema.autoMerge.enabled", "replaceWhere.constraintCheck.enabled", "write.txnVersion.autoReset.enabled"]
)
def test_a_value_that_is_none_is_named_before_anything_is_done(
    spark: SparkSession, tmp_path: Path, conf: Setting, name: str
) -> None:
    conf(f"{DELTA}{name}", "maybe")
    with pytest.raises(errors.InvalidArgument, match=f"{re.escape(name)} must be true or false, found 'maybe'"):
        made(spark, tmp_path / "t")
    assert not (tmp_path / "t").exists()
