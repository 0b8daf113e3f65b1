"""RESTORE makes a table what it was, and takes nothing back that only goes forward."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from slackwater.errors import (
    ConcurrentWriteException,
    DataFileNotFound,
    InvalidArgument,
    OperationNotAllowed,
    TimestampOutOfRange,
    VersionNotFound,
)
from slackwater.log.table import Table
from slackwater.maintenance.restore import restore
from slackwater.protocol.actions.actions import DomainMetadata
from slackwater.protocol.features.identity_columns import identity_columns
from slackwater.protocol.features.row_tracking import high_water_mark
from slackwater.protocol.schema.schema import LONG, StructField
from slackwater.protocol.schema_changes.alter_columns import NewColumn, add_columns
from slackwater.scan.snapshot import Snapshot
from slackwater.storage import ObjectStore
from slackwater.storage.store import ObjectMeta
from slackwater.transaction.table.alteration import add_feature, cluster_by, clustering_columns, set_properties
from tests.maintenance.aged import AgedTable
from tests.transaction.tables import (
    START_MS,
    VECTORS,
    FakeTime,
    StepStore,
    add,
    append,
    begin,
    delete,
    delete_rows_of,
    live,
    live_rows,
    only,
    schema,
    set_props,
    table,
    vector_files,
)

TRACKED = {"delta.enableRowTracking": "true"}


def _put(store: ObjectStore, *paths: str) -> None:
    for path in paths:
        store.put(path, b"x" * 100)


def _restored(snapshot: Snapshot, version: int, **more: Any) -> Snapshot:
    restore(snapshot.table, version, clock=FakeTime().clock(), **more)
    return snapshot.update()


def test_files_come_back_and_go() -> None:
    first = append(table(), add("a"), add("b")).snapshot
    _put(first.store, "a", "b", "c")
    second = append(delete(first, "a").snapshot, add("c", rows=5)).snapshot
    result = restore(second.table, 1, clock=FakeTime().clock())
    assert live(second.store) == ["a", "b"]
    assert result.to_dict() == {
        "table_size_after_restore": 200,
        "num_of_files_after_restore": 2,
        "num_removed_files": 1,
        "num_restored_files": 1,
        "removed_files_size": 100,
        "restored_files_size": 100,
    }
    info = only(second.store, 4, "commitInfo")
    assert (info["operation"], info["operationParameters"]) == ("RESTORE", {"version": "1"})
    assert info["operationMetrics"] == {
        "numRestoredFiles": "1",
        "removedFilesSize": "100",
        "numRemovedFiles": "1",
        "restoredFilesSize": "100",
        "numOfFilesAfterRestore": "2",
        "tableSizeAfterRestore": "200",
    }
    assert only(second.store, 4, "add")["dataChange"] is True
    assert only(second.store, 4, "remove")["dataChange"] is True


def test_to_the_version_that_it_is_is_an_entry_in_the_history_and_nothing_else() -> None:
    snapshot = append(table(), add("a")).snapshot
    assert restore(snapshot.table, 1).num_restored_files == 0
    assert (snapshot.update().version, live(snapshot.store)) == (2, ["a"])


def test_deletion_vectors_come_back_also_where_new_ones_are_not_made_any_more() -> None:
    first = append(table(properties=VECTORS), add("a")).snapshot
    _put(first.store, "a")
    second = delete_rows_of(first, {"a": [1, 2]}).snapshot
    third = set_props(delete_rows_of(second, {"a": [3]}).snapshot, delta__enableDeletionVectors="false").snapshot
    assert live_rows(_restored(third, 2).store) == {"a": [0, 3, 4, 5, 6, 7, 8, 9]}
    assert live_rows(_restored(third, 1).store) == {"a": list(range(10))}
    assert live_rows(_restored(third, 4).store) == {"a": [0, 4, 5, 6, 7, 8, 9]}
    assert third.update().properties["delta.enableDeletionVectors"] == "false"


def test_schema_and_settings_come_back_and_the_table_stays_the_same_table() -> None:
    first = append(table(), add("a")).snapshot
    second = set_props(first, delta__appendOnly="false", mine="1").snapshot
    again = _restored(second, 1)
    assert dict(again.metadata.configuration) == {}
    assert again.metadata.id == first.metadata.id
    assert dict(_restored(again, 2).metadata.configuration) == {"delta.appendOnly": "false", "mine": "1"}


def test_a_protocol_is_never_weakened() -> None:
    first = table()
    second = add_feature(first, "deletionVectors").commit(begin(first)).snapshot
    assert _restored(second, 0).protocol == second.protocol


def test_in_commit_timestamps_stay_on() -> None:
    first = table()
    second = set_props(first, delta__enableInCommitTimestamps="true").snapshot
    third = _restored(second, 0)
    assert third.configuration.is_active("inCommitTimestamp")
    assert third.properties["delta.inCommitTimestampEnablementVersion"] == "1"


def test_identity_columns_go_on_from_where_they_are() -> None:
    identity = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": False}
    first = table(schema({"id": "long", "n": "long"}, id=identity))
    marked = first.metadata.schema_string.replace(
        '"delta.identity.start"', '"delta.identity.highWaterMark":41,"delta.identity.start"'
    )
    transaction = begin(first)
    transaction.set_metadata(replace(first.metadata, schema_string=marked))
    second = transaction.commit("WRITE").snapshot
    assert identity_columns(second.schema)[0].high_water_mark == 41
    assert identity_columns(_restored(second, 0).schema)[0].high_water_mark == 41


def test_an_identity_column_that_was_renamed_goes_on_from_where_it_is() -> None:
    identity = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": False}
    first = table(schema({"id": "long", "n": "long"}, id=identity), properties={"delta.columnMapping.mode": "name"})
    renamed = first.metadata.schema_string.replace('"name":"id"', '"name":"key"').replace(
        '"delta.identity.start"', '"delta.identity.highWaterMark":41,"delta.identity.start"'
    )
    transaction = begin(first)
    transaction.set_metadata(replace(first.metadata, schema_string=renamed))
    second = transaction.commit("WRITE").snapshot
    assert [(each.name, each.high_water_mark) for each in identity_columns(second.schema)] == [("key", 41)]
    third = _restored(second, 0)
    assert [(each.name, each.high_water_mark) for each in identity_columns(third.schema)] == [("id", 41)]


def test_row_ids_come_back_with_their_rows_and_are_not_given_out_again() -> None:
    first = append(table(properties=TRACKED), add("a")).snapshot
    _put(first.store, "a", "b")
    second = append(delete(first, "a").snapshot, add("b")).snapshot
    third = _restored(second, 1)
    (file,) = third.files().to_pylist()
    assert (file["path"], file["baseRowId"], file["defaultRowCommitVersion"]) == ("a", 0, 1)
    assert high_water_mark(third.domain_metadata) == 19
    fourth = append(third, add("c")).snapshot
    assert {f["path"]: f["baseRowId"] for f in fourth.files().to_pylist()} == {"a": 0, "c": 20}


def test_row_ids_go_on_also_where_there_were_none_then() -> None:
    first = append(table(), add("a")).snapshot
    _put(first.store, "a")
    second = append(set_props(first, delta__enableRowTracking="true").snapshot, add("b")).snapshot
    names = {key: value for key, value in second.properties.items() if "materialized" in key}
    third = _restored(second, 1)
    assert not third.configuration.is_active("rowTracking")
    assert high_water_mark(third.domain_metadata) == high_water_mark(second.domain_metadata) == 19
    assert {key: value for key, value in third.properties.items() if "materialized" in key} == names
    assert len(names) == 2


def test_domains_come_back_and_go() -> None:
    first = append(table(), add("a")).snapshot
    second = cluster_by(first, [("id",)]).commit(begin(first)).snapshot
    transaction = begin(second)
    transaction.set_domain(DomainMetadata("mine", "1"))
    third = transaction.commit("x").snapshot
    assert set(third.domain_metadata) == {"delta.clustering", "mine"}
    # The protocol still lists clustering, so its domain stays and has no columns.
    assert clustering_columns(_restored(third, 1)) == []
    assert set(_restored(third, 1).domain_metadata) == {"delta.clustering"}
    assert clustering_columns(_restored(third, 2)) == [("id",)]
    assert set(_restored(third, 2).domain_metadata) == {"delta.clustering"}


def test_ids_of_columns_are_not_given_out_again() -> None:
    first = table({"id": "long"}, properties={"delta.columnMapping.mode": "name"})
    transaction = begin(first)
    transaction.set_table(add_columns(first.configuration, [NewColumn(StructField("n", LONG))]))
    second = transaction.commit("ADD COLUMNS").snapshot
    assert second.properties["delta.columnMapping.maxColumnId"] == "2"
    third = _restored(second, 0)
    assert third.schema.names == ("id",)
    assert third.properties["delta.columnMapping.maxColumnId"] == "2"


def test_to_a_timestamp(tmp_path: Path) -> None:
    aged = AgedTable(tmp_path / "t")
    aged.at(1).append("a")
    aged.at(2).append("b")
    result = restore(aged.snapshot.table, timestamp=START_MS + 5_400_000, said="half past", clock=aged.time.clock())
    assert (result.num_removed_files, live(aged.snapshot.store)) == (1, ["a"])
    assert only(aged.snapshot.store, 3, "commitInfo")["operationParameters"] == {
        "version": "1",
        "timestamp": "half past",
    }
    assert restore(aged.snapshot.table, timestamp=START_MS + 10**12).num_of_files_after_restore == 1
    with pytest.raises(TimestampOutOfRange):
        restore(aged.snapshot.table, timestamp=START_MS - 10**9)


def test_files_that_are_gone_are_named_and_nothing_is_changed() -> None:
    first = append(table(), add("a"), add("b")).snapshot
    _put(first.store, "b")
    second = delete(first, "a", "b").snapshot
    with pytest.raises(DataFileNotFound, match=r"needs 1 files that do not exist \(a\)"):
        restore(second.table, 1)
    assert second.update().version == 2
    assert restore(second.table, 1, ignore_missing_files=True).num_restored_files == 2


def test_deletion_vectors_that_are_gone_are_named() -> None:
    first = append(table(properties=VECTORS), add("a")).snapshot
    _put(first.store, "a")
    second = delete(delete_rows_of(first, {"a": [1]}).snapshot, "a").snapshot
    first.store.delete(vector_files(first.store))
    with pytest.raises(DataFileNotFound, match="deletion_vector_"):
        restore(second.table, 2)


def test_many_files_are_looked_for_by_one_listing() -> None:
    names = [f"part-{n}" for n in range(600)]
    first = append(table(), *(add(name) for name in names)).snapshot
    _put(first.store, *names[:-1])
    second = delete(first, *names).snapshot
    asked: list[str] = []
    store: Any = StepStore(first.store, lambda _, path: None)

    def head(path: str) -> ObjectMeta | None:
        asked.append(path)
        return first.store.head(path)

    store.head = head
    with pytest.raises(DataFileNotFound, match=r"needs 1 files that do not exist \(part-599\)"):
        restore(Table(store), 1)
    assert not [path for path in asked if path.startswith("part-")]
    assert second.update().version == 2


@pytest.mark.parametrize("trusted", [False, True])
def test_files_elsewhere_are_asked_for_only_where_that_is_trusted(tmp_path: Path, trusted: bool) -> None:
    elsewhere = (tmp_path / "secret").as_uri()
    first = append(table(path=str(tmp_path / "t")), add(elsewhere)).snapshot
    delete(first, elsewhere)
    reached = Table.at(str(tmp_path / "t"), follows_outside=trusted)
    if trusted:
        with pytest.raises(DataFileNotFound, match="secret"):
            restore(reached, 1)
        (tmp_path / "secret").write_bytes(b"x")
    assert restore(reached, 1).num_restored_files == 1


def test_what_others_commit_meanwhile_goes_too() -> None:
    first = append(table(), add("a")).snapshot
    _put(first.store, "a")
    second = delete(first, "a").snapshot
    done: list[int] = []

    def before(operation: str, path: str) -> None:
        if operation == "put_if_absent" and not done:
            done.append(append(second, add("b")).version)

    store: Any = StepStore(second.store, before)
    result = restore(Table(store), 1, clock=FakeTime().clock())
    assert (done, live(second.store), result.num_removed_files) == ([3], ["a"], 1)


def test_it_gives_up_when_others_are_always_faster() -> None:
    first = append(table(), add("a")).snapshot
    _put(first.store, "a")
    newest = [delete(first, "a").snapshot]

    def before(operation: str, path: str) -> None:
        if operation == "put_if_absent" and path.endswith(".json"):
            newest.append(append(newest[-1], add(f"f{len(newest)}")).snapshot)

    store: Any = StepStore(first.store, before)
    with pytest.raises(ConcurrentWriteException, match="re-adds may have been deleted"):
        restore(Table(store), 1, clock=FakeTime().clock())
    assert "a" not in live(first.store)


def test_an_append_only_table_stays_as_it_is() -> None:
    first = append(table(), add("a")).snapshot
    second = set_props(append(first, add("b")).snapshot, delta__appendOnly="true").snapshot
    with pytest.raises(OperationNotAllowed, match="append-only"):
        restore(second.table, 1)


@pytest.mark.parametrize("which", [{}, {"version": 0, "timestamp": 0}])
def test_one_of_version_and_timestamp(which: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="a version or a timestamp"):
        restore(table().table, **which)


@pytest.mark.parametrize("version", [7, -1, True])
def test_a_version_that_is_none(version: Any) -> None:
    with pytest.raises((VersionNotFound, InvalidArgument)):
        restore(table().table, version)


def test_the_change_feed_sees_rows_come_and_go() -> None:
    first = append(table(properties={"delta.enableChangeDataFeed": "true"}), add("a")).snapshot
    _put(first.store, "a")
    second = delete(first, "a").snapshot
    _restored(second, 1)
    actions = [orjson.loads(line) for line in first.store.read("_delta_log/00000000000000000003.json").splitlines()]
    assert [next(iter(action)) for action in actions] == ["commitInfo", "add"]
    assert set_properties(first, {}) is not None
