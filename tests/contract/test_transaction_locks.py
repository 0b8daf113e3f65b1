"""Transactions that wait for each other: locks, tables that are held, processes that are gone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.errors import DeadlockDetected, LockTimeout, TimestampConflict
from slackwater.owner.api.granules import granule
from slackwater.owner.api.timestamp_range import TimestampRange
from slackwater.owner.api.transactions import TransactionResponse
from tests.contract.owners import OwnedLake, added, at_once
from tests.contract.test_transactions import Shelf
from tests.contract.transactions import Txn


@pytest.fixture
def shelf(lake: OwnedLake, tmp_path: Path) -> Iterator[Shelf]:
    found = Shelf(lake.another(tmp_path))
    yield found
    found.lake.close()


def test_a_commit_waits_for_the_end_of_a_transaction_that_locked_its_table(shelf: Shelf) -> None:
    holder = shelf.txn()
    holder.lock(shelf.a, exclusive=True)
    done: list[object] = []
    thread = threading.Thread(target=lambda: done.append(shelf.a.commit(1)))
    thread.start()
    thread.join(0.1)
    assert done == []
    shelf.owner.end(holder.txn_id)
    thread.join()
    assert len(done) == 1


def test_a_commit_ends_the_locks_of_its_transaction(shelf: Shelf) -> None:
    holder = shelf.txn()
    holder.lock(shelf.a, exclusive=True)
    holder.write(shelf.a).commit()
    shelf.txn().lock(shelf.a, exclusive=True, timeout_s=0)


def test_what_is_read_under_a_lock_is_the_latest_and_stays_so(shelf: Shelf) -> None:
    shelf.a.commits(2)
    reader = shelf.txn()
    reader.lock(shelf.a)
    assert shelf.owner.cut().named(shelf.a.name).version == 2  # type: ignore[union-attr]
    with pytest.raises(LockTimeout, match=f"transaction {reader.txn_id[:8]}…") as told:
        shelf.txn().lock(shelf.a, exclusive=True, timeout_s=0)
    # Who knows the whole id may end the transaction.
    assert reader.txn_id not in str(told.value)


def test_partitions_are_locked_apart(shelf: Shelf) -> None:
    monday, tuesday = granule("day", "2026-11-23"), granule("day", "2026-11-24")
    one, other = shelf.txn(), shelf.txn()
    one.lock(shelf.a, exclusive=True, granule=monday)
    other.lock(shelf.a, exclusive=True, granule=tuesday)
    other.write(shelf.a, added(partitionValues={"day": "2026-11-24"})).commit()
    with pytest.raises(LockTimeout):
        shelf.txn().lock(shelf.a, timeout_s=0)
    shelf.owner.end(one.txn_id)
    shelf.txn().lock(shelf.a, timeout_s=0)


def test_of_two_that_wait_for_each_other_one_gives_way(shelf: Shelf) -> None:
    one, two = shelf.txn(), shelf.txn()
    one.lock(shelf.a, exclusive=True)
    two.lock(shelf.b, exclusive=True)

    def other(txn: Txn, table: object) -> object:
        try:
            txn.lock(table, exclusive=True, timeout_s=30)  # type: ignore[arg-type]
        except DeadlockDetected:
            shelf.owner.end(txn.txn_id)
            return None
        return txn.txn_id

    answers = at_once(lambda: other(one, shelf.b), lambda: other(two, shelf.a))
    assert sorted(answers, key=str).count(None) == 1


def test_a_transaction_whose_locks_are_lost_does_not_commit(shelf: Shelf) -> None:
    """The lease ends by the owner's clock; whoever wants the item then takes it."""
    holder = shelf.txn()
    holder.lock(shelf.a, exclusive=True)
    shelf.later(60_000)
    other = shelf.txn()
    other.lock(shelf.a, exclusive=True, timeout_s=0)
    holder.write(shelf.a)
    with pytest.raises(LockTimeout, match="lost its locks"):
        shelf.owner.commit_transaction(holder.request(has_locks=True))
    with pytest.raises(LockTimeout):
        shelf.owner.keep_alive(holder.txn_id)
    assert shelf.a.latest == 0


def test_what_is_held_is_nobody_else_s_from_the_time_that_was_told_on(shelf: Shelf) -> None:
    shelf.later(1000)
    early = shelf.txn()
    early.ask(holds=[shelf.a])
    shelf.later(100)
    done: list[object] = []
    waiting = shelf.txn().write(shelf.a, may_move=True)
    thread = threading.Thread(target=lambda: done.append(waiting.commit()))
    thread.start()
    thread.join(0.1)
    assert done == []
    assert early.write(shelf.a).commit().timestamp_ms == early.range.high_ms
    thread.join()
    assert shelf.a.latest == 2


def test_who_only_reads_what_is_held_goes_before_it(shelf: Shelf) -> None:
    shelf.later(1000)
    reader = shelf.txn().read(shelf.a).write(shelf.b)
    shelf.later(10)
    early = shelf.txn()
    early.ask(holds=[shelf.a])
    shelf.later(100)
    assert reader.commit().timestamp_ms < early.range.high_ms
    assert early.write(shelf.a).commit().timestamp_ms == early.range.high_ms


def test_two_that_hold_the_same_table_are_told_different_times_and_go_in_their_order(shelf: Shelf) -> None:
    shelf.later(1000)
    one, two = shelf.txn(), shelf.txn()
    first, second = one.ask(holds=[shelf.a]), two.ask(holds=[shelf.a])
    assert first.high_ms < second.high_ms
    shelf.later(100)
    two.write(shelf.a, may_move=True)
    one.write(shelf.a, may_move=True)
    answers = at_once(two.commit, one.commit)
    assert [answer.timestamp_ms for answer in answers] == [second.high_ms, first.high_ms]


def test_nobody_waits_for_a_time_that_was_promised_to_itself(shelf: Shelf) -> None:
    """Who was told a time may ask for a later one."""
    shelf.later(1000)
    early = shelf.txn()
    told = early.ask(holds=[shelf.a])
    shelf.later(100)
    early.range = TimestampRange(told.high_ms)
    assert early.write(shelf.a).commit().timestamp_ms > told.high_ms


def test_what_is_held_is_free_when_the_transaction_ends_or_is_heard_of_no_more(shelf: Shelf) -> None:
    shelf.later(1000)
    ended, silent = shelf.txn(), shelf.txn()
    ended.ask(holds=[shelf.a])
    shelf.owner.end(ended.txn_id)
    shelf.a.commits(1)
    silent.ask(holds=[shelf.a])
    shelf.owner.keep_alive(silent.txn_id)
    shelf.later(60_000)
    assert shelf.a.commit(2).commit.version == 2


def test_a_transaction_that_only_read_under_locks_leaves_none(shelf: Shelf) -> None:
    reader = shelf.txn().read(shelf.a)
    reader.lock(shelf.a)
    assert isinstance(shelf.owner.commit_transaction(reader.request(has_locks=True)), TransactionResponse)
    shelf.txn().lock(shelf.a, exclusive=True, timeout_s=0)


def test_who_has_locked_a_table_does_not_wait_for_who_was_promised_a_time_in_it(shelf: Shelf) -> None:
    """That one waits for the lock, so both would wait for each other."""
    shelf.later(1000)
    early = shelf.txn()
    early.ask(holds=[shelf.a])
    holder = shelf.txn()
    holder.lock(shelf.a, exclusive=True)
    shelf.later(100)
    early.write(shelf.a, may_move=True)
    holder.write(shelf.a)

    def late() -> object:
        try:
            return early.commit()
        except TimestampConflict as error:
            return error

    answers = at_once(late, lambda: shelf.owner.commit_transaction(holder.request(has_locks=True)))
    assert isinstance(answers[1], TransactionResponse)
    assert isinstance(answers[0], TimestampConflict)


def test_a_time_that_was_told_is_not_waited_for_where_the_clock_stepped_back(shelf: Shelf) -> None:
    shelf.later(3_600_000)
    early = shelf.txn().write(shelf.a)
    asked = early.ask()
    shelf.later(-3_600_000)
    assert early.commit().timestamp_ms == asked.high_ms
