"""Deletes without Spark: whole files by the log, other files by vectors or rewrites, and concurrent writers."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa
import pytest

import slackwater
from slackwater.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    InvalidArgument,
    OperationNotAllowed,
    TableNotFound,
)
from slackwater.predicate.predicate import Comparison
from slackwater.rows import row_removal
from slackwater.rows.delete import delete_rows
from slackwater.scan.arrow_scan import ArrowScan
from slackwater.scan.snapshot import Snapshot
from tests.transaction.tables import commit_actions, table

ROWS = pa.table({"id": range(6), "day": ["a", "a", "b", "b", "c", None]})


def _new(**options: Any) -> str:
    at = f"memory://{uuid.uuid4()}"
    slackwater.write(at, ROWS, **options)
    return at


def _ids(at: str) -> list[int]:
    return sorted(slackwater.Snapshot.load(at).to_arrow(["id"])["id"].to_pylist())


@pytest.mark.parametrize("partition_by", [[], ["day"]])
@pytest.mark.parametrize("vectors", ["true", "false"])
@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("day = 'a'", [2, 3, 4, 5]),
        ("id = 2", [0, 1, 3, 4, 5]),
        ("day = 'b' AND id > 2 OR id = 0", [1, 2, 4, 5]),
        ("day IS NULL", [0, 1, 2, 3, 4]),
        ("NOT day = 'a'", [0, 1, 5]),
        (Comparison(("id",), ">=", 1), [0]),
        (None, []),
    ],
)
def test_rows_for_which_the_condition_is_true_are_deleted(
    partition_by: list[str], vectors: str, where: Any, left: list[int]
) -> None:
    at = _new(partition_by=partition_by, properties={"delta.enableDeletionVectors": vectors})
    result = slackwater.delete(at, where)
    assert result is not None
    assert _ids(at) == left
    info = commit_actions(Snapshot.load(at).store, 1)[0]["commitInfo"]
    assert (info["operation"], info["operationMetrics"]["numDeletedRows"]) == ("DELETE", str(6 - len(left)))


def test_nothing_is_committed_where_no_row_matches() -> None:
    at = _new()
    assert slackwater.delete(at, "id > 100") is None
    assert slackwater.delete(at, "id = 2 AND day = 'a'") is None
    assert Snapshot.load(at).version == 0


def test_partitions_are_deleted_without_opening_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    at = _new(partition_by=["day"])
    monkeypatch.setattr(ArrowScan, "addresses", None)
    slackwater.delete(at, "day IN ('a', 'c')")
    assert _ids(at) == [2, 3, 5]


@pytest.mark.parametrize(("size", "count"), [("1b", 3), ("1mb", 1)])
def test_copied_rows_of_small_files_are_combined_up_to_the_target_size(size: str, count: int) -> None:
    at = f"memory://{uuid.uuid4()}"
    for n in range(3):
        slackwater.write(at, pa.table({"id": [n, 10 + n]}), "append", properties={"delta.targetFileSize": size})
    slackwater.delete(at, "id < 10")
    assert _ids(at) == [10, 11, 12]
    assert slackwater.Snapshot.load(at).files().num_rows == count


def test_conditions_that_only_spark_evaluates_are_refused() -> None:
    at = _new()
    with pytest.raises(InvalidArgument, match=r"not filtered by UPPER\(day\) = 'A'.*change the rows with Spark"):
        slackwater.delete(at, "upper(day) = 'A'")
    with pytest.raises(InvalidArgument, match="no column nothing"):
        slackwater.delete(at, "nothing = 1")


def test_a_missing_table_and_an_append_only_one_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TableNotFound):
        slackwater.delete(f"memory://{uuid.uuid4()}", "id = 1")
    base = table(properties={"delta.appendOnly": "true"}, path=f"memory://{uuid.uuid4()}")
    slackwater.write(base, pa.table({"id": [1, 2]}), "append")
    # No row is read.
    monkeypatch.setattr(ArrowScan, "addresses", None)
    with pytest.raises(OperationNotAllowed, match="append-only"):
        slackwater.delete(base, "id = 1")


def _with_another_writer(at: str, monkeypatch: pytest.MonkeyPatch, work: Any) -> None:
    """Have `work` commit after the rows to delete were found, and before the commit of the delete."""
    plain = row_removal.remove_rows

    def removing(*arguments: Any) -> Any:
        found = plain(*arguments)
        work()
        return found

    monkeypatch.setattr("slackwater.rows.delete.remove_rows", removing)
    delete_rows(Snapshot.load(at).table, "id = 2")


def test_an_append_of_other_rows_is_no_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    at = _new()
    more = pa.table({"id": [7, 8], "day": ["x", "y"]})
    # A file whose statistics do not exclude the condition is read.
    wide = pa.table({"id": [1, 9], "day": ["x", "y"]})
    _with_another_writer(at, monkeypatch, lambda: [slackwater.write(at, rows, "append") for rows in (more, wide)])
    assert _ids(at) == [0, 1, 1, 3, 4, 5, 7, 8, 9]


def test_an_append_of_such_rows_is_a_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    at = _new(properties={"delta.isolationLevel": "Serializable"})
    more = pa.table({"id": [2], "day": ["x"]})
    with pytest.raises(ConcurrentAppendException):
        _with_another_writer(at, monkeypatch, lambda: slackwater.write(at, more, "append"))
    assert _ids(at) == [0, 1, 2, 2, 3, 4, 5]
    names = [m.path for m in Snapshot.load(at).store.list_from("", recursive=True) if m.path.endswith(".parquet")]
    assert len(names) == 2


def test_deletes_of_other_rows_of_one_file_land_both_with_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    at = _new(properties={"delta.enableDeletionVectors": "true"})
    with monkeypatch.context() as patch:
        other = Snapshot.load(at)
        _with_another_writer(at, patch, lambda: _plain_delete(other, "id = 4"))
    assert _ids(at) == [0, 1, 3, 5]


def _plain_delete(snapshot: Snapshot, where: str) -> None:
    from slackwater.rows.row_writer import RowWriter
    from slackwater.transaction.commit.factory import begin

    matching = row_removal.matching_rows(snapshot, snapshot._predicate(where, "UTC"))
    transaction = begin(snapshot)
    row_removal.remove_rows(transaction, RowWriter(snapshot.table, snapshot.configuration, {}), matching)
    transaction.commit("DELETE")


def test_deletes_of_one_file_without_vectors_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    at = _new()
    other = Snapshot.load(at)
    with pytest.raises((ConcurrentDeleteReadException, ConcurrentDeleteDeleteException)):
        _with_another_writer(at, monkeypatch, lambda: _plain_delete(other, "id = 4"))
    assert _ids(at) == [0, 1, 2, 3, 5]
