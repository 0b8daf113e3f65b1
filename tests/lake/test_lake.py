"""Lakes of named tables, without Spark."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from sqlalchemy import make_url

import slackwater
from slackwater.errors import (
    CommitOwnerRequired,
    CorruptTable,
    InvalidArgument,
    OperationNotAllowed,
    PathNotAllowed,
    ProtocolChangedException,
    SlackwaterError,
    TableAlreadyExists,
    TableNotFound,
    UnratifiedCommit,
)
from slackwater.lake.lake import LogLake
from slackwater.owner.embedded import EmbeddedOwner, database_url
from slackwater.protocol.features.managed_commits import ownership
from slackwater.protocol.schema.schema import DATE, LONG, StructField, StructType
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.local_store import LocalObjectStore
from slackwater.storage.open import open_store
from slackwater.storage.store import ObjectStore
from slackwater.transaction.commit.transaction import TableTransaction
from slackwater.transaction.committers.factory import committer_for
from slackwater.transaction.table.alteration import set_properties, unset_properties
from tests.contract.owners import actions_in, eventually, write_version
from tests.transaction.tables import add, live, schema

ID = schema({"id": "long"})


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[LogLake]:
    with held(tmp_path / "lake") as found:
        yield found


def held(root: Path, **settings: Any) -> LogLake:
    """A lake whose owner backfills on request only."""
    owner = EmbeddedOwner.open(root, **{"backfill_delay_s": None, **settings})
    return LogLake(owner, owner.root_url)


def append(table: Any, *paths: str) -> Snapshot:
    transaction = slackwater.Transaction(table)
    transaction.add(*(add(path) for path in paths))
    return transaction.commit("WRITE").snapshot


def begin(snapshot: Snapshot) -> TableTransaction:
    return TableTransaction(snapshot.table, committer_for(snapshot.table, snapshot.configuration), snapshot)


def log_names(store: ObjectStore, suffix: str) -> list[int]:
    """The versions of which `_delta_log` has a file with that ending."""
    names = [meta.path.rpartition("/")[2] for meta in store.list_from("_delta_log")]
    return sorted(int(name[:20]) for name in names if name[20:] == suffix)


# The lake as a collection of tables.


def test_a_lake_is_a_collection_of_its_tables(lake: LogLake) -> None:
    assert (len(lake), list(lake), bool(lake)) == (0, [], True)
    for name in ("orders", "stock"):
        lake.create_table(name, "id BIGINT NOT NULL, day DATE")
    assert (len(lake), list(lake)) == (2, ["orders", "stock"])
    assert ("stock" in lake, "missing" in lake, 7 in lake) == (True, False, False)
    assert lake["stock"].version == 0
    with pytest.raises(TableNotFound, match="Existing tables: orders, stock"):
        lake["missing"]
    assert repr(lake) == f"<Lake {lake.location('stock').rpartition('/')[0]}: 2 tables>"
    lake.close()
    assert repr(lake).endswith("(closed)>")


@pytest.mark.parametrize(
    "form",
    [
        "id BIGINT NOT NULL, day DATE",
        pa.schema([pa.field("id", pa.int64(), nullable=False), ("day", pa.date32())]),
        StructType((StructField("id", LONG, nullable=False), StructField("day", DATE))),
        schema({"id": "long", "day": "date"}),
    ],
)
def test_a_table_is_created_without_spark_from_any_form_of_a_schema(lake: LogLake, form: Any) -> None:
    created = lake.create_table(
        "t", form, partition_by=["day"], description="d", properties={"delta.appendOnly": "true"}
    )
    assert (created.version, lake["t"].metadata.partition_columns, created.metadata.description) == (0, ("day",), "d")
    columns = [(each.name, each.type) for each in created.schema]
    assert columns == [("id", LONG), ("day", DATE)]
    with pytest.raises(TableAlreadyExists):
        lake.create_table("t", form)
    with pytest.raises(InvalidArgument, match="schema is an Arrow schema, a list of columns"):
        lake.create_table("u", [("id", "bigint")])
    with pytest.raises(InvalidArgument, match="expected columns such as 'day DATE, n INT', found 'id BIGINTT'"):
        lake.create_table("u", "id BIGINTT")
    assert list(lake) == ["t"]


# Creation.


def test_a_table_is_created_by_its_name_below_the_lakes_root(lake: LogLake, tmp_path: Path) -> None:
    created = lake._create_log("flights", ID, description="of planes", properties={"delta.appendOnly": "true"})
    assert created.version == 0
    snapshot = lake.snapshot("flights")
    assert snapshot.store.local_root == str(tmp_path / "lake" / "flights")
    assert (snapshot.version, snapshot.metadata.description) == (0, "of planes")
    assert snapshot.properties.flag("delta.appendOnly")
    assert [table.name for table in lake.tables()] == ["flights"]
    assert lake.tables()[0].timestamp_ms == snapshot.timestamp_ms


def test_a_table_of_a_lake_says_whose_it_is_as_the_rfc_wants_it(lake: LogLake) -> None:
    snapshot = lake._create_log("t", ID).snapshot
    assert snapshot.protocol.min_writer_version == 7
    assert {"managedCommit", "inCommitTimestamp"} <= set(snapshot.protocol.writer_features or ())
    assert not snapshot.protocol.reader_features
    configuration = snapshot.metadata.configuration
    assert configuration["delta.managedCommit.commitOwner"] == "slackwater"
    assert configuration["delta.enableInCommitTimestamps"] == "true"
    conf = orjson.loads(configuration["delta.managedCommit.commitOwnerConf"])
    assert conf == {"ownerId": lake.owner.owner_id, "tableId": lake.owner.table("t").table_id, "name": "t"}


def test_a_table_may_lie_elsewhere_and_have_partitions_and_clusters(lake: LogLake, tmp_path: Path) -> None:
    columns = schema({"id": "long", "p": "string"})
    lake._create_log("parted", columns, partition_by=["p"], location=tmp_path / "elsewhere")
    assert lake.snapshot("parted").metadata.partition_columns == ("p",)
    assert lake.snapshot("parted").store.local_root == str(tmp_path / "elsewhere")
    clustered = lake._create_log("clustered", columns, cluster_by=["id"]).snapshot
    assert "delta.clustering" in clustered.domain_metadata


def test_a_name_that_is_taken_is_refused(lake: LogLake, tmp_path: Path) -> None:
    lake._create_log("t", ID)
    for again in (
        lambda: lake._create_log("t", ID, location=tmp_path / "other"),
        lambda: lake.adopt("t", tmp_path / "other"),
    ):
        with pytest.raises(TableAlreadyExists, match="a table named 't' already exists"):
            again()
    assert not (tmp_path / "other").exists()


def test_a_place_where_there_is_a_table_is_refused(lake: LogLake) -> None:
    there = lake._create_log("t", ID).snapshot.store
    with pytest.raises(TableAlreadyExists, match=r"is already a Delta table\. Call adopt"):
        lake._create_log("u", ID, location=there.root_url)
    with pytest.raises(TableAlreadyExists, match="belongs to the commit owner"):
        lake.adopt("u", there.root_url)
    assert [table.name for table in lake.tables()] == ["t"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "-x", ".x", "a b", "ä", "a" * 256, "a\n", "a?b"])
def test_names_that_are_no_names_are_refused(lake: LogLake, name: str) -> None:
    for call in (lambda: lake._create_log(name, ID), lambda: lake.adopt(name, "/nowhere")):
        with pytest.raises(InvalidArgument, match="a table name must consist of"):
            call()


@pytest.mark.parametrize(
    "properties",
    [
        {"delta.managedCommit.commitOwner": "me"},
        {"delta.managedCommit.commitOwnerConf": "{}"},
        {"delta.MANAGEDCOMMIT.commitowner": "me"},
        {"delta.feature.managedCommit": "supported", "delta.feature.catalogManaged": "supported"},
        {"delta.feature.catalogOwned": "supported"},
        {"slackwater.commitOwner": "me"},
        {"slackwater.commitOwnerConf": "{}"},
        {"delta.nonsense": "1"},
    ],
)
def test_properties_that_no_user_may_give_a_new_table_are_refused(
    lake: LogLake, tmp_path: Path, properties: dict[str, str]
) -> None:
    with pytest.raises((InvalidArgument, OperationNotAllowed)):
        lake._create_log("t", ID, properties=properties)
    assert lake.tables() == []
    assert not (tmp_path / "lake" / "t").exists()
    with pytest.raises((InvalidArgument, OperationNotAllowed)):
        slackwater.Transaction.create(tmp_path / "plain", ID, properties=properties).commit("CREATE TABLE")
    assert not (tmp_path / "plain" / "_delta_log").exists()


def test_a_table_of_a_lake_has_timestamps_of_its_own_whatever_was_asked_for(lake: LogLake) -> None:
    asked = {"delta.enableInCommitTimestamps": "false"}
    assert lake._create_log("t", ID, properties=asked).snapshot.properties.flag("delta.enableInCommitTimestamps")


def test_a_table_that_is_not_there_is_named_with_those_that_are(lake: LogLake) -> None:
    lake._create_log("flights", ID)
    for call in (lake.snapshot, lake.release, lake.backfill, lake.repair):
        with pytest.raises(TableNotFound, match=r"no table named 'nope'.*Existing tables: flights"):
            call("nope")


# By path.


def test_a_table_is_written_and_read_by_its_path_while_the_lake_is_open(lake: LogLake, tmp_path: Path) -> None:
    lake._create_log("t", ID)
    append(tmp_path / "lake" / "t", "a")
    append((tmp_path / "lake" / "t").as_uri(), "b")
    assert live(lake.snapshot("t").store) == ["a", "b"]
    assert slackwater.Snapshot.load(tmp_path / "lake" / "t").version == 2
    assert log_names(lake.snapshot("t").store, ".json") == [0]


def test_a_table_of_a_lake_that_is_closed_is_read_and_not_written(tmp_path: Path) -> None:
    path = tmp_path / "lake" / "t"
    with held(tmp_path / "lake") as lake:
        lake._create_log("t", ID)
        append(path, "a")
        owner_id = lake.owner.owner_id
    found = Snapshot.load(path)
    assert found.version == 0
    with pytest.raises(CommitOwnerRequired, match=f"takes commits only from .*{owner_id}.*Open its lake first"):
        append(path, "b")
    with held(tmp_path / "lake"):
        assert append(path, "b").version == 2
        assert live(found.store) == ["a", "b"]


def test_a_lake_that_is_closed_leaves_every_commit_to_everybody(tmp_path: Path) -> None:
    with LogLake.open(tmp_path / "lake") as lake:
        lake._create_log("t", ID)
        for name in ("a", "b", "c"):
            append(tmp_path / "lake" / "t", name)
    assert live(open_store(tmp_path / "lake" / "t")) == ["a", "b", "c"]


def test_commits_reach_everybody_soon(tmp_path: Path) -> None:
    with LogLake.open(tmp_path / "lake") as lake:
        store = lake._create_log("t", ID).store
        append(tmp_path / "lake" / "t", "a")
        eventually(lambda: log_names(store, ".json") == [0, 1])


def test_the_read_timestamp_table_has_as_many_slots_as_are_asked_for(tmp_path: Path) -> None:
    def slots() -> object:
        with closing(sqlite3.connect(make_url(database_url(tmp_path, None)).database or "")) as connection:
            return connection.execute("SELECT read_slots FROM owner").fetchone()[0]

    for asked, found in ((16, 16), (None, 16), (64, 64)):
        with LogLake.open(tmp_path, read_slots=asked):
            assert slots() == found
    with pytest.raises(InvalidArgument, match="slots"):
        LogLake.open(tmp_path, read_slots=0)
    assert slots() == 64


def test_a_lake_may_be_open_more_than_once(tmp_path: Path) -> None:
    first, second = held(tmp_path / "lake"), held(tmp_path / "lake")
    first._create_log("t", ID)
    append(tmp_path / "lake" / "t", "a")
    assert second.snapshot("t").version == 1
    second.close()
    assert append(tmp_path / "lake" / "t", "b").version == 2
    assert live(first.snapshot("t").store) == ["a", "b"]
    first.close()


def test_an_owner_of_another_kind_is_never_written_around(tmp_path: Path, lake: LogLake) -> None:
    snapshot = lake._create_log("t", ID).snapshot
    theirs = {"delta.managedCommit.commitOwner": "commit-owner-1"}
    foreign = replace(snapshot.metadata, configuration={**snapshot.metadata.configuration, **theirs})
    store = open_store(tmp_path / "theirs")
    info = {"commitInfo": {"inCommitTimestamp": 5, "timestamp": 5, "operation": "x", "txnId": "x"}}
    write_version(store, 0, info, snapshot.protocol.to_json(), foreign.to_json())
    with pytest.raises(CommitOwnerRequired, match=r"'commit-owner-1'.*does not support such owners"):
        append(tmp_path / "theirs", "a")
    with pytest.raises(TableAlreadyExists, match="belongs to the commit owner 'commit-owner-1'"):
        lake.adopt("theirs", tmp_path / "theirs")


# Take-over and hand-back.


def plain(path: Path, *paths: str) -> Snapshot:
    """A table of the file system."""
    snapshot = slackwater.Transaction.create(path, ID).commit("CREATE TABLE").snapshot
    for name in paths:
        snapshot = append(path, name)
    return snapshot


def test_an_existing_table_is_taken_over_with_all_it_has(lake: LogLake, tmp_path: Path) -> None:
    before = plain(tmp_path / "old", "a", "b")
    lake.adopt("old", tmp_path / "old")
    snapshot = lake.snapshot("old")
    assert (snapshot.version, live(snapshot.store)) == (3, ["a", "b"])
    assert snapshot.timestamp_ms > before.timestamp_ms
    assert snapshot.metadata.configuration["delta.inCommitTimestampEnablementVersion"] == "3"
    enabled_ms = snapshot.metadata.configuration["delta.inCommitTimestampEnablementTimestamp"]
    assert int(enabled_ms) == snapshot.timestamp_ms
    assert append(tmp_path / "old", "c").version == 4
    assert log_names(snapshot.store, ".json") == [0, 1, 2, 3]
    assert [version for version, _, _ in lake.snapshot("old").history().entries()] == [4, 3, 2, 1, 0]


def test_who_began_before_the_take_over_does_not_write_around_the_owner(lake: LogLake, tmp_path: Path) -> None:
    late = slackwater.Transaction(plain(tmp_path / "old", "a"))
    late.add(add("late"))
    lake.adopt("old", tmp_path / "old")
    with pytest.raises(ProtocolChangedException):
        late.commit("WRITE")
    assert live(lake.snapshot("old").store) == ["a"]


def test_commits_to_the_file_system_while_the_table_is_taken_over_are_kept(lake: LogLake, tmp_path: Path) -> None:
    path = tmp_path / "old"
    plain(path, "a")
    landed: list[str] = []

    def write() -> None:
        for number in range(30):
            try:
                append(path, f"w{number}")
            except (CommitOwnerRequired, ProtocolChangedException):
                return
            landed.append(f"w{number}")

    writer = threading.Thread(target=write)
    writer.start()
    eventually(lambda: len(landed) > 1)
    lake.adopt("old", path)
    writer.join()
    assert live(lake.snapshot("old").store) == sorted(["a", *landed])


def test_what_is_no_table_is_not_taken_over(lake: LogLake, tmp_path: Path) -> None:
    with pytest.raises(TableNotFound):
        lake.adopt("nothing", tmp_path / "nothing")
    assert lake.tables() == []


def test_a_table_that_is_handed_back_is_everybodys(lake: LogLake, tmp_path: Path) -> None:
    path = tmp_path / "lake" / "t"
    lake._create_log("t", ID)
    append(path, "a")
    before = append(path, "b")
    lake.release("t")
    after = Snapshot.load(path)
    assert (after.version, log_names(after.store, ".json")) == (3, [0, 1, 2, 3])
    assert ownership(after.configuration, "t") is None
    assert "managedCommit" not in (after.protocol.writer_features or ())
    assert [key for key in after.metadata.configuration if "managedCommit" in key] == []
    assert after.properties.flag("delta.enableInCommitTimestamps")
    assert after.timestamp_ms > before.timestamp_ms
    assert append(path, "c").version == 4
    assert log_names(after.store, ".json") == [0, 1, 2, 3, 4]
    with pytest.raises(TableNotFound):
        lake.snapshot("t")
    # Who read it before is told, rather than writing past the owner.
    with pytest.raises(ProtocolChangedException):
        append(before, "d")
    assert live(after.store) == ["a", "b", "c"]


def test_a_table_comes_back_after_it_was_handed_back(lake: LogLake, tmp_path: Path) -> None:
    path = tmp_path / "lake" / "t"
    lake._create_log("t", ID)
    for _ in range(2):
        lake.release("t")
        append(path, f"f{slackwater.Snapshot.load(path).version}")
        lake.adopt("t", path)
        append(path, f"f{slackwater.Snapshot.load(path).version}")
    assert live(lake.snapshot("t").store) == ["f1", "f3", "f5", "f7"]


def test_a_table_that_is_dropped_is_gone_with_its_place(lake: LogLake, tmp_path: Path) -> None:
    place = tmp_path / "lake" / "t"
    lake._create_log("t", ID)
    (place / "part").mkdir()
    (place / "part" / "f1").touch()
    append(place, "part/f1")
    under_way = slackwater.Transaction(place)
    under_way.add(add("late"))
    assert lake.drop_table("t")
    assert not place.exists()
    assert (tmp_path / "lake").exists()
    with pytest.raises(TableNotFound, match="no table named 't'"):
        lake.snapshot("t")
    with pytest.raises(SlackwaterError):
        under_way.commit("WRITE")
    assert not place.exists()
    lake._create_log("t", ID)
    assert lake.snapshot("t").version == 0
    with pytest.raises(TableNotFound):
        lake.drop_table("nothing")


def test_files_of_a_dropped_table_stay_where_the_lake_did_not_place_them(lake: LogLake, tmp_path: Path) -> None:
    lake._create_log("elsewhere", ID, location=tmp_path / "elsewhere")
    lake._create_log("kept", ID)
    lake._create_log("gone", ID, location=tmp_path / "gone")
    assert not lake.drop_table("elsewhere")
    assert not lake.drop_table("kept", keep_files=True)
    assert lake.drop_table("gone", keep_files=False)
    assert not (tmp_path / "gone").exists()
    for place in (tmp_path / "elsewhere", tmp_path / "lake" / "kept"):
        append(place, "more")
    assert lake.tables() == []


def test_who_reads_a_table_while_it_is_dropped_never_finds_an_older_state(
    lake: LogLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake._create_log("t", ID, properties={"delta.checkpointInterval": "2"})
    for number in range(5):
        append(tmp_path / "lake" / "t", f"f{number}")
    monkeypatch.setattr("slackwater.maintenance.delete_table._BATCH", 1)
    seen: list[int | None] = []
    delete = LocalObjectStore.delete

    def looked(self: LocalObjectStore, paths: Sequence[str]) -> None:
        delete(self, paths)
        try:
            seen.append(Snapshot.load(tmp_path / "lake" / "t").version)
        except SlackwaterError:
            seen.append(None)

    monkeypatch.setattr(LocalObjectStore, "delete", looked)
    lake.drop_table("t")
    assert {None, 6} == set(seen)


def test_an_owner_that_keeps_its_tables_says_so(tmp_path: Path) -> None:
    with held(tmp_path / "lake", keeps_tables=True) as lake:
        lake._create_log("t", ID)
        with pytest.raises(OperationNotAllowed, match="does not release"):
            lake.release("t")
        assert append(tmp_path / "lake" / "t", "a").version == 1


def test_a_lake_is_confined_to_its_roots(tmp_path: Path) -> None:
    with held(tmp_path / "lake", roots=[tmp_path / "lake"]) as lake:
        lake._create_log("t", ID)
        plain(tmp_path / "old")
        for call in (
            lambda: lake._create_log("u", ID, location=tmp_path / "outside"),
            lambda: lake.adopt("old", tmp_path / "old"),
        ):
            with pytest.raises(PathNotAllowed):
                call()
        assert [table.name for table in lake.tables()] == ["t"]
        assert not (tmp_path / "outside").exists()
        assert append(tmp_path / "old", "a").version == 1


def test_a_lake_in_an_object_store_wants_a_database() -> None:
    with pytest.raises(InvalidArgument, match="needs its own database"):
        LogLake.open("memory://bucket/lake")


# Properties and state.


@pytest.mark.parametrize(
    "change",
    [
        {"delta.managedCommit.commitOwner": "me"},
        {"delta.managedCommit.commitOwnerConf": "{}"},
        {"delta.ManagedCommit.CommitOwner": "me"},
        {"delta.enableInCommitTimestamps": "false"},
        {"delta.feature.catalogOwned-preview": "supported"},
        {"delta.feature.catalogManaged": "supported"},
        {"slackwater.commitOwner": "me"},
        {"slackwater.commitOwnerConf": "{}"},
    ],
)
def test_properties_of_the_ownership_are_not_for_users_to_change(lake: LogLake, change: dict[str, str]) -> None:
    snapshot = lake._create_log("t", ID).snapshot
    with pytest.raises((InvalidArgument, OperationNotAllowed)):
        set_properties(snapshot, change).commit(begin(snapshot))
    assert lake.snapshot("t").version == 0


@pytest.mark.parametrize(
    "key",
    ["delta.managedCommit.commitOwner", "delta.managedCommit.commitOwnerConf", "delta.enableInCommitTimestamps"],
)
def test_the_ownership_is_not_unset(lake: LogLake, key: str) -> None:
    snapshot = lake._create_log("t", ID).snapshot
    with pytest.raises((InvalidArgument, OperationNotAllowed)):
        unset_properties(snapshot, [key]).commit(begin(snapshot))
    assert lake.snapshot("t").metadata.configuration[key]


def test_other_properties_are_set_and_unset_through_the_owner(lake: LogLake) -> None:
    snapshot = lake._create_log("t", ID).snapshot
    changed = set_properties(snapshot, {"owner": "me"}).commit(begin(snapshot)).snapshot
    assert changed.metadata.configuration["owner"] == "me"
    assert ownership(changed.configuration, "t") is not None


def _without(snapshot: Snapshot, what: str) -> list[dict[str, Any]]:
    """The protocol and metadata of a table in an invalid state."""
    protocol, metadata = snapshot.protocol, snapshot.metadata
    configuration = dict(metadata.configuration)
    features = list(protocol.writer_features or ())
    if what == "feature":
        features.remove("managedCommit")
    elif what == "owner":
        del configuration["delta.managedCommit.commitOwner"]
    elif what == "timestamps":
        configuration["delta.enableInCommitTimestamps"] = "false"
    elif what == "timestamps' feature":
        features.remove("inCommitTimestamp")
    else:
        configuration["delta.managedCommit.commitOwnerConf"] = {"JSON": "{", "texts": '{"a":1}', "object": "[]"}[what]
    return [
        {"commitInfo": {"inCommitTimestamp": 5, "timestamp": 5, "operation": "x", "txnId": "x"}},
        replace(protocol, writer_features=tuple(features)).to_json(),
        replace(metadata, configuration=configuration).to_json(),
    ]


@pytest.mark.parametrize("what", ["feature", "owner", "timestamps", "timestamps' feature", "JSON", "texts", "object"])
def test_a_table_in_an_invalid_state_is_read_but_neither_written_nor_taken_over(
    lake: LogLake, tmp_path: Path, what: str
) -> None:
    store = open_store(tmp_path / "bad")
    write_version(store, 0, *_without(lake._create_log("t", ID).snapshot, what))
    assert slackwater.Snapshot.load(tmp_path / "bad").version == 0
    for call in (lambda: append(tmp_path / "bad", "a"), lambda: lake.adopt("bad", tmp_path / "bad")):
        with pytest.raises(CorruptTable, match=r"managedCommit|commitOwner"):
            call()
    assert log_names(store, ".json") == [0]


def test_a_commit_that_went_around_the_owner_is_reported_to_readers_and_writers(lake: LogLake, tmp_path: Path) -> None:
    path = tmp_path / "lake" / "t"
    snapshot = lake._create_log("t", ID).snapshot
    append(path, "a")
    lake.backfill("t")
    info = {"commitInfo": {"inCommitTimestamp": 5, "timestamp": 5, "operation": "x", "txnId": "x"}}
    write_version(snapshot.store, 2, info, add("theirs").to_json())
    calls: list[Callable[[], object]] = [lambda: lake.snapshot("t"), lambda: append(path, "b"), snapshot.update]
    for call in calls:
        with pytest.raises(UnratifiedCommit, match="a writer bypassed the owner"):
            call()
    (report,) = lake.repair("t")
    assert "UnratifiedCommit" in report
    snapshot.store.delete([f"_delta_log/{2:020d}.json"])
    assert "accepts commits again" in lake.repair()[0]
    append(path, "b")
    assert live(snapshot.store) == ["a", "b"]


def test_a_snapshot_from_before_the_take_over_finds_the_owners_commits_when_it_is_updated(
    lake: LogLake, tmp_path: Path
) -> None:
    before = plain(tmp_path / "old", "a")
    with held(tmp_path / "lake") as other:
        other.adopt("old", tmp_path / "old")
        append(tmp_path / "old", "b")
    assert before.update().version == 3


# Upkeep.


def test_checkpoints_and_checksums_are_only_of_versions_that_are_in_the_log(lake: LogLake) -> None:
    store = lake._create_log("t", ID, properties={"delta.checkpointInterval": "3"}).store
    for number in range(11):
        append(lake.snapshot("t"), f"f{number}")
        backfilled = set(log_names(store, ".json"))
        assert set(log_names(store, ".checkpoint.parquet")) <= backfilled
        assert set(log_names(store, ".crc")) <= backfilled
    lake.backfill("t")
    assert lake.snapshot("t").live_files(["path"]).num_rows == 11


def test_checkpoints_are_written_where_commits_are_backfilled(tmp_path: Path) -> None:
    with LogLake.open(tmp_path / "lake") as lake:
        store = lake._create_log("t", ID, properties={"delta.checkpointInterval": "2"}).store
        for number in range(8):
            append(lake.snapshot("t"), f"f{number}")
            lake.backfill("t")
        checkpoints = log_names(store, ".checkpoint.parquet")
        assert checkpoints
        assert set(checkpoints) <= set(log_names(store, ".json"))
        for version in checkpoints:
            assert slackwater.Snapshot.load(tmp_path / "lake" / "t", version).version == version


def test_a_checkpoint_that_was_due_before_its_commit_was_backfilled_comes_with_a_later_commit(tmp_path: Path) -> None:
    with held(tmp_path / "lake") as lake:
        store = lake._create_log("t", ID, properties={"delta.checkpointInterval": "4"}).store
        for number in range(5):
            append(lake.snapshot("t"), f"f{number}")
        assert log_names(store, ".checkpoint.parquet") == []
        lake.backfill("t")
        for number in range(5, 9):
            append(lake.snapshot("t"), f"f{number}")
        assert log_names(store, ".checkpoint.parquet") == [4]
        # The checksum of a managed table comes with its checkpoints.
        assert log_names(store, ".crc") == [0, 4]
        append(lake.snapshot("t"), "f9")
        assert log_names(store, ".checkpoint.parquet") == [4]
        assert lake.snapshot("t").live_files(["path"]).num_rows == 10


def test_everybody_reads_the_part_that_is_backfilled(lake: LogLake, tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    path = tmp_path / "lake" / "t"
    lake._create_log("t", ID)
    append(path, "a", "b")
    append(path, "c")
    lake.owner.backfill_to_version(lake.owner.table("t").table_id, 1)
    theirs = deltalake.DeltaTable(str(path))
    assert theirs.version() == 1
    assert sorted(uri.rpartition("/")[2] for uri in theirs.file_uris()) == ["a", "b"]
    assert lake.snapshot("t").version == 2


def test_what_a_lakes_commit_holds_is_what_the_transaction_said(lake: LogLake, tmp_path: Path) -> None:
    snapshot = lake._create_log("t", ID).snapshot
    transaction = slackwater.Transaction(snapshot)
    transaction.add(add("a"))
    done = transaction.commit("WRITE", {"mode": "Append"}, {"numFiles": "1"}, "by hand")
    lake.backfill("t")
    (info, action) = actions_in(snapshot.store.read(f"_delta_log/{1:020d}.json"))
    assert info["commitInfo"]["inCommitTimestamp"] == info["commitInfo"]["timestamp"] == done.timestamp_ms
    assert (info["commitInfo"]["operation"], info["commitInfo"]["userMetadata"]) == ("WRITE", "by hand")
    assert action == add("a").to_json()


def test_a_table_is_not_opened_as_a_lake(tmp_path: Path) -> None:
    slackwater.write(tmp_path / "t", pa.table({"id": [1]}))
    files = sorted(path for path in (tmp_path / "t").rglob("*"))
    for place in (tmp_path / "t", tmp_path / "t" / "_delta_log", tmp_path / "t" / "below"):
        with pytest.raises(InvalidArgument, match="is a Delta table, but a lake is a directory of tables"):
            LogLake.open(place)
    assert sorted(path for path in (tmp_path / "t").rglob("*")) == files
