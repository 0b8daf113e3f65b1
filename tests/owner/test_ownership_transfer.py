"""Transfers of tables that others carry out, or forget, while whoever began them looks away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slackwater.errors import CommitOwnerUnavailable, CommitUnknown, TableNotFound
from slackwater.log.checkpoints.write_checkpoint import write_checkpoint, write_last_checkpoint
from slackwater.owner.api.commits import CommitConflict
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.publish.backfill import Backfill
from slackwater.protocol.actions.file_names import commit_path
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.store import ObjectStore
from tests.contract.owners import (
    DATABASES,
    START_MS,
    Killed,
    OwnedLake,
    Step,
    added,
    created,
    filesystem_table,
    info_in,
    landed,
    new_lake,
    proposal,
    releasing,
    table_of,
    write_version,
)


@pytest.fixture(scope="module", params=DATABASES)
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnedLake]:
    found = new_lake(tmp_path_factory.mktemp("transfers"), request.param)
    yield found
    found.close()


@pytest.fixture
def owner(lake: OwnedLake) -> EmbeddedOwner:
    return lake.embedded()


def after_write(owner: EmbeddedOwner, number: int, then: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Call `then` when the owner has written to its database so many times from now on."""
    write, seen = owner.database.write, [0]

    def counted(work: Any, durable: bool = True) -> Any:
        done = write(work, durable)
        seen[0] += 1
        if seen[0] == number:
            then()
        return done

    monkeypatch.setattr(owner.database, "write", counted)


# A transfer chooses its time with its first write, and is promised with the second.
PROMISED = 2


def test_a_promise_that_others_kept_and_built_upon_is_answered_with_its_own_commit(
    lake: OwnedLake, owner: EmbeddedOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, hasty = proposal(lake), lake.embedded()

    def keep() -> None:
        hasty.table(asked.name)
        table_of(hasty, asked).commits(2)

    after_write(owner, PROMISED, keep, monkeypatch)
    response = landed(owner.take(asked))
    assert response.commit.version == 0
    assert response.commit.data == table_of(owner, asked).backfilled(0)


def test_a_promise_that_others_found_to_be_late_is_a_conflict(
    lake: OwnedLake, owner: EmbeddedOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, hasty = proposal(lake), lake.embedded()

    def forget() -> None:
        write_version(table_of(hasty, asked).store, 0, {"commitInfo": {"txnId": "theirs"}})
        with pytest.raises(TableNotFound):
            hasty.table(asked.name)

    after_write(owner, PROMISED, forget, monkeypatch)
    assert owner.take(asked) == CommitConflict(0)


def test_a_hand_back_that_others_completed_is_answered_with_its_own_commit(
    lake: OwnedLake, owner: EmbeddedOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, hasty = created(lake, owner), lake.embedded()
    after_write(owner, PROMISED, lambda: hasty.repair(table.table_id), monkeypatch)
    asked = releasing(table, 1)
    assert landed(owner.release(asked)).commit.version == 1
    assert info_in(table.backfilled(1))["txnId"] == asked.commit_id


@pytest.mark.parametrize("kind", ["take", "release"])
def test_a_database_that_goes_away_after_the_promise_leaves_open_what_became_of_it(
    lake: OwnedLake, owner: EmbeddedOwner, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    def go_away() -> None:
        raise CommitOwnerUnavailable("the database is down")

    table = created(lake, owner)
    asked = proposal(lake)
    after_write(owner, PROMISED, go_away, monkeypatch)
    transfers: dict[str, Callable[[], object]] = {
        "take": lambda: owner.take(asked),
        "release": lambda: owner.release(releasing(table, 1)),
    }
    with pytest.raises(CommitUnknown, match="the database is down"):
        transfers[kind]()
    other = lake.embedded()
    if kind == "take":
        assert other.table(asked.name).ratified_version == 0
    else:
        assert other.repair(table.table_id) == [f"{table.name}: the release was completed by version 1"]


def test_an_older_promise_that_is_late_does_not_take_a_newer_one_with_it(
    lake: OwnedLake, owner: EmbeddedOwner, tmp_path: Path
) -> None:
    # Whoever resumed the first looks away until the proposer has come back with the version after.
    first = proposal(lake)
    store = table_of(owner, first).store
    second = proposal(lake, first.name, version=1, table_id=first.table_id)

    def overtaken(when: str, operation: str, path: str) -> None:
        if (when, operation) == ("before", "put") and "_commits" not in path and not overtaken_once:
            overtaken_once.append(path)
            write_version(store, 0, {"commitInfo": {"txnId": "theirs"}})
            assert owner.repair(first.table_id) != []
            landed(owner.take(second))

    overtaken_once: list[str] = []
    slow = lake.embedded(step=overtaken)
    assert slow.take(first) == CommitConflict(0)
    assert overtaken_once
    assert owner.table(first.name).ratified_version == 1
    assert table_of(owner, second).commit(2).commit.version == 2


def others_committed(store: ObjectStore, first: int) -> None:
    """Others commit up to three versions beyond `first`, the last has a checkpoint, and the log is cleaned up."""
    last = first + 3
    for version in range(first, last + 1):
        write_version(store, version, {"commitInfo": {"txnId": f"theirs {version}"}}, added())
    write_last_checkpoint(store, write_checkpoint(Snapshot.open(store, last), START_MS))
    store.delete([commit_path(version) for version in range(last)])


def asleep(version: int, meanwhile: Callable[[], None]) -> Step:
    """`meanwhile` happens once, just before the commit of `version` is put into the log."""
    done: list[str] = []

    def step(when: str, operation: str, path: str) -> None:
        if (when, operation, path) == ("before", "put", commit_path(version)) and not done:
            done.append(path)
            meanwhile()

    return step


@pytest.mark.parametrize("ends", [False, True])
def test_a_promise_that_is_kept_when_the_log_has_forgotten_its_version_is_none(
    lake: OwnedLake, owner: EmbeddedOwner, ends: bool
) -> None:
    store = filesystem_table(lake)
    asked = proposal(lake, version=3, location=store.root_url)

    def die() -> None:
        others_committed(store, 3)
        if ends:
            raise Killed

    sleeper = lake.embedded(step=asleep(3, die))
    if ends:
        with pytest.raises(Killed):
            sleeper.take(asked)
        # Whoever finds the promise does not keep it either.
        assert owner.repair(asked.table_id) == [
            f"{asked.name}: the ownership was abandoned, because version 3 belongs to another writer"
        ]
    else:
        assert sleeper.take(asked) == CommitConflict(3)
    assert store.head(commit_path(3)) is None
    with pytest.raises(TableNotFound):
        owner.table(asked.name)
    assert Snapshot.open(store).version == 6
    assert landed(owner.take(proposal(lake, asked.name, 7, store.root_url))).commit.version == 7


def test_a_promise_that_others_kept_is_kept_even_if_the_log_has_forgotten_it_since(
    lake: OwnedLake, owner: EmbeddedOwner
) -> None:
    store = filesystem_table(lake)
    asked = proposal(lake, version=3, location=store.root_url)

    def keep() -> None:
        table = table_of(owner, asked)
        owner.repair(asked.table_id)
        for version in (4, 5):
            table.commit(version)
        owner.backfill_to_version(asked.table_id)
        write_last_checkpoint(store, write_checkpoint(Snapshot.open(store, 5), START_MS))
        store.delete([commit_path(version) for version in range(5)])

    landed(lake.embedded(step=asleep(3, keep)).take(asked))
    assert owner.table(asked.name).ratified_version == 5


def test_a_hand_back_that_others_completed_leaves_the_table_to_them_even_if_the_log_has_forgotten_it(
    lake: OwnedLake, owner: EmbeddedOwner
) -> None:
    table = created(lake, owner)

    def complete() -> None:
        owner.repair(table.table_id)
        others_committed(table.store, 2)

    landed(lake.embedded(step=asleep(1, complete)).release(releasing(table, 1)))
    found = Snapshot.open(table.store)
    assert (found.version, found.configuration.supports("managedCommit")) == (5, False)


def test_a_commit_that_counts_while_a_hand_back_is_being_prepared_is_in_the_log_afterwards(
    lake: OwnedLake, owner: EmbeddedOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, hasty = created(lake, owner), lake.embedded()
    told: list[str] = []

    backfill = Backfill.now

    def commit_meanwhile(self: Backfill, *which: Any) -> Any:
        # After what was there has been backfilled, and before commits are stopped.
        done = backfill(self, *which)
        if not told:
            request = table.append(1)
            landed(hasty.commit(request))
            told.append(request.commit_id)
        return done

    monkeypatch.setattr(Backfill, "now", commit_meanwhile)
    assert landed(owner.release(releasing(table, 2))).commit.version == 2
    assert [info_in(table.backfilled(1))["txnId"]] == told
