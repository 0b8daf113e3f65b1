"""Variants and shapes in schemas: their names, their features, their Arrow types."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from slackwater.errors import InvalidArgument, InvalidSchema
from slackwater.protocol.actions.actions import Metadata, Protocol
from slackwater.protocol.features.protocol_upgrade import required_features, validate_feature_combination
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.schema.arrow_schema import has_variant, is_arrow_variant, to_arrow_schema
from slackwater.protocol.schema.schema import (
    VARIANT,
    ArrayType,
    GeospatialType,
    StructField,
    StructType,
    parse_schema,
    parse_type,
    schema_to_json,
)


def _schema(kind: Any, **metadata: Any) -> str:
    field = {"name": "c", "type": kind, "nullable": True, "metadata": metadata}
    return json.dumps({"type": "struct", "fields": [field]})


def _table(kind: Any, features: tuple[str, ...] = (), **metadata: Any) -> TableConfiguration:
    protocol = Protocol(3, 7, features, features)
    return TableConfiguration(protocol, Metadata(id="t", schema_string=_schema(kind, **metadata)))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("variant", VARIANT),
        ("geometry", GeospatialType("geometry")),
        ("geometry(SRID:0)", GeospatialType("geometry", "SRID:0")),
        ("geography", GeospatialType("geography", "OGC:CRS84", "SPHERICAL")),
        ("geography(OGC:CRS83)", GeospatialType("geography", "OGC:CRS83", "SPHERICAL")),
        ("geography(karney)", GeospatialType("geography", "OGC:CRS84", "karney")),
        ("geography(OGC:CRS84, spherical)", GeospatialType("geography", "OGC:CRS84", "spherical")),
    ],
)
def test_names_of_types(name: str, expected: Any) -> None:
    assert parse_type(name) == expected
    assert parse_type(str(expected)) == expected
    assert parse_schema(schema_to_json(parse_schema(_schema(name)))) == parse_schema(_schema(name))


@pytest.mark.parametrize(
    "name",
    ["geometry(A:1, spherical)", "geography(A:1, flat)", "geography(A:1, B:2)", "geometry(", "Variant", "variant(1)"],
)
def test_names_that_are_no_types(name: str) -> None:
    with pytest.raises(InvalidSchema, match="column c: unknown type"):
        parse_schema(_schema(name))


def test_a_variant_as_an_object_is_read() -> None:
    """The example of "Variant Data Type" has this form for elements of arrays."""
    kind = {"type": "array", "elementType": {"type": "variant"}, "containsNull": False}
    assert parse_schema(_schema(kind)) == StructType((StructField("c", ArrayType(VARIANT, False)),))


@pytest.mark.parametrize(
    ("kind", "feature"),
    [
        ("variant", "variantType"),
        ({"type": "map", "keyType": "string", "valueType": "variant", "valueContainsNull": True}, "variantType"),
        ("geometry(SRID:0)", "geospatial"),
        ({"type": "array", "elementType": "geography", "containsNull": True}, "geospatial"),
    ],
    ids=str,
)
def test_a_table_needs_the_feature_of_its_types(kind: Any, feature: str) -> None:
    assert required_features(_table(kind)) == {feature}
    with pytest.raises(InvalidArgument, match=f"use {feature}, which its protocol does not support"):
        validate_feature_combination(_table(kind))
    validate_feature_combination(_table(kind, (feature,)))
    preview = _table("variant", ("variantType-preview",))
    validate_feature_combination(preview)


@pytest.mark.parametrize("kind", ["variant", "geometry(SRID:0)"])
def test_such_a_column_is_not_generated(kind: str) -> None:
    features = ("variantType", "geospatial", "generatedColumns")
    table = _table(kind, features, **{"delta.generationExpression": "parse_json('1')"})
    with pytest.raises(InvalidArgument, match="not comparable") as caught:
        validate_feature_combination(table)
    assert caught.value.error_class == "DELTA_UNSUPPORTED_DATA_TYPE_IN_GENERATED_COLUMN"


def test_arrow_types_say_what_they_are() -> None:
    (variant,) = to_arrow_schema(parse_schema(_schema("variant")))
    assert variant.metadata[b"ARROW:extension:name"] == b"arrow.parquet.variant"
    assert is_arrow_variant(variant.type)
    assert not is_arrow_variant(pa.struct([("value", pa.binary()), ("metadata", pa.binary())]))
    (shape,) = to_arrow_schema(parse_schema(_schema("geography(OGC:CRS84, karney)")))
    assert shape.type == pa.binary()
    assert shape.metadata[b"ARROW:extension:name"] == b"geoarrow.wkb"
    assert json.loads(shape.metadata[b"ARROW:extension:metadata"]) == {"crs": "OGC:CRS84", "edges": "karney"}
    (array,) = to_arrow_schema(parse_schema(_schema({"type": "array", "elementType": "variant", "containsNull": True})))
    assert has_variant(array.type)
    assert not has_variant(pa.list_(pa.struct([("value", pa.binary())])))
