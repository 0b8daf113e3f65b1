from __future__ import annotations

import pytest
from sqlglot.dialects.spark import Spark

from slackwater.errors import InvalidArgument
from slackwater.protocol.actions.actions import Metadata, Protocol
from slackwater.protocol.features.sql_columns import (
    column_expressions,
    columns_in_sql,
    dependents,
    fixed_columns,
    missing_columns,
    read_columns,
)
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.schema.schema import (
    DATE,
    LONG,
    STRING,
    ArrayType,
    MapType,
    StructField,
    StructType,
    schema_to_json,
)

INNER = StructType((StructField("x", LONG), StructField("y.z", LONG)))
SCHEMA = StructType(
    (
        StructField("a", LONG),
        StructField("S", INNER),
        StructField("arr", ArrayType(INNER)),
        StructField("map", MapType(STRING, INNER)),
        StructField("current_date", DATE),
    )
)


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("a > 1 AND b <=> 'c'", {"a", "b"}),
        ("`a.b`.c > 1", {"a.b|c"}),
        ("`a``b` > 1", {"a`b"}),
        ("a.b.c.d.e.f IS NULL", {"a|b|c|d|e|f"}),
        ("(a).b > 1", {"a|b"}),
        ("arr[0].x > m['k'].v", {"arr", "m"}),
        ("named_struct('q', a).q", {"a"}),
        ("cast(d AS date) < current_date", {"d"}),
        ("`current_date` > d", {"current_date", "d"}),
        ("localtimestamp > ts OR user = u", {"ts", "u"}),
        ("exists(arr, x -> x.q > y)", {"arr", "y"}),
        ("aggregate(arr, 0, (acc, v) -> acc + v + a)", {"arr", "a"}),
        ("transform(a, a -> a + 1)[0] = b", {"a", "b"}),
        ("CASE WHEN a THEN b ELSE c END", {"a", "b", "c"}),
        ("extract(YEAR FROM ts) = date_trunc('DAY', d) + INTERVAL 1 DAY", {"ts", "d"}),
        ("1 = 1", set()),
        ("NULL", set()),
        ("current_timestamp()", set()),
    ],
)
def test_an_expression_tells_its_columns(sql: str, columns: set[str]) -> None:
    assert columns_in_sql(sql) == {tuple(text.split("|")) for text in columns}


@pytest.mark.parametrize("sql", ["", "a >", "a b", "a; b", "SELECT a", "'open", "((a)"])
def test_what_is_no_expression_is_refused(sql: str) -> None:
    with pytest.raises(InvalidArgument, match=r"not an SQL expression|expected one SQL expression"):
        columns_in_sql(sql)


@pytest.mark.parametrize("sql", ["struct(*)", "count(*) > 1", "a.*"])
def test_all_columns_are_not_named_columns(sql: str) -> None:
    with pytest.raises(InvalidArgument, match=r"found \*"):
        columns_in_sql(sql)


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("A > 1", {"a"}),
        ("s.X > s.`y.z`", {"S|x", "S|y.z"}),
        ("s IS NULL", {"S"}),
        ("arr.x[0] > 1", {"arr|element|x"}),
        ("arr[0].x > 1", {"arr"}),
        ("map.k.x > 1", {"map"}),
        ("t.a > 1", {"a"}),
        ("nobody > 1", set()),
        ("current_date > '2020-01-01'", {"current_date"}),
        ("s.nobody > 1", {"S"}),
        ("if > 1 AND a > 1", {"a"}),
        ("a > > 1", {"a"}),
        ("aa > > arr", {"arr"}),
        ("struct(*) IS NULL", {"a", "S", "arr", "map", "current_date"}),
    ],
)
def test_an_expression_reads_columns_of_the_schema_rather_too_many(sql: str, columns: set[str]) -> None:
    assert read_columns(sql, SCHEMA) == {tuple(text.split("|")) for text in columns}


WORDS = {word.lower() for word in Spark.Tokenizer.KEYWORDS if word.isidentifier()} | {"list", "map", "array", "if"}


@pytest.mark.parametrize(
    "sql",
    ["{} > 1", "{} IS NULL", "f({})", "{}[0].x > 1", "{}.x > 1", "NOT {}", "a AND {}", "a < {} + 1", "a IN ({}, 1)"],
)
def test_no_column_hides_behind_a_keyword(sql: str) -> None:
    hidden = [
        word
        for word in sorted(WORDS - {"null", "true", "false"})
        if (word,) not in read_columns(sql.format(word), StructType((StructField(word, LONG),)))
    ]
    assert hidden == []


def test_columns_that_are_not_there_are_told() -> None:
    assert missing_columns("a > b AND c.d = s.x AND t.a > 1", SCHEMA) == (("b",), ("c", "d"))
    assert missing_columns("a > >", SCHEMA) == ()


def _table(**metadata: dict[str, object]) -> TableConfiguration:
    names = ["a", "b", "c", "d", "p"]
    schema = StructType(tuple(StructField(n, LONG, True, metadata.get(n, {})) for n in names))
    constraints = {"delta.constraints.Positive": "a > 0", "DELTA.CONSTRAINTS.broken": "d > > 0", "other": "c > 0"}
    return TableConfiguration(Protocol(1, 2), Metadata("m", schema_to_json(schema), ("p",), constraints))


RULES = _table(
    b={"delta.generationExpression": "c + 1"},
    c={"delta.invariants": '{"expression": {"expression": "c > 3"}}'},
    d={"delta.invariants": "no json, about B"},
)


def test_every_rule_of_a_table_is_found_with_its_owner() -> None:
    assert [(e.label, e.sql, e.owner) for e in column_expressions(RULES)] == [
        ("CHECK constraint Positive", "a > 0", ()),
        ("CHECK constraint broken", "d > > 0", ()),
        ("generated column b", "c + 1", ("b",)),
        ("invariant of column c", "c > 3", ("c",)),
        ("invariant of column d", "no json, about B", ("d",)),
    ]


@pytest.mark.parametrize(
    ("column", "labels"),
    [
        ("a", ["CHECK constraint Positive"]),
        ("b", ["invariant of column d"]),
        ("c", ["generated column b", "invariant of column c"]),
        ("d", ["CHECK constraint broken"]),
        ("p", []),
    ],
)
def test_who_depends_on_a_column(column: str, labels: list[str]) -> None:
    assert [e.label for e in dependents(RULES, (column,))] == labels


def test_a_part_of_a_column_depends_as_the_column_does_and_a_sibling_does_not() -> None:
    constraint = {"delta.constraints.c": "s.x > 0 AND arr[0].x > 0"}
    table = TableConfiguration(Protocol(1, 2), Metadata("m", schema_to_json(SCHEMA), (), constraint))
    assert dependents(table, ("S",))
    assert dependents(table, ("S", "x"))
    assert dependents(table, ("arr", "element", "y.z"))
    assert not dependents(table, ("S", "y.z"))


def test_types_stay_where_something_is_computed_from_them() -> None:
    identity = _table(b={"delta.identity.start": 1}, c={"delta.generationExpression": "1"})
    assert fixed_columns(identity) == {("a",), ("b",), ("c",), ("d",), ("p",)}
    assert fixed_columns(TableConfiguration(Protocol(1, 2), Metadata("m", schema_to_json(SCHEMA)))) == frozenset()
