"""Fields of structs by name or by position, and columns whose names look like paths, as other engines mixed them up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from slackwater.errors import InvariantViolationException

pytestmark = [pytest.mark.spark, pytest.mark.shared, pytest.mark.usefixtures("db")]

Rows = Callable[..., list[tuple[Any, ...]]]

ORDERED = "s STRUCT<x INT, y INT>, arr ARRAY<STRUCT<x INT, y INT>>, m MAP<STRING, STRUCT<x INT, y INT>>"
TURNED = "s STRUCT<y INT, x INT>, arr ARRAY<STRUCT<y INT, x INT>>, m MAP<STRING, STRUCT<y INT, x INT>>"
FOUND = "SELECT s.x, s.y, arr[0].x, arr[0].y, m['k'].x, m['k'].y FROM t"
BY_NAME, BY_POSITION = (2, 1), (1, 2)

WRITES: dict[str, tuple[Callable[[SparkSession, DataFrame], object], tuple[int, int]]] = {
    "INSERT BY NAME": (lambda spark, _: spark.sql("INSERT INTO t BY NAME SELECT * FROM src"), BY_NAME),
    "append": (lambda _, src: src.write.format("delta").mode("append").saveAsTable("t"), BY_NAME),
    "writeTo": (lambda _, src: src.writeTo("t").append(), BY_NAME),
    "INSERT INTO": (lambda spark, _: spark.sql("INSERT INTO t SELECT * FROM src"), BY_POSITION),
    "INSERT columns": (lambda spark, _: spark.sql("INSERT INTO t (s, arr, m) SELECT * FROM src"), BY_POSITION),
    "insertInto": (lambda _, src: src.write.insertInto("t"), BY_POSITION),
    "INSERT OVERWRITE": (lambda spark, _: spark.sql("INSERT OVERWRITE t SELECT * FROM src"), BY_POSITION),
    "MERGE INSERT": (
        lambda spark, _: spark.sql("MERGE INTO t USING src ON false WHEN NOT MATCHED THEN INSERT *"),
        BY_NAME,
    ),
}


@pytest.fixture
def turned(spark: SparkSession, db: str) -> DataFrame:
    """Structs whose fields are in another order than those of the table `t`."""
    spark.sql(f"CREATE TABLE t ({ORDERED}) USING delta")
    frame = spark.createDataFrame([((1, 2), [(1, 2)], {"k": (1, 2)})], TURNED)
    frame.createOrReplaceTempView("src")
    return frame


def test_rows_that_are_written_go_by_name_or_by_position(spark: SparkSession, rows: Rows, turned: DataFrame) -> None:
    found = {}
    for name, (write, _) in WRITES.items():
        spark.sql("TRUNCATE TABLE t")
        write(spark, turned)
        found[name] = rows(FOUND)
    assert found == {name: [expected * 3] for name, (_, expected) in WRITES.items()}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE t SET s = named_struct('y', 1, 'x', 2), arr = array(named_struct('y', 1, 'x', 2)), "
        "m = map('k', named_struct('y', 1, 'x', 2))",
        "MERGE INTO t USING src AS n ON true WHEN MATCHED THEN UPDATE SET s = n.s, arr = n.arr, m = n.m",
        "MERGE INTO t USING src AS n ON true WHEN MATCHED THEN UPDATE SET *",
        "MERGE WITH SCHEMA EVOLUTION INTO t USING src AS n ON true WHEN MATCHED THEN UPDATE SET *",
    ],
)
@pytest.mark.usefixtures("turned")
def test_rows_that_are_changed_go_by_name(spark: SparkSession, rows: Rows, statement: str) -> None:
    spark.createDataFrame([((8, 9), [(8, 9)], {"k": (8, 9)})], ORDERED).writeTo("t").append()
    spark.sql(statement)
    assert rows(FOUND) == [BY_NAME * 3]


@pytest.mark.parametrize(
    ("insert", "expected"),
    [("t (s, arr, m)", (1, 2, 3)), ("t", (1, 2, 3)), ("t BY NAME", (2, 1, 3))],
    ids=["columns", "all", "by name"],
)
@pytest.mark.usefixtures("turned")
def test_structs_with_further_fields_go_by_position_as_far_as_the_table_has_them(
    spark: SparkSession, rows: Rows, insert: str, expected: tuple[int, ...]
) -> None:
    wide = TURNED.replace("x INT", "x INT, z INT")
    spark.createDataFrame([((1, 2, 3), [(1, 2, 3)], {"k": (1, 2, 3)})], wide).createOrReplaceTempView("src")
    spark.sql(f"INSERT WITH SCHEMA EVOLUTION INTO {insert} SELECT * FROM src")
    found = rows("SELECT s.x, s.y, s.z, arr[0].x, arr[0].y, arr[0].z, m['k'].x, m['k'].y, m['k'].z FROM t")
    assert found == [expected * 3]


@pytest.mark.parametrize("transport", ["spark", "arrow"])
@pytest.mark.parametrize("mode", ["none", "name"])
@pytest.mark.long
def test_a_column_with_a_dot_is_not_a_field_of_a_struct(
    spark: SparkSession, rows: Rows, conf: Callable[[str, str], None], mode: str, transport: str
) -> None:
    conf("spark.slackwater.rows", transport)
    columns = "id INT, `data.a` INT, data STRUCT<a: INT>, `x``y` INT"
    spark.sql(f"CREATE TABLE t ({columns}) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = '{mode}')")
    for number in (1, 2):
        spark.createDataFrame([(number, number, (number * 100,), number)], columns).writeTo("t").append()
    expected = [(1, 1, 100, 1), (2, 2, 200, 2)]
    every = "SELECT id, `data.a`, data.a, `x``y` FROM t"
    for order in ("`data.a`", "data.a", "`x``y`"):
        spark.sql(f"OPTIMIZE t ZORDER BY ({order})")
        assert rows(every) == expected
    assert rows("SELECT id FROM t WHERE `data.a` = 2") == [(2,)]
    assert rows("SELECT id FROM t WHERE data.a = 2") == []
    spark.sql("UPDATE t SET `data.a` = `data.a` + 5 WHERE data.a = 200")
    spark.sql("UPDATE t SET data.a = 300 WHERE `data.a` = 7")
    spark.sql("DELETE FROM t WHERE `data.a` = 1 AND `x``y` = 1")
    assert rows(every) == [(2, 7, 300, 2)]


@pytest.mark.parametrize("mode", ["none", "name"])
@pytest.mark.long
def test_statements_touch_the_field_that_they_name(spark: SparkSession, rows: Rows, mode: str) -> None:
    struct = "STRUCT<`a.foo`: INT, `b.foo`: STRING, a: STRUCT<foo: INT>>"
    columns = f"id INT, data {struct}, `data.a` INT, `größe` INT, `SELECT` INT"
    properties = f"'delta.columnMapping.mode' = '{mode}', 'delta.feature.allowColumnDefaults' = 'supported'"
    spark.sql(f"CREATE TABLE t ({columns}) USING delta TBLPROPERTIES ({properties})")
    content = [(i, (i * 10, f"b{i}", (i * 100,)), i * 1000, i, i) for i in range(3)]
    spark.createDataFrame(content, columns).repartitionByRange(3, "id").writeTo("t").append()
    for condition, number in (
        ("data.`a.foo` = 10", 1), ("data.a.foo = 100", 1), ("`data.a` = 2000", 2), ("`größe` = 1 AND `SELECT` = 1", 1),
    ):  # fmt: skip
        assert rows(f"SELECT id FROM t WHERE {condition}") == [(number,)]
    assert rows("SELECT id FROM t WHERE data.a.foo = 10") == []
    changed = "SELECT data.`a.foo`, data.a.foo, `data.a` FROM t WHERE id = 0"
    spark.sql("UPDATE t SET data.`a.foo` = 9 WHERE id = 0")
    assert rows(changed) == [(9, 0, 0)]
    spark.sql("UPDATE t SET data.a.foo = 8, `data.a` = 7 WHERE id = 0")
    assert rows(changed) == [(9, 8, 7)]
    given = [(i, (i * 11, f"m{i}", (i * 111,)), i * 1111, i, i, "new") for i in (0, 5)]
    spark.createDataFrame(given, f"{columns}, more STRING").createOrReplaceTempView("s")
    merge = "INTO t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET"
    spark.sql(f"MERGE WITH SCHEMA EVOLUTION {merge} * WHEN NOT MATCHED THEN INSERT *")
    spark.sql(f"MERGE {merge} data.`a.foo` = s.data.a.foo, `data.a` = s.data.`a.foo`")
    expected = [(0, 0, 0, 0, "new"), (1, 10, 100, 1000, None), (2, 20, 200, 2000, None), (5, 555, 555, 55, "new")]
    assert rows("SELECT id, data.`a.foo`, data.a.foo, `data.a`, more FROM t") == expected
    spark.sql("ALTER TABLE t ADD CONSTRAINT small CHECK (data.`a.foo` < 1000)")
    with pytest.raises(InvariantViolationException):
        spark.sql("UPDATE t SET data.`a.foo` = 5000 WHERE id = 0")
    if mode == "name":
        spark.sql("ALTER TABLE t RENAME COLUMN data.`b.foo` TO `c.foo`")
        assert rows("SELECT data.`c.foo`, data.`a.foo` FROM t WHERE id = 5") == [("m5", 555)]
        spark.sql("ALTER TABLE t DROP COLUMN data.`c.foo`")
        assert rows("SELECT data.`a.foo`, data.a.foo FROM t WHERE id = 5") == [(555, 555)]
