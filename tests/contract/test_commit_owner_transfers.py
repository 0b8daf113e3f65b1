"""Tables that come to a commit owner and leave it, cut short at every step, and what repairs them.

Source: managed-commits.md "Creating a new managed-commit table", "Converting an existing filesystem based table to
managed-commit table", "Converting a managed-commit table to filesystem table".
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from slackwater.errors import (
    CommitUnknown,
    InvalidArgument,
    OperationNotAllowed,
    PathNotAllowed,
    ProtocolChangedException,
    StorageError,
    StorageRefused,
    TableAlreadyExists,
    TableNotFound,
    UnratifiedCommit,
)
from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.api.commits import CommitConflict, CommitResponse
from slackwater.owner.publish.orphaned_files import GRACE_MS
from slackwater.owner.state.clock import OwnerClock
from slackwater.protocol.actions.file_names import commit_path, staged_file_name, staged_path
from tests.contract.owners import (
    FakeClock,
    Killed,
    OwnedLake,
    Table,
    added,
    at_once,
    created,
    filesystem_table,
    info_in,
    landed,
    metadata,
    new_name,
    proposal,
    releasing,
    table_of,
    taken,
    write_version,
)


@pytest.fixture(scope="module")
def owner(lake: OwnedLake) -> CommitOwner:
    return lake.owner()


@pytest.fixture
def table(lake: OwnedLake, owner: CommitOwner) -> Table:
    return created(lake, owner)


class Interruption:
    """Ends the process at the `at`-th change of a store, before it or after it."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.seen = 0

    def __call__(self, when: str, operation: str, path: str) -> None:
        self.seen += 1
        if self.seen == self.at:
            raise Killed


# Creation.


def test_the_first_commit_of_a_new_table_is_in_the_log_at_once(lake: OwnedLake, owner: CommitOwner) -> None:
    asked = proposal(lake)
    response = landed(owner.take(asked))
    table = table_of(owner, asked)
    assert (response.commit.version, response.latest_version) == (0, 0)
    info = info_in(table.backfilled(0))
    assert (info["txnId"], info["inCommitTimestamp"]) == (asked.commit_id, response.commit.timestamp_ms)
    assert response.commit.data in (None, table.backfilled(0))
    assert (table.latest, table.owner.table(table.name).state.value) == (0, "active")
    assert table.commit(1).commit.timestamp_ms > response.commit.timestamp_ms


def test_a_table_that_somebody_else_creates_first_is_theirs(lake: OwnedLake, owner: CommitOwner) -> None:
    store = filesystem_table(lake, versions=1)
    asked = proposal(lake, location=store.root_url)
    before = store.read(commit_path(0))
    assert owner.take(asked) == CommitConflict(0)
    assert store.read(commit_path(0)) == before
    _require_forgotten(owner, asked)
    assert table_of(owner, asked).staged() == []


def _require_forgotten(owner: CommitOwner, asked: Any) -> None:
    with pytest.raises(TableNotFound):
        owner.table(asked.name)
    with pytest.raises(TableNotFound):
        owner.get_commits(asked.table_id, 0)
    assert asked.name not in [table.name for table in owner.tables()]


def test_a_name_that_is_taken_is_refused_and_nothing_is_written(
    lake: OwnedLake, owner: CommitOwner, table: Table
) -> None:
    asked = replace(proposal(lake), name=table.name)
    with pytest.raises(TableAlreadyExists, match=table.name):
        owner.take(asked)
    other = table_of(owner, asked)
    assert (other.backfilled(0), other.staged()) == (None, [])
    assert owner.table(table.name).table_id == table.table_id


def test_a_place_that_is_taken_is_refused(lake: OwnedLake, owner: CommitOwner, table: Table) -> None:
    name = new_name()
    for location in (table.store.root_url, table.store.root_url + "/", str(table.store.local_root)):
        with pytest.raises(TableAlreadyExists, match="already"):
            owner.take(proposal(lake, name, version=1, location=location))
    assert table.latest == 0


def test_of_several_creations_at_one_place_or_of_one_name_one_comes_to_be(lake: OwnedLake, owner: CommitOwner) -> None:
    place = (lake.root / new_name()).as_uri()
    for asked in ([proposal(lake, location=place) for _ in range(4)], [proposal(lake, "one_name") for _ in range(4)]):
        outcomes = at_once(*(lambda one=one: owner.take(one) for one in asked))
        won = [one for one, outcome in zip(asked, outcomes, strict=True) if isinstance(outcome, CommitResponse)]
        assert len(won) == 1
        assert all(isinstance(o, CommitResponse | CommitConflict | TableAlreadyExists) for o in outcomes), outcomes
        assert info_in(table_of(owner, won[0]).backfilled(0))["txnId"] == won[0].commit_id
        assert owner.table(won[0].name).table_id == won[0].table_id


def test_of_two_owners_that_take_a_table_one_gets_it(
    lake: OwnedLake, owner: CommitOwner, fresh_lake: OwnedLake
) -> None:
    other = fresh_lake.owner()
    for _ in range(3):
        place = (lake.root / new_name()).as_uri()
        ours, theirs = proposal(lake, location=place), proposal(lake, location=place)
        outcomes = at_once(partial(owner.take, ours), partial(other.take, theirs))
        assert sorted(type(outcome).__name__ for outcome in outcomes) == ["CommitConflict", "CommitResponse"]
        won, lost = ((owner, ours), (other, theirs))[:: 1 if isinstance(outcomes[0], CommitResponse) else -1]
        assert table_of(*won).latest == 0
        assert info_in(table_of(*won).backfilled(0))["txnId"] == won[1].commit_id
        _require_forgotten(*lost)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda asked: replace(asked, actions=[asked.actions[0], {"metaData": metadata(None)}]), "commitOwner"),
        (lambda asked: replace(asked, actions=asked.actions[:1]), "commitOwner"),
        (lambda asked: replace(asked, actions=asked.actions[1:]), "commitInfo"),
        (lambda asked: replace(asked, version=3), "version 2 does not exist"),
        (lambda asked: replace(asked, previous_timestamp_ms=10**14), "in the future"),
    ],
)
def test_a_proposal_that_makes_no_sense_is_refused_before_anything_is_written(
    lake: OwnedLake, owner: CommitOwner, change: Callable[[Any], Any], message: str
) -> None:
    asked = change(proposal(lake))
    with pytest.raises(InvalidArgument, match=message):
        owner.take(asked)
    assert table_of(owner, asked).store.list_from("", recursive=True) == []
    _require_forgotten(owner, asked)


# Take-over.


def test_an_existing_table_is_taken_over_by_its_next_commit(lake: OwnedLake, owner: CommitOwner) -> None:
    store = filesystem_table(lake, versions=3)
    asked = proposal(lake, version=3, location=store.root_url)
    response = landed(owner.take(asked))
    table = table_of(owner, asked)
    assert (response.commit.version, table.latest) == (3, 3)
    assert info_in(table.backfilled(3))["txnId"] == asked.commit_id
    assert table.commit(4).commit.version == 4
    assert table.backfilled(4) is None


def test_a_take_over_gets_a_time_after_the_version_before(lake: OwnedLake, fresh_lake: OwnedLake) -> None:
    clock = FakeClock()
    own = fresh_lake.owner(clock=clock.owner_clock())
    store = filesystem_table(fresh_lake, versions=1)
    asked = proposal(fresh_lake, version=1, location=store.root_url, previous_timestamp_ms=clock.now_ms + 1000)
    assert landed(own.take(asked)).commit.timestamp_ms == clock.now_ms + 1001


def test_a_writer_of_the_file_system_that_was_faster_wins(lake: OwnedLake, owner: CommitOwner) -> None:
    store = filesystem_table(lake, versions=3)
    asked = proposal(lake, version=3, location=store.root_url)
    write_version(store, 3, {"commitInfo": {"txnId": "theirs"}}, added())
    assert owner.take(asked) == CommitConflict(3)
    assert info_in(store.read(commit_path(3)))["txnId"] == "theirs"
    _require_forgotten(owner, asked)
    again = proposal(lake, asked.name, version=4, location=store.root_url)
    assert taken(owner, again).latest == 4


def test_a_writer_of_the_file_system_between_promise_and_take_over_wins(lake: OwnedLake) -> None:
    def write_first(when: str, operation: str, path: str) -> None:
        if (when, operation, path) == ("before", "put", commit_path(3)):
            write_version(store, 3, {"commitInfo": {"txnId": "theirs"}}, added())

    store = filesystem_table(lake, versions=3)
    racing = lake.owner(step=write_first)
    asked = proposal(lake, version=3, location=store.root_url)
    assert racing.take(asked) == CommitConflict(3)
    assert info_in(store.read(commit_path(3)))["txnId"] == "theirs"
    _require_forgotten(racing, asked)


def test_a_writer_of_the_file_system_that_is_late_meets_the_commit_of_the_take_over(
    lake: OwnedLake, owner: CommitOwner
) -> None:
    store = filesystem_table(lake, versions=3)
    taken(owner, proposal(lake, version=3, location=store.root_url))
    with pytest.raises(StorageError, match="exist"):
        write_version(store, 3, {"commitInfo": {"txnId": "theirs"}}, added())


# Cut short.


@pytest.mark.parametrize("kind", ["create", "adopt"])
def test_a_take_that_ends_at_any_step_leaves_a_table_that_is_owned_or_not(
    lake: OwnedLake, owner: CommitOwner, kind: str
) -> None:
    version = 0 if kind == "create" else 2
    outcomes = []
    for at in range(1, 10):
        place = filesystem_table(lake, versions=2).root_url if version else None
        asked = proposal(lake, version=version, location=place)
        killed = Interruption(at)
        ended = lake.embedded(step=killed)
        with suppress(Killed):
            ended.take(asked)
        if killed.seen < at:
            break
        table = table_of(owner, asked)
        is_owned = False
        with suppress(TableNotFound):
            is_owned = owner.table(asked.name).state.value == "active"
        assert (table.backfilled(version) is not None) == is_owned
        if is_owned:
            assert table.latest == version
            assert info_in(table.backfilled(version))["txnId"] == asked.commit_id
        # Whoever repeats the request gets the one result.
        assert landed(owner.take(asked)).commit.version == version
        assert table.commit(version + 1).commit.version == version + 1
        assert table.ids()[version] == asked.commit_id
        outcomes.append(is_owned)
    # Before the promise it is not owned; whoever finds the promise keeps it.
    assert outcomes == [False, False, True, True]


@pytest.mark.parametrize("find", ["table", "get_commits", "repair", "replay"])
def test_a_promise_that_was_left_is_kept_by_whoever_finds_it(lake: OwnedLake, owner: CommitOwner, find: str) -> None:
    asked = proposal(lake)
    with pytest.raises(Killed):
        lake.embedded(step=Interruption(3)).take(asked)
    table = table_of(owner, asked)
    assert table.backfilled(0) is None
    with pytest.raises(ProtocolChangedException, match="does not belong to this owner yet"):
        owner.commit(table.request(1))
    if find == "table":
        assert owner.table(asked.name).state.value == "active"
    elif find == "get_commits":
        assert owner.get_commits(asked.table_id, 0).latest_version == 0
    elif find == "replay":
        assert landed(owner.take(asked)).commit.version == 0
    else:
        assert owner.repair(asked.table_id) == [f"{asked.name}: the ownership was completed by version 0"]
        assert owner.repair(asked.table_id) == []
    assert info_in(table.backfilled(0))["txnId"] == asked.commit_id
    assert table.commit(1).commit.version == 1


def test_a_promise_that_came_too_late_is_forgotten_by_whoever_finds_it(lake: OwnedLake, owner: CommitOwner) -> None:
    asked = proposal(lake)
    with pytest.raises(Killed):
        lake.embedded(step=Interruption(3)).take(asked)
    write_version(table_of(owner, asked).store, 0, {"commitInfo": {"txnId": "theirs"}})
    assert owner.repair(asked.table_id) == [
        f"{asked.name}: the ownership was abandoned, because version 0 belongs to another writer"
    ]
    _require_forgotten(owner, asked)


def test_a_take_that_others_complete_meanwhile_is_answered_with_its_own_commit(
    lake: OwnedLake, owner: CommitOwner
) -> None:
    asked = proposal(lake)

    def others(when: str, operation: str, path: str) -> None:
        if (when, operation, path) == ("before", "put", commit_path(0)):
            assert owner.table(asked.name).ratified_version == 0
            table_of(owner, asked).commits(2)

    response = landed(lake.owner(step=others).take(asked))
    assert (response.commit.version, info_in(table_of(owner, asked).backfilled(0))["txnId"]) == (0, asked.commit_id)


def test_a_take_whose_put_was_not_answered_is_unknown_until_it_is_repaired(lake: OwnedLake, owner: CommitOwner) -> None:
    def lose(when: str, operation: str, path: str) -> None:
        if (when, operation, path) == ("before", "put", commit_path(0)):
            raise StorageError("timed out")

    asked = proposal(lake)
    with pytest.raises(CommitUnknown, match="repair"):
        lake.owner(step=lose, clock=OwnerClock(sleep=lambda _: None)).take(asked)
    assert owner.repair(asked.table_id) == [f"{asked.name}: the ownership was completed by version 0"]


def test_a_take_whose_put_was_refused_does_not_claim_that_nothing_will_come_of_it(
    lake: OwnedLake, owner: CommitOwner
) -> None:
    def refuse(when: str, operation: str, path: str) -> None:
        if (when, operation, path) == ("before", "put", commit_path(0)):
            raise StorageRefused("denied")

    asked = proposal(lake)
    with pytest.raises(CommitUnknown, match="denied"):
        lake.owner(step=refuse).take(asked)
    # The promise stands: somebody else may have found it already.
    assert owner.table(asked.name).ratified_version == 0


def test_a_take_that_cannot_even_be_staged_leaves_nothing(lake: OwnedLake, owner: CommitOwner) -> None:
    def refuse(when: str, operation: str, path: str) -> None:
        if operation == "put":
            raise StorageRefused("denied")

    asked = proposal(lake)
    with pytest.raises(StorageRefused):
        lake.owner(step=refuse).take(asked)
    _require_forgotten(owner, asked)


# Hand-back.


def test_a_table_that_is_handed_back_is_wholly_in_the_log_and_takes_no_commits(table: Table) -> None:
    table.commits(3)
    response = landed(table.owner.release(releasing(table, 4)))
    assert (response.commit.version, response.latest_version) == (4, 4)
    assert all(table.backfilled(version) is not None for version in range(5))
    assert info_in(table.backfilled(4))["inCommitTimestamp"] == response.commit.timestamp_ms
    for version in (4, 5):
        with pytest.raises(ProtocolChangedException, match="was released"):
            table.owner.commit(table.append(version))
    assert table.backfilled(5) is None
    _require_forgotten(table.owner, table)


def test_a_table_that_was_handed_back_can_come_again(lake: OwnedLake, table: Table) -> None:
    landed(table.owner.release(releasing(table, 1)))
    write_version(table.store, 2, {"commitInfo": {"txnId": "theirs"}}, added())
    again = taken(table.owner, proposal(lake, table.name, version=3, location=table.store.root_url))
    assert again.latest == 3
    assert again.commit(4).commit.version == 4
    assert table.owner.table(table.name).table_id == again.table_id


def test_a_hand_back_that_loses_its_version_is_a_conflict_and_the_table_goes_on(table: Table) -> None:
    table.commits(2)
    assert table.owner.release(releasing(table, 2)) == CommitConflict(2)
    with pytest.raises(InvalidArgument, match="does not exist"):
        table.owner.release(releasing(table, 4))
    assert table.commit(3).commit.version == 3
    assert len(table.staged()) == 4


def test_a_hand_back_that_leaves_the_owner_in_the_metadata_is_refused(table: Table) -> None:
    with pytest.raises(InvalidArgument, match="must unset"):
        table.owner.release(table.request(1, {"metaData": table.metadata()}))
    assert table.latest == 0


def test_an_owner_may_keep_its_tables(lake: OwnedLake) -> None:
    table = created(lake, lake.owner(keeps_tables=True))
    with pytest.raises(OperationNotAllowed, match="does not release"):
        table.owner.release(releasing(table, 1))
    assert table.commit(1).commit.version == 1


def test_a_hand_back_between_commits_of_others_loses_none(table: Table) -> None:
    def write() -> list[str]:
        told: list[str] = []
        with suppress(ProtocolChangedException):
            for _ in range(10):
                request = table.append(1)
                landed(table.owner.commit(request))
                told.append(request.commit_id)
        return told

    def release() -> int:
        while True:
            outcome = table.owner.release(releasing(table, table.latest + 1))
            if isinstance(outcome, CommitResponse):
                return outcome.commit.version

    *told, version = at_once(write, write, release)
    ids = [info_in(table.backfilled(v))["txnId"] for v in range(version)]
    assert sorted(ids[1:]) == sorted([*told[0], *told[1]])
    assert table.backfilled(version + 1) is None


def test_a_hand_back_that_ends_at_any_step_is_done_or_not(lake: OwnedLake, owner: CommitOwner) -> None:
    outcomes = []
    for at in range(1, 20):
        table = created(lake, owner)
        table.commits(2)
        killed = Interruption(at)
        ended = lake.embedded(step=killed)
        asked = releasing(table, 3)
        with suppress(Killed):
            ended.release(asked)
        if killed.seen < at:
            break
        is_released = True
        with suppress(TableNotFound):
            owner.table(table.name)
            is_released = False
        assert (table.backfilled(3) is not None) == is_released
        if not is_released:
            assert table.latest == 2
        assert landed(owner.release(asked)).commit.version == 3
        assert [info_in(table.backfilled(v))["txnId"] for v in (3,)] == [asked.commit_id]
        outcomes.append(is_released)
    # Two copies and a staged file, each before and after, then the commit that hands it back.
    assert outcomes == [False] * 6 + [True, True]


@pytest.mark.parametrize("find", ["table", "get_commits", "repair", "replay"])
def test_a_hand_back_that_was_left_is_completed_by_whoever_finds_it(
    lake: OwnedLake, owner: CommitOwner, find: str
) -> None:
    table = created(lake, owner)
    asked = releasing(table, 1)
    with pytest.raises(Killed):
        lake.embedded(step=Interruption(3)).release(asked)
    with pytest.raises(ProtocolChangedException, match="was released"):
        owner.commit(table.request(1))
    if find == "table":
        with pytest.raises(TableNotFound):
            owner.table(table.name)
    elif find == "get_commits":
        with suppress(TableNotFound):
            assert owner.get_commits(table.table_id, 0).latest_version == 1
    elif find == "replay":
        assert landed(owner.release(asked)).commit.version == 1
    else:
        assert owner.repair(table.table_id) == [f"{table.name}: the release was completed by version 1"]
    assert info_in(table.backfilled(1))["txnId"] == asked.commit_id
    _require_forgotten(owner, table)


def test_a_hand_back_in_whose_place_somebody_wrote_is_reported(lake: OwnedLake, owner: CommitOwner) -> None:
    table = created(lake, owner)
    with pytest.raises(Killed):
        lake.embedded(step=Interruption(3)).release(releasing(table, 1))
    write_version(table.store, 1, {"commitInfo": {"txnId": "theirs"}})
    (report,) = owner.repair(table.table_id)
    assert "UnratifiedCommit" in report
    assert commit_path(1) in report
    table.store.delete([commit_path(1)])
    assert owner.repair(table.table_id) == [f"{table.name}: the release was completed by version 1"]


# Places.


def test_tables_outside_the_roots_are_refused(lake: OwnedLake, tmp_path: Path) -> None:
    confined = lake.owner(roots=[lake.root / "inside"])
    (lake.root / "inside").mkdir(exist_ok=True)
    link = lake.root / "inside" / new_name()
    link.symlink_to(tmp_path)
    places = [
        tmp_path.as_uri(), (lake.root / "insider").as_uri(), (lake.root / "inside").as_uri(), link.as_uri(),
        (link / "t").as_uri(), "s3://bucket/t", "memory://elsewhere/t",
    ]  # fmt: skip
    for place in places:
        asked = proposal(lake, location=place)
        with pytest.raises(PathNotAllowed, match="outside the roots"):
            confined.take(asked)
        _require_forgotten(confined, asked)
    assert list(tmp_path.iterdir()) == []
    for place in (f"{lake.root.as_uri()}/inside/../x", f"{lake.root.as_uri()}/inside/%2e%2e/x"):
        with pytest.raises((PathNotAllowed, InvalidArgument)):
            confined.take(proposal(lake, location=place))
    inside = proposal(lake, location=(lake.root / "inside" / new_name()).as_uri())
    assert taken(confined, inside).commit(1).commit.version == 1


def test_a_place_that_becomes_a_link_to_the_outside_is_refused_from_then_on(lake: OwnedLake, tmp_path: Path) -> None:
    confined = lake.owner(roots=[lake.root])
    table = created(lake, confined)
    table.commit(1)
    root = Path(str(table.store.local_root))
    root.rename(tmp_path / "moved")
    root.symlink_to(tmp_path / "moved")
    with pytest.raises(PathNotAllowed):
        confined.commit(table.request(2))
    with pytest.raises(PathNotAllowed):
        confined.backfill_to_version(table.table_id)
    assert not (tmp_path / "moved" / commit_path(1)).exists()


def test_a_lake_that_is_moved_finds_its_tables(fresh_lake: OwnedLake, tmp_path: Path) -> None:
    table = created(fresh_lake, fresh_lake.owner())
    table.commit(1)
    fresh_lake.close()
    fresh_lake.root = fresh_lake.root.rename(tmp_path / "elsewhere")
    moved = fresh_lake.owner()
    assert moved.table(table.name).location == (tmp_path / "elsewhere" / table.name).as_uri()
    assert moved.backfill_to_version(table.table_id) == 1


# Commits that nobody ratified.


def test_a_foreign_commit_in_the_place_of_a_ratified_one_is_reported_and_not_adopted(table: Table) -> None:
    response = table.commits(2)[0]
    write_version(table.store, 1, {"commitInfo": {"txnId": "theirs"}}, added())
    with pytest.raises(UnratifiedCommit, match="a writer bypassed the owner"):
        table.owner.backfill_to_version(table.table_id)
    assert table.backfilled(2) is None
    assert commit_path(1) in table.owner.table(table.name).problem
    with pytest.raises(UnratifiedCommit):
        table.owner.commit(table.request(3))
    found = table.owner.get_commits(table.table_id, 0, with_data=True)
    assert found.commits[0].data == table.content(response)
    (report,) = table.owner.repair(table.table_id)
    assert "UnratifiedCommit" in report
    table.store.delete([commit_path(1)])
    first, second = table.owner.repair(table.table_id)
    assert first == f"{table.name}: versions 1 to 2 were backfilled"
    assert "accepts commits again" in second
    assert table.owner.table(table.name).problem == ""
    assert table.backfilled(1) == table.content(response)
    assert table.commit(3).commit.version == 3


def test_a_foreign_commit_after_the_last_ratified_one_is_reported_and_not_adopted(table: Table) -> None:
    table.commits(1)
    table.owner.backfill_to_version(table.table_id)
    write_version(table.store, 2, {"commitInfo": {"txnId": "theirs"}}, added())
    (report,) = table.owner.repair(table.table_id)
    assert commit_path(2) in report
    assert "a writer bypassed the owner" in report
    assert table.latest == 1
    with pytest.raises(UnratifiedCommit):
        table.owner.commit(table.request(2))
    assert (table.latest, table.owner.table(table.name).problem in report) == (1, True)
    table.store.delete([commit_path(2)])
    (report,) = table.owner.repair(table.table_id)
    assert "accepts commits again" in report
    own = table.request(2)
    landed(table.owner.commit(own))
    assert table.ids()[1:] == [info_in(table.backfilled(1))["txnId"], own.commit_id]


def test_a_foreign_commit_that_was_there_before_the_version_was_ratified_is_not_adopted(table: Table) -> None:
    write_version(table.store, 1, {"commitInfo": {"txnId": "theirs"}}, added())
    response = table.commit(1)
    with pytest.raises(UnratifiedCommit):
        table.owner.backfill_to_version(table.table_id)
    assert table.owner.get_commits(table.table_id, 0).latest_version == 1
    table.store.delete([commit_path(1)])
    table.owner.repair(table.table_id)
    assert table.backfilled(1) == table.content(response)


def test_a_ratified_commit_whose_file_is_gone_is_reported(table: Table) -> None:
    (response,) = table.commits(1)
    data = table.content(response)
    table.store.delete([staged_path(response.commit.file_name)])
    with pytest.raises(UnratifiedCommit, match=r"is missing and was not backfilled\. Restore the file"):
        table.owner.backfill_to_version(table.table_id)
    table.store.put(staged_path(response.commit.file_name), data)
    assert "accepts commits again" in table.owner.repair(table.table_id)[1]


# Repair.


def test_repair_says_what_it_did_and_nothing_where_all_is_well(fresh_lake: OwnedLake) -> None:
    owner = fresh_lake.owner()
    first, second = created(fresh_lake, owner, "a"), created(fresh_lake, owner, "b")
    assert owner.repair() == []
    first.commits(2)
    second.commits(1)
    assert owner.repair() == ["a: versions 1 to 2 were backfilled", "b: versions 1 to 1 were backfilled"]
    assert owner.repair() == []


def test_what_cannot_be_repaired_in_one_table_does_not_keep_others_from_it(fresh_lake: OwnedLake) -> None:
    def refuse(when: str, operation: str, path: str) -> None:
        if operation == "copy":
            raise StorageError("the store is down")

    owner = fresh_lake.owner(step=refuse)
    first, second = created(fresh_lake, owner, "a"), created(fresh_lake, owner, "b")
    first.commits(1)
    second.commits(1)
    second.store.copy_if_absent(staged_path(second.staged()[-1]), commit_path(1))
    assert owner.repair()[0] == "a: StorageError: the store is down"
    assert len(owner.repair()) == 2


def test_staged_files_without_a_record_are_deleted_after_a_time_of_grace(lake: OwnedLake, owner: CommitOwner) -> None:
    table = created(lake, owner)
    table.commits(2)
    owner.backfill_to_version(table.table_id, 1)
    kept = set(table.staged())
    lost = [staged_file_name(version, owner.owner_id, table.form.directory) for version in (1, 2, 3)]
    for name in lost:
        table.store.put(staged_path(name), b"{}\n")
    assert owner.repair(table.table_id) == [f"{table.name}: versions 2 to 2 were backfilled"]
    assert set(table.staged()) == kept | set(lost)
    written_ms = max(meta.modified_ms for meta in table.store.list_from(f"_delta_log/{table.form.directory}"))
    early, late = (lake.owner(clock=FakeClock(written_ms + ms).owner_clock()) for ms in (GRACE_MS, GRACE_MS + 1))
    assert early.repair(table.table_id) == []
    assert late.repair(table.table_id) == [f"{table.name}: 1 staged files without a record were deleted"]
    # Those of versions that are backfilled go with the cleanup of the log.
    assert set(table.staged()) == kept | set(lost[:2])
    assert table.commit(3).commit.version == 3
