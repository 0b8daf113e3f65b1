from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from slackwater.predicate.predicate import (
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Not,
    Or,
    Predicate,
    StartsWith,
    Unprunable,
)
from slackwater.protocol.schema.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
    DataType,
    DecimalType,
    StructField,
    StructType,
)
from slackwater.stats.file_stats import StatsColumns
from slackwater.stats.skipping import may_match

C = ("c",)
UTC = dt.timezone.utc


def _may(predicate: Predicate, data_type: DataType, *files: dict[str, Any] | None) -> list[bool]:
    stats = pa.array([None if f is None else json.dumps(f) for f in files], pa.string())
    schema = StructType((StructField("c", data_type), StructField("s", StructType(()))))
    found = may_match(predicate, StatsColumns(pa.table({"stats": stats}), schema))
    assert found.null_count == 0
    return found.to_pylist()  # type: ignore[no-any-return]


def _file(low: Any, high: Any, nulls: int | None = 0, records: int = 3, **more: Any) -> dict[str, Any]:
    counts = {} if nulls is None else {"nullCount": {"c": nulls}}
    return {"numRecords": records, "minValues": {"c": low}, "maxValues": {"c": high}, **counts, **more}


def _is(operator: Any, value: Any) -> Comparison:
    return Comparison(C, operator, value)


@pytest.mark.parametrize(
    ("predicate", "kept"),
    [
        (_is("=", 9), [False, False]),
        (_is("=", 10), [True, False]),
        (_is("=", 25), [False, True]),
        (_is("<=>", 25), [False, True]),
        (_is("<", 10), [False, False]),
        (_is("<=", 10), [True, False]),
        (_is(">", 20), [False, True]),
        (_is(">=", 20), [True, True]),
        (Not(_is("<", 21)), [False, True]),
        (Not(_is("=", 15)), [True, True]),
        (Or((_is("=", 10), _is("=", 25))), [True, True]),
        (And((_is(">", 12), _is("<", 21))), [True, False]),
        (Not(Or((_is(">", 12), Unprunable()))), [True, False]),
        (In(C, (1, 15)), [True, False]),
        (In(C, tuple(range(21, 60))), [False, True]),
        (In(C, tuple(range(100, 160))), [False, False]),
        (In(C, tuple(range(100, 160)), has_null=True), [False, False]),
        (Not(In(C, (1,), has_null=True)), [False, False]),
        (Not(In(C, (1,))), [True, True]),
        (IsNull(C), [False, False]),
        (Not(IsNull(C)), [True, True]),
        (Not(_is("<=>", 3)), [True, True]),
        (Constant(True), [True, True]),
        (Constant(False), [False, False]),
        (Constant(None), [False, False]),
        (Not(Constant(None)), [False, False]),
        (And(()), [True, True]),
        (Or(()), [False, False]),
        (_is("=", Decimal("15.5")), [False, False]),
        (_is(">", Decimal("20.5")), [False, True]),
        (_is("<", 10.5), [True, False]),
        (_is("=", 2**70), [False, False]),
        (_is("<", 2**70), [True, True]),
        (_is("<", float("nan")), [True, True]),
        (_is(">", float("nan")), [False, False]),
    ],
)
def test_integers_are_pruned_by_their_bounds(predicate: Predicate, kept: list[bool]) -> None:
    assert _may(predicate, LONG, _file(10, 20), _file(20 if kept == [True, True] else 21, 30)) == kept


@pytest.mark.parametrize(
    "predicate", [_is("=", 5), Not(_is("=", 5)), IsNull(C), Not(IsNull(C)), In(C, tuple(range(40)))]
)
def test_missing_statistics_rule_out_nothing(predicate: Predicate) -> None:
    assert _may(predicate, LONG, None, {}, {"numRecords": 4}) == [True, True, True]


@pytest.mark.parametrize("value", ["10", True, dt.date(2020, 1, 1), b"a", 1e300])
def test_a_literal_of_another_type_rules_out_nothing(value: Any) -> None:
    assert _may(_is("=", value), LONG, _file(10, 20)) == [True]
    assert _may(In(C, (value,)), LONG, _file(10, 20)) == [True]


def test_an_unknown_column_rules_out_nothing() -> None:
    assert _may(Comparison(("zz",), "=", 1), LONG, _file(10, 20)) == [True]
    assert _may(IsNull(("s",)), LONG, _file(10, 20)) == [True]


def test_a_file_without_records_holds_nothing() -> None:
    assert _may(Or((_is("=", 15), Unprunable())), LONG, _file(10, 20, records=0, nulls=None)) == [False]


@pytest.mark.parametrize("tight", [True, False])
def test_a_null_count_speaks_when_it_is_none_or_all(tight: bool) -> None:
    files = [_file(1, 2, nulls, tightBounds=tight) for nulls in (0, 1, 3)]
    assert _may(IsNull(C), LONG, *files) == [False, True, True]
    assert _may(Not(IsNull(C)), LONG, *files) == [True, True, False]
    assert _may(_is("=", 1), LONG, *files) == [True, True, False]
    assert _may(Not(_is("<=>", 1)), LONG, *[_file(1, 1, n, tightBounds=tight) for n in (0, 1, 3)]) == [
        False,
        True,
        True,
    ]


def test_inequality_prunes_only_where_every_row_holds_the_value() -> None:
    files = [_file(5, 5), _file(5, 5, nulls=1), _file(5, 6)]
    assert _may(_is("!=", 5), LONG, *files) == [False, False, True]
    assert _may(Not(In(C, (1, 5))), LONG, *files) == [False, False, True]


def test_wide_bounds_are_bounds() -> None:
    assert _may(_is(">", 20), LONG, _file(10, 20, tightBounds=False, nulls=1)) == [False]


@pytest.mark.parametrize(
    ("predicate", "kept"),
    [
        (_is(">", 9.0), True),
        (_is(">=", 9.0), True),
        (_is("!=", 1.0), True),
        (Not(_is("<", 9.0)), True),
        (_is("=", float("nan")), True),
        (In(C, (float("nan"),)), True),
        (_is("=", 9.0), False),
        (_is("<", 1.0), False),
        (Not(_is(">", 0.5)), False),
    ],
)
def test_nan_may_hide_above_the_maximum(predicate: Predicate, kept: bool) -> None:
    assert _may(predicate, DOUBLE, _file(1.0, 1.0)) == [kept]


def test_zero_has_no_sign() -> None:
    assert _may(_is("=", 0.0), DOUBLE, _file(-1.0, -0.0)) == [True]
    assert _may(_is("=", -0.0), DOUBLE, _file(0.0, 1.0)) == [True]


def test_a_double_column_widened_from_float_keeps_values_a_hair_above_the_printed_maximum() -> None:
    assert _may(_is("=", 0.10000000149011612), DOUBLE, _file(0.05, 0.1)) == [True]


def test_short_text_is_pruned_exactly() -> None:
    file = _file("beta", "gamma")
    cases: list[tuple[Predicate, bool]] = [
        (_is("=", "alpha"), False),
        (_is(">", "gamma"), False),
        (_is(">=", "gamma"), True),
        (_is("<", "beta"), False),
        (StartsWith(C, "ga"), True),
        (StartsWith(C, "ha"), False),
        (StartsWith(C, "be"), True),
        (StartsWith(C, ""), True),
    ]
    for predicate, kept in cases:
        assert _may(predicate, STRING, file) == [kept], predicate
    assert _may(Not(StartsWith(C, "ab")), STRING, _file("abc", "abd"), _file("abc", "acd")) == [False, True]


def test_a_cut_maximum_covers_all_that_it_may_stand_for() -> None:
    cut = "a" * 31 + "?\ufffd"
    assert _may(_is("=", "a" * 31 + "😀"), STRING, _file("a", cut)) == [True]
    assert _may(_is("=", "a" * 32 + "zzz"), STRING, _file("a", "a" * 32)) == [True]
    assert _may(_is("=", "a" * 30 + "b"), STRING, _file("a", "a" * 32)) == [False]
    assert _may(_is("!=", "a" * 32), STRING, _file("a" * 32, "a" * 32)) == [True]


def test_text_is_pruned_by_what_holds_in_utf8_and_in_utf16_order() -> None:
    assert _may(_is("=", "😀"), STRING, _file("a", "\uffee")) == [True]
    assert _may(_is("=", "\uffee"), STRING, _file("😀", "😁")) == [True]
    assert _may(_is("=", "zz"), STRING, _file("😀", "😁"), _file("a", "b\uffee")) == [False, False]


def test_timestamps_reach_to_the_end_of_the_millisecond() -> None:
    file = _file("2020-01-01T00:00:00.000Z", "2020-01-01T00:00:01.000Z")
    moment = dt.datetime(2020, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert _may(_is("=", moment.replace(microsecond=999)), TIMESTAMP, file) == [True]
    assert _may(_is("=", moment.replace(microsecond=1000)), TIMESTAMP, file) == [False]
    assert _may(_is("<", moment.replace(second=0)), TIMESTAMP, file) == [False]
    assert _may(_is("=", moment.replace(tzinfo=None)), TIMESTAMP, file, file) == [True, True]


def test_before_the_epoch_a_minimum_may_have_been_cut_upwards() -> None:
    file = _file("1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00.000Z")
    moment = dt.datetime(1969, 12, 31, 23, 59, 59, 998500, tzinfo=UTC)
    assert _may(_is("=", moment), TIMESTAMP, file) == [True]
    assert _may(_is("=", moment - dt.timedelta(milliseconds=1)), TIMESTAMP, file) == [False]


def test_decimals_are_exact_up_to_the_digits_of_a_double() -> None:
    assert _may(_is(">", Decimal("1.10")), DecimalType(10, 2), _file(1.05, 1.10), _file(1.05, 1.11)) == [False, True]
    assert _may(_is(">", Decimal("1.105")), DecimalType(10, 2), _file(1.05, 1.10), _file(1.05, 1.11)) == [False, True]
    assert _may(_is("=", Decimal("1.105")), DecimalType(10, 2), _file(1.05, 1.11)) == [False]
    assert _may(_is("=", Decimal("123456789012345678.91")), DecimalType(20, 2), _file(0, 123456789012345680.0)) == [
        True
    ]
    assert _may(_is("=", Decimal("123456789012345678.91")), DecimalType(20, 2), _file(0, 123456789012345000)) == [False]
    printed = _file(123456789012345680.0, 123456789012345680.0)
    assert _may(_is("=", Decimal("123456789012345678.91")), DecimalType(20, 2), printed) == [True]
    assert _may(_is("=", Decimal("1E+30")), DecimalType(20, 2), _file(0, 5)) == [False]


def test_dates_and_booleans_have_an_order_and_binary_has_no_bounds() -> None:
    assert _may(_is(">", dt.date(2020, 1, 2)), DATE, _file("2020-01-01", "2020-01-02")) == [False]
    assert _may(_is("=", True), BOOLEAN, _file(False, False), _file(False, True)) == [False, True]
    assert _may(_is("!=", True), BOOLEAN, _file(True, True), _file(False, True)) == [False, True]
    assert _may(_is("=", b"z"), BINARY, _file("a", "b")) == [True]
    assert _may(Not(IsNull(C)), BINARY, _file("a", "b", nulls=3)) == [False]


@pytest.mark.parametrize(
    ("data_type", "values", "low", "high"),
    [
        (STRING, [f"k{n:03}" for n in range(100)], "k050x", "k051"),
        (DecimalType(10, 2), [Decimal(n) for n in range(100)], 50.5, 51),
        (DOUBLE, [float(n) for n in range(100)], 50.5, 51.0),
        (DATE, [dt.date(2020, 1, 1) + dt.timedelta(days=2 * n) for n in range(100)], "2020-01-02", "2020-01-03"),
    ],
)
def test_a_long_list_finds_the_files_between_its_values(
    data_type: DataType, values: list[Any], low: Any, high: Any
) -> None:
    assert _may(In(C, tuple(values)), data_type, _file(low, high), _file(low, low), None) == [True, False, True]
