"""Checkpoints that this package writes: what they hold, in which files, and that every reader agrees."""

from __future__ import annotations

import io
import json
import os
import uuid
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.errors import (
    CheckpointFallbackWarning,
    CorruptCheckpoint,
    CorruptLog,
    CorruptTable,
    InvalidArgument,
    InvalidSchema,
    StorageError,
    UnsupportedFeature,
)
from slackwater.log.checkpoints.write_checkpoint import CheckpointLayout, write_checkpoint, write_last_checkpoint
from slackwater.log.files import action_parquet_writer
from slackwater.log.files.last_checkpoint import CheckpointInfo
from slackwater.log.snapshot import LogSnapshot
from slackwater.protocol.actions.file_names import LogFileKind
from tests.examples import examples
from tests.log.tables import (
    DEFAULT,
    Action,
    SpyStore,
    TableLog,
    add,
    commit_info,
    domain,
    facts,
    metadata,
    paths,
    protocol,
    remove,
    txn,
)
from tests.log.test_replay import HISTORIES

DAY_MS = 86_400_000
V2_PROTOCOL = protocol(3, 7, ["v2Checkpoint"], ["v2Checkpoint"])
LAYOUTS = tuple(CheckpointLayout)
V2_LAYOUTS = tuple(layout for layout in LAYOUTS if layout is not CheckpointLayout.V1)


def v2_log(*actions: Action, configuration: dict[str, str] | None = None) -> TableLog:
    log = TableLog()
    log.commit(0, V2_PROTOCOL, metadata(configuration), *actions)
    return log


def content(snapshot: LogSnapshot) -> dict[str, Any]:
    """All that a checkpoint must keep of a snapshot; that it changes no data it says itself."""
    columns = {
        name: sorted(
            json.dumps({k: v for k, v in row.items() if k != "dataChange"}, sort_keys=True) for row in table.to_pylist()
        )
        for name, table in (("adds", snapshot.live_files()), ("removes", snapshot.tombstones()))
    }
    return facts(snapshot) | columns


def write(log: TableLog, layout: CheckpointLayout | None = None, now_ms: int = 0, **options: Any) -> CheckpointInfo:
    """Write the checkpoint of the newest version and delete the commits before it."""
    snapshot = log.load()
    info = write_checkpoint(snapshot, now_ms, layout, **options)
    write_last_checkpoint(log.store, info)
    log.delete_commits(*range(snapshot.version))
    return info


def table_of(log: TableLog, path: str) -> pa.Table:
    return pq.read_table(io.BytesIO(log.store.read(path)))


def schema_of(log: TableLog, path: str) -> pa.Schema:
    return table_of(log, path).schema


def rows_of(log: TableLog, path: str, action: str) -> list[dict[str, Any]]:
    return [row for row in table_of(log, path)[action].to_pylist() if row is not None]


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(history=HISTORIES, data=st.data())
def test_a_table_reads_the_same_from_its_checkpoints_without_the_commits_before(
    history: list[Any], data: st.DataObject
) -> None:
    log = TableLog()
    log.commit(0, V2_PROTOCOL, metadata())
    for version, commit in enumerate(history, 1):
        log.commit(version, *(action for _, action in commit if "protocol" not in action))
        layout = data.draw(st.sampled_from([None, *LAYOUTS]), label=f"layout of version {version}")
        before = content(log.load())
        if layout is not None:
            info = write(log, layout, sidecar_actions=data.draw(st.integers(1, 5), label="sidecar actions"))
            segment = log.load().segment
            assert segment.checkpoint is not None
            assert (segment.checkpoint.paths, segment.commits) == ((info.path,), ())
        assert content(log.load()) == before


def test_every_field_of_a_file_is_kept_and_changes_no_data_any_more() -> None:
    full = add(
        "p=1/a%20b",
        "x",
        partitionValues={"p": "1", "q": None, "r": ""},
        tags={"k": "v"},
        stats='{"numRecords":3}',
        baseRowId=7,
        defaultRowCommitVersion=2,
        clusteringProvider="liquid",
    )
    gone = remove("gone", "y", extendedFileMetadata=True, partitionValues={"p": None}, size=9, baseRowId=3, stats="{}")
    log = TableLog().create(full, gone)
    before = content(log.load())
    info = write(log)
    assert content(log.load()) == before
    assert log.load().live_files(["dataChange"]).to_pylist() == [{"dataChange": False}]
    assert rows_of(log, info.path, "remove")[0]["dataChange"] is False
    assert not {"stats", "tags"} & {field.name for field in schema_of(log, info.path).field("remove").type}


def test_the_info_counts_what_was_written() -> None:
    log = TableLog().create(add("a"), add("b"), remove("c"), txn("app", 1), domain("d"))
    info = write(log)
    assert info.path == "_delta_log/00000000000000000000.checkpoint.parquet"
    assert (info.version, info.num_actions, info.num_add_files, info.sidecars) == (0, 7, 2, ())
    assert info.size_bytes == len(log.store.read(info.path))
    assert table_of(log, info.path).num_rows == 7


def test_provenance_change_data_and_removed_domains_are_not_in_a_checkpoint() -> None:
    log = TableLog().create(add("a"), domain("old"), domain("kept"))
    change = {"cdc": {"path": "_change_data/x", "partitionValues": {}, "size": 1, "dataChange": False}}
    log.commit(1, commit_info(), change, domain("old", removed=True))
    info = write(log)
    assert schema_of(log, info.path).names == ["protocol", "metaData", "txn", "domainMetadata", "add", "remove"]
    assert [row["domain"] for row in rows_of(log, info.path, "domainMetadata")] == ["kept"]


@pytest.mark.parametrize(
    ("retention", "now_ms", "kept"),
    [
        (None, 7 * DAY_MS + 100, ["at"]),
        (None, 7 * DAY_MS + 101, []),
        (None, 0, ["after", "at"]),
        ("interval 1 day", DAY_MS + 100, ["at"]),
        ("interval 0 hours", 101, []),
    ],
)
def test_tombstones_stay_until_their_retention_has_passed(retention: str | None, now_ms: int, kept: list[str]) -> None:
    configuration = {} if retention is None else {"delta.deletedFileRetentionDuration": retention}
    log = TableLog().create(
        remove("at", deletionTimestamp=100),
        remove("never", deletionTimestamp=None),
        *([remove("after", deletionTimestamp=101)] if not now_ms else []),
        configuration=configuration,
    )
    write(log, now_ms=now_ms)
    assert sorted(log.load().tombstones()["path"].to_pylist()) == kept


def test_a_tombstone_of_an_older_checkpoint_expires_in_the_next_one() -> None:
    log = TableLog().create(remove("old", deletionTimestamp=100), remove("young", deletionTimestamp=900))
    write(log, now_ms=0)
    log.commit(1, add("a"))
    write(log, now_ms=7 * DAY_MS + 500)
    assert log.load().tombstones()["path"].to_pylist() == ["young"]


@pytest.mark.parametrize(
    ("configuration", "kept"),
    [
        ({}, ["new", "old", "timeless"]),
        ({"delta.setTransactionRetentionDuration": "1 day"}, ["new", "timeless"]),
    ],
)
def test_transaction_identifiers_expire_where_the_table_says_so(configuration: dict[str, str], kept: list[str]) -> None:
    actions = [{"txn": {"appId": name, "version": 1, "lastUpdated": ms}} for name, ms in (("old", 99), ("new", 100))]
    log = TableLog().create(*actions, txn("timeless", 1), configuration=configuration)
    write(log, now_ms=DAY_MS + 100)
    assert sorted(log.load().transactions) == kept


@pytest.mark.parametrize("key", ["delta.deletedFileRetentionDuration", "delta.setTransactionRetentionDuration"])
def test_a_retention_that_is_no_interval_is_an_error_of_the_table(key: str) -> None:
    log = TableLog().create(configuration={key: "1 month"})
    with pytest.raises(CorruptTable, match=key):
        write_checkpoint(log.load(), 0)


@pytest.mark.parametrize(
    ("action", "readers", "writers"),
    [
        (protocol(1, 2), None, None),
        (protocol(1, 7, writers=["domainMetadata"]), None, ["domainMetadata"]),
        (protocol(3, 7, [], []), [], []),
        (protocol(2, 5, ["ignored"], ["ignored"]), None, None),
    ],
)
def test_lists_of_features_stand_exactly_where_the_versions_ask_for_them(
    action: Action, readers: list[str] | None, writers: list[str] | None
) -> None:
    log = TableLog()
    log.commit(0, action, metadata())
    found = rows_of(log, write(log).path, "protocol")[0]
    assert (found["readerFeatures"], found["writerFeatures"]) == (readers, writers)


def test_a_checkpoint_is_never_newer_than_its_commit() -> None:
    log = TableLog().create(add("a")).grow(2)
    snapshot = log.load()
    log.delete_commits(2)
    with pytest.raises(InvalidArgument, match=r"00000000000000000002\.json"):
        write_checkpoint(snapshot, 0)
    assert not [m for m in log.store.list_from("_delta_log") if "checkpoint" in m.path]


def test_an_older_version_can_be_checkpointed_too() -> None:
    log = TableLog().create().grow(5)
    info = write_checkpoint(log.load(3), 0)
    assert info.path.endswith("00000000000000000003.checkpoint.parquet")
    log.delete_commits(0, 1, 2)
    assert paths(log.load(4)) == ["f1", "f2", "f3", "f4"]


def test_a_version_with_a_protocol_unknown_to_this_writer_gets_no_checkpoint() -> None:
    log = TableLog().create()
    log.commit(1, protocol(1, 7, writers=["ofAnother"]))
    log.commit(2, protocol(1, 2), add("a"))
    with pytest.raises(UnsupportedFeature, match="version 1: the table needs writer feature ofAnother"):
        write_checkpoint(log.load(1), 0)
    assert not [m for m in log.store.list_from("_delta_log") if "checkpoint" in m.path]
    assert write_checkpoint(log.load(2), 0).version == 2


def test_the_policy_of_the_table_chooses_the_layout() -> None:
    policy = {"delta.checkpointPolicy": "v2"}
    assert "checkpoint.parquet" in write(v2_log()).path
    unsupported = TableLog().create(configuration=policy)
    assert "checkpoint.parquet" in write(unsupported).path
    log = v2_log(add("a"), configuration=policy)
    info = write(log)
    checkpoint = log.load().segment.checkpoint
    assert checkpoint is not None
    assert checkpoint.kind is LogFileKind.CHECKPOINT_UUID
    assert info.path.endswith(".parquet")
    assert len(info.sidecars) == 1


@pytest.mark.parametrize("layout", V2_LAYOUTS)
def test_a_layout_that_the_table_does_not_support_is_refused(layout: CheckpointLayout) -> None:
    log = TableLog().create(add("a"))
    with pytest.raises(InvalidArgument, match="v2Checkpoint"):
        write_checkpoint(log.load(), 0, layout)
    assert log.store.list_from("_delta_log/_sidecars") == []


@pytest.mark.parametrize("layout", V2_LAYOUTS)
def test_a_v2_checkpoint_says_its_version_and_refers_to_its_sidecars_by_name(layout: CheckpointLayout) -> None:
    log = v2_log(add("a"), add("b"), remove("c"), txn("app", 1))
    info = write(log, layout, sidecar_actions=1, now_ms=77)
    if layout is CheckpointLayout.V2_JSON:
        actions = [json.loads(line) for line in log.store.read(info.path).splitlines()]
        found = {kind: [a[kind] for a in actions if kind in a] for kind in ("checkpointMetadata", "sidecar", "add")}
    else:
        assert schema_of(log, info.path).names[-4:] == ["checkpointMetadata", "sidecar", "add", "remove"]
        found = {kind: rows_of(log, info.path, kind) for kind in ("checkpointMetadata", "sidecar", "add", "remove")}
        assert (found["add"], found["remove"]) == ([], [])
    assert [node["version"] for node in found["checkpointMetadata"]] == [0]
    assert [f"_delta_log/_sidecars/{node['path']}" for node in found["sidecar"]] == list(info.sidecars)
    for node in found["sidecar"]:
        assert node["sizeInBytes"] == len(log.store.read(f"_delta_log/_sidecars/{node['path']}"))
        assert node["modificationTime"] == 77
    assert (len(info.sidecars), info.num_add_files, info.num_actions) == (3, 2, 3 + 1 + 1 + 1 + 1 + 3)


def test_a_table_without_files_needs_no_sidecars() -> None:
    log = v2_log()
    assert write(log, CheckpointLayout.V2).sidecars == ()
    assert paths(log.load()) == []


def test_sidecars_in_which_nothing_changed_are_referred_to_again() -> None:
    log = v2_log(add("a"), add("b"))
    first = write(log, CheckpointLayout.V2)
    log.commit(1, add("c"), remove("d"))
    second = write(log, CheckpointLayout.V2_JSON)
    assert second.reused_sidecars == first.sidecars
    assert len(second.sidecars) == 3
    log.commit(2, txn("app", 1))
    third = write(log, CheckpointLayout.V2_CLASSIC)
    assert set(third.sidecars) == set(second.sidecars) == set(third.reused_sidecars)
    assert (third.num_add_files, paths(log.load())) == (3, ["a", "b", "c"])
    assert log.load().tombstones()["path"].to_pylist() == ["d"]


@pytest.mark.parametrize("change", [remove("b"), add("b", tags={"k": "v"}), remove("%62")])
def test_a_sidecar_is_written_anew_where_one_of_its_files_is_touched(change: Action) -> None:
    log = v2_log(add("a"), add("b"), add("c"), add("d"))
    first = write(log, CheckpointLayout.V2, sidecar_actions=2)
    log.commit(1, change)
    before = content(log.load())
    second = write(log, CheckpointLayout.V2, sidecar_actions=2)
    assert second.reused_sidecars == first.sidecars[1:]
    assert content(log.load()) == before


def test_another_deletion_vector_touches_a_file_and_a_vector_that_is_gone_does_not() -> None:
    log = v2_log(add("a", "x"))
    first = write(log, CheckpointLayout.V2)
    log.commit(1, remove("a"))
    assert write(log, CheckpointLayout.V2).reused_sidecars == first.sidecars
    log.commit(2, remove("a", "x"), add("a", "y"))
    assert not set(first.sidecars) & set(write(log, CheckpointLayout.V2).sidecars)
    assert facts(log.load())["live"] == [("a", "y")]


def test_a_sidecar_of_tombstones_is_written_anew_when_one_expires() -> None:
    log = v2_log(add("a"), remove("old", deletionTimestamp=100), remove("young", deletionTimestamp=900))
    first = write(log, CheckpointLayout.V2, now_ms=0)
    log.commit(1, add("b"))
    second = write(log, CheckpointLayout.V2, now_ms=7 * DAY_MS + 500)
    assert second.reused_sidecars == first.sidecars[:1]
    assert log.load().tombstones()["path"].to_pylist() == ["young"]


def test_many_small_sidecars_are_joined() -> None:
    log = v2_log(add("a"))
    counts = []
    for version in range(1, 21):
        counts.append(len(write(log, CheckpointLayout.V2).sidecars))
        log.commit(version, add(f"f{version}"))
    assert max(counts) == 9
    assert counts[9] == 1
    assert len(paths(log.load())) == 21


def test_sidecars_of_another_form_are_written_anew() -> None:
    log = v2_log(add("a", stats='{"numRecords":1}'))
    first = write(log, CheckpointLayout.V2)
    log.commit(1, metadata({"delta.checkpoint.writeStatsAsStruct": "true"}))
    second = write(log, CheckpointLayout.V2)
    assert not set(first.sidecars) & set(second.sidecars)
    log.commit(2, add("b"))
    assert write(log, CheckpointLayout.V2).reused_sidecars == second.sidecars


@pytest.mark.parametrize("widened", ["id", "other"])
def test_sidecars_whose_statistics_are_of_a_narrower_type_are_written_anew(widened: str) -> None:
    def described(types: dict[str, str]) -> Action:
        fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in types.items()]
        text = json.dumps({"type": "struct", "fields": fields})
        return metadata({"delta.checkpoint.writeStatsAsStruct": "true"}, schemaString=text)

    narrow = {"id": "integer", "other": "integer"}
    log = TableLog()
    log.commit(0, V2_PROTOCOL, described(narrow), add("a", stats='{"numRecords":1,"minValues":{"id":1,"other":2}}'))
    first = write(log, CheckpointLayout.V2)
    log.commit(1, described({**narrow, widened: "long"}), add("b"))
    second = write(log, CheckpointLayout.V2)
    assert not set(first.sidecars) & set(second.sidecars)
    log.commit(2, add("c"))
    assert set(write(log, CheckpointLayout.V2).reused_sidecars) == set(second.sidecars)


def test_moving_from_v1_to_v2_and_back_keeps_everything() -> None:
    log = v2_log(add("a"), remove("b"))
    before = content(log.load())
    for number, layout in enumerate((*LAYOUTS, *LAYOUTS)):
        write(log, layout)
        assert {**content(log.load()), "version": 0} == before, layout
        log.commit(number + 1, commit_info())


def test_what_a_writer_left_beside_a_checkpoint_that_is_replaced_goes_first() -> None:
    log = TableLog().create(add("a"))
    log.classic(0, *DEFAULT, add("a"), add("a", "x"))
    log.put(".00000000000000000000.checkpoint.parquet.crc", b"of the one before")
    write_checkpoint(LogSnapshot.load(log.path), 0)
    assert log.store.head("_delta_log/.00000000000000000000.checkpoint.parquet.crc") is None


class FailingStore(SpyStore):
    """A store that fails where a test says so."""

    def __init__(self, store: Any, fails: Callable[[str], bool], after: Callable[[str], None] = lambda p: None) -> None:
        super().__init__(store)
        self._fails = fails
        self._after = after

    def put_file(self, path: str, local_file: Any) -> None:
        if self._fails(path):
            raise StorageError(f"put {path} failed")
        self._store.put_file(path, local_file)
        self._after(path)


def test_a_checkpoint_that_fails_leaves_no_sidecars_behind() -> None:
    log = v2_log(add("a"), add("b"), add("c"))
    seen: list[str] = []

    def third(path: str) -> bool:
        seen.append(path)
        return len(seen) == 3

    store = FailingStore(log.store, third)
    with pytest.raises(StorageError):
        write_checkpoint(LogSnapshot.open(store), 0, CheckpointLayout.V2, sidecar_actions=1)
    assert log.store.list_from("_delta_log/_sidecars") == []
    assert log.load().segment.checkpoint is None


def test_sidecars_stay_where_it_is_not_known_whether_the_checkpoint_landed() -> None:
    log = v2_log(add("a"))
    store = FailingStore(log.store, lambda path: "checkpoint" in path)
    with pytest.raises(StorageError):
        write_checkpoint(LogSnapshot.open(store), 0, CheckpointLayout.V2)
    assert len(log.store.list_from("_delta_log/_sidecars")) == 1


def test_a_checkpoint_whose_sidecar_was_cleaned_up_meanwhile_is_taken_back() -> None:
    log = v2_log(add("a"))
    first = write_checkpoint(log.load(), 0, CheckpointLayout.V2)
    log.commit(1, add("b"))
    store = FailingStore(
        log.store, lambda path: False, lambda path: log.store.delete(first.sidecars) if "checkpoint" in path else None
    )
    snapshot = LogSnapshot.open(store)
    with pytest.raises(CorruptCheckpoint, match="was removed"):
        write_checkpoint(snapshot, 0, CheckpointLayout.V2)
    assert [m.path for m in log.store.list_from("_delta_log") if "checkpoint" in m.path] == [first.path]
    with pytest.warns(CheckpointFallbackWarning):
        assert paths(log.load()) == ["a", "b"]


def test_a_checkpoint_that_was_stored_short_is_found_out() -> None:
    log = TableLog().create(add("a"), add("b"))
    other = TableLog().create(add("a"))
    shorter = other.store.read(write_checkpoint(other.load(), 0).path)

    def replace_by_padded(path: str) -> None:
        size = len(log.store.read(path))
        log.store.put(path, b"PAR1" + b"\0" * (size - len(shorter)) + shorter[4:])

    store = FailingStore(log.store, lambda path: False, replace_by_padded)
    with pytest.raises(CorruptCheckpoint, match="footer counts 3"):
        write_checkpoint(LogSnapshot.open(store), 0)


def test_the_checkpoint_of_a_writer_that_came_after_under_the_same_name_is_as_good() -> None:
    log = TableLog().create(add("a"), remove("b"), remove("c"))

    def overtaken(path: str) -> None:
        if not raced:
            raced.append(path)
            write_checkpoint(log.load(), 8 * DAY_MS)

    raced: list[str] = []
    info = write_checkpoint(LogSnapshot.open(FailingStore(log.store, lambda path: False, overtaken)), 0)
    assert raced == [info.path]
    log.delete_commits(0)
    assert paths(log.load()) == ["a"]


def test_a_damaged_checkpoint_before_is_passed_over() -> None:
    log = v2_log(add("a")).grow(2)
    damaged = write_checkpoint(log.load(1), 0, CheckpointLayout.V2)
    log.store.put(damaged.sidecars[0], b"damaged")
    with pytest.warns(CheckpointFallbackWarning, match="damaged|not a readable"):
        info = write_checkpoint(log.load(), 0)
    log.delete_commits(0, 1)
    assert info.num_add_files == 3
    assert paths(log.load()) == ["a", "f1", "f2"]


def test_each_row_group_holds_one_kind_of_action_and_a_bounded_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(action_parquet_writer, "_GROUP_ROWS", 10)
    log = TableLog().create(*(remove(f"r{n}") for n in range(5)))
    for version in range(1, 8):
        log.commit(version, *(add(f"f{version}-{n}") for n in range(5)))
        if version == 4:
            write(log)
    info = write(log)
    footer = pq.read_metadata(io.BytesIO(log.store.read(info.path)))
    leaves = [footer.schema.column(i).path for i in range(footer.num_columns)]
    kinds = []
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        present = {
            path.partition(".")[0]
            for i, path in enumerate(leaves)
            if group.column(i).statistics is None or group.column(i).statistics.null_count < group.num_rows
        }
        assert group.num_rows <= 35
        kinds.append(present & {"add", "remove", "protocol", "metaData"})
    assert kinds[:3] == [{"protocol"}, {"metaData"}, {"remove"}]
    assert kinds[3:] == [{"add"}] * len(kinds[3:])
    assert len(kinds) > 4
    assert log.load().live_files().num_rows == 35


def test_a_bad_number_of_actions_for_a_sidecar_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="sidecar_actions=0"):
        write_checkpoint(v2_log().load(), 0, CheckpointLayout.V2, sidecar_actions=0)


def test_names_come_from_the_uuids_that_are_passed_in() -> None:
    ids = [uuid.UUID(int=number) for number in range(1, 9)]
    info = write(v2_log(add("a")), CheckpointLayout.V2, new_uuid=iter(ids).__next__)
    assert info.sidecars == (f"_delta_log/_sidecars/{ids[0]}.parquet",)
    assert info.path == f"_delta_log/{0:020d}.checkpoint.{ids[2]}.parquet"


def test_broken_partition_columns_and_values_are_named() -> None:
    struct = {"delta.checkpoint.writeStatsAsStruct": "true"}
    log = TableLog()
    log.commit(0, protocol(), metadata(struct, partitionColumns=["missing"]))
    with pytest.raises(InvalidSchema, match="missing"):
        write_checkpoint(log.load(), 0)
    log = TableLog()
    log.commit(0, protocol(), metadata(struct, partitionColumns=["id"]), add("a", partitionValues={"id": "seven"}))
    with pytest.raises(CorruptLog, match="seven"):
        write_checkpoint(log.load(), 0)
    assert log.load().segment.checkpoint is None


def _data_file(log: TableLog, name: str, rows: list[int]) -> Action:
    path = f"{log.path}/{name}"
    os.makedirs(log.path, exist_ok=True)  # noqa: PTH103
    pq.write_table(pa.table({"id": pa.array(rows, pa.int64())}), path)
    stats = json.dumps(
        {
            "numRecords": len(rows),
            "minValues": {"id": min(rows)},
            "maxValues": {"id": max(rows)},
            "nullCount": {"id": 0},
        }
    )
    return add(name, size=os.path.getsize(path), stats=stats)  # noqa: PTH202


def _deltalake_ids(path: str) -> list[int]:
    deltalake = pytest.importorskip("deltalake")
    return sorted(deltalake.DeltaTable(path).to_pyarrow_table()["id"].to_pylist())


def _duckdb_ids(path: str) -> list[int]:
    duckdb = pytest.importorskip("duckdb")
    metadata_of = pytest.importorskip("importlib.metadata")
    package = metadata_of.distribution("duckdb-extension-delta")
    pattern = f"*/v{duckdb.__version__}/delta.duckdb_extension"
    extension = next(file for file in package.files if file.match(pattern))
    with duckdb.connect() as connection:
        connection.execute(f"LOAD '{package.locate_file(extension)}'")
        return sorted(row[0] for row in connection.execute("SELECT id FROM delta_scan(?)", [path]).fetchall())


@pytest.mark.parametrize("forms", ["json", "json and struct", "struct"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_other_engines_read_the_same_rows(tmp_path: Any, layout: CheckpointLayout, forms: str) -> None:
    properties = {
        "delta.checkpoint.writeStatsAsJson": str("json" in forms).lower(),
        "delta.checkpoint.writeStatsAsStruct": str("struct" in forms).lower(),
    }
    log = TableLog(str(tmp_path / "t"))
    action = protocol(1, 2) if layout is CheckpointLayout.V1 else V2_PROTOCOL
    log.commit(0, action, metadata(properties), *(_data_file(log, f"f{n}.parquet", [n, n + 10]) for n in range(4)))
    log.commit(1, remove("f0.parquet"), txn("app", 1))
    write(log, layout, sidecar_actions=2)
    log.commit(2, _data_file(log, "g.parquet", [99]), remove("f1.parquet"))
    expected = [2, 3, 12, 13, 99]
    assert paths(log.load()) == ["f2.parquet", "f3.parquet", "g.parquet"]
    for _ in range(2):
        assert _duckdb_ids(log.path) == expected
        if layout is CheckpointLayout.V1:
            assert _deltalake_ids(log.path) == expected
        write(log, layout, sidecar_actions=2)
