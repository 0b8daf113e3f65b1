from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import InvalidArgument
from slackwater.protocol.schema.schema import (
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
    walk_fields,
)
from slackwater.protocol.schema.type_widening import can_change_in_place, can_store
from slackwater.protocol.schema_changes.merge_schema import merge_schemas, without_internal_metadata


def _struct(**fields: DataType) -> StructType:
    return StructType(tuple(StructField(name, data_type) for name, data_type in fields.items()))


def _merged(table: StructType, data: StructType) -> StructType:
    return merge_schemas(table, data, allow_new_columns=True, widen=True)


def _holders(inner: DataType) -> list[tuple[str, DataType]]:
    return [
        ("c", inner),
        ("c.x", _struct(x=inner)),
        ("c.element", ArrayType(inner)),
        ("c.value", MapType(STRING, inner)),
        ("c.element.x", ArrayType(_struct(x=inner))),
        ("c.value.element.x", MapType(STRING, ArrayType(_struct(x=inner)))),
    ]


def _places(*inner: DataType) -> list[tuple[str, list[DataType]]]:
    return [(held[0][0], [data_type for _, data_type in held]) for held in zip(*map(_holders, inner), strict=True)]


def test_the_table_keeps_its_spelling_order_nullability_and_metadata() -> None:
    table = StructType((StructField("Id", LONG, False, {"comment": "key"}), StructField("name", STRING)))
    data = StructType((StructField("NAME", STRING, False, {"comment": "other"}), StructField("ID", LONG)))
    assert merge_schemas(table, data, allow_new_columns=False, widen=False) == table


def test_a_column_that_the_data_lacks_stays() -> None:
    assert merge_schemas(_struct(a=LONG, b=LONG), _struct(b=LONG), allow_new_columns=False, widen=False) == _struct(
        a=LONG, b=LONG
    )


@pytest.mark.parametrize(
    ("table", "data", "merged"),
    [
        (_struct(a=LONG), _struct(b=LONG, a=LONG, c=LONG), _struct(a=LONG, b=LONG, c=LONG)),
        (_struct(s=_struct(a=LONG), z=LONG), _struct(s=_struct(b=LONG)), _struct(s=_struct(a=LONG, b=LONG), z=LONG)),
        (
            _struct(l=ArrayType(_struct(a=LONG))),
            _struct(l=ArrayType(_struct(b=LONG, A=LONG))),
            _struct(l=ArrayType(_struct(a=LONG, b=LONG))),
        ),
        (
            _struct(m=MapType(STRING, _struct(a=LONG))),
            _struct(m=MapType(STRING, _struct(b=LONG))),
            _struct(m=MapType(STRING, _struct(a=LONG, b=LONG))),
        ),
        (_struct(a=LONG), _struct(v=VOID), _struct(a=LONG, v=VOID)),
    ],
    ids=str,
)
def test_new_columns_go_to_the_end_of_their_struct(table: StructType, data: StructType, merged: StructType) -> None:
    assert _merged(table, data) == merged


def test_a_new_column_is_nullable_and_leaves_behind_what_another_table_said_of_it() -> None:
    internal = {
        "delta.columnMapping.id": 7,
        "delta.generationExpression": "1",
        "delta.identity.start": 1,
        "CURRENT_DEFAULT": "1",
        "Delta.reserved": "1",
        "__CHAR_VARCHAR_TYPE_STRING": "char(3)",
        "spark.watermarkDelayMs": 5,
    }
    inner = StructType((StructField("x", ArrayType(LONG, False), False, {**internal, "comment": "inside"}),))
    data = StructType((StructField("new", inner, False, {**internal, "comment": "said", "mine": 1}),))
    merged = _merged(_struct(a=LONG), data).get("new")
    assert merged == StructField(
        "new",
        StructType((StructField("x", ArrayType(LONG), True, {"comment": "inside"}),)),
        True,
        {"comment": "said", "mine": 1},
    )
    kept = without_internal_metadata(data)
    assert kept.fields[0].nullable is False
    assert [column.metadata for _, column in walk_fields(kept)] == [
        {"comment": "said", "mine": 1},
        {"comment": "inside"},
    ]


def test_new_columns_without_leave_are_all_named() -> None:
    table = _struct(a=LONG, s=_struct(a=LONG))
    data = _struct(a=LONG, b=LONG, s=_struct(a=LONG, **{"c.d": LONG}))
    with pytest.raises(InvalidArgument, match=r"the table lacks: s\.`c\.d`, b\. .*Set the option mergeSchema"):
        merge_schemas(table, data, allow_new_columns=False, widen=True)


def test_a_map_key_gets_no_new_fields() -> None:
    table, data = _struct(m=MapType(_struct(a=LONG), LONG)), _struct(m=MapType(_struct(a=LONG, b=LONG), LONG))
    with pytest.raises(InvalidArgument, match=r"m\.key\.b would be a new column inside the key of a map"):
        _merged(table, data)


@pytest.mark.parametrize(
    "data", [_struct(n=_struct(v=VOID)), _struct(n=ArrayType(VOID)), _struct(s=_struct(v=VOID)), _struct(n=_struct())]
)
def test_a_new_column_that_no_file_can_hold_is_refused(data: StructType) -> None:
    with pytest.raises(InvalidArgument, match=r"of type void inside another column|a struct without fields"):
        _merged(_struct(s=_struct(a=LONG)), data)


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [(BYTE, SHORT), (BYTE, INTEGER), (SHORT, INTEGER), (VOID, STRING), (VOID, _struct(a=LONG))],
    ids=str,
)
def test_the_legal_widening_needs_leave_and_goes_one_way(narrow: DataType, wide: DataType) -> None:
    assert _merged(_struct(a=narrow), _struct(a=wide)) == _struct(a=wide)
    assert _merged(_struct(a=wide), _struct(a=narrow)) == _struct(a=wide)
    with pytest.raises(InvalidArgument, match=r"column a is of type .* Set the option\s+mergeSchema to true"):
        merge_schemas(_struct(a=narrow), _struct(a=wide), allow_new_columns=True, widen=False)


@pytest.mark.parametrize(("place", "types"), _places(BYTE, INTEGER))
def test_widening_goes_to_every_depth(place: str, types: list[DataType]) -> None:
    assert _merged(_struct(c=types[0]), _struct(c=types[1])) == _struct(c=types[1]), place


@pytest.mark.parametrize(
    ("table", "data"),
    [
        (LONG, INTEGER),
        (DOUBLE, FLOAT),
        (INTEGER, BYTE),
        (DecimalType(10, 2), DecimalType(5, 1)),
        (DecimalType(20, 0), LONG),
        (LONG, VOID),
        (_struct(a=LONG), VOID),
        (ArrayType(LONG), ArrayType(INTEGER)),
    ],
    ids=str,
)
@pytest.mark.parametrize("widen", [True, False])
def test_narrower_data_takes_the_type_of_the_table(table: DataType, data: DataType, widen: bool) -> None:
    assert merge_schemas(
        _struct(a=table), _struct(a=data), allow_new_columns=False, widen=widen
    ) == _struct(a=table)  # fmt: skip


@pytest.mark.parametrize(("place", "types"), _places(LONG, STRING))
def test_types_that_do_not_fit_are_named_with_their_place(place: str, types: list[DataType]) -> None:
    with pytest.raises(
        InvalidArgument,
        match=rf"column {place} is of type long in the table and of type string .*Cast the data to long, or overwrite",
    ):
        _merged(_struct(c=types[0]), _struct(c=types[1]))


@pytest.mark.parametrize(
    ("table", "data"),
    [
        (INTEGER, LONG),
        (FLOAT, DOUBLE),
        (DOUBLE, LONG),
        (TIMESTAMP, DATE),
        (DecimalType(5, 2), DecimalType(5, 1)),
        (STRING, LONG),
        (_struct(a=LONG), LONG),
        (ArrayType(LONG), MapType(LONG, LONG)),
    ],
    ids=str,
)
def test_other_types_never_change(table: DataType, data: DataType) -> None:
    with pytest.raises(InvalidArgument, match="which does not fit"):
        _merged(_struct(a=table), _struct(a=data))


@pytest.mark.parametrize("metadata", [{"delta.generationExpression": "1"}, {"delta.identity.start": 1}])
def test_what_the_table_computes_keeps_its_type(metadata: dict[str, object]) -> None:
    table = StructType((StructField("a", BYTE, True, metadata),))
    with pytest.raises(InvalidArgument, match=r"column a .* Its type cannot change"):
        _merged(table, _struct(a=SHORT))
    assert _merged(StructType((replace(table.fields[0], type=SHORT),)), _struct(a=BYTE)).fields[0].type == SHORT


def test_fixed_columns_keep_their_type_with_all_inside() -> None:
    table, data = _struct(s=_struct(x=BYTE, y=BYTE)), _struct(s=_struct(x=BYTE, y=SHORT))
    assert merge_schemas(table, data, allow_new_columns=True, widen=True, fixed=[("s", "x")]) == data
    for fixed in (("s",), ("s", "y")):
        with pytest.raises(InvalidArgument, match=r"column s\.y .* Its type cannot change"):
            merge_schemas(table, data, allow_new_columns=True, widen=True, fixed=[fixed])


def test_names_that_differ_in_case_alone_have_no_column_to_go_to() -> None:
    with pytest.raises(InvalidArgument, match=r"columns \['a', 'A'\] of the data differ only in case"):
        _merged(_struct(a=LONG), _struct(a=LONG, A=LONG))
    with pytest.raises(InvalidArgument, match=r"columns \['a', 'A'\] in s of the data"):
        _merged(_struct(s=_struct(a=LONG)), _struct(s=_struct(a=LONG, A=LONG)))
    with pytest.raises(InvalidArgument, match=r"columns \['b', 'B'\] of the data"):
        _merged(_struct(a=LONG), _struct(b=LONG, B=LONG))
    with pytest.raises(InvalidArgument, match=r"columns \['a', 'A'\] of the table"):
        _merged(_struct(a=LONG, A=LONG), _struct(a=LONG))


def test_a_nested_column_that_must_not_be_null_must_be_in_the_data() -> None:
    strict = StructType((StructField("x", LONG, False), StructField("y", LONG)))
    with pytest.raises(InvalidArgument, match=r"s in the data lacks \['x'\], which must not be null"):
        _merged(_struct(s=strict), _struct(s=_struct(y=LONG)))
    assert _merged(_struct(s=strict), _struct(s=_struct(x=LONG))) == _struct(s=strict)
    assert _merged(strict, _struct(y=LONG)) == strict


LEAVES: st.SearchStrategy[DataType] = st.sampled_from(
    [BYTE, SHORT, INTEGER, LONG, FLOAT, DOUBLE, STRING, DecimalType(5, 0), DecimalType(12, 2)]
)


def _structs(inner: st.SearchStrategy[DataType], least: int = 1) -> st.SearchStrategy[StructType]:
    # Names that meet in another case, too.
    names = st.lists(st.sampled_from("abcABC"), min_size=least, max_size=3, unique_by=str.lower)
    return names.flatmap(
        lambda found: st.tuples(*(inner for _ in found)).map(
            lambda types: StructType(tuple(StructField(n, t) for n, t in zip(found, types, strict=True)))
        )
    )


SCHEMAS = _structs(
    st.recursive(
        LEAVES,
        lambda inner: st.one_of(_structs(inner), inner.map(ArrayType), inner.map(lambda value: MapType(STRING, value))),
        max_leaves=4,
    )
)


def _try(table: StructType | None, data: StructType | None) -> StructType | None:
    try:
        return None if table is None or data is None else _merged(table, data)
    except InvalidArgument:
        return None


def _leaf_types(schema: StructType) -> dict[tuple[str, ...], DataType]:
    return {path: column.type for path, column in walk_fields(schema)}


@given(SCHEMAS, SCHEMAS)
def test_merging_twice_is_merging_once_and_the_data_fits(table: StructType, data: StructType) -> None:
    merged = _try(table, data)
    if merged is not None:
        assert _merged(merged, data) == merged
        assert _merged(merged, table) == merged
        assert can_store(data, merged)
        assert can_store(table, merged)


@given(SCHEMAS, SCHEMAS)
def test_a_type_that_is_there_changes_in_the_legal_way_alone(table: StructType, data: StructType) -> None:
    merged = _try(table, data)
    if merged is not None:
        after = _leaf_types(merged)
        for path, before in _leaf_types(table).items():
            if not isinstance(before, (StructType, ArrayType, MapType)):
                assert after[path] == before or can_change_in_place(before, after[path])
        assert merged.names[: len(table)] == table.names


@given(SCHEMAS, SCHEMAS, SCHEMAS)
def test_the_order_of_merging_makes_no_difference(one: StructType, two: StructType, three: StructType) -> None:
    left, right = _try(_try(one, two), three), _try(one, _try(two, three))
    if left is not None and right is not None:
        assert left == right
