"""Files that a new table begins with are committed as if they had been held, or are held."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from slackwater.errors import CorruptCheckpoint, StorageError
from slackwater.log import live_files
from slackwater.log.checkpoints.write_checkpoint import write_checkpoint
from slackwater.log.files.bulk_commit import StreamedActions
from slackwater.log.table import Table
from slackwater.maintenance import clone
from slackwater.maintenance.clone import shallow_clone
from slackwater.protocol.actions.file_names import commit_path
from slackwater.protocol.actions.files import AddFile
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.rows.bulk_file_stream import FileStream, StreamNotReplayable
from tests.transaction.rows.test_bulk_file_swap import _files as files_of
from tests.transaction.tables import START_MS, VECTORS, FakeTime, add, append, delete, delete_rows_of, table

_LONG = "day=1/part-00000-5fba94ed-9794-4965-ba6e-6ee3c0d22af{}.c000.snappy.parquet"
_PARTITIONED = {"id": "long", "day": "int"}


@pytest.fixture(autouse=True)
def _in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_files, "_PIECE_ROWS", 2)


def _file(number: int) -> AddFile:
    return add(_LONG.format(number), partition={"day": str(number)}, rows=number + 1)


def _source(path: Path, **properties: str) -> Snapshot:
    """Files of a checkpoint, one of which went since, and of a commit after it."""
    first = append(table(_PARTITIONED, ["day"], properties, path=str(path)), *map(_file, range(4))).snapshot
    write_checkpoint(first, START_MS)
    delete(first, _LONG.format(1))
    return append(Snapshot.load(path), *map(_file, range(4, 7))).snapshot


def _said(source: Snapshot, to: Path) -> dict[str, Any]:
    """What the log of a clone says, and its checksum."""
    shallow_clone(source, Table.at(str(to)), clock=FakeTime().clock())
    made = Snapshot.load(to)
    first, *lines = made.store.read(commit_path(0)).splitlines()
    checksum = made.checksum()
    assert checksum is not None
    info = orjson.loads(first)["commitInfo"]
    counted = checksum.num_files, checksum.table_size_bytes, checksum.configuration.schema, checksum.domains
    told = {key: value for key, value in info.items() if key != "txnId"}
    assert checksum.txn_id == info["txnId"]
    return {"info": told, "files": [line for line in lines if line.startswith(b'{"add"')], "counted": counted}


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A one for each stream whose files were held."""
    seen: list[int] = []
    exchange = FileStream.exchange

    def counted(stream: FileStream, now_ms: int) -> Any:
        seen.append(1)
        return exchange(stream, now_ms)

    monkeypatch.setattr(FileStream, "exchange", counted)
    return seen


def _held_clone(source: Snapshot, to: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    with monkeypatch.context() as patched:
        patched.setattr(FileStream, "is_plain", lambda *_: False)
        return _said(source, to)


@pytest.mark.parametrize("properties", [{}, {"delta.enableInCommitTimestamps": "true"}])
def test_a_stream_is_committed_as_files_that_are_held(
    tmp_path: Path, held: list[int], monkeypatch: pytest.MonkeyPatch, properties: dict[str, str]
) -> None:
    source = _source(tmp_path / "source", **properties)
    streamed = _said(source, tmp_path / "clone")
    assert (len(streamed["files"]), held) == (6, [])
    expected = _held_clone(source, tmp_path / "held", monkeypatch)
    assert held == [1]
    assert streamed == expected
    made = Snapshot.load(tmp_path / "clone")
    assert made.files()["stats"].to_pylist() == source.files()["stats"].to_pylist()


def test_vectors_are_streamed(tmp_path: Path, held: list[int]) -> None:
    source = delete_rows_of(_source(tmp_path / "source", **VECTORS), {_LONG.format(5): [1]}).snapshot
    lines = _said(source, tmp_path / "clone")["files"]
    assert sum(b"deletionVector" in line for line in lines) == 1
    assert held == []


def test_statistics_in_columns_alone_come_along(tmp_path: Path, held: list[int]) -> None:
    as_columns = {"delta.checkpoint.writeStatsAsJson": "false", "delta.checkpoint.writeStatsAsStruct": "true"}
    source = _source(tmp_path / "source", **as_columns)
    assert source.files()["stats"].null_count == 0
    _said(source, tmp_path / "clone")
    assert held == [1]
    assert Snapshot.load(tmp_path / "clone").files()["stats"].null_count == 0


def test_a_checkpoint_that_turns_out_to_be_damaged_is_passed_over(
    tmp_path: Path, held: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, read = _source(tmp_path / "source"), clone._pieces_elsewhere

    def damaged(snapshot: Snapshot) -> Iterator[pa.Table]:
        yield next(read(snapshot))
        raise CorruptCheckpoint("damaged")

    monkeypatch.setattr(clone, "_pieces_elsewhere", damaged)
    streamed = _said(source, tmp_path / "clone")
    assert held == [1]
    assert streamed == _held_clone(source, tmp_path / "held", monkeypatch)
    assert [path.name for path in (tmp_path / "clone" / "_delta_log").iterdir() if path.name[0] == "."] == []


def test_what_cannot_be_read_at_all_is_told_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = _source(tmp_path / "source")

    def failing(_: Snapshot) -> Any:
        raise StorageError("gone")

    monkeypatch.setattr(clone, "_pieces_elsewhere", failing)
    monkeypatch.setattr(clone, "_files_elsewhere", failing)
    with pytest.raises(StorageError, match="gone"):
        _said(source, tmp_path / "clone")
    assert not (tmp_path / "clone").exists()


def _without_size(files: pa.Table) -> pa.Table:
    at = files.schema.get_field_index("size")
    return files.set_column(at, files.schema.field(at), pa.nulls(files.num_rows, pa.int64()))


@pytest.mark.parametrize(
    ("tables", "num_files"),
    [
        pytest.param([[_file(1)], [_file(1)]], 2, id="one file twice"),
        pytest.param([[_file(1)], [_file(2)]], 3, id="one less than was counted"),
        pytest.param([[add("short", partition={"day": "1"})]], 1, id="a short name"),
        pytest.param([[add("%20" + _LONG.format(1), partition={"day": "1"})]], 1, id="a name that is encoded"),
        pytest.param([[_file(1)], [add(_LONG.format(2))]], 2, id="no partition value"),
    ],
)
def test_what_must_be_looked_at_by_itself_breaks_the_stream(tables: list[list[AddFile]], num_files: int) -> None:
    _require_broken([files_of(*files) for files in tables], num_files)


def test_a_file_without_a_size_breaks_the_stream() -> None:
    _require_broken([_without_size(files_of(_file(1)))], 1)


def _require_broken(tables: list[pa.Table], num_files: int) -> None:
    def read() -> Iterator[pa.Table]:
        return iter(tables)

    stream = FileStream(read, lambda: pa.concat_tables(tables), num_files, 0)
    configuration = table(_PARTITIONED, ["day"]).configuration
    with pytest.raises(StreamNotReplayable):
        stream.actions([{"commitInfo": {}}], configuration).data()


def test_actions_of_a_stream_are_those_of_its_bytes() -> None:
    tables = [files_of(_file(1)), files_of(_file(2), _file(3))]
    stream = FileStream(lambda: iter(tables), lambda: pa.concat_tables(tables), 3, 300)
    actions = stream.actions([{"commitInfo": {}}], table(_PARTITIONED, ["day"]).configuration)
    assert isinstance(actions, StreamedActions)
    assert len(actions) == len([*actions]) == 4
    assert [action["add"]["path"] for action in actions[1:]] == [_LONG.format(number) for number in (1, 2, 3)]
    assert len(actions.pieces()) == len(actions.data())
