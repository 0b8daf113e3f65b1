"""`spark.catalog` of Delta tables: in the session's catalog, in lakes, at paths."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T

import slackwater
from slackwater.errors import UnsupportedFeature

pytestmark = [pytest.mark.spark, pytest.mark.modes]


@pytest.fixture
def people(spark: SparkSession, db: str) -> str:
    """A table whose columns have changed since it went into the catalog."""
    spark.sql("CREATE TABLE people (id INT NOT NULL COMMENT 'key', day DATE) USING delta PARTITIONED BY (day)")
    spark.sql("ALTER TABLE people ADD COLUMNS (at STRUCT<x: INT>)")
    return f"{db}.people"


def test_columns_are_those_of_the_log(spark: SparkSession, people: str, db: str) -> None:
    found = {c.name: (c.dataType, c.isPartition, c.description) for c in spark.catalog.listColumns("people")}
    assert found == {
        "id": ("int", False, "key"),
        "day": ("date", True, None),
        "at": ("struct<x:int>", False, None),
    }
    assert [c.nullable for c in spark.catalog.listColumns(people)] == [False, True, True]
    spark.sql("CREATE TABLE dealt (a INT, b INT) USING delta CLUSTER BY (b)")
    assert [c.isCluster for c in spark.catalog.listColumns(f"{db}.dealt")] == [False, True]


def test_tables_are_described_by_what_they_are(
    spark: SparkSession, people: str, db: str, lake: slackwater.Lake, tmp_path: Path
) -> None:
    spark.sql("COMMENT ON TABLE people IS 'who'")
    found = spark.catalog.getTable("people")
    assert (found.name, found.catalog, found.namespace) == ("people", "spark_catalog", [db])
    assert (found.description, found.tableType, found.isTemporary) == ("who", "MANAGED", False)
    found = spark.catalog.getTable("lake.stock")
    assert (found.name, found.catalog) == ("stock", "lake")
    spark.range(1).write.format("delta").save(str(tmp_path / "t"))
    assert spark.catalog.getTable(f"delta.`{tmp_path / 't'}`").tableType == "EXTERNAL"
    assert spark.catalog.listColumns("lake.orders")[0].name == "id"
    if hasattr(spark.catalog, "getTableProperties"):
        spark.sql("ALTER TABLE people SET TBLPROPERTIES ('a.b' = 'c')")
        assert spark.catalog.getTableProperties("people")["a.b"] == "c"


def test_a_table_is_created_with_its_log(spark: SparkSession, db: str, tmp_path: Path) -> None:
    schema = T.StructType([T.StructField("id", T.IntegerType(), False), T.StructField("s", T.StringType())])
    frame = spark.catalog.createTable("made", source="delta", schema=schema, description="what it is")
    assert (frame.columns, frame.count()) == (["id", "s"], 0)
    assert spark.catalog.getTable("made").description == "what it is"
    assert slackwater.DeltaTable.forName(spark, "made").history().count() == 1
    frame = spark.catalog.createTable("there", str(tmp_path / "there"), "delta", schema)
    assert spark.catalog.getTable("there").tableType == "EXTERNAL"
    assert (tmp_path / "there" / "_delta_log").is_dir()
    # A table that is there already has its own columns.
    spark.catalog.createTable("again", str(tmp_path / "there"), "delta")
    assert spark.table("again").columns == ["id", "s"]


def test_what_is_kept_of_a_table_needs_no_refresh_and_no_cache(spark: SparkSession, people: str) -> None:
    spark.catalog.refreshTable(people)
    assert spark.catalog.isCached(people) is False
    with pytest.raises(UnsupportedFeature, match=r"cacheTable\('people'\).*Cache a DataFrame"):
        spark.catalog.cacheTable("people")
    with pytest.raises(UnsupportedFeature, match="recoverPartitions"):
        spark.catalog.recoverPartitions("people")


def test_a_view_of_the_catalog_is_cached_unless_it_has_a_delta_table(spark: SparkSession, db: str) -> None:
    spark.sql("CREATE TABLE others USING parquet AS SELECT 1 AS id")
    spark.sql("CREATE VIEW of_others AS SELECT * FROM others")
    spark.sql("CREATE TABLE counted (id INT) USING delta")
    spark.sql("CREATE VIEW of_counted AS SELECT * FROM counted")
    spark.catalog.cacheTable("of_others")
    assert spark.catalog.isCached("of_others")
    for name in ("of_counted", f"{db}.of_counted"):
        with pytest.raises(UnsupportedFeature, match=rf"cacheTable\('{name}'\).*Cache a DataFrame"):
            spark.catalog.cacheTable(name)
    spark.sql("CREATE TEMPORARY VIEW for_now AS SELECT * FROM counted")
    spark.catalog.cacheTable("for_now")
    assert spark.catalog.isCached("for_now")
    spark.catalog.uncacheTable("for_now")
    spark.catalog.uncacheTable("of_others")
    spark.catalog.dropTempView("for_now")


def test_choosing_a_database_leaves_the_lake(spark: SparkSession, db: str, lake: slackwater.Lake, people: str) -> None:
    spark.sql("USE lake")
    assert spark.table("stock").columns[0] == "sku"
    spark.catalog.setCurrentDatabase(db)
    assert spark.table("people").columns[0] == "id"
    spark.catalog.setCurrentCatalog("lake")
    assert spark.table("stock").columns[0] == "sku"
    spark.catalog.setCurrentCatalog("spark_catalog")
    assert spark.table(people).columns[0] == "id"


def test_tables_of_others_are_sparks(spark: SparkSession, db: str) -> None:
    spark.sql("CREATE TABLE plain (id INT COMMENT 'c') USING parquet")
    assert [c.description for c in spark.catalog.listColumns("plain")] == ["c"]
    with pytest.warns(FutureWarning, match="dbName"):
        assert [c.name for c in spark.catalog.listColumns("plain", db)] == ["id"]
    assert spark.catalog.getTable("plain").tableType == "MANAGED"
    spark.catalog.cacheTable("plain")
    assert spark.catalog.isCached("plain")
    spark.catalog.uncacheTable("plain")
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.catalog.listColumns("nowhere")
