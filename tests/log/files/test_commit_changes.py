"""What a commit did to rows, bytes, files and vectors: by its metrics, and by its actions where they are silent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from slackwater.log.files.commit_changes import CommitChanges, commit_changes


def info(operation: str, **metrics: Any) -> dict[str, Any]:
    return {"commitInfo": {"operation": operation, "operationMetrics": metrics}}


def add(
    path: str, rows: int | None = 10, size: int = 100, deleted: int = 0, data_change: bool = True
) -> dict[str, Any]:
    node: dict[str, Any] = {"path": path, "size": size, "dataChange": data_change}
    if rows is not None:
        node["stats"] = json.dumps({"numRecords": rows})
    if deleted:
        node["deletionVector"] = {"storageType": "u", "cardinality": deleted}
    return {"add": node}


def remove(path: str, rows: int | None = 10, size: int | None = 100, deleted: int = 0, **more: Any) -> dict[str, Any]:
    node = add(path, rows, size or 0, deleted, **more)["add"]
    return {"remove": {name: value for name, value in node.items() if name != "size" or size is not None}}


def rows(*actions: dict[str, Any]) -> tuple[int | None, int | None, int | None]:
    found = commit_changes(actions)
    return found.rows_added, found.rows_updated, found.rows_removed


def test_an_append_adds_the_rows_of_its_files() -> None:
    found = commit_changes([info("WRITE", numOutputRows="15"), add("a"), add("b", 5, 50)])
    assert found == CommitChanges(15, 0, 0, 150, 0, 2, 0)


def test_an_overwrite_adds_and_removes() -> None:
    found = commit_changes([info("WRITE", numOutputRows="5"), add("b", 5, 50), remove("a", deleted=3)])
    assert found == CommitChanges(5, 0, 7, 50, 100, 1, 1)


def test_an_overwrite_of_some_rows_counts_no_copied_ones() -> None:
    told = info("WRITE", numOutputRows="12", numCopiedRows="7", numDeletedRows="3")
    assert rows(told, add("b", 12), remove("a")) == (5, 0, 3)


def test_a_merge_is_what_its_metrics_say() -> None:
    told = info(
        "MERGE",
        numOutputRows="30",
        numTargetRowsInserted="3",
        numTargetRowsUpdated="2",
        numTargetRowsDeleted="1",
    )
    assert rows(told, add("b", 30), remove("a", 28)) == (3, 2, 1)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (info("UPDATE", numUpdatedRows="4", numCopiedRows="6"), (0, 4, 0)),
        (info("DELETE", numDeletedRows=4, numCopiedRows="6"), (0, 0, 4)),
        (info("OPTIMIZE", numRemovedFiles="1"), (0, 0, 0)),
    ],
)
def test_rows_that_are_only_copied_do_not_count(told: dict[str, Any], expected: tuple[int, int, int]) -> None:
    assert rows(told, add("b"), remove("a")) == expected


def test_a_vector_takes_rows_away_and_leaves_the_file() -> None:
    found = commit_changes([info("DELETE"), add("a", deleted=5), remove("a", deleted=2)])
    assert found == CommitChanges(0, 0, 3, 0, 0, 0, 0, 1, 3)


def test_a_restore_that_brings_rows_back_has_fewer_rows_marked() -> None:
    found = commit_changes([info("RESTORE"), add("a"), remove("a", deleted=2)])
    assert (found.vectors, found.vector_rows, found.rows_added, found.rows_removed) == (1, -2, 2, 0)


def test_what_a_rewrite_without_metrics_did_is_known_by_its_difference_alone() -> None:
    assert rows(info("MERGE"), add("b", 12), remove("a")) == (2, None, 0)
    assert rows({"commitInfo": {"operation": "DELETE"}}, add("b", 6), remove("a")) == (0, 0, 4)


def test_files_that_are_rearranged_change_no_rows() -> None:
    found = commit_changes([add("b", None, data_change=False), remove("a", None, None, data_change=False)])
    assert found == CommitChanges(0, 0, 0, 100, None, 1, 1)


def test_what_nobody_tells_is_not_known() -> None:
    assert rows(info("WRITE"), add("a", None)) == (None, 0, 0)
    assert rows(info("DELETE"), remove("a", None)) == (None, None, None)
    assert rows(info("WRITE", numOutputRows="8"), add("a", None)) == (8, 0, 0)


@pytest.mark.parametrize("odd", [None, 3, "x", [], {"operation": 3, "operationMetrics": {"numOutputRows": "many"}}])
def test_odd_provenance_is_read_over(odd: Any) -> None:
    assert rows({"commitInfo": odd}, add("a")) == (10, 0, 0)


def test_a_commit_without_files_did_nothing_to_rows() -> None:
    assert commit_changes([info("SET TBLPROPERTIES"), {"metaData": {}}]) == CommitChanges(0, 0, 0)
