"""The three outcomes of a write: committed, failed without effect, unknown. Files go only after the second."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import slackwater
from slackwater.errors import CommitFailed, CommitUnknown, StorageError, StorageRefused, ValueDoesNotFit
from slackwater.log.table import Table
from slackwater.rows.delete import delete_rows
from slackwater.rows.request import write_request
from slackwater.rows.sources import row_source
from slackwater.rows.write import write_rows
from slackwater.storage import open_store
from tests.transaction.tables import StepStore

ROWS = pa.table({"id": range(8), "part": [0, 1] * 4})
LATER = "the store answers no more"
Change = Callable[[Table], Any]


def _append(table: Table) -> Any:
    return write_rows(table, row_source(ROWS), write_request("append"))


def _overwrite(table: Table) -> Any:
    return write_rows(table, row_source(ROWS.slice(3, 1)), write_request("overwrite", predicate="id = 3"))


def _delete(table: Table) -> Any:
    return delete_rows(table, "id = 3")


CHANGES = {"append": _append, "overwrite": _overwrite, "delete": _delete}


def _files(root: Path) -> set[str]:
    return {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and "_delta_log" not in p.parts}


def _new(root: Path, vectors: bool) -> None:
    properties = {"delta.enableDeletionVectors": str(vectors).lower(), "delta.enableChangeDataFeed": "true"}
    slackwater.write(root, ROWS, partition_by="part", properties=properties)


def _stepping(root: Path, step: Callable[[str, str], None]) -> Table:
    return Table(StepStore(open_store(root), step))


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("name", CHANGES)
def test_files_go_where_the_commit_was_refused(tmp_path: Path, name: str, vectors: bool) -> None:
    _new(tmp_path, vectors)
    before = _files(tmp_path)

    def refuse(operation: str, path: str) -> None:
        if operation == "put_if_absent" and path.endswith("1.json"):
            raise StorageRefused("read-only")

    with pytest.raises(CommitFailed):
        CHANGES[name](_stepping(tmp_path, refuse))
    assert _files(tmp_path) == before
    assert slackwater.Snapshot.load(tmp_path).version == 0


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("landed", [True, False])
@pytest.mark.parametrize("name", CHANGES)
def test_files_stay_where_the_outcome_is_unknown(tmp_path: Path, name: str, landed: bool, vectors: bool) -> None:
    _new(tmp_path, vectors)
    before = _files(tmp_path)
    plain = open_store(tmp_path)
    is_down = False

    def fail(operation: str, path: str) -> None:
        nonlocal is_down
        if operation == "put_if_absent" and path.endswith("1.json"):
            is_down = True
            raise StorageError(LATER)
        if is_down and operation == "read":
            raise StorageError(LATER)

    class Losing(StepStore):
        """A store whose answer to the commit is lost."""

        def put_if_absent(self, path: str, data: Any, durable: bool = True) -> None:
            if landed and path.endswith("1.json"):
                plain.put_if_absent(path, data, durable)
            super().put_if_absent(path, data, durable)

    with pytest.raises(CommitUnknown):
        CHANGES[name](Table(Losing(plain, fail)))
    assert before < _files(tmp_path)
    found = slackwater.Snapshot.load(tmp_path)
    assert found.version == int(landed)
    found.to_arrow()


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("name", CHANGES)
def test_files_go_where_one_of_them_could_not_be_written(tmp_path: Path, name: str, count: int) -> None:
    _new(tmp_path, vectors=False)
    before = _files(tmp_path)
    calls = 0

    def fail(operation: str, path: str) -> None:
        nonlocal calls
        calls += operation == "put_file"
        if operation == "put_file" and calls == count:
            raise StorageRefused("the disk is full")

    with pytest.raises(StorageError, match="the disk is full"):
        CHANGES[name](_stepping(tmp_path, fail))
    assert _files(tmp_path) == before
    assert slackwater.Snapshot.load(tmp_path).version == 0


class Boom(BaseException):
    """The end of the work from outside, such as Ctrl-C."""


@pytest.mark.parametrize("error", [Boom, ValueError])
def test_files_go_where_the_rows_break_off(tmp_path: Path, error: type[BaseException]) -> None:
    _new(tmp_path, vectors=False)
    before = _files(tmp_path)

    def batches() -> Iterator[pa.RecordBatch]:
        yield ROWS.to_batches()[0]
        raise error

    with pytest.raises(error):
        slackwater.write(tmp_path, batches(), "append")
    assert _files(tmp_path) == before


def test_a_value_that_does_not_fit_in_the_last_batch_leaves_nothing(tmp_path: Path) -> None:
    slackwater.write(tmp_path, pa.table({"id": pa.array([1], pa.int32())}))
    before = _files(tmp_path)
    batches = [pa.record_batch({"id": pa.array([n], pa.int64())}) for n in (1, 2, 2**40)]
    with pytest.raises(ValueDoesNotFit, match="column id is of type integer"):
        slackwater.write(tmp_path, batches, "append")
    assert _files(tmp_path) == before
    assert slackwater.Snapshot.load(tmp_path).version == 0


def test_no_temporary_files_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local = tmp_path / "local"
    local.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(local))
    _new(tmp_path / "table", vectors=True)

    def batches() -> Iterator[pa.RecordBatch]:
        yield ROWS.to_batches()[0]
        raise ValueError("the end")

    with pytest.raises(ValueError, match="the end"):
        slackwater.write(tmp_path / "table", batches(), "append")
    slackwater.delete(tmp_path / "table", "id = 3")
    assert list(local.iterdir()) == []


_KILLED = """
import sys
import time
import pyarrow as pa
import slackwater

def batches():
    for n in range(3):
        yield pa.record_batch({"id": [n], "part": [n]})
    print("written", flush=True)
    time.sleep(600)

slackwater.write(sys.argv[1], batches(), "append")
"""


def test_a_process_that_is_killed_during_a_write_leaves_the_table_as_it_was(tmp_path: Path) -> None:
    _new(tmp_path, vectors=False)
    before = slackwater.Snapshot.load(tmp_path).to_arrow()
    command = [sys.executable, "-c", _KILLED, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "written\n"
        process.kill()
    found = slackwater.Snapshot.load(tmp_path)
    assert (found.version, found.to_arrow()) == (0, before)
    slackwater.write(tmp_path, ROWS, "append")
    assert slackwater.Snapshot.load(tmp_path).to_arrow().num_rows == 2 * ROWS.num_rows
