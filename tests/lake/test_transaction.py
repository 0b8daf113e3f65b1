"""Transactions of a lake without Spark: what is seen inside, what counts afterwards, what is refused."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slackwater import AddFile
from slackwater.errors import (
    CommitFailed,
    CommitOwnerUnavailable,
    CommitUnknown,
    ConcurrentAppendException,
    ConcurrentDeleteReadException,
    DeltaConcurrentModificationException,
    InvalidArgument,
    LockTimeout,
    ProtocolChangedException,
    StorageError,
    TableNotFound,
    TimestampConflict,
    TransactionEnded,
)
from slackwater.lake import transaction_table
from slackwater.lake.lake import LogLake
from slackwater.lake.transaction import LogTransaction
from slackwater.owner.embedded import EmbeddedOwner
from tests.contract.owners import FakeClock, new_id

SCHEMA = (
    '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},'
    '{"name":"day","type":"string","nullable":true,"metadata":{}}]}'
)


class Kit:
    """A lake on a clock that stands still, with two plain tables and one that is partitioned by day."""

    def __init__(self, root: Path) -> None:
        self.clock = FakeClock()
        owner = EmbeddedOwner.open(root, clock=self.clock.owner_clock(), backfill_delay_s=None)
        self.lake = LogLake(owner, owner.root_url)
        for name in ("a", "b"):
            self.lake._create_log(name, SCHEMA)
        self.lake._create_log("days", SCHEMA, ["day"])
        self.later(1000)

    def later(self, ms: int = 10) -> None:
        self.clock.now_ms += ms

    def files(self, name: str) -> list[str]:
        return sorted(self.lake.snapshot(name).files()["path"].to_pylist())


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Kit]:
    found = Kit(tmp_path)
    yield found
    found.lake.close()


def add(tx: LogTransaction, name: str, file: str | None = None, day: str | None = None) -> str:
    """Add a file to a table."""
    path = file or f"{new_id()}.parquet"
    log = tx.log(name)
    log.add(AddFile(path, {"day": day} if day else {}, 1, 1, stats='{"numRecords":1}'), fresh=True)
    log.commit("WRITE")
    return path


def remove(tx: LogTransaction, name: str, file: str) -> None:
    """Remove a file from a table."""
    log = tx.log(name)
    log.remove(file)
    log.commit("DELETE")


def fails_after(kit: Kit, work: Callable[[LogTransaction], object]) -> LogTransaction:
    """A transaction whose block ends with an error after `work`."""

    def block() -> None:
        with begun:
            work(begun)
            raise ZeroDivisionError

    begun = kit.lake.transaction()
    with pytest.raises(ZeroDivisionError):
        block()
    return begun


def test_all_of_it_counts_at_the_end_and_nothing_before(kit: Kit) -> None:
    with kit.lake.transaction() as tx:
        add(tx, "a", "1")
        add(tx, "b", "2")
        assert kit.files("a") == kit.files("b") == []
    assert (kit.files("a"), kit.files("b")) == (["1"], ["2"])
    assert tx.versions == {"a": 1, "b": 1}
    assert {kit.lake.snapshot(name).timestamp_ms for name in ("a", "b")} == {kit.clock.now_ms}
    assert tx.commit_timestamp == dt.datetime.fromtimestamp(kit.clock.now_ms / 1000, dt.timezone.utc)


def test_a_transaction_sees_its_own_changes_as_one_commit_will_hold_them(kit: Kit) -> None:
    with kit.lake.transaction() as tx:
        add(tx, "a", "kept")
        add(tx, "a", "gone")
        remove(tx, "a", "gone")
        assert tx.snapshot("a").files()["path"].to_pylist() == ["kept"]
    assert kit.lake.snapshot("a").version == 1
    assert kit.files("a") == ["kept"]
    with kit.lake.transaction() as tx:
        remove(tx, "a", "kept")
        add(tx, "a", "other")
    assert kit.files("a") == ["other"]


def test_what_is_read_is_one_state_of_all_tables(kit: Kit) -> None:
    tx = kit.lake.transaction()
    with kit.lake.transaction() as other:
        add(other, "a", "1")
        add(other, "b", "2")
    assert tx.snapshot("a").version == tx.snapshot("b").version == 0
    tx.rollback()


def test_an_error_in_the_block_rolls_back(kit: Kit) -> None:
    tx = fails_after(kit, lambda tx: add(tx, "a"))
    assert kit.files("a") == []
    with pytest.raises(TransactionEnded, match="rolled back"):
        _ = tx.commit_timestamp


def test_files_of_a_transaction_that_did_not_land_are_deleted(kit: Kit) -> None:
    store = kit.lake.snapshot("a").store
    store.put("data.parquet", b"rows")
    fails_after(kit, lambda tx: add(tx, "a", "data.parquet"))
    assert store.head("data.parquet") is None


def test_files_that_were_there_before_are_never_deleted(kit: Kit) -> None:
    store = kit.lake.snapshot("a").store
    store.put("data.parquet", b"rows")
    with kit.lake.transaction() as tx:
        add(tx, "a", "data.parquet")
    fails_after(kit, lambda tx: remove(tx, "a", "data.parquet"))
    assert store.head("data.parquet") is not None


def test_files_stay_and_are_named_where_nobody_knows_whether_it_landed(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unheard(*_: Any) -> Any:
        raise CommitUnknown("no answer")

    store = kit.lake.snapshot("a").store
    store.put("data.parquet", b"rows")
    monkeypatch.setattr(EmbeddedOwner, "commit_transaction", unheard)
    tx = kit.lake.transaction()
    add(tx, "a", "data.parquet")
    with pytest.raises(CommitUnknown, match=r"/a/data\.parquet"):
        tx.commit()
    assert store.head("data.parquet") is not None


def test_a_commit_that_counts_is_not_undone_because_it_cannot_be_read_back(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise StorageError("gone")

    store = kit.lake.snapshot("a").store
    store.put("data.parquet", b"rows")
    with monkeypatch.context() as patch:
        patch.setattr(transaction_table, "committed_by", broken)
        with kit.lake.transaction() as tx:
            add(tx, "a", "data.parquet")
    assert tx.versions == {"a": 1}
    assert "reading the version back failed" in tx.results["a"].upkeep_errors[0]
    assert store.head("data.parquet") is not None


# Conflicts.


def test_rows_that_should_have_been_read_are_a_conflict(kit: Kit) -> None:
    tx = kit.lake.transaction()
    tx.snapshot("a")
    add(tx, "a")
    with kit.lake.transaction() as other:
        add(other, "a")
    with pytest.raises(ConcurrentAppendException):
        tx.commit()
    assert kit.lake.snapshot("a").version == 1


def test_appends_that_read_nothing_follow_each_other(kit: Kit) -> None:
    tx = kit.lake.transaction()
    add(tx, "a")
    add(tx, "b")
    with kit.lake.transaction() as other:
        add(other, "a")
    tx.commit()
    assert tx.versions == {"a": 2, "b": 1}


def test_a_read_of_a_table_that_changed_only_puts_the_transaction_before_the_change(kit: Kit) -> None:
    tx = kit.lake.transaction()
    tx.snapshot("a")
    add(tx, "b")
    kit.later()
    with kit.lake.transaction() as other:
        add(other, "a")
    kit.later()
    tx.commit()
    assert tx.commit_timestamp < other.commit_timestamp


def test_write_skew_is_a_conflict_unless_snapshots_were_asked_for(kit: Kit) -> None:
    def pair(**options: Any) -> tuple[LogTransaction, LogTransaction]:
        one, two = kit.lake.transaction(**options), kit.lake.transaction(**options)
        for tx, name in ((one, "a"), (two, "b")):
            tx.snapshot("a")
            tx.snapshot("b")
            add(tx, name)
        kit.later()
        one.commit()
        return one, two

    _, two = pair()
    with pytest.raises(DeltaConcurrentModificationException):
        two.commit()
    _, two = pair(isolation="snapshot")
    two.commit()


def test_two_that_remove_the_same_file_are_a_conflict(kit: Kit) -> None:
    with kit.lake.transaction() as tx:
        add(tx, "a", "1")
    one, two = kit.lake.transaction(), kit.lake.transaction()
    remove(one, "a", "1")
    remove(two, "a", "1")
    one.commit()
    with pytest.raises((DeltaConcurrentModificationException, ConcurrentDeleteReadException)):
        two.commit()


def test_reads_of_other_partitions_go_beside_writes(kit: Kit) -> None:
    tx = kit.lake.transaction()
    log = tx.log("days")
    log.read("day = '2026-11-20'")
    log.add(AddFile("1", {"day": "2026-11-20"}, 1, 1, stats='{"numRecords":1}'), fresh=True)
    log.commit("WRITE")
    with kit.lake.transaction() as other:
        add(other, "days", "2", "2026-11-21")
    tx.commit()
    assert tx.versions == {"days": 2}


def test_run_repeats_the_work_in_a_fresh_transaction(kit: Kit, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[int] = []

    def work(tx: LogTransaction) -> int:
        seen.append(tx.snapshot("a").version)
        if len(seen) == 1:
            with_other(kit, lambda other: add(other, "a"))
        add(tx, "a")
        return len(seen)

    with caplog.at_level(logging.INFO, "slackwater.lake.retry"):
        assert kit.lake.run(work) == 2
    assert seen == [0, 1]
    (told,) = [record.getMessage() for record in caplog.records if record.name == "slackwater.lake.retry"]
    assert told.startswith("attempt 1 of 11 of a transaction failed and is retried: ")


def test_run_gives_up_after_so_many_retries_and_at_once_for_other_errors(kit: Kit) -> None:
    def late(tx: LogTransaction) -> None:
        tx.snapshot("a")
        with_other(kit, lambda other: add(other, "a"))
        add(tx, "a")

    with pytest.raises(ConcurrentAppendException):
        kit.lake.run(late, retries=2)
    assert kit.lake.snapshot("a").version == 3
    with pytest.raises(ZeroDivisionError):
        kit.lake.run(lambda _: 1 / 0)
    with pytest.raises(InvalidArgument, match="retries"):
        kit.lake.run(lambda _: None, retries=-1)


def with_other(kit: Kit, work: Callable[[LogTransaction], object]) -> None:
    """Do `work` in a transaction that is not in the block of another."""
    other = kit.lake.transaction()
    work(other)
    other.commit()


# Time.


def test_times_agree_with_each_other_and_with_the_timestamp(kit: Kit) -> None:
    kit.later(123)
    with kit.lake.transaction() as tx:
        day = tx.current_date()
        minute = tx.current_timestamp("minute")
        second = tx.current_time(0)
        now = tx.current_timestamp()
        kit.later(60_000)
        assert tx.current_timestamp() == now
        assert tx.current_date() == day
        add(tx, "a")
    assert tx.commit_timestamp == now
    assert now.date() == day
    assert now.replace(second=0, microsecond=0) == minute
    assert now.timetz().replace(microsecond=0) == second


def test_a_day_is_that_of_the_zone(kit: Kit) -> None:
    with kit.lake.transaction() as tx:
        # 22:13 in UTC.
        assert tx.current_date("Asia/Tokyo") - tx.current_date("UTC") == dt.timedelta(days=1)
        add(tx, "a")


@pytest.mark.parametrize("precision", [4, 6, 9, -1, "microsecond", "fortnight", True, 1.5])
def test_a_precision_that_there_is_none_of_is_refused(kit: Kit, precision: Any) -> None:
    with kit.lake.transaction() as tx, pytest.raises(InvalidArgument, match="millisecond"):
        tx.current_timestamp(precision)


def test_a_zone_that_there_is_none_of_is_refused(kit: Kit) -> None:
    with kit.lake.transaction() as tx, pytest.raises(InvalidArgument, match="time zone"):
        tx.current_date("Atlantis/Capital")


def test_a_table_that_was_written_after_the_time_that_was_told_cannot_be_read_under_a_lock(kit: Kit) -> None:
    tx = kit.lake.transaction(control="locking")
    tx.current_timestamp()
    kit.later()
    with_other(kit, lambda other: add(other, "a"))
    with pytest.raises(TimestampConflict):
        tx.snapshot("a")
    tx.rollback()


# Locks.


def test_under_locks_the_newest_version_is_read_and_others_wait(kit: Kit) -> None:
    tx = kit.lake.transaction(control="locking")
    with_other(kit, lambda other: add(other, "a"))
    assert tx.snapshot("a").version == 1
    other = kit.lake.transaction(control="locking", lock_timeout_s=0)
    assert other.snapshot("a").version == 1
    with pytest.raises(LockTimeout, match="holds S on table a"):
        add(other, "a")
    other.rollback()
    add(tx, "a")
    tx.commit()
    assert tx.versions == {"a": 2}


def test_partitions_can_be_locked_by_a_condition(kit: Kit) -> None:
    one, two = (kit.lake.transaction(control="locking", lock_timeout_s=0) for _ in range(2))
    one.lock("days", where="day = '2026-11-20'", exclusive=True)
    two.lock("days", where="day = '2026-11-21'", exclusive=True)
    add(two, "days", day="2026-11-21")
    two.commit()
    add(one, "days", day="2026-11-20")
    one.commit()
    with kit.lake.transaction() as tx, pytest.raises(InvalidArgument, match="partition column"):
        tx.lock("days", where="id = 3")


def test_a_lock_comes_before_the_first_use(kit: Kit) -> None:
    with kit.lake.transaction() as tx:
        tx.snapshot("a")
        with pytest.raises(InvalidArgument, match="before the first"):
            tx.lock("a")


# Bad input.


def test_a_transaction_that_ended_is_not_used_again(kit: Kit) -> None:
    with kit.lake.transaction() as tx:
        log = tx.log("a")
        log.add(AddFile("1", {}, 1, 1, stats='{"numRecords":1}'), fresh=True)
    for use in (
        lambda: tx.snapshot("a"),
        lambda: tx.log("a"),
        tx.current_timestamp,
        lambda: tx.lock("a"),
        tx.commit,
        tx.rollback,
        tx.__enter__,
        lambda: log.commit("WRITE"),
    ):
        with pytest.raises(TransactionEnded):
            use()
    assert kit.files("a") == []


def test_a_table_of_another_lake_is_not_found(kit: Kit, tmp_path: Path) -> None:
    with LogLake.open(tmp_path / "other") as other:
        other._create_log("theirs", SCHEMA)
        with kit.lake.transaction() as tx, pytest.raises(TableNotFound, match=r"others=\["):
            tx.snapshot("theirs")


def test_transactions_do_not_nest(kit: Kit) -> None:
    with kit.lake.transaction(), pytest.raises(InvalidArgument, match="do not nest"), kit.lake.transaction():
        pass
    with kit.lake.transaction():
        pass


def test_a_table_that_is_given_back_meanwhile_is_said_to_be(kit: Kit) -> None:
    tx = kit.lake.transaction()
    add(tx, "a")
    add(tx, "b")
    kit.lake.release("a")
    with pytest.raises(ProtocolChangedException, match="was released"):
        tx.commit()
    assert kit.files("b") == []


@pytest.mark.parametrize(
    "options",
    [{"isolation": "chaos"}, {"control": "hope"}, {"lock_timeout_s": -1}, {"lock_timeout_s": float("nan")}],
)
def test_other_options_are_refused(kit: Kit, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        kit.lake.transaction(**options)


def test_declared_tables_have_to_be_there(kit: Kit) -> None:
    with pytest.raises(TableNotFound):
        kit.lake.transaction(writes=["nowhere"])


def test_a_transaction_that_does_nothing_makes_no_version(kit: Kit) -> None:
    with kit.lake.transaction() as tx:
        pass
    assert tx.versions == {}
    assert tx.commit_timestamp >= tx.begun_at
    with kit.lake.transaction() as tx:
        tx.snapshot("a")
    assert tx.versions == {}


@pytest.mark.parametrize("does", ["snapshot", "reads", "asks", "nothing"])
def test_whoever_begins_after_one_that_wrote_nothing_is_not_before_it(kit: Kit, does: str) -> None:
    behind = FakeClock(kit.clock.now_ms - 140)
    assert isinstance(kit.lake.owner, EmbeddedOwner)
    owner = EmbeddedOwner.open(kit.lake.owner.root_url, clock=behind.owner_clock(), backfill_delay_s=None)
    with LogLake(owner, owner.root_url) as other:
        kit.later()
        with kit.lake.transaction(isolation="snapshot" if does == "snapshot" else "serializable") as tx:
            if does in ("snapshot", "reads"):
                tx.snapshot("a")
            elif does == "asks":
                tx.current_timestamp()
        told = tx.commit_timestamp
        assert told >= tx.begun_at
        with other.transaction(isolation="snapshot") as reader:
            reader.snapshot("a")
        assert told <= reader.begun_at <= reader.commit_timestamp
        with other.transaction() as writer:
            add(writer, "b")
        assert told <= writer.begun_at <= writer.commit_timestamp


def test_the_timestamp_is_not_known_before_the_end(kit: Kit) -> None:
    with kit.lake.transaction() as tx, pytest.raises(InvalidArgument, match="not committed yet"):
        _ = tx.commit_timestamp


def test_an_owner_that_does_not_answer_leaves_nothing(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: Any) -> Any:
        raise CommitOwnerUnavailable("gone")

    tx = kit.lake.transaction()
    add(tx, "a")
    with monkeypatch.context() as patch:
        patch.setattr(EmbeddedOwner, "commit_transaction", gone)
        with pytest.raises((CommitOwnerUnavailable, CommitFailed)):
            tx.commit()
    assert kit.files("a") == []
