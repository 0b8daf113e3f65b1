"""Transactions over many tables: all at once, with one timestamp that is the serialization order."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slackwater.errors import TimestampConflict, TimestampOutOfRange
from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.api.granules import granule
from slackwater.owner.api.transactions import Cut, TransactionResponse
from slackwater.owner.state.read_timestamps import GREATEST_SLOTS
from slackwater.owner.time import time_slices
from slackwater.owner.time.timestamp_requests import has_conflicting_reservation
from tests.contract.owners import PATIENCE_S, START_MS, FakeClock, OwnedLake, added, created, info_in
from tests.contract.transactions import Txn

A_DAY_MS = 86_400_000


class Shelf:
    """A lake of one test, its owner on a clock that stands still, and some tables."""

    def __init__(self, lake: OwnedLake) -> None:
        self.lake = lake
        self.clock = FakeClock()
        # With so many slots items share one in one test of a hundred thousand.
        self.owner: CommitOwner = lake.owner(clock=self.clock.owner_clock(), read_slots=GREATEST_SLOTS)
        self.a, self.b, self.c = (created(lake, self.owner) for _ in range(3))

    def later(self, ms: int = 1) -> None:
        self.clock.now_ms += ms

    def txn(self) -> Txn:
        return Txn(self.owner)


@pytest.fixture
def shelf(lake: OwnedLake, tmp_path: Path) -> Iterator[Shelf]:
    found = lake.another(tmp_path)
    yield Shelf(found)
    found.close()


def test_commits_to_several_tables_count_at_once_with_one_timestamp(shelf: Shelf) -> None:
    shelf.later(10)
    response = shelf.txn().write(shelf.a).write(shelf.b).commit()
    assert {t: c.commit.version for t, c in response.commits.items()} == {shelf.a.table_id: 1, shelf.b.table_id: 1}
    for table in (shelf.a, shelf.b):
        commit = shelf.owner.get_commits(table.table_id, 1, with_data=True).commits[0]
        assert commit.timestamp_ms == response.timestamp_ms == info_in(commit.data)["inCommitTimestamp"]
    cut = shelf.owner.cut()
    assert {t.table_id: t.version for t in cut.tables} == {
        shelf.a.table_id: 1, shelf.b.table_id: 1, shelf.c.table_id: 0,
    }  # fmt: skip


def test_the_timestamp_is_chosen_as_late_as_possible(shelf: Shelf) -> None:
    txn = shelf.txn().write(shelf.a)
    shelf.later(5000)
    assert txn.commit().timestamp_ms == shelf.clock.now_ms


def test_a_transaction_whose_table_moved_on_is_told_which_and_nothing_of_it_counts(shelf: Shelf) -> None:
    txn = shelf.txn().write(shelf.a).write(shelf.b)
    shelf.b.commits(1)
    assert txn.conflict() == {shelf.b.table_id: 1}
    assert shelf.a.latest == 0
    assert len(shelf.a.staged()) == 1, "only that of its creation"


def test_a_blind_append_moves_behind_others(shelf: Shelf) -> None:
    txn = shelf.txn().write(shelf.a, may_move=True).write(shelf.b, may_move=True)
    shelf.a.commits(2)
    response = txn.commit()
    assert response.commits[shelf.a.table_id].commit.version == 3
    assert response.commits[shelf.b.table_id].commit.version == 1


def test_the_answer_at_full_precision_is_the_commit_timestamp(shelf: Shelf) -> None:
    shelf.later(1000)
    txn = shelf.txn().write(shelf.a)
    asked = txn.ask()
    assert asked.is_fixed
    assert asked.high_ms == shelf.clock.now_ms
    shelf.later(5000)
    assert txn.commit().timestamp_ms == asked.high_ms


def test_a_day_only_bounds_the_timestamp(shelf: Shelf) -> None:
    shelf.later(A_DAY_MS)
    txn = shelf.txn().write(shelf.a)
    asked = txn.ask("day")
    assert asked.high_ms % A_DAY_MS == A_DAY_MS - 1
    shelf.later(5000)
    assert txn.commit().timestamp_ms == shelf.clock.now_ms


def test_after_the_day_has_passed_the_earliest_timestamp_is_taken(shelf: Shelf) -> None:
    shelf.later(A_DAY_MS)
    txn = shelf.txn().write(shelf.a)
    asked = txn.ask("day")
    shelf.later(2 * A_DAY_MS)
    assert txn.commit().timestamp_ms == asked.low_ms + 1


def test_repeated_requests_narrow_and_never_contradict(shelf: Shelf) -> None:
    shelf.later(A_DAY_MS)
    txn = shelf.txn()
    day = txn.ask("day")
    second = txn.ask("second")
    assert day.low_ms <= second.low_ms < second.high_ms <= day.high_ms
    assert txn.ask("day") == second
    shelf.later(10)
    at = txn.ask()
    assert at.is_fixed
    shelf.later(10)
    assert txn.ask() == at
    assert txn.ask("day") == at


def test_a_request_after_the_day_that_was_told_is_refused(shelf: Shelf) -> None:
    txn = shelf.txn()
    txn.ask("day")
    shelf.later(A_DAY_MS)
    with pytest.raises(TimestampConflict):
        txn.ask()


def test_who_was_told_a_time_cannot_write_what_was_read_later(shelf: Shelf) -> None:
    """The paper's figure 1, with reader and writer exchanged: the read timestamp table is what finds it."""
    early = shelf.txn()
    early.ask()
    shelf.later(10)
    late = shelf.txn().read(shelf.a).write(shelf.b).commit()
    assert late.timestamp_ms > early.range.high_ms
    early.write(shelf.a)
    with pytest.raises(TimestampConflict):
        early.commit()
    assert shelf.a.latest == 0


def test_who_was_told_a_time_cannot_write_what_was_written_later(shelf: Shelf) -> None:
    early = shelf.txn()
    early.ask()
    shelf.later(10)
    shelf.a.commits(1)
    early.versions = {**early.versions, shelf.a.table_id: 1}
    early.write(shelf.a)
    with pytest.raises(TimestampConflict):
        early.commit()


def test_a_read_that_was_overtaken_is_still_good_for_who_was_told_an_earlier_time(shelf: Shelf) -> None:
    early = shelf.txn().read(shelf.a)
    early.ask()
    shelf.later(10)
    shelf.a.commits(1)
    response = early.write(shelf.b).commit()
    assert response.timestamp_ms == early.range.high_ms


def test_a_read_that_was_overtaken_puts_who_asked_nothing_before_it(shelf: Shelf) -> None:
    shelf.later(100)
    txn = shelf.txn().read(shelf.a)
    shelf.later(10)
    overtaking = shelf.a.commit(1).commit.timestamp_ms
    shelf.later(10)
    assert txn.write(shelf.b).commit().timestamp_ms < overtaking


def test_write_skew_is_refused(shelf: Shelf) -> None:
    shelf.later(100)
    one = shelf.txn().read(shelf.a).read(shelf.b).write(shelf.a)
    two = shelf.txn().read(shelf.a).read(shelf.b).write(shelf.b)
    shelf.later(10)
    one.commit()
    assert two.conflict() == {shelf.a.table_id: 1}


def test_reads_of_other_partitions_are_in_nobodys_way(shelf: Shelf) -> None:
    monday, tuesday = granule("day", "2026-11-23"), granule("day", "2026-11-24")
    early = shelf.txn()
    early.ask()
    shelf.later(10)
    shelf.txn().read(shelf.a, monday).write(shelf.b).commit()
    early.write(shelf.a, added(partitionValues={"day": "2026-11-24"}))
    assert monday != tuesday
    assert early.commit().timestamp_ms == early.range.high_ms


def test_reads_of_the_same_partition_are(shelf: Shelf) -> None:
    early = shelf.txn()
    early.ask()
    shelf.later(10)
    shelf.txn().read(shelf.a, granule("day", "2026-11-24")).write(shelf.b).commit()
    early.write(shelf.a, added(partitionValues={"day": "2026-11-24"}))
    with pytest.raises(TimestampConflict):
        early.commit()


def test_a_transaction_that_only_reads_has_a_timestamp_and_holds_early_writers_off(shelf: Shelf) -> None:
    early = shelf.txn()
    early.ask()
    shelf.later(10)
    reader = shelf.txn().read(shelf.a).commit()
    assert reader.commits == {}
    assert reader.timestamp_ms == shelf.clock.now_ms
    with pytest.raises(TimestampConflict):
        early.write(shelf.a).commit()


def test_a_lone_commit_in_the_same_millisecond_comes_after_the_read(shelf: Shelf) -> None:
    shelf.later(10)
    reader = shelf.txn().read(shelf.a).commit()
    assert shelf.a.commit(1).commit.timestamp_ms > reader.timestamp_ms


def test_a_time_slice_is_the_state_of_then_and_stays_so(shelf: Shelf) -> None:
    shelf.later(10)
    shelf.txn().write(shelf.a).write(shelf.b).commit()
    at = shelf.clock.now_ms
    shelf.later(10)
    shelf.txn().write(shelf.a).commit()
    for _ in range(2):
        found = {t.table_id: t.version for t in shelf.owner.cut(at).tables}
        assert found == {shelf.a.table_id: 1, shelf.b.table_id: 1, shelf.c.table_id: 0}
        shelf.later(10)
        shelf.b.commits(1)


def test_no_commit_slips_under_a_time_slice(shelf: Shelf) -> None:
    shelf.later(10)
    early = shelf.txn()
    early.ask()
    # It is waited for no more.
    shelf.later(time_slices.TOLD_MS + 10)
    before = shelf.owner.cut(shelf.clock.now_ms)
    with pytest.raises(TimestampConflict):
        early.write(shelf.c).commit()
    late = shelf.txn().write(shelf.c).commit()
    assert late.timestamp_ms > before.timestamp_ms


def test_a_lone_commit_and_a_new_table_come_after_a_time_slice_of_the_same_millisecond(shelf: Shelf) -> None:
    shelf.later(10)
    at = shelf.owner.cut(shelf.clock.now_ms).timestamp_ms
    assert shelf.a.commit(1).commit.timestamp_ms > at
    table = created(shelf.lake, shelf.owner)
    assert info_in(table.backfilled(0))["inCommitTimestamp"] > at
    assert {t.table_id: t.version for t in shelf.owner.cut(at).tables}[shelf.a.table_id] == 0


def sliced(shelf: Shelf, at_ms: int, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Cut]:
    """Begin a time slice; when this returns it is answered, or waits for others. What is returned waits for it."""
    waits, answers, looks = threading.Event(), [], itertools.count()

    def seen(*arguments: Any) -> bool:
        found = has_conflicting_reservation(*arguments)
        # It looks for the first time before it is committed that others are told later times only.
        if next(looks):
            waits.set()
        return found

    def ask() -> None:
        answers.append(shelf.owner.cut(at_ms))
        waits.set()

    monkeypatch.setattr(time_slices, "has_conflicting_reservation", seen)
    thread = threading.Thread(target=ask)
    thread.start()
    assert waits.wait(PATIENCE_S)

    def answer() -> Cut:
        thread.join(PATIENCE_S)
        return answers[0]

    return answer


@pytest.mark.parametrize("declares", [True, False])
def test_a_time_slice_waits_for_who_was_told_an_earlier_time(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, declares: bool
) -> None:
    txn = shelf.txn().write(shelf.a)
    told = txn.ask(holds=[shelf.a] if declares else [])
    shelf.later(1000)
    answer = sliced(shelf, shelf.clock.now_ms, monkeypatch)
    # Who asks now is behind the slice, which does not wait for them as well.
    assert shelf.txn().write(shelf.b).ask().high_ms == shelf.clock.now_ms + 1
    assert txn.commit().timestamp_ms == told.high_ms
    assert {t.table_id: t.version for t in answer().tables}[shelf.a.table_id] == 1


def test_a_time_slice_waits_for_who_was_told_a_second_that_is_over_and_no_day_that_is_not(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    day = shelf.txn().write(shelf.b)
    day.ask("day")
    second = shelf.txn().write(shelf.a)
    second.ask("second")
    shelf.later(1500)
    answer = sliced(shelf, shelf.clock.now_ms, monkeypatch)
    at_ms = second.commit().timestamp_ms
    assert at_ms < shelf.clock.now_ms
    assert {t.table_id: t.version for t in answer().tables}[shelf.a.table_id] == 1
    assert day.commit().timestamp_ms > shelf.clock.now_ms


def test_a_time_slice_waits_for_nobody_whose_day_is_not_over(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []

    def seen(*arguments: Any) -> bool:
        found.append(has_conflicting_reservation(*arguments))
        # What is waited for would take its time.
        return False

    monkeypatch.setattr(time_slices, "has_conflicting_reservation", seen)
    txn = shelf.txn().write(shelf.a)
    txn.ask("day")
    shelf.later(10)
    shelf.owner.cut(shelf.clock.now_ms)
    assert found == [False]
    assert txn.commit().timestamp_ms > shelf.clock.now_ms


def test_a_time_slice_waits_for_nobody_who_ended(shelf: Shelf) -> None:
    txn = shelf.txn().write(shelf.a)
    txn.ask(holds=[shelf.a])
    shelf.owner.end(txn.txn_id)
    shelf.later()
    assert shelf.owner.cut(shelf.clock.now_ms)


def test_a_time_slice_waits_only_so_long_after_the_time_was_told(shelf: Shelf) -> None:
    txn = shelf.txn().write(shelf.a)
    txn.ask(holds=[shelf.a])
    shelf.later(time_slices.TOLD_MS + 10)
    answered = {t.table_id: t.version for t in shelf.owner.cut(shelf.clock.now_ms).tables}
    assert answered[shelf.a.table_id] == 0
    with pytest.raises(TimestampConflict):
        txn.commit()


def test_a_time_slice_is_answered_also_where_the_clock_stands_still(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_slices, "TOLD_MS", 20)
    txn = shelf.txn().write(shelf.a)
    txn.ask()
    shelf.later(10)
    answered = {t.table_id: t.version for t in shelf.owner.cut(shelf.clock.now_ms).tables}
    assert answered[shelf.a.table_id] == 0
    with pytest.raises(TimestampConflict):
        txn.commit()


def test_who_asks_is_told_a_time_after_what_was_written_of_what_it_writes(shelf: Shelf) -> None:
    shelf.later(10)
    written = shelf.txn().write(shelf.a).commit().timestamp_ms
    assert written == shelf.clock.now_ms
    txn = shelf.txn().write(shelf.a)
    assert txn.ask().high_ms == written + 1
    assert txn.commit().timestamp_ms == written + 1


def test_who_asks_is_told_a_time_after_what_was_read_of_what_it_writes(shelf: Shelf) -> None:
    shelf.later(10)
    read = shelf.txn().read(shelf.a).commit().timestamp_ms
    assert read == shelf.clock.now_ms
    txn = shelf.txn().write(shelf.a)
    assert txn.ask().high_ms == read + 1
    assert txn.commit().timestamp_ms == read + 1


def test_who_asks_is_told_a_time_after_what_was_read_of_what_it_declares(shelf: Shelf) -> None:
    shelf.later(10)
    read = shelf.txn().read(shelf.a).commit().timestamp_ms
    txn = shelf.txn()
    assert txn.ask(holds=[shelf.a]).high_ms == read + 1
    assert txn.write(shelf.a).commit().timestamp_ms == read + 1


def test_who_asks_is_told_a_time_after_every_time_slice_that_was_served(shelf: Shelf) -> None:
    shelf.later(10)
    served = shelf.owner.cut(shelf.clock.now_ms).timestamp_ms
    before, after = shelf.txn(), shelf.txn().write(shelf.a)
    # Also who has written nothing yet.
    assert before.ask().high_ms == served + 1
    assert before.write(shelf.b).commit().timestamp_ms == served + 1
    assert after.ask().high_ms == served + 1
    assert after.commit().timestamp_ms == served + 1


@pytest.mark.parametrize("what", ["written", "read", "served"])
def test_who_was_told_a_second_and_asks_again_learns_at_once_that_nothing_of_it_is_left(
    shelf: Shelf, what: str
) -> None:
    txn = shelf.txn().write(shelf.a)
    txn.ask("second")
    shelf.later(20_000)
    if what == "written":
        shelf.txn().write(shelf.a).commit()
    elif what == "read":
        shelf.txn().read(shelf.a).commit()
    else:
        shelf.owner.cut(shelf.clock.now_ms)
    with pytest.raises(TimestampConflict, match="other transactions wrote or read its data"):
        txn.ask()


def test_a_time_slice_of_the_future_is_an_error(shelf: Shelf) -> None:
    with pytest.raises(TimestampOutOfRange, match="is in the future"):
        shelf.owner.cut(shelf.clock.now_ms + 60_000)


def test_a_request_that_comes_again_is_answered_with_its_first_result(shelf: Shelf) -> None:
    txn = shelf.txn().write(shelf.a).write(shelf.b)
    first = txn.commit()
    shelf.later(10)
    again = shelf.owner.commit_transaction(txn.request(is_replay=True))
    assert again.timestamp_ms == first.timestamp_ms  # type: ignore[union-attr]
    assert shelf.a.latest == shelf.b.latest == 1
    for table in (shelf.a, shelf.b):
        shelf.owner.backfill_to_version(table.table_id)
    assert shelf.owner.commit_transaction(txn.request(is_replay=True)).timestamp_ms == first.timestamp_ms  # type: ignore[union-attr]


@pytest.mark.parametrize("later", [0, 2])
@pytest.mark.parametrize("moved", [False, True])
def test_a_request_that_comes_again_is_answered_by_the_logs_where_its_rows_were_purged(
    lake: OwnedLake, tmp_path: Path, moved: bool, later: int
) -> None:
    purging = lake.another(tmp_path)
    owner = purging.owner(rows_kept=0)
    tables = [created(purging, owner) for _ in range(2)]
    txn = Txn(owner)
    for table in tables:
        txn.write(table, may_move=moved)
    for table in tables if moved else ():
        table.commits(2)
    first = txn.commit()
    for table in tables:
        table.commits(later)
        owner.backfill_to_version(table.table_id)
    latest = [table.latest for table in tables]
    again = owner.commit_transaction(txn.request(is_replay=True))
    assert isinstance(again, TransactionResponse)
    assert again.timestamp_ms == first.timestamp_ms
    assert [again.commits[t.table_id].commit.version for t in tables] == [3 if moved else 1] * 2
    assert [table.latest for table in tables] == latest
    # One that was never carried out is.
    fresh = Txn(owner).write(tables[0]).write(tables[1])
    answer = owner.commit_transaction(fresh.request(is_replay=True))
    assert isinstance(answer, TransactionResponse)
    assert [answer.commits[t.table_id].commit.version for t in tables] == [version + 1 for version in latest]
    purging.close()


def test_timestamps_rise_where_the_clock_steps_back(shelf: Shelf) -> None:
    shelf.later(10_000)
    first = shelf.txn().write(shelf.a).write(shelf.b).commit().timestamp_ms
    shelf.later(-8_000)
    txn = shelf.txn()
    assert txn.started_ms >= first
    assert txn.write(shelf.c).commit().timestamp_ms >= first
    early = shelf.txn()
    assert early.ask().high_ms >= first
    assert shelf.clock.now_ms < START_MS + 10_000


def test_a_promise_ahead_of_the_clock_is_kept_when_its_time_has_come(shelf: Shelf) -> None:
    shelf.later(1000)
    txn = shelf.txn().write(shelf.a)
    asked = txn.ask(ahead_ms=50)
    assert asked.high_ms == shelf.clock.now_ms + 50
    shelf.later(50)
    assert txn.commit().timestamp_ms == asked.high_ms


def test_who_was_promised_a_time_does_not_give_way_to_whoever_has_the_turn_and_waits_for_it(shelf: Shelf) -> None:
    unlucky = shelf.txn()
    for _ in range(2):
        shelf.later(10)
        shelf.a.commits(1)
        unlucky.writes.clear()
        unlucky.write(shelf.a)
        assert unlucky.conflict() == {shelf.a.table_id: shelf.a.latest}
    shelf.later(10)
    promised = shelf.txn()
    told = promised.ask(holds=[shelf.a])
    assert promised.write(shelf.a).commit().timestamp_ms == told.high_ms
