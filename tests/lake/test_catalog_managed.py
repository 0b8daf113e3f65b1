"""Tables with the feature catalogManaged in a lake: created, adopted, migrated, released, and read without the lake."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pyarrow as pa
import pytest

import slackwater
from slackwater.errors import (
    CommitOwnerRequired,
    CorruptTable,
    InvalidArgument,
    OperationNotAllowed,
    ProtocolChangedException,
    VersionNotFound,
)
from slackwater.lake.lake import LogLake
from slackwater.log.cleanup import delete_versions_before
from slackwater.log.table import Table
from slackwater.owner.api.staged_files import staged_files
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.protocol.actions.file_names import commit_path
from slackwater.protocol.features.managed_commits import CATALOG_MANAGED, MANAGED_COMMIT, form_of
from slackwater.scan.snapshot import Snapshot
from slackwater.storage.open import open_store
from slackwater.transaction.commit.factory import begin
from slackwater.transaction.table.alteration import set_properties, unset_properties
from slackwater.transaction.table.feature_removal import drop_feature
from tests.transaction.tables import add, schema

ID = schema({"id": "long"})
CATALOG = "catalogManaged"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[LogLake]:
    with opened(tmp_path / "lake") as found:
        yield found


def opened(root: Path) -> LogLake:
    """A lake whose owner publishes on request only."""
    owner = EmbeddedOwner.open(root, backfill_delay_s=None)
    return LogLake(owner, owner.root_url)


def append(lake: LogLake, name: str, *paths: str) -> int:
    transaction = slackwater.Transaction(lake.snapshot(name))
    transaction.add(*(add(path) for path in paths))
    return transaction.commit("WRITE").version


def location(lake: LogLake, name: str) -> str:
    return lake.owner.table(name).location


def listed(lake: LogLake, name: str) -> tuple[list[str], list[str]]:
    """The names in the log, and those of the staged commits with their directory."""
    store = open_store(location(lake, name))
    log = sorted(meta.path.removeprefix("_delta_log/") for meta in store.list_from("_delta_log"))
    return [name for name in log if name.endswith(".json")], sorted(s.file.name[:36] for s in staged_files(store))


def test_a_new_table_has_the_feature_for_readers_too_and_stages_in_the_directory_of_the_protocol(
    lake: LogLake,
) -> None:
    lake._create_log("t", ID, managed=CATALOG)
    append(lake, "t", "a")
    snapshot = lake.snapshot("t")
    assert (snapshot.protocol.min_reader_version, snapshot.protocol.min_writer_version) == (3, 7)
    # delta-spark refuses a table without vacuumProtocolCheck.
    assert set(snapshot.protocol.reader_features or ()) == {CATALOG, "vacuumProtocolCheck"}
    assert {CATALOG, "inCommitTimestamp", "vacuumProtocolCheck"} <= set(snapshot.protocol.writer_features or ())
    assert snapshot.properties.flag("delta.enableInCommitTimestamps")
    names, staged = listed(lake, "t")
    assert names == ["00000000000000000000.json"]
    assert staged == [f"_staged_commits/{version:020d}" for version in (0, 1)]
    (info,) = [
        action["commitInfo"]
        for staged_file in staged_files(snapshot.store, 1)
        for action in map(orjson.loads, snapshot.store.read(staged_file.meta.path).splitlines())
        if "commitInfo" in action
    ]
    assert info["txnId"]
    assert info["inCommitTimestamp"] == snapshot.timestamp_ms


@pytest.mark.parametrize("key", ["delta.feature.catalogManaged", "DELTA.Feature.CatalogManaged"])
def test_the_property_of_the_feature_creates_such_a_table(lake: LogLake, key: str) -> None:
    found = lake._create_log("t", ID, properties={key: "supported", "mine": "1"}).snapshot
    assert form_of(found.configuration) is CATALOG_MANAGED
    assert found.metadata.configuration["mine"] == "1"
    assert not any(name.lower().startswith("delta.feature") for name in found.metadata.configuration)


def test_an_unknown_feature_is_refused_and_makes_nothing(lake: LogLake, tmp_path: Path) -> None:
    path = tmp_path / "plain"
    slackwater.Transaction.create(path, ID).commit("CREATE TABLE")
    for call in (
        lambda: lake._create_log("t", ID, managed="catalog"),
        lambda: lake._create_log(
            "t", ID, managed="managedCommit", properties={"delta.feature.catalogManaged": "supported"}
        ),
        lambda: lake.adopt("t", path, managed="x"),
    ):
        with pytest.raises(InvalidArgument, match="catalogManaged"):
            call()
    assert lake.tables() == []
    assert form_of(slackwater.Snapshot.load(path).configuration) is None


def test_a_reader_without_the_lake_is_refused_and_reads_what_is_published_on_request(tmp_path: Path) -> None:
    with opened(tmp_path / "lake") as lake:
        lake._create_log("t", ID, managed=CATALOG)
        append(lake, "t", "a")
        append(lake, "t", "b")
        lake.owner.backfill_to_version(lake.owner.table("t").table_id, 1)
        path = location(lake, "t")
        assert slackwater.Snapshot.load(path).version == 2
        before = slackwater.Snapshot.load(path)
    sent = pickle.loads(pickle.dumps(Table.at(path)))  # noqa: S301 - made here
    reads: list[Callable[[], object]] = [
        lambda: slackwater.Snapshot.load(path),
        lambda: slackwater.Snapshot.load(path, version=1),
        lambda: slackwater.Snapshot.load(path, version=2),
        lambda: slackwater.Snapshot.load(path, timestamp="2999-01-01", allow_after_last_commit=True),
        before.update,
        lambda: Snapshot.open(sent),
    ]
    for read in reads:
        with pytest.raises(CommitOwnerRequired, match=r"catalogManaged.*Open its lake first.*published_only=True"):
            read()
    published = slackwater.Snapshot.load(path, published_only=True)
    assert published.version == 1
    assert published.update().version == 1
    with pytest.raises(VersionNotFound):
        slackwater.Snapshot.load(path, version=2, published_only=True)


def test_a_writer_without_the_lake_is_refused_and_writes_nothing(tmp_path: Path) -> None:
    with opened(tmp_path / "lake") as lake:
        lake._create_log("t", ID, managed=CATALOG)
        path = location(lake, "t")
    published = slackwater.Snapshot.load(path, published_only=True)
    with pytest.raises(CommitOwnerRequired, match="takes commits only from the commit owner"):
        slackwater.Transaction(published)
    with pytest.raises(CommitOwnerRequired):
        slackwater.write(path, pa.table({"id": [1]}))
    assert slackwater.Snapshot.load(path, published_only=True).version == 0


def test_adoption_under_concurrent_writers_has_them_fail(lake: LogLake, tmp_path: Path) -> None:
    path = tmp_path / "plain"
    slackwater.Transaction.create(path, ID).commit("CREATE TABLE")
    late = slackwater.Transaction(path)
    late.add(add("late"))
    lake.adopt("t", path, managed=CATALOG)
    with pytest.raises((ProtocolChangedException, CommitOwnerRequired)):
        late.commit("WRITE")
    assert lake.snapshot("t").version == 1
    assert append(lake, "t", "a") == 2


def test_a_table_migrates_to_the_other_feature_and_back(lake: LogLake) -> None:
    lake._create_log("t", ID, properties={"mine": "1"})
    append(lake, "t", "a")
    assert lake.migrate("t") is True
    assert lake.migrate("t") is False
    assert form_of(lake.snapshot("t").configuration) is CATALOG_MANAGED
    append(lake, "t", "b")
    assert lake.migrate("t", "managedCommit") is True
    assert form_of(lake.snapshot("t").configuration) is MANAGED_COMMIT
    append(lake, "t", "c")
    snapshot = lake.snapshot("t")
    assert sorted(snapshot.live_files(["path"])["path"].to_pylist()) == ["a", "b", "c"]
    assert snapshot.metadata.configuration["mine"] == "1"
    assert not any(key.startswith("slackwater.") for key in snapshot.metadata.configuration)
    assert {name.split("/")[0] for name in listed(lake, "t")[1]} == {"_commits", "_staged_commits"}
    # Each version is read as it was, whatever feature it had.
    for version in range(snapshot.version + 1):
        assert slackwater.Snapshot.load(location(lake, "t"), version=version).version == version
    with pytest.raises(InvalidArgument):
        lake.migrate("t", "catalogOwned")


def test_a_released_table_is_read_by_path_in_all_its_versions(tmp_path: Path) -> None:
    with opened(tmp_path / "lake") as lake:
        lake._create_log("t", ID, managed=CATALOG)
        append(lake, "t", "a")
        path = location(lake, "t")
        lake.release("t")
    newest = slackwater.Snapshot.load(path)
    assert newest.protocol.reader_features == ("vacuumProtocolCheck",)
    assert CATALOG not in (newest.protocol.writer_features or ())
    for version in range(newest.version + 1):
        assert slackwater.Snapshot.load(path, version=version).version == version
    transaction = slackwater.Transaction(path)
    transaction.add(add("b"))
    assert transaction.commit("WRITE").version == newest.version + 1


def test_a_renamed_table_keeps_its_feature(lake: LogLake) -> None:
    lake._create_log("t", ID, managed=CATALOG)
    lake.rename_table("t", "u")
    assert form_of(lake.snapshot("u").configuration) is CATALOG_MANAGED


def test_a_copy_of_the_directory_is_another_table_without_a_catalog(lake: LogLake, tmp_path: Path) -> None:
    lake._create_log("t", ID, managed=CATALOG)
    shutil.copytree(tmp_path / "lake" / "t", tmp_path / "copy")
    with pytest.raises(CommitOwnerRequired):
        slackwater.Snapshot.load(tmp_path / "copy")


def test_no_commit_and_no_user_changes_the_feature(lake: LogLake) -> None:
    snapshot = lake._create_log("t", ID, managed=CATALOG).snapshot
    for change in ({"slackwater.commitOwner": "me"}, {"delta.enableInCommitTimestamps": "false"}):
        with pytest.raises((InvalidArgument, OperationNotAllowed)):
            set_properties(snapshot, change).commit(begin(snapshot))
    with pytest.raises((InvalidArgument, OperationNotAllowed)):
        unset_properties(snapshot, ["slackwater.commitOwnerConf"]).commit(begin(snapshot))
    with pytest.raises(OperationNotAllowed, match=r"Lake\.release"):
        drop_feature(snapshot, CATALOG)
    assert lake.snapshot("t").version == 0


def test_only_published_versions_are_checkpointed_and_cleanup_takes_staged_files_along(lake: LogLake) -> None:
    lake._create_log("t", ID, managed=CATALOG, properties={"delta.checkpointInterval": "2"})
    for number in range(5):
        append(lake, "t", str(number))
    store, table_id = open_store(location(lake, "t")), lake.owner.table("t").table_id
    assert not any("checkpoint" in meta.path for meta in store.list_from("_delta_log"))
    lake.owner.backfill_to_version(table_id)
    append(lake, "t", "last")
    lake.owner.backfill_to_version(table_id)
    append(lake, "t", "later")
    points = [meta.path for meta in store.list_from("_delta_log") if "checkpoint.parquet" in meta.path]
    versions = {int(path.split("/")[1][:20]) for path in points}
    assert versions
    assert all(store.head(commit_path(version)) is not None for version in versions)
    deleted = delete_versions_before(store, max(versions))
    assert any("/_staged_commits/" in path for path in deleted)
    assert all(staged.file.version > max(versions) for staged in staged_files(store))
    assert lake.snapshot("t").live_files(["path"]).num_rows == 7


def test_the_clones_of_a_lake_have_the_features_of_their_sources(lake: LogLake, tmp_path: Path) -> None:
    lake._create_log("new", ID, managed=CATALOG)
    lake._create_log("old", ID)
    append(lake, "new", "a")
    lake.clone(lake.snapshot("new").timestamp_ms, tmp_path / "clone")
    with opened(tmp_path / "clone") as clone:
        forms = {name: form_of(clone.snapshot(name).configuration) for name in ("new", "old")}
    assert forms == {"new": CATALOG_MANAGED, "old": MANAGED_COMMIT}


def test_a_lake_whose_state_is_lost_finds_what_was_committed_in_the_directory_of_the_protocol(tmp_path: Path) -> None:
    root = tmp_path / "lake"

    def insert(lake: LogLake, number: int) -> None:
        with lake.transaction() as tx:
            tx.table("t").append(pa.table({"id": [number]}))

    with opened(root) as lake:
        lake._create_log("t", ID, managed=CATALOG)
        insert(lake, 1)
        lake.backfill("t")
        insert(lake, 2)
    for path in (root / "_slackwater").glob("owner.db*"):
        path.unlink()
    LogLake.recover_state(root)
    with opened(root) as lake:
        assert form_of(lake.snapshot("t").configuration) is CATALOG_MANAGED
        insert(lake, 3)
        assert sorted(lake.snapshot("t").to_arrow()["id"].to_pylist()) == [1, 2, 3]
        assert listed(lake, "t")[1][-1].startswith("_staged_commits/")


def test_two_forms_in_one_transaction_have_one_timestamp(lake: LogLake) -> None:
    lake._create_log("new", ID, managed=CATALOG)
    lake._create_log("old", ID)
    with lake.transaction() as tx:
        for name in ("new", "old"):
            log = tx.log(name)
            log.add(add("x"))
            log.commit("WRITE")
    times = {lake.snapshot(name).timestamp_ms for name in ("new", "old")}
    assert len(times) == 1


def test_a_table_that_names_an_owner_without_the_feature_is_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "t"
    slackwater.Transaction.create(path, ID).commit("CREATE TABLE")
    store = open_store(path)
    snapshot = slackwater.Snapshot.load(path)
    node = snapshot.metadata.to_json()
    node["configuration"] = {"slackwater.commitOwner": "slackwater"}
    store.put_if_absent(commit_path(1), orjson.dumps({"metaData": node}) + b"\n")
    with pytest.raises(CorruptTable, match="does not support the feature catalogManaged"):
        slackwater.Transaction(path)
