"""Filter for deleted rows by bitmap words. A row is deleted if its bit is set.

The words of few files are one array, in which each row is looked up. The words of more files are a table that is
broadcast and joined. It has a key (file and 65,536-row chunk in one number) and 1,024 words of 64 bits.
Source: delta-protocol.md "Reader Requirements for Deletion Vectors".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, LongType, StructType

from slackwater.protocol.actions.deletion_vectors import CHUNK_ROWS, starts_of_runs
from slackwater.spark.jvm.local_rows import frame_of_later_rows
from slackwater.spark.read.file_columns import ROW

_KEY, _WORDS = "__slackwater_dv_key", "__slackwater_dv_words"
_LEAST_BITS, _MOST_BITS = 6, CHUNK_ROWS.bit_length() - 1
# The key of a chunk and its place in the broadcast table, about.
_ENTRY_BYTES = 64
_SCHEMA = StructType().add(_KEY, "long", nullable=False).add(_WORDS, ArrayType(LongType(), containsNull=False))
# A key has 32 bits for the file and 31 for the chunk, because no file has 2^47 rows.
_KEY_CHUNK_BITS = 31
_ARRAY = "__slackwater_dv_array"
_ARRAY_SCHEMA = StructType().add(_ARRAY, ArrayType(LongType(), containsNull=False), nullable=False)
# Spark sends the array to each task. A lookup needs about half of the time of the join.
_MOST_ARRAY_FILES, _MOST_ARRAY_WORDS = 1 << 10, 1 << 20
# A slot has the position of the first word, then the number of words.
_COUNT_BITS = 31
# The product with a number of 32 bits must not overflow.
_MULTIPLIERS, _PRODUCT_SHIFT = 1 << 30, 20
_TRIES = 64
# So that the memory for the work does not grow with the deleted rows.
_ROWS_AT_ONCE = 1 << 20
_REPLACED = (
    "a data file with deleted rows was replaced by a file of another size, so the deleted rows are unknown. Restore "
    "the file, and load the table again"
)


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


@dataclass(frozen=True, slots=True)
class BitArray:
    """The deleted rows of few files in one array: 2 to the power of `slot_bits` slots, then the words of all files.

    A file number has the slot `(number * multiplier) >> 20`, modulo the number of slots. No two files share a slot. A
    slot has the file number, -1 for none, and the place of the file's words.
    """

    numbers: npt.NDArray[np.int64]
    multiplier: int
    slot_bits: int

    @staticmethod
    def of(bitmaps: Sequence[tuple[int, BitMap64]]) -> BitArray | None:
        """Return the array for the rows of each number, None if it would be too large."""
        if len(bitmaps) > _MOST_ARRAY_FILES:
            return None
        counts = [int(rows.max() >> 6) + 1 if rows else 0 for _, rows in bitmaps]
        if sum(counts) > _MOST_ARRAY_WORDS:
            return None
        files = np.array([number for number, _ in bitmaps], np.int64)
        multiplier, slot_bits = _spread(files)
        slots = np.full((1 << slot_bits, 2), -1, np.int64)
        words = np.zeros(sum(counts), np.int64)
        end = 0
        for (number, rows), count, slot in zip(bitmaps, counts, _slots(files, multiplier, slot_bits), strict=True):
            bits = np.zeros(count * 64, bool)
            bits[np.array(rows.to_array(), np.int64)] = True
            words[end : end + count] = np.packbits(bits, bitorder="little").view("<i8")
            slots[slot] = number, (slots.size + end) << _COUNT_BITS | count
            end += count
        return BitArray(np.concatenate([slots.ravel(), words]), multiplier, slot_bits)

    def is_set(self, spark: SparkSession, number: Column, has_all: bool) -> Column:
        """Return whether the bit of a row with ROW is set, in the file with this number.

        With `has_all`, the query fails for a number without entry. Otherwise such a file has no set bits.
        """
        offsets = pa.array([0, len(self.numbers)], pa.int64())
        lists = pa.LargeListArray.from_arrays(offsets, pa.array(self.numbers))
        array = spark.createDataFrame(pa.table([lists], names=[_ARRAY]), schema=_ARRAY_SCHEMA).scalar()
        product = F.shiftright(number * F.lit(self.multiplier), _PRODUCT_SHIFT)
        slot = F.shiftleft(product.bitwiseAND((1 << self.slot_bits) - 1).cast("int"), 1)
        place = F.get(array, slot + 1)
        word = F.shiftright(ROW, 6)
        bits = F.get(array, (F.shiftright(place, _COUNT_BITS) + word).cast("int"))
        bit = F.expr(f"cast({ROW} & 63 as int)")
        is_file = F.get(array, slot) == number
        is_within = word < place.bitwiseAND((1 << _COUNT_BITS) - 1)
        found = is_within & (F.call_function("shiftright", bits, bit).bitwiseAND(1) == 1)
        return F.when(is_file, found).otherwise(F.raise_error(F.lit(_REPLACED)).cast("boolean") if has_all else False)


def _spread(files: npt.NDArray[np.int64]) -> tuple[int, int]:
    """Return a multiplier and a number of slot bits that give each file its own slot."""
    random = np.random.default_rng(0)
    slot_bits = max(4, (len(files) ** 2 // 4).bit_length())
    while True:
        for multiplier in random.integers(1, _MULTIPLIERS, _TRIES):
            if len(np.unique(_slots(files, int(multiplier), slot_bits))) == len(files):
                return int(multiplier), slot_bits
        slot_bits += 1


def _slots(files: npt.NDArray[np.int64], multiplier: int, slot_bits: int) -> npt.NDArray[np.int64]:
    return (files * multiplier >> _PRODUCT_SHIFT) & ((1 << slot_bits) - 1)


def words_table(bitmaps: Iterable[tuple[int, BitMap64]], size: ChunkSize = ChunkSize()) -> pa.Table:
    """Return a table with a row for each non-empty chunk of `bitmaps`.

    The numbers have 32 bits and are not negative.
    """
    keys: list[npt.NDArray[np.int64]] = []
    words: list[npt.NDArray[np.int64]] = []
    for numbers, rows in _rows_at_once(bitmaps, size):
        # Ascending within a file, as are the places of the words of a batch.
        all_keys = numbers << _KEY_CHUNK_BITS | rows >> size.bits
        starts = starts_of_runs(all_keys)
        chunks = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(rows)))
        places = chunks * (size.rows // 64) + ((rows & size.rows - 1) >> 6)
        first = starts_of_runs(places)
        dense = np.zeros(len(starts) * (size.rows // 64), np.int64)
        dense[places[first]] = np.bitwise_or.reduceat(np.int64(1) << (rows & 63), first)
        keys.append(all_keys[starts])
        words.append(dense)
    count = sum(map(len, keys))
    offsets = pa.array(np.arange(count + 1, dtype=np.int64) * (size.rows // 64))
    flat, of_chunks = (np.concatenate(parts) if parts else np.zeros(0, np.int64) for parts in (words, keys))
    lists = pa.LargeListArray.from_arrays(offsets, pa.array(flat))
    return pa.table([pa.array(of_chunks), lists], names=[_KEY, _WORDS])


def _rows_at_once(
    bitmaps: Iterable[tuple[int, BitMap64]], size: ChunkSize
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Yield the file number of each row, and the rows, of whole chunks: of many bitmaps, or of a part of a large one.

    A bitmap alone often has few rows.
    """
    numbers: list[int] = []
    parts: list[npt.NDArray[np.int64]] = []
    total = 0
    for number, bitmap in bitmaps:
        rows = np.array(bitmap.to_array(), np.int64)
        while len(rows):
            last = rows[min(_ROWS_AT_ONCE, len(rows)) - 1]
            end = int(np.searchsorted(rows, ((last >> size.bits) + 1) << size.bits))
            numbers.append(number)
            parts.append(rows[:end])
            rows = rows[end:]
            total += end
            if total >= _ROWS_AT_ONCE:
                yield _together(numbers, parts)
                numbers, parts, total = [], [], 0
    if parts:
        yield _together(numbers, parts)


def _together(
    numbers: Sequence[int], parts: Sequence[npt.NDArray[np.int64]]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    return np.repeat(np.array(numbers, np.int64), [len(part) for part in parts]), np.concatenate(parts)


def without_deleted_rows(
    spark: SparkSession,
    frame: DataFrame,
    bitmaps: Sequence[tuple[int, BitMap64]],
    number: Column,
    keep_set: Column | None = None,
    has_all: bool = False,
) -> DataFrame:
    """Return `frame` (with ROW) without the rows of `bitmaps`: indexes of rows for each `number` of a file.

    The numbers are distinct within `frame`, have 32 bits and are not negative. A number of `frame` without bitmap has
    no such rows. With `has_all`, the numbers are sizes of files, and a query of few files fails for another number. For
    rows with `keep_set` true, the filter is inverted: only rows of `bitmaps` remain.
    """
    array = BitArray.of(bitmaps)
    if array is None:
        side = spark.createDataFrame(words_table(bitmaps))
        return _without_words(frame, side, number, keep_set, ChunkSize())
    return frame.where(_kept(array.is_set(spark, number, has_all), keep_set))


def without_later_words(
    spark: SparkSession, frame: DataFrame, words: LaterWords, number: Column, size: ChunkSize
) -> DataFrame:
    """Return `frame` (with ROW) without the rows with a set bit in the `words` of their `number`."""
    return _without_words(frame, words.frame(spark), number, None, size)


def _without_words(
    frame: DataFrame, side: DataFrame, number: Column, keep_set: Column | None, size: ChunkSize
) -> DataFrame:
    key = F.shiftleft(number, _KEY_CHUNK_BITS).bitwiseOR(F.shiftright(ROW, size.bits))
    joined = frame.join(F.broadcast(side), key == F.col(_KEY), "left")
    word = f"{_WORDS}[cast(shiftright({ROW} & {size.rows - 1}, 6) as int)]"
    bit = F.expr(f"shiftright({word}, cast({ROW} & 63 as int)) & 1")
    return joined.where(_kept(F.coalesce(bit == 1, F.lit(False)), keep_set)).drop(_KEY, _WORDS)


def _kept(is_set: Column, keep_set: Column | None) -> Column:
    return ~is_set if keep_set is None else F.when(keep_set, is_set).otherwise(~is_set)
