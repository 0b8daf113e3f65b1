"""Tables as transaction-time relations: every version of every row, with when it was current."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

import slackwater
from slackwater.errors import DataFileNotFound, InvalidArgument, OperationNotAllowed, TimestampOutOfRange
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.protocol.actions.files import AddFile
from slackwater.protocol.properties.properties import MATERIALIZED_ROW_COMMIT_VERSION, MATERIALIZED_ROW_ID
from slackwater.transaction.rows.file_action_rows import as_adds, as_removes
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
        owner = EmbeddedOwner.open(root, backfill_delay_s=None, clock=self.clock.owner_clock())
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
    seconds = [[None if ms is None else (ms - START_MS) / 1000 for ms in (row.s, row.e)] for row in rows]
    found = [(*row[:-2], *period) for row, period in zip(rows, seconds, strict=True)]
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


# The same as time slices, whatever was done.


def rearranged(shelf: Shelf) -> None:
    """Put all rows into new files, as compaction does: row ids and commit versions stay, in hidden columns."""
    shelf.clock.now_ms += 1000
    snapshot = shelf.lake.snapshot("t")
    names = {
        "_row_id": snapshot.properties[MATERIALIZED_ROW_ID],
        "_row_commit_version": snapshot.properties[MATERIALIZED_ROW_COMMIT_VERSION],
    }
    frame = shelf.spark.read.format("delta").option("rowTracking", "true").load(shelf.lake.location("t"))
    found = frame.orderBy("id").toArrow().rename_columns(names | {"id": "id", "k": "k", "p": "p"})
    parts: list[tuple[dict[str, str | None], pa.Table]] = [({}, found)]
    if snapshot.metadata.partition_columns:
        values = sorted(set(found["p"].to_pylist()))
        parts = [({"p": str(v)}, found.filter(pc.equal(found["p"], v)).drop_columns("p")) for v in values]
    adds = []
    for number, (values_of, rows_of) in enumerate(parts):
        path = Path(shelf.lake.location("t")) / f"compact-{snapshot.version}-{number}.parquet"
        pq.write_table(rows_of, path)
        stats = json.dumps({"numRecords": rows_of.num_rows})
        adds.append(AddFile(path.name, values_of, path.stat().st_size, shelf.clock.now_ms, False, stats))
    transaction = slackwater.Transaction(snapshot)
    transaction.remove(*as_removes(snapshot.files(), shelf.clock.now_ms, data_change=False))
    transaction.add(*adds)
    transaction.commit("OPTIMIZE")


def restored(shelf: Shelf) -> None:
    """Bring back the files of an earlier version, as RESTORE does."""
    shelf.clock.now_ms += 1000
    snapshot = shelf.lake.snapshot("t")
    then = shelf.lake.as_of(shelf.clock.now_ms - 3000).snapshot("t")
    states = [{(n["path"], str(n["deletionVector"])) for n in f.files().to_pylist()} for f in (snapshot, then)]
    stays = states[0] & states[1]
    before, after = (
        f.filter(pa.array([(n["path"], str(n["deletionVector"])) not in stays for n in f.to_pylist()], pa.bool_()))
        for f in (snapshot.files(), then.files())
    )
    transaction = slackwater.Transaction(snapshot)
    transaction.remove(*as_removes(before, shelf.clock.now_ms))
    transaction.add(*as_adds(after, data_change=True))
    transaction.commit("RESTORE")


def seeded(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311  (an order that can be had again, no secret)


def merged(shelf: Shelf) -> None:
    source = shelf.spark.range(5, 25).selectExpr("id", "50L + id AS k", "2 AS p").alias("s")
    merge = shelf.table.merge(source, "t.id = s.id").whenMatchedUpdateAll("s.id % 3 = 0").whenNotMatchedInsertAll()
    merge.whenNotMatchedBySourceDelete("t.id % 7 = 1").execute()


OPERATIONS: list[Callable[[Shelf], Any]] = [
    lambda shelf: shelf.write(range(20, 26), "id"),
    lambda shelf: shelf.table.update("id % 4 = 2", {"k": "k + 1"}),
    lambda shelf: shelf.table.update("id = 3", {"p": "p + 1"}),
    lambda shelf: shelf.table.delete("id IN (0, 4, 11)"),
    lambda shelf: shelf.table.delete("id % 5 = 3"),
    merged,
    rearranged,
    lambda shelf: shelf.write(range(8, 12), "7", "overwrite", replaceWhere="id >= 8 AND id < 12"),
    restored,
]


@pytest.mark.parametrize(
    ("seed", "vectors", "parted"),
    [
        (0, "true", False),
        (1, "false", False),
        (2, "true", True),
        *(pytest.param(n, str(n % 2 == 0).lower(), n % 3 == 0, marks=pytest.mark.long) for n in range(3, 15)),
    ],
)
@pytest.mark.long
def test_what_was_current_at_an_instant_is_the_time_slice_of_it(
    shelf: Shelf, seed: int, vectors: str, parted: bool
) -> None:
    properties = {**TRACKED, "delta.enableDeletionVectors": vectors}
    by = ["p"] if parted else []
    shelf.lake.create_table("t", "id BIGINT, k BIGINT, p INT", partition_by=by, properties=properties)
    shelf.write(range(20), "id")
    order = seeded(seed).sample(OPERATIONS, len(OPERATIONS))
    order.append(lambda shelf: shelf.write(range(3), "3", "overwrite"))
    for operation in order:
        operation(shelf)
    shelf.clock.now_ms += 1000
    system_time = shelf.lake.table("t").system_time()
    told = system_time.all().collect()
    versions = [(row, utc(row.system_start), row.system_end and utc(row.system_end)) for row in told]
    # No row begins again where it went on: rearranging is no change.
    for moment in shelf.times():
        current = [row[:3] for row, start, end in versions if start <= moment and (end is None or end > moment)]
        assert Counter(current) == rows(shelf.lake.as_of(moment).table("t").toDF()), (moment, order)
    instants = seeded(seed).sample(shelf.times()[1:], 2)
    for moment in (instants[0], instants[1] + A_SECOND / 2):
        assert rows(system_time.as_of(moment).select("id", "k", "p")) == rows(
            shelf.lake.as_of(moment).table("t").toDF()
        )


def test_rows_that_are_put_into_other_files_go_on(shelf: Shelf, vectors: str) -> None:
    shelf.create(**{"delta.enableDeletionVectors": vectors})
    shelf.write(range(4), "id")
    shelf.table.delete("id = 0")
    rearranged(shelf)
    shelf.table.update("id = 3", {"k": "30"})
    rearranged(shelf)
    found = periods(shelf.lake.table("t").system_time().all(), "id", "k")
    assert found == [(0, 0, 1, 2), (1, 1, 1, None), (2, 2, 1, None), (3, 3, 1, 4), (3, 30, 4, None)]


def test_rows_that_come_back_have_two_periods(shelf: Shelf, vectors: str) -> None:
    shelf.create(**{"delta.enableDeletionVectors": vectors})
    shelf.write(range(4, 8), "id")
    shelf.write(range(2, 3), "id")
    shelf.table.delete("id = 5")
    shelf.write(range(3, 4), "id")
    restored(shelf)
    found = periods(shelf.lake.table("t").system_time().all(), "id")
    assert found == [(2, 2, None), (3, 4, 5), (4, 1, None), (5, 1, 3), (5, 5, None), (6, 1, None), (7, 1, None)]


def test_many_deletions_in_one_file_are_told_apart(shelf: Shelf) -> None:
    shelf.create(**{"delta.enableDeletionVectors": "true"})
    shelf.write(range(12), "id")
    for number in range(9):
        shelf.table.delete(f"id = {number}")
    found = periods(shelf.lake.table("t").system_time().all(), "id")
    assert found == [(n, 1, 2 + n if n < 9 else None) for n in range(12)]


def test_rows_far_into_a_large_file_are_told_apart(shelf: Shelf) -> None:
    shelf.create(**{"delta.enableDeletionVectors": "true"})
    shelf.clock.now_ms += 1000
    frame = shelf.spark.range(0, 200_000, 1, 1).selectExpr("id", "id AS k", "1 AS p")
    frame.write.format("delta").mode("append").save(shelf.lake.location("t"))
    shelf.table.delete("id IN (7, 63, 65535, 65536, 131072)")
    shelf.table.delete("id IN (64, 127, 199999)")
    found = shelf.lake.table("t").system_time().all()
    gone = periods(found.where("system_end IS NOT NULL"), "id")
    assert gone == sorted([(n, 1, 2) for n in (7, 63, 65535, 65536, 131072)] + [(n, 1, 3) for n in (64, 127, 199999)])
    assert found.count() == 200_000


# SQL:2011's periods.


@pytest.fixture
def three(shelf: Shelf) -> Shelf:
    """One row with three versions, of seconds 1 to 2, 2 to 3, and from 3 on; it is the fifth second now."""
    shelf.create()
    shelf.write(range(1))
    shelf.table.update("id = 0", {"k": "1"})
    shelf.table.update("id = 0", {"k": "2"})
    shelf.clock.now_ms += 2000
    return shelf


def test_periods_are_of_versions_that_were_current_in_them(three: Shelf) -> None:
    table, second = three.lake.table("t").system_time(), [START_MS + n * 1000 for n in range(6)]

    def values(frame: DataFrame) -> list[int]:
        return sorted(row.k for row in frame.collect())

    # The end of FROM … TO is not in it, that of BETWEEN is.
    assert values(table.from_to(second[1], second[2])) == [0]
    assert values(table.between(second[1], second[2])) == [0, 1]
    assert values(table.from_to(second[2] - 1, second[3] + 1)) == [0, 1, 2]
    # A version ends before its end.
    assert values(table.from_to(second[2], second[3])) == [1]
    assert values(table.between(second[2], second[2])) == values(table.as_of(second[2])) == [1]
    assert values(table.from_to(second[2], second[2])) == []
    assert values(table.from_to(second[0], second[1])) == []
    assert values(table.from_to(second[4], at(second[5]) + 1000 * A_SECOND)) == [2]
    assert values(table.between(1, "9999-12-31")) == [0, 1, 2]


def test_instants_of_the_future_and_of_before_the_table_are_refused(three: Shelf) -> None:
    table = three.lake.table("t").system_time()
    calls: list[Callable[[], object]] = [
        lambda: table.as_of(three.now + A_MS),
        lambda: table.from_to(three.now + A_MS, three.now + A_SECOND),
        lambda: table.between(three.now + A_MS, three.now + A_SECOND),
    ]
    for call in calls:
        with pytest.raises(TimestampOutOfRange, match="is in the future"):
            call()
    with pytest.raises(TimestampOutOfRange, match=r"rows can be followed back to .*its first version"):
        table.as_of(START_MS - 1)


def test_no_commit_slips_under_an_instant_that_was_answered(three: Shelf) -> None:
    asked = three.now
    before = rows(three.lake.table("t").system_time().as_of(asked))
    three.lake.table("t").update("id = 0", {"k": "9"})
    assert three.times()[-1] > asked
    assert [row.k for row in three.lake.table("t").system_time().as_of(asked).collect()] == [2]
    assert sum(before.values()) == 1


@pytest.mark.parametrize("bad", [float("nan"), True, None, "soon", 1.5])
def test_what_is_no_instant_is_refused(three: Shelf, bad: Any) -> None:
    table = three.lake.table("t").system_time()
    calls: list[Callable[[], object]] = [
        lambda: table.as_of(bad),
        lambda: table.from_to(0, bad),
        lambda: table.between(bad, 0),
    ]
    for call in calls:
        with pytest.raises(InvalidArgument, match=r"without a zone it is in the session's zone, (Etc/)?UTC"):
            call()
    with pytest.raises(InvalidArgument, match="ends before it starts"):
        table.between(START_MS + 1, START_MS)


# The versions of a key.


def test_the_changes_of_a_key_are_told_in_order_of_time(shelf: Shelf, vectors: str) -> None:
    shelf.create(**{"delta.enableDeletionVectors": vectors})
    shelf.write(range(3), "id")
    shelf.table.update("id = 1", {"k": "10"})
    shelf.table.delete("id = 1")
    shelf.write(range(1, 2), "100")
    shelf.write(range(3), "5", "overwrite")
    table = shelf.lake.table("t").system_time()
    found = table.changes({"ID": 1}).collect()
    assert [(row.k, row.started_by, row.ended_by) for row in found] == [
        (1, "insert", "update"),
        (10, "update", "delete"),
        (100, "insert", "update"),
        (5, "update", None),
    ]
    every = [(row.id, row.k) for row in table.changes("id").collect()]
    assert every == [(0, 0), (0, 5), (1, 1), (1, 10), (1, 100), (1, 5), (2, 2), (2, 5)]
    assert every == [(row.id, row.k) for row in table.changes(["id"]).collect()]
    assert table.changes({"id": 7}).collect() == []
    assert table.changes({"id": None}).collect() == []


def test_the_versions_of_a_key_are_drawn_as_they_are_told(shelf: Shelf) -> None:
    shelf.create()
    shelf.write(range(3), "id")
    shelf.table.update("id = 1", {"k": "10"})
    shelf.table.delete("id = 1")
    table = shelf.lake.table("t").system_time()
    drawn = table.draw({"ID": 1})
    _, written, updated, deleted = [round(time.timestamp() * 1000) for time in shelf.times()]
    assert [(v.key, v.start_ms, v.end_ms, v.values, v.ended_by) for v in drawn.versions] == [
        (("1",), written, updated, {"k": 1, "p": 1}, "update"),
        (("1",), updated, deleted, {"k": 10, "p": 1}, "delete"),
    ]
    assert [v.end_ms for v in table.draw("id").versions] == [None, updated, deleted, None]
    assert "k 10" in drawn._repr_html_()


def test_a_key_that_is_a_time_without_a_zone_is_not_in_that_of_this_machine(spark: SparkSession, shelf: Shelf) -> None:
    shelf.create("id TIMESTAMP, n TIMESTAMP_NTZ")
    text = "2026-02-02 10:00:00"
    frame = spark.sql(f"SELECT TIMESTAMP '{text}' AS id, TIMESTAMP_NTZ '{text}' AS n")
    frame.write.format("delta").mode("append").save(shelf.lake.location("t"))
    table = shelf.lake.table("t").system_time()
    naive = dt.datetime.fromisoformat(text)
    for name in ("id", "n"):
        assert len(table.changes({name: naive}).collect()) == 1, name
    assert len(table.changes({"id": naive.replace(tzinfo=dt.timezone.utc)}).collect()) == 1


@pytest.mark.parametrize("bad", [{}, [], 5, None, [1], "nothing", {"nothing": 1}])
def test_what_is_no_key_is_refused(three: Shelf, bad: Any) -> None:
    with pytest.raises(InvalidArgument, match="key"):
        three.lake.table("t").system_time().changes(bad)


# What is covered.


def test_a_table_that_does_not_keep_what_is_needed_says_which_property(spark: SparkSession, path: str) -> None:
    spark.range(1).write.format("delta").save(path)
    table = slackwater.DeltaTable.forPath(spark, path)
    with pytest.raises(OperationNotAllowed, match=r"Set delta\.enableRowTracking to true"):
        table.system_time().all()
    table.setProperties(TRACKED)
    with pytest.raises(OperationNotAllowed, match=r"Set delta\.enableInCommitTimestamps to true"):
        table.system_time().all()
    table.setProperties({"delta.enableInCommitTimestamps": "true"})
    table.update("id = 0", {"id": "5"})
    since = table.system_time().since
    found = table.system_time().all().orderBy("system_start").collect()
    assert [row.id for row in found] == [0, 5]
    assert utc(found[0].system_start) == since
    with pytest.raises(TimestampOutOfRange, match=r"delta\.enableInCommitTimestamps is on since then"):
        table.system_time().as_of(since - A_MS)
    assert [row.started_by for row in table.system_time().changes("id").orderBy("id").collect()] == [None, "insert"]


def test_history_is_covered_from_when_rows_have_ids(shelf: Shelf) -> None:
    shelf.lake.create_table("t", "id BIGINT, k BIGINT, p INT")
    shelf.write(range(2), "id")
    shelf.table.setProperties(TRACKED)
    shelf.table.update("id = 1", {"k": "10"})
    table = shelf.lake.table("t").system_time()
    begun = periods(table.all(), "id", "k")[0][2]
    assert table.since == at(START_MS + int(begun * 1000))
    assert [row[:2] for row in periods(table.all(), "id", "k")] == [(0, 0), (1, 1), (1, 10)]
    with pytest.raises(TimestampOutOfRange, match=r"delta\.enableRowTracking is on since then"):
        table.from_to(START_MS + 1, shelf.now)


def test_history_may_be_asked_for_from_an_instant_on(three: Shelf) -> None:
    table = three.lake.table("t").system_time(since=START_MS + 2500)
    assert periods(table.all(), "k") == [(1, 2, 3), (2, 3, None)]
    assert table.since == at(START_MS + 2000)
    with pytest.raises(TimestampOutOfRange, match="history was requested from then on"):
        table.as_of(START_MS + 1500)
    with pytest.raises(TimestampOutOfRange, match="rows can be followed back to"):
        three.lake.table("t").system_time(since=START_MS - 1).all()


def test_files_that_were_vacuumed_are_named_with_the_way_out(three: Shelf) -> None:
    first = three.lake.as_of(START_MS + 1500).snapshot("t").files()["path"].to_pylist()[0]
    (Path(three.lake.location("t")) / first).unlink()
    with pytest.raises(DataFileNotFound, match=r"system_time\(since="):
        three.lake.table("t").system_time().all()
    assert periods(three.lake.table("t").system_time(since=START_MS + 2000).all(), "k") == [(1, 2, 3), (2, 3, None)]


def test_a_column_that_came_later_is_null_before_and_one_that_cannot_be_read_ends_the_coverage(shelf: Shelf) -> None:
    shelf.create()
    shelf.write(range(1))
    shelf.clock.now_ms += 1000
    wider = shelf.spark.sql("SELECT 1L AS id, 1L AS k, 1 AS p, 'x' AS more")
    wider.write.format("delta").mode("append").option("mergeSchema", "true").save(shelf.lake.location("t"))
    assert periods(shelf.lake.table("t").system_time().all(), "id", "more") == [(0, None, 1, None), (1, "x", 2, None)]
    shelf.clock.now_ms += 1000
    other = shelf.spark.sql("SELECT 'a' AS id")
    other.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(shelf.lake.location("t"))
    table = shelf.lake.table("t").system_time()
    assert periods(table.all(), "id") == [("a", 3, None)]
    with pytest.raises(TimestampOutOfRange, match="cannot be read as the table's"):
        table.as_of(START_MS + 2000)


def test_a_column_of_the_same_name_is_refused(shelf: Shelf) -> None:
    shelf.create("id BIGINT, System_Start BIGINT")
    with pytest.raises(InvalidArgument, match="has a column System_Start, a name"):
        shelf.lake.table("t").system_time().all()


def test_what_a_transaction_does_has_no_time_yet(shelf: Shelf) -> None:
    shelf.create()
    with shelf.lake.transaction() as tx, pytest.raises(InvalidArgument, match="outside of the transaction"):
        tx.table("t").system_time().all()
