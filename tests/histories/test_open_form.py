"""The limits of groups, by the history checker: groups describe transactions, but do not make them serializable."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slackwater import AddFile
from slackwater.errors import DeltaConcurrentModificationException
from slackwater.lake.lake import LogLake
from slackwater.lake.transaction import LogTransaction
from slackwater.log.files.commits import commits_after
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.protocol.actions.transaction_groups import TransactionGroup
from tests.contract.owners import SCHEMA, new_id
from tests.histories.checker import check, require_clean
from tests.histories.history import Append, AsOf, History, Item, Outcome, Read, Transaction
from tests.histories.violations import Kind

TABLES = ("x", "y", "log")
X, Y = Item("x", "", ""), Item("y", "", "")
FEATURE = {"delta.feature.multiTableTransaction-dev": "supported"}


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[LogLake]:
    owner = EmbeddedOwner.open(tmp_path, backfill_delay_s=None)
    with LogLake(owner, owner.root_url) as found:
        for name in TABLES:
            found._create_log(name, SCHEMA, properties=FEATURE)
        yield found


def withdraw(tx: LogTransaction, read: str, written: str) -> None:
    """Read one table, and write the other and the log: a write skew, if two of them do so crosswise."""
    assert tx.snapshot(read).files().num_rows == 0
    for name in (written, "log"):
        log = tx.log(name)
        log.add(AddFile(f"{tx.id}-{new_id()}", {}, 1, 1, stats='{"numRecords":1}'), fresh=True)
        log.commit("WRITE")


def ran(tx: LogTransaction, read: Item, written: Item) -> Transaction:
    """What a committed transaction did, as the checker wants it."""
    told: dict[str, Any] = {"client": tx.id, "order": 0, "begin": 0, "end": 1000, "outcome": Outcome.COMMITTED}
    at_ms = int(tx.commit_timestamp.timestamp() * 1000)
    operations = (Read(read, ()), Append(written, tx.id))
    return Transaction(id=tx.id, operations=operations, commit_timestamp_ms=at_ms, versions=tx.versions, **told)


def groups(lake: LogLake) -> dict[str, dict[int, dict[str, int]]]:
    """The groups in the logs, by the names of the tables."""
    names = {table.table_id: table.name for table in lake.tables()}
    found: dict[str, dict[int, dict[str, int]]] = {}
    for name in TABLES:
        lake.backfill(name)
        for commit in commits_after(lake.snapshot(name).store, 0):
            group = TransactionGroup.among(commit.actions, name)
            assert group is not None
            found.setdefault(name, {})[commit.version] = {names[i]: version for i, version in group.versions.items()}
    return found


def test_whole_groups_under_per_table_checks_alone_have_write_skew(lake: LogLake) -> None:
    # The isolation of the proposal: conflicts of the written tables, and the ratification of the group.
    one, other = lake.transaction(isolation="snapshot"), lake.transaction(isolation="snapshot")
    withdraw(one, "x", "y")
    withdraw(other, "y", "x")
    one.commit()
    other.commit()
    planted = History((ran(one, X, Y), ran(other, Y, X)), final={X: (other.id,), Y: (one.id,)}, groups=groups(lake))
    assert {violation.kind for violation in check(planted)} == {Kind.WRITE_SKEW, Kind.WRITE_UNDER_READ_STAMP}


def test_the_default_isolation_of_the_lake_refuses_the_second(lake: LogLake) -> None:
    one, other = lake.transaction(), lake.transaction()
    withdraw(one, "x", "y")
    withdraw(other, "y", "x")
    one.commit()
    with pytest.raises(DeltaConcurrentModificationException):
        other.commit()
    require_clean(History((ran(one, X, Y),), final={X: (), Y: (one.id,)}, groups=groups(lake)))


def test_groups_whose_tables_have_different_timestamps_are_seen_in_part_by_time(lake: LogLake) -> None:
    with lake.transaction() as tx:
        withdraw(tx, "x", "y")
        log = tx.log("x")
        log.add(AddFile("f", {}, 1, 1, stats='{"numRecords":1}'), fresh=True)
        log.commit("WRITE")
    told: dict[str, Any] = {"client": "c", "order": 0, "begin": 0, "end": 1000, "outcome": Outcome.COMMITTED}
    version = dict.fromkeys(("x", "y", "log"), 1)
    writer = Transaction(id=tx.id, operations=(Append(X, 1), Append(Y, 2)), versions=version, **told)
    final, described = {X: (1,), Y: (2,)}, groups(lake)
    stamps = {name: lake.snapshot(name).timestamp_ms for name in TABLES}
    assert len(set(stamps.values())) == 1
    same = {name: {1: at_ms} for name, at_ms in stamps.items()}
    require_clean(History((writer,), final, logs=same, groups=described))
    # The proposal allows each participant its own in-commit timestamp.
    own = {name: {1: at_ms + number} for number, (name, at_ms) in enumerate(stamps.items())}
    between = AsOf("slice", min(stamps.values()), 0, 0, {X: (1,)})
    kinds = {violation.kind for violation in check(History((writer,), final, (between,), own, groups=described))}
    assert Kind.TABLES_DISAGREE in kinds
    assert Kind.GROUP_DIFFERS not in kinds
