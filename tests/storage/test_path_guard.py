"""No file outside a table's root is opened because its log says so, and no request is sent."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyroaring import BitMap64

import slackwater
from slackwater.errors import CorruptDeletionVector, PathNotAllowed, SlackwaterError
from slackwater.protocol.actions.deletion_vectors import DeletionVectorDescriptor, serialize_bitmap, write_file
from slackwater.protocol.actions.z85 import encode_uuid
from slackwater.scan.deletion_vectors import load_deletion_vectors
from slackwater.storage import ObjectStore, open_store
from slackwater.storage.location import Location
from slackwater.storage.path_guard import (
    named_place,
    named_vector_place,
    open_resolved,
    resolve_deletion_vector,
    resolve_file,
    resolve_files,
)
from tests.log.tables import DEFAULT, TableLog, add, checkpoint_metadata

ENCODED = encode_uuid(UUID(int=7))
NAME = f"deletion_vector_{UUID(int=7)}.bin"
PIECES = [
    *(
        "/",
        "//",
        "\\",
        "..",
        ".",
        "%2e%2e",
        "%2E.",
        "%2f",
        "%5c",
        "%00",
        "\0",
        "%",
        "a",
        "b.parquet",
        " ",
        "~",
        "?",
        "#",
    ),
    *("file:", "FILE:", "file://", "file:///", "s3://bucket/", "s3a://", "https://host/", "HTTP://h:1/", "memory://m/"),
    *("etc/passwd", "localhost", "%252e%252e", "*", "é", "\n", "data/t", "/data/t/", "file:/data/t/"),
]
SPELLED = st.lists(st.sampled_from(PIECES), max_size=6).map("".join) | st.text(max_size=8)
ROOTS = ["/data/t", "s3://bucket/t"]


class RecordingStore:
    """A store that opens nothing, and notes what it is asked for."""

    def __init__(self, root: str) -> None:
        self.local_root = root if root.startswith("/") else None
        self.root_url = f"file://{root}" if self.local_root else root
        self.asked: list[str] = []
        self.left: list[str] = []

    def read_range(self, path: str, start: int, length: int) -> bytes:
        self.asked.append(path)
        return b""

    def at(self, url: str) -> Any:
        self.left.append(url)
        raise AssertionError(f"the root was left for {url!r}")


def _is_below(root: str, place: str) -> bool:
    """Whether `place` stays below the root for whoever normalizes it, with either kind of slash, decoded again."""
    for spelled in (place, place.replace("\\", "/")):
        joined = os.path.normpath(f"{root}/{spelled}")
        if not f"{joined}/".startswith(os.path.normpath(root) + "/"):
            return False
    return not place.startswith("/") and "://" not in place.partition("/")[0] + "/" and "\0" not in place


@given(SPELLED, st.sampled_from(ROOTS))
@example("https://host/x", "/data/t")
@example("a/..\\../x", "/data/t")
def test_a_path_that_passes_the_gate_is_of_a_file_below_the_root(path: str, root: str) -> None:
    store: Any = RecordingStore(root)
    try:
        place = resolve_file(store, path)
    except PathNotAllowed:
        return
    assert _is_below(root, place), place
    assert open_resolved(store, place) == (store, place)


PLAIN = st.lists(st.sampled_from(["a", "b.parquet", "day=1", "/", "."]), min_size=1, max_size=4).map("".join)


def _places(places: Callable[[], list[str]]) -> list[str] | None:
    try:
        return places()
    except PathNotAllowed:
        return None


@given(st.lists(PLAIN | SPELLED, max_size=3) | st.lists(PLAIN, max_size=3), st.sampled_from(ROOTS), st.booleans())
@example(["a", ""], "/data/t", False)
@example(["a\0b"], "/data/t", False)
@example(["/data/t/a"], "/data/t", False)
@example(["a/./b", "./c", "d/.."], "s3://bucket/t", False)
def test_many_paths_pass_the_gate_as_each_does(paths: list[str], root: str, allowed: bool) -> None:
    store: Any = RecordingStore(root)
    one_by_one = _places(lambda: [resolve_file(store, path, allowed) for path in paths])
    assert _places(lambda: resolve_files(store, paths, allowed)) == one_by_one


@given(SPELLED, st.sampled_from(["u", "p"]), st.sampled_from(ROOTS), st.booleans())
@example("https://host", "u", "/data/t", False)
@example("s3://bucket", "u", "s3://bucket/t", True)
@example("/etc", "u", "/data/t", True)
@example("../..", "u", "/data/t", True)
def test_a_deletion_vector_never_leads_out_of_the_root(
    prefix: str, storage_type: str, root: str, allowed: bool
) -> None:
    store: Any = RecordingStore(root)
    text = prefix + ENCODED if storage_type == "u" else prefix
    vector = {
        "storageType": storage_type,
        "pathOrInlineDv": text,
        "offset": 1,
        "sizeInBytes": 40,
        "cardinality": 1,
    }
    # To allow paths outside the root is to allow absolute ones, which only the type `p` has.
    with pytest.raises((PathNotAllowed, CorruptDeletionVector)):
        load_deletion_vectors(store, [vector], allow_outside_root=allowed and storage_type == "u")
    assert store.left == []
    assert all(_is_below(root, path) for path in store.asked)


@pytest.mark.parametrize("allowed", [False, True])
@pytest.mark.parametrize("kind", ["absolute", "file:", "FILE://", "memory", "climbing"])
def test_a_relative_vector_outside_the_root_is_not_read_though_it_is_there(
    tmp_path: Path, kind: str, allowed: bool
) -> None:
    content, ((offset, size),) = write_file([serialize_bitmap(BitMap64([3]))])
    outside = tmp_path / "other"
    outside.mkdir()
    (outside / NAME).write_bytes(content)
    open_store("memory://gate").put(NAME, content)
    prefix = {
        "absolute": f"{outside}",
        "file:": f"file:{outside}",
        "FILE://": f"FILE://{outside}",
        "memory": "memory://gate",
        "climbing": "../other",
    }[kind]
    store = open_store(tmp_path / "table")
    vector = {"storageType": "u", "pathOrInlineDv": prefix + ENCODED, "offset": offset}
    with pytest.raises(PathNotAllowed, match="never followed"):
        load_deletion_vectors(store, [{**vector, "sizeInBytes": size, "cardinality": 1}], allowed)


def test_an_absolute_vector_inside_the_root_and_one_outside_with_leave_are_read(tmp_path: Path) -> None:
    content, ((offset, size),) = write_file([serialize_bitmap(BitMap64([3]))])
    for directory in ("table", "other"):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / NAME).write_bytes(content)
    store = open_store(tmp_path / "table")
    for directory, allowed in (("table", False), ("other", True)):
        path = str(tmp_path / directory / NAME)
        vector = {"storageType": "p", "pathOrInlineDv": path, "offset": offset, "sizeInBytes": size, "cardinality": 1}
        assert load_deletion_vectors(store, [vector], allowed) == [BitMap64([3])]


@pytest.mark.parametrize("path", ["", ".", "./", "p=1/", "p=1/.", "a%00b", "/data/t/", "file:/data/t/%2e"])
@pytest.mark.parametrize("allowed", [False, True])
def test_a_path_that_cannot_be_of_a_file_is_refused(path: str, allowed: bool) -> None:
    store: Any = RecordingStore("/data/t")
    with pytest.raises(PathNotAllowed, match="is not a file path"):
        resolve_file(store, path, allowed)


@pytest.mark.parametrize("path", ["/elsewhere/../x", "s3://b/../x", "..\\x", "a/..\\..\\x"])
def test_a_path_that_climbs_is_refused_also_where_leave_is_given(path: str) -> None:
    store: Any = RecordingStore("/data/t")
    with pytest.raises(PathNotAllowed, match=r"climbs"):
        resolve_file(store, path, allow_outside_root=True)


@pytest.mark.parametrize("path", ["http://h/f", "HTTPS://h/f", "ftp://h/f", "jar:file:/x!/f", "data:,f", "s3x://b/f"])
def test_a_path_on_a_web_server_or_of_an_unknown_scheme_is_never_followed(path: str) -> None:
    store: Any = RecordingStore("/data/t")
    with pytest.raises(PathNotAllowed, match="never followed"):
        resolve_file(store, path, allow_outside_root=True)
    vector = DeletionVectorDescriptor("p", path, 1, 1, 1)
    with pytest.raises(PathNotAllowed, match="never followed"):
        resolve_deletion_vector(store, vector, allow_outside_root=True)
    # A file that is only named, as VACUUM names files that it keeps, may be anywhere.
    assert named_place(store, path) == named_vector_place(store, vector)


@pytest.mark.parametrize("path", ["file:/x/f", "/x/f", "s3a://b/f", "gs://b/f", "abfss://c@a/f", "hdfs://h/f"])
def test_a_path_in_a_file_system_or_an_object_store_is_followed_if_allowed(path: str) -> None:
    store: Any = RecordingStore("/data/t")
    assert resolve_file(store, path, allow_outside_root=True) == path.removeprefix("file:")
    with pytest.raises(PathNotAllowed, match="allowPathsOutsideRoot"):
        resolve_file(store, path)


def test_a_symbolic_link_below_the_root_is_the_owners_business(tmp_path: Path) -> None:
    content, ((offset, size),) = write_file([serialize_bitmap(BitMap64([3]))])
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / NAME).write_bytes(content)
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "dv").symlink_to(tmp_path / "elsewhere")
    vector = {
        "storageType": "u",
        "pathOrInlineDv": "dv" + ENCODED,
        "offset": offset,
        "sizeInBytes": size,
        "cardinality": 1,
    }
    assert load_deletion_vectors(open_store(tmp_path / "table"), [vector]) == [BitMap64([3])]


@given(SPELLED)
@example("../../../other/x.parquet")
@example("/etc/passwd")
def test_a_sidecar_is_sought_in_the_logs_own_directory_alone(path: str) -> None:
    log = TableLog()
    log.v2(0, "json", checkpoint_metadata(0), *DEFAULT, {"sidecar": {"path": path}})
    opened: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        _record_opened(patch, opened)
        with pytest.raises(SlackwaterError):
            log.load().live_files()
    assert set(opened) == {log.store.root_url}


def _record_opened(patch: pytest.MonkeyPatch, opened: list[str]) -> None:
    """Note the URL of every store that is opened."""
    opener: Any = slackwater.storage.open._Opener
    original = opener.open

    def recorded(self: Any, location: Location) -> ObjectStore:
        opened.append(location.url)
        found: ObjectStore = original(self, location)
        return found

    patch.setattr(opener, "open", recorded)


@given(SPELLED, SPELLED, SPELLED)
def test_nothing_but_the_root_is_opened_whatever_a_log_names(path: str, vector_prefix: str, hint: str) -> None:
    log = TableLog()
    vector = {
        "storageType": "u",
        "pathOrInlineDv": vector_prefix + ENCODED,
        "offset": 1,
        "sizeInBytes": 40,
        "cardinality": 1,
    }
    log.create(add(path, deletionVector=vector))
    log.put("_last_checkpoint", b'{"version":0,"parts":1,"v2Checkpoint":{"path":"%s"}}' % hint.encode())
    opened: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        _record_opened(patch, opened)
        try:
            snapshot = log.load()
            files = snapshot.live_files()
            for row in files.to_pylist():
                open_resolved(snapshot.store, resolve_file(snapshot.store, row["path"]))
            load_deletion_vectors(snapshot.store, files["deletionVector"].to_pylist())
        except SlackwaterError:
            pass
    assert set(opened) == {log.store.root_url}


def test_the_gate_is_the_only_way_out_of_the_root() -> None:
    package = Path(slackwater.__file__).parent
    stores = {"open.py", "path_guard.py", "store.py", "local_store.py", "obstore_store.py"}
    others = [path for path in package.rglob("*.py") if not (path.parent.name == "storage" and path.name in stores)]
    # The checkpoint of a query is found above a place that its user names, no log.
    allowed = {"store.at(": ["streams/schema_log.py"]}
    checks = ["checked_data_path(", "checked_relative_path("]
    allowed |= {name: ["protocol/actions/paths.py"] for name in checks}
    for name in (".at(place", "store.at(", "holder.at(", *checks):
        users = [str(path.relative_to(package)) for path in others if name in path.read_text(encoding="utf-8")]
        assert users == allowed.get(name, []), name


def test_a_descriptor_knows_its_place() -> None:
    store: Any = RecordingStore("/data/t")
    assert resolve_deletion_vector(store, DeletionVectorDescriptor("u", "ab" + ENCODED, 1, 1, 1)) == f"ab/{NAME}"
    assert resolve_deletion_vector(store, DeletionVectorDescriptor("p", "/data/t/ab/x%20y", 1, 1, 1)) == "ab/x y"
