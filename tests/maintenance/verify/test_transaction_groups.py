"""`verify` of tables with multi-table transactions: each group is in the logs of all its participants."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from slackwater.lake.lake import LogLake
from slackwater.log.checkpoints.write_checkpoint import write_checkpoint
from slackwater.log.cleanup import delete_versions_before
from slackwater.log.table import Table
from slackwater.maintenance.verify.findings import Fault, FaultKind, Verification
from slackwater.maintenance.verify.verify import verify
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.protocol.actions.transaction_groups import ACTION, TransactionGroup
from slackwater.transaction.clock import Clock
from tests.contract.owners import SCHEMA, new_id

PROPERTY = {"delta.feature.multiTableTransaction-dev": "supported"}


class Kit:
    """A lake with the tables `a`, `b` and `c`, whose versions 1 are one transaction over `a` and `b`."""

    def __init__(self, root: Path) -> None:
        owner = EmbeddedOwner.open(root, backfill_delay_s=None)
        self.lake = LogLake(owner, owner.root_url)
        for name in "abc":
            self.lake._create_log(name, SCHEMA, properties=PROPERTY)
        self.txn_id = self.commit("a", "b")

    def commit(self, *names: str) -> str:
        with self.lake.transaction() as tx:
            for name in names:
                log = tx.log(name)
                log.set_transaction(new_id(), 1)
                log.commit("WRITE")
        return tx.id

    def log(self, name: str) -> Path:
        return Path(self.lake._table_of(self.lake.owner.table(name)).location) / "_delta_log"

    def edit(self, name: str, version: int, change: Callable[[list[dict[str, Any]]], object]) -> None:
        """Change a commit of the table, published and staged."""
        self.lake.backfill(name)
        for path in (
            self.log(name) / f"{version:020d}.json",
            *self.log(name).glob(f"_staged_commits/{version:020d}.*"),
        ):
            actions = [orjson.loads(line) for line in path.read_bytes().splitlines()]
            change(actions)
            path.write_bytes(b"".join(orjson.dumps(action) + b"\n" for action in actions))

    def of(self, table_id: str) -> tuple[str, Table] | None:
        known = {each.table_id: each for each in self.lake.tables()}
        return (known[table_id].name, self.lake._table_of(known[table_id])) if table_id in known else None

    def verify(self, name: str, with_lake: bool = True) -> Verification:
        return verify(self.lake._table_of(self.lake.owner.table(name)), participant_of=self.of if with_lake else None)

    def faults(self, name: str) -> list[Fault]:
        return [fault for fault in self.verify(name).faults if fault.kind is FaultKind.GROUP]

    def fault(self, name: str) -> str:
        (fault,) = self.faults(name)
        return f"{fault.where}: {fault.says}"


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Kit]:
    found = Kit(tmp_path / "lake")
    yield found
    found.lake.close()


def group_of(actions: list[dict[str, Any]]) -> dict[str, Any]:
    return next(action[ACTION] for action in actions if ACTION in action)


def test_whole_groups_have_no_fault_whether_published_or_not(kit: Kit) -> None:
    for name, number in (("a", 1), ("b", 1), ("c", 0)):
        found = kit.verify(name)
        assert (found.faults, found.notes) == ((), ())
        assert found.looked_at.get("multi-table transactions", 0) == number
    kit.lake.backfill("a")
    assert kit.verify("a").faults == kit.verify("b").faults == ()


def test_without_the_lake_the_other_tables_are_not_compared(kit: Kit) -> None:
    found = kit.verify("a", with_lake=False)
    assert found.faults == ()
    assert "whose other tables were not checked. Name the lake with --lake" in found.notes[0]
    assert kit.verify("c", with_lake=False).notes == ()


def test_a_participant_without_the_transaction_is_a_fault(kit: Kit) -> None:
    def without(actions: list[dict[str, Any]]) -> None:
        actions[:] = [action for action in actions if ACTION not in action]

    kit.edit("b", 1, without)
    says = f"version 1: its transaction {kit.txn_id} is version 1 of table b, but that version is a commit of another"
    assert kit.fault("a").startswith(says)
    assert kit.faults("b") == []


def test_a_participant_whose_version_is_missing_is_a_fault(kit: Kit) -> None:
    later = kit.commit("a", "b")
    kit.lake.backfill("b")
    kit.lake.release("b")
    (kit.log("a").parent.parent / "b" / "_delta_log" / f"{3:020d}.json").unlink()
    (kit.log("a").parent.parent / "b" / "_delta_log" / f"{2:020d}.json").unlink()
    known = Table.at(kit.log("a").parent.parent / "b")
    found = verify(kit.lake._table_of(kit.lake.owner.table("a")), participant_of=lambda _: ("b", known))
    (fault,) = found.faults
    assert (fault.kind, fault.where) == (FaultKind.GROUP, "version 2")
    assert fault.says == f"its transaction {later} is version 2 of table b, but that version is missing"


def test_a_participant_with_other_participants_is_a_fault(kit: Kit) -> None:
    kit.edit("b", 1, lambda actions: group_of(actions)["participants"][0].update(proposedVersion=7))
    assert "is version 1 of table b, which has other participants" in kit.fault("a")


def test_a_group_that_is_not_of_its_commit_is_a_fault(kit: Kit) -> None:
    kit.edit("b", 1, lambda actions: [part.update(proposedVersion=9) for part in group_of(actions)["participants"]])
    says = [fault.says for fault in kit.faults("b")]
    assert says[0] == f"its {ACTION} does not name version 1 of this table"


def test_a_commit_without_the_tag_or_with_a_malformed_group_is_a_fault(kit: Kit) -> None:
    kit.edit("a", 1, lambda actions: actions[0]["commitInfo"].pop("tags", None))
    assert "its tag delta.multiTableTransaction.transactionId is None" in kit.fault("a")
    kit.edit("b", 1, lambda actions: group_of(actions).pop("coordinatingCatalog", None))
    assert "coordinatingCatalog" in kit.fault("b")


def test_a_table_that_left_the_lake_is_a_note(kit: Kit) -> None:
    table_id = kit.lake.owner.table("b").table_id
    kit.lake.drop_table("b")
    found = kit.verify("a")
    assert found.faults == ()
    assert found.notes == (f"the table {table_id} of a transaction is not in the lake, and was not checked",)


def test_versions_removed_by_the_log_cleanup_are_no_fault(kit: Kit) -> None:
    kit.commit("b")
    kit.lake.backfill("b")
    write_checkpoint(kit.lake.snapshot("b"), Clock().now_ms())
    delete_versions_before(kit.lake.snapshot("b").store, 2)
    assert kit.verify("a").faults == ()


def test_a_staged_commit_of_a_group_that_was_not_ratified_is_a_note(kit: Kit) -> None:
    ids = {name: kit.lake.owner.table(name).table_id for name in "ab"}
    for version in (1, 2):
        group = TransactionGroup.of(f"t{version}", {ids["a"]: version, ids["b"]: 5}, kit.lake.owner.owner_id)
        path = kit.log("a") / "_staged_commits" / f"{version:020d}.{new_id()}.json"
        path.write_bytes(orjson.dumps({"commitInfo": {}}) + b"\n" + orjson.dumps(group.to_json()))
    (kit.log("a") / "_staged_commits" / f"{3:020d}.{new_id()}.json").write_bytes(b"{")
    found = kit.verify("a")
    assert found.faults == ()
    one, two = sorted(found.notes)
    assert "is a staged commit of transaction t1 (" in one
    assert "is a staged commit of transaction t2 (" in two
    for version, note in enumerate((one, two), 1):
        assert f"a version {version}" in note
        assert "b version 5" in note
        assert note.endswith(
            "has not been ratified. If its writer crashed, `slackwater lake repair` deletes it after an hour"
        )
    # The commits after the verified version were not read.
    kit.commit("a", "b")
    assert len(verify(kit.lake._table_of(kit.lake.owner.table("a")), 0).notes) == 0
    assert len(kit.verify("a").notes) == 2
    # Only the owner knows whether a later version is ratified.
    assert [note for note in verify(Table.at(kit.log("a").parent)).notes if "t2" in note] == []
