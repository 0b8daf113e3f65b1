from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import InvalidArgument
from slackwater.owner.api.timestamp_range import PRECISIONS, UNBOUNDED, TimestampRange, at_ms, instants, precision_named

NOW = 1_795_291_542_485  # 2026-11-21 20:05:42.485 UTC
TIMES = st.integers(0, 4_000_000_000_000)
ZONES = ("UTC", "Asia/Kathmandu", "America/Sao_Paulo", "Europe/Copenhagen", "Australia/Lord_Howe")


@pytest.mark.parametrize(
    ("precision", "first", "last"),
    [
        ("millisecond", 0, 0),
        ("centisecond", -5, 4),
        ("decisecond", -85, 14),
        ("second", -485, 514),
        ("minute", -42_485, 17_514),
        ("hour", -342_485, 3_257_514),
    ],
)
def test_a_time_that_is_cut_off_stands_for_the_instants_that_share_it(precision: str, first: int, last: int) -> None:
    assert instants(NOW, precision) == (NOW + first, NOW + last)


def test_days_and_hours_are_those_of_the_zone() -> None:
    first, last = instants(NOW, "day", "Asia/Kathmandu")
    assert at_ms(first).astimezone(ZoneInfo("Asia/Kathmandu")).isoformat() == "2026-11-22T00:00:00+05:45"
    assert last - first + 1 == 86_400_000
    assert at_ms(instants(NOW, "hour", "Asia/Kathmandu")[0]).minute == 15


def test_a_day_on_which_the_clocks_change_has_another_length() -> None:
    spring = round(dt.datetime(2026, 3, 29, 12, tzinfo=dt.timezone.utc).timestamp() * 1000)
    first, last = instants(spring, "day", "Europe/Copenhagen")
    assert last - first + 1 == 23 * 3_600_000


@given(TIMES, st.sampled_from(PRECISIONS), st.sampled_from(ZONES))
def test_the_instant_is_among_those_that_share_its_value(now: int, precision: str, zone: str) -> None:
    first, last = instants(now, precision, zone)
    assert first <= now <= last


@given(
    TIMES, st.lists(st.tuples(st.integers(0, 10**9), st.sampled_from(PRECISIONS), st.sampled_from(ZONES)), max_size=5)
)
def test_each_request_leaves_a_part_of_what_was_left(start: int, requests: list[tuple[int, str, str]]) -> None:
    range_, now = TimestampRange(start), start
    for passed, precision, zone in requests:
        now += passed
        narrowed = range_.narrowed(now, precision, zone)
        assert range_.low_ms <= narrowed.low_ms
        assert narrowed.high_ms <= range_.high_ms
        if narrowed.is_empty:
            return
        assert instants(narrowed.low_ms + 1, precision, zone) == instants(narrowed.high_ms, precision, zone)
        range_ = narrowed


def test_what_is_known_more_precisely_is_answered_from_that() -> None:
    second = TimestampRange(0).narrowed(NOW, "second")
    assert second.narrowed(NOW + 3_600_000, "day") == second
    assert second.narrowed(NOW + 3_600_000, "minute") == second
    assert second.narrowed(NOW + 3_600_000, "second") == second
    assert second.narrowed(NOW + 3_600_000, "millisecond").is_empty


def test_full_precision_leaves_one_timestamp() -> None:
    fixed = TimestampRange(5).narrowed(NOW, "millisecond")
    assert fixed == TimestampRange(NOW - 1, NOW)
    assert fixed.is_fixed
    assert fixed.choose(NOW + 1000) == NOW


def test_the_latest_is_chosen_and_the_earliest_where_the_bound_has_passed() -> None:
    assert TimestampRange(5).choose(NOW) == NOW
    assert TimestampRange(NOW + 5).choose(NOW) == NOW + 6
    assert TimestampRange(5, 100).choose(50) == 50
    assert TimestampRange(5, 100).choose(NOW) == 6


def test_a_range_that_nobody_asked_about_has_no_end() -> None:
    assert TimestampRange(5).high_ms == UNBOUNDED
    assert not TimestampRange(5).was_asked
    assert TimestampRange(5, 6).was_asked
    assert TimestampRange(6, 6).is_empty


@pytest.mark.parametrize(
    ("given", "named"),
    [(0, "second"), (1, "decisecond"), (2, "centisecond"), (3, "millisecond"), ("ms", "millisecond"), ("S", "second"),
     ("days", "day"), ("Hour", "hour"), ("minute", "minute"), ("min", "minute"), ("h", "hour"), ("d", "day")],
)  # fmt: skip
def test_precisions_have_names_and_numbers(given: int | str, named: str) -> None:
    assert precision_named(given) == named


@pytest.mark.parametrize("given", [4, 9, -1, True, "us", "microsecond", "", "week", 1.0, None])
def test_a_finer_precision_than_a_millisecond_is_refused(given: object) -> None:
    with pytest.raises(InvalidArgument, match="millisecond"):
        precision_named(given)  # type: ignore[arg-type]


def test_a_session_s_zone_may_be_an_offset() -> None:
    first, last = instants(NOW, "day", "+05:45")
    assert (first, last) == instants(NOW, "day", "Asia/Kathmandu")
    assert instants(NOW, "day", "GMT") == instants(NOW, "day", "UTC")


@pytest.mark.parametrize("zone", ["Atlantis", "../etc", "", "+99:00"])
def test_a_zone_that_there_is_none_of_is_refused(zone: str) -> None:
    with pytest.raises(InvalidArgument, match="zone"):
        instants(NOW, "day", zone)
