"""A transfer's commit is put into the log: how often it is tried, and what is waited for."""

from __future__ import annotations

import pytest

from slackwater.errors import CommitUnknown, StorageError, StorageRefused
from slackwater.owner.publish.transfer_commit import TransferCommit, put_transfer
from slackwater.protocol.actions.file_names import staged_path
from tests.transaction.tables import StepStore, new_store

COMMIT = TransferCommit(0, f"{0:020}.0e0e0e0e-0000-4000-8000-000000000000.json", "transfer")
DATA = b'{"commitInfo":{"txnId":"transfer"}}\n'


class Put:
    """Put COMMIT into a store whose first puts fail, and write down what was waited."""

    def __init__(self, *failures: StorageError) -> None:
        self.failures = list(failures)
        self.puts = 0
        self.slept: list[float] = []
        self.store = StepStore(new_store(), self._before)
        self.store.put(staged_path(COMMIT.file_name), DATA)

    def __call__(self) -> bool:
        return put_transfer(self.store, COMMIT, self.slept.append, lambda: False)

    def _before(self, operation: str, path: str) -> None:
        if operation != "put_if_absent":
            return
        self.puts += 1
        if self.failures:
            raise self.failures.pop(0)


def test_a_put_that_succeeds_is_not_waited_for() -> None:
    put = Put()
    assert put()
    assert put.store.read(COMMIT.path) == DATA
    assert put.slept == []


def test_between_puts_that_fail_the_wait_gets_longer() -> None:
    put = Put(StorageError("away"), StorageError("away"))
    assert put()
    assert put.puts == 3
    assert len(put.slept) == 2
    assert 0 < put.slept[0] < put.slept[1]


def test_a_store_that_stays_away_leaves_the_outcome_unknown() -> None:
    put = Put(*(StorageError("away") for _ in range(9)))
    with pytest.raises(CommitUnknown, match="away"):
        put()
    assert len(put.slept) == put.puts - 1


def test_a_store_that_refuses_is_not_asked_again() -> None:
    put = Put(StorageRefused("read only"))
    with pytest.raises(CommitUnknown, match="read only"):
        put()
    assert put.puts == 1
    assert put.slept == []
