"""The tables that queries name: which words are one, which are not, and where they stand."""

from __future__ import annotations

import pytest

from slackwater.errors import InvalidArgument
from slackwater.sql.relations import blocks_of, relations_of
from slackwater.sql.text_edits import TextEdit, apply_edits, as_view, without_database
from slackwater.sql.time_travel import AT, FROM_TO, TIMESTAMP, VERSION, Travel
from tests.sql.reading import blocks, relations, tables, tokens


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT 1", ""),
        ("SELECT * FROM t", "t"),
        ("select * from T", "T"),
        ("FROM t", "t"),
        ("FROM t SELECT a, b WHERE c", "t"),
        ("SELECT * FROM t, u", "t u"),
        ("SELECT * FROM t x, u AS y, v", "t u v"),
        ("SELECT * FROM t JOIN u ON t.a = u.a", "t u"),
        ("SELECT * FROM t JOIN u USING (a, b) JOIN v", "t u v"),
        ("SELECT * FROM t NATURAL LEFT OUTER JOIN u, v", "t u v"),
        ("SELECT * FROM t LEFT SEMI JOIN u ON a = b CROSS JOIN v", "t u v"),
        ("SELECT * FROM t JOIN u ON CASE WHEN a THEN b END = c, v", "t u v"),
        ("SELECT * FROM t JOIN u ON f(a, b), v", "t u v"),
        ("SELECT * FROM t JOIN u ON 1., v", "t u v"),
        ("SELECT a, b FROM t GROUP BY a, b ORDER BY a, b", "t"),
        ("SELECT * FROM t CLUSTER BY a, b", "t"),
        ("SELECT * FROM t WINDOW w AS (PARTITION BY a), x AS (ORDER BY b)", "t"),
        ("SELECT * FROM t;", "t"),
        ("SELECT * FROM t; SELECT * FROM u;", "t u"),
        ("TABLE t", "t"),
        ("TABLE t ORDER BY a, b", "t"),
        ("EXPLAIN FORMATTED TABLE t", "t"),
        ("VALUES (1, a), (2, b)", ""),
    ],
)
def test_tables_stand_behind_from_join_comma_and_table(text: str, found: str) -> None:
    assert tables(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT * FROM db.t", "db.t"),
        ("SELECT * FROM c.db.t x", "c.db.t"),
        ("SELECT * FROM `a b`.`c.d`", "a b.c.d"),
        ("SELECT * FROM delta.`/a/b c`", "delta./a/b c"),
        ("SELECT * FROM a . b", "a.b"),
        ("SELECT * FROM a.from.b", "a.from.b"),
        ("SELECT * FROM IDENTIFIER('a.`b c`')", "a.b c"),
        ("SELECT * FROM IDENTIFIER('a').b x", "a.b"),
        ("SELECT * FROM IDENTIFIER('a' || 'b')", "IDENTIFIER()"),
    ],
)
def test_a_table_has_the_parts_of_its_name(text: str, found: str) -> None:
    assert tables(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "SELECT EXTRACT(YEAR FROM a) FROM t",
        "SELECT TRIM(BOTH 'x' FROM a) FROM t",
        "SELECT SUBSTRING(a FROM 2 FOR 3), OVERLAY(a PLACING b FROM 3) FROM t",
        "SELECT a IS DISTINCT FROM b FROM t",
        "SELECT a IS NOT DISTINCT FROM b FROM t WHERE c IS DISTINCT FROM d",
        "SELECT t.from, t.where, t.join, t.table FROM t",
        "SELECT * FROM t WHERE t.from = u.where",
        "SELECT `from`, 'FROM u' FROM t -- FROM v",
        "SELECT /* FROM u */ a FROM t",
        "SELECT /*+ BROADCAST(u) */ a FROM t",
        "SELECT from FROM t",
        "SELECT a.select, a.and FROM t",
        "SELECT a AS like FROM t",
        "SELECT a::array<int> FROM t",
        "SELECT a::map<int, struct<b: array<int>>> FROM t",
        "SELECT a::struct<> FROM t",
        "SELECT a > from FROM t",
        "SELECT a <> from FROM t",
        "SELECT from, table, join FROM t",
        "SELECT a + from FROM t",
        "SELECT from FROM `t`",
        "SELECT a * from FROM t",
        "SELECT count(*) from FROM t",
        "SELECT DISTINCT from FROM t",
        "SELECT DISTINCT table FROM t",
        "SELECT a AS table, b FROM t",
        "SELECT a AS table FROM t",
        "SELECT 1. FROM t",
        "SELECT 1.5, .5, 2e3 FROM t",
        "SELECT (values.x), (map['a'] > 1), (table.y) FROM t",
        "SELECT f(values, b), g(table), h(map) FROM t",
        "SELECT (from), (select, with) FROM t",
        "SELECT CASE WHEN a THEN b END, c FROM t",
        "SELECT * EXCEPT (a, b) FROM t",
        "SELECT {fn now()}, a:b.from FROM t",
        "SELECT a FROM t GROUP BY a WITH ROLLUP ORDER BY (a)",
        "SELECT * FROM t WHERE a = 1 AND limit = 2 OR group > 3 LIMIT 4",
    ],
)
def test_words_of_expressions_are_no_tables(text: str) -> None:
    assert tables(text) == "t"


@pytest.mark.parametrize("word", ["from", "where", "values", "select", "table", "stream", "identifier", "recursive"])
@pytest.mark.parametrize("text", ["SELECT * FROM {}", "SELECT * FROM {} x", "SELECT * FROM u JOIN {} ON a = b"])
def test_a_word_that_spark_lets_be_a_table_is_one(text: str, word: str) -> None:
    expected = [part for part in ("u" if "JOIN" in text else "", word) if part]
    if word == "stream" and text.endswith(" x"):
        expected = ["x"]
    assert tables(text.format(word)).split() == expected


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT * FROM (SELECT * FROM t) x JOIN u", "t u"),
        ("SELECT * FROM (SELECT * FROM t), u", "t u"),
        ("SELECT (SELECT max(a) FROM t), b FROM u", "t u"),
        ("SELECT f((SELECT a FROM t), b) FROM u", "t u"),
        ("SELECT EXTRACT(YEAR FROM (SELECT a FROM t)) FROM u", "t u"),
        ("SELECT * FROM t WHERE a IN (SELECT b FROM u WHERE c IN (FROM v))", "t u v"),
        ("SELECT * FROM t WHERE EXISTS (TABLE u) AND a = (VALUES (1))", "t u"),
        ("SELECT * FROM t JOIN u ON a IN (SELECT b FROM v), w", "t u v w"),
        ("SELECT * FROM t GROUP BY a HAVING a > (SELECT b FROM u)", "t u"),
        ("SELECT * FROM t, LATERAL (SELECT * FROM u WHERE u.a = t.a) x, v", "t u v"),
        ("SELECT * FROM t JOIN LATERAL (SELECT * FROM u) x ON true JOIN v", "t u v"),
        ("SELECT * FROM (FROM t)", "t"),
        ("SELECT * FROM (SELECT .5 FROM t)", "t"),
        ("SELECT * FROM (SELECT 'a' FROM t), (SELECT `a` FROM `u`)", "t u"),
        ("SELECT * FROM (SELECT 'a' AS using) x WHERE using = 'a'", ""),
        ("SELECT * FROM (TABLE t) x, (WITH a AS (FROM u) FROM a)", "t u"),
        ("((SELECT * FROM t)) UNION ((SELECT * FROM u))", "t u"),
        ("SELECT ((SELECT a FROM t) + (SELECT b FROM u)), c FROM v", "t u v"),
    ],
)
def test_sub_queries_are_read_wherever_they_stand(text: str, found: str) -> None:
    assert tables(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT * FROM (t)", "t"),
        ("SELECT * FROM ((t))", "t"),
        ("SELECT * FROM (t x JOIN u ON x.a = u.a) WHERE b", "t u"),
        ("SELECT * FROM ((t JOIN u ON a = b) JOIN v ON c = d), w", "t u v w"),
        ("SELECT * FROM ((SELECT * FROM t) x JOIN u ON a = b)", "t u"),
        ("SELECT * FROM (t) AS x (a, b), u", "t u"),
        ("SELECT * FROM v JOIN (t CROSS JOIN u)", "v t u"),
    ],
)
def test_relations_in_parentheses_are_read(text: str, found: str) -> None:
    assert tables(text) == found


@pytest.mark.parametrize(
    "operation", ["UNION", "UNION ALL", "UNION DISTINCT", "EXCEPT", "EXCEPT ALL", "MINUS", "INTERSECT"]
)
@pytest.mark.parametrize(
    "query", ["SELECT * FROM u", "FROM u", "TABLE u", "(SELECT * FROM u)", "(TABLE u)", "(FROM u)"]
)
def test_both_sides_of_a_set_operation_are_read(operation: str, query: str) -> None:
    assert tables(f"FROM t GROUP BY a, b {operation} {query} ORDER BY a, b") == "t u"
    assert tables(f"TABLE t {operation} {query}") == "t u"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("WITH a AS (SELECT * FROM t) SELECT * FROM a", "t"),
        ("WITH A AS (SELECT * FROM t) SELECT * FROM `a`, u", "t u"),
        ("WITH a (SELECT * FROM t) SELECT * FROM a", "t"),
        ("WITH a (x, y) AS (SELECT * FROM t) SELECT * FROM a", "t"),
        ("WITH a AS (SELECT * FROM t), b AS (SELECT * FROM a JOIN u) SELECT * FROM b", "t u"),
        ("WITH a AS (SELECT * FROM t) SELECT * FROM db.a", "t db.a"),
        ("WITH a AS (SELECT * FROM t) TABLE a", "t"),
        ("WITH a AS (SELECT * FROM t) TABLE u", "t u"),
        ("WITH a AS (SELECT 1) FROM a, t", "t"),
        ("WITH a AS (SELECT 1) SELECT * FROM (SELECT * FROM a) JOIN a UNION SELECT * FROM a", ""),
        ("WITH recursive AS (SELECT * FROM t) SELECT * FROM recursive", "t"),
        ("INSERT INTO x WITH a AS (SELECT * FROM t) SELECT * FROM a", "t"),
        ("WITH a AS (SELECT * FROM t) INSERT INTO x SELECT * FROM a", "t"),
    ],
)
def test_common_tables_are_no_tables(text: str, found: str) -> None:
    assert tables(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("WITH a AS (SELECT * FROM a) SELECT * FROM a", "a"),
        ("WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a, b", "b"),
        ("SELECT * FROM (WITH a AS (SELECT 1) SELECT * FROM a) JOIN a", "a"),
        ("SELECT * FROM a WHERE b IN (WITH a AS (SELECT 1) SELECT * FROM a)", "a"),
        ("WITH a AS (WITH b AS (SELECT 1) SELECT * FROM b) SELECT * FROM a, b", "b"),
        ("WITH a AS (WITH a AS (SELECT 1) SELECT * FROM a) SELECT * FROM a", ""),
        ("WITH a AS (SELECT 1) SELECT * FROM a; SELECT * FROM a", "a"),
        ("WITH RECURSIVE a AS (SELECT 1 UNION ALL SELECT * FROM a) SELECT * FROM a", ""),
        ("WITH RECURSIVE a (n) MAX RECURSION LEVEL 9 AS (SELECT * FROM t UNION SELECT * FROM a) FROM a", "t"),
    ],
)
def test_a_common_table_is_known_behind_it_and_within_its_query_only(text: str, found: str) -> None:
    assert tables(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT * FROM range(3), t", "range() t"),
        ("SELECT * FROM f(a, g(b, c)) x JOIN t", "f() t"),
        ("SELECT * FROM f(TABLE(t))", "f() t"),
        ("SELECT * FROM f(TABLE(t) PARTITION BY a ORDER BY b, 1)", "f() t"),
        ("SELECT * FROM f(1, TABLE(SELECT * FROM t), TABLE(u))", "f() t u"),
        ("SELECT * FROM f(input => TABLE(t), x => 1)", "f() t"),
        ("SELECT * FROM f(TABLE t, 5)", "f() t"),
        ("WITH a AS (FROM t) SELECT * FROM f(TABLE(a))", "t f()"),
        ("SELECT * FROM t LATERAL VIEW explode(a) x AS b, c LATERAL VIEW OUTER f(d) y", "t"),
        ("SELECT * FROM t JOIN LATERAL f(t.a) JOIN u", "t f() u"),
    ],
)
def test_functions_of_tables_are_told_from_tables(text: str, found: str) -> None:
    assert tables(text) == found


def test_the_arguments_of_a_function_are_as_they_were_written() -> None:
    (found,) = relations("SELECT * FROM f( 'a, b' , g(c,  d), e => 1 )")
    assert found.arguments == ("'a, b'", "g(c,  d)", "e => 1")
    assert relations("FROM f()")[0].arguments == ()


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM VALUES (1), (a) AS x (b), t",
        "SELECT * FROM VALUES 1, 2 x, t",
        "SELECT * FROM VALUES array(1), named_struct('a', 1) AS x JOIN t",
        "SELECT * FROM (VALUES (1), (2)) x, t",
        "SELECT * FROM t JOIN VALUES (1), (2) x ON a = b",
    ],
)
def test_rows_in_from_are_no_tables(text: str) -> None:
    assert tables(text) == "t"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("FROM t |> WHERE a |> SELECT b, c", "t"),
        ("FROM t |> JOIN u ON a = b |> AGGREGATE sum(a), b GROUP BY c, d", "t u"),
        ("FROM t |> AS x |> LEFT JOIN u AS y USING (a), v", "t u v"),
        ("FROM t |> UNION ALL (SELECT * FROM u) |> EXCEPT TABLE v", "t u v"),
        ("TABLE t |> EXTEND a AS table, b |> SET x = 1, y = 2 |> DROP a, b", "t"),
        ("FROM t |> WHERE a IN (FROM u |> SELECT b) |> ORDER BY a, b", "t u"),
        ("WITH a AS (FROM t |> SELECT b) FROM a |> JOIN u", "t u"),
    ],
)
def test_pipes_are_read(text: str, found: str) -> None:
    assert tables(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("SELECT * FROM t PIVOT (sum(a) FOR b IN (1, 2)) x, u", "t u"),
        ("SELECT * FROM t UNPIVOT INCLUDE NULLS (a FOR b IN (c, d)) AS x JOIN u", "t u"),
        ("SELECT * FROM t TABLESAMPLE (10 PERCENT), u", "t u"),
        ("SELECT * FROM t TABLESAMPLE (10 ROWS) REPEATABLE (3) x, u", "t u"),
        ("SELECT * FROM t WITH ('a' = 'b') x, u", "t u"),
        ("SELECT * FROM STREAM t, u", "t u"),
        ("SELECT * FROM STREAM(t) AS x, u", "t u"),
    ],
)
def test_what_is_behind_a_table_is_stepped_over(text: str, found: str) -> None:
    assert tables(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("INSERT INTO x SELECT * FROM t", "t"),
        ("INSERT INTO TABLE x (a, b) SELECT * FROM t", "t"),
        ("INSERT INTO x TABLE t", "t"),
        ("INSERT OVERWRITE TABLE x PARTITION (a = 1) TABLE t", "t"),
        ("INSERT WITH SCHEMA EVOLUTION INTO x SELECT * FROM t WHERE (a)", "t"),
        ("INSERT INTO x REPLACE WHERE a IS DISTINCT FROM 1 SELECT * FROM t", "t"),
        ("FROM t INSERT INTO x SELECT a INSERT INTO y SELECT b", "t"),
        ("CREATE TABLE x AS SELECT * FROM t", "t"),
        ("CREATE TABLE x USING delta AS TABLE t", "t"),
        ("CREATE VIEW x AS (TABLE t)", "t"),
        ("CREATE TABLE x (a INT)", ""),
        ("DROP TABLE x", ""),
        ("DESCRIBE TABLE x", ""),
        ("CACHE LAZY TABLE x AS SELECT * FROM t", "t"),
        ("MERGE INTO x USING (SELECT * FROM t) s ON a = b WHEN MATCHED THEN UPDATE SET a = 1, b = 2", "t"),
        ("UPDATE x SET a = (SELECT b FROM t), c = 1", "t"),
        ("DELETE FROM x WHERE a IN (SELECT b FROM t)", "x t"),
    ],
)
def test_the_queries_of_commands_are_read(text: str, found: str) -> None:
    assert tables(text) == found


@pytest.mark.parametrize(
    ("text", "alias"),
    [
        ("FROM t", None),
        ("FROM t x", "x"),
        ("FROM t AS x", "x"),
        ("FROM t `a b`", "a b"),
        ("FROM t x (a, b)", "x"),
        ("FROM t AS AS", "AS"),
        ("FROM t VERSION AS OF 1 x", "x"),
        ("FROM t@v1 x", "x"),
        ("FROM t TABLESAMPLE (1 ROWS) x", "x"),
        ("FROM t WITH ('a' = 'b') AS x", "x"),
        ("FROM f(1) x", "x"),
        ("FROM t version", "version"),
        ("FROM t timestamp WHERE a", "timestamp"),
        *[(f"FROM t {word} a", None) for word in ("WHERE", "JOIN", "LEFT", "ON", "LIMIT", "LATERAL", "|>", "UNION")],
    ],
)
def test_a_relation_knows_its_alias(text: str, alias: str | None) -> None:
    assert relations(text)[0].alias == alias
    assert relations(text)[0].shown == (alias or relations(text)[0].parts[-1])


@pytest.mark.parametrize(
    ("text", "travel", "part"),
    [
        ("FROM t VERSION AS OF 3 x", Travel(VERSION, ("3",)), "t VERSION AS OF 3"),
        ("FROM a.t FOR TIMESTAMP AS OF now() WHERE b", Travel(TIMESTAMP, ("now()",)), "a.t FOR TIMESTAMP AS OF now()"),
        ("FROM t@v3, u", Travel(AT, ("v3",)), "t@v3"),
        ("FROM delta.`/a`@20261121000000000 x", Travel(AT, ("20261121000000000",)), "delta.`/a`@20261121000000000"),
        (
            "FROM t FOR SYSTEM_TIME FROM 'a' TO 'b' x",
            Travel(FROM_TO, ("'a'", "'b'")),
            "t FOR SYSTEM_TIME FROM 'a' TO 'b'",
        ),
        ("FROM f(1) x", None, "f(1)"),
        ("FROM t @v3", None, "t"),
    ],
)
def test_a_relation_has_its_travel_within_its_place(text: str, travel: Travel | None, part: str) -> None:
    relation = relations(text)[0]
    assert relation.travel == travel
    assert text[relation.start : relation.end] == part


def test_time_travel_without_its_second_time_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="expected TO and a second time"):
        relations("SELECT * FROM t FOR SYSTEM_TIME FROM 1")


@pytest.mark.parametrize(
    ("kind", "nullable"),
    [
        ("JOIN", ""),
        ("INNER JOIN", ""),
        ("CROSS JOIN", ""),
        ("LEFT JOIN", "b"),
        ("LEFT OUTER JOIN", "b"),
        ("NATURAL LEFT JOIN", "b"),
        ("RIGHT JOIN", "a"),
        ("FULL OUTER JOIN", "ab"),
        ("LEFT SEMI JOIN", "b"),
        ("SEMI JOIN", "b"),
        ("ANTI JOIN", "b"),
        (",", ""),
    ],
)
def test_a_join_says_which_side_may_be_null(kind: str, nullable: str) -> None:
    assert "".join(r.parts[0] for r in relations(f"FROM a {kind} b") if r.is_nullable) == nullable


def test_a_right_join_makes_all_tables_before_it_nullable() -> None:
    assert [r.is_nullable for r in relations("SELECT * FROM a JOIN b RIGHT JOIN c, d")] == [True, True, False, False]


@pytest.mark.parametrize(
    ("text", "wheres"),
    [
        ("SELECT * FROM t WHERE a = 1", ["a = 1"]),
        ("SELECT * FROM t WHERE a = 1 GROUP BY a", ["a = 1"]),
        ("SELECT * FROM t WHERE a = 1 ;", ["a = 1"]),
        ("SELECT * FROM t WHERE a = 1 -- why\n ORDER BY a", ["a = 1"]),
        ("SELECT * FROM t WHERE a = 1 AND limit = 2 LIMIT 3", ["a = 1 AND limit = 2"]),
        ("SELECT * FROM t WHERE t.order = 1 ORDER BY a", ["t.order = 1"]),
        ("SELECT * FROM t WHERE CASE WHEN a THEN b END HAVING c", ["CASE WHEN a THEN b END"]),
        ("SELECT * FROM t WHERE a UNION SELECT * FROM u WHERE b", ["a", "b"]),
        ("SELECT * FROM t WHERE a::array<int> LIMIT 1", ["a::array<int>"]),
        ("SELECT * FROM t WHERE a > limit LIMIT 1", ["a > limit"]),
        ("SELECT * FROM t JOIN u ON a = b WHERE c", ["c"]),
        ("SELECT * FROM t WHERE a IN (SELECT b FROM u WHERE c) AND d", ["a IN (SELECT b FROM u WHERE c) AND d", "c"]),
        ("SELECT * FROM t", [None]),
        ("SELECT * FROM t GROUP BY a HAVING b", [None]),
        ("DELETE FROM t WHERE a", ["a"]),
    ],
)
def test_a_block_has_its_own_where(text: str, wheres: list[str | None]) -> None:
    assert sorted((block.where for block in blocks(text)), key=str) == sorted(wheres, key=str)


@pytest.mark.parametrize(
    ("text", "is_plain"),
    [
        ("FROM t WHERE a", True),
        ("FROM t WITH ('a' = 'b') WHERE a", True),
        ("FROM t TABLESAMPLE (1 ROWS) WHERE a", False),
        ("FROM t PIVOT (sum(a) FOR b IN (1)) WHERE a", False),
        ("FROM t UNPIVOT (a FOR b IN (c)) WHERE a", False),
        ("FROM t |> WHERE a", False),
    ],
)
def test_a_block_is_plain_where_rows_keep_their_meaning(text: str, is_plain: bool) -> None:
    assert blocks(text)[0].is_plain is is_plain


@pytest.mark.parametrize(
    ("text", "others"),
    [
        ("FROM t", 0),
        ("FROM t, (SELECT 1)", 1),
        ("FROM t, VALUES (1), (2)", 1),
        ("FROM t LATERAL VIEW explode(a) x", 1),
        ("WITH a AS (SELECT 1) FROM t, a", 1),
        ("FROM t JOIN (u JOIN v)", 1),
        ("FROM t, LATERAL (SELECT 1), LATERAL (SELECT 2)", 2),
    ],
)
def test_a_block_counts_relations_that_are_no_tables(text: str, others: int) -> None:
    assert next(b for b in blocks(text) if b.relations[0].parts == ("t",)).others == others


def test_deep_parentheses_are_read() -> None:
    assert tables(f"FROM t WHERE {'(' * 2000}a{')' * 2000}") == "t"


def test_queries_within_too_many_queries_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="too many nested queries"):
        relations(f"{'FROM (' * 2000}TABLE t{')' * 2000}")


def test_nothing_is_replaced_by_no_replacements() -> None:
    assert apply_edits("SELECT 1 -- x", []) == "SELECT 1 -- x"


def test_replacements_are_done_from_left_to_right_whatever_their_order() -> None:
    assert apply_edits("a b c", [TextEdit(4, 5, "z"), TextEdit(0, 1, "x"), TextEdit(1, 1, "!")]) == "x! b z"


@pytest.mark.parametrize(
    ("text", "with_views"),
    [
        ("SELECT t.a FROM t", "SELECT t.a FROM v AS `t`"),
        ("SELECT * FROM db.t WHERE a", "SELECT * FROM v AS `t` WHERE a"),
        ("SELECT * FROM t x", "SELECT * FROM v x"),
        ("SELECT * FROM t VERSION AS OF 1 AS x", "SELECT * FROM v AS x"),
        ("SELECT * FROM t@v1", "SELECT * FROM v AS `t`"),
        ("SELECT * FROM t TABLESAMPLE (1 ROWS)", "SELECT * FROM v TABLESAMPLE (1 ROWS) AS `t`"),
        ("SELECT * FROM t WITH ('a' = 'b') WHERE c", "SELECT * FROM v WITH ('a' = 'b') AS `t` WHERE c"),
        ("SELECT * FROM delta.`/a``b`", "SELECT * FROM v AS `/a``b`"),
        ("SELECT * FROM IDENTIFIER('a.t')", "SELECT * FROM v AS `t`"),
        ("TABLE t", "TABLE v"),
        ("SELECT * FROM f(TABLE(t))", "SELECT * FROM f(TABLE(v))"),
        ("SELECT * FROM (t)", "SELECT * FROM (v AS `t`)"),
        ("SELECT`a`FROM`t`WHERE`b`", "SELECT`a`FROM v AS `t`WHERE`b`"),
        ("SELECT*FROM`t`x", "SELECT*FROM v x"),
        ("SELECT*FROM`t`VERSION AS OF'1'x", "SELECT*FROM v x"),
    ],
)
def test_a_view_is_known_by_the_name_of_its_table(text: str, with_views: str) -> None:
    found = [relation for relation in relations_of(text, tokens(text)) if relation.arguments is None]
    assert apply_edits(text, [each for relation in found for each in as_view(relation, "v")]) == with_views


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("SELECT db.t.a FROM db.t", "SELECT t.a FROM db.t"),
        ("SELECT DB.T.a.b, db.t.* FROM db.t", "SELECT T.a.b, t.* FROM db.t"),
        ("SELECT c.db.t.a, db.t.a FROM c.db.t", "SELECT t.a, t.a FROM c.db.t"),
        ("SELECT `db`.`t`.a FROM db.t", "SELECT `t`.a FROM db.t"),
        ("SELECT db.t, db.u.a, 'db.t.a' FROM db.t", "SELECT db.t, db.u.a, 'db.t.a' FROM db.t"),
        ("SELECT db.t.a FROM db.t AS x", "SELECT db.t.a FROM db.t AS x"),
        ("SELECT t.a FROM t", "SELECT t.a FROM t"),
        ("SELECT db.t.a FROM db.t.a", "SELECT db.t.a FROM db.t.a"),
        ("SELECT`db`.t.a FROM db.t", "SELECT t.a FROM db.t"),
        ("SELECT db.t.a FROM db.t, db.t.u AS x", "SELECT t.a FROM db.t, db.t.u AS x"),
    ],
)
def test_columns_lose_the_database_that_a_view_does_not_have(text: str, without: str) -> None:
    found = tokens(text)
    known = {r: [r.parts[start:] for start in range(len(r.parts))] for r in relations(text)}
    assert apply_edits(text, list(without_database(found, known))) == without


def test_a_common_table_is_named_in_its_case_where_that_counts() -> None:
    text = "WITH c AS (SELECT 1) SELECT * FROM c, C"
    assert [relation.parts for block in blocks(text) for relation in block.relations] == []
    told_apart = blocks_of(text, tokens(text), case_counts=True)
    assert [relation.parts for block in told_apart for relation in block.relations] == [("C",)]
