"""Rules of a table for its rows: constraints, NOT NULL, invariants, generated columns and defaults."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from slackwater import errors
from slackwater.spark.write import row_checks
from tests.spark.written import actions, collected, column, listing, read, rows, save, table_log

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

LONG, TEXT = column("id", "long"), column("t", "string")


def _refused(spark: SparkSession, path: Path, data: str, *parts: str, mode: str = "append", **options: str) -> str:
    """The message for the rows of the SQL text `data`, which leave the table as it is."""
    before = listing(path)
    with pytest.raises(errors.InvariantViolationException) as raised:
        save(spark.sql(data), path, mode, **options)
    assert listing(path) == before
    message = str(raised.value)
    assert [part for part in parts if part not in message] == []
    assert "slackwater-row-check" not in message
    return message


def test_a_row_that_breaks_a_check_fails_the_write_and_is_shown(spark: SparkSession, tmp_path: Path) -> None:
    checks = {"delta.constraints.small": "id < 10", "delta.constraints.both": "t is null or length(t) < id"}
    path = table_log(tmp_path / "t", [LONG, TEXT], checks, ["checkConstraints"])
    save(spark.sql("select 9L id, 'x' t"), path)
    _refused(spark, path, "select id, 'x' t from range(5, 15)", "CHECK constraint small", "(id < 10)", '{"id":1')
    _refused(spark, path, "select 2L id, 'long' t", "both", "length(t) < id", '"id":2', '"t":"long"')
    _refused(spark, path, "select 20L id, 'x' t", "small", '{"id":20}', mode="overwrite")
    assert rows(read(spark, path)) == [(9, "x")]


def test_where_spark_does_not_tell_of_broken_rows_they_are_refused_all_the_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = table_log(tmp_path / "t", [LONG, TEXT], {"delta.constraints.c": "id < 10"}, ["checkConstraints"])
    asked: list[str] = []
    monkeypatch.setattr(row_checks, "observed", lambda _, name: asked.append(name))
    _refused(spark, path, "select 11L id, 'x' t", "id < 10", '{"id":11}')
    save(spark.sql("select 9L id, 'x' t"), path)
    assert rows(read(spark, path)) == [(9, "x")]
    assert len(asked) == 2


def test_null_does_not_satisfy_a_check(spark: SparkSession, tmp_path: Path) -> None:
    path = table_log(tmp_path / "t", [LONG, TEXT], {"delta.constraints.c": "id < 10"}, ["checkConstraints"])
    _refused(spark, path, "select cast(null as long) id, 'x' t", "id < 10", '{"id":null}')
    _refused(spark, path, "select 'without id' t", "id < 10", '{"id":null}')


def test_checks_see_nested_fields_and_every_type_of_value(spark: SparkSession, tmp_path: Path) -> None:
    kind = json.loads(spark.sql("select struct(1 as x, map(1, array(now())) as m) s").schema.json())["fields"][0]
    path = table_log(
        tmp_path / "t", [column("s", kind["type"])], {"delta.constraints.c": "s.x > 0 and size(s.m) < 2"}, []
    )
    save(spark.sql("select struct(1 as x, map(1, array(now())) as m) s"), path)
    _refused(spark, path, "select struct(0 as x, map(1, array(now())) as m) s", "s.x > 0", '"x":0')


@pytest.mark.parametrize(
    ("kind", "bad", "good", "named"),
    [
        (column("v", "string", nullable=False), "null", "'x'", "column v"),
        (
            column("v", {"type": "struct", "fields": [column("a", "integer", nullable=False), TEXT]}),
            "named_struct('a', null, 't', 'x')",
            "cast(null as struct<a: int, t: string>)",
            "column v.a",
        ),
        (
            column("v", {"type": "array", "elementType": "integer", "containsNull": False}),
            "array(1, null)",
            "cast(null as array<int>)",
            "v.element",
        ),
        (
            column("v", {"type": "map", "keyType": "string", "valueType": "integer", "valueContainsNull": False}),
            "map('k', cast(null as int))",
            "map('k', 1)",
            "v.value",
        ),
        (
            column(
                "v",
                {
                    "type": "array",
                    "containsNull": True,
                    "elementType": {"type": "struct", "fields": [column("a", "integer", nullable=False)]},
                },
            ),
            "array(null, named_struct('a', cast(null as int)))",
            "array(null, named_struct('a', 1))",
            "v.element.a",
        ),
    ],
    ids=["top", "struct", "element", "value", "struct in array"],
)
def test_null_where_null_must_not_be_fails_the_write(
    spark: SparkSession, tmp_path: Path, kind: dict[str, Any], bad: str, good: str, named: str
) -> None:
    path = table_log(tmp_path / "t", [LONG, kind])
    save(spark.sql(f"select 1L id, {good} v"), path)
    _refused(spark, path, f"select 2L id, {bad} v", "NOT NULL", named, '"v":')
    _refused(spark, path, f"values (1L, {good}), (3L, {bad}) as (id, v)", "NOT NULL", named)
    assert rows(read(spark, path).select("id")) == [(1,)]


def test_a_column_that_must_not_be_null_must_not_be_missing(spark: SparkSession, tmp_path: Path) -> None:
    path = table_log(tmp_path / "t", [LONG, column("v", "string", nullable=False)])
    _refused(spark, path, "select 1L id", "NOT NULL", "column v")


def test_invariants_hold_for_columns_and_nested_ones(spark: SparkSession, tmp_path: Path) -> None:
    positive = json.dumps({"expression": {"expression": "id > 0"}})
    nested = json.dumps({"expression": {"expression": "s.a <> 'bad'"}})
    inner = {"type": "struct", "fields": [column("a", "string", delta_invariants=nested)]}
    fields = [column("id", "long", delta_invariants=positive), column("s", inner)]
    path = table_log(tmp_path / "t", fields, features=["invariants"])
    save(spark.sql("select 1L id, struct('x' as a) s"), path)
    _refused(spark, path, "select 0L id, struct('x' as a) s", "invariant of column id", "id > 0", '{"id":0}')
    _refused(spark, path, "select 1L id, struct('bad' as a) s", "s.a", '"a":"bad"')


def test_a_generated_column_is_computed_where_it_is_missing_and_checked_where_it_is_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    fields = [
        column("ts", "timestamp"),
        column("day", "date", delta_generationExpression="CAST(ts AS DATE)"),
        column("twice", "integer", delta_generationExpression="n * 2"),
        column("n", "integer"),
    ]
    path = table_log(tmp_path / "t", fields, features=["generatedColumns"], partition_by=["day"])
    first = collected(dt.datetime(2024, 5, 6, 7))
    save(spark.sql("select timestamp'2024-05-06 07:00:00' ts, 4S n"), path)
    save(spark.sql("select cast(null as timestamp) ts, cast(null as date) day, null twice, null n"), path)
    save(spark.sql("select 3 N, timestamp'2024-05-06 07:00:00' TS, date'2024-05-06' DAY, 6S as Twice"), path)
    assert rows(read(spark, path)) == [
        (None, None, None, None),
        (first, first.date(), 6, 3),
        (first, first.date(), 8, 4),
    ]
    _refused(spark, path, "select 3 n, 7 twice, now() ts", "generated column twice", "n * 2", '"twice":7', '"n":3')
    _refused(spark, path, "select 3 n, cast(null as int) twice, now() ts", "twice", '"twice":null')
    _refused(spark, path, "select cast(null as int) n, 0 twice, now() ts", "twice", '"n":null')


def test_defaults_fill_columns_that_are_missing_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    fields = [LONG, column("v", "string"), column("n", "decimal(9,2)")]
    for field, sql in zip(fields[1:], ("'std'", "1 + 1"), strict=True):
        field["metadata"]["CURRENT_DEFAULT"] = sql
    path = table_log(tmp_path / "t", fields, features=["allowColumnDefaults"])
    plain = table_log(tmp_path / "plain", fields)
    for place in (path, plain):
        save(spark.sql("select 1L id"), place)
        save(spark.sql("select 2L id, cast(null as string) v"), place)
    assert [(r[0], r[1], r[2] and int(r[2])) for r in rows(read(spark, path))] == [(1, "std", 2), (2, None, 2)]
    assert rows(read(spark, plain)) == [(1, None, None), (2, None, None)]


def test_rules_hold_under_column_mapping_and_for_every_mode(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    options = {"delta.columnMapping.mode": "name", "delta.constraints.c": "`a b` > 0"}
    data = "select {0} as `a b`, 'p' as p"
    writer = spark.sql(data.format(1)).write.format("delta").options(**options).partitionBy("p")
    writer.save(str(path))
    for mode, more in (
        ("append", {}),
        ("overwrite", {}),
        ("overwrite", {"replaceWhere": "p = 'p'"}),
        ("overwrite", {"partitionOverwriteMode": "dynamic"}),
        ("append", {"mergeSchema": "true"}),
    ):
        _refused(spark, path, data.format(0), "`a b` > 0", '"a b":0', mode=mode, **more)
    assert rows(read(spark, path)) == [(1, "p")]


def test_the_first_rows_of_a_table_obey_its_rules_too(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(errors.InvariantViolationException, match="id > 5"):
        save(spark.range(3), tmp_path / "t", **{"delta.constraints.c": "id > 5"})
    assert listing(tmp_path) == []


@pytest.mark.parametrize(
    ("sql", "raised"),
    [
        ("nowhere > 1", errors.InvalidArgument),
        ("id +", errors.InvalidArgument),
        ("id + 1", errors.InvalidArgument),
        ("count(id) > 1", errors.UnsupportedFeature),
    ],
)
def test_a_rule_that_spark_cannot_evaluate_lets_no_row_in(
    spark: SparkSession, tmp_path: Path, sql: str, raised: type[errors.SlackwaterError]
) -> None:
    path = table_log(tmp_path / "t", [LONG], {"delta.constraints.c": sql}, ["checkConstraints"])
    before = listing(path)
    with pytest.raises(raised, match="constraint"):
        save(spark.range(1), path)
    assert listing(path) == before


def test_columns_that_a_rule_reads_keep_their_type(spark: SparkSession, tmp_path: Path) -> None:
    fields = [column("a", "byte"), column("b", "byte"), column("c", "byte", delta_generationExpression="b + 1Y")]
    path = table_log(
        tmp_path / "t", fields, {"delta.constraints.c": "a < 100"}, ["checkConstraints", "generatedColumns"]
    )
    before = listing(path)
    for data in ("select 1 a, 1Y b", "select 1Y a, 1 b", "select 1Y a, 1Y b, 2 c"):
        with pytest.raises(errors.InvalidArgument, match="type cannot change"):
            save(spark.sql(data), path, mergeSchema="true")
    assert listing(path) == before


def test_checked_rows_are_written_once_each(spark: SparkSession, tmp_path: Path) -> None:
    path = table_log(tmp_path / "t", [LONG, TEXT], {"delta.constraints.c": "id >= 0 or t is not null"}, [])
    save(spark.range(0, 1000, 1, 4).selectExpr("id", "string(id) t"), path)
    assert sum(json.loads(a["stats"])["numRecords"] for a in actions(path, 1, "add")) == 1000
    assert read(spark, path).selectExpr("count(distinct id) n", "count(t) m").collect()[0] == (1000, 1000)


@pytest.mark.parametrize(
    "data",
    [
        "select id from range(10) group by id having count(*) > 1 or id < 5",
        "select a.id from range(5) b left join (select id, id % 3 as k from range(10)) a on a.id = b.id where k >= 0",
        "select id from (select id, row_number() over (order by id) as n from range(10)) where n <= 5",
    ],
)
def test_rows_that_the_users_plan_leaves_out_break_no_rule(spark: SparkSession, tmp_path: Path, data: str) -> None:
    path = table_log(tmp_path / "t", [LONG], {"delta.constraints.small": "id < 5"}, ["checkConstraints"])
    save(spark.sql(data), path)
    assert rows(read(spark, path)) == [(i,) for i in range(5)]


@pytest.mark.parametrize("where", ["check", "generated", "default"])
def test_sql_that_reaches_out_of_the_row_is_refused_before_anything_runs(
    spark: SparkSession, tmp_path: Path, where: str
) -> None:
    witness = tmp_path / "witness"
    call = f"java_method('java.io.File', 'createTempFile', 'ran', 'x') = '{witness}' or reflect('java.lang.Math', 'e')"
    given = {
        "check": ({"delta.constraints.c": call}, TEXT),
        "generated": (
            {},
            column("t", "string", nullable=True, **{"delta.generationExpression": f"cast({call} as string)"}),
        ),
        "default": ({}, {**TEXT, "metadata": {"CURRENT_DEFAULT": f"cast({call} as string)"}}),
    }
    configuration, text = given[where]
    features = ["checkConstraints", "generatedColumns", "allowColumnDefaults"]
    path = table_log(tmp_path / "t", [LONG, text], configuration, features)
    before = listing(path)
    with pytest.raises(errors.UnsupportedFeature, match="the function java_method is not one of"):
        save(spark.range(1), path)
    assert listing(path) == before


@pytest.mark.parametrize("text", ["'x'", "reflect('java.lang.Math', 'random')"])
def test_rows_of_files_without_a_column_are_null_whatever_default_they_are_said_to_have(
    spark: SparkSession, tmp_path: Path, text: str
) -> None:
    path = table_log(tmp_path / "t", [LONG])
    save(spark.range(1), path)
    metadata = json.loads((path / "_delta_log" / f"{0:020d}.json").read_text().splitlines()[1])
    fields = [LONG, {**TEXT, "metadata": {"CURRENT_DEFAULT": text, "EXISTS_DEFAULT": text}}]
    metadata["metaData"]["schemaString"] = json.dumps({"type": "struct", "fields": fields})
    (path / "_delta_log" / f"{2:020d}.json").write_text(json.dumps(metadata) + "\n")
    assert rows(read(spark, path)) == [(0, None)]
