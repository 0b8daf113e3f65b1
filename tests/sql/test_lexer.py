"""SQL text as tokens with their places, and the cursor that reads a statement from left to right."""

from __future__ import annotations

import pytest

from slackwater.errors import InvalidArgument
from slackwater.sql.lexer import (
    NAME,
    SIGN,
    TEXT,
    WORD,
    TokenCursor,
    closing,
    name_at,
    quoted,
    tokens_of,
    with_quoted_names,
)
from tests.sql.reading import cursor, tokens


def raws(text: str) -> list[str]:
    return [token.raw for token in tokens(text)]


def values(text: str) -> list[str]:
    return [token.value for token in tokens(text)]


def test_each_token_is_of_its_kind() -> None:
    assert [token.kind for token in tokens("a `b` 'c' ;")] == [WORD, NAME, TEXT, SIGN]


def test_a_token_knows_its_place() -> None:
    text = "  SELECT\t`a b` --x\n, 'c'"
    assert [text[token.start : token.end] for token in tokens(text)] == ["SELECT", "`a b`", ",", "'c'"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a--b\nc", ["a", "c"]),
        ("a--b \\\nc\nd", ["a", "d"]),
        ("a--b \\\r\nc\r\nd", ["a", "d"]),
        ("a--'\nb", ["a", "b"]),
        ("a--b", ["a"]),
        ("a/*b*/c", ["a", "c"]),
        ("a/* b /* c */ d */e", ["a", "e"]),
        ("a/* ' */b", ["a", "b"]),
        ("a/* -- */b", ["a", "b"]),
        ("a/*+ BROADCAST(t) */b", ["a", "b"]),
        ("a/**/b", ["a", "b"]),
        ("'-- no' a", ["'-- no'", "a"]),
        ("'/* no' a", ["'/* no'", "a"]),
        ("`/* no` a", ["`/* no`", "a"]),
        ("a / * b", ["a", "/", "*", "b"]),
        ("a - -1", ["a", "-", "-", "1"]),
    ],
)
def test_comments_are_no_tokens(text: str, found: list[str]) -> None:
    assert raws(text) == found


@pytest.mark.parametrize("text", ["'a", '"a', "`a", "/* a", "/* a /* b */", "'a\\'", "r'a", "'a''", "a/*/"])
def test_what_does_not_end_has_no_tokens(text: str) -> None:
    assert tokens_of(text) is None


@pytest.mark.parametrize(
    "sign", ["|>", "<=>", "<=", ">=", "<>", "!=", "==", "=>", "->", "||", "::", "|", "<", ">", "=", ":", ";", "@"]
)
def test_a_sign_of_several_characters_is_one_token(sign: str) -> None:
    assert raws(f"a{sign}b") == ["a", sign, "b"]


@pytest.mark.parametrize("word", ["a1", "1a", "_", "é", "表"])
def test_a_word_has_letters_digits_and_underscores(word: str) -> None:
    assert [(token.kind, token.raw) for token in tokens(f"+{word}+")][1] == (WORD, word)


def test_only_words_and_signs_have_capitals() -> None:
    assert [token.upper for token in tokens("from `from` 'from' =")] == ["FROM", "", "", "="]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'a'", "a"),
        ('"a"', "a"),
        ("''", ""),
        (r"'it\'s'", "it's"),
        ("'it''s'", "it's"),
        ('"a""b"', 'a"b'),
        ("'a\"\"b'", 'a""b'),
        (r"'\"'", '"'),
        (r"'a\\nb'", r"a\nb"),
        (r"'a\nb\tc\rd'", "a\nb\tc\rd"),
        (r"'\0\b\Z'", "\0\b\x1a"),
        (r"'\%\_'", r"\%\_"),
        (r"'\q'", "q"),
        (r"'\101\1770'", "A\x7f0"),
        (r"'\201\477'", "201477"),
        (r"'\u0041\U0001F600'", "A😀"),
        (r"'\ud83d\ude00'", "😀"),
        (r"'\u00e'", "u00e"),
        (r"'\UFFFFFFFF'", "\ufffd"),
        ("'a\\\nb'", "a\nb"),
        (r"r'a\n'", r"a\n"),
        (r'R"a\"', "a\\"),
        ("`a``b`", "a`b"),
        ("`a.b`", "a.b"),
        (r"`a\n`", r"a\n"),
        ("````", "`"),
    ],
)
def test_the_value_of_a_text_or_name_is_what_spark_reads(text: str, value: str) -> None:
    assert values(text) == [value]


def test_an_r_within_a_word_begins_no_raw_text() -> None:
    assert values(r"ar'\n'") == ["ar", "\n"]


def test_a_parenthesis_is_closed_by_its_own() -> None:
    assert closing(tokens("(a (b) c) ) (")) == {0: 6, 2: 4}


def test_parentheses_in_texts_close_nothing() -> None:
    assert closing(tokens("( ')' /* ) */ `)` )")) == {0: 3}


@pytest.mark.parametrize(
    ("text", "parts", "behind"),
    [
        ("a", ("a",), 1),
        ("a.b.c d", ("a", "b", "c"), 5),
        ("a . `b.c`", ("a", "b.c"), 3),
        ("delta.`/a b/c`", ("delta", "/a b/c"), 3),
        ("a.*", ("a",), 1),
        ("a.from x", ("a", "from"), 3),
    ],
)
def test_a_name_has_the_parts_that_dots_join(text: str, parts: tuple[str, ...], behind: int) -> None:
    name = name_at(tokens(text), 0)
    assert name is not None
    assert (name.parts, name.next) == (parts, behind)
    assert text[name.start : name.end] == text[: tokens(text)[behind - 1].end]


@pytest.mark.parametrize("text", ["", "'a'", "(a)", "."])
def test_what_is_no_name_gives_none(text: str) -> None:
    assert name_at(tokens(text), 0) is None


@pytest.mark.parametrize("part", ["a", "a`b", "``", "a.b", "select", " "])
def test_a_quoted_name_says_what_it_was_made_of(part: str) -> None:
    assert values(quoted(part)) == [part]


def test_the_text_of_a_name_is_sql_of_its_parts() -> None:
    name = name_at(tokens("a.`b``.c`"), 0)
    assert name is not None
    assert name.text == "`a`.`b``.c`"


def test_a_semicolon_behind_a_statement_is_none_of_it() -> None:
    read = cursor("a ; ;")
    read.expect("A")
    read.done()


def test_a_semicolon_within_a_statement_is_unexpected() -> None:
    read = cursor("a; b")
    read.expect("A")
    with pytest.raises(InvalidArgument, match="found ';'"):
        read.done()


def test_words_are_taken_all_or_none() -> None:
    read = cursor("group by a")
    assert not read.accept("GROUP", "BY", "B")
    assert read.at == 0
    assert read.accept("GROUP", "BY")
    assert read.accept_any("B", "A") == "A"
    assert read.is_done


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("x", "line 1, column 1: expected FROM, found 'x'"),
        ("  x", "line 1, column 3: expected FROM, found 'x'"),
        ("\n\n x", "line 3, column 2: expected FROM, found 'x'"),
        ("/* a\nb */ 'x y'", "line 2, column 6: expected FROM, found \"'x y'\""),
        ("", "line 1, column 1: expected FROM, found its end"),
        ("-- a\n", "line 2, column 1: expected FROM, found its end"),
    ],
)
def test_an_error_says_where_what_was_expected_and_what_was_found(text: str, place: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        cursor(text).expect("FROM")
    assert place in str(raised.value)


@pytest.mark.parametrize(
    ("text", "fragment", "summary"),
    [
        ("a 'x y'\nb", "a", "== SQL (line 1, position 1) ==\na 'x y'\n^\n"),
        ("\n\n 'x y' b\nc", "'x y'", "== SQL (line 3, position 2) ==\n 'x y' b\n ^^^^^\n"),
        ("'x\ny'", "'x\ny'", "== SQL (line 1, position 1) ==\n'x\n^^\n"),
        ("", "", "== SQL (line 1, position 1) ==\n\n^\n"),
    ],
)
def test_an_error_has_the_place_in_the_statement(text: str, fragment: str, summary: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        cursor(text).expect("FROM")
    (place,) = raised.value.getQueryContext()
    assert (place.fragment(), place.summary()) == (fragment, summary)
    assert text[place.startIndex() : place.stopIndex() + 1] == fragment
    assert (place.objectType(), place.objectName(), place.callSite()) == ("", "", "")


def test_an_error_shows_the_begin_of_the_statement() -> None:
    with pytest.raises(InvalidArgument) as raised:
        cursor(f" a {'b' * 300}").expect("FROM")
    assert str(raised.value).endswith(f"in: a {'b' * 198}")


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("a + 1 WHERE b", "WHERE b"),
        ("(a WHERE b) WHERE c", "WHERE c"),
        ("CASE WHEN where THEN b END WHERE c", "WHERE c"),
        ("CASE CASE where WHEN b THEN c END WHEN where THEN e END WHERE f", "WHERE f"),
        ("t.where + t.case WHERE a", "WHERE a"),
        ("t.end WHERE a", "WHERE a"),
        ("`where` WHERE a", "WHERE a"),
        ("'where' WHERE a", "WHERE a"),
        ("1. WHERE a", "WHERE a"),
        ("1.where WHERE a", "WHERE a"),
        ("a + 1", ""),
    ],
)
def test_until_stops_at_a_word_outside_of_parentheses_case_and_names(text: str, rest: str) -> None:
    read = cursor(text)
    before = read.until("WHERE")
    assert before == text[: len(text) - len(rest)].rstrip()
    assert read.rest() == rest


def test_the_text_between_tokens_is_as_it_was_written() -> None:
    read = cursor("SET  a /* why */ =\n1 -- one\n WHERE b")
    read.expect("SET")
    assert read.until("WHERE") == "a /* why */ =\n1"


def test_a_group_is_the_text_in_its_parentheses() -> None:
    read = cursor("(a, (b), ')') c")
    assert read.group() == "a, (b), ')'"
    assert read.rest() == "c"


@pytest.mark.parametrize(("text", "expected"), [("a", "columns"), ("(a", r"a \) for every \("), ("((a)", r"a \) for")])
def test_a_group_that_is_none_is_unexpected(text: str, expected: str) -> None:
    with pytest.raises(InvalidArgument, match=f"expected {expected}"):
        cursor(text).group("columns")


@pytest.mark.parametrize(
    ("text", "number"), [("12 a", "12"), ("-3", "-3"), ("- 3", "- 3"), ("1.5", "1.5"), ("1e3", "1e3"), ("1.a", "1")]
)
def test_a_number_is_read_as_it_is_written(text: str, number: str) -> None:
    assert cursor(text).number() == number


@pytest.mark.parametrize("text", ["", "a", "'1'", "- a", "-"])
def test_what_is_no_number_is_unexpected(text: str) -> None:
    with pytest.raises(InvalidArgument, match="expected a number"):
        cursor(text).number()


def test_texts_that_follow_one_another_are_one() -> None:
    read = cursor("'a' r\"b\" 'c''d' e")
    assert read.literal() == "abc'd"
    assert read.rest() == "e"


def test_one_text_may_be_read_of_several() -> None:
    read = cursor("'a' 'b'")
    assert (read.one_literal(), read.one_literal()) == ("a", "b")


@pytest.mark.parametrize("text", ["", "a", "`a`", "1"])
def test_what_is_no_text_is_unexpected(text: str) -> None:
    with pytest.raises(InvalidArgument, match="expected a text in quotes"):
        cursor(text).literal()


def test_a_name_does_not_go_on_behind_the_end_of_the_cursor() -> None:
    text = "a.b"
    with pytest.raises(InvalidArgument, match="the name of a table"):
        TokenCursor(text, tokens(text), 0, 1).name()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            'SELECT "a b", \'"c"\' -- "d"\n, "e`f", "g""h" FROM "t"',
            'SELECT `a b`, \'"c"\' -- "d"\n, `e``f`, `g"h` FROM `t`',
        ),
        ("SELECT 'a', r\"b\"", "SELECT 'a', r\"b\""),
    ],
)
def test_texts_in_double_quotes_may_be_names(text: str, found: str) -> None:
    assert with_quoted_names(text, tokens(text)) == found
