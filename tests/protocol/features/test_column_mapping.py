from __future__ import annotations

import pytest

from slackwater.errors import InvalidSchema
from slackwater.protocol.features.column_mapping import (
    FIELD_ID,
    ID,
    NAME,
    NONE,
    PHYSICAL_NAME,
    field_id,
    physical_name,
    physical_path,
    physical_schema,
)
from slackwater.protocol.schema.schema import LONG, STRING, ArrayType, DataType, MapType, StructField, StructType


def _column(name: str, number: int, data_type: DataType = LONG) -> StructField:
    return StructField(name, data_type, True, {FIELD_ID: number, PHYSICAL_NAME: f"col-{number}"})


INNER = StructType((_column("x.y", 3), _column("z", 4, STRING)))
SCHEMA = StructType(
    (
        _column("id", 1),
        _column("s", 2, INNER),
        _column("list", 5, ArrayType(StructType((_column("x", 6),)), True)),
        _column("map", 7, MapType(StructType((_column("k", 8),)), StructType((_column("v", 9),)), True)),
    )
)


@pytest.mark.parametrize("mode", [NAME, ID])
def test_names_in_files_are_physical_ones(mode: str) -> None:
    assert [physical_name(column, mode) for column in SCHEMA] == ["col-1", "col-2", "col-5", "col-7"]
    assert [physical_name(column, NONE) for column in SCHEMA] == list(SCHEMA.names)
    assert [field_id(column) for column in SCHEMA] == [1, 2, 5, 7]


@pytest.mark.parametrize("mode", [NAME, ID])
def test_a_schema_becomes_physical_down_to_lists_and_maps(mode: str) -> None:
    physical = physical_schema(SCHEMA, mode)
    assert str(physical) == str(
        StructType(
            (
                StructField("col-1", LONG),
                StructField("col-2", StructType((StructField("col-3", LONG), StructField("col-4", STRING)))),
                StructField("col-5", ArrayType(StructType((StructField("col-6", LONG),)), True)),
                StructField(
                    "col-7",
                    MapType(StructType((StructField("col-8", LONG),)), StructType((StructField("col-9", LONG),)), True),
                ),
            )
        )
    )
    assert [field_id(column) for column in physical] == [1, 2, 5, 7]
    assert physical_schema(SCHEMA, NONE) is SCHEMA


def test_a_path_of_display_names_leads_to_its_physical_path() -> None:
    assert physical_path(SCHEMA, ("s", "x.y"), NAME) == ("col-2", "col-3")
    assert physical_path(SCHEMA, ("s",), ID) == ("col-2",)
    assert physical_path(SCHEMA, ("s", "z"), NONE) == ("s", "z")


@pytest.mark.parametrize("path", [("nobody",), ("s", "nobody"), ("id", "x"), ("list", "x")])
def test_a_path_that_leads_nowhere_is_a_key_error(path: tuple[str, ...]) -> None:
    with pytest.raises(KeyError, match=r"\.".join(path)):
        physical_path(SCHEMA, path, NAME)


@pytest.mark.parametrize("metadata", [{}, {PHYSICAL_NAME: None}, {PHYSICAL_NAME: 7}])
def test_a_column_without_its_physical_name_is_named(metadata: dict[str, object]) -> None:
    column = StructField("c", LONG, True, metadata)
    with pytest.raises(InvalidSchema, match=r"column c: .*needs delta\.columnMapping\.physicalName"):
        physical_name(column, NAME)
    with pytest.raises(InvalidSchema, match=r"column c: "):
        physical_schema(StructType((column,)), ID)
    assert physical_name(column, NONE) == "c"


@pytest.mark.parametrize("metadata", [{}, {FIELD_ID: "1"}, {FIELD_ID: None}, {FIELD_ID: True}])
def test_a_column_without_its_id_is_named(metadata: dict[str, object]) -> None:
    with pytest.raises(InvalidSchema, match=r"column c: .*needs delta\.columnMapping\.id"):
        field_id(StructField("c", LONG, True, metadata))
