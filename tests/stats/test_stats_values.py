"""Values of statistics in the types of their columns: what has a form there, and what has none."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from slackwater.stats.stats_values import typed, typed_bound, wire_type

UTC = dt.timezone.utc
INSTANT, LOCAL = pa.timestamp("us", "UTC"), pa.timestamp("us")
WIDEST = dt.timedelta(hours=18)


@pytest.mark.parametrize("text", [pa.string(), pa.large_string()])
@pytest.mark.parametrize(
    ("value", "arrow", "found"),
    [
        ("2020-01-05", pa.date32(), dt.date(2020, 1, 5)),
        ("2020-02-30", pa.date32(), None),
        ("2020-1-5", pa.date32(), None),
        ("2020-01-05T10:00:00.1234569Z", INSTANT, dt.datetime(2020, 1, 5, 10, 0, 0, 123456, UTC)),
        ("2020-01-05 10:00+0200", INSTANT, dt.datetime(2020, 1, 5, 8, tzinfo=UTC)),
        ("2020-01-05T10:00:00", INSTANT, None),
        ("2020-01-05", INSTANT, None),
        ("2020-01-05T10:00:00Z", LOCAL, dt.datetime(2020, 1, 5, 10)),
        ("2020-01-05", LOCAL, dt.datetime(2020, 1, 5)),
        ("2020-01-05Z", LOCAL, None),
        ("2020-01-05T10:00:00+00:00", LOCAL, None),
        ("5", pa.int64(), None),
        ("1.5", pa.float64(), None),
        ("1.5", pa.decimal128(5, 2), None),
        ("true", pa.bool_(), None),
        ("5", pa.string(), "5"),
    ],
)
def test_a_text_is_read_where_its_form_is_that_of_the_type(
    value: str, arrow: pa.DataType, found: Any, text: pa.DataType
) -> None:
    assert typed(pa.array([value, None], text), arrow).to_pylist() == [found, None]


@pytest.mark.parametrize(
    ("values", "arrow", "found"),
    [
        (pa.array([1, 2**31]), pa.int32(), [1, None]),
        (pa.array([1.5, 2.0]), pa.int64(), [None, 2]),
        (pa.array([5]), pa.string(), [None]),
        (pa.array([{"a": 1}]), pa.int64(), [None]),
        (pa.array([[1]]), pa.int64(), [None]),
        (pa.array([999], pa.timestamp("ns")), LOCAL, [dt.datetime(1970, 1, 1)]),
    ],
)
def test_what_does_not_fit_is_null_by_itself(values: pa.Array, arrow: pa.DataType, found: list[Any]) -> None:
    assert typed(values, arrow).to_pylist() == found


def test_a_bound_without_an_offset_is_as_wide_as_the_earth() -> None:
    values = pa.array(["2020-01-05T10:00:00", "2020-01-05T10:00:00Z", None, "soon"])
    moment = dt.datetime(2020, 1, 5, 10, tzinfo=UTC)
    assert typed_bound(values, INSTANT, is_max=False).to_pylist() == [moment - WIDEST, moment, None, None]
    assert typed_bound(values, INSTANT, is_max=True).to_pylist() == [moment + WIDEST, moment, None, None]
    assert typed_bound(values, LOCAL, is_max=True).to_pylist() == [moment.replace(tzinfo=None)] * 2 + [None, None]


@pytest.mark.parametrize(
    ("arrow", "found"),
    [
        (pa.int8(), pa.int64()),
        (pa.date32(), pa.string()),
        (INSTANT, pa.string()),
        (pa.decimal128(5, 2), pa.decimal128(5, 2)),
        (pa.float32(), pa.float32()),
        (pa.bool_(), pa.bool_()),
        (pa.binary(), None),
        (pa.null(), None),
        (pa.list_(pa.int64()), None),
        (pa.struct([("a", pa.int16())]), pa.struct([("a", pa.int64())])),
    ],
)
def test_bounds_stand_in_json_in_a_type_of_their_own(arrow: pa.DataType, found: pa.DataType | None) -> None:
    assert wire_type(arrow) == found


def test_a_bound_whose_offset_may_lack_its_seconds_is_a_minute_wider() -> None:
    """Delta 3.2 and 3.3 wrote the offset +00:53:28 of Warsaw in 1850 as +00:53."""
    texts = pa.array(["1850-01-01T01:01:01.000+00:53", "1850-01-01T00:08:01Z", "2024-01-01T01:01:01+05:30", None])
    cut, exact = dt.datetime(1850, 1, 1, 0, 8, 1, tzinfo=UTC), dt.datetime(2023, 12, 31, 19, 31, 1, tzinfo=UTC)
    minute = dt.timedelta(minutes=1)
    assert typed_bound(texts, INSTANT, is_max=False).to_pylist() == [cut - minute, cut, exact, None]
    assert typed_bound(texts, INSTANT, is_max=True).to_pylist() == [cut + minute, cut, exact, None]
    # In columns of a checkpoint the offset is gone: the bound is left out, and one of another writer is as wide.
    assert typed(texts, INSTANT).to_pylist() == [None, cut, exact, None]
    columns = pa.array([cut, exact], INSTANT)
    assert typed_bound(columns, INSTANT, is_max=False).to_pylist() == [cut - minute, exact]
    assert typed_bound(columns, INSTANT, is_max=True).to_pylist() == [cut + minute, exact]
