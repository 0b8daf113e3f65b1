"""What an owner tells people of itself: open transactions, locks and waits, promises, the latest commits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from slackwater.errors import InvalidArgument, LockTimeout
from slackwater.owner.api.granules import granule
from slackwater.owner.api.monitoring import MOST_COMMITS, OpenTransaction, TransactionPhase
from slackwater.protocol.actions.file_names import staged_path
from tests.contract.owners import PATIENCE_S, OwnedLake, new_id
from tests.contract.test_transactions import Shelf
from tests.contract.transactions import Txn


@pytest.fixture
def shelf(lake: OwnedLake, tmp_path: Path) -> Iterator[Shelf]:
    found = Shelf(lake.another(tmp_path))
    yield found
    found.lake.close()


def _of(shelf: Shelf, txn: Txn) -> OpenTransaction:
    (found,) = [each for each in shelf.owner.activity().transactions if each.transaction == f"{txn.txn_id[:8]}…"]
    return found


def test_an_owner_that_nobody_uses_has_nothing_open(shelf: Shelf) -> None:
    told = shelf.owner.activity()
    assert (list(told.transactions), list(told.locks), list(told.promises), told.left_out) == ([], [], [], 0)
    assert told.read_timestamps.slots > 0
    assert told.now_ms > 0


def test_who_holds_locks_and_who_waits_for_whom_is_told_without_whole_ids(shelf: Shelf) -> None:
    holder, waiter = shelf.txn(), shelf.txn()
    holder.lock(shelf.a, exclusive=True, granule=granule("day", "2026-11-23"))
    failed: list[BaseException] = []

    def wait() -> None:
        try:
            waiter.lock(shelf.a, timeout_s=PATIENCE_S)
        except LockTimeout as error:
            failed.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        ticks = threading.Event()
        for _ in range(int(PATIENCE_S * 50)):
            told = shelf.owner.activity()
            if any(lock.wanted for lock in told.locks):
                break
            ticks.wait(0.02)
    finally:
        shelf.owner.end(holder.txn_id)
        thread.join()
    assert failed == []
    shown = [(lock.table, lock.granule, lock.transaction[:8], lock.held, lock.wanted) for lock in told.locks]
    mine, theirs = holder.txn_id[:8], waiter.txn_id[:8]
    assert sorted(shown) == sorted(
        [
            (shelf.a.name, "", mine, "IX", ""),
            (shelf.a.name, granule("day", "2026-11-23"), mine, "X", ""),
            (shelf.a.name, "", theirs, "", "S"),
        ]
    )
    assert [list(lock.waits_for) for lock in told.locks if lock.wanted] == [[f"{mine}…"]]
    assert all(lock.holder and not lock.has_ended for lock in told.locks)
    by_id = {each.transaction: each for each in told.transactions}
    assert {name: (each.stage, list(each.tables)) for name, each in by_id.items()} == {
        f"{mine}…": (TransactionPhase.OPEN, [shelf.a.name]),
        f"{theirs}…": (TransactionPhase.OPEN, [shelf.a.name]),
    }
    assert by_id[f"{mine}…"].since_ms == holder.started_ms
    # Who knows a whole id may end the transaction.
    assert holder.txn_id not in str(told)
    assert waiter.txn_id not in str(told)


def test_a_time_that_was_told_is_shown_as_the_range_and_as_a_promise(shelf: Shelf) -> None:
    txn = shelf.txn()
    told = txn.ask(holds=[shelf.a])
    found = _of(shelf, txn)
    assert (found.stage, found.low_ms, found.high_ms, list(found.tables)) == (
        TransactionPhase.OPEN,
        told.low_ms,
        told.high_ms,
        [shelf.a.name],
    )
    (promise,) = shelf.owner.activity().promises
    assert (promise.table, promise.timestamp_ms, promise.has_ended) == (shelf.a.name, told.high_ms, False)
    shelf.owner.end(txn.txn_id)
    assert list(shelf.owner.activity().promises) == []


def test_a_transaction_that_was_voted_for_is_prepared_until_it_is_decided(shelf: Shelf) -> None:
    txn = shelf.txn()
    txn.write(shelf.a)
    shelf.owner.prepare(txn.request(), new_id())
    found = _of(shelf, txn)
    assert (found.stage, list(found.tables), found.has_ended) == (TransactionPhase.PREPARED, [shelf.a.name], False)
    shelf.owner.finish(txn.txn_id, None)
    assert list(shelf.owner.activity().transactions) == []


def test_what_transactions_read_is_in_the_read_timestamp_table(shelf: Shelf) -> None:
    before = shelf.owner.activity().read_timestamps
    shelf.txn().read(shelf.a).write(shelf.b).commit()
    after = shelf.owner.activity().read_timestamps
    assert after.used == before.used + 1
    assert after.latest_ms > before.latest_ms


def test_the_latest_commits_of_all_tables_are_told_newest_first(shelf: Shelf) -> None:
    shelf.a.commit(1)
    both = shelf.txn().write(shelf.a).write(shelf.b)
    response = both.commit()
    shelf.owner.backfill_to_version(shelf.a.table_id)
    found = [commit for commit in shelf.owner.recent_commits() if commit.table in (shelf.a.name, shelf.b.name)]
    assert [(c.table, c.version) for c in found[:3]] == [
        *sorted([(shelf.a.name, 2), (shelf.b.name, 1)]),
        (shelf.a.name, 1),
    ]
    assert {c.timestamp_ms for c in found[:2]} == {response.timestamp_ms}
    assert {c.transaction for c in found[:2]} == {f"{both.txn_id[:8]}…"}
    assert {c.operation for c in found[:3]} == {"WRITE"}
    assert {(c.table, c.version): c.is_backfilled for c in found[:3]} == {
        (shelf.a.name, 2): True,
        (shelf.a.name, 1): True,
        (shelf.b.name, 1): False,
    }
    assert [c.table_id for c in shelf.owner.recent_commits(1)] == [found[0].table_id]


@pytest.mark.parametrize("limit", [0, -1, MOST_COMMITS + 1])
def test_no_more_commits_are_told_at_once_than_the_most(shelf: Shelf, limit: int) -> None:
    with pytest.raises(InvalidArgument):
        shelf.owner.recent_commits(limit)


def test_what_a_commit_says_of_itself_is_told_and_what_is_no_text_is_not(shelf: Shelf) -> None:
    request = shelf.a.request(1)
    told = {"operation": "<script>", "userName": "a\u202eb", "operationMetrics": {"numOutputRows": "3", "odd": [1]}}
    request.actions[0]["commitInfo"].update(told)
    shelf.owner.commit(request)
    found = shelf.owner.recent_commits(1)[0]
    assert (found.operation, found.user_name, found.metrics) == ("<script>", "a\u202eb", {"numOutputRows": "3"})
    odd = shelf.a.request(2)
    odd.actions[0]["commitInfo"].update({"operation": 7, "operationMetrics": [1]})
    shelf.owner.commit(odd)
    found = shelf.owner.recent_commits(1)[0]
    assert (found.operation, found.user_name, found.metrics) == (None, None, {})


def test_a_commit_whose_file_is_away_is_told_without_what_it_says(shelf: Shelf) -> None:
    landed = shelf.a.commit(1)
    shelf.a.store.delete([staged_path(landed.commit.file_name)])
    found = shelf.owner.recent_commits(1)[0]
    assert (found.table, found.version, found.operation) == (shelf.a.name, 1, None)
