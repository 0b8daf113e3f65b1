"""The timestamp table: one row for a transaction, from its versions to its last backfill; and what the dead leave."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from slackwater.owner.api.transactions import TransactionResponse
from slackwater.owner.commit.allocation_outcomes import Attempt, VersionsAllocated
from slackwater.owner.commit.pipeline import CommitPipeline
from slackwater.owner.commit.ratification import AwaitingEarlierVersions, StagedCommits
from slackwater.owner.commit.staging import content_of
from slackwater.owner.database.schema import commits, transactions
from slackwater.owner.embedded import EmbeddedOwner
from tests.contract.owners import DATABASES, FakeClock, Killed, OwnedLake, created, dead_holder, new_lake
from tests.contract.transactions import Txn


class Kit:
    def __init__(self, lake: OwnedLake) -> None:
        self.lake = lake
        self.clock = FakeClock()
        self.owner = lake.embedded(clock=self.clock.owner_clock())
        self.a, self.b = created(lake, self.owner), created(lake, self.owner)
        self.clock.now_ms += 1000

    def rows(self) -> dict[str, tuple[str, int, int]]:
        found = self.owner.database.read(lambda c: c.execute(sa.select(transactions)).all())
        return {row.txn_id: (row.state, row.timestamp_ms, row.pending) for row in found}

    def versions(self) -> list[tuple[int, str]]:
        query = sa.select(commits.c.version, commits.c.state).where(commits.c.version > 0).order_by(commits.c.version)
        return [(row.version, row.state) for row in self.owner.database.read(lambda c: c.execute(query).all())]

    def dying(self, when: str, monkeypatch: pytest.MonkeyPatch) -> Txn:
        """A transaction of both tables whose process ends before or after the step `when`."""
        other = self.lake.embedded(clock=self.clock.owner_clock(holder=dead_holder()))
        txn = Txn(other).write(self.a).write(self.b)
        step = getattr(CommitPipeline, when.partition(" ")[2])

        def dies(*arguments: Any) -> Any:
            if when.startswith("after"):
                step(*arguments)
            raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(CommitPipeline, when.partition(" ")[2], dies)
            # Of a process that is killed nothing is given back.
            patch.setattr(CommitPipeline, "_give_back", lambda *_: None)
            patch.setattr(CommitPipeline, "end", lambda *_: None)
            with pytest.raises(Killed):
                other.commit_transaction(txn.request())
        return txn


@pytest.fixture(params=DATABASES)
def kit(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kit]:
    lake = new_lake(tmp_path, request.param)
    yield Kit(lake)
    lake.close()


def test_a_transaction_has_a_row_until_its_last_commit_is_backfilled(kit: Kit) -> None:
    txn = Txn(kit.owner).write(kit.a).write(kit.b)
    response = txn.commit()
    assert kit.rows() == {txn.txn_id: ("ratified", response.timestamp_ms, 2)}
    kit.owner.backfill_to_version(kit.a.table_id)
    assert kit.rows() == {txn.txn_id: ("ratified", response.timestamp_ms, 1)}
    kit.owner.backfill_to_version(kit.a.table_id)
    assert kit.rows() == {txn.txn_id: ("ratified", response.timestamp_ms, 1)}
    kit.owner.backfill_to_version(kit.b.table_id)
    assert kit.rows() == {}
    assert kit.a.ids()[1:] == kit.b.ids()[1:] == [txn.txn_id]


def test_what_one_was_told_of_the_time_is_forgotten_with_it(kit: Kit) -> None:
    txn = Txn(kit.owner)
    txn.ask()
    assert kit.rows()[txn.txn_id][0] == "open"
    kit.owner.end(txn.txn_id)
    assert kit.rows() == {}


@pytest.mark.parametrize("when", ["before stage", "after stage"])
def test_the_versions_of_the_dead_are_free_in_all_tables_at_once(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    kit.dying(when, monkeypatch)
    assert kit.versions() == [(1, "allocated"), (1, "allocated")]
    assert kit.a.commit(1).commit.version == 1
    assert kit.versions() == [(1, "ratified")]
    assert kit.rows() == {}
    assert Txn(kit.owner).write(kit.b).commit().commits[kit.b.table_id].commit.version == 1


def test_what_the_dead_had_ratified_counts(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    txn = kit.dying("after ratify", monkeypatch)
    assert kit.versions() == [(1, "ratified"), (1, "ratified")]
    again = kit.owner.commit_transaction(txn.request(is_replay=True))
    assert set(again.commits) == {kit.a.table_id, kit.b.table_id}  # type: ignore[union-attr]
    assert kit.a.latest == kit.b.latest == 1


def test_a_transaction_behind_a_version_that_was_given_back_lands_whole(kit: Kit) -> None:
    """Its versions are behind those of somebody who gave up, in one of its tables."""
    dead = kit.lake.embedded(clock=kit.clock.owner_clock(holder=dead_holder()))
    lost = Txn(dead).write(kit.a)
    steps = dead._commits
    assert isinstance(steps.allocate(steps.attempt(lost.request())), VersionsAllocated)
    txn = Txn(kit.owner).write(kit.a, may_move=True).write(kit.b, may_move=True)
    response = txn.commit()
    assert {c.commit.version for c in response.commits.values()} == {1}
    assert kit.a.latest == kit.b.latest == 1


def test_no_table_shows_a_transaction_before_the_others_do(kit: Kit) -> None:
    """Where one of its versions has to wait for another commit, so do all."""
    steps = kit.owner._commits
    first = Txn(kit.owner).write(kit.a, may_move=True)
    second = Txn(kit.owner).write(kit.a, may_move=True).write(kit.b, may_move=True)
    files = []
    for txn in (first, second):
        attempt = steps.attempt(txn.request())
        given = steps.allocate(attempt)
        assert isinstance(given, VersionsAllocated)
        content = content_of(attempt, given)
        steps.stage(content)
        files.append(content.staged)
    steps.ratify(files[1])
    assert (kit.a.latest, kit.b.latest) == (0, 0)
    steps.ratify(files[0])
    assert (kit.a.latest, kit.b.latest) == (2, 1) or (kit.a.latest, kit.b.latest) == (1, 0)
    steps.ratify(files[1])
    assert (kit.a.latest, kit.b.latest) == (2, 1)


def test_what_is_ratified_together_counts_no_sooner_than_what_is_before_it(kit: Kit) -> None:
    """In one batch: a transaction that has to wait in one table, and a commit behind it in the other."""
    steps = kit.owner._commits

    def staged(attempt: Attempt) -> StagedCommits:
        given = steps.allocate(attempt)
        assert isinstance(given, VersionsAllocated)
        content = content_of(attempt, given)
        steps.stage(content)
        return content.staged

    first = staged(steps.single_table_attempt(kit.a.append(1)))
    both = staged(steps.attempt(Txn(kit.owner).write(kit.a, may_move=True).write(kit.b, may_move=True).request()))
    behind = staged(steps.single_table_attempt(kit.b.append(1)))
    assert steps._ratify_batch([behind, both]) == [AwaitingEarlierVersions(1, is_behind_own=True)] * 2
    assert (kit.a.latest, kit.b.latest) == (0, 0)
    assert isinstance(steps._ratify_batch([first])[0], TransactionResponse)
    assert isinstance(steps._ratify_batch([both])[0], TransactionResponse)
    assert (kit.a.latest, kit.b.latest) == (2, 2)


def test_an_owner_opened_anew_goes_on(kit: Kit) -> None:
    Txn(kit.owner).write(kit.a).write(kit.b).commit()
    again: EmbeddedOwner = kit.lake.embedded(clock=kit.clock.owner_clock())
    assert Txn(again).write(kit.a).write(kit.b).commit().timestamp_ms > kit.clock.now_ms - 1
    again.backfill_to_version(kit.a.table_id)
    again.backfill_to_version(kit.b.table_id)
    assert kit.rows() == {}
