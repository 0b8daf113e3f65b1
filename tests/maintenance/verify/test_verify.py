"""`slackwater.maintenance.verify`: a whole table has no fault, and whatever is broken is named."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.errors import TableNotFound, UnsupportedFeature, VersionNotFound
from slackwater.log.checksum_totals import checksum_of
from slackwater.log.files.version_checksum import write_version_checksum
from slackwater.log.table import Table
from slackwater.maintenance.clone import shallow_clone
from slackwater.maintenance.verify.findings import FaultKind, Verification
from slackwater.maintenance.verify.verify import verify
from slackwater.protocol.actions.files import AddFile
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.log_maintenance import checkpoint_newest, compact
from tests.cli.commands import STAMPED, TOO_NEW
from tests.log.tables import TableLog, add, commit_info, domain, metadata, protocol, remove, txn
from tests.transaction.tables import START_MS, append, delete, delete_rows_of, table

PROPERTIES = {
    "delta.enableInCommitTimestamps": "true",
    "delta.enableDeletionVectors": "true",
    "delta.checkpointPolicy": "v2",
}
WHOLE = {
    "commits": 7,
    "in-commit timestamps": 7,
    "version checksums": 7,
    "checkpoints": 1,
    "sidecars": 1,
    "compactions": 1,
    "data files": 3,
    "deletion vectors": 1,
    "footers": 3,
}


def _file(root: Path, name: str, low: int) -> AddFile:
    """A file of ten rows, written and told of."""
    ids = list(range(low, low + 10))
    pq.write_table(pa.table({"id": ids, "name": [f"n{i}" for i in ids]}), root / name)
    stats = {
        "numRecords": 10,
        "minValues": {"id": low, "name": f"n{low}"},
        "maxValues": {"id": low + 9, "name": f"n{low + 9}"},
        "nullCount": {"id": 0, "name": 0},
    }
    return AddFile(name, {}, (root / name).stat().st_size, START_MS, True, json.dumps(stats))


def _checksum(snapshot: Snapshot) -> None:
    assert write_version_checksum(snapshot.store, checksum_of(snapshot))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Seven versions: four files, of which one goes and one gets a vector; a checkpoint of 3, 4 to 6 compacted."""
    root = tmp_path / "t"
    snapshot = table({"id": "long", "name": "string"}, properties=PROPERTIES, path=root)
    for number in range(4):
        append(snapshot.update(), _file(root, f"f{number}.parquet", 10 + 10 * number))
        _checksum(snapshot.update())
        if number == 2:
            checkpoint_newest(snapshot.update(), START_MS)
    delete(snapshot.update(), "f1.parquet")
    _checksum(snapshot.update())
    delete_rows_of(snapshot.update(), {"f2.parquet": [0, 9]})
    _checksum(snapshot.update())
    compact(Snapshot.open(snapshot.store), 4, 6)
    return root


def _verify(root: Path | str, **more: Any) -> Verification:
    return verify(Table.at(root), **more)


def _kinds(found: Verification) -> list[FaultKind]:
    return [fault.kind for fault in found.faults]


def _log(root: Path, name: str) -> Path:
    return root / "_delta_log" / name


def _commit(root: Path, version: int) -> Path:
    return _log(root, f"{version:020}.json")


def _edit(file: Path, change: Callable[[list[dict[str, Any]]], object]) -> None:
    actions = [orjson.loads(line) for line in file.read_bytes().splitlines()]
    change(actions)
    file.write_bytes(b"".join(orjson.dumps(action) + b"\n" for action in actions))


def _edit_stats(file: Path, change: Mapping[str, Any]) -> None:
    def edit(actions: list[dict[str, Any]]) -> None:
        node = next(action["add"] for action in actions if "add" in action)
        node["stats"] = json.dumps({**json.loads(node["stats"]), **change})

    _edit(file, edit)


def test_a_whole_table_has_no_fault_and_what_was_looked_at_is_said(root: Path) -> None:
    found = _verify(root, footers=True)
    assert found.faults == ()
    assert dict(found.looked_at) == WHOLE
    assert (found.location, found.oldest, found.version, found.notes) == (str(root), 0, 6, ())
    before = _verify(root, version=4)
    assert (before.version, before.faults, before.looked_at["data files"]) == (4, (), 4)
    assert "deletion vectors" not in {name for name, count in before.looked_at.items() if count}


def test_of_a_log_that_was_cleaned_up_the_checkpoint_is_where_it_begins(root: Path) -> None:
    for version in range(3):
        _commit(root, version).unlink()
    found = _verify(root)
    assert (found.oldest, found.faults, found.looked_at["commits"]) == (3, (), 4)
    with pytest.raises(VersionNotFound, match="can no longer show version 2"):
        _verify(root, version=2)


def test_a_missing_commit_is_a_gap_and_the_walk_goes_on_at_the_next_checkpoint(root: Path) -> None:
    _commit(root, 2).unlink()
    (fault,) = _verify(root).faults
    assert (fault.kind, fault.where) == (FaultKind.GAP, "version 2")
    _commit(root, 5).unlink()
    found = _verify(root)
    assert [(fault.kind, fault.where) for fault in found.faults] == [
        (FaultKind.GAP, "version 2"),
        (FaultKind.GAP, "version 5"),
        (FaultKind.GAP, "version 6"),
    ]
    assert "Its files were not checked" in found.faults[2].says


def test_a_log_without_its_beginning_says_so(root: Path) -> None:
    _log(root, next(file.name for file in _log(root, "").glob("*3.checkpoint*"))).unlink()
    for version in range(2):
        _commit(root, version).unlink()
    first, *_ = _verify(root).faults
    assert (first.kind, first.where) == (FaultKind.GAP, "versions 0 to 1")
    assert "no checkpoint" in first.says


def test_a_far_version_that_strayed_in_takes_no_time(root: Path) -> None:
    _commit(root, 10**15).write_bytes(b"{}\n")
    found = _verify(root)
    assert found.faults[0].where == f"versions 7 to {10**15 - 1}"
    assert _verify(root, version=6).faults == ()


def test_a_damaged_commit_is_named(root: Path) -> None:
    _commit(root, 5).write_bytes(b'{"add":{"pa')
    found = _verify(root)
    assert found.faults[0].kind is FaultKind.COMMIT
    assert found.faults[0].where.endswith("5.json")


def test_a_checkpoint_that_says_otherwise_is_named(root: Path) -> None:
    _edit(_commit(root, 2), lambda actions: actions.append({"add": {**_added(actions), "path": "x.parquet"}}))
    faults = {fault.kind: fault for fault in _verify(root).faults}
    assert "it lacks x.parquet, of 4 live files" in faults[FaultKind.CHECKPOINT].says
    # The checksums of version 2 and all later ones too, and the file is nowhere.
    assert {FaultKind.CHECKSUM, FaultKind.DATA_FILE} <= faults.keys()


def _added(actions: list[dict[str, Any]]) -> dict[str, Any]:
    return next(dict(action["add"]) for action in actions if "add" in action)


@pytest.mark.parametrize(
    ("checkpoint", "says"),
    [
        ([add("f0"), add("f1")], None),
        ([add("f0")], "it lacks f1, of 2 live files"),
        ([add("f0"), add("f1"), add("f2")], "it has, but the commits do not, f2"),
        ([add("f0"), add("f1", size=7)], "it has size 7 of f1, but the commits have 100"),
        ([add("f0"), add("f1", partitionValues={"a": "1"})], "it has partitionValues {'a': '1'} of f1"),
        ([add("f0"), add("f1", dv="ab")], "it lacks f1"),
    ],
)
def test_files_of_a_checkpoint_are_compared(checkpoint: list[dict[str, Any]], says: str | None) -> None:
    log = TableLog().create(add("f0")).grow(1)
    log.classic(1, protocol(), metadata(), *checkpoint)
    faults = [fault for fault in _verify(log.path).faults if fault.kind is FaultKind.CHECKPOINT]
    assert [says in fault.says for fault in faults if says] == [True] * (says is not None)
    assert bool(faults) is (says is not None)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ([protocol(1, 4), metadata(), txn("a", 1), domain("d")], "its protocol is"),
        ([protocol(), metadata({"x": "y"}), txn("a", 1), domain("d")], "metadata configuration"),
        ([protocol(), metadata(), txn("a", 2), domain("d")], "application a"),
        ([protocol(), metadata(), domain("d")], "application a"),
        ([protocol(), metadata(), txn("a", 1)], "metadata domain d"),
    ],
)
def test_small_actions_of_a_checkpoint_are_compared(changed: list[dict[str, Any]], says: str) -> None:
    log = TableLog()
    log.commit(0, protocol(), metadata(), txn("a", 1), domain("d"))
    log.classic(0, *changed)
    (fault,) = _verify(log.path).faults
    assert fault.kind is FaultKind.CHECKPOINT
    assert says in fault.says


def test_a_transaction_that_may_be_forgotten_is_no_fault() -> None:
    log = TableLog()
    forgets = metadata({"delta.setTransactionRetentionDuration": "interval 1 days"})
    log.commit(0, protocol(), forgets, txn("a", 1))
    log.classic(0, protocol(), forgets)
    assert _verify(log.path).faults == ()


def test_sidecars_that_are_gone_or_of_another_size_are_named() -> None:
    log = TableLog()
    table_of = (protocol(3, 7, ["v2Checkpoint"], ["v2Checkpoint"]), metadata())
    log.commit(0, *table_of, add("f0"))
    sidecar = log.sidecar(add("f0"))
    sidecar["sidecar"]["sizeInBytes"] += 1
    log.v2(0, "json", {"checkpointMetadata": {"version": 0}}, *table_of, sidecar)
    log.store.put("f0", b"x" * 100)
    (fault,) = _verify(log.path).faults
    assert fault.kind is FaultKind.SIDECAR
    assert "bytes" in fault.says
    log.delete(f"_sidecars/{sidecar['sidecar']['path']}")
    (fault,) = _verify(log.path).faults
    assert (fault.kind, "it does not exist" in fault.says) == (FaultKind.SIDECAR, True)


def test_a_compaction_that_says_otherwise_is_named(root: Path) -> None:
    (file,) = _log(root, "").glob("*.compacted.json")
    _edit(file, lambda actions: actions.append(add("other")))
    (fault,) = _verify(root).faults
    assert fault.kind is FaultKind.COMPACTION
    assert "it has, but the commits do not, other" in fault.says


def test_a_compaction_from_the_first_version_is_compared() -> None:
    log = TableLog().create().grow(2)
    for name in ("f1", "f2"):
        log.store.put(name, b"x" * 100)
    log.compaction(0, 2, protocol(), metadata(), add("f1"), add("f2"))
    found = _verify(log.path)
    assert (found.faults, found.looked_at["compactions"]) == ((), 1)
    log.compaction(0, 2, protocol(), metadata(), add("f1"), remove("f2"))
    assert _kinds(_verify(log.path)) == [FaultKind.COMPACTION]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"numFiles": 9}, "it counts 9 files, the log 3"),
        ({"tableSizeBytes": 1}, "it counts 1 bytes"),
        ({"inCommitTimestampOpt": 5}, "its timestamp is 5"),
        ({"numMetadata": 2}, "cannot be used"),
        ({"setTransactions": [{"appId": "a", "version": 3}]}, "version 3 of the application a"),
        ({"domainMetadata": [{"domain": "d", "configuration": "", "removed": False}]}, "metadata domains ['d']"),
        ({"numDeletedRecordsOpt": 9}, "deletion vectors have num_rows 9, the log 2"),
        ({"numDeletionVectorsOpt": 0}, "deletion vectors have num_vectors 0, the log 1"),
        ({"deletedRecordCountsHistogramOpt": {"deletedRecordCounts": [3, *[0] * 9]}}, "have file_counts (3, 0"),
        (
            {"fileSizeHistogram": {"sortedBinBoundaries": [0, 9], "fileCounts": [3, 0], "totalBytes": [1, 0]}},
            "histogram of file sizes counts (3, 0), the log (0, 3)",
        ),
        ({"allFiles": []}, "it lists 0 files, the log 3, for example f0.parquet"),
        ({"allFiles": [{"path": "x"}, {"path": "y"}, {"path": "z"}]}, "it lists 3 files, the log 3"),
    ],
)
def test_a_checksum_that_says_otherwise_is_named(root: Path, change: Mapping[str, Any], says: str) -> None:
    file = _log(root, f"{6:020}.crc")
    file.write_bytes(orjson.dumps({**orjson.loads(file.read_bytes()), **change}))
    (fault,) = _verify(root).faults
    assert (fault.kind, fault.where) == (FaultKind.CHECKSUM, f"_delta_log/{6:020}.crc")
    assert says in fault.says


def test_a_checksum_that_lacks_an_application_is_named_unless_it_may_expire() -> None:
    for configuration, faults in (({}, 1), ({"delta.setTransactionRetentionDuration": "1 day"}, 0)):
        log = TableLog().create(txn("app", 3), configuration=configuration)
        checksum = replace(checksum_of(Snapshot.open(log.store)), transactions=())
        assert write_version_checksum(log.store, checksum)
        found = _verify(log.path)
        assert ["it lacks the application app" in fault.says for fault in found.faults] == [True] * faults


def test_a_checksum_of_before_metadata_was_in_it_is_passed_over(root: Path) -> None:
    _log(root, f"{6:020}.crc").write_bytes(b'{"tableSizeBytes":1,"numFiles":9,"numMetadata":1,"numProtocol":1}')
    found = _verify(root)
    assert found.faults == ()
    assert found.looked_at["version checksums of an older form, passed over"] == 1


def test_timestamps_that_do_not_increase_are_named(root: Path) -> None:
    kinds = {fault.kind: fault for fault in _verify(STAMPED).faults}
    assert "is not after 1783874203271, that of version 0" in kinds[FaultKind.TIMESTAMP].says

    _edit(_commit(root, 6), lambda actions: actions[0]["commitInfo"].pop("inCommitTimestamp"))
    fault = next(fault for fault in _verify(root).faults if fault.kind is FaultKind.TIMESTAMP)
    assert fault.where == f"_delta_log/{6:020}.json"
    assert "this commit has none" in fault.says


def test_a_hint_that_is_wrong_is_named(root: Path) -> None:
    hint = _log(root, "_last_checkpoint")
    hint.write_bytes(b'{"version":5}')
    assert "names version 5" in _verify(root).faults[0].says
    hint.write_bytes(b'{"version"')
    assert _kinds(_verify(root)) == [FaultKind.HINT]


def test_data_files_that_are_gone_or_of_another_size_are_named(root: Path) -> None:
    (root / "f0.parquet").unlink()
    with (root / "f3.parquet").open("ab") as file:
        file.write(b"x")
    found = _verify(root)
    assert sorted((fault.where, fault.kind) for fault in found.faults) == [
        ("f0.parquet", FaultKind.DATA_FILE),
        ("f3.parquet", FaultKind.DATA_FILE),
    ]
    assert "it does not exist" in found.faults[0].says


def test_a_vector_that_is_damaged_is_named_by_its_file(root: Path) -> None:
    (vector,) = root.glob("**/deletion_vector*.bin")
    data = bytearray(vector.read_bytes())
    data[-1] ^= 0xFF
    vector.write_bytes(data)
    (fault,) = _verify(root).faults
    assert (fault.kind, fault.where) == (FaultKind.VECTOR, "f2.parquet")
    assert "CRC-32" in fault.says
    vector.unlink()
    assert _kinds(_verify(root)) == [FaultKind.VECTOR]


def test_a_vector_of_another_cardinality_or_beyond_the_file_is_named(root: Path) -> None:
    def wrong(actions: list[dict[str, Any]]) -> None:
        next(action["add"] for action in actions if "add" in action)["deletionVector"]["cardinality"] = 3

    before = _commit(root, 6).read_bytes()
    _edit(_commit(root, 6), wrong)
    assert FaultKind.VECTOR in _kinds(_verify(root))
    _commit(root, 6).write_bytes(before)
    _edit_stats(_commit(root, 6), {"numRecords": 9})
    fault = next(fault for fault in _verify(root).faults if fault.kind is FaultKind.VECTOR)
    assert "names row 9 (from 0), but the file has 9 rows" in fault.says


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"numRecords": 11}, "count 11 rows, but the file has 10"),
        ({"nullCount": {"id": 1, "name": 0}}, "count 1 nulls in id, but the file has 0"),
        ({"minValues": {"id": 41}}, "the minimum 41 for id, but the file has 40"),
        ({"maxValues": {"id": 48}}, "the maximum 48 for id, but the file has 49"),
        ({"maxValues": {"name": "a"}}, "the maximum 'a' for name"),
        ({"minValues": {"id": 1}, "maxValues": {"name": "z"}}, None),
        ({"maxValues": {"name": "n5"}}, None),
    ],
)
def test_statistics_that_the_footer_contradicts_are_named(root: Path, change: dict[str, Any], says: str | None) -> None:
    _edit_stats(_commit(root, 4), change)
    (file,) = _log(root, "").glob("*.compacted.json")
    file.unlink()
    assert _verify(root).faults == ()
    faults = _verify(root, footers=True).faults
    assert [(fault.kind, fault.where) for fault in faults] == [(FaultKind.STATISTICS, "f3.parquet")] * (
        says is not None
    )
    assert says is None or says in faults[0].says


def test_bounds_of_rows_that_are_left_are_no_fault(root: Path) -> None:
    tight = {"minValues": {"id": 31}, "maxValues": {"id": 38}, "nullCount": {"id": 0}, "tightBounds": True}
    _edit_stats(_commit(root, 6), tight)
    (file,) = _log(root, "").glob("*.compacted.json")
    file.unlink()
    assert _verify(root, footers=True).faults == ()
    _edit_stats(_commit(root, 6), {"minValues": {"id": 50}, "maxValues": {"id": 60}})
    assert _kinds(_verify(root, footers=True)) == [FaultKind.STATISTICS]


def test_what_is_no_parquet_is_named_by_its_footer(root: Path) -> None:
    file = root / "f0.parquet"
    file.write_bytes(b"\0" * (file.stat().st_size - 8) + struct.pack("<I", 1) + b"PAR1")
    assert _verify(root).faults == ()
    assert _kinds(_verify(root, footers=True)) == [FaultKind.STATISTICS]


def test_files_of_a_clone_are_looked_at_where_that_is_allowed(root: Path, tmp_path: Path) -> None:
    shallow_clone(Snapshot.load(root), Table.at(tmp_path / "clone"))
    found = _verify(tmp_path / "clone")
    assert (found.faults, found.looked_at.get("data files")) == ((), 0)
    assert "3 of the files are outside" in found.notes[0]
    assert verify(Table.at(tmp_path / "clone", follows_outside=True), footers=True).faults == ()
    (root / "f0.parquet").unlink()
    assert _kinds(verify(Table.at(tmp_path / "clone", follows_outside=True))) == [FaultKind.DATA_FILE]


def test_a_schema_that_cannot_be_read_is_named() -> None:
    log = TableLog()
    log.commit(0, protocol(), metadata(schemaString="{"))
    (fault,) = _verify(log.path).faults
    assert (fault.kind, fault.where) == (FaultKind.SCHEMA, "version 0")


def test_a_checkpoint_that_names_a_file_twice_is_named() -> None:
    log = TableLog().create(add("f0")).grow(1)
    log.classic(1, protocol(), metadata(), add("f0"), add("f0"))
    kinds = [FaultKind.CHECKPOINT, FaultKind.DATA_FILE, FaultKind.DATA_FILE]
    assert _kinds(_verify(log.path)) == kinds
    log.delete_commits(0, 1)
    assert _kinds(_verify(log.path)) == [FaultKind.CHECKPOINT, FaultKind.GAP]


def test_a_vector_that_is_no_descriptor_is_named() -> None:
    log = TableLog().create(add("f0", deletionVector={"storageType": None, "pathOrInlineDv": "x"}))
    assert _kinds(_verify(log.path)) == [FaultKind.DATA_FILE, FaultKind.VECTOR]


def test_what_is_no_table_or_cannot_be_read_is_an_error(tmp_path: Path, root: Path) -> None:
    with pytest.raises(TableNotFound):
        _verify(tmp_path)
    with pytest.raises(VersionNotFound, match="newest version is 6"):
        _verify(root, version=7)
    with pytest.raises(UnsupportedFeature):
        _verify(TOO_NEW)


def test_a_table_in_a_store_of_objects_is_verified() -> None:
    log = TableLog().create(add("f0"), add("a%20b", size=1))
    log.commit(1, commit_info(), *(add(f"g{number}") for number in range(501)))
    assert len(_verify(log.path).faults) == 503
    for name in ("f0", *(f"g{number}" for number in range(501))):
        log.store.put(name, b"x" * 100)
    log.store.put("a b", b"x")
    assert _verify(log.path).faults == ()
