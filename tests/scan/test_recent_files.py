"""Files and statistics of a version are kept for its next query, and say what a new reading says."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import slackwater
from slackwater.errors import CheckpointFallbackWarning
from slackwater.log.checkpoints.write_checkpoint import write_checkpoint
from slackwater.log.compaction import compact_log
from slackwater.log.table import Table
from slackwater.protocol.actions.files import AddFile
from slackwater.scan.pruning import recent_files as kept
from slackwater.scan.pruning.recent_files import RecentFiles
from slackwater.scan.snapshot import Snapshot
from slackwater.stats import file_stats
from slackwater.stats.stats_parsed import read_stats
from slackwater.storage import open_store
from slackwater.transaction.commit.factory import begin

FILES, DAYS = 60, 4
COLUMNS = ("path", "partitionValues", "size", "deletionVector")
CONDITIONS = (
    "id = 31",
    "id >= 40 AND day <> '2026-01-02'",
    "day = '2026-01-03'",
    "day = '2026-01-03' AND id < 20",
    "NOT (id < 50)",
    "day IS NULL OR n.deep > 55",
    "id = 1000",
    "other = 3",
    "day = '1999-01-01' AND id = 1",
)


@pytest.fixture(autouse=True)
def recent(monkeypatch: pytest.MonkeyPatch) -> RecentFiles:
    """An empty set of versions, in which small versions are kept too."""
    monkeypatch.setattr(kept, "FEWEST_FILES", 1)
    found = RecentFiles()
    monkeypatch.setattr(kept, "recent_files", found)
    return found


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of statistics of each parsing."""
    counts: list[int] = []
    original = read_stats

    def counted(texts: pa.Array, leaves: Any) -> pa.Array:
        counts.append(len(texts))
        return original(texts, leaves)

    monkeypatch.setattr(file_stats, "read_stats", counted)
    return counts


def make(root: Path, name: str = "t", checkpoint: bool = True, first: int = 0) -> Path:
    """A table whose file n has the ids from n to n + 1, most of it in a checkpoint."""
    at = root / name
    schema = pa.schema(
        [("id", pa.int64()), ("n", pa.struct([("deep", pa.int64())])), ("other", pa.int64()), ("day", pa.string())]
    )
    slackwater.write(at, schema.empty_table(), partition_by=["day"])
    add(at, range(first, first + FILES))
    if checkpoint:
        write_checkpoint(Snapshot.open(Table.at(at)), 1_700_000_000_000)
    add(at, range(first + FILES, first + FILES + 3))
    return at


def add(at: Path, numbers: range) -> None:
    """Commit files, which need not exist to be planned."""
    transaction = begin(Snapshot.load(at))
    transaction.add([file_of(number) for number in numbers], fresh=True)
    transaction.commit("WRITE")


def file_of(number: int) -> AddFile:
    """File `number`, every fifth one without a partition value."""
    low, high = ({"id": number + more, "n": {"deep": number}} for more in (0, 1))
    nulls = {"id": 0, "n": {"deep": 0}}
    stats = json.dumps({"numRecords": 2, "minValues": low, "maxValues": high, "nullCount": nulls})
    day = None if number % 5 == 4 else f"2026-01-0{number % DAYS + 1}"
    return AddFile(f"part-{number:03}.parquet", {"day": day}, 100 + number, 0, stats=stats)


def planned(snapshot: Snapshot, where: str) -> tuple[list[str], Any]:
    """The paths of the files, and the report."""
    found = snapshot.plan(where, COLUMNS)
    return found.files["path"].to_pylist(), found.report


def newly(at: Path, where: str, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], Any]:
    """The same of a new reading, by the way of a version with few files."""
    with monkeypatch.context() as patch:
        patch.setattr(kept, "FEWEST_FILES", 1 << 62)
        patch.setattr(kept, "recent_files", RecentFiles())
        return planned(Snapshot.load(at), where)


@pytest.mark.parametrize("checkpoint", [True, False])
def test_each_query_has_the_files_of_a_new_reading(
    tmp_path: Path, checkpoint: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = make(tmp_path, checkpoint=checkpoint)
    for where in CONDITIONS * 2:
        assert planned(Snapshot.load(at), where) == newly(at, where, monkeypatch), where
    assert Snapshot.load(at).plan("id = 31", ["path"]).files.column_names == ["path", "partitionValues"]
    found = Snapshot.load(at).files("id = 31", ["size", "modificationTime", "path"])
    assert found.to_pylist() == [
        {"size": 100 + number, "modificationTime": 0, "path": f"part-{number:03}.parquet"} for number in (30, 31)
    ]
    assert Snapshot.load(at).files("id = 31", ["stats"])["stats"].null_count == 0


def test_statistics_are_parsed_once(tmp_path: Path, parsed: list[int]) -> None:
    at = make(tmp_path)
    for number in range(5):
        assert len(planned(Snapshot.load(at), f"id = {number}")[0]) in (1, 2)
    assert parsed == [FILES + 3]
    planned(Snapshot.load(at), "other = 1")
    assert parsed == [FILES + 3] * 2


def test_statistics_of_few_files_are_parsed_alone(tmp_path: Path, parsed: list[int]) -> None:
    at = make(tmp_path)
    of_day = planned(Snapshot.load(at), "day = '2026-01-03'")[0]
    assert not parsed
    planned(Snapshot.load(at), "day = '2026-01-03' AND id = 2")
    assert parsed == [len(of_day)]
    assert len(of_day) * 4 < FILES + 3


def test_a_new_version_is_read_anew(tmp_path: Path) -> None:
    at = make(tmp_path)
    before = Snapshot.load(at)
    assert planned(before, "id > 61")[0] == ["part-061.parquet", "part-062.parquet"]
    add(at, range(70, 71))
    assert planned(Snapshot.load(at), "id > 61")[0] == ["part-061.parquet", "part-062.parquet", "part-070.parquet"]
    assert planned(before, "id > 61")[0] == ["part-061.parquet", "part-062.parquet"]


def test_another_table_at_the_same_place_is_read_anew(tmp_path: Path) -> None:
    at = make(tmp_path)
    assert planned(Snapshot.load(at), "id = 31")[0]
    shutil.rmtree(at)
    make(tmp_path, first=1000)
    assert not planned(Snapshot.load(at), "id = 31")[0]
    # The same table id, sizes and versions, put there at another time.
    log = at / "_delta_log"
    texts = {file: file.read_text() for file in sorted(log.glob("*.json")) if file.name != "_last_checkpoint"}
    for file in log.glob("*.checkpoint*"):
        file.unlink()
    (log / "_last_checkpoint").unlink(missing_ok=True)
    assert planned(Snapshot.load(at), "id = 1031")[0]
    for file, text in texts.items():
        file.write_text(text.replace('\\"id\\": 1', '\\"id\\": 2'))
        os.utime(file, (1, 1))
    assert not planned(Snapshot.load(at), "id = 1031")[0]
    assert planned(Snapshot.load(at), "id = 2031")[0]


def test_a_log_compaction_may_have_the_files_in_another_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = make(tmp_path, checkpoint=False)
    # Files of the first commit once more, so that their newest mention is later.
    transaction = begin(Snapshot.load(at))
    transaction.add([replace(file_of(number), tags={"again": "yes"}) for number in range(FILES // 2)])
    transaction.commit("WRITE")
    add(at, range(100, 101))
    newest = Snapshot.load(at).version
    advanced = Snapshot.load(at)
    assert planned(advanced, "id = 31")[0] == ["part-030.parquet", "part-031.parquet"]
    compact_log(open_store(at), newest - 2, newest - 1)
    for snapshot in (Snapshot.load(at), advanced, Snapshot.load(at)):
        assert planned(snapshot, "n.deep IN (6, 7)")[0] == ["part-006.parquet", "part-007.parquet"]
        tags = snapshot.files("id = 7", ["path", "tags"]).to_pylist()
        assert [(file["path"], file["tags"]) for file in tags] == [
            (f"part-{number:03}.parquet", [("again", "yes")]) for number in (6, 7)
        ]


def test_an_order_that_changed_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = make(tmp_path)
    assert planned(Snapshot.load(at), "id = 31")[0] == ["part-030.parquet", "part-031.parquet"]
    original = Snapshot.live_files

    def reversed_files(self: Snapshot, columns: Sequence[str]) -> pa.Table:
        files = original(self, columns)
        return files.take(list(reversed(range(files.num_rows))))

    monkeypatch.setattr(Snapshot, "live_files", reversed_files)
    assert planned(Snapshot.load(at), "n.deep IN (30, 31)")[0] == ["part-031.parquet", "part-030.parquet"]
    assert Snapshot.load(at).files("id = 31", ["modificationTime", "path", "tags"]).num_rows == 2


def test_a_large_version_pushes_out_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [make(tmp_path, f"t{number}") for number in range(2)]
    recent = RecentFiles()
    monkeypatch.setattr(kept, "recent_files", recent)
    planned(Snapshot.load(places[0]), "id = 31")
    ((files, size),) = recent._versions.values()
    recent._most_bytes = size + 10
    add(places[1], range(200, 400))
    assert len(planned(Snapshot.load(places[1]), "id = 31")[0]) == 2
    assert [found for found, _ in recent._versions.values()] == [files]


def test_a_transaction_sees_its_own_files(tmp_path: Path) -> None:
    with slackwater.LogLake.open(tmp_path) as lake:
        lake.create_table("a", pa.schema([("id", pa.int64())]))
        with lake.transaction() as transaction:
            rows = transaction.table("a")
            for number in range(3):
                rows.append(pa.table({"id": [number]}))
                rows.delete(f"id = {number}")
            rows.append(pa.table({"id": [7]}))
        assert lake.snapshot("a").to_arrow().to_pylist() == [{"id": 7}]


def test_the_memory_of_all_versions_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [make(tmp_path, f"t{number}") for number in range(4)]
    found = RecentFiles(most_bytes=40_000)
    monkeypatch.setattr(kept, "recent_files", found)
    for at in places * 2:
        for where in CONDITIONS:
            planned(Snapshot.load(at), where)
        assert 0 < sum(size for _, size in found._versions.values()) <= 40_000
    assert len(found._versions) < len(places)
    monkeypatch.setattr(kept, "recent_files", RecentFiles(most_bytes=0))
    assert planned(Snapshot.load(places[0]), "id = 31")[0] == ["part-030.parquet", "part-031.parquet"]


def test_a_damaged_checkpoint_is_left_for_the_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = make(tmp_path)
    snapshot = Snapshot.load(at)
    expected = {where: newly(at, where, monkeypatch)[0] for where in CONDITIONS}
    (checkpoint,) = (at / "_delta_log").glob("*.checkpoint.parquet")
    content = bytearray(checkpoint.read_bytes())
    content[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
    checkpoint.write_bytes(content)
    with pytest.warns(CheckpointFallbackWarning):
        assert planned(snapshot, "id = 31")[0] == ["part-030.parquet", "part-031.parquet"]
    for where in CONDITIONS:
        assert sorted(planned(snapshot, where)[0]) == sorted(expected[where])
