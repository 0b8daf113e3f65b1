from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import InvalidArgument
from slackwater.protocol.schema.column_paths import (
    format_column_path,
    has_path,
    parse_column_path,
    resolve_field,
    resolve_path,
    with_field_at,
    with_type_at,
)
from slackwater.protocol.schema.schema import (
    INTEGER,
    LONG,
    STRING,
    ArrayType,
    MapType,
    StructField,
    StructType,
    rewrite_fields,
    walk_fields,
)

LEAF = StructField("x", LONG)
SCHEMA = StructType(
    (
        StructField("a", StructType((StructField("b.c", LONG), StructField("element", STRING)))),
        StructField("list", ArrayType(StructType((StructField("element", LONG), LEAF)))),
        StructField("map", MapType(StructType((LEAF,)), ArrayType(StructType((LEAF,))))),
        StructField("Case", LONG),
    )
)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a", ("a",)),
        ("a.b", ("a", "b")),
        ("a.`b.c`", ("a", "b.c")),
        ("`a``b`.c", ("a`b", "c")),
        ("list.element.x", ("list", "element", "x")),
        ("a b.ü", ("a b", "ü")),
        ("`a\nb`", ("a\nb",)),
    ],
)
def test_a_path_is_names_between_dots(text: str, path: tuple[str, ...]) -> None:
    assert parse_column_path(text) == path


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", "`a", "a`b", "``", "a.``", "`a`b", "`a`.`"])
def test_a_text_with_an_empty_name_or_an_unpaired_backtick_is_no_path(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"not a column: .* in backticks"):
        parse_column_path(text)


@given(st.lists(st.text(min_size=1), min_size=1).map(tuple))
def test_every_path_survives_its_text(path: tuple[str, ...]) -> None:
    assert parse_column_path(format_column_path(path)) == path


@pytest.mark.parametrize(
    ("path", "spelled", "found"),
    [
        ((), (), "struct"),
        (("CASE",), ("Case",), "long"),
        (("A", "B.C"), ("a", "b.c"), "long"),
        (("list", "ELEMENT", "element"), ("list", "element", "element"), "long"),
        (("map", "Key", "X"), ("map", "key", "x"), "long"),
        (("map", "value", "element"), ("map", "value", "element"), "struct"),
    ],
)
def test_a_path_is_found_whatever_its_case(path: tuple[str, ...], spelled: tuple[str, ...], found: str) -> None:
    assert resolve_path(SCHEMA, path)[0] == spelled
    assert str(resolve_path(SCHEMA, path)[1]).startswith(found)
    assert has_path(SCHEMA, path)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (("nobody",), "no column nobody: the columns are a, list, map, Case"),
        (("a", "x"), r"no column a\.x: a has the fields b\.c, element"),
        (("list", "x"), r"no column list\.x: list is an array, with the step 'element'"),
        (("map", "x"), r"no column map\.x: map is a map, with the steps 'key' and 'value'"),
        (("Case", "x"), r"no column Case\.x: Case has the type long"),
    ],
)
def test_a_path_that_leads_nowhere_says_what_there_is(path: tuple[str, ...], message: str) -> None:
    assert not has_path(SCHEMA, path)
    with pytest.raises(InvalidArgument, match=message):
        resolve_path(SCHEMA, path)
    with pytest.raises(InvalidArgument, match=message):
        with_type_at(SCHEMA, path, lambda found: found)


def test_what_an_array_holds_is_no_field_but_a_field_of_that_name_is() -> None:
    assert resolve_field(SCHEMA, ("A", "Element")) == (("a", "element"), StructField("element", STRING))
    for path in (("list", "element"), ("map", "key"), ("map", "value", "element"), ()):
        with pytest.raises(InvalidArgument, match="not a column: "):
            resolve_field(SCHEMA, path)


@pytest.mark.parametrize(
    "path", [("map", "key", "x"), ("map", "VALUE", "element", "X"), ("list", "element", "element")]
)
def test_one_type_is_replaced_and_nothing_else(path: tuple[str, ...]) -> None:
    changed = with_type_at(SCHEMA, path, lambda _: INTEGER)
    assert resolve_path(changed, path)[1] == INTEGER
    assert with_type_at(changed, path, lambda _: LONG) == SCHEMA
    assert changed != SCHEMA


def test_one_field_is_replaced_and_nothing_else() -> None:
    changed = with_field_at(SCHEMA, ("LIST", "element", "X"), lambda f: StructField("y", f.type))
    assert str(changed) == str(SCHEMA).replace(
        "array<struct<element:long,x:long>>", "array<struct<element:long,y:long>>"
    )


def test_a_schema_stays_a_struct() -> None:
    with pytest.raises(InvalidArgument, match="must be a struct, not long"):
        with_type_at(SCHEMA, (), lambda _: LONG)


def test_fields_are_walked_at_every_depth_each_before_its_own() -> None:
    assert [format_column_path(path) for path, _ in walk_fields(SCHEMA)] == [
        "a",
        "a.`b.c`",
        "a.element",
        "list",
        "list.element.element",
        "list.element.x",
        "map",
        "map.key.x",
        "map.value.element.x",
        "Case",
    ]


def test_fields_are_rewritten_at_every_depth_and_told_their_old_path() -> None:
    seen: list[tuple[str, ...]] = []

    def upper(path: tuple[str, ...], column: StructField) -> StructField:
        seen.append(path)
        return StructField(column.name.upper(), column.type)

    assert str(rewrite_fields(SCHEMA, upper)) == (
        "struct<A:struct<B.C:long,ELEMENT:string>,LIST:array<struct<ELEMENT:long,X:long>>,"
        "MAP:map<struct<X:long>,array<struct<X:long>>>,CASE:long>"
    )
    assert seen == [path for path, _ in walk_fields(SCHEMA)]
