"""Files of deletion vectors: what is written is what is read, and what cannot be used is not left behind."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from slackwater.errors import InvalidArgument, ObjectExists, StorageError, StorageRefused
from slackwater.scan.deletion_vectors import load_deletion_vectors
from slackwater.storage import open_store
from slackwater.storage.store import ChunkedBytes
from slackwater.transaction.rows import vector_files as vector_files_module
from slackwater.transaction.rows.vector_files import LoadedVectors, delete_vector_files, write_deletion_vectors
from tests.examples import examples
from tests.transaction.tables import StepStore, new_store, vector_files

ROWS = st.sets(st.integers(0, 2**40), min_size=1, max_size=50).map(BitMap64)


def _ids(*names: int) -> Iterator[uuid.UUID]:
    return iter([uuid.UUID(int=name) for name in names])


@settings(max_examples=examples(50))
@given(st.lists(ROWS, max_size=8))
def test_vectors_are_read_back_as_they_were_written(bitmaps: list[BitMap64]) -> None:
    store = new_store()
    written = write_deletion_vectors(store, bitmaps, uuid.uuid4)
    assert load_deletion_vectors(store, [d.to_json() for d in written.descriptors]) == bitmaps
    assert [d.cardinality for d in written.descriptors] == [len(b) for b in bitmaps]
    assert written.paths == vector_files(store)
    assert len(written.paths) == (1 if bitmaps else 0)


def test_a_local_store_has_them_in_the_root_of_the_table(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    (path,) = write_deletion_vectors(store, [BitMap64([1])], _ids(7).__next__).paths
    assert path == f"deletion_vector_{uuid.UUID(int=7)}.bin"
    assert [p.name for p in tmp_path.iterdir()] == [path]


def test_a_file_that_is_large_enough_is_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    store = new_store()
    monkeypatch.setattr(vector_files_module, "_FILE_BYTES", 1000)
    large, small = BitMap64(range(0, 1000, 2)), BitMap64([1])
    written = write_deletion_vectors(store, [small, large, small], uuid.uuid4)
    assert len(written.paths) == 2
    first, second, third = (d.path_or_inline_dv for d in written.descriptors)
    assert first == second != third
    assert load_deletion_vectors(store, [d.to_json() for d in written.descriptors]) == [small, large, small]


def test_a_name_that_is_taken_is_left_alone() -> None:
    store = new_store()
    taken = f"deletion_vector_{uuid.UUID(int=1)}.bin"
    store.put(taken, b"theirs")
    written = write_deletion_vectors(store, [BitMap64([5])], _ids(1, 2).__next__)
    assert store.read(taken) == b"theirs"
    assert written.paths == [f"deletion_vector_{uuid.UUID(int=2)}.bin"]
    with pytest.raises(ObjectExists):
        write_deletion_vectors(store, [BitMap64([5])], lambda: uuid.UUID(int=1))
    assert store.read(taken) == b"theirs"


def test_a_request_that_the_store_repeated_is_our_own() -> None:
    store = new_store()

    class Repeating(StepStore):
        def put_if_absent(self, path: str, data: bytes | ChunkedBytes, durable: bool = True) -> None:
            self._store.put_if_absent(path, data, durable)
            self._store.put_if_absent(path, data, durable)

    repeating = Repeating(store, lambda _o, _p: None)
    written = write_deletion_vectors(repeating, [BitMap64([5])], _ids(1).__next__)
    assert written.paths == vector_files(store)


def test_what_was_written_goes_again_when_more_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_files_module, "_FILE_BYTES", 1)
    store = new_store()
    puts: list[str] = []

    def second_fails(operation: str, path: str) -> None:
        if operation == "put_if_absent":
            puts.append(path)
            if len(puts) == 2:
                raise StorageRefused("full")

    failing = StepStore(store, second_fails)
    with pytest.raises(StorageRefused):
        write_deletion_vectors(failing, [BitMap64([1]), BitMap64([2])], uuid.uuid4)
    assert len(puts) == 2
    assert vector_files(store) == []


def test_a_row_beyond_the_format_is_refused_and_nothing_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_files_module, "_FILE_BYTES", 1)
    store = new_store()
    with pytest.raises(InvalidArgument, match="63 bits"):
        write_deletion_vectors(store, [BitMap64([1]), BitMap64([2**63])], uuid.uuid4)
    assert vector_files(store) == []


def test_a_file_that_cannot_be_deleted_is_told_and_not_raised() -> None:
    def fails(operation: str, path: str) -> None:
        raise StorageError("no")

    problem = delete_vector_files(StepStore(new_store(), fails), ["deletion_vector_x.bin"])
    assert problem is not None
    assert "no" in problem


def test_a_vector_is_read_once() -> None:
    store = new_store()
    nodes = [d.to_json() for d in write_deletion_vectors(store, [BitMap64([1]), BitMap64([2])], uuid.uuid4).descriptors]
    loaded = LoadedVectors(store)
    loaded.load([*nodes, None])
    store.delete(vector_files(store))
    assert [loaded[node] for node in (*nodes, None)] == [BitMap64([1]), BitMap64([2]), BitMap64()]
