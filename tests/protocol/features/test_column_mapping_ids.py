from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import CorruptTable, InvalidArgument, InvalidSchema, UnsupportedFeature
from slackwater.protocol.actions.actions import Metadata, Protocol
from slackwater.protocol.features.column_mapping import FIELD_ID, ID, NAME, NONE, PHYSICAL_NAME, physical_schema
from slackwater.protocol.features.column_mapping_ids import (
    NESTED_IDS,
    assign_column_mapping,
    max_column_id,
    random_physical_name,
    strip_mapping,
    validate_mapping,
    validate_mapping_change,
    with_mapped_schema,
)
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.registry import MAX_COLUMN_ID
from slackwater.protocol.schema.schema import (
    LONG,
    ArrayType,
    MapType,
    StructField,
    StructType,
    parse_schema,
    schema_to_json,
    walk_fields,
)

INNER = StructType((StructField("x", LONG, True, {"comment": "kept"}),))
PLAIN = StructType(
    (
        StructField("a", LONG),
        StructField("s", StructType((StructField("a", LONG), StructField("in", INNER)))),
        StructField("list", ArrayType(INNER)),
        StructField("map", MapType(INNER, ArrayType(INNER))),
    )
)


def _names() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"col-{next(numbers)}"


def _mapped(name: str, number: int, physical: str) -> StructField:
    return StructField(name, LONG, True, {FIELD_ID: number, PHYSICAL_NAME: physical})


def _with_element_id(column: StructField, number: int) -> StructField:
    return replace(column, metadata={**column.metadata, NESTED_IDS[0]: {"q.element": number}})


def _ids(schema: StructType) -> list[int]:
    return [column.metadata[FIELD_ID] for _, column in walk_fields(schema)]


def _physical(schema: StructType) -> list[str]:
    return [column.metadata[PHYSICAL_NAME] for _, column in walk_fields(schema)]


@pytest.mark.parametrize("mode", [NAME, ID])
def test_every_column_of_a_new_table_gets_an_id_and_a_physical_name(mode: str) -> None:
    mapped, last = assign_column_mapping(PLAIN, mode, physical=_names())
    assert _ids(mapped) == list(range(1, 11))
    assert _physical(mapped) == [f"col-{number}" for number in range(1, 11)]
    assert last == 10
    assert strip_mapping(mapped) == PLAIN


def test_physical_names_are_random() -> None:
    mapped, _ = assign_column_mapping(PLAIN, NAME)
    assert len(set(_physical(mapped))) == 10
    assert all(name.startswith("col-") and len(name) == 40 for name in _physical(mapped))
    assert random_physical_name() != random_physical_name()


def test_without_column_mapping_nothing_is_given() -> None:
    assert assign_column_mapping(PLAIN, NONE, 7) == (PLAIN, 7)


def test_columns_keep_what_they_have_and_new_ones_exceed_all() -> None:
    schema = StructType((_mapped("a", 4, "col-a"), StructField("b", LONG), _mapped("c", 2, "c")))
    mapped, last = assign_column_mapping(schema, NAME, 11, physical=_names())
    assert _ids(mapped) == [4, 12, 2]
    assert _physical(mapped) == ["col-a", "col-1", "c"]
    assert last == 12
    assert assign_column_mapping(mapped, NAME, 20) == (mapped, 20)
    assert assign_column_mapping(schema, NAME, 1)[1] == 5


def test_enabling_on_a_table_with_files_keeps_their_names() -> None:
    mapped, last = assign_column_mapping(PLAIN, NAME, existing=PLAIN)
    assert physical_schema(mapped, NAME).names == PLAIN.names
    assert str(physical_schema(mapped, NAME)) == str(PLAIN)
    assert _ids(mapped) == list(range(1, 11))
    assert last == 10


def test_a_column_added_while_enabling_gets_a_name_that_no_file_has() -> None:
    grown = StructType((*PLAIN, StructField("new", LONG)))
    mapped, _ = assign_column_mapping(grown, NAME, existing=PLAIN, physical=_names())
    assert _physical(mapped)[-2:] == ["x", "col-1"]


def test_what_was_left_over_from_an_earlier_mapping_does_not_count_for_files_without_one() -> None:
    stale = StructType((_mapped("a", 3, "col-gone"),))
    mapped, last = assign_column_mapping(stale, NAME, 5, existing=stale)
    assert _physical(mapped) == ["a"]
    assert _ids(mapped) == [6]
    assert last == 6


def test_files_without_ids_cannot_be_read_by_id() -> None:
    with pytest.raises(InvalidArgument, match=r"only if it is set at the creation of the table: .*\. Use name"):
        assign_column_mapping(PLAIN, ID, existing=PLAIN)


@pytest.mark.parametrize("metadata", [{FIELD_ID: 1}, {PHYSICAL_NAME: "p"}])
def test_half_a_mapping_is_named(metadata: dict[str, object]) -> None:
    schema = StructType((StructField("s", StructType((StructField("x", LONG, True, metadata),))),))
    with pytest.raises(InvalidSchema, match=r"column s\.x has delta\.columnMapping\..*, but no delta"):
        assign_column_mapping(schema, NAME)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ((_mapped("a", 1, "p"), _mapped("b", 1, "q")), "columns a and b have the same column mapping id 1"),
        ((_mapped("a", 1, "p"), _mapped("b", 2, "P")), "columns a and b have the same physical name 'P'"),
        (
            (_mapped("a", 1, "p"), _with_element_id(_mapped("b", 2, "q"), 1)),
            "columns a and b have the same column mapping id 1",
        ),
    ],
)
def test_columns_that_are_one_in_the_files_are_refused(columns: tuple[StructField, ...], message: str) -> None:
    with pytest.raises(InvalidSchema, match=message):
        validate_mapping(StructType(columns), NAME)
    with pytest.raises(InvalidSchema, match=message):
        assign_column_mapping(StructType(columns), NAME)
    validate_mapping(StructType(columns), NONE)


def test_a_physical_name_that_is_given_twice_is_refused() -> None:
    with pytest.raises(InvalidSchema, match="same physical name 'twice'"):
        assign_column_mapping(
            StructType((StructField("a", LONG), StructField("b", LONG))), NAME, physical=lambda: "twice"
        )


def test_the_same_physical_name_in_two_structs_is_no_conflict() -> None:
    inner = StructType((_mapped("x", 2, "p"),))
    outer = replace(_mapped("s", 1, "p"), type=inner)
    validate_mapping(StructType((outer,)), NAME)


@pytest.mark.parametrize("key", NESTED_IDS)
def test_ids_of_elements_count_for_the_greatest_one(key: str) -> None:
    column = StructField("a", ArrayType(LONG), True, {FIELD_ID: 3, PHYSICAL_NAME: "p", key: {"p.element": 104}})
    assert max_column_id(StructType((column,))) == 104
    assert max_column_id(PLAIN) == 0
    mapped, last = assign_column_mapping(StructType((column, StructField("b", LONG))), NAME)
    assert (_ids(mapped), last) == ([3, 105], 105)
    assert strip_mapping(StructType((column,))) == StructType((StructField("a", ArrayType(LONG)),))


def test_ids_end_with_32_bits() -> None:
    assert assign_column_mapping(StructType((StructField("a", LONG),)), NAME, 2**31 - 2)[1] == 2**31 - 1
    with pytest.raises(InvalidArgument, match="32-bit"):
        assign_column_mapping(StructType((StructField("a", LONG),)), NAME, 2**31 - 1)


def test_the_property_of_the_greatest_id_rises_and_never_falls() -> None:
    one = StructType((StructField("a", LONG),))
    table = TableConfiguration(Protocol(2, 5), Metadata("m", schema_to_json(one), configuration={"k": "v"}))
    first = with_mapped_schema(table, one, NAME)
    assert first.metadata.configuration == {"k": "v", MAX_COLUMN_ID: "1"}
    again = with_mapped_schema(first, one, NAME)
    assert again.metadata.configuration[MAX_COLUMN_ID] == "2"
    bare = again.changed(metadata=replace(again.metadata, configuration={}))
    lost = with_mapped_schema(bare, one, NAME)
    assert _ids(parse_schema(lost.metadata.schema_string)) == [3]
    assert with_mapped_schema(table, one, NONE) is table
    broken = table.changed(metadata=replace(table.metadata, configuration={MAX_COLUMN_ID: "x"}))
    with pytest.raises(CorruptTable, match=r"maxColumnId must be a whole number"):
        with_mapped_schema(broken, one, NAME)


@pytest.mark.parametrize(("old", "new"), [(NONE, NAME), (NONE, NONE), (NAME, NAME), (ID, ID), (NONE, "NAME")])
def test_changes_that_files_allow_pass(old: str, new: str) -> None:
    validate_mapping_change(old, new, is_new_table=False)


@pytest.mark.parametrize("new", [NONE, NAME, ID, "Id"])
def test_a_new_table_has_any_mode(new: str) -> None:
    validate_mapping_change(NONE, new, is_new_table=True)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (NONE, ID, "only if it is set at the creation"),
        (NAME, ID, "cannot change from name to id"),
        (ID, NAME, "cannot change from id to name"),
        (NAME, NONE, "cannot change from name to none"),
        (ID, NONE, "cannot change from id to none"),
        (NONE, "both", "must be none, name or id, found 'both'"),
    ],
)
def test_changes_that_files_do_not_allow_are_refused(old: str, new: str, message: str) -> None:
    with pytest.raises((InvalidArgument, UnsupportedFeature), match=message) as caught:
        validate_mapping_change(old, new, is_new_table=False)
    assert isinstance(caught.value, UnsupportedFeature) == (new == NONE)


@given(st.lists(st.sampled_from("abcdef"), min_size=1, unique=True), st.integers(0, 1000))
def test_ids_are_unique_and_above_all_that_were_given(names: list[str], max_id: int) -> None:
    schema = StructType(tuple(StructField(n, ArrayType(StructType((StructField(n, LONG),)))) for n in names))
    mapped, last = assign_column_mapping(schema, ID, max_id)
    assert sorted(_ids(mapped)) == list(range(max_id + 1, last + 1))
    assert len(_ids(mapped)) == 2 * len(names)
