"""What every `Committer` promises, checked over each store that one commits to."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from slackwater.errors import CommitFailed, CommitUnknown, CorruptLog, ObjectExists, StorageError, StorageRefused
from slackwater.protocol.actions.file_names import commit_path
from slackwater.storage import ObjectStore, open_store
from slackwater.storage.store import ChunkedBytes
from slackwater.transaction.committer import Committed, Committer, Conflict
from slackwater.transaction.committers.filesystem import FilesystemCommitter
from tests.contract.s3_server import BUCKET

_names = itertools.count()
Action = Mapping[str, Any]

_RACER = """
import sys
from slackwater.transaction.committers.filesystem import FilesystemCommitter
from slackwater.storage import open_store
from slackwater.transaction.committer import Committed
committer = FilesystemCommitter(open_store(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for version in range(20):
    actions = [{"txn": {"appId": sys.argv[2] * 1000, "version": version}}]
    if isinstance(committer.commit(version, actions), Committed):
        print(version, flush=True)
"""


@pytest.fixture(params=["local", "memory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    name = f"t%20{next(_names)}"
    if request.param == "local":
        return open_store(tmp_path / name)
    if request.param == "memory":
        return open_store(f"memory://committer/{name}")
    return open_store(f"s3://{BUCKET}/committer/{name}", request.getfixturevalue("s3_options"))


class Faulty:
    """A store whose `put_if_absent` and `read` are replaced; each is given the real one."""

    def __init__(
        self, store: ObjectStore, put: Callable[..., None] | None = None, read: Callable[..., bytes] | None = None
    ):
        self._store, self._put, self._read = store, put, read
        self.puts = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def put_if_absent(self, path: str, data: bytes | ChunkedBytes, durable: bool = True) -> None:
        self.puts += 1
        (self._put or (lambda put, number, *rest: put(*rest)))(self._store.put_if_absent, self.puts, path, data)

    def read(self, path: str) -> bytes:
        return (self._read or (lambda read, name: read(name)))(self._store.read, path)


def committer(store: Any) -> Committer:
    return FilesystemCommitter(store, sleep=lambda _: None)


def by(name: str, version: int = 1) -> list[Action]:
    """The actions of a commit by `name`."""
    return [{"commitInfo": {"txnId": name}}, {"txn": {"appId": name, "version": version}}]


def stored(store: ObjectStore, version: int) -> list[Action]:
    return [orjson.loads(line) for line in store.read(commit_path(version)).splitlines()]


def test_what_was_committed_is_the_version_as_the_log_holds_it(store: ObjectStore) -> None:
    outcome = committer(store).commit(0, by("a"))
    assert isinstance(outcome, Committed)
    assert (outcome.version, list(outcome.commit.actions), outcome.commit.info) == (0, by("a"), {"txnId": "a"})
    assert stored(store, 0) == by("a")
    assert outcome.commit.where == f"{store.root_url}/{commit_path(0)}"
    assert outcome.commit.file.size_bytes == len(store.read(commit_path(0)))


def test_a_commit_is_never_overwritten(store: ObjectStore) -> None:
    committer(store).commit(0, by("a"))
    before = store.read(commit_path(0))
    for _ in range(3):
        assert committer(store).commit(0, by("b")) == Conflict(0)
    assert store.read(commit_path(0)) == before


def test_the_same_commit_twice_is_one_commit(store: ObjectStore) -> None:
    first, second = (committer(store).commit(0, by("a")) for _ in range(2))
    assert isinstance(first, Committed)
    assert isinstance(second, Committed)
    assert list(second.commit.actions) == by("a")
    assert len(store.list_from("_delta_log")) == 1


def test_the_commits_after_a_version_ascend_and_stop_at_a_gap(store: ObjectStore) -> None:
    own = committer(store)
    assert list(own.commits_after(-1)) == []
    for version in (0, 1, 2):
        own.commit(version, by("a", version))
    store.put(commit_path(4), b'{"txn":{"appId":"a","version":4}}\n')
    assert [commit.version for commit in own.commits_after(-1)] == [0, 1, 2]
    assert [list(commit.actions) for commit in own.commits_after(0)] == [by("a", 1), by("a", 2)]
    assert list(own.commits_after(2)) == []


def test_a_commit_of_another_that_is_no_commit_is_named(store: ObjectStore) -> None:
    store.put(commit_path(3), b'{"add":{}}\n{"torn')
    with pytest.raises(CorruptLog, match=r"00000000000000000003\.json, line 2"):
        committer(store).commits_after(2)


def test_of_many_threads_exactly_one_wins_each_version(store: ObjectStore) -> None:
    writers, versions = 5, 4
    won: list[tuple[int, str]] = []
    errors: list[BaseException] = []
    start = threading.Barrier(writers)

    def write(name: str) -> None:
        own = FilesystemCommitter(store)
        try:
            for version in range(versions):
                start.wait()
                outcome = own.commit(version, by(name))
                if isinstance(outcome, Committed):
                    won.append((outcome.version, name))
        except BaseException as error:  # noqa: BLE001 - judged by the test's own thread
            errors.append(error)
            start.abort()

    threads = [threading.Thread(target=write, args=(f"writer-{number}",)) for number in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sorted(version for version, _ in won) == list(range(versions))
    for version, name in won:
        assert stored(store, version) == by(name)


def test_of_several_processes_exactly_one_wins_each_version(tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", _RACER, root, name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for name in "abc"
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    won: dict[int, str] = {}
    for name, racer in zip("abc", racers, strict=True):
        output, _ = racer.communicate(timeout=60)
        assert racer.returncode == 0
        for version in map(int, output.split()):
            assert version not in won
            won[version] = name
    assert sorted(won) == list(range(20))
    store = open_store(root)
    for version, name in won.items():
        assert stored(store, version) == [{"txn": {"appId": name * 1000, "version": version}}]
    assert sorted(os.listdir(tmp_path / "t" / "_delta_log")) == [  # noqa: PTH208 - hidden files count
        f"{version:020d}.json" for version in range(20)
    ]


# Outcomes that the store does not tell.


def test_an_answer_that_was_lost_after_the_put_is_found_out(store: ObjectStore) -> None:
    def put_and_fail(put: Callable[..., None], number: int, *rest: Any) -> None:
        put(*rest)
        raise StorageError("the connection broke")

    faulty = Faulty(store, put_and_fail)
    outcome = committer(faulty).commit(0, by("a"))
    assert isinstance(outcome, Committed)
    assert faulty.puts == 1
    assert stored(store, 0) == by("a")


def test_a_put_that_says_that_its_own_object_exists_has_committed(store: ObjectStore) -> None:
    def put_twice(put: Callable[..., None], number: int, *rest: Any) -> None:
        put(*rest)
        put(*rest)

    assert isinstance(committer(Faulty(store, put_twice)).commit(0, by("a")), Committed)


def test_an_answer_lost_after_another_had_won_is_a_conflict(store: ObjectStore) -> None:
    committer(store).commit(0, by("b"))

    def fail(put: Callable[..., None], number: int, *rest: Any) -> None:
        raise StorageError("the connection broke")

    assert committer(Faulty(store, fail)).commit(0, by("a")) == Conflict(0)
    assert stored(store, 0) == by("b")


def test_a_put_that_never_arrived_is_repeated(store: ObjectStore) -> None:
    def lose_two(put: Callable[..., None], number: int, *rest: Any) -> None:
        if number <= 2:
            raise StorageError("timed out")
        put(*rest)

    waits: list[float] = []
    faulty = Faulty(store, lose_two)
    assert isinstance(FilesystemCommitter(faulty, waits.append).commit(0, by("a")), Committed)
    assert (faulty.puts, stored(store, 0)) == (3, by("a"))
    assert len(waits) == 2
    assert waits[0] < waits[1]


def test_a_put_that_arrives_late_is_not_committed_twice(store: ObjectStore) -> None:
    delayed: list[tuple[Any, ...]] = []

    def delay_the_first(put: Callable[..., None], number: int, *rest: Any) -> None:
        if number == 1:
            delayed.append(rest)
            raise StorageError("timed out")
        put(*delayed[0])
        put(*rest)

    assert isinstance(committer(Faulty(store, delay_the_first)).commit(0, by("a")), Committed)
    assert len(store.list_from("_delta_log")) == 1


def test_a_put_that_may_still_arrive_is_unknown(store: ObjectStore) -> None:
    def fail(put: Callable[..., None], number: int, *rest: Any) -> None:
        raise StorageError("timed out")

    faulty = Faulty(store, fail)
    with pytest.raises(
        CommitUnknown, match=r"outcome of the commit is unknown \(timed out\).*Read the table again"
    ) as caught:
        committer(faulty).commit(0, by("a"))
    assert faulty.puts > 1
    assert f"{store.root_url}/{commit_path(0)}" in str(caught.value)
    assert (caught.value.retryable, caught.value.conflict) == (False, False)


@pytest.mark.parametrize("error", [ObjectExists("it exists"), StorageError("timed out")])
def test_a_version_that_cannot_be_read_back_is_unknown(store: ObjectStore, error: StorageError) -> None:
    def put_and_fail(put: Callable[..., None], number: int, *rest: Any) -> None:
        if number == 1:
            put(*rest)
        raise error

    def unreadable(read: Callable[..., bytes], path: str) -> bytes:
        raise StorageError("the store is down")

    with pytest.raises(CommitUnknown, match="could not be read back"):
        committer(Faulty(store, put_and_fail, unreadable)).commit(0, by("a"))
    # It did land: who reads the log back finds it.
    assert [c.info["txnId"] for c in committer(store).commits_after(-1)] == ["a"]


def test_a_put_that_was_refused_has_failed(store: ObjectStore) -> None:
    def refuse(put: Callable[..., None], number: int, *rest: Any) -> None:
        raise StorageRefused("no space left")

    faulty = Faulty(store, refuse)
    with pytest.raises(CommitFailed, match=r"was not written, the table is unchanged: no space left") as caught:
        committer(faulty).commit(0, by("a"))
    assert faulty.puts == 1
    assert (caught.value.retryable, caught.value.conflict) == (True, False)
    assert store.list_from("_delta_log") == []


def test_a_refusal_where_another_has_won_is_a_conflict(store: ObjectStore) -> None:
    committer(store).commit(0, by("b"))

    def refuse(put: Callable[..., None], number: int, *rest: Any) -> None:
        raise StorageRefused("denied")

    assert committer(Faulty(store, refuse)).commit(0, by("a")) == Conflict(0)


def test_a_refusal_after_a_put_whose_answer_was_lost_is_unknown(store: ObjectStore) -> None:
    def fail_then_refuse(put: Callable[..., None], number: int, *rest: Any) -> None:
        raise StorageError("timed out") if number == 1 else StorageRefused("denied")

    with pytest.raises(CommitUnknown, match="denied"):
        committer(Faulty(store, fail_then_refuse)).commit(0, by("a"))


def test_a_refusal_by_a_store_itself_is_a_commit_that_failed(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "_delta_log").write_bytes(b"a file where the directory should be")
    with pytest.raises(CommitFailed, match="the table is unchanged"):
        committer(open_store(tmp_path / "t")).commit(0, by("a"))


def test_actions_of_any_text_come_back_as_they_were(store: ObjectStore) -> None:
    odd: Sequence[Action] = [{"commitInfo": {"txnId": "a", "operation": 'new\nline \u2028 "quoted" ü 日本 \x00'}}]
    assert isinstance(committer(store).commit(0, odd), Committed)
    (found,) = committer(store).commits_after(-1)
    assert list(found.actions) == odd
