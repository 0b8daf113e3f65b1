"""Values of columns as whole numbers of a few bits: in which part of a sorted sample a value is.

The parts are alike full, so columns count alike, whatever their values. Only the order of values matters; where it is
not told exactly (texts that differ late), nothing is lost but some nearness.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.maintenance.layout.curves import Coordinates, Curve

_PREFIX_BYTES = 8


@dataclass(frozen=True)
class Ranges:
    """The bounds of one column's parts; `skipped` bytes at the start of texts are the same in all of the sample."""

    bounds: npt.NDArray[Any]
    bits: int
    skipped: int = 0
    has_nulls: bool = False

    @staticmethod
    def of(sample: pa.Array, bits: int) -> Ranges:
        """Parts, at most 2 to the power of `bits` with that of nulls, that are alike full in `sample`."""
        present = sample.drop_null()
        has_nulls = len(present) < len(sample)
        skipped = _common_prefix(present) if _is_bytes(present.type) else 0
        found = np.sort(_ordered(present, skipped))
        at = np.linspace(0, max(0, len(found) - 1), (1 << bits) - has_nulls, dtype=np.int64)
        return Ranges(np.unique(found[at])[1:] if len(found) else found, bits, skipped, has_nulls)

    def coordinates(self, values: pa.Array) -> Coordinates:
        """The part of each value, nulls in the first one; all `bits` are made use of, however few parts there are."""
        parts = np.zeros(len(values), np.uint64)
        if values.null_count:
            parts[values.is_valid().to_numpy(zero_copy_only=False)] = self._parts(values.drop_null())
        else:
            parts = self._parts(values)
        found: Coordinates = (parts << np.uint64(self.bits)) // np.uint64(len(self.bounds) + 1 + self.has_nulls)
        return found

    def _parts(self, present: pa.Array) -> Coordinates:
        found: Coordinates = np.searchsorted(self.bounds, _ordered(present, self.skipped), side="right").astype(
            np.uint64
        )
        found += np.uint64(self.has_nulls)
        return found


@dataclass(frozen=True)
class CurveOrder:
    """Where rows are on a curve through some columns, and which of the files, that are alike full, a row goes to."""

    ranges: Sequence[Ranges]
    bits: int
    curve: Curve
    cuts: Coordinates

    @staticmethod
    def of(sample: Sequence[pa.Array], bits: int, curve: Curve, parts: int) -> CurveOrder:
        """The order by a `sample` of the columns, for `parts` files."""
        ranges = [Ranges.of(column, bits) for column in sample]
        order = CurveOrder(ranges, bits, curve, np.zeros(0, np.uint64))
        places = np.sort(order.places(sample))
        at = (np.arange(1, parts) * len(places)) // parts if len(places) else np.zeros(0, np.int64)
        return CurveOrder(ranges, bits, curve, places[at])

    def places(self, columns: Sequence[pa.Array]) -> Coordinates:
        """Where the rows are on the curve."""
        points = [ranges.coordinates(column) for ranges, column in zip(self.ranges, columns, strict=True)]
        return self.curve(points, self.bits)

    def parts(self, places: Coordinates) -> npt.NDArray[np.int64]:
        """Which file each row goes to; rows of one place, where they fill several files, go to all of these in turn."""
        low = np.searchsorted(self.cuts, places, side="left")
        high = np.searchsorted(self.cuts, places, side="right")
        turns = np.arange(len(places)) % (high - low + 1)
        return (low + turns).astype(np.int64)


def _is_bytes(kind: pa.DataType) -> bool:
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return bool(text or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _ordered(values: pa.Array, skipped: int) -> npt.NDArray[Any]:
    """Numbers in the order of `values`, of which none is null."""
    kind = values.type
    if _is_bytes(kind):
        return _leading_bytes(values.cast(pa.large_binary()), skipped)
    if pa.types.is_decimal(kind):
        values = values.cast(pa.float64())
    elif pa.types.is_boolean(kind):
        values = values.cast(pa.uint8())
    elif pa.types.is_temporal(kind):
        values = values.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    found: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return found


def _leading_bytes(values: pa.Array, skipped: int) -> npt.NDArray[np.uint64]:
    """The bytes after the first ones as numbers, most significant first; what is shorter ends with zeros."""
    _, offsets, data = values.buffers()
    at = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
    content = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    found = np.zeros(len(values), np.uint64)
    for number in range(_PREFIX_BYTES):
        place = at[:-1] + skipped + number
        byte = content[np.minimum(place, len(content) - 1)]
        found = (found << np.uint64(8)) | np.where(place < at[1:], byte, 0).astype(np.uint64)
    return found


def _common_prefix(values: pa.Array) -> int:
    if not len(values):
        return 0
    extremes = pc.min_max(values.cast(pa.large_binary()))
    low, high = extremes["min"].as_py(), extremes["max"].as_py()
    same = (at for at, (a, b) in enumerate(zip(low, high, strict=False)) if a != b)
    return next(same, min(len(low), len(high)))
