from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from slackwater.errors import InvalidArgument
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
from slackwater.predicate.sql import parse_predicate
from slackwater.protocol.schema.schema import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    ArrayType,
    DecimalType,
    StructField,
    StructType,
)

SCHEMA = StructType(
    (
        StructField("x", LONG),
        StructField("i", INTEGER),
        StructField("s", STRING),
        StructField("d", DATE),
        StructField("ts", TIMESTAMP),
        StructField("ntz", TIMESTAMP_NTZ),
        StructField("f", DOUBLE),
        StructField("fl", FLOAT),
        StructField("dec", DecimalType(10, 2)),
        StructField("wide", DecimalType(38, 30)),
        StructField("b", BOOLEAN),
        StructField("bin", BINARY),
        StructField("a", StructType((StructField("B", LONG), StructField("x.y", LONG)))),
        StructField("arr", ArrayType(LONG)),
        StructField("collated", STRING, True, {"__COLLATIONS": {"collated": "spark.UTF8_LCASE"}}),
        StructField("padded", STRING, True, {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}),
    )
)
UTC = dt.timezone.utc


def _parse(text: str) -> Predicate:
    return parse_predicate(text, SCHEMA, "Europe/Zurich")


@pytest.mark.parametrize(
    ("text", "column", "operator", "value"),
    [
        ("x = 5", "x", "=", 5),
        ("x == 5", "x", "=", 5),
        ("x <> -5", "x", "!=", -5),
        ("5 < X", "x", ">", 5),
        ("5 <=> x", "x", "<=>", 5),
        ("x >= ((1L))", "x", ">=", 1),
        ("x = 1S", "x", "=", 1),
        ("x = CAST('7' AS INT)", "x", "=", 7),
        ("x = 5.5", "x", "=", Decimal("5.5")),
        ("x < 1.5D", "x", "<", 1.5),
        ("i = '5'", "i", "=", 5),
        ("f > 1", "f", ">", 1.0),
        ("f = 0.1", "f", "=", 0.1),
        ("fl = 0.5BD", "fl", "=", 0.5),
        ("dec = 3", "dec", "=", Decimal(3)),
        ("dec <= -1.255BD", "dec", "<=", Decimal("-1.255")),
        ("d >= '2020-1-5'", "d", ">=", dt.date(2020, 1, 5)),
        ("d = DATE '2020-01-05'", "d", "=", dt.date(2020, 1, 5)),
        ("ts = '2020-01-01 10:00:00.1234567'", "ts", "=", dt.datetime(2020, 1, 1, 9, 0, 0, 123456, tzinfo=UTC)),
        ("ts = TIMESTAMP '2020-01-01 10:00:00+02:00'", "ts", "=", dt.datetime(2020, 1, 1, 8, tzinfo=UTC)),
        ("ts = DATE '2020-07-01'", "ts", "=", dt.datetime(2020, 6, 30, 22, tzinfo=UTC)),
        ("ntz = TIMESTAMP_NTZ '2020-01-01 10:00:00'", "ntz", "=", dt.datetime(2020, 1, 1, 10)),
        ("bin = X'1F00'", "bin", "=", b"\x1f\x00"),
        ("b", "b", "=", True),
        ("b IS FALSE", "b", "<=>", False),
        ("s = 'a\\tb\\u0041'", "s", "=", "a\tbA"),
        ("s = r'a\\tb'", "s", "=", "a\\tb"),
        ("s LIKE 'abc'", "s", "=", "abc"),
        ("s LIKE 'a\\_c'", "s", "=", "a_c"),
    ],
)
def test_a_comparison_with_a_literal_is_typed_by_its_column(
    text: str, column: str, operator: str, value: object
) -> None:
    said = _parse(text)
    assert said == Comparison((column,), operator, value)  # type: ignore[arg-type]
    assert type(said.value) is type(value)


@pytest.mark.parametrize(
    ("text", "predicate"),
    [
        ("a.b = 1", Comparison(("a", "B"), "=", 1)),
        ("A.`X.Y` = 1", Comparison(("a", "x.y"), "=", 1)),
        ("x = NULL", Constant(None)),
        ("x <=> NULL", IsNull(("x",))),
        ("x IS NULL", IsNull(("x",))),
        ("x IS NOT NULL", Not(IsNull(("x",)))),
        ("isnotnull(x)", Not(IsNull(("x",)))),
        ("x IS DISTINCT FROM 3", Not(Comparison(("x",), "<=>", 3))),
        ("x IN (1, NULL, 3)", In(("x",), (1, 3), has_null=True)),
        ("x NOT IN (1, 2)", Not(In(("x",), (1, 2)))),
        ("x IN (NULL)", Constant(None)),
        ("x BETWEEN 1 AND 2", And((Comparison(("x",), ">=", 1), Comparison(("x",), "<=", 2)))),
        ("s LIKE 'x%'", StartsWith(("s",), "x")),
        ("s NOT LIKE 'x%'", Not(StartsWith(("s",), "x"))),
        ("s LIKE '50!%%' ESCAPE '!'", StartsWith(("s",), "50%")),
        ("startswith(s, 'x')", StartsWith(("s",), "x")),
        ("TRUE", Constant(True)),
        ("NULL", Constant(None)),
        (
            "NOT (x < 5 OR b AND s = 'q')",
            Not(Or((Comparison(("x",), "<", 5), And((Comparison(("b",), "=", True), Comparison(("s",), "=", "q")))))),
        ),
    ],
)
def test_sql_becomes_the_predicate_that_says_the_same(text: str, predicate: Predicate) -> None:
    assert _parse(text) == predicate


@pytest.mark.parametrize(
    "text",
    [
        "x + 1 = 5",
        "upper(s) = 'A'",
        "x = i",
        "s LIKE 'a_'",
        "s LIKE '%a'",
        "s LIKE ANY ('a%')",
        "s = 5",
        "x = '5.0'",
        "x = 9007199254740993D",
        "i IN ('05')",
        "fl = '0.1'",
        "fl = 16777217",
        "dec = 1.5D",
        "wide = 12345678901",
        "d = TIMESTAMP '2020-01-01 00:00:00'",
        "ntz = TIMESTAMP '2020-01-01 00:00:00'",
        "d = '2020-02-30'",
        "arr IS NULL",
        "arr[0] = 1",
        "collated = 'a'",
        "padded = 'a'",
        "s = 'it''s'",
        "x IN (SELECT 1)",
    ],
)
def test_what_cannot_be_said_exactly_is_unknown_and_keeps_its_text(text: str) -> None:
    said = _parse(text)
    assert isinstance(said, Unprunable)
    assert said.text


def test_only_the_part_that_cannot_be_said_is_unknown() -> None:
    said = _parse("x = 1 AND upper(s) = 'A'")
    assert isinstance(said, And)
    assert said.children[0] == Comparison(("x",), "=", 1)
    assert isinstance(said.children[1], Unprunable)


@pytest.mark.parametrize(
    ("text", "where"),
    [("x =", "column 3"), ("x = 1 1", "line 1"), ("SELECT 1", "line 1"), ("", "found 0"), ("x = 1; x = 2", "found 2")],
)
def test_text_that_is_no_condition_is_refused_with_its_place(text: str, where: str) -> None:
    with pytest.raises(InvalidArgument, match=where) as error:
        _parse(text)
    assert repr(text) in str(error.value)


def test_an_unclosed_text_literal_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="not an SQL condition"):
        _parse("s = 'abc")


@pytest.mark.parametrize("text", ["nope = 1", "x = 1 AND nope", "nope + 1 = x", "nope IN (SELECT 1)"])
def test_an_unknown_column_is_refused_naming_those_there_are(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"no column nope: the columns are x, i, s"):
        _parse(text)


def test_a_path_below_a_plain_column_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="x is a long, not a struct"):
        _parse("x.y = 1")


def test_a_chain_of_thousands_of_alternatives_is_one_or() -> None:
    said = _parse(" OR ".join(f"x = {n}" for n in range(3000)))
    assert isinstance(said, Or)
    assert len(said.children) == 3000
