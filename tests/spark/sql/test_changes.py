"""INSERT, UPDATE, DELETE, MERGE and TRUNCATE by SQL, beside what the DataFrame API does to the same rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

import slackwater
from slackwater.errors import (
    DeltaConcurrentModificationException,
    InvalidArgument,
    InvariantViolationException,
    UnsupportedFeature,
)
from slackwater.spark.dml.dml_command import DmlCommand
from slackwater.spark.dml.matching_rows import Condition
from slackwater.spark.dml.update import _Update
from slackwater.spark.progress.progress import Progress

pytestmark = [pytest.mark.spark]

Rows = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture(params=["false", "true"], ids=["rewritten", "vectors"])
def table(request: pytest.FixtureRequest, spark: SparkSession, db: str) -> str:
    """`t` with (0, 'a') to (5, 'f'), in two files, and the plain view `news` of ids 4 to 7."""
    spark.sql(
        f"CREATE TABLE t (id INT, v STRING) USING delta "
        f"TBLPROPERTIES ('delta.enableDeletionVectors' = '{request.param}')"
    )
    spark.sql("INSERT INTO t VALUES (0, 'a'), (1, 'b'), (2, 'c')")
    spark.sql("INSERT INTO t VALUES (3, 'd'), (4, 'e'), (5, 'f')")
    spark.sql("CREATE OR REPLACE TEMP VIEW news AS SELECT CAST(id AS INT) AS id, concat('n', id) AS v FROM range(4, 8)")
    return "t"


def ids(rows: Rows) -> list[int]:
    return [row[0] for row in rows("SELECT id FROM t")]


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("id = 1", [0, 2, 3, 4, 5]),
        ("id IN (SELECT id FROM news)", [0, 1, 2, 3]),
        ("id NOT IN (SELECT id FROM news)", [4, 5]),
        ("EXISTS (SELECT 1 FROM news n WHERE n.id = t.id + 2)", [0, 1]),
        ("NOT EXISTS (SELECT * FROM news n WHERE n.id = t.id)", [4, 5]),
        ("id > (SELECT min(id) FROM news)", [0, 1, 2, 3, 4]),
        ("id IN (SELECT max(id) FROM t) OR v = 'a'", [1, 2, 3, 4]),
        ("id IN (SELECT id FROM t VERSION AS OF 1) AND v <> 'b'", [1, 3, 4, 5]),
        ("(id, v) IN (SELECT id, 'e' FROM news)", [0, 1, 2, 3, 5]),
        ("id IN (WITH w AS (SELECT 3 AS x) SELECT x FROM w)", [0, 1, 2, 4, 5]),
    ],
)
def test_delete_with_and_without_sub_queries(
    spark: SparkSession, rows: Rows, table: str, condition: str, left: list[int]
) -> None:
    answer = spark.sql(f"DELETE FROM t WHERE {condition}").collect()
    assert [tuple(row) for row in answer] == [(6 - len(left),)]
    assert ids(rows) == left


def test_delete_takes_an_alias_and_parameters(spark: SparkSession, rows: Rows, table: str) -> None:
    spark.sql("DELETE FROM t AS x WHERE x.id = :id OR x.v = :v", {"id": 1, "v": "c'"})
    spark.sql("DELETE FROM t x WHERE x.id = ?", [2])
    spark.sql("DELETE FROM t WHERE id IN (SELECT id FROM {gone})", gone=spark.range(1))
    assert ids(rows) == [3, 4, 5]
    spark.sql("DELETE FROM t;")
    assert ids(rows) == []


def test_methods_of_tables_take_sub_queries_too(spark: SparkSession, rows: Rows, table: str) -> None:
    found = slackwater.DeltaTable.forName(spark, "t").alias("x")
    found.delete("id IN (SELECT id FROM news WHERE news.id = x.id)")
    found.update("EXISTS (SELECT 1 FROM news WHERE news.id = x.id + 3)", {"v": "'moved'"})
    assert rows("SELECT * FROM t") == [(0, "a"), (1, "moved"), (2, "moved"), (3, "moved")]


@pytest.mark.parametrize("condition", ["id IN (SELECT nope FROM news)", "id IN (SELECT id FROM nowhere)"])
def test_a_sub_query_that_is_none_changes_nothing(spark: SparkSession, rows: Rows, table: str, condition: str) -> None:
    with pytest.raises(InvalidArgument, match="condition of DELETE"):
        spark.sql(f"DELETE FROM t WHERE {condition}")
    assert ids(rows) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("UPDATE t SET v = upper(v), id = id + 10 WHERE id = 1", [(11, "B")]),
        ("UPDATE t AS x SET x.v = concat(x.v, x.id) WHERE x.id IN (SELECT id FROM news)", [(4, "e4"), (5, "f5")]),
        ("UPDATE t SET v = CASE WHEN id = 0 THEN 'where' ELSE 'set' END WHERE id < 2", [(0, "where"), (1, "set")]),
        (
            "UPDATE t SET v = concat(v, (SELECT max(id) FROM t), (SELECT '''' || min(v) FROM news)) WHERE id < 2",
            [(0, "a5'n4"), (1, "b5'n4")],
        ),
        ("UPDATE t SET v = (SELECT v FROM news WHERE id < 0) WHERE id = (SELECT min(id) FROM t)", [(0, None)]),
    ],
)
def test_update(spark: SparkSession, rows: Rows, table: str, text: str, expected: list[Any]) -> None:
    before = rows("SELECT * FROM t")
    answer = spark.sql(text).collect()
    assert [tuple(row) for row in answer] == [(len(expected),)]
    after = rows("SELECT * FROM t")
    assert set(expected) <= set(after)
    assert len(set(after) - set(before)) == len(expected)


@pytest.mark.parametrize(
    "value",
    [
        "TIMESTAMP '2026-10-25 02:30:00.123456'",
        "timestamp_micros(-1)",
        "TIMESTAMP_NTZ '2026-10-25 02:30:00.123456'",
        "DATE '0001-01-01'",
        "X'00FF27'",
        "concat('it''s ', chr(0), ' \\\\ ü')",
        "CAST('NaN' AS DOUBLE)",
        "CAST(1.1 AS DOUBLE) * 3",
        "CAST('-Infinity' AS FLOAT)",
        "CAST(12345678901234567890.12345 AS DECIMAL(38,5))",
        "true",
        "-128Y",
        "NULL",
    ],
)
def test_what_a_sub_query_gives_is_set_as_it_is(spark: SparkSession, rows: Rows, db: str, value: str) -> None:
    kind = "int" if value == "NULL" else spark.sql(f"SELECT {value} AS v").schema["v"].dataType.simpleString()
    spark.sql(f"CREATE TABLE one (id INT, v {kind}) USING delta")
    spark.sql("INSERT INTO one VALUES (1, NULL)")
    spark.sql(f"UPDATE one SET v = (SELECT {value})")
    spark.sql(
        f"MERGE INTO one USING (SELECT 2 AS id) s ON one.id = s.id "
        f"WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, (SELECT {value}))"
    )
    assert rows(f"SELECT count(*) FROM one WHERE v <=> CAST({value} AS {kind})") == [(2,)]


def test_sub_queries_in_the_values_of_a_merge(spark: SparkSession, rows: Rows, table: str) -> None:
    spark.sql(
        """MERGE INTO t USING (SELECT id FROM news WHERE id < 7) s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET v = (SELECT max(v) FROM t)
        WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, (SELECT min(v) FROM news))"""
    )
    assert rows("SELECT * FROM t WHERE id > 3") == [(4, "f"), (5, "f"), (6, "n4")]


def test_an_update_that_asks_for_other_rows_is_not_moved_behind_changes_of_them(
    spark: SparkSession, rows: Rows, table: str
) -> None:
    found = slackwater.DeltaTable.forName(spark, "t")
    change = DmlCommand(spark, found._table, "UPDATE", None)
    update = _Update(change, Condition.of(change, "id = 0"), {"v": "(SELECT max(v) FROM news)"})
    spark.sql("UPDATE t SET v = 'x' WHERE id = 5")
    with pytest.raises(DeltaConcurrentModificationException):
        change.run_counted(lambda: update.run(Progress.of(spark, "UPDATE")))


def test_merge_in_all_its_clauses(spark: SparkSession, rows: Rows, table: str) -> None:
    answer = spark.sql(
        """MERGE INTO t AS target USING (SELECT id, v FROM news WHERE id < 7) s ON target.id = s.id
        WHEN MATCHED AND s.id = 5 THEN DELETE
        WHEN MATCHED THEN UPDATE SET target.v = concat(target.v, s.v)
        WHEN NOT MATCHED AND s.id > 5 THEN INSERT (id, v) VALUES (s.id, CASE WHEN s.id = 6 THEN 'six' END)
        WHEN NOT MATCHED BY SOURCE AND target.id = 0 THEN UPDATE SET v = 'left'
        WHEN NOT MATCHED BY SOURCE AND target.id = 1 THEN DELETE;"""
    )
    assert [tuple(row) for row in answer.collect()] == [(5, 2, 2, 1)]
    assert answer.columns == ["num_affected_rows", "num_updated_rows", "num_deleted_rows", "num_inserted_rows"]
    assert rows("SELECT * FROM t") == [(0, "left"), (2, "c"), (3, "d"), (4, "en4"), (6, "six")]


def test_merge_by_stars_from_a_delta_table(spark: SparkSession, rows: Rows, table: str) -> None:
    spark.sql("CREATE TABLE s USING delta AS SELECT * FROM news WHERE id IN (5, 6)")
    text = "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    spark.sql(text)
    assert rows("SELECT * FROM t WHERE id > 4") == [(5, "n5"), (6, "n6")]
    spark.sql("MERGE INTO t USING s VERSION AS OF 0 AS o ON t.id = o.id WHEN MATCHED THEN DELETE")
    assert ids(rows) == [0, 1, 2, 3, 4]


def test_merge_lets_the_schema_grow(spark: SparkSession, rows: Rows, table: str) -> None:
    spark.sql(
        "MERGE WITH SCHEMA EVOLUTION INTO t USING (SELECT 9 AS id, 'z' AS v, 1.5D AS more) s ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows("SELECT * FROM t WHERE id = 9") == [(9, "z", 1.5)]


def test_insert_in_all_its_forms(spark: SparkSession, rows: Rows, table: str) -> None:
    spark.sql("TRUNCATE TABLE t")
    spark.sql("INSERT INTO t VALUES (1, 'a'), (2, DEFAULT)")
    spark.sql("INSERT INTO TABLE t (v, id) SELECT 'b', 3")
    spark.sql("INSERT INTO t BY NAME SELECT 'c' AS v, 4 AS id")
    spark.sql("INSERT INTO t (id) VALUES (5)")
    spark.sql("WITH w AS (SELECT 6 AS x, 'd' AS y) INSERT INTO t SELECT * FROM w")
    spark.sql("INSERT INTO t SELECT id + 10, v FROM t WHERE id = 1")
    spark.sql("INSERT INTO t TABLE news")
    spark.sql("INSERT INTO t VALUES (:id, :v)", {"id": 12, "v": "it's"})
    expected = [(1, "a"), (11, "a"), (12, "it's"), (2, None), (3, "b"), (4, "c"), (4, "n4"), (5, "n5"), (5, None)]
    assert rows("SELECT * FROM t") == sorted([*expected, (6, "d"), (6, "n6"), (7, "n7")], key=str)
    spark.sql("INSERT INTO t REPLACE WHERE id > 3 SELECT 99, 'new'")
    assert ids(rows) == sorted([1, 2, 3, 99], key=str)
    spark.sql("INSERT OVERWRITE t SELECT 0, 'zero'")
    assert rows("SELECT * FROM t") == [(0, "zero")]
    spark.sql("INSERT WITH SCHEMA EVOLUTION INTO t BY NAME SELECT 1 AS id, 'x' AS v, true AS more")
    assert rows("SELECT * FROM t") == [(0, "zero", None), (1, "x", True)]


def test_partitions_are_named_in_an_insert(spark: SparkSession, rows: Rows, db: str) -> None:
    spark.sql("CREATE TABLE p (id INT, day STRING, hour INT) USING delta PARTITIONED BY (day, hour)")
    spark.sql("INSERT INTO p PARTITION (day = 'mon', hour) SELECT 1, 7")
    spark.sql("INSERT INTO p PARTITION (day = 'tue', hour = 8) VALUES (2)")
    assert rows("SELECT * FROM p") == [(1, "mon", 7), (2, "tue", 8)]
    spark.sql("INSERT OVERWRITE p PARTITION (day = 'tue', hour = 8) VALUES (3)")
    assert rows("SELECT * FROM p") == [(1, "mon", 7), (3, "tue", 8)]
    with pytest.raises(InvalidArgument, match="not a partition column"):
        spark.sql("INSERT INTO p PARTITION (id = 1) VALUES (2)")


def test_values_of_an_insert_are_for_the_columns_in_the_order_of_the_table(
    spark: SparkSession, rows: Rows, db: str
) -> None:
    spark.sql("CREATE TABLE p (a INT, day INT, hour INT, v INT) USING delta PARTITIONED BY (day, hour)")
    spark.sql("INSERT INTO p PARTITION (hour, day) VALUES (1, 2, 3, 4)")
    spark.sql("INSERT INTO p PARTITION (hour = 30, day) VALUES (10, 20, 40)")
    assert rows("SELECT a, day, hour, v FROM p") == [(1, 2, 3, 4), (10, 20, 30, 40)]


def test_parts_of_structs_go_by_position_where_columns_do(spark: SparkSession, rows: Rows, db: str) -> None:
    spark.sql(
        "CREATE TABLE n (id INT, s STRUCT<x: INT, y: INT>, l ARRAY<STRUCT<x: INT, y: INT>>, "
        "m MAP<INT, STRUCT<x: INT, y: STRUCT<u: INT, v: INT>>>) USING delta"
    )
    one, other = "named_struct('y', 1, 'x', 2)", "named_struct('y', 1, 'x', named_struct('v', 2, 'u', 3))"
    spark.sql(f"INSERT INTO n SELECT 1, {one}, array({one}), map(0, {other})")
    spark.sql(f"INSERT INTO n (m, l, s, id) SELECT map(0, {other}), array({one}), {one}, 2")
    spark.sql("INSERT INTO n VALUES (3, struct(1L, '2'), array(struct(1, 2)), map(0, struct(1, struct(2, 3))))")
    spark.sql(f"SELECT 4, {one}, array({one}), map(0, {other})").write.insertInto("n")
    spark.sql(f"INSERT INTO n REPLACE WHERE id = 5 SELECT 5, {one}, array({one}), map(0, {other})")
    assert rows("SELECT s, l[0], m[0].x, m[0].y, count(*) FROM n GROUP BY ALL") == [((1, 2), (1, 2), 1, (2, 3), 5)]
    spark.sql(f"INSERT OVERWRITE n BY NAME SELECT {one} AS s, 6 AS id")
    assert rows("SELECT id, s.x, s.y FROM n") == [(6, 2, 1)]


def test_an_overwrite_of_some_partitions_keeps_the_others_where_the_session_says_so(
    spark: SparkSession, rows: Rows, db: str, conf: Callable[[str, str], None]
) -> None:
    conf("spark.sql.sources.partitionOverwriteMode", "dynamic")
    spark.sql("CREATE TABLE p (day INT, hour INT, v INT) USING delta PARTITIONED BY (day, hour)")
    for text in ("PARTITION (day = 1, hour) VALUES (1, 10)", "PARTITION (day = 1) VALUES (1, 11)"):
        spark.sql("INSERT INTO p VALUES (1, 1, 0), (1, 2, 0), (2, 1, 0)")
        spark.sql(f"INSERT OVERWRITE p {text}")
        assert rows("SELECT * FROM p") == [(1, 1, int(text[-3:-1])), (1, 2, 0), (2, 1, 0)]
        spark.sql("TRUNCATE TABLE p")
    spark.sql("INSERT INTO p VALUES (1, 1, 0), (1, 2, 0)")
    # All of the partition is said: it is empty then.
    spark.sql("INSERT OVERWRITE p PARTITION (day = 1, hour = 1) SELECT 0 WHERE false")
    assert rows("SELECT * FROM p") == [(1, 2, 0)]
    conf("spark.sql.sources.partitionOverwriteMode", "static")
    spark.sql("INSERT OVERWRITE p PARTITION (day = 1, hour) VALUES (3, 0)")
    assert rows("SELECT * FROM p") == [(1, 3, 0)]


def test_defaults_generated_and_identity_columns(spark: SparkSession, rows: Rows, db: str) -> None:
    spark.sql(
        "CREATE TABLE g (k BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 10 INCREMENT BY 10), ts DATE, "
        "y INT GENERATED ALWAYS AS (year(ts)), v STRING DEFAULT 'none') USING delta"
    )
    spark.sql("INSERT INTO g (ts) VALUES (DATE'2026-01-01')")
    spark.sql("INSERT INTO g (ts, v) VALUES (DATE'2025-01-01', DEFAULT)")
    spark.sql("INSERT INTO g VALUES (DATE'2024-01-01', 'x')")
    found = rows("SELECT y, v FROM g")
    assert found == [(2024, "x"), (2025, "none"), (2026, "none")]
    assert sorted({row[0] % 10 for row in rows("SELECT k FROM g")}) == [0]


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("INSERT INTO t VALUES (1)", InvalidArgument, "1 columns"),
        ("INSERT INTO t (id, nope) VALUES (1, 2)", InvalidArgument, "nope"),
        ("INSERT INTO t REPLACE USING (id) SELECT 1, 'a'", UnsupportedFeature, "REPLACE USING"),
        (
            "FROM range(1) INSERT INTO t SELECT id, 'a' INSERT INTO t SELECT id, 'b'",
            UnsupportedFeature,
            "for each table",
        ),
        ("UPDATE t SET nope = 1", InvalidArgument, "nope"),
        ("UPDATE t SET id", InvalidArgument, "line 1, column"),
        ("DELETE FROM t WHERE", InvalidArgument, "a condition"),
        ("MERGE INTO t USING news ON t.id = news.id", InvalidArgument, "WHEN"),
        ("MERGE INTO t USING news ON t.id = news.id WHEN MATCHED THEN INSERT *", InvalidArgument, "UPDATE or DELETE"),
        ("DELETE FROM t WHERE id = :x", InvalidArgument, "no value"),
    ],
)
def test_mistakes_are_named_and_change_nothing(
    spark: SparkSession, rows: Rows, table: str, text: str, error: type[Exception], says: str
) -> None:
    before = rows("SELECT * FROM t")
    with pytest.raises(error, match=says):
        spark.sql(text, {"y": 1}) if ":x" in text else spark.sql(text)
    assert rows("SELECT * FROM t") == before


def test_values_are_assigned_as_the_session_says(
    spark: SparkSession, rows: Rows, table: str, conf: Callable[[str, str], None]
) -> None:
    conf("spark.sql.storeAssignmentPolicy", "ANSI")
    with pytest.raises(Exception, match=r"(?i)cast|assign|type"):
        spark.sql("INSERT INTO t VALUES ('no number', 'x')")
    spark.sql("INSERT INTO t VALUES (CAST(7 AS BIGINT), 'seven')")
    assert ids(rows) == [0, 1, 2, 3, 4, 5, 7]


def test_a_rule_holds_for_statements(spark: SparkSession, rows: Rows, db: str) -> None:
    spark.sql("CREATE TABLE n (id INT NOT NULL) USING delta")
    with pytest.raises(InvariantViolationException):
        spark.sql("INSERT INTO n VALUES (NULL)")
    assert rows("SELECT * FROM n") == []


@pytest.mark.parametrize(
    ("statement", "left"),
    [
        ("DELETE FROM t WHERE id IN (SELECT k FROM c)", [(1, "a"), (3, "c")]),
        (
            "UPDATE t SET v = (SELECT max(w) FROM c) WHERE EXISTS (SELECT 1 FROM c WHERE k = t.id)",
            [(1, "a"), (2, "z"), (3, "c")],
        ),
        ("MERGE INTO t USING c ON t.id = c.k WHEN MATCHED THEN UPDATE SET v = c.w", [(1, "a"), (2, "z"), (3, "c")]),
        ("MERGE INTO t USING c s ON t.id = s.k WHEN NOT MATCHED BY SOURCE THEN DELETE", [(2, "b")]),
    ],
)
def test_common_tables_before_a_change_are_known_in_it(
    spark: SparkSession, db: str, statement: str, left: list[tuple[int, str]]
) -> None:
    spark.sql("CREATE TABLE t (id INT, v STRING) USING delta")
    spark.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    # A common table goes before a table of its name.
    spark.sql("CREATE TABLE c (k INT, w STRING) USING delta")
    spark.sql("INSERT INTO c VALUES (1, 'y')")
    spark.sql(f"WITH c AS (SELECT id AS k, 'z' AS w FROM t WHERE id = :k) {statement}", args={"k": 2})
    assert sorted(tuple(row) for row in spark.table("t").collect()) == left


@pytest.mark.modes
def test_columns_with_the_name_of_the_database(spark: SparkSession, rows: Rows, db: str, lake: slackwater.Lake) -> None:
    """As delta-spark and plain Spark have them; with an alias, only the alias names the table."""
    whole = f"spark_catalog.{db}"
    spark.sql("CREATE TABLE t USING delta AS SELECT id, id * 10 AS v FROM range(6)")
    spark.sql("CREATE TABLE src USING delta AS SELECT 3L AS id")
    spark.sql("CREATE TABLE plain USING parquet AS SELECT 4L AS id")
    spark.sql(f"DELETE FROM {db}.t WHERE {db}.t.id = 0 AND {whole}.t.v = 0")
    spark.sql(f"UPDATE t SET {db}.t.v = {db}.t.id, t.id = t.id WHERE {db}.T.id IN (SELECT max({db}.t.id) FROM {db}.t)")
    spark.sql(
        f"MERGE INTO {whole}.t USING {db}.src ON {whole}.t.id = {db}.src.id "
        f"WHEN MATCHED AND {db}.t.v > 0 THEN UPDATE SET {db}.t.v = {db}.src.id + 1"
    )
    spark.sql(f"MERGE INTO t x USING {db}.plain ON x.id = {db}.plain.id WHEN MATCHED THEN DELETE")
    assert rows("SELECT * FROM t") == [(1, 10), (2, 20), (3, 4), (5, 5)]
    for statement in (f"DELETE FROM {db}.t x WHERE {db}.t.id = 1", f"DELETE FROM {db}.t WHERE {db}.src.id = 1"):
        with pytest.raises(InvalidArgument, match="cannot be resolved"):
            spark.sql(statement)
    spark.sql("INSERT INTO lake.orders VALUES (1, 'a'), (2, 'b')")
    assert rows("DELETE FROM lake.orders WHERE lake.orders.id = 1") == [(1,)]
    assert rows("SELECT id FROM lake.orders") == [(2,)]
