"""Files that come and go in bulk are committed as they would be one by one, or are taken one by one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from slackwater.errors import CorruptLog, InvalidArgument, OperationNotAllowed
from slackwater.log.files.bulk_commit import BulkActions, LargeActionSequence, StreamedActions
from slackwater.log.files.commits import ParsedCommit
from slackwater.log.files.file_actions import ADD_SCHEMA
from slackwater.log.table import Table
from slackwater.maintenance.clone import shallow_clone
from slackwater.maintenance.restore import restore
from slackwater.protocol.actions.file_names import commit_path
from slackwater.protocol.actions.files import AddFile
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.store import ChunkedBytes
from slackwater.transaction.committer import Committed, Conflict
from slackwater.transaction.committers.filesystem import FilesystemCommitter
from slackwater.transaction.post_commit import PostCommitHook
from slackwater.transaction.rows.bulk_file_stream import FileStream
from slackwater.transaction.rows.bulk_file_swap import BulkFileSwap
from tests.transaction.tables import (
    VECTORS,
    FakeTime,
    add,
    append,
    begin,
    delete,
    delete_rows_of,
    table,
    vector,
)

PARTITIONED = {"id": "long", "p": "date"}
TRACKED = {"delta.enableRowTracking": "true"}


def _aged(path: Path) -> Snapshot:
    """Files of all kinds: partitions, one of them null, vectors, tags, names that are encoded; some went since."""
    first = table(PARTITIONED, ["p"], VECTORS, path=str(path))
    names = ["p=2026-01-01/a", "p=2026-01-01/b%20c", "p=x/d", "p=x/e"]
    days = ["2026-01-01", "2026-01-01", None, None]
    files = [add(name, partition={"p": day}) for name, day in zip(names, days, strict=True)]
    tagged = replace(files[1], tags={'of "it"': "\\"}, clustering_provider="liquid")
    second = append(first, files[0], tagged, *files[2:]).snapshot
    for name in ("a", "b c"):
        (path / "p=2026-01-01").mkdir(exist_ok=True)
        (path / "p=2026-01-01" / name).write_bytes(b"x" * 100)
    third = delete_rows_of(second, {names[2]: [1]}).snapshot
    return append(delete(third, *names[:2]).snapshot, add("f", partition={"p": None})).snapshot


def _cloned(source: Path, target: Path) -> Snapshot:
    shallow_clone(Snapshot.load(str(source), 2), Table.at(str(target)), clock=FakeTime().clock())
    return Snapshot.load(str(target))


def _replaced(source: Path, target: Path) -> Snapshot:
    cloned = _cloned(source, target)
    shallow_clone(Snapshot.load(str(source)), cloned.table, is_replaced=True, clock=FakeTime().clock())
    return cloned.update()


def _restored(source: Path, target: Path) -> Snapshot:
    shutil.copytree(source, target)
    restore(Table.at(str(target)), 2, clock=FakeTime().clock())
    return Snapshot.load(str(target))


def _said(snapshot: Snapshot) -> dict[str, Any]:
    """All that the commit says of files, and what was made of it."""
    lines = snapshot.store.read(commit_path(snapshot.version)).splitlines()
    checksum = snapshot.checksum()
    assert checksum is not None
    return {
        "files": [line for line in lines if line.startswith((b'{"add"', b'{"remove"'))],
        "live": sorted(snapshot.live_files().to_pylist(), key=str),
        "counted": (checksum.num_files, checksum.table_size_bytes, checksum.configuration == snapshot.configuration),
        "info": {key: value for key, value in _info(lines).items() if key != "txnId"},
    }


def _info(lines: list[bytes]) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(lines[0])["commitInfo"]
    return found


@pytest.fixture
def in_bulk(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many actions each commit that is made in bulk has."""
    seen: list[int] = []

    def counting(pieces: Callable[[Any], ChunkedBytes]) -> Callable[[Any], ChunkedBytes]:
        def counted(actions: LargeActionSequence) -> ChunkedBytes:
            seen.append(len(actions))
            return pieces(actions)

        return counted

    for kind in (BulkActions, StreamedActions):
        monkeypatch.setattr(kind, "pieces", counting(kind.pieces))
    return seen


@pytest.mark.parametrize("work", [_cloned, _replaced, _restored])
def test_in_bulk_and_one_by_one_the_log_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_bulk: list[int], work: Callable[[Path, Path], Snapshot]
) -> None:
    source = _aged(tmp_path / "source").table.root_url.removeprefix("file://")
    bulk = _said(work(Path(source), tmp_path / "bulk"))
    assert in_bulk
    assert bulk["files"]
    monkeypatch.setattr(BulkFileSwap, "is_plain", lambda *_: False)
    monkeypatch.setattr(FileStream, "is_plain", lambda *_: False)
    in_bulk.clear()
    assert _said(work(Path(source), tmp_path / "single")) == bulk
    assert not in_bulk


def test_the_version_that_a_commit_in_bulk_made_is_known_as_it_is_read(tmp_path: Path, in_bulk: list[int]) -> None:
    before = _aged(tmp_path / "t")
    transaction = begin(before, after=PostCommitHook(checkpoints=False, cleanup=False))
    transaction.exchange(ADD_SCHEMA.empty_table(), before.live_files(ADD_SCHEMA.names))
    result = transaction.commit("TRUNCATE", {"n": "1"})
    assert in_bulk == [1 + before.live_files().num_rows]
    known, read = result.snapshot, Snapshot.load(str(tmp_path / "t"))
    assert (known.version, known.live_files().num_rows) == (read.version, read.live_files().num_rows) == (4 + 1, 0)
    assert known.tombstones().sort_by("path").equals(read.tombstones().sort_by("path"))
    assert known.state.last_commit_info == read.state.last_commit_info
    checksum = read.checksum()
    assert checksum is not None
    assert (checksum.num_files, checksum.table_size_bytes) == (0, 0)


class _Other:
    """A committer that hands the actions on."""

    publishes_at_once = True

    def __init__(self, inner: FilesystemCommitter) -> None:
        self._inner = inner
        self.kind: type | None = None

    def commit(self, version: int, actions: Any, may_move: bool = False) -> Committed | Conflict:
        self.kind = type(actions)
        return self._inner.commit(version, actions, may_move)

    def commits_after(self, version: int) -> list[ParsedCommit]:
        return [*self._inner.commits_after(version)]


def test_who_hands_actions_on_is_given_them_one_by_one() -> None:
    before = append(table(), add("a")).snapshot
    committer = _Other(FilesystemCommitter(before.store))
    transaction = begin(before, committer=committer)
    transaction.exchange(_files(add("b")), before.live_files(ADD_SCHEMA.names))
    transaction.commit("WRITE")
    assert committer.kind is list
    assert before.update().live_files()["path"].to_pylist() == ["b"]


def _files(*adds: AddFile) -> pa.Table:
    nodes = [orjson.loads(orjson.dumps(each.to_json()["add"])) for each in adds]
    maps = [{**n, "partitionValues": list(n["partitionValues"].items())} for n in nodes]
    return pa.Table.from_pylist(maps, ADD_SCHEMA)


@pytest.mark.parametrize(
    ("adds", "gone", "expected"),
    [
        ([add("b"), add("b")], ["a"], "twice"),
        ([add("b"), add("%62")], ["a"], "twice"),
        ([add("a")], ["a"], "both add and remove"),
        ([add("b", partition={"p": "1"})], ["a"], "partition columns"),
        ([add("b", rows=None, deletion_vector=vector())], ["a"], "deletion vector"),
        ([add("a", deletion_vector=vector())], [], "another deletion vector"),
    ],
)
def test_what_cannot_be_is_refused_in_bulk_too(adds: list[AddFile], gone: list[str], expected: str) -> None:
    before = append(table(properties=VECTORS), add("a")).snapshot
    live = before.live_files(ADD_SCHEMA.names)
    transaction = begin(before)
    transaction.exchange(_files(*adds), live if gone else live.slice(0, 0))
    with pytest.raises(InvalidArgument, match=expected):
        transaction.commit("WRITE")


def test_a_file_that_is_not_live_cannot_go() -> None:
    before = append(table(), add("a")).snapshot
    transaction = begin(before)
    transaction.exchange(ADD_SCHEMA.empty_table(), _files(add("b")))
    with pytest.raises(InvalidArgument, match="cannot be removed"):
        transaction.commit("WRITE")


def test_partition_values_must_be_of_their_types() -> None:
    transaction = begin(table(PARTITIONED, ["p"]))
    transaction.exchange(_files(add("b", partition={"p": "soon"})), ADD_SCHEMA.empty_table())
    with pytest.raises(CorruptLog, match="soon"):
        transaction.commit("WRITE")


def test_a_vector_needs_a_table_that_has_some() -> None:
    transaction = begin(table())
    transaction.exchange(_files(add("b", deletion_vector=vector())), ADD_SCHEMA.empty_table())
    with pytest.raises(OperationNotAllowed, match="deletion vectors"):
        transaction.commit("WRITE")


def test_nothing_goes_from_an_append_only_table() -> None:
    before = append(table(properties={"delta.appendOnly": "true"}), add("a")).snapshot
    transaction = begin(before)
    transaction.exchange(ADD_SCHEMA.empty_table(), before.live_files(ADD_SCHEMA.names))
    with pytest.raises(OperationNotAllowed, match="append-only"):
        transaction.commit("WRITE")


def test_files_that_are_given_row_ids_are_taken_one_by_one(in_bulk: list[int]) -> None:
    before = append(table(properties=TRACKED), add("a")).snapshot
    transaction = begin(before)
    transaction.exchange(_files(add("b")), before.live_files(ADD_SCHEMA.names))
    transaction.commit("WRITE")
    assert before.update().live_files()["baseRowId"].to_pylist() == [10]
    assert not in_bulk


def test_a_tag_without_a_text_is_left_out(in_bulk: list[int]) -> None:
    before = table()
    files = _files(add("b"))
    tags = pa.array([[("k", None), ("l", "1")]], ADD_SCHEMA.field("tags").type)
    transaction = begin(before)
    transaction.exchange(
        files.set_column(ADD_SCHEMA.get_field_index("tags"), ADD_SCHEMA.field("tags"), tags), ADD_SCHEMA.empty_table()
    )
    transaction.commit("WRITE")
    assert before.update().live_files()["tags"].to_pylist() == [[("l", "1")]]
    assert not in_bulk
