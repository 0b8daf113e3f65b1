"""Filter for deleted rows: a broadcast join with bitmap words.

The joined table has a key (file and 65,536-row chunk in one number) and 1,024 words of 64 bits. A row is deleted if its
bit is set. Source: delta-protocol.md "Reader Requirements for Deletion Vectors".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from slackwater.protocol.actions.deletion_vectors import CHUNK_ROWS, to_words
from slackwater.scan.deletion_vectors import load_deletion_vectors
from slackwater.spark.read.file_columns import ROW
from slackwater.storage.store import ObjectStore

_KEY, _WORDS = "__slackwater_dv_key", "__slackwater_dv_words"
_CHUNK_BITS = CHUNK_ROWS.bit_length() - 1
# A key has 32 bits for the file and 31 for the chunk, because no file has 2^47 rows.
_KEY_CHUNK_BITS = 31


def deleted_rows(
    store: ObjectStore, numbers: Sequence[int], vectors: Sequence[Mapping[str, Any]], allow_outside_root: bool
) -> pa.Table:
    """Return the deleted rows of files with these `numbers`, in the form of `words_table`.

    Raises CorruptDeletionVector, DataFileNotFound, PathNotAllowed.
    """
    return words_table(zip(numbers, load_deletion_vectors(store, vectors, allow_outside_root), strict=True))


def words_table(bitmaps: Iterable[tuple[int, BitMap64]]) -> pa.Table:
    """Return a table with a row for each non-empty chunk of `bitmaps`.

    The numbers have 32 bits and are not negative.
    """
    keys: list[int] = []
    words: list[np.ndarray[Any, Any]] = []
    for number, bitmap in bitmaps:
        for chunk, chunk_words in to_words(bitmap):
            keys.append(number << _KEY_CHUNK_BITS | chunk)
            words.append(chunk_words)
    flat = pa.array(np.concatenate(words) if words else np.array([], np.int64), pa.int64())
    offsets = pa.array(np.arange(len(words) + 1, dtype=np.int32) * (CHUNK_ROWS // 64))
    return pa.table([pa.array(keys, pa.int64()), pa.ListArray.from_arrays(offsets, flat)], names=[_KEY, _WORDS])


def without_deleted_rows(
    spark: SparkSession, frame: DataFrame, words: pa.Table, number: Column, keep_set: Column | None = None
) -> DataFrame:
    """Return `frame` (with ROW) without the rows with a set bit in the `words` of their `number`.

    Numbers must be distinct within `frame`. For rows with `keep_set` true, the filter is inverted: only rows with a set
    bit remain.
    """
    key = F.shiftleft(number, _KEY_CHUNK_BITS).bitwiseOR(F.shiftright(ROW, _CHUNK_BITS))
    joined = frame.join(F.broadcast(spark.createDataFrame(words)), key == F.col(_KEY), "left")
    word = f"{_WORDS}[cast(shiftright({ROW} & {CHUNK_ROWS - 1}, 6) as int)]"
    bit = F.expr(f"shiftright({word}, cast({ROW} & 63 as int)) & 1")
    if keep_set is None:
        kept = F.col(_WORDS).isNull() | (bit == 0)
    else:
        is_set = F.coalesce(bit == 1, F.lit(False))
        kept = F.when(keep_set, is_set).otherwise(~is_set)
    return joined.where(kept).drop(_KEY, _WORDS)
