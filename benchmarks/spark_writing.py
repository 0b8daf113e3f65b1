"""What writing a table costs, against Spark writing the same rows as plain Parquet."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from benchmarks.harness import Row, agree, interleaved, middle, timed
from benchmarks.scales import Scale
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.enable import enable
from slackwater.spark.writer.save import save

SMALL_ROWS = 1_000
_PARTITION = "p"
_PLAIN = "Spark writing plain Parquet"
Answer = tuple[int, int]


def append(spark: SparkSession, data: Path, scale: Scale) -> list[Row]:
    """A large append."""
    frame = _frame(spark, scale.rows, scale.files)
    return _large("append", f"append {scale.rows:,} rows, statistics included", frame, [], data, scale)


def append_partitioned(spark: SparkSession, data: Path, scale: Scale) -> list[Row]:
    """A large append, every task with rows of every partition."""
    count = scale.partitions
    frame = _frame(spark, scale.rows, scale.files).selectExpr("*", f"cast(k % {count} as int) as {_PARTITION}")
    return _large("append-partitioned", f"the same, partitioned in {count}", frame, [_PARTITION], data, scale)


def append_small(spark: SparkSession, data: Path, scale: Scale) -> list[Row]:
    """Small appends, one after another to a table that grows by them."""
    frame, root = _frame(spark, SMALL_ROWS, 1), _emptied(data / "append-small")
    ours, plain = root / "ours", root / "plain"
    save(frame.limit(0), str(ours))
    sides: dict[str, Callable[[], float]] = {
        "ours": lambda: timed(lambda: frame.write.format("delta").mode("append").save(str(ours)))[0],
        "plain": lambda: timed(lambda: frame.write.mode("append").parquet(str(plain)))[0],
    }
    found = interleaved(sides, 2 * scale.spark_repetitions, scale.spark_warmups)
    ours_s, plain_s = (middle(found[side]) for side in sides)
    runs = 2 * scale.spark_repetitions + scale.spark_warmups
    answers = (_committed(ours, ()), _plain_files(plain))
    agree(*answers, (runs * SMALL_ROWS, runs))
    shutil.rmtree(root)
    return [Row("append-small", f"append {SMALL_ROWS:,} rows", _PLAIN, ours_s, plain_s, 1.5, answers=answers)]


WRITING = {"append": append, "append-partitioned": append_partitioned, "append-small": append_small}
"""The cases of writing that need Spark, by name."""


def measure_writing(spark: SparkSession, cases: Sequence[str], data: Path, scale: Scale) -> list[Row]:
    """The rows of `cases`."""
    enable(spark)
    return [row for name in cases for row in WRITING[name](spark, data, scale)]


def _frame(spark: SparkSession, rows: int, slices: int) -> DataFrame:
    """Rows that are cheap to make and of which Parquet needs about 24 bytes each."""
    return spark.range(0, rows, 1, slices).selectExpr(
        "id as k",
        "xxhash64(id) as v",
        "xxhash64(id, 1) / 1e6D as x",
        "hash(id) as n",
        "concat('customer-', id % 1000) as s",
        "date_add(date'2020-01-01', cast(id % 2000 as int)) as d",
    )


def _large(case: str, work: str, frame: DataFrame, by: list[str], data: Path, scale: Scale) -> list[Row]:
    root = data / case
    sides = {"ours": partial(_ours, frame, by, root / "ours"), "plain": partial(_plain, frame, by, root / "plain")}
    found = interleaved(sides, scale.large_write_repetitions, scale.large_write_warmups)
    answers = tuple(agree(*(answer for _, answer, _ in runs)) for runs in found.values())
    agree(scale.rows, *(rows for rows, _ in answers))
    agree(*answers)
    ours_s, plain_s = (middle([run[0] for run in runs]) for runs in found.values())
    shutil.rmtree(root, ignore_errors=True)
    size = found["plain"][0][2] / 1e6
    against = f"{_PLAIN}, the same partitions" if by else _PLAIN
    note = f"{size:,.0f} MB in {answers[1][1]} files of plain Parquet"
    return [Row(case, work, against, ours_s, plain_s, 1.1, answers=answers, note=note)]


def _ours(frame: DataFrame, by: list[str], root: Path) -> tuple[float, Answer, int]:
    """Seconds to append to a table that is there and empty; its rows and files as the log says, its bytes."""
    _emptied(root)
    save(frame.limit(0), str(root), partition_by=by)
    seconds, _ = timed(lambda: frame.write.format("delta").mode("append").save(str(root)))
    answer, size = _committed(root, by), _bytes_of(root)
    shutil.rmtree(root)
    return seconds, answer, size


def _plain(frame: DataFrame, by: list[str], root: Path) -> tuple[float, Answer, int]:
    """As `_ours`, to a new directory of plain Parquet."""
    _emptied(root).rmdir()
    seconds, _ = timed(lambda: frame.write.partitionBy(*by).parquet(str(root)))
    answer, size = _plain_files(root), _bytes_of(root)
    shutil.rmtree(root)
    return seconds, answer, size


def _committed(root: Path, by: Sequence[str]) -> Answer:
    """Rows and files of the newest version. Each file is there and has statistics of all its columns."""
    files = Snapshot.load(root).files(columns=["path", "stats"]).to_pylist()
    rows = 0
    for file in files:
        stats = json.loads(file["stats"])
        columns = {"k", "v", "x", "n", "s", "d"}
        assert set(stats["minValues"]) == set(stats["maxValues"]) == set(stats["nullCount"]) == columns - set(by)
        assert (root / file["path"]).is_file()
        rows += stats["numRecords"]
    return rows, len(files)


def _plain_files(root: Path) -> Answer:
    counts = [pq.read_metadata(file).num_rows for file in root.rglob("*.parquet")]
    return sum(counts), len(counts)


def _bytes_of(root: Path) -> int:
    return sum(file.stat().st_size for file in root.rglob("*.parquet"))


def _emptied(root: Path) -> Path:
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    return root
