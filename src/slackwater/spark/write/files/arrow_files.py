"""Data files written by PyArrow on the executors, for stores without a Spark connector.

Only successful tasks report files. Files left by failed, repeated or speculative tasks belong to no table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as spark_types

from slackwater import errors
from slackwater.data_files.writer import (
    FileFormat,
    WrittenFile,
    files_batch,
    files_of,
    options_of,
    pages_of,
    write_rows,
)
from slackwater.protocol.properties.parquet_version import WRITER_VERSION
from slackwater.spark.parquet.rebase_modes import spark_footer
from slackwater.spark.session.arrow_types import to_arrow_schema
from slackwater.spark.session.frames import mapped_in_arrow
from slackwater.sql.lexer import quoted
from slackwater.storage.store import ObjectStore

_FILES = "path string, size_bytes long, modified_ms long, num_rows long, texts array<string>, footer binary"
CODEC = "spark.sql.parquet.compression.codec"
"""The session's setting for the codec of Parquet files."""
_TOLD = re.compile(r"slackwater\.errors\.(\w+): (.*)")


def write_arrow_files(
    frame: DataFrame,
    store: ObjectStore,
    directory: str,
    directories: Sequence[str],
    partitions: Sequence[str],
    options: Mapping[str, Any],
) -> list[WrittenFile]:
    """Write the rows of `frame` to files below `directory` of the store.

    The text columns `directories` of `frame` name a row's partition. `partitions` are the names of these columns in the
    table. All other columns are written to the files. Raises InvalidArgument for an unsupported option. Raises the
    original error if a task fails.
    """
    spark = frame.sparkSession
    schema = frame.schema
    columns = spark_types.StructType([field for field in schema.fields if field.name not in directories])
    codec, most = options_of(options, spark.conf.get(CODEC, None) or "snappy")
    pages = pages_of(options, spark.conf.get(WRITER_VERSION, None))
    footer = spark_footer(spark, columns)
    form = FileFormat(to_arrow_schema(columns, in_files=True), directories, partitions, codec, most, footer, pages)
    # Sorted, so that a task has only one open file.
    rows = frame.sortWithinPartitions(*map(quoted, directories)) if directories else frame
    try:
        return files_of(mapped_in_arrow(rows, _writer(store, directory, form), _FILES).toArrow())
    except Exception as error:
        raised = raised_in_a_task(error)
        if raised is None:
            raise
        raise raised from error


def _writer(
    store: ObjectStore, directory: str, form: FileFormat
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write_files(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for file in write_rows(batches, store, directory, form):
            yield files_batch([file])

    return write_files


def raised_in_a_task(error: Exception) -> errors.SlackwaterError | None:
    """Return the Slackwater error that ended a Python worker, None for other errors."""
    told = _TOLD.findall(str(error))
    kind = getattr(errors, told[-1][0], None) if told else None
    if not (isinstance(kind, type) and issubclass(kind, errors.SlackwaterError)):
        return None
    return kind(told[-1][1])
