"""Commits of a table's transactions through its owner."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import slackwater
from slackwater.errors import (
    CommitOwnerBusy,
    CommitUnknown,
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    MetadataChangedException,
    MissingCommit,
)
from slackwater.lake.lake import LogLake
from slackwater.owner.api.commits import Commit, CommitConflict, CommitRequest, CommitResponse, GetCommitsResponse
from slackwater.owner.api.owner_registry import OwnedTable
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.protocol.features import row_tracking
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.store import ObjectStore
from slackwater.transaction.commit.transaction import TableTransaction
from slackwater.transaction.committer import Committed, Conflict
from slackwater.transaction.committers.factory import committer_for
from slackwater.transaction.committers.managed import ManagedCommitter
from slackwater.transaction.table.alteration import set_properties
from tests.transaction.tables import add, commit_actions, live, schema

ID = schema({"id": "long"})


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[LogLake]:
    """A lake whose owner backfills on request only."""
    owner = EmbeddedOwner.open(tmp_path, backfill_delay_s=None)
    with LogLake(owner, owner.root_url) as found:
        yield found


@pytest.fixture
def table(lake: LogLake) -> Snapshot:
    """Version 0 of a table of the lake."""
    return lake._create_log("t", ID).snapshot


def begin(snapshot: Snapshot) -> TableTransaction:
    return TableTransaction(snapshot.table, committer_for(snapshot.table, snapshot.configuration), snapshot)


def append(snapshot: Snapshot, path: str, fresh: bool = True) -> Any:
    transaction = begin(snapshot)
    transaction.add(add(path), fresh=fresh)
    return transaction.commit("WRITE")


def staged(store: ObjectStore) -> list[str]:
    return [meta.path for meta in store.list_from("_delta_log/_commits")]


def backfilled(store: ObjectStore) -> list[str]:
    return [meta.path[11:] for meta in store.list_from("_delta_log") if meta.path.endswith(".json")]


def test_a_commit_is_ratified_and_not_written_to_the_log(table: Snapshot) -> None:
    done = append(table, "a")
    assert (done.version, done.attempts, done.snapshot.version) == (1, 1, 1)
    assert backfilled(table.store) == [f"{0:020d}.json"]
    assert done.timestamp_ms == done.snapshot.timestamp_ms > table.timestamp_ms
    assert live(table.store) == ["a"]


def test_the_snapshot_after_a_commit_is_that_of_the_log(table: Snapshot) -> None:
    done = append(append(table, "a").snapshot, "b")
    read = Snapshot.open(table.store)
    assert (done.snapshot.version, done.snapshot.timestamp_ms) == (read.version, read.timestamp_ms)
    assert done.snapshot.metadata == read.metadata


def test_blind_appends_of_an_old_snapshot_move_in_one_attempt(table: Snapshot) -> None:
    for number in range(5):
        done = append(table, f"f{number}")
        assert (done.version, done.attempts) == (number + 1, 1)
        assert done.snapshot.live_files(["path"]).num_rows == number + 1
    assert live(table.store) == [f"f{number}" for number in range(5)]


def test_appends_of_files_whose_names_may_not_be_new_are_checked_against_the_winners(table: Snapshot) -> None:
    append(table, "a")
    done = append(table, "b", fresh=False)
    assert (done.version, done.attempts) == (2, 2)


def test_row_ids_that_the_owner_moved_are_those_of_the_snapshot(lake: LogLake) -> None:
    table = lake._create_log("tracked", ID, properties={"delta.enableRowTracking": "true"}).snapshot
    for number in range(3):
        done = append(table, f"f{number}")
    read = Snapshot.open(table.store)
    assert row_tracking.high_water_mark(read.domain_metadata) == 29
    assert done.snapshot.domain_metadata == read.domain_metadata
    files = read.live_files(["path", "baseRowId", "defaultRowCommitVersion"]).sort_by("path").to_pylist()
    assert [(f["baseRowId"], f["defaultRowCommitVersion"]) for f in files] == [(0, 1), (10, 2), (20, 3)]


def test_work_that_read_what_others_changed_is_refused_as_on_the_file_system(table: Snapshot) -> None:
    strict = set_properties(table, {"delta.isolationLevel": "Serializable"}).commit(begin(table)).snapshot
    reader = begin(strict)
    reader.read_whole_table()
    reader.add(add("r"))
    append(strict, "a")
    with pytest.raises(ConcurrentAppendException):
        reader.commit("WRITE")
    assert live(table.store) == ["a"]


def test_two_that_remove_one_file_conflict(table: Snapshot) -> None:
    before = append(table, "a").snapshot
    first, second = slackwater.Transaction(before), slackwater.Transaction(before)
    for transaction in (first, second):
        transaction.remove("a")
    first.commit("DELETE")
    with pytest.raises(ConcurrentDeleteDeleteException):
        second.commit("DELETE")
    assert live(table.store) == []


def test_work_on_an_old_version_of_the_metadata_is_refused(table: Snapshot) -> None:
    set_properties(table, {"delta.enableChangeDataFeed": "true"}).commit(begin(table))
    with pytest.raises(MetadataChangedException):
        append(table, "a")


def test_winners_are_read_from_the_log_and_from_the_owner(lake: LogLake, table: Snapshot) -> None:
    for number in range(4):
        append(table, f"f{number}")
    lake.owner.backfill_to_version(lake.owner.table("t").table_id, 2)
    committer = committer_for(table.table, table.configuration)
    assert [commit.version for commit in committer.commits_after(0)] == [1, 2, 3, 4]
    assert [commit.version for commit in committer.commits_after(2)] == [3, 4]
    assert list(committer.commits_after(4)) == []
    assert [c.info["txnId"] for c in committer.commits_after(0)] == [
        commit_actions(table.store, v)[0]["commitInfo"]["txnId"] if v <= 2 else c.info["txnId"]
        for v, c in zip(range(1, 5), committer.commits_after(0), strict=True)
    ]


def test_a_commit_tells_its_time_and_file_as_the_owner_has_them(table: Snapshot) -> None:
    done = append(table, "a")
    file = done.snapshot.segment.commits[-1]
    assert file.is_staged
    assert file.path in staged(table.store)
    assert file.size_bytes == len(table.store.read(file.path))


# Committers with an owner that says what a test wants.


@dataclass
class SaidOwner:
    """Answers as it is told."""

    answers: list[Any]
    commits: list[GetCommitsResponse]
    asked: list[CommitRequest]

    def commit(self, request: CommitRequest) -> Any:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer(request) if isinstance(answer, Callable) else answer  # type: ignore[arg-type]

    def get_commits(self, *_: Any, **__: Any) -> GetCommitsResponse:
        return self.commits.pop(0) if len(self.commits) > 1 else self.commits[0]


def said(store: ObjectStore, *answers: Any, commits: list[GetCommitsResponse] | None = None) -> ManagedCommitter:
    owner = SaidOwner(list(answers), commits or [GetCommitsResponse((), 0)], [])
    return ManagedCommitter(store, OwnedTable(owner, "id"))  # type: ignore[arg-type]


ACTIONS: list[dict[str, Any]] = [{"commitInfo": {"txnId": "x"}}, {"txn": {"appId": "a", "version": 1}}]


@pytest.mark.parametrize("error", [CommitUnknown("lost"), CommitOwnerBusy("later")])
def test_errors_of_the_owner_are_those_of_the_commit(table: Snapshot, error: Exception) -> None:
    committer = said(table.store, error)
    with pytest.raises(type(error)):
        committer.commit(1, ACTIONS)


def test_what_the_owner_answers_is_what_the_committer_answers(table: Snapshot) -> None:
    data = b'{"commitInfo":{"txnId":"x"}}\n'
    commit = Commit(7, f"{7:020d}.00000000-0000-0000-0000-000000000001.json", 5, len(data), data)
    committer = said(table.store, CommitResponse(commit, 7), CommitConflict(9))
    outcome = committer.commit(3, ACTIONS, may_move=True)
    assert isinstance(outcome, Committed)
    assert (outcome.version, outcome.commit.info) == (7, {"txnId": "x"})
    assert committer.commit(3, ACTIONS) == Conflict(9)
    owner: Any = committer._owned.owner
    first, second = owner.asked
    assert (first.commit_id, first.version, first.may_move, first.is_replay) == ("x", 3, True, False)
    assert second == replace(first, may_move=False)


def test_winners_are_looked_for_again_where_a_backfill_came_in_between(lake: LogLake, table: Snapshot) -> None:
    for number in range(2):
        append(table, f"f{number}")
    table_id = lake.owner.table("t").table_id
    real = committer_for(table.table, table.configuration)

    class Racing:
        """Backfills just before it answers: the log was read already."""

        def get_commits(self, *arguments: Any, **options: Any) -> GetCommitsResponse:
            lake.owner.backfill_to_version(table_id)
            return lake.owner.get_commits(*arguments, **options)

    racing = ManagedCommitter(table.store, OwnedTable(Racing(), table_id))  # type: ignore[arg-type]
    assert [c.info for c in racing.commits_after(0)] == [c.info for c in real.commits_after(0)]
    assert [c.version for c in racing.commits_after(0)] == [1, 2]


def test_winners_that_cannot_be_found_are_an_error_that_says_so(table: Snapshot) -> None:
    committer = said(table.store, commits=[GetCommitsResponse((), 3)])
    with pytest.raises(MissingCommit, match="ratified version 3, but not all commits after 0 can be found"):
        committer.commits_after(0)
