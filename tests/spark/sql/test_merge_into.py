"""`df.mergeInto`, PySpark's own writer of merges, into Delta tables by name, beside the same by DeltaTable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import slackwater
from slackwater.errors import TableNotFound, UnsupportedFeature

pytestmark = [pytest.mark.spark]

Rows = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture
def news(spark: SparkSession, db: str) -> DataFrame:
    """Rows (2, 'n') and (9, 'n') as `s`, beside the table `t` with (1, 'a'), (2, 'b'), (3, 'c')."""
    spark.sql("CREATE TABLE t (id BIGINT, v STRING) USING delta")
    spark.sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    return spark.createDataFrame([(2, "n"), (9, "n")], "id BIGINT, v STRING").alias("s")


def on() -> Any:
    return F.col("t.id") == F.col("s.id")


def test_all_clauses(rows: Rows, news: DataFrame) -> None:
    merge = news.mergeInto("t", on()).whenMatched(F.expr("s.id > 100")).delete().whenMatched().updateAll()
    merge = merge.whenNotMatched(F.expr("s.id = 9")).insert({"id": F.col("s.id"), "v": F.lit("new")})
    merge = merge.whenNotMatchedBySource(F.expr("t.id = 1")).delete()
    last: Any = merge.whenNotMatchedBySource().update({"v": F.lit("left")})
    assert last.merge() is None
    assert rows("SELECT * FROM t") == [(2, "n"), (3, "left"), (9, "new")]


def test_the_schema_evolves_where_that_is_asked_for(spark: SparkSession, rows: Rows, news: DataFrame) -> None:
    wide = news.withColumn("more", F.lit(1)).alias("s")
    wide.mergeInto("t", on()).whenMatched().updateAll().whenNotMatched().insertAll().withSchemaEvolution().merge()
    assert rows("SELECT id, more FROM t WHERE v = 'n'") == [(2, 1), (9, 1)]


def test_a_table_of_a_lake_within_its_transaction(
    spark: SparkSession, rows: Rows, news: DataFrame, lake: slackwater.Lake
) -> None:
    spark.sql("BEGIN TRANSACTION ON lake")
    wanted = news.selectExpr("v AS sku", "CAST(id AS INT) AS qty").alias("s")
    same = F.col("stock.sku") == F.col("s.sku")
    insert = {"sku": F.col("s.sku"), "qty": F.col("s.qty")}
    wanted.mergeInto("lake.stock", same).whenNotMatched(F.expr("s.qty = 9")).insert(insert).merge()
    spark.sql("ROLLBACK")
    assert rows("SELECT * FROM lake.stock") == []


def test_what_is_no_clause_and_no_table_is_said(spark: SparkSession, news: DataFrame) -> None:
    with pytest.raises(UnsupportedFeature, match="no source row"):
        news.mergeInto("t", on()).whenNotMatchedBySource().updateAll()
    with pytest.raises(UnsupportedFeature, match="does not support Insert"):
        cast("Any", news.mergeInto("t", on()).whenMatched()).insert({"id": F.lit(1)})
    # Another format's table is Spark's to refuse, and a name of nothing.
    spark.range(1).write.format("parquet").saveAsTable("plain")
    for name in ("plain", "missing"):
        with pytest.raises(Exception, match=r"(?i)merge|not.*found") as refused:
            news.mergeInto(name, on()).whenMatched().delete().merge()
        assert not isinstance(refused.value, TableNotFound)
