"""Curves and ranges: each place once, neighbours near, values in their order."""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.maintenance.layout.curves import bits_of, hilbert, z_order
from slackwater.maintenance.layout.range_partition_ids import CurveOrder, Ranges
from tests.examples import examples


def grid(dimensions: int, bits: int) -> list[np.ndarray[Any, Any]]:
    points = np.array(list(itertools.product(range(1 << bits), repeat=dimensions)), np.uint64)
    return [points[:, at].copy() for at in range(dimensions)]


@pytest.mark.parametrize(("dimensions", "bits"), [(1, 4), (2, 1), (2, 4), (3, 2), (3, 3), (4, 2), (5, 1)])
def test_each_point_has_one_place_and_neighbours_on_a_hilbert_curve_touch(dimensions: int, bits: int) -> None:
    points = grid(dimensions, bits)
    places = hilbert(points, bits)
    assert sorted(places.tolist()) == list(range(1 << (dimensions * bits)))
    order = np.argsort(places)
    steps = np.sum([np.abs(np.diff(point[order].astype(np.int64))) for point in points], axis=0)
    assert (steps == 1).all(), "one coordinate changes, by one"
    assert sorted(z_order(points, bits).tolist()) == list(range(1 << (dimensions * bits)))


def test_the_bits_of_coordinates_take_turns_in_z_order() -> None:
    (place,) = z_order([np.array([0b101], np.uint64), np.array([0b011], np.uint64)], 3).tolist()
    assert place == 0b100111
    assert [bits_of(n) for n in (1, 2, 5, 6, 31, 62)] == [12, 12, 12, 10, 2, 1]


SORTED = {
    "long": pa.array([-(2**63), -1, 0, 5, 2**63 - 1]),
    "double": pa.array([-math.inf, -1.5, 0.0, 1e300, math.inf, math.nan]),
    "boolean": pa.array([False, True]),
    "text": pa.array(["", "a", "aa", "ab", "b", "ä", "日本"]),
    "alike": pa.array([f"a common beginning {n}" for n in ("1", "2", "20", "3")]),
    "bytes": pa.array([b"", b"\x01", b"\x01\x02", b"\xff"]),
    "date": pa.array([dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 1, 1)]),
    "time": pa.array([dt.datetime(1, 1, 1), dt.datetime(2026, 1, 1, 1), dt.datetime(9999, 1, 1)], pa.timestamp("us")),
    "instant": pa.array([0, 1, 2**53], pa.timestamp("us", "UTC")),
    "decimal": pa.array([decimal.Decimal("-9.99"), decimal.Decimal("0.01"), decimal.Decimal("9.99")]),
}


@pytest.mark.parametrize("kind", SORTED)
def test_values_of_any_type_are_told_apart_in_their_order_and_nulls_come_first(kind: str) -> None:
    values = SORTED[kind]
    with_nulls = pa.concat_arrays([pa.nulls(2, values.type), values])
    ranges = Ranges.of(with_nulls, 6)
    expected = [64 * part // (len(values) + 1) for part in range(1, len(values) + 1)]
    assert ranges.coordinates(with_nulls).tolist() == [0, 0, *expected]
    assert ranges.coordinates(with_nulls.slice(3)).tolist() == expected[1:]
    assert ranges.coordinates(pa.nulls(3, values.type)).tolist() == [0, 0, 0]
    assert Ranges.of(values, 6).coordinates(with_nulls).tolist()[:3] == [0, 0, 0]
    assert len(set(Ranges.of(pa.nulls(3, values.type), 6).coordinates(values).tolist())) == 1


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.integers(-50, 50) | st.none(), max_size=200), st.integers(2, 8), st.integers(1, 6))
def test_coordinates_keep_the_order_within_their_bits(values: list[int | None], bits: int, parts: int) -> None:
    column = pa.array(values, pa.int64())
    found = Ranges.of(column, bits).coordinates(column)
    pairs = [(v, c) for v, c in zip(values, found.tolist(), strict=True) if v is not None]
    assert all(a[1] <= b[1] for a, b in itertools.pairwise(sorted(pairs)))
    assert all(c < 1 << bits for c in found.tolist())
    order = CurveOrder.of([column, column], bits, hilbert, parts)
    places = order.places([column, column])
    where = order.parts(places)
    assert ((where >= 0) & (where < parts)).all()
    by_place = sorted(zip(places.tolist(), where.tolist(), strict=True))
    assert all(a[1] <= b[1] for a, b in itertools.pairwise(by_place) if a[0] != b[0])


def test_files_are_alike_full_also_where_all_rows_are_in_one_place() -> None:
    for column in (pa.array([7] * 1000), pa.array(range(1000)), pa.nulls(1000, pa.int64())):
        order = CurveOrder.of([column], 10, z_order, 4)
        counts = np.bincount(order.parts(order.places([column])), minlength=4)
        assert counts.min() >= 240
        assert counts.max() <= 260
    assert CurveOrder.of([pa.array([], pa.int64())], 10, z_order, 4).parts(np.zeros(1, np.uint64)).tolist() == [0]
