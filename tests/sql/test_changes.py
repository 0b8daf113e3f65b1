"""DELETE, UPDATE, MERGE and INSERT taken apart; every part is the text as it was written."""

from __future__ import annotations

from typing import Any

import pytest

from slackwater.errors import InvalidArgument
from slackwater.sql.changes import (
    DELETE,
    INSERT,
    MATCHED,
    NOT_MATCHED,
    NOT_MATCHED_BY_SOURCE,
    UPDATE,
    Clause,
    Insert,
    delete_of,
    insert_of,
    merge_of,
    update_of,
)
from tests.sql.reading import cursor


def clauses(text: str) -> tuple[Clause, ...]:
    return merge_of(cursor(f"MERGE INTO t USING s ON t.a = s.a {text}")).clauses


def insert(text: str) -> Insert:
    return insert_of(cursor(text))


@pytest.mark.parametrize(
    ("text", "table", "alias", "condition"),
    [
        ("DELETE FROM t", ("t",), None, None),
        ("delete from t;", ("t",), None, None),
        ("DELETE FROM db.t x WHERE x.a = 1", ("db", "t"), "x", "x.a = 1"),
        ("DELETE FROM delta.`/a b` AS `x y` WHERE a  =  1 -- why", ("delta", "/a b"), "x y", "a  =  1"),
        ("DELETE FROM t WHERE a IN (SELECT b FROM u WHERE c) ;", ("t",), None, "a IN (SELECT b FROM u WHERE c)"),
        ("DELETE FROM t WHERE t.where = 1", ("t",), None, "t.where = 1"),
    ],
)
def test_a_delete_has_a_table_and_a_condition(
    text: str, table: tuple[str, ...], alias: str | None, condition: str | None
) -> None:
    found = delete_of(cursor(text))
    assert (found.table.parts, found.alias, found.condition) == (table, alias, condition)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("DELETE t", "FROM"),
        ("DELETE FROM", "the name of a table"),
        ("DELETE FROM t WHERE", "a condition"),
        ("DELETE FROM t x y", "the end"),
        ("DELETE FROM t (a)", "an alias"),
        ("DELETE FROM t AS", "an alias"),
        ("DELETE FROM t VERSION AS OF 1", "the end"),
        ("DELETE FROM t; DELETE FROM u", "an alias"),
        ("UPDATE t", "SET"),
        ("UPDATE t SET", "a column"),
        ("UPDATE t SET a", "="),
        ("UPDATE t SET a =", "a value"),
        ("UPDATE t SET a = WHERE b", "a value"),
        ("UPDATE t SET a = 1,", "a column"),
        ("UPDATE t SET a = 1 WHERE", "a condition"),
        ("UPDATE t x (a) SET a = 1", "SET"),
        ("UPDATE t SET 'a' = 1", "a column"),
        ("UPDATE t SET *", "a column"),
    ],
)
def test_a_delete_or_update_that_is_none_is_refused(text: str, expected: str) -> None:
    read = cursor(text)
    with pytest.raises(InvalidArgument, match=f"expected {expected}"):
        (delete_of if read.peek("DELETE") else update_of)(read)


def test_an_alias_has_one_part() -> None:
    with pytest.raises(InvalidArgument, match="an alias must have one part"):
        delete_of(cursor("DELETE FROM t AS a.b"))


@pytest.mark.parametrize(
    ("text", "alias", "values", "condition"),
    [
        ("UPDATE t SET a = 1", None, {"`a`": "1"}, None),
        ("UPDATE t AS x SET x.a.b == 1, `c` = DEFAULT", "x", {"`x`.`a`.`b`": "1", "`c`": "DEFAULT"}, None),
        ("UPDATE t SET a = f(b, c), d = e WHERE g", None, {"`a`": "f(b, c)", "`d`": "e"}, "g"),
        ("UPDATE t SET a = (SELECT b FROM u WHERE c) WHERE d", None, {"`a`": "(SELECT b FROM u WHERE c)"}, "d"),
        ("UPDATE t SET a = CASE WHEN b THEN c END WHERE d", None, {"`a`": "CASE WHEN b THEN c END"}, "d"),
        ("UPDATE t SET a = t.where + 1 WHERE b", None, {"`a`": "t.where + 1"}, "b"),
        ("UPDATE t SET a = 'x, y', b = \"WHERE\"", None, {"`a`": "'x, y'", "`b`": '"WHERE"'}, None),
        ("UPDATE t SET a = b = c", None, {"`a`": "b = c"}, None),
        ("UPDATE t SET a = 1. WHERE b", None, {"`a`": "1."}, "b"),
        ("UPDATE t SET a = /* , */ 1, -- x\n b = 2;", None, {"`a`": "1", "`b`": "2"}, None),
    ],
)
def test_an_update_has_values_by_column(
    text: str, alias: str | None, values: dict[str, str], condition: str | None
) -> None:
    found = update_of(cursor(text))
    assert (found.alias, found.values, found.condition) == (alias, values, condition)


@pytest.mark.parametrize("read", [update_of, merge_of])
def test_a_column_is_assigned_once(read: Any) -> None:
    text = "SET a = 1, b = 2, `a` = 3"
    text = f"UPDATE t {text}" if read is update_of else f"MERGE INTO t USING s ON c WHEN MATCHED THEN UPDATE {text}"
    with pytest.raises(InvalidArgument, match="column `a` is assigned more than once"):
        read(cursor(text))


@pytest.mark.parametrize(
    ("text", "alias", "source", "condition"),
    [
        ("INTO t USING s ON a = b WHEN MATCHED THEN DELETE", None, "s", "a = b"),
        ("INTO db.t x USING db.s AS y ON x.a = y.a WHEN MATCHED THEN DELETE", "x", "db.s AS y", "x.a = y.a"),
        (
            "INTO t USING (SELECT * FROM u JOIN v ON a) s ON b WHEN MATCHED THEN DELETE",
            None,
            "(SELECT * FROM u JOIN v ON a) s",
            "b",
        ),
        ("INTO t USING s VERSION AS OF 1 x ON b WHEN MATCHED THEN DELETE", None, "s VERSION AS OF 1 x", "b"),
        (
            "INTO t USING s ON CASE WHEN a THEN b END = c WHEN MATCHED THEN DELETE",
            None,
            "s",
            "CASE WHEN a THEN b END = c",
        ),
        ("INTO t USING s ON t.when = s.on WHEN MATCHED THEN DELETE", None, "s", "t.when = s.on"),
        ("INTO t USING s ON (a AND b) WHEN MATCHED THEN DELETE;", None, "s", "(a AND b)"),
    ],
)
def test_a_merge_has_a_table_a_source_and_a_condition(
    text: str, alias: str | None, source: str, condition: str
) -> None:
    found = merge_of(cursor(f"MERGE {text}"))
    assert (found.alias, found.source, found.condition, found.evolves) == (alias, source, condition, False)
    assert found.clauses == (Clause(MATCHED, DELETE, None, None),)
    assert merge_of(cursor(f"MERGE WITH SCHEMA EVOLUTION {text}")).evolves


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("WHEN MATCHED THEN DELETE", Clause(MATCHED, DELETE, None, None)),
        ("WHEN MATCHED AND a THEN DELETE", Clause(MATCHED, DELETE, "a", None)),
        (
            "WHEN MATCHED AND CASE WHEN a THEN b END THEN DELETE",
            Clause(MATCHED, DELETE, "CASE WHEN a THEN b END", None),
        ),
        ("WHEN MATCHED AND a AND (b OR c) THEN DELETE", Clause(MATCHED, DELETE, "a AND (b OR c)", None)),
        ("WHEN MATCHED AND t.then = 1 THEN DELETE", Clause(MATCHED, DELETE, "t.then = 1", None)),
        ("WHEN MATCHED THEN UPDATE SET *", Clause(MATCHED, UPDATE, None, None)),
        (
            "WHEN MATCHED THEN UPDATE SET a = s.a, t.b = c * 2",
            Clause(MATCHED, UPDATE, None, {"`a`": "s.a", "`t`.`b`": "c * 2"}),
        ),
        (
            "WHEN MATCHED THEN UPDATE SET a = CASE WHEN b THEN c END, d = e",
            Clause(MATCHED, UPDATE, None, {"`a`": "CASE WHEN b THEN c END", "`d`": "e"}),
        ),
        ("WHEN NOT MATCHED THEN INSERT *", Clause(NOT_MATCHED, INSERT, None, None)),
        ("WHEN NOT MATCHED BY TARGET AND a THEN INSERT *", Clause(NOT_MATCHED, INSERT, "a", None)),
        (
            "WHEN NOT MATCHED THEN INSERT (a, b.c) VALUES (f(s.a, 1), 'x, y')",
            Clause(NOT_MATCHED, INSERT, None, {"`a`": "f(s.a, 1)", "`b`.`c`": "'x, y'"}),
        ),
        (
            "WHEN NOT MATCHED THEN INSERT (`values`) VALUES (DEFAULT)",
            Clause(NOT_MATCHED, INSERT, None, {"`values`": "DEFAULT"}),
        ),
        ("WHEN NOT MATCHED BY SOURCE THEN DELETE", Clause(NOT_MATCHED_BY_SOURCE, DELETE, None, None)),
        (
            "WHEN NOT MATCHED BY SOURCE AND a THEN UPDATE SET b = 1",
            Clause(NOT_MATCHED_BY_SOURCE, UPDATE, "a", {"`b`": "1"}),
        ),
    ],
)
def test_a_clause_has_a_kind_an_action_a_condition_and_values(text: str, clause: Clause) -> None:
    assert clauses(text) == (clause,)


def test_clauses_are_in_their_order() -> None:
    found = clauses(
        "WHEN MATCHED AND a THEN UPDATE SET b = 1 WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (a) VALUES (1) "
        "WHEN NOT MATCHED BY SOURCE THEN DELETE"
    )
    assert [(clause.kind, clause.action) for clause in found] == [
        (MATCHED, UPDATE),
        (MATCHED, DELETE),
        (NOT_MATCHED, INSERT),
        (NOT_MATCHED_BY_SOURCE, DELETE),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "WHEN MATCHED or WHEN NOT MATCHED"),
        ("WHEN", "NOT MATCHED"),
        ("WHEN MATCHED", "THEN"),
        ("WHEN MATCHED THEN", "UPDATE or DELETE"),
        ("WHEN MATCHED AND THEN DELETE", "a condition"),
        ("WHEN MATCHED THEN INSERT *", "UPDATE or DELETE"),
        ("WHEN MATCHED THEN UPDATE *", "SET"),
        ("WHEN MATCHED THEN DELETE a", "the end"),
        ("WHEN MATCHED THEN UPDATE SET a = WHEN MATCHED THEN DELETE", "a value"),
        ("WHEN NOT MATCHED THEN DELETE", "INSERT"),
        ("WHEN NOT MATCHED THEN INSERT VALUES (1)", "the columns, or "),
        ("WHEN NOT MATCHED THEN INSERT (a)", "VALUES"),
        ("WHEN NOT MATCHED THEN INSERT (a) VALUES ()", "a value"),
        ("WHEN NOT MATCHED THEN INSERT (a, ) VALUES (1)", "a column"),
        ("WHEN NOT MATCHED THEN INSERT (a) VALUES (1), (2)", "the end"),
        ("WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *", "a column"),
        ("WHEN NOT MATCHED BY SOURCE THEN INSERT *", "UPDATE or DELETE"),
        ("WHEN NOT MATCHED BY SOURCE BY TARGET THEN DELETE", "THEN"),
    ],
)
def test_a_clause_that_is_none_is_refused(text: str, expected: str) -> None:
    with pytest.raises(InvalidArgument, match=f"expected {expected}"):
        clauses(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("INSERT (a, b) VALUES (1)", "INSERT has 2 columns and 1 values"),
        ("INSERT (a, b, `a`) VALUES (1, 2, 3)", "INSERT names a column more than once: `a`, `b`, `a`"),
    ],
)
def test_an_insert_clause_has_a_value_for_each_column(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        clauses(f"WHEN NOT MATCHED THEN {text}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("MERGE t", "INTO"),
        ("MERGE INTO t ON a WHEN MATCHED THEN DELETE", "USING"),
        ("MERGE INTO t USING ON a WHEN MATCHED THEN DELETE", "a table or a query"),
        ("MERGE INTO t USING s WHEN MATCHED THEN DELETE", "ON"),
        ("MERGE INTO t USING s ON WHEN MATCHED THEN DELETE", "a condition"),
        ("MERGE INTO t x (a) USING s ON a WHEN MATCHED THEN DELETE", "USING"),
    ],
)
def test_a_merge_that_is_none_is_refused(text: str, expected: str) -> None:
    with pytest.raises(InvalidArgument, match=f"expected {expected}"):
        merge_of(cursor(text))


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("INTO t VALUES (1)", {}),
        ("INTO TABLE t VALUES (1)", {}),
        ("OVERWRITE t VALUES (1)", {"overwrites": True}),
        ("OVERWRITE TABLE t VALUES (1)", {"overwrites": True}),
        ("INTO t (a, `b c`) VALUES (1)", {"columns": ("`a`", "`b c`")}),
        ("INTO t (select, values) VALUES (1)", {"columns": ("`select`", "`values`")}),
        ("INTO t (from) VALUES (1)", {"columns": ("`from`",)}),
        ("INTO t BY NAME VALUES (1)", {"by_name": True}),
        ("WITH SCHEMA EVOLUTION INTO t VALUES (1)", {"evolves": True}),
        ("WITH SCHEMA EVOLUTION OVERWRITE t VALUES (1)", {"evolves": True, "overwrites": True}),
        ("INTO t PARTITION (a = 1, b) VALUES (1)", {"partition": "a = 1, b"}),
        (
            "OVERWRITE t PARTITION (a = 1) (b) VALUES (1)",
            {"overwrites": True, "partition": "a = 1", "columns": ("`b`",)},
        ),
        ("INTO t PARTITION (a = 1) BY NAME VALUES (1)", {"partition": "a = 1", "by_name": True}),
        ("INTO t REPLACE WHERE a = 1 VALUES (1)", {"replace_where": "a = 1"}),
        (
            "INTO t BY NAME REPLACE WHERE a IN (SELECT b FROM u) VALUES (1)",
            {"by_name": True, "replace_where": "a IN (SELECT b FROM u)"},
        ),
        ("INTO t REPLACE WHERE a IS DISTINCT FROM 1 VALUES (1)", {"replace_where": "a IS DISTINCT FROM 1"}),
        ("INTO t REPLACE WHERE table = 1 AND values VALUES (1)", {"replace_where": "table = 1 AND values"}),
        ("INTO t REPLACE WHERE t.from > 1 VALUES (1)", {"replace_where": "t.from > 1"}),
        ("INTO t REPLACE USING (a, b) VALUES (1)", {"replace_using": ("`a`", "`b`")}),
        ("INTO t AS x REPLACE ON x.a <=> b VALUES (1)", {"replace_on": "x.a <=> b", "alias": "x"}),
        ("INTO t x REPLACE ON x.a VALUES (1)", {"replace_on": "x.a", "alias": "x"}),
    ],
)
def test_an_insert_has_what_is_before_its_rows(text: str, given: dict[str, Any]) -> None:
    usual: dict[str, Any] = {
        "overwrites": False,
        "columns": None,
        "by_name": False,
        "evolves": False,
        "partition": None,
        "replace_where": None,
        "replace_using": None,
        "replace_on": None,
        "alias": None,
        "query_alias": None,
        "query": "VALUES (1)",
    }
    found = insert(f"INSERT {text}")
    assert found.table.parts == ("t",)
    assert {name: getattr(found, name) for name in usual} == {**usual, **given}


@pytest.mark.parametrize(
    "query",
    [
        "VALUES (1, 'a'), (2, DEFAULT)",
        "SELECT * FROM u",
        "(SELECT * FROM u)",
        "((SELECT * FROM u) UNION (VALUES (1)))",
        "TABLE u",
        "(TABLE u)",
        "FROM u SELECT a",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "(WITH a AS (SELECT 1) SELECT * FROM a)",
    ],
)
@pytest.mark.parametrize(
    "before", ["", " (a, b)", " BY NAME", " PARTITION (a = 1)", " REPLACE WHERE a = 1", " REPLACE USING (a)"]
)
def test_the_rows_of_an_insert_are_any_query(query: str, before: str) -> None:
    found = insert(f"INSERT INTO t{before} {query};")
    assert found.query == query
    assert found.columns == (("`a`", "`b`") if before == " (a, b)" else None)


def test_common_tables_before_an_insert_are_of_its_query() -> None:
    found = insert("WITH a AS (SELECT 1), b AS (SELECT 2) INSERT INTO t SELECT * FROM a")
    assert found.query == "WITH a AS (SELECT 1), b AS (SELECT 2) SELECT * FROM a"


def test_common_tables_before_an_insert_are_known_to_those_in_it() -> None:
    found = insert("WITH a AS (SELECT 1) INSERT INTO t WITH b AS (SELECT * FROM a) SELECT * FROM b")
    assert found.query == "WITH a AS (SELECT 1) (WITH b AS (SELECT * FROM a) SELECT * FROM b)"


@pytest.mark.parametrize("alias", ["s", "AS s"])
def test_the_rows_behind_replace_on_have_a_name(alias: str) -> None:
    found = insert(f"INSERT INTO t AS x REPLACE ON x.a = s.a AND f(x.b) (SELECT 1 AS a) {alias}")
    assert (found.replace_on, found.query) == ("x.a = s.a AND f(x.b)", "(SELECT 1 AS a)")
    assert (found.alias, found.query_alias) == ("x", "s")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("INSERT t VALUES (1)", "INTO"),
        ("INSERT INTO", "the name of a table"),
        ("INSERT INTO t", "rows"),
        ("INSERT INTO t (a, b)", "rows"),
        ("INSERT INTO t (a b) VALUES (1)", "the end"),
        ("INSERT INTO t () VALUES (1)", "a column"),
        ("INSERT INTO t PARTITION a VALUES (1)", r"\("),
        ("INSERT INTO t PARTITION (a = 1) IF NOT EXISTS VALUES (1)", "rows; only other formats support IF NOT EXISTS"),
        ("INSERT INTO t REPLACE WHERE VALUES (1)", "rows"),
        ("INSERT INTO t REPLACE WHERE a = 1", "rows"),
        ("INSERT INTO t REPLACE USING a VALUES (1)", r"\("),
        ("INSERT INTO t REPLACE", "rows"),
        ("INSERT INTO t DEFAULT VALUES", "rows"),
        ("INSERT INTO t SET a = 1", "rows"),
    ],
)
def test_an_insert_that_is_none_is_refused(text: str, expected: str) -> None:
    with pytest.raises(InvalidArgument, match=f"expected {expected}"):
        insert(text)


def test_columns_and_by_name_do_not_go_together() -> None:
    with pytest.raises(InvalidArgument, match="a list of columns, or BY NAME, not both"):
        insert("INSERT INTO t (a) BY NAME VALUES (1)")
