"""Sort of rows along a curve through some of their columns, with one task per file to write.

The bounds come from a sample. The Python of executors computes the position of each row on the curve, from Arrow
columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from slackwater.log.files.file_actions import one_array
from slackwater.maintenance.layout.curves import Curve, bits_of
from slackwater.maintenance.layout.range_partition_ids import CurveOrder
from slackwater.protocol.schema.schema import ColumnPath
from slackwater.spark.session.frames import mapped_in_arrow
from slackwater.sql.lexer import quoted

_SAMPLED_ROWS = 200_000
_SEED = 20
_VALUE = "__slackwater_value_"
_PART, _PLACE = "__slackwater_part", "__slackwater_place"
# With this many numbers, each task almost certainly gets at least one.
_NUMBERS_A_TASK, _NUMBERS = 30, 300


def in_curve_order(
    frame: DataFrame,
    columns: Sequence[ColumnPath],
    curve: Curve,
    parts: int,
    num_rows: int | None,
) -> DataFrame:
    """Return the rows of `frame` in `parts` partitions, sorted along `curve`. The result has internal columns added.

    `columns` are display names. `num_rows` is the number of rows, None if unknown.
    """
    values = [F.col(".".join(map(quoted, path))).alias(f"{_VALUE}{at}") for at, path in enumerate(columns)]
    count = frame.count() if num_rows is None else num_rows
    sampled = frame.select(*values)
    if count > _SAMPLED_ROWS:
        sampled = sampled.sample(fraction=_SAMPLED_ROWS / count, seed=_SEED)
    sample = [column.combine_chunks() for column in sampled.toArrow().columns]
    order = CurveOrder.of([one_array(column) for column in sample], bits_of(len(columns)), curve, parts)
    schema = spark_types.StructType([*frame.schema.fields])
    placed = schema.add(_PART, "long").add(_PLACE, "long")
    numbers = _numbers(frame.sparkSession, parts)
    rows = mapped_in_arrow(frame.select("*", *values), _placer(order, numbers, len(columns)), placed)
    return rows.repartition(parts, _PART).sortWithinPartitions(_PLACE)


def _placer(
    order: CurveOrder, numbers: npt.NDArray[np.int64], count: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def place(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            values = batch.columns[len(batch.columns) - count :]
            places = order.places(values)
            found = [_longs(numbers[order.parts(places)]), _longs(places.astype(np.int64))]
            kept = len(batch.columns) - count
            yield pa.RecordBatch.from_arrays(
                [*batch.columns[:kept], *found], names=[*batch.schema.names[:kept], _PART, _PLACE]
            )

    return place


def _numbers(spark: SparkSession, parts: int) -> npt.NDArray[np.int64]:
    """Return one number per task of a `repartition(parts, …)`. Rows with this number go to this task only."""
    if parts == 1:
        return np.zeros(1, np.int64)
    spread = spark.range(0, _NUMBERS_A_TASK * parts + _NUMBERS, 1, 1)
    task = F.pmod(F.hash("id"), F.lit(parts))
    found = spread.groupBy(task.alias(_PART)).agg(F.min("id").alias(_PLACE)).toArrow()
    # If a task has no number, its rows share the task of other rows, so that two files become one.
    numbers = np.arange(parts, dtype=np.int64)
    numbers[found[_PART].to_numpy()] = found[_PLACE].to_numpy()
    return numbers


def _longs(numbers: npt.NDArray[np.int64]) -> pa.Array:
    # Not pa.array, because pa.array imports pandas, a delay in each task.
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers))])
