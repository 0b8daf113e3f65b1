"""In-commit timestamps: from the creation on, or turned on later, and travel in time across that."""

from __future__ import annotations

import datetime as dt
import json
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from slackwater import DeltaTable, Snapshot, errors
from slackwater.spark.write import write_command as write
from tests.spark.committed import append, rows

pytestmark = [pytest.mark.spark, pytest.mark.classic, pytest.mark.usefixtures("enabled")]

ENABLE = "delta.enableInCommitTimestamps"
SINCE_VERSION, SINCE_MS = (f"delta.inCommitTimestampEnablement{what}" for what in ("Version", "Timestamp"))


def create(spark: SparkSession, path: str, **properties: str) -> DeltaTable:
    builder = DeltaTable.create(spark).location(path).addColumn("v", "INT")
    for key, value in properties.items():
        builder.property(key, value)
    return builder.execute()


def commit_file(path: str, version: int) -> Path:
    return Path(path) / "_delta_log" / f"{version:020d}.json"


def info(path: str, version: int) -> dict[str, Any]:
    """The first action of a commit, which must be its commitInfo where it has a timestamp of its own."""
    found: dict[str, Any] = json.loads(commit_file(path, version).read_text().splitlines()[0])["commitInfo"]
    return found


def set_file_time(path: str, version: int, time_ms: int) -> None:
    os.utime(commit_file(path, version), ns=(time_ms * 1_000_000, time_ms * 1_000_000))


def text(time_ms: int) -> str:
    return dt.datetime.fromtimestamp(time_ms / 1000, dt.timezone.utc).isoformat(timespec="milliseconds")


def test_every_commit_of_a_new_table_says_its_time_first(spark: SparkSession, path: str) -> None:
    table = create(spark, path, **{ENABLE: "true"})
    append(spark, path, [(1,)], "v INT")
    table.setProperties({"mine": "1"})
    times = [info(path, version)["inCommitTimestamp"] for version in range(3)]
    assert times == sorted(set(times))
    configuration = Snapshot.load(path).metadata.configuration
    assert not {SINCE_VERSION, SINCE_MS} & set(configuration)
    # The files' times no longer count.
    for version in range(3):
        set_file_time(path, version, 1_000_000 - version)
    assert rows(spark, path, timestampAsOf=text(times[1])) == [(1,)]
    assert rows(spark, path, timestampAsOf=text(times[1] - 1)) == []
    shown = table.history().selectExpr("unix_millis(timestamp) AS ms").collect()
    assert [row["ms"] for row in shown] == times[::-1]


def test_a_clock_that_lags_behind_does_not_stop_time(spark: SparkSession, path: str) -> None:
    create(spark, path, **{ENABLE: "true"})
    first = commit_file(path, 0)
    lines = [json.loads(line) for line in first.read_text().splitlines()]
    ahead = lines[0]["commitInfo"]["inCommitTimestamp"] + 3_600_000
    lines[0]["commitInfo"]["inCommitTimestamp"] = ahead
    first.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (first.parent / f"{0:020d}.crc").unlink(missing_ok=True)
    append(spark, path, [(1,)], "v INT")
    append(spark, path, [(2,)], "v INT")
    assert [info(path, version)["inCommitTimestamp"] for version in (1, 2)] == [ahead + 1, ahead + 2]


def test_turning_it_on_is_recorded_and_time_goes_on_from_the_files(spark: SparkSession, path: str) -> None:
    table = create(spark, path)
    append(spark, path, [(1,)], "v INT")
    append(spark, path, [(2,)], "v INT")
    table.setProperties({ENABLE: "true"})
    append(spark, path, [(3,)], "v INT")
    assert "inCommitTimestamp" not in info(path, 2)
    since = info(path, 3)["inCommitTimestamp"]
    configuration = Snapshot.load(path).metadata.configuration
    assert (configuration[SINCE_VERSION], configuration[SINCE_MS]) == ("3", str(since))
    for version, time_ms in ((0, since - 3000), (1, since - 2000), (2, since - 1000)):
        set_file_time(path, version, time_ms)
    # Files that were copied later say nothing about the versions since.
    set_file_time(path, 3, since - 9000)
    set_file_time(path, 4, since - 9000)
    fourth = info(path, 4)["inCommitTimestamp"]
    assert fourth > since
    expected = {since - 2000: [(1,)], since - 1: [(1,), (2,)], since: [(1,), (2,)], fourth: [(1,), (2,), (3,)]}
    for moment, found in expected.items():
        assert rows(spark, path, timestampAsOf=text(moment)) == found
    with pytest.raises(errors.TimestampOutOfRange):
        rows(spark, path, timestampAsOf=text(since - 3001))


def test_the_record_is_true_for_the_version_that_it_became(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(spark, path)
    snapshot = DeltaTable._snapshot

    def old(self: DeltaTable) -> Snapshot:
        found = snapshot(self)
        monkeypatch.undo()
        append(spark, path, [(1,)], "v INT")
        return found

    monkeypatch.setattr(DeltaTable, "_snapshot", old)
    table.setProperties({ENABLE: "true"})
    configuration = Snapshot.load(path).metadata.configuration
    assert configuration[SINCE_VERSION] == "2"
    assert configuration[SINCE_MS] == str(info(path, 2)["inCommitTimestamp"])


def test_an_append_begun_before_has_a_time_of_its_own_all_the_same(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(spark, path)
    commit = write.commit_rows

    def late(*args: Any) -> Any:
        monkeypatch.undo()
        table.setProperties({ENABLE: "true"})
        return commit(*args)

    monkeypatch.setattr(write, "commit_rows", late)
    append(spark, path, [(1,)], "v INT")
    assert info(path, 2)["inCommitTimestamp"] > info(path, 1)["inCommitTimestamp"]


def test_turning_it_off_and_on_again_leaves_a_true_record(spark: SparkSession, path: str) -> None:
    table = create(spark, path, **{ENABLE: "true"})
    table.setProperties({ENABLE: "false"})
    assert "inCommitTimestamp" not in info(path, 1)
    append(spark, path, [(1,)], "v INT")
    table.setProperties({ENABLE: "true"})
    configuration = Snapshot.load(path).metadata.configuration
    assert (configuration[SINCE_VERSION], configuration[SINCE_MS]) == ("3", str(info(path, 3)["inCommitTimestamp"]))
    table.unsetProperties(ENABLE)
    assert not {SINCE_VERSION, SINCE_MS} & set(Snapshot.load(path).metadata.configuration)
    table.dropFeatureSupport("inCommitTimestamp")
    assert Snapshot.load(path).protocol.min_writer_version == 2
    with pytest.raises(errors.InvalidArgument, match="itself"):
        table.setProperties({SINCE_VERSION: "1"})
