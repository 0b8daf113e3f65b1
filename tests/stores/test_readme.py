"""The README's chapters with their tables in a bucket."""

from __future__ import annotations

import datetime as dt
import shlex
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from typer.testing import CliRunner

import slackwater
from slackwater import Transaction
from slackwater.cli.main import app
from tests.stores.conftest import as_environment_says
from tests.stores.documents import blocks, run
from tests.stores.servers import Place
from tests.transaction.tables import schema

pytestmark = pytest.mark.spark

_FLIGHT = "month INT, day INT, carrier STRING, flight INT, origin STRING, dep_delay INT"


def flights(spark: SparkSession, *rows: tuple[int, str, int]) -> Any:
    """Rows of (month, carrier, delay)."""
    return spark.createDataFrame([(month, 1, carrier, 7, "JFK", delay) for month, carrier, delay in rows], _FLIGHT)


def last_commit(root: str) -> str:
    """When the newest version of a table was committed, in UTC."""
    seconds = slackwater.Snapshot.load(root).timestamp_ms / 1000
    return f"{dt.datetime.fromtimestamp(seconds, dt.timezone.utc):%Y-%m-%d %H:%M:%S.%f}"[:-3]


@pytest.fixture
def root(place: Place, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A place of one test, which the environment has the credentials of."""
    for key, value in as_environment_says(place).items():
        monkeypatch.setenv(key, value)
    return f"{place.url}/{request.node.originalname}"


def names_of(spark: SparkSession) -> dict[str, Any]:
    return {"spark": spark, "slackwater": slackwater, "F": F}


def test_the_chapters_of_reading_writing_and_changing(spark: SparkSession, root: str) -> None:
    reading, writing, changing, *_ = blocks("README.md")
    names, at = names_of(spark), {"/data/": f"{root}/"}
    two = flights(spark, (12, "UA", 90), (1, "XX", -5)).coalesce(1).write.format("delta").mode("append")
    two.option("delta.enableChangeDataFeed", "true").partitionBy("month").save(f"{root}/flights")
    for number in range(5):
        slackwater.DeltaTable.forPath(spark, f"{root}/flights").setProperties({"number": str(number)})
    run(reading, names, {**at, "2026-11-20 10:00:00": last_commit(f"{root}/flights")})
    assert names["df"].count() == names["table"].toDF().count() == 2

    names["df"] = flights(spark, (6, "AA", 3)).coalesce(1)
    run(writing, names, at)
    assert names["table"].toDF().columns == ["id", "at", "day", "remark"]
    assert spark.read.format("delta").load(f"{root}/flights").where("month = 6").count() == 3

    names["corrections"] = flights(spark, (12, "UA", 91), (7, "UA", 0)).withColumn("cancelled", F.lit(False))
    run(changing, names, at)
    left = spark.read.format("delta").load(f"{root}/flights").select("month", "dep_delay").collect()
    assert sorted((row.month, row.dep_delay) for row in left) == [(6, 3), (6, 3), (6, 3), (7, 0), (12, 91)]


@pytest.mark.long
def test_the_chapters_of_lakes_and_transactions(spark: SparkSession, root: str, tmp_path: Path) -> None:
    *_, lakes, transactions, _, _ = blocks("README.md")
    names, at = names_of(spark), {"/data/": f"{root}/"}
    orders = slackwater.DeltaTable.create(spark).location(f"{root}/orders").addColumn("remark", "STRING")
    orders.addColumn("at", "TIMESTAMP").execute()
    # A lake in a bucket has its database elsewhere, and the served owner is another one.
    of_a_disk, served = 'lake = slackwater.Lake.open("/data/lake")', "lake = slackwater.Lake.connect("
    lakes = "\n".join(line for line in lakes.splitlines() if not line.startswith((of_a_disk, served)))
    names["df"] = spark.createDataFrame([(1, "AA", -3)], "month INT, carrier STRING, delay INT")
    database = f"sqlite:///{tmp_path}/owner.db"
    run(lakes, names, {**at, "s3://bucket": root, "postgresql://owner@host/lake": database})
    lake = names["lake"]
    assert [table.name for table in lake.tables()] == ["flights", "orders"]

    lake.create_table("stock", "sku STRING, qty INT", properties={"delta.enableRowTracking": "true"})
    stock = spark.createDataFrame([("A1", 3), ("B2", 5)], "sku STRING, qty INT")
    stock.write.format("delta").mode("append").save(lake.location("stock"))
    lake.backfill("stock")
    names["orders"] = spark.createDataFrame([("two",)], "remark STRING")
    written = last_commit(lake.location("stock")).replace(" ", "T") + "Z"
    run(transactions, names, {"2026-11-21T10:00:00Z": written})
    committed = names["tx"].versions
    then = spark.read.format("delta").option("versionAsOf", committed["stock"]).load(lake.location("stock"))
    assert sorted(row.qty for row in then.collect()) == [2, 5]
    # And back to the time before it.
    assert sorted(row.qty for row in lake.table("stock").toDF().collect()) == [3, 5]
    assert lake.table("orders").toDF().count() == 0
    lake.close()


def test_the_chapters_without_spark(spark: SparkSession, root: str) -> None:
    del spark  # it is who reads the settings; the rest is done without
    *_, without_spark = blocks("README.md")
    flights_of = {"month": "integer", "dep_delay": "integer"}
    Transaction.create(f"{root}/flights", schema(flights_of), partition_by=["month"]).commit("CREATE TABLE")
    names: dict[str, Any] = {"slackwater": slackwater, "size": 10, "modified_ms": 1_700_000_000_000}
    times = {"2026-11-20T10:00:00": last_commit(f"{root}/flights").replace(" ", "T")}
    run(without_spark, names, {"/data/": f"{root}/", **times})
    assert slackwater.Snapshot.load(f"{root}/flights").transactions["loader"].version == 18

    terminal = next(block for block in blocks("README.md", "") if "slackwater history" in block)
    lines = [line.partition("#")[0] for line in terminal.splitlines() if "/data/flights" in line]
    for line in lines:
        answer = CliRunner().invoke(app, shlex.split(line.replace("/data/flights", f"'{root}/flights'"))[1:])
        assert (answer.exit_code, answer.output != "") == (0, True), answer.output
    assert len(lines) == 5
