"""The record of dropped and renamed columns, and the protocol-level rules of writer features of the RFCs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slackwater.errors import InvalidArgument, OperationNotAllowed, ProtocolChangedException
from slackwater.protocol.features.column_mapping import PHYSICAL_NAME
from slackwater.protocol.schema.schema import LONG, StructField, StructType, parse_schema
from slackwater.protocol.schema_changes.alter_columns import NewColumn, add_columns, drop_columns, rename_column
from slackwater.protocol.schema_changes.replace_schema import replace_schema
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.table.alteration import add_feature, change_table, set_properties, unset_properties
from slackwater.transaction.table.feature_removal import drop_feature
from tests.transaction.tables import add, append, begin, table

TRACKED = "delta.columnMapping.hasDroppedOrRenamed"
FEATURE = "delta.feature.columnMappingUsageTracking"
BY_NAME = {"delta.columnMapping.mode": "name"}
INNER = {"name": "x", "type": "long", "nullable": True, "metadata": {}}
COLUMNS = {"id": "long", "s": {"type": "struct", "fields": [INNER]}}


def used(snapshot: Snapshot) -> str | None:
    return snapshot.metadata.configuration.get(TRACKED)


def changed(snapshot: Snapshot, change: Any) -> Snapshot:
    return change_table(snapshot, "CHANGE COLUMN", change(snapshot.configuration)).commit(begin(snapshot)).snapshot


def with_feature(snapshot: Snapshot) -> Snapshot:
    return add_feature(snapshot, "columnMappingUsageTracking").commit(begin(snapshot)).snapshot


def physical(snapshot: Snapshot) -> dict[str, Any]:
    return {column.name: column.metadata[PHYSICAL_NAME] for column in parse_schema(snapshot.metadata.schema_string)}


@pytest.mark.parametrize("mapped", [{}, BY_NAME])
def test_a_new_table_starts_without_a_dropped_column(mapped: dict[str, str]) -> None:
    assert used(table(COLUMNS, properties={FEATURE: "supported", **mapped})) == "false"
    assert used(table(COLUMNS, properties=mapped)) is None


@pytest.mark.parametrize(("mapped", "expected"), [({}, "false"), (BY_NAME, "true")])
def test_tracking_of_an_existing_table_starts_with_its_mapping(mapped: dict[str, str], expected: str) -> None:
    assert used(with_feature(table(COLUMNS, properties=mapped))) == expected


def test_tracking_and_mapping_may_start_together() -> None:
    before = table(COLUMNS)
    after = set_properties(before, {FEATURE: "supported", **BY_NAME}).commit(begin(before)).snapshot
    assert used(after) == "false"


@pytest.mark.parametrize(
    "change",
    [
        lambda t: drop_columns(t, [("id",)]),
        lambda t: rename_column(t, ("id",), "key"),
        lambda t: rename_column(t, ("s", "x"), "y"),
        lambda t: replace_schema(t, StructType((StructField("id", LONG),)), []),
    ],
    ids=["drop", "rename", "nested rename", "replace"],
)
def test_a_drop_or_rename_is_recorded_permanently(change: Any) -> None:
    before = table(COLUMNS, properties={FEATURE: "supported", **BY_NAME})
    widened = changed(before, lambda t: add_columns(t, [NewColumn(StructField("n", LONG))]))
    assert used(widened) == "false"
    after = changed(widened, change)
    assert used(after) == "true"
    # A commit with the metadata of an earlier version, such as RESTORE, does not reset the record.
    restoring = begin(after)
    restoring.set_metadata(before.metadata)
    restored = restoring.commit("RESTORE").snapshot
    assert used(restored) == "true"
    resetting = begin(restored)
    resetting.set_metadata(replace(restored.metadata, configuration={**BY_NAME, TRACKED: "false"}))
    assert used(resetting.commit("SET TBLPROPERTIES").snapshot) == "true"


def test_new_columns_use_their_own_names_until_the_first_drop() -> None:
    before = table(COLUMNS, properties={FEATURE: "supported", **BY_NAME})
    assert physical(before) == {"id": "id", "s": "s"}
    more = changed(
        before, lambda t: add_columns(t, [NewColumn(StructField("n", LONG)), NewColumn(StructField("a b", LONG))])
    )
    names = physical(more)
    assert (names["n"], names["a b"][:4]) == ("n", "col-")
    dropped = changed(more, lambda t: drop_columns(t, [("n",)]))
    again = changed(dropped, lambda t: add_columns(t, [NewColumn(StructField("n", LONG))]))
    assert physical(again)["n"].startswith("col-")
    # Without the feature names are unique ids, as before.
    assert physical(table(COLUMNS, properties=BY_NAME))["id"].startswith("col-")


def test_the_record_is_not_set_by_hand_and_goes_with_the_feature() -> None:
    before = table(COLUMNS, properties={FEATURE: "supported", **BY_NAME})
    with pytest.raises(InvalidArgument, match="maintained by Slackwater"):
        set_properties(before, {TRACKED: "false"})
    with pytest.raises(OperationNotAllowed, match="maintained by the table"):
        unset_properties(before, [TRACKED])
    after = drop_feature(before, "columnMappingUsageTracking").snapshot
    assert used(after) is None


# Partition columns in the files.

MATERIALIZED = "delta.enableMaterializePartitionColumnsFeature"


def test_the_property_adds_the_feature_and_goes_with_it() -> None:
    before = table({"id": "long", "p": "long"}, ["p"])
    enabled = set_properties(before, {MATERIALIZED: "true"}).commit(begin(before)).snapshot
    assert "materializePartitionColumns" in (enabled.protocol.writer_features or ())
    assert enabled.protocol.reader_features is None
    dropped = drop_feature(append(enabled, add("a", partition={"p": "1"})).snapshot, "materializePartitionColumns")
    assert MATERIALIZED not in dropped.snapshot.metadata.configuration
    assert dropped.snapshot.protocol.writer_features is None


def test_files_written_before_the_feature_conflict_with_it() -> None:
    before = table({"id": "long", "p": "long"}, ["p"])
    add_feature(before, "materializePartitionColumns").commit(begin(before))
    with pytest.raises(ProtocolChangedException, match="may lack the partition columns"):
        append(before, add("a", partition={"p": "1"}))
    # Commits without new files follow it.
    progress = begin(before)
    progress.set_transaction("app", 1)
    assert progress.commit("WRITE").version == 2


# Iceberg compatibility, version 3.

V3 = "delta.enableIcebergCompatV3"


def test_version_3_brings_mapping_and_row_tracking_to_a_new_table() -> None:
    created = table(COLUMNS, properties={V3: "true"})
    assert {"icebergCompatV3", "columnMapping", "rowTracking"} <= set(created.protocol.writer_features or ())
    assert (created.column_mapping_mode, created.metadata.configuration["delta.enableRowTracking"]) == ("name", "true")
    for refused in ({"delta.enableRowTracking": "false"}, {"delta.columnMapping.mode": "none"}):
        with pytest.raises(InvalidArgument, match="needs"):
            table(COLUMNS, properties={V3: "true", **refused})


def test_version_3_brings_row_tracking_to_an_existing_table() -> None:
    before = append(table(COLUMNS, properties=BY_NAME), add("a")).snapshot
    after = set_properties(before, {V3: "true"}).commit(begin(before)).snapshot
    assert after.metadata.configuration["delta.enableRowTracking"] == "true"
    assert after.live_files(["baseRowId"])["baseRowId"].to_pylist() == [0]


def test_version_3_needs_files_with_row_ids_written_again() -> None:
    tracked = {**BY_NAME, "delta.enableRowTracking": "true"}
    empty = table(COLUMNS, properties=tracked)
    set_properties(empty, {V3: "true"}).commit(begin(empty))
    before = append(table(COLUMNS, properties=tracked), add("a")).snapshot
    with pytest.raises(InvalidArgument, match="some files may lack them"):
        set_properties(before, {V3: "true"}).commit(begin(before))


def test_version_3_gives_ids_to_array_elements() -> None:
    column = {"type": "array", "elementType": "long", "containsNull": True}
    created = table({"l": column}, properties={V3: "true"})
    (listed,) = parse_schema(created.metadata.schema_string)
    assert list(listed.metadata["parquet.field.nested.ids"].values()) == [2]
