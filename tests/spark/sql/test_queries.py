"""Queries by SQL over Delta tables: names, paths, versions and times, joins with all else, and what they read."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import slackwater
from slackwater.errors import InvalidArgument, TableNotFound
from slackwater.spark.sql.query import rewritten

pytestmark = [pytest.mark.spark]

Rows = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def flights(spark: SparkSession, db: str) -> str:
    """A table of three versions: (1, 2), then 3 on the next day, then all of id 1 gone."""
    spark.sql("CREATE TABLE flights (id BIGINT, day DATE) USING delta PARTITIONED BY (day)")
    spark.sql("INSERT INTO flights VALUES (1, DATE'2026-01-01'), (2, DATE'2026-01-01')")
    spark.sql("INSERT INTO flights VALUES (3, DATE'2026-01-02')")
    spark.sql("DELETE FROM flights WHERE id = 1")
    return f"{db}.flights"


def test_a_table_is_named_in_every_way(spark: SparkSession, rows: Rows, flights: str) -> None:
    path = slackwater.DeltaTable.forName(spark, "flights").detail().collect()[0].location.removeprefix("file:")
    path = "/" + path.lstrip("/")
    for name in ("flights", "FLIGHTS", "`flights`", flights, f"spark_catalog.{flights}", f"delta.`{path}`"):
        assert rows(f"SELECT id FROM {name}") == [(2,), (3,)], name


def test_columns_are_qualified_by_table_and_database(rows: Rows, db: str, flights: str) -> None:
    assert rows(f"SELECT flights.id, {flights}.id, spark_catalog.{flights}.id FROM flights") == [(2,) * 3, (3,) * 3]
    assert rows(f"SELECT flights.* FROM {flights} WHERE {flights}.id = 2 ORDER BY {db}.flights.id")[0][0] == 2
    assert rows(f"SELECT f.id FROM {flights} AS f JOIN {flights} ON f.id = {flights}.id + 1") == [(3,)]


@pytest.mark.parametrize(
    ("travel", "ids"),
    [
        ("VERSION AS OF 1", [1, 2]),
        ("VERSION AS OF '2'", [1, 2, 3]),
        ("FOR VERSION AS OF 0", []),
        ("FOR SYSTEM_VERSION AS OF 1", [1, 2]),
        ("@v1", [1, 2]),
        ("@V2", [1, 2, 3]),
        ("FOR SYSTEM_TIME AS OF now() + INTERVAL 1 HOUR", [2, 3]),
        ("FOR SYSTEM_TIME AS OF TIMESTAMP '2999-01-01 00:00:00' - INTERVAL 1 DAY", [2, 3]),
    ],
)
def test_a_version_is_travelled_to(rows: Rows, flights: str, travel: str, ids: list[int]) -> None:
    joint = "" if travel.startswith("@") else " "
    assert [row[0] for row in rows(f"SELECT id FROM flights{joint}{travel}")] == ids
    assert rows(f"SELECT count(*) FROM flights{joint}{travel} f WHERE f.id > 0") == [(len(ids),)]


def test_a_time_is_travelled_to(spark: SparkSession, rows: Rows, flights: str) -> None:
    history = slackwater.DeltaTable.forName(spark, "flights").history().collect()
    first = next(row.timestamp for row in history if row.version == 1)
    text = first.astimezone(dt.timezone.utc).isoformat(sep=" ", timespec="milliseconds").replace("+00:00", "Z")
    assert rows(f"SELECT id FROM flights TIMESTAMP AS OF '{text}'") == [(1,), (2,)]
    assert rows(f"SELECT id FROM flights TIMESTAMP AS OF CAST('{text}' AS TIMESTAMP) AS f WHERE id = 1") == [(1,)]
    assert rows("SELECT id FROM flights TIMESTAMP AS OF :t", {"t": first}) == [(1,), (2,)]


def test_versions_are_joined(rows: Rows, flights: str) -> None:
    joined = "SELECT count(*) FROM flights VERSION AS OF 2 a LEFT ANTI JOIN flights b ON a.id = b.id"
    assert rows(joined) == [(1,)]
    assert rows("SELECT id FROM flights@v2 EXCEPT SELECT id FROM flights") == [(1,)]


def test_everything_else_of_a_query_is_spark_s(spark: SparkSession, rows: Rows, flights: str) -> None:
    spark.range(3).createOrReplaceTempView("numbers")
    spark.sql("CREATE TABLE plain (id BIGINT) USING parquet")
    spark.sql("INSERT INTO plain SELECT id FROM flights")
    assert rows("SELECT * FROM plain") == [(2,), (3,)]
    assert rows("WITH flights AS (SELECT 7 AS id) SELECT id FROM flights") == [(7,)]
    assert rows("WITH f AS (SELECT id FROM flights) SELECT f.id FROM f JOIN numbers USING (id)") == [(2,)]
    assert rows("SELECT id FROM numbers WHERE id IN (SELECT id FROM flights)") == [(2,)]
    assert rows("SELECT /*+ BROADCAST(f) */ f.id FROM flights f, plain p WHERE f.id = p.id") == [(2,), (3,)]
    assert rows("SELECT id, x FROM flights LATERAL VIEW explode(array(1, 2)) t AS x WHERE id = 2") == [(2, 1), (2, 2)]
    assert rows("FROM flights |> WHERE id = 2 |> SELECT id") == [(2,)]
    assert rows("TABLE flights")[0][0] == 2
    assert rows("SELECT sum(id) FROM (SELECT id FROM flights UNION ALL TABLE plain)") == [(10,)]
    assert rows("SELECT id FROM flights -- delta\n /* flights */ WHERE id = :id", {"id": 2}) == [(2,)]
    assert rows("SELECT id FROM flights WHERE id = ? OR id = ?", [2, 9]) == [(2,)]
    assert rows("SELECT count(*) FROM {few} JOIN flights USING (id)", few=spark.range(3)) == [(1,)]


def test_a_row_filter_on_the_side_of_an_outer_join_is_no_filter_of_files(rows: Rows, flights: str) -> None:
    found = rows("SELECT a.id, b.id FROM flights a LEFT JOIN flights b ON a.id = b.id + 1 WHERE b.id IS NULL")
    assert found == [(2, None)]
    found = rows("SELECT b.id FROM flights a RIGHT JOIN flights b ON a.day = b.day AND a.id = 9 WHERE a.id IS NULL")
    assert found == [(2,), (3,)]


def test_a_query_reads_no_other_files_than_where_does(spark: SparkSession, db: str) -> None:
    spark.range(100).selectExpr("id", "id % 4 AS p").write.format("delta").partitionBy("p").saveAsTable("parts")
    path = slackwater.DeltaTable.forName(spark, "parts")
    wanted = sorted(path.where("p = 1 AND id < 50").inputFiles())
    assert len(wanted) < len(path.toDF().inputFiles())
    for text in (
        "SELECT * FROM parts WHERE p = 1 AND id < 50",
        "SELECT x.id FROM parts x WHERE x.p = 1 AND x.id < 50 ORDER BY 1",
        "SELECT count(*) FROM parts JOIN (SELECT 1 AS one) ON true WHERE parts.p = 1 AND parts.id < 50",
    ):
        assert sorted(spark.sql(text).inputFiles()) == wanted, text


def test_queries_around_a_query_of_a_table_choose_its_files_too(spark: SparkSession, rows: Rows, db: str) -> None:
    numbers = spark.range(100).selectExpr("id", "id % 4 AS p").repartition(4, "p")
    numbers.write.format("delta").partitionBy("p").saveAsTable("parts")
    spark.sql("CREATE TABLE plain USING parquet AS SELECT * FROM parts")
    wanted = sorted(slackwater.DeltaTable.forName(spark, "parts").where("p = 1").inputFiles())
    for text, is_chosen in (
        ("WITH c AS (SELECT * FROM {t}) SELECT * FROM c WHERE p = 1", True),
        ("WITH c AS (SELECT p, id FROM {t} WHERE id > 2), d AS (SELECT p FROM c) SELECT * FROM d WHERE p = 1", True),
        ("SELECT count(*) FROM (SELECT x.* FROM {t} x) AS y WHERE y.p = 1 AND y.id > 2", True),
        ("WITH c AS (SELECT id, id % 3 AS p FROM {t}) SELECT * FROM c WHERE p = 1", False),
        ("WITH c AS (SELECT * FROM {t}) SELECT count(*) FROM c a JOIN c b ON a.id = b.id + 1 WHERE a.p = 1", False),
        ("SELECT count(*) FROM (SELECT * FROM {t} ORDER BY id LIMIT 9) WHERE p = 1", False),
        ("SELECT * FROM (VALUES (7)) v LEFT JOIN (SELECT * FROM {t}) x ON x.id = 200 WHERE x.p IS NULL", False),
    ):
        assert rows(text.format(t="parts")) == rows(text.format(t="plain")), text
        found = rewritten(spark, text.format(t="parts"))
        assert found is not None
        (frame,) = found.views.values()
        assert (sorted(frame.inputFiles()) == wanted) == is_chosen, text


def test_changes_are_a_table(spark: SparkSession, rows: Rows, db: str) -> None:
    spark.sql("CREATE TABLE c (id BIGINT) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    spark.sql("INSERT INTO c VALUES (1), (2)")
    spark.sql("DELETE FROM c WHERE id = 1")
    assert rows("SELECT id, _change_type FROM table_changes('c', 1)") == [(1, "delete"), (1, "insert"), (2, "insert")]
    assert rows(f"SELECT count(*) FROM table_changes('{db}.c', 2, 2) WHERE _change_type = 'delete'") == [(1,)]


def test_what_was_written_is_seen_by_the_next_statement(spark: SparkSession, rows: Rows, flights: str) -> None:
    for number in (10, 11):
        spark.sql(f"INSERT INTO flights VALUES ({number}, DATE'2026-01-03')")
        assert (number,) in rows("SELECT id FROM flights")
        assert spark.table("flights").where(f"id = {number}").count() == 1


def test_names_answer_the_methods_of_sessions(spark: SparkSession, rows: Rows, flights: str, db: str) -> None:
    spark.range(2).write.format("delta").saveAsTable("made")
    spark.range(2, 3).write.format("delta").mode("append").saveAsTable("made")
    spark.range(3, 4).write.insertInto("made")
    assert rows("SELECT id FROM made") == [(0,), (1,), (2,), (3,)]
    assert spark.read.option("versionAsOf", 0).table("made").count() == 2
    assert spark.table(f"{db}.made@v1").count() == 3
    assert spark.catalog.tableExists("made")
    assert not spark.catalog.tableExists("missing")
    spark.range(9).write.format("delta").mode("overwrite").saveAsTable("made")
    assert spark.table("made").count() == 9
    assert slackwater.DeltaTable.forName(spark, "made").toDF().count() == 9
    spark.range(5).write.insertInto("made", overwrite=True)
    assert spark.table("made").count() == 5


def test_a_frame_of_a_name_stays_and_is_read_again(spark: SparkSession, flights: str) -> None:
    frame = spark.sql("SELECT * FROM flights")
    before = frame.count()
    spark.sql("INSERT INTO flights VALUES (77, DATE'2026-01-03')")
    assert (frame.count(), spark.table("flights").count()) == (before, before + 1)


def test_mistakes_are_named(spark: SparkSession, flights: str, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match=r"nope.*cannot be found"):
        spark.sql("SELECT * FROM nope").collect()
    with pytest.raises(AnalysisException, match="nope"):
        spark.sql("SELECT nope FROM flights").collect()
    with pytest.raises(TableNotFound, match="is not a Delta table"):
        spark.sql(f"SELECT * FROM delta.`{tmp_path}/none`")
    with pytest.raises(InvalidArgument, match="a second time"):
        spark.sql("SELECT * FROM flights FOR SYSTEM_TIME FROM '2026-01-01'")
    with pytest.raises(TableNotFound, match="is not a Delta table"):
        slackwater.DeltaTable.forName(spark, "nope")


def test_a_session_that_opts_out_is_spark_s(spark: SparkSession, flights: str) -> None:
    plain = spark.newSession()
    plain.conf.set("spark.slackwater.enabled", "false")
    with pytest.raises(Exception, match=r"delta|DELTA|DATA_SOURCE"):
        plain.sql(f"SELECT * FROM {flights}").collect()


@pytest.mark.parametrize("name", ["a b", "a.b", "ü-ñ", "se`lect", "select", "1st", "日本", 'quo"te'])
def test_tables_of_any_name(spark: SparkSession, rows: Rows, db: str, tmp_path: Path, name: str) -> None:
    quoted = "`" + name.replace("`", "``") + "`"
    path = tmp_path / name
    spark.range(3).write.format("delta").save(str(path))
    assert rows(f"SELECT count(*) FROM delta.`{str(path).replace('`', '``')}`") == [(3,)]
    if name.isidentifier() and name.isascii():
        spark.sql(f"CREATE TABLE {quoted} (id INT) USING delta")
        spark.sql(f"INSERT INTO {quoted} VALUES (1)")
        assert rows(f"SELECT {quoted}.id FROM {quoted}") == [(1,)]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("SELECT id FROM wide WHERE p = 1", ["id", "p"]),
        ("SELECT count(*) FROM wide", []),
        ("SELECT w.id * 2, `odd name` FROM wide w ORDER BY s.a", ["id", "odd name", "s"]),
        ("SELECT * FROM wide", ["id", "odd name", "p", "s"]),
        ("SELECT w.* FROM wide w", ["id", "odd name", "p", "s"]),
        ("SELECT x FROM wide AS w (x, y, z, q)", ["id", "odd name", "p", "s"]),
        ("SELECT id FROM wide NATURAL JOIN (SELECT 1 AS p)", ["id", "odd name", "p", "s"]),
    ],
)
def test_rows_by_arrow_are_of_the_columns_that_are_named(
    spark: SparkSession, db: str, conf: Callable[[str, str], None], text: str, read: list[str]
) -> None:
    spark.sql(
        "CREATE TABLE wide USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name') AS "
        "SELECT 1 AS id, 'v' AS `odd name`, 1 AS p, named_struct('a', 1) AS s"
    )
    expected = spark.sql(text).collect()
    conf("spark.slackwater.rows", "arrow")
    found = rewritten(spark, text)
    assert found is not None
    (frame,) = found.views.values()
    assert sorted(name for name in frame.columns if not name.startswith("__")) == read
    assert spark.sql(text).collect() == expected


@pytest.mark.long
def test_versions_of_rows_by_time_are_those_of_the_method(spark: SparkSession, rows: Rows, db: str) -> None:
    spark.sql(
        "CREATE TABLE h (id INT, v INT) USING delta TBLPROPERTIES "
        "('delta.enableRowTracking' = 'true', 'delta.enableInCommitTimestamps' = 'true')"
    )
    spark.sql("INSERT INTO h VALUES (1, 1), (2, 1)")
    spark.sql("UPDATE h SET v = 2 WHERE id = 1")
    spark.sql("DELETE FROM h WHERE id = 2")
    table = slackwater.DeltaTable.forName(spark, "h")
    times = [row.timestamp.astimezone(dt.timezone.utc) for row in table.history().orderBy("version").collect()]
    said = [f"TIMESTAMP '{each.replace(tzinfo=None).isoformat(' ')}Z'" for each in times]
    for first, last in ((1, 2), (1, 3), (2, 3)):
        found = table.system_time()
        from_to = sorted(
            map(tuple, found.from_to(times[first].isoformat(), times[last].isoformat()).collect()), key=str
        )
        between = sorted(
            map(tuple, found.between(times[first].isoformat(), times[last].isoformat()).collect()), key=str
        )
        assert rows(f"SELECT * FROM h FOR SYSTEM_TIME FROM {said[first]} TO {said[last]}") == from_to
        assert rows(f"SELECT * FROM h FOR SYSTEM_TIME BETWEEN {said[first]} AND {said[last]}") == between
    # What begins at the second time is of BETWEEN, and not of FROM … TO.
    given = {"a": times[1], "b": times[2]}
    assert rows("SELECT id, v FROM h FOR SYSTEM_TIME FROM :a TO :b", given) == [(1, 1), (2, 1)]
    assert rows("SELECT id, v FROM h FOR SYSTEM_TIME BETWEEN :a AND :b", given) == [(1, 1), (1, 2), (2, 1)]
    given_between = "h FOR SYSTEM_TIME BETWEEN :a AND :b v"
    assert rows(f"SELECT v.id, h.v FROM {given_between} JOIN h ON v.id = h.id WHERE v.v = 1", given) == [(1, 2)]


def test_columns_that_an_alias_renames_are_the_ones_that_a_condition_is_about(
    spark: SparkSession, rows: Rows, db: str
) -> None:
    spark.sql("CREATE TABLE pair (a INT, b INT) USING delta")
    spark.sql("INSERT INTO pair VALUES (1, 2)")
    spark.sql("INSERT INTO pair VALUES (2, 1)")
    assert rows("SELECT * FROM pair AS p (b, a) WHERE b = 1") == [(1, 2)]
    assert rows("SELECT p.a FROM pair p (b, a) JOIN (SELECT 1) ON true WHERE p.a = 1") == [(1,)]
