"""Rows of many partitions: bounded open files and memory, complete files, and nothing left after an error."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.data_files import partitioned_writer
from slackwater.data_files.partitioned_writer import PartitionedWriter
from slackwater.data_files.writer import FileFormat, WrittenFile
from slackwater.errors import StorageRefused
from slackwater.storage import open_store
from tests.transaction.tables import StepStore

FORM = FileFormat(pa.schema({"id": pa.int64()}), partitions=["part"])


def _batch(*ids: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(ids, pa.int64())})


def _rows(root: Path, files: list[WrittenFile]) -> dict[tuple[str | None, ...], list[list[int]]]:
    found: dict[tuple[str | None, ...], list[list[int]]] = {}
    for file in files:
        rows = pq.ParquetFile(root / file.path).read()["id"].to_pylist()
        assert file.num_rows == len(rows)
        found.setdefault(file.texts, []).append(rows)
    return found


def test_rows_of_a_partition_are_in_one_file(tmp_path: Path) -> None:
    found = PartitionedWriter(open_store(tmp_path), "", FORM, 1 << 20)
    for texts, ids in ((("a",), (1, 2)), ((None,), (3,)), (("a",), (4,))):
        found.write(texts, _batch(*ids))
    files = found.finish()
    assert _rows(tmp_path, files) == {("a",): [[1, 2, 4]], (None,): [[3]]}
    assert sorted(file.path.split("/")[0] for file in files) == ["part=__HIVE_DEFAULT_PARTITION__", "part=a"]


def test_the_file_written_least_recently_is_completed_for_another_partition(tmp_path: Path) -> None:
    found = PartitionedWriter(open_store(tmp_path), "", FORM, 1 << 20, most_open=2)
    for text, row in (("a", 1), ("b", 2), ("a", 3), ("c", 4), ("a", 5), ("b", 6)):
        found.write((text,), _batch(row))
    assert _rows(tmp_path, found.finish()) == {("a",): [[1, 3, 5]], ("b",): [[2], [6]], ("c",): [[4]]}


def test_a_file_is_completed_at_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioned_writer, "GROUP_BYTES", 8)
    found = PartitionedWriter(open_store(tmp_path), "", FORM, 1)
    for row in range(4):
        found.write(("a",), _batch(row))
    files = _rows(tmp_path, found.finish())[("a",)]
    assert len(files) > 1
    assert [row for rows in files for row in rows] == [0, 1, 2, 3]


def test_a_file_is_completed_at_its_number_of_rows(tmp_path: Path) -> None:
    form = FileFormat(FORM.columns, partitions=["part"], max_rows=2)
    found = PartitionedWriter(open_store(tmp_path), "", form, 1 << 20)
    found.write(("a",), _batch(1, 2, 3, 4, 5))
    assert _rows(tmp_path, found.finish()) == {("a",): [[1, 2], [3, 4], [5]]}


def test_rows_in_memory_are_bounded_over_all_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioned_writer, "_MOST_HELD_BYTES", 100)
    found = PartitionedWriter(open_store(tmp_path), "", FORM, 1 << 20)
    held = []
    for row in range(100):
        found.write((str(row % 10),), _batch(row, row))
        held.append(found.held_bytes)
    assert max(held) <= 100
    files = found.finish()
    assert (len(files), sum(file.num_rows for file in files)) == (10, 200)


@pytest.mark.parametrize("fails_at", [1, 2, None])
def test_nothing_is_left_after_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int | None) -> None:
    local = tmp_path / "local"
    local.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(local))
    calls = 0

    def fail(operation: str, path: str) -> None:
        nonlocal calls
        calls += operation == "put_file"
        if operation == "put_file" and calls == fails_at:
            raise StorageRefused("the disk is full")

    store: Any = StepStore(open_store(tmp_path / "table"), fail)
    found = PartitionedWriter(store, "", FORM, 1 << 20, most_open=1)

    def write_all() -> None:
        for text in "abc":
            found.write((text,), _batch(1))
        if fails_at is not None:
            found.finish()

    with contextlib.nullcontext() if fails_at is None else pytest.raises(StorageRefused):
        write_all()
    found.discard()
    assert list(local.iterdir()) == []
    assert list((tmp_path / "table").rglob("*.parquet")) == []
