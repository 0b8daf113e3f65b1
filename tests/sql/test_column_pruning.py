"""Which columns a statement can need: the named ones, or all where it may take columns that it does not name."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from slackwater.sql.column_pruning import needed_columns, renames_columns
from slackwater.sql.lexer import tokens_of
from slackwater.sql.relations import relations_of

NAMES = ("id", "Name", "odd name", "p")


def needed(text: str) -> frozenset[str] | None:
    return needed_columns(tokens_of(text) or [], NAMES)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT id FROM t", {"id"}),
        ("SELECT t.ID, `name` FROM t WHERE `odd name` > 1", {"id", "Name", "odd name"}),
        ("SELECT count(*) FROM t", set()),
        ("SELECT count( * ) FROM t WHERE p = 1", {"p"}),
        ("SELECT id * 2, (id) * p, 3 * id FROM t", {"id", "p"}),
        ("SELECT 'name', id -- p\n FROM t", {"id"}),
        ("SELECT x.name FROM (SELECT id AS name FROM t) x", {"id", "Name"}),
        ("SELECT 1 FROM t JOIN u USING (id)", {"id"}),
    ],
)
def test_columns_that_are_named(text: str, found: Collection[str]) -> None:
    assert needed(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM t",
        "SELECT t.* FROM t",
        "SELECT id, * FROM t",
        "SELECT * EXCEPT (id) FROM t",
        "SELECT DISTINCT * FROM t",
        "SELECT struct(*) FROM t",
        "SELECT count(DISTINCT *) FROM t",
        "SELECT id FROM t NATURAL JOIN u",
        "TABLE t",
        "FROM t |> SELECT id",
        "SELECT * FROM t PIVOT (sum(id) FOR p IN (1, 2))",
        "SELECT IDENTIFIER('id') FROM t",
        "SELECT TRANSFORM(id) USING 'cat' FROM t",
    ],
)
def test_all_columns_where_they_are_not_named(text: str) -> None:
    assert needed(text) is None


@pytest.mark.parametrize(
    ("text", "renames"),
    [
        ("SELECT x FROM t AS a (x, y)", True),
        ("SELECT x FROM t a(x, y)", True),
        ("SELECT x FROM t /* b */ AS /* c */ `a b` (x)", True),
        ("SELECT x FROM t a WHERE (x = 1)", False),
        ("SELECT x FROM t WHERE (x = 1)", False),
        ("SELECT x FROM t JOIN (SELECT 1) u", False),
    ],
)
def test_an_alias_may_rename_all_columns(text: str, renames: bool) -> None:
    relation = next(each for each in relations_of(text, tokens_of(text) or []) if each.parts == ("t",))
    assert renames_columns(text, relation) is renames
