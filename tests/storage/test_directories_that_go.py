"""A writer whose directory is taken away by a VACUUM makes it again."""

from __future__ import annotations

from pathlib import Path

import pytest

from slackwater.errors import ObjectNotFound
from slackwater.storage import local_store, open_store


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The directories that went right after they were made, twice each."""
    gone: list[Path] = []
    make = local_store._make_directory

    def make_and_take(directory: Path) -> None:
        make(directory)
        if "p=" in directory.name and directory.is_dir() and gone.count(directory) < 2:
            directory.rmdir()
            gone.append(directory)

    monkeypatch.setattr(local_store, "_make_directory", make_and_take)
    return gone


def test_a_file_gets_its_name_all_the_same(tmp_path: Path, taken: list[Path]) -> None:
    store = open_store(str(tmp_path / "t"))
    store.put_if_absent("src", b"x")
    store.move("src", "p=1/moved")
    assert (store.read("p=1/moved"), store.head("src")) == (b"x", None)
    assert len(taken) == 2


def test_a_file_is_put_all_the_same(tmp_path: Path, taken: list[Path]) -> None:
    store = open_store(str(tmp_path / "t"))
    store.put_if_absent("p=1/deep/p=2/put", b"x")
    assert store.read("p=1/deep/p=2/put") == b"x"
    assert taken


def test_a_source_that_is_gone_is_still_an_error(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "t"))
    with pytest.raises(ObjectNotFound):
        store.move("nothing", "p=1/x")
