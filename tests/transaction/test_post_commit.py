"""The upkeep of the log after a commit, and that its failure never makes the commit fail."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import pytest

from slackwater.errors import StorageError
from slackwater.log.checksum_totals import checksum_of, has_histograms
from slackwater.log.cleanup import LogCleanup
from slackwater.log.files.last_checkpoint import LAST_CHECKPOINT
from slackwater.log.files.version_checksum import read_version_checksum
from slackwater.log.table import Table
from slackwater.protocol.actions.actions import DomainMetadata
from slackwater.scan.snapshot import Snapshot
from slackwater.storage import ObjectStore
from slackwater.storage.store import ObjectMeta
from slackwater.transaction import post_commit
from slackwater.transaction.commit.transaction import TableTransaction
from slackwater.transaction.commit_result import CommitResult
from slackwater.transaction.committers.filesystem import FilesystemCommitter
from slackwater.transaction.log_maintenance import clean_up
from slackwater.transaction.post_commit import PostCommitHook, is_checkpoint_due
from tests.transaction.tables import (
    START_MS,
    FakeTime,
    StepStore,
    add,
    append,
    begin,
    live,
    log_files,
    only,
    removes,
    set_props,
    table,
    vector,
)

EVERY_TWO = {"delta.checkpointInterval": "2"}


@pytest.fixture
def unspaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints of managed tables may follow one another without a pause."""
    monkeypatch.setattr(post_commit, "_CHECKPOINT_SPACING_MS", 0)


def _begin(snapshot: Snapshot, time: FakeTime | None = None, after: PostCommitHook | None = None) -> TableTransaction:
    return begin(snapshot, time, after=after or PostCommitHook())


def _grow(snapshot: Snapshot, number: int) -> list[CommitResult]:
    results = []
    for _ in range(number):
        transaction = _begin(snapshot)
        transaction.add(add(f"f{snapshot.version + 1}"), fresh=True)
        results.append(transaction.commit("WRITE"))
        snapshot = results[-1].snapshot
    return results


def _is_true(snapshot: Snapshot) -> None:
    """The checksum beside the commit says what the log says when it is read anew."""
    fresh = Snapshot.open(snapshot.store)
    assert fresh.version == snapshot.version
    found = read_version_checksum(snapshot.store, snapshot.version)
    assert found is not None
    assert found.txn_id == only(snapshot.store, snapshot.version, "commitInfo")["txnId"]
    # A snapshot that begins at a checkpoint has not read whose commit that was.
    assert replace(found, txn_id=None) == replace(checksum_of(fresh), txn_id=None)


def test_a_checkpoint_is_written_at_every_interval_and_found_by_the_hint() -> None:
    results = _grow(table(properties={"delta.checkpointInterval": "3"}), 7)
    assert [r.version for r in results if any(u.startswith("checkpoint ") for u in r.upkeep)] == [3, 6]
    assert [name for name in log_files(results[0].store) if name.endswith(".parquet")] == [
        f"{3:020d}.checkpoint.parquet",
        f"{6:020d}.checkpoint.parquet",
    ]
    assert b'"version":6' in results[0].store.read("_delta_log/_last_checkpoint")
    assert not [error for result in results for error in result.upkeep_errors]


def test_the_interval_is_ten_where_nothing_is_said_and_the_first_version_has_no_checkpoint() -> None:
    before = table()
    assert not is_checkpoint_due(0, before.properties)
    results = _grow(before, 10)
    assert ["checkpoint 10" in result.upkeep for result in results] == [False] * 9 + [True]


def test_a_table_that_wants_v2_checkpoints_gets_them() -> None:
    (_, last) = _grow(table(properties={**EVERY_TWO, "delta.checkpointPolicy": "v2"}), 2)
    (name,) = [name for name in log_files(last.store) if ".checkpoint." in name]
    assert len(name.split(".")) == 4
    assert live(last.store) == ["f1", "f2"]


def test_now_and_then_a_v2_checkpoint_has_the_name_that_older_clients_know() -> None:
    every = {"delta.checkpointInterval": "1", "delta.checkpointPolicy": "v2"}
    last = _grow(table(properties=every), 11)[-1]
    classic = [name for name in log_files(last.store) if name.endswith(".checkpoint.parquet")]
    assert classic == [f"{10:020d}.checkpoint.parquet"]
    assert Snapshot.open(last.store, 10).live_files().num_rows == 10


def test_the_chain_of_checksums_says_what_the_log_says() -> None:
    properties = {
        "delta.enableDeletionVectors": "true",
        "delta.enableInCommitTimestamps": "true",
        "delta.enableRowTracking": "true",
        "delta.feature.domainMetadata": "supported",
        **EVERY_TWO,
    }
    before = table(properties=properties)

    def commit(transaction: TableTransaction) -> Snapshot:
        result = transaction.commit("WRITE")
        assert "checksum" in result.upkeep
        assert result.upkeep_errors == ()
        _is_true(result.snapshot)
        return result.snapshot

    one = _begin(before)
    one.add([add("a"), add("b"), add("c")], fresh=True)
    one.set_transaction("app", 1)
    snapshot = commit(one)
    two = _begin(snapshot)
    two.remove(removes(snapshot, "a"))
    two.add(add("a2"), fresh=True)
    two.set_domain(DomainMetadata("com.example.a", "1"))
    snapshot = commit(two)
    three = _begin(snapshot)
    three.remove(removes(snapshot, "b"))
    three.add(add("b", deletion_vector=vector()))
    three.set_transaction("app", 2)
    snapshot = commit(three)
    four = _begin(snapshot)
    four.add([replace(add("c", data_change=False), size=100), add("a")])
    four.set_domain(DomainMetadata("com.example.a", "1", removed=True))
    snapshot = commit(four)
    five = _begin(snapshot)
    five.set_metadata(replace(snapshot.metadata, description="d"))
    snapshot = commit(five)
    assert live(snapshot.store) == ["a", "a2", "b", "c"]


def test_files_that_are_committed_again_by_a_backfill_are_counted_once() -> None:
    before = append(table(), add("a"), add("b")).snapshot
    enabling = _begin(before)
    enabling.add(add("c"), fresh=True)
    enabling.set_metadata(replace(before.metadata, configuration={"delta.enableRowTracking": "true"}))
    snapshot = enabling.commit("SET TBLPROPERTIES").snapshot
    checksum = read_version_checksum(snapshot.store, snapshot.version)
    assert checksum is not None
    assert (checksum.num_files, checksum.table_size_bytes) == (3, 300)
    _is_true(snapshot)


def test_a_chain_that_was_interrupted_starts_anew() -> None:
    before = append(table(), add("a"), add("b")).snapshot
    assert read_version_checksum(before.store, before.version) is None
    transaction = _begin(before)
    transaction.add(add("c"))
    _is_true(transaction.commit("WRITE").snapshot)


@pytest.mark.parametrize("key", ["fileSizeHistogram", "numDeletedRecordsOpt"])
def test_a_checksum_without_histograms_is_completed_while_the_table_is_small(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for most, is_complete in ((10_000, True), (0, False)):
        monkeypatch.setattr(post_commit, "_MOST_FILES_READ_AGAIN", most)
        (first,) = _grow(table(properties={"delta.enableDeletionVectors": "true"}), 1)
        name = f"_delta_log/{1:020d}.crc"
        node = orjson.loads(first.store.read(name))
        lacking = (
            {"numDeletionVectorsOpt", "deletedRecordCountsHistogramOpt"} if key == "numDeletedRecordsOpt" else set()
        )
        first.store.put(name, orjson.dumps({k: v for k, v in node.items() if k not in {key, *lacking}}))
        (second,) = _grow(Snapshot.open(first.store), 1)
        checksum = read_version_checksum(second.store, 2)
        assert checksum is not None
        assert (checksum.num_files, has_histograms(checksum)) == (2, is_complete)


def test_a_checksum_that_is_torn_does_no_harm() -> None:
    (first,) = _grow(table(), 1)
    name = f"_delta_log/{1:020d}.crc"
    first.store.put(name, b'{"numFiles":')
    (second,) = _grow(first.snapshot, 1)
    assert second.upkeep_errors == ()
    _is_true(second.snapshot)


def test_the_checksum_of_a_commit_that_moved_behind_others_counts_theirs() -> None:
    before = append(table(), add("a")).snapshot
    mine = _begin(before)
    mine.add(add("mine"))
    theirs = _begin(before)
    theirs.remove(removes(before, "a"))
    theirs.add([add("b"), add("c")], fresh=True)
    theirs.commit("UPDATE")
    _is_true(mine.commit("WRITE").snapshot)


def test_old_versions_are_cleaned_up_behind_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = table(properties=EVERY_TWO, path=tmp_path / "t")
    *_, last = _grow(snapshot, 5)
    assert log_files(last.store)[0].startswith(f"{0:020d}")
    for name in log_files(last.store):
        if name[0] == "0" and int(name[:20]) <= 4:
            _age(tmp_path / "t" / "_delta_log" / name, days=100)
    monkeypatch.setattr(post_commit, "_cleanups", post_commit._RecentCleanups())
    (after,) = _grow(last.snapshot, 1)
    assert any(done.startswith("cleanup of ") for done in after.upkeep)
    assert log_files(after.store)[0].startswith(f"{4:020d}")
    assert len(live(after.store)) == 6


def test_the_log_is_listed_for_a_cleanup_once_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    times: list[int] = []

    def cleaned(snapshot: Snapshot, now_ms: int) -> LogCleanup:
        times.append(now_ms)
        if len(times) == 1:
            raise StorageError("the store does not answer")
        return clean_up(snapshot, now_ms)

    monkeypatch.setattr(post_commit, "clean_up", cleaned)
    snapshots = [result.snapshot for result in _grow(table(properties={"delta.checkpointInterval": "1"}), 2)]
    # The failed one was done again.
    assert len(times) == 2
    day_ms = 86_400_000
    start_ms = times[-1] - times[-1] % day_ms
    for more_ms, expected in ((0, 2), (day_ms - 1, 2), (day_ms, 3), (2 * day_ms - 1, 3), (2 * day_ms, 4)):
        post_commit._clean_up(snapshots[-1], start_ms + more_ms)
        assert len(times) == expected
    # Without cleanup, nothing is done that a later change of the property would have to do.
    without = table(properties={"delta.enableExpiredLogCleanup": "false"})
    assert post_commit._clean_up(without, start_ms) is None
    assert len(times) == 4
    # Another retention may delete other files.
    shorter = table(properties={"delta.logRetentionDuration": "interval 10 days"})
    post_commit._clean_up(shorter, start_ms)
    post_commit._clean_up(shorter, start_ms)
    assert len(times) == 5


def _age(path: Path, days: int) -> None:
    seconds = START_MS / 1000 - days * 86400
    os.utime(path, (seconds, seconds))


def test_each_part_of_the_upkeep_can_be_left_out() -> None:
    before = table(properties={"delta.checkpointInterval": "1"})
    transaction = _begin(before, after=PostCommitHook(checksums=False, checkpoints=False))
    transaction.add(add("a"))
    assert transaction.commit("WRITE").upkeep == ()
    assert log_files(before.store) == [f"{0:020d}.crc", f"{0:020d}.json", f"{1:020d}.json"]


# Commits that are backfilled some time after they count.


class _Behind(FilesystemCommitter):
    """A committer of whose commits only those up to `published` are taken to be in `_delta_log`."""

    def __init__(self, store: ObjectStore, published: int) -> None:
        super().__init__(store)
        self.published = published

    @property
    def publishes_at_once(self) -> bool:
        return False

    def published_version(self, version: int) -> int:
        return min(version, self.published)


def _next(snapshot: Snapshot, published: int, after: PostCommitHook, time: FakeTime | None = None) -> CommitResult:
    transaction = begin(snapshot, time, committer=_Behind(snapshot.store, published), after=after)
    transaction.add(add(f"f{snapshot.version + 1}"), fresh=True)
    return transaction.commit("WRITE")


@pytest.mark.usefixtures("unspaced")
def test_a_checkpoint_is_of_the_newest_version_that_is_due_and_backfilled() -> None:
    before = _grow(table(properties={"delta.checkpointInterval": "9"}), 5)[-1].snapshot
    before = set_props(before, delta__checkpointInterval="2").snapshot
    results = [_next(before, 5, PostCommitHook())]
    results += [_next(results[-1].snapshot, published, PostCommitHook()) for published in (5, 7, 8, 99)]
    assert [result.version for result in results] == [7, 8, 9, 10, 11]
    assert [result.upkeep for result in results] == [
        ("checkpoint 4",),
        (),
        ("checkpoint 6", "checksum"),
        (),
        ("checkpoint 10", "checksum"),
    ]
    assert not [error for result in results for error in result.upkeep_errors]


def test_checkpoints_of_many_commits_are_spaced_by_time(tmp_path: Path) -> None:
    before = table(properties={"delta.checkpointInterval": "2"}, path=tmp_path / "t")
    hint = tmp_path / "t" / LAST_CHECKPOINT
    done = []
    for version in range(1, 17):
        time = FakeTime()
        if hint.exists():
            # The last checkpoint is of half a second ago, then of 2 seconds ago. The store's clock is a bit ahead, and
            # in the end far ahead.
            at_s = time.now_ms / 1000 - {9: -0.5, 13: 2, 15: -2}.get(version, 0.5)
            os.utime(hint, (at_s, at_s))
        result = _next(before, version, PostCommitHook(checksums=False, cleanup=False), time)
        done += [(version, each) for each in result.upkeep]
        before = result.snapshot
    # The first one does not wait.
    assert done == [(3, "checkpoint 2"), (13, "checkpoint 12"), (15, "checkpoint 14")]


@pytest.mark.parametrize("interval", [2, 10, 200])
def test_a_checkpoint_comes_early_after_very_many_commits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interval: int
) -> None:
    monkeypatch.setattr(post_commit, "_CHECKPOINT_SPACING_MS", 2**50)
    monkeypatch.setattr(post_commit, "_MOST_COMMITS_BETWEEN", 20)
    before = table(properties={"delta.checkpointInterval": str(interval)}, path=tmp_path / "t")
    hint = tmp_path / "t" / LAST_CHECKPOINT
    done = []
    for version in range(1, 250):
        if hint.exists():
            os.utime(hint, (START_MS / 1000, START_MS / 1000))
        result = _next(before, version, PostCommitHook(checksums=False, cleanup=False))
        done += [int(each.split()[1]) for each in result.upkeep]
        before = result.snapshot
    assert done[0] == interval
    # 20 to 30 commits, and up to one interval until the next turn.
    assert all(20 - interval <= later - earlier <= 30 + interval for earlier, later in pairwise(done)), done
    assert len(done) >= (1 if interval == 200 else 5)


def test_a_hint_at_a_later_version_without_a_checkpoint_does_not_count(tmp_path: Path) -> None:
    before = _grow(table(properties={"delta.checkpointInterval": "2"}, path=tmp_path / "t"), 3)[-1].snapshot
    hint, node = tmp_path / "t" / LAST_CHECKPOINT, {"version": 40, "size": 3}
    before.store.put(LAST_CHECKPOINT, orjson.dumps(node))
    os.utime(hint, (START_MS / 1000 - 60, START_MS / 1000 - 60))
    before = _next(before, 3, PostCommitHook(checksums=False)).snapshot
    assert _next(before, 4, PostCommitHook(checksums=False)).upkeep == ("checkpoint 4",)
    assert orjson.loads(before.store.read(LAST_CHECKPOINT))["version"] == 4


def test_a_later_checkpoint_of_another_writer_counts(tmp_path: Path) -> None:
    known = _grow(table(properties={"delta.checkpointInterval": "99"}, path=tmp_path / "t"), 3)[-1].snapshot
    known.store.put(LAST_CHECKPOINT, orjson.dumps({"version": 40, "size": 3}))
    assert post_commit._checkpoint_version(known, 2) == 0
    (tmp_path / "t" / "_delta_log" / f"{40:020d}.checkpoint.parquet").touch()
    assert post_commit._checkpoint_version(known, 2) == 40


@pytest.mark.parametrize("interval", [1, 2, 3, 4, 10, 25])
@pytest.mark.parametrize("stride", [1, 2, 3, 4, 8, 10, 20, 100, 1000])
def test_a_writer_with_a_regular_choice_of_versions_has_a_turn(interval: int, stride: int) -> None:
    for first in range(min(stride, 40)):
        versions = range(first + stride, 60_000 + stride * 500, stride)
        assert any(post_commit._has_turn(version, interval) for version in versions), (interval, first, stride)


@pytest.mark.usefixtures("unspaced")
def test_not_every_concurrent_writer_writes_a_checkpoint_that_is_due() -> None:
    before = table(properties={"delta.checkpointInterval": "8"})
    done = []
    for version in range(1, 17):
        result = _next(before, version - 1, PostCommitHook(checksums=False))
        done += [(version, each) for each in result.upkeep]
        # As if the checkpoints were still being written by the others.
        for name in log_files(result.store):
            if "checkpoint" in name:
                result.store.delete([f"_delta_log/{name}"])
        before = result.snapshot
    # The last one at random.
    assert done == [(9, "checkpoint 8"), (13, "checkpoint 8"), (14, "checkpoint 8")]


def test_a_checkpoint_of_the_version_before_is_written_without_reading_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = _grow(table(properties={"delta.checkpointInterval": "2"}), 1)[-1].snapshot
    second = _next(before, 1, PostCommitHook())

    def opened(*_: object) -> None:
        raise AssertionError("the version is known")

    monkeypatch.setattr(Snapshot, "open", opened)
    assert _next(second.snapshot, 2, PostCommitHook(checksums=False, cleanup=False)).upkeep == ("checkpoint 2",)


def test_a_writer_of_few_commits_writes_a_checkpoint_that_is_long_due() -> None:
    before = _grow(table(properties={"delta.checkpointInterval": "4"}), 3)[-1].snapshot
    for name in [name for name in log_files(before.store) if "checkpoint" in name]:
        before.store.delete([f"_delta_log/{name}"])
    for _ in range(9):
        before = _next(before, 0, PostCommitHook()).snapshot
    assert _next(before, 8, PostCommitHook(checksums=False)).upkeep == ("checkpoint 8",)


@pytest.mark.usefixtures("unspaced")
@pytest.mark.parametrize("cleanup", [True, False])
def test_old_versions_are_cleaned_up_behind_a_checkpoint_of_backfilled_commits(
    tmp_path: Path, cleanup: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _grow(table(properties={"delta.checkpointInterval": "4"}, path=tmp_path / "t"), 8)[-1].snapshot
    for name in [f"{8:020d}.checkpoint.parquet", f"{8:020d}.crc"]:
        before.store.delete([f"_delta_log/{name}"])
    before.store.delete([LAST_CHECKPOINT])
    for name in log_files(before.store):
        if name[0] == "0" and int(name[:20]) < 8:
            _age(tmp_path / "t" / "_delta_log" / name, days=100)
    monkeypatch.setattr(post_commit, "_cleanups", post_commit._RecentCleanups())
    done = _next(before, 8, PostCommitHook(cleanup=cleanup)).upkeep
    assert done[:2] == ("checkpoint 8", "checksum")
    assert [each.startswith("cleanup of ") for each in done[2:]] == [True] * cleanup
    assert log_files(before.store)[0].startswith(f"{4 if cleanup else 0:020d}")


def test_the_first_version_of_a_table_whose_commits_are_backfilled_has_no_checkpoint() -> None:
    assert _next(table(), 99, PostCommitHook()).upkeep == ()


def test_each_part_of_the_upkeep_of_backfilled_commits_can_be_left_out() -> None:
    before = table(properties={"delta.checkpointInterval": "1"})
    first = _next(before, 99, PostCommitHook(checksums=False))
    assert first.upkeep == ("checkpoint 1",)
    assert _next(first.snapshot, 99, PostCommitHook(checkpoints=False)).upkeep == ()


# Failures.


@pytest.mark.parametrize(
    ("operation", "part", "what"),
    [
        ("put_if_absent", ".crc", "the version checksum failed"),
        ("read", ".crc", "the version checksum failed"),
        ("put_file", ".checkpoint.parquet", "the checkpoint failed"),
        ("put", "_last_checkpoint", "the checkpoint failed"),
        ("list", "_delta_log", "the cleanup of the log failed"),
    ],
)
@pytest.mark.parametrize("error", [StorageError("the store is down"), RuntimeError("a fault of our own")])
def test_what_fails_after_the_commit_is_told_and_the_commit_stands(
    operation: str, part: str, what: str, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    before = table(properties={"delta.checkpointInterval": "1"})

    class Failing(StepStore):
        def list_from(self, *arguments: Any, **more: Any) -> list[ObjectMeta]:
            has_checkpoint = any(".checkpoint." in meta.path for meta in self._store.list_from("_delta_log"))
            if operation == "list" and has_checkpoint:
                raise error
            return self._store.list_from(*arguments, **more)

    def fail(called: str, path: str) -> None:
        if called == operation and part in path:
            raise error

    store = Failing(before.store, fail)
    base = Snapshot(Table(store), before.segment, before.state, before._base)
    transaction = TableTransaction(base.table, FilesystemCommitter(store), base)
    transaction.add(add("a"))
    done = transaction.commit("WRITE")
    assert done.version == 1
    assert any(problem.startswith(what) and str(error) in problem for problem in done.upkeep_errors)
    assert live(before.store) == ["a"]
    assert what in caplog.text
    assert "version 1 is committed" in caplog.text


def test_commit_stands_if_another_engine_wrote_an_invalid_checkpoint_interval() -> None:
    before = table()
    metadata = before.metadata.to_json()
    metadata["metaData"]["configuration"] = {"delta.checkpointInterval": "ten"}
    FilesystemCommitter(before.store).commit(1, [{"commitInfo": {}}, metadata])
    transaction = _begin(Snapshot.open(before.store))
    transaction.add(add("a"))
    done = transaction.commit("WRITE")
    assert done.version == 2
    assert any("delta.checkpointInterval" in problem for problem in done.upkeep_errors)
    assert live(before.store) == ["a"]


def test_a_commit_that_cannot_be_read_back_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    before = table()
    transaction = _begin(before)
    transaction.add(add("a"))

    def fail(*_: object) -> None:
        raise ValueError("unreadable")

    monkeypatch.setattr(Snapshot, "with_commits", fail)
    done = transaction.commit("WRITE")
    assert (done.version, done.attempts) == (1, 1)
    assert done.upkeep_errors == ("reading the version back failed: unreadable",)
    monkeypatch.undo()
    assert live(before.store) == ["a"]
    assert done.snapshot.version == 1
