"""Rows of a table together with where they are, and sets of such rows as bitmaps.

An address is one long: the number of the file above, the row's index in the file in the lower 31 bits.
Source: delta-protocol.md "Deletion Vectors" (row indexes), "Writer Requirements for Row Tracking".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark_types

from slackwater.protocol.schema.schema import StructField, StructType
from slackwater.spark.read.deleted_rows import without_deleted_rows, words_table
from slackwater.spark.read.file_columns import FILE, ROW, file_number
from slackwater.spark.session.types import to_spark_schema

ADDRESS = "__slackwater_address"
KEPT_ROW_ID, KEPT_COMMIT_VERSION = "__slackwater_row_id", "__slackwater_row_commit_version"
HIDDEN = (KEPT_ROW_ID, KEPT_COMMIT_VERSION, ADDRESS)
"""The columns that located rows may have besides the table's."""

_ROW_BITS = 31
_BUCKET_BITS = 15
_BUCKET_BYTES = (1 << _BUCKET_BITS) // 8
_GROUP, _BUCKET, _BITS, _COUNT = (f"__slackwater_{part}" for part in ("group", "bucket", "bits", "count"))


@dataclass(frozen=True)
class RowsByFile:
    """Row indexes by the path of their file, and how many rows there were, each counted as often as it occurred."""

    rows: dict[str, BitMap64]
    occurrences: int

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return row_count(self.rows)


@dataclass(frozen=True)
class AddressedRows:
    """Rows of `files` (columns of ADD_SCHEMA) with their ADDRESS; `numbers` stand in the order of the files."""

    frame: DataFrame
    files: pa.Table
    numbers: Sequence[int]
    by_url: bool = True

    @property
    def address(self) -> Column:
        """ADDRESS, computed where it is asked for: after a join that leaves few of the rows, for these alone."""
        return address_of(file_number()) if self.by_url else F.col(ADDRESS)

    @cached_property
    def _paths(self) -> Mapping[int, str]:
        return dict(zip(self.numbers, self.files["path"].to_pylist(), strict=True))

    @cached_property
    def _number_of(self) -> Mapping[str, int]:
        return {path: number for number, path in self._paths.items()}

    def bitmaps(self, matching: DataFrame) -> dict[str, BitMap64]:
        """The row indexes in `matching`, some of these rows, by the path of their file.

        The bits are set by executors: the driver gets 4 KiB for every 32,768 rows of a file that has any.
        """
        return self.grouped_bitmaps(matching, F.lit(0)).get(0, RowsByFile({}, 0)).rows

    def grouped_bitmaps(self, matching: DataFrame, group: Column) -> dict[int, RowsByFile]:
        """As `bitmaps`, for the rows of each value of `group`, a whole number, by themselves."""
        bits = F.bitmap_construct_agg(F.col(ADDRESS).bitwiseAND((1 << _BUCKET_BITS) - 1))
        bucket = F.shiftright(ADDRESS, _BUCKET_BITS)
        grouped = matching.groupBy(group.alias(_GROUP), bucket.alias(_BUCKET))
        found = grouped.agg(bits.alias(_BITS), F.count("*").alias(_COUNT)).toArrow()
        groups = {}
        for value in pc.unique(found[_GROUP]).to_pylist():
            of_group = found.filter(pc.equal(found[_GROUP], value))
            rows = {self._paths[number]: bitmap for number, bitmap in _bitmaps(of_group)}
            groups[value] = RowsByFile(rows, pc.sum(of_group[_COUNT]).as_py())
        return groups

    def counts(self, matching: DataFrame) -> dict[str, int]:
        """How many rows of each file are in `matching`, some of these rows, by path; files without any are left out."""
        number = F.shiftright(ADDRESS, _ROW_BITS)
        found = matching.groupBy(number.alias(_BUCKET)).agg(F.count("*").alias(_COUNT)).toArrow()
        counted = zip(found[_BUCKET].to_pylist(), found[_COUNT].to_pylist(), strict=True)
        return {self._paths[number]: count for number, count in counted}

    def only(self, rows: Mapping[str, BitMap64]) -> DataFrame:
        """Of these rows those that are in `rows`, by path."""
        return self._by_bits(rows, keep=True)

    def without(self, rows: Mapping[str, BitMap64]) -> DataFrame:
        """These rows without those that are in `rows`, by path."""
        return self._by_bits(rows, keep=False)

    def _by_bits(self, rows: Mapping[str, BitMap64], keep: bool) -> DataFrame:
        words = words_table((self._number_of[path], bitmap) for path, bitmap in rows.items())
        spark = self.frame.sparkSession
        number = F.shiftright(ADDRESS, _ROW_BITS)
        return without_deleted_rows(spark, self.frame, words, number, F.lit(True) if keep else None)


def address_of(number: Column) -> Column:
    """The address of a row with ROW in the file `number`, as ADDRESS."""
    return F.shiftleft(number, _ROW_BITS).bitwiseOR(F.col(ROW)).alias(ADDRESS)


def located_schema(columns: Sequence[StructField], row_tracking: bool) -> spark_types.StructType:
    """The Spark schema of located rows."""
    schema = to_spark_schema(StructType(tuple(columns)))
    for name in HIDDEN if row_tracking else (ADDRESS,):
        schema = schema.add(name, "long")
    return schema.add(FILE, "string").add(ROW, "long")


def _bitmaps(found: pa.Table) -> list[tuple[int, BitMap64]]:
    """The number of each file with set bits, and the rows that they stand for."""
    if not found.num_rows:
        return []
    found = found.take(pc.sort_indices(found[_BUCKET]))
    buckets = found[_BUCKET].to_numpy()
    shift = _ROW_BITS - _BUCKET_BITS
    numbers, chunks = buckets >> shift, buckets & ((1 << shift) - 1)
    starts = np.flatnonzero(np.concatenate(([True], numbers[1:] != numbers[:-1])))
    bounds = [*starts.tolist(), len(numbers)]
    bits = found[_BITS]
    bitmaps = []
    for first, end in pairwise(bounds):
        rows = _rows(bits.slice(first, end - first), chunks[first:end])
        bitmaps.append((int(numbers[first]), BitMap64(rows)))
    return bitmaps


def _rows(bits: pa.ChunkedArray, chunks: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    packed = np.frombuffer(b"".join(bits.to_pylist()), np.uint8).reshape(-1, _BUCKET_BYTES)
    places, positions = np.nonzero(np.unpackbits(packed, axis=1, bitorder="little"))
    rows: np.ndarray[Any, Any] = (chunks[places].astype(np.uint64) << np.uint64(_BUCKET_BITS)) | positions.astype(
        np.uint64
    )
    return rows


def row_count(rows: Mapping[str, BitMap64]) -> int:
    """How many rows there are in sets of row indexes, by path."""
    return sum(map(len, rows.values()))


def united(*sets: Mapping[str, BitMap64]) -> dict[str, BitMap64]:
    """Every row index that is in one of `sets`, by path."""
    rows: dict[str, BitMap64] = {}
    for each in sets:
        for path, bitmap in each.items():
            rows[path] = rows[path] | bitmap if path in rows else bitmap
    return rows
