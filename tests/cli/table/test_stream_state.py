"""`slackwater stream-state`: recorded queries of Slackwater and of delta-spark, whole and damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slackwater.scan.snapshot import Snapshot
from slackwater.storage import open_store
from slackwater.transaction.log_maintenance import checkpoint_newest
from tests.cli.commands import TOO_NEW, document, error, lines, run, usage_error
from tests.log.tables import TableLog
from tests.streams.checkpoints import RECORDED, copied, cut, set_back

IDS = {
    "ours": ("b3930805-b42b-4be3-bf1b-a39becae8289", "23279bbd-caea-4ac2-8286-463a9ccf6c7e", 948),
    "delta-spark": ("b63914e5-00eb-456a-bbf4-ab3b7fe78e9e", "91ea9f46-802a-485b-9693-b0233c829538", 960),
}


@pytest.fixture(params=list(IDS))
def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The recorded query of one table, by each engine, to be changed."""
    return copied(request.param, tmp_path)


def state(folder: Path, *more: str) -> Any:
    sides = ("--table", str(folder / "source"), "--sink", str(folder / "sink"))
    return document("stream-state", str(folder / "checkpoint"), *sides, *more)


def test_a_query_is_told_with_what_is_left_of_its_table_and_what_its_sink_has(recorded: Path) -> None:
    query_id, table_id, size_bytes = IDS[recorded.name]
    found = state(recorded)
    assert found["checkpoint"] == (recorded / "checkpoint").as_uri()
    assert (found["queryId"], found["nextBatch"], found["repeats"]) == (query_id, 4, None)
    assert found["planned"] == found["done"]
    assert found["done"]["batchId"] == 3
    assert found["done"]["plannedAt"].startswith("2026-11-23T16:")
    (source,) = found["sources"]
    assert source.pop("offset").startswith("{")
    assert source == {
        "source": "0",
        "isDelta": True,
        "tableId": table_id,
        "version": 4,
        "index": -1,
        "isInitialSnapshot": False,
        "problem": None,
        "table": (recorded / "source").as_uri(),
        "behind": {
            "newestVersion": 5,
            "versions": 2,
            "files": 2,
            "bytes": size_bytes,
            "lostVersion": None,
            "tableIsOlder": False,
        },
    }
    assert found["otherTables"] == []
    assert found["sinks"] == [{"table": (recorded / "sink").as_uri(), "version": 3, "batchId": 3, "state": "in step"}]


def test_people_read_lines(recorded: Path) -> None:
    _, table_id, _ = IDS[recorded.name]
    cut(recorded, planned=2, done=1)
    set_back(recorded / "sink", 2)
    found = lines(
        "stream-state",
        str(recorded / "checkpoint"),
        *("--table", str(recorded / "source"), "--sink", str(recorded / "sink")),
    )
    assert found[1].split() == ["query", IDS[recorded.name][0]]
    assert found[2].startswith("planned     batch 2, planned at 2026-11-23T16:")
    assert found[3].startswith("done        batch 1, planned at 2026-11-23T16:")
    assert found[4:6] == ["next start  batch 2, again: it was planned and not done", ""]
    assert found[6].split() == ["source", "is", "at", "behind"]
    place = f"the snapshot of version 2, 2 files of it read, table {table_id}"
    left = state(recorded)["sources"][0]["behind"]
    assert (left["versions"], left["files"]) == (4, 4)
    assert found[7] == f"0       {place}  4 versions, 4 files, {_size(left['bytes'])}; newest is version 5"
    sink = (recorded / "sink").as_uri()
    assert found[8:] == [f"{sink}: holds batch 2 already, which the next start runs again and skips there"]


def _size(size_bytes: int) -> str:
    return f"{size_bytes} ({size_bytes / 1024:.1f} KiB)" if size_bytes >= 1024 else f"{size_bytes} B"


def test_before_the_first_batch_is_done_nothing_is_known_of_where_it_began(recorded: Path) -> None:
    cut(recorded, planned=0, done=None)
    found = state(recorded)
    assert (found["done"], found["nextBatch"], found["repeats"]) == (None, 0, 0)
    (source,) = found["sources"]
    assert (source["version"], source["index"], source["isInitialSnapshot"], source["behind"]) == (2, 0, True, None)
    assert source["table"] == (recorded / "source").as_uri()
    assert "source  will be at" in "\n".join(lines("stream-state", str(recorded / "checkpoint")))


def test_a_query_that_has_planned_nothing_has_no_sources(recorded: Path) -> None:
    cut(recorded, planned=-1, done=None)
    found = state(recorded)
    assert (found["planned"], found["done"], found["sources"], found["nextBatch"]) == (None, None, [], 0)
    assert [each["table"] for each in found["otherTables"]] == [(recorded / "source").as_uri()]
    assert lines("stream-state", str(recorded / "checkpoint"))[2:] == [
        "planned     no batch",
        "done        no batch",
        "next start  batch 0",
    ]


def test_several_tables_are_told_apart_and_other_sources_are_shown() -> None:
    folder = RECORDED / "several"
    tables = [str(folder / name) for name in ("second", "first")]
    checkpoint = str(folder / "checkpoint")
    found = document("stream-state", checkpoint, "--table", tables[0], "--table", tables[1])
    assert [source["isDelta"] for source in found["sources"]] == [True, False, True]
    assert [source["table"] for source in found["sources"]] == [
        (folder / "first").as_uri(),
        None,
        (folder / "second").as_uri(),
    ]
    assert found["sources"][1]["offset"] == '{"logOffset":0}'
    assert found["otherTables"] == []
    assert any(
        line.split("  ")[-1].strip() == 'no Delta table: {"logOffset":0}' for line in lines("stream-state", checkpoint)
    )


def test_a_table_with_another_id_is_said_to_be_of_no_source(recorded: Path) -> None:
    other = recorded / "sink"
    found = document("stream-state", str(recorded / "checkpoint"), "--table", str(other))
    (source,) = found["sources"]
    assert (source["table"], source["behind"]) == (None, None)
    own_id = Snapshot.load(str(other)).metadata.id
    assert found["otherTables"] == [{"table": other.as_uri(), "tableId": own_id}]
    last = lines("stream-state", str(recorded / "checkpoint"), "--table", str(other))[-1]
    assert last == f"{other.as_uri()}: the table with the id {own_id}, which no source reads"


def test_commits_that_were_cleaned_up_before_they_were_read_are_told(recorded: Path) -> None:
    source = str(recorded / "source")
    checkpoint_newest(Snapshot.load(source), 1795452700000)
    open_store(source).delete([f"_delta_log/{version:020d}.json" for version in range(5)])
    left = state(recorded)["sources"][0]["behind"]
    assert (left["versions"], left["files"], left["lostVersion"]) == (2, 1, 4)
    row = lines("stream-state", str(recorded / "checkpoint"), "--table", source)[-1]
    assert row.endswith("newest is version 5; version 4 was cleaned up before it was read")


def test_a_table_that_was_set_back_is_told(recorded: Path) -> None:
    set_back(recorded / "source", 2)
    assert state(recorded)["sources"][0]["behind"]["tableIsOlder"] is True
    row = lines("stream-state", str(recorded / "checkpoint"), "--table", str(recorded / "source"))[-1]
    assert row.endswith("newest is version 2: the table was set back")


@pytest.mark.parametrize(
    ("planned", "done", "version", "kept", "says"),
    [
        (3, 2, 2, "in step", "holds batch 2, the last one that was done"),
        (3, 3, 1, "behind", "holds batch 1 only: it was set back"),
        (1, 1, 3, "ahead", "holds batch 3: the checkpoint was set back, and batches up to that one would be skipped"),
    ],
)
def test_a_sink_that_is_not_where_the_query_is(
    recorded: Path, planned: int, done: int, version: int, kept: str, says: str
) -> None:
    cut(recorded, planned, done)
    set_back(recorded / "sink", version)
    assert [sink["state"] for sink in state(recorded)["sinks"]] == [kept]
    sink = recorded / "sink"
    last = lines("stream-state", str(recorded / "checkpoint"), "--sink", str(sink))[-1]
    assert last.startswith(f"{sink.as_uri()}: {says}")


def test_a_table_that_the_query_never_wrote_holds_nothing_of_it(recorded: Path) -> None:
    source = str(recorded / "source")
    found = document("stream-state", str(recorded / "checkpoint"), "--sink", source)
    assert [(sink["batchId"], sink["state"]) for sink in found["sinks"]] == [(None, "nothing")]
    assert lines("stream-state", str(recorded / "checkpoint"), "--sink", source)[-1].endswith(
        "holds no batch of this query"
    )


def test_an_offset_that_cannot_be_used_is_shown_with_the_reason(recorded: Path) -> None:
    file = recorded / "checkpoint" / "offsets" / "3"
    file.write_text(file.read_text().replace('"sourceVersion"', '"sourceVersion":9,"was"'))
    (source,) = state(recorded)["sources"]
    assert source["isDelta"] is True
    assert "version 9" in source["problem"]
    assert "version 9" in lines("stream-state", str(recorded / "checkpoint"))[-1]


def test_a_checkpoint_in_a_store_of_objects_is_read(recorded: Path) -> None:
    url = f"memory://checkpoints-{recorded.name}"
    store = open_store(url)
    for file in sorted((recorded / "checkpoint").rglob("*")):
        if file.is_file():
            store.put(f"{file.relative_to(recorded / 'checkpoint')}", file.read_bytes())
    found = document("stream-state", url, "--table", str(recorded / "source"))
    assert found == state(recorded) | {"checkpoint": url, "sinks": []}


def test_errors_are_one_plain_line(recorded: Path, tmp_path: Path) -> None:
    assert error("stream-state", str(tmp_path)) == (
        f"error: {tmp_path.as_uri()} is not a checkpoint of a streaming query: it has no file metadata. Name "
        "the directory that the query has as its checkpointLocation"
    )
    checkpoint = str(recorded / "checkpoint")
    assert "is not a Delta table" in error("stream-state", checkpoint, "--table", str(tmp_path))
    assert "is not a Delta table" in error("stream-state", checkpoint, "--sink", str(tmp_path))
    assert "needs reader version 99" in error("stream-state", checkpoint, "--sink", TOO_NEW)
    (recorded / "checkpoint" / "offsets" / "3").write_text("")
    assert error("stream-state", checkpoint).startswith(f"error: {(recorded / 'checkpoint').as_uri()}/offsets/3: ")
    assert "Missing argument" in usage_error("stream-state")


def test_what_stands_in_a_checkpoint_does_not_steer_the_terminal(recorded: Path) -> None:
    (recorded / "checkpoint" / "metadata").write_text('{"id":"a\\u001b[2Jb"}')
    (recorded / "checkpoint" / "offsets" / "3").write_text("v1\n{}\n\x1b[2J[red]x[/red]")
    text = run("stream-state", str(recorded / "checkpoint")).stdout
    assert "\x1b" not in text
    assert "[red]x[/red]" in text


def test_nothing_is_written(recorded: Path) -> None:
    def seen() -> list[tuple[str, bytes]]:
        return [(str(file), file.read_bytes()) for file in sorted(recorded.rglob("*")) if file.is_file()]

    before = seen()
    state(recorded)
    assert seen() == before


def test_a_table_without_commits_of_rows_is_behind_by_versions_only(tmp_path: Path) -> None:
    recorded = copied("ours", tmp_path)
    _, table_id, _ = IDS["ours"]
    set_back(recorded / "source", 3)
    log = TableLog(str(recorded / "source"))
    log.commit(4, {"commitInfo": {"operation": "SET TBLPROPERTIES"}})
    left = state(recorded)["sources"][0]["behind"]
    assert Snapshot.load(str(recorded / "source")).metadata.id == table_id
    assert (left["newestVersion"], left["versions"], left["files"], left["bytes"]) == (4, 1, 0, 0)
