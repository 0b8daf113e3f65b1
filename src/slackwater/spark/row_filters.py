"""Deleted rows as an expression: a broadcast join with bitmap words.

A table of (file URL, 65,536-row chunk, 1,024 words of 64 bits) is joined by one long key; a row is deleted where its
bit is set. Source: delta-protocol.md "Reader Requirements for Deletion Vectors".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (the name the field uses)

from slackwater.protocol.deletion_vectors import CHUNK_ROWS, to_words
from slackwater.scan.deletion_vectors import load_deletion_vectors
from slackwater.spark.file_columns import FILE, ROW
from slackwater.storage.store import ObjectStore

_NAME, _CHUNK, _WORDS, _KEY = (f"__slackwater_dv_{part}" for part in ("name", "chunk", "words", "key"))
_CHUNK_BITS = CHUNK_ROWS.bit_length() - 1


def deleted_rows(
    store: ObjectStore, urls: Sequence[str], vectors: Sequence[Mapping[str, Any]], allow_outside_root: bool
) -> pa.Table:
    """One row per chunk that has deleted rows: the file's name in `urls`, the chunk, its words.

    Raises CorruptDeletionVector, DataFileNotFound, PathNotAllowed.
    """
    return words_table(
        (url, bitmap)
        for url, bitmap in zip(urls, load_deletion_vectors(store, vectors, allow_outside_root), strict=True)
    )


def words_table(bitmaps: Any) -> pa.Table:
    """The table of `without_deleted_rows` for pairs of a name and a bitmap."""
    names: list[str] = []
    chunks: list[int] = []
    words: list[np.ndarray[Any, Any]] = []
    for name, bitmap in bitmaps:
        for chunk, chunk_words in to_words(bitmap):
            names.append(name)
            chunks.append(chunk)
            words.append(chunk_words)
    per_chunk = CHUNK_ROWS // 64
    flat = pa.array(np.concatenate(words) if words else np.array([], np.int64), pa.int64())
    offsets = pa.array(np.arange(len(words) + 1, dtype=np.int32) * per_chunk)
    return pa.table(
        [pa.array(names, pa.string()), pa.array(chunks, pa.int64()), pa.ListArray.from_arrays(offsets, flat)],
        names=[_NAME, _CHUNK, _WORDS],
    )


def without_deleted_rows(
    spark: SparkSession, frame: DataFrame, words: pa.Table, name: str = FILE, keep_set: Column | None = None
) -> DataFrame:
    """`frame` (columns `name` and ROW) without the rows whose bit is set in `words`.

    Where `keep_set` holds for a row it is the other way round: it stays only if its bit is set.
    """
    side = spark.createDataFrame(words).withColumn(_KEY, F.xxhash64(_NAME, _CHUNK))
    chunk = F.shiftright(ROW, _CHUNK_BITS)
    # One long key makes the join's table a hash map of longs, measured at twice the speed of (string, long); that the
    # name and the chunk really are the same is checked on the rows that matched.
    joined = frame.join(F.broadcast(side), F.xxhash64(F.col(name), chunk) == F.col(_KEY), "left")
    word = f"{_WORDS}[cast(shiftright({ROW} & {CHUNK_ROWS - 1}, 6) as int)]"
    bit = F.expr(f"shiftright({word}, cast({ROW} & 63 as int)) & 1")
    matched = (F.col(_NAME) == F.col(name)) & (F.col(_CHUNK) == chunk)
    if keep_set is None:
        kept = F.col(_WORDS).isNull() | (bit == 0) | ~matched
    else:
        is_set = F.coalesce(F.col(_WORDS).isNotNull() & (bit == 1) & matched, F.lit(False))
        kept = F.when(keep_set, is_set).otherwise(~is_set)
    return joined.where(kept).drop(_NAME, _CHUNK, _WORDS, _KEY)
