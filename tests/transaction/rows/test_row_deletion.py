"""Rows deleted by deletion vectors: the actions that say so, and what is refused before anything is written."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from slackwater.errors import DataFileNotFound, InvalidArgument, OperationNotAllowed
from slackwater.protocol.actions.actions import Metadata
from slackwater.protocol.actions.files import AddFile
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.rows.row_deletion import RowDeletion
from tests.transaction.tables import (
    VECTORS,
    add,
    append,
    begin,
    commit_actions,
    delete_rows,
    delete_rows_of,
    live,
    live_rows,
    only,
    set_props,
    table,
    vector_files,
)


def _table(*files: AddFile, **properties: str) -> Snapshot:
    settings = {**VECTORS, **{key.replace("__", "."): value for key, value in properties.items()}}
    return append(table(properties=settings), *files).snapshot


def test_a_file_keeps_all_that_was_said_of_it_but_its_rows() -> None:
    file = add("a", tags={"k": "v"}, clustering_provider="liquid")
    before = _table(file, delta__enableRowTracking="true")
    delete_rows_of(before, {"a": [3, 4]})
    first, second = only(before.store, 1, "add"), only(before.store, 2, "add")
    changed = {"deletionVector", "stats", "dataChange"}
    assert {k: v for k, v in second.items() if k not in changed} == {k: v for k, v in first.items() if k not in changed}
    assert (second["dataChange"], second["baseRowId"], second["clusteringProvider"]) == (True, 0, "liquid")
    assert second["deletionVector"]["cardinality"] == 2
    removed = only(before.store, 2, "remove")
    assert "deletionVector" not in removed
    assert (removed["path"], removed["dataChange"], removed["baseRowId"]) == ("a", True, 0)
    assert live_rows(before.store)["a"] == [0, 1, 2, 5, 6, 7, 8, 9]


def test_a_second_deletion_has_the_rows_of_the_first_as_well() -> None:
    before = delete_rows_of(_table(add("a")), {"a": [0]}).snapshot
    delete_rows_of(before, {"a": [1]})
    assert only(before.store, 3, "remove")["deletionVector"] == only(before.store, 2, "add")["deletionVector"]
    assert live_rows(before.store)["a"] == [2, 3, 4, 5, 6, 7, 8, 9]


def test_what_is_counted_is_what_happens_to_files() -> None:
    names = ["fresh", "whole", "again", "again-whole", "untouched"]
    before = delete_rows_of(_table(*map(add, names)), {"again": [0], "again-whole": [0]}).snapshot
    mine = begin(before)
    rows = {"fresh": [1], "whole": range(10), "again": [1, 2], "again-whole": range(1, 10)}
    assert delete_rows(mine, rows) == RowDeletion(2, 200, 1, 1, 1, 22)
    mine.commit("DELETE")
    assert live(before.store) == ["again", "fresh", "untouched"]
    assert len(vector_files(before.store)) == 2


def test_a_file_without_a_row_left_gets_no_vector() -> None:
    before = _table(add("a"))
    delete_rows_of(before, {"a": range(10)})
    assert [next(iter(action)) for action in commit_actions(before.store, 2)] == ["commitInfo", "remove"]
    assert vector_files(before.store) == []


def test_whole_files_need_no_table_that_allows_vectors() -> None:
    before = append(table(), add("a")).snapshot
    delete_rows_of(before, {"a": range(10)})
    assert live(before.store) == []


def test_nothing_to_delete_is_nothing_staged() -> None:
    mine = begin(_table(add("a")))
    assert delete_rows(mine, {}) == RowDeletion(0, 0, 0, 0, 0, 0)
    assert not mine.staged.has_file_actions


@pytest.mark.parametrize(
    "stats",
    [
        '{"numRecords":10,"minValues":{"d":12345678901234567890.123456789},"maxValues":{"d":0.10}}',
        ' { "minValues" : {"d":12345678901234567890.123456789} , "maxValues":{"d":0.10},"tightBounds":true,'
        '"numRecords" : 10}\n',
    ],
)
def test_bounds_are_wide_and_written_as_they_were(stats: str) -> None:
    before = _table(replace(add("a"), stats=stats))
    delete_rows_of(before, {"a": [1]})
    assert only(before.store, 2, "add")["stats"] == (
        '{"numRecords":10,"minValues":{"d":12345678901234567890.123456789},"maxValues":{"d":0.10},"tightBounds":false}'
    )


@pytest.mark.parametrize("stats", [None, "", "null", "[1]", "{", '{"numRecords":null}', '{"numRecords" 3}', "{}x"])
@pytest.mark.parametrize("path", ["a%20b.parquet", "absolute"])
def test_a_file_that_does_not_say_its_rows_is_asked(stats: str | None, path: str, tmp_path: Path) -> None:
    created = table(properties=VECTORS, path=tmp_path)
    content = io.BytesIO()
    pq.write_table(pa.table({"id": range(7)}), content)
    created.store.put("a b.parquet", content.getvalue())
    name = f"{created.store.root_url}/a%20b.parquet" if path == "absolute" else path
    before = append(created, replace(add(name), stats=stats)).snapshot
    delete_rows_of(before, {name: [1]})
    assert orjson.loads(only(before.store, 2, "add")["stats"]) == {"numRecords": 7, "tightBounds": False}


def test_a_data_file_that_is_gone_is_named() -> None:
    before = _table(add("a", rows=None))
    with pytest.raises(DataFileNotFound, match=r"a: .*does not exist"):
        delete_rows(begin(before), {"a": [1]})


def test_many_files_share_one_vector_file() -> None:
    names = [f"f{n}" for n in range(2000)]
    before = _table(*(add(name) for name in names))
    delete_rows_of(before, {name: [n % 10] for n, name in enumerate(names)})
    assert len(vector_files(before.store)) == 1
    rows = live_rows(before.store)
    assert all(n % 10 not in rows[name] and len(rows[name]) == 9 for n, name in enumerate(names))


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ({"x": [1]}, "x, which is not one of the passed files"),
        ({"a": []}, "a: expected rows to delete, found none"),
        ({"a": [10]}, "row 10 does not exist, because the file has 10 rows"),
        ({"a": [2**40]}, "because the file has 10 rows"),
        ({"a": [0, 1]}, "a: row 0 is already deleted"),
        ({"b": [0], "a": [0]}, "row 0"),
    ],
)
def test_rows_that_cannot_be_deleted_are_refused_before_anything_is_written(rows: Mapping[str, Any], says: str) -> None:
    before = delete_rows_of(_table(add("a"), add("b")), {"a": [0]}).snapshot
    written = vector_files(before.store)
    mine = begin(before)
    with pytest.raises(InvalidArgument, match=says):
        delete_rows(mine, rows)
    assert vector_files(before.store) == written
    assert not mine.staged.has_file_actions


def test_one_file_is_named_once() -> None:
    before = _table(add("a"))
    mine = begin(before)
    delete_rows(mine, {"a": [1]})
    with pytest.raises(InvalidArgument, match="Name all rows of a file in one call"):
        delete_rows(mine, {"a": [2]})
    mine.commit("DELETE")
    assert live_rows(before.store)["a"] == [0, 2, 3, 4, 5, 6, 7, 8, 9]


def test_a_file_given_twice_is_refused() -> None:
    before = _table(add("a"))
    files = before.live_files()
    with pytest.raises(InvalidArgument, match="same path"):
        begin(before).delete_rows(pa.concat_tables([files, files]), {"a": BitMap64([1])})


def test_a_file_that_is_removed_as_well_is_refused() -> None:
    before = _table(add("a"))
    mine = begin(before)
    delete_rows(mine, {"a": [1]})
    mine.remove(mine.staged.removes[0])
    with pytest.raises(InvalidArgument, match="remove the same path twice"):
        mine.commit("DELETE")
    mine.discard_vectors()
    assert vector_files(before.store) == []


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({}, "does not support deletion vectors"),
        ({"delta.feature.deletionVectors": "supported"}, "need delta.enableDeletionVectors to be true"),
        ({**VECTORS, "delta.appendOnly": "true"}, "append-only"),
    ],
)
def test_a_table_that_does_not_allow_it_is_refused_before_anything_is_written(
    properties: dict[str, str], says: str
) -> None:
    before = append(table(properties=properties), add("a")).snapshot
    with pytest.raises(OperationNotAllowed, match=says):
        delete_rows(begin(before), {"a": [1]})
    assert vector_files(before.store) == []


def test_vectors_may_be_turned_on_by_the_same_commit() -> None:
    before = append(table(properties={"delta.feature.deletionVectors": "supported"}), add("a")).snapshot
    mine = begin(before)
    configuration = {**before.metadata.configuration, **VECTORS}
    mine.set_metadata(Metadata(**{**_fields(before.metadata), "configuration": configuration}))
    delete_rows(mine, {"a": [1]})
    mine.commit("DELETE")
    assert live_rows(before.store)["a"] == [0, 2, 3, 4, 5, 6, 7, 8, 9]


def test_a_table_that_is_created_has_no_rows_to_delete() -> None:
    before = _table(add("a"))
    mine = begin(before)
    mine.read_snapshot = None
    with pytest.raises(InvalidArgument, match="being created"):
        mine.delete_rows(before.live_files(), {"a": BitMap64([1])})


def test_a_file_without_row_ids_gets_some_with_its_vector() -> None:
    before = _table(add("a"))
    mine = begin(before)
    set_props(before, delta__enableRowTracking="true")
    delete_rows(mine, {"a": [1]})
    mine.commit("DELETE")
    assert only(before.store, 3, "add")["baseRowId"] == 0


def _fields(metadata: Metadata) -> dict[str, Any]:
    return {name: getattr(metadata, name) for name in Metadata.__slots__}
