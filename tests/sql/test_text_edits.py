"""Text edits that keep a column of the views of a statement out of its stars."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slackwater.errors import InvalidArgument
from slackwater.sql.lexer import tokens_of
from slackwater.sql.relations import blocks_of
from slackwater.sql.text_edits import apply_edits, reads_column, without_hidden_column


def edited(text: str, hides: Callable[[str], bool] = lambda _: True) -> str:
    tokens = tokens_of(text)
    assert tokens is not None
    blocks = blocks_of(text, tokens)
    hiding = {relation for block in blocks for relation in block.relations if hides(relation.shown)}
    return apply_edits(text, list(without_hidden_column(tokens, blocks, "m", hiding)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM t", "SELECT * EXCEPT (`t`.`m`) FROM t"),
        ("SELECT *, m.a FROM d.t x", "SELECT * EXCEPT (`x`.`m`), m.a FROM d.t x"),
        ("SELECT x.*, y.b FROM t x, t y", "SELECT x.* EXCEPT (`x`.`m`), y.b FROM t x, t y"),
        ("SELECT * FROM t x JOIN u ON true", "SELECT * EXCEPT (`x`.`m`, `u`.`m`) FROM t x JOIN u ON true"),
        ("SELECT * EXCEPT (a) FROM t", "SELECT * EXCEPT (`t`.`m`, a) FROM t"),
        (
            "SELECT * FROM t EXCEPT SELECT * FROM u",
            "SELECT * EXCEPT (`t`.`m`) FROM t EXCEPT SELECT * EXCEPT (`u`.`m`) FROM u",
        ),
        ("SELECT * EXCEPT (SELECT 1) FROM t", "SELECT * EXCEPT (`t`.`m`) EXCEPT (SELECT 1) FROM t"),
        ("SELECT count(*), 2 * a, a * (b) FROM t", "SELECT count(*), 2 * a, a * (b) FROM t"),
        (
            "SELECT * FROM (SELECT DISTINCT * FROM t) WHERE a IN (SELECT * FROM u)",
            "SELECT * FROM (SELECT DISTINCT * EXCEPT (`t`.`m`) FROM t) WHERE a IN (SELECT * EXCEPT (`u`.`m`) FROM u)",
        ),
        ("SELECT * FROM (t)", "SELECT * EXCEPT (`t`.`m`) FROM (t)"),
        ("SELECT * FROM (t x JOIN u)", "SELECT * EXCEPT (`x`.`m`, `u`.`m`) FROM (t x JOIN u)"),
        ("SELECT u.* FROM t JOIN (u, (v))", "SELECT u.* EXCEPT (`u`.`m`) FROM t JOIN (u, (v))"),
        ("SELECT * FROM (t CROSS JOIN u) x", "SELECT * EXCEPT (`x`.`m`) FROM (t CROSS JOIN u) x"),
        ("SELECT * FROM t SEMI JOIN u ON true", "SELECT * EXCEPT (`t`.`m`) FROM t SEMI JOIN u ON true"),
        (
            "SELECT * FROM t LEFT ANTI JOIN (u, v) JOIN w",
            "SELECT * EXCEPT (`t`.`m`, `w`.`m`) FROM t LEFT ANTI JOIN (u, v) JOIN w",
        ),
        (
            "SELECT * FROM t UNION ALL SELECT * FROM u",
            "SELECT * EXCEPT (`t`.`m`) FROM t UNION ALL SELECT * EXCEPT (`u`.`m`) FROM u",
        ),
    ],
)
def test_stars_leave_the_column_out(text: str, expected: str) -> None:
    assert edited(text) == expected


def test_stars_of_other_relations_stay() -> None:
    text = "SELECT x.*, y.* FROM t x JOIN u y ON true"
    assert edited(text, lambda name: name == "y") == "SELECT x.*, y.* EXCEPT (`y`.`m`) FROM t x JOIN u y ON true"
    assert edited(text, lambda _: False) == text


@pytest.mark.parametrize(
    ("text", "use"),
    [
        ("SELECT struct(*) FROM t", "a \\*"),
        ("SELECT count(DISTINCT *) FROM t", "a \\*"),
        ("FROM t SELECT *", "a \\*"),
        ("SELECT a FROM t NATURAL JOIN u", "NATURAL"),
        ("FROM t |> SELECT a", r"\|>"),
        ("TABLE t", "t"),
    ],
)
def test_statements_that_use_all_columns_in_another_way_are_refused(text: str, use: str) -> None:
    with pytest.raises(InvalidArgument, match=f"m is named in a statement with {use}"):
        edited(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT m.a FROM t", True),
        ("SELECT M FROM t", True),
        ("SELECT m.a AS m FROM t", True),
        ("SELECT upper(a) AS m, count(*) FROM t GROUP BY m", False),
        ("SELECT a + 1 AS m, m + 1 FROM t", False),
        ("SELECT a FROM t AS m", False),
        ("SELECT t.m.a FROM t", True),
        ("SELECT u.m.a FROM t JOIN u ON true", False),
        ("SELECT 'm' FROM t", False),
        ("SELECT struct(*) AS m FROM t", False),
    ],
)
def test_a_relation_whose_column_may_be_named_is_found(text: str, expected: bool) -> None:
    tokens = tokens_of(text)
    assert tokens is not None
    assert reads_column(tokens, "m", blocks_of(text, tokens)[0].relations[0]) is expected


def test_names_without_qualifier_are_those_of_a_real_column() -> None:
    text = "SELECT m.a, u.m FROM t JOIN u"
    tokens = tokens_of(text)
    assert tokens is not None
    relations = blocks_of(text, tokens)[0].relations
    assert [reads_column(tokens, "m", each, is_taken=True) for each in relations] == [False, True]
