"""Values of parameters as literals in the text of a statement."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any, cast

import pytest

from slackwater.errors import InvalidArgument
from slackwater.sql.parameters import sql_literal, text_literal, with_literals
from tests.sql.reading import tokens


@pytest.mark.parametrize(
    ("value", "literal"),
    [
        (None, "NULL"),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (-1, "-1"),
        (2**31 - 1, "2147483647"),
        (2**31, "2147483648L"),
        (-(2**31), "-2147483648"),
        (-(2**31) - 1, "-2147483649L"),
        (2**63, "9223372036854775808BD"),
        (1.5, "1.5D"),
        (1e-5, "1e-05D"),
        (float("nan"), "double('nan')"),
        (float("-inf"), "double('-inf')"),
        (Decimal("1.50"), "1.50BD"),
        ("it's", r"'it\'s'"),
        (b"\x00\xff", "X'00ff'"),
        (bytearray(b"a"), "X'61'"),
        (dt.date(2026, 11, 21), "DATE '2026-11-21'"),
        (dt.datetime(2026, 11, 21, 1, 2, 3, 4, dt.timezone.utc), "TIMESTAMP '2026-11-21 01:02:03.000004Z'"),
        (
            dt.datetime(2026, 11, 21, 1, tzinfo=dt.timezone(dt.timedelta(hours=2))),
            "TIMESTAMP '2026-11-20 23:00:00Z'",
        ),
        ([1, "a", None], "array(1, 'a', NULL)"),
        ((), "array()"),
        ({"a": 1, "b": [2]}, "map('a', 1, 'b', array(2))"),
    ],
)
def test_a_value_is_a_literal_of_its_type(value: Any, literal: str) -> None:
    assert sql_literal(value) == literal


def test_a_time_without_a_zone_is_of_this_machine() -> None:
    here = dt.datetime(2026, 11, 21, 12)
    assert sql_literal(here) == sql_literal(here.astimezone(dt.timezone.utc))


@pytest.mark.parametrize("value", [object(), {1}, Decimal("NaN"), Decimal("Infinity"), dt.time(1), 1j, [object()]])
def test_another_value_is_refused_by_its_type(value: Any) -> None:
    with pytest.raises(InvalidArgument, match="must be a plain value, found "):
        sql_literal(value)


@pytest.mark.parametrize(
    "value", ["", "'", '"', "\\", r"\n", "a\nb\r\t", "\\'", "%_", "é😀", "--", "/*", "${a}", "$\\{a}"]
)
def test_a_text_is_one_token_that_says_the_same(value: str) -> None:
    (token,) = tokens(text_literal(value))
    assert token.value == value
    assert "\n" not in token.raw
    assert "${" not in token.raw


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT :a, :b", "SELECT 1, 'x'"),
        ("SELECT :a + :a", "SELECT 1 + 1"),
        ("WHERE c=:a AND d IN(:a,:b)", "WHERE c=1 AND d IN(1,'x')"),
        ("f(c=>:a, d%:a, e|:a, [:a])", "f(c=>1, d%1, e|1, [1])"),
        ("SELECT:a", "SELECT 1"),
        ("COMMENT :a", "COMMENT 1"),
        ("LIMIT:a", "LIMIT 1"),
        ("WHERE c=:`a`", "WHERE c=1"),
        (":a::int", "1::int"),
        ("SELECT c:a, c:a.b, f(c):a, c[0]:a, `c`:a", "SELECT c:a, c:a.b, f(c):a, c[0]:a, `c`:a"),
        ("CAST(c AS STRUCT<a:a>)", "CAST(c AS STRUCT<a:a>)"),
        ("STRUCT<a: a>", "STRUCT<a: a>"),
        ("SELECT ':a' -- :a\n, \":a\" /* :a */, `:a`", "SELECT ':a' -- :a\n, \":a\" /* :a */, `:a`"),
        ("SELECT ?", "SELECT ?"),
    ],
)
def test_named_parameters_are_replaced_where_they_stand_by_themselves(text: str, found: str) -> None:
    assert with_literals(text, {"a": 1, "b": "x"}) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT ?, ?", "SELECT 1, 'x'"),
        ("WHERE a=? AND b=?", "WHERE a=1 AND b='x'"),
        ("SELECT '?' -- ?\n, ? /* ? */, `?`, \"?\", ?", "SELECT '?' -- ?\n, 1 /* ? */, `?`, \"?\", 'x'"),
        ("SELECT?AND r?", "SELECT 1 AND r 'x'"),
        ("SELECT :a, ?", "SELECT :a, 1"),
    ],
)
def test_question_marks_are_replaced_in_their_order(text: str, found: str) -> None:
    assert with_literals(text, [1, "x"]) == found


@pytest.mark.parametrize(
    ("text", "value", "found"),
    [
        ("a -?", -1, "a - -1"),
        ("a - ?", -1, "a - -1"),
        ("r?", "x", "r 'x'"),
        ("?'y'", "x", "'x' 'y'"),
        ("'y'?", "x", "'y' 'x'"),
        ("?a", 1, "1 a"),
    ],
)
def test_a_value_stays_a_token_of_its_own(text: str, value: Any, found: str) -> None:
    assert with_literals(text, [value]) == found


def test_a_parameter_without_a_value_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidArgument, match=r"parameter :b has no value in args\. The names in args are: a"):
        with_literals("SELECT :a, :b", {"a": 1})


def test_a_question_mark_too_many_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="args has 1 values"):
        with_literals("SELECT ?, ?", [1])


def test_keys_of_other_types_are_no_parameters() -> None:
    with pytest.raises(InvalidArgument, match="parameter :a has no value"):
        with_literals("SELECT :a", {cast("str", 1): 2, "b": 3})


def test_a_text_without_an_end_is_left_as_it_is() -> None:
    assert with_literals("SELECT :a, 'b", {"a": 1}) == "SELECT :a, 'b"
