"""Concurrent transactions of DataFrames over two tables: one timestamp in rows and logs, never seen in part.

Source: docs/guarantees.md "Transactions over many tables"; paper §1 (current_timestamp as of the commit).
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

import slackwater
from tests.histories.recording import LoggedTable
from tests.histories.workload import ms_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from slackwater.spark.lake.transaction import LakeTransaction

pytestmark = pytest.mark.spark

WRITERS = 3


@pytest.mark.parametrize("control", ["optimistic", "locking"])
def test_rows_carry_the_timestamp_of_their_commit_and_nobody_sees_a_transaction_in_part(
    spark: SparkSession, tmp_path: Path, control: str
) -> None:
    slackwater.enable(spark)
    told: dict[str, int] = {}
    sights: list[tuple[set[str], set[str]]] = []
    over = threading.Event()

    def write(identity: str) -> None:
        found: list[LakeTransaction] = []

        def work(tx: LakeTransaction) -> None:
            found.append(tx)
            seen = {row.id for row in tx.table("orders").where("part = 'a'").select("id").collect()}
            now = tx.current_timestamp()
            row = spark.range(1).select(F.lit(identity).alias("id"), F.lit(now).alias("at"))
            tx.table("orders").append(row.withColumns({"part": F.lit("a"), "seen": F.lit(len(seen)).cast("long")}))
            tx.table("audit").append(row)

        lake.run(work, retries=50, control=control, writes=["orders", "audit"])
        told[identity] = ms_of(found[-1].commit_timestamp)

    def read() -> None:
        while not over.is_set():
            sights.append(lake.run(_both, retries=50))

    with slackwater.Lake.open(tmp_path / "lake", spark=spark) as lake:
        lake.create_table("orders", "id STRING, part STRING, seen BIGINT, at TIMESTAMP", partition_by=["part"])
        lake.create_table("audit", "id STRING, at TIMESTAMP")
        with ThreadPoolExecutor(WRITERS + 1) as pool:
            reader = pool.submit(read)
            try:
                for writer in [pool.submit(write, f"w{number}") for number in range(WRITERS)]:
                    writer.result()
            finally:
                over.set()
            reader.result()
        at = F.unix_millis("at").alias("at")
        orders = lake.table("orders").toDF().select("id", "seen", at).orderBy("at").collect()
        audit = lake.table("audit").toDF().select("id", at).orderBy("at").collect()

    assert len(told) == WRITERS
    assert {row.id: row["at"] for row in orders} == {row.id: row["at"] for row in audit} == told
    for name in ("orders", "audit"):
        stamps = LoggedTable.load(tmp_path / "lake" / name).stamps
        assert [stamps[version] for version in range(1, len(stamps))] == sorted(told.values())
    # Each saw those before it in the order of timestamps, and no others.
    assert [row.seen for row in orders] == list(range(len(told)))
    order = [row.id for row in orders]
    assert sights
    for of_orders, of_audit in sights:
        assert of_orders == of_audit == set(order[: len(of_orders)])


def _both(tx: LakeTransaction) -> tuple[set[str], set[str]]:
    orders, audit = ({row.id for row in tx.table(name).toDF().select("id").collect()} for name in ("orders", "audit"))
    return orders, audit
