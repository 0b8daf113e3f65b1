"""SQL text in Spark's dialect: what its tokens and names are, and where it is refused."""

from __future__ import annotations

import pytest
from sqlglot import exp

from slackwater.errors import InvalidArgument, SqlSyntaxError
from slackwater.protocol.sqlglot_adapter import column_path, parse_sql, sql_tokens


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"'a\tb\n\r\b\0\Z'", "a\tb\n\r\b\0\x1a"),
        (r"'\u00e9\U0001F600\101'", "é\U0001f600A"),
        (r"'\U00110000'", "\ufffd"),
        (r"'50\% \_ \\ \q'", r"50\% \_ \ q"),
        (r"'it\'s'", "it's"),
        (r'"say \"yes\""', 'say "yes"'),
        (r"r'a\tb'", r"a\tb"),
    ],
)
def test_the_escapes_of_a_text_are_sparks(text: str, value: str) -> None:
    assert parse_sql(text).this == value


@pytest.mark.parametrize("text", ["1.255BD", "5bd", ".0255BD", "1.BD"])
def test_a_decimal_keeps_its_digits(text: str) -> None:
    node = parse_sql(text)
    assert isinstance(node, exp.Literal)
    assert float(node.this) == float(text[:-2])


def test_a_decimal_with_an_exponent_is_no_double() -> None:
    assert isinstance(parse_sql("125e-2BD"), exp.Cast)
    assert isinstance(parse_sql("125e-2"), exp.Literal)


def test_what_begins_with_0x_is_a_name() -> None:
    assert column_path(parse_sql("0x1F")) == ("0x1F",)
    assert isinstance(parse_sql("X'1F'"), exp.HexString)


def test_tokens_tell_where_they_stand() -> None:
    text = r"a = '\t' AND b = 1.5BD -- done"
    assert [text[t.start : t.end + 1] for t in sql_tokens(text)] == ["a", "=", r"'\t'", "AND", "b", "=", "1.5BD"]


def test_a_text_that_does_not_end_has_no_tokens() -> None:
    with pytest.raises(SqlSyntaxError, match="not an SQL expression"):
        sql_tokens("'abc")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a", ("a",)),
        ("(a.B)", ("a", "B")),
        ("a.b.c.d.e.f", ("a", "b", "c", "d", "e", "f")),
        ("(a.b).c", ("a", "b", "c")),
        ("`a.b`.`c```", ("a.b", "c`")),
        ("a[0].b", None),
        ("f(a).b", None),
        ("a.f(b)", None),
        ("a.*", None),
        ("1", None),
    ],
)
def test_a_column_reference_has_parts(text: str, names: tuple[str, ...] | None) -> None:
    assert column_path(parse_sql(text)) == names


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("a +", "line 1, column 3"),
        ("a\nb", "line 2, column 1"),
        ("", "found 0"),
        ("a; b", "found 2"),
        ("'a", "Missing '"),
    ],
)
def test_what_is_no_expression_is_refused_with_its_place(text: str, where: str) -> None:
    with pytest.raises(InvalidArgument, match=where) as error:
        parse_sql(text, "rule")
    assert repr(text) in str(error.value)
    assert "SQL rule" in str(error.value)


@pytest.mark.parametrize(
    ("text", "fragment", "start"),
    [("a = 1 and\n and b = 2", "and", 11), ("a = )", ")", 4), ("(a = 1", "1", 5)],
)
def test_what_is_no_sql_has_the_place_of_what_was_not_expected(text: str, fragment: str, start: int) -> None:
    with pytest.raises(SqlSyntaxError) as raised:
        parse_sql(text)
    (place,) = raised.value.getQueryContext()
    assert (place.fragment(), place.startIndex()) == (fragment, start)
