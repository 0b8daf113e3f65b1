"""Which conjuncts of WHERE are asked of which table before the others are read, and which of none."""

from __future__ import annotations

import re

import pytest

from slackwater.sql.predicate_pushdown import pushed_conditions
from tests.sql.reading import blocks, tokens

_COLUMNS = {
    "t": frozenset({"a", "b", "s", "k"}),
    "u": frozenset({"c", "d", "k"}),
    "named": frozenset({"named", "a"}),
    "odd": frozenset({"a", "d", "date", "timestamp", "in", "1x", "1", "1e", "and"}),
}


def pushed(text: str, unknown: str = "") -> dict[str, list[str]]:
    """The conditions by the name that each known table has in the query; of those that have some."""
    found = {}
    for block in blocks(text):
        known = [r for r in block.relations if r.parts[-1] in _COLUMNS and r.parts[-1] != unknown]
        for relation, conditions in pushed_conditions(block, {r: _COLUMNS[r.parts[-1]] for r in known}).items():
            if conditions:
                found[relation.shown] = [_readable(each) for each in conditions]
    return found


def _readable(condition: str) -> str:
    """The condition without the quotes of plain names."""
    return re.sub(r"`([A-Za-z]\w*)`", r"\1", condition)


@pytest.mark.parametrize(
    ("condition", "conditions"),
    [
        ("a = 1", ["a = 1"]),
        ("A = 1", ["A = 1"]),
        ("`a` = 1", ["a = 1"]),
        ("t.a = 1", ["a = 1"]),
        ("T.`a` = 1", ["a = 1"]),
        ("`t` . a = 1", ["a = 1"]),
        ("a = 1 AND b > 2", ["a = 1", "b > 2"]),
        ("a = 1 AND t.b > 2 AND s IS NULL", ["a = 1", "b > 2", "s IS NULL"]),
        ("a = 1 OR b = 2", ["a = 1 OR b = 2"]),
        ("(a = 1 OR t.b = 2) AND (a < 3)", ["a = 1 OR b = 2", "a < 3"]),
        ("a BETWEEN 1 AND 2 AND b = 3", ["a BETWEEN 1 AND 2", "b = 3"]),
        ("a IN (1, 2) AND NOT b LIKE 'x%'", ["a IN (1, 2)", "NOT b LIKE 'x%'"]),
        ("a = DATE '2026-11-21' AND b = TRUE", ["a = DATE '2026-11-21'", "b = TRUE"]),
        ("s.x.y = 1", ["s.x.y = 1"]),
        ("t.s.x = 1", ["s.x = 1"]),
        ("upper(a) = 'X'", ["upper(a) = 'X'"]),
        ("a = 't.b' AND b = \"t.a\"", ["a = 't.b'", 'b = "t.a"']),
        ("a /* t.a */ = 1 -- AND b = 2", ["a /* t.a */ = 1"]),
        ("a = 1 -- why\n AND /* so */ b = 2 /* and */", ["a = 1", "b = 2"]),
        ("a = 1 AND f = 2", ["a = 1"]),
        ("t.x = 1", []),
        ("u.a = 1", []),
        ("db.t.a = 1", []),
        ("1 = 1", []),
        ("a = ?", []),
        ("a = :p", []),
        ("a:b = 1", []),
        ("a = {p}", []),
        ("a = ${p}", []),
        ("a IN (SELECT c FROM x)", []),
        ("EXISTS (SELECT 1 FROM x)", []),
        ("exists(s, x -> x = a)", []),
        ("a = current_date", []),
        ("a > b - INTERVAL 1 DAY", []),
        ("CAST(a AS INT) = 1", ["CAST(a AS INT) = 1"]),
        ("CAST(t.a AS DECIMAL(10, 2)) = b", ["CAST(a AS DECIMAL(10, 2)) = b"]),
        ("CAST(x AS INT) = a", []),
        ("NOT (a = 1 AND x = 2)", []),
    ],
)
def test_of_one_table_the_conjuncts_on_its_columns_are_asked(condition: str, conditions: list[str]) -> None:
    assert pushed(f"FROM t WHERE {condition}") == ({"t": conditions} if conditions else {})


@pytest.mark.parametrize(
    ("condition", "conditions"),
    [
        ("date = DATE '2026-11-21' AND a = 1", ["date = DATE '2026-11-21'", "a = 1"]),
        ("odd.date > DATE'2026-11-21' OR Timestamp IS NULL", ["date > DATE'2026-11-21' OR Timestamp IS NULL"]),
        ("timestamp_ntz = 1 OR a = 2", []),
        ("1x = 1 OR a = 9", ["1x = 1 OR a = 9"]),
        ("2x = 1 OR a = 9", []),
        ("in = 1 OR a = 2", []),
        ("a IN (1, 2)", []),
        ("a = 12 OR a = 12L OR a = 1.5E3BD OR a = 2e-3", ["a = 12 OR a = 12L OR a = 1.5E3BD OR a = 2e-3"]),
        ("a = 1e-3", []),
    ],
)
def test_columns_have_the_names_of_words_of_conditions(condition: str, conditions: list[str]) -> None:
    assert pushed(f"FROM odd WHERE {condition}") == ({"odd": conditions} if conditions else {})


@pytest.mark.parametrize(
    ("text", "conditions"),
    [
        ("SELECT * FROM (SELECT d AS date, a FROM odd) v WHERE date = 1 OR v.date = 2 OR a = 2",
         ["d = 1 OR d = 2 OR a = 2"]),
        ("SELECT * FROM (SELECT d + 1 AS date, a FROM odd) WHERE date = 1 OR a = 2", []),
        ("SELECT * FROM (SELECT d + 1 AS in, a FROM odd) WHERE in = 1 OR a = 2", []),
        ("SELECT * FROM (SELECT a AS `1x`, `1x` AS a FROM odd) WHERE 1x = 1 OR a = 9", ["a = 1 OR `1x` = 9"]),
        ("SELECT * FROM (SELECT a FROM odd) q, (SELECT d AS date FROM u) r WHERE q.a = 2 OR date = 1", []),
    ],
)  # fmt: skip
def test_columns_that_are_passed_on_have_the_names_of_words(text: str, conditions: list[str]) -> None:
    assert _around(text, "odd") == conditions


def test_a_table_is_known_by_its_alias() -> None:
    assert pushed("FROM db.t x WHERE x.a = 1 AND t.b = 2 AND a = 3") == {"x": ["a = 1", "a = 3"]}


def test_a_table_of_several_parts_is_known_by_its_last_one() -> None:
    assert pushed("FROM c.db.t WHERE t.a = 1 AND db.t.b = 2") == {"t": ["a = 1"]}


@pytest.mark.parametrize("join", [" JOIN ", " CROSS JOIN ", ", ", " NATURAL JOIN "])
def test_of_joined_tables_each_is_asked_what_is_of_it_alone(join: str) -> None:
    condition = "t.a = 1 AND u.c = 2 AND b = 3 AND d = 4 AND t.a = u.c AND (a = 1 OR c = 2)"
    assert pushed(f"FROM t{join}u WHERE {condition}") == {"t": ["a = 1", "b = 3"], "u": ["c = 2", "d = 4"]}


def test_a_column_of_both_tables_is_of_none_without_its_table() -> None:
    assert pushed("FROM t JOIN u USING (k) WHERE k = 1 AND t.k = 2 AND u.k = 3") == {"t": ["k = 2"], "u": ["k = 3"]}


@pytest.mark.parametrize(
    ("join", "asked"),
    [
        ("LEFT JOIN", ["t"]),
        ("LEFT OUTER JOIN", ["t"]),
        ("RIGHT JOIN", ["u"]),
        ("FULL JOIN", []),
        ("FULL OUTER JOIN", []),
        ("LEFT SEMI JOIN", ["t"]),
        ("LEFT ANTI JOIN", ["t"]),
    ],
)
def test_a_side_that_may_be_null_is_asked_nothing(join: str, asked: list[str]) -> None:
    conditions = {"t": ["a IS NULL"], "u": ["c IS NULL"]}
    found = pushed(f"FROM t {join} u ON t.k = u.k WHERE t.a IS NULL AND u.c IS NULL")
    assert found == {name: conditions[name] for name in asked}


def test_a_later_outer_join_makes_earlier_tables_null() -> None:
    found = pushed("FROM t JOIN u x RIGHT JOIN u y ON t.k = y.k WHERE t.a = 1 AND x.c = 2 AND y.c = 3")
    assert found == {"y": ["c = 3"]}


@pytest.mark.parametrize(
    "other",
    ["(SELECT 1 AS a) x", "VALUES (1) x", "range(3) x", "LATERAL (SELECT 1) x", "unknown x", "u"],
)
def test_beside_relations_of_unknown_columns_only_columns_with_their_table_are_asked(other: str) -> None:
    assert pushed(f"FROM t, {other} WHERE a = 1 AND t.b = 2 AND x.a = 3", unknown="u") == {"t": ["b = 2"]}


def test_a_common_table_beside_it_has_unknown_columns() -> None:
    assert pushed("WITH x AS (SELECT 1 AS a) SELECT * FROM t, x WHERE a = 1 AND t.b = 2") == {"t": ["b = 2"]}


@pytest.mark.parametrize(
    "text",
    [
        "FROM t TABLESAMPLE (10 ROWS) WHERE a = 1",
        "FROM t PIVOT (sum(a) FOR b IN (1, 2)) WHERE s = 1",
        "FROM t UNPIVOT (x FOR y IN (a, b)) WHERE s = 1",
        "FROM t |> WHERE a = 1",
        "FROM t LIMIT 3 |> WHERE a = 1",
        "FROM t LATERAL VIEW explode(s) x AS a WHERE a = 1",
        "SELECT b AS a FROM t GROUP BY b HAVING a = 1",
        "SELECT * FROM (SELECT b AS a FROM t) WHERE a = 1",
        "SELECT * FROM (t LEFT JOIN u) WHERE a = 1 AND c = 2",
        "FROM t JOIN u ON t.a = 1 AND u.c = 2",
    ],
)
def test_what_is_asked_of_other_rows_is_not_asked_of_the_table(text: str) -> None:
    assert pushed(text) == {}


def test_a_table_named_twice_by_one_name_is_asked_nothing() -> None:
    assert pushed("FROM t JOIN t WHERE t.a = 1") == {}


def test_a_table_named_twice_by_two_names_is_asked_by_each() -> None:
    assert pushed("FROM t x JOIN t y WHERE x.a = 1 AND y.b = 2 AND a = 3") == {"x": ["a = 1"], "y": ["b = 2"]}


def test_a_table_with_a_column_of_its_own_name_is_asked_nothing() -> None:
    assert pushed("FROM named WHERE named.a = 1") == {}
    assert pushed("FROM named x WHERE x.a = 1") == {"x": ["a = 1"]}


def test_a_column_with_the_name_of_another_table_is_of_none() -> None:
    assert pushed("FROM t JOIN u s WHERE s.c = 1 AND s.x = 2 AND t.s = 3") == {"s": ["c = 1"], "t": ["s = 3"]}


def test_each_side_of_a_set_operation_is_asked_its_own() -> None:
    assert pushed("SELECT a FROM t WHERE a = 1 UNION SELECT c FROM u WHERE c = 2") == {"t": ["a = 1"], "u": ["c = 2"]}


def test_a_sub_query_is_asked_its_own_and_nothing_of_the_query_around_it() -> None:
    found = pushed("SELECT * FROM t WHERE a = 1 AND b IN (SELECT d FROM u WHERE c = 2 AND u.k = t.k AND a = 3)")
    assert found == {"t": ["a = 1"], "u": ["c = 2"]}


def test_a_condition_that_cannot_be_taken_apart_is_asked_of_none_or_as_a_whole() -> None:
    assert pushed("FROM t WHERE a = 1 AND (b = 2 OR x = 3") == {}


def test_names_are_told_apart_by_their_case_where_it_counts() -> None:
    (block,) = blocks("SELECT * FROM t WHERE A = 1 AND a = 2 AND T.b = 3 AND t.b = 4")
    columns = {block.relations[0]: ["a", "b"]}
    assert pushed_conditions(block, columns, case_counts=True) == {block.relations[0]: ["a = 2", "`b` = 4"]}
    assert pushed_conditions(block, columns) == {block.relations[0]: ["A = 1", "a = 2", "`b` = 3", "`b` = 4"]}


@pytest.mark.parametrize(
    ("text", "conditions"),
    [
        ("SELECT * FROM q WHERE a <=> q.null OR a IN (q.date, 9)", ["a <=> `null` OR a IN (`date`, 9)"]),
        ("SELECT * FROM (SELECT q.1e AS k, a FROM q) WHERE a = k-3", ["a = `1e`-3"]),
        ("SELECT * FROM (SELECT a, r AS x FROM q) WHERE a = X'41' OR x = 1", ["a = X'41' OR `r` = 1"]),
        ("SELECT * FROM (SELECT a, date AS time FROM q) WHERE a = TIME'12:00:00'", ["a = TIME'12:00:00'"]),
    ],
)
def test_a_column_stays_a_column_without_its_qualifier_and_under_another_name(text: str, conditions: list[str]) -> None:
    (block,) = [each for each in blocks(text) if each.relations]
    columns = {block.relations[0]: ["a", "null", "date", "1e", "r"]}
    assert pushed_conditions(block, columns, tokens(text)) == {block.relations[0]: conditions}


@pytest.mark.parametrize("relation", ["t AS x (b, a)", "t x(b, a)", "t AS x (b, a), u"])
def test_columns_with_names_of_the_alias_are_other_columns(relation: str) -> None:
    assert pushed(f"SELECT * FROM {relation} WHERE b = 1 AND x.a = 2") == {}


def _around(text: str, table: str = "t") -> list[str]:
    """The conditions on the table, those of queries around it too."""
    found: list[str] = []
    for block in blocks(text):
        known = {r: _COLUMNS[r.parts[-1]] for r in block.relations if r.parts[-1] in _COLUMNS}
        for relation, conditions in pushed_conditions(block, known, tokens(text)).items():
            found += map(_readable, conditions) if relation.parts == (table,) else []
    return found


@pytest.mark.parametrize(
    ("text", "conditions"),
    [
        ("WITH c AS (SELECT * FROM t) SELECT * FROM c WHERE a = 1", ["a = 1"]),
        ("WITH c AS (SELECT x.a, b FROM t x WHERE b > 2) SELECT a FROM c AS d WHERE d.a = 1", ["b > 2", "a = 1"]),
        ("WITH c AS (SELECT x.* FROM t AS x) SELECT a FROM c WHERE C.A = 1 OR b = 3", ["A = 1 OR b = 3"]),
        ("WITH c AS (SELECT * FROM t), d AS (SELECT a FROM c WHERE b = 2) TABLE d", ["b = 2"]),
        ("WITH c AS (SELECT * FROM t), d AS (SELECT a FROM c) SELECT * FROM d WHERE a = 1", ["a = 1"]),
        ("SELECT * FROM (SELECT * FROM t) WHERE a = 1", ["a = 1"]),
        ("SELECT * FROM (SELECT * FROM (SELECT a, b FROM t) WHERE b = 2) x WHERE x.a = 1", ["b = 2", "a = 1"]),
        ("SELECT * FROM (SELECT * FROM t VERSION AS OF 3) x JOIN u ON x.k = u.k WHERE x.a = 1 AND b = 2", ["a = 1"]),
        ("SELECT * FROM u LEFT JOIN v ON true JOIN (SELECT * FROM t) x ON true WHERE x.a = 1", ["a = 1"]),
        ("SELECT 1 WHERE EXISTS (SELECT 1 FROM (SELECT a FROM t) WHERE a = 1)", ["a = 1"]),
        ("WITH c AS (SELECT * FROM t) SELECT * FROM c WHERE a = 1 UNION SELECT 1", ["a = 1"]),
        ("WITH c AS (SELECT * FROM t), e AS (SELECT * FROM c) SELECT * FROM e, e AS f WHERE e.a = 1", []),
        ("WITH c AS (SELECT * FROM t) SELECT * FROM c x JOIN c y ON x.k = y.k WHERE x.a = 1", []),
        ("WITH c AS (SELECT * FROM t) SELECT * FROM c WHERE a = 1 AND EXISTS (TABLE c)", []),
        ("WITH c AS (SELECT * FROM t) SELECT * FROM c WHERE a = 1 UNION SELECT * FROM IDENTIFIER(:x)", []),
        ("WITH c AS (SELECT * FROM t) SELECT c FROM c WHERE a = 1", []),
        ("SELECT * FROM (SELECT * FROM t) x LATERAL VIEW explode(s) e AS a WHERE a = 1", []),
        ("SELECT * FROM (SELECT * FROM t) x, VALUES (1) AS v WHERE a = 1 AND x.b = 2", ["b = 2"]),
        ("WITH c AS (SELECT * FROM t) SELECT * FROM c WHERE a = 1 UNION SELECT * FROM C", []),
        ("WITH c AS (WITH c AS (SELECT * FROM t) SELECT * FROM c) SELECT * FROM c WHERE a = 1", []),
        ("WITH c (b, a) AS (SELECT a, b FROM t) SELECT * FROM c WHERE a = 1", []),
        ("WITH RECURSIVE c AS (SELECT * FROM t) SELECT * FROM c WHERE a = 1", []),
        ("WITH c AS (SELECT b AS a FROM t) SELECT * FROM c WHERE a = 1", ["b = 1"]),
        ("WITH c AS (SELECT b a FROM t) SELECT * FROM c WHERE a = 1 AND c.A > 2", ["b = 1", "b > 2"]),
        ("WITH c AS (SELECT t.`b` AS `n m`, a FROM t) SELECT * FROM c x WHERE x.`N M` = a", ["b = a"]),
        ("WITH c AS (SELECT b AS a, a AS b FROM t) SELECT * FROM c WHERE a = 1 OR b = 2", ["b = 1 OR a = 2"]),
        ("SELECT 1 FROM (SELECT m AS n FROM (SELECT a AS m FROM t)) WHERE n = 1", ["a = 1"]),
        ("SELECT 1 FROM (SELECT m FROM (SELECT s AS m FROM t)) WHERE m.x.y = 1", ["s.x.y = 1"]),
        ("SELECT 1 FROM (SELECT CAST(a AS INT) AS n FROM t) WHERE n = 1", ["CAST(a AS INT) = 1"]),
        ("SELECT 1 FROM (SELECT CAST(t.a AS DECIMAL(9)) a FROM t) WHERE a = 1", ["CAST(a AS DECIMAL ( 9 )) = 1"]),
        (
            "SELECT 1 FROM (SELECT CAST(n AS INT) AS m FROM (SELECT CAST(a AS STRING) AS n FROM t)) WHERE m = 1",
            ["CAST(CAST(a AS STRING) AS INT) = 1"],
        ),
        ("SELECT 1 FROM (SELECT a, CASE WHEN b > 1 THEN s.x ELSE upper(k) END AS e FROM t) WHERE a = 1", ["a = 1"]),
        ("SELECT 1 FROM (SELECT a, b * 2 b, -a, 'x', coalesce(s.x, 1) + 1 FROM t) WHERE a = 1 AND b = 2", ["a = 1"]),
        ("SELECT 1 FROM (SELECT *, CAST(b AS INT) + 1 AS e FROM t) WHERE a = 1 AND e = 2", ["a = 1"]),
        ("SELECT 1 FROM (SELECT a AS n, n AS m FROM t) WHERE n = 1 AND m = 2", ["a = 1"]),
        ("SELECT 1 FROM (SELECT a, a FROM t) WHERE a = 1", ["a = 1"]),
        ("SELECT 1 FROM (SELECT a, b AS a FROM t) WHERE a = 1", []),
        ("SELECT 1 FROM (SELECT *, b AS a FROM t) WHERE a = 1", []),
        ("SELECT 1 FROM (SELECT CAST(a AS INT) FROM t) WHERE a = 1", []),
        ("SELECT 1 FROM (SELECT (CAST(a AS INT)) + 1 AS a FROM t) WHERE a = 1", []),
        ("SELECT 1 FROM (SELECT CAST(a AS INT) + CAST(b AS INT) AS a FROM t) WHERE a = 1", []),
        ("SELECT 1 FROM (SELECT a, row_number() OVER (ORDER BY b) AS n FROM t) WHERE a = 1", []),
        ("SELECT 1 FROM (SELECT a, max(b) AS n FROM t) WHERE a = 1", []),
        ("SELECT 1 FROM (SELECT a, s.from + max(b) OVER () AS n FROM t) WHERE a = 1", []),
        ("SELECT 1 FROM (SELECT a, s.from AS n FROM t) WHERE a = 1", ["a = 1"]),
        ("SELECT 1 FROM (SELECT a, `upper`(b) AS n FROM t) WHERE a = 1", []),
        ("SELECT 1 FROM (SELECT a, db.upper(b) AS n FROM t) WHERE a = 1", []),
        ("SELECT 1 FROM (SELECT a, rand() AS n FROM t) WHERE a = 1", []),
        ("SELECT 1 FROM (SELECT a, monotonically_increasing_id() FROM t) WHERE a = 1", []),
        ("SELECT 1 FROM (SELECT a, (SELECT max(c) FROM u) FROM t) WHERE a = 1", []),
        ("SELECT 1 FROM (SELECT a, EXISTS (TABLE u) FROM t) WHERE a = 1", []),
        ("SELECT 1 FROM (SELECT a, explode(s) AS n FROM t) WHERE a = 1", []),
        ("SELECT 1 FROM (SELECT a, stack(1, b) AS (n) FROM t) WHERE a = 1", []),
        ("SELECT 1 FROM (SELECT a, trim(BOTH 'x' FROM b) AS n FROM t) WHERE a = 1", []),
        ("SELECT 1 FROM (SELECT ALL a FROM t) WHERE a = 1", []),
        ("WITH c AS (SELECT a + 1 a FROM t) SELECT * FROM c WHERE a = 1", []),
        ("WITH c AS (SELECT s.a FROM t) SELECT * FROM c WHERE a = 1", []),
        ("WITH c AS (SELECT s.a AS b FROM t) SELECT * FROM c WHERE b = 1", []),
        ("WITH c AS (SELECT b FROM t) SELECT * FROM c WHERE a = 1", []),
        ("WITH c AS (SELECT max(a) FROM t) SELECT * FROM c WHERE a = 1", []),
        ("WITH c AS (SELECT a FROM t GROUP BY a) SELECT * FROM c WHERE a = 1", []),
        ("WITH c AS (SELECT a, b FROM t ORDER BY a LIMIT 1) SELECT * FROM c WHERE a = 1", []),
        ("WITH c AS (SELECT a FROM t WHERE b = 2 LIMIT 1) SELECT * FROM c WHERE a = 1", ["b = 2"]),
        ("WITH c AS (SELECT DISTINCT a FROM t) SELECT * FROM c WHERE a = 1", []),
        ("WITH c AS (SELECT * EXCEPT (b) FROM t) SELECT * FROM c WHERE a = 1", []),
        ("WITH c AS (SELECT a FROM t UNION ALL SELECT c FROM u) SELECT * FROM c WHERE a = 1", []),
        ("WITH c AS (SELECT * FROM t JOIN u) SELECT * FROM c WHERE a = 1", []),
        ("WITH c AS (SELECT * FROM t, u) SELECT * FROM c WHERE a = 1", []),
        ("WITH c AS (SELECT * FROM t x (b, a)) SELECT * FROM c WHERE a = 1", []),
        ("WITH c AS (SELECT * FROM t TABLESAMPLE (5 ROWS)) SELECT * FROM c WHERE a = 1", []),
        ("WITH c AS (SELECT * FROM t LATERAL VIEW explode(s) e AS a) SELECT * FROM c WHERE a = 1", []),
        ("WITH c AS (SELECT * FROM t PIVOT (max(a) FOR b IN (1))) SELECT * FROM c WHERE a = 1", []),
        ("WITH c AS (FROM t |> LIMIT 1) SELECT * FROM c WHERE a = 1", []),
        ("WITH c AS (SELECT * FROM t) SELECT * FROM u LEFT JOIN c ON true WHERE c.a = 1", []),
        ("WITH c AS (SELECT * FROM t) SELECT * FROM c RIGHT JOIN u ON true WHERE c.a = 1", []),
        ("WITH c AS (SELECT * FROM t) SELECT * FROM c FULL JOIN u ON true WHERE c.a = 1", []),
        ("WITH c AS (SELECT * FROM t) SELECT * FROM c TABLESAMPLE (5 ROWS) WHERE a = 1", []),
        ("WITH c AS (SELECT * FROM t) SELECT * FROM c AS x (b, a) WHERE a = 1", []),
        ("WITH c AS (SELECT * FROM t) SELECT * FROM c, u WHERE a = 1", []),
        ("WITH c AS (SELECT * FROM t) FROM c |> LIMIT 1 |> WHERE a = 1", []),
        ("WITH c AS (SELECT * FROM t) SELECT a FROM c GROUP BY a HAVING a = 1", []),
        ("SELECT * FROM (SELECT * FROM t) AS x (b, a) WHERE a = 1", []),
        ("SELECT * FROM (SELECT * FROM t) x WHERE y.a = 1", []),
        ("SELECT * FROM ((SELECT * FROM t) x RIGHT JOIN u ON true) WHERE x.a = 1", []),
        ("SELECT (SELECT max(a) FROM (SELECT * FROM t)) FROM u WHERE a = 1", []),
    ],
)  # fmt: skip
def test_queries_around_ask_of_columns_that_are_passed_on(text: str, conditions: list[str]) -> None:
    assert _around(text) == conditions
