"""Names that a statement does not spell out."""

from __future__ import annotations

import pytest

from slackwater.sql.dynamic_names import truncated, with_constant_names, with_variables
from slackwater.sql.lexer import tokens_of

VALUES = {"t": "people", "a.b": "x", "nested": "${t}_${a.b}", "self": "<${self}>", "one": "${two}", "two": "${one}"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT * FROM ${t}", "SELECT * FROM people"),
        ("${spark:a.b} ${hiveconf:t} ${hivevar:t} ${sparkconf:t}", "x people people people"),
        ("${nested}", "people_x"),
        ("${gone} ${env:t} ${system:t} ${ t } $t {t}", "${gone} ${env:t} ${system:t} ${ t } $t {t}"),
        ("${self} ${one}", "<${self}> ${one}"),
        ("no variable", "no variable"),
    ],
)
def test_settings_take_the_place_of_variables(text: str, found: str) -> None:
    assert with_variables(text, VALUES.get) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("DELETE FROM IDENTIFIER('a.`b c`') WHERE x", "DELETE FROM a.`b c` WHERE x"),
        ("TABLE identifier ( 'd' || '.t' )", "TABLE d.t"),
        ("SELECT IDENTIFIER('c') FROM t", "SELECT c FROM t"),
        ("TABLE IDENTIFIER(name)", "TABLE IDENTIFIER(name)"),
        ("TABLE IDENTIFIER('a' || name)", "TABLE IDENTIFIER('a' || name)"),
        ("TABLE IDENTIFIER('a b')", "TABLE IDENTIFIER('a b')"),
        ("TABLE IDENTIFIER()", "TABLE IDENTIFIER()"),
        ("SELECT identifier FROM t", "SELECT identifier FROM t"),
        ("SELECT 'IDENTIFIER(''a'')'", "SELECT 'IDENTIFIER(''a'')'"),
    ],
)
def test_constants_that_are_names_become_names(text: str, found: str) -> None:
    assert with_constant_names(text, tokens_of(text) or []) == found


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("TRUNCATE TABLE a.b", [("a", "b")]),
        ("BEGIN SELECT 1; TRUNCATE TABLE t; truncate table IDENTIFIER(x); END", [("t",), None]),
        ("TRUNCATE TABLE ${t}", [None]),
        ("TRUNCATE TABLE", [None]),
        ("TRUNCATE TABLE identifier", [("identifier",)]),
        ("SELECT truncate FROM t", []),
        ("SELECT 'TRUNCATE TABLE t' -- TRUNCATE TABLE u", []),
    ],
)
def test_every_table_that_is_to_be_truncated_is_seen(text: str, names: list[tuple[str, ...] | None]) -> None:
    assert [name and name.parts for name in truncated(tokens_of(text) or [])] == names
