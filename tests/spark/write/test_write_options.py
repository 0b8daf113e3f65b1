"""Options and settings of a write: idempotence, what the user says, table properties."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from slackwater import Snapshot, errors
from tests.spark.written import actions, data_files, listing, read, rows, save

pytestmark = [pytest.mark.spark, pytest.mark.classic, pytest.mark.usefixtures("enabled")]

DEFAULTS = "spark.databricks.delta.properties.defaults."


def test_a_write_that_was_done_before_is_skipped(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(spark.range(1), path, txnAppId="job", txnVersion=0)
    for version, mode in ((0, "append"), (0, "overwrite"), (0, "error")):
        save(spark.range(9), path, mode, txnAppId="job", txnVersion=version)
    assert (Snapshot.load(str(path)).version, rows(read(spark, path))) == (0, [(0,)])
    save(spark.range(1, 2), path, TXNAPPID="job", txnversion="5")
    save(spark.range(9), path, "overwrite", txnAppId="job", txnVersion=4)
    save(spark.range(2, 3), path, txnAppId="other", txnVersion=1)
    assert rows(read(spark, path)) == [(0,), (1,), (2,)]
    save(spark.range(7, 8), path, "overwrite", txnAppId="job", txnVersion=6)
    assert rows(read(spark, path)) == [(7,)]
    (txn,) = actions(path, 1, "txn")
    assert (txn["appId"], txn["version"]) == ("job", 5)


def writers(path: Path) -> set[str]:
    """Who wrote the files of the newest version."""
    found = Snapshot.load(str(path)).files()["path"].to_pylist()
    return {pq.read_metadata(path / file).created_by.partition(" ")[0] for file in found}


@pytest.mark.parametrize(
    ("way", "other", "writer"), [("Arrow", "spark", "parquet-cpp-arrow"), ("spark", "arrow", "parquet-mr")]
)
@pytest.mark.long
def test_the_option_rows_goes_before_the_setting(
    spark: SparkSession, tmp_path: Path, conf: Any, way: str, other: str, writer: str
) -> None:
    path = tmp_path / "t"
    conf("spark.slackwater.rows", other)
    both = {"rows": way}
    save(spark.range(4).selectExpr("id", "id % 2 AS p").coalesce(1), path, **both)
    assert writers(path) == {writer}
    # Files that keep some of their rows are written anew, too.
    save(spark.createDataFrame([(9, 1)], "id LONG, p LONG"), path, "overwrite", replaceWhere="id > 2", **both)
    save(spark.createDataFrame([(8, 0)], "id LONG, p LONG"), path, "overwrite", replaceUsing="p", **both)
    assert (rows(read(spark, path)), writers(path)) == ([(1, 1), (8, 0), (9, 1)], {writer})
    save(spark.createDataFrame([(7, 0)], "id LONG, p LONG"), path, "append")
    assert len(writers(path)) == 2


@pytest.mark.parametrize("mode", ["error", "append", "overwrite", "ignore"])
def test_another_word_for_the_way_of_rows_is_refused(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    with pytest.raises(errors.InvalidArgument, match=r"option rows.*must be spark, arrow or auto, found 'jvm'"):
        save(spark.range(1), tmp_path / "t", mode, rows="jvm")
    assert not (tmp_path / "t").exists()


def test_a_write_that_writes_nothing_says_why(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "t"
    save(spark.range(1), path, txnAppId="job", txnVersion=3)
    with caplog.at_level(logging.INFO, "slackwater"):
        save(spark.range(1), path, txnAppId="job", txnVersion=2)
        save(spark.range(1), path, "ignore")
    said = [message.partition(": ") for message in caplog.messages]
    assert {where for where, _, _ in said} == {path.as_uri()}
    assert [why for _, _, why in said] == [
        "nothing is written at version 0: application 'job' already committed its write 2",
        "nothing is written at version 0: the table exists, and the mode is ignore",
    ]


def test_the_session_can_say_how_far_the_application_is(spark: SparkSession, tmp_path: Path, conf: Any) -> None:
    path = tmp_path / "t"
    conf("spark.databricks.delta.write.txnAppId", "job")
    conf("spark.databricks.delta.write.txnVersion", "1")
    save(spark.range(1), path)
    save(spark.range(1), path)
    assert rows(read(spark, path)) == [(0,)]
    conf("spark.databricks.delta.write.txnVersion.autoReset.enabled", "true")
    save(spark.range(1), path)
    assert spark.conf.get("spark.databricks.delta.write.txnVersion", None) is None
    with pytest.raises(errors.InvalidArgument, match="both"):
        save(spark.range(1), path)
    conf("spark.databricks.delta.write.txnVersion", "2")
    save(spark.range(1, 2), path)
    assert rows(read(spark, path)) == [(0,), (1,)]


def test_what_the_user_says_of_a_commit_is_in_it(spark: SparkSession, tmp_path: Path, conf: Any) -> None:
    path = tmp_path / "t"
    conf("spark.databricks.delta.commitInfo.userMetadata", "from the session")
    save(spark.range(1), path)
    save(spark.range(1), path, userMetadata='{"from": "é"}')
    found = [actions(path, v, "commitInfo")[0]["userMetadata"] for v in (0, 1)]
    assert found == ["from the session", '{"from": "é"}']


@pytest.mark.parametrize(
    ("mode", "options", "message"),
    [
        ("upsert", {}, "upsert.*append"),
        ("append", {"txnAppId": "a"}, "txnVersion"),
        ("append", {"txnVersion": "1"}, "txnAppId"),
        ("append", {"txnAppId": "a", "txnVersion": "x"}, "whole number"),
        ("append", {"mergeSchema": "maybe"}, "mergeSchema must be true or false"),
        ("append", {"replaceWhere": "id = 1"}, "replaceWhere needs mode overwrite"),
        ("append", {"overwriteSchema": "true"}, "overwriteSchema needs mode overwrite"),
        ("overwrite", {"overwriteSchema": "true", "replaceWhere": "id = 1"}, "replaceWhere"),
        ("overwrite", {"overwriteSchema": "true", "partitionOverwriteMode": "dynamic"}, "dynamic"),
        ("overwrite", {"replaceWhere": "id = 1", "partitionOverwriteMode": "dynamic"}, "not both"),
        ("overwrite", {"partitionOverwriteMode": "sometimes"}, "static or dynamic"),
        ("append", {"dataChange": "false"}, "dataChange=false"),
        ("append", {"maxRecordsPerFile": "many"}, "maxRecordsPerFile"),
        ("append", {"compression": "stones"}, "compression"),
    ],
)
def test_options_that_make_no_sense_are_refused_and_nothing_is_there(
    spark: SparkSession, tmp_path: Path, mode: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(errors.InvalidArgument, match=message):
        _save_as(spark, str(tmp_path / "t"), mode, options)
    assert listing(tmp_path) == []


def _save_as(spark: SparkSession, path: str, mode: str, options: dict[str, str]) -> None:
    # Through save's own argument: a classic writer refuses an unknown mode by itself.
    spark.range(1).write.format("delta").options(**options).save(path, mode=mode)


def test_unknown_options_are_ignored(spark: SparkSession, tmp_path: Path) -> None:
    save(spark.range(1), tmp_path / "t", optimizeWrite="true", anything="goes")
    assert Snapshot.load(str(tmp_path / "t")).metadata.configuration == {}


def test_options_of_delta_become_properties_of_a_new_table_and_of_no_other(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    options = {
        "DELTA.appendonly": "true",
        "delta.constraints.small": "id < 10",
        "delta.feature.v2Checkpoint": "supported",
    }
    save(spark.range(1), path, **options)
    found = Snapshot.load(str(path))
    assert found.metadata.configuration == {"delta.appendOnly": "true", "delta.constraints.small": "id < 10"}
    assert {"appendOnly", "checkConstraints", "v2Checkpoint"} <= set(actions(path, 0, "protocol")[0]["writerFeatures"])
    with pytest.raises(errors.InvariantViolationException, match=r"id < 10.*10"):
        save(spark.range(10, 11), path)
    save(spark.range(1), path, **{"delta.appendOnly": "false"})
    assert Snapshot.load(str(path)).metadata.configuration == found.metadata.configuration


@pytest.mark.parametrize(
    "options",
    [
        {"delta.noSuchProperty": "1"},
        {"delta.appendOnly": "perhaps"},
        {"delta.columnMapping.mode": "position"},
        {"delta.feature.noSuchFeature": "supported"},
    ],
)
def test_properties_that_are_none_are_refused_before_anything_is_there(
    spark: SparkSession, tmp_path: Path, options: dict[str, str]
) -> None:
    ((key, _),) = options.items()
    with pytest.raises((errors.InvalidArgument, errors.UnsupportedFeature), match=key.rpartition(".")[2]):
        save(spark.range(1), tmp_path / "t", **options)
    assert listing(tmp_path) == []


def test_the_session_gives_properties_to_new_tables_and_the_option_beats_it(
    spark: SparkSession, tmp_path: Path, conf: Any
) -> None:
    conf(f"{DEFAULTS}enableChangeDataFeed", "true")
    conf(f"{DEFAULTS}logRetentionDuration", "interval 7 days")
    save(spark.range(1), tmp_path / "t", **{"delta.enablechangedatafeed": "false"})
    assert Snapshot.load(str(tmp_path / "t")).metadata.configuration == {
        "delta.enableChangeDataFeed": "false",
        "delta.logRetentionDuration": "interval 7 days",
    }
    conf(f"{DEFAULTS}appendOnly", "true")
    save(spark.range(1), tmp_path / "t")
    assert "delta.appendOnly" not in Snapshot.load(str(tmp_path / "t")).metadata.configuration


def test_in_commit_timestamps_and_row_ids_are_kept_by_plain_writes(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(spark.range(2), path, **{"delta.enableInCommitTimestamps": "true", "delta.enableRowTracking": "true"})
    save(spark.range(2, 3), path)
    stamps = [actions(path, v)[0]["commitInfo"]["inCommitTimestamp"] for v in (0, 1)]
    assert stamps[0] < stamps[1]
    frame = spark.read.format("delta").option("rowTracking", "true").load(str(path))
    assert sorted(r["_row_id"] for r in frame.collect()) == [0, 1, 2]


def test_the_tables_own_codec_serves_where_the_write_names_none(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(spark.range(1), path, **{"delta.parquet.compression.codec": "gzip"})
    save(spark.range(1), path, compression="zstd")
    codecs = {pq.ParquetFile(f).metadata.row_group(0).column(0).compression for f in data_files(path)}
    assert codecs == {"GZIP", "ZSTD"}


def test_a_mistyped_option_is_told_before_anything_is_read_or_written(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    with pytest.raises(errors.InvalidArgument, match="unknown option mergeShema: did you mean mergeSchema"):
        save(spark.range(1), path, mergeShema="true")
    assert not path.exists()
    save(spark.range(1), path, "append", header="true")
    with pytest.raises(errors.InvalidArgument, match="unknown option versionAs: did you mean versionAsOf"):
        spark.read.format("delta").option("versionAs", 0).load(str(path))
    with pytest.raises(errors.InvalidArgument, match="unknown option startingVersions: did you mean startingVersion"):
        spark.readStream.format("delta").option("startingVersions", 0).load(str(path))
