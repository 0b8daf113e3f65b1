"""Commits and reads over a store that is slow, busy, forgets to answer, breaks off and shows old lists."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from slackwater import AddFile, Snapshot, Transaction
from slackwater.errors import CommitUnknown, SlackwaterError, StorageError
from slackwater.protocol.schema.schema import LONG, StructField, StructType
from slackwater.storage.open import open_store
from tests.contract.s3_server import BUCKET, s3_server
from tests.stores.proxy import Fault, FaultProxy, Request, fault_proxy

SCHEMA = StructType((StructField("id", LONG),))
CUT, LOST, BUSY = Fault(cut=0.5), Fault(loses_answer=True), Fault(status=503)


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
    transaction = Transaction(path, storage_options=proxy.options)
    transaction.add(AddFile(name, {}, 10, 0, stats='{"numRecords":1}'))
    return transaction.commit("WRITE").version


def added(proxy: FaultProxy, path: str) -> Counter[str]:
    """How often each file is added, by all commits of the log."""
    store = open_store(path, proxy.options)
    commits = [meta.path for meta in store.list_from("_delta_log") if meta.path.endswith(".json")]
    actions = [line for data in store.read_many(commits) for line in data.decode().splitlines() if '"add"' in line]
    return Counter(line.partition('"path":"')[2].partition('"')[0] for line in actions)


@pytest.mark.parametrize("fault", [LOST, BUSY, Fault(status=500)], ids=["answer lost", "busy", "broken"])
def test_a_commit_lands_once_whatever_becomes_of_its_puts(proxy: FaultProxy, path: str, fault: Fault) -> None:
    with proxy.times("put", fault, 2):
        assert append(proxy, path, "one") == 1
    assert append(proxy, path, "two") == 2
    assert added(proxy, path) == {"one": 1, "two": 1}


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

    def attempt(self, proxy: FaultProxy, path: str, name: str) -> None:
        try:
            append(proxy, path, name)
        except CommitUnknown:
            self.unknown.append(name)
        except SlackwaterError:
            self.failed.append(name)
        else:
            self.committed.append(name)


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


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 23))])
def test_writers_beside_each_other_lose_and_double_nothing(proxy: FaultProxy, path: str, seed: int) -> None:
    outcomes = Outcomes()

    def work(writer: int) -> None:
        for number in range(4):
            outcomes.attempt(proxy, path, f"{writer}-{number}")

    with proxy.faults(Weather(seed)):
        threads = [threading.Thread(target=work, args=(writer,)) for writer in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = added(proxy, path)
    assert set(found.values()) <= {1}
    assert set(outcomes.committed) <= set(found)
    assert not set(outcomes.failed) & set(found)
    assert set(found) <= {*outcomes.committed, *outcomes.unknown}
    assert len(outcomes.committed) + len(outcomes.failed) + len(outcomes.unknown) == 12
    snapshot = Snapshot.load(path, storage_options=proxy.options)
    assert snapshot.version == len(found)
    assert sorted(snapshot.files()["path"].to_pylist()) == sorted(found)
    # Most get through, so that there was something to lose.
    assert len(outcomes.committed) >= 3
