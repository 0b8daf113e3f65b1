"""Work per table and commit of a transaction: each table is validated, assembled and moved forward once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slackwater import AddFile
from slackwater.lake.lake import LogLake
from slackwater.protocol.schema.schema import LONG, StructField, StructType
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.commit import transaction as table_transaction
from slackwater.transaction.conflicts import commit_loop

TABLES = ("orders", "stock")


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[LogLake]:
    with LogLake.open(tmp_path) as found:
        for name in TABLES:
            found._create_log(name, StructType((StructField("id", LONG),)))
        yield found


@pytest.fixture
def calls(lake: LogLake, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The calls since the tables were created."""
    counted: Counter[str] = Counter()

    def count(holder: Any, name: str) -> None:
        original: Callable[..., Any] = getattr(holder, name)

        def counting(*args: Any, **kwargs: Any) -> Any:
            counted[name] += 1
            return original(*args, **kwargs)

        monkeypatch.setattr(holder, name, counting)

    count(table_transaction, "prepare")
    count(commit_loop, "assemble")
    count(Snapshot, "with_commits")
    return counted


def append(tx: Any, table: str, name: str = "a.parquet") -> None:
    log = tx.log(table)
    log.add(AddFile(name, {}, 10, 0, stats='{"numRecords":1}'))
    log.commit("WRITE")


ONCE_PER_TABLE = {"prepare": 2, "assemble": 2, "with_commits": 2}


def test_transaction_with_one_change_per_table_does_the_work_once(lake: LogLake, calls: Counter[str]) -> None:
    with lake.transaction() as tx:
        for table in TABLES:
            append(tx, table)
    assert calls == ONCE_PER_TABLE


def test_progress_of_a_stream_is_committed_with_the_rows(lake: LogLake, calls: Counter[str]) -> None:
    with lake.transaction() as tx:
        for table in TABLES:
            append(tx, table)
            tx.writing(table).record_progress("query", 7, "STREAMING UPDATE", {"queryId": "query"}, None)
    assert calls == ONCE_PER_TABLE
    for table in TABLES:
        snapshot = lake.snapshot(table)
        assert (snapshot.version, snapshot.transactions["query"].version) == (1, 7)
        assert snapshot.files()["path"].to_pylist() == ["a.parquet"]


def test_progress_alone_is_a_commit_and_visible_in_the_transaction(lake: LogLake) -> None:
    with lake.transaction() as tx:
        tx.writing("stock").record_progress("query", 3, "WRITE", {}, None)
        assert tx.log("stock").application_version("query") == 3
    assert lake.snapshot("stock").transactions["query"].version == 3
    assert lake.snapshot("orders").version == 0


def test_second_change_sees_the_first_one(lake: LogLake) -> None:
    with lake.transaction() as tx:
        append(tx, "stock")
        log = tx.log("stock")
        log.remove("a.parquet")
        log.add(AddFile("b.parquet", {}, 10, 0, stats='{"numRecords":2}'))
        log.commit("WRITE")
        current = tx.log("stock").snapshot
        assert current is not None
        assert current.files()["path"].to_pylist() == ["b.parquet"]
    assert lake.snapshot("stock").files()["path"].to_pylist() == ["b.parquet"]
