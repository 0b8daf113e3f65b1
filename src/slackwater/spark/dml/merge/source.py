"""Source of a MERGE, read once: its rows are checkpointed, numbered, and available under the user's column names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from slackwater.protocol.schema.schema import StructType
from slackwater.spark.session.frames import checkpoint_rows
from slackwater.spark.session.plan_text import reads_the_same
from slackwater.spark.session.types import from_spark_schema
from slackwater.sql.lexer import quoted

SOURCE_ID = "__slackwater_source_id"
_COPY = "__slackwater_source_"
_LARGEST_BROADCAST_BYTES = 96 * 1024 * 1024
_MOST_BROADCAST_ROWS = 4_000_000
_TEXT_BYTES, _MANY_BYTES, _PLAIN_BYTES = 48, 160, 16


@dataclass(frozen=True)
class MergeSource:
    """Source rows. Each checkpointed row has a SOURCE_ID.

    `given` is the user's frame, `rows` the number of rows. `compared` names the columns that conditions may use.
    """

    given: DataFrame
    frame: DataFrame
    rows: int
    compared: frozenset[str]

    @staticmethod
    def of(given: DataFrame, conditions: Sequence[Column | str], numbered: bool) -> MergeSource:
        """Run the source's query once. Its rows stay the same, even if the tables it reads change.

        Without `numbered`, rows are not checkpointed if every read returns the same rows. Then joins read only the
        compared columns.
        """
        texts = [str(condition).lower() for condition in conditions]
        compared = frozenset(name for name in given.columns if any(name.lower() in text for text in texts))
        if not numbered and reads_the_same(given):
            return MergeSource(given, given, given.count(), compared)
        frame = checkpoint_rows(given, F.monotonically_increasing_id().alias(SOURCE_ID))
        return MergeSource(given, frame, frame.count(), compared)

    @property
    def is_read_again(self) -> bool:
        """Return whether each use of the rows runs the user's query again."""
        return self.frame is self.given

    def to_compare(self) -> DataFrame:
        """Return the rows for a join on the compared columns only, broadcast to the executors if small enough."""
        fields = [field for field in self.given.schema.fields if field.name in self.compared]
        width = row_bytes(spark_types.StructType(fields)) + _PLAIN_BYTES
        return F.broadcast(self.frame) if fits_everywhere(self.frame, self.rows, width) else self.frame


def schema_of(source: DataFrame) -> StructType:
    """Return the source's columns as a table schema."""
    return from_spark_schema(source.schema)


def copies(source: DataFrame) -> Mapping[str, Column]:
    """Return the source's unambiguous columns by lower-case name, under names absent from the target.

    See `with_copies`.
    """
    names = [name.lower() for name in source.columns]
    return {name: F.col(f"{_COPY}{at}") for at, name in enumerate(names) if names.count(name) == 1}


def with_copies(source: DataFrame, like: DataFrame | None = None) -> DataFrame:
    """Return `source` with a second name for each unambiguous column. With `like`, only for columns of `like`."""
    names = (like or source).columns
    lower = [name.lower() for name in names]
    unique = [(at, name) for at, name in enumerate(names) if lower.count(name.lower()) == 1]
    return source.select("*", *(F.col(quoted(name)).alias(f"{_COPY}{at}") for at, name in unique))


def fits_everywhere(frame: DataFrame, rows: int, width: int) -> bool:
    """Return whether `rows` rows of `width` bytes may be broadcast. False if broadcasts are disabled."""
    threshold = frame.sparkSession.conf.get("spark.sql.autoBroadcastJoinThreshold") or ""
    if threshold.strip().lower() in ("-1", "-1b"):
        return False
    return rows <= _MOST_BROADCAST_ROWS and rows * width <= _LARGEST_BROADCAST_BYTES


def row_bytes(data_type: spark_types.DataType) -> int:
    """Return the approximate size in bytes of a value in memory."""
    if isinstance(data_type, spark_types.StructType):
        return 16 + sum(row_bytes(field.dataType) for field in data_type.fields)
    if isinstance(data_type, (spark_types.ArrayType, spark_types.MapType, spark_types.BinaryType)):
        return _MANY_BYTES
    return _TEXT_BYTES if isinstance(data_type, spark_types.StringType) else _PLAIN_BYTES
