"""Changes of a table that rewrite no row: columns, properties, constraints, protocol, domains."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types

from slackwater import DeltaTable, Snapshot, errors
from slackwater.spark.table import alter
from tests.spark.committed import actions, append, column_metadata, operation, rows
from tests.spark.written import struct_of

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

NAME_MAPPING = {"delta.columnMapping.mode": "name"}


def create(spark: SparkSession, path: str, ddl: str, properties: dict[str, str] | None = None) -> DeltaTable:
    builder = DeltaTable.create(spark).location(path)
    builder.addColumns(struct_of(ddl))
    for key, value in (properties or {}).items():
        builder.property(key, value)
    return builder.execute()


def parameter(path: str, name: str) -> Any:
    return json.loads(operation(path)[1][name])


# Columns


def test_columns_are_added_at_the_end_in_a_place_and_in_structs(spark: SparkSession, path: str) -> None:
    table = create(spark, path, "id INT, s struct<a: int>, arr array<struct<x: int>>")
    append(spark, path, [(1, (2,), [(3,)])], "id INT, s struct<a: int>, arr array<struct<x: int>>")
    table.addColumns(struct_of("last STRING COMMENT 'at the end'"))
    assert operation(path)[0] == "ADD COLUMNS"
    assert parameter(path, "columns") == [
        {"column": {"name": "last", "type": "string", "nullable": True, "metadata": {"comment": "at the end"}}}
    ]
    table.addColumns(struct_of("one INT, two struct<q: int>"), after="id")
    assert [(c["column"]["name"], c["column"]["type"], c["position"]) for c in parameter(path, "columns")] == [
        ("one", "integer", "AFTER id"),
        ("two", "struct", "AFTER one"),
    ]
    table.addColumns([spark_types.StructField("zero", spark_types.DecimalType(5, 1))], first=True)
    assert (parameter(path, "columns")[0]["position"], parameter(path, "columns")[0]["column"]["type"]) == (
        "FIRST",
        "decimal(5,1)",
    )
    table.addColumns(struct_of("b INT"), parent="s", first=True)
    table.addColumns(struct_of("y INT"), parent="arr.element")
    assert parameter(path, "columns")[0]["column"]["name"] == "arr.element.y"
    assert table.toDF().schema.simpleString() == (
        "struct<zero:decimal(5,1),id:int,one:int,two:struct<q:int>,s:struct<b:int,a:int>,"
        "arr:array<struct<x:int,y:int>>,last:string>"
    )
    assert rows(spark, path) == [(None, 1, None, None, (None, 2), [(3, None)], None)]
    assert rows(spark, path, versionAsOf=1) == [(1, (2,), [(3,)])]


WRONG_COLUMNS: dict[str, tuple[Callable[[DeltaTable], None], str]] = {
    "no schema": (lambda t: t.addColumns("x INT"), "StructType"),  # type: ignore[arg-type]
    "there already": (lambda t: t.addColumns(struct_of("ID INT")), "already"),
    "not null": (lambda t: t.addColumns(struct_of("x INT NOT NULL")), "NOT NULL"),
    "illegal name": (lambda t: t.addColumns(struct_of("`x y` INT")), "columnMapping"),
    "after nothing": (lambda t: t.addColumns(struct_of("x INT"), after="none"), "none"),
    "first and after": (lambda t: t.addColumns(struct_of("x INT"), after="id", first=True), "both set"),
    "into no struct": (lambda t: t.addColumns(struct_of("x INT"), parent="id"), "struct"),
    "into nothing": (lambda t: t.addColumns(struct_of("x INT"), parent="none"), "none"),
    "parent of no kind": (lambda t: t.addColumns(struct_of("x INT"), parent=3), "text"),  # type: ignore[arg-type]
    "rename without mapping": (lambda t: t.renameColumn("id", "x"), "columnMapping.mode"),
    "drop without mapping": (lambda t: t.dropColumns("id"), "columnMapping.mode"),
    "replace drops without mapping": (lambda t: t.replaceColumns(struct_of("id INT")), "columnMapping.mode"),
    "rename to a number": (lambda t: t.renameColumn("id", 1), "text"),  # type: ignore[arg-type]
    "move nowhere": (lambda t: t.moveColumn("id"), "first"),
    "move what is not there": (lambda t: t.moveColumn("none", first=True), "none"),
    "move after itself": (lambda t: t.moveColumn("id", after="id"), "itself"),
    "comment on nothing": (lambda t: t.setColumnComment("none", "x"), "none"),
    "comment of no kind": (lambda t: t.setColumnComment("id", 1), "text"),  # type: ignore[arg-type]
    "not null inside an array": (lambda t: t.setColumnNullable("arr.element.x", False), "array"),
    "nullable of no kind": (lambda t: t.setColumnNullable("id", "no"), "True or False"),  # type: ignore[arg-type]
    "default without the feature": (lambda t: t.setColumnDefault("id", "1"), "allowColumnDefaults"),
    "narrower": (lambda t: t.changeColumnType("id", "SMALLINT"), "cannot be read"),
    "another type": (lambda t: t.changeColumnType("id", "STRING"), "cannot be read"),
    "no type": (lambda t: t.changeColumnType("id", "INTEGGER"), "not a data type"),
    "type of no kind": (lambda t: t.changeColumnType("id", 4), "dataType"),  # type: ignore[arg-type]
    "type of a partition column": (lambda t: t.changeColumnType("small", "INT"), "partitioned"),
    "no column path": (lambda t: t.setColumnComment("a..b", "x"), "not a column"),
}


@pytest.mark.parametrize(("change", "message"), WRONG_COLUMNS.values(), ids=WRONG_COLUMNS.keys())
def test_changes_that_make_no_sense_are_refused_and_nothing_is_committed(
    spark: SparkSession, path: str, change: Callable[[DeltaTable], None], message: str
) -> None:
    builder = DeltaTable.create(spark).location(path).partitionedBy("small")
    table = builder.addColumns(struct_of("id INT, arr array<struct<x: int>>, small SMALLINT")).execute()
    with pytest.raises(errors.InvalidArgument, match=message):
        change(table)
    assert Snapshot.load(path).version == 0


def test_columns_are_renamed_and_dropped_while_files_stay(spark: SparkSession, path: str) -> None:
    ddl = "id INT, s struct<a: int, b: int>, gone STRING, part STRING"
    builder = DeltaTable.create(spark).location(path).addColumns(struct_of(ddl)).partitionedBy("part")
    table = builder.property("delta.columnMapping.mode", "name").execute()
    append(spark, path, [(1, (2, 3), "x", "p")], ddl)
    files = Snapshot.load(path).files()["path"].to_pylist()
    table.renameColumn("id", "new id")
    assert operation(path) == ("RENAME COLUMN", {"oldColumnPath": "id", "newColumnPath": "`new id`"})
    table.renameColumn("s.a", "c")
    assert operation(path)[1] == {"oldColumnPath": "s.a", "newColumnPath": "s.c"}
    table.renameColumn("part", "place")
    table.dropColumns("s.b", "gone")
    assert operation(path)[0] == "DROP COLUMNS"
    assert parameter(path, "columns") == ["s.b", "gone"]
    table.dropColumns("not there", ifExists=True)
    assert Snapshot.load(path).version == 5
    assert Snapshot.load(path).metadata.partition_columns == ("place",)
    assert table.toDF().schema.simpleString() == "struct<new id:int,s:struct<c:int>,place:string>"
    assert rows(spark, path) == [(1, (2,), "p")]
    assert Snapshot.load(path).files()["path"].to_pylist() == files
    assert rows(spark, path, versionAsOf=1) == [(1, (2, 3), "x", "p")]
    with pytest.raises(errors.InvalidArgument, match="partition"):
        table.dropColumns("place")
    with pytest.raises(errors.InvalidArgument, match=r"s\.c"):
        table.dropColumns("s.c")
    with pytest.raises(errors.InvalidArgument, match="already"):
        table.renameColumn("place", "S")


def test_columns_move_and_get_comments_and_types(spark: SparkSession, path: str) -> None:
    table = create(spark, path, "a TINYINT COMMENT 'old', b INT, s struct<x: int, y: int>")
    append(spark, path, [(1, 2, (3, 4))], "a TINYINT, b INT, s struct<x: int, y: int>")
    table.moveColumn("a", after="b")
    assert operation(path)[0] == "CHANGE COLUMN"
    assert (operation(path)[1]["position"], parameter(path, "column")["name"]) == ("AFTER b", "a")
    table.moveColumn("s.y", first=True)
    assert (operation(path)[1]["position"], parameter(path, "column")["name"]) == ("FIRST", "s.y")
    table.setColumnComment("s.x", "new")
    assert parameter(path, "column") == {
        "name": "s.x",
        "type": "integer",
        "nullable": True,
        "metadata": {"comment": "new"},
    }
    table.setColumnComment("a", None)
    assert column_metadata(path, "a") == {}
    table.changeColumnType("a", spark_types.IntegerType())
    append(spark, path, [(5, 100_000, (6, 7))], "b INT, a INT, s struct<y: int, x: int>")
    assert table.toDF().schema.simpleString() == "struct<b:int,a:int,s:struct<y:int,x:int>>"
    assert rows(spark, path) == [(2, 1, (4, 3)), (5, 100_000, (6, 7))]
    version = Snapshot.load(path).version
    table.setColumnComment("s.x", "new")
    table.changeColumnType("a", "INT")
    table.setColumnNullable("b", True)
    table.moveColumn("b", first=True)
    assert Snapshot.load(path).version == version


def test_not_null_is_set_where_no_row_breaks_it(spark: SparkSession, path: str) -> None:
    table = create(spark, path, "a INT, s struct<x: int>")
    append(spark, path, [(1, (None,)), (2, None)], "a INT, s struct<x: int>")
    with pytest.raises(errors.InvariantViolationException, match=r"NOT NULL constraint of column s\.x.*'a': 1"):
        table.setColumnNullable("s.x", False)
    assert Snapshot.load(path).version == 1
    table.setColumnNullable("a", False)
    with pytest.raises(errors.InvariantViolationException, match="NOT NULL constraint of column a"):
        append(spark, path, [(None,)], "a INT")
    table.setColumnNullable("a", True)
    append(spark, path, [(None,)], "a INT")
    assert sorted(r[0] or 0 for r in rows(spark, path)) == [0, 1, 2]


def test_defaults_fill_in_for_columns_that_rows_lack(spark: SparkSession, path: str) -> None:
    table = create(spark, path, "id INT, a INT, at TIMESTAMP", {"delta.feature.allowColumnDefaults": "supported"})
    table.setColumnDefault("a", "40 + 2")
    table.setColumnDefault("at", "timestamp'2020-01-01'")
    append(spark, path, [(1,)], "id INT")
    append(spark, path, [(2, None)], "id INT, a INT")
    table.setColumnDefault("a", None)
    append(spark, path, [(3,)], "id INT")
    assert [r[:2] for r in rows(spark, path)] == [(1, 42), (2, None), (3, None)]
    midnight = dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)
    assert {r[2].astimezone(dt.timezone.utc) for r in rows(spark, path)} == {midnight}
    for default in ("id + 1", "sum(1)", "(SELECT 1)", "1 +", "'no number'", "array(1)", "nothing()"):
        with pytest.raises(errors.InvalidArgument, match=r"default value|SQL expression"):
            table.setColumnDefault("a", default)
    with pytest.raises(errors.InvalidArgument, match="text"):
        table.setColumnDefault("a", 1)  # type: ignore[arg-type]


def test_all_columns_are_replaced_at_once(spark: SparkSession, path: str) -> None:
    table = create(spark, path, "a INT, b STRING, s struct<x: int, y: int>", NAME_MAPPING)
    append(spark, path, [(1, "x", (2, 3))], "a INT, b STRING, s struct<x: int, y: int>")
    table.replaceColumns(struct_of("s struct<y: int, z: int>, a INT COMMENT 'kept', c DATE"))
    assert operation(path)[0] == "REPLACE COLUMNS"
    assert [c["name"] for c in parameter(path, "columns")] == ["s", "a", "c"]
    assert rows(spark, path) == [((3, None), 1, None)]
    assert column_metadata(path, "a")["comment"] == "kept"
    with pytest.raises(errors.InvalidArgument, match="cannot be read"):
        table.replaceColumns(struct_of("a STRING"))


# Properties, constraints


def test_properties_are_set_and_unset(spark: SparkSession, path: str) -> None:
    table = create(spark, path, "id INT", {"mine": "1"})
    table.setProperties({"delta.appendOnly": "true", "other": "2"})
    assert operation(path) == ("SET TBLPROPERTIES", {"properties": '{"delta.appendOnly":"true","other":"2"}'})
    assert table.detail().collect()[0]["properties"] == {"mine": "1", "delta.appendOnly": "true", "other": "2"}
    table.setProperties({"DELTA.appendonly": "FALSE"})
    assert Snapshot.load(path).metadata.configuration["delta.appendOnly"] == "false"
    table.setProperties({"other": "2"})
    assert Snapshot.load(path).version == 2
    table.unsetProperties("other", "not there", ifExists=True)
    assert operation(path) == (
        "UNSET TBLPROPERTIES",
        {"properties": '["other","not there"]', "ifExists": "true"},
    )
    assert dict(Snapshot.load(path).metadata.configuration) == {"mine": "1", "delta.appendOnly": "false"}


WRONG_PROPERTIES: dict[str, tuple[Callable[[DeltaTable], None], type[Exception], str]] = {
    "unknown": (lambda t: t.setProperties({"delta.none": "1"}), errors.InvalidArgument, "unknown"),
    "wrong value": (lambda t: t.setProperties({"delta.checkpointInterval": "0"}), errors.InvalidArgument, "from 1"),
    "a number": (lambda t: t.setProperties({"mine": 1}), errors.InvalidArgument, "strings"),  # type: ignore[dict-item]
    "no mapping": (lambda t: t.setProperties("mine"), errors.InvalidArgument, "map"),  # type: ignore[arg-type]
    "kept by the table": (
        lambda t: t.setProperties({"delta.columnMapping.maxColumnId": "1"}),
        errors.InvalidArgument,
        "itself",
    ),
    "constraint": (
        lambda t: t.setProperties({"delta.constraints.c": "id > 0"}),
        errors.InvalidArgument,
        "addConstraint",
    ),
    "retention": (
        lambda t: t.setProperties({"delta.logRetentionDuration": "interval 1 day"}),
        errors.InvalidArgument,
        "shorter",
    ),
    "stats of nothing": (
        lambda t: t.setProperties({"delta.dataSkippingStatsColumns": "none"}),
        errors.InvalidArgument,
        "none",
    ),
    "ids without files that have them": (
        lambda t: t.setProperties({"delta.columnMapping.mode": "id"}),
        errors.InvalidArgument,
        "creation",
    ),
    "unset what is not set": (lambda t: t.unsetProperties("mine"), errors.InvalidArgument, "not set"),
    "unset a number": (lambda t: t.unsetProperties(1), errors.InvalidArgument, "text"),  # type: ignore[arg-type]
    "unset a constraint": (
        lambda t: t.unsetProperties("delta.constraints.c"),
        errors.InvalidArgument,
        "dropConstraint",
    ),
    "other formats": (
        lambda t: t.setProperties({"delta.universalFormat.enabledFormats": "iceberg"}),
        errors.UnsupportedFeature,
        "formats",
    ),
    "shredding": (
        lambda t: t.setProperties({"delta.enableVariantShredding": "true"}),
        errors.UnsupportedFeature,
        "not supported",
    ),
}


@pytest.mark.parametrize(("change", "error", "message"), WRONG_PROPERTIES.values(), ids=WRONG_PROPERTIES.keys())
def test_properties_that_cannot_be_are_refused(
    spark: SparkSession, path: str, change: Callable[[DeltaTable], None], error: type[Exception], message: str
) -> None:
    table = create(spark, path, "id INT")
    with pytest.raises(error, match=message):
        change(table)
    assert Snapshot.load(path).version == 0


def test_a_mapped_table_does_not_go_back(spark: SparkSession, path: str) -> None:
    table = create(spark, path, "id INT", NAME_MAPPING)
    for mode in ("id", "none"):
        with pytest.raises(errors.SlackwaterError, match="cannot change from name"):
            table.setProperties({"delta.columnMapping.mode": mode})
    with pytest.raises(errors.UnsupportedFeature, match="cannot change from name"):
        table.unsetProperties("delta.columnMapping.mode")
    with pytest.raises(errors.OperationNotAllowed, match="itself"):
        table.unsetProperties("delta.columnMapping.maxColumnId")


def test_a_constraint_holds_for_rows_that_are_there_and_that_come(spark: SparkSession, path: str) -> None:
    table = create(spark, path, "id INT, s struct<a: int>")
    append(spark, path, [(1, (1,)), (2, None)], "id INT, s struct<a: int>")
    with pytest.raises(errors.InvariantViolationException, match=r"CHECK constraint c \(id > 1\).*'id': 1"):
        table.addConstraint("c", "id > 1")
    with pytest.raises(errors.InvariantViolationException, match="'id': 2"):
        # Null is not true.
        table.addConstraint("c", "s.a > 0")
    assert Snapshot.load(path).version == 1
    table.addConstraint("C", "id > 0")
    assert operation(path) == ("ADD CONSTRAINT", {"name": "C", "expr": "id > 0"})
    assert Snapshot.load(path).metadata.configuration == {"delta.constraints.c": "id > 0"}
    assert Snapshot.load(path).protocol.min_writer_version == 3
    with pytest.raises(errors.InvalidArgument, match="already"):
        table.addConstraint("c", "id > 5")
    with pytest.raises(errors.InvariantViolationException, match="id > 0"):
        append(spark, path, [(0,)], "id INT")
    table.dropConstraint("c")
    assert operation(path) == ("DROP CONSTRAINT", {"name": "c", "expr": "id > 0", "existed": "true"})
    append(spark, path, [(0,)], "id INT")
    table.dropConstraint("c", ifExists=True)
    assert Snapshot.load(path).version == 4
    with pytest.raises(errors.InvalidArgument, match="no constraint c"):
        table.dropConstraint("c")


@pytest.mark.parametrize(
    "expression",
    ["id + 1", "none > 1", "id >", "sum(id) > 1", "rand() > 2", "(SELECT true)", "id IN (SELECT 1)", "*", "f(id)", ""],
)
def test_a_constraint_must_be_a_condition_on_one_row(spark: SparkSession, path: str, expression: str) -> None:
    table = create(spark, path, "id INT")
    with pytest.raises(errors.InvalidArgument):
        table.addConstraint("c", expression)
    assert Snapshot.load(path).version == 0


def test_constraints_have_names(spark: SparkSession, path: str) -> None:
    table = create(spark, path, "id INT")
    with pytest.raises(errors.InvalidArgument, match="name"):
        table.addConstraint(" ", "id > 0")
    with pytest.raises(errors.InvalidArgument, match="text"):
        table.addConstraint("c", 1)  # type: ignore[arg-type]


def test_rows_that_came_while_a_constraint_was_checked_are_not_overlooked(
    spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(spark, path, "id INT")
    append(spark, path, [(1,)], "id INT")
    checked = DeltaTable._require_rows

    def meanwhile(self: DeltaTable, *args: Any) -> None:
        checked(self, *args)
        append(spark, path, [(-1,)], "id INT")

    monkeypatch.setattr(alter.TableAlterations, "_require_rows", meanwhile)
    with pytest.raises(errors.ConcurrentAppendException):
        table.addConstraint("c", "id > 0")
    assert dict(Snapshot.load(path).metadata.configuration) == {}


def test_constraints_and_expressions_keep_their_columns(spark: SparkSession, path: str) -> None:
    builder = DeltaTable.create(spark).location(path).addColumns(struct_of("a INT, b INT, s struct<x: int>, c INT"))
    builder.addColumn("twice", "INT", generatedAlwaysAs="b * 2").property("delta.columnMapping.mode", "name")
    table = builder.execute()
    table.addConstraint("c", "a > 0 AND s.x IS NULL")
    for name in ("a", "b", "s.x", "s"):
        with pytest.raises(errors.InvalidArgument, match="reads it"):
            table.renameColumn(name, "other")
        with pytest.raises(errors.InvalidArgument, match="reads it"):
            table.dropColumns(name)
    table.dropColumns("twice")
    table.renameColumn("b", "other")
    assert table.toDF().columns == ["a", "other", "s", "c"]


# Protocol, features, domains


def test_the_protocol_is_raised_and_never_lowered(spark: SparkSession, path: str) -> None:
    table = create(spark, path, "id INT")
    table.upgradeTableProtocol(1, 4)
    assert operation(path) == ("UPGRADE PROTOCOL", {"newProtocol": '{"minReaderVersion":1,"minWriterVersion":4}'})
    table.upgradeTableProtocol(1, 2)
    assert Snapshot.load(path).version == 1
    table.upgradeTableProtocol(3, 7)
    assert set(Snapshot.load(path).protocol.writer_features or ()) == {
        "appendOnly",
        "invariants",
        "checkConstraints",
        "changeDataFeed",
        "generatedColumns",
    }
    assert Snapshot.load(path).protocol.reader_features == ()
    for versions in ((1, 9), (4, 7), (3, 5)):
        with pytest.raises(errors.InvalidArgument):
            table.upgradeTableProtocol(*versions)
    for wrong in ("3", 3.0, True):
        with pytest.raises(errors.InvalidArgument, match="whole number"):
            table.upgradeTableProtocol(wrong, 7)  # type: ignore[arg-type]


def test_features_are_added_with_those_they_need(spark: SparkSession, path: str) -> None:
    table = create(spark, path, "id INT")
    table.addFeatureSupport("rowTracking")
    assert operation(path)[0] == "UPGRADE PROTOCOL"
    assert set(Snapshot.load(path).protocol.writer_features or ()) == {
        "appendOnly",
        "invariants",
        "domainMetadata",
        "rowTracking",
    }
    table.addFeatureSupport("rowTracking")
    assert Snapshot.load(path).version == 1
    with pytest.raises(errors.InvalidArgument, match="wings"):
        table.addFeatureSupport("wings")
    with pytest.raises(errors.InvalidArgument, match="featureName needs to be a string"):
        table.addFeatureSupport(7)  # type: ignore[arg-type]
    append(spark, path, [(1,)], "id INT")
    assert actions(path, 2, "add")[0]["baseRowId"] == 0


def test_a_feature_of_writers_is_dropped_in_one_commit(spark: SparkSession, path: str) -> None:
    table = create(spark, path, "id INT", {"delta.enableRowTracking": "true", "delta.appendOnly": "true"})
    append(spark, path, [(1,)], "id INT")
    with pytest.raises(errors.InvalidArgument, match="rowTracking"):
        table.dropFeatureSupport("domainMetadata")
    table.dropFeatureSupport("rowTracking")
    assert operation(path) == ("DROP FEATURE", {"featureName": "rowTracking", "truncateHistory": "false"})
    snapshot = Snapshot.load(path)
    assert set(snapshot.protocol.writer_features or ()) == {"appendOnly", "invariants", "domainMetadata"}
    assert dict(snapshot.metadata.configuration) == {"delta.appendOnly": "true"}
    assert dict(snapshot.domain_metadata) == {}
    table.dropFeatureSupport("domainMetadata")
    # The weakest protocol that says the same.
    assert (Snapshot.load(path).protocol.min_writer_version, Snapshot.load(path).protocol.writer_features) == (2, None)
    append(spark, path, [(2,)], "id INT")
    assert rows(spark, path) == [(1,), (2,)]


IN_USE: dict[str, tuple[str, Callable[[DeltaTable], None]]] = {
    "checkConstraints": ("id INT", lambda t: t.addConstraint("c", "id > 0")),
    "timestampNtz": ("id TIMESTAMP_NTZ", lambda t: None),
    "invariants": ("id INT NOT NULL", lambda t: None),
    "columnMapping": ("id INT", lambda t: t.setProperties(NAME_MAPPING)),
    "domainMetadata": ("id INT", lambda t: t.setDomainMetadata("mine", "{}")),
}


@pytest.mark.parametrize(("feature", "ddl", "use"), [(name, *use) for name, use in IN_USE.items()], ids=IN_USE)
def test_a_feature_in_use_is_not_dropped(
    spark: SparkSession, path: str, feature: str, ddl: str, use: Callable[[DeltaTable], None]
) -> None:
    table = create(spark, path, ddl)
    use(table)
    version = Snapshot.load(path).version
    with pytest.raises(errors.OperationNotAllowed):
        table.dropFeatureSupport(feature)
    assert Snapshot.load(path).version == version


def test_dropping_what_cannot_be_dropped_says_so(spark: SparkSession, path: str) -> None:
    table = create(spark, path, "id INT")
    with pytest.raises(errors.InvalidArgument, match="no table feature"):
        table.dropFeatureSupport("wings")
    with pytest.raises(errors.InvalidArgument, match="does not support"):
        table.dropFeatureSupport("rowTracking")
    with pytest.raises(errors.InvalidArgument, match="truncateHistory"):
        table.dropFeatureSupport("appendOnly", truncateHistory=True)
    with pytest.raises(errors.InvalidArgument, match="boolean"):
        table.dropFeatureSupport("appendOnly", "yes")  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidArgument, match="string"):
        table.dropFeatureSupport(1)  # type: ignore[arg-type]


def test_a_feature_of_readers_goes_with_the_history_that_may_show_it(spark: SparkSession, path: str) -> None:
    retention = {"delta.dropFeatureTruncateHistory.retentionDuration": "interval 0 hours"}
    table = create(spark, path, "id INT", {"delta.checkpointPolicy": "v2", **retention})
    append(spark, path, [(1,)], "id INT")
    table.dropFeatureSupport("v2Checkpoint", truncateHistory=True)
    protocol = Snapshot.load(path).protocol
    assert (protocol.min_reader_version, protocol.min_writer_version, protocol.reader_features) == (1, 2, None)
    assert "delta.checkpointPolicy" not in Snapshot.load(path).metadata.configuration
    assert rows(spark, path) == [(1,)]
    with pytest.raises(errors.VersionNotFound):
        Snapshot.load(path, 1)
    append(spark, path, [(2,)], "id INT")
    assert rows(spark, path) == [(1,), (2,)]


def test_a_feature_of_readers_goes_immediately_and_its_history_stays_readable(spark: SparkSession, path: str) -> None:
    table = create(spark, path, "id INT", {"delta.enableDeletionVectors": "true"})
    append(spark, path, [(1,), (2,), (3,)], "id INT")
    table.delete("id = 1")
    spark.sql(f"REORG TABLE delta.`{path}` APPLY (PURGE)")
    before = Snapshot.load(path).version
    spark.sql(f"ALTER TABLE delta.`{path}` DROP FEATURE deletionVectors")
    after = Snapshot.load(path)
    assert after.protocol.reader_features is None
    assert "checkpointProtection" in (after.protocol.writer_features or ())
    assert rows(spark, path) == [(2,), (3,)]
    assert rows(spark, path, versionAsOf=before - 1) == [(2,), (3,)]
    assert rows(spark, path, versionAsOf=1) == [(1,), (2,), (3,)]
    table.delete("id = 2")
    append(spark, path, [(4,)], "id INT")
    assert rows(spark, path) == [(3,), (4,)]


def test_domains_of_users_come_and_go(spark: SparkSession, path: str) -> None:
    table = create(spark, path, "id INT")
    table.setDomainMetadata("com.example", '{"a":1}')
    assert "domainMetadata" in (Snapshot.load(path).protocol.writer_features or ())
    assert Snapshot.load(path).domain_metadata["com.example"].configuration == '{"a":1}'
    table.removeDomainMetadata("com.example")
    assert dict(Snapshot.load(path).domain_metadata) == {}
    assert actions(path, 2, "domainMetadata")[0]["removed"] is True
    for domain in ("delta.rowTracking", "DELTA.mine"):
        with pytest.raises(errors.OperationNotAllowed, match="belongs to the protocol"):
            table.setDomainMetadata(domain, "{}")
        with pytest.raises(errors.OperationNotAllowed, match="belongs to the protocol"):
            table.removeDomainMetadata(domain)
    with pytest.raises(errors.InvalidArgument, match="no metadata domain"):
        table.removeDomainMetadata("com.example")
    with pytest.raises(errors.InvalidArgument, match="name"):
        table.setDomainMetadata("", "{}")
    with pytest.raises(errors.InvalidArgument, match="text"):
        table.setDomainMetadata("com.example", {"a": 1})  # type: ignore[arg-type]


@pytest.mark.parametrize("versions", [(1, 1), (1, 2), (1, 3), (1, 4), (2, 5), (2, 6)])
def test_tables_of_legacy_protocols_are_written_and_upgraded(
    spark: SparkSession, path: str, versions: tuple[int, int]
) -> None:
    reader, writer = versions
    asked = {"delta.minReaderVersion": str(reader), "delta.minWriterVersion": str(writer)}
    table = create(spark, path, "id INT", asked)
    protocol = Snapshot.load(path).protocol
    assert (protocol.min_reader_version, protocol.min_writer_version) == versions
    append(spark, path, [(1,)], "id INT")
    assert actions(path, 1, "protocol") == []
    assert rows(spark, path) == [(1,)]
    implied = set(table.detail().collect()[0]["tableFeatures"])
    table.addFeatureSupport("domainMetadata")
    upgraded = Snapshot.load(path).protocol
    assert (upgraded.min_reader_version, upgraded.min_writer_version) == (reader, 7)
    assert set(upgraded.writer_features or ()) == {*implied, "domainMetadata"}
    table.addFeatureSupport("v2Checkpoint")
    upgraded = Snapshot.load(path).protocol
    assert upgraded.min_reader_version == 3
    assert set(upgraded.reader_features or ()) == {"v2Checkpoint", *({"columnMapping"} if reader == 2 else ())}
    append(spark, path, [(2,)], "id INT")
    assert rows(spark, path) == [(1,), (2,)]
