"""The clock within a transaction: expressions and rules have the time of its commit, frames that ask Spark are refused.

The owner's clock stands in 2023, and Spark's goes on years later.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

import slackwater
from slackwater.errors import InvalidArgument, InvariantViolationException
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.spark.session.plan_text import reads_the_same
from slackwater.spark.session.temporary_settings import with_settings
from tests.contract.owners import FakeClock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

COLUMNS = "id BIGINT, at TIMESTAMP, local TIMESTAMP_NTZ, day DATE, s BIGINT"
ZONE = "Pacific/Kiritimati"
"""Fourteen hours ahead of UTC: it is another day there when the transactions begin."""


class Kit:
    """A lake on a clock of its own, with a table of one row: of 2024, after its transactions, and before Spark's."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark = spark
        self.clock = FakeClock()
        owner = EmbeddedOwner.open(root, clock=self.clock.owner_clock(), backfill_delay_s=None)
        self.lake = slackwater.Lake(owner, owner.root_url, spark=spark)
        self.lake.create_table("t", COLUMNS)
        self.save(self.rows(1))
        self.clock.now_ms += 1000

    def rows(self, *ids: int) -> DataFrame:
        """Rows of 2024, in part."""
        return self.spark.createDataFrame([(i,) for i in ids], "id BIGINT").withColumn(
            "at", F.lit("2024-06-01 00:00:00").cast("timestamp")
        )

    def save(self, frame: DataFrame) -> None:
        """Add rows, outside of any transaction."""
        frame.write.format("delta").mode("append").save(self.lake.location("t"))

    def found(self) -> list[Any]:
        """All rows, `at` in seconds since the epoch."""
        at = F.unix_millis("at").alias("at")
        return self.lake.table("t").toDF().withColumn("at", at).orderBy("id").collect()


@pytest.fixture
def kit(spark: SparkSession, tmp_path: Path) -> Iterator[Kit]:
    found = Kit(spark, tmp_path / "lake")
    yield found
    found.lake.close()


TEXTS: dict[str, Any] = {
    "at": "coalesce(current_timestamp(), at)",
    "local": "localtimestamp()",
    "day": "current_date",
    "s": "CASE WHEN id > 0 THEN unix_timestamp() END",
}


def _columns() -> dict[str, Any]:
    # Columns are made for the session that is active then.
    return {
        "at": F.coalesce(F.now(), F.col("at")),
        "local": F.localtimestamp(),
        "day": F.transform(F.array(F.col("id")), lambda _: F.expr("curdate()"))[0],
        "s": F.when(F.col("id") > 0, F.unix_timestamp()),
    }


@pytest.mark.parametrize("kind", ["text", "column"])
def test_every_function_of_the_clock_has_the_time_of_the_commit(kit: Kit, kind: str) -> None:
    values = TEXTS if kind == "text" else _columns()
    with with_settings(kit.spark, {"spark.sql.session.timeZone": ZONE}):
        with kit.lake.transaction() as tx:
            tx.table("t").update("id = 1", values)
            kit.clock.now_ms += 5000
            source = kit.rows(1, 2).alias("s")
            (
                tx.table("t")
                .alias("t")
                .merge(source, "t.id = s.id")
                .whenMatchedUpdate("t.at < current_timestamp()", {"id": "100"})
                .whenNotMatchedInsert(values={"id": "s.id", **{k: _inserted(v) for k, v in values.items()}})
                .execute()
            )
        (first, second) = kit.found()
        here = tx.commit_timestamp.astimezone(dt.timezone(dt.timedelta(hours=14))).replace(tzinfo=None)
        t_ms = round(tx.commit_timestamp.timestamp() * 1000)
        assert t_ms == kit.clock.now_ms - 5000
        assert here.date() != tx.commit_timestamp.date()
        expected = (t_ms, here, here.date(), t_ms // 1000)
        assert (first.id, *tuple(first)[1:]) == (1, *expected)
        assert (second.id, *tuple(second)[1:]) == (2, *expected)


def _inserted(value: Any) -> Any:
    """The value for a row that is new, from names of the source."""
    if isinstance(value, str):
        return value.replace("coalesce(current_timestamp(), at)", "current_timestamp").replace("id >", "s.id >")
    return F.coalesce(value) if "id" not in str(value) else value


def test_conditions_are_as_of_the_transaction(kit: Kit) -> None:
    kit.save(kit.rows(2))
    with kit.lake.transaction() as tx:
        table = tx.table("t")
        later = table.where(F.col("at") > F.current_timestamp())
        table.delete("at <= now()")
        table.delete(F.col("at") <= F.now())
        now = F.lit(tx.current_timestamp())
        table.overwrite(kit.rows(3).withColumn("at", now), replaceWhere="at <= current_timestamp")
        kit.clock.now_ms += 100_000_000_000
        assert sorted(row.id for row in later.collect()) == [1, 2]
        kit.clock.now_ms -= 100_000_000_000
    assert [row.id for row in kit.found()] == [1, 2, 3]


def test_a_day_is_all_that_a_question_for_the_day_settles(kit: Kit) -> None:
    with kit.lake.transaction() as tx:
        tx.table("t").update("true", {"day": "current_date()"})
        kit.clock.now_ms += 5000
    assert round(tx.commit_timestamp.timestamp() * 1000) == kit.clock.now_ms
    assert kit.found()[0].day == tx.commit_timestamp.date()


def test_rules_of_a_table_are_as_of_the_transaction(kit: Kit) -> None:
    supported = {"delta.feature.allowColumnDefaults": "supported"}
    kit.lake.create_table("ruled", "id BIGINT, at TIMESTAMP", properties=supported)
    ruled = kit.lake.table("ruled")
    ruled.setColumnDefault("at", "current_timestamp()")
    ruled.addConstraint("past", "at <= current_timestamp() AND id NOT IN (7)")
    kit.clock.now_ms += 1000
    with kit.lake.transaction() as tx:
        table = tx.table("ruled")
        with pytest.raises(InvariantViolationException, match="current_timestamp"):
            table.append(kit.rows(1))
        table.append(kit.rows(2).drop("at"))
        source = kit.rows(3, 4).drop("at").alias("s")
        (
            table.alias("t")
            .merge(source, "t.id = s.id")
            .whenNotMatchedInsert("s.id = 3", {"id": "s.id"})
            .whenNotMatchedInsert(values={"id": "s.id", "at": "DEFAULT"})
            .execute()
        )
        with pytest.raises(InvariantViolationException):
            tx.table("t").addConstraint("past", "at <= now()")
    kit.lake.table("t").addConstraint("late", "at < date('tomorrow')")
    with kit.lake.transaction() as other, pytest.raises(InvalidArgument, match="a constraint of the table"):
        other.table("t").append(kit.rows(9))
    rows = ruled.toDF().select(F.unix_millis("at")).distinct().collect()
    assert [row[0] for row in rows] == [round(tx.commit_timestamp.timestamp() * 1000)]


def _frames(kit: Kit) -> dict[str, DataFrame]:
    spark = kit.spark
    rows = kit.rows(5)
    rows.withColumn("at", F.current_timestamp()).createOrReplaceTempView("asking")
    wide = rows.select("*", *(F.lit(i).alias(f"c{i}") for i in range(40)), F.expr("now() > at").alias("is_past"))
    return {
        "column": rows.withColumn("at", F.current_timestamp()),
        "filter": rows.where("at < now()"),
        "cast": rows.withColumn("at", F.lit("now").cast("timestamp")),
        "view": spark.table("asking"),
        "query": spark.sql("SELECT 5L AS id, (SELECT current_timestamp()) AS at"),
        "wide": wide.where("is_past").select("id", "at"),
    }


def test_frames_that_ask_the_clock_of_spark_are_refused(kit: Kit) -> None:
    asking = _frames(kit)
    kept = asking["column"].localCheckpoint().withColumn("now()", F.lit("x")).where("`now()` = 'x'").select("id", "at")
    with kit.lake.transaction() as tx:
        table = tx.table("t")
        for name, frame in asking.items():
            with pytest.raises(InvalidArgument, match=r"tx\.current_timestamp\(\)"):
                table.append(frame)
            assert tx.table("t").toDF().count() == 1, name
        with pytest.raises(InvalidArgument, match="the rows to overwrite"):
            table.overwrite(asking["column"])
        merge = table.alias("t").merge(asking["column"].alias("s"), "t.id = s.id").whenNotMatchedInsertAll()
        with pytest.raises(InvalidArgument, match="the source of MERGE"):
            merge.execute()
        # Rows that were made before have a time of their own, whatever their columns are called.
        table.append(kept)
    assert [row.id for row in kit.found()] == [1, 5]


@pytest.mark.parametrize("value", ["TIMESTAMP 'now'", "'today'", "builtin.now()", "to_timestamp('now')"])
def test_what_cannot_be_replaced_is_refused(kit: Kit, value: str) -> None:
    with kit.lake.transaction() as tx:
        for given in (value, F.expr(value)):
            with pytest.raises(InvalidArgument, match=r"tx\.current_timestamp\(\)"):
                tx.table("t").update("true", {"at": given})
            with pytest.raises(InvalidArgument, match=r"tx\.current_timestamp\(\)"):
                tx.table("t").where(f"at > {value}")
        # A text is a text.
        tx.table("t").delete("'today' = 'now'")
    assert tx.versions == {}


@pytest.mark.classic
def test_a_wide_plan_is_looked_at_to_its_last_column(spark: SparkSession) -> None:
    wide = spark.range(1).select("id", *(F.lit(i).alias(f"c{i}") for i in range(40)))
    assert reads_the_same(wide)
    assert not reads_the_same(wide.withColumn("at", F.now()))


@pytest.mark.modes
def test_a_plan_is_looked_at_whatever_people_may_see_of_plans(kit: Kit) -> None:
    for key, value in (("spark.sql.maxPlanStringLength", "10"), ("spark.sql.redaction.string.regex", ".*")):
        with with_settings(kit.spark, {key: value}), kit.lake.transaction() as tx:
            asking = kit.rows(2).select("id", F.now().alias("at"))
            with pytest.raises(InvalidArgument, match=r"tx\.current_timestamp\(\)"):
                tx.table("t").append(asking)
            tx.table("t").append(kit.rows(3))
            assert not reads_the_same(asking)
            assert kit.spark.conf.get(key) == value
    assert [row.id for row in kit.found()] == [1, 3, 3]
