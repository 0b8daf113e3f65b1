"""CREATE TABLE and REPLACE TABLE taken apart, and what they say of columns and properties."""

from __future__ import annotations

from typing import Any

import pytest

from slackwater.errors import InvalidArgument, UnsupportedFeature
from slackwater.sql.definitions import (
    CREATE,
    CREATE_IF_NOT_EXISTS,
    CREATE_OR_REPLACE,
    REPLACE,
    ColumnDefinition,
    Identity,
    TableCreation,
    column_of,
    columns_in,
    creation_of,
    paths_of,
    properties_of,
    property_keys,
)
from slackwater.sql.time_travel import TIMESTAMP, VERSION, Travel
from tests.sql.reading import cursor


def creation(text: str) -> TableCreation:
    return creation_of(cursor(text))


def column(text: str) -> ColumnDefinition:
    read = cursor(text)
    found = column_of(read)
    read.done()
    return found


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("CREATE TABLE", CREATE),
        ("create table if not exists", CREATE_IF_NOT_EXISTS),
        ("REPLACE TABLE", REPLACE),
        ("CREATE OR REPLACE TABLE", CREATE_OR_REPLACE),
    ],
)
def test_a_creation_has_a_mode_and_a_table(text: str, mode: str) -> None:
    found = creation(f"{text} db.`a b` USING delta")
    assert (found.mode, found.table.parts, found.provider) == (mode, ("db", "a b"), "delta")


@pytest.mark.parametrize("text", ["REPLACE TABLE IF NOT EXISTS t", "CREATE OR REPLACE TABLE IF NOT EXISTS t"])
def test_if_not_exists_does_not_go_with_replace(text: str) -> None:
    with pytest.raises(InvalidArgument, match="IF NOT EXISTS is only valid with CREATE TABLE"):
        creation(text)


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("", {}),
        ("USING DELTA", {"provider": "delta"}),
        ("USING org.x.Delta", {"provider": "delta"}),
        ("COMMENT 'it''s' 'x'", {"comment": "it'sx"}),
        ("LOCATION '/a b'", {"location": "/a b"}),
        ("CLUSTER BY (a, b.c)", {"clustered_by": ("`a`", "`b`.`c`")}),
        ("CLUSTER BY NONE", {"clustered_by": ()}),
        ("TBLPROPERTIES ('a.b' = 'c', d.e = 1)", {"properties": {"a.b": "c", "d.e": "1"}}),
        ("OPTIONS (a 'b')", {"options": {"a": "b"}}),
        ("AS SELECT 1 AS a;", {"query": "SELECT 1 AS a"}),
        ("SELECT 1", {"query": "SELECT 1"}),
        ("AS (SELECT 1) UNION (SELECT 2)", {"query": "(SELECT 1) UNION (SELECT 2)"}),
        ("AS WITH a AS (SELECT 1) FROM a", {"query": "WITH a AS (SELECT 1) FROM a"}),
        ("USING delta AS TABLE u", {"provider": "delta", "query": "TABLE u"}),
        ("DEFAULT COLLATION UTF8_LCASE", {"refused": "DEFAULT"}),
        ("CLUSTERED BY (a) INTO 4 BUCKETS", {"refused": "CLUSTERED"}),
        ("STORED AS PARQUET LOCATION 'x'", {"refused": "STORED"}),
        (
            "USING delta COMMENT 'c' LOCATION 'l' TBLPROPERTIES (a = 'b') CLUSTER BY (d) AS VALUES (1)",
            {
                "provider": "delta",
                "comment": "c",
                "location": "l",
                "properties": {"a": "b"},
                "clustered_by": ("`d`",),
                "query": "VALUES (1)",
            },
        ),
    ],
)
def test_a_creation_has_clauses_in_any_order(text: str, given: dict[str, Any]) -> None:
    usual: dict[str, Any] = {
        "columns": (),
        "provider": None,
        "partitioned_by": (),
        "clustered_by": (),
        "properties": {},
        "options": {},
        "comment": None,
        "location": None,
        "query": None,
        "like": None,
        "clones": None,
        "clones_travel": None,
        "refused": None,
    }
    found = creation(f"CREATE TABLE t {text}")
    assert {name: getattr(found, name) for name in usual} == {**usual, **given}


@pytest.mark.parametrize(
    "clause", ["USING delta", "COMMENT 'c'", "LOCATION 'l'", "CLUSTER BY (a)", "TBLPROPERTIES (a = 'b')"]
)
def test_a_clause_is_given_once(clause: str) -> None:
    with pytest.raises(InvalidArgument, match="more than once"):
        creation(f"CREATE TABLE t {clause} {clause}")


@pytest.mark.parametrize(
    ("text", "travel"),
    [
        ("SHALLOW CLONE db.s", None),
        ("CLONE db.s", None),
        ("SHALLOW CLONE db.s VERSION AS OF 3", Travel(VERSION, ("3",))),
        ("SHALLOW CLONE db.s TIMESTAMP AS OF '2026-11-21'", Travel(TIMESTAMP, ("'2026-11-21'",))),
    ],
)
def test_a_clone_has_a_source_and_a_time(text: str, travel: Travel | None) -> None:
    found = creation(f"CREATE TABLE t {text} TBLPROPERTIES (a = 'b') LOCATION 'l'")
    assert found.clones is not None
    assert (found.clones.parts, found.clones_travel) == (("db", "s"), travel)
    assert (found.properties, found.location) == ({"a": "b"}, "l")


def test_a_deep_clone_is_none_of_ours() -> None:
    assert "SHALLOW CLONE" in (creation("CREATE TABLE t DEEP CLONE s VERSION AS OF 1").refused or "")


def test_a_table_like_another_has_its_name_and_clauses() -> None:
    found = creation("CREATE TABLE t LIKE db.s USING delta LOCATION 'l'")
    assert found.like is not None
    assert (found.like.parts, found.provider, found.location) == (("db", "s"), "delta", "l")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CREATE VIEW t", "TABLE"),
        ("CREATE TABLE", "the name of a table"),
        ("CREATE TABLE t FOO", "a query"),
        ("CREATE TABLE t AS", "a query"),
        ("CREATE TABLE t AS a", "a query"),
        ("CREATE TABLE t COMMENT c", "a text in quotes"),
        ("CREATE TABLE t LOCATION", "a text in quotes"),
        ("CREATE TABLE t PARTITIONED BY a", r"\("),
        ("CREATE TABLE t CLUSTER BY AUTO", r"\("),
        ("CREATE TABLE t TBLPROPERTIES (a)", "a value of a"),
        ("CREATE TABLE t (a INT", r"a \) for every \("),
        ("CREATE TABLE t (a INT,)", "a column"),
        ("CREATE TABLE t LIKE", "the name of a table"),
        ("CREATE TABLE t USING", "a format"),
    ],
)
def test_a_creation_that_is_none_is_refused(text: str, expected: str) -> None:
    with pytest.raises(InvalidArgument, match=f"expected {expected}"):
        creation(text)


def test_columns_are_separated_by_commas_of_their_own() -> None:
    found = creation("CREATE TABLE t (a DECIMAL(10, 2), b STRUCT<x: INT, y: MAP<INT, STRING>>, c INT DEFAULT f(1, 2))")
    assert [(each.name.parts, each.type) for each in found.columns] == [
        (("a",), "DECIMAL(10, 2)"),
        (("b",), "STRUCT<x: INT, y: MAP<INT, STRING>>"),
        (("c",), "INT"),
    ]


def test_partition_columns_are_names_or_definitions() -> None:
    found = creation("CREATE TABLE t PARTITIONED BY (a, b INT COMMENT 'c')")
    assert [(each.name.parts, each.type, each.comment) for each in found.partitioned_by] == [
        (("a",), None, None),
        (("b",), "INT", "c"),
    ]


@pytest.mark.parametrize("text", ["days(a)", "bucket(4, a)", "a, years(b)"])
def test_partitions_by_expressions_are_refused(text: str) -> None:
    with pytest.raises(UnsupportedFeature, match="PARTITIONED BY expressions"):
        creation(f"CREATE TABLE t PARTITIONED BY ({text})")


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("INT", {}),
        ("INT NOT NULL", {"nullable": False}),
        ("INT NULL", {"nullable": True}),
        ("INT COMMENT 'x, y'", {"comment": "x, y"}),
        ("INT COMMENT 'x' 'y' NOT NULL", {"comment": "xy", "nullable": False}),
        ("INT FIRST", {"first": True}),
        ("INT AFTER b", {"after": "b"}),
        ("INT DEFAULT 1", {"default": "1"}),
        ("INT DEFAULT -1 NOT NULL", {"default": "-1", "nullable": False}),
        ("INT DEFAULT 1 IS NOT NULL NOT NULL", {"default": "1 IS NOT NULL", "nullable": False}),
        ("INT DEFAULT NOT TRUE COMMENT 'c'", {"default": "NOT TRUE", "comment": "c"}),
        ("INT DEFAULT a NOT IN (1, 2)", {"default": "a NOT IN (1, 2)"}),
        ("INT DEFAULT NULL", {"default": "NULL"}),
        ("INT DEFAULT f(a, 'b') || 'COMMENT'", {"default": "f(a, 'b') || 'COMMENT'"}),
        (
            "INT NOT NULL DEFAULT CASE WHEN NOT a THEN b END",
            {"nullable": False, "default": "CASE WHEN NOT a THEN b END"},
        ),
        ("INT GENERATED ALWAYS AS (f(b, 1) + 2)", {"generated": "f(b, 1) + 2"}),
        ("INT GENERATED ALWAYS AS (b) COMMENT 'c'", {"generated": "b", "comment": "c"}),
        ("INT GENERATED ALWAYS AS IDENTITY", {"identity": Identity(True, 1, 1)}),
        ("INT GENERATED BY DEFAULT AS IDENTITY ()", {"identity": Identity(False, 1, 1)}),
        ("INT GENERATED ALWAYS AS IDENTITY (START WITH -5 INCREMENT BY 10)", {"identity": Identity(True, -5, 10)}),
        ("INT GENERATED ALWAYS AS IDENTITY (INCREMENT BY -1)", {"identity": Identity(True, 1, -1)}),
    ],
)
def test_a_column_has_what_is_said_behind_its_type(text: str, given: dict[str, Any]) -> None:
    found = column(f"a {text}")
    expected = ColumnDefinition(found.name, "INT", **given)
    assert found == expected
    assert found.name.parts == ("a",)


@pytest.mark.parametrize(
    "kind",
    [
        "INT",
        "DECIMAL(10, 2)",
        "ARRAY<STRUCT<a: INT NOT NULL COMMENT 'x', b: STRING>>",
        "STRUCT<>",
        "MAP<STRING, ARRAY<INT>>",
        "STRING COLLATE UTF8_LCASE",
        "INTERVAL DAY TO SECOND",
        "TIMESTAMP WITHOUT TIME ZONE",
    ],
)
@pytest.mark.parametrize("behind", ["", " NOT NULL", " COMMENT 'x'", " DEFAULT 1", " AFTER b"])
def test_a_type_ends_where_something_else_is_said(kind: str, behind: str) -> None:
    assert column(f"a {kind}{behind}").type == kind


@pytest.mark.parametrize("name", ["comment", "first", "unique", "primary", "constraint", "foreign", "check", "`a b`"])
def test_a_column_may_have_the_name_of_a_word(name: str) -> None:
    assert (column(f"{name} INT").name.parts, column(f"{name} INT").type) == ((name.strip("`"),), "INT")


def test_a_column_may_be_within_another() -> None:
    assert column("a.b.c INT").name.parts == ("a", "b", "c")


@pytest.mark.parametrize(
    "text",
    [
        "a INT PRIMARY KEY",
        "a INT UNIQUE",
        "a INT CHECK (a > 0)",
        "a INT REFERENCES b (c)",
        "a INT CONSTRAINT c UNIQUE",
        "PRIMARY KEY (a)",
        "UNIQUE (a)",
        "CHECK (a > 0)",
        "FOREIGN KEY (a) REFERENCES b",
        "CONSTRAINT c CHECK (a > 0)",
    ],
)
def test_constraints_of_columns_are_refused(text: str) -> None:
    with pytest.raises(UnsupportedFeature, match="ADD CONSTRAINT"):
        creation(f"CREATE TABLE t (b INT, {text})")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a INT NOT NULL NOT NULL", "the column `a` contains nullable more than once"),
        ("a INT COMMENT 'x' COMMENT 'y'", "contains comment more than once"),
        ("a INT DEFAULT", "expected a value"),
        ("a INT DEFAULT COMMENT 'x'", "expected a value"),
        ("a INT DEFAULT 1 DEFAULT 2", "contains default more than once"),
        ("a INT NOT", "expected GENERATED"),
        ("a INT GENERATED", "expected ALWAYS"),
        ("a INT GENERATED ALWAYS AS b", "expected an expression in parentheses"),
        ("a INT GENERATED BY DEFAULT AS (b)", "expected IDENTITY"),
        ("a INT GENERATED ALWAYS AS IDENTITY (START 1)", "expected START WITH or INCREMENT BY"),
        ("a INT GENERATED ALWAYS AS IDENTITY (START WITH b)", "expected a whole number"),
        ("a INT GENERATED ALWAYS AS IDENTITY (START WITH 1.5)", "IDENTITY needs a whole number, found 1.5"),
        ("a INT GENERATED ALWAYS AS IDENTITY (START WITH 1L)", "IDENTITY needs a whole number, found 1L"),
        ("'a' INT", "expected a column"),
    ],
)
def test_a_column_that_is_none_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        column(text)


def test_the_columns_in_parentheses_are_read() -> None:
    read = cursor("ADD COLUMNS (a INT AFTER b, c.d STRING FIRST) x")
    read.expect("ADD", "COLUMNS")
    first, second = columns_in(read.inner())
    assert (first.after, second.first, second.name.parts) == ("b", True, ("c", "d"))
    assert read.rest() == "x"


def test_no_columns_are_no_definitions() -> None:
    read = cursor("()")
    assert columns_in(read.inner()) == ()
    assert paths_of(cursor("()")) == ()


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("()", {}),
        ("('a' = 'b')", {"a": "b"}),
        ("('a.b' 'c', 'd' = 'e')", {"a.b": "c", "d": "e"}),
        ("(a.b.c = 'd', `e f` = 'g')", {"a.b.c": "d", "e f": "g"}),
        ("(a = 1, b = -1.5, c == 2)", {"a": "1", "b": "-1.5", "c": "2"}),
        ("(a = TRUE, b FALSE)", {"a": "true", "b": "false"}),
        ("('a' = 'TRUE')", {"a": "TRUE"}),
        ("('a' 'b' 'c')", {"a": "bc"}),
        ("('a' = 'x, y)')", {"a": "x, y)"}),
        ("('a' = f(1, 2), 'b' = '')", {"a": "f(1, 2)", "b": ""}),
    ],
)
def test_properties_are_pairs(text: str, properties: dict[str, str]) -> None:
    assert properties_of(cursor(text)) == properties


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("('a')", "expected a value of a"),
        ("('a' =)", "expected a value of a"),
        ("('a' = , 'b' = 'c')", "expected a value of a"),
        ("('a' = 'b',)", "expected a key"),
        ("('a' = 'b' c)", "expected the end"),
        ("('a' = 'b', 'a' = 'c')", "the property a occurs more than once"),
        ("(= 'a')", "expected a key"),
        ("'a' = 'b'", r"expected \("),
    ],
)
def test_properties_that_are_no_pairs_are_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        properties_of(cursor(text))


def test_keys_of_properties_are_texts_or_names() -> None:
    assert property_keys(cursor("('a.b', c.d, `e f`)")) == ["a.b", "c.d", "e f"]


@pytest.mark.parametrize("text", ["()", "('a' 'b')", "('a',)", "(1 +)"])
def test_keys_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"expected (a key|the end)"):
        property_keys(cursor(text))
