"""Queries where neither DuckDB nor Polars is installed: what is answered is what DuckDB answers."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from slackwater.cli.rows.sqlglot_engine import answered
from slackwater.errors import InvalidArgument
from slackwater.protocol.schema.schema import BOOLEAN, DATE, DOUBLE, LONG, STRING, StructField, StructType
from tests.people.mistakes import require_plain

SCHEMAS = {
    "t": StructType(
        tuple(StructField(*f) for f in (("a", LONG), ("S", STRING), ("f", DOUBLE), ("b", BOOLEAN), ("d", DATE)))
    ),
    "u": StructType((StructField("k", LONG), StructField("w", STRING))),
}
TABLES = {
    "t": pa.table(
        {
            "a": [1, None, -7, 1],
            "S": ["x", None, "yX", "it's"],
            "f": [1.5, None, -2.5, 0.0],
            "b": [True, None, False, None],
            "d": [dt.date(2026, 1, 1), None, dt.date(2025, 1, 1), None],
        }
    ),
    "u": pa.table({"k": [1, None, 9], "w": ["one", "none", "nine"]}),
}
QUERIES = [
    "SELECT * FROM t",
    "SELECT a, w FROM t JOIN u ON a = k",
    "SELECT a, w FROM t LEFT JOIN u ON a = k AND w = 'one'",
    "SELECT a, w FROM t RIGHT JOIN u ON a = k",
    "SELECT a, w FROM t FULL JOIN u ON a = k",
    "SELECT a, w FROM t CROSS JOIN u",
    "SELECT a FROM t WHERE NOT (a = 1 AND b)",
    "SELECT a FROM t WHERE a <> 1 OR b",
    "SELECT a FROM t WHERE a NOT IN (1, NULL)",
    "SELECT a FROM t WHERE a NOT IN (SELECT k FROM u)",
    "SELECT a FROM t WHERE a IN (SELECT k FROM u)",
    "SELECT a FROM t WHERE a NOT BETWEEN 0 AND 2",
    "SELECT a FROM t WHERE a > -8",
    "SELECT s FROM t WHERE s ILIKE '%x%' OR s LIKE '_t%'",
    "SELECT S FROM t WHERE s = 'it''s'",
    "SELECT a, count(*) c, sum(f) x, avg(f) y, min(s) m, max(d) n FROM t GROUP BY a",
    "SELECT count(DISTINCT a) n, count(a) o FROM t",
    "SELECT sum(a) n, count(*) o FROM t WHERE a > 100",
    "SELECT s, count(*) n FROM t WHERE a > 100 GROUP BY s",
    "SELECT a FROM t ORDER BY a DESC LIMIT 2 OFFSET 1",
    "SELECT a FROM t UNION SELECT k FROM u",
    "SELECT a FROM t EXCEPT SELECT k FROM u",
    "SELECT a + 1 AS p, a * 2 AS q, a / 2 AS r, f / 2 AS s FROM t",
    "SELECT CASE WHEN a = 1 THEN 'one' WHEN a IS NULL THEN 'none' END AS w FROM t",
    "SELECT coalesce(s, '-') AS c, upper(s) AS u, length(s) AS n, s || 'z' AS z FROM t",
    "SELECT d FROM t WHERE d >= DATE '2026-01-01'",
    "SELECT a, sum(f) AS x FROM t GROUP BY a HAVING sum(f) > 0",
    "WITH q AS (SELECT a AS z FROM t WHERE a = 1) SELECT count(*) AS n FROM q",
    "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE k = a)",
    "SELECT max(a) - min(a) AS r FROM t",
]


@pytest.mark.parametrize("sql", QUERIES)
def test_what_is_answered_is_what_duckdb_answers(sql: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        for name, rows in TABLES.items():
            connection.register(name, rows)
        expected = connection.sql(sql)
        names, rows = [each.lower() for each in expected.columns], expected.fetchall()
    found = answered(sql, TABLES, SCHEMAS)
    assert [name.lower() for name in found.column_names] == names
    ours = list(zip(*(column.to_pylist() for column in found.columns), strict=True))
    assert ours == rows if "ORDER" in sql else _sorted(ours) == _sorted(rows)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT a % 3 FROM t", "a % 3"),
        ("SELECT CAST(f AS BIGINT) FROM t", "CAST(f AS BIGINT)"),
        ("SELECT round(f) FROM t", "ROUND(f)"),
        ("SELECT a FROM t TABLESAMPLE 10%", "TABLESAMPLE"),
        ("SELECT a FROM t QUALIFY row_number() OVER (ORDER BY a) = 1", "QUALIFY"),
        ("SELECT a FROM t NATURAL JOIN u", "NATURAL JOIN"),
        ("SELECT a FROM t GROUP BY ALL", "GROUP BY ALL"),
        ("SELECT nothing FROM t", "nothing"),
        ("SELECT a FROM nowhere", "nowhere"),
        ("SELECT a + s FROM t", "duckdb"),
        ("DROP TABLE t", "SELECT"),
        ("no query", "SELECT"),
        ("SELECT = FROM t", "not a SQL query"),
        ("SELECT 'a\\' FROM t", "cannot contain"),
        ('SELECT a AS "x\\" FROM t', "cannot contain"),
        ('SELECT a AS "x""y" FROM t', "cannot contain"),
    ],
)
def test_what_it_does_not_know_is_refused_in_one_sentence(sql: str, said: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        answered(sql, TABLES, SCHEMAS)
    assert said in str(caught.value)
    require_plain(str(caught.value))


def test_no_name_of_a_column_becomes_code() -> None:
    name = 'x\\"] or exit(3) #'
    with pytest.raises(InvalidArgument, match="cannot contain"):
        answered("SELECT * FROM t", {"t": pa.table({name: [1]})}, {"t": StructType((StructField(name, LONG),))})


def _sorted(rows: list[Any]) -> list[str]:
    return sorted(map(repr, rows))
