"""Committing by put-if-absent: what the file holds afterwards decides, and doubt is said to be doubt."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from slackwater.commit.filesystem import FilesystemCommitter
from slackwater.errors import CommitUnknown, ObjectExists, StorageError
from slackwater.storage.open import open_store
from slackwater.transaction.committer import Committed, Conflict

MINE, OTHERS = [{"txn": {"appId": "a", "version": 1}}], [{"txn": {"appId": "b", "version": 1}}]
PATH = f"_delta_log/{0:020d}.json"


class _Faulty:
    """A store whose `put_if_absent` or `read` is replaced."""

    def __init__(self, store: Any, **replaced: Callable[..., Any]) -> None:
        self._store = store
        self.__dict__.update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def _store() -> Any:
    return open_store(f"memory://{uuid.uuid4()}")


def _raise(error: Exception) -> Callable[..., Any]:
    def fail(*_: Any) -> Any:
        raise error

    return fail


def test_the_first_commits_and_the_second_is_in_conflict() -> None:
    store = _store()
    assert FilesystemCommitter(store).commit(0, MINE) == Committed(0)
    assert FilesystemCommitter(store).commit(0, OTHERS) == Conflict(0)
    assert b'"appId":"a"' in store.read(PATH)


def test_an_answer_that_was_lost_after_the_put_is_found_out() -> None:
    store = _store()

    def put_and_fail(path: str, data: bytes) -> None:
        store.put_if_absent(path, data)
        raise StorageError("the connection broke")

    faulty = _Faulty(store, put_if_absent=put_and_fail)
    assert FilesystemCommitter(faulty).commit(0, MINE) == Committed(0)
    assert FilesystemCommitter(faulty).commit(0, OTHERS) == Conflict(0)


def test_a_put_that_may_still_arrive_is_unknown() -> None:
    faulty = _Faulty(_store(), put_if_absent=_raise(StorageError("timed out")))
    with pytest.raises(CommitUnknown, match=r"may or may not have landed"):
        FilesystemCommitter(faulty).commit(0, MINE)


def test_a_version_that_exists_and_cannot_be_read_back_is_unknown() -> None:
    faulty = _Faulty(_store(), put_if_absent=_raise(ObjectExists(PATH)), read=_raise(StorageError("refused")))
    with pytest.raises(CommitUnknown, match=r"reading it back failed"):
        FilesystemCommitter(faulty).commit(0, MINE)
