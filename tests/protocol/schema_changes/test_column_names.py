from __future__ import annotations

import pytest

from slackwater.errors import InvalidArgument
from slackwater.protocol.features.column_mapping import ID, NAME, NONE
from slackwater.protocol.schema.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    LONG,
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
)
from slackwater.protocol.schema_changes.column_names import (
    validate_column_names,
    validate_column_types,
    validate_partition_columns,
)


def _struct(*names: str) -> StructType:
    return StructType(tuple(StructField(name, LONG) for name in names))


def _placed(struct: StructType, where: str) -> StructType:
    kinds: dict[str, DataType] = {
        "s": struct,
        "s.element": ArrayType(struct),
        "s.key": MapType(struct, LONG),
        "s.value": MapType(LONG, struct),
        "s.value.element": MapType(LONG, ArrayType(struct)),
    }
    return StructType((StructField("s", kinds[where]),))


PLACES = ["s", "s.element", "s.key", "s.value", "s.value.element"]


@pytest.mark.parametrize("mode", [NONE, NAME, ID])
@pytest.mark.parametrize("place", PLACES)
def test_names_that_differ_in_case_alone_are_refused_at_every_depth(place: str, mode: str) -> None:
    with pytest.raises(InvalidArgument, match=f"found 'ab' and 'aB' in {place}. Rename one"):
        validate_column_names(_placed(_struct("ab", "x", "aB"), place), mode)


def test_names_that_differ_in_case_alone_are_refused_at_the_top() -> None:
    with pytest.raises(InvalidArgument, match=r"found 'a' and 'A'. Rename one"):
        validate_column_names(_struct("a", "A"), NONE)
    with pytest.raises(InvalidArgument, match=r"found 'A' and 'a'. Rename one"):
        validate_column_names(_struct("A", "a"), NONE)
    with pytest.raises(InvalidArgument, match=r"found 'a' and 'a'. Rename one"):
        validate_column_names(_struct("a", "a"), NAME)
    validate_column_names(StructType((StructField("a", _struct("a", "b")), StructField("b", LONG))), NONE)


@pytest.mark.parametrize("character", list(" ,;{}()\n\t="))
@pytest.mark.parametrize("place", PLACES)
def test_what_parquet_names_cannot_hold_needs_column_mapping(place: str, character: str) -> None:
    schema = _placed(_struct(f"a{character}b"), place)
    with pytest.raises(
        InvalidArgument, match=r"column s\.[\s\S]*set the table property delta\.columnMapping\.mode to name"
    ):
        validate_column_names(schema, NONE)
    validate_column_names(schema, NAME)
    validate_column_names(schema, ID)


@pytest.mark.parametrize("name", ["a.b", "ünïcode", "a-b", "a`b", "_x", "1"])
def test_other_characters_need_nothing(name: str) -> None:
    validate_column_names(_struct(name), NONE)


@pytest.mark.parametrize("mode", [NONE, NAME])
def test_empty_names_and_half_characters_are_refused(mode: str) -> None:
    with pytest.raises(InvalidArgument, match="a column in s has an empty name"):
        validate_column_names(_placed(_struct("a", ""), "s"), mode)
    with pytest.raises(InvalidArgument, match="not Unicode text"):
        validate_column_names(_struct("a\ud800"), mode)


@pytest.mark.parametrize("name", ["_change_type", "_commit_version", "_COMMIT_timestamp"])
def test_names_of_the_change_feed_are_reserved_while_it_is_on(name: str) -> None:
    with pytest.raises(InvalidArgument, match=r"reserved while the change data feed is enabled\. Rename .*, or set"):
        validate_column_names(_struct(name), NAME, change_feed=True)
    validate_column_names(_struct(name), NAME)
    validate_column_names(_placed(_struct(name), "s"), NAME, change_feed=True)
    validate_column_names(_struct(name), NAME, change_feed=True, parent=("s",))


def test_names_for_own_use_are_reserved() -> None:
    with pytest.raises(InvalidArgument, match=r"found '__Slackwater_x'\. Rename it"):
        validate_column_names(_struct("__Slackwater_x"), NAME)


def test_a_part_of_a_table_is_named_by_its_place() -> None:
    with pytest.raises(InvalidArgument, match=r"column s\.`a b`: a name must not contain ' '"):
        validate_column_names(_struct("a b"), NONE, parent=("s",))


@pytest.mark.parametrize("place", PLACES)
def test_void_and_empty_structs_have_no_place_inside_other_columns(place: str) -> None:
    with pytest.raises(InvalidArgument, match=f"{place}.v is of type void inside another column"):
        validate_column_types(_placed(StructType((StructField("v", VOID),)), place))
    with pytest.raises(InvalidArgument, match=f"{place} is a struct without fields"):
        validate_column_types(_placed(StructType(), place))


@pytest.mark.parametrize("holder", [ArrayType(VOID), MapType(VOID, LONG), MapType(LONG, VOID)])
def test_arrays_and_maps_hold_no_void(holder: DataType) -> None:
    with pytest.raises(InvalidArgument, match="of type void inside another column"):
        validate_column_types(StructType((StructField("c", holder),)))


def test_a_void_column_needs_another_one_beside_it() -> None:
    void = StructField("v", VOID)
    validate_column_types(StructType((void, StructField("a", LONG))))
    validate_column_types(StructType())
    with pytest.raises(InvalidArgument, match=r"columns \['v'\] are all of type void"):
        validate_column_types(StructType((void,)))


@pytest.mark.parametrize(
    "data_type", [LONG, STRING, BINARY, BOOLEAN, DATE, DOUBLE, TIMESTAMP, TIMESTAMP_NTZ, DecimalType(10, 2)]
)
def test_plain_values_partition_a_table(data_type: DataType) -> None:
    schema = StructType((StructField("Day", data_type), StructField("x", LONG), StructField("y", LONG)))
    assert validate_partition_columns(schema, ["Y", "DAY"]) == ("y", "Day")
    assert validate_partition_columns(schema, []) == ()


@pytest.mark.parametrize("data_type", [VOID, ArrayType(LONG), MapType(LONG, LONG), _struct("a")])
def test_other_types_do_not(data_type: DataType) -> None:
    schema = StructType((StructField("p", data_type), StructField("x", LONG)))
    with pytest.raises(InvalidArgument, match=r"cannot be partitioned by p of type"):
        validate_partition_columns(schema, ["p"])


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["nobody"], r"'nobody' is not among the columns \['a', 'b', 'v', 's'\]"),
        (["s.x"], r"'s\.x' is not among the columns .*top-level"),
        (["a", "A"], r"'a' occurs twice"),
        (["a", "b"], r"needs at least one column that it is not partitioned by"),
    ],
)
def test_partition_columns_that_make_no_sense_are_refused(names: list[str], message: str) -> None:
    schema = StructType((StructField("a", LONG), StructField("b", LONG), StructField("v", VOID)))
    if names != ["a", "b"]:
        schema = StructType((*schema, StructField("s", _struct("x"))))
    with pytest.raises(InvalidArgument, match=message):
        validate_partition_columns(schema, names)
