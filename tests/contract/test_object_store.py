"""What every `ObjectStore` promises, checked over each implementation."""

from __future__ import annotations

import errno
import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.errors import (
    InvalidArgument,
    ObjectExists,
    ObjectNotFound,
    PathNotAllowed,
    StorageError,
    StorageRefused,
)
from slackwater.storage import ObjectStore, open_store
from slackwater.storage.location import parse_location
from slackwater.storage.obstore_store import ObstoreStore
from tests.contract.s3_server import BUCKET, answering
from tests.hadoop.places import KINDS, root_of
from tests.stores.servers import PLACES, Place

ODD_NAMES = [
    "a b",
    "p=1/x y",
    "c%20d",
    "50%",
    "x#1",
    "x#y",
    "[z]",
    "{b}",
    "star*",
    "q?",
    "a~b",
    "plus+",
    "ü/日本",
    "back\\slash",
    ".hidden",
    "_x",
]

_RACER = """
import sys
from slackwater.errors import ObjectExists
from slackwater.storage import open_store
store = open_store(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for round in range(20):
    try:
        store.put_if_absent(f"race/{round}", sys.argv[2].encode() * 10000)
        print(round, flush=True)
    except ObjectExists:
        pass
"""

# Those that ask for more than the server of the suite: `make stores` has them.
_SERVERS = [name for name in PLACES if name != "s3"]

_names = itertools.count()


_HADOOP = [pytest.param(kind, marks=[pytest.mark.spark, pytest.mark.classic]) for kind in KINDS]


@pytest.fixture(params=["local", "memory", "s3", *_SERVERS, *_HADOOP])
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], ObjectStore]:
    """Opens the same new, empty root again and again; its name needs percent-encoding in a URL."""
    if request.param == "local":
        return lambda: open_store(tmp_path / "t 1%20#x")
    name = f"t%20{next(_names)}%2520"
    if request.param == "memory":
        return lambda: open_store(f"memory://contract/{name}")
    if request.param in KINDS:
        root = hadoop_root(request, tmp_path)
        return lambda: open_store(f"{root}/{name}")
    if request.param == "s3":
        options = request.getfixturevalue("s3_options")
        return lambda: open_store(f"s3://{BUCKET}/{name}", options)
    place: Place = request.getfixturevalue("place_of")(request.param)
    return lambda: open_store(f"{place.url}/{name}", place.options)


def hadoop_root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place on one of Hadoop's file systems, which the session reaches."""
    spark = request.getfixturevalue("spark")
    root = root_of(request.param, spark, tmp_path, lambda: str(request.getfixturevalue("hdfs_root")))
    from slackwater.spark.hadoop.filesystem_access import reach_hadoop

    reach_hadoop(spark, root)
    return root


@pytest.fixture
def store(fresh: Callable[[], ObjectStore]) -> ObjectStore:
    return fresh()


def paths(store: ObjectStore, prefix: str, start_after: str = "", recursive: bool = False) -> list[str]:
    return [meta.path for meta in store.list_from(prefix, start_after, recursive)]


def test_what_was_put_is_read_back_whole(store: ObjectStore) -> None:
    store.put_if_absent("_delta_log/0.json", b"one")
    store.put("empty", b"")
    assert store.read("_delta_log/0.json") == b"one"
    assert store.read("empty") == b""


def test_put_if_absent_never_overwrites(store: ObjectStore) -> None:
    store.put_if_absent("a", b"first")
    with pytest.raises(ObjectExists, match="a"):
        store.put_if_absent("a", b"second")
    assert store.read("a") == b"first"


def test_put_replaces_what_is_there(store: ObjectStore) -> None:
    store.put("a", b"a longer first")
    store.put("a", b"second")
    assert store.read("a") == b"second"


@pytest.mark.parametrize("size", [0, 10, 11 * 1024 * 1024])
def test_a_local_file_is_put_whole_and_stays(store: ObjectStore, tmp_path: Path, size: int) -> None:
    # S3 takes more than five MiB in parts.
    source, data = tmp_path / "source", os.urandom(size)
    source.write_bytes(data)
    store.put("d/a b#1", b"old")
    store.put_file("d/a b#1", source)
    store.put_file("new", str(source))
    assert (store.read("d/a b#1"), store.read("new")) == (data, data)
    assert source.read_bytes() == data
    assert paths(store, "", recursive=True) == ["d/a b#1", "new"]


def test_a_local_file_that_cannot_be_read_leaves_the_object_as_it_was(store: ObjectStore, tmp_path: Path) -> None:
    store.put("a", b"old")
    for source in (tmp_path / "missing", tmp_path):
        with pytest.raises(StorageError, match=str(source)):
            store.put_file("a", source)
    assert store.read("a") == b"old"


@pytest.mark.parametrize("name", ODD_NAMES)
def test_names_are_taken_literally(store: ObjectStore, name: str, request: pytest.FixtureRequest) -> None:
    if "\\" in name and store.root_url.startswith("abfss:"):
        request.applymarker(pytest.mark.xfail(strict=True, reason="Azure takes a backslash for a slash"))
    store.put_if_absent(name, b"odd")
    assert store.read(name) == b"odd"
    assert paths(store, "", recursive=True) == [name]
    meta = store.head(name)
    assert meta is not None
    assert meta.path == name
    store.move(name, "d/" + name)
    assert paths(store, "", recursive=True) == ["d/" + name]
    store.delete(["d/" + name])
    assert paths(store, "", recursive=True) == []


def test_a_name_and_its_percent_decoded_twin_are_two_objects(store: ObjectStore) -> None:
    store.put("p=a%20b/x", b"encoded")
    store.put("p=a b/x", b"plain")
    assert store.read("p=a%20b/x") == b"encoded"
    assert store.read("p=a b/x") == b"plain"


def test_listing_is_in_byte_order_and_one_level_deep(store: ObjectStore) -> None:
    for path in ("l/z", "l/Z", "l/_s/1", "l/10", "l/9", "l/é", "l/_s.x", "l/~", "lother", "l/\U0001f600", "l/\uff5e"):
        store.put(path, b"")
    assert paths(store, "l") == ["l/10", "l/9", "l/Z", "l/_s.x", "l/z", "l/~", "l/é", "l/\uff5e", "l/\U0001f600"]
    assert paths(store, "l/", recursive=True) == sorted([*paths(store, "l"), "l/_s/1"], key=str.encode)
    assert paths(store, "") == ["lother"]


def test_listing_starts_behind_the_given_path(store: ObjectStore) -> None:
    for path in ("l/1", "l/2", "l/_c/1", "l/_c/2", "l/_last", "l/_s/1", "l/_s/2/3", "l/_z"):
        store.put(path, b"")
    assert paths(store, "l", "l/1") == ["l/2", "l/_last", "l/_z"]
    assert paths(store, "l", "l/15") == ["l/2", "l/_last", "l/_z"]
    assert paths(store, "l", "l/_c/1") == ["l/_last", "l/_z"]
    assert paths(store, "l", "l/_z") == []
    assert paths(store, "l", "l/_c/1", recursive=True) == ["l/_c/2", "l/_last", "l/_s/1", "l/_s/2/3", "l/_z"]


def test_more_objects_than_one_page_are_listed_once_each(store: ObjectStore) -> None:
    # S3 answers a thousand keys a page.
    names = [f"l/{number:05d}" for number in range(1020)]
    for name in names:
        store.put(name, b"")
    assert paths(store, "l") == names
    assert paths(store, "l", names[50]) == names[51:]


def test_a_missing_directory_lists_as_nothing(store: ObjectStore) -> None:
    store.put("file", b"")
    assert store.list_from("nowhere") == []
    assert store.list_from("nowhere/deeper", "nowhere/deeper/1", recursive=True) == []
    assert store.list_from("file") == []
    assert store.list_from("fil") == []


def test_head_and_listing_tell_size_and_time_alike(store: ObjectStore) -> None:
    store.put("d/a", b"12345")
    head = store.head("d/a")
    assert head is not None
    assert head.size_bytes == 5
    assert head.modified_ms > 1_577_836_800_000
    (listed,) = store.list_from("d")
    assert listed.size_bytes == 5
    # S3 answers a head in whole seconds, a listing in milliseconds.
    assert listed.modified_ms // 1000 == head.modified_ms // 1000


def test_a_missing_object_is_named_in_the_error(store: ObjectStore) -> None:
    assert store.head("no/such") is None
    for call in (
        lambda: store.read("no/such"),
        lambda: store.read_range("no/such", 0, 1),
        lambda: store.read_range("no/such", 0, 0),
        lambda: store.read_many(["no/such", "nor/this"]),
        lambda: store.open_file("no/such"),
        lambda: store.move("no/such", "x"),
    ):
        with pytest.raises(ObjectNotFound) as caught:
            call()
        assert f"{store.root_url}/no/such" in str(caught.value)


def test_a_directory_is_not_an_object(store: ObjectStore) -> None:
    store.put("d/a", b"")
    assert store.head("d") is None
    with pytest.raises(ObjectNotFound):
        store.read("d")


def test_many_objects_are_read_in_the_order_asked(store: ObjectStore) -> None:
    names = [f"m/{number}" for number in range(40)]
    for name in names:
        store.put(name, name.encode())
    backwards = names[::-1]
    assert store.read_many(backwards) == [name.encode() for name in backwards]
    assert store.read_many([]) == []


@pytest.mark.parametrize(
    ("start", "length", "expected"),
    [(0, 3, b"012"), (7, 3, b"789"), (8, 5, b"89"), (10, 1, b""), (99, 1, b""), (3, 0, b"")],
)
def test_a_range_may_end_before_it_was_asked_to(store: ObjectStore, start: int, length: int, expected: bytes) -> None:
    store.put("a", b"0123456789")
    assert store.read_range("a", start, length) == expected


@pytest.mark.parametrize(("start", "length"), [(-1, 3), (0, -1)])
def test_a_range_below_zero_is_refused(store: ObjectStore, start: int, length: int) -> None:
    store.put("a", b"0123456789")
    with pytest.raises(InvalidArgument):
        store.read_range("a", start, length)


def test_ranges_that_are_read_together_are_those_that_are_read_alone(store: ObjectStore) -> None:
    store.put("a", b"0123456789")
    ranges = [(7, 2), (0, 3), (9, 5), (10, 1), (40, 2), (3, 0)]
    assert store.read_ranges("a", ranges) == [b"78", b"012", b"9", b"", b"", b""]
    assert store.read_ranges("a", ranges[:2]) == [b"78", b"012"]
    assert store.read_ranges("a", []) == []
    with pytest.raises(ObjectNotFound):
        store.read_ranges("no/such", ranges)


def test_parquet_reads_an_open_file_in_pieces(store: ObjectStore) -> None:
    table = pa.table({"id": list(range(50_000)), "text": [str(n) * 5 for n in range(50_000)]})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=10_000)
    store.put("p=a b/part-0.parquet", sink.getvalue().to_pybytes())
    with store.open_file("p=a b/part-0.parquet") as source:
        file = pq.ParquetFile(source)
        assert file.metadata.num_rows == 50_000
        assert file.read_row_group(3, columns=["text"]).equals(table.slice(30_000, 10_000).select(["text"]))


def test_an_open_file_seeks_and_ends(store: ObjectStore) -> None:
    store.put("a", b"0123456789")
    with store.open_file("a") as source:
        assert source.size() == 10
        source.seek(6)
        assert source.read(2) == b"67"
        assert source.tell() == 8
        assert source.read() == b"89"
        assert source.read(1) == b""


def test_an_empty_object_can_be_opened(store: ObjectStore) -> None:
    store.put("empty", b"")
    with store.open_file("empty") as source:
        assert source.read() == b""


def test_deleting_what_is_missing_is_no_error_and_stops_nothing(store: ObjectStore) -> None:
    for name in ("a", "b c", "d%20e"):
        store.put(name, b"")
    store.delete(["missing", "a", "gone/too", "b c", "d%20e"])
    store.delete([])
    assert paths(store, "", recursive=True) == []


def test_where_a_store_stops_at_what_is_missing_the_rest_goes_side_by_side() -> None:
    together = threading.Barrier(4, timeout=20)
    gone: list[str] = []

    class Stopping:
        def delete(self, keys: list[str] | str) -> None:
            if isinstance(keys, list):
                raise FileNotFoundError(keys[0])
            together.wait()
            if keys == "t/0":
                raise FileNotFoundError(keys)
            gone.append(keys)

    location = parse_location("gs://bucket/t")
    ObstoreStore(Stopping(), location, pytest.fail).delete(["0", "1", "2", "3"])
    assert sorted(gone) == ["t/1", "t/2", "t/3"]


def test_move_keeps_the_bytes_and_spares_what_is_there(store: ObjectStore) -> None:
    store.put("tmp/a", b"new")
    store.put("taken", b"old")
    with pytest.raises(ObjectExists):
        store.move("tmp/a", "taken")
    assert (store.read("taken"), store.read("tmp/a")) == (b"old", b"new")
    with pytest.raises(ObjectExists):
        store.move("tmp/a", "tmp/a")
    store.move("tmp/a", "p=1/q=2/a")
    assert paths(store, "", recursive=True) == ["p=1/q=2/a", "taken"]
    assert store.read("p=1/q=2/a") == b"new"


@pytest.mark.parametrize("path", ["/a", "a//b", "a/", "./a", "a/./b", "", "a\0b"])
def test_a_path_that_is_not_relative_and_whole_is_refused(store: ObjectStore, path: str) -> None:
    for call in (store.read, store.head, store.open_file, lambda p: store.put(p, b""), lambda p: store.delete([p])):
        with pytest.raises(InvalidArgument):
            call(path)


def test_no_path_leaves_the_root(store: ObjectStore) -> None:
    for path in ("../a", "a/../../b", ".."):
        with pytest.raises(PathNotAllowed):
            store.read(path)
        with pytest.raises(PathNotAllowed):
            store.list_from(path)


def test_a_root_url_opens_the_same_root(store: ObjectStore, fresh: Callable[[], ObjectStore]) -> None:
    store.put("d/x y%20", b"1")
    assert fresh().read("d/x y%20") == b"1"
    other, path = store.at(f"{store.root_url}/d/x%20y%2520")
    assert other.read(path) == b"1"
    assert path.endswith("d/x y%20")


def test_a_url_outside_the_root_is_reached_with_the_same_credentials(store: ObjectStore) -> None:
    outside = store.root_url.rsplit("/", 1)[0] + "/elsewhere/a%20b"
    other, path = store.at(outside)
    other.put(path, b"there")
    assert path.endswith("elsewhere/a b")
    assert store.at(outside)[0].read(path) == b"there"
    assert paths(store, "", recursive=True) == []


def test_of_many_threads_that_create_one_object_exactly_one_wins(fresh: Callable[[], ObjectStore]) -> None:
    writers = 6
    for number in range(10):
        path = f"_delta_log/{number:020d}.json"
        winners: list[bytes] = []
        errors: list[BaseException] = []
        start = threading.Barrier(writers)

        def write(
            content: bytes, path: str, start: threading.Barrier, winners: list[bytes], errors: list[BaseException]
        ) -> None:
            store = fresh()
            start.wait()
            try:
                store.put_if_absent(path, content)
                winners.append(content)
            except ObjectExists:
                pass
            except BaseException as error:  # noqa: BLE001 - judged by the test's own thread
                errors.append(error)

        threads = [
            threading.Thread(target=write, args=(str(writer).encode() * 5000, path, start, winners, errors))
            for writer in range(writers)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert len(winners) == 1
        assert fresh().read(path) == winners[0]


@pytest.mark.parametrize("kind", ["local", "s3", *_SERVERS])
def test_of_two_processes_that_create_one_object_exactly_one_wins(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place = Place(str(tmp_path), {})
    if kind == "s3":
        place = Place(f"s3://{BUCKET}", request.getfixturevalue("s3_options"))
    elif kind != "local":
        place = request.getfixturevalue("place_of")(kind)
    root, options = f"{place.url}/processes", place.options
    # object_store reads the same names from the environment, in capitals.
    env = {**os.environ, **{key.upper(): value for key, value in options.items()}}
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", _RACER, root, name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        for name in "ab"
    ]
    won: list[list[int]] = []
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    for racer in racers:
        output, _ = racer.communicate(timeout=60)
        assert racer.returncode == 0
        won.append([int(line) for line in output.split()])
    assert sorted(won[0] + won[1]) == list(range(20))
    store = open_store(root, options)
    for name, rounds in zip("ab", won, strict=True):
        for number in rounds:
            assert store.read(f"race/{number}") == name.encode() * 10000


def test_a_reader_sees_the_old_object_or_the_new_one_never_a_part(fresh: Callable[[], ObjectStore]) -> None:
    store = fresh()
    versions = [bytes([letter]) * 300_000 for letter in b"abcdef"]
    store.put("_last_checkpoint", versions[0])
    done = threading.Event()
    torn: list[int] = []

    def watch() -> None:
        reader = fresh()
        while not done.is_set():
            seen = reader.read("_last_checkpoint")
            if seen not in versions:
                torn.append(len(seen))
            torn.extend(meta.size_bytes for meta in reader.list_from("") if meta.size_bytes != 300_000)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for version in versions * 3:
            store.put("_last_checkpoint", version)
    finally:
        done.set()
        watcher.join()
    assert torn == []
    assert paths(store, "") == ["_last_checkpoint"]


def test_a_bucket_that_does_not_exist_is_named(s3_options: dict[str, str]) -> None:
    store = open_store("s3://nobucket/t", s3_options)
    for call in (lambda: store.put_if_absent("a", b""), lambda: store.put("a", b""), lambda: store.list_from("")):
        with pytest.raises(
            StorageError, match=r"bucket s3://nobucket does not exist|bucket does not exist.*nobucket"
        ) as caught:
            call()
        assert not isinstance(caught.value, ObjectNotFound)


_PUTS: dict[str, Callable[[ObjectStore, Path], None]] = {
    "put_if_absent": lambda store, _: store.put_if_absent("d/a", b"x" * 5000),
    "put": lambda store, _: store.put("d/a", b"x" * 5000),
    "put_file": lambda store, source: store.put_file("d/a", source),
}


@pytest.mark.parametrize("put", _PUTS.values(), ids=_PUTS)
def test_a_put_that_is_denied_is_refused(put: Callable[[ObjectStore, Path], None], tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x")
    for status in (401, 403):
        with answering(status) as options:
            store = open_store(f"s3://{BUCKET}/denied", options)
            with pytest.raises(StorageRefused, match=r"s3://tables/denied/d/a was denied: check the credentials"):
                put(store, source)


def test_a_put_that_fails_for_no_known_reason_leaves_open_what_it_did() -> None:
    with answering(400) as options, pytest.raises(StorageError) as caught:
        open_store(f"s3://{BUCKET}/failing", options).put_if_absent("a", b"")
    assert not isinstance(caught.value, StorageRefused)


@pytest.mark.parametrize("status", [400, 501])
def test_a_store_that_knows_no_conditional_put_refuses_it_with_what_to_do(status: int) -> None:
    body = "<Error><Code>NotImplemented</Code><Message>A header is not implemented</Message></Error>"
    with answering(status, body) as options:
        store = open_store(f"s3://{BUCKET}/t", options)
        with pytest.raises(StorageRefused, match=r"create s3://tables/t/a .* put the table into a lake") as caught:
            store.put_if_absent("a", b"")
        assert caught.value.knows_no_condition
        with pytest.raises(StorageError, match="NotImplemented") as overwriting:
            store.put("a", b"")
    assert not isinstance(overwriting.value, StorageRefused)


def test_a_put_to_a_bucket_that_does_not_exist_is_refused(s3_options: dict[str, str]) -> None:
    with pytest.raises(StorageRefused):
        open_store("s3://nobucket/t", s3_options).put_if_absent("a", b"")


@pytest.mark.parametrize("put", _PUTS.values(), ids=_PUTS)
def test_a_local_put_that_cannot_be_staged_is_refused_and_leaves_nothing(
    put: Callable[[ObjectStore, Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x")
    store = open_store(tmp_path / "t")
    store.put("d/other", b"old")
    for code in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EACCES):

        def fail(_: int, code: int = code) -> None:
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(StorageRefused, match=f"file://{tmp_path}/t/d/a failed"):
            put(store, source)
    monkeypatch.undo()
    assert os.listdir(tmp_path / "t" / "d") == ["other"]  # noqa: PTH208 - hidden files count


@pytest.mark.parametrize("put", _PUTS.values(), ids=_PUTS)
def test_a_local_put_below_a_file_is_refused(put: Callable[[ObjectStore, Path], None], tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x")
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "d").write_bytes(b"in the way")
    with pytest.raises(StorageRefused):
        put(open_store(tmp_path / "t"), source)


_FULL = """
import resource, sys
from slackwater.errors import StorageRefused
from slackwater.storage import open_store
store = open_store(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
for put in (store.put_if_absent, store.put):
    try:
        put("a", b"x" * 5000)
    except StorageRefused:
        print("refused")
"""


def test_a_local_disk_that_takes_no_more_refuses(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _FULL, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["refused", "refused"]
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - hidden files count


def test_a_link_that_failed_for_no_known_reason_leaves_open_whether_it_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(StorageError) as caught:
        open_store(tmp_path).put_if_absent("a", b"")
    assert not isinstance(caught.value, StorageRefused)


def test_what_need_not_be_durable_is_put_whole_and_never_overwrites(store: ObjectStore) -> None:
    store.put_if_absent("a", b"first", durable=False)
    with pytest.raises(ObjectExists):
        store.put_if_absent("a", b"second", durable=False)
    assert store.read("a") == b"first"


def test_s3a_and_s3n_name_the_same_bucket_as_s3(s3_options: dict[str, str]) -> None:
    open_store(f"s3://{BUCKET}/schemes", s3_options).put("a", b"1")
    for scheme in ("s3a", "s3n"):
        store = open_store(f"{scheme}://{BUCKET}/schemes/", s3_options)
        assert store.read("a") == b"1"
        assert store.root_url == f"{scheme}://{BUCKET}/schemes"


def test_a_store_without_conditional_put_refuses_to_create(s3_options: dict[str, str]) -> None:
    store = open_store(f"s3://{BUCKET}/unsafe", {**s3_options, "aws_conditional_put": "disabled"})
    with pytest.raises(StorageRefused, match="conditional put"):
        store.put_if_absent("a", b"")
    assert store.head("a") is None


def test_flags_from_the_environment_hold_beside_given_options(
    s3_options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    given = {key: value for key, value in s3_options.items() if key != "AWS_ALLOW_HTTP"}
    store = open_store(f"s3://{BUCKET}/environment", {**given, "timeout": "20s"})
    store.put("a", b"1")
    assert store.read("a") == b"1"
