"""How many requests an object store gets for a table's log: never more than deltalake makes for the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from slackwater import AddFile, Snapshot, Transaction
from tests.contract.s3_server import BUCKET, s3_server
from tests.stores.proxy import FaultProxy, fault_proxy

ROWS = pa.table({"id": pa.array(range(10), pa.int64())})


@pytest.fixture(scope="module")
def proxy() -> Iterator[FaultProxy]:
    with s3_server() as options, fault_proxy(options) as found:
        yield found


@pytest.fixture
def path(proxy: FaultProxy, request: pytest.FixtureRequest) -> str:
    """A table of two versions, written by deltalake."""
    place = f"s3://{BUCKET}/{request.node.name}"
    for _ in range(2):
        write_deltalake(place, ROWS, mode="append", storage_options=proxy.options)
    return place


def asked(proxy: FaultProxy, work: Callable[[], Any]) -> Counter[str]:
    """The requests of `work` for anything of the log."""
    proxy.seen.clear()
    work()
    return Counter(request.kind for request in proxy.seen if "_delta_log" in request.key)


def append(proxy: FaultProxy, path: str, name: str) -> None:
    transaction = Transaction(path, storage_options=proxy.options)
    transaction.add(AddFile(name, {}, 10, 0, stats='{"numRecords":10}'))
    transaction.commit("WRITE")


def test_a_table_is_opened_by_the_hint_one_list_and_its_commits(proxy: FaultProxy, path: str) -> None:
    ours = asked(proxy, lambda: Snapshot.load(path, storage_options=proxy.options))
    assert ours == {"get": 3, "list": 1}
    assert ours.total() <= asked(proxy, lambda: DeltaTable(path, storage_options=proxy.options)).total()


def test_a_checkpoint_is_read_by_ranges(proxy: FaultProxy, path: str) -> None:
    DeltaTable(path, storage_options=proxy.options).create_checkpoint()
    ours = asked(proxy, lambda: Snapshot.load(path, storage_options=proxy.options).files())
    theirs = asked(proxy, lambda: DeltaTable(path, storage_options=proxy.options).file_uris())
    assert ours == {"get": 6, "head": 2, "list": 1}
    assert ours.total() <= theirs.total()


def test_an_append_asks_for_little_more_than_its_commit(proxy: FaultProxy, path: str) -> None:
    append(proxy, path, "first")
    ours = asked(proxy, lambda: append(proxy, path, "second"))
    theirs = asked(proxy, lambda: write_deltalake(path, ROWS, mode="append", storage_options=proxy.options))
    assert ours == {"get": 6, "head": 1, "list": 2, "put": 2}
    assert ours.total() <= theirs.total()


def test_a_snapshot_is_brought_up_to_date_by_one_list(proxy: FaultProxy, path: str) -> None:
    snapshot = Snapshot.load(path, storage_options=proxy.options)
    assert asked(proxy, snapshot.update) == {"list": 1}
    append(proxy, path, "more")
    assert asked(proxy, snapshot.update) == {"list": 1, "get": 1}
