"""The table feature `multiTableTransaction`: enabled by a property, kept with the table, dropped; its dependency."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import slackwater
from slackwater.errors import CorruptLog, InvalidArgument, OperationNotAllowed
from slackwater.lake.lake import LogLake
from slackwater.owner.embedded import EmbeddedOwner
from slackwater.protocol.actions.actions import Protocol
from slackwater.protocol.features.managed_commits import CATALOG_MANAGED, form_of
from slackwater.protocol.features.table_features import MULTI_TABLE, validate_readable, validate_writable
from slackwater.scan.snapshot import Snapshot
from slackwater.transaction.commit.factory import begin
from slackwater.transaction.table.alteration import add_feature, set_properties
from slackwater.transaction.table.feature_removal import drop_feature
from tests.transaction.tables import add, schema

ID = schema({"id": "long"})
CATALOG = "catalogManaged"
WRITTEN = "multiTableTransaction-dev"
PROPERTY = {f"delta.feature.{WRITTEN}": "supported"}


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[LogLake]:
    owner = EmbeddedOwner.open(tmp_path / "lake", backfill_delay_s=None)
    with LogLake(owner, owner.root_url) as found:
        yield found


def supports(snapshot: Snapshot) -> bool:
    return snapshot.configuration.supports(MULTI_TABLE)


@pytest.mark.parametrize("name", [WRITTEN, "multiTableTransaction", "MULTITABLETRANSACTION-DEV"])
def test_the_property_creates_a_catalog_managed_table_with_the_experimental_name(lake: LogLake, name: str) -> None:
    found = lake._create_log("t", ID, properties={f"delta.feature.{name}": "supported"}).snapshot
    assert form_of(found.configuration) is CATALOG_MANAGED
    # Only writers must know the feature.
    assert WRITTEN in (found.protocol.writer_features or ())
    assert WRITTEN not in (found.protocol.reader_features or ())
    assert MULTI_TABLE not in (found.protocol.writer_features or ())
    assert not any(key.lower().startswith("delta.feature") for key in found.metadata.configuration)


def test_the_feature_is_added_to_a_catalog_managed_table_and_dropped(lake: LogLake) -> None:
    snapshot = lake._create_log("t", ID, managed=CATALOG).snapshot
    assert not supports(snapshot)
    snapshot = set_properties(snapshot, PROPERTY).commit(begin(snapshot)).snapshot
    assert supports(snapshot)
    assert supports(lake.snapshot("t"))
    # A second request changes nothing.
    assert set_properties(snapshot, PROPERTY).is_empty
    snapshot = drop_feature(snapshot, WRITTEN).snapshot
    assert not supports(snapshot)
    assert form_of(snapshot.configuration) is CATALOG_MANAGED
    snapshot = add_feature(snapshot, "multiTableTransaction").commit(begin(snapshot)).snapshot
    assert supports(drop_feature(snapshot, "multiTableTransaction").snapshot) is False


def test_a_table_without_a_catalog_does_not_get_the_feature(lake: LogLake, tmp_path: Path) -> None:
    plain = slackwater.Transaction.create(tmp_path / "plain", ID).commit("CREATE TABLE").snapshot
    managed = lake._create_log("t", ID).snapshot
    for snapshot in (plain, managed):
        with pytest.raises(InvalidArgument, match=r"multiTableTransaction needs catalogManaged.*lake migrate"):
            set_properties(snapshot, PROPERTY)
        with pytest.raises(InvalidArgument, match="multiTableTransaction needs catalogManaged"):
            add_feature(snapshot, WRITTEN)
    with pytest.raises(InvalidArgument, match="multiTableTransaction needs catalogManaged"):
        lake._create_log("u", ID, properties=PROPERTY, managed="managedCommit")
    assert [table.name for table in lake.tables()] == ["t"]


def test_the_catalog_feature_is_not_dropped_below_the_feature(lake: LogLake) -> None:
    snapshot = lake._create_log("t", ID, properties=PROPERTY).snapshot
    with pytest.raises(OperationNotAllowed, match=r"Lake\.release"):
        drop_feature(snapshot, CATALOG)


def test_a_release_drops_the_feature_and_a_rename_keeps_it(lake: LogLake) -> None:
    lake._create_log("t", ID, properties=PROPERTY)
    lake.rename_table("t", "u")
    assert supports(lake.snapshot("u"))
    lake.migrate("u", "managedCommit")
    assert not supports(lake.snapshot("u"))
    lake.migrate("u")
    assert not supports(lake.snapshot("u"))
    location = lake.owner.table("u").location
    snapshot = lake.snapshot("u")
    set_properties(snapshot, PROPERTY).commit(begin(snapshot))
    lake.release("u")
    released = slackwater.Snapshot.load(location)
    assert not (released.protocol.reader_features or ()) or CATALOG not in released.protocol.reader_features
    transaction = slackwater.Transaction(released)
    transaction.add(add("free"))
    assert transaction.commit("WRITE").version == released.version + 1


def test_a_clone_of_a_table_with_the_feature_has_its_own_form(lake: LogLake) -> None:
    source = lake._create_log("t", ID, properties=PROPERTY).snapshot
    assert not supports(lake._begin_clone("c", source).commit("CLONE").snapshot)
    assert supports(lake._begin_clone("d", source, PROPERTY).commit("CLONE").snapshot)


def test_a_clone_of_the_lake_has_tables_with_the_feature(lake: LogLake, tmp_path: Path) -> None:
    made = lake._create_log("t", ID, properties=PROPERTY).snapshot
    with LogLake.open(tmp_path / "other") as other:
        lake.clone(made.timestamp_ms, other)
        assert supports(other.snapshot("t"))


@pytest.mark.parametrize("name", [WRITTEN, "multiTableTransaction"])
def test_a_protocol_with_either_name_is_read_and_written(name: str) -> None:
    protocol = Protocol(3, 7, (CATALOG,), (CATALOG, "inCommitTimestamp", name))
    validate_readable(protocol, "here")
    validate_writable(protocol, "here")


def test_a_protocol_with_the_feature_but_no_catalog_is_corrupt() -> None:
    with pytest.raises(CorruptLog, match="multiTableTransaction needs catalogManaged"):
        validate_writable(Protocol(1, 7, None, (WRITTEN,)), "here")
