"""Features that leave a table: at once, or when nothing in its history needs them."""

from __future__ import annotations

import datetime as dt
import json
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.errors import (
    ConcurrentAppendException,
    InvalidArgument,
    OperationNotAllowed,
    ProtocolChangedException,
    StorageError,
    VersionNotFound,
)
from slackwater.log.checksum_totals import checksum_of
from slackwater.log.files.version_checksum import write_version_checksum
from slackwater.log.table import Table
from slackwater.maintenance.restore import restore
from slackwater.protocol.actions.actions import Protocol
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction import post_commit
from slackwater.transaction.commit.factory import begin_table
from slackwater.transaction.commit_result import CommitResult
from slackwater.transaction.definition import TableActions
from slackwater.transaction.table.alteration import set_domain, set_properties
from slackwater.transaction.table.feature_removal import drop_feature
from tests.transaction.tables import (
    START_MS,
    FakeTime,
    StepStore,
    add,
    append,
    begin,
    commit_actions,
    live,
    log_files,
    only,
    put_commit,
    removes,
    schema,
    table,
    vector,
)

DAY_MS = 24 * 3600 * 1000


def drop(snapshot: Snapshot, name: str, **more: Any) -> CommitResult:
    return drop_feature(snapshot, name, **more)


def _later(snapshot: Snapshot, days: float) -> Any:
    at_ms = snapshot.timestamp_ms + int(days * DAY_MS)
    return lambda: at_ms


# Features of writers.


def test_a_feature_of_writers_goes_in_one_commit_with_its_properties() -> None:
    before = append(table(properties={"delta.enableRowTracking": "true"}), add("a")).snapshot
    after = drop(before, "rowTracking").snapshot
    assert after.version == before.version + 1
    assert set(after.protocol.writer_features or ()) == {"appendOnly", "invariants", "domainMetadata"}
    assert not [key for key in after.metadata.configuration if "ow" in key and "racking" in key]
    assert after.domain_metadata == {}
    info = only(before.store, after.version, "commitInfo")
    assert (info["operation"], info["operationParameters"]["featureName"]) == ("DROP FEATURE", "rowTracking")
    assert live(after.store) == ["a"]


def test_the_last_listed_feature_gives_the_legacy_protocol_back() -> None:
    before = table(properties={"delta.feature.domainMetadata": "supported"})
    assert drop(before, "domainMetadata").snapshot.protocol == Protocol(1, 2)


def test_timestamps_in_commits_go_with_the_record_of_their_enablement() -> None:
    created = append(table(), add("a")).snapshot
    before = set_properties(created, {"delta.enableInCommitTimestamps": "true"}).commit(begin(created)).snapshot
    after = drop(before, "inCommitTimestamps").snapshot
    assert not [key for key in after.metadata.configuration if "Timestamp" in key]
    assert "inCommitTimestamp" not in only(before.store, after.version, "commitInfo")


@pytest.mark.parametrize(
    ("made", "feature", "match"),
    [
        (lambda: table(properties={"delta.constraints.c": "id > 0"}), "checkConstraints", "still use checkConstraints"),
        (lambda: table(schema({"id": "long"}, not_null=["id"])), "invariants", "still use invariants"),
        (
            lambda: table(
                schema({"id": "long"}, id={"CURRENT_DEFAULT": "1"}),
                properties={"delta.feature.allowColumnDefaults": "supported"},
            ),
            "allowColumnDefaults",
            "default values",
        ),
        (lambda: table(properties={"delta.columnMapping.mode": "name"}), "columnMapping", "other column names"),
        (lambda: table({"t": "timestamp_ntz"}), "timestampNtz", "still use timestampNtz"),
    ],
)
def test_a_feature_that_the_table_uses_stays(made: Any, feature: str, match: str) -> None:
    before = made()
    files = log_files(before.store)
    with pytest.raises(OperationNotAllowed, match=match):
        drop(before, feature)
    assert log_files(before.store) == files


def test_domains_of_the_users_are_removed_first() -> None:
    created = table()
    before = set_domain(created, "com.example.a", "1").commit(begin(created)).snapshot
    with pytest.raises(OperationNotAllowed, match=r"metadata domain com\.example\.a"):
        drop(before, "domainMetadata")


def test_what_others_require_goes_after_them() -> None:
    before = table(properties={"delta.enableRowTracking": "true"})
    with pytest.raises(InvalidArgument, match="needed by rowTracking"):
        drop(before, "domainMetadata")


@pytest.mark.parametrize(
    ("name", "truncate", "match"),
    [
        ("nonsense", False, "no table feature"),
        ("rowTracking", False, "does not support"),
        ("domainMetadata", True, "Omit truncateHistory"),
    ],
)
def test_what_makes_no_sense_is_refused(name: str, truncate: bool, match: str) -> None:
    before = table(properties={"delta.feature.domainMetadata": "supported"})
    with pytest.raises(InvalidArgument, match=match):
        drop(before, name, truncate_history=truncate)


# Features of readers.


def _with_vectors(path: Path | None = None) -> Snapshot:
    """A table that had deletion vectors once and has none now."""
    start = append(table(properties={"delta.enableDeletionVectors": "true"}, path=path), add("a")).snapshot
    marking = begin(start)
    marking.remove(removes(start, "a"))
    marking.add(add("a", deletion_vector=vector()))
    marked = marking.commit("DELETE").snapshot
    purging = begin(marked)
    purging.remove(removes(marked, "a", data_change=False))
    purging.add(add("a2", data_change=False), fresh=True)
    return purging.commit("REORG").snapshot


def test_a_reader_feature_goes_immediately_behind_three_barrier_checkpoints() -> None:
    before = _with_vectors()
    done = drop(before, "deletionVectors")
    after = Snapshot.open(before.store)
    # Version 4 unsets the property, 5 adds the tombstone of the vector, 6 to 8 are the barriers.
    operations = {v: only(before.store, v, "commitInfo")["operation"] for v in range(4, 10)}
    assert operations == {
        4: "UNSET TBLPROPERTIES",
        5: "Deletion Vector Tombstones",
        6: "Empty Commit",
        7: "Empty Commit",
        8: "Empty Commit",
        9: "DROP FEATURE",
    }
    assert (done.version, after.version, live(before.store)) == (9, 9, ["a2"])
    assert after.protocol == Protocol(1, 7, None, ("appendOnly", "invariants", "checkpointProtection"))
    assert after.metadata.configuration == {"delta.requireCheckpointProtectionBeforeVersion": "9"}
    assert [int(name[:20]) for name in log_files(before.store) if name.endswith("checkpoint.parquet")] == [6, 7, 8, 9]
    # Older versions stay readable for clients with the feature.
    assert live_at(before.store, 2) == ["a"]


def live_at(store: Any, version: int) -> list[str]:
    return sorted(Snapshot.open(store, version).live_files(["path"])["path"].to_pylist())


def test_vectors_of_removed_files_get_tombstones_and_the_totals_stay_right(monkeypatch: pytest.MonkeyPatch) -> None:
    # The totals follow from the commit, without a count of the files.
    monkeypatch.setattr(post_commit, "_MOST_FILES_COUNTED", 0)
    before, soon = _with_vectors(), lambda: START_MS + 1000
    assert write_version_checksum(before.store, checksum_of(before))
    drop(before, "deletionVectors", clock_ms=soon)
    (found,) = [a["remove"] for a in commit_actions(before.store, 5) if "remove" in a]
    assert (found["path"], found["dataChange"]) == (vector().relative_path, False)
    checksum = Snapshot.open(before.store, 5).checksum()
    assert checksum is not None
    assert (checksum.num_files, checksum.table_size_bytes) == (1, 100)
    # A second call writes no tombstone twice.
    again = set_properties(Snapshot.open(before.store), {"delta.enableDeletionVectors": "true"})
    enabled = again.commit(begin(Snapshot.open(before.store))).snapshot
    drop(enabled, "deletionVectors", clock_ms=soon)
    assert sum("remove" in a for v in range(10, 16) for a in commit_actions(before.store, v)) == 0


def test_the_protected_boundary_is_the_version_of_the_drop_also_after_a_rebase() -> None:
    before = append(table(properties={"delta.feature.vacuumProtocolCheck": "supported"}), add("a")).snapshot
    slipped: list[int] = []

    def step(operation: str, path: str) -> None:
        if operation == "put_if_absent" and path.endswith(f"{5:020d}.json") and not slipped:
            slipped.append(5)
            append(Snapshot.open(before.store), add("b"))

    store = StepStore(before.store, step)
    done = drop(Snapshot.open(store), "vacuumProtocolCheck")
    assert (slipped, done.version) == ([5], 6)
    assert done.snapshot.metadata.configuration == {"delta.requireCheckpointProtectionBeforeVersion": "6"}


def test_a_reader_feature_used_again_during_the_drop_stays() -> None:
    before = append(table(properties={"delta.enableDeletionVectors": "true"}), add("a")).snapshot

    def step(operation: str, path: str) -> None:
        if operation == "put_if_absent" and path.endswith(f"{4:020d}.json"):
            latest = Snapshot.open(before.store)
            if latest.version == 3:
                set_properties(latest, {"delta.enableDeletionVectors": "true"}).commit(begin(latest))

    with pytest.raises(OperationNotAllowed, match="another writer enabled deletionVectors again"):
        drop(Snapshot.open(StepStore(before.store, step)), "deletionVectors")
    assert "deletionVectors" in (Snapshot.open(before.store).protocol.writer_features or ())


def test_a_failed_checkpoint_after_the_drop_is_reported_with_the_commit() -> None:
    before = append(table(properties={"delta.feature.vacuumProtocolCheck": "supported"}), add("a")).snapshot

    def step(operation: str, path: str) -> None:
        if operation == "put_file" and path.endswith(f"{5:020d}.checkpoint.parquet"):
            raise StorageError("full")

    done = drop(Snapshot.open(StepStore(before.store, step)), "vacuumProtocolCheck")
    assert done.version == 5
    assert "the checkpoint failed: StorageError: full" in done.upkeep_errors[-1]


def test_a_reader_feature_goes_with_the_deleted_history() -> None:
    before = _with_vectors()
    with pytest.raises(OperationNotAllowed, match="can be removed from") as caught:
        drop(before, "deletionVectors", truncate_history=True, clock_ms=_later(before, 0.5))
    waiting = Snapshot.open(before.store)
    # What turns it on is gone by then: nothing new will use it while it is waited for.
    assert waiting.version == 4
    assert "delta.enableDeletionVectors" not in waiting.metadata.configuration
    assert "deletionVectors" in (waiting.protocol.writer_features or ())
    ripe = dt.datetime.fromtimestamp(waiting.timestamp_ms / 1000 + 86400, dt.timezone.utc)
    assert ripe.strftime("%Y-%m-%d") in str(caught.value)
    done = drop(waiting, "deletionVectors", truncate_history=True, clock_ms=_later(waiting, 1))
    assert done.version == 5
    assert Snapshot.open(before.store).protocol == Protocol(1, 2)
    versions = {int(name[:20]) for name in log_files(before.store) if name[0] == "0"}
    assert versions == {4, 5}
    assert live(before.store) == ["a2"]
    with pytest.raises(VersionNotFound):
        Snapshot.open(before.store, 3)
    assert done.timestamp_ms == _later(waiting, 1)()


# The feature that protects the checkpoints.


def _protected() -> Snapshot:
    before = append(table(properties={"delta.feature.vacuumProtocolCheck": "supported"}), add("a")).snapshot
    drop(before, "vacuumProtocolCheck")
    return Snapshot.open(before.store)


def test_checkpoint_protection_goes_only_with_its_versions() -> None:
    before = _protected()
    with pytest.raises(OperationNotAllowed, match="truncateHistory=True"):
        drop(before, "checkpointProtection")
    with pytest.raises(OperationNotAllowed, match="versions before 5 may hold traces"):
        drop(before, "checkpointProtection", truncate_history=True, clock_ms=_later(before, 0.9))
    assert Snapshot.open(before.store, 0).version == 0
    after = drop(before, "checkpointProtection", truncate_history=True, clock_ms=_later(before, 1.1)).snapshot
    assert after.protocol == Protocol(1, 2)
    assert after.metadata.configuration == {}
    assert {int(name[:20]) for name in log_files(before.store) if name[0] == "0"} == {5, 6}
    assert live(before.store) == ["a"]


def test_the_boundary_stays_in_a_restored_and_a_replaced_table() -> None:
    key = "delta.requireCheckpointProtectionBeforeVersion"
    before = _protected()
    restore(before.table, 1, clock=FakeTime().clock())
    restored = Snapshot.open(before.store)
    assert restored.metadata.configuration[key] == "5"
    assert restored.configuration.supports("vacuumProtocolCheck")
    replacing = begin(restored)
    replacing.set_metadata(replace(restored.metadata, configuration={}))
    assert replacing.commit("REPLACE TABLE").snapshot.metadata.configuration == {key: "5"}


def test_a_clone_protects_no_version_of_its_own() -> None:
    before = _protected()
    created = begin_table(Table.at(f"memory://{uuid.uuid4()}"), TableActions(before.configuration))
    after = created.commit("CLONE").snapshot
    assert after.configuration.supports("checkpointProtection")
    assert after.metadata.configuration == {}


def test_checkpoint_protection_without_protected_versions_goes_immediately() -> None:
    before = table(properties={"delta.feature.checkpointProtection": "supported"})
    assert drop(before, "checkpointProtection", truncate_history=True).snapshot.protocol == Protocol(1, 2)


def test_without_a_checkpoint_at_the_boundary_the_drop_writes_one() -> None:
    before = _protected()
    before.store.delete([f"_delta_log/{5:020d}.checkpoint.parquet"])
    ripe = _later(before, 2)
    latest = append(Snapshot.open(before.store), add("b")).snapshot
    with pytest.raises(OperationNotAllowed, match="versions before 5"):
        drop(latest, "checkpointProtection", truncate_history=True, clock_ms=ripe)
    after = drop(Snapshot.open(before.store), "checkpointProtection", truncate_history=True, clock_ms=ripe).snapshot
    assert (after.version, after.protocol) == (7, Protocol(1, 2))


def test_the_tables_own_retention_is_waited_for() -> None:
    properties = {"delta.dropFeatureTruncateHistory.retentionDuration": "interval 3 days"}
    created = table(properties={**properties, "delta.feature.vacuumProtocolCheck": "supported"})
    before = append(created, add("a")).snapshot
    with pytest.raises(OperationNotAllowed, match="can be removed from"):
        drop(before, "vacuumProtocolCheck", truncate_history=True, clock_ms=_later(before, 2.9))
    after = drop(before, "vacuumProtocolCheck", truncate_history=True, clock_ms=_later(before, 3)).snapshot
    assert after.protocol == Protocol(1, 2)


def test_a_table_without_history_has_nothing_to_wait_for() -> None:
    before = table(properties={"delta.feature.vacuumProtocolCheck": "supported"})
    assert drop(before, "vacuumProtocolCheck").snapshot.protocol == Protocol(1, 2)


def test_files_that_still_have_deletion_vectors_are_rewritten_first() -> None:
    start = append(table(properties={"delta.enableDeletionVectors": "true"}), add("a")).snapshot
    marking = begin(start)
    marking.remove(removes(start, "a"))
    marking.add(add("a", deletion_vector=vector()))
    marked = marking.commit("DELETE").snapshot
    with pytest.raises(OperationNotAllowed, match=r"Rewrite them first \(REORG"):
        drop(marked, "deletionVectors", truncate_history=True, clock_ms=_later(marked, 2))


def test_another_engine_reads_the_table_that_lost_a_feature_of_readers(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    before = table(properties={"delta.checkpointPolicy": "v2"}, path=tmp_path)
    for number in (1, 2):
        name = f"part-{number}.parquet"
        pq.write_table(pa.table({"id": pa.array([number], pa.int64())}), tmp_path / name)
        size = (tmp_path / name).stat().st_size
        stats = json.dumps({"numRecords": 1})
        before = append(before, replace(add(name), size=size, stats=stats)).snapshot
    with pytest.raises(OperationNotAllowed):
        drop(before, "v2Checkpoint", truncate_history=True)
    waiting = Snapshot.open(before.store)
    drop(waiting, "v2Checkpoint", truncate_history=True, clock_ms=_later(waiting, 2))
    found = deltalake.DeltaTable(str(tmp_path))
    assert found.protocol().reader_features is None
    assert sorted(found.to_pyarrow_table()["id"].to_pylist()) == [1, 2]
    assert [name for name in log_files(before.store) if "checkpoint" in name] == [
        f"{3:020d}.checkpoint.parquet",
        "_last_checkpoint",
    ]


def test_a_drop_that_lost_the_race_for_the_protocol_is_told() -> None:
    before = table(properties={"delta.feature.domainMetadata": "supported"})
    set_properties(before, {"delta.feature.clustering": "supported"}).commit(begin(before))
    with pytest.raises(ProtocolChangedException):
        drop(before, "domainMetadata")


def test_a_feature_that_another_writer_began_to_use_meanwhile_stays() -> None:
    read = table(properties={"delta.feature.domainMetadata": "supported"})
    set_domain(read, "mine", "{}").commit(begin(read))
    with pytest.raises(ProtocolChangedException, match="domainMetadata"):
        drop(read, "domainMetadata")
    now = Snapshot.open(read.store)
    assert (now.version, list(now.domain_metadata)) == (1, ["mine"])


def test_a_feature_goes_although_others_append_meanwhile() -> None:
    read = table(properties={"delta.feature.domainMetadata": "supported"})
    append(read, add("a"))
    assert drop(read, "domainMetadata").snapshot.protocol == Protocol(1, 2)


# What widened columns leave behind.

_WIDENED = {"delta.typeChanges": [{"fromType": "integer", "toType": "long"}]}


def _widened(nested: bool = False) -> Snapshot:
    inner = {"type": "struct", "fields": [{"name": "n", "type": "long", "nullable": True, "metadata": _WIDENED}]}
    text = schema({"id": "long", "s": inner}) if nested else schema({"id": "long"}, id=_WIDENED)
    properties = {"delta.enableTypeWidening": "true", "delta.dropFeatureTruncateHistory.retentionDuration": "0 hours"}
    created = table()
    feature = Protocol(3, 7, ("typeWidening",), ("typeWidening", "appendOnly", "invariants"))
    put_commit(
        created.store,
        1,
        {"commitInfo": {"timestamp": created.timestamp_ms}},
        feature.to_json(),
        replace(created.metadata, schema_string=text, configuration=properties).to_json(),
    )
    return Snapshot.open(created.store)


def _with_file(snapshot: Snapshot, name: str, kind: pa.DataType, nested: bool = False, **more: Any) -> Snapshot:
    """The next version, with a file whose widened column is of the type `kind`."""
    columns = {"s": pa.struct([("n", kind)])} if nested else {"id": kind}
    sink = pa.BufferOutputStream()
    pq.write_table(pa.schema(list(columns.items())).empty_table(), sink)
    snapshot.store.put_if_absent(name, sink.getvalue().to_pybytes())
    newest = Snapshot.open(snapshot.store)
    info = {"commitInfo": {"timestamp": snapshot.timestamp_ms, **more}}
    put_commit(snapshot.store, newest.version + 1, info, add(name).to_json())
    return Snapshot.open(snapshot.store)


def _rewritten(snapshot: Snapshot, files: pa.Table) -> Snapshot:
    """What the rewrite of a file commits."""
    wide = _with_file(snapshot, f"wide-of-{files['path'][0].as_py()}", pa.int64())
    gone = removes(wide, *files["path"].to_pylist(), data_change=False)
    put_commit(
        wide.store, wide.version + 1, {"commitInfo": {"timestamp": wide.timestamp_ms}}, *(r.to_json() for r in gone)
    )
    return Snapshot.open(wide.store)


@pytest.mark.parametrize("nested", [False, True])
def test_widened_columns_keep_the_feature_while_files_have_earlier_types(nested: bool) -> None:
    before = _with_file(_widened(nested), "narrow", pa.int32(), nested)
    files = log_files(before.store)
    column = "s.n" if nested else "id"
    with pytest.raises(OperationNotAllowed, match=rf"1 files still hold values of earlier types, of column {column} "):
        drop(before, "typeWidening", truncate_history=True, clock_ms=_later(before, 2))
    assert log_files(before.store) == files


@pytest.mark.parametrize("name", ["typeWidening", "typeWidening-preview"])
def test_files_of_the_current_types_need_no_rewrite(name: str) -> None:
    after = drop(_with_file(_widened(), "wide", pa.int64()), name).snapshot
    assert set(after.protocol.writer_features or ()) == {"appendOnly", "checkpointProtection", "invariants"}
    assert "typeChanges" not in after.metadata.schema_string
    assert live(after.store) == ["wide"]


def test_files_of_earlier_types_are_rewritten_first() -> None:
    before = _with_file(_with_file(_widened(), "wide", pa.int64()), "narrow", pa.int32())
    given: list[list[str]] = []

    def rewrite(files: pa.Table) -> Snapshot:
        given.append(files["path"].to_pylist())
        return _rewritten(before, files)

    after = drop(before, "typeWidening", rewrite=rewrite).snapshot
    assert given == [["narrow"]]
    assert "typeChanges" not in after.metadata.schema_string
    assert live(after.store) == ["wide", "wide-of-narrow"]


def test_files_of_earlier_types_that_come_during_the_rewrite_are_rewritten_too() -> None:
    before = _with_file(_widened(), "narrow-1", pa.int32())
    given: list[list[str]] = []

    def rewrite(files: pa.Table) -> Snapshot:
        given.append(files["path"].to_pylist())
        after = _rewritten(before, files)
        return _with_file(after, "narrow-2", pa.int32()) if len(given) == 1 else after

    after = drop(before, "typeWidening", rewrite=rewrite).snapshot
    assert given == [["narrow-1"], ["narrow-2"]]
    assert live(after.store) == ["wide-of-narrow-1", "wide-of-narrow-2"]


def test_type_history_stays_if_a_concurrent_restore_adds_files_again() -> None:
    """RESTORE may add files of earlier types, and its commit is no blind append."""
    before = _with_file(_widened(), "wide", pa.int64())

    def restores(operation: str, path: str) -> None:
        if operation == "put_if_absent" and path.endswith("3.json") and "restored" not in live(store):
            _with_file(before, "restored", pa.int32(), operation="RESTORE", isBlindAppend=False)

    store = before.store
    stepped = Snapshot.open(StepStore(store, restores))
    with pytest.raises(ConcurrentAppendException):
        drop(stepped, "typeWidening")
    assert "typeChanges" in Snapshot.open(store).metadata.schema_string


def test_widened_columns_keep_no_other_feature() -> None:
    widened = _widened()
    put_commit(widened.store, 2, {"commitInfo": {"timestamp": widened.timestamp_ms}}, add("narrow").to_json())
    after = drop(Snapshot.open(widened.store), "appendOnly").snapshot
    assert set(after.protocol.writer_features or ()) == {"typeWidening", "invariants"}


def test_files_keep_the_feature_only_where_a_column_was_widened() -> None:
    properties = {"delta.enableTypeWidening": "true", "delta.dropFeatureTruncateHistory.retentionDuration": "0 hours"}
    before = append(table(properties=properties), add("a")).snapshot
    after = drop(before, "typeWidening", truncate_history=True, clock_ms=_later(before, 2)).snapshot
    assert "typeWidening" not in (after.protocol.writer_features or ())


@pytest.mark.parametrize("nested", [False, True])
def test_the_record_of_type_changes_goes_with_the_feature(nested: bool) -> None:
    before = _widened(nested)
    after = drop(before, "typeWidening", truncate_history=True, clock_ms=_later(before, 2)).snapshot
    assert "typeChanges" not in after.metadata.schema_string
    assert "typeWidening" not in (after.protocol.writer_features or ())
    assert after.schema.names == before.schema.names
