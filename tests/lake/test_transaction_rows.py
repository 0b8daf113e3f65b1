"""Rows in transactions of a lake without Spark: all tables change together, or none does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import slackwater
from slackwater.errors import ConcurrentAppendException, InvalidArgument, TableNotFound
from slackwater.lake.lake import LogLake
from tests.transaction.tables import schema


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[LogLake]:
    with LogLake.open(tmp_path / "lake") as found:
        for name in ("a", "b"):
            found._create_log(name, schema({"id": "long"}))
        yield found


def _ids(lake: LogLake, name: str) -> list[int]:
    return sorted(lake.snapshot(name).to_arrow()["id"].to_pylist())


def _files(lake: LogLake, name: str) -> list[str]:
    root = Path(lake.snapshot(name).table.location)
    return sorted(str(path.relative_to(root)) for path in root.rglob("*.parquet"))


def test_rows_of_several_tables_are_committed_together(lake: LogLake) -> None:
    with lake.transaction() as tx:
        tx.table("a").append(pa.table({"id": [1, 2, 3]}))
        tx.table("b").append(pa.table({"id": [9]}))
        assert tx.snapshot("a").to_arrow()["id"].to_pylist() == [1, 2, 3]
        assert _ids(lake, "a") == []
    assert (_ids(lake, "a"), _ids(lake, "b"), dict(tx.versions)) == ([1, 2, 3], [9], {"a": 1, "b": 1})
    stamps = {lake.snapshot(name).timestamp_ms for name in ("a", "b")}
    assert len(stamps) == 1


def test_several_changes_of_one_table_are_one_commit(lake: LogLake) -> None:
    with lake.transaction() as tx:
        tx.table("a").append(pa.table({"id": [1, 2, 3]}))
        tx.table("a").delete("id = 2")
        tx.table("a").overwrite(pa.table({"id": [3, 3]}), predicate="id = 3")
    assert (_ids(lake, "a"), lake.snapshot("a").version) == ([1, 3, 3], 1)


def test_a_rollback_leaves_no_rows_and_no_files(lake: LogLake) -> None:
    tx = lake.transaction()
    tx.table("a").append(pa.table({"id": [1]}))
    assert len(_files(lake, "a")) == 1
    tx.rollback()
    assert (_ids(lake, "a"), _files(lake, "a")) == ([], [])


def test_a_write_that_is_refused_leaves_the_transaction_open(lake: LogLake) -> None:
    with lake.transaction() as tx:
        with pytest.raises(InvalidArgument, match="columns that the table lacks: x"):
            tx.table("a").append(pa.table({"x": [1]}))
        tx.table("a").append(pa.table({"id": [1], "x": [1]}), schema_mode="merge")
    assert lake.snapshot("a").to_arrow().to_pylist() == [{"id": 1, "x": 1}]


def test_a_delete_conflicts_with_such_rows_of_others(lake: LogLake) -> None:
    with lake.transaction() as tx:
        tx.table("a").append(pa.table({"id": [1, 2]}))
    tx = lake.transaction()
    tx.table("a").delete("id = 2")
    slackwater.write(lake.snapshot("a"), pa.table({"id": [2]}), "append")
    with pytest.raises(ConcurrentAppendException):
        tx.commit()
    assert _ids(lake, "a") == [1, 2, 2]


def test_a_missing_table_is_refused(lake: LogLake) -> None:
    with lake.transaction() as tx, pytest.raises(TableNotFound):
        tx.table("missing")


def test_rows_are_written_to_a_table_of_the_lake_by_its_snapshot(lake: LogLake) -> None:
    result = slackwater.write(lake.snapshot("a"), pa.table({"id": [5]}), "append")
    assert result is not None
    slackwater.delete(lake.snapshot("a"), "id = 5")
    assert (_ids(lake, "a"), lake.snapshot("a").version) == ([], 2)


def test_a_locking_transaction_locks_the_table_for_the_write(lake: LogLake) -> None:
    with lake.transaction(control="locking") as tx:
        table = tx.table("a")
        assert [(lock.table, lock.held) for lock in lake.activity().locks] == [("a", "S")]
        table.append(pa.table({"id": [5]}))
        assert [(lock.table, lock.held) for lock in lake.activity().locks] == [("a", "X")]
    assert _ids(lake, "a") == [5]


def test_a_default_time_is_the_time_of_the_transaction(lake: LogLake) -> None:
    text = schema({"id": "long", "at": "timestamp"}, at={"CURRENT_DEFAULT": "current_timestamp()"})
    lake._create_log("timed", text, properties={"delta.feature.allowColumnDefaults": "supported"})
    with lake.transaction() as tx:
        tx.table("timed").append(pa.table({"id": [1]}))
    assert lake.snapshot("timed").to_arrow()["at"].to_pylist() == [tx.commit_timestamp]
