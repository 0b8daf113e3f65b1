"""The statements that dbt-spark sends for sources, views, tables, incremental models, snapshots and documentation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.modes]

Rows = Callable[..., list[tuple[Any, ...]]]


def test_a_run_of_dbt(spark: SparkSession, rows: Rows, db: str, tmp_path: Path) -> None:
    spark.sql("create schema if not exists dbt_models")
    try:
        spark.sql(f"create table raw (id int, status string, at date) using delta location '{tmp_path}/raw'")
        spark.sql("insert into raw values (1, 'new', date'2026-01-01'), (2, 'paid', date'2026-01-02')")
        _models(spark, rows, db, tmp_path)
    finally:
        spark.sql("drop schema dbt_models cascade")


def _models(spark: SparkSession, rows: Rows, db: str, tmp_path: Path) -> None:
    assert ("dbt_models",) in rows("show databases")
    assert [row for row in spark.sql("show table extended in dbt_models like '*'").collect() if row.namespace] == []
    stage = f"create or replace view dbt_models.stage comment 'staged' as select id, status, at from {db}.raw"
    spark.sql(stage)
    spark.sql(stage)
    spark.sql(
        "create or replace table dbt_models.orders using delta partitioned by (at) "
        f"location '{tmp_path}/orders' comment 'orders' as select * from dbt_models.stage"
    )
    kinds = {
        row.tableName: row.information for row in spark.sql("show table extended in dbt_models like '*'").collect()
    }
    assert "Type: VIEW" in kinds["stage"]
    assert "Provider: delta" in kinds["orders"]
    assert ("status", "string", None) in rows("describe table extended dbt_models.orders")
    assert ("dbt_models", "stage", False) in rows("show tables in dbt_models like '*'")
    # Incremental: the new rows as a temporary view, merged by their key.
    spark.sql(f"insert into {db}.raw values (2, 'sent', date'2026-01-02'), (3, 'new', date'2026-01-03')")
    spark.sql(
        "create or replace temporary view orders__dbt_tmp as select * from dbt_models.stage "
        "where status = 'sent' or id > (select max(id) from dbt_models.orders)"
    )
    try:
        spark.sql(
            "merge into dbt_models.orders as DBT_INTERNAL_DEST using orders__dbt_tmp as DBT_INTERNAL_SOURCE "
            "on DBT_INTERNAL_SOURCE.id = DBT_INTERNAL_DEST.id "
            "when matched then update set * when not matched then insert *"
        )
        assert rows("select id, status from dbt_models.orders") == [(1, "new"), (2, "sent"), (3, "new")]
        spark.sql("insert into table dbt_models.orders select `id`, `status`, `at` from orders__dbt_tmp where id > 3")
    finally:
        spark.catalog.dropTempView("orders__dbt_tmp")
    spark.sql("insert overwrite table dbt_models.orders partition (at) select id, status, at from dbt_models.stage")
    assert rows("select count(*) from dbt_models.orders") == [(4,)]
    # A snapshot, documentation, constraints, a model that changes its kind.
    spark.sql("alter table dbt_models.orders add columns (dbt_valid_to timestamp)")
    spark.sql("alter table dbt_models.orders change column status comment 'of the order'")
    spark.sql("alter table dbt_models.orders set tblproperties ('team' = 'dbt')")
    spark.sql("alter table dbt_models.orders add constraint positive check (id > 0)")
    spark.sql("alter view dbt_models.stage set tblproperties ('team' = 'dbt')")
    assert ("team", "dbt") in rows("show tblproperties dbt_models.orders")
    assert ("team", "dbt") in rows("show tblproperties dbt_models.stage")
    spark.sql("drop view if exists dbt_models.stage")
    spark.sql(f"create table dbt_models.stage using delta location '{tmp_path}/stage' as select * from {db}.raw")
    assert rows("select count(*) from dbt_models.stage") == [(4,)]
    spark.sql("drop table if exists dbt_models.stage")
    spark.sql("drop table if exists dbt_models.orders")
    assert [row for row in spark.sql("show tables in dbt_models").collect() if row.namespace] == []
