from __future__ import annotations

import pytest

from slackwater.errors import CorruptTable, InvalidArgument, UnsupportedFeature
from slackwater.protocol.properties.properties import (
    APPEND_ONLY,
    CHECKPOINT_INTERVAL,
    CHECKPOINT_POLICY,
    DELETED_FILE_RETENTION,
    ENABLE_CHANGE_DATA_FEED,
    ENABLE_EXPIRED_LOG_CLEANUP,
    ENABLE_ROW_TRACKING,
    ICT_ENABLEMENT_VERSION,
    ISOLATION_LEVEL,
    LOG_RETENTION,
    PROPERTIES,
    ROW_TRACKING_SUSPENDED,
    SET_TRANSACTION_RETENTION,
    TableProperties,
    split_properties,
    validate_properties,
)

DAY_MS = 86_400_000


def test_keys_are_found_in_any_case_and_kept_as_they_are() -> None:
    properties = TableProperties({"delta.appendOnly": "true", "Owner": "me"})
    assert properties["DELTA.APPENDONLY"] == "true"
    assert properties.get("owner") == "me"
    assert "delta.APPENDonly" in properties
    assert dict(properties) == {"delta.appendOnly": "true", "Owner": "me"}
    assert len(properties) == 2
    assert "delta.other" not in properties
    with pytest.raises(KeyError):
        properties["delta.other"]


def test_of_two_keys_that_differ_by_case_the_exact_one_is_found() -> None:
    properties = TableProperties({"a.B": "1", "A.b": "2"})
    assert (properties["a.B"], properties["A.b"]) == ("1", "2")


def test_properties_do_not_change_with_the_map_they_were_made_of() -> None:
    source = {"a": "1"}
    properties = TableProperties(source)
    source["a"] = "2"
    assert properties["a"] == "1"


@pytest.mark.parametrize(("text", "value"), [("true", True), ("TRUE", True), ("false", False), ("False", False)])
def test_a_flag_is_true_or_false_in_any_case(text: str, value: bool) -> None:
    assert TableProperties({"f": text}).flag("F", default=not value) is value


def test_a_flag_that_is_not_set_is_its_default() -> None:
    assert TableProperties({}).flag("f") is False
    assert TableProperties({}).flag("f", default=True) is True


@pytest.mark.parametrize("text", ["", "yes", "1", " true"])
def test_a_flag_that_is_neither_is_named(text: str) -> None:
    with pytest.raises(CorruptTable, match=r"property delta\.f must be true or false"):
        TableProperties({"delta.f": text}).flag("delta.f")


def test_a_whole_number_is_read_and_none_where_it_is_not_set() -> None:
    properties = TableProperties({"n": "9223372036854775807", "m": "-1"})
    assert properties.integer("N") == 2**63 - 1
    assert properties.integer("m") == -1
    assert properties.integer("k") is None


@pytest.mark.parametrize("text", ["", "ten", "1.5", "0x10"])
def test_a_whole_number_that_is_none_is_named(text: str) -> None:
    with pytest.raises(CorruptTable, match=r"property delta\.n must be a whole number"):
        TableProperties({"delta.n": text}).integer("delta.n")


def test_a_known_property_that_is_not_set_is_its_default() -> None:
    nothing = TableProperties({})
    assert nothing.flag(ENABLE_EXPIRED_LOG_CLEANUP) is True
    assert nothing.flag(ENABLE_EXPIRED_LOG_CLEANUP, default=False) is False
    assert nothing.flag(APPEND_ONLY) is False
    assert nothing.integer("DELTA.checkpointinterval") == 10
    assert nothing.integer(ICT_ENABLEMENT_VERSION) is None
    assert nothing.duration_ms(LOG_RETENTION) == 30 * DAY_MS
    assert nothing.duration_ms(SET_TRANSACTION_RETENTION) is None
    assert nothing.choice(ISOLATION_LEVEL) == "WriteSerializable"
    assert nothing.get(LOG_RETENTION) is None


def test_what_a_table_sets_goes_before_the_default() -> None:
    properties = TableProperties(
        {
            "delta.logretentionduration": "2 weeks",
            ISOLATION_LEVEL: "serializable",
            CHECKPOINT_INTERVAL: "3",
            ENABLE_EXPIRED_LOG_CLEANUP: "false",
        }
    )
    assert properties.duration_ms(LOG_RETENTION) == 14 * DAY_MS
    assert properties.choice(ISOLATION_LEVEL) == "Serializable"
    assert properties.integer(CHECKPOINT_INTERVAL) == 3
    assert properties.flag(ENABLE_EXPIRED_LOG_CLEANUP) is False


def test_a_stored_interval_or_choice_that_is_none_is_named() -> None:
    with pytest.raises(CorruptTable, match=r"property delta\.logRetentionDuration: .*'soon'"):
        TableProperties({LOG_RETENTION: "soon"}).duration_ms(LOG_RETENTION)
    with pytest.raises(CorruptTable, match=r"delta\.checkpointPolicy must be one of classic, v2, found 'v3'"):
        TableProperties({CHECKPOINT_POLICY: "v3"}).choice(CHECKPOINT_POLICY)


def test_another_name_of_a_property_is_found_as_the_property() -> None:
    stored = TableProperties({"delta.enablechangedatacapture": "true"})
    assert stored.flag(ENABLE_CHANGE_DATA_FEED) is True
    both = TableProperties({"delta.enableChangeDataCapture": "true", ENABLE_CHANGE_DATA_FEED: "false"})
    assert both.flag(ENABLE_CHANGE_DATA_FEED) is False
    assert validate_properties({"delta.enableChangeDataCapture": "True"}) == {ENABLE_CHANGE_DATA_FEED: "true"}


def test_every_default_is_a_value_of_its_property() -> None:
    settable = {name: p.default for name, p in PROPERTIES.items() if p.default is not None and p.settable}
    assert validate_properties(settable) == settable
    for name, known in PROPERTIES.items():
        assert known.name == name
        # The others name the owner of a catalog-managed table.
        assert name.startswith("delta.") or not known.settable
        assert known.doc.endswith(".")
        assert bool(known.choices) == (known.kind == "choice")


def test_known_keys_and_values_are_spelled_canonically_and_others_kept() -> None:
    given = {
        "DELTA.APPENDONLY": " TRUE",
        "delta.checkpointinterval": " +07",
        "delta.CheckpointPolicy": "V2",
        "delta.isolationLevel": "SNAPSHOTISOLATION",
        "delta.deletedFileRetentionDuration": "interval 2 Days",
        "delta.dataSkippingStatsColumns": "a, `B.c`",
        "Owner": " Me ",
        "owner": "you",
    }
    assert validate_properties(given) == {
        "delta.appendOnly": "true",
        "delta.checkpointInterval": "7",
        "delta.checkpointPolicy": "v2",
        "delta.isolationLevel": "SnapshotIsolation",
        "delta.deletedFileRetentionDuration": "interval 2 Days",
        "delta.dataSkippingStatsColumns": "a, `B.c`",
        "Owner": " Me ",
        "owner": "you",
    }


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("delta.appendOnly", "yes", "true or false, found 'yes'"),
        ("delta.checkpointInterval", "0", "from 1 to 2147483647, found '0'"),
        ("delta.checkpointInterval", "1.5", "whole number"),
        ("delta.checkpointInterval", "1_0", "whole number"),
        ("delta.checkpointInterval", "2147483648", "whole number"),
        ("delta.dataSkippingNumIndexedCols", "-2", "from -1"),
        ("delta.logRetentionDuration", "1 month", "delta.logRetentionDuration: .*no fixed length"),
        ("delta.columnMapping.mode", "names", "one of none, name, id"),
        ("delta.isolationLevel", "ReadCommitted", "one of Serializable, WriteSerializable, SnapshotIsolation"),
        ("delta.appendOnyl", "true", "Did you mean delta.appendOnly"),
        ("Delta.enableDeletionVector", "true", "Did you mean delta.enableDeletionVectors"),
        ("delta.", "1", "Did you mean"),
        ("delta.columnMapping.maxColumnId", "3", "maintained by Slackwater itself"),
        ("delta.rowTracking.materializedRowIdColumnName", "c", "maintained by Slackwater itself"),
        ("delta.inCommitTimestampEnablementVersion", "3", "maintained by Slackwater itself"),
    ],
)
def test_what_makes_no_sense_is_refused(key: str, value: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        validate_properties({key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("delta.universalFormat.enabledFormats", "iceberg"),
        ("delta.universalFormat.config.iceberg.x", "y"),
        ("delta.compatibility.symlinkFormatManifest.enabled", "true"),
        ("delta.coordinatedCommits.commitCoordinator-preview", "dynamodb"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(key: str, value: str) -> None:
    with pytest.raises(UnsupportedFeature, match=key.replace(".", r"\.")):
        validate_properties({key: value})


def test_what_is_not_honoured_may_be_turned_off() -> None:
    off = {
        "delta.universalFormat.enabledFormats": "",
        "delta.compatibility.symlinkFormatManifest.enabled": "false",
    }
    assert validate_properties(off) == off


def test_a_property_is_given_once() -> None:
    for twice in (
        {"delta.appendOnly": "true", "delta.appendonly": "true"},
        {"delta.enableChangeDataFeed": "true", "delta.enableChangeDataCapture": "true"},
    ):
        with pytest.raises(InvalidArgument, match="is set twice"):
            validate_properties(twice)


def test_values_are_texts() -> None:
    with pytest.raises(InvalidArgument, match=r"are strings, found 'delta\.appendOnly': True"):
        validate_properties({"delta.appendOnly": True})  # type: ignore[dict-item]
    with pytest.raises(InvalidArgument, match="are strings"):
        split_properties({"a": None})  # type: ignore[dict-item]


def test_the_log_is_kept_at_least_as_long_as_removed_files() -> None:
    with pytest.raises(InvalidArgument, match="must not be shorter"):
        validate_properties({DELETED_FILE_RETENTION: "31 days"})
    with pytest.raises(InvalidArgument, match="must not be shorter"):
        validate_properties({LOG_RETENTION: "6 days"})
    long = {"delta.logretentionduration": "90 days"}
    assert validate_properties({DELETED_FILE_RETENTION: "31 days"}, long) == {DELETED_FILE_RETENTION: "31 days"}
    both = {LOG_RETENTION: "1 day", DELETED_FILE_RETENTION: "1 day"}
    assert validate_properties(both) == both
    unhappy = {LOG_RETENTION: "1 day"}
    assert validate_properties({"a": "b"}, unhappy) == {"a": "b"}


def test_row_tracking_is_not_both_enabled_and_suspended() -> None:
    with pytest.raises(InvalidArgument, match="cannot both be true"):
        validate_properties({ROW_TRACKING_SUSPENDED: "true"}, {ENABLE_ROW_TRACKING: "true"})
    assert validate_properties({ROW_TRACKING_SUSPENDED: "false"}, {ENABLE_ROW_TRACKING: "true"})


def test_what_asks_for_the_protocol_is_taken_apart() -> None:
    found = split_properties(
        {
            "delta.appendOnly": "true",
            "delta.feature.deletionVectors": "supported",
            "DELTA.FEATURE.v2Checkpoint": "Enabled",
            "delta.minReaderVersion": "3",
            "delta.minwriterversion": " 7 ",
            "delta.Constraints.Positive": "x > 0",
            "mine": "1",
        }
    )
    assert found.plain == {"delta.appendOnly": "true", "mine": "1"}
    assert found.features == ("deletionVectors", "v2Checkpoint")
    assert (found.min_reader_version, found.min_writer_version) == (3, 7)
    assert found.constraints == {"delta.constraints.Positive": "x > 0"}
    assert split_properties({}) == ({}, (), None, None, {})


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("delta.feature.deletionVectors", "true", "must be 'supported'"),
        ("delta.feature.", "supported", "does not name a table feature"),
        ("delta.minReaderVersion", "three", "protocol version"),
        ("delta.minWriterVersion", "0", "protocol version"),
        ("delta.constraints.", "x > 0", "a constraint needs a name"),
        ("delta.constraints.c", " ", "a constraint needs a name and an expression"),
    ],
)
def test_a_request_for_the_protocol_that_makes_no_sense_is_refused(key: str, value: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        split_properties({key: value})


def test_constraints_that_differ_in_case_alone_are_one_too_many() -> None:
    with pytest.raises(InvalidArgument, match="is set twice"):
        split_properties({"delta.constraints.c": "x > 0", "delta.constraints.C": "x > 1"})


def test_parts_of_different_calls_are_not_shared() -> None:
    split_properties({"a": "1"}).plain["b"] = "2"
    assert split_properties({"a": "1"}).plain == {"a": "1"}
