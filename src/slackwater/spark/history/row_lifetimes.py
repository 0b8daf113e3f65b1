"""Row lifetimes as a Spark plan: data files with lifetimes, and row versions continued in other files.

Each file is read once. A row once hidden by a deletion vector has a class, a number. Each bit of the class numbers is a
bitmap over the file's rows. Source: delta-protocol.md "Row Tracking", "Deletion Vectors".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from slackwater.log.files.file_actions import STRING_MAP
from slackwater.protocol.actions.deletion_vectors import CHUNK_ROWS, to_words
from slackwater.scan.file_lifetimes import FileLifetime
from slackwater.spark.parquet.rebase_modes import items_by_calendar
from slackwater.spark.read.file_columns import ROW
from slackwater.spark.read.metadata_column import ROW_COMMIT_VERSION, ROW_ID
from slackwater.spark.read.table_scan import TableScan
from slackwater.spark.session.frames import empty_frame

START, END = "__slackwater_start_ms", "__slackwater_end_ms"
"""The columns of a row's lifetime: `[START, END)` in ms since the epoch."""

_KEY, _WORDS, _CODE = "__slackwater_lifetime_key", "__slackwater_class_words", "__slackwater_class"
_CHUNK_KEY = "__slackwater_chunk_key"
_ISLAND, _BEGINS = "__slackwater_island", "__slackwater_begins"
_CHUNK_WORDS = CHUNK_ROWS // 64
_CHUNK_BITS = CHUNK_ROWS.bit_length() - 1
# A key combines the file's number (32 bits) and the number of the chunk or class (31 bits).
_KEY_BITS = 31


def row_lifetimes(
    scan: TableScan, lifetimes: Sequence[FileLifetime], first_ms: int, last_ms: int, wanted: Column | None = None
) -> DataFrame:
    """Return every version of the rows matching `wanted`, with ROW_ID, ROW_COMMIT_VERSION, START and END.

    Files irrelevant to `[first_ms, last_ms]` are omitted; versions outside the period may be included. `lifetimes` are
    the files. `scan` must have row tracking. Raises DataFileNotFound, PathNotAllowed, CorruptLog.
    """
    linked = [lifetime for lifetime in lifetimes if lifetime.may_continue]
    alone = [
        lifetime
        for lifetime in lifetimes
        if not lifetime.may_continue
        and any(start <= last_ms and end > first_ms for start, end in lifetime.all_intervals)
    ]
    frames = []
    if alone:
        frames.append(_of_files(scan, alone, wanted))
    if linked:
        frames.append(_continued(_of_files(scan, linked, wanted)))
    if not frames:
        schema = scan.output_schema.add(START, "long").add(END, "long")
        return empty_frame(scan.spark, schema)
    return reduce(DataFrame.unionAll, frames)


def _of_files(scan: TableScan, lifetimes: Sequence[FileLifetime], wanted: Column | None) -> DataFrame:
    parts = items_by_calendar(scan.spark, lifetimes, lambda lifetime: lifetime.path)
    frames = [_of_layer(scan, layer) for part in parts for layer in _layers(scan, part)]
    frame = reduce(DataFrame.unionAll, frames)
    return frame if wanted is None else frame.where(wanted)


def _layers(scan: TableScan, lifetimes: Sequence[FileLifetime]) -> list[dict[str, FileLifetime]]:
    """Return the files by path, files with classes separately. A file with two identities is in two layers."""
    layers: list[tuple[bool, dict[str, FileLifetime]]] = []
    for lifetime in lifetimes:
        path, has_classes = scan.locations.relative(lifetime.path), bool(lifetime.classes)
        free = next((layer for kind, layer in layers if kind == has_classes and path not in layer), None)
        if free is None:
            free = {}
            layers.append((has_classes, free))
        free[path] = lifetime
    return [layer for _, layer in layers]


def _of_layer(scan: TableScan, layer: Mapping[str, FileLifetime]) -> DataFrame:
    paths, lifetimes = list(layer), list(layer.values())
    files = pa.table(
        {
            "path": pa.array(paths),
            "partitionValues": pa.array([list(f.partition_values) for f in lifetimes], STRING_MAP),
            "deletionVector": pa.nulls(len(lifetimes)),
            "baseRowId": pa.array([f.base_row_id for f in lifetimes], pa.int64()),
            "defaultRowCommitVersion": pa.array([f.default_row_commit_version for f in lifetimes], pa.int64()),
        }
    )
    raw = scan.raw_frame(paths, files, needs_row=True)
    numbered = list(zip(raw.numbers, lifetimes, strict=True))
    frame, number = raw.frame, raw.number
    code: Column = F.lit(0)
    if any(lifetime.classes for lifetime in lifetimes):
        frame, code = _with_class(scan.spark, frame, number, numbered)
    side = F.broadcast(_intervals(scan.spark, numbered))
    joined = frame.join(side, F.shiftleft(number, _KEY_BITS).bitwiseOR(code) == F.col(_KEY), "inner")
    return joined.select(*raw.columns, START, END)


def _intervals(spark: SparkSession, numbered: Sequence[tuple[int, FileLifetime]]) -> DataFrame:
    """Return a row for each interval of each class of each file. Class 0 contains the rows never hidden."""
    rows = [
        (number << _KEY_BITS | code, start, end)
        for number, lifetime in numbered
        for code, intervals in enumerate((lifetime.intervals, *(c[1] for c in lifetime.classes)))
        for start, end in intervals
    ]
    columns = [pa.array([row[i] for row in rows], pa.int64()) for i in range(3)]
    schema = spark_types.StructType().add(_KEY, "long").add(START, "long").add(END, "long")
    return spark.createDataFrame(pa.table(columns, names=[_KEY, START, END]), schema=schema)


def _with_class(
    spark: SparkSession, frame: DataFrame, number: Column, numbered: Sequence[tuple[int, FileLifetime]]
) -> tuple[DataFrame, Column]:
    """Return `frame` (with ROW), and a column with the class of a row in its file: a number from 0."""
    planes = max(len(lifetime.classes) for _, lifetime in numbered).bit_length()
    side = F.broadcast(spark.createDataFrame(_class_words(numbered, planes)))
    key = F.shiftleft(number, _KEY_BITS).bitwiseOR(F.shiftright(ROW, _CHUNK_BITS))
    word, bit = f"cast(shiftright({ROW} & {CHUNK_ROWS - 1}, 6) as int)", f"cast({ROW} & 63 as int)"
    bits = [
        f"shiftleft(shiftright(coalesce({_WORDS}[{word} + {plane * _CHUNK_WORDS}], 0L), {bit}) & 1L, {plane})"
        for plane in range(planes)
    ]
    joined = frame.join(side, key == F.col(_CHUNK_KEY), "left").withColumn(_CODE, F.expr(" | ".join(bits)))
    return joined.drop(_CHUNK_KEY, _WORDS), F.col(_CODE)


def _class_words(numbered: Sequence[tuple[int, FileLifetime]], planes: int) -> pa.Table:
    """Return the bitmap words of the class numbers for each chunk with a classified row, one plane after another."""
    keys: list[int] = []
    words: list[npt.NDArray[np.int64]] = []
    for number, lifetime in numbered:
        chunks: dict[int, npt.NDArray[np.int64]] = {}
        for plane in range(planes):
            rows = BitMap64()
            for code, (of_class, _) in enumerate(lifetime.classes, 1):
                if code >> plane & 1:
                    rows |= of_class
            for chunk, of_plane in to_words(rows):
                dense = chunks.setdefault(chunk, np.zeros(planes * _CHUNK_WORDS, np.int64))
                dense[plane * _CHUNK_WORDS : (plane + 1) * _CHUNK_WORDS] = of_plane
        keys += [number << _KEY_BITS | chunk for chunk in chunks]
        words += chunks.values()
    flat = pa.array(np.concatenate(words), pa.int64())
    offsets = pa.array(np.arange(len(words) + 1, dtype=np.int32) * (planes * _CHUNK_WORDS))
    return pa.table([pa.array(keys, pa.int64()), pa.ListArray.from_arrays(offsets, flat)], names=[_CHUNK_KEY, _WORDS])


def _continued(frame: DataFrame) -> DataFrame:
    """Merge gapless lifetimes of a row version, across files, into one row."""
    version = Window.partitionBy(ROW_ID, ROW_COMMIT_VERSION)
    in_order = version.orderBy(START, END)
    begins = F.coalesce(F.lag(END).over(in_order) != F.col(START), F.lit(True))
    found = frame.withColumn(_BEGINS, begins)
    found = found.withColumn(_ISLAND, F.sum(F.col(_BEGINS).cast("int")).over(in_order))
    of_island = Window.partitionBy(ROW_ID, ROW_COMMIT_VERSION, _ISLAND)
    found = found.withColumn(END, F.max(END).over(of_island))
    return found.where(_BEGINS).drop(_BEGINS, _ISLAND)
