"""What is special about a local disk."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from slackwater.errors import ObjectExists, ObjectNotFound, StorageError
from slackwater.storage import open_store


def test_listing_a_file_name_of_any_bytes(tmp_path: Path) -> None:
    names = ["line\nbreak", "x#1", " lead", os.fsdecode(b"latin-\xe9")]
    for name in names:
        (tmp_path / name).write_bytes(b"1")
    store = open_store(tmp_path)
    listed = [meta.path for meta in store.list_from("")]
    assert sorted(listed) == sorted(names)
    assert all(store.read(name) == b"1" for name in listed)


def test_times_are_the_files_own_in_milliseconds(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    os.utime(tmp_path / "a", ns=(0, 1_700_000_000_123_999_999))
    (meta,) = open_store(tmp_path).list_from("")
    assert meta.modified_ms == 1_700_000_000_123
    assert open_store(tmp_path).head("a") == meta


def test_nothing_but_the_object_is_left_behind(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    store.put_if_absent("a", b"1")
    store.put("a", b"2")
    with pytest.raises(ObjectExists):
        store.put_if_absent("a", b"3")
    assert os.listdir(tmp_path) == ["a"]  # noqa: PTH208 - hidden files count


def test_new_files_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        open_store(tmp_path).put_if_absent("a", b"")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_the_longest_legal_name_can_be_created(tmp_path: Path) -> None:
    open_store(tmp_path).put_if_absent("n" * 255, b"1")
    assert open_store(tmp_path).read("n" * 255) == b"1"


def test_a_symbolic_link_in_the_way_counts_as_an_object(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ObjectExists):
        open_store(tmp_path).put_if_absent("a", b"")


def test_recursive_listing_does_not_leave_by_a_symbolic_link(tmp_path: Path) -> None:
    root = tmp_path / "t"
    (root / "d").mkdir(parents=True)
    (root / "d" / "loop").symlink_to(root)
    (root / "d" / "a").write_bytes(b"")
    assert [meta.path for meta in open_store(root).list_from("", recursive=True)] == ["d/a"]


def test_a_path_through_a_file_is_a_missing_object(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")
    store = open_store(tmp_path)
    assert store.head("a/b") is None
    with pytest.raises(ObjectNotFound):
        store.read("a/b")
    store.delete(["a/b"])


def refusing(code: int) -> Any:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    return refuse


@pytest.mark.parametrize(
    ("code", "remedy"), [(errno.EPERM, "hard links"), (errno.ENOSPC, "free space"), (errno.EROFS, "read-only")]
)
def test_a_refusal_names_the_file_and_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, remedy: str
) -> None:
    monkeypatch.setattr(os, "link", refusing(code))
    with pytest.raises(StorageError, match=remedy) as caught:
        open_store(tmp_path).put_if_absent("d/a", b"")
    assert f"file://{tmp_path}/d/a" in str(caught.value)
    assert os.listdir(tmp_path / "d") == []  # noqa: PTH208 - hidden files count


def test_a_link_that_was_made_although_it_was_answered_with_exists_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def twice(source: Path, target: Path) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", twice)
    store = open_store(tmp_path)
    store.put_if_absent("a", b"mine")
    assert store.read("a") == b"mine"


def test_what_fails_after_the_object_is_visible_does_not_make_the_call_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync = os.fsync

    def sync_files_only(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, "directories cannot be synced here")
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", sync_files_only)
    store = open_store(tmp_path)
    store.put_if_absent("a", b"1")
    assert store.read("a") == b"1"


def test_a_staged_file_that_a_crash_left_is_not_listed(tmp_path: Path) -> None:
    (tmp_path / ".slackwater-0123.tmp").write_bytes(b"half")
    assert open_store(tmp_path).list_from("") == []


@pytest.mark.parametrize("read", ["read", "read_range", "open_file"])
def test_a_pipe_or_a_device_is_not_waited_for(tmp_path: Path, read: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    store = open_store(tmp_path)
    for name in ("pipe", "zero"):
        arguments = (name, 0, 1 << 40) if read == "read_range" else (name,)
        with pytest.raises(StorageError, match=rf"{name} failed: .*not a regular file"):
            getattr(store, read)(*arguments)
        assert store.head(name) is None


def test_a_range_takes_no_more_memory_than_there_is_to_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert open_store(tmp_path).read_range("a", 1, 1 << 60) == b"bc"
    assert open_store(tmp_path).read_range("a", 9, 1 << 60) == b""


def test_a_new_directory_is_synced_into_the_one_above_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    original = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        original(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    open_store(tmp_path / "t").put_if_absent("_delta_log/00000000000000000000.json", b"{}")
    assert synced[:2] == [str(tmp_path), str(tmp_path / "t")]
    assert Path(synced[2]).name.startswith(".slackwater-")
    assert synced[3] == str(tmp_path / "t" / "_delta_log")


@pytest.mark.parametrize("most", [1, 3, 1000])
def test_an_object_is_read_whole_if_the_system_returns_fewer_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    content = b"0123456789"
    (tmp_path / "a").write_bytes(content)
    (tmp_path / "empty").write_bytes(b"")
    read = os.read
    monkeypatch.setattr(os, "read", lambda descriptor, length: read(descriptor, min(length, most)))
    assert open_store(tmp_path).read_many(["a", "empty"]) == [content, b""]


def test_an_object_that_grows_during_a_read_is_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"0123456789")
    found = os.fstat

    def before_growth(descriptor: int) -> os.stat_result:
        values = list(found(descriptor))
        values[stat.ST_SIZE] = 4
        return os.stat_result(values)

    monkeypatch.setattr(os, "fstat", before_growth)
    assert open_store(tmp_path).read("a") == b"0123456789"
