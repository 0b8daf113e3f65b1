"""As of when a statement names a table: versions, times, periods, and where the clause ends."""

from __future__ import annotations

import pytest

from slackwater.errors import InvalidArgument
from slackwater.sql.time_travel import (
    AT,
    BETWEEN,
    FROM_TO,
    SYSTEM_TIME,
    TIMESTAMP,
    VERSION,
    Travel,
    at_suffix,
    travel_at,
)
from tests.sql.reading import tokens


def clause(text: str) -> tuple[Travel, str] | None:
    """The clause at the begin of a text, and the word behind it."""
    read = tokens(text)
    found = travel_at(text, read, 0)
    if found is None:
        return None
    travel, behind = found
    return travel, read[behind].raw if behind < len(read) else ""


@pytest.mark.parametrize(
    ("text", "travel"),
    [
        ("VERSION AS OF 3", Travel(VERSION, ("3",))),
        ("FOR VERSION AS OF '3'", Travel(VERSION, ("'3'",))),
        ("FOR SYSTEM_VERSION AS OF :v", Travel(VERSION, (":v",))),
        ("system_version as of ?", Travel(VERSION, ("?",))),
        ("TIMESTAMP AS OF '2026-11-21'", Travel(TIMESTAMP, ("'2026-11-21'",))),
        ("FOR TIMESTAMP AS OF now()", Travel(TIMESTAMP, ("now()",))),
        ("SYSTEM_TIME AS OF now()", Travel(SYSTEM_TIME, ("now()",))),
        ("FOR SYSTEM_TIME AS OF now()", Travel(SYSTEM_TIME, ("now()",))),
        ("FOR SYSTEM_TIME FROM 'a' TO 'b'", Travel(FROM_TO, ("'a'", "'b'"))),
        ("FOR SYSTEM_TIME BETWEEN 'a' AND 'b'", Travel(BETWEEN, ("'a'", "'b'"))),
        (
            "FOR system_time BETWEEN now() - INTERVAL 1 DAY AND now()",
            Travel(BETWEEN, ("now() - INTERVAL 1 DAY", "now()")),
        ),
        ("FOR SYSTEM_TIME FROM INTERVAL '1' DAY + a TO b", Travel(FROM_TO, ("INTERVAL '1' DAY + a", "b"))),
    ],
)
def test_a_clause_has_its_kind_and_expressions(text: str, travel: Travel) -> None:
    assert clause(text) == (travel, "")


@pytest.mark.parametrize(
    "expression",
    [
        "3",
        "1.5",
        "1.",
        "-1",
        "- + 1",
        "'a'",
        "'a' 'b'",
        "r'a'",
        "DATE '2026-11-21'",
        "TIMESTAMP '2026-11-21 12:00:00'",
        "current_timestamp",
        "current_timestamp()",
        "date_sub(current_date(), 1)",
        "db.f(1, (2))",
        "session.at",
        "(SELECT max(a) FROM u)",
        "CAST('2026-11-21' AS TIMESTAMP)",
        "'2026-11-21'::timestamp",
        "'1.5'::decimal(2, 1)",
        "'2026'::timestamp - INTERVAL 1 DAY",
        "now() - INTERVAL 1 DAY",
        "now() - INTERVAL '1' DAY",
        "now() - INTERVAL '1 12' DAY TO HOUR",
        "now() - INTERVAL 1 DAY 2 HOURS",
        "now() - INTERVAL -1 MONTH",
        "now() - INTERVAL '1 day'",
        "INTERVAL 1 DAY + now() + INTERVAL 2 HOURS",
        "'a' || 'b'",
        "f(x).a",
        "f(x)[0]",
        "CASE WHEN a THEN b ELSE CASE c WHEN d THEN e END END",
        "7 DIV 2 % 3",
        ":at",
        "?",
        "`a b`",
    ],
)
@pytest.mark.parametrize("behind", ["", "x", "AS x", "WHERE a", ", u", "JOIN u", ")", ";", "TABLESAMPLE (1 ROWS)"])
def test_the_clause_ends_behind_its_expression(expression: str, behind: str) -> None:
    word = behind.split(" ", maxsplit=1)[0]
    assert clause(f"TIMESTAMP AS OF {expression} {behind}") == (Travel(TIMESTAMP, (expression,)), word)


@pytest.mark.parametrize(
    "text",
    [
        "version",
        "VERSION x",
        "timestamp AS x",
        "FOR x",
        "FOR VERSION FROM 1 TO 2",
        "SYSTEM_TIME FROM 1 TO 2",
        "AS OF 1",
        "x",
        "`VERSION` AS OF 1",
    ],
)
def test_other_words_are_no_clause(text: str) -> None:
    assert clause(text) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("VERSION AS OF", "a time or a version is missing"),
        ("TIMESTAMP AS OF )", "a time or a version is missing"),
        ("FOR SYSTEM_TIME FROM 1", "FOR SYSTEM_TIME FROM 1: expected TO and a second time"),
        ("FOR SYSTEM_TIME FROM 1 AND 2", "expected TO"),
        ("FOR SYSTEM_TIME BETWEEN 1 TO 2", "FOR SYSTEM_TIME BETWEEN 1: expected AND"),
        ("FOR SYSTEM_TIME BETWEEN 1 AND", "a time or a version is missing"),
        ("FOR SYSTEM_TIME FROM TO 2", "expected TO"),
    ],
)
def test_a_clause_that_does_not_go_on_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        clause(text)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("t@v3", "v3"),
        ("t@V30", "V30"),
        ("t@20261121000000000", "20261121000000000"),
        ("t @v3", None),
        ("t@3", None),
        ("t@version", None),
        ("t@", None),
        ("t@'v3'", None),
        ("t v3", None),
    ],
)
def test_a_version_behind_a_name_stands_right_behind_it(text: str, version: str | None) -> None:
    assert at_suffix(tokens(text), 1) == (None if version is None else (Travel(AT, (version,)), 3))
