"""Staged commits of groups that were never ratified: a repair finds and deletes them by the group's description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
import sqlalchemy as sa

from slackwater.owner.database.schema import commits, tables
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.owner.publish.orphaned_files import GRACE_MS
from slackwater.owner.state.clock import OwnerClock
from slackwater.protocol.actions.file_names import LOG
from slackwater.protocol.actions.transaction_groups import TransactionGroup
from tests.contract.owners import DATABASES, FakeClock, OwnedLake, Table, added, created, new_id, new_lake
from tests.contract.transactions import Txn


class Shelf:
    """Two tables `a` and `b` of an owner."""

    def __init__(self, lake: OwnedLake, **settings: Any) -> None:
        self.clock = FakeClock(OwnerClock().now_ms())
        self.owner: EmbeddedOwner = lake.embedded(clock=self.clock.owner_clock(), **settings)
        self.a, self.b = created(lake, self.owner, "a"), created(lake, self.owner, "b")

    def group(self, a: int, b: int, txn_id: str | None = None) -> TransactionGroup:
        versions = {self.a.table_id: a, self.b.table_id: b}
        return TransactionGroup.of(txn_id or new_id(), versions, self.owner.owner_id)

    def stage(self, group: TransactionGroup, *tables: Table) -> list[str]:
        """The staged files that a crashed writer of a group leaves."""
        names = []
        for table in tables:
            info = {"commitInfo": {"inCommitTimestamp": self.clock.now_ms, "txnId": group.transaction_id}}
            lines = [info, group.to_json(), added()]
            names.append(f"_staged_commits/{group.versions[table.table_id]:020d}.{new_id()}.json")
            table.store.put_if_absent(f"{LOG}/{names[-1]}", b"\n".join(map(orjson.dumps, lines)))
        return names

    def commit(self, group: TransactionGroup) -> None:
        """Have the group committed."""
        txn = Txn(self.owner, group.transaction_id)
        for table in (self.a, self.b):
            txn.write(table, group.to_json(), added())
        response = txn.commit()
        assert {table_id: each.commit.version for table_id, each in response.commits.items()} == group.versions

    def repair(self, name: str) -> list[str]:
        table: Table = getattr(self, name)
        return self.owner.repair(table.table_id)

    def after_grace(self) -> None:
        self.clock.now_ms += 2 * GRACE_MS

    def named(self, versions: Mapping[str, int]) -> str:
        found = {self.a.table_id: "a", self.b.table_id: "b"}
        return ", ".join(f"{found[table_id]} version {version}" for table_id, version in sorted(versions.items()))


@pytest.fixture(params=DATABASES)
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shelf]:
    lake = new_lake(tmp_path, f"{request.param}-embedded-catalogManaged")
    yield Shelf(lake)
    lake.close()


def test_the_repair_of_one_table_deletes_the_staged_commits_of_the_whole_group(shelf: Shelf) -> None:
    group = shelf.group(1, 1)
    shelf.stage(group, shelf.a, shelf.b)
    before = len(shelf.a.staged()), len(shelf.b.staged())
    assert shelf.repair("a") == [], "the writer may still be at work"
    assert (len(shelf.a.staged()), len(shelf.b.staged())) == before == (2, 2)
    shelf.after_grace()
    named = shelf.named(group.versions)
    assert shelf.repair("a") == [
        f"a: 2 staged files of transaction {group.transaction_id} ({named}) were deleted, because no commit needs them"
    ]
    assert (len(shelf.a.staged()), len(shelf.b.staged())) == (1, 1)
    assert shelf.owner.repair() == []


def test_a_participant_whose_table_went_on_is_cleaned_too(shelf: Shelf) -> None:
    group = shelf.group(1, 2)
    orphans = shelf.stage(group, shelf.a, shelf.b)
    others = shelf.stage(shelf.group(7, 2), shelf.b)
    # The table has other commits at the version of the group, and they are published.
    shelf.b.commits(3)
    shelf.owner.backfill_to_version(shelf.b.table_id)
    shelf.after_grace()
    assert len(shelf.repair("a")) == 1
    assert orphans[1] not in shelf.b.staged()
    assert others[0] in shelf.b.staged(), "it is of another transaction"
    assert len(shelf.b.staged()) == 5
    assert shelf.b.commit(4).commit.version == 4


def test_the_ratified_commits_of_a_retried_transaction_stay(shelf: Shelf) -> None:
    txn_id = new_id()
    first = shelf.group(2, 1, txn_id)
    orphans = shelf.stage(first, shelf.a, shelf.b)
    shelf.commit(shelf.group(1, 1, txn_id))
    shelf.owner.backfill_to_version(shelf.b.table_id)
    shelf.after_grace()
    (said,) = [text for text in shelf.repair("a") if "transaction" in text]
    assert said.startswith("a: 2 staged files of transaction")
    assert not {*orphans} & {*shelf.a.staged(), *shelf.b.staged()}
    assert (len(shelf.a.staged()), len(shelf.b.staged())) == (2, 2)


def test_a_second_copy_of_a_ratified_group_is_left_to_the_cleanup_of_the_log(shelf: Shelf) -> None:
    group = shelf.group(1, 1)
    orphans = shelf.stage(group, shelf.a, shelf.b)
    shelf.commit(group)
    shelf.after_grace()
    assert shelf.owner.repair() == ["a: versions 1 to 1 were backfilled", "b: versions 1 to 1 were backfilled"]
    assert {*orphans} <= {*shelf.a.staged(), *shelf.b.staged()}


def test_a_version_without_records_keeps_its_staged_files(tmp_path: Path) -> None:
    lake = new_lake(tmp_path, "sqlite-embedded-catalogManaged")
    shelf = Shelf(lake, rows_kept=1)
    group = shelf.group(1, 2)
    orphans = shelf.stage(group, shelf.a, shelf.b)
    shelf.b.commits(5)
    shelf.owner.backfill_to_version(shelf.b.table_id)
    shelf.after_grace()
    (said,) = shelf.repair("a")
    assert said.startswith("a: 1 staged files of transaction")
    assert orphans[1] in shelf.b.staged()
    lake.close()


def test_a_group_in_the_log_of_another_table_is_kept_where_its_record_was_lost(shelf: Shelf) -> None:
    group = shelf.group(1, 1)
    shelf.commit(group)
    shelf.owner.backfill_to_version(shelf.b.table_id)
    # The database of a backup that is older than the commit.
    one = shelf.a.table_id

    def forget(connection: sa.Connection) -> None:
        connection.execute(sa.delete(commits).where(commits.c.table_id == one, commits.c.version == 1))
        connection.execute(
            sa.update(tables).where(tables.c.table_id == one).values(allocated_version=0, ratified_version=0)
        )

    shelf.owner.database.write(forget)
    shelf.after_grace()
    (said,) = shelf.repair("a")
    assert said.startswith(f"a: transaction {group.transaction_id} ({shelf.named(group.versions)}) is in the log of ")
    assert said.endswith(
        "Its staged files were kept. If the database is older than the tables, run `slackwater lake recover`"
    )
    assert len(shelf.a.staged()) == 2


def test_a_staged_commit_of_a_group_of_other_tables_is_deleted_alone(shelf: Shelf) -> None:
    stranger = TransactionGroup.of(new_id(), {new_id(): 1, new_id(): 1}, new_id())
    info = {"commitInfo": {"txnId": stranger.transaction_id}}
    path = f"{LOG}/_staged_commits/{1:020d}.{new_id()}.json"
    shelf.a.store.put_if_absent(path, b"\n".join(map(orjson.dumps, (info, stranger.to_json()))))
    shelf.a.store.put_if_absent(f"{LOG}/_staged_commits/{2:020d}.{new_id()}.json", b"not json")
    shelf.after_grace()
    said = shelf.repair("a")
    assert said[0].startswith(f"a: 1 staged files of transaction {stranger.transaction_id} (")
    assert said[1:] == ["a: 1 staged files without a record were deleted"]
    assert len(shelf.a.staged()) == 1
