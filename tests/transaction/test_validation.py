"""What a transaction is refused before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from slackwater.errors import (
    InvalidArgument,
    MetadataChangedException,
    OperationNotAllowed,
    SlackwaterError,
    UnsupportedFeature,
)
from slackwater.log.table import Table
from slackwater.protocol.actions.actions import DomainMetadata, Format, Protocol
from slackwater.protocol.actions.files import AddCDCFile, RemoveFile
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.commit.transaction import TableTransaction
from slackwater.transaction.staged import StagedActions
from slackwater.transaction.table.alteration import set_properties
from slackwater.transaction.table.public_transaction import Transaction
from tests.transaction.tables import (
    START_MS,
    add,
    append,
    begin,
    delete,
    live,
    log_files,
    new_store,
    put_commit,
    removes,
    schema,
    table,
    vector,
)

DELETION_VECTORS = {"delta.enableDeletionVectors": "true"}
ROW_TRACKING = {"delta.enableRowTracking": "true"}


def refused(transaction: TableTransaction | Transaction, error: type[SlackwaterError], match: str) -> None:
    """The commit raises and leaves the log as it was."""
    store = transaction.store if isinstance(transaction, TableTransaction) else transaction.snapshot.store  # type: ignore[union-attr]
    before = log_files(store)
    with pytest.raises(error, match=match):
        transaction.commit("WRITE")
    assert log_files(store) == before


def _with_file(properties: Mapping[str, str] | None = None, name: str = "a", **more: object) -> Snapshot:
    return append(table(properties=properties), add(name, **more)).snapshot  # type: ignore[arg-type]


def test_files_are_given_one_by_one() -> None:
    mine = Transaction(_with_file())
    with pytest.raises(InvalidArgument, match=r"add takes each file as AddFile, found list\. .* add\(\*files\)$"):
        mine.add([add("b")])  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"add takes each file as AddFile, found NoneType$"):
        mine.add(None)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"remove takes each file as RemoveFile or str, found list\. .*"):
        mine.remove(["a"])  # type: ignore[arg-type]
    assert not mine._inner.staged.adds
    assert not mine._inner.staged.removes


# Single entries of the log.


@pytest.mark.parametrize("twin", ["a%20b", "a%20%62", "./a%20b"])
def test_a_path_is_added_once_however_it_is_written(twin: str) -> None:
    mine = begin(table())
    mine.add([add("a%20b"), add(twin)])
    refused(mine, InvalidArgument, "cannot add the same path twice")


def test_a_path_is_removed_once() -> None:
    before = _with_file()
    mine = begin(before)
    mine.remove([*removes(before, "a"), *removes(before, "a")])
    refused(mine, InvalidArgument, "cannot remove the same path twice")


def test_a_logical_file_is_not_both_added_and_removed() -> None:
    before = _with_file()
    mine = begin(before)
    mine.remove(removes(before, "a"))
    mine.add(add("a"))
    refused(mine, InvalidArgument, "both add and remove the same logical file")


def test_a_transaction_is_committed_once() -> None:
    mine = begin(table())
    mine.add(add("a"))
    mine.commit("WRITE")
    refused(mine, InvalidArgument, "already committed")


def test_after_a_refusal_the_transaction_can_be_put_right() -> None:
    mine = begin(table())
    mine.add([add("a"), add("a")])
    refused(mine, InvalidArgument, "twice")
    mine.staged.adds.pop()
    assert mine.commit("WRITE").version == 1


def test_the_first_commit_of_a_table_holds_protocol_and_metadata() -> None:
    store = new_store()
    snapshot = table()
    mine = begin(snapshot)
    first = TableTransaction(Table(store), mine.committer, None)
    first.add(add("a"))
    with pytest.raises(InvalidArgument, match="protocol and its metadata"):
        first.commit("WRITE")
    assert store.list_from("_delta_log") == []


# Removes.


def test_only_a_live_file_is_removed() -> None:
    mine = begin(_with_file())
    mine.remove(RemoveFile("nowhere", START_MS))
    refused(mine, InvalidArgument, "nowhere is not a file of version 1")


def test_a_file_is_removed_with_the_deletion_vector_that_it_has() -> None:
    before = _with_file(DELETION_VECTORS, deletion_vector=vector("ab"))
    for wrong in (None, vector("cd")):
        mine = begin(before)
        mine.remove(replace(removes(before, "a")[0], deletion_vector=wrong))
        refused(mine, InvalidArgument, "is not a file of version 1")
    mine = begin(before)
    mine.remove(removes(before, "a"))
    mine.commit("DELETE")
    assert live(before.store) == []


def test_a_live_file_gets_another_deletion_vector_only_where_it_is_removed_as_it_was() -> None:
    before = _with_file(DELETION_VECTORS)
    mine = begin(before)
    mine.add(add("a", deletion_vector=vector()))
    refused(mine, InvalidArgument, r"with another deletion vector\. Remove the file")
    mine.remove(removes(before, "a"))
    mine.commit("DELETE")
    assert live(before.store) == ["a"]


def test_a_new_table_has_nothing_to_remove() -> None:
    created = Transaction.create(new_store().root_url, schema({"id": "long"}))
    created.remove(RemoveFile("a", START_MS))
    with pytest.raises(InvalidArgument, match="no files to remove"):
        created.commit()


# Append-only tables.


def test_rows_of_an_append_only_table_stay() -> None:
    before = append(table(properties={"delta.appendOnly": "true"}), add("a"), add("b")).snapshot
    mine = begin(before)
    mine.remove(removes(before, "a"))
    refused(mine, OperationNotAllowed, r"append-only \(delta.appendOnly is true\)")
    rearranging = begin(before)
    rearranging.remove(removes(before, "a", "b", data_change=False))
    rearranging.add(add("ab", data_change=False))
    assert rearranging.commit("OPTIMIZE").version == 2


# Deletion vectors.


def test_a_deletion_vector_needs_the_feature_and_the_property() -> None:
    without = _with_file()
    off = append(table(properties={"delta.feature.deletionVectors": "supported"}), add("a")).snapshot
    for before, match in ((without, "does not support deletion vectors"), (off, "delta.enableDeletionVectors")):
        mine = begin(before)
        mine.remove(removes(before, "a"))
        mine.add(add("a", deletion_vector=vector()))
        refused(mine, OperationNotAllowed, match)


def test_a_file_with_a_deletion_vector_says_its_number_of_rows() -> None:
    mine = begin(table(properties=DELETION_VECTORS))
    mine.add(add("a", rows=None, deletion_vector=vector()))
    refused(mine, InvalidArgument, r"a: a deletion vector needs numRecords")


# Numbers of rows.


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        (ROW_TRACKING, "row tracking"),
        ({"delta.feature.rowTracking": "supported"}, "row tracking"),
        ({"delta.enableIcebergCompatV2": "true"}, "Iceberg compatibility"),
        ({"delta.enableIcebergCompatV1": "true"}, "Iceberg compatibility"),
    ],
)
def test_a_table_that_counts_rows_wants_the_number_of_rows(properties: dict[str, str], why: str) -> None:
    mine = begin(table(properties=properties))
    mine.add([add("counted"), add("uncounted", rows=None)])
    refused(mine, InvalidArgument, f"uncounted: {why} needs numRecords")


def test_row_tracking_is_not_enabled_where_a_file_does_not_say_its_number_of_rows() -> None:
    before = _with_file(rows=None)
    mine = begin(before)
    mine.set_metadata(replace(before.metadata, configuration=ROW_TRACKING))
    refused(mine, InvalidArgument, "a: row tracking needs the number of rows")


def test_row_ids_that_were_never_given_out_are_refused() -> None:
    mine = begin(table(properties=ROW_TRACKING))
    mine.add(add("a", base_row_id=5))
    refused(mine, InvalidArgument, "has the row ids 5 to 14")


# Partition values.


@pytest.mark.parametrize(
    ("partition", "match"),
    [
        ({}, "a: a file must have a value for each of the partition columns ['d', 'n']"),
        ({"n": "1"}, "each of the partition columns"),
        ({"n": "1", "d": "2024-01-01", "x": "1"}, "each of the partition columns"),
        ({"n": "one", "d": "2024-01-01"}, "one"),
        ({"n": "99999999999", "d": "2024-01-01"}, "99999999999"),
        ({"n": "1", "d": "yesterday"}, "yesterday"),
    ],
)
def test_partition_values_are_those_of_the_columns(partition: dict[str, str], match: str) -> None:
    mine = begin(table({"id": "long", "n": "integer", "d": "date"}, ["n", "d"]))
    mine.add([add("fine", partition={"n": None, "d": None}), add("a", partition=partition)])
    with pytest.raises(SlackwaterError) as caught:
        mine.commit("WRITE")
    assert match.split("\\", maxsplit=1)[0] in str(caught.value)
    assert len(log_files(mine.store)) == len({"0.json", "0.crc"})


def test_partition_values_go_by_physical_names() -> None:
    before = table({"id": "long", "p": "string"}, ["p"], {"delta.columnMapping.mode": "name"})
    mine = begin(before)
    mine.add(add("a", partition={"p": "x"}))
    refused(mine, InvalidArgument, "partition columns")
    *_, column = before.schema
    physical = column.metadata["delta.columnMapping.physicalName"]
    right = begin(before)
    right.add(add("a", partition={physical: "x"}))
    assert right.commit("WRITE").version == 1


# Change data files.


def test_change_data_files_need_the_change_data_feed() -> None:
    for properties in ({}, {"delta.feature.changeDataFeed": "supported"}):
        mine = begin(table(properties=properties))
        mine.add_change_files([AddCDCFile("_change_data/c", {}, 10)])
        refused(mine, OperationNotAllowed, "delta.enableChangeDataFeed to be true")
    mine = begin(table(properties={"delta.enableChangeDataFeed": "true"}))
    mine.add_change_files([AddCDCFile("_change_data/c", {}, 10)])
    assert mine.commit("UPDATE").version == 1


# Metadata domains.


def test_a_domain_needs_the_feature() -> None:
    mine = begin(table())
    mine.set_domain(DomainMetadata("com.example.a", "{}"))
    refused(mine, OperationNotAllowed, r"com\.example\.a needs the table feature domainMetadata")


@pytest.mark.parametrize("domain", ["delta.rowTracking", "Delta.clustering", "delta.mine"])
def test_domains_of_the_protocol_are_not_the_users_to_change(domain: str) -> None:
    mine = Transaction(table(properties=ROW_TRACKING))
    with pytest.raises(OperationNotAllowed, match="belongs to the protocol"):
        mine.set_domain_metadata(domain, "{}")
    with pytest.raises(OperationNotAllowed, match="belongs to the protocol"):
        mine.remove_domain_metadata(domain)


# Rules for rows that nobody checked.

ROW_RULES: dict[str, Callable[[], Snapshot]] = {
    "constraint": lambda: table(properties={"delta.constraints.c": "id > 0"}),
    "not null": lambda: table(schema({"id": "long"}, not_null=["id"])),
    "generated": lambda: table(
        schema({"id": "long", "g": "long"}, g={"delta.generationExpression": "id + 1"}),
    ),
    "identity": lambda: table(
        schema(
            {"id": "long"},
            id={"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": True},
        )
    ),
}


@pytest.mark.parametrize("made", ROW_RULES.values(), ids=ROW_RULES)
def test_files_for_a_table_with_rules_for_rows_are_checked_by_whoever_wrote_them(made: Callable[[], Snapshot]) -> None:
    before = made()
    mine = Transaction(before)
    with pytest.raises(OperationNotAllowed, match="rows_checked=True"):
        mine.add(add("a"))
    mine.add(add("a"), rows_checked=True)
    assert mine.commit().version == 1
    again = Transaction(before.update())
    again.add(add("a", data_change=False))
    assert again.commit().version == 2


# Protocols.


@pytest.mark.parametrize(
    "protocol",
    [
        {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["someday"]},
        {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["inCommitTimestamp-preview"]},
        {"minReaderVersion": 1, "minWriterVersion": 8},
        {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["managedCommit-preview"]},
    ],
)
def test_a_table_that_can_only_be_read_is_refused_before_anything_is_staged(protocol: dict[str, object]) -> None:
    store = new_store()
    put_commit(store, 0, {"protocol": protocol}, table().metadata.to_json(), add("a").to_json())
    snapshot = Snapshot.open(store)
    assert live(store) == ["a"]
    with pytest.raises(UnsupportedFeature, match="writer") as caught:
        Transaction(snapshot)
    assert store.root_url in str(caught.value)
    # Whoever goes around the public face meets the same gate.
    mine = begin(snapshot)
    mine.add(add("b"))
    refused(mine, UnsupportedFeature, "writer")


def test_a_commit_owner_cannot_be_set_here() -> None:
    with pytest.raises(OperationNotAllowed, match=r"Lake\.adopt"):
        table(properties={"delta.feature.managedCommit": "supported"})
    before = table()
    mine = begin(before)
    mine.set_metadata(replace(before.metadata, configuration={"delta.managedCommit.commitOwner": "http://x"}))
    refused(mine, InvalidArgument, r"users cannot set .*commitOwner")


def test_a_protocol_that_contradicts_itself_is_refused() -> None:
    mine = begin(table())
    mine.set_protocol(Protocol(1, 7, None, ("deletionVectors",)))
    refused(mine, SlackwaterError, "deletionVectors")


def test_an_isolation_level_that_does_not_exist_is_refused() -> None:
    store = new_store()
    metadata = replace(table().metadata, configuration={"delta.isolationLevel": "Chaos"})
    put_commit(store, 0, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, metadata.to_json())
    mine = begin(Snapshot.open(store))
    mine.add(add("a"))
    refused(mine, InvalidArgument, "must be one of Serializable, WriteSerializable, SnapshotIsolation, found 'Chaos'")


# Features that come along.


@pytest.mark.parametrize(
    ("properties", "features"),
    [
        (ROW_TRACKING, {"rowTracking", "domainMetadata"}),
        (DELETION_VECTORS, {"deletionVectors"}),
        ({"delta.enableInCommitTimestamps": "true"}, {"inCommitTimestamp"}),
        ({"delta.checkpointPolicy": "v2"}, {"v2Checkpoint"}),
    ],
)
def test_metadata_brings_the_features_that_it_turns_on(properties: dict[str, str], features: set[str]) -> None:
    before = table()
    mine = begin(before)
    mine.set_metadata(replace(before.metadata, configuration=properties))
    after = mine.commit("SET TBLPROPERTIES").snapshot
    assert set(after.protocol.writer_features or ()) == {"appendOnly", "invariants", *features}


def test_row_tracking_names_its_hidden_columns_once() -> None:
    before = table()
    mine = begin(before)
    mine.set_metadata(replace(before.metadata, configuration=ROW_TRACKING))
    after = mine.commit("SET TBLPROPERTIES").snapshot
    keys = [key for key in after.metadata.configuration if key.startswith("delta.rowTracking.materialized")]
    assert len(keys) == 2
    renamed = begin(after)
    renamed.set_metadata(replace(after.metadata, description="d"))
    again = renamed.commit("SET TBLPROPERTIES").snapshot
    assert [again.metadata.configuration[k] for k in keys] == [after.metadata.configuration[k] for k in keys]


# Other formats than Parquet.


def _of_format(provider: str) -> Snapshot:
    before = _with_file()
    metadata = replace(before.metadata, format=Format(provider))
    put_commit(before.store, before.version + 1, {"commitInfo": {"timestamp": START_MS}}, metadata.to_json())
    return Snapshot.open(before.store)


@pytest.mark.parametrize("provider", ["orc", "PARQUET2", "csv"])
def test_no_file_is_committed_to_a_table_of_another_format(provider: str) -> None:
    before = _of_format(provider)
    mine = begin(before)
    mine.add(add("b"))
    refused(mine, UnsupportedFeature, f"have the format '{provider}' .metaData.format.provider.")
    with pytest.raises(UnsupportedFeature, match="parquet only"):
        Transaction(before)
    # What the log says is told.
    assert live(before.store) == ["a"]


def test_a_table_does_not_become_one_of_another_format() -> None:
    before = _with_file()
    mine = begin(before)
    mine.set_metadata(replace(before.metadata, format=Format("orc")))
    refused(mine, UnsupportedFeature, "have the format 'orc'")


@pytest.mark.parametrize("provider", ["parquet", "Parquet"])
def test_parquet_is_parquet_in_any_case(provider: str) -> None:
    before = _of_format(provider)
    assert append(before, add("b")).version == before.version + 1


def test_a_winner_that_changed_the_format_is_not_followed() -> None:
    before = _with_file()
    mine = begin(before)
    mine.add(add("b"))
    metadata = replace(before.metadata, format=Format("orc"))
    put_commit(before.store, before.version + 1, {"commitInfo": {"timestamp": START_MS}}, metadata.to_json())
    refused(mine, MetadataChangedException, "changed")


# Iceberg compatibility over files that were there before.


@pytest.mark.parametrize("version", [1, 2])
def test_iceberg_compatibility_is_not_turned_on_over_files_without_numbers_of_rows(version: int) -> None:
    created = table(properties={"delta.columnMapping.mode": "name"})
    before = append(append(created, add("counted")).snapshot, add("silent", rows=None)).snapshot
    mine = begin(before)
    changed = set_properties(before, {f"delta.enableIcebergCompatV{version}": "true"})
    mine.set_metadata(changed.metadata or before.metadata)
    mine.set_protocol(changed.protocol or before.protocol)
    refused(mine, InvalidArgument, "1 files of the table have none, the first is silent")
    gone = delete(before, "silent").snapshot
    assert set_properties(gone, {f"delta.enableIcebergCompatV{version}": "true"}).commit(begin(gone)).version == 4


# Append-only, where the property is all there is.


def test_a_table_that_does_not_support_append_only_lets_rows_be_removed_whatever_its_property_says() -> None:
    before = append(table(properties={"delta.appendOnly": "true"}), add("a")).snapshot
    unlisted = Protocol(1, 7, None, ("invariants",))
    put_commit(before.store, 2, {"commitInfo": {"timestamp": START_MS}}, unlisted.to_json())
    after = Snapshot.open(before.store)
    mine = begin(after)
    mine.remove(removes(after, "a"))
    assert mine.commit("DELETE").version == 3
    assert live(before.store) == []


# Statistics on clustering columns.


@pytest.mark.parametrize(
    "stats",
    [
        None,
        "no JSON",
        '{"numRecords":10}',
        '{"numRecords":10,"minValues":{"id":1},"maxValues":{"id":2}}',
        '{"numRecords":10,"minValues":{"id":1},"nullCount":{"id":0}}',
        '{"numRecords":10,"nullCount":{"id":9}}',
        '{"minValues":{"id":1},"maxValues":{"id":2},"nullCount":{"id":0}}',
        '{"numRecords":10,"minValues":{"other":1},"maxValues":{"other":2},"nullCount":{"other":0}}',
    ],
)
def test_a_clustered_table_takes_no_file_without_statistics_on_its_clustering_columns(stats: str | None) -> None:
    created = table(cluster_by=["id"])
    mine = Transaction(created)
    with pytest.raises(InvalidArgument, match="a: the table is clustered by id"):
        mine.add(replace(add("a"), stats=stats))


def test_a_table_that_becomes_clustered_by_being_created_wants_statistics_at_once() -> None:
    creating = Transaction.create(new_store().root_url, schema({"id": "long"}), cluster_by=["id"])
    with pytest.raises(InvalidArgument, match="clustered by id"):
        creating.add(add("a", rows=None))


@pytest.mark.parametrize(
    "stats",
    [
        '{"numRecords":10,"minValues":{"id":1},"maxValues":{"id":2},"nullCount":{"id":3}}',
        '{"numRecords":10,"nullCount":{"id":10}}',
        '{"numRecords":0,"nullCount":{"id":0}}',
    ],
)
def test_a_clustered_table_takes_files_whose_statistics_say_it_all(stats: str) -> None:
    mine = Transaction(table(cluster_by=["id"]))
    mine.add(replace(add("a"), stats=stats))
    assert mine.commit("WRITE").version == 1


def test_a_new_table_has_both_its_protocol_and_its_metadata() -> None:
    known = table()
    for half in (StagedActions(protocol=known.protocol), StagedActions(metadata=known.metadata)):
        with pytest.raises(InvalidArgument, match="its protocol and its metadata"):
            half.table_after(None)
        assert half.table_after(known.configuration) is known.configuration
