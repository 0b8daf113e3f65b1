"""Metadata cleanup: what goes, what stays, and that a kept version can always be read."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.errors import CorruptTable, MissingCommit, StorageError, VersionNotFound
from slackwater.log.checkpoints.write_checkpoint import CheckpointLayout, write_checkpoint
from slackwater.log.checksum_totals import checksum_of
from slackwater.log.cleanup import LogCleanup, clean_up_log, delete_versions_before
from slackwater.log.compaction import compact_log
from slackwater.log.files.version_checksum import write_version_checksum
from slackwater.log.snapshot import LogSnapshot
from slackwater.protocol.actions.file_names import checkpoint_name, commit_name, crc_name, staged_commit_name
from slackwater.storage.store import ObjectMeta
from tests.examples import examples
from tests.log.checkpoints.test_write_checkpoint import content
from tests.log.tables import SpyStore, TableLog, add, commit_info, metadata, paths, protocol, remove

DAY_MS = 86_400_000
HOUR_MS = 3_600_000
# A midnight in UTC.
TODAY_MS = 20_000 * DAY_MS
UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"
V2 = protocol(3, 7, ["v2Checkpoint"], ["v2Checkpoint"])


class DatedStore(SpyStore):
    """A store in which every file is as old as a test says, else of today."""

    def __init__(self, store: Any) -> None:
        super().__init__(store)
        self.days_ago: dict[str, float] = {}

    def _dated(self, meta: ObjectMeta) -> ObjectMeta:
        name = meta.path.removeprefix("_delta_log/")
        return ObjectMeta(meta.path, meta.size_bytes, TODAY_MS - int(self.days_ago.get(name, 0) * DAY_MS))

    def list_from(self, prefix: str, start_after: str = "", recursive: bool = False) -> list[ObjectMeta]:
        return [self._dated(meta) for meta in self._store.list_from(prefix, start_after, recursive)]

    def head(self, path: str) -> ObjectMeta | None:
        meta = self._store.head(path)
        return None if meta is None else self._dated(meta)


class DatedLog(TableLog):
    """A log whose version v was committed `days[v]` days before TODAY_MS."""

    def __init__(self, days: Sequence[float], configuration: dict[str, str] | None = None) -> None:
        super().__init__()
        self.dated = DatedStore(self.store)
        self.store = self.dated
        for version, age in enumerate(days):
            actions = [V2, metadata(configuration)] if version == 0 else [commit_info(), add(f"f{version}")]
            self.commit(version, *actions)
            self.dated.days_ago[commit_name(version)] = age

    def load(self, version: int | None = None, **options: Any) -> LogSnapshot:
        return LogSnapshot.open(self.store, version)

    def checkpoint(self, *versions: int, layout: CheckpointLayout = CheckpointLayout.V1) -> None:
        for version in versions:
            write_checkpoint(self.load(version), TODAY_MS, layout)

    def clean_up(self, now_ms: int = TODAY_MS) -> LogCleanup:
        """A cleanup after a dry run, which names the same files and deletes none."""
        before = self.names()
        planned = clean_up_log(self.store, self.load(), now_ms, dry_run=True)
        assert self.names() == before
        done = clean_up_log(self.store, self.load(), now_ms)
        assert planned == done
        return done

    def names(self) -> list[str]:
        return [meta.path.removeprefix("_delta_log/") for meta in self.store.list_from("_delta_log", recursive=True)]

    def versions(self) -> list[int]:
        return [int(name[:20]) for name in self.names() if name == f"{name[:20]}.json"]


def test_everything_before_the_checkpoint_of_the_cutoff_goes_and_its_own_commit_stays() -> None:
    log = DatedLog([40, 39, 38, 37, 31, 10, 0])
    log.checkpoint(1, 3, 5)
    done = log.clean_up()
    assert (done.cutoff_version, done.checkpoint_version) == (4, 3)
    gone = [commit_name(0), commit_name(1), checkpoint_name(1), commit_name(2)]
    assert sorted(done.deleted) == sorted(f"_delta_log/{name}" for name in gone)
    assert log.versions() == [3, 4, 5, 6]
    assert [paths(log.load(v)) for v in range(3, 7)] == [[f"f{n}" for n in range(1, v + 1)] for v in range(3, 7)]


def test_the_cutoff_is_a_midnight_and_a_commit_exactly_at_it_is_included() -> None:
    hour = 1 / 24
    log = DatedLog([33, 30 + hour, 30, 30 - hour, 1])
    log.checkpoint(0, 1, 2, 3)
    almost_midnight = TODAY_MS + DAY_MS - 1
    assert log.clean_up(TODAY_MS - 1).cutoff_version == 0
    assert log.clean_up(TODAY_MS).cutoff_version == 2
    assert log.clean_up(almost_midnight).cutoff_version == 2
    assert log.versions() == [2, 3, 4]


@pytest.mark.parametrize(
    ("configuration", "cutoff"),
    [
        ({}, 0),
        ({"delta.logRetentionDuration": "interval 1 week"}, 1),
        ({"delta.logRetentionDuration": "0 days"}, 3),
        ({"delta.enableExpiredLogCleanup": "false"}, None),
    ],
)
def test_the_table_says_how_long_its_log_is_kept(configuration: dict[str, str], cutoff: int | None) -> None:
    log = DatedLog([40, 8, 2, 0], configuration)
    log.checkpoint(0, 1, 2, 3)
    before = log.names()
    done = log.clean_up()
    assert done.cutoff_version == done.checkpoint_version == cutoff
    assert log.versions() == list(range(cutoff or 0, 4))
    if not cutoff:
        assert log.names() == before


def test_a_retention_that_is_no_interval_is_an_error_and_nothing_goes() -> None:
    log = DatedLog([40, 39], {"delta.logRetentionDuration": "soon"})
    log.checkpoint(1)
    with pytest.raises(CorruptTable, match="logRetentionDuration"):
        log.clean_up()
    assert log.versions() == [0, 1]


@pytest.mark.parametrize(("days", "checkpoints"), [([40, 39, 38], []), ([40, 39, 5], [2]), ([5, 4, 3], [1, 2])])
def test_without_a_checkpoint_as_old_as_the_cutoff_everything_stays(days: list[float], checkpoints: list[int]) -> None:
    log = DatedLog(days)
    log.checkpoint(*checkpoints)
    assert log.clean_up().deleted == ()
    assert log.versions() == [0, 1, 2]


def test_times_of_files_that_fall_are_raised_to_the_order_of_versions() -> None:
    # Version 1 was copied later: by its time alone version 2 would look older.
    log = DatedLog([40, 20, 35, 34, 0])
    log.checkpoint(0, 2, 3)
    done = log.clean_up()
    assert (done.cutoff_version, done.checkpoint_version) == (0, 0)
    assert log.versions() == [0, 1, 2, 3, 4]


def test_in_commit_timestamps_count_from_their_enablement_on() -> None:
    enabled = {
        "delta.enableInCommitTimestamps": "true",
        "delta.inCommitTimestampEnablementVersion": "2",
        "delta.inCommitTimestampEnablementTimestamp": str(TODAY_MS - 35 * DAY_MS),
    }
    log = DatedLog([50, 49, 0, 0, 0])
    for version, age in ((2, 35), (3, 32), (4, 1)):
        actions = [protocol(1, 7, writers=["inCommitTimestamp"]), metadata(enabled)] if version == 2 else []
        log.commit(version, commit_info(inCommitTimestamp=TODAY_MS - age * DAY_MS), *actions, add(f"f{version}"))
    log.checkpoint(1, 2, 3)
    done = log.clean_up()
    assert (done.cutoff_version, done.checkpoint_version) == (3, 3)
    assert log.versions() == [3, 4]


def test_checksums_staged_commits_and_compactions_go_with_what_they_belong_to() -> None:
    log = DatedLog([40, 39, 38, 37, 36, 0])
    for version in range(5):
        write_version_checksum(log.store, checksum_of(log.load(version)))
        log.put(staged_commit_name(version, UUID), b"{}")
    log.checkpoint(3)
    for start, end in ((0, 2), (2, 4), (3, 5), (4, 5)):
        compact_log(log.store, start, end)
    log.put(f"{0:020d}.json.gz", b"a kind of file that a newer writer made")
    log.put(".00000000000000000001.json.crc", b"left by a JVM")
    log.put("_last_checkpoint", b"{}")
    log.clean_up()
    kept = [
        *(name for v in (3, 4) for name in (commit_name(v), crc_name(v))),
        staged_commit_name(4, UUID),
        commit_name(5),
        checkpoint_name(3),
        "00000000000000000004.00000000000000000005.compacted.json",
        f"{0:020d}.json.gz",
        "_last_checkpoint",
    ]
    assert sorted(log.names()) == sorted(kept)


def test_a_staged_commit_of_the_kept_version_stays_where_no_other_file_holds_it() -> None:
    log = DatedLog([40, 39, 38, 37, 0])
    log.checkpoint(3)
    for version in (2, 3):
        log.put(staged_commit_name(version, UUID), b"{}")
    log.delete_commits(3)
    assert delete_versions_before(log.store, 3)
    assert sorted(log.names()) == sorted([checkpoint_name(3), staged_commit_name(3, UUID), commit_name(4)])


def test_parts_of_checkpoints_that_are_old_go_too() -> None:
    log = DatedLog([40, 39, 38, 37])
    log.multipart(1, [V2, metadata()], [add("f1")], only=[2])
    log.checkpoint(2)
    log.clean_up()
    assert not [name for name in log.names() if name.startswith(f"{1:020d}")]


def test_compactions_go_first_then_the_oldest_commit_and_checkpoints_last() -> None:
    log = DatedLog([40, 39, 38, 37, 36])
    log.checkpoint(1, 3)
    compact_log(log.store, 1, 2)
    deleted = [path.removeprefix("_delta_log/") for path in log.clean_up().deleted]
    assert "compacted" in deleted[0]
    assert deleted[1:] == [commit_name(0), commit_name(1), commit_name(2), checkpoint_name(1)]


def test_a_checkpoint_that_cannot_be_read_keeps_nothing_but_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    log = DatedLog([40, 39, 38, 37, 0])
    log.checkpoint(1)
    snapshot = log.load()
    log.put(checkpoint_name(3), b"damaged")
    with caplog.at_level(logging.WARNING):
        done = clean_up_log(log.store, snapshot, TODAY_MS)
    assert (done.cutoff_version, done.checkpoint_version) == (3, 1)
    assert checkpoint_name(3) in caplog.text
    assert log.versions() == [1, 2, 3, 4]


@pytest.mark.parametrize("damage", ["gone", "cut short"])
def test_a_checkpoint_whose_sidecar_is_damaged_is_not_relied_upon(damage: str) -> None:
    log = DatedLog([40, 39, 38, 0])
    log.checkpoint(1)
    info = write_checkpoint(log.load(2), TODAY_MS, CheckpointLayout.V2)
    snapshot = log.load()
    if damage == "gone":
        log.store.delete(info.sidecars)
    else:
        log.store.put(info.sidecars[0], log.store.read(info.sidecars[0])[:-9])
    assert clean_up_log(log.store, snapshot, TODAY_MS).checkpoint_version == 1
    assert log.versions() == [1, 2, 3]


def _age(log: DatedLog, days: float, *sidecars: str) -> None:
    for path in sidecars:
        log.dated.days_ago[path.removeprefix("_delta_log/")] = days


def test_sidecars_that_no_checkpoint_refers_to_go_when_they_are_more_than_a_day_old() -> None:
    log = DatedLog([40, 39, 38, 0])
    first = write_checkpoint(log.load(1), TODAY_MS, CheckpointLayout.V2)
    log.commit(2, remove("f1"), add("f2"))
    second = write_checkpoint(log.load(2), TODAY_MS, CheckpointLayout.V2_JSON)
    classic = write_checkpoint(log.load(3), TODAY_MS, CheckpointLayout.V2_CLASSIC)
    orphans = [f"_delta_log/_sidecars/{n}.parquet" for n in ("old", "yesterday", "young")]
    for orphan in orphans:
        log.store.put(orphan, b"of a checkpoint that failed")
    log.put("_sidecars/.old.parquet.crc", b"left by a JVM")
    _age(log, 40, *first.sidecars, *second.sidecars, *classic.sidecars, orphans[0])
    _age(log, 1, orphans[1])
    _age(log, 0.9, orphans[2])
    done = log.clean_up(TODAY_MS + HOUR_MS)
    assert set(first.sidecars) | {orphans[0]} <= set(done.deleted)
    kept = {path for path in log.names() if path.startswith("_sidecars/")}
    expected = {*second.sidecars, *classic.sidecars, *orphans[1:]}
    assert kept == {path.removeprefix("_delta_log/") for path in expected}
    assert paths(log.load()) == ["f2", "f3"]


def test_sidecars_go_even_where_no_commit_has_expired() -> None:
    log = DatedLog([3, 2, 1])
    log.store.put("_delta_log/_sidecars/orphan.parquet", b"")
    _age(log, 3, "_delta_log/_sidecars/orphan.parquet")
    assert log.clean_up() == LogCleanup(("_delta_log/_sidecars/orphan.parquet",), None, None)


def test_no_sidecar_goes_while_a_checkpoint_cannot_be_read(caplog: pytest.LogCaptureFixture) -> None:
    log = DatedLog([3, 2, 1])
    log.store.put("_delta_log/_sidecars/orphan.parquet", b"")
    _age(log, 3, "_delta_log/_sidecars/orphan.parquet")
    log.put(checkpoint_name(1), b"damaged")
    snapshot = log.load(0)
    with caplog.at_level(logging.WARNING):
        assert clean_up_log(log.store, snapshot, TODAY_MS).deleted == ()
    assert checkpoint_name(1) in caplog.text


def test_a_second_cleanup_finds_nothing_to_do() -> None:
    log = DatedLog([40, 39, 38, 37, 0])
    log.checkpoint(1, 3, layout=CheckpointLayout.V2)
    assert log.clean_up().deleted
    again = log.clean_up()
    assert (again.deleted, again.checkpoint_version) == ((), 3)


def test_versions_behind_the_snapshot_are_left_alone() -> None:
    log = DatedLog([40, 39, 38, 37])
    log.checkpoint(1, 3)
    assert clean_up_log(log.store, log.load(2), TODAY_MS).checkpoint_version == 1


# Protected checkpoints.

PROTECTING = protocol(3, 7, ["v2Checkpoint"], ["v2Checkpoint", "checkpointProtection"])


def _protecting(days: list[float], before_version: int) -> DatedLog:
    log = DatedLog(days, {"delta.requireCheckpointProtectionBeforeVersion": str(before_version)})
    settings = log.load().configuration.metadata.to_json()
    log.commit(len(days), PROTECTING, settings)
    return log


def test_protected_versions_go_in_one_cleanup_or_not_at_all(caplog: pytest.LogCaptureFixture) -> None:
    log = _protecting([40, 39, 38, 37, 0, 0], 4)
    log.checkpoint(2, 3)
    log.store.put("_delta_log/_sidecars/orphan.parquet", b"")
    _age(log, 40, "_delta_log/_sidecars/orphan.parquet")
    before = log.names()
    with caplog.at_level(logging.INFO):
        done = log.clean_up()
    assert done == LogCleanup((), 3, 3, 4)
    assert "Checkpoints before version 4 are protected" in caplog.text
    assert log.names() == before


@pytest.mark.parametrize("boundary", [3, 2, 0])
def test_protected_versions_go_once_all_of_them_have_expired(boundary: int) -> None:
    log = _protecting([40, 39, 38, 37, 0], boundary)
    log.checkpoint(1, 3)
    done = log.clean_up()
    assert (done.checkpoint_version, done.protected_before) == (3, None)
    assert log.versions() == [3, 4, 5]


def test_later_cleanups_of_a_truncated_log_are_free() -> None:
    log = _protecting([60, 59, 58, 57, 40, 39, 0], 2)
    log.checkpoint(2, 5)
    delete_versions_before(log.store, 2)
    assert log.clean_up().checkpoint_version == 5
    # A boundary above the log protects nothing before it is reached, and then everything.
    log = _protecting([60, 59, 58, 57, 40, 39, 0], 9)
    log.checkpoint(2, 5)
    delete_versions_before(log.store, 2)
    assert log.clean_up().protected_before == 9


def test_commits_go_before_the_checkpoints_that_hide_them() -> None:
    log = _protecting([40, 39, 38, 37, 0], 3)
    log.checkpoint(0, 1, 2, 3)
    log.checkpoint(1, layout=CheckpointLayout.V2)
    deleted = [path.removeprefix("_delta_log/") for path in log.clean_up().deleted]
    kinds = ["checkpoint" if "checkpoint" in name else "commit" for name in deleted if not name.startswith("_")]
    assert kinds == ["commit"] * 3 + ["checkpoint"] * 4


def test_the_last_commit_and_the_first_checkpoint_are_never_in_one_request() -> None:
    log = _protecting([40, 39, 38, 37, 0], 3)
    log.checkpoint(1, 3)
    requests: list[list[str]] = []

    class Recording(DatedStore):
        def delete(self, paths: Sequence[str]) -> None:
            requests.append(list(paths))
            self._store.delete(paths)

    store = Recording(log.dated._store)
    store.days_ago = log.dated.days_ago
    clean_up_log(store, log.load(), TODAY_MS)
    assert [["checkpoint" in path for path in request] for request in requests if request] == [[False] * 3, [True]]


class CrashingStore(DatedStore):
    """A store that deletes object by object, and no more than `left` of them."""

    def __init__(self, store: DatedStore, left: int) -> None:
        super().__init__(store._store)
        self.days_ago = store.days_ago
        self._left = left

    def delete(self, paths: Sequence[str]) -> None:
        for path in paths:
            if self._left == 0:
                raise StorageError("killed")
            self._left -= 1
            self._store.delete([path])


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_killed_after_any_deletion_every_kept_version_reads_the_same_and_the_next_run_completes(
    data: st.DataObject,
) -> None:
    ages = sorted(data.draw(st.lists(st.integers(0, 60), min_size=2, max_size=8)), reverse=True)
    log = DatedLog(ages)
    versions = st.sets(st.integers(0, len(ages) - 1))
    for layout in (CheckpointLayout.V1, CheckpointLayout.V2):
        log.checkpoint(*sorted(data.draw(versions, label=layout.value)), layout=layout)
    for start in sorted(data.draw(versions, label="compactions")):
        if start + 1 < len(ages):
            compact_log(log.store, start, data.draw(st.integers(start + 1, len(ages) - 1)))
    before = {version: content(log.load(version)) for version in range(len(ages))}
    kill = data.draw(st.integers(0, 12), label="killed after")
    try:
        first = clean_up_log(CrashingStore(log.dated, kill), log.load(), TODAY_MS)
    except StorageError:
        first = None
    readable = []
    for version, expected in before.items():
        # A version that is on its way out may be gone, and is never shown otherwise than it was.
        with contextlib.suppress(VersionNotFound, MissingCommit):
            assert content(log.load(version)) == expected
            readable.append(version)
    done = log.clean_up()
    assert done.checkpoint_version == (first or done).checkpoint_version
    kept = done.checkpoint_version or 0
    assert set(range(kept, len(ages))) <= set(readable)
    assert log.versions() == list(range(kept, len(ages)))
    assert all(content(log.load(version)) == before[version] for version in range(kept, len(ages)))


def test_a_local_table_is_cleaned_up_by_the_times_of_its_files(tmp_path: Path) -> None:
    log = TableLog(str(tmp_path / "t")).create().grow(5)
    write_checkpoint(log.load(3), TODAY_MS)
    for version, age in enumerate((40, 39, 38, 37, 36, 0)):
        seconds = (TODAY_MS - age * DAY_MS) / 1000
        os.utime(tmp_path / "t" / "_delta_log" / commit_name(version), (seconds, seconds))
    done = clean_up_log(log.store, log.load(), TODAY_MS)
    assert (done.cutoff_version, done.checkpoint_version, len(done.deleted)) == (4, 3, 3)
    assert paths(log.load()) == ["f1", "f2", "f3", "f4", "f5"]
