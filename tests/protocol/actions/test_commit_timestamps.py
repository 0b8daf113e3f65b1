from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.errors import CorruptLog, InvalidArgument
from slackwater.protocol.actions.commit_timestamps import (
    has_in_commit_timestamp,
    monotonic,
    split_by_enablement,
    version_at,
)

TIMES = st.integers(0, 50)


def test_a_file_time_that_does_not_rise_becomes_one_more_than_the_one_before() -> None:
    assert monotonic([10, 10, 5, 20, 20]) == [10, 11, 12, 20, 21]
    assert monotonic([]) == []


@given(st.lists(TIMES))
def test_adjusted_times_rise_strictly_and_never_fall_below_the_files(times: list[int]) -> None:
    adjusted = monotonic(times)
    assert all(before < after for before, after in pairwise(adjusted))
    assert all(after >= time for after, time in zip(adjusted, times, strict=True))
    assert monotonic(adjusted) == adjusted


def test_a_time_between_two_commits_belongs_to_the_earlier() -> None:
    versions, times = [3, 4, 5], [100, 200, 300]
    asked = (99, 100, 199, 200, 300, 10**15)
    assert [version_at(t, versions, times) for t in asked] == [None, 3, 3, 4, 5, 5]
    assert version_at(1, [], []) is None


def test_versions_without_their_timestamps_are_refused() -> None:
    with pytest.raises(InvalidArgument):
        version_at(1, [1, 2], [1])


@given(st.lists(TIMES, min_size=1), TIMES)
def test_the_version_found_is_the_newest_that_is_not_later(file_times: list[int], asked: int) -> None:
    times = monotonic(file_times)
    expected = [version for version, time in enumerate(times) if time <= asked]
    assert version_at(asked, range(len(times)), times) == (expected[-1] if expected else None)


def test_commits_since_the_enablement_have_an_in_commit_timestamp() -> None:
    assert [has_in_commit_timestamp(v, 2) for v in range(4)] == [False, False, True, True]
    assert has_in_commit_timestamp(0, None)


def test_a_time_since_the_enablement_asks_only_versions_since_then() -> None:
    assert split_by_enablement(1000, range(10), 4, 1000) == range(4, 10)
    assert split_by_enablement(999, range(10), 4, 1000) == range(4)
    assert split_by_enablement(999, range(10), None, None) == range(10)


def test_versions_that_the_log_no_longer_has_are_not_considered() -> None:
    assert split_by_enablement(1000, range(6, 10), 4, 1000) == range(6, 10)
    assert not split_by_enablement(999, range(6, 10), 4, 1000)
    assert not split_by_enablement(1000, range(3), 4, 1000)


@pytest.mark.parametrize(("version", "time"), [(4, None), (None, 1000)])
def test_half_an_enablement_is_a_corrupt_log(version: int | None, time: int | None) -> None:
    with pytest.raises(CorruptLog, match="set together"):
        split_by_enablement(1, range(10), version, time)


@given(TIMES, TIMES, TIMES, TIMES, TIMES)
def test_each_version_answers_on_exactly_one_side_of_the_enablement(
    first: int, count: int, version: int, time: int, asked: int
) -> None:
    versions = range(first, first + count)
    before = split_by_enablement(time - 1, versions, version, time)
    since = split_by_enablement(time, versions, version, time)
    assert [*before, *since] == list(versions)
    assert list(split_by_enablement(asked, versions, version, time)) == list(since if asked >= time else before)
