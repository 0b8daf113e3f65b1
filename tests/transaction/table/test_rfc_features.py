"""Rules of writer features from the RFCs, for protocol and metadata."""

from __future__ import annotations

import pytest

from slackwater.errors import InvalidArgument, ProtocolChangedException
from slackwater.protocol.schema.schema import parse_schema
from slackwater.transaction.table.alteration import add_feature, set_properties
from slackwater.transaction.table.feature_removal import drop_feature
from tests.transaction.tables import add, append, begin, table

BY_NAME = {"delta.columnMapping.mode": "name"}
INNER = {"name": "x", "type": "long", "nullable": True, "metadata": {}}
COLUMNS = {"id": "long", "s": {"type": "struct", "fields": [INNER]}}


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
