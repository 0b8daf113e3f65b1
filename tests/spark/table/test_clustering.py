"""Clustering columns: said at creation or later, kept in a domain, never without statistics."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from slackwater import DeltaTable, Snapshot, errors
from tests.spark.committed import actions, append, column_metadata, operation, rows
from tests.spark.written import struct_of

pytestmark = [pytest.mark.spark, pytest.mark.classic, pytest.mark.usefixtures("enabled")]

DDL = "id INT, s struct<a: int, b: string>, arr array<int>, flag BOOLEAN, at TIMESTAMP"


def create(spark: SparkSession, path: str, *cluster_by: str, **properties: str) -> DeltaTable:
    builder = DeltaTable.create(spark).location(path).addColumns(struct_of(DDL))
    for key, value in properties.items():
        builder.property(key, value)
    return (builder.clusterBy(*cluster_by) if cluster_by else builder).execute()


def domain(path: str) -> Any:
    return json.loads(Snapshot.load(path).domain_metadata["delta.clustering"].configuration)


def test_clustering_columns_always_have_statistics(spark: SparkSession, path: str) -> None:
    table = create(spark, path, "s.b", "id", **{"delta.dataSkippingNumIndexedCols": "0"})
    assert domain(path) == {"clusteringColumns": [["s", "b"], ["id"]], "domainName": "delta.clustering"}
    append(spark, path, [(1, (2, "x"))], "id INT, s struct<a: int, b: string>")
    stats = json.loads(actions(path, 1, "add")[0]["stats"])
    assert stats["minValues"] == {"id": 1, "s": {"b": "x"}}
    assert stats["nullCount"] == {"id": 0, "s": {"b": 0}}
    assert table.detail().collect()[0]["clusteringColumns"] == ["s.b", "id"]
    assert rows(spark, path)[0][:2] == (1, (2, "x"))


def test_the_writer_says_clustering_columns_of_a_new_table(spark: SparkSession, path: str) -> None:
    frame = spark.createDataFrame([(1, "x")], "id INT, name STRING")
    frame.write.format("delta").clusterBy("name").save(path)
    assert domain(path)["clusteringColumns"] == [["name"]]
    assert {"clustering", "domainMetadata"} <= set(Snapshot.load(path).protocol.writer_features or ())


def test_a_table_is_clustered_otherwise_and_not_at_all(spark: SparkSession, path: str) -> None:
    table = create(spark, path)
    append(spark, path, [(1, (2, "x"))], "id INT, s struct<a: int, b: string>")
    table.clusterBy("ID", "s.a")
    assert operation(path) == ("CLUSTER BY", {"oldClusteringColumns": "", "newClusteringColumns": "id,s.a"})
    assert domain(path)["clusteringColumns"] == [["id"], ["s", "a"]]
    table.clusterBy("s.b")
    assert operation(path)[1] == {"oldClusteringColumns": "id,s.a", "newClusteringColumns": "s.b"}
    table.clusterBy()
    assert domain(path)["clusteringColumns"] == []
    assert operation(path)[1] == {"oldClusteringColumns": "s.b", "newClusteringColumns": ""}
    assert table.detail().collect()[0]["clusteringColumns"] == []
    assert "clustering" in (Snapshot.load(path).protocol.writer_features or ())
    version = Snapshot.load(path).version
    table.dropFeatureSupport("clustering")
    assert "delta.clustering" not in Snapshot.load(path).domain_metadata
    assert Snapshot.load(path).version == version + 1
    table.clusterBy()
    assert Snapshot.load(path).version == version + 1


def test_the_domain_holds_physical_names_and_users_see_theirs(spark: SparkSession, path: str) -> None:
    table = create(spark, path, "s.b", **{"delta.columnMapping.mode": "name"})
    outer = column_metadata(path, "s")["delta.columnMapping.physicalName"]
    assert domain(path)["clusteringColumns"][0][0] == outer
    table.renameColumn("s", "renamed")
    assert table.detail().collect()[0]["clusteringColumns"] == ["renamed.b"]
    for column in ("renamed.b", "renamed"):
        with pytest.raises(errors.InvalidArgument, match="cluster"):
            table.dropColumns(column)
    table.clusterBy("id")
    assert operation(path)[1] == {"oldClusteringColumns": "renamed.b", "newClusteringColumns": "id"}
    table.dropColumns("renamed.b")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (("none",), "none"),
        (("id", "id"), "twice"),
        (("s",), "struct"),
        (("arr",), "array"),
        (("flag",), "boolean"),
        (("id", "s.a", "s.b", "at", "flag"), "at most 4"),
        ((1,), "text"),
    ],
)
def test_columns_that_cannot_cluster_are_refused(
    spark: SparkSession, path: str, columns: tuple[str, ...], message: str
) -> None:
    table = create(spark, path)
    with pytest.raises(errors.InvalidArgument, match=message):
        table.clusterBy(*columns)
    assert Snapshot.load(path).version == 0


def test_a_partitioned_table_is_not_clustered(spark: SparkSession, path: str) -> None:
    builder = DeltaTable.create(spark).location(path).addColumn("a", "INT").addColumn("p", "INT").partitionedBy("p")
    table = builder.execute()
    with pytest.raises(errors.InvalidArgument, match="partitioned"):
        table.clusterBy("a")
    assert Snapshot.load(path).version == 0


def test_files_without_statistics_of_a_column_keep_it_from_clustering(spark: SparkSession, path: str) -> None:
    table = create(spark, path, **{"delta.dataSkippingNumIndexedCols": "1"})
    append(spark, path, [(1, (2, "x"))], "id INT, s struct<a: int, b: string>")
    append(spark, path, [(None, (3, "y"))], "id INT, s struct<a: int, b: string>")
    with pytest.raises(errors.InvalidArgument, match=r"s\.a.*statistics"):
        table.clusterBy("s.a")
    # A file in which all values are null has nothing to bound.
    table.clusterBy("id")
    assert domain(path)["clusteringColumns"] == [["id"]]
