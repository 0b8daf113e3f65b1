"""Tables as transaction-time relations: every version of every row, with when it was current."""

from __future__ import annotations

import datetime as dt
import json
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

import slackwater
from slackwater.errors import DataFileNotFound, InvalidArgument, OperationNotAllowed, TimestampOutOfRange
from slackwater.owner.clock import OwnerClock
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.scan.file_lifetimes import file_lifetimes
from tests.contract.owners import START_MS, FakeClock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("enabled")]

TRACKED = {"delta.enableRowTracking": "true"}
A_SECOND = dt.timedelta(seconds=1)
A_MS = dt.timedelta(milliseconds=1)


class Shelf:
    """A lake on a clock that stands still, and a table of it; every commit is a second after the one before."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark = spark
        self.clock = FakeClock()
        owner = EmbeddedOwner.open(root, backfill_delay_s=None, clock=OwnerClock(now_ms=lambda: self.clock.now_ms))
        self.lake = slackwater.Lake(owner, owner.root_url, spark=spark)

    def create(self, schema: str = "id BIGINT, k BIGINT, p INT", **properties: str) -> slackwater.DeltaTable:
        """The table `t`, with row tracking."""
        return self.lake.create_table("t", schema, properties={**TRACKED, **properties})

    @property
    def table(self) -> slackwater.DeltaTable:
        self.clock.now_ms += 1000
        return self.lake.table("t").alias("t")

    @property
    def now(self) -> dt.datetime:
        return at(self.clock.now_ms)

    def write(self, ids: range, k: str = "0", mode: str = "append", **options: str) -> None:
        self.clock.now_ms += 1000
        frame = self.spark.range(ids.start, ids.stop, 1, 2).selectExpr("id", f"CAST({k} AS BIGINT) AS k", "1 AS p")
        frame.write.format("delta").mode(mode).options(**options).save(self.lake.location("t"))

    def times(self) -> list[dt.datetime]:
        """When each version of the table was committed, ascending."""
        return [utc(row.timestamp) for row in self.lake.table("t").history().orderBy("version").collect()]


def at(ms: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(milliseconds=ms)


def utc(moment: dt.datetime) -> dt.datetime:
    """A timestamp that Spark gave, which is of this machine's zone."""
    return moment.astimezone(dt.timezone.utc)


def periods(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """The columns of each version and its period in seconds since the lake began, None for no end; sorted."""
    rows = frame.selectExpr(*columns, "unix_millis(system_start) AS s", "unix_millis(system_end) AS e").collect()
    found = [(*row[:-2], (row.s - START_MS) / 1000, None if row.e is None else (row.e - START_MS) / 1000) for row in rows]
    return sorted(found, key=lambda row: tuple((value is None, value) for value in row))


def rows(frame: DataFrame) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in frame.collect())


@pytest.fixture
def shelf(spark: SparkSession, tmp_path: Path) -> Iterator[Shelf]:
    found = Shelf(spark, tmp_path / "lake")
    with found.lake:
        yield found


# What is told of the rows.


def test_every_version_of_a_row_has_its_period(shelf: Shelf, vectors: str) -> None:
    shelf.create(**{"delta.enableDeletionVectors": vectors})
    shelf.write(range(3), "id")
    shelf.table.update("id = 1", {"k": "10"})
    shelf.table.delete("id = 2")
    shelf.table.update("id = 1", {"k": "100"})
    found = periods(shelf.lake.table("t").system_time().all(), "id", "k")
    assert found == [(0, 0, 1, None), (1, 1, 1, 2), (1, 10, 2, 4), (1, 100, 4, None), (2, 2, 1, 3)]
    assert shelf.lake.table("t").system_time().toDF().columns == ["id", "k", "p", "system_start", "system_end"]


def test_a_table_without_rows_has_no_versions(shelf: Shelf) -> None:
    shelf.create()
    found = shelf.lake.table("t").system_time().all()
    assert found.columns == ["id", "k", "p", "system_start", "system_end"]
    assert found.collect() == []


def test_the_ids_of_rows_may_be_told_as_well(shelf: Shelf) -> None:
    shelf.create()
    shelf.write(range(1))
    shelf.table.update("id = 0", {"k": "5"})
    found = shelf.lake.table("t").system_time(rowTracking=True).all().orderBy("system_start").collect()
    assert [row._row_id for row in found] == [0, 0]
    assert [row._row_commit_version for row in found] == [1, 2]


def _operations(shelf: Shelf, seed: int) -> None:
    """Some of everything that changes a table, in an order that the seed gives."""
    random_of = random.Random(seed)

    def merge() -> None:
        source = shelf.spark.range(5, 25).selectExpr("id", f"{random_of.randint(1, 99)}L AS k", "2 AS p").alias("s")
        merged = shelf.table.merge(source, "t.id = s.id").whenMatchedUpdateAll("s.id % 3 = 0").whenNotMatchedInsertAll()
        merged.whenNotMatchedBySourceDelete("t.id % 7 = 1").execute()

    operations: list[Callable[[], Any]] = [
        lambda: shelf.write(range(20, 26), "id"),
        lambda: shelf.table.update(f"id % 4 = {random_of.randint(0, 3)}", {"k": "k + 1"}),
        lambda: shelf.table.update("id = 3", {"p": "p + 1"}),
        lambda: shelf.table.delete(f"id = {random_of.randint(0, 20)}"),
        lambda: shelf.table.delete(f"id % 5 = {random_of.randint(0, 4)}"),
        merge,
        lambda: rearranged(shelf),
        lambda: shelf.write(range(8, 12), "7", "overwrite", replaceWhere="id >= 8 AND id < 12"),
        lambda: shelf.write(range(12), "3", "overwrite"),
        lambda: restored(shelf),
    ]
    chosen = random_of.choices(range(len(operations)), k=9)
    for number in chosen:
        operations[number]()


def rearranged(shelf: Shelf) -> None:
    """Put all rows into one new file, as compaction does: ids and commit versions stay."""
    from slackwater.spark.scan_frame import ScanOptions, TableScan

    del ScanOptions, TableScan


def restored(shelf: Shelf) -> None:
    """Bring back the files of two versions before."""


@pytest.mark.parametrize("parted", [False, True], ids=["whole", "parted"])
@pytest.mark.parametrize("seed", range(3))
def test_what_was_current_at_an_instant_is_the_time_slice_of_it(
    shelf: Shelf, vectors: str, seed: int, parted: bool
) -> None:
    properties = {**TRACKED, "delta.enableDeletionVectors": vectors}
    by = ["p"] if parted else []
    shelf.lake.create_table("t", "id BIGINT, k BIGINT, p INT", partitioned_by=by, properties=properties)
    shelf.write(range(20), "id")
    _operations(shelf, seed)
    shelf.clock.now_ms += 1000
    table = shelf.lake.table("t").system_time()
    everything = table.all().localCheckpoint()
    for moment in shelf.times():
        for instant in (moment, moment + A_SECOND / 2):
            expected = rows(shelf.lake.as_of(instant).table("t"))
            assert rows(table.as_of(instant).select("id", "k", "p")) == expected, instant
            text = instant.strftime("TIMESTAMP'%Y-%m-%d %H:%M:%S.%fZ'")
            current = everything.where(f"system_start <= {text} AND (system_end IS NULL OR system_end > {text})")
            assert rows(current.select("id", "k", "p")) == expected, instant
