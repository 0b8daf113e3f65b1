"""Intervals of table properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import InvalidArgument
from slackwater.protocol.properties.intervals import parse_interval_ms

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("interval 30 days", 30 * DAY_MS),
        ("interval 1 week", 7 * DAY_MS),
        ("30 days", 30 * DAY_MS),
        ("  INTERVAL  2 WEEKS ", 14 * DAY_MS),
        ("1 Day 12 Hours", DAY_MS + DAY_MS // 2),
        ("interval 0 hours", 0),
        ("1 minute 1 second 1 millisecond", 61_001),
        ("1.5 seconds", 1_500),
        ("1999 microseconds", 1),
        ("2 days -1 day", DAY_MS),
    ],
)
def test_an_interval_is_a_number_of_milliseconds(text: str, expected_ms: int) -> None:
    assert parse_interval_ms(text) == expected_ms


@pytest.mark.parametrize("text", ["1 month", "interval 2 years", "1 Year 3 days"])
def test_months_and_years_are_refused_since_they_have_no_fixed_length(text: str) -> None:
    with pytest.raises(InvalidArgument, match="no fixed length"):
        parse_interval_ms(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "interval",
        "30",
        "days",
        "30days",
        "1 fortnight",
        "1.5 days",
        "-1 day",
        "1 day and 2",
        "intervals 1 day",
        "P1D",
    ],
)
def test_what_is_no_interval_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        parse_interval_ms(text)


@given(st.integers(0, 10**6), st.sampled_from(["week", "day", "hour", "minute", "second", "millisecond"]))
def test_singular_and_plural_and_case_are_one(number: int, unit: str) -> None:
    expected_ms = parse_interval_ms(f"{number} {unit}")
    assert parse_interval_ms(f"INTERVAL {number} {unit.upper()}S") == expected_ms
