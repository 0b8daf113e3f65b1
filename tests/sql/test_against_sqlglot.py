"""Statements of the corpus of SQL name the tables that sqlglot finds in them."""

from __future__ import annotations

from pathlib import Path

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from tests.spark.sql.grammar import generated
from tests.sql.reading import relations

_CORPUS = Path(__file__).parent.parent / "spark" / "sql"

# Where sqlglot is mistaken, or asks of a session what it does not know: the tables that Spark's own parser finds.
_DIFFERENT: dict[str, set[str]] = {
    # Names in double quotes are names in sessions that are set so, else texts.
    'SELECT "id", \'text\' FROM "people" ORDER BY "id"': set(),
    'SELECT "a column", "dotted.name" FROM "odd name"': set(),
    'SELECT "quoted"."my id" FROM "quoted"': set(),
    # A column FROM, as people.
    "SELECT FROM people": set(),
    "SELECT IDENTIFIER('id') FROM IDENTIFIER('people') ORDER BY 1": {"people"},
    "WITH delta AS (TABLE sales) SELECT * FROM delta": {"sales"},
    "SELECT * FROM (TABLE sales) AS `t@v1`": {"sales"},
}


def _statements() -> list[str]:
    found = []
    for path in sorted(_CORPUS.glob("*/*.sql")):
        for block in path.read_text(encoding="utf-8").split("====\n"):
            found += block.strip("\n").split("\n\n")
    return list(dict.fromkeys([*found, *generated()]))


def _tables_of(text: str) -> set[str] | None:
    """The tables that sqlglot finds in a query; None where it is none, or none that sqlglot knows."""
    try:
        root = sqlglot.parse_one(text, read="spark")
    except SqlglotError:
        return None
    if not isinstance(root, exp.Query):
        return None
    common = {each.alias.lower() for each in root.find_all(exp.CTE)}
    names = set()
    for table in root.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier) and table.find_ancestor(exp.Hint) is None:
            names.add(".".join(part.name for part in table.parts).lower())
    return names - common


def _found_in(text: str) -> set[str]:
    return {".".join(relation.parts).lower() for relation in relations(text) if relation.arguments is None}


_COMPARED = {text: theirs for text in _statements() if (theirs := _tables_of(text)) is not None}


def test_most_of_the_corpus_is_compared() -> None:
    assert len(_COMPARED) > 800


def test_queries_of_the_corpus_name_the_tables_that_sqlglot_finds() -> None:
    different = {text: _found_in(text) for text, theirs in _COMPARED.items() if _found_in(text) != theirs}
    assert different == _DIFFERENT
