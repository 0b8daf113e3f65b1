from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import InvalidArgument
from slackwater.protocol.actions.actions import Metadata, Protocol
from slackwater.protocol.features.column_mapping import FIELD_ID, ID, NAME, NONE, PHYSICAL_NAME
from slackwater.protocol.features.column_mapping_ids import NESTED_IDS, with_mapped_schema
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.properties.properties import COLUMN_MAPPING_MODE, DATA_SKIPPING_STATS_COLUMNS, MAX_COLUMN_ID
from slackwater.protocol.schema.schema import (
    LONG,
    STRING,
    VOID,
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    parse_schema,
    schema_to_json,
    walk_fields,
)
from slackwater.protocol.schema_changes.alter_columns import (
    FIRST,
    ColumnPosition,
    NewColumn,
    add_columns,
    drop_columns,
    move_column,
    rename_column,
)


def _struct(**fields: DataType) -> StructType:
    return StructType(tuple(StructField(name, data_type) for name, data_type in fields.items()))


SCHEMA = _struct(
    a=LONG,
    b=LONG,
    s=_struct(x=LONG, y=_struct(z=LONG, w=LONG)),
    arr=ArrayType(_struct(x=LONG, y=LONG)),
    m=MapType(_struct(k=LONG, l=LONG), _struct(v=LONG, u=LONG)),
    p=LONG,
)


def _names() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"col-{next(numbers)}"


def _table(mode: str = NAME, schema: StructType = SCHEMA, **configuration: str) -> TableConfiguration:
    configuration = {**configuration, **({} if mode == NONE else {COLUMN_MAPPING_MODE: mode})}
    bare = Metadata("m", schema_to_json(schema), ("p",) if schema.get("p") else (), configuration)
    return with_mapped_schema(TableConfiguration(Protocol(2, 5), bare), schema, mode, physical=_names())


def _with(table: TableConfiguration, **configuration: str) -> TableConfiguration:
    merged = {**table.metadata.configuration, **configuration}
    return table.changed(metadata=replace(table.metadata, configuration=merged))


def _schema(table: TableConfiguration) -> StructType:
    return parse_schema(table.metadata.schema_string)


def _column(table: TableConfiguration, *path: str) -> StructField:
    return next(column for found, column in walk_fields(_schema(table)) if found == path)


def _new(name: str, data_type: DataType = LONG, metadata: Mapping[str, object] | None = None) -> StructField:
    return StructField(name, data_type, True, metadata or {})


@pytest.mark.parametrize(
    ("new", "names"),
    [
        (NewColumn(_new("n")), ["a", "b", "s", "arr", "m", "p", "n"]),
        (NewColumn(_new("n"), (), FIRST), ["n", "a", "b", "s", "arr", "m", "p"]),
        (NewColumn(_new("n"), (), ColumnPosition("B")), ["a", "b", "n", "s", "arr", "m", "p"]),
        (NewColumn(_new("n"), (), ColumnPosition("p")), ["a", "b", "s", "arr", "m", "p", "n"]),
    ],
)
def test_a_column_is_added_where_it_is_wanted(new: NewColumn, names: list[str]) -> None:
    assert list(_schema(add_columns(_table(NONE), [new])).names) == names


@pytest.mark.parametrize(
    ("parent", "found"),
    [
        (("S",), "s:struct<x:long,n:long,y:struct<z:long,w:long>>"),
        (("s", "Y"), "y:struct<z:long,w:long,n:long>"),
        (("arr", "element"), "arr:array<struct<x:long,n:long,y:long>>"),
        (("m", "value"), "struct<v:long,u:long,n:long>>"),
        (("m", "key"), "map<struct<k:long,l:long,n:long>"),
    ],
)
def test_a_field_is_added_to_a_struct_at_any_depth(parent: tuple[str, ...], found: str) -> None:
    position = ColumnPosition("x") if parent[0].lower() in ("s", "arr") and parent != ("s", "Y") else None
    added = add_columns(_table(NONE), [NewColumn(_new("n"), parent, position)])
    assert found in str(_schema(added))


def test_a_later_column_may_build_on_an_earlier_one() -> None:
    new = [
        NewColumn(_new("t", _struct(i=LONG))),
        NewColumn(_new("j", metadata={"comment": "said"}), ("t",)),
        NewColumn(_new("u"), (), ColumnPosition("t")),
    ]
    added = add_columns(_table(NAME, _struct(a=LONG)), new)
    assert str(_schema(added)) == "struct<a:long,t:struct<i:long,j:long>,u:long>"
    assert _column(added, "t", "j").metadata["comment"] == "said"
    ids = [column.metadata[FIELD_ID] for _, column in walk_fields(_schema(added))]
    assert sorted(ids) == [1, 2, 3, 4, 5]
    assert added.metadata.configuration[MAX_COLUMN_ID] == "5"


def test_added_columns_bring_no_ids_from_elsewhere() -> None:
    inner = _struct(i=LONG)
    foreign = StructType((replace(inner.fields[0], metadata={FIELD_ID: 1, PHYSICAL_NAME: "theirs"}),))
    new = StructField("n", foreign, True, {FIELD_ID: 2, PHYSICAL_NAME: "a"})
    added = add_columns(_table(NAME, _struct(a=LONG)), [NewColumn(new)], physical=lambda: "fresh")
    assert _column(added, "n").metadata == {FIELD_ID: 2, PHYSICAL_NAME: "fresh"}
    assert _column(added, "n", "i").metadata == {FIELD_ID: 3, PHYSICAL_NAME: "fresh"}


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (NewColumn(_new("A")), "a column 'a' already exists"),
        (NewColumn(_new("X"), ("s",)), "a column 'x' in s already exists"),
        (NewColumn(_new("n"), ("nobody",)), "no column nobody"),
        (NewColumn(_new("n"), ("arr",)), r"to arr, which is of type array.*\. Write arr\.element"),
        (NewColumn(_new("n"), ("m",)), r"to m, which is of type map.*\. Write m\.value"),
        (NewColumn(_new("n"), ("a",)), "to a, which is of type long, not a struct"),
        (NewColumn(_new("n"), (), ColumnPosition("x")), "after 'x': there is no such column, only"),
        (NewColumn(_new("n"), ("s",), ColumnPosition("a")), r"after 'a': there is no such column in s, only"),
        (NewColumn(replace(_new("n"), nullable=False)), "column n is NOT NULL"),
        (NewColumn(_new("n", StructType((replace(_new("i"), nullable=False),)))), r"column n\.i is NOT NULL"),
        (NewColumn(_new("n", metadata={"CURRENT_DEFAULT": "1"})), "cannot be added with a default value"),
        (NewColumn(_new("n", metadata={"EXISTS_DEFAULT": "1"})), "cannot be added with a default value"),
        (NewColumn(_new("n", metadata={"delta.generationExpression": "1"})), "column n is generated"),
        (NewColumn(_new("n", metadata={"delta.identity.start": 1})), "column n is generated"),
        (NewColumn(_new("n", metadata={"delta.invariants": "{}"})), "column n is generated"),
        (NewColumn(_new("n", _struct(v=VOID))), r"n\.v is of type void"),
        (NewColumn(_new("n", ArrayType(StructType()))), r"n\.element is a struct without fields"),
        (NewColumn(_new("n n"), ("s",)), r"column s\.`n n`: .* set the table property delta\.columnMapping\.mode"),
        (NewColumn(_new("")), "empty name"),
        (NewColumn(_new("n", _struct(i=LONG, I=LONG))), "found 'i' and 'I' in n"),
    ],
)
def test_a_column_that_cannot_be_added_is_refused(new: NewColumn, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        add_columns(_table(NONE), [new])


def test_one_column_is_added_once() -> None:
    with pytest.raises(InvalidArgument, match="a column 'Big' already exists"):
        add_columns(_table(NONE, _struct(Big=LONG)), [NewColumn(_new("big"))])
    with pytest.raises(InvalidArgument, match="a column 'n' already exists"):
        add_columns(_table(NONE), [NewColumn(_new("n")), NewColumn(_new("N"))])


def test_names_of_the_change_feed_are_reserved_on_its_tables_alone() -> None:
    new = [NewColumn(_new("_change_type"))]
    on = _table(NAME, SCHEMA, **{"delta.enableChangeDataFeed": "true"})
    with pytest.raises(InvalidArgument, match="reserved while the change data feed"):
        add_columns(on, new)
    with pytest.raises(InvalidArgument, match="reserved while the change data feed"):
        rename_column(on, ("a",), "_commit_version")
    assert "_change_type" in _schema(add_columns(_table(), new)).names


def test_columns_are_added_beside_ones_whose_names_would_be_refused_today() -> None:
    odd = _struct(**{"a b": LONG})
    assert _schema(add_columns(_table(NONE, odd), [NewColumn(_new("n"))])).names == ("a b", "n")


@pytest.mark.parametrize("mode", [NAME, ID])
@pytest.mark.parametrize(
    ("path", "new_path"),
    [
        (("a",), ("n n",)),
        (("A",), ("A",)),
        (("s", "x"), ("s", "n")),
        (("s", "y"), ("s", "n")),
        (("arr", "element", "x"), ("arr", "element", "n")),
        (("m", "key", "k"), ("m", "key", "n")),
        (("m", "value", "v"), ("m", "value", "n")),
    ],
)
def test_a_renamed_column_keeps_its_id_and_physical_name(
    path: tuple[str, ...], new_path: tuple[str, ...], mode: str
) -> None:
    before = _table(mode)
    after = rename_column(before, path, new_path[-1])
    old = _column(before, *(step.lower() for step in path))
    assert _column(after, *new_path) == replace(old, name=new_path[-1])
    assert after.metadata.configuration == before.metadata.configuration
    assert rename_column(after, new_path, old.name) == before


def test_renaming_to_the_same_name_changes_nothing() -> None:
    assert rename_column(_table(), ("A",), "a") == _table()


def test_partition_columns_follow_a_rename() -> None:
    after = rename_column(_table(), ("P",), "day")
    assert after.metadata.partition_columns == ("day",)
    assert rename_column(_table(), ("a",), "q").metadata.partition_columns == ("p",)
    nested = _table(NAME, _struct(a=LONG, p=LONG, s=_struct(p=LONG)))
    assert rename_column(nested, ("s", "p"), "q").metadata.partition_columns == ("p",)


def test_the_list_of_columns_with_statistics_follows() -> None:
    def listed(table: TableConfiguration) -> str:
        return table.metadata.configuration[DATA_SKIPPING_STATS_COLUMNS]

    before = _table(NAME, SCHEMA, **{DATA_SKIPPING_STATS_COLUMNS: "a, S.x,s.y.z,`b`"})
    assert listed(rename_column(before, ("s",), "t,t")) == "a,`t,t`.x,`t,t`.y.z,`b`"
    assert listed(rename_column(before, ("s", "y"), "q")) == "a,S.x,s.q.z,`b`"
    # Spark's parser reads no other letters without backticks.
    assert listed(rename_column(before, ("a",), "größe")) == "`größe`,S.x,s.y.z,`b`"
    assert listed(drop_columns(before, [("s",)])) == "a,`b`"
    alone = _table(NAME, SCHEMA, **{DATA_SKIPPING_STATS_COLUMNS: "s.x"})
    assert DATA_SKIPPING_STATS_COLUMNS not in drop_columns(alone, [("s", "x")]).metadata.configuration
    for other in ("", "`a", "s.x,,b"):
        assert listed(drop_columns(_table(NAME, SCHEMA, **{DATA_SKIPPING_STATS_COLUMNS: other}), [("a",)])) == other


def test_ids_of_elements_stay_findable_after_a_rename() -> None:
    mapped = {FIELD_ID: 1, PHYSICAL_NAME: "col-1"}
    by_name = StructField("a", ArrayType(LONG), True, {**mapped, NESTED_IDS[0]: {"a.element": 2}})
    by_physical = replace(by_name, metadata={**mapped, NESTED_IDS[0]: {"col-1.element": 2}})
    for column, key in ((by_name, "n.element"), (by_physical, "col-1.element")):
        named = Metadata("m", schema_to_json(StructType((column,))), configuration={COLUMN_MAPPING_MODE: NAME})
        before = TableConfiguration(Protocol(2, 5), named)
        assert _column(rename_column(before, ("a",), "n"), "n").metadata[NESTED_IDS[0]] == {key: 2}


@pytest.mark.parametrize(
    ("path", "name", "message"),
    [
        (("nobody",), "n", "no column nobody"),
        (("arr", "element"), "n", "not a column: "),
        (("a",), "B", "a column 'b' already exists"),
        (("s", "x"), "Y", "a column 'y' in s already exists"),
        (("a",), "", "empty name"),
        (("a",), "__slackwater_x", "reserved"),
    ],
)
def test_a_rename_that_makes_no_sense_is_refused(path: tuple[str, ...], name: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        rename_column(_table(), path, name)


def test_without_column_mapping_columns_are_neither_renamed_nor_dropped() -> None:
    remedy = r"without column mapping.*\. Set the table property delta\.columnMapping\.mode to name first"
    with pytest.raises(InvalidArgument, match=f"column a cannot be renamed {remedy}"):
        rename_column(_table(NONE), ("a",), "n")
    with pytest.raises(InvalidArgument, match=f"column a cannot be dropped {remedy}"):
        drop_columns(_table(NONE), [("a",)])


def _ruled(**rules: dict[str, object]) -> TableConfiguration:
    names = ["a", "b", "c"]
    columns = [StructField(name, LONG, True, rules.get(name, {})) for name in names]
    return _table(NAME, StructType((*columns, *_struct(s=_struct(x=LONG, y=LONG)))))


RULES = [
    (_with(_ruled(), **{"delta.constraints.low": "A > 0"}), "CHECK constraint low reads it"),
    (_with(_ruled(), **{"delta.constraints.low": "a > > 0"}), "CHECK constraint low reads it"),
    (_ruled(b={"delta.generationExpression": "a + 1"}), "generated column b reads it"),
    (_ruled(b={"delta.invariants": '{"expression":{"expression":"a > 3"}}'}), "invariant of column b reads it"),
]


@pytest.mark.parametrize(("table", "message"), RULES)
def test_what_a_rule_reads_is_neither_renamed_nor_dropped(table: TableConfiguration, message: str) -> None:
    with pytest.raises(InvalidArgument, match=f"column a cannot be renamed: {message}"):
        rename_column(table, ("a",), "n")
    with pytest.raises(InvalidArgument, match=f"column a cannot be dropped: {message}"):
        drop_columns(table, [("a",)])
    assert "n" in _schema(rename_column(table, ("c",), "n")).names
    assert "c" not in _schema(drop_columns(table, [("c",)])).names


def test_a_rule_about_a_field_holds_the_struct_and_not_its_sibling() -> None:
    table = _with(_ruled(), **{"delta.constraints.low": "s.x > 0"})
    for path in (("s",), ("s", "x")):
        with pytest.raises(InvalidArgument, match="CHECK constraint low reads it"):
            rename_column(table, path, "n")
        with pytest.raises(InvalidArgument, match="CHECK constraint low reads it"):
            drop_columns(table, [path])
    assert rename_column(table, ("s", "y"), "n") != table
    assert drop_columns(table, [("s", "y")]) != table


def test_a_generated_column_is_renamed_itself() -> None:
    table = _ruled(b={"delta.generationExpression": "a + 1"})
    assert _column(rename_column(table, ("b",), "n"), "n").metadata["delta.generationExpression"] == "a + 1"


@pytest.mark.parametrize(
    ("paths", "found"),
    [
        ([("A",)], "struct<b:long,s"),
        ([("s", "Y", "z")], "s:struct<x:long,y:struct<w:long>>"),
        ([("s", "x"), ("s", "y")], None),
        ([("s", "x"), ("s",)], "struct<a:long,b:long,arr"),
        ([("s", "x"), ("s", "y"), ("s",)], "struct<a:long,b:long,arr"),
        ([("arr", "element", "x"), ("a",), ("a",)], "arr:array<struct<y:long>>"),
        ([("m", "value", "v")], "map<struct<k:long,l:long>,struct<u:long>>"),
    ],
)
def test_columns_are_dropped_at_any_depth(paths: list[tuple[str, ...]], found: str | None) -> None:
    if found is None:
        with pytest.raises(
            InvalidArgument, match=r"column s\.x cannot be dropped: s would have no field left\. Drop s"
        ):
            drop_columns(_table(), paths)
    else:
        before = _table()
        after = drop_columns(before, paths)
        assert found in str(_schema(after))
        assert after.metadata.configuration == before.metadata.configuration


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (("nobody",), "no column nobody"),
        (("P",), "column p cannot be dropped: the table is partitioned by it"),
        (("b",), "column b cannot be dropped: the table is clustered by it"),
        (("s", "y"), r"column s\.y cannot be dropped: the table is clustered by it"),
        (("s", "y", "z"), r"column s\.y\.z cannot be dropped: the table is clustered by it"),
        (("m", "key", "k"), "a part of a map's key"),
        (("arr", "element"), "not a column: "),
    ],
)
def test_columns_that_the_table_stands_on_are_not_dropped(path: tuple[str, ...], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        drop_columns(_table(), [path], clustering=[("B",), ("s", "y", "z")])


def test_a_field_called_key_is_no_map_key() -> None:
    table = _table(NAME, _struct(key=_struct(key=LONG, b=LONG)))
    assert str(_schema(drop_columns(table, [("key", "key")]))) == "struct<key:struct<b:long>>"


def test_some_column_stays_in_the_files() -> None:
    with pytest.raises(InvalidArgument, match=r"columns \['a'\] cannot be dropped: no column would be left"):
        drop_columns(_table(NAME, _struct(a=LONG, p=LONG)), [("a",)])
    with pytest.raises(InvalidArgument, match="no column would be left"):
        drop_columns(_table(NAME, _struct(a=LONG, v=VOID)), [("a",)])
    with pytest.raises(InvalidArgument, match="no column would be left"):
        drop_columns(_table(NAME, _struct(a=LONG, b=LONG)), [("a",), ("b",)])


def test_columns_that_are_not_there_are_passed_over_on_request() -> None:
    before = _table()
    assert drop_columns(before, [("nobody",)], if_exists=True) == before
    assert "a" not in _schema(drop_columns(before, [("nobody",), ("a",)], if_exists=True)).names


def test_a_generated_column_goes_with_what_it_reads() -> None:
    table = _ruled(b={"delta.generationExpression": "a + 1"}, c={"delta.invariants": "c"})
    assert _schema(drop_columns(table, [("a",), ("b",)])).names == ("c", "s")
    assert _schema(drop_columns(table, [("b",)])).names == ("a", "c", "s")
    assert _schema(drop_columns(table, [("c",)])).names == ("a", "b", "s")


@pytest.mark.parametrize(
    ("path", "position", "found"),
    [
        (("p",), FIRST, "struct<p:long,a:long,b:long"),
        (("A",), ColumnPosition("B"), "struct<b:long,a:long,s"),
        (("a",), ColumnPosition("p"), "p:long,a:long>"),
        (("s", "y", "w"), FIRST, "y:struct<w:long,z:long>"),
        (("arr", "element", "x"), ColumnPosition("y"), "struct<y:long,x:long>"),
    ],
)
def test_a_column_moves_among_its_siblings(path: tuple[str, ...], position: ColumnPosition, found: str) -> None:
    for mode in (NONE, NAME):
        after = move_column(_table(mode), path, position)
        assert found in str(_schema(after))
        assert {p: c.metadata for p, c in walk_fields(_schema(after))} == {
            p: c.metadata for p, c in walk_fields(_schema(_table(mode)))
        }


@pytest.mark.parametrize(
    ("path", "position", "message"),
    [
        (("a",), ColumnPosition("A"), "column a cannot be placed after itself"),
        (("a",), ColumnPosition("x"), "after 'x': there is no such column"),
        (("nobody",), FIRST, "no column nobody"),
        (("m", "key"), FIRST, "not a column: "),
    ],
)
def test_a_move_that_leads_nowhere_is_refused(path: tuple[str, ...], position: ColumnPosition, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        move_column(_table(), path, position)


STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "drop", "rename"]), st.sampled_from("abcdef"), st.sampled_from("ghijkl")),
    max_size=12,
)


@given(STEPS, st.sampled_from([NAME, ID]))
def test_no_id_or_physical_name_is_ever_given_twice(steps: list[tuple[str, str, str]], mode: str) -> None:
    table = _table(mode, _struct(z=LONG))
    owner: dict[object, int] = {}
    column_of: dict[str, int] = {"z": 0}
    number = 0
    for what, name, other in steps:
        try:
            if what == "add":
                table = add_columns(table, [NewColumn(_new(name, _struct(i=STRING)))])
                number += 1
                column_of[name] = number
            elif what == "drop":
                table = drop_columns(table, [(name,)])
                del column_of[name]
            else:
                table = rename_column(table, (name,), other)
                column_of[other] = column_of.pop(name)
        except InvalidArgument:
            continue
        for column in _schema(table):
            for key in (column.metadata[FIELD_ID], column.metadata[PHYSICAL_NAME]):
                assert owner.setdefault(key, column_of[column.name]) == column_of[column.name]
    assert sorted(column_of) == sorted(_schema(table).names)


@given(st.sampled_from([path for path, _ in walk_fields(SCHEMA)]), st.text(min_size=1, max_size=5))
def test_renaming_there_and_back_is_nothing(path: tuple[str, ...], name: str) -> None:
    before = _table()
    try:
        there = rename_column(before, path, name)
    except InvalidArgument:
        return
    assert rename_column(there, (*path[:-1], name), path[-1]) == before
