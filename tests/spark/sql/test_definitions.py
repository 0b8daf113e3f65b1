"""CREATE, REPLACE and DROP TABLE, clones and views by SQL; what the catalog holds afterwards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import slackwater
from slackwater.errors import InvalidArgument, TableAlreadyExists, TableNotFound, UnsupportedFeature
from tests.spark.written import struct_of

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("db")]

Rows = Callable[..., list[tuple[Any, ...]]]


def detail(spark: SparkSession, name: str) -> Any:
    return slackwater.DeltaTable.forName(spark, name).detail().collect()[0]


def test_a_table_with_everything(spark: SparkSession, rows: Rows) -> None:
    spark.sql(
        """CREATE TABLE t (
          id BIGINT NOT NULL COMMENT 'the key',
          s STRUCT<a: INT, b: ARRAY<DECIMAL(10, 2)>>,
          ts TIMESTAMP,
          day DATE GENERATED ALWAYS AS (CAST(ts AS DATE))
        ) USING DELTA PARTITIONED BY (day) COMMENT 'all of it' TBLPROPERTIES ('a.b' = 'c', delta.appendOnly = true)"""
    )
    found = detail(spark, "t")
    assert (found.description, found.partitionColumns) == ("all of it", ["day"])
    assert (found.properties["a.b"], found.properties["delta.appendOnly"]) == ("c", "true")
    schema = slackwater.DeltaTable.forName(spark, "t").toDF().schema
    assert schema["s"].dataType == struct_of("s STRUCT<a: INT, b: ARRAY<DECIMAL(10, 2)>>")["s"].dataType
    assert schema["id"].metadata["comment"] == "the key"
    spark.sql("INSERT INTO t (id, ts) VALUES (1, TIMESTAMP'2026-01-02 03:04:05')")
    assert rows("SELECT id, CAST(day AS STRING) FROM t") == [(1, "2026-01-02")]


def test_a_table_is_in_the_catalog_as_delta(spark: SparkSession, db: str, tmp_path: Path) -> None:
    spark.sql("CREATE TABLE managed (id INT) USING delta")
    spark.sql(f"CREATE TABLE external (id INT) USING delta LOCATION '{tmp_path}/elsewhere'")
    listed = {row.tableName for row in spark.sql("SHOW TABLES").collect()}
    assert {"managed", "external"} <= listed
    assert (tmp_path / db / "managed" / "_delta_log").is_dir()
    spark.sql("DROP TABLE managed")
    spark.sql("DROP TABLE external")
    assert not (tmp_path / db / "managed").exists()
    assert (tmp_path / "elsewhere" / "_delta_log").is_dir()
    spark.sql(f"CREATE TABLE again USING delta LOCATION '{tmp_path}/elsewhere'")
    assert spark.table("again").columns == ["id"]


def test_another_session_of_the_catalog_finds_it(spark: SparkSession, db: str) -> None:
    spark.sql("CREATE TABLE t (id INT) USING delta")
    spark.sql("INSERT INTO t VALUES (1)")
    other = slackwater.enable(spark.newSession())
    assert other.sql(f"SELECT * FROM {db}.t").count() == 1
    for statement in (f"ALTER TABLE {db}.t RENAME TO {db}.u", f"DROP TABLE {db}.u"):
        slackwater.enable(spark.newSession()).sql(statement)
    assert not spark.catalog.tableExists("u")


def test_a_table_as_a_query(spark: SparkSession, rows: Rows) -> None:
    spark.sql(
        "CREATE TABLE a USING delta PARTITIONED BY (p) TBLPROPERTIES (k = 'v') AS SELECT id, id % 2 AS p FROM range(4)"
    )
    assert detail(spark, "a").properties["k"] == "v"
    spark.sql("CREATE TABLE IF NOT EXISTS a USING delta AS SELECT 'no' AS other")
    assert rows("SELECT * FROM a") == [(0, 0), (1, 1), (2, 0), (3, 1)]
    spark.sql("CREATE OR REPLACE TABLE a USING delta COMMENT 'new' AS SELECT id FROM a WHERE p = 1")
    assert rows("SELECT * FROM a") == [(1,), (3,)]
    assert detail(spark, "a").description == "new"
    spark.sql("REPLACE TABLE a USING delta CLUSTER BY (name) AS SELECT 'x' AS name")
    assert rows("SELECT * FROM a") == [("x",)]
    assert detail(spark, "a").clusteringColumns == ["name"]
    assert rows("SELECT id FROM a VERSION AS OF 1") == [(1,), (3,)]
    assert [row.operation for row in spark.sql("DESCRIBE HISTORY a").collect()] == [
        "REPLACE TABLE AS SELECT",
        "CREATE OR REPLACE TABLE AS SELECT",
        "CREATE TABLE AS SELECT",
    ]


def test_a_table_that_a_query_replaces_has_its_own_properties_in_one_commit(spark: SparkSession, rows: Rows) -> None:
    spark.sql("CREATE TABLE a USING delta COMMENT 'old' TBLPROPERTIES (k = 'v', o = 'w') AS SELECT 1 AS id")
    spark.sql(
        "CREATE OR REPLACE TABLE a USING delta PARTITIONED BY (p) COMMENT 'new' TBLPROPERTIES (k = 'x', "
        "'delta.enableDeletionVectors' = 'true') AS SELECT id + 1 AS id, 'é' AS p FROM a"
    )
    found = detail(spark, "a")
    assert (found.description, found.partitionColumns) == ("new", ["p"])
    assert dict(found.properties) == {"k": "x", "delta.enableDeletionVectors": "true"}
    history = spark.sql("DESCRIBE HISTORY a").collect()
    assert [row.version for row in history] == [1, 0]
    assert history[0].operationParameters["partitionBy"] == '["p"]'
    assert history[0].operationMetrics["numOutputRows"] == "1"
    assert rows("SELECT * FROM a") == [(2, "é")]
    spark.sql("CREATE OR REPLACE TABLE a USING delta AS SELECT 3 AS id WHERE false")
    assert rows("SELECT * FROM a") == []
    assert dict(detail(spark, "a").properties) == {}


def test_a_table_like_another(spark: SparkSession, rows: Rows) -> None:
    spark.sql(
        "CREATE TABLE a (id INT NOT NULL, v STRING DEFAULT 'x') USING delta PARTITIONED BY (v) TBLPROPERTIES (k='w')"
    )
    spark.sql("INSERT INTO a VALUES (1, 'y')")
    spark.sql("CREATE TABLE b LIKE a")
    spark.sql("INSERT INTO b (id) VALUES (2)")
    assert rows("SELECT * FROM b") == [(2, "x")]
    assert (detail(spark, "b").partitionColumns, detail(spark, "b").properties["k"]) == (["v"], "w")


def test_a_clone(spark: SparkSession, rows: Rows) -> None:
    spark.sql("CREATE TABLE a USING delta AS SELECT id FROM range(3)")
    spark.sql("DELETE FROM a WHERE id = 0")
    (told,) = spark.sql("CREATE TABLE b SHALLOW CLONE a").collect()
    size = sum(file.stat().st_size for file in Path(detail(spark, "a").location.partition(":")[2]).glob("*.parquet"))
    live = spark.table("a").inputFiles()
    assert told.source_num_of_files == len(live)
    assert 0 < told.source_table_size <= size
    assert (told.num_removed_files, told.num_copied_files, told.removed_files_size, told.copied_files_size) == (0,) * 4
    spark.sql("CREATE OR REPLACE TABLE c SHALLOW CLONE a VERSION AS OF 0 TBLPROPERTIES ('k' = 'v')")
    assert (rows("SELECT * FROM b"), rows("SELECT * FROM c")) == ([(1,), (2,)], [(0,), (1,), (2,)])
    assert detail(spark, "c").properties["k"] == "v"
    with pytest.raises(UnsupportedFeature, match="DEEP CLONE"):
        spark.sql("CREATE TABLE d DEEP CLONE a")


def test_a_path_is_a_name_for_a_new_table(spark: SparkSession, rows: Rows, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/p` (id INT) USING delta")
    spark.sql(f"INSERT INTO delta.`{tmp_path}/p` VALUES (1)")
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/q` USING delta AS SELECT * FROM delta.`{tmp_path}/p`")
    assert rows(f"SELECT * FROM delta.`{tmp_path}/q`") == [(1,)]


def test_the_builder_takes_names(spark: SparkSession, rows: Rows, db: str) -> None:
    table = slackwater.DeltaTable.create(spark).tableName("built").addColumn("id", "INT").execute()
    table.delete()
    spark.sql("INSERT INTO built VALUES (1)")
    assert rows(f"SELECT * FROM {db}.built") == [(1,)]
    with pytest.raises(TableAlreadyExists):
        slackwater.DeltaTable.create(spark).tableName("built").addColumn("id", "INT").execute()
    slackwater.DeltaTable.createOrReplace(spark).tableName("built").addColumn("x", "STRING").execute()
    assert spark.table("built").columns == ["x"]


def test_what_fails_leaves_no_name(spark: SparkSession, db: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument):
        spark.sql("CREATE TABLE t (id INT) USING delta PARTITIONED BY (nope)")
    with pytest.raises(Exception, match="broken"):
        spark.sql("CREATE TABLE t USING delta AS SELECT CAST(raise_error('broken') AS INT) AS x")
    assert not spark.catalog.tableExists("t")
    assert not (tmp_path / db / "t").exists()


def test_a_name_that_is_taken(spark: SparkSession, rows: Rows) -> None:
    spark.sql("CREATE TABLE t (id INT) USING delta")
    spark.sql("CREATE TABLE IF NOT EXISTS t (other STRING) USING delta")
    with pytest.raises(TableAlreadyExists, match="REPLACE"):
        spark.sql("CREATE TABLE t (id INT) USING delta")
    with pytest.raises(TableNotFound, match="cannot be replaced"):
        spark.sql("REPLACE TABLE missing (id INT) USING delta")
    spark.sql("CREATE TABLE plain (id INT) USING parquet")
    with pytest.raises(InvalidArgument, match="parquet"):
        spark.sql("CREATE OR REPLACE TABLE plain (id INT) USING delta")
    with pytest.raises(InvalidArgument, match="not as a Delta table"):
        spark.range(1).write.format("delta").mode("overwrite").saveAsTable("plain")
    with pytest.raises(TableAlreadyExists):
        spark.range(1).write.format("delta").saveAsTable("t")


def test_no_parquet_table_where_delta_was_asked(spark: SparkSession, conf: Callable[[str, str], None]) -> None:
    conf("spark.sql.sources.default", "delta")
    spark.sql("CREATE TABLE t (id INT)")
    spark.sql("CREATE TABLE u AS SELECT 1 AS id")
    spark.range(1).write.saveAsTable("v")
    for name in ("t", "u", "v"):
        assert detail(spark, name).format == "delta"


def test_views_over_tables(spark: SparkSession, rows: Rows) -> None:
    spark.sql("CREATE TABLE t USING delta AS SELECT id FROM range(3)")
    spark.sql("CREATE OR REPLACE TEMP VIEW seen AS SELECT id + 1 AS next FROM t WHERE id > 0")
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW named (n) AS SELECT * FROM t")
    assert rows("SELECT * FROM seen") == [(2,), (3,)]
    assert spark.table("named").columns == ["n"]


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("CREATE TABLE t (id INT, CHECK (id > 0)) USING delta", UnsupportedFeature, "ADD CONSTRAINT"),
        ("CREATE TABLE t (id INT) USING delta CLUSTERED BY (id) INTO 4 BUCKETS", UnsupportedFeature, "CLUSTERED"),
        ("CREATE TABLE t (id NOPE) USING delta", InvalidArgument, "NOPE"),
        ("CREATE TABLE t (id INT) USING delta AS SELECT 1", InvalidArgument, "the query after AS defines the columns"),
        ("CREATE OR REPLACE TABLE IF NOT EXISTS t (id INT) USING delta", InvalidArgument, "IF NOT EXISTS"),
        ("CREATE TABLE a.b.c (id INT) USING delta", InvalidArgument, "two parts"),
    ],
)
def test_mistakes_are_named(spark: SparkSession, text: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        spark.sql(text)
    assert not spark.catalog.tableExists("t")


def test_text_that_is_kept_is_refused(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE t USING delta AS SELECT id FROM range(3)")
    for text in (
        "CREATE FUNCTION f() RETURNS BIGINT RETURN (SELECT max(id) FROM t)",
        "CREATE TEMPORARY FUNCTION f() RETURNS BIGINT RETURN SELECT max(id) FROM t",
    ):
        with pytest.raises(UnsupportedFeature, match="stores this text"):
            spark.sql(text)


def test_a_query_is_cached(spark: SparkSession, rows: Rows) -> None:
    spark.sql("CREATE TABLE t USING delta AS SELECT id FROM range(3)")
    spark.sql("CACHE TABLE kept AS SELECT id + 1 AS next FROM t")
    spark.sql("DELETE FROM t")
    assert rows("SELECT * FROM kept") == [(1,), (2,), (3,)]
    assert spark.catalog.isCached("kept")
    with pytest.raises(UnsupportedFeature, match="newer versions"):
        spark.sql("CACHE TABLE t")
    spark.catalog.uncacheTable("kept")
    spark.catalog.dropTempView("kept")
