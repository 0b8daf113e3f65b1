"""Addresses of table rows, and sets of rows as bitmaps.

An address is a long: the file number in the upper bits, the row index within the file in the lower 31 bits.
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

from slackwater.protocol.actions.deletion_vectors import starts_of_runs
from slackwater.protocol.schema.schema import StructField, StructType
from slackwater.spark.read.deleted_rows import without_deleted_rows
from slackwater.spark.read.file_columns import FILE, ROW, file_number
from slackwater.spark.read.metadata_column import METADATA, metadata_struct
from slackwater.spark.session.types import to_spark_schema

ADDRESS = "__slackwater_address"
KEPT_ROW_ID, KEPT_COMMIT_VERSION = "__slackwater_row_id", "__slackwater_row_commit_version"
HIDDEN = (KEPT_ROW_ID, KEPT_COMMIT_VERSION, ADDRESS)
"""Columns that located rows may have in addition to the table's columns."""

_ROW_BITS = 31
_BUCKET_BITS = 15
_BUCKET_BYTES = (1 << _BUCKET_BITS) // 8
_GROUP, _BUCKET, _BITS, _COUNT = (f"__slackwater_{part}" for part in ("group", "bucket", "bits", "count"))


@dataclass(frozen=True)
class RowsByFile:
    """Row indexes by path of the file, and the number of occurrences, with repeated rows."""

    rows: dict[str, BitMap64]
    occurrences: int

    @property
    def num_rows(self) -> int:
        """The number of distinct rows."""
        return row_count(self.rows)


@dataclass(frozen=True)
class AddressedRows:
    """Rows of `files` (columns of ADD_SCHEMA) with their ADDRESS.

    `numbers` are the file numbers, in the order of `files`.
    """

    frame: DataFrame
    files: pa.Table
    numbers: Sequence[int]
    by_url: bool = True

    @property
    def address(self) -> Column:
        """The expression for ADDRESS, computed on use: after a selective join, only for the remaining rows."""
        return address_of(file_number()) if self.by_url else F.col(ADDRESS)

    @cached_property
    def _paths(self) -> Mapping[int, str]:
        return dict(zip(self.numbers, self.files["path"].to_pylist(), strict=True))

    @cached_property
    def _number_of(self) -> Mapping[str, int]:
        return {path: number for number, path in self._paths.items()}

    def bitmaps(self, matching: DataFrame) -> dict[str, BitMap64]:
        """Return the row indexes of `matching`, a subset of these rows, by path of the file.

        Executors build the bitmaps. The driver receives 4 KiB for every range of 32,768 rows that has a matching row.
        """
        return self.grouped_bitmaps(matching, F.lit(0)).get(0, RowsByFile({}, 0)).rows

    def grouped_bitmaps(self, matching: DataFrame, group: Column) -> dict[int, RowsByFile]:
        """Return the result of `bitmaps` for each value of `group`, an integer column."""
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
        """Return the number of rows of each file in `matching`, a subset of these rows, by path.

        Omits files without such rows.
        """
        number = F.shiftright(ADDRESS, _ROW_BITS)
        found = matching.groupBy(number.alias(_BUCKET)).agg(F.count("*").alias(_COUNT)).toArrow()
        counted = zip(found[_BUCKET].to_pylist(), found[_COUNT].to_pylist(), strict=True)
        return {self._paths[number]: count for number, count in counted}

    def only(self, rows: Mapping[str, BitMap64]) -> DataFrame:
        """Return the rows listed in `rows`, by path."""
        return self._by_bits(rows, keep=True)

    def without(self, rows: Mapping[str, BitMap64]) -> DataFrame:
        """Return the rows not listed in `rows`, by path."""
        return self._by_bits(rows, keep=False)

    def _by_bits(self, rows: Mapping[str, BitMap64], keep: bool) -> DataFrame:
        bitmaps = [(self._number_of[path], bitmap) for path, bitmap in rows.items()]
        spark = self.frame.sparkSession
        number = F.shiftright(ADDRESS, _ROW_BITS)
        return without_deleted_rows(spark, self.frame, bitmaps, number, F.lit(True) if keep else None)


def address_of(number: Column) -> Column:
    """Return the column ADDRESS of a row with ROW in the file `number`."""
    return F.shiftleft(number, _ROW_BITS).bitwiseOR(F.col(ROW)).alias(ADDRESS)


def with_metadata(frame: DataFrame, row_id: str = KEPT_ROW_ID, commit_version: str = KEPT_COMMIT_VERSION) -> DataFrame:
    """Return `frame` with METADATA: `row_id` and `row_commit_version`, from the columns of these names.

    A table's own column of the name has priority.
    """
    if METADATA in map(str.lower, frame.columns):
        return frame
    return frame.withColumn(METADATA, metadata_struct([F.col(row_id), F.col(commit_version)], has_file_fields=False))


def located_schema(columns: Sequence[StructField], row_tracking: bool) -> spark_types.StructType:
    """Return the Spark schema of located rows."""
    schema = to_spark_schema(StructType(tuple(columns)))
    for name in HIDDEN if row_tracking else (ADDRESS,):
        schema = schema.add(name, "long")
    return schema.add(FILE, "string").add(ROW, "long")


def _bitmaps(found: pa.Table) -> list[tuple[int, BitMap64]]:
    """Return the number of each file with set bits, and the rows of the bits."""
    if not found.num_rows:
        return []
    found = found.take(pc.sort_indices(found[_BUCKET]))
    buckets = found[_BUCKET].to_numpy()
    shift = _ROW_BITS - _BUCKET_BITS
    numbers, chunks = buckets >> shift, buckets & ((1 << shift) - 1)
    bounds = [*starts_of_runs(numbers).tolist(), len(numbers)]
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
    """Return the number of rows in sets of row indexes, by path."""
    return sum(map(len, rows.values()))


def united(*sets: Mapping[str, BitMap64]) -> dict[str, BitMap64]:
    """Return the union of `sets` of row indexes, by path."""
    rows: dict[str, BitMap64] = {}
    for each in sets:
        for path, bitmap in each.items():
            rows[path] = rows[path] | bitmap if path in rows else bitmap
    return rows
