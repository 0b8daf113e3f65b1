"""Commits and reads over a store that is slow, busy, forgets to answer, breaks off and shows old lists."""

from __future__ import annotations

import contextlib
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import slackwater
from slackwater import AddFile, DeltaTable, Snapshot, Transaction
from slackwater.errors import CommitUnknown, SlackwaterError, StorageError
from slackwater.lake.lake import LogLake
from slackwater.protocol.schema.schema import LONG, StructField, StructType
from slackwater.storage.open import open_store
from tests.contract.s3_server import BUCKET, s3_server
from tests.stores.connector import bucket_of_connector, needs_connector, served
from tests.stores.proxy import Fault, FaultProxy, Request, fault_proxy

SCHEMA = StructType((StructField("id", LONG),))
# In classic sessions a job that fails raises an error of Py4J itself.
ERRORS = (SlackwaterError, PySparkException, Py4JError)
CUT, LOST, BUSY = Fault(cut=0.5), Fault(loses_answer=True), Fault(status=503)
CONFLICT = Fault(status=409, body=b"<Error><Code>ConditionalRequestConflict</Code></Error>")
CUT_ANSWER = Fault(status=200, body=b"0123456789", is_done=True, cut=0.5)
LONG_SEEDS = [pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 23)]


@pytest.fixture(scope="module")
def proxy() -> Iterator[FaultProxy]:
    with s3_server() as options, fault_proxy(options) as found:
        yield found


@pytest.fixture
def path(proxy: FaultProxy, request: pytest.FixtureRequest) -> str:
    """An empty table."""
    place = f"s3://{BUCKET}/{request.node.name}"
    Transaction.create(place, SCHEMA, storage_options=proxy.options).commit("CREATE TABLE")
    return place


def append(proxy: FaultProxy, path: str, name: str) -> int:
    return append_to(Transaction(path, storage_options=proxy.options), name)


def append_to(transaction: Transaction, name: str) -> int:
    transaction.add(AddFile(name, {}, 10, 0, stats='{"numRecords":1}'))
    return transaction.commit("WRITE").version


def added(proxy: FaultProxy, path: str) -> Counter[str]:
    """How often each file is added, by all commits of the log."""
    store = open_store(path, proxy.options)
    commits = [meta.path for meta in store.list_from("_delta_log") if meta.path.endswith(".json")]
    actions = [line for data in store.read_many(commits) for line in data.decode().splitlines() if '"add"' in line]
    return Counter(line.partition('"path":"')[2].partition('"')[0] for line in actions)


@pytest.mark.parametrize(
    "fault",
    [LOST, BUSY, Fault(status=500), CONFLICT, replace(CONFLICT, is_done=True), CUT_ANSWER],
    ids=["answer lost", "busy", "broken", "conflict", "conflict and stored", "answer cut"],
)
def test_a_commit_lands_once_whatever_becomes_of_its_puts(proxy: FaultProxy, path: str, fault: Fault) -> None:
    with proxy.times("put", fault, 2):
        assert append(proxy, path, "one") == 1
    assert append(proxy, path, "two") == 2
    assert added(proxy, path) == {"one": 1, "two": 1}


def test_a_conflict_in_which_another_writer_won_moves_the_commit_on(proxy: FaultProxy, path: str) -> None:
    def other_wins(request: Request) -> Fault | None:
        if request.kind != "put" or not request.key.endswith(f"{1:020}.json"):
            return None
        proxy.fault = lambda _: None
        assert append(proxy, path, "theirs") == 1
        return CONFLICT

    with proxy.faults(other_wins):
        assert append(proxy, path, "ours") == 2
    assert added(proxy, path) == {"theirs": 1, "ours": 1}


@pytest.mark.parametrize("kind", ["list", "get"])
@pytest.mark.parametrize("fault", [CUT, LOST, BUSY], ids=["cut", "answer lost", "busy"])
def test_reads_are_whole_or_asked_again(proxy: FaultProxy, path: str, kind: str, fault: Fault) -> None:
    append(proxy, path, "one")
    with proxy.times(kind, fault, 2):
        snapshot = Snapshot.load(path, storage_options=proxy.options)
    assert (snapshot.version, snapshot.files()["path"].to_pylist()) == (1, ["one"])


def test_a_store_that_breaks_off_each_answer_is_an_error_and_no_table_with_fewer_files(
    proxy: FaultProxy, path: str
) -> None:
    append(proxy, path, "one")
    with proxy.faults(lambda request: CUT if request.kind == "list" else None), pytest.raises(StorageError):
        Snapshot.load(path, storage_options=proxy.options)


def test_a_writer_with_an_old_list_goes_behind_what_it_does_not_show(proxy: FaultProxy, path: str) -> None:
    append(proxy, path, "one")
    append(proxy, path, "two")
    # Until its own commit is refused, it sees nothing of the last one.
    refused = threading.Event()

    def old(request: Request) -> Fault | None:
        if request.kind == "put":
            refused.set()
        newest = f"{2:020}."
        return None if refused.is_set() else Fault(hides=lambda key: newest in key)

    with proxy.faults(old):
        assert Snapshot.load(path, storage_options=proxy.options).version == 1
        assert append(proxy, path, "three") == 3
    assert added(proxy, path) == {"one": 1, "two": 1, "three": 1}


@dataclass
class Outcomes:
    """What writers were told of the files that they tried to add."""

    committed: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def attempt(self, name: str, work: Callable[[], object]) -> None:
        try:
            work()
        except CommitUnknown:
            self.unknown.append(name)
        except ERRORS:
            self.failed.append(name)
        else:
            self.committed.append(name)

    def require(self, found: Mapping[str, int], attempts: int) -> None:
        """That of so many attempts nothing is lost and nothing doubled in what is `found`, by how often it is there."""
        assert set(found.values()) <= {1}
        assert set(self.committed) <= set(found) <= {*self.committed, *self.unknown}
        assert len(self.committed) + len(self.failed) + len(self.unknown) == attempts
        # Some get through, so that there was something to lose.
        assert len(self.committed) >= attempts // 4


class Weather:
    """Faults drawn by chance; a request that is repeated gets through in the end."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311  (no secret)
        self._lock = threading.Lock()

    def __call__(self, request: Request) -> Fault | None:
        with self._lock:
            drawn, share = self._random.random(), self._random.random()
        if drawn > 0.3:
            return None
        if request.kind == "put":
            return LOST if share < 0.6 else BUSY
        if request.kind == "list" and share < 0.4:
            return Fault(hides=lambda key: key.endswith((".crc", f"{int(share * 50):020}.json")))
        return (CUT, LOST, BUSY, Fault(delay_s=0.01))[int(share * 4)]


def work_beside_each_other(append_one: Callable[[str], object]) -> Outcomes:
    """Three writers, each of which adds four files."""
    outcomes = Outcomes()

    def work(writer: int) -> None:
        for number in range(4):
            name = f"{writer}-{number}"
            outcomes.attempt(name, partial(append_one, name))

    threads = [threading.Thread(target=work, args=(writer,)) for writer in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


@pytest.mark.parametrize("seed", [1, 2, *LONG_SEEDS])
def test_writers_beside_each_other_lose_and_double_nothing(proxy: FaultProxy, path: str, seed: int) -> None:
    with proxy.faults(Weather(seed)):
        outcomes = work_beside_each_other(lambda name: append(proxy, path, name))
    found = added(proxy, path)
    outcomes.require(found, 12)
    snapshot = Snapshot.load(path, storage_options=proxy.options)
    assert snapshot.version == len(found)
    assert sorted(snapshot.files()["path"].to_pylist()) == sorted(found)


@pytest.mark.parametrize("seed", [1, *LONG_SEEDS])
def test_what_an_owner_ratified_is_backfilled_once(proxy: FaultProxy, tmp_path: Path, seed: int) -> None:
    root, database = f"s3://{BUCKET}/lake-{seed}", f"sqlite:///{tmp_path}/owner.db"
    with LogLake.open(root, database=database, storage_options=proxy.options) as lake:
        lake._create_log("t", SCHEMA)

        def append_one(name: str) -> None:
            append_to(Transaction(lake.snapshot("t")), name)
            with contextlib.suppress(StorageError):
                lake.backfill("t")

        with proxy.faults(Weather(seed)):
            outcomes = work_beside_each_other(append_one)
        ratified = lake.snapshot("t")
        assert lake.backfill("t") == ratified.version
    found = added(proxy, f"{root}/t")
    outcomes.require(found, 12)
    published = Snapshot.load(f"{root}/t", storage_options=proxy.options)
    assert published.version == ratified.version == len(found)
    assert (
        sorted(published.files()["path"].to_pylist()) == sorted(ratified.files()["path"].to_pylist()) == sorted(found)
    )


@pytest.mark.spark
@pytest.mark.usefixtures("by_arrow")
@pytest.mark.parametrize("seed", [1, *LONG_SEEDS[:4]])
def test_rows_by_arrow_are_neither_lost_nor_doubled(spark: SparkSession, proxy: FaultProxy, seed: int) -> None:
    require_rows_once(spark, proxy, f"s3a://{BUCKET}/rows-{seed}", seed)


@served
@pytest.mark.spark
@pytest.mark.classic
@pytest.mark.parametrize("seed", [1, *LONG_SEEDS[:4]])
def test_rows_that_are_served_to_spark_are_neither_lost_nor_doubled(
    spark: SparkSession, proxy: FaultProxy, seed: int
) -> None:
    require_rows_once(spark, proxy, f"s3a://{BUCKET}/served-{seed}", seed)


@needs_connector
@pytest.mark.spark
@pytest.mark.classic
@pytest.mark.parametrize("seed", [1, *LONG_SEEDS[:4]])
def test_rows_by_sparks_connector_are_neither_lost_nor_doubled(
    spark: SparkSession, proxy: FaultProxy, seed: int
) -> None:
    bucket = bucket_of_connector(spark, proxy, f"weather-{seed}")
    require_rows_once(spark, proxy, f"s3a://{bucket}/rows", seed)


def require_rows_once(spark: SparkSession, proxy: FaultProxy, path: str, seed: int) -> None:
    """That of rows that are appended and deleted at `path` amid faults, none is lost and none doubled."""
    slackwater.enable(spark)
    options = {key.lower(): value for key, value in proxy.options.items()}
    # What is on its way into a table of two files: ten rows at a time, and one of each ten out again.
    spark.range(0).write.format("delta").options(**options).save(path)

    def append_rows(number: int) -> None:
        rows = spark.range(number * 10, number * 10 + 10, 1, 2)
        rows.write.format("delta").mode("append").options(**options).save(path)

    def ids() -> list[int]:
        return [row.id for row in spark.read.format("delta").options(**options).load(path).collect()]

    appends, deletes = Outcomes(), Outcomes()
    with proxy.faults(Weather(seed)):
        for number in range(4):
            appends.attempt(str(number), partial(append_rows, number))
        deletes.attempt("3", lambda: DeltaTable.forPath(spark, path, options).delete("id % 10 = 3"))
        with contextlib.suppress(*ERRORS):
            seen = ids()
            assert len(seen) == len(set(seen))
    left = Counter(ids())
    assert set(left.values()) == {1}
    by_append = Counter(number // 10 for number in left if number % 10 != 3)
    assert set(by_append.values()) == {9}
    appends.require({str(number): 1 for number in by_append}, 4)
    gone = {number for number in by_append if number * 10 + 3 not in left}
    assert gone in (set(), set(by_append))
    assert deletes.committed == [] or gone
    assert deletes.failed == [] or not gone
