"""Rewrites of file bins by PyArrow on the executors, one task per bin. No row passes through the JVM.

Only successful tasks report files. Files left by failed, repeated or speculative tasks belong to no table.
Source: delta-protocol.md "Data Files", "Writer Requirements for Row Tracking", "Deletion Vectors".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import orjson
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types

from slackwater.data_files.reader import Split
from slackwater.data_files.rewriter import RewriteSpec, rewrite
from slackwater.data_files.writer import FILES_SCHEMA, WrittenFile, files_batch, files_of
from slackwater.spark.session.classic_connect import default_parallelism
from slackwater.spark.write.files.arrow_files import raised_in_a_task
from slackwater.storage.store import ObjectStore

_NUMBER, _WORK, _READ = (f"__slackwater_{part}" for part in ("bin", "work", "read"))
_TASK = spark_types.StructType().add(_NUMBER, "long").add(_WORK, "binary")
_TOLD = (
    f"{_NUMBER} long, {_READ} long, path string, size_bytes long, modified_ms long, num_rows long, "
    "texts array<string>, footer binary"
)


@dataclass(frozen=True)
class BinWork:
    """The files of a bin (splits to read), and the directory of the new files, by its path in the store."""

    splits: Sequence[Split]
    directory: str

    @property
    def size_bytes(self) -> int:
        """The size of the files in bytes."""
        return sum(split.size_bytes or 0 for split in self.splits)


@dataclass(frozen=True)
class BinWritten:
    """The new files of a bin, and the number of rows read."""

    files: list[WrittenFile]
    num_read: int


def rewrite_bins(
    spark: SparkSession, store: ObjectStore, works: Sequence[BinWork], how: RewriteSpec
) -> list[BinWritten]:
    """Rewrite all bins in one job.

    Returns the results in the order of `works`. Raises the original error if a task fails.
    """
    width = default_parallelism(spark)
    sent = spark.createDataFrame(_tasks(works, width), schema=_TASK)
    # Each task may use the cores without a task to read ahead.
    readers = max(1, width // len(works)) if works else 1
    try:
        told = sent.mapInArrow(_rewriter(store, how, readers), _TOLD).toArrow()
    except Exception as error:
        raised = raised_in_a_task(error)
        if raised is None:
            raise
        raise raised from error
    found: dict[int, BinWritten] = {}
    numbers, reads = told[_NUMBER].to_pylist(), told[_READ].to_pylist()
    for at, (number, num_read) in enumerate(zip(numbers, reads, strict=True)):
        one = told.slice(at, 1).select(FILES_SCHEMA.names)
        files = files_of(one) if one["path"][0].is_valid else []
        before = found.get(number)
        found[number] = BinWritten([*(before.files if before else []), *files], num_read)
    return [found[number] for number in range(len(works))]


def _tasks(works: Sequence[BinWork], hands: int) -> pa.Table:
    """Return the rows of the job, ordered for `hands` tasks of similar size in bytes.

    Spark gives each task a contiguous range of rows.
    """
    largest = sorted(range(len(works)), key=lambda number: -works[number].size_bytes)
    dealt = [number for hand in range(hands) for number in largest[hand::hands]]
    return pa.table(
        {
            _NUMBER: pa.array(dealt, pa.int64()),
            _WORK: pa.array([_packed(works[number]) for number in dealt], pa.binary()),
        }
    )


def _rewriter(
    store: ObjectStore, how: RewriteSpec, readers: int
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def rewrite_all(tasks: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in tasks:
            for at in range(batch.num_rows):
                yield _rewritten(store, batch.column(0)[at].as_py(), batch.column(1)[at].as_py(), how, readers)

    return rewrite_all


def _rewritten(store: ObjectStore, number: int, work: bytes, how: RewriteSpec, readers: int) -> pa.RecordBatch:
    splits, directory = _unpacked(work, how)
    done = rewrite(store, splits, directory, how, readers)
    files = files_batch(done.files)
    count = max(1, files.num_rows)
    own = {_NUMBER: pa.array([number] * count, pa.int64()), _READ: pa.array([done.num_read] * count, pa.int64())}
    told = files.columns if files.num_rows else [pa.nulls(1, field.type) for field in FILES_SCHEMA]
    return pa.RecordBatch.from_arrays([*own.values(), *told], names=[*own, *FILES_SCHEMA.names])


def _packed(work: BinWork) -> bytes:
    """Return the work as an Arrow stream, with one row for each file."""
    columns = {
        "place": pa.array([split.place for split in work.splits], pa.string()),
        "size": pa.array([split.size_bytes for split in work.splits], pa.int64()),
        "deleted": pa.array([None if s.deleted is None else s.deleted.serialize() for s in work.splits], pa.binary()),
    }
    for name in work.splits[0].constants:
        values = [split.constants[name] for split in work.splits]
        columns[f"constant {name}"] = pa.array([value.as_py() for value in values], values[0].type)
    table = pa.table(columns).replace_schema_metadata({"work": orjson.dumps({"directory": work.directory})})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def _unpacked(work: bytes, how: RewriteSpec) -> tuple[list[Split], str]:
    with pa.ipc.open_stream(work) as stream:
        table = stream.read_all().combine_chunks()
    constants = {field.name: table[f"constant {field.name}"] for field in how.wanted.constants}
    places, sizes, deleted = (table[name].to_pylist() for name in ("place", "size", "deleted"))
    splits = [
        Split(
            place,
            0,
            None,
            None if rows is None else BitMap64.deserialize(rows),
            {name: column[at] for name, column in constants.items()},
            size,
        )
        for at, (place, size, rows) in enumerate(zip(places, sizes, deleted, strict=True))
    ]
    return splits, orjson.loads((table.schema.metadata or {})[b"work"])["directory"]
