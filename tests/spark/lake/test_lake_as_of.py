"""All tables of a lake at one instant, and what was done to them, as DataFrames."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import pandas as pd  # type: ignore[import-untyped]
from pyspark.sql import functions as F

import slackwater
from slackwater.errors import InvalidArgument, OperationNotAllowed, TableNotFound, TimestampOutOfRange
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.spark.lake.time_slice import LAKE_HISTORY_SCHEMA
from slackwater.spark.session.classic_connect import is_connect
from tests.contract.owners import START_MS, FakeClock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path, clock: FakeClock) -> Iterator[slackwater.Lake]:
    """A lake with an order and its stock: created at second 0, filled by one transaction at 10, changed at 20."""
    owner = EmbeddedOwner.open(tmp_path / "lake", backfill_delay_s=None, clock=clock.owner_clock())
    with slackwater.Lake(owner, owner.root_url, spark=spark) as found:
        found.create_table("orders", "id BIGINT, sku STRING", properties={"delta.enableRowTracking": "true"})
        found.create_table("stock", "sku STRING, n BIGINT")
        clock.now_ms += 10_000
        with found.transaction() as tx:
            tx.table("orders").append(spark.sql("SELECT 1L AS id, 'A' AS sku"), userMetadata="first")
            tx.table("stock").append(spark.sql("SELECT 'A' AS sku, 5L AS n"))
        clock.now_ms += 10_000
        found.table("stock").update("sku = 'A'", {"n": "n - 1"})
        clock.now_ms += 10_000
        yield found


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def test_all_tables_are_of_one_instant(spark: SparkSession, lake: slackwater.Lake) -> None:
    past = lake.as_of(START_MS + 15_000)
    assert past.tables() == ["orders", "stock"]
    assert rows(past.table("orders").toDF().join(past.table("stock").toDF(), "sku")) == [("A", 1, 5)]
    assert rows(past.table("stock").where("n = 5")) == [("A", 5)]
    by_version = spark.read.format("delta").option("versionAsOf", past.version("stock")).load(lake.location("stock"))
    assert rows(past.table("stock").toDF()) == rows(by_version)
    assert past.table("stock").toDF().schema == by_version.schema
    assert rows(lake.as_of(START_MS + 25_000).table("stock").toDF()) == [("A", 4)]
    assert rows(lake.as_of(START_MS + 9_999).table("stock").toDF()) == []
    assert rows(past.table("orders").toDF(rowTracking=True)) == [(1, "A", 0, 1)]


def test_a_table_of_a_slice_reads_as_any_other(lake: slackwater.Lake) -> None:
    then = lake.as_of(START_MS + 15_000).table("stock")
    assert then.version == 1
    _require_reads(then, 5)
    _require_reads(lake.table("stock"), 4)
    with lake.transaction() as tx:
        _require_reads(tx.table("stock"), 4)


def _require_reads(table: slackwater.DeltaTable, n: int) -> None:
    assert rows(table.toDF()) == rows(table.where("sku = 'A'")) == [("A", n)]
    assert rows(table.where(F.col("n") > 5)) == []
    assert rows(table.alias("s").toDF().where("s.n > 0").select("s.n")) == [(n,)]
    assert rows(table.detail().select("format")) == [("delta",)]
    assert table.history().count() == 7 - n


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.delete(),
        lambda table: table.update(set={"n": "0"}),
        lambda table: table.merge(table.toDF().alias("s"), "s.n = n").whenMatchedDelete().execute(),
        lambda table: table.setProperties({"a.b": "c"}),
        lambda table: table.dropFeatureSupport("appendOnly"),
        lambda table: table.checkpoint(),
        lambda table: table.compactLog(),
        lambda table: table.cleanUpLog(),
        lambda table: table.system_time().all(),
    ],
    ids=["delete", "update", "merge", "properties", "feature", "checkpoint", "compaction", "cleanup", "system time"],
)
def test_a_table_of_a_slice_is_not_changed(lake: slackwater.Lake, change: Callable[[Any], Any]) -> None:
    files = sorted(str(path) for path in Path(lake.location("stock")).rglob("*"))
    for view in (lake.as_of(START_MS + 15_000).table("stock"), lake.as_of(START_MS + 15_000).table("stock").alias("t")):
        with pytest.raises(OperationNotAllowed, match=r"Use lake\.table\('stock'\)"):
            change(view)
    assert sorted(str(path) for path in Path(lake.location("stock")).rglob("*")) == files


@pytest.mark.parametrize(
    "work",
    [lambda t: t.checkpoint(), lambda t: t.compactLog(), lambda t: t.cleanUpLog(), lambda t: t.dropFeatureSupport("v")],
    ids=["checkpoint", "compaction", "cleanup", "feature"],
)
def test_the_log_is_not_worked_on_within_a_transaction(lake: slackwater.Lake, work: Callable[[Any], Any]) -> None:
    with lake.transaction() as tx, pytest.raises(OperationNotAllowed, match="cannot be part of a transaction"):
        work(tx.table("stock"))


def test_instants_without_a_zone_are_of_the_sessions(lake: slackwater.Lake, conf: Callable[[str, str], None]) -> None:
    conf("spark.sql.session.timeZone", "Europe/Copenhagen")
    for way in ("2023-11-14 23:13:35", pd.Timestamp("2023-11-14 23:13:35")):
        assert lake.as_of(way).timestamp == dt.datetime(2023, 11, 14, 22, 13, 35, tzinfo=dt.timezone.utc)
    assert lake.as_of("2023-11-14T22:13:35Z").version("stock") == 1
    assert lake.as_of("2023-11-14").timestamp == dt.datetime(2023, 11, 13, 23, tzinfo=dt.timezone.utc)
    with pytest.raises(InvalidArgument, match="it is in the session's zone, Europe/Copenhagen"):
        lake.as_of("soon")


def test_what_a_history_shows_is_an_instant_to_go_back_to(
    spark: SparkSession, lake: slackwater.Lake, conf: Callable[[str, str], None]
) -> None:
    conf("spark.sql.session.timeZone", "America/New_York")
    history = lake.history().where("tables['orders'] = 1")
    at = dt.datetime(2023, 11, 14, 22, 13, 30, tzinfo=dt.timezone.utc)
    collected = history.collect()[0].timestamp
    assert collected != dt.datetime(2023, 11, 14, 17, 13, 30), "the machine's zone must not be the session's"
    shown = history.selectExpr("CAST(timestamp AS STRING) AS t").collect()[0].t
    for way in (collected, shown):
        assert lake.as_of(way).timestamp == at, way
    if not is_connect(spark):
        by_pandas: Any = history.select("timestamp").toPandas()
        assert lake.as_of(by_pandas.timestamp[0]).timestamp == at
    assert rows(lake.table("orders").system_time().as_of(collected).select("id")) == [(1,)]


def test_what_cannot_be_is_refused(lake: slackwater.Lake) -> None:
    past = lake.as_of(START_MS + 15_000)
    with pytest.raises(TableNotFound, match="no table named 'nope' exists"):
        past.table("nope")
    with pytest.raises(InvalidArgument, match=r"already has a version\. Leave out versionAsOf"):
        past.table("stock").toDF(versionAsOf=0)
    with pytest.raises(TimestampOutOfRange, match="is in the future"):
        lake.as_of(START_MS + 30_001)
    with pytest.raises(TableNotFound, match="It exists since"):
        lake.as_of(START_MS - 1).table("stock")


def test_history_shows_transactions_over_all_tables(lake: slackwater.Lake) -> None:
    history = lake.history()
    assert history.schema == LAKE_HISTORY_SCHEMA
    newest, both, *created = history.collect()
    assert (newest.tables, newest.operations) == ({"stock": 2}, {"stock": "UPDATE"})
    assert both.tables == {"orders": 1, "stock": 1}
    assert both.operations == {"orders": "WRITE", "stock": "WRITE"}
    assert both.userMetadata == {"orders": "first"}
    assert both.operationParameters["orders"]["mode"] == "Append"
    assert both.timestamp.astimezone(dt.timezone.utc) == dt.datetime(2023, 11, 14, 22, 13, 30, tzinfo=dt.timezone.utc)
    assert {name for row in created for name in row.tables} == {"orders", "stock"}
    assert [row.transactionId for row in lake.history(2).collect()] == [newest.transactionId, both.transactionId]
    assert both.transactionId is not None
