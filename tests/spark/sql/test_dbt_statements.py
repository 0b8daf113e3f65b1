"""The statements that dbt-spark 1.10 sends, as its log had them, in the order of its guide: docs/guides/dbt.md."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.spark.written import rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

SEED = (
    "create schema if not exists shop",
    "show databases",
    "show table extended in shop like '*'",
    "create table shop.raw_orders (`id` bigint,`customer` string,`amount` bigint,`day` date) using delta",
    "insert into shop.raw_orders values (1, 'Ann', 10, cast('2026-11-21' as date)), "
    "(2, 'Bob', -3, cast('2026-11-22' as date)), (3, 'Ann', 7, cast('2026-11-22' as date))",
)
MODELS = (
    "create or replace table shop.orders using delta partitioned by (day) comment 'paid orders' "
    "as select id, customer, amount, day from shop.raw_orders where amount > 0",
    "describe extended shop.orders",
    "alter table shop.orders change column id comment 'number of the order'",
    "alter table shop.orders add constraint positive check (id > 0)",
    "alter table shop.orders change column id set not null",
    "create or replace table shop.customers using delta comment '' "
    "as select customer, sum(amount) as total from shop.orders group by customer",
    "set spark.sql.sources.partitionOverwriteMode = DYNAMIC",
    "create or replace table shop.days using delta partitioned by (day) "
    "as select customer, count(*) as n, day from shop.orders group by day, customer",
    "create or replace view shop.large_orders ( `id` , `customer` , `amount` , `day` ) comment '' "
    "as select * from shop.orders where amount > 8",
    "create or replace table shop.over_time using delta as select *, "
    "md5(coalesce(cast(customer as string ), '') || '|' || coalesce(cast( current_timestamp() as string ), '') ) "
    "as dbt_scd_id, current_timestamp() as dbt_valid_from, "
    "coalesce(nullif( current_timestamp() , current_timestamp() ), null) as dbt_valid_to "
    "from ( select * from shop.customers ) sbq",
)
SECOND_RUN = (
    "insert into shop.raw_orders values (4, 'Cleo', 9, cast('2026-11-23' as date))",
    "create or replace table shop.orders using delta partitioned by (day) "
    "as select id, customer, amount, day from shop.raw_orders where amount > 0",
    "create or replace temporary view customers__dbt_tmp as "
    "select customer, sum(amount) as total from shop.orders group by customer",
    "describe extended customers__dbt_tmp",
    "-- back compat for old kwarg name\n\nmerge into shop.customers as DBT_INTERNAL_DEST using customers__dbt_tmp as "
    "DBT_INTERNAL_SOURCE on DBT_INTERNAL_SOURCE.customer = DBT_INTERNAL_DEST.customer "
    "when matched then update set * when not matched then insert *",
    "create or replace temporary view days__dbt_tmp as "
    "select customer, count(*) as n, day from shop.orders where day > '2026-11-22' group by day, customer",
    "insert overwrite table shop.days partition (day) select `customer`, `n`, `day` from days__dbt_tmp",
    "create or replace view shop.over_time__dbt_tmp as select 'insert' as dbt_change_type, c.*, 'new' as dbt_scd_id, "
    "current_timestamp() as dbt_valid_from, cast(null as timestamp) as dbt_valid_to from shop.customers c "
    "where customer = 'Cleo'",
    "merge into shop.over_time as DBT_INTERNAL_DEST using shop.over_time__dbt_tmp as DBT_INTERNAL_SOURCE "
    "on DBT_INTERNAL_SOURCE.dbt_scd_id = DBT_INTERNAL_DEST.dbt_scd_id when matched and "
    "DBT_INTERNAL_DEST.dbt_valid_to is null and DBT_INTERNAL_SOURCE.dbt_change_type in ('update', 'delete') "
    "then update set dbt_valid_to = DBT_INTERNAL_SOURCE.dbt_valid_to when not matched and "
    "DBT_INTERNAL_SOURCE.dbt_change_type = 'insert' then insert *",
    "drop view if exists shop.over_time__dbt_tmp",
)
TEST = (
    "select count(*) as failures, count(*) != 0 as should_warn, count(*) != 0 as should_error from "
    "( select id as unique_field, count(*) as n_records from shop.orders where id is not null group by id "
    "having count(*) > 1 ) dbt_internal_test"
)


@pytest.fixture
def shop(spark: SparkSession) -> Iterator[None]:
    """The schema of dbt's profile, gone after the test, with the session's settings and temporary views."""
    yield
    spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    for view in ("customers__dbt_tmp", "days__dbt_tmp"):
        spark.catalog.dropTempView(view)
    spark.sql("DROP SCHEMA IF EXISTS shop CASCADE")


@pytest.mark.usefixtures("shop")
def test_the_statements_of_two_runs_of_dbt(spark: SparkSession) -> None:
    for statement in (*SEED, *MODELS, *SECOND_RUN):
        spark.sql(statement)
    assert rows(spark.table("shop.customers")) == [("Ann", 17), ("Cleo", 9)]
    assert rows(spark.table("shop.large_orders").select("id")) == [(1,), (4,)]
    assert rows(spark.table("shop.days").select("customer")) == [("Ann",), ("Ann",), ("Cleo",)]
    assert rows(spark.table("shop.over_time").select("customer")) == [("Ann",), ("Cleo",)]
    assert rows(spark.sql(TEST).select("failures")) == [(0,)]
