"""Spark's file index, implemented in Python: a file relation whose files are chosen when Spark plans a query.

Spark passes the filters of the query to the index. Files without a match are not listed, and never reach the JVM.
Source: Spark's `FileIndex`, `HadoopFsRelation`, `FileSourceScanExec`.
"""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as spark_types

from slackwater.spark.hadoop.prelisted_relation import KnownFile
from slackwater.spark.jvm.callbacks import accept_callbacks, called_by_jvm, calls_back_in_one_thread
from slackwater.spark.session.classic_connect import is_connect
from slackwater.spark.session.frames import frame_of_plan
from slackwater.spark.session.jvm_objects import (
    class_object,
    java_class,
    method_names,
    new_array,
    scala_object,
    scala_seq,
    string_array,
)

_SOURCES = "org.apache.spark.sql.execution.datasources"
_PLANS = "org.apache.spark.sql.catalyst.plans.logical"
_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
_PARQUET = f"{_SOURCES}.parquet.ParquetFileFormat"
_INDEX = f"{_SOURCES}.FileIndex"
_PATH, _STATUS = "org.apache.hadoop.fs.Path", "org.apache.hadoop.fs.FileStatus"
_IS_ACCEPTED = "_slackwater_file_index"
_ORDINAL = "__slackwater_partition"
_ORDINAL_FIELD = spark_types.StructField(_ORDINAL, spark_types.IntegerType(), nullable=False)
# Memory of this process in indexes that the JVM may not need any more.
_MOST_HELD_BYTES = 1 << 29
_tolerated_bytes = _MOST_HELD_BYTES
# Files of one array of the JVM, so that the text of an array stays small.
_MOST_AT_ONCE = 20_000


@dataclass(frozen=True)
class Partitions:
    """The distinct partition values of files. `of_file` is the row of `values` for each file."""

    values: pa.Table
    of_file: npt.NDArray[np.int64]


class FileListing(Protocol):
    """The files of a relation."""

    @property
    def root(self) -> str:
        """The table's root, a literal Hadoop path."""
        ...

    @property
    def identity(self) -> str:
        """Text that is equal for two listings exactly if their files are equal."""
        ...

    @property
    def partition_schema(self) -> spark_types.StructType:
        """The types of the partition values."""
        ...

    @property
    def held_bytes(self) -> int:
        """The memory of this process that the listing holds."""
        ...

    @property
    def size_bytes(self) -> int:
        """The total size of the files, before the filters of a query."""
        ...

    def paths(self, filters: Sequence[Any]) -> pa.Table:
        """Return the files that may have a row for Spark's expressions `filters`."""
        ...

    def partitions(self, files: pa.Table) -> Partitions:
        """Return the partition values of `files`."""
        ...

    def listed(self, files: pa.Table) -> list[KnownFile]:
        """Return `files` as found in the store. Raises if a file is missing or empty."""
        ...

    def urls(self) -> list[str]:
        """Return the URLs of all files, before the filters of a query."""
        ...


class PythonFileIndex:
    """The file index of one relation, called by the JVM."""

    class Java:
        """The Java interfaces, for Py4J."""

        implements = (_INDEX,)

    def __init__(self, spark: SparkSession, listing: FileListing) -> None:
        self.spark = spark
        self._listing = listing
        with _alive_lock:
            _alive.add(self)

    @called_by_jvm
    def rootPaths(self) -> Any:
        return self._root_paths

    @cached_property
    def _root_paths(self) -> Any:
        # Spark asks for them about ten times in a query.
        return scala_seq(self.spark, [java_class(self.spark, _PATH)(self._listing.root)])

    @called_by_jvm
    def listFiles(self, partition_filters: Any, data_filters: Any) -> Any:
        schema, by_partition = self._listing.partition_schema, _elements(partition_filters)
        files = self._listing.paths([*by_partition, *_elements(data_filters)])
        partitions = self._listing.partitions(files) if len(schema) else None
        rows = _PartitionRows.of(self.spark, partitions, by_partition, schema)
        of_file = np.zeros(len(files), np.int64) if partitions is None else partitions.of_file
        if rows.selected is not None:
            stays = np.isin(of_file, rows.selected)
            files, of_file = files.filter(pa.array(stays)), of_file[stays]
        listed = self._listing.listed(files)
        return scala_seq(self.spark, _directories(self.spark, listed, of_file, rows.rows))

    @called_by_jvm
    def inputFiles(self) -> Any:
        urls = self._listing.urls()
        if not urls:
            return new_array(self.spark, "java.lang.String", 0)
        return string_array(self.spark, urls)

    @called_by_jvm
    def refresh(self) -> None:
        """Do nothing, because the files of a version do not change."""

    @called_by_jvm
    def sizeInBytes(self) -> int:
        return self._listing.size_bytes

    @called_by_jvm
    def partitionSchema(self) -> Any:
        return _java_schema(self.spark, self._listing.partition_schema)

    @called_by_jvm
    def metadataOpsTimeNs(self) -> Any:
        return java_class(self.spark, "scala.Option").empty()

    @called_by_jvm
    def isTimeTravel(self) -> bool:
        return False

    @called_by_jvm
    def toString(self) -> str:
        return f"SlackwaterFileIndex[{self._listing.root}, {self._digest}]"

    @called_by_jvm
    def hashCode(self) -> int:
        return int(self._digest[:7], 16)

    @called_by_jvm
    def equals(self, other: Any) -> bool:
        # Another index arrives as an object of the JVM.
        return other is not None and str(other.toString()) == self.toString()

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256(self._listing.identity.encode()).hexdigest()


_alive: weakref.WeakSet[PythonFileIndex] = weakref.WeakSet()
_alive_lock = threading.Lock()


def _collect_garbage(spark: SparkSession) -> None:
    """Let the JVM release indexes without plans, if they hold much memory of this process.

    The JVM does not know this memory, so that its next collection can be hours away.
    """
    global _tolerated_bytes  # noqa: PLW0603  (one process has one memory)
    with _alive_lock:
        alive = list(_alive)
    held = sum(each._listing.held_bytes for each in alive)
    if held > _tolerated_bytes:
        java_class(spark, "java.lang.System").gc()
        # What stays has plans; the limit grows with it.
        _tolerated_bytes = held + _MOST_HELD_BYTES
    elif held < _tolerated_bytes - 2 * _MOST_HELD_BYTES:
        _tolerated_bytes = held + _MOST_HELD_BYTES


def accepts_file_indexes(spark: SparkSession) -> bool:
    """Return whether relations of `spark` can have a Python file index. Checked once per application."""
    if is_connect(spark):
        return False
    known = spark.sparkContext.__dict__
    if _IS_ACCEPTED not in known:
        known[_IS_ACCEPTED] = _is_as_expected(spark)
    return bool(known[_IS_ACCEPTED])


def _is_as_expected(spark: SparkSession) -> bool:
    """Return whether Spark's interface has no unknown methods, and Hadoop reads our file statuses."""
    from py4j.protocol import Py4JError

    try:
        is_known = all(hasattr(PythonFileIndex, name) for name in method_names(spark, _INDEX))
        if not calls_back_in_one_thread(spark) or not is_known:
            return False
        sample = KnownFile("file:/a b/é", 1 << 40, 1_700_000_000_123)
        statuses = _statuses(spark, [sample])
        row = java_class(spark, "org.apache.spark.sql.catalyst.InternalRow").empty()
        java_class(spark, f"{_SOURCES}.PartitionDirectory").apply(row, statuses)
        (found,) = statuses
        return (str(found.getPath().toString()), found.getLen(), found.getModificationTime()) == (
            sample.place,
            sample.size_bytes,
            sample.modified_ms,
        )
    except (Py4JError, ValueError):
        return False


def file_status(spark: SparkSession, place: str) -> Any:
    """Return Hadoop's FileStatus of the file at `place`, None if there is none."""
    from py4j.protocol import Py4JJavaError

    path = java_class(spark, _PATH)(place)
    try:
        return path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).getFileStatus(path)
    except Py4JJavaError as error:
        if error.java_exception.getClass().getSimpleName() == "FileNotFoundException":
            return None
        raise


def relation_of_index(
    spark: SparkSession, listing: FileListing, schema: spark_types.StructType, options: Mapping[str, str]
) -> Any:
    """Return a Parquet relation over `listing`, with the columns `schema` in the files."""
    accept_callbacks(spark)
    _collect_garbage(spark)
    given = java_class(spark, "java.util.HashMap")()
    for key, value in options.items():
        given.put(key, value)
    as_scala = java_class(spark, "scala.jdk.javaapi.CollectionConverters").asScala(given)
    session = spark._jsparkSession
    return java_class(spark, f"{_SOURCES}.HadoopFsRelation")(
        PythonFileIndex(spark, listing),
        _java_schema(spark, listing.partition_schema),
        _java_schema(spark, schema),
        java_class(spark, "scala.Option").empty(),
        java_class(spark, _PARQUET)(),
        scala_object(spark, "scala.collection.immutable.Map").__getattr__("from")(as_scala),
        session,
    )


def _java_schema(spark: SparkSession, schema: spark_types.StructType) -> Any:
    return spark._jsparkSession.parseDataType(schema.json())


@dataclass(frozen=True)
class _PartitionRows:
    """The partition values as rows of the JVM. `selected` are the partitions that pass the filters, None if all do."""

    rows: Mapping[int, Any]
    selected: npt.NDArray[np.int64] | None

    @staticmethod
    def of(
        spark: SparkSession, partitions: Partitions | None, filters: Sequence[Any], schema: spark_types.StructType
    ) -> _PartitionRows:
        """Return the rows for `partitions`, evaluated by Spark: a query does not evaluate partition filters again."""
        if partitions is None:
            empty = java_class(spark, "org.apache.spark.sql.catalyst.InternalRow").empty()
            return _PartitionRows({0: empty}, None)
        if not partitions.values.num_rows:
            return _PartitionRows({}, None)
        count = partitions.values.num_rows
        numbered = partitions.values.append_column(_ORDINAL, pa.array(range(count), pa.int32()))
        frame = spark.createDataFrame(numbered, schema=spark_types.StructType([*schema, _ORDINAL_FIELD]))
        selected = None
        if filters:
            plan = frame._jdf.queryExecution().analyzed()
            for condition in filters:
                plan = java_class(spark, f"{_PLANS}.Filter")(condition, _with_ids(spark, plan, condition))
            frame = frame_of_plan(spark, plan)
            selected = np.array([row[0] for row in frame.select(_ORDINAL).collect()], np.int64)
        found = frame.drop(_ORDINAL)._jdf.queryExecution().executedPlan().executeCollect()
        numbers = range(count) if selected is None else selected.tolist()
        return _PartitionRows(dict(zip(numbers, found, strict=True)), selected)


def _with_ids(spark: SparkSession, plan: Any, condition: Any) -> Any:
    """Return `plan` with the attribute ids to which `condition` refers."""
    wanted = {str(each.name()): each for each in _elements(condition.references().toSeq())}
    alias = java_class(spark, f"{_EXPRESSIONS}.Alias")
    empty, none = scala_object(spark, "scala.collection.immutable.Nil"), scala_object(spark, "scala.None")
    columns = []
    for each in _elements(plan.output()):
        asked = wanted.get(str(each.name()))
        columns.append(each if asked is None else alias(each, each.name(), asked.exprId(), empty, none, empty))
    return java_class(spark, f"{_PLANS}.Project")(scala_seq(spark, columns), plan)


def _directories(
    spark: SparkSession,
    listed: Sequence[KnownFile],
    of_file: npt.NDArray[np.int64],
    rows: Mapping[int, Any],
) -> Iterator[Any]:
    """Yield the files of each partition as a PartitionDirectory."""
    directory = java_class(spark, f"{_SOURCES}.PartitionDirectory")
    order = np.argsort(of_file, kind="stable")
    for start in range(0, len(order), _MOST_AT_ONCE):
        chosen = order[start : start + _MOST_AT_ONCE]
        statuses = _statuses(spark, [listed[at] for at in chosen])
        numbers = of_file[chosen]
        ends = [*(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
        begin = 0
        for end in ends:
            part = statuses if end - begin == len(numbers) else _part_of(spark, statuses, begin, end)
            yield directory.apply(rows[int(numbers[begin])], part)
            begin = end


def _statuses(spark: SparkSession, files: Sequence[KnownFile]) -> Any:
    """Return the FileStatus array of `files`, in one call into the JVM: a call per file would be slow.

    Source: Hadoop's `FileStatus.readFields`, `FSProtos.proto`.
    """
    parts = [len(files).to_bytes(4, "big")]
    for file in files:
        place = file.place.encode()
        text = b"".join(
            (
                b"\x08\x02\x12",
                _varint(len(place)),
                place,
                b"\x18",
                _varint(file.size_bytes),
                b'"\x03\x08\xa4\x03*\x002\x008',
                _varint(file.modified_ms),
                b"@\x00P\x01X\x80\x80\x80@\x90\x01\x00",
            )
        )
        parts += (len(text).to_bytes(4, "big"), text)
    array = java_class(spark, "org.apache.hadoop.io.ArrayWritable")(class_object(spark, _STATUS))
    source = java_class(spark, "java.io.ByteArrayInputStream")(bytearray(b"".join(parts)))
    array.readFields(java_class(spark, "java.io.DataInputStream")(source))
    return _part_of(spark, array.get(), 0, len(files))


def _part_of(spark: SparkSession, statuses: Any, begin: int, end: int) -> Any:
    """Return a part of an array as an array of FileStatus."""
    part = new_array(spark, _STATUS, end - begin)
    java_class(spark, "java.lang.System").arraycopy(statuses, begin, part, 0, end - begin)
    return part


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _elements(sequence: Any) -> list[Any]:
    return [sequence.apply(at) for at in range(sequence.size())]
