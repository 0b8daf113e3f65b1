"""Statements that change rows, as they went wrong in other engines: which rows, which columns, which fields."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession

from slackwater.errors import InvalidArgument, InvariantViolationException, MergeCardinalityViolation

pytestmark = [pytest.mark.spark, pytest.mark.shared, pytest.mark.usefixtures("db")]

Rows = Callable[..., list[tuple[Any, ...]]]

MATCH = "MERGE WITH SCHEMA EVOLUTION INTO t USING s ON t.key = s.key"
UPDATE_ALL = f"{MATCH} WHEN MATCHED THEN UPDATE SET *"
INSERT_ALL = f"{MATCH} WHEN NOT MATCHED THEN INSERT *"
SHOWN = "SELECT key, to_json(col, map('ignoreNullFields', 'false')) FROM t"


def shown(**fields: Any) -> str:
    """A struct as SHOWN has it."""
    return json.dumps(fields, separators=(",", ":"))


def table(spark: SparkSession, columns: str, content: Sequence[tuple[Any, ...]], properties: str = "") -> None:
    spark.sql(f"CREATE OR REPLACE TABLE t ({columns}) USING delta {properties}")
    if content:
        spark.createDataFrame(list(content), columns).coalesce(1).writeTo("t").append()


def source(spark: SparkSession, columns: str, content: Sequence[tuple[Any, ...]]) -> None:
    spark.createDataFrame(list(content), columns).createOrReplaceTempView("s")


@pytest.mark.parametrize("content", ["VALUES (1, 100)", "VALUES (1, 100) WHERE false"], ids=["rows", "empty"])
@pytest.mark.parametrize("condition", ["t.pt = 'p1'", "t.a < 3"])
@pytest.mark.long
def test_rows_outside_a_condition_on_the_target_are_not_matched_by_source(
    spark: SparkSession, rows: Rows, vectors: str, condition: str, content: str
) -> None:
    by = "PARTITIONED BY (pt)" if "pt" in condition else ""
    columns = "a INT, b INT, c STRING, pt STRING"
    properties = f"TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}')"
    spark.sql(f"CREATE TABLE t ({columns}) USING delta {by} {properties}")
    found = [(1, 10, "c1", "p1"), (2, 20, "c2", "p1"), (3, 30, "c3", "p2"), (4, 40, "c4", "p2")]
    spark.createDataFrame(found, columns).repartitionByRange(4, "a").writeTo("t").append()
    values, _, where = content.partition(" WHERE")
    using = f"(SELECT * FROM {values} AS v(a, b){f' WHERE{where}' if where else ''}) AS s"
    merge = f"MERGE INTO t USING {using} ON t.a = s.a AND {condition} WHEN MATCHED THEN UPDATE SET b = s.b"
    spark.sql(f"{merge} WHEN NOT MATCHED BY SOURCE THEN UPDATE SET c = 'stale'")
    first = (1, 10, "stale", "p1") if where else (1, 100, "c1", "p1")
    assert rows("SELECT * FROM t") == [first, *((a, b, "stale", pt) for a, b, _, pt in found[1:])]
    spark.sql(f"{merge} WHEN NOT MATCHED BY SOURCE AND t.pt = 'p2' THEN DELETE")
    assert rows("SELECT a FROM t") == [(1,), (2,)]


STRUCTS = "key INT, col STRUCT<y INT, z INT>"
GIVEN = "key INT, col STRUCT<x INT, y INT>"

EVOLVED: dict[str, tuple[str, list[Any], list[Any], list[Any]]] = {
    "both null": (UPDATE_ALL, [(1, None)], [(1, None)], [(1, None)]),
    "fields of the target alone stay": (UPDATE_ALL, [(1, (2, 5))], [(1, None)], [(1, shown(y=None, z=5, x=None))]),
    "null fields of the target alone stay": (
        UPDATE_ALL,
        [(1, (2, None))],
        [(1, None)],
        [(1, shown(y=None, z=None, x=None))],
    ),
    "by name": (UPDATE_ALL, [(1, (2, 5))], [(1, (1, 9))], [(1, shown(y=9, z=5, x=1))]),
    "whole column": (
        f"{MATCH} WHEN MATCHED THEN UPDATE SET t.col = s.col",
        [(1, (2, 5)), (2, (2, 5))],
        [(1, None), (2, (1, 9))],
        [(1, None), (2, shown(y=9, z=None, x=1))],
    ),
    "insert all": (INSERT_ALL, [], [(1, None), (2, (1, 9))], [(1, None), (2, shown(y=9, z=None, x=1))]),
    "insert columns": (
        f"{MATCH} WHEN NOT MATCHED THEN INSERT (key, col) VALUES (s.key, s.col)",
        [],
        [(1, None), (2, (1, 9))],
        [(1, None), (2, shown(y=9, z=None, x=1))],
    ),
}


@pytest.mark.parametrize("case", EVOLVED)
def test_structs_that_a_merge_evolves_keep_their_nulls(spark: SparkSession, rows: Rows, case: str) -> None:
    statement, target, given, expected = EVOLVED[case]
    table(spark, STRUCTS, target)
    source(spark, GIVEN, given)
    spark.sql(statement)
    assert rows(SHOWN) == expected


@pytest.mark.parametrize("evolves", ["WITH SCHEMA EVOLUTION ", ""], ids=["evolves", "fixed"])
def test_a_null_struct_stays_null_where_names_differ_in_case(spark: SparkSession, rows: Rows, evolves: str) -> None:
    table(spark, "key INT, col STRUCT<Y INT>", [(1, (2,))])
    source(spark, "key INT, col STRUCT<y INT>", [(1, None)])
    spark.sql(UPDATE_ALL.replace("WITH SCHEMA EVOLUTION ", evolves))
    assert rows(SHOWN) == [(1, None)]


def test_a_struct_that_one_of_two_clauses_adds_is_null_in_both_rows(spark: SparkSession, rows: Rows) -> None:
    table(spark, STRUCTS, [(0, (2, 5)), (1, (2, 5))])
    source(spark, f"{GIVEN}, extra STRUCT<v1 INT, v2 INT>", [(0, (1, 9), None), (1, (1, 9), None)])
    clauses = "MATCHED AND s.key = 0 THEN UPDATE SET t.col = s.col WHEN MATCHED AND s.key = 1 THEN UPDATE SET *"
    spark.sql(f"{MATCH} WHEN {clauses}")
    assert rows("SELECT key, extra FROM t") == [(0, None), (1, None)]
    assert rows(SHOWN) == [(0, shown(y=9, z=None, x=1)), (1, shown(y=9, z=5, x=1))]


@pytest.mark.parametrize("outer", ["ARRAY<STRUCT<{}>>", "MAP<STRING, STRUCT<{}>>"])
@pytest.mark.parametrize("clause", ["UPDATE SET *", "UPDATE SET t.col = s.col"])
def test_null_structs_inside_of_arrays_and_maps_stay_null(
    spark: SparkSession, rows: Rows, outer: str, clause: str
) -> None:
    def within(*structs: tuple[int | None, ...] | None) -> Any:
        return list(structs) if outer.startswith("ARRAY") else {str(at): s for at, s in enumerate(structs)}

    table(spark, f"key INT, col {outer.format('y INT, z INT')}", [(1, within((2, 5))), (2, within((2, 5)))])
    given = [(1, within(None, (1, 9))), (2, None), (3, within(None))]
    source(spark, f"key INT, col {outer.format('x INT, y INT')}", given)
    spark.sql(f"{MATCH} WHEN MATCHED THEN {clause} WHEN NOT MATCHED THEN INSERT *")
    assert rows("SELECT * FROM t") == [(1, within(None, (9, None, 1))), (2, None), (3, within(None))]


@pytest.mark.parametrize("outer", ["STRUCT<{}>", "ARRAY<STRUCT<{}>>", "MAP<STRING, STRUCT<{}>>"])
def test_a_null_struct_is_appended_as_null_while_it_is_cast_and_evolved(
    spark: SparkSession, rows: Rows, outer: str
) -> None:
    null = {"S": None, "A": [None], "M": {"k": None}}[outer[0]]
    table(spark, f"key INT, col {outer.format('y BIGINT, z INT')}", [])
    source(spark, f"key INT, col {outer.format('x INT, y INT')}", [(1, null)])
    spark.table("s").write.format("delta").mode("append").option("mergeSchema", "true").saveAsTable("t")
    assert rows("SELECT * FROM t") == [(1, null)]


@pytest.mark.parametrize("evolves", ["WITH SCHEMA EVOLUTION ", ""], ids=["evolves", "fixed"])
def test_the_not_null_rule_of_a_field_is_for_structs_that_are_not_null(
    spark: SparkSession, rows: Rows, vectors: str, evolves: str
) -> None:
    columns = "id INT, s STRUCT<a: INT NOT NULL, b: STRING>"
    spark.sql(f"CREATE TABLE t ({columns}) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}')")
    spark.sql("INSERT INTO t VALUES (1, named_struct('a', 1, 'b', 'x')), (2, NULL)")
    merge = f"MERGE {evolves}INTO t USING ({{}}) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"
    merge += " WHEN NOT MATCHED THEN INSERT *"
    extra = ", 'e' AS extra" if evolves else ""
    null = f"SELECT id, CAST(NULL AS STRUCT<a: INT, b: STRING>) AS s{extra} FROM VALUES (1), (2), (3) AS v(id)"
    spark.sql(merge.format(null))
    assert rows("SELECT id, s FROM t") == [(1, None), (2, None), (3, None)]
    for number in (1, 9):
        broken = f"SELECT {number} AS id, named_struct('a', CAST(NULL AS INT), 'b', 'q') AS s"
        with pytest.raises(InvariantViolationException, match=r"s\.a"):
            spark.sql(merge.format(broken))
    spark.sql("UPDATE t SET s = named_struct('a', 4, 'b', 'y')")
    spark.sql("UPDATE t SET s = NULL WHERE id < 3")
    assert rows("SELECT id, s.a FROM t") == [(1, None), (2, None), (3, 4)]


@pytest.mark.parametrize("outer", ["STRUCT<{}>", "ARRAY<STRUCT<{}>>", "MAP<STRING, STRUCT<{}>>"])
@pytest.mark.parametrize("mode", ["none", "name"])
def test_a_struct_evolves_by_the_insert_clause_alone(spark: SparkSession, rows: Rows, outer: str, mode: str) -> None:
    def within(struct: tuple[int | None, ...]) -> Any:
        return {"S": struct, "A": [struct], "M": {"k": struct}}[outer[0]]

    columns = f"key INT, value {outer.format('a INT')}, other INT"
    table(spark, columns, [(1, within((1,)), 7)], f"TBLPROPERTIES ('delta.columnMapping.mode' = '{mode}')")
    if mode == "name":
        spark.sql("ALTER TABLE t RENAME COLUMN other TO more")
    name = "more" if mode == "name" else "other"
    given = [(1, within((11, 12)), 8), (2, within((21, 22)), 9)]
    source(spark, f"key INT, value {outer.format('a INT, b INT')}, {name} INT", given)
    spark.sql(f"{MATCH} WHEN MATCHED THEN UPDATE SET key = 0 WHEN NOT MATCHED THEN INSERT *")
    assert rows("SELECT * FROM t") == [(0, within((1, None)), 7), (2, within((21, 22)), 9)]


def test_a_struct_without_evolution_must_have_all_fields(spark: SparkSession, rows: Rows) -> None:
    table(spark, STRUCTS, [(1, (2, 5))])
    source(spark, "key INT, col STRUCT<y INT>", [(1, (9,))])
    with pytest.raises(InvalidArgument, match="'z'"):
        spark.sql("MERGE INTO t USING s ON t.key = s.key WHEN MATCHED THEN UPDATE SET t.col = s.col")
    with pytest.raises(InvalidArgument, match="no other"):
        spark.sql(f"{MATCH} WHEN MATCHED THEN UPDATE SET t.col = named_struct('q', 1)")
    assert rows(SHOWN) == [(1, shown(y=2, z=5))]


def test_a_field_that_is_set_adds_no_column_of_its_name(spark: SparkSession, rows: Rows) -> None:
    table(spark, STRUCTS, [(1, (2, 5))])
    source(spark, "key INT, y INT", [(1, 9)])
    spark.sql(f"{MATCH} WHEN MATCHED THEN UPDATE SET t.col.y = s.y")
    assert spark.table("t").columns == ["key", "col"]
    assert rows(SHOWN) == [(1, shown(y=9, z=5))]


OWN_NAMES = (
    "path", "file", "filePath", "row_index", "position", "_metadata", "source", "target", "pair", "_row_id", "element",
)  # fmt: skip


@pytest.mark.long
def test_columns_may_be_called_as_the_engine_calls_its_own(spark: SparkSession, rows: Rows, vectors: str) -> None:
    columns = "id INT, " + ", ".join(f"`{name}` INT" for name in OWN_NAMES)
    width = len(OWN_NAMES)
    present = {i: [i, *(i * 100 + at for at in range(width))] for i in range(6)}
    properties = f"'delta.enableDeletionVectors' = '{vectors}', 'delta.enableChangeDataFeed' = 'true'"
    table(spark, columns, [tuple(row) for row in present.values()], f"TBLPROPERTIES ({properties})")
    spark.sql("DELETE FROM t WHERE path = 100")
    spark.sql("UPDATE t SET row_index = -1, `_metadata` = -2 WHERE position = 204")
    del present[1]
    present[2][4], present[2][6] = -1, -2
    given = {i: [i, *(i * 1000 + at for at in range(width))] for i in (0, 3, 9)}
    source(spark, columns, [tuple(row) for row in given.values()])
    spark.sql(
        "MERGE INTO t USING s ON t.id = s.id WHEN MATCHED AND t.id = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET * "
        "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE AND t.id = 5 THEN UPDATE SET element = -5, path = -6"
    )
    del present[0]
    present |= {3: given[3], 9: given[9]}
    present[5][1], present[5][11] = -6, -5
    expected = sorted((tuple(row) for row in present.values()), key=str)
    assert rows("SELECT * FROM t") == expected
    spark.sql("OPTIMIZE t ZORDER BY (path)")
    assert rows("SELECT * FROM t") == expected
    feed = "SELECT id, path, _change_type FROM table_changes('t', 2, 2)"
    assert rows(feed) == [(1, 100, "delete")]


def test_an_alias_comes_before_a_struct_of_its_name(spark: SparkSession, rows: Rows) -> None:
    table(spark, "id INT, k INT, t STRUCT<k INT>", [(5, 50, (10,)), (6, 60, (20,))])
    source(spark, "id INT, k INT, t STRUCT<k INT>", [(5, 99, (70,))])
    merge = "MERGE INTO t AS t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET"
    spark.sql(f"{merge} t.k = s.k")
    assert rows("SELECT k, t.t.k FROM t") == [(60, 20), (99, 10)]
    spark.sql(f"{merge} t.t.k = s.t.k")
    assert rows("SELECT k, t.t.k FROM t") == [(60, 20), (99, 70)]
    spark.sql("UPDATE t SET t.k = 7 WHERE t.k = 60")
    assert rows("SELECT k, t.t.k FROM t") == [(7, 20), (99, 70)]
    spark.sql("UPDATE t AS x SET x.t.k = 8 WHERE x.k = 7")
    assert rows("SELECT k, t.t.k FROM t") == [(7, 8), (99, 70)]


def test_a_source_column_with_a_reserved_name_is_refused(spark: SparkSession, rows: Rows) -> None:
    table(spark, "id INT, v STRING", [(1, "a")])
    with pytest.raises(InvalidArgument, match="__slackwater_file"):
        spark.sql(
            "MERGE INTO t USING (SELECT 1 AS id, 'b' AS v, 2 AS __slackwater_file) AS s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET v = s.v"
        )
    assert rows("SELECT * FROM t") == [(1, "a")]


@pytest.mark.parametrize("generated", [", d DATE GENERATED ALWAYS AS (CAST(colUtc AS DATE))", ""], ids=["yes", "no"])
def test_columns_of_an_insert_that_differ_in_case_alone_are_refused(spark: SparkSession, generated: str) -> None:
    spark.sql(f"CREATE TABLE t (id INT, colUtc TIMESTAMP{generated}) USING delta")
    with pytest.raises(InvalidArgument, match="differ only in case"):
        spark.sql("INSERT INTO t (id, colUtc, colUTC) VALUES (1, now(), now())")


def test_one_of_several_source_rows_may_satisfy_a_clause(spark: SparkSession, rows: Rows, vectors: str) -> None:
    table(spark, "k INT, v STRING", [(1, "x")], f"TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}')")
    source(spark, "k INT, v STRING", [(1, "a"), (1, "b")])
    merge = "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED AND s.v = 'a' THEN UPDATE SET *"
    with pytest.raises(MergeCardinalityViolation):
        spark.sql(f"{merge} WHEN MATCHED AND s.v = 'b' THEN DELETE")
    assert rows("SELECT * FROM t") == [(1, "x")]
    spark.sql(merge.replace("'a'", "'b'"))
    assert rows("SELECT * FROM t") == [(1, "b")]


@pytest.mark.long
def test_a_large_table_merged_with_itself_keeps_each_row_once(spark: SparkSession, rows: Rows) -> None:
    spark.sql("CREATE TABLE t USING delta AS SELECT id, id AS v FROM range(100000)")
    using = "MERGE INTO t USING (SELECT * FROM t) AS s ON t.id = s.id"
    spark.sql(f"{using} WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")
    assert rows("SELECT count(*), count(DISTINCT id), sum(v) FROM t") == [(100000, 100000, 4999950000)]
