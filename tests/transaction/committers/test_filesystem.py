"""A version that the log has forgotten is never free: writers that slept longer than its retention."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from slackwater.errors import (
    CommitUnknown,
    ConcurrentWriteException,
    ObjectNotFound,
    StorageError,
)
from slackwater.log.checkpoints.write_checkpoint import write_checkpoint, write_last_checkpoint
from slackwater.log.cleanup import clean_up_log
from slackwater.protocol.actions.file_names import commit_path
from slackwater.scan.snapshot import Snapshot
from slackwater.storage import ObjectStore
from slackwater.storage.store import ChunkedBytes
from slackwater.transaction.commit.transaction import TableTransaction
from slackwater.transaction.committers.filesystem import FilesystemCommitter
from slackwater.transaction.table.public_transaction import Transaction
from tests.transaction.tables import (
    ID,
    START_MS,
    StepStore,
    add,
    append,
    begin,
    delete,
    live,
    log_files,
    new_store,
    removes,
    schema,
    table,
)

SIXTY_DAYS_MS = 60 * 24 * 3600 * 1000
LAST = 12


class Sleeper:
    """A store whose user sleeps just before, or just after, the put of a commit; `meanwhile` happens once then."""

    def __init__(self, store: ObjectStore, meanwhile: Callable[[], None], after: bool = False) -> None:
        self._store, self._meanwhile, self._after = store, meanwhile, after
        self._slept = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def put_if_absent(self, path: str, data: bytes | ChunkedBytes, durable: bool = True) -> None:
        if not self._after:
            self._sleep()
        self._store.put_if_absent(path, data, durable)
        if self._after:
            self._sleep()

    def _sleep(self) -> None:
        if not self._slept:
            self._slept = True
            self._meanwhile()


def _others(store: ObjectStore, cleans: bool = True) -> None:
    """Others commit up to version 12, with a checkpoint at 10, and the log is cleaned up 60 days later."""
    while (snapshot := Snapshot.open(store)).version < LAST:
        append(snapshot, add(f"theirs-{snapshot.version + 1}"))
        if snapshot.version == 9:
            tenth = Snapshot.open(store)
            write_last_checkpoint(store, write_checkpoint(tenth, START_MS))
    if cleans:
        clean_up_log(store, Snapshot.open(store), time.time_ns() // 1_000_000 + SIXTY_DAYS_MS)
        assert f"{0:020d}.json" not in log_files(store)


def _adding(base: Snapshot, store: Any = None) -> TableTransaction:
    mine = begin(base, committer=FilesystemCommitter(store or base.store, lambda _: None))
    mine.add(add("mine"))
    return mine


def _changing_nothing_but_settings(base: Snapshot, store: Any = None) -> TableTransaction:
    mine = begin(base, committer=FilesystemCommitter(store or base.store, lambda _: None))
    mine.set_transaction("mine", 1)
    return mine


def test_a_writer_that_slept_longer_than_the_logs_retention_commits_nothing() -> None:
    base = table()
    puts: list[str] = []
    mine = _adding(base, StepStore(base.store, lambda call, path: puts.append(path) if "put" in call else None))
    _others(base.store)
    before = log_files(base.store)
    with pytest.raises(
        ConcurrentWriteException, match="version 1 was committed by another writer and cleaned up since"
    ):
        mine.commit("WRITE")
    assert (log_files(base.store), puts) == (before, [])
    assert Snapshot.open(base.store).version == LAST


def test_a_writer_that_slept_between_look_and_put_takes_its_file_away() -> None:
    base = table()
    store = Sleeper(base.store, lambda: _others(base.store))
    with pytest.raises(ConcurrentWriteException, match="the log begins at version 10, the newest is 12"):
        _adding(base, store).commit("WRITE")
    assert commit_path(1) not in {f"_delta_log/{name}" for name in log_files(base.store)}
    assert "mine" not in live(base.store)
    # It is no obstacle for those who come after it.
    assert append(Snapshot.open(base.store), add("next")).version == LAST + 1


def test_the_table_is_readable_while_such_a_file_is_there() -> None:
    base = table()
    seen: list[tuple[int, bool]] = []

    class Looking(Sleeper):
        def delete(self, paths: list[str]) -> None:
            assert commit_path(1) in paths
            found = Snapshot.open(base.store)
            seen.append((found.version, "mine" in live(base.store)))
            base.store.delete(paths)

    with pytest.raises(ConcurrentWriteException):
        _adding(base, Looking(base.store, lambda: _others(base.store))).commit("WRITE")
    assert seen == [(LAST, False)]


@pytest.mark.parametrize("cleans", [False, True])
def test_a_commit_that_others_built_upon_has_landed_even_if_the_log_was_cleaned_up(cleans: bool) -> None:
    base = table()
    store = Sleeper(base.store, lambda: _others(base.store, cleans), after=True)
    assert _adding(base, store).commit("WRITE").version == 1
    assert "mine" in live(base.store)


@pytest.mark.parametrize("cleans", [False, True])
def test_a_commit_whose_file_was_removed_and_forgotten_is_not_said_not_to_have_landed(cleans: bool) -> None:
    base = table()

    def removed() -> None:
        gone = delete(Snapshot.open(base.store), "mine").snapshot
        later_ms = START_MS + SIXTY_DAYS_MS
        write_last_checkpoint(base.store, write_checkpoint(gone, later_ms))
        if cleans:
            clean_up_log(base.store, gone, time.time_ns() // 1_000_000 + SIXTY_DAYS_MS)
            assert f"{1:020d}.json" not in log_files(base.store)

    with pytest.raises(CommitUnknown):
        _adding(base, Sleeper(base.store, removed, after=True)).commit("WRITE")
    assert (commit_path(1).rpartition("/")[2] in log_files(base.store)) != cleans


def test_a_commit_without_files_that_others_built_upon_has_landed() -> None:
    base = table()
    store = Sleeper(base.store, lambda: _others(base.store, cleans=False), after=True)
    assert _changing_nothing_but_settings(base, store).commit("WRITE").version == 1
    assert Snapshot.open(base.store).transactions["mine"].version == 1


@pytest.mark.parametrize("after", [False, True])
def test_of_a_commit_without_files_beside_a_cleanup_nobody_can_say(after: bool) -> None:
    base = table()
    store = Sleeper(base.store, lambda: _others(base.store), after)
    with pytest.raises(CommitUnknown, match="it is unknown if the commit is part of the table"):
        _changing_nothing_but_settings(base, store).commit("WRITE")


def test_a_rearranging_commit_is_known_by_the_files_that_it_added() -> None:
    base = append(table(), add("old")).snapshot

    def rearranging(store: Any) -> TableTransaction:
        mine = begin(base, committer=FilesystemCommitter(store, lambda _: None))
        mine.remove(removes(base, "old", data_change=False))
        mine.add(add("new", data_change=False))
        return mine

    asleep = Sleeper(base.store, lambda: _others(base.store))
    with pytest.raises(ConcurrentWriteException):
        rearranging(asleep).commit("OPTIMIZE")
    assert live(base.store)[:2] == ["old", "theirs-10"]


@pytest.mark.parametrize("asleep_at_put", [False, True])
def test_a_table_is_not_created_over_a_log_that_forgot_its_beginning(asleep_at_put: bool) -> None:
    real = new_store()

    def appears() -> None:
        created = Transaction.create(real.root_url, schema(ID))
        _others(created.commit("CREATE TABLE").snapshot.store)

    store: Any = Sleeper(real, appears) if asleep_at_put else real
    mine = Transaction.create(real.root_url, schema(ID))._inner
    mine.committer = FilesystemCommitter(store, lambda _: None)
    if not asleep_at_put:
        appears()
    with pytest.raises(ConcurrentWriteException, match="version 0 was committed by another writer"):
        mine.commit("CREATE TABLE")
    assert f"{0:020d}.json" not in log_files(real)
    assert Snapshot.open(real).version == LAST


def test_a_commit_does_not_follow_a_version_that_is_nowhere() -> None:
    base = append(table(), add("a")).snapshot
    mine = _adding(base)
    base.store.delete([meta.path for meta in base.store.list_from("_delta_log", recursive=True)])
    with pytest.raises(ConcurrentWriteException, match="has neither version 1, which the commit follows"):
        mine.commit("WRITE")
    assert log_files(base.store) == []


def test_a_commit_follows_a_checkpoint_whose_commit_is_gone() -> None:
    base = append(table(), add("a")).snapshot
    write_last_checkpoint(base.store, write_checkpoint(base, START_MS))
    base.store.delete([commit_path(0), commit_path(1)])
    assert _adding(Snapshot.open(base.store)).commit("WRITE").version == 2
    assert live(base.store) == ["a", "mine"]


def test_a_commit_of_which_nobody_can_see_what_became_is_unknown() -> None:
    base = table()

    class Blind(Sleeper):
        def list_from(self, *_: Any, **__: Any) -> Any:
            raise StorageError("no answer")

    with pytest.raises(CommitUnknown):
        _adding(base, Blind(base.store, lambda: None)).commit("WRITE")
    assert live(base.store) == ["mine"]


def test_a_put_whose_answer_was_lost_is_looked_at_in_the_same_way() -> None:
    base = table()

    class Silent(Sleeper):
        def put_if_absent(self, path: str, data: bytes | ChunkedBytes, durable: bool = True) -> None:
            super().put_if_absent(path, data, durable)
            raise StorageError("no answer")

    with pytest.raises(ConcurrentWriteException):
        _adding(base, Silent(base.store, lambda: _others(base.store))).commit("WRITE")
    with pytest.raises(ObjectNotFound):
        base.store.read(commit_path(1))
