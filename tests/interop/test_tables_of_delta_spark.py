"""Tables that delta-spark made or changed: we read them, and append to them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slackwater.log.compaction import compact_log
from slackwater.storage.open import open_store

from .cases import each
from .changes import CHANGES, CHANGES_TO_OURS, Changes
from .delta_spark import DeltaSpark
from .feature import Feature
from .log_checks import actions, commits_of
from .peers import PEERS, why_absent
from .rows import Rows, expected_rows, rows_of
from .types_alike import bare_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

# Features of which delta-spark notes down more than that they are on.
_NOTED_DOWN = (
    *("plain", "partitioned", "invariants", "checkConstraints", "generatedColumns", "allowColumnDefaults"),
    *("identityColumns", "identityColumns by default", "columnMapping name", "columnMapping id", "rowTracking"),
    *("inCommitTimestamp", "clustering", "icebergCompatV1", "icebergCompatV2", "checkpoints"),
    *("checkpoints with struct statistics", "v2Checkpoint", "many features at once"),
)
# Others of them have the same and more.
_LESS_NOTED_DOWN = (
    *("plain", "partitioned", "invariants", "checkConstraints", "columnMapping name", "inCommitTimestamp"),
    *("icebergCompatV1", "checkpoints", "v2Checkpoint"),
)
# Whose rows delta-spark also changes before we change them.
_CHANGED_TOO = ("deletionVectors", "rowTracking", "generatedColumns", "identityColumns", "many features at once")


@pytest.mark.parametrize("changes", [pytest.param(changes, id=changes.name) for changes in CHANGES])
def test_we_read_what_delta_spark_made_of_its_table(
    changes: Changes, ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    path = str(tmp_path / "table")
    rows: dict[int, Rows] = {}
    for statement in changes.statements:
        delta_spark.run(statement.replace("{t}", f"delta.`{path}`"))
        theirs, mine = delta_spark.read(path), ours.read.format("delta").load(path)
        rows[len(commits_of(path)) - 1] = rows_of(theirs.rows)
        assert rows_of(mine.toArrow()) == rows_of(theirs.rows), statement
        assert bare_schema(mine.schema.jsonValue()) == bare_schema(theirs.schema), statement
    for version, expected in rows.items():
        back = ours.read.format("delta").option("versionAsOf", version).load(path)
        assert rows_of(back.toArrow()) == expected, f"version {version}"
    if changes.change_feed:
        options = {"readChangeFeed": "true", "startingVersion": "0"}
        feed = ours.read.format("delta").options(**options).load(path)
        assert rows_of(feed.toArrow()) == rows_of(delta_spark.read(path, **options).rows)


@pytest.mark.parametrize(
    "feature", each("test_we_append_to_what_delta_spark_made_and_it_goes_on", _NOTED_DOWN, _LESS_NOTED_DOWN)
)
def test_we_append_to_what_delta_spark_made_and_it_goes_on(
    feature: Feature, ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    path = str(tmp_path / "table")
    delta_spark.run(feature.create_theirs_sql(path))
    theirs, mine, _ = feature.batches
    delta_spark.write(theirs.query, path)
    ours.sql(mine.query).write.format("delta").mode("append").save(path)
    everything = delta_spark.read(path).rows
    assert rows_of(everything, feature.varies) == expected_rows(feature.column_names, feature.held(2))
    assert rows_of(ours.read.format("delta").load(path).toArrow()) == rows_of(everything)
    for column in feature.varies:
        assert len(everything[column].unique()) == everything.num_rows
    commits = commits_of(path)
    if feature.check is not None:
        feature.check(commits)
    their_append, our_append = actions(commits, "commitInfo")[-2:]
    assert our_append["operation"] == their_append["operation"]
    assert our_append["operationParameters"]["mode"] == their_append["operationParameters"]["mode"]
    assert our_append["operationMetrics"].keys() == their_append["operationMetrics"].keys()


@pytest.mark.parametrize(
    "feature", each("test_delta_spark_changes_our_table_and_we_go_on", CHANGES_TO_OURS, _CHANGED_TOO)
)
def test_delta_spark_changes_our_table_and_we_go_on(
    feature: Feature, ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path
) -> None:
    path = str(tmp_path / "table")
    feature.create_ours(ours, path)
    for statement in CHANGES_TO_OURS[feature.name]:
        delta_spark.run(statement.replace("{t}", f"delta.`{path}`"))
    changed = delta_spark.read(path).rows
    assert rows_of(ours.read.format("delta").load(path).toArrow()) == rows_of(changed)
    ours.sql(feature.batches[2].query).write.format("delta").mode("append").save(path)
    everything = delta_spark.read(path).rows
    assert rows_of(ours.read.format("delta").load(path).toArrow()) == rows_of(everything)
    assert everything.num_rows == changed.num_rows + len(feature.batches[2].holds)
    if "rowTracking" in feature.table_features:
        ids = delta_spark.sql(f"SELECT _metadata.row_id AS id FROM delta.`{path}`").rows["id"]
        assert ids.null_count == 0
        assert len(ids.unique()) == len(ids)


def test_checkpoints_by_turns_are_read_by_both(ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    delta_spark.run(
        f"CREATE TABLE delta.`{path}` (id BIGINT) USING delta TBLPROPERTIES ('delta.checkpointInterval' = '1')"
    )
    for number in range(4):
        query = f"SELECT {number}L AS id"
        if number % 2:
            delta_spark.write(query, path)
        else:
            ours.sql(query).write.format("delta").mode("append").save(path)
        delta_spark.forget()
        expected = expected_rows(["id"], [[i] for i in range(number + 1)])
        assert rows_of(delta_spark.read(path).rows) == expected
        assert rows_of(ours.read.format("delta").load(path).toArrow()) == expected
    checkpoints = list((tmp_path / "table" / "_delta_log").glob("[0-9]*.checkpoint*.parquet"))
    assert len(checkpoints) == 4


def test_a_log_that_we_compacted_is_read_by_all(ours: SparkSession, delta_spark: DeltaSpark, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    delta_spark.run(f"CREATE TABLE delta.`{path}` (id BIGINT) USING delta")
    for number in range(4):
        ours.sql(f"SELECT {number}L AS id").write.format("delta").mode("append").save(path)
    delta_spark.run(f"DELETE FROM delta.`{path}` WHERE id = 1")
    compact_log(open_store(path), 1, 4)
    delta_spark.forget()
    expected = expected_rows(["id"], [[0], [2], [3]])
    assert rows_of(delta_spark.read(path).rows) == expected
    assert rows_of(ours.read.format("delta").load(path).toArrow()) == expected
    for peer, read in PEERS.items():
        assert why_absent(peer) is not None or rows_of(read(path)) == expected, peer
