"""Maps column values to integers of a few bits: the number of a range in a sorted sample.

Ranges contain about equally many values, so columns have equal weight regardless of their values. Only the order of
values matters. An inexact order (texts with a late difference) only reduces locality.
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
    """The range bounds of one column.

    `skipped` is the length in bytes of the common prefix of all texts in the sample.
    """

    bounds: npt.NDArray[Any]
    bits: int
    skipped: int = 0
    has_nulls: bool = False

    @staticmethod
    def of(sample: pa.Array, bits: int) -> Ranges:
        """Return ranges with about equally many values of `sample`.

        The number of ranges is at most 2 to the power of `bits`, including the range of nulls.
        """
        present = sample.drop_null()
        has_nulls = len(present) < len(sample)
        skipped = _common_prefix(present) if _is_bytes(present.type) else 0
        found = np.sort(_ordered(present, skipped))
        at = np.linspace(0, max(0, len(found) - 1), (1 << bits) - has_nulls, dtype=np.int64)
        return Ranges(np.unique(found[at])[1:] if len(found) else found, bits, skipped, has_nulls)

    def coordinates(self, values: pa.Array) -> Coordinates:
        """Return the range number of each value, scaled to all `bits` regardless of the number of ranges.

        Nulls are first.
        """
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
    """Row order along a curve through several columns, and the assignment of rows to files of about equal size."""

    ranges: Sequence[Ranges]
    bits: int
    curve: Curve
    cuts: Coordinates

    @staticmethod
    def of(sample: Sequence[pa.Array], bits: int, curve: Curve, parts: int) -> CurveOrder:
        """Return the order for a `sample` of the columns and `parts` files."""
        ranges = [Ranges.of(column, bits) for column in sample]
        order = CurveOrder(ranges, bits, curve, np.zeros(0, np.uint64))
        places = np.sort(order.places(sample))
        at = (np.arange(1, parts) * len(places)) // parts if len(places) else np.zeros(0, np.int64)
        return CurveOrder(ranges, bits, curve, places[at])

    def places(self, columns: Sequence[pa.Array]) -> Coordinates:
        """Return the positions of rows on the curve."""
        points = [ranges.coordinates(column) for ranges, column in zip(self.ranges, columns, strict=True)]
        return self.curve(points, self.bits)

    def parts(self, places: Coordinates) -> npt.NDArray[np.int64]:
        """Return the file number of each row.

        Rows of one position that fill several files are distributed round-robin.
        """
        low = np.searchsorted(self.cuts, places, side="left")
        high = np.searchsorted(self.cuts, places, side="right")
        turns = np.arange(len(places)) % (high - low + 1)
        return (low + turns).astype(np.int64)


def _is_bytes(kind: pa.DataType) -> bool:
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return bool(text or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _ordered(values: pa.Array, skipped: int) -> npt.NDArray[Any]:
    """Return numbers in the order of `values`, which contain no nulls."""
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
    """Return the bytes after the skipped prefix as big-endian numbers. Shorter texts are padded with zeros."""
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
