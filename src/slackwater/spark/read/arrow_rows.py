"""Rows of data files read by PyArrow on the executors, for stores without a Spark connector.

Each task gets byte ranges of files, and reads the row groups that start within a range.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as spark_types

from slackwater.data_files.reader import ReadProjection, Split, read_splits
from slackwater.spark.parquet.rebase_modes import rebases_unmarked_files
from slackwater.spark.read.file_columns import FILE, ROW, Constants
from slackwater.spark.session.arrow_types import to_arrow_schema
from slackwater.spark.session.classic_connect import default_parallelism
from slackwater.stats.row_groups import RowGroupTest
from slackwater.storage.store import ObjectStore

# Plain names, because plans show them and no table column is in the same frame.
_PLACE, _START, _END, _DELETED, _SIZE = "place", "start_byte", "end_byte", "deleted_rows", "file_bytes"
# Spark's defaults of spark.sql.files.maxPartitionBytes and openCostInBytes.
_MOST_SPLIT_BYTES, _LEAST_SPLIT_BYTES = 128 * 1024**2, 4 * 1024**2


@dataclass(frozen=True)
class ArrowFiles:
    """Files to read: paths in the form of `resolve_file`, sizes in bytes if known, and rows to skip.

    `urls` are the values of a column FILE, if requested.
    """

    places: Sequence[str]
    sizes: Sequence[int] | None = None
    deleted: Sequence[BitMap64 | None] | None = None
    urls: Sequence[str] | None = None


def arrow_rows(
    spark: SparkSession,
    store: ObjectStore,
    files: ArrowFiles,
    schema: spark_types.StructType,
    constants: Constants,
    by_id: bool,
    needs_row: bool,
    test: RowGroupTest | None = None,
    not_null: Set[str] = frozenset(),
) -> DataFrame:
    """Return the rows of the files: the columns of `schema`, then the constants, then FILE and ROW if requested.

    Row groups excluded by `test` are not read. Constants in `not_null` are never null, and are declared not nullable.

    Raises no error for the files: a defective file fails the job that reads it.
    """
    typed = {**constants}
    if files.urls is not None:
        typed[FILE] = (spark_types.StringType(), pa.array(files.urls, pa.string()))
    of_constants = spark_types.StructType(
        [spark_types.StructField(name, kind, name not in not_null) for name, (kind, _) in typed.items()]
    )
    row = [spark_types.StructField(ROW, spark_types.LongType())] if needs_row else []
    found = spark_types.StructType([*schema.fields, *of_constants.fields, *row])
    wanted = ReadProjection(
        to_arrow_schema(schema),
        by_id,
        to_arrow_schema(of_constants),
        ROW if needs_row else None,
        test,
        unmarked_is_julian=rebases_unmarked_files(spark),
    )
    tasks = _tasks(spark, files, typed)
    own = spark_types.StructType().add(_PLACE, "string").add(_START, "long").add(_END, "long").add(_DELETED, "binary")
    own = own.add(_SIZE, "long")
    sent = spark.createDataFrame(tasks, schema=spark_types.StructType([*own.fields, *of_constants.fields]))
    return sent.mapInArrow(_reader(store, wanted), found)


def _reader(
    store: ObjectStore, wanted: ReadProjection
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read_files(tasks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in tasks:
            yield from read_splits(store, _splits(batch, wanted), wanted)

    return read_files


def _splits(batch: pa.RecordBatch, wanted: ReadProjection) -> Iterator[Split]:
    columns = {name: batch.column(at) for at, name in enumerate(batch.schema.names)}
    typed = {field.name: columns[field.name].cast(field.type) for field in wanted.constants}
    for at in range(batch.num_rows):
        deleted = columns[_DELETED][at].as_py()
        yield Split(
            columns[_PLACE][at].as_py(),
            columns[_START][at].as_py(),
            columns[_END][at].as_py(),
            None if deleted is None else BitMap64.deserialize(deleted),
            {name: column[at] for name, column in typed.items()},
            columns[_SIZE][at].as_py(),
        )


def _tasks(spark: SparkSession, files: ArrowFiles, constants: Constants) -> pa.Table:
    """Return a row for each byte range of each file, ordered so that tasks get similar numbers of bytes."""
    sizes = files.sizes or [0] * len(files.places)
    width = default_parallelism(spark)
    most = min(_MOST_SPLIT_BYTES, max(_LEAST_SPLIT_BYTES, sum(sizes) // width))
    ranges: list[tuple[int, int, int, int | None]] = []
    for number, size in enumerate(sizes):
        starts = range(0, max(size, 1), most)
        ends = [*starts[1:], None]
        ranges += [((end or size) - start, number, start, end) for start, end in zip(starts, ends, strict=True)]
    dealt = _dealt(sorted(ranges, key=lambda found: -found[0]), width)
    at = pa.array([number for _, number, _, _ in dealt], pa.int64())
    vectors = [None if d is None else d.serialize() for d in files.deleted or [None] * len(files.places)]
    own = {
        _PLACE: pa.array(files.places, pa.string()).take(at),
        _START: pa.array([start for _, _, start, _ in dealt], pa.int64()),
        _END: pa.array([end for _, _, _, end in dealt], pa.int64()),
        _DELETED: pa.array(vectors, pa.binary()).take(at),
        _SIZE: (pa.array(files.sizes, pa.int64()) if files.sizes else pa.nulls(len(files.places), pa.int64())).take(at),
    }
    return pa.table({**own, **{name: values.take(at) for name, (_, values) in constants.items()}})


def _dealt(ranges: Sequence[tuple[int, int, int, int | None]], hands: int) -> list[tuple[int, int, int, int | None]]:
    """Return the ranges ordered by task, because Spark gives each task a contiguous range of rows."""
    return [found for hand in range(hands) for found in ranges[hand::hands]]
