"""The source of a MERGE, read once: its rows are kept, numbered, and known under the names that users gave them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (the name the field uses)
from pyspark.sql import types as spark_types

from slackwater.protocol.schema import StructType
from slackwater.spark.modes import kept_rows
from slackwater.spark.names import quoted
from slackwater.spark.types import from_spark_schema

SOURCE_ID = "__slackwater_source_id"
_COPY = "__slackwater_source_"
_LARGEST_BROADCAST_BYTES = 96 * 1024 * 1024
_MOST_BROADCAST_ROWS = 4_000_000
_TEXT_BYTES, _MANY_BYTES, _PLAIN_BYTES = 48, 160, 16


@dataclass(frozen=True)
class MergeSource:
    """Source rows, each with its SOURCE_ID; `given` is the frame that they came from, `rows` how many there are."""

    given: DataFrame
    frame: DataFrame
    rows: int

    @staticmethod
    def of(given: DataFrame) -> MergeSource:
        """Run what gives the source, once; its rows stay the same from then on, whatever becomes of it."""
        frame = kept_rows(given, F.monotonically_increasing_id().alias(SOURCE_ID))
        return MergeSource(given, frame, frame.count())

    @cached_property
    def is_small(self) -> bool:
        """Whether every executor can hold it."""
        return fits_everywhere(self.frame, self.rows, row_bytes(self.given.schema))

    def hinted(self, width: int | None = None) -> DataFrame:
        """The rows for a join, to be sent to every executor where they are few; `width` in bytes a row."""
        width = row_bytes(self.given.schema) if width is None else width
        return F.broadcast(self.frame) if fits_everywhere(self.frame, self.rows, width) else self.frame


def schema_of(source: DataFrame) -> StructType:
    """The source's columns, as a schema of a table."""
    return from_spark_schema(source.schema)


def copies(source: DataFrame) -> Mapping[str, Column]:
    """By lower-case name, the source's columns under names that no column of the target has: see `with_copies`."""
    names = [name.lower() for name in source.columns]
    return {name: F.col(f"{_COPY}{at}") for at, name in enumerate(names) if names.count(name) == 1}


def with_copies(source: DataFrame, like: DataFrame | None = None) -> DataFrame:
    """`source`, whose columns are those of `like` or more, with a second name for each of them."""
    names = (like or source).columns
    lower = [name.lower() for name in names]
    unique = [(at, name) for at, name in enumerate(names) if lower.count(name.lower()) == 1]
    return source.select("*", *(F.col(quoted(name)).alias(f"{_COPY}{at}") for at, name in unique))


def fits_everywhere(frame: DataFrame, rows: int, width: int) -> bool:
    """Whether so many rows, of `width` bytes each, may be sent to every executor; never where broadcasts are off."""
    threshold = frame.sparkSession.conf.get("spark.sql.autoBroadcastJoinThreshold") or ""
    if threshold.strip().lower() in ("-1", "-1b"):
        return False
    return rows <= _MOST_BROADCAST_ROWS and rows * width <= _LARGEST_BROADCAST_BYTES


def row_bytes(data_type: spark_types.DataType) -> int:
    """About how many bytes a value takes in memory."""
    if isinstance(data_type, spark_types.StructType):
        return 16 + sum(row_bytes(field.dataType) for field in data_type.fields)
    if isinstance(data_type, (spark_types.ArrayType, spark_types.MapType, spark_types.BinaryType)):
        return _MANY_BYTES
    return _TEXT_BYTES if isinstance(data_type, spark_types.StringType) else _PLAIN_BYTES
