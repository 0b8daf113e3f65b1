"""A server full of those who wait for locks still does what they wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable

import anyio
import pytest

from slackwater.errors import CommitOwnerBusy, LockTimeout
from slackwater.owner.api.commits import CommitConflict, CommitRequest, CommitResponse
from slackwater.owner.api.timestamp_range import TimestampRange
from slackwater.owner.api.transactions import (
    Item,
    LockRequest,
    TimeRequest,
    TransactionConflict,
    TransactionRequest,
    Vote,
)
from slackwater.owner.api.transactions import TransactionResponse as Response
from slackwater.owner.served.client.http_owner import HttpOwner
from slackwater.owner.served.settings import ServedSettings
from slackwater.owner.served.transaction_routes import LockHolders
from slackwater.owner.served.worker_pools import WorkerPools
from tests.owner.served.memory_owner import MemoryOwner
from tests.owner.served.serving import commit_request, new_id, served, taken

PATIENCE_S = 20.0
"""For how long a test waits for what is sure to come."""
ONE = ServedSettings(concurrent_commits=1, concurrent_reads=1, concurrent_waits=1)


def _held_until(free: threading.Event, waits: Callable[[], None] = lambda: None) -> Callable[[float], str]:
    """The call of a lock that another transaction has until `free`, however short one may wait for it."""

    def lock(timeout_s: float) -> str:
        if timeout_s > 0:
            waits()
            free.wait()
        if not free.is_set():
            raise LockTimeout("held")
        return "locked"

    return lock


def test_a_lock_that_is_free_passes_those_that_are_waited_for() -> None:
    free = threading.Event()

    async def crowd() -> str:
        workers = WorkerPools(ONE)
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(workers.lock, _held_until(free), 60.0)
            await anyio.wait_all_tasks_blocked()
            found = await workers.lock(lambda _: "another lock", 60.0)
            free.set()
        return found

    assert anyio.run(crowd) == "another lock"


@pytest.mark.parametrize("is_awaited", [True, False])
def test_who_waits_for_locks_keeps_nobody_from_committing(is_awaited: bool) -> None:
    free = threading.Event()

    async def crowd() -> int:
        workers = WorkerPools(ONE)
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(workers.lock, _held_until(free), 60.0)
            await anyio.wait_all_tasks_blocked()
            found = await workers.ratify(lambda number: number + 1, 1, is_awaited)
            free.set()
        return found

    assert anyio.run(crowd) == 2


def test_commits_that_wait_for_a_lock_are_passed_by_the_one_that_they_wait_for() -> None:
    free = threading.Event()

    async def crowd() -> None:
        workers = WorkerPools(ONE)
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(workers.ratify, lambda _: free.wait(), None)
            await anyio.wait_all_tasks_blocked()
            assert await workers.step(lambda: "alive") == "alive"
            await workers.ratify(lambda _: free.set(), None, True)

    anyio.run(crowd)
    assert free.is_set()


def test_votes_wait_where_locks_are_waited_for_and_what_is_decided_passes_them_all() -> None:
    free = threading.Event()

    async def crowd() -> list[str]:
        workers = WorkerPools(ONE)
        async with anyio.create_task_group() as group:
            for is_awaited in (True, False):
                for _ in range(3):
                    group.start_soon(workers.vote, free.wait, is_awaited)
            await anyio.wait_all_tasks_blocked()
            found = [
                await workers.step(lambda: "alive"),
                await workers.decide(lambda: "decided"),
                await workers.ratify(lambda word: word, "committed"),
                await workers.finish(lambda: "carried out"),
            ]
            free.set()
        return found

    assert anyio.run(crowd) == ["alive", "decided", "committed", "carried out"]


def test_the_vote_of_a_transaction_that_has_locks_passes_those_who_wait_for_them() -> None:
    free = threading.Event()

    async def crowd() -> str:
        workers = WorkerPools(ONE)
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(workers.lock, _held_until(free), 60.0)
                group.start_soon(workers.vote, free.wait)
            await anyio.wait_all_tasks_blocked()
            found = await workers.vote(lambda: "promised", True)
            free.set()
        return found

    assert anyio.run(crowd) == "promised"


def test_a_state_of_the_past_that_is_waited_for_keeps_no_other_reader_waiting() -> None:
    settled = threading.Event()

    async def crowd() -> str:
        workers = WorkerPools(ONE)
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(workers.look_back, settled.wait)
            await anyio.wait_all_tasks_blocked()
            found = await workers.look(lambda: "latest")
            settled.set()
        return found

    assert anyio.run(crowd) == "latest"


def test_who_finds_no_thread_to_wait_in_hears_who_holds_the_lock_when_the_time_is_over() -> None:
    free, waiting = threading.Event(), threading.Event()

    async def crowd() -> None:
        workers = WorkerPools(ONE)
        async with anyio.create_task_group() as group:
            group.start_soon(workers.lock, _held_until(free, waiting.set), 60.0)
            await anyio.to_thread.run_sync(waiting.wait)
            try:
                with pytest.raises(LockTimeout, match="held"):
                    await workers.lock(_held_until(free), 0.01)
            finally:
                free.set()

    anyio.run(crowd)


def test_no_more_wait_for_locks_than_the_settings_say() -> None:
    free = threading.Event()

    async def crowd() -> list[str]:
        workers = WorkerPools(ServedSettings(concurrent_waits=1, waiting_calls=1))
        results: list[str] = []

        async def one() -> None:
            try:
                results.append(await workers.lock(_held_until(free), 60.0))
            except CommitOwnerBusy:
                results.append("busy")
                free.set()

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(one)
        return results

    assert anyio.run(crowd) == ["busy", "locked", "locked"]


def test_a_lock_that_has_begun_to_be_waited_for_is_not_given_up_by_the_server() -> None:
    free, waiting = threading.Event(), threading.Event()
    answers: list[str] = []

    def lock(timeout_s: float) -> str:
        free.set()
        if timeout_s == 0:
            raise LockTimeout("held")
        # Longer than was asked for: what became of it the owner alone knows.
        threading.Event().wait(timeout_s + 0.1)
        return "locked"

    async def late() -> None:
        workers = WorkerPools(ONE)
        async with anyio.create_task_group() as group:
            group.start_soon(workers.lock, _held_until(free, waiting.set), 60.0)
            await anyio.to_thread.run_sync(waiting.wait)
            answers.append(await workers.lock(lock, 0.5))

    anyio.run(late)
    assert answers == ["locked"]


def test_the_waits_of_one_request_together_take_the_time_that_was_given() -> None:
    now = 100.0
    asked: list[float] = []
    free, waiting = threading.Event(), threading.Event()

    def lock(timeout_s: float) -> None:
        nonlocal now
        asked.append(timeout_s)
        now += 3.0
        free.set()
        raise LockTimeout("held")

    async def crowd() -> None:
        workers = WorkerPools(ONE, monotonic=lambda: now)
        async with anyio.create_task_group() as group:
            group.start_soon(workers.lock, _held_until(free, waiting.set), 60.0)
            await anyio.to_thread.run_sync(waiting.wait)
            with pytest.raises(LockTimeout):
                await workers.lock(lock, 10.0)

    anyio.run(crowd)
    assert asked == [0.0, 7.0]


def test_a_lock_is_asked_for_once_where_there_is_a_thread_to_wait_in() -> None:
    asked: list[float] = []
    anyio.run(WorkerPools(ONE).lock, asked.append, 10.0)
    assert asked == [10.0]


class _Blocking(MemoryOwner):
    """Commits of those who hold no lock wait until somebody who does has committed."""

    def __init__(self, num_waiting: int) -> None:
        super().__init__()
        self._holder = ""
        self._released = threading.Event()
        self.all_wait = threading.Semaphore(0)
        self.num_waiting = num_waiting

    def lock(self, request: LockRequest) -> None:
        super().lock(request)
        self._holder = request.txn_id

    def commit(self, request: CommitRequest) -> CommitResponse | CommitConflict:
        self.all_wait.release()
        self._released.wait(PATIENCE_S)
        return super().commit(request)

    def commit_transaction(self, request: TransactionRequest) -> Response | TransactionConflict:
        if request.txn_id == self._holder:
            self._released.set()
        self.all_wait.release()
        self._released.wait(PATIENCE_S)
        return super().commit_transaction(request)


@pytest.mark.parametrize("how", ["lock", "hold"])
def test_a_server_whose_commits_all_wait_for_a_transaction_lets_it_commit(how: str) -> None:
    memory = _Blocking(2)
    settings = ServedSettings(concurrent_commits=2)
    with served(memory, settings=settings) as url:
        owner = HttpOwner(url)
        table_id, txn_id = taken(owner), new_id()
        if how == "lock":
            owner.lock(LockRequest(txn_id, 5, [Item(table_id)], True, 0))
        else:
            owner.narrow(TimeRequest(txn_id, TimestampRange(5), holds=[table_id]))
            memory._holder = txn_id
        others: list[Callable[[], object]] = [
            lambda: owner.commit(commit_request(table_id, 1)),
            lambda: owner.commit_transaction(TransactionRequest(new_id(), TimestampRange(5))),
        ]
        threads = [threading.Thread(target=other) for other in others]
        for thread in threads:
            thread.start()
        for _ in others:
            memory.all_wait.acquire()
        owner.keep_alive(txn_id)
        assert isinstance(owner.commit_transaction(TransactionRequest(txn_id, TimestampRange(5))), Response)
        for thread in threads:
            thread.join()
        owner.close()


class _Voting(MemoryOwner):
    """Whoever has promised nothing waits to do so until somebody who has is done."""

    def __init__(self) -> None:
        super().__init__()
        self.done = threading.Event()
        self.all_wait = threading.Semaphore(0)
        self.first = ""

    def prepare(self, request: TransactionRequest, coordinator_id: str) -> Vote | TransactionConflict:
        if request.txn_id != self.first:
            self.all_wait.release()
            self.done.wait(PATIENCE_S)
        return super().prepare(request, coordinator_id)

    def finish(self, txn_id: str, timestamp_ms: int | None) -> Response | None:
        self.done.set()
        return super().finish(txn_id, timestamp_ms)


def test_a_server_whose_votes_all_wait_for_a_transaction_lets_it_promise_again_and_finish() -> None:
    memory = _Voting()
    settings = ServedSettings(concurrent_commits=2, concurrent_waits=2)
    with served(memory, settings=settings) as url:
        owner = HttpOwner(url)
        first = TransactionRequest(new_id(), TimestampRange(5))
        memory.first = first.txn_id
        owner.prepare(first, new_id())
        others = [TransactionRequest(new_id(), TimestampRange(5)) for _ in range(3)]
        threads = [threading.Thread(target=owner.prepare, args=(other, new_id())) for other in others]
        for thread in threads:
            thread.start()
        for _ in range(2):
            memory.all_wait.acquire()
        assert isinstance(owner.prepare(first, new_id()), Vote)
        assert not memory.done.is_set()
        assert owner.decide(first.txn_id, 7, []) == 7
        assert isinstance(owner.finish(first.txn_id, 7), Response)
        for thread in threads:
            thread.join()
        owner.close()


def test_the_latest_holders_are_known_until_they_end() -> None:
    holders = LockHolders(most=2)
    for txn_id in ("a", "b", "a", "c"):
        holders.add(txn_id)
    assert [txn_id in holders for txn_id in "abc"] == [True, False, True]
    holders.remove("a")
    holders.remove("never there")
    assert "a" not in holders
