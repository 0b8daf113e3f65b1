"""Transactions over many tables with Spark: own writes, one consistent state, one timestamp in rows and logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F  # noqa: N812  (the name the field uses)

import slackwater
from slackwater.errors import (
    ConcurrentAppendException,
    InvalidArgument,
    InvariantViolationException,
    TableNotFound,
    TransactionEnded,
    UnsupportedFeature,
)
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.spark.lake_transaction import LakeTransaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Iterator[slackwater.Lake]:
    """Orders that are empty, and a stock of two."""
    owner = EmbeddedOwner.open(tmp_path / "lake", backfill_delay_s=None)
    with slackwater.Lake(owner, owner.root_url, spark=spark) as opened:
        opened.create_table("orders", "id BIGINT, sku STRING, at TIMESTAMP")
        opened.create_table("stock", "sku STRING, qty BIGINT", properties={"delta.enableDeletionVectors": "true"})
        _stock(spark, ("A1", 10), ("B2", 5)).write.format("delta").mode("append").save(opened.location("stock"))
        yield opened


def _stock(spark: SparkSession, *rows: tuple[str, int]) -> DataFrame:
    return spark.createDataFrame(list(rows), "sku STRING, qty BIGINT")


def _order(spark: SparkSession, number: int) -> DataFrame:
    return spark.createDataFrame([(number, "A1")], "id BIGINT, sku STRING")


def _quantities(frame: DataFrame) -> dict[str, int]:
    return {row.sku: row.qty for row in frame.collect()}


def test_rows_logs_and_transaction_agree_on_the_time(spark: SparkSession, lake: slackwater.Lake) -> None:
    with lake.transaction(spark) as tx:
        now = tx.current_timestamp()
        tx.table("orders").append(_order(spark, 1).withColumn("at", F.lit(now)))
        tx.table("stock").update("sku = 'A1'", {"qty": "qty - 1"})
    assert tx.commit_timestamp == now
    assert tx.versions == {"orders": 1, "stock": 2}
    for name in ("orders", "stock"):
        assert lake.snapshot(name).timestamp_ms == round(now.timestamp() * 1000)
    assert lake.table("orders").toDF().where(F.col("at") == F.lit(tx.commit_timestamp)).count() == 1
    assert _quantities(lake.table("stock").toDF()) == {"A1": 9, "B2": 5}


def test_a_transaction_sees_what_it_did_and_others_do_not(spark: SparkSession, lake: slackwater.Lake) -> None:
    with lake.transaction(spark) as tx:
        stock = tx.table("stock")
        stock.append(_stock(spark, ("C3", 1)))
        stock.delete("sku = 'B2'")
        stock.update("sku = 'C3'", {"qty": "qty + 1"})
        merged = _stock(spark, ("A1", 1), ("D4", 4)).alias("s")
        (
            stock.alias("t")
            .merge(merged, "t.sku = s.sku")
            .whenMatchedUpdate(set={"qty": "t.qty + s.qty"})
            .whenNotMatchedInsertAll()
            .execute()
        )
        inside = {"A1": 11, "C3": 2, "D4": 4}
        assert _quantities(stock.toDF()) == inside
        assert _quantities(stock.where("qty > 3")) == {"A1": 11, "D4": 4}
        assert _quantities(lake.table("stock").toDF()) == {"A1": 10, "B2": 5}
    assert _quantities(lake.table("stock").toDF()) == inside
    assert tx.versions == {"stock": 2}
    history = lake.table("stock").history(1).first()
    assert history is not None
    assert history.operation == "TRANSACTION"
    assert '"MERGE"' in history.operationParameters["operations"]


def test_one_operation_is_committed_as_what_it_is(spark: SparkSession, lake: slackwater.Lake) -> None:
    with lake.transaction(spark) as tx:
        tx.table("stock").delete("sku = 'B2'")
    history = lake.table("stock").history(1).first()
    assert history is not None
    assert (history.operation, history.operationMetrics["numDeletedRows"]) == ("DELETE", "1")


def test_the_state_is_that_of_the_beginning(spark: SparkSession, lake: slackwater.Lake) -> None:
    tx = lake.transaction(spark)
    lake.table("stock").delete("sku = 'A1'")
    assert _quantities(tx.table("stock").toDF()) == {"A1": 10, "B2": 5}
    tx.rollback()


def test_a_read_that_others_made_wrong_is_a_conflict_and_run_repeats_it(
    spark: SparkSession, lake: slackwater.Lake
) -> None:
    def move(tx: LakeTransaction, is_disturbed: bool) -> int:
        total = sum(row.qty for row in tx.table("stock").toDF().collect())
        if is_disturbed:
            _stock(spark, ("X", 100)).write.format("delta").mode("append").save(lake.location("stock"))
        tx.table("stock").append(_stock(spark, ("sum", total)))
        return total

    tx = lake.transaction(spark)
    move(tx, True)
    with pytest.raises(ConcurrentAppendException):
        tx.commit()
    calls: list[int] = []

    def once_disturbed(tx: LakeTransaction) -> int:
        calls.append(1)
        return move(tx, len(calls) == 1)

    assert lake.run(once_disturbed, spark=spark) == 215
    assert len(calls) == 2


def test_what_did_not_land_leaves_no_files(spark: SparkSession, lake: slackwater.Lake) -> None:
    def data_files() -> set[Path]:
        return set(Path(lake.location("stock")).glob("*.parquet"))

    before = data_files()
    tx = lake.transaction(spark)
    tx.table("stock").append(_stock(spark, ("C3", 1)))
    tx.table("stock").update("sku = 'C3'", {"qty": "7"})
    assert data_files() > before
    tx.rollback()
    assert data_files() == before
    assert _quantities(lake.table("stock").toDF()) == {"A1": 10, "B2": 5}


def test_rules_of_the_table_hold_inside(spark: SparkSession, lake: slackwater.Lake) -> None:
    lake.table("stock").addConstraint("positive", "qty >= 0")
    tx = lake.transaction(spark)
    with pytest.raises(InvariantViolationException):
        tx.table("stock").update("true", {"qty": "qty - 7"})
    tx.table("orders").append(_order(spark, 1))
    tx.commit()
    assert tx.versions == {"orders": 1}


def test_a_table_can_be_altered_and_written_at_once(spark: SparkSession, lake: slackwater.Lake) -> None:
    with lake.transaction(spark) as tx:
        orders = tx.table("orders")
        orders.append(_order(spark, 1).withColumn("note", F.lit("new")), mergeSchema=True)
        orders.setProperties({"mine": "1"})
    found = lake.table("orders").toDF().first()
    assert found is not None
    assert found.note == "new"
    assert lake.snapshot("orders").metadata.configuration["mine"] == "1"
    assert tx.versions == {"orders": 1}


def test_overwrites_are_part_of_it(spark: SparkSession, lake: slackwater.Lake) -> None:
    with lake.transaction(spark) as tx:
        tx.table("stock").overwrite(_stock(spark, ("A1", 1)), replaceWhere="sku = 'A1'")
        tx.table("stock").append(_stock(spark, ("C3", 3)))
    assert _quantities(lake.table("stock").toDF()) == {"A1": 1, "B2": 5, "C3": 3}


@pytest.mark.parametrize("isolation", ["serializable", "snapshot"])
def test_locks_and_isolation_are_options(spark: SparkSession, lake: slackwater.Lake, isolation: str) -> None:
    with lake.transaction(spark, isolation=isolation, control="locking", writes=["stock"]) as tx:
        assert tx.table("stock").toDF().count() == 2
        tx.table("stock").delete("sku = 'B2'")
    assert _quantities(lake.table("stock").toDF()) == {"A1": 10}


def test_a_change_feed_takes_one_change_of_rows(spark: SparkSession, lake: slackwater.Lake) -> None:
    lake.create_table("fed", "sku STRING, qty BIGINT", properties={"delta.enableChangeDataFeed": "true"})
    with lake.transaction(spark) as tx:
        tx.table("fed").append(_stock(spark, ("A1", 1)))
        tx.table("fed").append(_stock(spark, ("B2", 2)))
    tx = lake.transaction(spark)
    tx.table("fed").append(_stock(spark, ("C3", 3)))
    with pytest.raises(UnsupportedFeature, match="change data feed"):
        tx.table("fed").update("sku = 'A1'", {"qty": "5"})
    tx.commit()
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1)
    rows = feed.load(lake.location("fed")).select("sku", "_change_type", "_commit_version").collect()
    assert sorted(map(tuple, rows)) == [("A1", "insert", 1), ("B2", "insert", 1), ("C3", "insert", 2)]


def test_row_ids_are_unique_and_stay(spark: SparkSession, lake: slackwater.Lake) -> None:
    lake.create_table("tracked", "sku STRING, qty BIGINT", properties={"delta.enableRowTracking": "true"})
    path = lake.location("tracked")
    with lake.transaction(spark) as tx:
        tx.table("tracked").append(_stock(spark, ("A1", 1)))
        tx.table("tracked").append(_stock(spark, ("B2", 2)))
        with pytest.raises(UnsupportedFeature, match="row tracking"):
            tx.table("tracked").update("sku = 'A1'", {"qty": "5"})
        # Somebody else gives out ids in between.
        _stock(spark, ("C3", 3)).write.format("delta").mode("append").save(path)
    read = spark.read.format("delta").option("rowTracking", "true").load(path)
    ids: dict[str, Any] = {row.sku: (row._row_id, row._row_commit_version) for row in read.collect()}
    assert len({row_id for row_id, _ in ids.values()}) == 3
    assert [ids[sku][1] for sku in ("C3", "A1", "B2")] == [1, 2, 2]


def test_what_ended_is_not_used_again(spark: SparkSession, lake: slackwater.Lake) -> None:
    with lake.transaction(spark) as tx:
        stock = tx.table("stock")
    for use in (stock.toDF, lambda: stock.append(_stock(spark, ("Z", 1))), lambda: stock.delete("true")):
        with pytest.raises(TransactionEnded):
            use()
    assert _quantities(lake.table("stock").toDF()) == {"A1": 10, "B2": 5}


def test_tables_are_named(spark: SparkSession, lake: slackwater.Lake) -> None:
    tx = lake.transaction(spark)
    with pytest.raises(TableNotFound):
        tx.table("nowhere")
    with pytest.raises(InvalidArgument, match="named by a text"):
        tx.table(lake.table("stock"))  # type: ignore[arg-type]
    tx.rollback()


def test_days_are_those_of_the_session(spark: SparkSession, lake: slackwater.Lake) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    tx = lake.transaction(spark)
    assert tx.time_zone == zone
    day = tx.current_date()
    tx.table("orders").append(_order(spark, 1).withColumn("at", F.lit(day).cast("timestamp")))
    tx.commit()
    found = lake.table("orders").toDF().select(F.lit(tx.commit_timestamp).cast("date").alias("day")).first()
    assert found is not None
    assert found.day == day
