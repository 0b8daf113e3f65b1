"""Transactions of a lake over tables with the feature `multiTableTransaction`: their logs describe the groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import slackwater
from slackwater import AddFile
from slackwater.errors import InvalidArgument, OperationNotAllowed, ProtocolChangedException, UnsupportedFeature
from slackwater.lake.lake import LogLake
from slackwater.lake.transaction import LogTransaction
from slackwater.log.checkpoints.write_checkpoint import write_checkpoint
from slackwater.log.compaction import compact_log
from slackwater.log.files.commits import commits_after
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.protocol.actions.transaction_groups import ACTION, GROUP_TAG, TransactionGroup
from slackwater.protocol.features.table_features import MULTI_TABLE
from slackwater.storage.open import open_store
from slackwater.transaction.commit.factory import begin
from slackwater.transaction.table.alteration import set_properties
from slackwater.transaction.table.feature_removal import drop_feature
from tests.contract.owners import SCHEMA, FakeClock, new_id

PROPERTY = {"delta.feature.multiTableTransaction-dev": "supported"}


class Kit:
    """A lake on a clock that stands still: `a`, `b` and `c` have the feature, `d` is catalog-managed without it."""

    def __init__(self, root: Path) -> None:
        self.clock = FakeClock()
        self.lake = self.opened(root)
        for name in "abc":
            self.lake._create_log(name, SCHEMA, properties=PROPERTY)
        self.lake._create_log("d", SCHEMA, managed="catalogManaged")
        self.later()

    def opened(self, root: Path) -> LogLake:
        owner = EmbeddedOwner.open(root, clock=self.clock.owner_clock(), backfill_delay_s=None)
        return LogLake(owner, owner.root_url)

    def later(self, ms: int = 10) -> None:
        self.clock.now_ms += ms

    def id_of(self, name: str) -> str:
        return self.lake.owner.table(name).table_id

    def location(self, name: str) -> str:
        return self.lake.owner.table(name).location

    def logs(self, name: str) -> dict[int, list[Mapping[str, Any]]]:
        """The actions of each published version."""
        self.lake.backfill(name)
        return {c.version: list(c.actions) for c in commits_after(open_store(self.location(name)), -1)}

    def groups(self, name: str) -> dict[int, TransactionGroup]:
        found = {version: TransactionGroup.among(actions, name) for version, actions in self.logs(name).items()}
        return {version: group for version, group in found.items() if group is not None}


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Kit]:
    found = Kit(tmp_path / "lake")
    yield found
    found.lake.close()


def append(tx: LogTransaction, *names: str) -> None:
    for name in names:
        log = tx.log(name)
        log.add(AddFile(f"{new_id()}.parquet", {}, 1, 1, stats='{"numRecords":1}'), fresh=True)
        log.commit("WRITE")


def alone(kit: Kit, name: str) -> None:
    """A commit to one table, outside of any transaction."""
    transaction = slackwater.Transaction(kit.lake.snapshot(name))
    transaction.add(AddFile(f"{new_id()}.parquet", {}, 1, 1, stats='{"numRecords":1}'))
    transaction.commit("WRITE")


def test_each_log_has_the_group_with_all_participants(kit: Kit) -> None:
    alone(kit, "b")
    with kit.lake.transaction() as tx:
        append(tx, "a", "b")
    expected = TransactionGroup.of(tx.id, {kit.id_of("a"): 1, kit.id_of("b"): 2}, kit.lake.owner.owner_id)
    assert kit.groups("a") == {1: expected}
    assert kit.groups("b") == {2: expected}
    for name, version in (("a", 1), ("b", 2)):
        info = kit.logs(name)[version][0]["commitInfo"]
        assert (info["tags"][GROUP_TAG], info["txnId"]) == (tx.id, tx.id)
    # The tables that a transaction only reads are no participants.
    assert kit.groups("c") == {}


def test_a_transaction_rebased_onto_other_commits_describes_its_final_versions(kit: Kit) -> None:
    tx = kit.lake.transaction()
    append(tx, "a", "b")
    for _ in range(3):
        alone(kit, "a")
    tx.commit()
    assert tx.versions == {"a": 4, "b": 1}
    assert kit.groups("a")[4].versions == {kit.id_of("a"): 4, kit.id_of("b"): 1}
    assert kit.groups("b")[1] == kit.groups("a")[4]


def test_a_transaction_that_writes_one_table_has_no_group(kit: Kit) -> None:
    with kit.lake.transaction() as tx:
        tx.snapshot("b")
        append(tx, "a")
    alone(kit, "a")
    assert kit.groups("a") == {}
    assert "tags" not in kit.logs("a")[1][0]["commitInfo"]


def test_a_table_that_is_only_read_needs_no_feature(kit: Kit) -> None:
    with kit.lake.transaction() as tx:
        tx.snapshot("d")
        append(tx, "a", "b")
    assert kit.groups("a")[1].versions.keys() == {kit.id_of("a"), kit.id_of("b")}


def test_tables_without_the_feature_commit_without_groups(kit: Kit) -> None:
    kit.lake._create_log("e", SCHEMA)
    with kit.lake.transaction() as tx:
        append(tx, "d", "e")
    assert kit.groups("d") == kit.groups("e") == {}


def test_a_table_without_the_feature_is_not_written_with_one_that_has_it(kit: Kit) -> None:
    kit.lake._create_log("e", SCHEMA, managed="managedCommit")
    for other in ("d", "e"):
        lacks = rf"{MULTI_TABLE}, but {other} does not. Set delta\.feature"
        with pytest.raises(OperationNotAllowed, match=lacks), kit.lake.transaction() as tx:
            append(tx, "a", other)
        assert (kit.lake.snapshot("a").version, kit.lake.snapshot(other).version) == (0, 0)
    # The files were deleted with the transaction.
    with kit.lake.transaction() as tx:
        append(tx, "a")


def add_feature(kit: Kit, name: str) -> None:
    snapshot = kit.lake.snapshot(name)
    set_properties(snapshot, PROPERTY).commit(begin(snapshot))


def test_the_feature_added_during_a_transaction_counts_at_its_commit(kit: Kit) -> None:
    kit.lake._create_log("e", SCHEMA, managed="catalogManaged")
    tx = kit.lake.transaction()
    append(tx, "d", "e")
    add_feature(kit, "d")
    with pytest.raises(OperationNotAllowed, match=f"table d supports {MULTI_TABLE}, but e does not"):
        tx.commit()
    tx = kit.lake.transaction()
    append(tx, "d", "e")
    add_feature(kit, "e")
    with pytest.raises(OperationNotAllowed):
        tx.commit()
    drop_feature(kit.lake.snapshot("d"), MULTI_TABLE)
    drop_feature(kit.lake.snapshot("e"), MULTI_TABLE)
    tx = kit.lake.transaction()
    append(tx, "d", "e")
    add_feature(kit, "d")
    add_feature(kit, "e")
    tx.commit()
    assert tx.versions == {"d": 4, "e": 4}
    assert kit.groups("d")[4] == kit.groups("e")[4]


def test_the_feature_dropped_during_a_transaction_is_a_conflict(kit: Kit) -> None:
    tx = kit.lake.transaction()
    append(tx, "a", "b")
    drop_feature(kit.lake.snapshot("b"), MULTI_TABLE)
    with pytest.raises(ProtocolChangedException):
        tx.commit()
    assert kit.groups("a") == {}


def test_a_transaction_that_adds_the_feature_itself_describes_its_group(kit: Kit) -> None:
    with kit.lake.transaction() as tx:
        append(tx, "a")
        log = tx.reading("d").snapshot
        set_properties(log, PROPERTY).commit(begin(log))
    assert kit.groups("d")[1] == kit.groups("a")[1]


def test_readers_and_maintenance_ignore_the_action(kit: Kit) -> None:
    with kit.lake.transaction() as tx:
        append(tx, "a", "b")
    alone(kit, "a")
    kit.lake.backfill("a")
    snapshot = kit.lake.snapshot("a")
    assert snapshot.files().num_rows == 2
    store = open_store(kit.location("a"))
    write_checkpoint(snapshot, kit.clock.now_ms)
    compact_log(store, 0, 2)
    names = [
        meta.path for meta in store.list_from("_delta_log") if ".checkpoint" in meta.path or ".compacted" in meta.path
    ]
    assert len(names) == 2
    for name in names:
        assert ACTION.encode() not in store.read(name)
    assert kit.lake.snapshot("a").files().num_rows == 2
    published = slackwater.Snapshot.load(kit.location("a"), published_only=True)
    assert published.files().num_rows == 2


def test_another_lake_is_named_in_a_list(kit: Kit) -> None:
    with pytest.raises(
        InvalidArgument, match=r"others is a list of open lakes, found 'a' in it\. Pass others=\[lake\]"
    ):
        kit.lake.transaction(others=kit.lake)  # type: ignore[arg-type]


def test_a_transaction_over_several_lakes_is_refused_if_both_are_written(kit: Kit, tmp_path: Path) -> None:
    with kit.opened(tmp_path / "other") as other:
        other._create_log("x", SCHEMA, properties=PROPERTY)
        kit.later()
        both = kit.lake.transaction(others=[other])
        with pytest.raises(UnsupportedFeature, match=r"allows one catalog.*2 lakes"), both as tx:
            append(tx, "a", "x")
        assert (kit.lake.snapshot("a").version, other.snapshot("x").version) == (0, 0)
        # A lake that is only read is no participant.
        with kit.lake.transaction(others=[other]) as tx:
            tx.snapshot("x")
            append(tx, "a", "b")
        group = TransactionGroup.of(tx.id, {kit.id_of("a"): 1, kit.id_of("b"): 1}, kit.lake.owner.owner_id)
        assert kit.groups("a") == kit.groups("b") == {1: group}
        # The other way round: the coordinator is only read.
        with other.transaction(others=[kit.lake]) as tx:
            tx.snapshot("x")
            append(tx, "b", "c")
        assert kit.groups("c")[1].transaction_id == tx.id
        assert kit.groups("c")[1] == kit.groups("b")[2]


def test_a_restore_of_all_tables_describes_its_group(kit: Kit) -> None:
    with kit.lake.transaction() as tx:
        append(tx, "a", "b")
    kit.later(1000)
    with kit.lake.transaction() as later:
        append(later, "a", "b")
    kit.later(1000)
    kit.lake.restore(tx.commit_timestamp, ["a", "b"])
    assert kit.groups("a")[3].versions == {kit.id_of("a"): 3, kit.id_of("b"): 3}
