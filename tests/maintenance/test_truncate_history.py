"""A history that is forgotten: what the log says begins with the newest version."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slackwater.errors import OperationNotAllowed, VersionNotFound
from slackwater.log.checkpoints.write_checkpoint import CheckpointLayout, write_checkpoint
from slackwater.log.files.checkpoint import sidecar_paths
from slackwater.log.table import Table
from slackwater.maintenance.truncate_history import truncate_history
from slackwater.protocol.actions.actions import Protocol
from slackwater.scan.snapshot import Snapshot
from tests.lake.test_transaction import Kit
from tests.lake.test_transaction import add as add_to_lake
from tests.transaction.tables import (
    START_MS,
    FakeTime,
    StepStore,
    add,
    append,
    delete,
    live,
    log_files,
    only,
    put_commit,
    table,
)


def test_only_the_newest_version_is_left() -> None:
    snapshot = append(append(table(), add("a")).snapshot, add("b")).snapshot
    deleted = truncate_history(snapshot.table, "why", FakeTime().clock())
    newest = Snapshot.open(snapshot.store)
    assert (newest.version, live(newest.store)) == (3, ["a", "b"])
    assert {name[:20] for name in log_files(newest.store) if name[0].isdigit()} == {f"{3:020}"}
    assert len(deleted) >= 3
    info = only(newest.store, 3, "commitInfo")
    assert (info["operation"], info["userMetadata"]) == ("TRUNCATE HISTORY", "why")
    with pytest.raises(VersionNotFound):
        Snapshot.open(newest.store, 2)
    assert append(newest, add("c")).version == 4


def test_sidecars_of_earlier_checkpoints_go_too() -> None:
    snapshot = append(table(properties={"delta.checkpointPolicy": "v2"}), add("a")).snapshot
    write_checkpoint(snapshot, START_MS, CheckpointLayout.V2)
    before = {name for name in log_files(snapshot.store) if name.startswith("_sidecars/")}
    assert before
    truncate_history(delete(append(snapshot, add("b")).snapshot, "a").snapshot.table, clock=FakeTime().clock())
    newest = Snapshot.open(snapshot.store)
    assert newest.segment.checkpoint is not None
    needed = {path.removeprefix("_delta_log/") for path in sidecar_paths(newest.store, newest.segment.checkpoint)}
    assert live(newest.store) == ["b"]
    assert {name for name in log_files(snapshot.store) if name.startswith("_sidecars/")} == needed
    assert not needed & before


def test_killed_at_any_call_the_table_stays_readable() -> None:
    for last in range(40):
        snapshot = append(append(table(), add("a")).snapshot, add("b")).snapshot
        calls: list[str] = []

        def before(operation: str, path: str, calls: list[str] = calls, last: int = last) -> None:
            calls.append(path)
            if len(calls) > last:
                raise KeyboardInterrupt(operation)

        store: Any = StepStore(snapshot.store, before)
        try:
            truncate_history(Table(store), clock=FakeTime().clock())
        except KeyboardInterrupt:
            assert live(snapshot.store) == ["a", "b"], last
        else:
            break
    else:
        raise AssertionError("it never came to its end")
    assert last > 5


def test_commits_of_an_owner_are_backfilled_first(tmp_path: Path) -> None:
    kit = Kit(tmp_path)
    with kit.lake.transaction() as tx:
        add_to_lake(tx, "a", "f")
    truncate_history(kit.lake.snapshot("a").table)
    assert kit.files("a") == ["f"]
    names = log_files(kit.lake.snapshot("a").store)
    assert {name[:20] for name in names if name[0].isdigit()} == {f"{2:020}"}
    assert not [name for name in names if name.startswith("_commits/")]
    with kit.lake.transaction() as tx:
        add_to_lake(tx, "a", "g")
    assert kit.files("a") == ["f", "g"]
    kit.lake.close()


def _protecting(before_version: int) -> Snapshot:
    snapshot = table()
    properties = {"delta.requireCheckpointProtectionBeforeVersion": str(before_version)}
    metadata = replace(snapshot.metadata, configuration=properties)
    put_commit(snapshot.store, 1, Protocol(1, 7, None, ("checkpointProtection",)).to_json(), metadata.to_json())
    return snapshot


def test_protected_checkpoints_go_together_with_their_commits() -> None:
    snapshot = _protecting(2)
    truncate_history(Table(snapshot.store), clock=FakeTime().clock())
    assert {name[:20] for name in log_files(snapshot.store) if name[0].isdigit()} == {f"{2:020}"}


def test_protected_checkpoints_at_the_newest_version_are_left_alone() -> None:
    snapshot = _protecting(3)
    with pytest.raises(OperationNotAllowed, match="checkpointProtection protects all checkpoints before version 3"):
        truncate_history(Table(snapshot.store), clock=FakeTime().clock())
    assert Snapshot.open(snapshot.store).version == 1
