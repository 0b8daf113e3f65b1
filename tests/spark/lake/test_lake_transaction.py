"""Transactions over many tables with Spark: own writes, one consistent state, one timestamp in rows and logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

import slackwater
from slackwater.errors import (
    ConcurrentAppendException,
    InvalidArgument,
    InvariantViolationException,
    OperationNotAllowed,
    TableNotFound,
    TransactionEnded,
    UnsupportedFeature,
)
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.spark.lake.transaction import LakeTransaction

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


def _elsewhere(work: Callable[[], Any]) -> Any:
    """What `work` answers outside of the block: in a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


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
        others = _elsewhere(lambda: _quantities(lake.table("stock").toDF()))
        assert others == {"A1": 10, "B2": 5}
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


def test_what_the_session_says_of_its_commits_is_said_of_a_transaction(
    spark: SparkSession, lake: slackwater.Lake, conf: Callable[[str, str], None]
) -> None:
    setting = "spark.databricks.delta.commitInfo.userMetadata"
    conf(setting, "counted")
    with lake.transaction(spark) as tx:
        tx.table("orders").append(_order(spark, 1))
        tx.table("stock").update("sku = 'A1'", {"qty": "qty - 1"})
        tx.table("stock").delete("sku = 'B2'")
        conf(setting, "checked")
        tx.table("stock").append(_stock(spark, ("C3", 1)))
    said = {name: lake.table(name).history(1).collect()[0]["userMetadata"] for name in ("orders", "stock")}
    assert said == {"orders": "counted", "stock": "counted\nchecked"}


def test_the_state_is_that_of_the_beginning(spark: SparkSession, lake: slackwater.Lake) -> None:
    tx = lake.transaction(spark)
    lake.table("stock").delete("sku = 'A1'")
    assert _quantities(tx.table("stock").toDF()) == {"A1": 10, "B2": 5}
    tx.rollback()


def test_a_read_that_others_made_wrong_is_a_conflict_and_run_repeats_it(
    spark: SparkSession, lake: slackwater.Lake
) -> None:
    def move(tx: LakeTransaction, is_disturbed: bool) -> int:
        total: int = sum(row.qty for row in tx.table("stock").toDF().collect())
        if is_disturbed:
            disturbance = _stock(spark, ("X", 100)).write.format("delta").mode("append")
            _elsewhere(lambda: disturbance.save(lake.location("stock")))
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
        _elsewhere(lambda: _stock(spark, ("C3", 3)).write.format("delta").mode("append").save(path))
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
    with pytest.raises(InvalidArgument, match="must be a string"):
        tx.table(lake.table("stock"))  # type: ignore[arg-type]
    tx.rollback()


@pytest.mark.parametrize("option", [{"versionAsOf": 0}, {"timestampAsOf": "2026-01-01"}, {"readChangeFeed": True}])
def test_a_table_in_it_is_of_one_version(spark: SparkSession, lake: slackwater.Lake, option: dict[str, Any]) -> None:
    with lake.transaction(spark) as tx:
        stock = tx.table("stock")
        for read in (stock.toDF, partial(stock.where, "true")):
            with pytest.raises(InvalidArgument, match=rf"already has a version\. Leave out {next(iter(option))}"):
                read(**option)


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


def test_nothing_goes_past_an_open_transaction(spark: SparkSession, lake: slackwater.Lake, tmp_path: Path) -> None:
    path = lake.location("stock")
    (tmp_path / "link").symlink_to(path)
    reader, more = spark.read.format("delta"), _stock(spark, ("C3", 3))
    past: dict[str, Callable[[], Any]] = {
        "load": lambda: reader.load(path),
        "load of a version": lambda: reader.load(f"{path}@v0"),
        "load by another name": lambda: reader.load(f"file:{tmp_path}/link/"),
        "feed": lambda: (
            spark.read.format("delta").option("readChangeFeed", True).option("startingVersion", 0).load(path)
        ),
        "DeltaTable": lambda: slackwater.DeltaTable.forPath(spark, path).toDF(),
        "forName": lambda: slackwater.DeltaTable.forName(spark, f"delta.`{path}`").delete("true"),
        "lake.table": lambda: lake.table("stock").toDF(),
        "system_time": lambda: lake.table("stock").system_time().from_to("2020-01-01", "2030-01-01"),
        "append": lambda: more.write.format("delta").mode("append").save(path),
        "overwrite": lambda: more.write.format("delta").mode("overwrite").save(path),
        "update": lambda: lake.table("stock").update("true", {"qty": "0"}),
        "delete": lambda: lake.table("stock").delete(),
        "merge": lambda: lake.table("stock").merge(more, "false").whenNotMatchedInsertAll().execute(),
        "properties": lambda: lake.table("stock").setProperties({"mine": "1"}),
        "replace": lambda: slackwater.DeltaTable.replace(spark).location(path).addColumn("a", "INT").execute(),
        "feature": lambda: lake.table("stock").dropFeatureSupport("deletionVectors"),
    }
    more.write.format("delta").save(str(tmp_path / "plain"))
    before = lake.snapshot("stock").version
    with lake.transaction(spark) as tx:
        for work in past.values():
            with pytest.raises(OperationNotAllowed, match=r"Use tx\.table\(name\)"):
                work()
        # What the log says is no row of the table; past states, and tables of others, are asked for by name.
        assert lake.snapshot("stock").version == lake.table("stock").history(1).collect()[0].version == before
        assert _quantities(lake.as_of(tx.begun_at).table("stock").toDF()) == {"A1": 10, "B2": 5}
        assert _quantities(reader.load(str(tmp_path / "plain"))) == {"C3": 3}
        more.write.format("delta").mode("append").save(str(tmp_path / "plain"))
    assert _quantities(reader.load(path)) == {"A1": 10, "B2": 5}
