"""Temporary views over Delta tables that SQL makes: they see what their tables have when they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import slackwater
from slackwater.errors import InvalidArgument, UnsupportedFeature

pytestmark = [pytest.mark.spark, pytest.mark.modes]

Rows = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture(autouse=True)
def _no_views(spark: SparkSession) -> Iterator[None]:
    """No view is left for the next test."""
    yield
    for name in ("v", "w", "a", "b", "inner_v", "outer_v"):
        spark.catalog.dropTempView(name)
    for name in ("gv", "gw"):
        spark.catalog.dropGlobalTempView(name)


@pytest.fixture
def table(spark: SparkSession, db: str) -> str:
    spark.sql("CREATE TABLE t (id INT, v STRING) USING delta")
    spark.sql("INSERT INTO t VALUES (1, 'a')")
    return f"{db}.t"


def add(spark: SparkSession, *ids: int) -> None:
    for each in ids:
        spark.sql(f"INSERT INTO t VALUES ({each}, 'x')")


@pytest.mark.parametrize("kind", ["TEMP", "GLOBAL TEMP"])
def test_a_temporary_view_is_altered_renamed_and_keeps_its_columns(
    spark: SparkSession, rows: Rows, db: str, kind: str
) -> None:
    """As a view over a table of Parquet, except that the table's new rows are seen."""
    prefix = "global_temp." if kind == "GLOBAL TEMP" else ""
    spark.sql("CREATE TABLE t USING delta AS SELECT id, id * 10 AS x FROM range(3)")
    spark.sql(f"CREATE {kind} VIEW `a view-1.x` AS SELECT * FROM t")
    spark.sql(f"CREATE {kind} VIEW with_names (a, b) AS SELECT * FROM t")
    spark.sql("ALTER TABLE t ADD COLUMN n INT")
    spark.sql("INSERT INTO t VALUES (9, 90, 900)")
    assert rows(f"SELECT * FROM {prefix}`a view-1.x`") == [(0, 0), (1, 10), (2, 20), (9, 90)]
    assert rows(f"SELECT a, b FROM {prefix}with_names WHERE b > 10") == [(2, 20), (9, 90)]
    spark.sql(f"ALTER VIEW {prefix}with_names AS SELECT n FROM t")
    assert rows(f"SELECT * FROM {prefix}with_names") == [(900,), (None,), (None,), (None,)]
    spark.sql(f"ALTER VIEW {prefix}with_names RENAME TO renamed")
    spark.sql("DELETE FROM t WHERE n IS NULL")
    assert rows(f"SELECT * FROM {prefix}renamed") == [(900,)]
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        rows(f"SELECT * FROM {prefix}with_names")
    for name in ("renamed", "`a view-1.x`"):
        spark.sql(f"DROP VIEW {prefix}{name}")


def test_two_frames_of_a_view_are_joined_on_their_columns(spark: SparkSession, db: str) -> None:
    spark.sql("CREATE TABLE t USING delta AS SELECT id, id * 10 AS x FROM range(3)")
    spark.sql("CREATE TEMP VIEW v AS SELECT * FROM t")
    for read in (spark.table, lambda name: spark.sql(f"SELECT * FROM {name}")):
        one, two = read("v"), read("v")
        joined = one.join(two, one["id"] * 10 == two["x"]).select(one["id"], two["x"])
        assert sorted(map(tuple, joined.collect())) == [(0, 0), (1, 10), (2, 20)]


def test_a_view_sees_the_newest_version(spark: SparkSession, rows: Rows, table: str) -> None:
    spark.sql("CREATE TEMP VIEW v AS SELECT id FROM t WHERE id < 5")
    add(spark, 2, 9)
    assert rows("SELECT * FROM v") == [(1,), (2,)]
    assert sorted(spark.table("V").collect()) == [(1,), (2,)]
    assert sorted(spark.read.table("v").collect()) == [(1,), (2,)]
    assert rows("SELECT v.id, w.id FROM v JOIN v AS w USING (id) WHERE v.id = 2") == [(2, 2)]
    assert rows("WITH v AS (SELECT 7 AS id) SELECT * FROM v") == [(7,)]
    spark.sql("DROP VIEW v")
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("SELECT * FROM v")


def test_a_version_that_is_named_stays(spark: SparkSession, rows: Rows, table: str) -> None:
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW v (number) AS SELECT id FROM t VERSION AS OF 1")
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW w AS SELECT * FROM t@v1")
    add(spark, 2)
    assert rows("SELECT number FROM v") == [(1,)]
    assert rows("SELECT id FROM w") == [(1,)]


def test_views_over_views_and_other_tables_are_read_anew(spark: SparkSession, rows: Rows, table: str, db: str) -> None:
    spark.sql("CREATE TABLE plain (id INT) USING parquet")
    spark.sql("INSERT INTO plain VALUES (1), (2)")
    spark.sql("CREATE TEMP VIEW inner_v AS SELECT t.id, t.v FROM t")
    spark.sql(f"CREATE TEMP VIEW outer_v AS SELECT {db}.plain.id FROM plain JOIN inner_v USING (id)")
    add(spark, 2)
    assert rows("SELECT * FROM outer_v") == [(1,), (2,)]


def test_a_view_means_the_tables_of_the_database_that_it_was_made_in(
    spark: SparkSession, rows: Rows, table: str, db: str
) -> None:
    spark.sql("CREATE TEMP VIEW v AS SELECT id FROM t")
    add(spark, 2)
    spark.sql("USE default")
    try:
        assert rows("SELECT * FROM v") == [(1,), (2,)]
    finally:
        spark.sql(f"USE {db}")


def test_a_view_of_another_making_goes_before_what_was_kept(spark: SparkSession, rows: Rows, table: str) -> None:
    spark.sql("CREATE TEMP VIEW v AS SELECT id FROM t")
    spark.range(7, 8).createOrReplaceTempView("v")
    assert rows("SELECT * FROM v") == [(7,)]
    assert [row.id for row in spark.table("v").collect()] == [7]
    spark.sql("CREATE OR REPLACE TEMP VIEW v AS SELECT 8 AS id")
    assert rows("SELECT * FROM v") == [(8,)]


def test_frames_and_parameters_stay_in_a_view(spark: SparkSession, rows: Rows, table: str) -> None:
    spark.sql(
        "CREATE OR REPLACE TEMP VIEW v AS SELECT t.id, s.n FROM t JOIN {s} s ON t.id = s.n WHERE t.id < :most",
        args={"most": 3},
        s=spark.createDataFrame([(1,), (2,), (3,)], "n INT"),
    )
    add(spark, 2, 3)
    assert rows("SELECT * FROM v") == [(1, 1), (2, 2)]


def another_session(spark: SparkSession) -> SparkSession:
    """A session of the same Spark with settings and views of its own."""
    other: SparkSession = spark.newSession()
    slackwater.enable(other)
    return other


def test_a_global_view_sees_the_newest_version_in_every_session(
    spark: SparkSession, rows: Rows, table: str, db: str
) -> None:
    spark.sql("CREATE OR REPLACE GLOBAL TEMP VIEW gv (number) AS SELECT id FROM t")
    spark.sql("CREATE OR REPLACE GLOBAL TEMP VIEW gw AS SELECT id FROM t VERSION AS OF 1")
    add(spark, 2)
    assert rows("SELECT * FROM global_temp.gv") == [(1,), (2,)]
    assert rows("SELECT * FROM global_temp.gw") == [(1,)]
    assert sorted(spark.table("global_temp.gv").collect()) == [(1,), (2,)]
    other = another_session(spark)
    add(spark, 3)
    assert sorted(other.sql("SELECT number FROM GLOBAL_TEMP.gv WHERE number > 1").collect()) == [(2,), (3,)]
    other.sql("CREATE OR REPLACE GLOBAL TEMP VIEW gv AS SELECT 7 AS seven")
    assert rows("SELECT * FROM global_temp.gv") == [(7,)]
    spark.sql("DROP VIEW global_temp.gv")
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("SELECT * FROM global_temp.gv")


def test_a_global_view_over_what_one_session_has_stays_what_it_was(spark: SparkSession, rows: Rows, table: str) -> None:
    spark.sql("CREATE TEMP VIEW v AS SELECT id FROM t")
    spark.sql("CREATE OR REPLACE GLOBAL TEMP VIEW gv AS SELECT * FROM v")
    add(spark, 2)
    other = another_session(spark)
    other.sql("CREATE TEMP VIEW v AS SELECT 99 AS id")
    assert other.sql("SELECT * FROM global_temp.gv").collect() == rows("SELECT * FROM global_temp.gv") == [(1,)]


def test_views_that_read_each_other_are_an_error(spark: SparkSession, rows: Rows, table: str) -> None:
    spark.sql("CREATE TEMP VIEW a AS SELECT id FROM t")
    spark.sql("CREATE TEMP VIEW b AS SELECT id FROM a")
    spark.sql("CREATE OR REPLACE TEMP VIEW a AS SELECT id FROM b")
    with pytest.raises(InvalidArgument, match="reads itself"):
        spark.sql("SELECT * FROM a")


def test_within_a_transaction_a_view_is_of_the_transaction(
    spark: SparkSession, rows: Rows, lake: slackwater.Lake
) -> None:
    spark.sql("INSERT INTO lake.orders VALUES (1, 'a')")
    spark.sql("USE lake")
    spark.sql("CREATE TEMP VIEW v AS SELECT id FROM orders")
    spark.sql("BEGIN TRANSACTION")
    spark.sql("INSERT INTO orders VALUES (2, 'b')")
    assert rows("SELECT * FROM v") == [(1,), (2,)]
    spark.sql("ROLLBACK")
    assert rows("SELECT * FROM v") == [(1,)]


def test_rows_of_a_view_go_into_tables(spark: SparkSession, rows: Rows, table: str) -> None:
    spark.sql("CREATE TEMP VIEW v AS SELECT id, v FROM t")
    spark.sql("CREATE TABLE copy USING delta AS SELECT * FROM v")
    add(spark, 2)
    spark.sql("INSERT INTO copy SELECT * FROM v WHERE id = 2")
    assert rows("SELECT id FROM copy") == [(1,), (2,)]
    assert spark.table("copy").schema[0].metadata == {}


@pytest.mark.parametrize("statement", ["DELETE FROM t", "UPDATE t SET id = 1", "INSERT INTO t VALUES (1, 'a')"])
def test_a_change_of_rows_is_not_explained(spark: SparkSession, table: str, statement: str) -> None:
    with pytest.raises(slackwater.errors.UnsupportedFeature, match=r"`t`: EXPLAIN .* has several plans"):
        spark.sql(f"EXPLAIN FORMATTED {statement}")
    assert spark.sql("EXPLAIN SELECT * FROM t").count() == 1


def test_a_table_like_a_delta_table_is_a_delta_table(spark: SparkSession, rows: Rows, table: str) -> None:
    with pytest.raises(slackwater.errors.UnsupportedFeature, match=r"USING parquet AS"):
        spark.sql("CREATE TABLE p LIKE t USING parquet")
    spark.sql("CREATE TABLE p LIKE t")
    assert spark.table("p").columns == ["id", "v"]


# What a view over a table of a file for each day is, and the number of files for its rows of one day.
VIEWS = {
    "SELECT * FROM {t}": 1,
    "SELECT day, {t}.id FROM {t} -- all": 1,
    "SELECT id, day AS other FROM {t}": 1,
    "SELECT id + day AS id, CAST(day AS BIGINT) AS day FROM {t}": 1,
    "SELECT id, CAST(day AS STRING) AS day FROM {t}": 6,
    "SELECT id, row_number() OVER (ORDER BY id) AS n, day FROM {t}": 6,
    "SELECT id, 5 - day AS day FROM {t}": 6,
    "SELECT * FROM {t} ORDER BY id LIMIT 3": 6,
    "SELECT day, max(id) AS id FROM {t} GROUP BY day": 6,
    "SELECT {t}.id, {t}.day FROM {t} JOIN {t} u USING (id)": 6,
}


@pytest.mark.parametrize("kind", ["TEMP", pytest.param("GLOBAL TEMP", marks=pytest.mark.long)])
def test_a_query_of_a_view_reads_only_the_files_of_its_conditions(
    spark: SparkSession, rows: Rows, db: str, kind: str
) -> None:
    spark.sql("CREATE TABLE t USING delta PARTITIONED BY (day) AS SELECT id, id % 6 AS day FROM range(0, 12, 1, 1)")
    spark.sql("CREATE TABLE p USING parquet AS SELECT * FROM t")
    name = "global_temp.gv" if kind == "GLOBAL TEMP" else "v"
    for query, wanted in VIEWS.items():
        spark.sql(f"CREATE OR REPLACE {kind} VIEW {name.rpartition('.')[2]} AS {query.format(t='t')}")
        spark.sql(f"CREATE OR REPLACE TEMP VIEW w AS {query.format(t='p')}")
        day = "other" if "other" in query else "day"
        frame = spark.sql(f"SELECT id FROM {name} x WHERE x.{day} = 2")
        assert len(frame.inputFiles()) == wanted, query
        assert sorted(map(tuple, frame.collect())) == sorted(rows(f"SELECT id FROM w x WHERE x.{day} = 2")), query
    spark.sql("CREATE OR REPLACE TEMP VIEW a AS SELECT id, day FROM t")
    spark.sql("CREATE OR REPLACE TEMP VIEW b AS SELECT * FROM a WHERE id > 2")
    assert len(spark.sql("WITH c AS (SELECT * FROM b) SELECT * FROM c WHERE day = 2").inputFiles()) == 1
    spark.sql("CREATE OR REPLACE TEMP VIEW b (id, day) AS SELECT day, id FROM a WHERE id > 2")
    assert len(spark.sql("WITH c AS (SELECT id AS k FROM b) SELECT * FROM c WHERE k = 2").inputFiles()) == 1


def test_names_of_a_view_are_not_those_of_its_query(spark: SparkSession, rows: Rows, db: str) -> None:
    spark.sql("CREATE TABLE t USING delta PARTITIONED BY (day) AS SELECT id, id % 6 AS day FROM range(0, 12, 1, 1)")
    spark.sql("CREATE TEMP VIEW v (day, id) AS SELECT id, day FROM t")
    assert rows("SELECT * FROM v WHERE day = 8") == [(8, 2)]
    assert rows("SELECT a.day FROM v a JOIN t b ON a.day = b.id WHERE a.id = 2 AND b.day = 2") == [(2,), (8,)]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE GLOBAL TEMP VIEW gv AS SELECT id FROM lake.orders",
        "CREATE OR REPLACE GLOBAL TEMP VIEW gv AS SELECT n FROM t JOIN (SELECT id AS n FROM lake.orders) ON n = t.id",
        "CREATE GLOBAL TEMP VIEW gv AS SELECT * FROM w",
        "ALTER VIEW global_temp.gw AS SELECT id FROM lake.orders",
        "CREATE OR REPLACE TEMP VIEW v AS SELECT * FROM v",
        "CACHE TABLE a AS SELECT id FROM lake.orders",
        "CACHE LAZY TABLE a AS SELECT * FROM w",
    ],
)
def test_rows_of_an_open_transaction_stay_in_it(
    spark: SparkSession, rows: Rows, table: str, lake: slackwater.Lake, statement: str
) -> None:
    """Such a view would show uncommitted rows to other sessions, or after ROLLBACK."""
    spark.sql("INSERT INTO lake.orders VALUES (1, 'a')")
    spark.sql("CREATE GLOBAL TEMP VIEW gw AS SELECT id FROM t")
    spark.sql("CREATE TEMP VIEW v AS SELECT id FROM lake.orders")
    spark.sql("CREATE TEMP VIEW w AS SELECT id FROM v")
    spark.sql("BEGIN TRANSACTION ON lake")
    spark.sql("INSERT INTO lake.orders VALUES (2, 'b')")
    spark.sql("CREATE OR REPLACE GLOBAL TEMP VIEW gv AS SELECT id FROM t")
    other = another_session(spark)
    assert other.sql("SELECT * FROM global_temp.gv").collect() == [(1,)]
    spark.sql("DROP VIEW global_temp.gv")
    with pytest.raises(UnsupportedFeature, match=r"open transaction.* outside of the transaction"):
        spark.sql(statement)
    assert other.sql("SHOW VIEWS IN global_temp LIKE 'gv'").collect() == []
    assert other.sql("SELECT * FROM global_temp.gw").collect() == [(1,)]


@pytest.mark.parametrize(("end", "ids"), [("COMMIT", [1, 2]), ("ROLLBACK", [1])])
def test_a_temporary_view_made_in_a_transaction_is_read_after_it(
    spark: SparkSession, rows: Rows, lake: slackwater.Lake, end: str, ids: list[int]
) -> None:
    spark.sql("INSERT INTO lake.orders VALUES (1, 'a')")
    spark.sql("BEGIN TRANSACTION ON lake")
    spark.sql("INSERT INTO lake.orders VALUES (2, 'b')")
    spark.sql("CREATE TEMP VIEW v AS SELECT id FROM lake.orders")
    spark.sql("CREATE TEMP VIEW w AS SELECT * FROM v")
    assert rows("SELECT * FROM w") == [(1,), (2,)]
    spark.sql(end)
    for name in ("v", "w"):
        assert rows(f"SELECT * FROM {name}") == [(each,) for each in ids]
        assert sorted(row.id for row in spark.table(name).collect()) == ids
