from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import InvalidArgument, InvalidSchema, InvariantViolationException
from slackwater.protocol.actions.actions import Metadata, Protocol
from slackwater.protocol.features.identity_columns import (
    ALLOW_EXPLICIT_INSERT,
    HIGH_WATER_MARK,
    START,
    STEP,
    IdentityColumn,
    advance,
    identity_column,
    identity_columns,
    is_identity,
    next_start,
    same_but_identity,
    synchronize,
    validate_identity_columns,
    with_high_water_marks,
)
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.schema.schema import (
    INTEGER,
    LONG,
    ArrayType,
    DataType,
    StructField,
    StructType,
    schema_to_json,
)

SMALLEST, LARGEST = -(2**63), 2**63 - 1
STEPS = st.integers(-20, 20).filter(bool)


def _column(start: int = 1, step: int = 1, mark: int | None = None, name: str = "id") -> StructField:
    return StructField(name, LONG, True, IdentityColumn(name, start, step, mark).metadata())


def _mark(column: StructField) -> object:
    return column.metadata.get(HIGH_WATER_MARK)


# Settings


@pytest.mark.parametrize(
    "identity",
    [
        IdentityColumn("id"),
        IdentityColumn("id", -5, 3, 7, True),
        IdentityColumn("id", LARGEST, SMALLEST, 0),
    ],
)
def test_settings_go_to_column_metadata_and_back(identity: IdentityColumn) -> None:
    column = StructField("id", LONG, True, {"comment": "c", **identity.metadata()})
    assert is_identity(column)
    assert identity_column(column) == identity


def test_the_keys_are_those_of_the_protocol() -> None:
    assert IdentityColumn("id", 5, 2, 9, True).metadata() == {
        "delta.identity.start": 5,
        "delta.identity.step": 2,
        "delta.identity.highWaterMark": 9,
        "delta.identity.allowExplicitInsert": True,
    }
    assert HIGH_WATER_MARK not in IdentityColumn("id").metadata()


def test_a_column_without_the_keys_has_no_identity() -> None:
    assert identity_column(StructField("a", LONG, True, {"comment": "delta.identity"})) is None
    assert identity_columns(StructType((StructField("a", LONG), _column()))) == (IdentityColumn("id"),)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({START: 1}, "delta.identity.step must be a long, found None"),
        ({STEP: 1}, "delta.identity.start must be a long, found None"),
        ({HIGH_WATER_MARK: 1}, "delta.identity.start must be a long"),
        ({START: 1, STEP: 0}, "delta.identity.step must not be 0"),
        ({START: "1", STEP: 1}, "delta.identity.start must be a long, found '1'"),
        ({START: True, STEP: 1}, "delta.identity.start must be a long, found True"),
        ({START: 1, STEP: 2**63}, "delta.identity.step must be a long"),
        ({START: 1, STEP: 1, HIGH_WATER_MARK: 1.5}, "delta.identity.highWaterMark must be a long"),
        ({START: 1, STEP: 1, ALLOW_EXPLICIT_INSERT: "true"}, "allowExplicitInsert must be a boolean"),
    ],
)
def test_settings_that_make_no_sense_are_named(metadata: dict[str, object], message: str) -> None:
    column = StructField("id", LONG, True, metadata)
    with pytest.raises(InvalidSchema, match=f"identity column id: .*{message}"):
        identity_column(column)
    with pytest.raises(InvalidArgument, match=message):
        validate_identity_columns(StructType((column,)))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (replace(_column(), type=INTEGER), "id: must be of type long, found integer"),
        (StructField("s", StructType((_column(),))), r"s\.id: must be a top-level column"),
        (StructField("s", ArrayType(StructType((_column(),)))), r"s\.element\.id: must be a top-level column"),
    ],
)
def test_only_long_columns_of_the_top_level_can_be_identity_columns(column: StructField, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        validate_identity_columns(StructType((column,)))


def test_a_table_is_not_partitioned_by_an_identity_column() -> None:
    schema = StructType((_column(), StructField("p", LONG)))
    assert validate_identity_columns(schema, ["p"]) is None  # type: ignore[func-returns-value]
    with pytest.raises(InvalidArgument, match="identity column id: a table cannot be partitioned by it"):
        validate_identity_columns(schema, ["p", "ID"])


# Values


@pytest.mark.parametrize(
    ("start", "step", "mark", "first"),
    [
        (1, 1, None, 1),
        (5, 3, None, 5),
        (5, 3, 5, 8),
        (5, 3, 8, 11),
        (0, -2, None, 0),
        (0, -2, -4, -6),
        # A mark that is off the grid, or before the start, is not counted on from, but to.
        (5, 3, 6, 8),
        (5, 3, 7, 8),
        (0, -2, -5, -6),
        (5, 3, -100, 5),
        (0, -2, 100, 0),
    ],
)
def test_the_next_value_is_on_the_grid_and_beyond_the_mark(start: int, step: int, mark: int | None, first: int) -> None:
    assert next_start(IdentityColumn("id", start, step, mark)) == first


@given(st.integers(-1000, 1000), STEPS, st.none() | st.integers(-2000, 2000), st.integers(0, 50))
def test_values_keep_the_rules_of_the_protocol(start: int, step: int, mark: int | None, count: int) -> None:
    identity = IdentityColumn("id", start, step, mark)
    values = [identity.value(index) for index in range(count)]
    assert all((value - start) % step == 0 and (value - start) // step >= 0 for value in values)
    if mark is not None:
        assert all((value > mark) if step > 0 else (value < mark) for value in values)
    assert all(later - earlier == step for earlier, later in itertools.pairwise(values))


@pytest.mark.parametrize(
    ("identity", "room"),
    [
        (IdentityColumn("id", LARGEST - 2, 1), 3),
        (IdentityColumn("id", 1, 1, LARGEST - 1), 1),
        (IdentityColumn("id", 1, 1, LARGEST), 0),
        (IdentityColumn("id", SMALLEST + 1, -1), 2),
        (IdentityColumn("id", -1, SMALLEST), 1),
        (IdentityColumn("id", 0, LARGEST), 2),
    ],
)
def test_overflow_is_seen_before_it_happens(identity: IdentityColumn, room: int) -> None:
    assert room == 0 or identity.value(room - 1)
    with pytest.raises(InvariantViolationException, match="identity column id: its values are used up"):
        identity.value(room)


def test_a_column_whose_values_are_used_up_has_no_next_one() -> None:
    full = IdentityColumn("id", 1, 1, LARGEST)
    with pytest.raises(InvariantViolationException):
        next_start(full)


# The high-water mark


@pytest.mark.parametrize(
    ("step", "mark", "extreme", "moved"),
    [
        (1, None, 7, 7),
        (1, 5, 7, 7),
        (1, 7, 5, 7),
        (-1, None, -7, -7),
        (-1, -5, -7, -7),
        (-1, -7, -5, -7),
    ],
)
def test_the_mark_moves_in_the_direction_of_the_step_alone(
    step: int, mark: int | None, extreme: int, moved: int
) -> None:
    column = _column(0, step, mark)
    advanced = advance(column, extreme)
    assert _mark(advanced) == moved
    assert {k: v for k, v in advanced.metadata.items() if k != HIGH_WATER_MARK} == {
        k: v for k, v in column.metadata.items() if k != HIGH_WATER_MARK
    }


def test_a_mark_that_does_not_move_leaves_the_column() -> None:
    column = _column(mark=7)
    assert advance(column, 7) is column
    assert advance(column, 3) is column


def test_only_identity_columns_have_a_mark() -> None:
    with pytest.raises(InvalidSchema, match="column a is not an identity column"):
        advance(StructField("a", LONG), 1)


def test_marks_of_a_schema_move_by_name() -> None:
    schema = StructType((_column(name="up"), StructField("a", LONG), _column(0, -1, name="down")))
    moved = with_high_water_marks(schema, {"up": 4, "down": -4})
    assert [_mark(column) for column in moved] == [4, None, -4]
    assert moved.fields[1] is schema.fields[1]


@pytest.mark.parametrize(
    ("start", "step", "mark", "extreme", "moved"),
    [
        (1, 1, None, 10, 10),
        (1, 10, None, 11, 11),
        (1, 10, None, 12, 21),
        (1, 10, 31, 12, 31),
        (1, 10, None, 0, None),
        (0, -10, None, -10, -10),
        (0, -10, None, -11, -20),
        (0, -10, None, 5, None),
    ],
)
def test_synchronizing_rounds_up_to_the_grid_and_never_goes_back(
    start: int, step: int, mark: int | None, extreme: int, moved: int | None
) -> None:
    assert _mark(synchronize(_column(start, step, mark), extreme)) == moved


@given(st.integers(-100, 100), STEPS, st.none() | st.integers(-300, 300), st.lists(st.integers(-300, 300), min_size=1))
def test_after_synchronizing_no_value_in_the_table_comes_again(
    start: int, step: int, mark: int | None, values: list[int]
) -> None:
    column = synchronize(_column(start, step, mark), max(values) if step > 0 else min(values))
    identity = identity_column(column)
    assert identity is not None
    assert not {identity.value(index) for index in range(40)} & set(values)


def test_synchronizing_beyond_the_last_value_is_refused() -> None:
    with pytest.raises(InvariantViolationException, match="used up"):
        synchronize(_column(0, 10), LARGEST)


# Comparing metadata


def _table(schema: StructType, **changes: object) -> TableConfiguration:
    metadata = replace(Metadata("id", schema_to_json(schema), ("p",), {"a": "b"}), **changes)  # type: ignore[arg-type]
    return TableConfiguration(Protocol(1, 2), metadata)


def test_metadata_that_differs_in_marks_alone_is_the_same_but_identity() -> None:
    one = _table(StructType((_column(mark=3), StructField("p", LONG))))
    other = _table(StructType((_column(mark=9), StructField("p", LONG))))
    fresh = _table(StructType((_column(), StructField("p", LONG))))
    assert same_but_identity(one, other)
    assert same_but_identity(fresh, other)
    assert same_but_identity(one, one)


def _with(data_type: DataType) -> TableConfiguration:
    return _table(StructType((_column(mark=9), StructField("p", data_type))))


@pytest.mark.parametrize(
    "other",
    [
        _with(INTEGER),
        _with(StructType((StructField("x", LONG),))),
        _table(StructType((_column(2, mark=9), StructField("p", LONG)))),
        _table(StructType((_column(mark=9, name="ID"), StructField("p", LONG)))),
        _table(StructType((_column(mark=9), StructField("p", LONG, False)))),
        _table(StructType((_column(mark=9), StructField("p", LONG))), configuration={}),
        _table(StructType((_column(mark=9), StructField("p", LONG))), name="n"),
        _table(StructType((_column(mark=9), StructField("p", LONG))), partition_columns=()),
    ],
)
def test_any_other_difference_counts(other: TableConfiguration) -> None:
    assert not same_but_identity(_table(StructType((_column(mark=3), StructField("p", LONG)))), other)
