"""Range overlap: the number of files with a possible match per column value, from file statistics.

Source: delta-protocol.md "Per-file Statistics".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.log.files.file_actions import one_array
from slackwater.stats.bounds import prove_bounds
from slackwater.stats.file_stats import ColumnStats

_Numbers = npt.NDArray[np.int64]
_PROFILE = 240


@dataclass(frozen=True, slots=True)
class Overlap:
    """The overlap depth of a column: the number of files with a value in their range.

    `mean_depth` is the mean over all distinct minimum and maximum values of files; `max_depth` is the maximum.
    `look_up_files`: mean number of files read by a look-up of one value, over rows. Rows are assumed to lie at the ends
    of their file's range. `unknown` files have no statistics for the column: every look-up reads them. `empty` files
    contain only nulls: no look-up reads them. `profile` is the depth from the least value to the greatest, at most 240
    points, each the maximum of its neighbours.
    """

    column: str
    files: int
    mean_depth: float
    max_depth: int
    look_up_files: float
    unknown: int = 0
    empty: int = 0
    profile: Sequence[int] = ()


def overlap_of(column: str, stats: ColumnStats, rows: Sequence[int | None]) -> Overlap:
    """Return the overlap of a column from its `stats`. `rows` per file; None means unknown and is weighted as one."""
    bounds = prove_bounds(stats)
    count = len(bounds.low)
    has_rows = np.array([found != 0 for found in rows], bool)
    has_values = np.asarray(bounds.has_values.to_numpy(zero_copy_only=False), bool) & has_rows
    ranks = _ranks(bounds.low, bounds.high)
    low, high = ranks[:count], ranks[count:]
    is_known = has_values & (low >= 0) & (high >= 0)
    # A single bound is not a range, so the file may contain any value.
    unknown = int(np.count_nonzero(has_values & ~is_known))
    empty = int(count - np.count_nonzero(has_values))
    if not is_known.any():
        return Overlap(column, count, unknown, unknown, unknown, unknown, empty)
    low, high = low[is_known], np.maximum(low[is_known], high[is_known])
    depth = _depths(low, high, int(ranks.max()) + 1) + unknown
    weights = np.array([1 if found is None else found for found in rows], np.float64)[is_known]
    ends = (depth[low] + depth[high]) / 2
    points = depth[np.unique(np.concatenate([low, high]))]
    look_up = float(np.average(ends, weights=weights))
    return Overlap(column, count, float(points.mean()), int(points.max()), look_up, unknown, empty, _profile(points))


def _ranks(low: pa.Array, high: pa.Array) -> _Numbers:
    """Return the ranks of all bounds; equal bounds share a rank. -1 means unknown."""
    both = pc.dictionary_encode(pa.concat_arrays([one_array(low), one_array(high)]))
    order = pc.sort_indices(both.dictionary).to_numpy(zero_copy_only=False)
    place = np.empty(len(order) + 1, np.int64)
    place[order] = np.arange(len(order))
    place[-1] = -1
    found: _Numbers = place[both.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)]
    return found


def _depths(low: _Numbers, high: _Numbers, places: int) -> _Numbers:
    """Return for each rank the number of ranges, ends included, around it."""
    steps = np.zeros(places + 1, np.int64)
    np.add.at(steps, low, 1)
    np.add.at(steps, high + 1, -1)
    found: _Numbers = np.cumsum(steps)[:-1]
    return found


def _profile(points: _Numbers) -> list[int]:
    parts = np.array_split(points, min(_PROFILE, len(points)))
    return [int(part.max()) for part in parts]
