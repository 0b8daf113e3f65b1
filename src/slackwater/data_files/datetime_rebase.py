"""Detects dates and timestamps that need rebasing from the hybrid Julian calendar of Spark 2.

The footer of a file records the calendar of its values. Source: Spark's "datetimeRebaseModeInRead" and
"int96RebaseModeInRead"; `DataSourceUtils.datetimeRebaseSpec`, `DataSourceUtils.int96RebaseSpec`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slackwater.errors import UnsupportedFeature
from slackwater.stats.footer_bounds import LEGACY_DATES_KEY, SPARK_VERSION_KEY

_LEGACY_KEYS = (LEGACY_DATES_KEY, b"org.apache.spark.legacyINT96")
# First Spark versions with Gregorian dates and INT96 timestamps, unless a legacy key is set.
_FIRST_GREGORIAN, _FIRST_GREGORIAN_INT96 = (3, 0), (3, 1)
# Matches every file name of `write_rows`, but no name of Spark, delta-rs or DuckDB, because their files have part
# numbers.
_WRITTEN_BY_PYARROW = r"(^|/)part-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}-c000[.a-z4]*\.parquet$"

_FIRST_DAY = dt.date(1582, 10, 15)
# Time zones had other offsets before.
_FIRST_MICROS = int(dt.datetime(1900, 1, 1, tzinfo=dt.timezone.utc).timestamp()) * 1_000_000


def may_be_julian(metadata: pq.FileMetaData, path: str, unmarked_is_julian: bool = False) -> bool:
    """Return whether dates or timestamps of a file may use the Julian calendar.

    `unmarked_is_julian` is the result for a footer without a Spark version, unless this package wrote the file.
    """
    keys = metadata.metadata or {}
    if any(key in keys for key in _LEGACY_KEYS):
        return True
    version = keys.get(SPARK_VERSION_KEY)
    if version is None:
        return unmarked_is_julian and not all(are_written_by_pyarrow([path]).to_pylist())
    numbers = _version(version)
    return numbers < _FIRST_GREGORIAN or (numbers < _FIRST_GREGORIAN_INT96 and _has_int96(metadata))


def are_written_by_pyarrow(paths: Sequence[str] | pa.ChunkedArray) -> pa.BooleanArray | pa.ChunkedArray:
    """Return for each path of a data file whether `write_rows` named the file.

    Values in these files are Gregorian. Early releases omitted SPARK_VERSION_KEY from their footers.
    """
    texts = paths if isinstance(paths, pa.ChunkedArray) else pa.array(paths, pa.string())
    return pc.match_substring_regex(texts, _WRITTEN_BY_PYARROW)


def _version(text: bytes) -> tuple[int, int]:
    """Return the major and minor version, (0, 0) for a text without them."""
    major, _, rest = text.decode(errors="replace").partition(".")
    minor = rest.partition(".")[0]
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else (0, 0)


def _has_int96(metadata: pq.FileMetaData) -> bool:
    return any(metadata.schema.column(at).physical_type == "INT96" for at in range(metadata.num_columns))


def require_no_rebase_needed(batch: pa.RecordBatch, where: str) -> None:
    """Verify that all dates and timestamps of `batch` are equal in both calendars.

    Raises UnsupportedFeature for older values, which only Spark's own reader can rebase.
    """
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if _has_old(column):
            raise UnsupportedFeature(
                f"{where}: column {name} has dates before 1582, or times before 1900, in the calendar of Spark before "
                "3.0. Read the table with a connector of Spark for its store, or rewrite the file"
            )


def _has_old(array: pa.Array) -> bool:
    if pa.types.is_struct(array.type):
        return any(map(_has_old, array.flatten()))
    if pa.types.is_map(array.type):
        return _has_old(array.keys) or _has_old(array.items)
    if pa.types.is_list(array.type):
        return _has_old(array.flatten())
    if pa.types.is_date32(array.type):
        return bool(pc.any(pc.less(array, _FIRST_DAY)).as_py())
    if pa.types.is_timestamp(array.type):
        return bool(pc.any(pc.less(array.view(pa.int64()), _FIRST_MICROS)).as_py())
    return False
