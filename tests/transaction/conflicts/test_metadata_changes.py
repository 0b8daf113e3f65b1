"""Which changes of metadata and protocol by others a transaction may follow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from slackwater.errors import (
    InvalidArgument,
    MetadataChangedException,
    ProtocolChangedException,
    UnsupportedFeature,
)
from slackwater.protocol.actions.actions import Metadata
from slackwater.protocol.features.column_mapping_ids import with_mapped_schema
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.table.alteration import add_constraint, add_feature
from slackwater.transaction.table.feature_removal import drop_feature
from slackwater.transaction.table.public_transaction import Transaction
from tests.transaction.tables import (
    FakeTime,
    add,
    append,
    begin,
    change_metadata,
    commit_actions,
    live,
    new_store,
    only,
    put_commit,
    schema,
    set_props,
    table,
    where,
)

Step = Callable[[Snapshot], object]
_HWM = "delta.identity.highWaterMark"


def _mark(before: Snapshot) -> Metadata:
    identity = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": False}
    return replace(before.metadata, schema_string=schema({"id": "long"}, id={**identity, _HWM: 9}))


TOLERATED: dict[str, Step] = {
    "row tracking": lambda before: set_props(before, delta__enableRowTracking="true"),
    "deletion vectors": lambda before: set_props(before, delta__enableDeletionVectors="true"),
    "in-commit timestamps": lambda before: set_props(before, delta__enableInCommitTimestamps="true"),
    "v2 checkpoints": lambda before: set_props(before, delta__checkpointPolicy="v2"),
    "column mapping by name": lambda before: set_props(before, delta__columnMapping__mode="name"),
    "a property of the user's": lambda before: set_props(before, owner="me"),
    "log retention": lambda before: set_props(before, delta__logRetentionDuration="interval 40 days"),
    "checkpoint interval": lambda before: set_props(before, delta__checkpointInterval="20"),
    "retention of checkpoints": lambda before: set_props(before, delta__checkpointRetentionDuration="interval 3 days"),
    "retention of files": lambda before: set_props(before, delta__deletedFileRetentionDuration="interval 8 days"),
    "retention of app ids": lambda before: set_props(before, delta__setTransactionRetentionDuration="interval 8 days"),
    "cleanup of the log": lambda before: set_props(before, delta__enableExpiredLogCleanup="false"),
    "retention to roll back": lambda before: set_props(before, delta__enableFullRetentionRollback="false"),
    "JSON in checkpoints": lambda before: set_props(before, delta__checkpoint__writeStatsAsJson="false"),
    "structs in checkpoints": lambda before: set_props(before, delta__checkpoint__writeStatsAsStruct="true"),
    "the table's description": lambda before: change_metadata(before, replace(before.metadata, description="d")),
    "the table's name": lambda before: change_metadata(before, replace(before.metadata, name="n")),
    "a comment": lambda before: change_metadata(
        before, replace(before.metadata, schema_string=schema({"id": "long"}, id={"comment": "c"}))
    ),
}
NOT_TOLERATED: dict[str, Step] = {
    "append only": lambda before: set_props(before, delta__appendOnly="true"),
    "change data feed": lambda before: set_props(before, delta__enableChangeDataFeed="true"),
    "statistics": lambda before: set_props(before, delta__dataSkippingNumIndexedCols="3"),
    "isolation": lambda before: set_props(before, delta__isolationLevel="Serializable"),
    "column mapping by id": lambda before: change_metadata(
        before,
        with_mapped_schema(
            before.configuration.changed(
                metadata=replace(before.metadata, configuration={"delta.columnMapping.mode": "id"})
            ),
            before.schema,
            "id",
        ).metadata,
    ),
    "deletion vectors off": lambda before: set_props(before, delta__enableDeletionVectors="false"),
    "a constraint": lambda before: add_constraint(before, "c", "id > 0").commit(begin(before)),
    "a new column": lambda before: change_metadata(
        before, replace(before.metadata, schema_string=schema({"id": "long", "x": "long"}))
    ),
    "another type": lambda before: change_metadata(
        before, replace(before.metadata, schema_string=schema({"id": "string"}))
    ),
    "not null": lambda before: change_metadata(
        before, replace(before.metadata, schema_string=schema({"id": "long"}, not_null=["id"]))
    ),
    "a default": lambda before: change_metadata(
        add_feature(before, "allowColumnDefaults").commit(begin(before)).snapshot,
        replace(before.metadata, schema_string=schema({"id": "long"}, id={"CURRENT_DEFAULT": "1"})),
    ),
}


@pytest.mark.parametrize("change", TOLERATED.values(), ids=TOLERATED)
def test_a_change_that_asks_nothing_of_written_files_is_followed(change: Step) -> None:
    before = append(table(), add("a")).snapshot
    mine = begin(before)
    mine.read_where(where(before, "id < 5"))
    mine.add(add("mine"))
    change(before)
    done = mine.commit("WRITE")
    assert live(before.store) == ["a", "mine"]
    after = done.snapshot
    assert after.metadata == Snapshot.open(before.store, done.version - 1).metadata
    if after.properties.flag("delta.enableInCommitTimestamps"):
        stamps = [only(before.store, v, "commitInfo")["inCommitTimestamp"] for v in (2, 3)]
        assert stamps[1] > stamps[0]
    if after.properties.flag("delta.enableRowTracking"):
        (mine_added,) = [a["add"] for a in commit_actions(before.store, done.version) if "add" in a]
        assert (mine_added["baseRowId"], mine_added["defaultRowCommitVersion"]) == (10, done.version)


@pytest.mark.parametrize("change", NOT_TOLERATED.values(), ids=NOT_TOLERATED)
def test_a_change_that_written_files_may_not_fit_is_a_conflict_even_for_a_blind_append(change: Step) -> None:
    before = table(properties={"delta.enableDeletionVectors": "true"})
    mine = begin(before)
    mine.add(add("mine"))
    change(before)
    with pytest.raises(
        MetadataChangedException, match=r"version \d .* changed the table's schema or settings"
    ) as caught:
        mine.commit("WRITE")
    assert (caught.value.retryable, caught.value.conflict) == (True, True)
    assert live(before.store) == []


def test_an_identity_high_water_mark_that_moved_is_followed_by_one_that_writes_no_identity_values() -> None:
    start = table()
    before = change_metadata(start, _mark(start)).snapshot
    mine, also_marking = begin(before), begin(before)
    mine.read_where(where(before, "id < 5"))
    mine.set_transaction("app", 1)
    moved = replace(before.metadata, schema_string=before.metadata.schema_string.replace(f'"{_HWM}":9', f'"{_HWM}":19'))
    moved = replace(moved, schema_string=moved.schema_string.replace(f'"{_HWM}": 9', f'"{_HWM}": 19'))
    assert moved != before.metadata
    also_marking.set_metadata(moved)
    change_metadata(before, moved)
    assert mine.commit("DELETE").version == 3
    # Values of one range must not be given out twice.
    with pytest.raises(MetadataChangedException):
        also_marking.commit("WRITE")


def test_two_that_change_the_metadata_conflict_even_where_the_change_is_harmless() -> None:
    before = table()
    mine = begin(before)
    mine.set_metadata(replace(before.metadata, description="mine"))
    set_props(before, owner="me")
    with pytest.raises(MetadataChangedException):
        mine.commit("SET TBLPROPERTIES")


def test_partition_columns_that_changed_are_a_conflict() -> None:
    before = table({"id": "long", "p": "string"}, ["p"])
    mine = begin(before)
    mine.add(add("mine", partition={"p": "x"}))
    change_metadata(before, replace(before.metadata, partition_columns=()))
    with pytest.raises(MetadataChangedException):
        mine.commit("WRITE")


# Protocols.


def test_a_feature_that_a_winner_added_is_followed() -> None:
    before = table()
    mine = begin(before)
    mine.add(add("mine"))
    add_feature(before, "domainMetadata").commit(begin(before))
    assert mine.commit("WRITE").version == 2


def test_row_tracking_that_a_winner_supports_gives_row_ids_to_what_follows() -> None:
    before = table()
    mine, without_count = begin(before), begin(before)
    mine.add(add("mine"))
    without_count.add(add("without", rows=None))
    add_feature(before, "rowTracking").commit(begin(before))
    mine.commit("WRITE")
    assert only(before.store, 2, "add")["baseRowId"] == 0
    with pytest.raises(InvalidArgument, match="numRecords"):
        without_count.commit("WRITE")
    assert live(before.store) == ["mine"]


def test_a_feature_that_a_winner_removed_is_a_conflict() -> None:
    before = table(properties={"delta.feature.domainMetadata": "supported"})
    mine = begin(before)
    mine.add(add("mine"))
    drop_feature(before, "domainMetadata")
    with pytest.raises(ProtocolChangedException, match="removed the features domainMetadata") as caught:
        mine.commit("WRITE")
    assert (caught.value.retryable, caught.value.conflict) == (True, True)


def test_two_that_change_the_protocol_conflict() -> None:
    before = table()
    mine = add_feature(before, "domainMetadata")
    add_feature(before, "vacuumProtocolCheck").commit(begin(before))
    with pytest.raises(ProtocolChangedException, match=r"version 1 \(UPGRADE PROTOCOL\) changed the table's protocol"):
        mine.commit(begin(before))


@pytest.mark.parametrize("readers", [[], ["someday"]])
def test_a_feature_that_nobody_here_honours_ends_the_transaction(readers: list[str]) -> None:
    before = table()
    mine = begin(before)
    mine.add(add("mine"))
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": readers, "writerFeatures": ["someday"]}
    put_commit(before.store, 1, {"protocol": protocol})
    with pytest.raises(UnsupportedFeature, match="someday"):
        mine.commit("WRITE")
    assert before.store.head("_delta_log/00000000000000000002.json") is None


def test_of_two_that_create_a_table_the_second_is_told_that_there_is_one() -> None:
    store = new_store()
    first, second = (
        Transaction.create(store.root_url, schema({"id": "long"}), clock=FakeTime().clock()) for _ in range(2)
    )
    first.commit("CREATE TABLE")
    with pytest.raises(ProtocolChangedException, match="another writer created the table first") as caught:
        second.commit("CREATE TABLE")
    assert (caught.value.retryable, caught.value.conflict) == (True, True)


def test_a_metadata_change_is_judged_against_the_version_that_it_followed() -> None:
    before = table()
    mine = begin(before)
    mine.add(add("mine"))
    first = set_props(before, owner="me").snapshot
    set_props(first, delta__enableRowTracking="true")
    assert mine.commit("WRITE").version == 3
