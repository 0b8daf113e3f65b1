"""Filter for deleted rows: a broadcast join with bitmap words.

The joined table has a key (file and 65,536-row chunk in one number) and 1,024 words of 64 bits. A row is deleted if its
bit is set. Source: delta-protocol.md "Reader Requirements for Deletion Vectors".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StructType

from slackwater.protocol.actions.deletion_vectors import CHUNK_ROWS, to_words
from slackwater.scan.deletion_vectors import load_deletion_vectors
from slackwater.spark.jvm.local_rows import frame_of_later_rows
from slackwater.spark.read.file_columns import ROW
from slackwater.storage.store import ObjectStore

_KEY, _WORDS = "__slackwater_dv_key", "__slackwater_dv_words"
_LEAST_BITS, _MOST_BITS = 6, CHUNK_ROWS.bit_length() - 1
# The key of a chunk and its place in the broadcast table, about.
_ENTRY_BYTES = 64
_SCHEMA = StructType().add(_KEY, "long", nullable=False).add(_WORDS, ArrayType(LongType(), containsNull=False))
# A key has 32 bits for the file and 31 for the chunk, because no file has 2^47 rows.
_KEY_CHUNK_BITS = 31


@dataclass(frozen=True, slots=True)
class ChunkSize:
    """The number of rows of a chunk: 2 to the power of `bits`, at least 64."""

    bits: int = CHUNK_ROWS.bit_length() - 1

    @staticmethod
    def fitting(cardinalities: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> ChunkSize:
        """Return the size with the smallest words in total. `rows` are the numbers of rows of the files, estimated.

        Few deleted rows in many files need small chunks: a chunk of 65,536 rows has 8 KiB.
        """
        sizes = [
            (int(np.sum(np.minimum(cardinalities, rows // (1 << bits) + 1)) * ((1 << bits) // 8 + _ENTRY_BYTES)), -bits)
            for bits in range(_LEAST_BITS, _MOST_BITS + 1, 2)
        ]
        return ChunkSize(-min(sizes)[1])

    @property
    def rows(self) -> int:
        """The number of rows."""
        return 1 << self.bits


@dataclass(frozen=True, slots=True)
class LaterWords:
    """A table in the form of `words_table` that is made when Spark plans a query. `identity` stands for its content."""

    identity: str
    load: Callable[[], pa.Table]

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the table as a frame."""
        return frame_of_later_rows(spark, _SCHEMA, self.identity, self.load)


def deleted_rows(
    store: ObjectStore,
    numbers: Sequence[int],
    vectors: Sequence[Mapping[str, Any]],
    allow_outside_root: bool,
    size: ChunkSize = ChunkSize(),
) -> pa.Table:
    """Return the deleted rows of files with these `numbers`, in the form of `words_table`.

    Raises CorruptDeletionVector, DataFileNotFound, PathNotAllowed.
    """
    return words_table(zip(numbers, load_deletion_vectors(store, vectors, allow_outside_root), strict=True), size)


def words_table(bitmaps: Iterable[tuple[int, BitMap64]], size: ChunkSize = ChunkSize()) -> pa.Table:
    """Return a table with a row for each non-empty chunk of `bitmaps`.

    The numbers have 32 bits and are not negative.
    """
    keys: list[int] = []
    words: list[npt.NDArray[np.int64]] = []
    for number, bitmap in bitmaps:
        for chunk, chunk_words in to_words(bitmap, size.rows):
            keys.append(number << _KEY_CHUNK_BITS | chunk)
            words.append(chunk_words)
    flat = pa.array(np.concatenate(words) if words else np.array([], np.int64), pa.int64())
    offsets = pa.array(np.arange(len(words) + 1, dtype=np.int64) * (size.rows // 64))
    lists = pa.LargeListArray.from_arrays(offsets, flat)
    return pa.table([pa.array(keys, pa.int64()), lists], names=[_KEY, _WORDS])


def without_deleted_rows(
    spark: SparkSession,
    frame: DataFrame,
    words: pa.Table | LaterWords,
    number: Column,
    keep_set: Column | None = None,
    size: ChunkSize = ChunkSize(),
) -> DataFrame:
    """Return `frame` (with ROW) without the rows with a set bit in the `words` of their `number`.

    Numbers must be distinct within `frame`. For rows with `keep_set` true, the filter is inverted: only rows with a set
    bit remain.
    """
    key = F.shiftleft(number, _KEY_CHUNK_BITS).bitwiseOR(F.shiftright(ROW, size.bits))
    side = spark.createDataFrame(words) if isinstance(words, pa.Table) else words.frame(spark)
    joined = frame.join(F.broadcast(side), key == F.col(_KEY), "left")
    word = f"{_WORDS}[cast(shiftright({ROW} & {size.rows - 1}, 6) as int)]"
    bit = F.expr(f"shiftright({word}, cast({ROW} & 63 as int)) & 1")
    if keep_set is None:
        kept = F.col(_WORDS).isNull() | (bit == 0)
    else:
        is_set = F.coalesce(bit == 1, F.lit(False))
        kept = F.when(keep_set, is_set).otherwise(~is_set)
    return joined.where(kept).drop(_KEY, _WORDS)
