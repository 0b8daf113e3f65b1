"""Statements made by rules: clauses, operators and literals in combination, and the same words in other clothes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

_SELECTED = (
    "*",
    "id, name",
    "DISTINCT age AS version",
    "count(*) AS n, max(id) AS delta",
    "id AS `VERSION AS OF`, upper(name) AS history",
    "/*+ COALESCE(1) */ id, row_number() OVER (ORDER BY id DESC) AS r",
)
_SOURCES = (
    "people",
    "people AS t",
    "(SELECT * FROM people WHERE id < 4) delta",
    "people JOIN sales ON id = person",
    "(SELECT id, name, age, 'USING delta' AS using FROM people UNION ALL SELECT 7, 'delta', 7, '') AS u",
)
_ENDS = (
    "",
    "WHERE name <> 'FROM delta.`x` VERSION AS OF 1' ORDER BY ALL",
    "WHERE id IN (SELECT person FROM sales WHERE region = 'north') ORDER BY 1 LIMIT 3",
    "GROUP BY ALL HAVING count(*) > 0 ORDER BY 1 -- VACUUM",
    "WHERE EXISTS (SELECT 1 FROM sales s WHERE s.person = id AND s.units > 2)\n\tORDER BY 1",
)
_LITERALS = (
    "1",
    "2.50",
    "3D",
    "'4'",
    "NULL",
    "TRUE",
    "DATE '2024-02-29'",
    "TIMESTAMP '2024-02-29 01:02:03'",
    "INTERVAL '2' DAY",
    "array(1, 2)",
    "named_struct('a', 1)",
    "X'0A'",
)
_OPERATORS = (
    "+",
    "-",
    "*",
    "/",
    "%",
    "DIV",
    "||",
    "=",
    "<=>",
    "<",
    ">=",
    "AND",
    "OR",
    "&",
    "|",
    "IN (1,",
    "IS DISTINCT FROM",
)
_TYPES = (
    "INT",
    "BIGINT",
    "DOUBLE",
    "DECIMAL(10, 2)",
    "STRING",
    "BOOLEAN",
    "DATE",
    "TIMESTAMP",
    "TIMESTAMP_NTZ",
    "BINARY",
)
_CLOTHES = (
    "{}",
    "-- delta.`/a` VERSION AS OF 1\n{}",
    "{} /* MERGE INTO t */",
    "  {}  ;",
    "WITH delta AS ({}) SELECT * FROM delta",
    "SELECT * FROM ({}) AS `t@v1`",
    "EXPLAIN {}",
    "DESCRIBE QUERY {}",
    "({}) UNION ALL ({})",
    "CREATE OR REPLACE TEMPORARY VIEW made AS {}",
)


def generated() -> Iterator[str]:
    """All statements that the rules make, always the same ones in the same order."""
    yield from _queries()
    yield from _expressions()
    yield from _casts()
    yield from _dressed()


def _queries() -> Iterator[str]:
    for selected, source, end in itertools.product(_SELECTED, _SOURCES, _ENDS):
        yield " ".join(("SELECT", selected, "FROM", source, end)).rstrip(" ")


def _expressions() -> Iterator[str]:
    """Each operator with each literal on its left, and one of the others on its right."""
    for i, (operator, left) in enumerate(itertools.product(_OPERATORS, _LITERALS)):
        right = _LITERALS[(i * 5 + i // len(_LITERALS)) % len(_LITERALS)]
        closed = ")" if "(" in operator else ""
        yield f"SELECT {left} {operator} {right}{closed} AS result"


def _casts() -> Iterator[str]:
    for i, (literal, kind) in enumerate(itertools.product(_LITERALS, _TYPES)):
        yield (
            f"SELECT CAST({literal} AS {kind})",
            f"SELECT try_cast({literal} AS {kind}) AS delta",
            f"SELECT {literal}::{kind}",
        )[i % 3]


def _dressed() -> Iterator[str]:
    queries = (
        "SELECT 1 AS one",
        "SELECT id, 'ON delta' AS on FROM people WHERE id > 1",
        "VALUES (1, 'USING delta')",
        "TABLE sales",
    )
    for query, clothes in itertools.product(queries, _CLOTHES):
        yield clothes.replace("{}", query)
