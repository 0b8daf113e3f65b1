"""One transaction over the tables of several owners: all or nothing, one timestamp, whoever is killed when."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slackwater import AddFile
from slackwater.errors import (
    CommitError,
    CommitOwnerUnavailable,
    CommitUnknown,
    InvalidArgument,
    LockTimeout,
    NotAuthorized,
    TimestampConflict,
)
from slackwater.lake.lake import LogLake
from slackwater.lake.two_phase_commit import resolve
from slackwater.owner.api.timestamp_range import TimestampRange
from slackwater.owner.api.transactions import TableWrite, TransactionRequest
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.lock_manager import LockManager
from tests.contract.owners import SCHEMA, FakeClock, Killed, at_once, new_id


class TwoLakes:
    """Lakes `one` and `two`, each with a table of that name, on clocks that stand still."""

    def __init__(self, root: Path) -> None:
        self.clocks = {"one": FakeClock(), "two": FakeClock()}
        self.lakes: dict[str, LogLake] = {}
        self.root = root
        for name in ("one", "two"):
            self.lakes[name] = self.opened(name)
            self.lakes[name]._create_log(name, SCHEMA)

    def opened(self, name: str) -> LogLake:
        clock = self.clocks[name].owner_clock()
        owner = EmbeddedOwner.open(self.root / name, clock=clock, backfill_delay_s=None)
        return LogLake(owner, owner.root_url)

    @property
    def one(self) -> LogLake:
        return self.lakes["one"]

    @property
    def two(self) -> LogLake:
        return self.lakes["two"]

    def later(self, ms: int = 100) -> None:
        for clock in self.clocks.values():
            clock.now_ms += ms

    def versions(self) -> tuple[int, int]:
        return self.one.snapshot("one").version, self.two.snapshot("two").version

    def close(self) -> None:
        for lake in self.lakes.values():
            lake.close()


@pytest.fixture
def lakes(tmp_path: Path) -> Iterator[TwoLakes]:
    found = TwoLakes(tmp_path)
    yield found
    found.close()


def append(tx: Any, name: str) -> None:
    log = tx.log(name)
    log.add(AddFile(f"{new_id()}.parquet", {}, 1, 1, stats='{"numRecords":1}'), fresh=True)
    log.commit("WRITE")


def both(lakes: TwoLakes) -> Any:
    tx = lakes.one.transaction(others=[lakes.two])
    append(tx, "one")
    append(tx, "two")
    return tx


def test_tables_of_two_owners_get_one_timestamp(lakes: TwoLakes) -> None:
    lakes.later()
    with lakes.one.transaction(others=[lakes.two]) as tx:
        append(tx, "one")
        append(tx, "two")
    assert tx.versions == {"one": 1, "two": 1}
    stamps = {lakes.one.snapshot("one").timestamp_ms, lakes.two.snapshot("two").timestamp_ms}
    assert stamps == {tx.results["one"].timestamp_ms}
    assert lakes.one.owner.in_doubt() == lakes.two.owner.in_doubt() == []


def test_the_timestamp_is_after_what_either_owner_has_given_out(lakes: TwoLakes) -> None:
    lakes.clocks["two"].now_ms += 10_000
    tx = both(lakes)
    tx.commit()
    assert tx.results["one"].timestamp_ms >= lakes.clocks["two"].now_ms
    with lakes.one.transaction() as later:
        append(later, "one")
    assert later.commit_timestamp > tx.commit_timestamp


def test_a_time_that_was_told_is_the_timestamp_at_both_owners(lakes: TwoLakes) -> None:
    lakes.later()
    with lakes.one.transaction(others=[lakes.two]) as tx:
        now = tx.current_timestamp()
        append(tx, "one")
        append(tx, "two")
    assert tx.commit_timestamp == now


def test_an_owner_that_was_written_later_votes_against_a_time_that_was_told(lakes: TwoLakes) -> None:
    tx = lakes.one.transaction(others=[lakes.two])
    tx.current_timestamp()
    lakes.later()
    with lakes.two.transaction() as reader:
        reader.snapshot("two")
    append(tx, "one")
    append(tx, "two")
    with pytest.raises(TimestampConflict):
        tx.commit()
    assert lakes.versions() == (0, 0)
    with lakes.one.transaction() as after:
        append(after, "one")


def test_what_others_committed_meanwhile_is_followed(lakes: TwoLakes) -> None:
    tx = both(lakes)
    with lakes.two.transaction() as other:
        append(other, "two")
    tx.commit()
    assert tx.versions == {"one": 1, "two": 2}


@pytest.mark.parametrize(
    ("call", "times", "commits"),
    [
        ("prepare", 1, False),
        ("prepare", 2, False),
        ("decide", 1, True),
        ("finish", 1, True),
        ("acknowledge", 1, True),
        ("finish", 2, True),
        ("acknowledge", 2, True),
    ],
)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_coordinator_that_dies_at_any_step_leaves_all_or_nothing(
    lakes: TwoLakes, monkeypatch: pytest.MonkeyPatch, call: str, times: int, commits: bool, when: str
) -> None:
    """The client, which leads the two owners through the protocol, is gone; others settle what it left."""
    lakes.later()
    tx = both(lakes)
    real, calls = getattr(EmbeddedOwner, call), []

    def dying(self: EmbeddedOwner, *arguments: Any) -> Any:
        calls.append(call)
        if len(calls) == times and when == "before":
            raise Killed
        answer = real(self, *arguments)
        if len(calls) == times:
            raise Killed
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(EmbeddedOwner, call, dying)
        # Of a process that is killed nothing tidies up.
        patch.setattr("slackwater.lake.two_phase_commit._give_up", lambda *_: None)
        with pytest.raises(Killed):
            tx.commit()
    lakes.later(60_000)
    resolve([lakes.one.owner, lakes.two.owner])
    expected = commits and not (call == "decide" and when == "before")
    assert lakes.versions() == ((1, 1) if expected else (0, 0))
    assert lakes.one.owner.in_doubt() == lakes.two.owner.in_doubt() == []
    for name in ("one", "two"):
        with lakes.lakes[name].transaction() as after:
            append(after, name)


def test_what_is_in_doubt_stays_locked_until_it_is_settled(lakes: TwoLakes, monkeypatch: pytest.MonkeyPatch) -> None:
    lakes.later()
    tx = both(lakes)
    monkeypatch.setattr("slackwater.owner.commit.pipeline.LOCKED_S", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(EmbeddedOwner, "finish", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            tx.commit()
    lakes.later(3_600_000)
    after = lakes.one.transaction()
    append(after, "one")
    with pytest.raises(LockTimeout, match="a prepared transaction"):
        after.commit()
    told = lakes.one.repair()
    assert any("was committed at" in line for line in told)
    assert lakes.versions() == (1, 1)
    assert lakes.one.snapshot("one").timestamp_ms == lakes.two.snapshot("two").timestamp_ms


def test_a_time_slice_waits_for_what_is_decided(lakes: TwoLakes, monkeypatch: pytest.MonkeyPatch) -> None:
    lakes.later()
    tx = both(lakes)
    with monkeypatch.context() as patch:
        patch.setattr(EmbeddedOwner, "finish", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            tx.commit()
    lakes.later()
    monkeypatch.setattr("slackwater.owner.time.time_slices._MOST_WAITS", 3)
    with pytest.raises(CommitError, match="Retry in a moment"):
        lakes.two.owner.cut(lakes.clocks["two"].now_ms)
    resolve([lakes.one.owner, lakes.two.owner])
    at = lakes.two.owner.cut(lakes.clocks["two"].now_ms)
    assert at.named("two").version == 1  # type: ignore[union-attr]


def test_who_asks_before_there_is_a_decision_decides_that_it_does_not_commit(
    lakes: TwoLakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    lakes.later()
    tx = both(lakes)
    decide = EmbeddedOwner.decide

    def late(self: EmbeddedOwner, *arguments: Any) -> Any:
        resolve([lakes.one.owner, lakes.two.owner])
        return decide(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(EmbeddedOwner, "decide", late)
        with pytest.raises(CommitError, match="had it aborted"):
            tx.commit()
    assert lakes.versions() == (0, 0)


def test_a_decision_that_is_not_heard_leaves_the_outcome_open(lakes: TwoLakes, monkeypatch: pytest.MonkeyPatch) -> None:

    lakes.later()
    tx = both(lakes)
    decide = EmbeddedOwner.decide

    def unheard(self: EmbeddedOwner, *arguments: Any) -> Any:
        decide(self, *arguments)
        raise CommitOwnerUnavailable("gone")

    with monkeypatch.context() as patch:
        patch.setattr(EmbeddedOwner, "decide", unheard)
        with pytest.raises(CommitUnknown):
            tx.commit()
    resolve([lakes.one.owner, lakes.two.owner])
    assert lakes.versions() == (1, 1)


def test_who_lost_its_locks_does_not_vote(lakes: TwoLakes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process was paused between locking and voting, and others went ahead."""
    lakes.later()
    tx = both(lakes)
    lock = LockManager.lock

    def paused(self: LockManager, request: Any) -> None:
        lock(self, request)
        if request.txn_id == tx.id:
            lakes.later(60_000)
            other = lakes.lakes[name_of(self)].transaction(control="locking")
            other.snapshot(name_of(self))
            other.rollback()

    def name_of(locking: LockManager) -> str:
        return next(n for n, lake in lakes.lakes.items() if lake.owner._locking is locking)  # type: ignore[attr-defined]

    with monkeypatch.context() as patch:
        patch.setattr(LockManager, "lock", paused)
        with pytest.raises(LockTimeout, match="before its vote"):
            tx.commit()
    assert lakes.versions() == (0, 0)
    assert lakes.one.owner.in_doubt() == lakes.two.owner.in_doubt() == []


def test_of_two_equal_requests_for_a_vote_both_get_the_first(lakes: TwoLakes) -> None:
    lakes.later()
    owner, at = lakes.one.owner, lakes.one.owner.cut().named("one")
    assert at is not None
    txn_id = new_id()
    actions: list[dict[str, Any]] = [{"commitInfo": {"txnId": txn_id}}, {"txn": {"appId": "a", "version": 1}}]
    request = TransactionRequest(txn_id, TimestampRange(0), (), [TableWrite(at.table_id, 1, actions)])
    votes = at_once(*[lambda: owner.prepare(request, owner.owner_id)] * 4)
    assert len({vote.range for vote in votes}) == 1
    assert owner.finish(txn_id, None) is None
    assert owner.in_doubt() == []


def test_an_answer_that_was_lost_is_given_again(lakes: TwoLakes) -> None:
    lakes.later()
    tx = both(lakes)
    tx.commit()
    again = lakes.one.owner.finish(tx.id, tx.results["one"].timestamp_ms)
    assert again is not None
    assert [c.commit.version for c in again.commits.values()] == [1]


def test_a_table_is_not_given_back_while_a_vote_for_it_stands(lakes: TwoLakes, monkeypatch: pytest.MonkeyPatch) -> None:
    lakes.later()
    tx = both(lakes)
    with monkeypatch.context() as patch:
        patch.setattr(EmbeddedOwner, "finish", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            tx.commit()
    monkeypatch.setattr("slackwater.owner.ownership_transfer._PATIENCE_S", 0.0)
    with pytest.raises(CommitError):
        lakes.one.release("one")
    resolve([lakes.one.owner, lakes.two.owner])
    lakes.one.release("one")
    assert lakes.two.snapshot("two").version == 1


def test_a_name_that_several_lakes_have_says_nothing(lakes: TwoLakes) -> None:
    lakes.two._create_log("one", SCHEMA)
    tx = lakes.one.transaction(others=[lakes.two])
    with pytest.raises(InvalidArgument, match="Adopt one of these tables"):
        tx.snapshot("one")
    tx.rollback()


def test_a_lake_takes_part_once(lakes: TwoLakes) -> None:
    with pytest.raises(InvalidArgument, match="are the same"):
        lakes.one.transaction(others=[lakes.one])


def test_an_owner_that_tells_nothing_of_what_is_in_doubt_is_named_and_the_others_are_settled(
    lakes: TwoLakes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> list[Any]:
        raise NotAuthorized("lacks the scope 'admin'")

    monkeypatch.setattr(lakes.one.owner, "in_doubt", refuse)
    (told,) = resolve([lakes.one.owner, lakes.two.owner])
    assert lakes.one.owner.owner_id in told
    assert "admin" in told
