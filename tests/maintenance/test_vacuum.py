"""VACUUM deletes what no retained version needs, and nothing else."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import slackwater.maintenance.vacuum as of_vacuum
from slackwater.errors import InvalidArgument, OperationNotAllowed, StorageRefused, UnsupportedFeature
from slackwater.log.table import Table
from slackwater.maintenance.restore import restore
from slackwater.maintenance.vacuum import VacuumRequest, vacuum
from slackwater.protocol.actions.actions import Protocol
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.store import ObjectMeta
from slackwater.transaction.log_maintenance import checkpoint
from tests.maintenance.aged import AgedTable
from tests.transaction.tables import START_MS, VECTORS, StepStore, add, begin, commit_actions, only, put_commit

FEED = {"delta.enableChangeDataFeed": "true"}
WEEK = 24 * 7


@pytest.fixture
def aged(tmp_path: Path) -> AgedTable:
    return AgedTable(tmp_path / "t")


def _unchecked(table: AgedTable, hours: float = 0, **more: Any) -> tuple[str, ...]:
    return table.vacuum(hours, checks_retention=False, **more).paths


def test_a_file_goes_when_no_version_of_the_last_week_needs_it(aged: AgedTable) -> None:
    aged.at(1).append("a", "b")
    aged.at(2).remove("a")
    assert aged.at(WEEK + 1.9).vacuum().paths == ()
    assert aged.at(WEEK + 2.1).vacuum().paths == ("a",)
    assert aged.files() == ["b"]


def test_the_property_of_the_table_says_how_long(tmp_path: Path) -> None:
    table = AgedTable(tmp_path / "t", {"delta.deletedFileRetentionDuration": "interval 2 hours"})
    table.at(1).append("a", "b")
    table.at(30).remove("a")
    assert table.at(31.9).vacuum().paths == ()
    assert table.at(32.1).vacuum().paths == ("a",)


def test_every_version_that_was_current_in_the_window_reads_as_before(aged: AgedTable) -> None:
    aged.at(1).append("a")
    aged.at(2).remove("a")
    aged.at(3).append("b")
    aged.at(WEEK).append("c")
    aged.at(WEEK + 1).remove("b")
    aged.at(WEEK + 5)
    assert aged.vacuum().paths == ("a",)
    for version in range(aged.snapshot.version + 1):
        needed = set(Snapshot.load(str(aged.root), version).files()["path"].to_pylist())
        assert version == 1 or needed <= set(aged.files()), version


def test_a_removal_counts_from_its_commit_whatever_time_its_writer_said(aged: AgedTable) -> None:
    aged.at(1).append("a", "b")
    # A transaction that ran for days, or a clock that was slow.
    aged.at(WEEK).remove("a", removed_at=1.5)
    assert aged.at(WEEK + 100).vacuum().paths == ()
    assert aged.at(2 * WEEK + 1).vacuum().paths == ("a",)


def test_a_tombstone_is_enough_where_its_commit_was_cleaned_up(aged: AgedTable) -> None:

    aged.at(1).append("a", "b")
    aged.at(20).remove("a")
    version = aged.at(20.1).append("c")
    checkpoint(aged.snapshot, aged.time.now_ms)
    for old in range(version):
        (aged.root / f"_delta_log/{old:020}.json").unlink()
        crc = aged.root / f"_delta_log/{old:020}.crc"
        crc.unlink(missing_ok=True)
    assert aged.at(WEEK + 19).vacuum().paths == ()
    assert aged.at(WEEK + 21).vacuum().paths == ("a",)


def test_a_file_that_came_back_stays(aged: AgedTable) -> None:

    aged.at(1).append("a")
    aged.at(2).remove("a")
    aged.at(3)
    restore(aged.snapshot.table, 1, clock=aged.time.clock())
    aged._committed()
    assert aged.at(3 * WEEK).vacuum().paths == ()


@pytest.mark.parametrize("age", [0.5, 23.5])
def test_a_file_that_the_log_does_not_know_is_a_writers_until_it_is_a_day_old(aged: AgedTable, age: float) -> None:
    aged.at(1).append("a")
    aged.at(10).file("half-written.parquet")
    assert _unchecked(aged.at(10 + age)) == ()
    assert _unchecked(aged.at(34.1)) == ("half-written.parquet",)


def test_what_was_removed_just_now_goes_with_no_retention_and_what_is_being_written_stays(aged: AgedTable) -> None:
    aged.at(1).append("a", "b")
    aged.at(1.2).remove("a")
    aged.at(1.3).file("at-work.parquet")
    assert _unchecked(aged.at(1.4)) == ("a",)
    assert aged.files() == ["at-work.parquet", "b"]
    assert _unchecked(aged.at(1.5), untracked_hours=0) == ("at-work.parquet",)


def test_a_file_that_no_writer_of_tables_names_so_goes_as_soon_as_the_retention_says(aged: AgedTable) -> None:
    aged.at(1).append("a")
    aged.at(1.2)
    for name in ("notes.txt", "part-0.parquet", "vector.bin", "part-1.parquet#1", "a-name-that-tells-nothing"):
        aged.file(name)
    assert _unchecked(aged.at(1.3)) == ("notes.txt",)


def test_deletion_vectors_stay_as_long_as_their_files_and_go_when_they_are_replaced(tmp_path: Path) -> None:
    table = AgedTable(tmp_path / "t", VECTORS)
    table.at(1).append("a")
    table.at(2).delete_rows("a", 1)
    (first,) = [path for path in table.files() if path.endswith(".bin")]
    table.at(3).delete_rows("a", 2)
    assert table.at(WEEK + 2.5).vacuum().paths == ()
    assert table.at(WEEK + 3.5).vacuum().paths == (first,)
    assert len(table.files()) == 2


def test_change_files_go_with_the_versions_whose_changes_they_tell(tmp_path: Path) -> None:
    table = AgedTable(tmp_path / "t", FEED)
    table.at(1).append("a", "b", "c")
    table.at(2).remove("a", change_files=["_change_data/one"])
    table.at(3).remove("b", change_files=["_change_data/two"])
    assert _unchecked(table.at(3.5), 1) == ("_change_data/one", "a")
    assert _unchecked(table.at(4), 0) == ("_change_data/two", "b")


def test_change_files_of_the_last_version_go_with_no_retention(tmp_path: Path) -> None:
    """What was deleted is in them too: who erases it says so with a retention of 0."""
    table = AgedTable(tmp_path / "t", FEED)
    table.at(1).append("a", "b")
    table.at(2).remove("a", change_files=["_change_data/one"])
    assert _unchecked(table.at(2.5)) == ("_change_data/one", "a")


@pytest.mark.parametrize(
    "path",
    [
        "_delta_log/x.tmp",
        "_SUCCESS",
        ".hidden",
        "_temporary/0/x",
        "p=1/.y",
        "_symlink_format_manifest/m",
        ".a/b",
    ],
)
def test_hidden_files_are_somebody_elses(aged: AgedTable, path: str) -> None:
    aged.at(1).file(path)
    assert aged.at(3 * WEEK).vacuum().paths == ()
    assert (aged.root / path).exists()


def test_partitions_may_have_names_that_look_hidden(tmp_path: Path) -> None:
    table = AgedTable(tmp_path / "t", partition_by=["_p"], columns={"id": "long", "_p": "string"})
    table.at(1).append("_p=1/a", "_p=1/b", partition={"_p": "1"})
    table.at(2).remove("_p=1/a")
    table.file("_q=1/c")
    assert table.at(3 * WEEK).vacuum().paths == ("_p=1/a",)


def test_the_staging_of_a_writer_that_was_killed_goes_as_a_whole_when_it_is_old(aged: AgedTable) -> None:
    aged.at(1).file(".slackwater-1/rows/part-0.parquet")
    aged.at(2).file(".slackwater-2/rows/part-0.parquet")
    # Somebody is still writing beside an old file.
    aged.at(30).file(".slackwater-2/rows/part-1.parquet")
    assert _unchecked(aged.at(31)) == (".slackwater-1/rows/part-0.parquet",)
    assert len(aged.files()) == 2
    assert not (aged.root / ".slackwater-1").exists()


def test_directories_of_a_killed_writer_go_whose_files_had_gone_before(aged: AgedTable) -> None:
    aged.at(1).file(".slackwater-1/rows/p=bob/part-0.parquet")
    (aged.root / ".slackwater-1/rows/p=ann/deep").mkdir(parents=True)
    for name in (".slackwater-2", ".slackwater-3"):
        (aged.root / name / "rows/p=eve").mkdir(parents=True)
    for place in (aged.root / ".slackwater-2").rglob("*"):
        os.utime(place, (START_MS / 1000, START_MS / 1000))
    os.utime(aged.root / ".slackwater-2", (START_MS / 1000, START_MS / 1000))
    # Somebody is still at work in the last one.
    os.utime(aged.root / ".slackwater-3/rows", (START_MS / 1000, START_MS / 1000))
    _unchecked(aged.at(31))
    assert [path.name for path in aged.root.glob(".slackwater-*")] == [".slackwater-3"]
    assert (aged.root / ".slackwater-3/rows/p=eve").exists()


def test_bytes_that_a_killed_writer_never_named_go_when_they_are_old(aged: AgedTable) -> None:
    names = [".slackwater-1.tmp", "_delta_log/.slackwater-2.tmp", "p=1/.slackwater-3.tmp"]
    for name in names:
        aged.at(1).file(name)
    aged.at(20).file(".slackwater-4.tmp")
    assert sorted(_unchecked(aged.at(26))) == sorted(names)
    assert [path.name for path in aged.root.rglob(".slackwater-*")] == [".slackwater-4.tmp"]


def test_directories_go_when_nothing_is_left_in_them(tmp_path: Path) -> None:
    """Their names hold values, too."""
    table = AgedTable(tmp_path / "t", partition_by=["p"], columns={"id": "long", "p": "string"})
    table.at(1).append("p=bob/deep/a", partition={"p": "bob"})
    table.append("p=eve/a", "p=eve/b", partition={"p": "eve"})
    (table.root / "p=ann").mkdir()
    table.at(2).remove("p=bob/deep/a", "p=eve/a")
    table.at(2 * WEEK).vacuum()
    assert sorted(path.name for path in table.root.iterdir()) == ["_delta_log", "p=ann", "p=eve"]
    end = only(table.snapshot.store, 5, "commitInfo")
    assert end["operationMetrics"] == {"numDeletedFiles": "2", "numVacuumedDirectories": "2"}


def test_files_outside_the_root_are_not_touched(tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    table = AgedTable(tmp_path / "t")
    other.write_bytes(b"x")
    table.at(1)

    transaction = begin(table.snapshot, table.time)
    transaction.add([add(other.as_uri())])
    table._landed(transaction.commit("WRITE").version)
    table.at(2).remove(other.as_uri())
    assert table.at(3 * WEEK).vacuum().paths == ()
    assert table.at(3 * WEEK).vacuum(lite=True).paths == ()
    assert other.exists()


def test_a_file_that_is_named_by_its_whole_url_stays(aged: AgedTable) -> None:

    aged.at(1).file("a b.parquet")
    transaction = begin(aged.snapshot, aged.time)
    transaction.add([add((aged.root / "a b.parquet").as_uri())])
    aged._landed(transaction.commit("WRITE").version)
    assert aged.at(3 * WEEK).vacuum().paths == ()


def test_names_are_decoded_as_those_of_every_file(aged: AgedTable) -> None:
    aged.at(1).file("a b%.parquet")

    transaction = begin(aged.snapshot, aged.time)
    transaction.add([add("a%20b%25.parquet")])
    aged._landed(transaction.commit("WRITE").version)
    assert aged.at(3 * WEEK).vacuum().paths == ()


def test_a_dry_run_says_what_would_go_and_changes_nothing(aged: AgedTable) -> None:
    aged.at(1).append("a", "b")
    aged.at(2).remove("a")
    version = aged.snapshot.version
    result = aged.at(2 * WEEK).vacuum(dry_run=True)
    assert (result.paths, result.size_bytes, result.dry_run) == (("a",), 100, True)
    assert (aged.snapshot.version, aged.files()) == (version, ["a", "b"])


def test_the_history_tells_of_it_before_and_after(aged: AgedTable) -> None:
    aged.at(1).append("a", "b")
    aged.at(2).remove("a")
    aged.at(2 * WEEK).vacuum(WEEK + 1, user_metadata="why")
    start, end = (only(aged.snapshot.store, version, "commitInfo") for version in (3, 4))
    assert start["operation"] == "VACUUM START"
    assert start["operationMetrics"] == {"numFilesToDelete": "1", "sizeOfDataToDelete": "100"}
    assert start["operationParameters"] == {
        "retentionCheckEnabled": "true",
        "defaultRetentionMillis": str(WEEK * 3_600_000),
        "specifiedRetentionMillis": str((WEEK + 1) * 3_600_000),
    }
    assert (end["operation"], end["operationParameters"]) == ("VACUUM END", {"status": "COMPLETED"})
    assert end["operationMetrics"] == {"numDeletedFiles": "1", "numVacuumedDirectories": "0"}
    assert start["userMetadata"] == end["userMetadata"] == "why"


def test_how_far_the_deletion_is_is_told_before_each_batch(aged: AgedTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_vacuum, "_BATCH_ON_DISK", 2)
    aged.at(1).append("a", "b", "c", "d", "e")
    aged.at(2).remove("a", "b", "c")
    aged.at(2 * WEEK)
    told: list[tuple[int, int, int]] = []
    table = aged.snapshot.table
    for _ in range(2):
        vacuum(table, clock=aged.time.clock(), deleting=lambda *at: told.append((*at, len(aged.files()))))
    assert told == [(0, 3, 5), (2, 3, 3)]


def test_without_logging_the_history_stays(aged: AgedTable) -> None:
    aged.at(1).append("a", "b")
    version = aged.remove("a")
    assert aged.at(2 * WEEK).vacuum(logs=False).paths == ("a",)
    assert aged.snapshot.version == version


def test_a_retention_below_the_tables_is_refused(aged: AgedTable) -> None:
    aged.at(1).append("a")
    with pytest.raises(InvalidArgument, match="retentionDurationCheck"):
        aged.at(2).vacuum(WEEK - 1)
    assert aged.vacuum(WEEK).paths == ()


@pytest.mark.parametrize("hours", [-1, float("nan")])
def test_hours_must_make_sense(aged: AgedTable, hours: float) -> None:
    with pytest.raises(InvalidArgument, match="number of hours"):
        aged.vacuum(hours)
    with pytest.raises(InvalidArgument, match="number of hours"):
        aged.vacuum(untracked_hours=hours)


def test_a_table_that_cannot_be_written_is_not_vacuumed(aged: AgedTable) -> None:
    aged.at(1).append("a")
    aged.remove("a")

    unknown = Protocol(3, 7, ("vacuumProtocolCheck",), ("vacuumProtocolCheck", "ofTomorrow"))
    put_commit(aged.snapshot.store, 3, unknown.to_json())
    with pytest.raises(UnsupportedFeature, match="ofTomorrow"):
        aged.at(3 * WEEK).vacuum(dry_run=True)
    assert aged.files() == ["a"]


def test_what_others_commit_meanwhile_is_looked_at_before_anything_goes(aged: AgedTable) -> None:
    """A file that comes back while the table is listed."""

    aged.at(1).append("a")
    aged.at(2).remove("a")
    aged.at(3 * WEEK)
    done: list[int] = []

    def before(operation: str, path: str) -> None:
        if operation == "put_if_absent" and path.endswith(".json") and not done:
            done.append(restore(aged.snapshot.table, 1, clock=aged.time.clock()).num_restored_files)

    store: Any = StepStore(aged.snapshot.store, before)
    result = vacuum(Table(store), VacuumRequest(), aged.time.clock())
    assert (done, result.paths, aged.files()) == ([1], (), ["a"])


def test_it_goes_on_after_it_was_killed(aged: AgedTable) -> None:

    aged.at(1).append("a", "b", "c")
    aged.at(2).remove("a", "b")
    aged.at(2 * WEEK)

    def before(operation: str, path: str) -> None:
        if operation == "delete" and path == "b":
            (aged.root / "a").unlink()
            raise KeyboardInterrupt

    store: Any = StepStore(aged.snapshot.store, before)
    with pytest.raises(KeyboardInterrupt):
        vacuum(Table(store), VacuumRequest(), aged.time.clock())
    assert aged.files() == ["b", "c"]
    assert aged.vacuum().paths == ("b",)


def test_a_store_that_refuses_is_an_error_and_told_in_the_history(aged: AgedTable) -> None:

    aged.at(1).append("a", "b")
    aged.at(2).remove("a")
    aged.at(2 * WEEK)

    def before(operation: str, path: str) -> None:
        if operation == "delete":
            raise StorageRefused(f"{path} is not for you")

    store: Any = StepStore(aged.snapshot.store, before)
    with pytest.raises(StorageRefused, match="not for you"):
        vacuum(Table(store), VacuumRequest(), aged.time.clock())
    assert only(aged.snapshot.store, 4, "commitInfo")["operationParameters"] == {"status": "FAILED"}
    assert aged.files() == ["a", "b"]


def test_an_inventory_takes_the_place_of_the_listing(aged: AgedTable) -> None:
    aged.at(1).append("a", "b", "c")
    aged.at(2).remove("a", "b")
    aged.at(2 * WEEK)
    assert aged.vacuum(inventory=[ObjectMeta("a", 100, 0), ObjectMeta("c", 100, 0)]).paths == ("a",)
    assert aged.files() == ["b", "c"]


def test_hadoops_checksum_files_go_with_their_files(aged: AgedTable) -> None:
    aged.at(1).append("a", "b")
    aged.file(".a.crc")
    aged.file(".b.crc")
    aged.at(2).remove("a")
    aged.at(2 * WEEK).vacuum()
    assert aged.files() == [".b.crc", "b"]


def test_lite_goes_by_the_log_and_remembers_how_far_it_came(aged: AgedTable) -> None:
    aged.at(1).append("a", "b", "c")
    aged.file("unknown")
    aged.at(2).remove("a")
    aged.at(WEEK).remove("b")
    assert aged.at(WEEK + 3).vacuum(lite=True).paths == ("a",)
    assert aged.files() == ["b", "c", "unknown"]
    assert aged.vacuum(lite=True, dry_run=True).paths == ()
    result = aged.at(2 * WEEK + 1).vacuum(lite=True)
    assert (result.paths, result.size_bytes) == (("b",), 100)


def test_lite_leaves_what_is_needed_again(tmp_path: Path) -> None:
    table = AgedTable(tmp_path / "t", VECTORS)
    table.at(1).append("a", "b")
    table.at(2).remove("a")
    restore(table.at(3).snapshot.table, 1, clock=table.time.clock())
    table._committed()
    table.at(4).delete_rows("b", 1)
    assert table.at(3 * WEEK).vacuum(lite=True).paths == ()


def test_lite_is_refused_where_the_log_does_not_reach_back(aged: AgedTable) -> None:

    aged.at(1).append("a", "b")
    version = aged.at(2).remove("a")
    checkpoint(aged.snapshot, aged.time.now_ms)
    for old in range(version):
        (aged.root / f"_delta_log/{old:020}.json").unlink()
    with pytest.raises(OperationNotAllowed, match="Run a full VACUUM"):
        aged.at(2 * WEEK).vacuum(lite=True)
    assert aged.vacuum().paths == ("a",)
    aged.at(2 * WEEK + 1).remove("b")
    assert aged.at(4 * WEEK).vacuum(lite=True).paths == ("b",)


def test_a_table_that_uniform_shares_with_iceberg_keeps_its_metadata(tmp_path: Path) -> None:
    table = AgedTable(tmp_path / "t")
    table.at(1).file("metadata/v1.metadata.json")
    assert table.at(2).vacuum(dry_run=True).paths == ()
    snapshot = table.snapshot

    shared = replace(
        snapshot.metadata,
        configuration={**snapshot.metadata.configuration, "delta.universalFormat.enabledFormats": "iceberg"},
    )
    assert table.at(2 * WEEK).vacuum(dry_run=True).paths == ("metadata/v1.metadata.json",)
    put_commit(snapshot.store, 1, shared.to_json())
    assert table.vacuum(dry_run=True).paths == ()
    assert commit_actions(snapshot.store, 1)
