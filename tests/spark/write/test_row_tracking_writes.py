"""Row tracking: every row has an id that stays, from the creation on or from when it was turned on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from slackwater import DeltaTable, Snapshot, errors
from slackwater.spark.write import write_command as write
from tests.spark.committed import actions, append, operation, read, rows

pytestmark = [pytest.mark.spark, pytest.mark.classic, pytest.mark.usefixtures("enabled")]

ENABLED = "delta.enableRowTracking"
NAMES = ("delta.rowTracking.materializedRowIdColumnName", "delta.rowTracking.materializedRowCommitVersionColumnName")


def create(spark: SparkSession, path: str, **properties: str) -> DeltaTable:
    builder = DeltaTable.create(spark).location(path).addColumn("v", "INT")
    for key, value in properties.items():
        builder.property(key, value)
    return builder.execute()


def tracked(spark: SparkSession, path: str, **options: Any) -> list[tuple[int, int, int]]:
    """The rows as (value, row id, commit version)."""
    found = read(spark, path, rowTracking="true", **options).select("v", "_row_id", "_row_commit_version")
    return sorted(tuple(row) for row in found.collect())


def high_water_mark(path: str) -> int:
    node = json.loads(Snapshot.load(path).domain_metadata["delta.rowTracking"].configuration)
    assert node["highWaterMark"] == node["rowIdHighWaterMark"]
    return int(node["highWaterMark"])


def test_rows_of_a_new_table_have_ids_that_are_unique_over_appends(spark: SparkSession, path: str) -> None:
    create(spark, path, **{ENABLED: "true"})
    configuration = Snapshot.load(path).metadata.configuration
    assert len({configuration[name] for name in NAMES}) == 2
    spark.range(0, 6, 1, numPartitions=3).selectExpr("cast(id AS INT) AS v").write.format("delta").mode("append").save(
        path
    )
    append(spark, path, [(6,), (7,)], "v INT")
    found = tracked(spark, path)
    assert sorted(row_id for _, row_id, _ in found) == list(range(8))
    assert [version for _, _, version in found] == [1] * 6 + [2] * 2
    assert high_water_mark(path) == 7
    assert {a["defaultRowCommitVersion"] for a in actions(path, 2, "add")} == {2}
    # What one version says of a row, every later one says.
    assert tracked(spark, path, versionAsOf=1) == found[:6]
    (info,) = actions(path, 2, "commitInfo")
    assert info["tags"]["delta.rowTracking.preserved"] == "true"


def test_rows_that_replace_where_leaves_in_place_keep_their_ids(spark: SparkSession, path: str) -> None:
    create(spark, path, **{ENABLED: "true"})
    append(spark, path, [(0,), (1,), (2,), (3,)], "v INT")
    before = {v: (row_id, version) for v, row_id, version in tracked(spark, path)}
    frame = spark.createDataFrame([(30,)], "v INT")
    frame.write.format("delta").mode("overwrite").option("replaceWhere", "v >= 3").save(path)
    after = {v: (row_id, version) for v, row_id, version in tracked(spark, path)}
    assert {v: after[v] for v in (0, 1, 2)} == {v: before[v] for v in (0, 1, 2)}
    assert after[30][1] == 2
    assert after[30][0] not in {row_id for row_id, _ in before.values()}
    (info,) = actions(path, 2, "commitInfo")
    assert info["tags"]["delta.rowTracking.preserved"] == "true"


def test_turning_it_on_gives_ids_to_the_rows_that_are_there(spark: SparkSession, path: str) -> None:
    table = create(spark, path)
    append(spark, path, [(1,), (2,)], "v INT")
    append(spark, path, [(3,)], "v INT")
    with pytest.raises(errors.InvalidArgument, match="enableRowTracking"):
        read(spark, path, rowTracking="true")
    table.setProperties({ENABLED: "true"})
    found = tracked(spark, path)
    assert sorted(row_id for _, row_id, _ in found) == [0, 1, 2]
    assert {version for _, _, version in found} == {3}
    assert {a["dataChange"] for a in actions(path, 3, "add")} == {False}
    assert high_water_mark(path) == 2
    append(spark, path, [(4,)], "v INT")
    assert tracked(spark, path) == [*found, (4, 3, 4)]
    assert rows(spark, path, versionAsOf=2) == [(1,), (2,), (3,)]


def test_an_append_from_before_it_was_on_gets_its_ids_at_the_commit(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(spark, path)
    append(spark, path, [(1,)], "v INT")
    commit = write.commit_rows

    def late(*args: Any) -> Any:
        monkeypatch.undo()
        table.setProperties({ENABLED: "true"})
        append(spark, path, [(2,)], "v INT")
        return commit(*args)

    monkeypatch.setattr(write, "commit_rows", late)
    append(spark, path, [(3,)], "v INT")
    assert tracked(spark, path) == [(1, 0, 2), (2, 1, 3), (3, 2, 4)]


def test_only_supported_gives_ids_too_and_turning_on_keeps_them(spark: SparkSession, path: str) -> None:
    table = create(spark, path, **{"delta.feature.rowTracking": "supported"})
    append(spark, path, [(1,), (2,)], "v INT")
    assert actions(path, 1, "add")[0]["baseRowId"] == 0
    table.setProperties({ENABLED: "true"})
    # No file needs to be committed again.
    assert actions(path, 2, "add") == []
    assert [row[1] for row in tracked(spark, path)] == [0, 1]


def test_ids_are_never_given_twice_whatever_is_overwritten(spark: SparkSession, path: str) -> None:
    table = create(spark, path, **{ENABLED: "true"})
    append(spark, path, [(1,), (2,)], "v INT")
    spark.createDataFrame([(3,)], "v INT").write.format("delta").mode("overwrite").save(path)
    assert tracked(spark, path) == [(3, 2, 2)]
    table.setProperties({ENABLED: "false"})
    append(spark, path, [(4,)], "v INT")
    assert actions(path, 4, "add")[0]["baseRowId"] == 3
    table.setProperties({ENABLED: "true"})
    assert [row[1] for row in tracked(spark, path)] == [2, 3]
    assert high_water_mark(path) == 3


def test_the_names_of_the_hidden_columns_stay_and_are_taken(spark: SparkSession, path: str) -> None:
    table = create(spark, path, **{ENABLED: "true"})
    before = {name: Snapshot.load(path).metadata.configuration[name] for name in NAMES}
    table.setProperties({ENABLED: "false"})
    table.setProperties({ENABLED: "true"})
    after = Snapshot.load(path).metadata.configuration
    assert {name: after[name] for name in NAMES} == before
    with pytest.raises(errors.InvalidArgument, match="hidden column"):
        append(spark, path, [(1, 2)], f"v INT, `{before[NAMES[0]]}` INT", mergeSchema="true")
    with pytest.raises(errors.OperationNotAllowed, match="itself"):
        table.unsetProperties(NAMES[0])
    with pytest.raises(errors.InvalidArgument, match="both"):
        table.setProperties({"delta.rowTrackingSuspended": "true"})


def test_partitions_and_mapped_columns_have_ids_as_well(spark: SparkSession, path: str) -> None:
    builder = DeltaTable.create(spark).location(path).addColumn("v", "INT").addColumn("p", "STRING").partitionedBy("p")
    table = builder.property(ENABLED, "true").property("delta.columnMapping.mode", "name").execute()
    append(spark, path, [(1, "a"), (2, "b"), (3, "a")], "v INT, p STRING")
    table.renameColumn("p", "q")
    found = tracked(spark, path)
    assert sorted(row_id for _, row_id, _ in found) == [0, 1, 2]
    assert operation(path)[0] == "RENAME COLUMN"
