"""What every commit owner promises of commits, and of the answers to readers. Source: managed-commits.md."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from typing import Any

import pytest

from slackwater.errors import (
    CommitFailed,
    CommitOwnerBusy,
    InvalidArgument,
    StorageError,
    StorageRefused,
    TableNotFound,
)
from slackwater.owner.api.commit_owner import CommitOwner
from slackwater.owner.api.commits import CommitConflict, CommitResponse
from slackwater.protocol.actions.file_names import LogFileKind, commit_path, parse_log_file, staged_path
from slackwater.storage.open import open_store
from tests.contract.owners import (
    FakeClock,
    OwnedLake,
    Table,
    actions_in,
    added,
    at_once,
    created,
    eventually,
    info_in,
    landed,
    new_id,
    releasing,
)


@pytest.fixture(scope="module")
def owner(lake: OwnedLake) -> CommitOwner:
    return lake.owner()


@pytest.fixture
def table(lake: OwnedLake, owner: CommitOwner) -> Table:
    return created(lake, owner)


# Commits.


def test_a_commit_is_the_version_after_the_one_it_is_based_on(table: Table) -> None:
    for version in (1, 2, 3):
        response = table.commit(version)
        assert (response.commit.version, response.latest_version) == (version, version)


def test_a_version_that_exists_belongs_to_whoever_got_it_first(table: Table) -> None:
    first = table.request(1)
    landed(table.owner.commit(first))
    table.commit(2)
    assert table.owner.commit(table.request(1)) == CommitConflict(2)
    assert table.owner.commit(table.request(0)) == CommitConflict(2)
    assert table.ids()[1] == first.commit_id


def test_a_conflict_leaves_nothing_behind(table: Table) -> None:
    table.commits(2)
    before = table.staged()
    table.owner.commit(table.request(1))
    assert (table.latest, table.staged()) == (2, before)


def test_a_version_whose_predecessor_does_not_exist_is_refused(table: Table) -> None:
    table.commit(1)
    with pytest.raises(InvalidArgument, match="version 3 cannot be committed, because version 2 does not exist"):
        table.owner.commit(table.request(3))
    assert (table.latest, len(table.staged())) == (1, 2)


def test_of_many_commits_to_one_version_exactly_one_counts(table: Table) -> None:
    requests = [table.request(1) for _ in range(8)]
    outcomes = at_once(*(lambda request=request: table.owner.commit(request) for request in requests))
    winners = [r.commit_id for r, o in zip(requests, outcomes, strict=True) if isinstance(o, CommitResponse)]
    assert len(winners) == 1
    assert [o for o in outcomes if not isinstance(o, CommitResponse)] == [CommitConflict(1)] * 7
    assert table.ids()[1:] == winners


def test_commits_of_many_threads_all_land_once_without_a_gap(table: Table) -> None:
    told: list[tuple[int, str]] = []

    def write() -> None:
        for _ in range(5):
            version = 1
            while True:
                request = table.request(version)
                outcome = table.owner.commit(request)
                if isinstance(outcome, CommitResponse):
                    told.append((outcome.commit.version, request.commit_id))
                    break
                version = outcome.latest_version + 1

    assert at_once(*[write] * 6) == [None] * 6
    assert sorted(version for version, _ in told) == list(range(1, 31))
    assert table.ids()[1:] == [commit_id for _, commit_id in sorted(told)]


def test_a_commit_says_what_its_file_holds(table: Table) -> None:
    odd = {"commitInfo": {"txnId": (commit_id := new_id()), "operation": 'new\nline \u2028 "quoted" ü 日本 \x00'}}
    action = added(stats='{"numRecords":1,"minValues":{"id":-9223372036854775808}}')
    request = replace(table.request(1, action, commit_id=commit_id), actions=[odd, action])
    commit = landed(table.owner.commit(request)).commit
    data = table.store.read(staged_path(commit.file_name))
    assert commit.data in (data, None)
    assert commit.size_bytes == len(data)
    info, *rest = actions_in(data)
    assert rest == [action]
    stamps = {"inCommitTimestamp": commit.timestamp_ms, "timestamp": commit.timestamp_ms}
    assert info == {"commitInfo": {**odd["commitInfo"], **stamps}}


def test_a_commit_is_staged_under_its_version_and_a_uuid_of_its_own(table: Table) -> None:
    names = [response.commit.file_name for response in table.commits(3)]
    assert set(names) <= set(table.staged())
    paths = [staged_path(name) for name in names]
    directory = f"_delta_log/{table.form.directory}"
    assert [path[:-42] for path in paths] == [f"{directory}/{version:020d}" for version in (1, 2, 3)]
    files = [parse_log_file(path.removeprefix("_delta_log/")) for path in paths]
    assert [file and (file.kind, file.version) for file in files] == [
        (LogFileKind.STAGED_COMMIT, version) for version in (1, 2, 3)
    ]
    assert len({file.uuid for file in files if file}) == 3


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ([], "commitInfo"),
        ([{"txn": {"appId": "a", "version": 1}}], "first action"),
        ([{"commitInfo": {"txnId": "another"}}], "txnId must be the commit's id"),
    ],
)
def test_actions_that_are_no_commit_of_that_id_are_refused(table: Table, actions: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        table.owner.commit(replace(table.request(1), actions=actions))
    assert table.latest == 0


def test_a_table_that_the_owner_does_not_know_is_not_found(owner: CommitOwner, table: Table) -> None:
    unknown = replace(table, table_id=new_id())
    for call in (
        lambda: owner.commit(unknown.request(1)),
        lambda: owner.get_commits(unknown.table_id, 0),
        lambda: owner.backfill_to_version(unknown.table_id),
        lambda: owner.release(releasing(unknown, 1)),
        lambda: owner.repair(unknown.table_id),
        lambda: owner.table("no_such_name"),
    ):
        with pytest.raises(TableNotFound):
            call()


def test_so_many_commits_wait_for_their_backfill_and_no_more(lake: OwnedLake) -> None:
    busy = created(lake, lake.owner(max_backlog=2))
    busy.commits(2)
    with pytest.raises(CommitOwnerBusy, match="2 commits wait for their backfill"):
        busy.owner.commit(busy.request(3))
    busy.owner.backfill_to_version(busy.table_id, 1)
    assert busy.commit(3).commit.version == 3


def test_a_commit_that_could_not_be_staged_did_not_land_and_gives_its_version_back(lake: OwnedLake) -> None:
    refused = [True]

    def refuse(when: str, operation: str, path: str) -> None:
        if when == "before" and operation == "put" and refused and "00001." in path:
            raise StorageRefused("no space left")

    table = created(lake, lake.owner(step=refuse))
    request = table.request(1)
    with pytest.raises(CommitFailed, match="nothing was committed: no space left"):
        table.owner.commit(request)
    assert table.latest == 0
    refused.clear()
    assert landed(table.owner.commit(replace(request, is_replay=True))).commit.version == 1


def test_a_staged_file_whose_put_was_not_answered_is_put_again(lake: OwnedLake) -> None:
    lost = [True]

    def lose(when: str, operation: str, path: str) -> None:
        if when == "after" and operation == "put" and lost and "00001." in path:
            lost.pop()
            raise StorageError("the connection broke")

    table = created(lake, lake.owner(step=lose))
    assert table.commit(1).commit.version == 1
    assert len(table.staged()) == 2


# What readers ask.


@pytest.mark.parametrize(
    ("start", "end", "versions"),
    [
        (0, -1, [3, 4, 5, 6]),
        (0, 4, [3, 4]),
        (3, 3, [3]),
        (4, 5, [4, 5]),
        (5, -1, [5, 6]),
        (5, 99, [5, 6]),
        (0, 2, []),
        (6, 5, []),
        (7, -1, []),
        (99, 100, []),
    ],
)
def test_readers_are_told_what_is_not_backfilled_and_always_the_latest_version(
    read_table: Table, start: int, end: int, versions: list[int]
) -> None:
    found = read_table.owner.get_commits(read_table.table_id, start, end)
    assert [commit.version for commit in found.commits] == versions
    assert found.latest_version == 6


@pytest.fixture(scope="module")
def read_table(lake: OwnedLake, owner: CommitOwner) -> Table:
    """Versions 0 to 2 are backfilled, 3 to 6 are not."""
    found = created(lake, owner)
    found.commits(6)
    assert owner.backfill_to_version(found.table_id, 2) == 2
    return found


def test_the_latest_version_of_a_table_that_is_wholly_backfilled_is_told(table: Table) -> None:
    # -1 would say that the owner never ratified anything.
    for expected in (0, 3):
        found = table.owner.get_commits(table.table_id, 0)
        assert (list(found.commits), found.latest_version) == ([], expected)
        table.commits(3)
        table.owner.backfill_to_version(table.table_id)


def test_contents_come_with_the_answer_where_they_are_asked_for(table: Table) -> None:
    responses = table.commits(3)
    with_data = table.owner.get_commits(table.table_id, 1, with_data=True).commits
    assert [commit.data for commit in with_data] == [table.content(response) for response in responses]
    without = table.owner.get_commits(table.table_id, 1).commits
    assert [commit.data for commit in without] == [None, None, None]
    told = [(c.version, c.file_name, c.timestamp_ms, c.size_bytes) for c in without]
    assert told == [(r.commit.version, r.commit.file_name, r.commit.timestamp_ms, len(d.data or b""))
                    for r, d in zip(responses, with_data, strict=True)]  # fmt: skip


def test_a_large_commit_is_named_without_its_content(table: Table) -> None:
    table.commit(1, added(tags={"large": "x" * (2 << 20)}))
    table.commit(2)
    first, second = table.owner.get_commits(table.table_id, 1, with_data=True).commits
    assert first.data is None
    assert first.size_bytes > 2 << 20
    assert second.data is not None


def test_readers_never_see_a_version_before_the_one_that_precedes_it(table: Table) -> None:
    done = threading.Event()
    seen: list[list[int]] = []

    def read() -> None:
        while not done.is_set():
            found = table.owner.get_commits(table.table_id, 0)
            seen.append([commit.version for commit in found.commits])
            assert not found.commits or found.commits[-1].version == found.latest_version

    def write() -> None:
        try:
            for _ in range(10):
                landed(table.owner.commit(table.append(1)))
                table.owner.backfill_to_version(table.table_id, table.latest - 2)
        finally:
            done.set()

    assert at_once(read, write) == [None, None]
    for versions in seen:
        assert versions == list(range(versions[0], versions[-1] + 1)) if versions else True
    assert table.latest == 10


# Backfill.


def test_a_backfilled_commit_is_the_staged_one_byte_for_byte(table: Table) -> None:
    responses = table.commits(3)
    assert [table.backfilled(version) for version in range(1, 4)] == [None] * 3
    assert table.owner.backfill_to_version(table.table_id) == 3
    for response in responses:
        version = response.commit.version
        assert table.backfilled(version) == table.content(response)
        assert re.fullmatch(r"_delta_log/[0-9]{20}\.json", commit_path(version))


def test_backfill_goes_as_far_as_it_is_asked_to(table: Table) -> None:
    table.commits(4)
    assert table.owner.backfill_to_version(table.table_id, 2) == 2
    assert [table.backfilled(version) is None for version in range(5)] == [False, False, False, True, True]
    assert table.owner.backfill_to_version(table.table_id, 1) == 2
    assert table.owner.backfill_to_version(table.table_id, 99) == 4
    assert table.backfilled(4) is not None


def test_backfill_again_changes_nothing(table: Table) -> None:
    table.commits(2)
    table.owner.backfill_to_version(table.table_id)
    before = table.store.list_from("_delta_log", recursive=True)
    assert table.owner.backfill_to_version(table.table_id) == 2
    assert table.store.list_from("_delta_log", recursive=True) == before


def test_two_backfills_at_once_do_it_once(lake: OwnedLake, table: Table) -> None:
    responses = table.commits(5)
    other = lake.owner()
    calls = [lambda o=o: o.backfill_to_version(table.table_id) for o in (table.owner, other, table.owner)]
    assert at_once(*calls) == [5, 5, 5]
    assert [table.backfilled(r.commit.version) for r in responses] == [table.content(r) for r in responses]


def test_no_commit_is_backfilled_before_its_predecessor(lake: OwnedLake) -> None:
    refused = {2}

    def step(when: str, operation: str, path: str) -> None:
        if when == "before" and operation == "copy" and any(path == commit_path(v) for v in refused):
            raise StorageError("the store is down")

    table = created(lake, lake.owner(step=step))
    table.commits(3)
    with pytest.raises(StorageError, match="the store is down"):
        table.owner.backfill_to_version(table.table_id)
    assert [table.backfilled(version) is None for version in (1, 2, 3)] == [False, True, True]
    refused.clear()
    assert table.owner.backfill_to_version(table.table_id) == 3
    assert table.backfilled(3) is not None


def test_a_backfill_whose_answer_was_lost_is_found_to_be_done(lake: OwnedLake) -> None:
    lost = [True]

    def step(when: str, operation: str, path: str) -> None:
        if when == "after" and operation == "copy" and lost:
            lost.pop()
            raise StorageError("the connection broke")

    table = created(lake, lake.owner(step=step))
    table.commits(2)
    with pytest.raises(StorageError):
        table.owner.backfill_to_version(table.table_id)
    assert table.owner.backfill_to_version(table.table_id) == 2


def test_commits_are_backfilled_soon_without_being_asked_for(lake: OwnedLake) -> None:
    table = created(lake, lake.owner(backfill_delay_s=0.001))
    table.commits(3)
    eventually(lambda: table.backfilled(3) is not None)
    eventually(lambda: not table.owner.get_commits(table.table_id, 0).commits)
    assert table.latest == 3


def test_a_backfill_that_failed_is_tried_again(lake: OwnedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slackwater.owner.publish.backfill._RETRY_S", 0.001)
    failures = [1, 2, 3]

    def step(when: str, operation: str, path: str) -> None:
        if when == "before" and operation == "copy" and failures:
            failures.pop()
            raise StorageError("the store is down")

    table = created(lake, lake.owner(step=step, backfill_delay_s=0.001))
    table.commit(1)
    eventually(lambda: table.backfilled(1) is not None)


def test_readers_get_contents_also_where_the_staged_file_is_gone(table: Table) -> None:
    response = table.commits(1)[0]
    data = table.content(response)
    table.store.copy_if_absent(staged_path(response.commit.file_name), commit_path(1))
    table.store.delete([staged_path(response.commit.file_name)])
    assert [c.data for c in table.owner.get_commits(table.table_id, 1, with_data=True).commits] == [data]
    assert table.owner.backfill_to_version(table.table_id) == 1


# Time.


def test_timestamps_are_the_owners_and_rise_with_each_version(table: Table) -> None:
    responses = table.commits(4)
    stamps = [response.commit.timestamp_ms for response in responses]
    assert stamps == sorted(set(stamps))
    for response in responses:
        info = info_in(table.content(response))
        assert info["inCommitTimestamp"] == info["timestamp"] == response.commit.timestamp_ms
        assert next(iter(info)) == "inCommitTimestamp"


def test_what_a_client_says_of_time_is_replaced(table: Table) -> None:
    request = table.request(1)
    request.actions[0]["commitInfo"].update(inCommitTimestamp=1, timestamp=2)
    commit = landed(table.owner.commit(request)).commit
    assert commit.timestamp_ms > 2
    assert table.owner.table(table.name).timestamp_ms == commit.timestamp_ms


def test_timestamps_rise_also_where_the_clock_steps_back_and_in_a_new_owner(fresh_lake: OwnedLake) -> None:
    clock = FakeClock()
    table = created(fresh_lake, fresh_lake.owner(clock=clock.owner_clock()))
    stamps: list[int] = []
    for now_ms in (clock.now_ms + 1000, clock.now_ms + 1000, clock.now_ms, 5):
        clock.now_ms = now_ms
        stamps.append(table.commit(len(stamps) + 1).commit.timestamp_ms)
    assert stamps[0] == stamps[1] - 1
    again = replace(table, owner=fresh_lake.owner(clock=FakeClock(7).owner_clock()))
    stamps.append(again.commit(5).commit.timestamp_ms)
    assert stamps == sorted(set(stamps))
    # Nor does any other table go behind it.
    other = created(fresh_lake, again.owner)
    assert info_in(other.backfilled(0))["inCommitTimestamp"] >= stamps[-1]
    assert other.commit(1).commit.timestamp_ms > stamps[-1]


def test_the_greatest_timestamp_survives_the_table_that_had_it(fresh_lake: OwnedLake) -> None:
    clock = FakeClock()
    first = created(fresh_lake, fresh_lake.owner(clock=clock.owner_clock()))
    clock.now_ms += 10_000
    last_ms = landed(first.owner.release(releasing(first, 1))).commit.timestamp_ms
    later = fresh_lake.owner(clock=FakeClock(1).owner_clock())
    other = created(fresh_lake, later)
    assert other.commit(1).commit.timestamp_ms >= last_ms


def test_commits_land_while_the_clock_is_far_behind_the_last_timestamp(fresh_lake: OwnedLake) -> None:
    clock = FakeClock()
    created(fresh_lake, fresh_lake.owner(clock=clock.owner_clock()))
    clock.now_ms -= 3_600_000
    table = created(fresh_lake, fresh_lake.owner(clock=clock.owner_clock()))
    outcomes = at_once(*(lambda: table.owner.commit(table.append(1)) for _ in range(8)))
    assert sorted(landed(outcome).commit.version for outcome in outcomes) == list(range(1, 9))


# Identity.


def test_whoever_opens_the_same_database_is_the_same_owner(lake: OwnedLake, owner: CommitOwner) -> None:
    other = lake.owner()
    assert other.owner_id == owner.owner_id
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", owner.owner_id)


def test_owners_of_different_databases_are_different_ones(owner: CommitOwner, fresh_lake: OwnedLake) -> None:
    ids = at_once(*(lambda: fresh_lake.embedded().owner_id for _ in range(4)))
    assert len({*ids, owner.owner_id}) == 2


def test_what_one_owner_ratified_all_who_share_the_database_tell(lake: OwnedLake, table: Table) -> None:
    other = replace(table, owner=lake.owner())
    first = table.commit(1)
    assert other.latest == 1
    assert other.owner.commit(other.request(1)) == CommitConflict(1)
    other.commit(2)
    found = table.owner.get_commits(table.table_id, 0).commits
    assert found[0].timestamp_ms == first.commit.timestamp_ms
    assert [c.version for c in found] == [1, 2]


def test_tables_are_listed_by_name_with_how_far_they_have_come(lake: OwnedLake, owner: CommitOwner) -> None:
    second, first = created(lake, owner, "zz_b"), created(lake, owner, "zz_a")
    second.commits(2)
    owner.backfill_to_version(second.table_id, 1)
    found = [table for table in owner.tables() if table.name.startswith("zz_")]
    assert [table.name for table in found] == ["zz_a", "zz_b"]
    assert found[1] == owner.table("zz_b")
    assert (found[1].ratified_version, found[1].backfilled_version, found[1].problem) == (2, 1, "")
    assert (found[1].state.value, found[1].table_id) == ("active", second.table_id)
    assert open_store(found[0].location).root_url == first.store.root_url
