"""Commits that clients of Unity Catalog stage themselves, beside commits that the owner stages."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from slackwater.errors import (
    CommitFailed,
    InvalidArgument,
    OperationNotAllowed,
    SlackwaterError,
    StorageRefused,
    TableNotFound,
    TimestampConflict,
)
from slackwater.owner.api.commits import CommitConflict, CommitResponse, StagedCommit
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.state.clock import OwnerClock
from slackwater.protocol.actions.file_names import commit_path
from slackwater.protocol.actions.transaction_groups import GROUP_TAG, TransactionGroup
from tests.contract.owners import (
    DATABASES,
    START_MS,
    FakeClock,
    OwnedLake,
    Table,
    added,
    at_once,
    created,
    landed,
    metadata,
    new_id,
    new_lake,
)
from tests.contract.transactions import Txn


@pytest.fixture(params=DATABASES)
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OwnedLake]:
    found = new_lake(tmp_path, f"{request.param}-embedded-catalogManaged")
    yield found
    found.close()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def owner(lake: OwnedLake, clock: FakeClock) -> EmbeddedOwner:
    return lake.embedded(clock=clock.owner_clock(sleep=lambda seconds: _pass(clock, seconds)))


@pytest.fixture
def table(lake: OwnedLake, owner: EmbeddedOwner) -> Table:
    return created(lake, owner)


def _pass(clock: FakeClock, seconds: float) -> None:
    clock.now_ms += int(seconds * 1000)


def staged(table: Table, version: int, timestamp_ms: int, *actions: Any, **info: Any) -> StagedCommit:
    """A commit in its staged file, as a client writes it."""
    first = {"commitInfo": {"inCommitTimestamp": timestamp_ms, "operation": "WRITE", "txnId": new_id(), **info}}
    # With spaces, which the owner would not write.
    data = b"".join(
        orjson.dumps(action, option=orjson.OPT_INDENT_2).replace(b"\n", b"") + b"\n" for action in (first, *actions)
    )
    name = f"{version:020d}.{new_id()}.json"
    table.store.put_if_absent(f"_delta_log/_staged_commits/{name}", data)
    return StagedCommit(table.table_id, version, timestamp_ms, name, len(data))


def content(table: Table, asked: StagedCommit) -> bytes:
    return table.store.read(f"_delta_log/_staged_commits/{asked.file_name}")


def test_the_commit_is_ratified_as_it_is_at_its_own_timestamp(
    owner: EmbeddedOwner, table: Table, clock: FakeClock
) -> None:
    clock.now_ms += 1000
    asked = staged(table, 1, clock.now_ms - 5, added(), {"txn": {"appId": "a", "version": 1}})
    response = landed(owner.commit_staged(asked))
    assert (response.commit.version, response.commit.timestamp_ms) == (1, clock.now_ms - 5)
    assert owner.get_commits(table.table_id, 0, with_data=True).commits[-1].data == content(table, asked)
    assert owner.backfill_to_version(table.table_id) == 1
    assert table.backfilled(1) == content(table, asked)
    later = table.commit(2)
    assert later.commit.timestamp_ms > asked.timestamp_ms


def test_a_repeated_request_gets_the_first_result(owner: EmbeddedOwner, table: Table, clock: FakeClock) -> None:
    clock.now_ms += 1000
    asked = staged(table, 1, clock.now_ms, added())
    first = landed(owner.commit_staged(asked))
    table.commit(2)
    again = landed(owner.commit_staged(asked))
    assert (again.commit.version, again.commit.file_name) == (first.commit.version, first.commit.file_name)
    assert table.latest == 2
    # Another file with the id of a committed transaction is not committed, and not said to be.
    txn_id = orjson.loads(content(table, asked).splitlines()[0])["commitInfo"]["txnId"]
    other = staged(table, 1, clock.now_ms, added(), txnId=txn_id)
    assert owner.commit_staged(other) == CommitConflict(2)


def test_of_several_clients_at_one_version_one_wins(lake: OwnedLake) -> None:
    owner, now = lake.embedded(), OwnerClock()
    table = created(lake, owner)
    for version in range(1, 6):
        asked = [staged(table, version, now.now_ms() + number, added()) for number in range(3)]
        ours = table.request(version)
        outcomes = at_once(*(partial(owner.commit_staged, each) for each in asked), partial(owner.commit, ours))
        won = [outcome for outcome in outcomes if isinstance(outcome, CommitResponse)]
        lost = [outcome for outcome in outcomes if not isinstance(outcome, CommitResponse)]
        assert len(won) == 1, outcomes
        assert all(isinstance(each, CommitConflict | TimestampConflict) for each in lost), lost
        assert table.latest == version
    times = [commit.timestamp_ms for commit in owner.get_commits(table.table_id, 1).commits]
    assert len(times) == 5
    assert times == sorted(set(times))


def test_a_timestamp_that_is_not_after_the_table_is_refused_and_changes_nothing(
    owner: EmbeddedOwner, table: Table, clock: FakeClock
) -> None:
    clock.now_ms += 1000
    before = table.commit(1).commit.timestamp_ms
    for timestamp_ms in (before, before - 1):
        asked = staged(table, 2, timestamp_ms, added())
        with pytest.raises(TimestampConflict):
            owner.commit_staged(asked)
        assert table.latest == 1
        assert content(table, asked)
    assert landed(owner.commit_staged(staged(table, 2, before + 1, added()))).commit.version == 2


def test_a_timestamp_that_a_time_slice_has_seen_is_refused(
    owner: EmbeddedOwner, table: Table, clock: FakeClock
) -> None:
    clock.now_ms += 1000
    cut = owner.cut(clock.now_ms)
    with pytest.raises(TimestampConflict):
        owner.commit_staged(staged(table, 1, cut.timestamp_ms, added()))
    clock.now_ms += 10
    asked = staged(table, 1, cut.timestamp_ms + 1, added())
    assert landed(owner.commit_staged(asked)).commit.timestamp_ms == cut.timestamp_ms + 1


def test_a_timestamp_before_a_read_of_the_table_is_refused(
    lake: OwnedLake, owner: EmbeddedOwner, table: Table, clock: FakeClock
) -> None:
    other = created(lake, owner)
    clock.now_ms += 1000
    response = owner.commit_transaction(Txn(owner).read(table).write(other).request())
    read_at_ms = response.timestamp_ms  # type: ignore[union-attr]
    with pytest.raises(TimestampConflict):
        owner.commit_staged(staged(table, 1, read_at_ms, added()))
    assert landed(owner.commit_staged(staged(table, 1, read_at_ms + 1, added()))).commit.version == 1


def test_a_timestamp_ahead_is_waited_for_and_one_far_ahead_refused(
    owner: EmbeddedOwner, table: Table, clock: FakeClock
) -> None:
    clock.now_ms += 1000
    ahead = staged(table, 1, clock.now_ms + 3000, added())
    assert landed(owner.commit_staged(ahead)).commit.timestamp_ms == ahead.timestamp_ms
    assert clock.now_ms >= ahead.timestamp_ms
    far = staged(table, 2, clock.now_ms + 61_000, added())
    with pytest.raises(InvalidArgument, match="after the owner's time"):
        owner.commit_staged(far)
    assert table.latest == 1


def test_a_lock_of_a_transaction_is_waited_for(lake: OwnedLake) -> None:
    owner = lake.embedded()
    table = created(lake, owner)
    txn = Txn(owner)
    txn.lock(table)
    done = threading.Event()
    outcomes: list[Any] = []

    def commit() -> None:
        try:
            outcomes.append(owner.commit_staged(staged(table, 1, OwnerClock().now_ms(), added())))
        except SlackwaterError as error:
            outcomes.append(error)
        done.set()

    thread = threading.Thread(target=commit)
    thread.start()
    assert not done.wait(0.3)
    owner.end(txn.txn_id)
    thread.join()
    assert landed(outcomes[0]).commit.version == 1


def test_a_commit_that_failed_leaves_the_file_to_its_client(lake: OwnedLake) -> None:
    broken = threading.Event()

    def step(when: str, operation: str, path: str) -> None:
        if broken.is_set() and (when, operation) == ("before", "put") and "/_staged_commits/" in path:
            raise StorageRefused(f"{path}: the disk is full")

    owner = lake.embedded(step=step)
    table = created(lake, owner)
    asked = staged(table, 1, OwnerClock().now_ms(), added())
    broken.set()
    with pytest.raises(CommitFailed, match="the disk is full"):
        owner.commit_staged(asked)
    assert (table.latest, len(content(table, asked))) == (0, asked.size_bytes)
    broken.clear()
    assert landed(owner.commit_staged(asked)).commit.version == 1


def test_a_client_may_publish_its_commit_itself(owner: EmbeddedOwner, table: Table, clock: FakeClock) -> None:
    clock.now_ms += 1000
    asked = staged(table, 1, clock.now_ms, added())
    owner.commit_staged(asked)
    table.store.copy_if_absent(f"_delta_log/_staged_commits/{asked.file_name}", commit_path(1))
    assert owner.backfill_to_version(table.table_id) == 1
    assert owner.repair(table.table_id) == []
    assert table.commit(2).commit.version == 2


def test_a_file_that_a_repair_may_delete_is_not_committed(lake: OwnedLake) -> None:
    clock = FakeClock(OwnerClock().now_ms())
    owner = lake.embedded(clock=clock.owner_clock())
    table = created(lake, owner)
    committed = staged(table, 1, clock.now_ms + 1, added())
    clock.now_ms += 1
    owner.commit_staged(committed)
    asked = staged(table, 2, clock.now_ms + 1, added())
    clock.now_ms += 31 * 60_000
    with pytest.raises(InvalidArgument, match="staged more than 30 minutes ago"):
        owner.commit_staged(asked)
    assert (table.latest, len(content(table, asked))) == (1, asked.size_bytes)
    assert landed(owner.commit_staged(committed)).commit.version == 1, "what is committed does not age"
    assert table.commit(2).commit.version == 2


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"file_name": f"{1:020d}.{new_id()}.json"}, "does not exist"),
        ({"file_name": f"{2:020d}.{new_id()}.json"}, "is called <version>"),
        ({"file_name": "../../00000000000000000000.json"}, "is called <version>"),
        ({"version": 3}, "is called <version>"),
        ({"size_bytes": 1}, "bytes"),
        ({"timestamp_ms": START_MS + 999}, "inCommitTimestamp"),
    ],
)
def test_a_request_unlike_its_file_is_refused(
    owner: EmbeddedOwner, table: Table, clock: FakeClock, change: dict[str, Any], told: str
) -> None:
    clock.now_ms += 1000
    asked = replace(staged(table, 1, clock.now_ms, added()), **change)
    with pytest.raises(InvalidArgument, match=told):
        owner.commit_staged(asked)
    assert table.latest == 0


def test_a_commit_that_the_protocol_forbids_is_refused(owner: EmbeddedOwner, table: Table, clock: FakeClock) -> None:
    clock.now_ms += 1000
    disowning = {"metaData": metadata(None)}
    unmanaged = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    for actions, info, kind in (
        ([disowning], {}, OperationNotAllowed),
        ([unmanaged], {}, OperationNotAllowed),
        ([{"of the future": {}}], {}, InvalidArgument),
        ([added(path="a"), added(path="a")], {}, InvalidArgument),
        ([added()], {"txnId": None}, InvalidArgument),
        ([added()], {"inCommitTimestamp": 1}, InvalidArgument),
    ):
        with pytest.raises(kind):
            owner.commit_staged(staged(table, 1, clock.now_ms, *actions, **info))
    gap = staged(table, 5, clock.now_ms, added())
    with pytest.raises(InvalidArgument, match="does not exist"):
        owner.commit_staged(gap)
    assert table.latest == 0
    with pytest.raises(TableNotFound):
        owner.commit_staged(replace(gap, table_id=new_id()))


def test_a_commit_of_a_group_is_refused_alone(
    lake: OwnedLake, owner: EmbeddedOwner, table: Table, clock: FakeClock
) -> None:
    other = created(lake, owner)
    clock.now_ms += 1000
    txn_id = new_id()
    group = TransactionGroup.of(txn_id, {table.table_id: 1, other.table_id: 1}, owner.owner_id)
    asked = [
        staged(each, 1, clock.now_ms, group.to_json(), added(), txnId=txn_id, tags={GROUP_TAG: txn_id})
        for each in (table, other)
    ]
    for each in asked:
        with pytest.raises(InvalidArgument, match=r"transactionGroup.*Commit all tables .* in one request"):
            owner.commit_staged(each)
    assert (table.latest, other.latest) == (0, 0)
    assert content(table, asked[0])


def test_a_table_of_the_older_form_takes_no_such_commit(tmp_path: Path) -> None:
    lake = new_lake(tmp_path, "sqlite-embedded-managedCommit")
    owner = lake.embedded()
    table = created(lake, owner)
    with pytest.raises(OperationNotAllowed, match="lake migrate"):
        owner.commit_staged(staged(table, 1, START_MS, added()))
    lake.close()
