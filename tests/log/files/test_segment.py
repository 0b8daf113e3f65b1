from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

import pytest

from slackwater.errors import InvalidArgument, MissingCommit, TableNotFound, VersionNotFound
from slackwater.log.checkpoints.write_checkpoint import write_checkpoint
from slackwater.log.files.segment import load_segment
from slackwater.log.snapshot import LogSnapshot
from tests.log.tables import DEFAULT, SpyStore, TableLog, add, checkpoint_metadata, facts, paths


def _ten_commits() -> TableLog:
    return TableLog().create(add("f0")).grow(9)


def _names(log: TableLog, version: int | None = None) -> list[str]:
    """The files of the segment, by name, the checkpoint's first."""
    segment = load_segment(log.store, version)
    checkpoint = segment.checkpoint.paths if segment.checkpoint else ()
    return [PurePosixPath(path).name for path in (*checkpoint, *(c.path for c in segment.commits))]


def _files(first: int, last: int) -> list[str]:
    return [f"f{v}" for v in range(first, last + 1)]


def _classic(log: TableLog) -> None:
    log.classic(4, *DEFAULT, *map(add, _files(0, 4)))


def _multipart(log: TableLog) -> None:
    log.multipart(4, [*DEFAULT, add("f0")], [add("f1"), add("f2")], [add("f3"), add("f4")])


def _v2_json_inline(log: TableLog) -> None:
    log.v2(4, "json", checkpoint_metadata(4), *DEFAULT, *map(add, _files(0, 4)))


def _v2_json_with_sidecars(log: TableLog) -> None:
    sidecars = [log.sidecar(add("f0"), add("f1")), log.sidecar(*map(add, _files(2, 4)))]
    log.v2(4, "json", checkpoint_metadata(4), *DEFAULT, *sidecars)


def _v2_parquet_inline(log: TableLog) -> None:
    log.v2(4, "parquet", checkpoint_metadata(4), *DEFAULT, *map(add, _files(0, 4)))


def _v2_parquet_with_sidecars(log: TableLog) -> None:
    log.v2(4, "parquet", checkpoint_metadata(4), *DEFAULT, log.sidecar(*map(add, _files(0, 4))))


def _v2_in_a_classic_name(log: TableLog) -> None:
    log.classic(4, checkpoint_metadata(4), *DEFAULT, log.sidecar(*map(add, _files(0, 4))))


def _small_row_groups(log: TableLog) -> None:
    log.classic(4, *map(add, _files(0, 4)), *DEFAULT, row_group_size=2)


KINDS = [
    _classic,
    _multipart,
    _v2_json_inline,
    _v2_json_with_sidecars,
    _v2_parquet_inline,
    _v2_parquet_with_sidecars,
    _v2_in_a_classic_name,
    _small_row_groups,
]


@pytest.mark.parametrize("write_checkpoint", KINDS)
def test_a_checkpoint_of_any_kind_stands_for_the_commits_before_it(
    write_checkpoint: Callable[[TableLog], None],
) -> None:
    log = _ten_commits()
    expected = [facts(log.load(v)) for v in (4, 9)]
    write_checkpoint(log)
    log.delete_commits(0, 1, 2, 3)
    assert [facts(log.load(v)) for v in (4, 9)] == expected
    assert paths(log.load()) == _files(0, 9)


def test_sidecars_are_in_the_tables_own_directory_whatever_their_path_says() -> None:
    log = _ten_commits()
    sidecar = log.sidecar(*map(add, _files(0, 4)))
    sidecar["sidecar"]["path"] = "s3://elsewhere/_delta_log/_sidecars/" + sidecar["sidecar"]["path"]
    log.v2(4, "json", checkpoint_metadata(4), *DEFAULT, sidecar)
    log.delete_commits(*range(5))
    assert paths(log.load()) == _files(0, 9)


def test_an_incomplete_multi_part_checkpoint_is_ignored() -> None:
    log = _ten_commits()
    log.multipart(4, [*DEFAULT, add("wrong")], [add("f1")], only=[1])
    assert paths(log.load()) == _files(0, 9)
    assert load_segment(log.store).checkpoint is None


def test_parts_of_two_multi_part_checkpoints_do_not_complete_each_other() -> None:
    log = _ten_commits()
    log.multipart(4, [*DEFAULT, add("wrong")], [add("f1")], only=[1])
    log.multipart(4, [*DEFAULT], [add("wrong")], [add("f1")], only=[2, 3])
    assert load_segment(log.store).checkpoint is None


def test_of_two_checkpoints_of_one_version_one_is_used_whole() -> None:
    log = _ten_commits()
    _classic(log)
    _multipart(log)
    _v2_json_with_sidecars(log)
    log.delete_commits(*range(5))
    checkpoint = load_segment(log.store).checkpoint
    assert checkpoint is not None
    assert len(checkpoint.paths) == 1
    assert paths(log.load()) == _files(0, 9)


def test_the_newest_checkpoint_at_or_before_the_version_is_used() -> None:
    log = _ten_commits()
    log.classic(2, *DEFAULT, *map(add, _files(0, 2)))
    log.classic(6, *DEFAULT, *map(add, _files(0, 6)))
    used = {v: (c.version if (c := load_segment(log.store, v).checkpoint) else None) for v in range(10)}
    assert used == {0: None, 1: None, 2: 2, 3: 2, 4: 2, 5: 2, 6: 6, 7: 6, 8: 6, 9: 6}
    assert [paths(log.load(v)) for v in range(10)] == [_files(0, v) for v in range(10)]


def test_a_checkpoint_without_the_commit_of_its_version_is_a_version_of_its_own() -> None:
    log = TableLog()
    log.classic(3, *DEFAULT, add("f3"))
    assert log.load().version == 3
    assert paths(log.load(3)) == ["f3"]


def test_compaction_files_replace_the_commits_that_they_cover() -> None:
    log = _ten_commits()
    log.compaction(2, 5, *map(add, _files(2, 5)))
    assert _names(log) == [
        "00000000000000000000.json",
        "00000000000000000001.json",
        "00000000000000000002.00000000000000000005.compacted.json",
        *(f"{v:020d}.json" for v in (6, 7, 8, 9)),
    ]
    assert paths(log.load()) == _files(0, 9)


def test_compaction_files_beyond_the_version_are_ignored() -> None:
    log = _ten_commits()
    log.compaction(2, 5, add("wrong"))
    assert paths(log.load(4)) == _files(0, 4)
    assert not any("compacted" in name for name in _names(log, 4))


def test_the_longest_compaction_file_that_fits_is_used() -> None:
    log = _ten_commits()
    log.compaction(2, 3, add("wrong"))
    log.compaction(2, 6, *map(add, _files(2, 6)))
    log.compaction(2, 8, add("wrong"))
    log.compaction(4, 7, add("wrong"))
    assert _names(log, 7)[2:] == [
        "00000000000000000002.00000000000000000006.compacted.json",
        "00000000000000000007.json",
    ]
    assert paths(log.load(7)) == _files(0, 7)


def test_a_compaction_file_that_starts_before_the_checkpoint_is_ignored() -> None:
    log = _ten_commits()
    _classic(log)
    log.compaction(3, 7, add("wrong"))
    log.compaction(5, 7, *map(add, _files(5, 7)))
    assert paths(log.load()) == _files(0, 9)
    assert len(_names(log)) == 4


def _no_hint(log: TableLog) -> None:
    log.delete("_last_checkpoint")


def _right_hint(log: TableLog) -> None:
    log.hint(6)


def _stale_hint(log: TableLog) -> None:
    log.hint(2)


def _hint_to_a_missing_checkpoint(log: TableLog) -> None:
    log.hint(5)


def _hint_beyond_the_log(log: TableLog) -> None:
    log.hint(500)


def _hint_with_a_wrong_checksum(log: TableLog) -> None:
    log.hint(5, right_checksum=False)


def _hint_of_parts_that_are_not_there(log: TableLog) -> None:
    log.hint(6, parts=4)


HINTS: list[Callable[[TableLog], object]] = [
    _no_hint,
    _right_hint,
    _stale_hint,
    _hint_to_a_missing_checkpoint,
    _hint_beyond_the_log,
    _hint_with_a_wrong_checksum,
    _hint_of_parts_that_are_not_there,
    *(
        lambda log, text=text: log.put("_last_checkpoint", text)
        for text in (
            b"",
            b"{",
            b"\xff\xfe",
            b"[6]",
            b"6",
            b"null",
            b'"6"',
            b"{}",
            b'{"version":-1}',
            b'{"version":"6"}',
            b'{"version":6.5}',
            b'{"version":9223372036854775808}',
            b'{"version":99999999999999999999999}',
            b'{"version":6,"version":5,"checksum":"0"}',
            b'{"version":6,"size":3}',
        )
    ),
]


@pytest.mark.parametrize("write_hint", HINTS)
def test_whatever_last_checkpoint_says_the_snapshot_is_the_same(write_hint: Callable[[TableLog], object]) -> None:
    log = _ten_commits()
    log.classic(2, *DEFAULT, *map(add, _files(0, 2)))
    log.classic(6, *DEFAULT, *map(add, _files(0, 6)))
    write_hint(log)
    for version in (None, 9, 6, 5, 2, 1, 0):
        assert paths(log.load(version)) == _files(0, 9 if version is None else version)


def test_last_checkpoint_shortens_the_listing() -> None:
    class ListingStore(SpyStore):
        starts: list[str]

        def list_from(self, prefix: str, start_after: str = "", recursive: bool = False) -> Any:
            self.starts.append(start_after)
            return self._store.list_from(prefix, start_after, recursive)

    log = _ten_commits()
    log.classic(6, *DEFAULT, *map(add, _files(0, 6)))
    log.hint(6)
    store = ListingStore(log.store)
    store.starts = []
    load_segment(store)
    assert store.starts == ["_delta_log/00000000000000000006"]


@pytest.mark.parametrize("version", range(10))
def test_every_version_is_still_there_when_a_newer_checkpoint_exists(version: int) -> None:
    log = _ten_commits()
    log.classic(9, *DEFAULT, *map(add, _files(0, 9)))
    log.hint(9)
    assert paths(log.load(version)) == _files(0, version)


def test_a_gap_is_named() -> None:
    log = _ten_commits()
    log.delete_commits(3, 6)
    with pytest.raises(MissingCommit, match=r"version 3, 6 is missing.*version 9 cannot be built") as caught:
        log.load()
    assert log.path in str(caught.value)
    assert log.load(2).version == 2
    with pytest.raises(MissingCommit, match=r"version 3 is missing"):
        log.load(5)


def test_a_gap_before_the_checkpoint_does_not_matter_after_it() -> None:
    log = _ten_commits()
    _classic(log)
    log.delete_commits(2)
    assert paths(log.load()) == _files(0, 9)
    with pytest.raises(MissingCommit, match=r"version 2 is missing"):
        log.load(3)


def test_a_gap_after_the_checkpoint_is_named() -> None:
    log = _ten_commits()
    _classic(log)
    log.hint(4)
    log.delete_commits(6)
    with pytest.raises(MissingCommit, match=r"version 6 is missing"):
        log.load()


def test_many_gaps_are_not_all_named() -> None:
    log = TableLog().create()
    log.commit(20, add("f20"))
    with pytest.raises(MissingCommit, match=r"version 1, 2, 3, 4, 5 … is missing"):
        log.load()


@pytest.mark.parametrize("version", [9_223_372_036_854_775_807, 99_999_999_999_999_999_999])
def test_a_stray_commit_of_an_absurd_version_is_reported_at_once(version: int) -> None:
    log = _ten_commits()
    log.put(f"{version:020d}.json", b'{"add":{"path":"x"}}\n')
    with pytest.raises(MissingCommit, match=r"version 10, 11, 12, 13, 14 … is missing"):
        log.load()
    assert log.load(9).version == 9


def test_a_log_that_begins_late_without_a_checkpoint_lacks_version_0() -> None:
    log = _ten_commits()
    log.delete_commits(0, 1, 2)
    with pytest.raises(MissingCommit, match=r"version 0 is missing.*begins with commit 3"):
        log.load()


@pytest.mark.parametrize(("deleted", "version"), [(range(6), 0), (range(6), 5), (range(3), 4), (range(10), 5)])
def test_a_version_that_was_cleaned_up_is_gone_and_the_oldest_one_is_named(deleted: range, version: int) -> None:
    log = _ten_commits()
    log.classic(6, *DEFAULT, *map(add, _files(0, 6)))
    log.classic(8, *DEFAULT, *map(add, _files(0, 8)))
    log.delete_commits(*deleted)
    with pytest.raises(VersionNotFound, match=rf"version {version}: the log was cleaned up\. The oldest .* is 6"):
        log.load(version)
    assert paths(log.load(6)) == _files(0, 6)


def test_a_version_beyond_the_newest_is_not_found() -> None:
    log = _ten_commits()
    with pytest.raises(VersionNotFound, match=r"has no version 10: its newest version is 9"):
        log.load(10)
    log.classic(6, *DEFAULT)
    log.hint(6)
    with pytest.raises(VersionNotFound, match=r"newest version is 9"):
        log.load(2**70)


@pytest.mark.parametrize("version", [-1, True, 1.0, "3"])
def test_a_version_that_is_none_is_refused(version: object) -> None:
    with pytest.raises(InvalidArgument, match="a version is a whole number from 0"):
        _ten_commits().load(version)  # type: ignore[arg-type]


def test_a_version_and_a_timestamp_are_one_too_many() -> None:
    with pytest.raises(InvalidArgument, match="not both"):
        _ten_commits().load(1, timestamp=1)


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["_last_checkpoint"],
        ["00000000000000000000.crc", "notes.txt"],
        ["_commits/00000000000000000000.3a0d65cd-4056-49b8-937b-95f9e3ee90e5.json"],
        ["_sidecars/x.parquet"],
        ["00000000000000000004.checkpoint.0000000001.0000000002.parquet"],
        ["00000000000000000000.00000000000000000003.compacted.json"],
    ],
)
def test_a_log_without_a_commit_is_no_table(names: list[str]) -> None:
    log = TableLog()
    for name in names:
        log.put(name, json.dumps({"version": 0}).encode())
    with pytest.raises(TableNotFound, match="_delta_log") as caught:
        log.load()
    assert log.path in str(caught.value)
    with pytest.raises(TableNotFound):
        log.load(timestamp=0)


def test_a_directory_without_a_log_is_no_table(tmp_path: object) -> None:
    with pytest.raises(TableNotFound, match="is not a Delta table"):
        LogSnapshot.load(f"{tmp_path}/absent")


def test_files_that_are_not_the_logs_are_passed_over() -> None:
    log = _ten_commits()
    for name in ("00000000000000000003.crc", "00000000000000000010.json.tmp", ".00000000000000000010.json.crc", "x"):
        log.put(name, b"not JSON")
    log.put("00000000000000000010.checkpoint.parquet.tmp", b"")
    log.put("_commits/00000000000000000010.3a0d65cd-4056-49b8-937b-95f9e3ee90e5.json", b"")
    log.put("00000000000000000003.checkpoint.nonsense.parquet", b"")
    assert paths(log.load()) == _files(0, 9)


def test_a_gap_behind_the_oldest_commit_is_no_cleanup() -> None:
    log = TableLog().create(add("a"))
    for version in (1, 2, 3):
        log.commit(version, add(f"f{version}"))
    write_checkpoint(log.load(), 0)
    log.delete_commits(0, 2)
    with pytest.raises(MissingCommit, match="version 0, 2 is missing"):
        log.load(2)
    log.delete_commits(1)
    with pytest.raises(VersionNotFound, match="cleaned up"):
        log.load(2)
