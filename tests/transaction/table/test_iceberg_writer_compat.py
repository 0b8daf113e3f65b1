"""Tables with icebergWriterCompatV1 and V3: ids as physical names, allowed types and features, unchanged map keys."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slackwater.errors import InvalidArgument
from slackwater.protocol.features.column_mapping import FIELD_ID, PHYSICAL_NAME
from slackwater.protocol.schema.schema import (
    LONG,
    PrimitiveType,
    StructField,
    StructType,
    schema_to_json,
    walk_fields,
)
from slackwater.protocol.schema_changes.alter_columns import NewColumn, add_columns, drop_columns, rename_column
from slackwater.protocol.schema_changes.replace_schema import replace_schema
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.table.alteration import add_constraint, change_table, set_properties
from slackwater.transaction.table.feature_removal import drop_feature
from tests.transaction.tables import begin, table

V1, V3 = "delta.enableIcebergWriterCompatV1", "delta.enableIcebergWriterCompatV3"
COMPAT = {V1: "delta.enableIcebergCompatV2", V3: "delta.enableIcebergCompatV3"}
KEY = {"type": "struct", "fields": [{"name": "k", "type": "string", "nullable": True, "metadata": {}}]}
VALUE = {"type": "struct", "fields": [{"name": "v", "type": "long", "nullable": True, "metadata": {}}]}
MAP = {"type": "map", "keyType": KEY, "valueType": VALUE, "valueContainsNull": True}
COLUMNS = {"id": "long", "a": {"type": "array", "elementType": "string", "containsNull": True}, "m": MAP}


def names(snapshot: Snapshot) -> dict[str, tuple[Any, Any]]:
    found = walk_fields(snapshot.schema)
    return {".".join(path): (c.metadata[FIELD_ID], c.metadata[PHYSICAL_NAME]) for path, c in found}


def changed(snapshot: Snapshot, change: Any) -> Snapshot:
    return change_table(snapshot, "CHANGE COLUMN", change(snapshot.configuration)).commit(begin(snapshot)).snapshot


def added(parent: tuple[str, ...], name: str, data_type: Any = LONG) -> Any:
    return lambda t: add_columns(t, [NewColumn(StructField(name, data_type), parent)])


@pytest.mark.parametrize(("flag", "version"), [(V1, "1"), (V3, "3")])
def test_a_new_table_has_the_properties_and_features_that_it_needs(flag: str, version: str) -> None:
    made = table(COLUMNS, properties={flag: "true"})
    configuration = made.metadata.configuration
    assert configuration["delta.columnMapping.mode"] == "id"
    assert configuration[COMPAT[flag]] == "true"
    assert {f"icebergWriterCompatV{version}", "columnMapping"} <= made.configuration.supported_features
    assert made.protocol.reader_features == ("columnMapping",)


@pytest.mark.parametrize("flag", [V1, V3])
def test_each_column_has_its_id_as_physical_name(flag: str) -> None:
    made = table(COLUMNS, properties={flag: "true"})
    made = changed(made, added((), "new", StructType((StructField("x", LONG),))))
    made = changed(made, added(("m", "value"), "w"))
    made = changed(made, lambda t: rename_column(t, ("id",), "key"))
    made = changed(made, lambda t: drop_columns(t, [("a",)]))
    assert set(names(made)) == {"key", "m", "m.key.k", "m.value.v", "m.value.w", "new", "new.x"}
    assert all(physical == f"col-{number}" for number, physical in names(made).values())
    again = changed(made, lambda t: replace_schema(t, StructType((StructField("id", LONG),)), ()))
    ((number, physical),) = names(again).values()
    assert physical == f"col-{number}"
    assert number > max(found for found, _ in names(made).values())


def test_other_physical_names_are_refused() -> None:
    made = table({"id": "long"}, properties={V1: "true"})
    (column,) = made.schema
    other = StructType((replace(column, metadata={**column.metadata, PHYSICAL_NAME: "other"}),))
    metadata = replace(made.metadata, schema_string=schema_to_json(other))
    with pytest.raises(InvalidArgument, match=r"column id: .*V1 is true, which needs the physical name col-1"):
        change_table(made, "X", made.configuration.changed(metadata=metadata)).commit(begin(made))


@pytest.mark.parametrize("flag", [V1, V3])
@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"delta.columnMapping.mode": "name"}, "needs delta.columnMapping.mode to be id"),
        ({"delta.enableChangeDataFeed": "true"}, "does not allow the change data feed"),
        ({"delta.feature.columnMappingUsageTracking": "supported"}, "features columnMappingUsageTracking"),
        ({"delta.feature.collations": "supported"}, "features collations"),
        ({"delta.constraints.c": "id > 0"}, "does not allow the CHECK constraint c"),
    ],
)
def test_properties_that_conflict_are_refused(flag: str, more: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        table({"id": "long"}, properties={flag: "true", **more})


@pytest.mark.parametrize(
    ("flag", "more", "message"),
    [
        (V1, {"delta.enableIcebergCompatV2": "false"}, "needs delta.enableIcebergCompatV2 to be true"),
        (V3, {"delta.enableIcebergCompatV3": "false"}, "needs delta.enableIcebergCompatV3 to be true"),
        (V1, {"delta.enableRowTracking": "true"}, "does not allow row tracking"),
        (V1, {"delta.feature.allowColumnDefaults": "supported"}, "features allowColumnDefaults"),
        (V1, {"delta.feature.deletionVectors": "supported"}, "features deletionVectors"),
    ],
)
def test_properties_that_conflict_with_one_version(flag: str, more: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        table({"id": "long"}, properties={flag: "true", **more})


def test_version_3_allows_vectors_defaults_and_row_tracking() -> None:
    more = {
        "delta.enableDeletionVectors": "true",
        "delta.feature.allowColumnDefaults": "supported",
        "delta.feature.variantType": "supported",
    }
    made = table({"id": "long"}, properties={V3: "true", **more})
    assert made.configuration.is_active("rowTracking")
    assert made.configuration.is_active("deletionVectors")


@pytest.mark.parametrize("flag", [V1, V3])
@pytest.mark.parametrize("kind", ["byte", "short"])
def test_small_integers_are_refused(flag: str, kind: str) -> None:
    array = {"type": "array", "elementType": kind, "containsNull": True}
    for given, where in ((kind, "id"), (array, r"id\.element")):
        with pytest.raises(InvalidArgument, match=f"column {where}: .* does not allow the type {kind}"):
            table({"id": given}, properties={flag: "true"})
    made = table({"id": "long"}, properties={flag: "true"})
    with pytest.raises(InvalidArgument, match=f"column n: .* does not allow the type {kind}"):
        changed(made, added((), "n", PrimitiveType(kind)))


@pytest.mark.parametrize("flag", [V1, V3])
@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("delta.generationExpression", "id + 1", "does not allow the generation expression"),
        ("delta.identity.start", 1, "does not allow an identity"),
        ("delta.invariants", '{"expression":{"expression":"id > 0"}}', "does not allow the invariant"),
    ],
)
def test_rules_of_columns_are_refused(flag: str, key: str, value: object, message: str) -> None:
    made = table({"id": "long", "n": "long"}, properties={flag: "true"})
    first, second = made.schema
    identity = {"delta.identity.step": 1, "delta.identity.allowExplicitInsert": False} if "identity" in key else {}
    other = StructType((first, replace(second, metadata={**second.metadata, key: value, **identity})))
    metadata = replace(made.metadata, schema_string=schema_to_json(other))
    with pytest.raises(InvalidArgument, match=f"column n: .*{message}"):
        change_table(made, "X", made.configuration.changed(metadata=metadata)).commit(begin(made))


@pytest.mark.parametrize("flag", [V1, V3])
def test_constraints_are_refused(flag: str) -> None:
    made = table({"id": "long"}, properties={flag: "true"})
    with pytest.raises(InvalidArgument, match="does not allow the CHECK constraint c"):
        add_constraint(made, "c", "id > 0").commit(begin(made))


@pytest.mark.parametrize("flag", [V1, V3])
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(added(("m", "key"), "new"), id="add"),
        pytest.param(lambda t: rename_column(t, ("m", "key", "k"), "other"), id="rename"),
    ],
)
def test_structs_of_map_keys_do_not_change(flag: str, change: Any) -> None:
    made = table(COLUMNS, properties={flag: "true"})
    with pytest.raises(InvalidArgument, match=r"m\.key: .* does not allow a change of the key of a map"):
        changed(made, change)
    assert changed(made, lambda t: rename_column(t, ("m",), "n")).version == made.version + 1
    plain = table(COLUMNS, properties={"delta.columnMapping.mode": "id"})
    assert changed(plain, lambda t: rename_column(t, ("m", "key", "k"), "other")).version == plain.version + 1


def test_a_table_with_other_names_cannot_be_enabled_later() -> None:
    made = table({"id": "long"}, properties={"delta.columnMapping.mode": "id"})
    with pytest.raises(InvalidArgument, match="needs the physical name col-1"):
        set_properties(made, {V1: "true"}).commit(begin(made))
    plain = table({"id": "long"})
    with pytest.raises(InvalidArgument, match=r"needs delta\.columnMapping\.mode to be id"):
        set_properties(plain, {V1: "true"}).commit(begin(plain))


def test_the_feature_is_dropped_with_its_property() -> None:
    made = table({"id": "long"}, properties={V1: "true"})
    dropped = drop_feature(made, "icebergWriterCompatV1").snapshot
    assert V1 not in dropped.metadata.configuration
    assert not dropped.configuration.supports("icebergWriterCompatV1")
    assert dropped.configuration.is_active("icebergCompatV2")
