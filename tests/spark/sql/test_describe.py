"""DESCRIBE and SHOW of Delta tables by SQL: what the log says, with delta-spark's columns."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import slackwater
from slackwater.errors import InvalidArgument, TableNotFound, UnsupportedFeature

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("db")]


@pytest.fixture
def split(spark: SparkSession, db: str) -> slackwater.DeltaTable:
    """The table `t`, of two partitions."""
    spark.sql(
        """CREATE TABLE t (id BIGINT NOT NULL COMMENT 'key', s STRUCT<a: INT, b: STRING>, day DATE, re_gion STRING)
        USING delta PARTITIONED BY (day, re_gion) COMMENT 'all of it' TBLPROPERTIES ('foo' = 'bar')"""
    )
    spark.sql("INSERT INTO t VALUES (1, NULL, DATE'2026-01-01', 'n'), (2, NULL, DATE'2026-01-02', NULL)")
    return slackwater.DeltaTable.forName(spark, "t")


def rows(spark: SparkSession, text: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in spark.sql(text).collect()]


def test_history_is_that_of_the_table(
    spark: SparkSession, split: slackwater.DeltaTable, tmp_path: Path, db: str
) -> None:
    for name in ("t", f"{db}.t", f"'{tmp_path}/{db}/t'", f"delta.`{tmp_path}/{db}/t`"):
        assert spark.sql(f"DESCRIBE HISTORY {name}").collect() == split.history().collect()
    limited = spark.sql("DESC HISTORY t LIMIT 1")
    assert limited.collect() == split.history(1).collect()
    assert limited.schema == split.history().schema


def test_detail_has_the_name_in_the_catalog(
    spark: SparkSession, split: slackwater.DeltaTable, lake: slackwater.Lake, tmp_path: Path, db: str
) -> None:
    (found,) = spark.sql("DESCRIBE DETAIL t").collect()
    assert found.name == f"spark_catalog.{db}.t"
    (by_method,) = split.detail().collect()
    assert {**found.asDict(), "name": None} == by_method.asDict()
    (by_path,) = spark.sql(f"DESC DETAIL '{tmp_path}/{db}/t'").collect()
    assert by_path == by_method
    assert spark.sql("DESC DETAIL lake.stock").collect()[0].name == "lake.stock"


def test_what_is_no_delta_table_has_no_history(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE p (id INT) USING parquet")
    for name in ("p", "nope"):
        with pytest.raises(TableNotFound, match=name):
            spark.sql(f"DESCRIBE HISTORY {name}")


def test_a_table_that_is_called_history_is_described(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE history (id INT COMMENT 'key') USING parquet")
    assert ("data_type", "int") in rows(spark, "DESCRIBE history id")
    assert rows(spark, "DESCRIBE history") == [("id", "int", "key")]


def test_the_columns_are_those_of_the_log(spark: SparkSession, split: slackwater.DeltaTable) -> None:
    expected = [
        ("id", "bigint", "key"),
        ("s", "struct<a:int,b:string>", None),
        ("day", "date", None),
        ("re_gion", "string", None),
        ("# Partition Information", "", ""),
        ("# col_name", "data_type", "comment"),
        ("day", "date", None),
        ("re_gion", "string", None),
    ]
    assert rows(spark, "DESCRIBE t") == rows(spark, "DESC TABLE t") == expected
    assert spark.sql("DESCRIBE t").columns == ["col_name", "data_type", "comment"]
    spark.sql("ALTER TABLE t ADD COLUMN more INT COMMENT 'new' FIRST")
    assert rows(spark, "DESCRIBE t")[0] == ("more", "int", "new")


def test_one_column(spark: SparkSession, split: slackwater.DeltaTable) -> None:
    assert rows(spark, "DESCRIBE t id") == [("col_name", "id"), ("data_type", "bigint"), ("comment", "key")]
    assert rows(spark, "DESCRIBE TABLE t DAY")[2] == ("comment", "NULL")
    with pytest.raises(InvalidArgument, match="top-level column"):
        spark.sql("DESCRIBE t s.a")
    with pytest.raises(InvalidArgument, match="no column nope"):
        spark.sql("DESCRIBE t nope")


@pytest.mark.usefixtures("split")
def test_more_of_a_table(spark: SparkSession, db: str, tmp_path: Path) -> None:
    found = {row[0]: row[1] for row in rows(spark, "DESCRIBE EXTENDED t")}
    assert (found["Catalog"], found["Namespace"], found["Table"]) == ("spark_catalog", db, "t")
    assert (found["Type"], found["Provider"], found["Comment"]) == ("MANAGED", "delta", "all of it")
    assert found["Location"] == spark.sql("DESCRIBE DETAIL t").collect()[0].location
    assert found["Table Properties"].startswith("[delta.minReaderVersion=1,delta.minWriterVersion=")
    assert "foo=bar" in found["Table Properties"]
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')")
    spark.sql("ALTER TABLE t ALTER COLUMN id SET DEFAULT 7")
    assert rows(spark, "DESC FORMATTED t")[-2:] == [("# Column Default Values", "", ""), ("id", "bigint", "7")]
    by_path = {row[0]: row[1] for row in rows(spark, f"DESC EXTENDED delta.`{tmp_path}/{db}/t`")}
    assert (by_path["Name"], by_path["Type"]) == (f"delta.`{tmp_path}/{db}/t`", "EXTERNAL")


@pytest.mark.usefixtures("split")
def test_what_is_not_described_is_refused_by_name(spark: SparkSession) -> None:
    with pytest.raises(UnsupportedFeature, match="AS JSON"):
        spark.sql("DESCRIBE EXTENDED t AS JSON")
    with pytest.raises(UnsupportedFeature, match="PARTITION"):
        spark.sql("DESCRIBE t PARTITION (day = DATE'2026-01-01')")
    with pytest.raises(InvalidArgument, match="the end of the statement"):
        spark.sql("DESCRIBE DETAIL t LIMIT 3")


@pytest.mark.usefixtures("split")
def test_columns(spark: SparkSession, lake: slackwater.Lake, db: str) -> None:
    assert rows(spark, "SHOW COLUMNS IN orders IN lake") == [("id",), ("sku",)]
    expected = [("id",), ("s",), ("day",), ("re_gion",)]
    for text in ("IN t", "FROM t", f"IN t IN {db}", f"IN {db}.t"):
        assert rows(spark, f"SHOW COLUMNS {text}") == expected
    assert spark.sql("SHOW COLUMNS IN t").columns == ["col_name"]


@pytest.mark.usefixtures("split")
def test_properties(spark: SparkSession, db: str) -> None:
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    found = dict(rows(spark, "SHOW TBLPROPERTIES t"))
    assert found["delta.enableDeletionVectors"] == "true"
    assert (found["foo"], found["delta.minReaderVersion"], found["delta.minWriterVersion"]) == ("bar", "3", "7")
    assert found["delta.feature.deletionVectors"] == "supported"
    assert list(found) == sorted(found)
    assert rows(spark, "SHOW TBLPROPERTIES t ('foo')") == rows(spark, "SHOW TBLPROPERTIES t (foo)") == [("foo", "bar")]
    missing = f"Table spark_catalog.{db}.t does not have property: a.b"
    assert rows(spark, "SHOW TBLPROPERTIES t (a.b)") == [("a.b", missing)]


@pytest.mark.usefixtures("split")
def test_partitions_have_the_types_of_their_columns(spark: SparkSession) -> None:
    first, second = (dt.date(2026, 1, 1), "n"), (dt.date(2026, 1, 2), None)
    assert sorted(rows(spark, "SHOW PARTITIONS t"), key=str) == [first, second]
    assert spark.sql("SHOW PARTITIONS t").dtypes == [("day", "date"), ("re_gion", "string")]
    assert rows(spark, "SHOW PARTITIONS t PARTITION (day = DATE'2026-01-02')") == [second]
    assert rows(spark, "SHOW PARTITIONS t PARTITION (re_gion = 'n', day = '2026-01-01')") == [first]
    assert rows(spark, "SHOW PARTITIONS t PARTITION (re_gion = 'x')") == []
    spark.sql("DELETE FROM t")
    assert rows(spark, "SHOW PARTITIONS t") == []
    spark.sql("ALTER TABLE t SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    spark.sql("ALTER TABLE t RENAME COLUMN day TO `the day`")
    spark.sql("INSERT INTO t VALUES (1, NULL, DATE'2026-01-01', 'n')")
    assert rows(spark, "SHOW PARTITIONS t") == [first]
    spark.sql("CREATE TABLE whole (id INT) USING delta")
    with pytest.raises(InvalidArgument, match="not partitioned"):
        spark.sql("SHOW PARTITIONS whole")


DEFINED = [
    """(id BIGINT NOT NULL COMMENT 'it''s \\\\ a key', s STRUCT<x: INT COMMENT 'in', y: ARRAY<MAP<STRING,
       DECIMAL(9,3)>> NOT NULL>, day DATE) USING delta PARTITIONED BY (day) COMMENT 'all of it'
       TBLPROPERTIES ('a.b' = 'c d', 'delta.appendOnly' = 'true')""",
    """(k BIGINT GENERATED BY DEFAULT AS IDENTITY (START WITH 5 INCREMENT BY -2), ts TIMESTAMP,
       v SMALLINT DEFAULT 2 + 1,
       w BOOLEAN DEFAULT NOT true, day DATE GENERATED ALWAYS AS (CAST(ts AS DATE)), b TINYINT, f FLOAT, n TIMESTAMP_NTZ)
       USING delta CLUSTER BY (k, `ts`)""",
    """(`i d` INT, s STRUCT<`a b`: INT>) USING delta CLUSTER BY (s.`a b`)
       TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableRowTracking' = 'true',
       'delta.enableDeletionVectors' = 'true', 'delta.enableInCommitTimestamps' = 'true',
       'delta.constraints.c' = '`i d` > 0')""",
]


@pytest.mark.parametrize("definition", DEFINED, ids=["partitioned", "generated", "features"])
def test_the_statement_that_is_shown_makes_the_same_table(spark: SparkSession, definition: str, db: str) -> None:
    spark.sql(f"CREATE TABLE t {definition}")
    ((text,),) = rows(spark, "SHOW CREATE TABLE t")
    assert text.startswith(f"CREATE TABLE `spark_catalog`.`{db}`.`t` (\n")
    spark.sql(text.replace("`t` (", "`u` (", 1))
    first, second = (slackwater.DeltaTable.forName(spark, name) for name in ("t", "u"))
    assert _defined(first) == _defined(second)
    assert rows(spark, "SHOW CREATE TABLE u") == [(text.replace("`t` (", "`u` (", 1),)]


def _defined(table: slackwater.DeltaTable) -> tuple[Any, ...]:
    found = table.detail().collect()[0].asDict()
    names = ("description", "partitionColumns", "clusteringColumns", "minReaderVersion", "minWriterVersion")
    own = ("rowTracking.materialized", "maxColumnId", "inCommitTimestampEnablement")
    properties = {k: v for k, v in found["properties"].items() if not any(word in k for word in own)}
    columns = [(c.name, str(c.type), c.nullable, _seen(c.metadata)) for c in table._snapshot().schema]
    return {name: found[name] for name in names}, set(found["tableFeatures"]), properties, columns


def _seen(metadata: Any) -> dict[str, Any]:
    return {k: v for k, v in metadata.items() if not k.startswith("delta.columnMapping")}


def test_a_table_with_a_place_of_its_own_says_so(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE t (id INT) USING delta LOCATION '{tmp_path}/it''s here'")
    location = spark.sql("DESCRIBE DETAIL t").collect()[0].location
    assert "LOCATION" in rows(spark, "SHOW CREATE TABLE t")[0][0]
    spark.sql("INSERT INTO t VALUES (1)")
    ((text,),) = rows(spark, "SHOW CREATE TABLE t")
    spark.sql(text.replace("`t` (", "`u` (", 1))
    assert spark.sql("DESCRIBE DETAIL u").collect()[0].location == location
    assert spark.table("u").collect() == [(1,)]


def test_tables_of_a_lake(spark: SparkSession, lake: slackwater.Lake, db: str) -> None:
    spark.sql("CREATE TABLE of_the_catalog (id INT) USING delta")
    both = [("lake", "orders", False), ("lake", "stock", False)]
    assert rows(spark, "SHOW TABLES IN lake") == both
    assert rows(spark, "SHOW TABLES FROM LAKE LIKE 'ST*'") == [both[1]]
    assert rows(spark, "SHOW TABLES IN lake 'x*|orders'") == [both[0]]
    assert [row[1] for row in rows(spark, "SHOW TABLES") if not row[2]] == ["of_the_catalog"]
    spark.sql("USE lake")
    assert rows(spark, "SHOW TABLES") == both
    assert rows(spark, "SHOW TABLES LIKE 'o*'") == [both[0]]
    assert [row[1] for row in rows(spark, f"SHOW TABLES IN {db}") if not row[2]] == ["of_the_catalog"]


def test_a_table_of_a_lake_is_shown_and_made_again(spark: SparkSession, lake: slackwater.Lake) -> None:
    assert rows(spark, "DESCRIBE lake.orders") == [("id", "int", None), ("sku", "string", None)]
    assert {row[0]: row[1] for row in rows(spark, "DESC EXTENDED lake.orders")}["Catalog"] == "lake"
    ((text,),) = rows(spark, "SHOW CREATE TABLE lake.orders")
    spark.sql(text.replace("`orders`", "`again`", 1))
    assert lake.table("again").toDF().schema == lake.table("orders").toDF().schema


def test_tables_and_views_of_others_are_sparks(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE p (id INT, day DATE) USING parquet PARTITIONED BY (day)")
    assert rows(spark, "SHOW PARTITIONS p") == []
    assert rows(spark, "SHOW COLUMNS IN p") == [("id",), ("day",)]
    assert "USING parquet" in rows(spark, "SHOW CREATE TABLE p")[0][0]
    spark.range(1).createOrReplaceTempView("v")
    assert rows(spark, "DESCRIBE v") == [("id", "bigint", None)]
    spark.catalog.dropTempView("v")
    with pytest.raises(AnalysisException):
        spark.sql("DESCRIBE nope")
    assert rows(spark, "DESCRIBE QUERY SELECT 1 AS x") == [("x", "int", None)]


def test_names_with_dots_are_namespaces_of_a_lake(spark: SparkSession, lake: slackwater.Lake, db: str) -> None:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.sales")
    spark.sql("CREATE TABLE lake.sales.flights (id INT)")
    spark.sql("CREATE TABLE lake.sales.eu.flights (id INT)")
    assert rows(spark, "SHOW NAMESPACES IN lake") == [("sales",), ("sales.eu",)]
    assert rows(spark, "SHOW SCHEMAS FROM lake LIKE '*.e*'") == [("sales.eu",)]
    both = [("lake.sales", "eu.flights", False), ("lake.sales", "flights", False)]
    assert rows(spark, "SHOW TABLES IN lake.sales") == both
    assert len(rows(spark, "SHOW TABLES IN lake")) == 4
    spark.sql("USE lake.sales")
    assert rows(spark, "SHOW TABLES LIKE 'f*'") == both[1:]
    spark.sql("INSERT INTO flights VALUES (1)")
    spark.sql("INSERT INTO sales.eu.flights VALUES (2)")
    assert rows(spark, "SELECT id FROM flights UNION ALL SELECT id FROM lake.Sales.EU.Flights") == [(1,), (2,)]
    spark.sql("USE sales.eu")
    assert rows(spark, "SELECT flights.id FROM flights") == [(2,)]
    spark.sql("USE lake")
    assert rows(spark, "SELECT id FROM sales.flights") == [(1,)]
    with pytest.raises(slackwater.errors.OperationNotAllowed, match="has tables"):
        spark.sql("DROP NAMESPACE lake.sales")
    spark.sql("DROP SCHEMA IF EXISTS lake.none CASCADE")
    spark.sql(f"USE {db}")
    assert rows(spark, "SHOW NAMESPACES IN spark_catalog LIKE 'd*'")
