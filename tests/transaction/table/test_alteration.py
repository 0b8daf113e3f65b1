"""Changes of a table that touch no row: what is committed, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from slackwater.errors import InvalidArgument, OperationNotAllowed, UnsupportedFeature
from slackwater.protocol.actions.actions import Protocol
from slackwater.protocol.schema.schema import parse_schema
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.table.alteration import (
    Alteration,
    add_constraint,
    add_feature,
    change_table,
    cluster_by,
    drop_constraint,
    remove_domain,
    set_domain,
    set_properties,
    unset_properties,
    upgrade_protocol,
)
from tests.transaction.tables import add, append, begin, commit_actions, live, only, schema, table


def done(snapshot: Snapshot, alteration: Alteration) -> Snapshot:
    return alteration.commit(begin(snapshot)).snapshot


# Properties.


def test_properties_are_set_changed_and_taken_away() -> None:
    before = table(properties={"owner": "me", "delta.appendOnly": "true"})
    after = done(before, set_properties(before, {"owner": "you", "new": "1"}))
    assert dict(after.metadata.configuration) == {"owner": "you", "new": "1", "delta.appendOnly": "true"}
    info = only(before.store, 1, "commitInfo")
    assert info["operation"] == "SET TBLPROPERTIES"
    assert json.loads(info["operationParameters"]["properties"]) == {"owner": "you", "new": "1"}
    gone = done(after, unset_properties(after, ["owner", "delta.appendonly"]))
    assert dict(gone.metadata.configuration) == {"new": "1"}
    info = only(before.store, 2, "commitInfo")
    assert info["operation"] == "UNSET TBLPROPERTIES"
    assert info["operationParameters"]["ifExists"] == "false"


def test_the_keys_of_the_protocol_are_found_in_any_case_and_stored_in_one() -> None:
    before = table(properties={"delta.appendOnly": "true"})
    after = done(before, set_properties(before, {"DELTA.APPENDONLY": "FALSE"}))
    assert dict(after.metadata.configuration) == {"delta.appendOnly": "false"}


def test_a_key_that_is_set_in_another_case_is_the_same_key() -> None:
    before = table(properties={"Owner": "me", "other": "1"})
    after = done(before, set_properties(before, {"owner": "you"}))
    assert dict(after.metadata.configuration) == {"owner": "you", "other": "1"}


def test_a_mapping_mode_that_says_none_may_be_taken_away() -> None:
    before = table(properties={"delta.columnMapping.mode": "none"})
    assert dict(done(before, unset_properties(before, ["delta.columnmapping.mode"])).metadata.configuration) == {}


def test_what_is_so_already_is_nothing_to_commit() -> None:
    before = table(properties={"owner": "me"})
    assert set_properties(before, {"owner": "me"}).is_empty
    assert unset_properties(before, ["other"], if_exists=True).is_empty
    assert change_table(before, "X", before.configuration).is_empty
    assert upgrade_protocol(before, 1, 1).is_empty
    assert add_feature(before, "appendOnly").is_empty
    assert drop_constraint(before, "c", if_exists=True).is_empty
    assert cluster_by(before, []).is_empty


@pytest.mark.parametrize(
    ("properties", "match"),
    [
        ({"delta.nonsense": "1"}, "unknown table property"),
        ({"delta.appendOnly": "perhaps"}, "true or false"),
        ({"delta.constraints.c": "id > 0"}, "addConstraint"),
        ({"delta.columnMapping.maxColumnId": "7"}, "maintained by Slackwater itself"),
        ({"delta.dataSkippingStatsColumns": "nowhere"}, "nowhere"),
        ({"delta.columnMapping.mode": "id"}, "id"),
        ({"delta.feature.nonsense": "supported"}, "nonsense"),
    ],
)
def test_properties_that_make_no_sense_are_refused(properties: dict[str, str], match: str) -> None:
    with pytest.raises(InvalidArgument, match=match):
        set_properties(table(), properties)


def test_a_property_that_is_not_set_is_not_taken_away() -> None:
    with pytest.raises(InvalidArgument, match="owner is not set"):
        unset_properties(table(), ["owner"])
    with pytest.raises(InvalidArgument, match="dropConstraint"):
        unset_properties(table(properties={"delta.constraints.c": "id > 0"}), ["delta.constraints.c"])
    with pytest.raises(OperationNotAllowed, match="maintained by the table itself"):
        unset_properties(table(properties={"delta.columnMapping.mode": "name"}), ["delta.columnMapping.maxColumnId"])


@pytest.mark.parametrize(
    ("key", "value", "feature", "reader"),
    [
        ("delta.enableDeletionVectors", "true", "deletionVectors", True),
        ("delta.enableChangeDataFeed", "true", "changeDataFeed", False),
        ("delta.enableTypeWidening", "true", "typeWidening", True),
        ("delta.enableInCommitTimestamps", "true", "inCommitTimestamp", False),
        ("delta.checkpointPolicy", "v2", "v2Checkpoint", True),
        ("delta.enableRowTracking", "true", "rowTracking", False),
        ("delta.feature.vacuumProtocolCheck", "supported", "vacuumProtocolCheck", True),
        ("delta.feature.clustering", "supported", "clustering", False),
    ],
)
def test_a_property_brings_its_feature(key: str, value: str, feature: str, reader: bool) -> None:
    before = table()
    after = done(before, set_properties(before, {key: value}))
    assert {feature, "appendOnly", "invariants"} <= set(after.protocol.writer_features or ())
    assert (feature in (after.protocol.reader_features or ())) is reader
    assert (key in after.metadata.configuration) is not key.startswith("delta.feature.")


def test_column_mapping_is_enabled_on_a_table_that_has_files() -> None:
    text = schema({"id": "long", "s": {"type": "struct", "fields": json.loads(schema({"x": "long"}))["fields"]}})
    created = table(text)
    before = append(created, add("a")).snapshot
    after = done(before, set_properties(before, {"delta.columnMapping.mode": "name"}))
    assert after.protocol.reader_features == ("columnMapping",)
    assert after.metadata.configuration["delta.columnMapping.maxColumnId"] == "3"
    one, two = after.schema
    for column in (one, two):
        # Files that are there go by the names that they were written with.
        assert column.metadata["delta.columnMapping.physicalName"] == column.name
    ids = [one.metadata["delta.columnMapping.id"], two.metadata["delta.columnMapping.id"]]
    assert len(set(ids)) == 2
    assert live(after.store) == ["a"]
    assert after.files("id > 100").num_rows == 0
    with pytest.raises(UnsupportedFeature, match="cannot change from name to none"):
        set_properties(after, {"delta.columnMapping.mode": "none"})
    with pytest.raises(UnsupportedFeature, match="cannot change from name to none"):
        unset_properties(after, ["delta.columnMapping.mode"])


def test_iceberg_compatibility_gives_ids_to_what_arrays_and_maps_hold() -> None:
    array = {"type": "array", "elementType": "long", "containsNull": True}
    before = table({"id": "long", "a": array}, properties={"delta.columnMapping.mode": "name"})
    after = done(before, set_properties(before, {"delta.enableIcebergCompatV2": "true"}))
    *_, column = after.schema
    physical = column.metadata["delta.columnMapping.physicalName"]
    assert column.metadata["parquet.field.nested.ids"] == {f"{physical}.element": 3}
    assert int(after.metadata.configuration["delta.columnMapping.maxColumnId"]) == 3
    assert "icebergCompatV2" in (after.protocol.writer_features or ())


# Protocols.


def test_versions_are_raised_and_never_lowered() -> None:
    before = table()
    after = done(before, upgrade_protocol(before, 2, 5))
    assert after.protocol == Protocol(2, 5)
    assert upgrade_protocol(after, 1, 2).is_empty
    listed = done(after, upgrade_protocol(after, 3, 7))
    assert listed.protocol.min_reader_version == 3
    assert {"columnMapping", "changeDataFeed", "appendOnly"} <= set(listed.protocol.writer_features or ())
    info = only(before.store, 1, "commitInfo")
    assert info["operation"] == "UPGRADE PROTOCOL"
    assert json.loads(info["operationParameters"]["newProtocol"]) == {"minReaderVersion": 2, "minWriterVersion": 5}


def test_versions_may_be_asked_for_as_properties() -> None:
    before = table()
    after = done(before, set_properties(before, {"delta.minWriterVersion": "4", "owner": "me"}))
    assert after.protocol == Protocol(1, 4)
    assert dict(after.metadata.configuration) == {"owner": "me"}


def test_a_feature_comes_with_what_it_requires() -> None:
    before = table()
    after = done(before, add_feature(before, "rowTracking"))
    assert set(after.protocol.writer_features or ()) == {"appendOnly", "invariants", "rowTracking", "domainMetadata"}


@pytest.mark.parametrize(("feature", "error"), [("nonsense", InvalidArgument), ("managedCommit", OperationNotAllowed)])
def test_a_feature_that_is_not_known_or_not_written_is_refused(feature: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=feature):
        add_feature(table(), feature)


@pytest.mark.parametrize("versions", [(4, 7), (1, 8), (0, 2), (3, 2)])
def test_versions_that_do_not_exist_are_refused(versions: tuple[int, int]) -> None:
    with pytest.raises(InvalidArgument):
        upgrade_protocol(table(), *versions)


# Constraints.


def test_a_constraint_is_stored_by_its_name_and_brings_its_feature() -> None:
    before = table()
    after = done(before, add_constraint(before, "Positive", "id > 0"))
    assert dict(after.metadata.configuration) == {"delta.constraints.positive": "id > 0"}
    assert after.protocol == Protocol(1, 3)
    assert only(before.store, 1, "commitInfo")["operation"] == "ADD CONSTRAINT"
    gone = done(after, drop_constraint(after, "POSITIVE"))
    assert dict(gone.metadata.configuration) == {}
    assert gone.protocol == Protocol(1, 3)
    assert only(before.store, 2, "commitInfo")["operationParameters"]["expr"] == "id > 0"


@pytest.mark.parametrize(
    ("name", "sql", "match"),
    [("C", "id > 1", "has a constraint C already"), (" ", "id > 1", "must have a name"), ("d", "x > 1", "lacks: x")],
)
def test_a_constraint_that_cannot_be_is_refused(name: str, sql: str, match: str) -> None:
    before = table(properties={"delta.constraints.c": "id > 0"})
    with pytest.raises(InvalidArgument, match=match):
        add_constraint(before, name, sql)


def test_a_constraint_that_is_not_there_is_not_dropped() -> None:
    with pytest.raises(InvalidArgument, match="no constraint c"):
        drop_constraint(table(), "c")


# Clustering.


def test_clustering_columns_are_a_domain_that_names_physical_columns() -> None:
    before = table({"id": "long"}, properties={"delta.columnMapping.mode": "name"})
    after = done(before, cluster_by(before, [("id",)]))
    (column,) = after.schema
    physical = column.metadata["delta.columnMapping.physicalName"]
    assert json.loads(after.domain_metadata["delta.clustering"].configuration)["clusteringColumns"] == [[physical]]
    assert {"clustering", "domainMetadata"} <= set(after.protocol.writer_features or ())
    info = only(before.store, 1, "commitInfo")
    assert info["operation"] == "CLUSTER BY"
    assert info["operationParameters"] == {"oldClusteringColumns": "", "newClusteringColumns": "id"}
    none = done(after, cluster_by(after, []))
    assert json.loads(none.domain_metadata["delta.clustering"].configuration)["clusteringColumns"] == []


def test_files_without_statistics_cannot_be_clustered_by() -> None:
    fine = append(table(), add("a")).snapshot
    assert not cluster_by(fine, [("id",)]).is_empty
    nulls = replace(add("b"), stats='{"numRecords":10,"nullCount":{"id":10}}')
    assert not cluster_by(append(fine, nulls).snapshot, [("id",)]).is_empty
    for file in (add("c", rows=None), replace(add("d"), stats='{"numRecords":10}')):
        before = append(table(), add("a"), file).snapshot
        with pytest.raises(InvalidArgument, match="clustering column id: some file has no statistics"):
            cluster_by(before, [("id",)])


@pytest.mark.parametrize(
    "made",
    [
        lambda: cluster_by(table({"id": "long", "p": "string"}, ["p"]), [("id",)]),
        lambda: cluster_by(table(), [("nowhere",)]),
        lambda: cluster_by(table(), [("id",), ("id",)]),
        lambda: cluster_by(table({"id": {"type": "array", "elementType": "long", "containsNull": True}}), [("id",)]),
    ],
    ids=["partitioned", "missing", "twice", "array"],
)
def test_clustering_that_cannot_be_is_refused(made: Callable[[], Alteration]) -> None:
    with pytest.raises(InvalidArgument):
        made()


# Domains.


def test_a_domain_of_the_users_comes_and_goes() -> None:
    before = table()
    after = done(before, set_domain(before, "com.example.a", "1"))
    assert after.domain_metadata["com.example.a"].configuration == "1"
    changed = done(after, set_domain(after, "com.example.a", "2"))
    assert not [a for a in commit_actions(before.store, 2) if "protocol" in a]
    gone = done(changed, remove_domain(changed, "com.example.a"))
    assert gone.domain_metadata == {}
    assert only(before.store, 3, "domainMetadata") == {"domain": "com.example.a", "configuration": "2", "removed": True}
    with pytest.raises(InvalidArgument, match="no metadata domain"):
        remove_domain(gone, "com.example.a")


@pytest.mark.parametrize("domain", ["delta.clustering", "DELTA.x"])
def test_a_domain_of_the_protocols_is_refused(domain: str) -> None:
    changes: list[Callable[[], object]] = [
        lambda: set_domain(table(), domain, "1"),
        lambda: remove_domain(table(), domain),
    ]
    for change in changes:
        with pytest.raises(OperationNotAllowed, match="belongs to the protocol"):
            change()


# Schemas.


def test_a_new_schema_brings_its_features() -> None:
    before = table()
    metadata = replace(before.metadata, schema_string=schema({"id": "long", "t": "timestamp_ntz"}))
    changed = before.configuration.changed(metadata=metadata)
    after = done(before, change_table(before, "ADD COLUMNS", changed, {"columns": "t"}))
    assert "timestampNtz" in (after.protocol.reader_features or ())
    assert parse_schema(after.metadata.schema_string).names == ("id", "t")
    assert only(before.store, 1, "commitInfo")["operationParameters"] == {"columns": "t"}
