"""Days and times that old versions of Spark counted by another calendar: those before the two calendars agree.

Source: Spark's "datetimeRebaseMode" and "int96RebaseMode" of its Parquet reader.
"""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pyarrow.compute as pc

from slackwater.errors import UnsupportedFeature

OLD_CALENDAR = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
"""What a footer says, by one of these keys, of a file whose days or times may be of the Julian calendar."""

_FIRST_DAY = dt.date(1582, 10, 15)
# Zones had other offsets before.
_FIRST_MICROS = int(dt.datetime(1900, 1, 1, tzinfo=dt.timezone.utc).timestamp()) * 1_000_000


def require_one_calendar(batch: pa.RecordBatch, where: str) -> None:
    """Let pass rows whose days and times are the same in both calendars.

    Raises UnsupportedFeature for others, which Spark's own reader alone knows how to read.
    """
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if _has_old(column):
            raise UnsupportedFeature(
                f"{where}: column {name} has days before 1582, or times before 1900, that Spark before 3.0 counted "
                "by another calendar: read the table where Spark has a connector for its store, or have it "
                "rewritten"
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
