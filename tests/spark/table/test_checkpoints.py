"""Tables with checkpoints: Spark reads the same with and without them, whatever they are made of."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from slackwater import DeltaTable, Snapshot, errors
from slackwater.transaction import post_commit
from tests.spark.committed import append, commit_file, read, rows

pytestmark = [pytest.mark.spark, pytest.mark.classic, pytest.mark.usefixtures("enabled")]

DAY_MS = 24 * 3600 * 1000
DDL = "id INT, name STRING, part STRING"


def create(spark: SparkSession, path: str, **properties: str) -> DeltaTable:
    builder = DeltaTable.create(spark).location(path).addColumn("id", "INT").addColumn("name", "STRING")
    builder.addColumn("part", "STRING").partitionedBy("part")
    for key, value in {"delta.checkpointInterval": "2", **properties}.items():
        builder.property(key, value)
    return builder.execute()


def fill(spark: SparkSession, path: str, first: int, last: int) -> list[tuple[int, str, str]]:
    """Append the rows `first` to `last` in a commit each; what they are."""
    made = [(number, f"n{number}", "ab"[number % 2]) for number in range(first, last + 1)]
    for row in made:
        append(spark, path, [row], DDL)
    return made


def log_names(path: str, suffix: str = "") -> list[str]:
    return sorted(p.name for p in (Path(path) / "_delta_log").iterdir() if p.name.endswith(suffix))


def checkpoints(path: str) -> list[str]:
    return [name for name in log_names(path, ".parquet") if ".checkpoint." in name]


def sidecars(path: str) -> list[str]:
    return sorted(p.name for p in (Path(path) / "_delta_log" / "_sidecars").iterdir())


def last_checkpoint(path: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((Path(path) / "_delta_log" / "_last_checkpoint").read_text())
    return found


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_reads_are_the_same_with_checkpoints_alone(spark: SparkSession, path: str, policy: str) -> None:
    create(spark, path, **{"delta.checkpointPolicy": policy})
    made = fill(spark, path, 1, 4)
    spark.createDataFrame([(9, "n9", "b")], DDL).write.format("delta").mode("overwrite").option(
        "replaceWhere", "part = 'b'"
    ).save(path)
    made = [row for row in made if row[2] == "a"] + [(9, "n9", "b")]
    made += fill(spark, path, 10, 10)
    assert [int(name[:20]) for name in checkpoints(path)] == [2, 4, 6]
    assert last_checkpoint(path)["version"] == 6
    assert rows(spark, path) == sorted(made, key=repr)
    for version in range(6):
        commit_file(path, version).unlink()
    assert rows(spark, path) == sorted(made, key=repr)
    assert read(spark, path).where("part = 'b' AND id = 9").count() == 1
    assert Snapshot.load(path).report("id = 9").kept_files == 1
    made += fill(spark, path, 11, 11)
    assert rows(spark, path) == sorted(made, key=repr)


def test_the_policy_v2_writes_sidecars_and_uses_them_again(spark: SparkSession, path: str) -> None:
    create(spark, path, **{"delta.checkpointPolicy": "v2"})
    assert "v2Checkpoint" in (Snapshot.load(path).protocol.reader_features or ())
    made = fill(spark, path, 1, 2)
    first = sidecars(path)
    made += fill(spark, path, 3, 4)
    second = sidecars(path)
    assert len(first) == 1
    assert set(first) < set(second)
    # What was in the first sidecar is not written again.
    held = [pq.ParquetFile(Path(path) / "_delta_log" / "_sidecars" / name).metadata.num_rows for name in second]
    assert sum(held) == 4
    assert len(checkpoints(path)[0].split(".")) == 4
    assert rows(spark, path) == sorted(made, key=repr)
    assert rows(spark, path, versionAsOf=3) == sorted(made[:3], key=repr)


@pytest.mark.parametrize(("as_json", "as_struct"), [("true", "false"), ("false", "true"), ("true", "true")])
def test_statistics_are_in_checkpoints_as_the_table_says(
    spark: SparkSession, path: str, as_json: str, as_struct: str
) -> None:
    create(
        spark,
        path,
        **{"delta.checkpoint.writeStatsAsJson": as_json, "delta.checkpoint.writeStatsAsStruct": as_struct},
    )
    fill(spark, path, 1, 2)
    (name,) = checkpoints(path)
    add = pq.read_schema(Path(path) / "_delta_log" / name).field("add").type
    assert (add.get_field_index("stats") >= 0) == (as_json == "true")
    assert (add.get_field_index("stats_parsed") >= 0) == (as_struct == "true")
    assert (add.get_field_index("partitionValues_parsed") >= 0) == (as_struct == "true")
    for version in range(2):
        commit_file(path, version).unlink()
    snapshot = Snapshot.load(path)
    assert snapshot.report("id = 2").kept_files == 1
    assert snapshot.report("name = 'n1'").kept_files == 1
    assert read(spark, path).where("id = 2").collect()[0]["name"] == "n2"


def test_the_policy_may_change_between_checkpoints(spark: SparkSession, path: str) -> None:
    table = create(spark, path)
    made = fill(spark, path, 1, 2)
    table.setProperties({"delta.checkpointPolicy": "v2"})
    made += fill(spark, path, 3, 3)
    table.setProperties({"delta.checkpointPolicy": "classic"})
    made += fill(spark, path, 4, 4)
    names = checkpoints(path)
    assert [int(name[:20]) for name in names] == [2, 4, 6]
    assert [len(name.split(".")) for name in names] == [3, 4, 3]
    assert rows(spark, path) == sorted(made, key=repr)


def test_a_log_that_was_cleaned_up_reads_on_and_says_what_is_gone(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    retention = {
        "delta.logRetentionDuration": "interval 2 days",
        "delta.deletedFileRetentionDuration": "interval 1 day",
    }
    create(spark, path, **retention)
    made = fill(spark, path, 1, 3)
    for version in range(4):
        file = commit_file(path, version)
        old_ns = file.stat().st_mtime_ns - (10 * DAY_MS - version) * 1_000_000
        os.utime(file, ns=(old_ns, old_ns))
    # As if days had passed since the cleanup after the checkpoint of version 2.
    monkeypatch.setattr(post_commit, "_cleanups", post_commit._RecentCleanups())
    made += fill(spark, path, 4, 4)
    # The checkpoint of version 4 was followed by a cleanup: version 2 is the oldest that can be read.
    assert [int(name[:20]) for name in log_names(path, ".json")] == [2, 3, 4]
    assert [int(name[:20]) for name in checkpoints(path)] == [2, 4]
    assert rows(spark, path) == sorted(made, key=repr)
    assert rows(spark, path, versionAsOf=2) == sorted(made[:2], key=repr)
    assert rows(spark, path, versionAsOf=3) == sorted(made[:3], key=repr)
    with pytest.raises(errors.VersionNotFound):
        rows(spark, path, versionAsOf=1)
    history = DeltaTable.forPath(spark, path).history().select("version").collect()
    assert [row["version"] for row in history] == [4, 3, 2]


def test_no_cleanup_where_the_table_does_not_want_one(spark: SparkSession, path: str) -> None:
    create(spark, path, **{"delta.enableExpiredLogCleanup": "false"})
    fill(spark, path, 1, 1)
    for version in range(2):
        file = commit_file(path, version)
        old_ns = file.stat().st_mtime_ns - 400 * DAY_MS * 1_000_000
        os.utime(file, ns=(old_ns, old_ns))
    fill(spark, path, 2, 2)
    assert [int(name[:20]) for name in log_names(path, ".json")] == [0, 1, 2]


def test_a_damaged_pointer_to_the_last_checkpoint_is_passed_over(spark: SparkSession, path: str) -> None:
    create(spark, path)
    made = fill(spark, path, 1, 3)
    pointer = Path(path) / "_delta_log" / "_last_checkpoint"
    pointer.write_text('{"version": 99')
    assert rows(spark, path) == sorted(made, key=repr)
    made += fill(spark, path, 4, 4)
    assert last_checkpoint(path)["version"] == 4
