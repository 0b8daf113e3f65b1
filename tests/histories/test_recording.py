"""What the recorded runs are judged by besides their histories finds what it is there for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from slackwater.protocol.actions.file_names import commit_name
from tests.histories.checker import check
from tests.histories.history import Outcome
from tests.histories.recording import Recorder, Run, recorded_history
from tests.histories.violations import Kind

FILES = {"t0": "p=a/log0-1.json", "t1": "p=b/row0-1.json"}


class Stage:
    """Two tables, with one transaction over both in their logs, which nobody told of yet."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.record = root / "record"
        self.record.mkdir()
        self.recorder = Recorder(self.record / "p1.jsonl")
        for table, path in FILES.items():
            partition, key = path[2], path[4:8]
            (root / table / "_delta_log").mkdir(parents=True)
            (root / table / path).parent.mkdir()
            content = {"partition": partition, "key": key, "values": ["v"], "stamp_ms": 20}
            (root / table / path).write_bytes(orjson.dumps(content))
            protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
            metadata = {"id": "i", "format": {"provider": "parquet"}, "partitionColumns": [], "configuration": {}}
            metadata["schemaString"] = '{"type":"struct","fields":[]}'
            self.commit(table, 0, "created", 10, protocol, {"metaData": metadata})
            add = {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
            self.commit(table, 1, "x", 20, {"add": add})

    def commit(self, table: str, version: int, txn_id: str, stamp_ms: int, *actions: Any) -> None:
        info = {"commitInfo": {"timestamp": stamp_ms, "inCommitTimestamp": stamp_ms, "txnId": txn_id}}
        lines = b"".join(orjson.dumps(action) + b"\n" for action in (info, *actions))
        (self.root / table / "_delta_log" / commit_name(version)).write_bytes(lines)

    def tried(self, identity: str = "x", **more: Any) -> None:
        operations = [("append", "t0", "a", "log0", "v"), ("append", "t1", "b", "row0", "v")]
        event = {
            "client": "c", "order": 1, "begin": 1.0, "is_joint": True, "has_locks": False, "operations": operations,
            "stamps": [20], "asked": [], "files": list(FILES.items()), "owner_time_ms": 15,
        }  # fmt: skip
        self.recorder.tell("tries", id=identity, **{**event, **more})

    def ended(self, outcome: Outcome, **more: Any) -> None:
        event: dict[str, Any] = {
            "end": 2.0,
            "outcome": outcome.value,
            "error": "",
            "timestamp_ms": None,
            "versions": {},
        }
        self.recorder.tell("ends", id="x", **{**event, **more})

    def run(self) -> Run:
        return recorded_history(self.record, self.root, list(FILES))


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


def test_what_became_of_a_client_that_was_killed_is_looked_up_in_the_logs(stage: Stage) -> None:
    stage.tried()
    run = stage.run()
    assert [(t.outcome, t.versions) for t in run.history.transactions] == [(Outcome.UNKNOWN, {"t0": 1, "t1": 1})]
    assert check(run.history) == ()


def test_half_a_line_of_a_client_that_was_killed_is_left_out(stage: Stage) -> None:
    stage.tried()
    with (stage.record / "p1.jsonl").open("ab") as file:
        file.write(b'{"what":"ends","id":"x","outc')
    assert stage.run().counts == {"committed": 0, "aborted": 0, "unknown": 1}


def test_what_was_told_not_to_have_landed_and_did_is_found(stage: Stage) -> None:
    stage.tried()
    stage.ended(Outcome.ABORTED)
    assert {violation.kind for violation in check(stage.run().history)} == {Kind.ABORTED_READ}


def test_rows_that_carry_another_time_than_their_commit_are_found(stage: Stage) -> None:
    stage.tried(stamps=[19])
    stage.ended(Outcome.COMMITTED, timestamp_ms=20, versions={"t0": 1, "t1": 1})
    assert [violation.kind for violation in check(stage.run().history)] == [Kind.ROW_STAMP]


def test_a_part_of_a_transaction_is_found_in_a_state_of_all_tables(stage: Stage) -> None:
    stage.tried()
    for t0, t1 in ((0, 0), (1, 1)):
        stage.recorder.tell("cut", versions={"t0": t0, "t1": t1})
    assert stage.run().torn_cuts() == []
    stage.recorder.tell("cut", versions={"t0": 1, "t1": 0})
    assert len(stage.run().torn_cuts()) == 1


def test_a_table_that_was_never_so_is_found(stage: Stage) -> None:
    stage.tried()
    stage.recorder.tell("sees", table="t0", version=0, paths=[])
    stage.recorder.tell("sees", table="t0", version=1, paths=[FILES["t0"]])
    assert stage.run().wrong_sights() == []
    stage.recorder.tell("sees", table="t1", version=1, paths=[])
    assert len(stage.run().wrong_sights()) == 1


def test_files_that_are_gone_and_files_that_were_left_are_found(stage: Stage) -> None:
    stage.tried()
    assert stage.run().wrong_files() == []
    stage.ended(Outcome.ABORTED)
    assert len(stage.run().wrong_files()) == len(FILES)
    (stage.root / "t0" / "p=a" / "log0-2.json").write_bytes(b'{"partition":"a","key":"log0","values":["w"]}')
    stage.commit("t0", 2, "y", 30, {"add": {"path": "p=a/log0-2.json"}})
    run = stage.run()
    (stage.root / "t0" / "p=a" / "log0-2.json").unlink()
    assert len(run.wrong_files()) == len(FILES) + 1


def test_a_version_that_is_of_another_transaction_is_found(stage: Stage) -> None:
    stage.tried("z")
    stage.recorder.tell(
        "ends", id="z", end=2.0, outcome="committed", error="", timestamp_ms=20, versions={"t0": 1}
    )  # fmt: skip
    assert stage.run().wrong_ids() == ["version 1 of t0 is x's, not z's"]
    stage.commit("t0", 2, "x", 30)
    assert "x is in t0 more than once" in stage.run().wrong_ids()


def test_a_client_that_failed_fails_the_run(stage: Stage) -> None:
    stage.recorder.tell("fails", client="c", trace="Traceback: KeyError")
    with pytest.raises(AssertionError, match="KeyError"):
        stage.run()
