from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import CorruptTable
from slackwater.protocol.actions.actions import NO_COLUMNS, Metadata, Protocol
from slackwater.protocol.features.in_commit_timestamps import enablement, is_enabled, next_timestamp
from slackwater.protocol.features.table_configuration import TableConfiguration

ON = {"delta.enableInCommitTimestamps": "true"}
OFF = {"delta.enableInCommitTimestamps": "false"}
SINCE_3 = {"delta.inCommitTimestampEnablementVersion": "3", "delta.inCommitTimestampEnablementTimestamp": "300"}
SUPPORTED = Protocol(1, 7, None, ("inCommitTimestamp",))


def _table(*configurations: dict[str, str], protocol: Protocol = SUPPORTED) -> TableConfiguration:
    merged = {k: v for c in configurations for k, v in c.items()}
    return TableConfiguration(protocol, Metadata("id", NO_COLUMNS, configuration=merged))


@pytest.mark.parametrize(
    ("clock_ms", "previous_ms", "timestamp_ms"),
    [(100, None, 100), (100, 50, 100), (100, 100, 101), (100, 99, 100), (100, 500, 501)],
)
def test_a_commit_is_later_than_the_one_before_even_where_clocks_go_back(
    clock_ms: int, previous_ms: int | None, timestamp_ms: int
) -> None:
    assert next_timestamp(clock_ms, previous_ms) == timestamp_ms


@given(st.lists(st.integers(0, 50), min_size=2))
def test_timestamps_rise_whatever_the_clocks_say(clocks_ms: list[int]) -> None:
    stamps: list[int] = []
    for clock_ms in clocks_ms:
        stamps.append(next_timestamp(clock_ms, stamps[-1] if stamps else None))
    assert all(earlier < later for earlier, later in itertools.pairwise(stamps))
    assert all(stamp >= clock_ms for stamp, clock_ms in zip(stamps, clocks_ms, strict=True))


@pytest.mark.parametrize("name", ["inCommitTimestamp", "inCommitTimestamps"])
def test_they_are_enabled_where_supported_and_turned_on(name: str) -> None:
    protocol = Protocol(1, 7, None, (name,))
    assert is_enabled(_table(ON, protocol=protocol))
    assert not is_enabled(_table(OFF, protocol=protocol))
    assert not is_enabled(_table(protocol=protocol))
    assert not is_enabled(_table(ON, protocol=Protocol(1, 2)))


def test_a_value_that_is_no_flag_is_named() -> None:
    with pytest.raises(CorruptTable, match="enableInCommitTimestamps must be true or false"):
        is_enabled(_table({"delta.enableInCommitTimestamps": "sometimes"}))


def test_turning_them_on_later_is_recorded_with_version_and_time() -> None:
    recorded = enablement(_table(), _table(ON), 3, 300)
    assert recorded.configuration == {**ON, **SINCE_3}
    assert enablement(_table(OFF), _table(ON), 3, 300).configuration == {**ON, **SINCE_3}


def test_a_table_that_has_them_from_the_start_records_nothing() -> None:
    table = _table(ON)
    assert enablement(None, table, 0, 100) is table.metadata


def test_a_record_that_was_copied_from_another_table_does_not_survive_creation() -> None:
    assert enablement(None, _table(ON, SINCE_3), 0, 100).configuration == ON
    assert enablement(None, _table(SINCE_3), 0, 100).configuration == {}


@pytest.mark.parametrize(
    "new",
    [
        _table(ON, SINCE_3),
        _table(ON),
        _table(ON, SINCE_3, {"delta.inCommitTimestampEnablementVersion": "9"}),
        _table(ON, {"DELTA.INCOMMITTIMESTAMPENABLEMENTVERSION": "9"}),
    ],
)
def test_the_record_stays_as_it_was_while_they_stay_on(new: TableConfiguration) -> None:
    kept = enablement(_table(ON, SINCE_3), new, 7, 700)
    assert kept.configuration == {**ON, **SINCE_3}


def test_a_record_cannot_be_slipped_in_where_there_was_none() -> None:
    assert enablement(_table(ON), _table(ON, SINCE_3), 7, 700).configuration == ON


@pytest.mark.parametrize("new", [_table(SINCE_3), _table(OFF, SINCE_3)])
def test_turning_them_off_removes_the_record(new: TableConfiguration) -> None:
    assert set(enablement(_table(ON, SINCE_3), new, 7, 700).configuration) <= set(OFF)


def test_turning_them_on_again_records_the_new_enablement() -> None:
    recorded = enablement(_table(OFF), _table(ON, SINCE_3), 9, 900).configuration
    assert recorded["delta.inCommitTimestampEnablementVersion"] == "9"
    assert recorded["delta.inCommitTimestampEnablementTimestamp"] == "900"


def test_the_property_alone_had_not_turned_them_on() -> None:
    recorded = enablement(_table(ON, protocol=Protocol(1, 2)), _table(ON), 3, 300)
    assert recorded.configuration == {**ON, **SINCE_3}


def test_metadata_without_them_is_left_as_it_is() -> None:
    table = _table({"delta.appendOnly": "true"})
    assert enablement(_table(), table, 3, 300) is table.metadata


def test_another_attempt_at_a_later_version_replaces_the_record() -> None:
    first = enablement(_table(), _table(ON), 3, 300)
    second = enablement(_table(), _table().changed(metadata=first), 5, 500).configuration
    assert second["delta.inCommitTimestampEnablementVersion"] == "5"
    assert second["delta.inCommitTimestampEnablementTimestamp"] == "500"
