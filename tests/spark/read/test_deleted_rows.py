"""Rows that bitmaps leave out: few files by an array that is looked up, more by a join, with one result."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from slackwater import DeltaTable
from slackwater.protocol.actions.deletion_vectors import to_words
from slackwater.spark.read import deleted_rows
from slackwater.spark.read.deleted_rows import BitArray, ChunkSize, without_deleted_rows, words_table
from slackwater.spark.read.file_columns import ROW
from slackwater.spark.read.load import load

pytestmark = [pytest.mark.spark, pytest.mark.modes, pytest.mark.usefixtures("enabled")]

GREATEST_ROW = (1 << 37) - 1
GREATEST = (1 << 32) - 1
FILES = {
    0: BitMap64([0, 63, 64, 900]),
    1: BitMap64(),
    77: BitMap64(range(100, 300)),
    GREATEST: BitMap64([65_535, 65_536, 70_000]),
    GREATEST - 1: BitMap64([1]),
}
ROWS = 71_000
# The distance of the rows of each other file, over the same range.
OTHER_STEP = 71
OTHER_ROWS = ROWS // OTHER_STEP


def explained(frame: DataFrame) -> str:
    """The plans of `frame` as text."""
    text = io.StringIO()
    with redirect_stdout(text):
        frame.explain(extended=True)
    return text.getvalue()


@pytest.fixture(params=["array", "join"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The two forms of the bits; the second one is that of many files."""
    if request.param == "join":
        monkeypatch.setattr(deleted_rows, "_MOST_ARRAY_FILES", 0)
    form: str = request.param
    return form


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_each_row_is_looked_up_in_its_file(
    spark: SparkSession, form: str, ansi: str, conf: Callable[[str, str], None]
) -> None:
    conf("spark.sql.ansi.enabled", ansi)
    others = [2, 3, 1_000, 1 << 31, GREATEST - 77, *range(10_000, 10_030)]

    def rows_of(numbers: Iterable[int], step: int = 1) -> DataFrame:
        column = F.explode(F.array(*(F.lit(number) for number in numbers))).alias("number")
        return spark.range(0, ROWS, step).select(F.col("id").alias(ROW), column)

    frame = rows_of(FILES).union(rows_of(others, OTHER_STEP))
    bits = list(FILES.items())
    left = without_deleted_rows(spark, frame, bits, F.col("number"))
    assert ("dv_words" in explained(left)) == (form == "join")
    kept = without_deleted_rows(spark, frame, bits, F.col("number"), F.lit(True))
    mixed = without_deleted_rows(spark, frame, bits, F.col("number"), F.col("number") == 77)
    found = [
        {row["number"]: row["count"] for row in part.groupBy("number").count().collect()}
        for part in (left, kept, mixed)
    ]
    deleted = dict.fromkeys(others, 0) | {number: len(rows) for number, rows in FILES.items()}
    all_rows = dict.fromkeys(others, OTHER_ROWS) | dict.fromkeys(FILES, ROWS)
    assert found[0] == {number: all_rows[number] - count for number, count in deleted.items()}
    assert found[1] == {number: count for number, count in deleted.items() if count}
    assert found[2] == found[0] | {77: deleted[77]}
    rows = {(number, row) for number, row in kept.select("number", ROW).collect()}
    assert rows == {(number, row) for number, bitmap in FILES.items() for row in bitmap}


def test_a_file_of_an_unknown_size_is_an_error(spark: SparkSession) -> None:
    frame = spark.range(300).select(F.col("id").alias(ROW), (F.col("id") % 2 + 76).alias("number"))
    bits = [(76, BitMap64([8])), (77, FILES[77])]
    known = without_deleted_rows(spark, frame, bits, F.col("number"), has_all=True)
    assert known.count() == 300 - 1 - 100
    unknown = without_deleted_rows(spark, frame, bits[1:], F.col("number"), has_all=True)
    with pytest.raises(Exception, match="replaced by a file of another size"):
        unknown.collect()


def test_too_many_words_are_joined(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    del spark
    bits = [(1, BitMap64([64 * 9])), (2, BitMap64([0]))]
    assert BitArray.of(bits) is not None
    monkeypatch.setattr(deleted_rows, "_MOST_ARRAY_WORDS", 10)
    assert BitArray.of(bits) is None


@given(st.sets(st.integers(0, GREATEST), max_size=300))
def test_no_two_files_share_a_slot(numbers: set[int]) -> None:
    array = BitArray.of([(number, BitMap64([at])) for at, number in enumerate(numbers)])
    assert array is not None
    slots = array.numbers[: 2 << array.slot_bits].reshape(-1, 2)
    taken = slots[slots[:, 0] >= 0]
    assert set(taken[:, 0].tolist()) == numbers
    # A lookup stays within the words of its file.
    counts = taken[:, 1] & ((1 << 31) - 1)
    assert len(array.numbers) == slots.size + counts.sum()


@given(
    st.lists(st.sets(st.integers(0, GREATEST_ROW) | st.integers(0, 300), max_size=9), max_size=9),
    st.sampled_from([6, 8, 16]),
    st.sampled_from([1, 7, 1 << 20]),
)
def test_the_words_of_many_files_are_those_of_each_file(files: list[set[int]], bits: int, rows_at_once: int) -> None:
    bitmaps = [(number, BitMap64(rows)) for number, rows in enumerate(files, GREATEST - len(files))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deleted_rows, "_ROWS_AT_ONCE", rows_at_once)
        table = words_table(bitmaps, ChunkSize(bits))
    expected = [
        (number << 31 | chunk, words.tolist()) for number, rows in bitmaps for chunk, words in to_words(rows, 1 << bits)
    ]
    assert list(zip(*(column.to_pylist() for column in table.columns), strict=True)) == expected


@pytest.mark.parametrize("vectorized", ["true", "false"])
@pytest.mark.parametrize("alike", [True, False])
def test_rows_of_a_table_with_vectors(
    spark: SparkSession, path: str, alike: bool, vectorized: str, conf: Callable[[str, str], None]
) -> None:
    conf("spark.sql.parquet.enableVectorizedReader", vectorized)
    # Two files, whose sizes are equal if their contents are.
    parts = [(0, 5_000), (0, 5_000) if alike else (5_000, 12_000)]
    options = {"delta.enableDeletionVectors": "true"}
    for low, high in parts:
        rows = spark.range(low, high, 1, 1)
        rows.write.format("delta").mode("append").options(**options).save(path)
    sizes = {os.stat(file).st_size for file in Path(path).glob("*.parquet")}  # noqa: PTH116
    assert len(sizes) == (1 if alike else 2)
    DeltaTable.forPath(spark, path).delete("id % 3 = 1")
    frame = load(spark, path)
    assert ("file_size" in explained(frame)) == (not alike)
    expected = sorted(n for low, high in parts for n in range(low, high) if n % 3 != 1)
    assert sorted(row[0] for row in frame.collect()) == expected
    # Spark's own index of the row beside ours.
    indexed = frame.select("id", "_metadata.row_index").where("id < 10 or id >= 11990").collect()
    assert all(row[1] in (row[0], row[0] - 5_000) for row in indexed)
    assert len(indexed) == sum(1 for n in expected if n < 10 or n >= 11_990)
