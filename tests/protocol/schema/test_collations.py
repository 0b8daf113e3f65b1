"""Collations in the JSON of schemas, and in the rules for features, partitions and changes of columns."""

from __future__ import annotations

import json

import pytest

from slackwater.errors import InvalidArgument
from slackwater.predicate.columns import resolve_column
from slackwater.protocol.actions.actions import Protocol
from slackwater.protocol.features.clustering import has_extremes
from slackwater.protocol.features.protocol_upgrade import protocol_for, with_features, without_feature
from slackwater.protocol.features.table_features import supported_features, validate_writable
from slackwater.protocol.schema.schema import (
    COLLATIONS,
    STRING,
    ArrayType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    parse_schema,
    schema_to_json,
)
from slackwater.protocol.schema.type_widening import WriteConversion, write_conversion
from slackwater.protocol.schema_changes.column_names import validate_partition_columns
from slackwater.sql.show_create import TableText, creation_text

LOWER, UNICODE = PrimitiveType("string", "spark.UTF8_LCASE"), PrimitiveType("string", "icu.UNICODE_CI")
NESTED = StructType(
    (
        StructField("col1", LOWER),
        StructField("col2", ArrayType(MapType(UNICODE, StructType((StructField("f1", LOWER),))))),
        StructField("col3", STRING),
    )
)


def test_collations_have_the_paths_of_the_nearest_field() -> None:
    fields = json.loads(schema_to_json(NESTED))["fields"]
    assert [field["metadata"] for field in fields] == [
        {COLLATIONS: {"col1": "spark.UTF8_LCASE"}},
        {COLLATIONS: {"col2.element.key": "icu.UNICODE_CI"}},
        {},
    ]
    inner = fields[1]["type"]["elementType"]
    assert inner["keyType"] == "string"
    assert inner["valueType"]["fields"][0]["metadata"] == {COLLATIONS: {"f1": "spark.UTF8_LCASE"}}
    assert parse_schema(schema_to_json(NESTED)) == NESTED
    assert parse_schema(schema_to_json(NESTED)).fields[0].metadata == {}


@pytest.mark.parametrize(
    "given",
    [{"old": "spark.UTF8_LCASE"}, {"c.element": "spark.UTF8_LCASE"}, {"c": 1}, "spark.UTF8_LCASE", None],
    ids=str,
)
def test_entries_without_a_string_stay_and_are_not_compared(given: object) -> None:
    metadata = {COLLATIONS: given, "comment": "x"}
    text = json.dumps(
        {"type": "struct", "fields": [{"name": "c", "type": "string", "nullable": True, "metadata": metadata}]}
    )
    (column,) = schema = parse_schema(text)
    assert column.type == STRING
    assert json.loads(schema_to_json(schema))["fields"][0]["metadata"] == metadata
    assert not resolve_column(schema, ("c",)).comparable


def test_the_order_of_bytes_is_not_a_collation() -> None:
    metadata = {COLLATIONS: {"c": "spark.UTF8_BINARY"}}
    text = json.dumps({"type": "struct", "fields": [{"name": "c", "type": "string", "metadata": metadata}]})
    assert parse_schema(text) == StructType((StructField("c", STRING),))
    assert COLLATIONS not in schema_to_json(parse_schema(text))


def test_the_feature_brings_domain_metadata() -> None:
    assert {"collations", "domainMetadata"} <= supported_features(protocol_for(["collations"]))
    preview = Protocol(1, 7, None, ("collations-preview",))
    assert with_features(preview, ["collations"]).writer_features == ("collations-preview", "domainMetadata")
    with pytest.raises(InvalidArgument, match="domainMetadata is needed by collations"):
        without_feature(protocol_for(["collations"]), "domainMetadata")


@pytest.mark.parametrize("name", ["collations", "collations-preview"])
def test_tables_of_the_kernel_without_domain_metadata_are_written(name: str) -> None:
    validate_writable(Protocol(1, 7, None, (name,)), "memory://t")


def test_collated_columns_do_not_partition_or_cluster() -> None:
    with pytest.raises(InvalidArgument, match=r"col1 with the collation spark\.UTF8_LCASE"):
        validate_partition_columns(NESTED, ["col1"])
    assert not has_extremes(LOWER)
    assert has_extremes(STRING)


def test_values_of_another_collation_are_cast() -> None:
    assert write_conversion(STRING, LOWER) is WriteConversion.CAST
    assert write_conversion(ArrayType(UNICODE), ArrayType(LOWER)) is WriteConversion.CAST
    assert write_conversion(LOWER, LOWER) is WriteConversion.SAME


def test_show_create_table_writes_the_collation() -> None:
    text = creation_text(TableText("t", NESTED))
    assert "`col1` STRING COLLATE UTF8_LCASE" in text
    assert "ARRAY<MAP<STRING COLLATE UNICODE_CI, STRUCT<`f1`: STRING COLLATE UTF8_LCASE>>>" in text
