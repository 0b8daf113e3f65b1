from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.protocol.schema.schema import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
    as_nullable,
)
from slackwater.protocol.schema.type_widening import (
    WriteConversion,
    can_change_in_place,
    can_store,
    can_widen,
    is_same_type,
    is_type_widening,
    write_conversion,
)

ATOMS: list[DataType] = [
    BYTE, SHORT, INTEGER, LONG, FLOAT, DOUBLE, STRING, BINARY, BOOLEAN, DATE, TIMESTAMP, TIMESTAMP_NTZ, VOID,
    DecimalType(3, 0), DecimalType(10, 0), DecimalType(10, 2), DecimalType(20, 0), DecimalType(38, 10),
]  # fmt: skip
UPCASTS = {
    "byte": {"short", "integer", "long", "float", "double", "decimal(3,0)", "decimal(10,0)", "decimal(10,2)"},
    "short": {"integer", "long", "float", "double", "decimal(10,0)", "decimal(10,2)"},
    "integer": {"long", "double", "decimal(10,0)"},
    "long": set(),
    "float": {"double"},
    "date": {"timestamp_ntz"},
    "decimal(3,0)": {"decimal(10,0)", "decimal(10,2)"},
    "decimal(10,0)": set(),
    "decimal(10,2)": set(),
}
WIDE_DECIMALS = {"decimal(20,0)", "decimal(38,10)"}
INTO_WIDE_DECIMALS = {"byte", "short", "integer", "long", "decimal(3,0)", "decimal(10,0)"}
STORED_IN = {
    **{name: targets | (WIDE_DECIMALS if name in INTO_WIDE_DECIMALS else set()) for name, targets in UPCASTS.items()},
    "decimal(10,2)": {"decimal(38,10)"},
    "decimal(20,0)": {"decimal(38,10)"},
}


def _struct(**fields: DataType) -> StructType:
    return StructType(tuple(StructField(name, data_type) for name, data_type in fields.items()))


@pytest.mark.parametrize("data", ATOMS, ids=str)
def test_which_plain_types_hold_all_values_of_which(data: DataType) -> None:
    stored = {str(table) for table in ATOMS if can_store(data, table)} - {str(data)}
    everything = {str(table) for table in ATOMS} - {"void"}
    assert stored == (everything if data == VOID else STORED_IN.get(str(data), set()))
    assert write_conversion(data, data) == WriteConversion.SAME


@pytest.mark.parametrize(
    ("data", "table", "conversion"),
    [
        (_struct(a=LONG, b=LONG), _struct(a=LONG, b=LONG), WriteConversion.SAME),
        (_struct(A=LONG, b=INTEGER), _struct(a=LONG, b=LONG), WriteConversion.CAST),
        (_struct(A=LONG), _struct(a=LONG), WriteConversion.CAST),
        (_struct(b=LONG, a=LONG), _struct(a=LONG, b=LONG), WriteConversion.BY_NAME),
        (_struct(b=LONG), _struct(a=LONG, b=LONG), WriteConversion.BY_NAME),
        (_struct(), _struct(a=LONG), WriteConversion.BY_NAME),
        (_struct(c=LONG), _struct(a=LONG), None),
        (_struct(a=STRING), _struct(a=LONG), None),
        (_struct(a=LONG, A=LONG), _struct(a=LONG), None),
        (_struct(a=LONG), LONG, None),
        (LONG, _struct(a=LONG), None),
        (VOID, _struct(a=LONG), WriteConversion.CAST),
        (ArrayType(INTEGER), ArrayType(LONG), WriteConversion.CAST),
        (ArrayType(LONG), ArrayType(LONG, False), WriteConversion.SAME),
        (ArrayType(LONG), ArrayType(INTEGER), None),
        (ArrayType(LONG), MapType(LONG, LONG), None),
        (MapType(BYTE, _struct(b=LONG)), MapType(LONG, _struct(a=LONG, b=LONG)), WriteConversion.BY_NAME),
        (MapType(LONG, VOID), MapType(LONG, STRING), WriteConversion.CAST),
        (MapType(STRING, LONG), MapType(LONG, LONG), None),
        (MapType(LONG, STRING), MapType(LONG, LONG), None),
    ],
    ids=str,
)
def test_how_values_come_into_a_column(data: DataType, table: DataType, conversion: WriteConversion | None) -> None:
    assert write_conversion(data, table) == conversion


def test_a_field_that_the_data_lacks_must_be_nullable() -> None:
    table = StructType((StructField("a", LONG), StructField("b", LONG, False)))
    assert not can_store(_struct(a=LONG), table)
    assert can_store(_struct(a=LONG, b=LONG), table)
    assert can_store(_struct(b=LONG), table)


@pytest.mark.parametrize("old", ATOMS, ids=str)
def test_only_types_that_parquet_stores_alike_change_in_place(old: DataType) -> None:
    legal = {"byte": {"byte", "short", "integer"}, "short": {"short", "integer"}, "integer": {"integer"}}
    everything = {str(new) for new in ATOMS}
    assert {str(new) for new in ATOMS if can_change_in_place(old, new)} == (
        everything if old == VOID else legal.get(str(old), set())
    )


@pytest.mark.parametrize(
    ("old", "new", "widens"),
    [
        (INTEGER, LONG, True),
        (FLOAT, DOUBLE, True),
        (DATE, TIMESTAMP_NTZ, True),
        (DecimalType(5, 2), DecimalType(7, 3), True),
        (DecimalType(5, 2), DecimalType(5, 2), False),
        (INTEGER, DecimalType(10, 0), True),
        (BYTE, SHORT, False),
        (LONG, INTEGER, False),
        (STRING, BINARY, False),
        (DATE, TIMESTAMP, False),
        (VOID, LONG, False),
    ],
)
def test_what_needs_the_type_widening_feature(old: DataType, new: DataType, widens: bool) -> None:
    assert is_type_widening(old, new) == widens


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (_struct(a=LONG), StructType((StructField("a", LONG, False, {"comment": "c"}),)), True),
        (_struct(a=LONG), _struct(A=LONG), False),
        (_struct(a=LONG), _struct(a=LONG, b=LONG), False),
        (_struct(a=LONG), _struct(a=INTEGER), False),
        (ArrayType(LONG), ArrayType(LONG, False), True),
        (MapType(LONG, ArrayType(LONG)), MapType(LONG, ArrayType(LONG, False), False), True),
        (MapType(LONG, LONG), MapType(LONG, STRING), False),
        (ArrayType(LONG), LONG, False),
    ],
)
def test_types_are_the_same_whatever_their_nullability(one: DataType, other: DataType, same: bool) -> None:
    assert is_same_type(one, other) == is_same_type(other, one) == same


TYPES = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        inner.map(ArrayType),
        st.tuples(inner, inner).map(lambda pair: MapType(*pair)),
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(
            lambda fields: StructType(tuple(StructField(n, t) for n, t in fields.items()))
        ),
    ),
    max_leaves=5,
)


@given(TYPES, TYPES, TYPES)
def test_storing_is_an_order(one: DataType, two: DataType, three: DataType) -> None:
    assert write_conversion(one, one) == WriteConversion.SAME
    if can_store(one, two) and can_store(two, three):
        assert can_store(one, three)
    if can_store(one, two) and can_store(two, one):
        assert write_conversion(one, two) is not None


@given(TYPES)
def test_nullability_makes_no_difference_to_what_is_stored(data_type: DataType) -> None:
    strict = StructType((StructField("c", data_type, False),))
    assert write_conversion(strict, as_nullable(strict)) == WriteConversion.SAME
    assert write_conversion(as_nullable(strict), strict) == WriteConversion.SAME
    assert is_same_type(strict, replace(strict))


@pytest.mark.parametrize(
    ("old", "new", "widens"),
    [
        (BYTE, SHORT, True),
        (SHORT, LONG, True),
        (INTEGER, DOUBLE, True),
        (LONG, DOUBLE, False),
        (BYTE, FLOAT, False),
        (FLOAT, DOUBLE, True),
        (DATE, TIMESTAMP_NTZ, True),
        (DATE, TIMESTAMP, False),
        (VOID, LONG, False),
        (BYTE, DecimalType(9, 0), False),
        (INTEGER, DecimalType(12, 2), True),
        (LONG, DecimalType(19, 0), False),
        (LONG, DecimalType(22, 2), True),
        (DOUBLE, DecimalType(38, 2), False),
        (DecimalType(4, 1), DecimalType(6, 3), True),
        (DecimalType(4, 1), DecimalType(5, 3), False),
        (DecimalType(4, 1), DOUBLE, False),
        (LONG, INTEGER, False),
    ],
)
def test_what_a_column_of_a_table_with_the_feature_may_become(old: DataType, new: DataType, widens: bool) -> None:
    """Source: "Type Widening" of the Delta protocol."""
    assert can_widen(old, new) == widens
