"""DeltaTable.create, createIfNotExists, replace and createOrReplace: a table described column by column."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types

from slackwater import DeltaTable, DeltaTableBuilder, IdentityGenerator, errors
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.table.alteration import clustering_columns
from tests.spark.committed import actions, append, column_metadata, names_below, operation, rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]


def test_everything_a_builder_can_say_is_in_the_log(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = (
        DeltaTable.create(spark)
        .location(path)
        .comment("what it is")
        .addColumn("id", "BIGINT", nullable=False, comment="the key")
        .addColumn("price", spark_types.DecimalType(10, 2))
        .addColumn("day", "DATE", generatedAlwaysAs="CAST(at AS DATE)")
        .addColumn("at", spark_types.TimestampType())
        .addColumn("inner", "struct<a: int, b: array<string>>")
        .addColumns(spark_types.StructType().add("part", "string").add("more", "byte", True, {"comment": "a comment"}))
        .addColumns([spark_types.StructField("last", spark_types.DoubleType())])
        .partitionedBy("part", "day")
        .property("delta.appendOnly", "true")
        .property("mine", "yes")
        .execute()
    )
    snapshot = Snapshot.load(path)
    schema = snapshot.schema
    assert schema.names == ("id", "price", "day", "at", "inner", "part", "more", "last")
    assert [str(c.type) for c in schema][:4] == ["long", "decimal(10,2)", "date", "timestamp"]
    assert [c.nullable for c in schema] == [False, *[True] * 7]
    assert column_metadata(path, "id")["comment"] == "the key"
    assert column_metadata(path, "more")["comment"] == "a comment"
    assert column_metadata(path, "day") == {"delta.generationExpression": "CAST(at AS DATE)"}
    assert snapshot.metadata.partition_columns == ("part", "day")
    assert snapshot.metadata.description == "what it is"
    assert snapshot.metadata.configuration == {"delta.appendOnly": "true", "mine": "yes"}
    assert (snapshot.protocol.min_reader_version, snapshot.protocol.min_writer_version) == (1, 7)
    assert set(snapshot.protocol.writer_features or ()) == {"appendOnly", "invariants", "generatedColumns"}
    assert table.toDF().columns == list(schema.names)
    assert table.toDF().count() == 0


def test_detail_and_history_show_a_created_table_as_delta_spark_does(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    builder = DeltaTable.create(spark).tableName(f"delta.`{path}`").addColumn("id", "LONG").addColumn("part", "INT")
    table = builder.partitionedBy("part").comment("text").property("mine", "1").execute()
    [detail] = table.detail().collect()
    assert (detail["format"], detail["description"], detail["numFiles"]) == ("delta", "text", 0)
    assert (detail["partitionColumns"], detail["properties"]) == (["part"], {"mine": "1"})
    assert (detail["minReaderVersion"], detail["minWriterVersion"]) == (1, 2)
    [entry] = table.history().collect()
    assert (entry["version"], entry["operation"], entry["isBlindAppend"]) == (0, "CREATE TABLE", True)
    assert entry["operationParameters"] == {
        "isManaged": "false",
        "description": "text",
        "partitionBy": '["part"]',
        "clusterBy": "[]",
        "properties": '{"mine":"1"}',
    }
    assert (entry["readVersion"], entry["isolationLevel"]) == (None, "Serializable")
    plain = DeltaTable.create(spark).location(str(tmp_path / "plain")).addColumn("id", "INT").clusterBy("id").execute()
    parameters = plain.history().collect()[0]["operationParameters"]
    assert "description" not in parameters
    assert parameters["clusterBy"] == '["id"]'


@pytest.mark.parametrize(
    "names",
    [lambda b: b.partitionedBy("a", "b"), lambda b: b.partitionedBy(["a", "b"]), lambda b: b.partitionedBy(("a", "b"))],
    ids=["varargs", "list", "tuple"],
)
def test_partition_columns_come_one_by_one_or_as_a_list(
    spark: SparkSession, tmp_path: Path, names: Callable[[DeltaTableBuilder[Any]], DeltaTableBuilder[Any]]
) -> None:
    builder = DeltaTable.create(spark).location(str(tmp_path / "t"))
    for name in "abc":
        builder.addColumn(name, "INT")
    names(builder).execute()
    assert Snapshot.load(tmp_path / "t").metadata.partition_columns == ("a", "b")


def test_a_table_is_created_once(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    DeltaTable.createIfNotExists(spark).location(path).addColumn("id", "INT").execute()
    again = DeltaTable.createIfNotExists(spark).location(path).addColumn("other", "STRING").execute()
    assert again.toDF().columns == ["id"]
    assert Snapshot.load(path).version == 0
    with pytest.raises(errors.TableAlreadyExists, match="already"):
        DeltaTable.create(spark).location(path).addColumn("id", "INT").execute()
    with pytest.raises(errors.TableNotFound, match="cannot be replaced"):
        DeltaTable.replace(spark).location(str(tmp_path / "other")).addColumn("id", "INT").execute()
    assert not (tmp_path / "other").exists()


def test_two_creators_of_one_table_do_not_both_succeed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t")
    slow = DeltaTable.create(spark).location(path).addColumn("slow", "INT", generatedAlwaysAs="1")
    looked = DeltaTableBuilder._validate_expressions

    def meanwhile(self: DeltaTableBuilder[Any], schema: Any) -> None:
        monkeypatch.undo()
        DeltaTable.create(spark).location(path).addColumn("fast", "INT").execute()
        looked(self, schema)

    monkeypatch.setattr(DeltaTableBuilder, "_validate_expressions", meanwhile)
    with pytest.raises(errors.ProtocolChangedException, match="another writer created the table first"):
        slow.execute()
    assert DeltaTable.forPath(spark, path).toDF().columns == ["fast"]


def test_a_replacement_keeps_the_id_and_the_history_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    old = DeltaTable.create(spark).location(path).comment("old").addColumn("id", "INT").addColumn("k", "STRING")
    table = old.clusterBy("k").property("delta.constraints.positive", "id > 0").property("mine", "1").execute()
    append(spark, path, [(1, "a"), (2, "b")], "id INT, k STRING")
    table.setDomainMetadata("com.example.mine", "{}")
    before = Snapshot.load(path)
    builder = DeltaTable.replace(spark).location(path).addColumn("id", "STRING", nullable=False)
    replaced = builder.addColumn("when", "DATE").partitionedBy("when").property("delta.appendOnly", "false")
    with pytest.raises(errors.InvalidArgument, match="clustered and partitioned"):
        replaced.execute()
    assert Snapshot.load(path).version == before.version
    DeltaTable.replace(spark).location(path).addColumn("id", "STRING").execute()
    after = Snapshot.load(path)
    assert (after.metadata.id, after.metadata.created_time) == (before.metadata.id, before.metadata.created_time)
    assert (after.metadata.description, dict(after.metadata.configuration)) == (None, {})
    assert [str(c.type) for c in after.schema] == ["string"]
    assert clustering_columns(after) == []
    assert table.toDF().count() == 0
    assert rows(spark, path, versionAsOf=1) == [(1, "a"), (2, "b")]
    assert operation(path)[0] == "REPLACE TABLE"
    assert {r["dataChange"] for r in actions(path, after.version, "remove")} == {True}
    append(spark, path, [("-1",)], "id STRING")
    assert rows(spark, path) == [("-1",)]


def test_a_replacement_of_a_mapped_table_has_columns_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")

    def define(builder: DeltaTableBuilder[Any]) -> None:
        builder.location(path).addColumn("id", "INT").addColumn("s", "struct<a: int>").property(
            "delta.columnMapping.mode", "name"
        ).execute()

    define(DeltaTable.create(spark))
    append(spark, path, [(1, (2,))], "id INT, s struct<a: int>")
    old = column_metadata(path, "id")
    assert Snapshot.load(path).metadata.configuration["delta.columnMapping.maxColumnId"] == "3"
    define(DeltaTable.createOrReplace(spark))
    new = column_metadata(path, "id")
    assert new["delta.columnMapping.id"] == 4
    assert new["delta.columnMapping.physicalName"] != old["delta.columnMapping.physicalName"]
    assert Snapshot.load(path).metadata.configuration["delta.columnMapping.maxColumnId"] == "6"
    append(spark, path, [(7, (8,))], "id INT, s struct<a: int>")
    assert rows(spark, path) == [(7, (8,))]
    assert rows(spark, path, versionAsOf=1) == [(1, (2,))]
    assert operation(path, 2)[0] == "CREATE OR REPLACE TABLE"


def test_create_or_replace_creates_what_is_not_there(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    DeltaTable.createOrReplace(spark).location(path).addColumn("id", "INT").execute()
    assert Snapshot.load(path).version == 0
    assert operation(path)[0] == "CREATE OR REPLACE TABLE"


def test_a_replacement_never_weakens_the_protocol(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    first = DeltaTable.create(spark).location(path).addColumn("id", "INT")
    first.property("delta.enableRowTracking", "true").execute()
    before = Snapshot.load(path).protocol
    append(spark, path, [(1,), (2,)], "id INT")
    DeltaTable.replace(spark).location(path).addColumn("id", "INT").execute()
    assert Snapshot.load(path).protocol == before
    append(spark, path, [(3,)], "id INT")
    # Row ids go on where they were, though nobody may rely on them any more.
    assert [a["baseRowId"] for a in actions(path, 3, "add")] == [2]


def test_an_append_only_table_is_not_replaced(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    builder = DeltaTable.create(spark).location(path).addColumn("id", "INT")
    builder.property("delta.appendOnly", "true").execute()
    append(spark, path, [(1,)], "id INT")
    with pytest.raises(errors.OperationNotAllowed, match="append-only"):
        DeltaTable.replace(spark).location(path).addColumn("id", "INT").property("delta.appendOnly", "true").execute()
    assert rows(spark, path) == [(1,)]


def test_a_replacement_does_not_drop_rows_that_came_meanwhile(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t")
    DeltaTable.create(spark).location(path).addColumn("id", "INT").execute()
    append(spark, path, [(1,)], "id INT")
    looked = DeltaTableBuilder._validate_expressions

    def meanwhile(self: DeltaTableBuilder[Any], schema: Any) -> None:
        monkeypatch.undo()
        append(spark, path, [(2,)], "id INT")
        looked(self, schema)

    monkeypatch.setattr(DeltaTableBuilder, "_validate_expressions", meanwhile)
    with pytest.raises(errors.ConcurrentAppendException):
        DeltaTable.replace(spark).location(path).addColumn("id", "INT").execute()
    assert rows(spark, path) == [(1,), (2,)]


def test_clustering_columns_may_be_nested(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    builder = DeltaTable.create(spark).location(path).addColumn("id", "INT").addColumn("s", "struct<a: int, b: int>")
    table = builder.clusterBy(["s.b", "id"]).execute()
    (domain,) = actions(path, 0, "domainMetadata")
    assert json.loads(domain["configuration"])["clusteringColumns"] == [["s", "b"], ["id"]]
    assert table.detail().collect()[0]["clusteringColumns"] == ["s.b", "id"]
    assert {"clustering", "domainMetadata"} <= set(Snapshot.load(path).protocol.writer_features or ())


def test_the_sessions_default_properties_go_behind_those_of_the_table(spark: SparkSession, tmp_path: Path) -> None:
    prefix = "spark.databricks.delta.properties.defaults."
    spark.conf.set(f"{prefix}checkpointInterval", "7")
    spark.conf.set(f"{prefix}logRetentionDuration", "interval 60 days")
    try:
        builder = DeltaTable.create(spark).location(str(tmp_path / "t")).addColumn("id", "INT")
        builder.property("delta.checkpointInterval", "3").execute()
    finally:
        spark.conf.unset(f"{prefix}checkpointInterval")
        spark.conf.unset(f"{prefix}logRetentionDuration")
    found = Snapshot.load(tmp_path / "t").metadata.configuration
    assert found == {"delta.checkpointInterval": "3", "delta.logRetentionDuration": "interval 60 days"}


def test_generated_columns_are_computed_and_checked_null_safely(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    builder = DeltaTable.create(spark).location(path).addColumn("a", "INT")
    builder.addColumn("twice", "INT", generatedAlwaysAs="a * 2").addColumn("b", "INT").execute()
    append(spark, path, [(1, 5), (None, 6)], "a INT, b INT")
    append(spark, path, [(2, 4, 7), (None, None, 8)], "a INT, twice INT, b INT")
    assert rows(spark, path) == [(1, 2, 5), (2, 4, 7), (None, None, 6), (None, None, 8)]
    with pytest.raises(errors.InvariantViolationException, match=r"generated column twice .*a \* 2.*\"a\":3"):
        append(spark, path, [(3, 7, 9)], "a INT, twice INT, b INT")
    with pytest.raises(errors.InvariantViolationException, match="generated column twice"):
        append(spark, path, [(3, None, 9)], "a INT, twice INT, b INT")
    assert Snapshot.load(path).version == 2


WRONG: dict[str, Callable[[DeltaTableBuilder[Any]], Any]] = {
    "table name": lambda b: b.tableName(1),  # type: ignore[arg-type]
    "location": lambda b: b.location(Path("/x")),  # type: ignore[arg-type]
    "comment": lambda b: b.comment(1),  # type: ignore[arg-type]
    "column name": lambda b: b.addColumn(1, "INT"),  # type: ignore[arg-type]
    "type": lambda b: b.addColumn("c", 1),  # type: ignore[arg-type]
    "type that does not parse": lambda b: b.addColumn("c", "INTEGGER"),
    "columns for a type": lambda b: b.addColumn("c", "a INT, b INT"),
    "nullable": lambda b: b.addColumn("c", "INT", nullable="no"),  # type: ignore[arg-type]
    "column comment": lambda b: b.addColumn("c", "INT", comment=1),  # type: ignore[arg-type]
    "generator": lambda b: b.addColumn("c", "BIGINT", generatedAlwaysAs=1),  # type: ignore[arg-type]
    "default generator": lambda b: b.addColumn("c", "BIGINT", generatedByDefaultAs="1"),  # type: ignore[arg-type]
    "both generators": lambda b: b.addColumn(
        "c", "BIGINT", generatedAlwaysAs=IdentityGenerator(), generatedByDefaultAs=IdentityGenerator()
    ),
    "step": lambda b: b.addColumn("c", "BIGINT", generatedAlwaysAs=IdentityGenerator(1, 0)),
    "columns": lambda b: b.addColumns("id INT"),  # type: ignore[arg-type]
    "fields": lambda b: b.addColumns(["id INT"]),  # type: ignore[list-item]
    "partition": lambda b: b.partitionedBy("a", 1),  # type: ignore[arg-type]
    "cluster": lambda b: b.clusterBy(["a", 1]),  # type: ignore[list-item]
    "property key": lambda b: b.property(1, "x"),  # type: ignore[arg-type]
    "property value": lambda b: b.property("x", 1),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("call", WRONG.values(), ids=WRONG.keys())
def test_arguments_of_the_wrong_kind_are_refused_at_once(
    spark: SparkSession, call: Callable[[DeltaTableBuilder[Any]], Any]
) -> None:
    with pytest.raises(errors.InvalidArgument):
        call(DeltaTable.create(spark))


IMPOSSIBLE: dict[str, tuple[Callable[[DeltaTableBuilder[Any]], Any], type[Exception], str]] = {
    "same name in two cases": (
        lambda b: b.addColumn("a", "INT").addColumn("A", "INT"),
        errors.InvalidArgument,
        "case",
    ),
    "illegal character": (lambda b: b.addColumn("a b", "INT"), errors.InvalidArgument, "columnMapping"),
    "unknown partition column": (
        lambda b: b.addColumn("a", "INT").partitionedBy("b"),
        errors.InvalidArgument,
        "'?b'?",
    ),
    "partitioned by all columns": (
        lambda b: b.addColumn("a", "INT").partitionedBy("a"),
        errors.InvalidArgument,
        "column",
    ),
    "partitioned by a struct": (
        lambda b: b.addColumn("a", "struct<x: int>").addColumn("b", "INT").partitionedBy("a"),
        errors.InvalidArgument,
        "type",
    ),
    "partitioned and clustered": (
        lambda b: b.addColumn("a", "INT").addColumn("b", "INT").partitionedBy("a").clusterBy("b"),
        errors.InvalidArgument,
        "clustered",
    ),
    "five clustering columns": (
        lambda b: b.addColumns([spark_types.StructField(n, spark_types.LongType()) for n in "abcde"]).clusterBy(
            *"abcde"
        ),
        errors.InvalidArgument,
        "at most 4",
    ),
    "unknown clustering column": (
        lambda b: b.addColumn("a", "INT").clusterBy("a.b"),
        errors.InvalidArgument,
        "a.b",
    ),
    "identity of another type": (
        lambda b: b.addColumn("a", "INT", generatedAlwaysAs=IdentityGenerator()),
        errors.UnsupportedFeature,
        "BIGINT",
    ),
    "identity as partition": (
        lambda b: (
            b.addColumn("a", "BIGINT", generatedAlwaysAs=IdentityGenerator()).addColumn("b", "INT").partitionedBy("a")
        ),
        errors.InvalidArgument,
        "partitioned",
    ),
    "identity start beyond a long": (
        lambda b: b.addColumn("a", "BIGINT", generatedAlwaysAs=IdentityGenerator(2**63, 1)),
        errors.InvalidArgument,
        "long",
    ),
    "generated from nothing": (
        lambda b: b.addColumn("a", "INT", generatedAlwaysAs="b + 1"),
        errors.InvalidArgument,
        "generated column a .*reads b",
    ),
    "generated from itself": (
        lambda b: b.addColumn("a", "INT", generatedAlwaysAs="a + 1"),
        errors.InvalidArgument,
        "a",
    ),
    "generated from a generated column": (
        lambda b: (
            b.addColumn("x", "INT")
            .addColumn("a", "INT", generatedAlwaysAs="x + 1")
            .addColumn("b", "INT", generatedAlwaysAs="a + 1")
        ),
        errors.InvalidArgument,
        "generated",
    ),
    "generation that does not parse": (
        lambda b: b.addColumn("x", "INT").addColumn("a", "INT", generatedAlwaysAs="x +"),
        errors.InvalidArgument,
        "column a",
    ),
    "generation by an aggregate": (
        lambda b: b.addColumn("x", "INT").addColumn("a", "INT", generatedAlwaysAs="sum(x)"),
        errors.InvalidArgument,
        "column a",
    ),
    "generation by chance": (
        lambda b: b.addColumn("x", "INT").addColumn("a", "DOUBLE", generatedAlwaysAs="rand()"),
        errors.InvalidArgument,
        "column a",
    ),
    "generation by a subquery": (
        lambda b: b.addColumn("x", "INT").addColumn("a", "INT", generatedAlwaysAs="(SELECT 1)"),
        errors.InvalidArgument,
        "column a",
    ),
    "generated from an identity column": (
        lambda b: b.addColumn("x", "BIGINT", generatedAlwaysAs=IdentityGenerator()).addColumn(
            "a", "BIGINT", generatedAlwaysAs="x + 1"
        ),
        errors.InvalidArgument,
        "generated",
    ),
    "a constraint that is no condition": (
        lambda b: b.addColumn("a", "INT").property("delta.constraints.c", "a + 1"),
        errors.InvalidArgument,
        "CHECK constraint c",
    ),
    "a constraint on nothing": (
        lambda b: b.addColumn("a", "INT").property("delta.constraints.c", "b > 0"),
        errors.InvalidArgument,
        "b",
    ),
    "unknown property": (
        lambda b: b.addColumn("a", "INT").property("delta.appendOnlly", "true"),
        errors.InvalidArgument,
        "appendOnly",
    ),
    "property of the wrong kind": (
        lambda b: b.addColumn("a", "INT").property("delta.appendOnly", "maybe"),
        errors.InvalidArgument,
        "true or false",
    ),
    "unknown feature": (
        lambda b: b.addColumn("a", "INT").property("delta.feature.wings", "supported"),
        errors.InvalidArgument,
        "wings",
    ),
    "feature that is not written": (
        lambda b: b.addColumn("a", "INT").property("delta.feature.catalogManaged", "supported"),
        errors.SlackwaterError,
        "catalogManaged",
    ),
    "a name of too many parts": (lambda b: b.tableName("a.b.t"), errors.InvalidArgument, "two parts"),
    "a type that tables cannot hold": (
        lambda b: b.addColumn("a", spark_types.DayTimeIntervalType()),
        errors.UnsupportedFeature,
        "interval",
    ),
}


@pytest.mark.parametrize(("build", "error", "message"), IMPOSSIBLE.values(), ids=IMPOSSIBLE.keys())
def test_a_table_that_cannot_be_is_refused_and_nothing_is_written(
    spark: SparkSession,
    tmp_path: Path,
    build: Callable[[DeltaTableBuilder[Any]], Any],
    error: type[Exception],
    message: str,
) -> None:
    builder = DeltaTable.create(spark).location(str(tmp_path / "t"))
    with pytest.raises(error, match=message):
        build(builder).execute()
    assert names_below(str(tmp_path)) == []


def test_a_table_may_begin_without_columns(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = DeltaTable.create(spark).location(path).execute()
    assert (table.toDF().columns, table.toDF().count()) == ([], 0)
    append(spark, path, [(1,)], "id INT", mergeSchema="true")
    assert rows(spark, path) == [(1,)]


def test_a_builder_needs_a_place(spark: SparkSession) -> None:
    with pytest.raises(errors.InvalidArgument, match="location"):
        DeltaTable.create(spark).addColumn("a", "INT").execute()


def test_files_of_others_are_not_covered_by_a_new_table(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    spark.range(1).write.parquet(path)
    with pytest.raises(errors.InvalidArgument, match="not empty"):
        DeltaTable.create(spark).location(path).addColumn("id", "LONG").execute()
    assert not (tmp_path / "t" / "_delta_log").exists()


def test_the_active_session_is_taken_where_none_is_given(spark: SparkSession, tmp_path: Path) -> None:
    assert spark is not None
    DeltaTable.create().location(str(tmp_path / "t")).addColumn("a", "INT").execute()
    assert Snapshot.load(tmp_path / "t").version == 0
