"""Event time order of the initial snapshot of a stream: no micro-batch has a row earlier than a previous micro-batch.

Otherwise, a stream with a watermark drops most rows of a table not written in the order of its event times. Source:
Databricks' `withEventTimeOrder`, which derives the column from the query's watermark. A Python source does not receive
the watermark, so the user names the column.
"""

from __future__ import annotations

import logging

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import InvalidArgument
from slackwater.protocol.schema.column_paths import format_column_path, parse_column_path, resolve_path
from slackwater.protocol.schema.schema import ColumnPath, PrimitiveType, StructType
from slackwater.scan.snapshot import Snapshot
from slackwater.stats.bounds import prove_bounds
from slackwater.stats.file_stats import StatsColumns

NEEDED = ("partitionValues", "stats")
"""The required columns of files, with bounds of their event times."""
_TYPES = ("timestamp", "timestamp_ntz", "date")
_FIRST, _LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_log = logging.getLogger(__name__)
_Numbers = npt.NDArray[np.int64]


def event_time_path(schema: StructType, column: str, where: str) -> ColumnPath:
    """Return the path of the column `column`. Raises InvalidArgument if it is unknown or not a time column."""
    path, kind = resolve_path(schema, parse_column_path(column))
    if not isinstance(kind, PrimitiveType) or kind.name not in _TYPES:
        raise InvalidArgument(
            f"{where}: eventTimeColumn must be a column of times (TIMESTAMP, TIMESTAMP_NTZ or DATE), but "
            f"{format_column_path(path)} is {kind}",
            error_class="DELTA_ILLEGAL_OPTION",
        )
    return path


def in_event_order(
    snapshot: Snapshot, files: pa.Table, column: str, order: _Numbers
) -> tuple[_Numbers, npt.NDArray[np.bool_]]:
    """Return the rows of `files` ordered by least event time, and a mask of positions that may end a micro-batch.

    Files with equal times stay in the order `order`. All rows up to such a position are earlier than all rows after it.
    A file without usable statistics may hold any time, so the whole snapshot is then one micro-batch. Raises
    InvalidArgument.
    """
    where = snapshot.store.root_url
    path = event_time_path(snapshot.schema, column, where)
    partitions = snapshot.metadata.partition_columns
    told = StatsColumns(files, snapshot.schema, partitions, snapshot.physical_paths).column(path)
    if told is None or not len(order):
        return order, _only_the_last(len(order))
    bounds = prove_bounds(told)
    has_times = np.asarray(bounds.has_values.to_numpy(zero_copy_only=False), bool)
    low, high = _numbers(bounds.low, _FIRST), _numbers(bounds.high, _LAST)
    unknown = int(np.count_nonzero(has_times & ((low == _FIRST) | (high == _LAST))))
    if unknown:
        _log.info("%s: the event times of %d files are unknown. The stream begins with one micro-batch", where, unknown)
    # A file with only NULL times has no late rows.
    low, high = np.where(has_times, low, _FIRST), np.where(has_times, high, _FIRST)
    by_time = order[np.argsort(low[order], kind="stable")]
    ends = _only_the_last(len(by_time))
    ends[:-1] = np.maximum.accumulate(high[by_time])[:-1] < low[by_time][1:]
    return by_time, ends


def _numbers(times: pa.Array, unknown: int) -> _Numbers:
    found: _Numbers = pc.fill_null(times.cast(pa.int64()), unknown).to_numpy(zero_copy_only=False)
    return found


def _only_the_last(count: int) -> npt.NDArray[np.bool_]:
    ends = np.zeros(count, bool)
    ends[-1:] = True
    return ends
