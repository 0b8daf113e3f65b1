"""The version checksum `<version>.crc`: read, written, and carried forward from commit to commit."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from slackwater.errors import CheckpointFallbackWarning, CorruptLog, InvalidArgument
from slackwater.log.checkpoints.write_checkpoint import write_checkpoint, write_last_checkpoint
from slackwater.log.checksum_totals import checksum_of, file_totals, has_histograms, next_checksum
from slackwater.log.files.file_histograms import SIZE_BINS, FileSizeHistogram
from slackwater.log.files.version_checksum import VersionChecksum, read_version_checksum, write_version_checksum
from slackwater.protocol.actions.actions import Protocol
from tests.examples import examples
from tests.log.tables import (
    DEFAULT,
    Action,
    TableLog,
    add,
    commit_info,
    domain,
    metadata,
    paths,
    protocol,
    remove,
    txn,
)
from tests.log.test_replay import HISTORIES

CRC = "00000000000000000000.crc"
STAMPED = protocol(1, 7, writers=["inCommitTimestamp"])
TIMED = {"delta.enableInCommitTimestamps": "true"}


def _totals(checksum: VersionChecksum | None) -> tuple[int, int] | None:
    return None if checksum is None else (checksum.table_size_bytes, checksum.num_files)


def test_the_file_has_the_names_that_other_engines_know() -> None:
    log = TableLog().create(add("a", size=7), txn("app", 3), domain("d", "{}"), domain("e", removed=True))
    log.commit(1, commit_info(txnId="t-1"), add("b", "x", size=5))
    assert write_version_checksum(log.store, checksum_of(log.load()))
    assert json.loads(log.store.read("_delta_log/00000000000000000001.crc")) == {
        "txnId": "t-1",
        "tableSizeBytes": 12,
        "numFiles": 2,
        "numMetadata": 1,
        "numProtocol": 1,
        "setTransactions": [{"appId": "app", "version": 3}],
        "domainMetadata": [{"domain": "d", "configuration": "{}", "removed": False}],
        "fileSizeHistogram": {
            "sortedBinBoundaries": list(SIZE_BINS),
            "fileCounts": [2, *[0] * (len(SIZE_BINS) - 1)],
            "totalBytes": [12, *[0] * (len(SIZE_BINS) - 1)],
        },
        "metadata": metadata()["metaData"],
        "protocol": protocol()["protocol"],
    }


def test_what_was_written_is_read_back() -> None:
    log = TableLog()
    log.commit(0, commit_info(inCommitTimestamp=99, txnId="t"), STAMPED, metadata(TIMED), txn("app", 3))
    checksum = checksum_of(log.load())
    assert checksum.in_commit_timestamp_ms == 99
    write_version_checksum(log.store, checksum)
    assert read_version_checksum(log.store, 0) == checksum


def test_a_checksum_that_is_there_is_never_overwritten() -> None:
    log = TableLog().create(add("a"))
    assert write_version_checksum(log.store, checksum_of(log.load()))
    before = log.store.read(f"_delta_log/{CRC}")
    assert not write_version_checksum(log.store, replace(checksum_of(log.load()), num_files=99))
    assert log.store.read(f"_delta_log/{CRC}") == before


def test_an_absent_checksum_is_none() -> None:
    assert read_version_checksum(TableLog().create().store, 0) is None


GOOD: dict[str, Any] = {
    "tableSizeBytes": 1,
    "numFiles": 1,
    "numMetadata": 1,
    "numProtocol": 1,
    "metadata": metadata()["metaData"],
    "protocol": protocol()["protocol"],
}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        *(
            json.dumps({key: value for key, value in {**GOOD, **change}.items() if value is not None}).encode()
            for change in (
                {"numFiles": -1},
                {"tableSizeBytes": "1"},
                {"numFiles": True},
                {"numMetadata": 2},
                {"numProtocol": None},
                {"protocol": None},
                {"metadata": None},
                {"metadata": "x"},
                {"setTransactions": [{"version": 1}]},
                {"setTransactions": 7},
                {"domainMetadata": [None]},
                {"inCommitTimestampOpt": "x"},
            )
        ),
    ],
)
def test_a_checksum_that_cannot_be_used_is_none_and_said_so(content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    log = TableLog().create()
    log.put(CRC, content)
    with caplog.at_level(logging.WARNING):
        assert read_version_checksum(log.store, 0) is None
    assert CRC in caplog.text


def test_fields_that_other_engines_add_are_passed_over() -> None:
    log = TableLog().create()
    log.put(CRC, json.dumps({**GOOD, "allFiles": [], "fileSizeHistogram": {}, "numDeletedRecordsOpt": 0}).encode())
    found = read_version_checksum(log.store, 0)
    assert found is not None
    assert (_totals(found), found.transactions) == ((1, 1), None)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=HISTORIES)
def test_carried_forward_with_the_snapshot_it_equals_the_sum_over_the_live_files(history: list[Any]) -> None:
    # A file that is stated again is the same file, of the same size.
    sizes: dict[Any, int] = {}
    log = TableLog()
    log.commit(0, *DEFAULT)
    snapshot = log.load()
    for version, commit in enumerate(history, 1):
        actions = [_sized(action, sizes.setdefault(key, len(sizes))) if key else action for key, action in commit]
        log.commit(version, *actions)
        carried = next_checksum(checksum_of(snapshot), actions, snapshot)
        snapshot_before, snapshot = snapshot, log.load()
        expected = checksum_of(snapshot)
        assert carried is not None
        assert _totals(carried) == _totals(expected)
        assert carried.sizes == expected.sizes
        # The commit that adds the feature does not know the vectors of earlier files.
        assert carried.deletions == expected.deletions or not snapshot_before.configuration.supports("deletionVectors")
        assert (carried.version, carried.protocol, carried.metadata) == (version, expected.protocol, expected.metadata)
        assert sorted(carried.transactions or (), key=str) == sorted(expected.transactions or (), key=str)
        assert sorted(carried.domains or (), key=str) == sorted(expected.domains or (), key=str)


def _sized(action: Action, size: int) -> Action:
    kind, node = next(iter(action.items()))
    return {kind: {**node, "size": size}}


def test_a_new_deletion_vector_leaves_the_totals_as_they_are() -> None:
    log = TableLog().create(add("a", size=7))
    carried = next_checksum(checksum_of(log.load()), [remove("a", size=7), add("a", "x", size=7)])
    assert _totals(carried) == (7, 1)


def test_without_the_snapshot_removes_and_new_files_are_taken_at_their_word() -> None:
    log = TableLog().create(add("a", size=7))
    previous = checksum_of(log.load())
    assert _totals(next_checksum(previous, [add("b", size=5)])) == (12, 2)
    assert _totals(next_checksum(previous, [remove("a", size=7), add("b", size=5, dataChange=False)])) == (5, 1)


@pytest.mark.parametrize(
    "actions",
    [
        [remove("a")],
        [add("b", size=None)],
        [remove("a", size=8)],
        [remove("a", size=1), remove("b", size=1)],
        [add("a", size=7, dataChange=False)],
        [add("b"), add("b")],
        [add("b"), remove("b", size=100)],
    ],
)
def test_what_cannot_be_known_is_none(actions: list[Action]) -> None:
    previous = checksum_of(TableLog().create(add("a", size=7)).load())
    assert next_checksum(previous, actions) is None


def test_with_the_snapshot_a_restated_file_and_a_remove_of_what_is_gone_count_nothing() -> None:
    before = TableLog().create(add("a%20b", size=7)).load()
    restated = [add("a b", size=7, dataChange=False), remove("gone")]
    assert _totals(next_checksum(checksum_of(before), restated, before)) == (7, 1)


def test_in_commit_timestamps_are_carried_where_the_table_has_them() -> None:
    log = TableLog()
    log.commit(0, commit_info(inCommitTimestamp=50), STAMPED, metadata(TIMED))
    previous = checksum_of(log.load())
    carried = next_checksum(previous, [commit_info(inCommitTimestamp=60, txnId="t"), add("a")])
    assert carried is not None
    assert (carried.in_commit_timestamp_ms, carried.txn_id) == (60, "t")
    assert next_checksum(previous, [commit_info(), add("a")]) is None
    switched_off = next_checksum(previous, [commit_info(inCommitTimestamp=60), metadata()])
    assert switched_off is not None
    assert switched_off.in_commit_timestamp_ms is None


def test_the_newest_small_actions_win_and_removed_domains_go() -> None:
    previous = checksum_of(TableLog().create(txn("app", 1), domain("d"), domain("e")).load())
    carried = next_checksum(previous, [protocol(1, 3), txn("app", 2), domain("d", removed=True), domain("e", "new")])
    assert carried is not None
    assert carried.protocol == Protocol(1, 3)
    assert [t.version for t in carried.transactions or ()] == [2]
    assert [(d.domain, d.configuration) for d in carried.domains or ()] == [("e", "new")]


def test_lists_that_are_long_or_not_known_are_left_out() -> None:
    log = TableLog().create(*(txn(f"app{number}", 1) for number in range(101)))
    checksum = checksum_of(log.load())
    assert checksum.transactions is None
    assert "setTransactions" not in checksum.to_json()
    carried = next_checksum(checksum, [txn("app", 1)])
    assert carried is not None
    assert carried.transactions is None


def test_a_snapshot_of_another_version_and_a_nameless_file_are_refused() -> None:
    log = TableLog().create(add("a")).grow(1)
    previous = checksum_of(log.load(0))
    with pytest.raises(InvalidArgument, match="version 0"):
        next_checksum(previous, [add("b")], log.load(1))
    with pytest.raises(CorruptLog, match="version 1"):
        next_checksum(previous, [{"add": {"size": 1}}])


def test_totals_come_from_the_checksum_where_it_spares_a_checkpoint_and_only_there() -> None:
    log = TableLog().create(add("a", size=7), add("b", size=5))
    snapshot = log.load()
    write_version_checksum(log.store, replace(checksum_of(snapshot), num_files=99, table_size_bytes=1))
    assert file_totals(snapshot) == (2, 12)
    write_last_checkpoint(log.store, write_checkpoint(snapshot, 0))
    assert file_totals(log.load()) == (99, 1)


def test_a_checksum_shares_what_is_parsed_of_a_version_that_it_agrees_with() -> None:
    log = TableLog().create(add("a", size=7))
    snapshot = log.load()
    write_version_checksum(log.store, checksum_of(snapshot))
    other = snapshot.configuration.changed(Protocol(1, 3))
    for known, is_shared in ((snapshot.configuration, True), (other, False), (None, False)):
        found = read_version_checksum(log.store, 0, known)
        assert found is not None
        assert found.configuration == snapshot.configuration
        assert (found.configuration is known) is is_shared


def test_a_checksum_of_another_protocol_is_not_believed() -> None:
    log = TableLog().create(add("a", size=7))
    snapshot = log.load()
    write_last_checkpoint(log.store, write_checkpoint(snapshot, 0))
    other = snapshot.configuration.changed(Protocol(1, 3))
    write_version_checksum(log.store, replace(checksum_of(snapshot), configuration=other, num_files=99))
    with pytest.raises(CorruptLog, match="its protocol is"), pytest.warns(CheckpointFallbackWarning):
        file_totals(log.load())


def _cut(log: TableLog, version: int, lines: int) -> None:
    """Take the last `lines` from the commit, as a disk does that stopped at a line's end."""
    path = f"_delta_log/{version:020d}.json"
    log.store.put(path, b"".join(log.store.read(path).splitlines(keepends=True)[:-lines]))


@pytest.mark.parametrize("version", [0, 1])
def test_a_commit_that_was_cut_at_a_lines_end_is_told_by_its_checksum(version: int) -> None:
    log = TableLog().create(add("a", size=7), add("b", size=5))
    log.commit(1, commit_info(), remove("a"), add("c", size=9))
    write_version_checksum(log.store, checksum_of(log.load(version)))
    _cut(log, version, 1)
    with pytest.raises(
        CorruptLog, match=rf"{version:020d}\.crc contradicts the log of version {version}: it counts 2 "
    ):
        log.load(version).live_files()


def test_a_commit_that_lost_a_change_of_metadata_is_told_by_its_checksum() -> None:
    log = TableLog().create(add("a", size=7))
    log.commit(1, commit_info(), metadata({"delta.appendOnly": "true"}))
    write_version_checksum(log.store, checksum_of(log.load()))
    _cut(log, 1, 1)
    with pytest.raises(CorruptLog, match=r"it has the metadata configuration .*appendOnly"):
        log.load().live_files(["path"])


def test_sizes_that_a_checksum_contradicts_are_seen_when_they_are_read() -> None:
    log = TableLog().create(add("a", size=7))
    write_version_checksum(log.store, replace(checksum_of(log.load()), table_size_bytes=8))
    snapshot = log.load()
    assert snapshot.live_files(["path"]).num_rows == 1
    with pytest.raises(CorruptLog, match="it counts 8 bytes of files, the log 7"):
        snapshot.live_files(["size"])


def test_a_snapshot_that_is_updated_compares_the_checksum_of_its_new_version() -> None:
    log = TableLog().create(add("a", size=7))
    old = log.load()
    log.commit(1, commit_info(), add("b", size=1))
    write_version_checksum(log.store, replace(checksum_of(log.load()), num_files=3))
    assert old.live_files().num_rows == 1
    with pytest.raises(CorruptLog, match="it counts 3 files, the log 2"):
        old.update().live_files()


def test_where_a_checkpoint_contradicts_the_checksum_and_the_commits_agree_with_it_they_are_read() -> None:
    log = TableLog().create(add("a")).grow(2)
    write_version_checksum(log.store, checksum_of(log.load()))
    log.classic(2, *DEFAULT, add("a"), add("f1"))
    with pytest.warns(CheckpointFallbackWarning, match="it counts 3 files, the log 2"):
        assert paths(log.load()) == ["a", "f1", "f2"]


def test_a_checksum_that_cannot_be_read_or_is_gone_contradicts_nothing() -> None:
    log = TableLog().create(add("a"))
    log.put(CRC, b"{")
    assert paths(log.load()) == ["a"]
    snapshot = log.load()
    log.delete(CRC)
    assert paths(snapshot) == ["a"]


# Histograms.

VECTORS = protocol(3, 7, ["deletionVectors"], ["deletionVectors"])


def _with_vectors() -> TableLog:
    log = TableLog()
    log.commit(0, VECTORS, metadata(), add("a", size=5), add("b", size=9000))
    log.commit(1, remove("a"), add("a", "x", size=5))
    return log


def test_deletion_vectors_are_counted_where_the_table_supports_them() -> None:
    node = checksum_of(_with_vectors().load()).to_json()
    assert (node["numDeletedRecordsOpt"], node["numDeletionVectorsOpt"]) == (2, 1)
    assert node["deletedRecordCountsHistogramOpt"] == {"deletedRecordCounts": [1, 1, *[0] * 8]}
    assert node["fileSizeHistogram"]["fileCounts"][:3] == [1, 1, 0]
    plain = checksum_of(TableLog().create(add("a")).load()).to_json()
    assert not {"numDeletedRecordsOpt", "numDeletionVectorsOpt", "deletedRecordCountsHistogramOpt"} & plain.keys()


def test_every_field_is_read_back() -> None:
    log = _with_vectors()
    checksum = checksum_of(log.load())
    write_version_checksum(log.store, checksum)
    assert read_version_checksum(log.store, 1) == checksum
    node = {**checksum.to_json(), "allFiles": [add("a", "x")["add"], add("b")["add"]]}
    # delta-spark's earlier name of the histogram.
    node["histogramOpt"] = node.pop("fileSizeHistogram")
    log.put(CRC, json.dumps(node).encode())
    found = read_version_checksum(log.store, 0)
    assert found is not None
    assert (found.sizes, found.deletions) == (checksum.sizes, checksum.deletions)
    assert [file["path"] for file in found.all_files or ()] == ["a", "b"]


def test_a_table_without_files_carries_its_counts_from_the_feature_on() -> None:
    for files in ([], [add("a")]):
        log = TableLog().create(*files)
        before = checksum_of(log.load())
        actions = [VECTORS, add("b"), add("c", "x")]
        log.commit(1, *actions)
        carried, expected = next_checksum(before, actions), checksum_of(log.load())
        assert (before.deletions, carried is None) == (None, False)
        assert carried is not None
        assert carried.deletions == (None if files else expected.deletions)
        assert (has_histograms(carried), has_histograms(expected)) == (not files, True)


def test_a_checksum_without_histograms_carries_none() -> None:
    log = TableLog().create(add("a"))
    before = replace(checksum_of(log.load()), sizes=None)
    carried = next_checksum(before, [add("b")])
    assert carried is not None
    assert (_totals(carried), carried.sizes) == ((200, 2), None)


def test_bins_of_other_writers_are_kept() -> None:
    bins = FileSizeHistogram((0, 10), (1, 0), (5, 0))
    before = replace(checksum_of(TableLog().create(add("a", size=5)).load()), sizes=bins)
    carried = next_checksum(before, [add("b", size=10), remove("a", size=5)])
    assert carried is not None
    assert carried.sizes == FileSizeHistogram((0, 10), (0, 1), (0, 10))
    # A file that the histogram does not have.
    lost = next_checksum(before, [add("b", size=5), remove("a", size=10)])
    assert lost is not None
    assert lost.sizes is None
