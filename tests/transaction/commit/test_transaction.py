"""`slackwater.Transaction`: commits for files that somebody else wrote."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import slackwater
from slackwater.errors import (
    CommitOwnerRequired,
    ConcurrentAppendException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    CorruptTable,
    InvalidArgument,
    OperationNotAllowed,
    TableAlreadyExists,
    TableNotFound,
)
from slackwater.log.table import Table
from slackwater.predicate.predicate import Constant
from slackwater.protocol.actions.actions import Protocol
from slackwater.protocol.actions.files import RemoveFile
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.scan.snapshot import Snapshot
from slackwater.storage import open_store
from slackwater.transaction.committers.factory import committer_for
from slackwater.transaction.committers.filesystem import FilesystemCommitter
from tests.transaction.tables import (
    START_MS,
    FakeTime,
    add,
    commit_actions,
    live,
    log_files,
    new_store,
    only,
    schema,
    table,
)

ID = schema({"id": "long"})


def _create(path: object, text: str = ID, **more: object) -> Snapshot:
    return slackwater.Transaction.create(path, text, **more).commit("CREATE TABLE").snapshot  # type: ignore[arg-type]


def test_files_that_somebody_else_wrote_become_the_next_version(tmp_path: Path) -> None:
    _create(tmp_path)
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
    pq.write_table(rows, tmp_path / "part-1.parquet")
    transaction = slackwater.Transaction(tmp_path)
    size = (tmp_path / "part-1.parquet").stat().st_size
    transaction.add(slackwater.AddFile("part-1.parquet", {}, size, START_MS, stats='{"numRecords":3}'))
    done = transaction.commit("WRITE", {"mode": "Append"}, {"numFiles": "1"}, "by hand")
    assert (done.version, done.attempts, done.upkeep_errors) == (1, 1, ())
    info = only(open_store(tmp_path), 1, "commitInfo")
    assert (info["operation"], info["userMetadata"]) == ("WRITE", "by hand")
    deltalake = pytest.importorskip("deltalake")
    found = deltalake.DeltaTable(str(tmp_path)).to_pyarrow_table()
    assert found["id"].to_pylist() == [1, 2, 3]


def test_a_new_table_is_what_was_asked_for() -> None:
    time = FakeTime()
    snapshot = _create(
        new_store().root_url,
        schema({"id": "long", "p": "string"}),
        partition_by=["p"],
        properties={"delta.appendOnly": "true", "owner": "me"},
        description="of orders",
        clock=time.clock(),
    )
    assert list(snapshot.schema.names) == ["id", "p"]
    assert snapshot.metadata.partition_columns == ("p",)
    assert snapshot.metadata.description == "of orders"
    assert snapshot.metadata.created_time == START_MS
    assert dict(snapshot.metadata.configuration) == {"delta.appendOnly": "true", "owner": "me"}
    assert snapshot.protocol == Protocol(1, 2)


def test_a_new_table_can_be_clustered_and_hold_files_from_the_start() -> None:
    created = slackwater.Transaction.create(new_store().root_url, ID, cluster_by=["id"])
    assert created.snapshot is None
    created.add(add("a"))
    snapshot = created.commit("CREATE TABLE").snapshot
    assert "delta.clustering" in snapshot.domain_metadata
    assert live(snapshot.store) == ["a"]


def test_a_table_is_not_created_where_there_is_one() -> None:
    snapshot = table()
    with pytest.raises(TableAlreadyExists, match=f"{snapshot.store.root_url} is a Delta table already"):
        slackwater.Transaction.create(snapshot.store.root_url, ID)


def test_a_path_without_a_table_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(TableNotFound):
        slackwater.Transaction(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_storage_options_are_those_of_the_store(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="nonsense"):
        slackwater.Transaction("s3://bucket/t", {"aws_nonsense": "1"})


def test_a_file_is_removed_by_its_path_with_all_that_its_add_said() -> None:
    snapshot = table(properties={"delta.enableRowTracking": "true"})
    first = slackwater.Transaction(snapshot)
    first.add(add("a%20b", tags={"k": "v"}), add("c"))
    before = first.commit().snapshot
    second = slackwater.Transaction(before, clock=FakeTime(START_MS + 5).clock())
    second.remove("./a%20%62", data_change=False)
    second.add(add("d", data_change=False))
    second.commit("OPTIMIZE")
    removed = only(before.store, 2, "remove")
    assert removed["deletionTimestamp"] == START_MS + 5
    assert removed["dataChange"] is False
    assert removed["extendedFileMetadata"] is True
    assert (removed["size"], removed["tags"], removed["baseRowId"]) == (100, {"k": "v"}, 0)
    assert live(before.store) == ["c", "d"]


def test_a_file_may_be_removed_by_a_value_too() -> None:
    first = slackwater.Transaction(table())
    first.add(add("a"))
    before = first.commit().snapshot
    second = slackwater.Transaction(before)
    second.remove(RemoveFile("a", START_MS))
    assert second.commit("DELETE").version == 2
    assert live(before.store) == []


def test_a_path_that_is_no_live_file_is_refused_when_it_is_staged() -> None:
    transaction = slackwater.Transaction(table())
    with pytest.raises(InvalidArgument, match="nowhere is not a file of version 0"):
        transaction.remove("nowhere")


def test_a_table_that_is_being_created_has_nothing_to_read_or_remove() -> None:
    created = slackwater.Transaction.create(new_store().root_url, ID)
    calls: list[Callable[[], object]] = [
        lambda: created.remove("a"),
        lambda: created.read("id = 1"),
        lambda: created.remove_domain_metadata("x"),
    ]
    for call in calls:
        with pytest.raises(InvalidArgument, match="being created"):
            call()


def test_what_was_read_is_protected() -> None:
    first = slackwater.Transaction(table())
    first.add(add("a", 0, 4))
    before = first.commit().snapshot
    by_text, by_predicate, whole, elsewhere = (slackwater.Transaction(before) for _ in range(4))
    by_text.read("id < 5")
    by_predicate.read(Constant(True))
    whole.read()
    elsewhere.read("id > 1000")
    theirs = slackwater.Transaction(before)
    theirs.remove("a")
    theirs.commit("DELETE")
    for number, transaction in enumerate((by_text, by_predicate, whole)):
        transaction.add(add(f"f{number}"))
        with pytest.raises((ConcurrentDeleteReadException, ConcurrentAppendException)):
            transaction.commit()
    elsewhere.add(add("elsewhere"))
    assert elsewhere.commit().version == 3
    with pytest.raises(InvalidArgument):
        slackwater.Transaction(before).read("no_such_column = 1")


def test_an_application_records_how_far_it_has_come() -> None:
    before = table()
    first, late = slackwater.Transaction(before), slackwater.Transaction(before)
    assert first.application_version("loader") is None
    for number, transaction in enumerate((first, late)):
        transaction.add(add(f"f{number}"))
        transaction.set_transaction("loader", 17)
    after = first.commit().snapshot
    assert slackwater.Transaction(after).application_version("loader") == 17
    with pytest.raises(ConcurrentTransactionException):
        late.commit()
    assert live(before.store) == ["f0"]


def test_domains_of_the_users_come_and_go_and_bring_their_feature() -> None:
    before = table()
    setting = slackwater.Transaction(before)
    setting.set_domain_metadata("com.example.a", '{"x":1}')
    after = setting.commit("Manual Update").snapshot
    assert after.domain_metadata["com.example.a"].configuration == '{"x":1}'
    assert "domainMetadata" in (after.protocol.writer_features or ())
    removing = slackwater.Transaction(after)
    with pytest.raises(InvalidArgument, match="no metadata domain"):
        removing.remove_domain_metadata("com.example.b")
    removing.remove_domain_metadata("com.example.a")
    assert removing.commit("Manual Update").snapshot.domain_metadata == {}
    again = slackwater.Transaction(after.update())
    again.set_domain_metadata("com.example.a", "2")
    version = again.commit().version
    assert not [action for action in commit_actions(before.store, version) if "protocol" in action]


def test_a_domain_may_come_with_the_table() -> None:
    created = slackwater.Transaction.create(new_store().root_url, ID)
    created.set_domain_metadata("com.example.a", "1")
    assert set(created.commit("CREATE TABLE").snapshot.domain_metadata) == {"com.example.a"}


@pytest.mark.parametrize("domain", ["", " ", "delta.clustering"])
def test_names_that_no_user_may_give_a_domain_are_refused(domain: str) -> None:
    transaction = slackwater.Transaction(table())
    with pytest.raises((InvalidArgument, OperationNotAllowed), match="metadata domain"):
        transaction.set_domain_metadata(domain, "1")


def test_a_snapshot_is_what_the_work_is_based_on() -> None:
    before = table()
    assert slackwater.Transaction(before).snapshot is before


def test_a_commit_that_changes_nothing_is_still_a_version() -> None:
    before = table()
    assert slackwater.Transaction(before).commit("NOTHING").version == 1


def test_the_result_gives_the_version_that_was_made_not_the_newest() -> None:
    before = table()
    first = slackwater.Transaction(before)
    first.add(add("a"))
    done = first.commit()
    second = slackwater.Transaction(before)
    second.add(add("b"))
    second.commit()
    assert done.snapshot.version == 1
    assert done.snapshot.live_files(["path"])["path"].to_pylist() == ["a"]
    assert done.store.root_url == before.store.root_url


def test_a_clock_that_is_given_is_the_one_that_is_used() -> None:
    before = table()
    time = FakeTime(1234567890123)
    transaction = slackwater.Transaction(before, clock=time.clock())
    transaction.add(add("a"))
    transaction.set_transaction("app", 1)
    assert transaction.commit().timestamp_ms == 1234567890123
    assert only(before.store, 1, "txn")["lastUpdated"] == 1234567890123


def test_files_are_committed_by_the_file_system_unless_an_owner_commits() -> None:
    store = new_store()
    plain = table().metadata
    assert isinstance(committer_for(Table(store), TableConfiguration(Protocol(1, 2), plain)), FilesystemCommitter)
    owned = {"delta.enableInCommitTimestamps": "true", "delta.managedCommit.commitOwner": "theirs"}
    features = Protocol(1, 7, None, ("inCommitTimestamp", "managedCommit"))
    with pytest.raises(CommitOwnerRequired, match=r"only from the commit owner 'theirs'"):
        committer_for(Table(store), TableConfiguration(features, replace(plain, configuration=owned)))
    for protocol, configuration in ((features, {}), (Protocol(1, 2), owned), (features, {**owned, "x": "y"})):
        half = {key: value for key, value in configuration.items() if key != "delta.enableInCommitTimestamps"}
        with pytest.raises(CorruptTable, match="commit"):
            committer_for(Table(store), TableConfiguration(protocol, replace(plain, configuration=half)))
    assert log_files(store) == []
