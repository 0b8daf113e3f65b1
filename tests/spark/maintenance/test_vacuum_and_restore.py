"""VACUUM and RESTORE through `DeltaTable`: what rows are there, and what the answers look like."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import SparkSession

from slackwater import DeltaTable, Snapshot, errors
from slackwater.spark.progress.progress import Progress
from tests.spark.written import read, rows, save

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

Setting = Callable[[str, str], None]
CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


@pytest.fixture
def path(spark: SparkSession, tmp_path: Path) -> Path:
    """Rows 0 to 3 in version 0, without row 0 in version 1, with row 9 in version 2."""
    path = tmp_path / "t"
    save(spark.range(4).coalesce(1), path)
    DeltaTable.forPath(spark, str(path)).delete("id = 0")
    save(spark.range(9, 10).coalesce(1), path, mode="append")
    return path


def _files(path: Path) -> set[str]:
    return {file.name for file in path.rglob("*.parquet") if "_delta_log" not in str(file)}


@pytest.mark.modes
def test_a_version_comes_back_with_its_rows(spark: SparkSession, path: Path) -> None:
    table = DeltaTable.forPath(spark, str(path))
    (row,) = table.restoreToVersion(0).collect()
    assert row.asDict().keys() == {
        "table_size_after_restore",
        "num_of_files_after_restore",
        "num_removed_files",
        "num_restored_files",
        "removed_files_size",
        "restored_files_size",
    }
    assert (row.num_of_files_after_restore, row.num_removed_files, row.num_restored_files) == (1, 2, 1)
    assert rows(table.toDF()) == [(0,), (1,), (2,), (3,)]
    entry = table.history(1).collect()[0]
    assert (entry.version, entry.operation, entry.operationParameters["version"]) == (3, "RESTORE", "0")
    assert rows(read(spark, path, versionAsOf=2)) == [(1,), (2,), (3,), (9,)]


def test_a_moment_comes_back_in_the_sessions_zone(spark: SparkSession, path: Path, conf: Setting) -> None:
    table = DeltaTable.forPath(spark, str(path))
    moment = table.history().where("version = 1").collect()[0].timestamp
    del moment
    conf("spark.sql.session.timeZone", "Asia/Tokyo")
    text = table.history().where("version = 1").selectExpr("cast(timestamp AS STRING) AS t").collect()[0].t
    table.restoreToTimestamp(text)
    assert rows(table.toDF()) == [(1,), (2,), (3,)]
    assert table.history(1).collect()[0].operationParameters["timestamp"] == text


def test_rows_that_are_gone_for_good_are_named(spark: SparkSession, path: Path, conf: Setting) -> None:
    table = DeltaTable.forPath(spark, str(path))
    conf(CHECK, "false")
    table.vacuum(0)
    with pytest.raises(errors.DataFileNotFound, match="files that do not exist"):
        table.restoreToVersion(0)
    conf("spark.sql.files.ignoreMissingFiles", "true")
    assert table.restoreToVersion(0).collect()[0].num_restored_files == 1


@pytest.mark.parametrize("wrong", ["1", 1.0, None, True])
def test_a_version_is_a_number(spark: SparkSession, path: Path, wrong: Any) -> None:
    with pytest.raises(ValueError, match="version needs to be an int"):
        DeltaTable.forPath(spark, str(path)).restoreToVersion(wrong)


def test_a_timestamp_is_a_text(spark: SparkSession, path: Path) -> None:
    table: Any = DeltaTable.forPath(spark, str(path))
    with pytest.raises(ValueError, match="timestamp needs to be a string"):
        table.restoreToTimestamp(5)
    with pytest.raises(errors.InvalidArgument, match="cannot be converted to a valid timestamp"):
        table.restoreToTimestamp("soon")


def test_the_change_feed_tells_what_a_restore_did(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(spark.range(3).coalesce(1), path, **{"delta.enableChangeDataFeed": "true"})
    table = DeltaTable.forPath(spark, str(path))
    table.delete("id = 0")
    table.restoreToVersion(0)
    feed = read(spark, path, readChangeFeed="true", startingVersion=2).select("id", "_change_type")
    found = sorted((row.id, row._change_type) for row in feed.collect())
    inserted = {each for each, kind in found if kind == "insert"} - {e for e, kind in found if kind == "delete"}
    assert inserted == {0}


@pytest.mark.modes
def test_vacuum_answers_with_the_table_and_a_dry_run_with_files(spark: SparkSession, path: Path, conf: Setting) -> None:
    table = DeltaTable.forPath(spark, str(path))
    before = _files(path)
    assert table.vacuum(dry_run=True).collect() == []
    conf(CHECK, "false")
    (gone,) = table.vacuum(0, dry_run=True).collect()
    assert gone.path == str(path / Path(gone.path).name)
    assert Path(gone.path).exists()
    answer = table.vacuum(0)
    assert (answer.columns, [row.path for row in answer.collect()]) == (["path"], [str(path)])
    assert before - _files(path) == {Path(gone.path).name}
    assert rows(table.toDF()) == [(1,), (2,), (3,), (9,)]
    assert [row.operation for row in table.history(2).collect()] == ["VACUUM END", "VACUUM START"]


def test_settings_of_vacuum(spark: SparkSession, path: Path, conf: Setting) -> None:
    table = DeltaTable.forPath(spark, str(path))
    with pytest.raises(errors.InvalidArgument, match="retentionDurationCheck"):
        table.vacuum(0)
    conf(CHECK, "false")
    conf("spark.databricks.delta.vacuum.logging.enabled", "false")
    conf("spark.databricks.delta.vacuum.lite.enabled", "true")
    (path / "unknown.parquet").write_bytes(b"x")
    before = _files(path)
    table.vacuum(0, untracked_hours=0)
    gone = before - _files(path)
    assert len(gone) == 1
    assert "unknown.parquet" not in gone
    assert Snapshot.load(str(path)).version == 2
    table.vacuum(0, lite=False, untracked_hours=0)
    assert not (path / "unknown.parquet").exists()


def test_an_inventory_says_what_there_is(spark: SparkSession, path: Path, conf: Setting) -> None:
    conf(CHECK, "false")
    table = DeltaTable.forPath(spark, str(path))
    (gone,) = table.vacuum(0, dry_run=True).collect()
    live = next(file for file in path.glob("*.parquet") if str(file) != gone.path)
    schema = "path STRING, length BIGINT, isDir BOOLEAN, modificationTime BIGINT"
    found = [(f"file:{gone.path}", 5, False, 1), (str(live), 5, False, 1), (str(path / "dir"), 0, True, 1)]
    inventory = spark.createDataFrame(found, schema)
    assert [row.path for row in table.vacuum(0, dry_run=True, inventory=inventory).collect()] == [gone.path]
    outside = spark.createDataFrame([("/elsewhere/x", 5, False, 1)], schema)
    with pytest.raises(errors.InvalidArgument, match="not below the root"):
        table.vacuum(0, inventory=outside)
    with pytest.raises(errors.InvalidArgument, match="isDir BOOLEAN"):
        table.vacuum(0, inventory=inventory.drop("isDir"))
    with pytest.raises(errors.InvalidArgument, match="not contain NULLs"):
        table.vacuum(0, inventory=spark.createDataFrame([(str(live), None, False, 1)], schema))


@pytest.mark.classic
def test_the_progress_of_a_vacuum_says_when_files_go(
    spark: SparkSession, path: Path, conf: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages: list[tuple[str, int | None]] = []

    class Told(Progress):
        def stage(self, name: str, files: int | None = None) -> AbstractContextManager[None]:
            stages.append((name, files))
            return nullcontext()

    conf(CHECK, "false")
    table = DeltaTable.forPath(spark, str(path))
    table.delete()
    monkeypatch.setattr(Progress, "of", lambda *_: Told())
    for _ in range(2):
        table.vacuum(0)
    (_, start), *_ = [(row, row.operationMetrics) for row in table.history(4).collect() if "START" in row.operation][1:]
    looking = ("looking for files", None)
    assert stages == [looking, ("deleting", int(start["numFilesToDelete"])), looking]


def test_datetimes_without_a_zone_are_in_the_zone_of_the_machine(
    spark: SparkSession, path: Path, conf: Setting
) -> None:
    """The session is 9 hours before UTC, this process 5:45: `TZ` of the tests. PySpark makes texts of options."""
    table = DeltaTable.forPath(spark, str(path))
    conf("spark.sql.session.timeZone", "Asia/Tokyo")
    moment = Snapshot.load(str(path)).history().timestamp_ms(1)
    instant = dt.datetime.fromtimestamp(moment / 1000, dt.timezone.utc)
    local = instant.astimezone(ZoneInfo("Asia/Kathmandu"))
    of_session = instant.astimezone(ZoneInfo("Asia/Tokyo")).replace(tzinfo=None)
    for given in (instant, local, of_session):
        frame = spark.read.format("delta").option("timestampAsOf", cast("Any", given)).load(str(path))
        assert rows(frame) == [(1,), (2,), (3,)], given
    (found,) = table.history().where("version = 1").collect()
    assert found.timestamp == local.replace(tzinfo=None)
    table.delete()
    for number, given in enumerate((instant, local, found.timestamp, of_session.isoformat())):
        clone = table.cloneAtTimestamp(given, f"{path}-{number}", isShallow=True)
        assert rows(clone.toDF(allowPathsOutsideRoot=True)) == [(1,), (2,), (3,)], given
        table.restoreToTimestamp(given)
        assert rows(table.toDF()) == [(1,), (2,), (3,)], given
