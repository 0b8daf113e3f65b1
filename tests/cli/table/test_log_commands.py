"""`slackwater log`: what is done to a log when somebody asks for it."""

from __future__ import annotations

import os
import time
from pathlib import Path

from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.table.feature_removal import drop_feature
from tests.cli.commands import document, lines, run
from tests.transaction.tables import add, append, live, log_files, table


def _log(path: Path, versions: int) -> Snapshot:
    snapshot = table(path=path)
    for number in range(1, versions + 1):
        append(Snapshot.open(snapshot.store), add(f"f{number}"))
    return Snapshot.open(snapshot.store)


def test_a_checkpoint_is_written_when_it_is_asked_for(tmp_path: Path) -> None:
    snapshot = _log(tmp_path / "t", 3)
    told = document("log", "checkpoint", str(tmp_path / "t"))
    assert (told["version"], told["files"]) == (3, 3)
    checkpoint = Snapshot.open(snapshot.store).segment.checkpoint
    assert checkpoint is not None
    assert (checkpoint.version, checkpoint.paths) == (3, (told["path"],))
    again = run("log", "checkpoint", str(tmp_path / "t"))
    assert (again.exit_code, again.stdout) == (0, "")
    assert "checkpoint of version 3" in again.stderr


def test_commits_are_compacted_when_it_is_asked_for(tmp_path: Path) -> None:
    snapshot = _log(tmp_path / "t", 5)
    assert document("log", "compact", str(tmp_path / "t"), "--from", "1", "--to", "3")["path"].endswith(
        f"{1:020d}.{3:020d}.compacted.json"
    )
    found = Snapshot.open(snapshot.store)
    assert [commit.end_version for commit in found.segment.commits] == [0, 3, 4, 5]
    assert found.live_files(["path"]).num_rows == 5


def test_without_a_range_the_commits_after_the_checkpoint_are_compacted(tmp_path: Path) -> None:
    snapshot = _log(tmp_path / "t", 2)
    assert run("log", "checkpoint", str(tmp_path / "t")).exit_code == 0
    refused = run("log", "compact", str(tmp_path / "t"))
    assert refused.exit_code == 1
    assert "no two commits to compact" in refused.stderr
    for name in ("a", "b"):
        append(Snapshot.open(snapshot.store), add(name))
    assert run("log", "compact", str(tmp_path / "t")).exit_code == 0
    assert f"{3:020d}.{4:020d}.compacted.json" in log_files(snapshot.store)
    assert live(snapshot.store) == ["a", "b", "f1", "f2"]


def test_what_is_too_old_is_deleted_when_it_is_asked_for(tmp_path: Path) -> None:
    snapshot = _log(tmp_path / "t", 4)
    assert run("log", "checkpoint", str(tmp_path / "t")).exit_code == 0
    assert document("log", "cleanup", str(tmp_path / "t"))["deleted"] == []
    old_s = time.time() - 60 * 24 * 3600
    for name in log_files(snapshot.store):
        os.utime(tmp_path / "t" / "_delta_log" / name, (old_s, old_s))
    told = document("log", "cleanup", str(tmp_path / "t"))
    assert told["checkpointVersion"] == 4
    assert {name for name in told["deleted"] if name.endswith(".json")} == {
        f"_delta_log/{version:020d}.json" for version in range(4)
    }
    assert not {f"_delta_log/{name}" for name in log_files(snapshot.store)} & set(told["deleted"])
    assert Snapshot.open(snapshot.store).live_files(["path"]).num_rows == 4


def test_a_cleanup_names_the_protected_checkpoints(tmp_path: Path) -> None:
    properties = {"delta.logRetentionDuration": "interval 0 days", "delta.deletedFileRetentionDuration": "0 days"}
    snapshot = table(properties={**properties, "delta.feature.vacuumProtocolCheck": "supported"}, path=tmp_path / "t")
    dropped = drop_feature(append(snapshot, add("a")).snapshot, "vacuumProtocolCheck")
    old_s = time.time() - 60 * 24 * 3600
    for name in log_files(snapshot.store):
        at = old_s if name[:20] < f"{5:020}" else time.time()
        os.utime(tmp_path / "t" / "_delta_log" / name, (at, at))
    assert dropped.version == 5
    told = document("log", "cleanup", str(tmp_path / "t"))
    assert (told["deleted"], told["protectedBeforeVersion"]) == ([], 5)
    shown = run("log", "cleanup", str(tmp_path / "t"))
    assert "checkpoints before version 5 are protected" in shown.stderr


def test_the_commands_are_listed() -> None:
    assert {"checkpoint", "compact", "cleanup"} <= {word for line in lines("log", "--help") for word in line.split()}
