"""What the first commit of a table holds, and that of one that takes another's place."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from slackwater.errors import InvalidArgument, OperationNotAllowed, SlackwaterError
from slackwater.protocol.actions.actions import Protocol
from slackwater.protocol.schema.schema import parse_schema
from slackwater.transaction.definition import TableActions, TableDefinition, define_table
from tests.transaction.tables import START_MS, schema

_count = itertools.count()
TWO = {"id": "long", "p": "string"}


def define(columns: dict[str, Any] | str = TWO, replaces: TableActions | None = None, **more: Any) -> TableActions:
    text = columns if isinstance(columns, str) else schema(columns)
    old, domains = (replaces.configuration, {d.domain: d for d in replaces.domains}) if replaces else (None, {})
    definition = TableDefinition(parse_schema(text), **more)
    return define_table(definition, START_MS, lambda: f"id{next(_count)}", old, domains)


def test_a_plain_table_has_the_weakest_protocol() -> None:
    made = define(name="n", description="d")
    assert made.configuration.protocol == Protocol(1, 2)
    assert made.domains == ()
    metadata = made.configuration.metadata
    assert (metadata.name, metadata.description, metadata.created_time) == ("n", "d", START_MS)
    assert (metadata.format.provider, metadata.partition_columns) == ("parquet", ())
    assert parse_schema(metadata.schema_string) == parse_schema(schema(TWO))


@pytest.mark.parametrize(
    ("properties", "protocol"),
    [
        ({"delta.constraints.c": "id > 0"}, Protocol(1, 3)),
        (
            {"delta.enableChangeDataFeed": "true"},
            Protocol(1, 7, None, ("appendOnly", "changeDataFeed", "invariants")),
        ),
        (
            {"delta.columnMapping.mode": "name"},
            Protocol(3, 7, ("columnMapping",), ("appendOnly", "columnMapping", "invariants")),
        ),
        ({"delta.minReaderVersion": "2", "delta.minWriterVersion": "5"}, Protocol(2, 5)),
        (
            {"delta.enableDeletionVectors": "true"},
            Protocol(3, 7, ("deletionVectors",), ("appendOnly", "deletionVectors", "invariants")),
        ),
        (
            {"delta.feature.domainMetadata": "supported"},
            Protocol(1, 7, None, ("appendOnly", "domainMetadata", "invariants")),
        ),
    ],
)
def test_the_protocol_is_that_of_what_is_asked_for(properties: dict[str, str], protocol: Protocol) -> None:
    made = define(properties=properties).configuration.protocol
    assert (made.min_reader_version, made.min_writer_version) == (
        protocol.min_reader_version,
        protocol.min_writer_version,
    )
    assert sorted(made.reader_features or ()) == sorted(protocol.reader_features or ())
    assert sorted(made.writer_features or ()) == sorted(protocol.writer_features or ())


def test_what_asks_for_the_protocol_is_not_stored() -> None:
    made = define(
        properties={"delta.feature.domainMetadata": "supported", "delta.minWriterVersion": "7", "Owner": "me"}
    )
    assert dict(made.configuration.metadata.configuration) == {"Owner": "me"}


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns_get_ids_and_names_of_their_own(mode: str) -> None:
    nested = {"type": "struct", "fields": json.loads(schema({"x": "long"}))["fields"]}
    made = define({"id": "long", "s": nested}, properties={"delta.columnMapping.mode": mode})
    one, two = parse_schema(made.configuration.metadata.schema_string)
    assert [c.metadata["delta.columnMapping.id"] for c in (one, two)] == [1, 2]
    assert all(c.metadata["delta.columnMapping.physicalName"].startswith("col-") for c in (one, two))
    assert made.configuration.metadata.configuration["delta.columnMapping.maxColumnId"] == "3"


def test_ids_that_came_with_a_schema_are_not_taken_over() -> None:
    stale = {"delta.columnMapping.id": 77, "delta.columnMapping.physicalName": "stale"}
    plain = define(schema({"id": "long"}, id=stale))
    assert "stale" not in plain.configuration.metadata.schema_string
    mapped = define(schema({"id": "long"}, id=stale), properties={"delta.columnMapping.mode": "name"})
    (column,) = parse_schema(mapped.configuration.metadata.schema_string)
    assert column.metadata["delta.columnMapping.id"] == 1
    assert column.metadata["delta.columnMapping.physicalName"] != "stale"


def test_iceberg_compatibility_maps_columns_by_name() -> None:
    array = {"type": "array", "elementType": "long", "containsNull": True}
    made = define({"a": array}, properties={"delta.enableIcebergCompatV2": "true"})
    assert made.configuration.metadata.configuration["delta.columnMapping.mode"] == "name"
    assert "nested.ids" in made.configuration.metadata.schema_string
    with pytest.raises(InvalidArgument, match=r"needs delta\.columnMapping\.mode to be name or id"):
        define(properties={"delta.enableIcebergCompatV1": "true", "delta.columnMapping.mode": "none"})


def test_clustering_columns_are_a_domain() -> None:
    made = define(clustering_columns=[("id",), ("p",)])
    (domain,) = made.domains
    assert json.loads(domain.configuration)["clusteringColumns"] == [["id"], ["p"]]
    assert {"clustering", "domainMetadata"} <= set(made.configuration.protocol.writer_features or ())


@pytest.mark.parametrize(
    ("columns", "more", "error"),
    [
        ({"id": "long", "ID": "long"}, {}, InvalidArgument),
        ({"a b": "long"}, {}, InvalidArgument),
        ({"id": "void"}, {}, SlackwaterError),
        (TWO, {"partition_columns": ["nowhere"]}, InvalidArgument),
        (TWO, {"partition_columns": ["p", "p"]}, InvalidArgument),
        (TWO, {"partition_columns": ["id", "p"]}, InvalidArgument),
        (TWO, {"partition_columns": ["p"], "clustering_columns": [("id",)]}, InvalidArgument),
        (TWO, {"clustering_columns": [("nowhere",)]}, InvalidArgument),
        (TWO, {"properties": {"delta.nonsense": "1"}}, InvalidArgument),
        (TWO, {"properties": {"delta.managedCommit.commitOwner": "me"}}, InvalidArgument),
        (TWO, {"properties": {"delta.feature.managedCommit": "supported"}}, OperationNotAllowed),
    ],
)
def test_a_table_that_cannot_be_is_refused(
    columns: dict[str, str], more: dict[str, Any], error: type[SlackwaterError]
) -> None:
    with pytest.raises(error):
        define(columns, **more)


def test_spaces_in_names_are_for_mapped_columns() -> None:
    made = define({"a b": "long"}, properties={"delta.columnMapping.mode": "name"})
    assert parse_schema(made.configuration.metadata.schema_string).names == ("a b",)


# Replacements.


def test_a_replacement_keeps_the_tables_identity_and_never_weakens_its_protocol() -> None:
    old = define(properties={"delta.enableDeletionVectors": "true", "owner": "me"})
    new = define({"x": "string"}, replaces=old, properties={"delta.constraints.c": "x > 0"})
    assert (new.configuration.metadata.id, new.configuration.metadata.created_time) == (
        old.configuration.metadata.id,
        old.configuration.metadata.created_time,
    )
    assert dict(new.configuration.metadata.configuration) == {"delta.constraints.c": "x > 0"}
    assert {"deletionVectors", "checkConstraints"} <= set(new.configuration.protocol.writer_features or ())
    assert new.configuration.protocol.reader_features == ("deletionVectors",)


def test_columns_of_a_replacement_never_get_an_id_that_was_given_before() -> None:
    mapped = {"delta.columnMapping.mode": "name"}
    old = define(properties=mapped)
    new = define({"id": "long"}, replaces=old, properties=mapped)
    (column,) = parse_schema(new.configuration.metadata.schema_string)
    assert column.metadata["delta.columnMapping.id"] == 3
    assert new.configuration.metadata.configuration["delta.columnMapping.maxColumnId"] == "3"


def test_clustering_of_the_replaced_table_is_taken_away_or_overridden() -> None:
    old = define(clustering_columns=[("id",)])
    (gone,) = define({"x": "string"}, replaces=old).domains
    assert (gone.domain, gone.removed) == ("delta.clustering", False)
    assert json.loads(gone.configuration)["clusteringColumns"] == []
    (kept,) = define({"x": "string"}, replaces=old, clustering_columns=[("x",)]).domains
    assert (json.loads(kept.configuration)["clusteringColumns"], kept.removed) == ([["x"]], False)


def test_versions_asked_for_raise_the_replaced_protocol() -> None:
    new = define(replaces=define(), properties={"delta.minReaderVersion": "2", "delta.minWriterVersion": "5"})
    assert new.configuration.protocol == Protocol(2, 5)
