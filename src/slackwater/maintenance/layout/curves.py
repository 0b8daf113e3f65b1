"""Space-filling curves over whole numbers. Points close on the curve are close in space.

A point has one coordinate per column. Its curve position is a number below 2 to the power of `dimensions * bits`.
Source: Morton 1966 (z-order); Skilling, "Programming the Hilbert curve" (2004).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Coordinates = npt.NDArray[np.uint64]
Curve = Callable[[Sequence[Coordinates], int], Coordinates]
"""Function that returns curve positions of points, from coordinates of the passed number of bits."""

MOST_BITS = 62
"""Maximum bits of a curve position, so that the position fits a signed long."""

_ONE = np.uint64(1)


def bits_of(dimensions: int, most: int = 12) -> int:
    """Return the number of bits per coordinate."""
    return max(1, min(most, MOST_BITS // dimensions))


def z_order(points: Sequence[Coordinates], bits: int) -> Coordinates:
    """Return the positions of `points` on the z-curve, by interleaving the bits of the coordinates.

    `points` has one array of coordinates per dimension.

    >>> z_order([np.array([0, 0, 1, 1], np.uint64), np.array([0, 1, 0, 1], np.uint64)], bits=1).tolist()
    [0, 1, 2, 3]
    """
    return _interleaved(points, bits)


def hilbert(points: Sequence[Coordinates], bits: int) -> Coordinates:
    """Return the positions of `points` on the Hilbert curve. Successive positions differ by one in one coordinate.

    >>> hilbert([np.array([0, 0, 1, 1], np.uint64), np.array([0, 1, 1, 0], np.uint64)], bits=1).tolist()
    [0, 1, 2, 3]
    """
    x = [np.array(point, np.uint64) for point in points]
    count = len(x)
    if count == 1:
        return x[0]
    for bit in range(bits - 1, 0, -1):
        _undo(x, np.uint64(1 << bit))
    for at in range(1, count):
        x[at] ^= x[at - 1]
    twist = np.zeros_like(x[0])
    for bit in range(bits - 1, 0, -1):
        mask = np.uint64((1 << bit) - 1)
        twist ^= np.where(x[-1] & np.uint64(1 << bit), mask, np.uint64(0))
    return _interleaved([point ^ twist for point in x], bits)


def _undo(x: list[Coordinates], bit: np.uint64) -> None:
    """Rotate and reflect the cells below the cell of this bit into traversal order."""
    low: Any = bit - _ONE
    for at in range(len(x)):
        is_set = (x[at] & bit).astype(bool)
        swapped = np.where(is_set, np.uint64(0), (x[0] ^ x[at]) & low)
        x[0] ^= np.where(is_set, low, swapped)
        if at:
            x[at] ^= swapped


def _interleaved(points: Sequence[Coordinates], bits: int) -> Coordinates:
    """Return the interleaved bits of all coordinates, highest bits first."""
    found = np.zeros_like(points[0], dtype=np.uint64)
    for bit in range(bits - 1, -1, -1):
        for point in points:
            found = (found << _ONE) | ((point >> np.uint64(bit)) & _ONE)
    return found
