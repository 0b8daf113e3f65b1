from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from slackwater.errors import CorruptTable, InvalidSchema, UnsupportedFeature
from slackwater.protocol.actions.actions import NO_COLUMNS, Format, Metadata, Protocol
from slackwater.protocol.features import table_configuration
from slackwater.protocol.features.column_mapping import ID, NAME, NONE
from slackwater.protocol.features.table_configuration import TableConfiguration
from slackwater.protocol.features.table_features import validate_writable
from slackwater.protocol.properties.properties import COLUMN_MAPPING_MODE
from slackwater.protocol.schema.schema import LONG, STRING, StructField, StructType, schema_to_json

MAPPED = Protocol(2, 5)
ONE = StructType((StructField("id", LONG),))
TWO = StructType((*ONE, StructField("name", STRING)))


def _table(
    protocol: Protocol = MAPPED, configuration: dict[str, str] | None = None, schema: StructType = ONE
) -> TableConfiguration:
    return TableConfiguration(protocol, Metadata("id", schema_to_json(schema), configuration=configuration or {}))


@pytest.mark.parametrize(
    ("protocol", "value", "mode"),
    [
        (MAPPED, None, NONE),
        (MAPPED, "none", NONE),
        (MAPPED, "name", NAME),
        (MAPPED, "ID", ID),
        (Protocol(3, 7, ("columnMapping",), ("columnMapping",)), "id", ID),
        (Protocol(2, 7, None, ("columnMapping",)), "name", NAME),
        (Protocol(1, 4), "name", NONE),
        (Protocol(3, 7, (), ()), "id", NONE),
        (Protocol(1, 4), "nonsense", NONE),
    ],
)
def test_the_mode_counts_where_the_protocol_supports_it(protocol: Protocol, value: str | None, mode: str) -> None:
    assert _table(protocol, {} if value is None else {COLUMN_MAPPING_MODE: value}).column_mapping_mode == mode


def test_an_unknown_mode_is_named() -> None:
    with pytest.raises(CorruptTable, match=r"delta\.columnMapping\.mode must be none, name or id, found 'nonsense'"):
        _ = _table(MAPPED, {COLUMN_MAPPING_MODE: "nonsense"}).column_mapping_mode


@pytest.mark.parametrize(
    ("name", "key", "value", "active"),
    [
        ("appendOnly", "delta.appendOnly", "true", True),
        ("appendOnly", "DELTA.APPENDONLY", "TRUE", True),
        ("appendOnly", "delta.appendOnly", "false", False),
        ("appendOnly", "other", "true", False),
        ("columnMapping", "delta.columnMapping.mode", "ID", True),
        ("columnMapping", "delta.columnMapping.mode", "none", False),
        ("v2Checkpoint", "delta.checkpointPolicy", "v2", True),
        ("v2Checkpoint", "delta.checkpointPolicy", "classic", False),
        ("managedCommit", "delta.managedCommit.commitOwner", "us", True),
        ("invariants", "delta.invariants", "true", False),
    ],
)
def test_a_feature_is_active_where_it_is_supported_and_turned_on(name: str, key: str, value: str, active: bool) -> None:
    assert _table(Protocol(3, 7, (name,), (name,)), {key: value}).is_active(name) is active
    assert _table(Protocol(1, 7, None, ("domainMetadata",)), {key: value}).is_active(name) is False


def test_a_flag_that_is_no_flag_is_named() -> None:
    with pytest.raises(CorruptTable, match=r"delta\.appendOnly must be true or false, found 'yes'"):
        _table(Protocol(1, 2), {"delta.appendOnly": "yes"}).is_active("appendOnly")


def test_a_feature_that_nobody_knows_is_never_active() -> None:
    table = _table(Protocol(1, 7, None, ("future",)), {"future": "true"})
    assert table.supports("future")
    assert not table.is_active("future")


def test_what_the_texts_say_is_read_once() -> None:
    table = _table(schema=TWO)
    assert table.schema == TWO
    assert table.schema is table.schema
    assert table.properties is table.properties
    assert table.supported_features is table.supported_features


def test_malformed_text_raises_where_it_is_used() -> None:
    table = TableConfiguration(MAPPED, Metadata("id", "no json"))
    assert table.supports("columnMapping")
    with pytest.raises(InvalidSchema, match="schemaString is not JSON"):
        _ = table.schema


def test_a_table_is_changed_by_another_value() -> None:
    table = _table()
    with pytest.raises(FrozenInstanceError):
        table.protocol = Protocol(1, 1)  # type: ignore[misc]
    changed = table.changed(Protocol(1, 1))
    assert (changed.protocol, changed.metadata) == (Protocol(1, 1), table.metadata)
    assert table.protocol == MAPPED


def test_what_is_the_same_is_the_table_itself() -> None:
    table = _table(configuration={"a": "b"})
    assert table.changed() is table
    assert table.changed(Protocol(2, 5), replace(table.metadata, configuration={"a": "b"})) is table


def test_what_a_change_does_not_affect_is_not_parsed_again() -> None:
    table = _table(configuration={"a": "b"})
    parsed = (table.schema, table.properties, table.supported_features)
    other = Protocol(1, 4)
    upgraded = table.changed(other)
    assert (upgraded.schema, upgraded.properties) == parsed[:2]
    assert upgraded.schema is parsed[0]
    assert upgraded.properties is parsed[1]
    assert not upgraded.supports("columnMapping")
    renamed = table.changed(metadata=replace(table.metadata, name="t"))
    assert renamed.schema is parsed[0]
    assert renamed.properties is parsed[1]
    assert renamed.supported_features is parsed[2]


def test_what_a_change_affects_is_parsed_anew() -> None:
    table = _table(configuration={COLUMN_MAPPING_MODE: "name"})
    assert (table.schema, table.column_mapping_mode) == (ONE, NAME)
    assert table.changed(metadata=replace(table.metadata, schema_string=NO_COLUMNS)).schema == StructType()
    without = table.changed(metadata=replace(table.metadata, configuration={}))
    nothing: tuple[str, object] = (NONE, {})
    assert (without.column_mapping_mode, without.properties) == nothing
    assert table.changed(Protocol(1, 1)).column_mapping_mode == NONE


def test_writability_is_checked_once_and_again_after_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[Protocol] = []

    def validate(protocol: Protocol, where: str) -> None:
        checked.append(protocol)
        validate_writable(protocol, where)

    monkeypatch.setattr(table_configuration, "validate_writable", validate)
    table = _table()
    for _ in range(3):
        table.require_writable("t")
    table.changed(metadata=replace(table.metadata, name="t")).require_writable("t")
    assert checked == [MAPPED]
    for _ in range(2):
        with pytest.raises(UnsupportedFeature, match="writer version 8"):
            table.changed(Protocol(2, 8)).require_writable("t")
    avro = replace(table.metadata, format=Format("avro"))
    with pytest.raises(UnsupportedFeature, match="avro"):
        table.changed(metadata=avro).require_writable("t")
