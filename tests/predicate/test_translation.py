"""One set of rules for conditions, whatever they were written in: SQL text and trees say the same."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pytest

from slackwater.errors import InvalidArgument
from slackwater.predicate.condition_tree import (
    ALIAS,
    CAST,
    EXTRACT,
    LITERAL,
    NAME,
    SQL,
    ConditionTree,
    LiteralValue,
    column_names,
    operands,
)
from slackwater.predicate.literals import cast_literal
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
    Value,
    not_true,
)
from slackwater.predicate.sql import parse_predicate
from slackwater.predicate.sql_conditions import read_sql
from slackwater.predicate.translation import translate
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
        StructField("f", DOUBLE),
        StructField("fl", FLOAT),
        StructField("dec", DecimalType(10, 2)),
        StructField("b", BOOLEAN),
        StructField("bin", BINARY),
        StructField("a", StructType((StructField("B", LONG),))),
        StructField("arr", ArrayType(LONG)),
        StructField("collated", STRING, True, {"__COLLATIONS": {"collated": "spark.UTF8_LCASE"}}),
    )
)
UNKNOWN = Unprunable()


def _tree(operation: str, *children: Any, payload: Any = None) -> ConditionTree:
    """Children that are str are names of columns, other values literals."""
    return ConditionTree(operation, tuple(_operand(child) for child in children), payload)


def _operand(given: Any) -> ConditionTree:
    if isinstance(given, ConditionTree):
        return given
    return _name(given) if isinstance(given, str) else _lit(given)


def _name(text: str) -> ConditionTree:
    return ConditionTree(NAME, (), tuple(text.split(".")))


def _lit(value: Value | None, single: bool = False) -> ConditionTree:
    return ConditionTree(LITERAL, (), LiteralValue(value, single))


def _cast(value: Value | None, name: str) -> ConditionTree:
    return _tree(CAST, _lit(value), payload=name)


def _at(column: str, operator: Any, value: Value) -> Comparison:
    return Comparison(tuple(column.split(".")), operator, value)


def _without_texts(predicate: Predicate) -> Predicate:
    match predicate:
        case Unprunable():
            return UNKNOWN
        case Not(child):
            inner = _without_texts(child)
            return inner if inner == UNKNOWN else Not(inner)
        case And(children):
            return And(tuple(_without_texts(child) for child in children))
        case Or(children):
            return Or(tuple(_without_texts(child) for child in children))
    return predicate


NOTHING_LISTED = And((Constant(False), UNKNOWN))
SAME = [
    ("x = 5", _tree("=", "x", 5), _at("x", "=", 5)),
    ("x == 5", _tree("==", "X", 5), _at("x", "=", 5)),
    ("5 < x", _tree("<", 5, "x"), _at("x", ">", 5)),
    ("x <> 5", _tree("!=", "x", 5), _at("x", "!=", 5)),
    ("NOT x = 5", _tree("!", _tree("=", "x", 5)), Not(_at("x", "=", 5))),
    ("a.b >= 1", _tree(">=", _tree(EXTRACT, "A", payload="b"), 1), _at("a.B", ">=", 1)),
    ("x <=> NULL", _tree("<=>", "x", None), IsNull(("x",))),
    ("NULL <=> x", _tree("<=>", None, "x"), IsNull(("x",))),
    ("x IS DISTINCT FROM 3", _tree("not", _tree("<=>", "x", 3)), Not(_at("x", "<=>", 3))),
    ("equal_null(x, 5)", _tree("equal_null", "x", 5), _at("x", "<=>", 5)),
    ("x = NULL", _tree("=", "x", None), Constant(None)),
    ("x = -NULL", _tree("=", "x", _tree("negative", None)), Constant(None)),
    ("x = -5", _tree("=", "x", _tree("negative", 5)), _at("x", "=", -5)),
    ("x = - -1", _tree("=", "x", _tree("negative", -1)), _at("x", "=", 1)),
    ("x = -(-(2.5))", _tree("=", "x", _tree("negative", Decimal("-2.5"))), _at("x", "=", Decimal("2.5"))),
    ("x = - -2147483648", _tree("=", "x", _tree("negative", -(2**31))), UNKNOWN),
    ("x = -CAST(-128 AS TINYINT)", _tree("=", "x", _tree("negative", _cast(-128, "byte"))), UNKNOWN),
    ("x = - -9223372036854775808", _tree("=", "x", _tree("negative", -(2**63))), UNKNOWN),
    ("x = -9223372036854775808", _tree("=", "x", -(2**63)), _at("x", "=", -(2**63))),
    ("x = -TRUE", _tree("=", "x", _tree("negative", True)), UNKNOWN),
    ("x IN (1, 5)", _tree("in", "x", 1, 5), In(("x",), (1, 5))),
    ("x IN (1, NULL)", _tree("in", "x", 1, None), In(("x",), (1,), has_null=True)),
    ("x IN (NULL)", _tree("in", "x", None), Constant(None)),
    ("collated IN (NULL)", _tree("in", "collated", None), Constant(None)),
    ("collated IN ('a')", _tree("in", "collated", _lit("a")), UNKNOWN),
    ("i IN ()", _tree("in", "i"), NOTHING_LISTED),
    ("i NOT IN ()", _tree("not", _tree("in", "i")), Not(NOTHING_LISTED)),
    ("x IN (5, '6')", _tree("in", "x", 5, _lit("6")), UNKNOWN),
    ("x IN (5, i)", _tree("in", "x", 5, "i"), UNKNOWN),
    ("5 IN (x)", _tree("in", 5, "x"), UNKNOWN),
    ("arr IN (NULL)", _tree("in", "arr", None), Constant(None)),
    ("x BETWEEN 1 AND 2", _tree("between", "x", 1, 2), And((_at("x", ">=", 1), _at("x", "<=", 2)))),
    ("x BETWEEN 1 AND i", _tree("between", "x", 1, "i"), And((_at("x", ">=", 1), UNKNOWN))),
    ("x BETWEEN SYMMETRIC 5 AND 1", _tree("Between", "x", 5, 1), UNKNOWN),
    ("s BETWEEN 1 AND 2", _tree("between", "s", 1, 2), UNKNOWN),
    ("5 BETWEEN x AND i", _tree("between", 5, "x", "i"), And((_at("x", "<=", 5), _at("i", ">=", 5)))),
    ("s LIKE 'a%'", _tree("like", "s", _lit("a%")), StartsWith(("s",), "a")),
    ("s LIKE 'it\\'s\\\\_\\\\\\\\'", _tree("like", "s", _lit("it's\\_\\\\")), _at("s", "=", "it's_\\")),
    ("s NOT LIKE 'a%'", _tree("not", _tree("like", "s", _lit("a%"))), Not(StartsWith(("s",), "a"))),
    ("s NOT LIKE '%a'", _tree("not", _tree("like", "s", _lit("%a"))), UNKNOWN),
    ("s LIKE '50!%%' ESCAPE '!'", _tree("like", "s", _lit("50!%%"), _lit("!")), StartsWith(("s",), "50%")),
    ("s LIKE '50!%%' ESCAPE '!'", _tree("like", "s", _lit("50!%%"), payload="!"), StartsWith(("s",), "50%")),
    ("s NOT LIKE 'a!%' ESCAPE '!'", _tree("not", _tree("like", "s", _lit("a!%"), _lit("!"))), Not(_at("s", "=", "a%"))),
    ("s LIKE 'a!b' ESCAPE '!'", _tree("like", "s", _lit("a!b"), _lit("!")), UNKNOWN),
    ("s LIKE 'a!' ESCAPE '!'", _tree("like", "s", _lit("a!"), _lit("!")), UNKNOWN),
    ("s LIKE 'a' ESCAPE '!!'", _tree("like", "s", _lit("a"), _lit("!!")), UNKNOWN),
    ("s LIKE 'a' ESCAPE NULL", _tree("like", "s", _lit("a"), _lit(None)), UNKNOWN),
    ("s LIKE NULL", _tree("like", "s", None), Constant(None)),
    ("x LIKE '5%'", _tree("like", "x", _lit("5%")), UNKNOWN),
    ("collated LIKE 'a%'", _tree("like", "collated", _lit("a%")), UNKNOWN),
    ("'abc' LIKE s", _tree("like", _lit("abc"), "s"), UNKNOWN),
    ("startswith(s, 'ap')", _tree("startswith", "s", _lit("ap")), StartsWith(("s",), "ap")),
    ("startswith(s, NULL)", _tree("startswith", "s", None), Constant(None)),
    ("startswith(bin, X'00')", _tree("startswith", "bin", b"\0"), UNKNOWN),
    ("x IS NULL", _tree("isnull", "x"), IsNull(("x",))),
    ("isnotnull(x)", _tree("isnotnull", "x"), Not(IsNull(("x",)))),
    ("a <=> NULL", _tree("<=>", "a", None), UNKNOWN),
    ("a IS NULL", _tree("isnull", "a"), UNKNOWN),
    ("arr IS NULL", _tree("isnull", "arr"), UNKNOWN),
    ("b", _name("b"), _at("b", "=", True)),
    ("x", _name("x"), UNKNOWN),
    ("b IS FALSE", _tree("<=>", "b", False), _at("b", "<=>", False)),
    ("b IS NOT TRUE", _tree("not", _tree("<=>", "b", True)), Not(_at("b", "<=>", True))),
    ("x IS TRUE", _tree("<=>", "x", True), UNKNOWN),
    ("TRUE", _lit(True), Constant(True)),
    ("CAST(NULL AS BOOLEAN)", _cast(None, "boolean"), Constant(None)),
    ("CAST('false' AS BOOLEAN)", _cast("false", "boolean"), Constant(False)),
    ("1", _lit(1), UNKNOWN),
    ("1 = 1", _tree("=", 1, 1), UNKNOWN),
    ("fl = 2.5F", _tree("=", "fl", _lit(2.5, single=True)), _at("fl", "=", 2.5)),
    ("f < CAST(0.1BD AS FLOAT)", _tree("<", "f", _cast(Decimal("0.1"), "float")), _at("f", "<", 0.10000000149011612)),
    ("f IN (0.5F, 1)", _tree("in", "f", _lit(0.5, single=True), 1), In(("f",), (0.5, 1.0))),
    ("x = CAST(16777217 AS FLOAT)", _tree("=", "x", _cast(16777217, "float")), UNKNOWN),
    ("x IN (5, 5F)", _tree("in", "x", 5, _lit(5.0, single=True)), UNKNOWN),
    ("dec = 1.25F", _tree("=", "dec", _lit(1.25, single=True)), UNKNOWN),
    ("x = -5F", _tree("=", "x", _tree("negative", _cast(5, "float"))), UNKNOWN),
    ("x = CAST(5F AS BIGINT)", _tree("=", "x", _tree(CAST, _cast(5, "float"), payload="long")), _at("x", "=", 5)),
    ("x < 9223372036854775808", _tree("<", "x", Decimal(2**63)), UNKNOWN),
    ("x < 5.5", _tree("<", "x", Decimal("5.5")), _at("x", "<", Decimal("5.5"))),
    ("dec = 1.25BD", _tree("=", "dec", Decimal("1.25")), _at("dec", "=", Decimal("1.25"))),
    ("dec = CAST('1.25' AS DECIMAL(5,2))", _tree("=", "dec", _cast("1.25", "decimal(5,2)")),
     _at("dec", "=", Decimal("1.25"))),
    ("dec = CAST('1.25' AS DECIMAL(5))", _tree("=", "dec", _cast("1.25", "DECIMAL(5)")), _at("dec", "=", Decimal(1))),
    ("dec = CAST('1.25' AS NUMERIC)", _tree("=", "dec", _cast("1.25", " numeric ")), _at("dec", "=", Decimal(1))),
    ("dec = CAST(1 AS DECIMAL(39, 0))", _tree("=", "dec", _cast(1, "decimal(39,0)")), UNKNOWN),
    ("x = CAST('7' AS INT)", _tree("=", "x", _cast("7", "integer")), _at("x", "=", 7)),
    ("x = CAST('7' AS BIGINT)", _tree("=", "x", _cast("7", "BigInt")), _at("x", "=", 7)),
    ("s = CAST(7 AS STRING)", _tree("=", "s", _cast(7, "string")), _at("s", "=", "7")),
    ("s = CAST('abc' AS VARCHAR(2))", _tree("=", "s", _cast("abc", "varchar(2)")), UNKNOWN),
    ("s = CAST('abc' AS CHAR(2))", _tree("=", "s", _cast("abc", "char(2)")), UNKNOWN),
    ("x = CAST(i AS BIGINT)", _tree("=", "x", _tree(CAST, "i", payload="long")), UNKNOWN),
    ("CAST(x AS BIGINT) = 5", _tree("=", _tree(CAST, "x", payload="long"), 5), _at("x", "=", 5)),
    ("CAST(CAST(x AS LONG) AS BIGINT) IS NULL", _tree("isnull", _tree(CAST, _tree(CAST, "x", payload="long"),
     payload="bigint")), IsNull(("x",))),
    ("CAST(dec AS DECIMAL(10, 2)) = 1.5", _tree("=", _tree(CAST, "dec", payload="decimal(10,2)"), Decimal("1.5")),
     _at("dec", "=", Decimal("1.5"))),
    ("CAST(dec AS DECIMAL(10, 1)) = 1.5", _tree("=", _tree(CAST, "dec", payload="decimal(10,1)"), Decimal("1.5")),
     UNKNOWN),
    ("CAST(a.B AS BIGINT) = 5", _tree("=", _tree(CAST, "a.B", payload="long"), 5), _at("a.B", "=", 5)),
    ("CAST(s AS STRING COLLATE UTF8_BINARY) = 'A'",
     _tree("=", _tree(CAST, "s", payload="string collate utf8_binary"), _lit("A")), _at("s", "=", "A")),
    ("CAST(s AS STRING) = 'A'", _tree("=", _tree(CAST, "s", payload="string"), _lit("A")), UNKNOWN),
    ("CAST(collated AS STRING) = 'A'", _tree("=", _tree(CAST, "collated", payload="string"), _lit("A")), UNKNOWN),
    ("CAST(s AS VARCHAR(2)) = 'ab'", _tree("=", _tree(CAST, "s", payload="varchar(2)"), _lit("ab")), UNKNOWN),
    ("CAST(ts AS TIMESTAMP_NTZ) IS NULL", _tree("isnull", _tree(CAST, "ts", payload="timestamp_ntz")), UNKNOWN),
    ("d = DATE '2020-01-05'", _tree("=", "d", dt.date(2020, 1, 5)), _at("d", "=", dt.date(2020, 1, 5))),
    ("ts = CAST('2020-01-05' AS TIMESTAMP_LTZ)", _tree("=", "ts", _cast("2020-01-05", "timestamp_ltz")),
     _at("ts", "=", dt.datetime(2020, 1, 5, tzinfo=dt.timezone.utc))),
    ("bin = X'1F'", _tree("=", "bin", b"\x1f"), _at("bin", "=", b"\x1f")),
    ("x = 1 AND (upper(s) = 'A' OR b)",
     _tree("and", _tree("=", "x", 1), _tree("or", _tree("=", _tree("upper", "s"), _lit("A")), "b")),
     And((_at("x", "=", 1), Or((UNKNOWN, _at("b", "=", True)))))),
    ("x + 1 = 5", _tree("=", _tree("+", "x", 1), 5), UNKNOWN),
    ("x = i", _tree("=", "x", "i"), UNKNOWN),
    ("arr[0] = 5", _tree("=", _tree("Bracket", "arr", 0), 5), UNKNOWN),
]  # fmt: skip


@pytest.mark.parametrize(("text", "tree", "expected"), SAME, ids=[str(same[0]) for same in SAME])
def test_text_and_a_tree_say_the_same(text: str, tree: ConditionTree, expected: Predicate) -> None:
    from_text = parse_predicate(text, SCHEMA)
    assert _without_texts(from_text) == expected
    assert _without_texts(translate(tree, SCHEMA)) == expected
    assert translate(ConditionTree(SQL, (), text), SCHEMA) == from_text


@pytest.mark.parametrize("text", ["bigint(x) = 5", "string(s) = 'a'", "CAST(x AS BIGINT) = int(5)"])
def test_a_function_may_have_the_name_of_a_type(text: str) -> None:
    assert _without_texts(parse_predicate(text, SCHEMA)) == UNKNOWN


def test_an_alias_is_looked_through() -> None:
    tree = _tree(ALIAS, _tree("=", _tree(ALIAS, "x"), _tree(ALIAS, 5)))
    assert translate(tree, SCHEMA) == _at("x", "=", 5)


def test_a_tree_that_names_no_column_of_the_schema_is_unknown_in_that_part() -> None:
    tree = _tree("and", _tree("=", "nope", 1), _tree("=", "x", 1), ConditionTree(SQL, (), "b AND nope.c IS NULL"))
    assert _without_texts(translate(tree, SCHEMA)) == And(
        (UNKNOWN, _at("x", "=", 1), And((_at("b", "=", True), UNKNOWN)))
    )


def test_text_in_a_tree_that_is_no_condition_is_unknown() -> None:
    assert _without_texts(translate(ConditionTree(SQL, (), "x = = 5"), SCHEMA)) == UNKNOWN


def test_an_unknown_part_has_its_text() -> None:
    said = parse_predicate("x = 1 AND s NOT LIKE '%a' AND i BETWEEN 1 AND x", SCHEMA)
    assert said == And(
        (
            _at("x", "=", 1),
            Unprunable("s NOT LIKE '%a'"),
            And((_at("i", ">=", 1), Unprunable("i BETWEEN 1 AND x"))),
        )
    )
    assert translate(_tree("rlike", "s", _lit("a")), SCHEMA) == Unprunable("rlike")


def test_whether_null_is_outside_of_an_empty_list_is_not_known() -> None:
    """Without the ANSI mode it is NULL, so no file is sure to hold matches only."""
    outside = translate(_tree("not", _tree("in", "x")), SCHEMA)
    assert _without_texts(not_true(outside)) == Or((_without_texts(Not(outside)), UNKNOWN))


@pytest.mark.parametrize("text", ["x BETWEEN nope AND 5", "equal_null(nope, 5)", "CAST(nope AS INT) = 5", "-nope = 5"])
def test_columns_are_looked_for_in_what_is_not_understood(text: str) -> None:
    with pytest.raises(InvalidArgument, match="no column nope"):
        parse_predicate(text, SCHEMA)


@pytest.mark.parametrize("text", ["f(nope) = 5", "exists(arr, nope -> nope > 1)", "f(nope).q = 5", "db.isnull(nope)"])
def test_names_in_functions_may_be_of_something_else(text: str) -> None:
    assert isinstance(parse_predicate(text, SCHEMA), Unprunable)


def test_a_sum_of_thousands_of_terms_is_unknown() -> None:
    assert isinstance(parse_predicate("x" + " + 1" * 3000 + " = 5", SCHEMA), Unprunable)


def test_a_tree_knows_its_names_and_its_operands() -> None:
    chain = _tree("or", _tree("or", "x", _tree("and", "i", "b")), "s")
    assert [operand.operation for operand in operands(chain)] == [NAME, "and", NAME]
    assert column_names(_tree(EXTRACT, _tree(ALIAS, "a"), _lit("x.y"))) == ("a", "x.y")
    assert column_names(_tree(EXTRACT, "a", 0)) is None
    assert column_names(_lit("a")) is None


def test_trees_are_the_same_whatever_text_they_are_of() -> None:
    assert read_sql("(x) = 5") == _tree("=", "x", 5)
    assert read_sql("x <> 5") == read_sql("x != 5")


@pytest.mark.parametrize(
    ("value", "nearest"),
    [
        ("0.1", 0.10000000149011612),
        (Decimal("0.1"), 0.10000000149011612),
        (16777217, 16777216.0),
        (16777217.0, 16777216.0),
        (-math.inf, -math.inf),
        ("1.00000005960464477541", None),
        (Decimal("1.00000005960464477541"), None),
        (9007199791611905, None),
        ("1.00000005960464477539", None),
        ("1.000000059604644775390625", 1.0),
        ("1e39", None),
        (10**400, None),
        (True, None),
        ("abc", None),
    ],
)
def test_a_cast_to_float_is_said_where_it_is_sure(value: Value, nearest: float | None) -> None:
    """What lies between two floats is not rounded twice, by way of a double."""
    assert cast_literal(value, FLOAT) == nearest
