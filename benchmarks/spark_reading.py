"""What reading a table costs, against the same Parquet files read by Spark itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.harness import Row, agree, interleaved, middle, timed
from benchmarks.scales import Scale, once
from benchmarks.spark_tables import (
    PARTITION,
    live_answer,
    partitioned_table,
    plain_table,
    small_files_table,
    with_deletion_vectors,
)
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.read.load import load

SHARES = (0.0001, 0.01, 0.3)
_SCHEMA = "k long, v long, s string"
_SAME_PARQUET = "the same Parquet read by Spark"
_VECTOR_BOUND = "bounded by the row index and the size of the file of every row (deletion-vector-bound)"


@dataclass(frozen=True)
class _Bench:
    """What every case needs."""

    spark: SparkSession
    data: Path
    scale: Scale

    def turns(self, sides: dict[str, Callable[[], DataFrame]]) -> dict[str, _Side]:
        """Each side's frame made and aggregated in turns."""
        work = {name: partial(_read, make) for name, make in sides.items()}
        found = interleaved(work, self.scale.spark_repetitions, self.scale.spark_warmups)
        return {name: _Side.of(runs) for name, runs in found.items()}

    @property
    def plain(self) -> Path:
        """The table without partitions and deletion vectors."""
        place = self.data / "plain"
        return once(place, lambda at: plain_table(self.spark, at, self.scale.rows, self.scale.files))


@dataclass(frozen=True)
class _Side:
    """Medians in seconds: to make the frame, to aggregate it, and both; and what came out."""

    creation: float
    scan: float
    both: float
    answer: tuple[Any, ...]

    @staticmethod
    def of(runs: list[tuple[float, float, tuple[Any, ...]]]) -> _Side:
        return _Side(
            middle([run[0] for run in runs]),
            middle([run[1] for run in runs]),
            middle([run[0] + run[1] for run in runs]),
            agree(*(run[2] for run in runs)),
        )


def measure_reading(spark: SparkSession, cases: Sequence[str], data: Path, scale: Scale) -> list[Row]:
    """The rows of `cases`."""
    bench = _Bench(spark, data, scale)
    return [row for name in cases for row in READING[name](bench)]


def scan(bench: _Bench) -> list[Row]:
    """A full scan without deletion vectors."""
    work = f"sum, max over {bench.scale.rows:,} rows in {bench.scale.files} files"
    return _full_scan(bench, "scan", work, bench.plain, _SCHEMA)


def scan_partitioned(bench: _Bench) -> list[Row]:
    """A full scan of a partitioned table."""
    count = bench.scale.partitions
    path = once(
        bench.data / "partitioned", lambda at: partitioned_table(bench.spark, at, bench.scale.rows, count)
    )  # fmt: skip
    work = f"the same, partitioned in {count}"
    return _full_scan(bench, "scan-partitioned", work, path, f"{_SCHEMA}, {PARTITION} int")


def deletion_vectors(bench: _Bench) -> list[Row]:
    """Full scans with rows deleted by deletion vectors, against all rows of the same files."""
    rows = []
    for share in SHARES:
        path = once(bench.data / f"deleted-{share}", partial(_deleted, bench.plain, share))
        work = f"{share * 100:g} % deleted by deletion vectors"
        rows += _vector_scan(bench, bench.plain, path, work, _VECTOR_BOUND)
    # The vectors of more than 256 files are loaded by each query.
    count, share = bench.scale.vector_files, 0.01
    plain = once(bench.data / f"plain-{count}", lambda at: plain_table(bench.spark, at, bench.scale.rows, count))
    path = once(bench.data / f"plain-{count}-deleted-{share}", partial(_deleted, plain, share))
    return rows + _vector_scan(bench, plain, path, f"1 % deleted, {count} files")


def _vector_scan(bench: _Bench, plain: Path, path: Path, work: str, note: str = "") -> list[Row]:
    found = bench.turns({"ours": partial(load, bench.spark, str(path)), "rival": partial(_parquet, bench, plain)})
    ours, rival = found["ours"], found["rival"]
    expected = live_answer(plain, path)
    agree(ours.answer, expected)
    return _lines("deletion-vectors", work, ours, rival, 1.8, (ours.answer, expected), note, 2.0)


def deletion_vector_bound(bench: _Bench) -> list[Row]:
    """What any plan over Spark's reader pays to know which row it looks at, before it asks whether that is deleted."""
    path = bench.plain
    columns = {
        "and row_index": ["max(_metadata.row_index)"],
        "and row_index and file_size": ["max(_metadata.row_index)", "max(_metadata.file_size)"],
        "and a hash of file_path": ["max(xxhash64(_metadata.file_path))"],
        "and a hash of file_path, chunk": ["max(xxhash64(_metadata.file_path, shiftright(_metadata.row_index, 16)))"],
    }
    sides = {"plain": partial(_timed_extra, bench, path, [])} | {
        name: partial(_timed_extra, bench, path, extra) for name, extra in columns.items()
    }
    found = interleaved(sides, bench.scale.spark_repetitions, bench.scale.spark_warmups)
    plain = middle(found["plain"])
    return [
        Row(
            "deletion-vector-bound",
            f"informative: Spark alone, sum, max {name}",
            _SAME_PARQUET,
            middle(found[name]),
            plain,
        )
        for name in columns
    ]


def many_files(bench: _Bench) -> list[Row]:
    """Creation over many files, and a condition that needs ten of them."""
    files, per_file = bench.scale.small_files, 200
    path = once(
        bench.data / "many-files", lambda at: small_files_table(at, files, per_file, bench.scale.partitions)
    )  # fmt: skip
    low, high = files // 2 * per_file, (files // 2 + 10) * per_file - 1
    condition = f"k between {low} and {high}"
    matching = Snapshot.load(path).files(condition, ["path"])["path"].to_pylist()
    assert len(matching) == 10
    wanted = [f"{path}/{name}" for name in matching]
    schema = f"{_SCHEMA}, {PARTITION} int"
    created = load(bench.spark, str(path))
    found = bench.turns(
        {
            "where": lambda: created.where(condition),
            "load and where": lambda: load(bench.spark, str(path)).where(condition),
            "creation": lambda: load(bench.spark, str(path)),
            "rival": lambda: (
                bench.spark.read.schema(schema).option("basePath", str(path)).parquet(*wanted).where(condition)
            ),
        }
    )
    where, both, rival = found["where"], found["load and where"], found["rival"]
    answers = (agree(where.answer, both.answer, rival.answer), rival.answer)
    against = "only the matching files read by Spark"
    return [
        Row("many-files", f"creation over {files:,} files", "", found["creation"].creation, mark=1.0),
        Row("many-files", "where on it, and aggregate", against, where.both, rival.both, 1.5, answers=answers),
        Row("many-files", "creation, where and aggregate", against, both.both, rival.both, answers=answers),
        Row(
            "many-files", "full scan of it, after creation", "", found["creation"].scan,
            answers=(found["creation"].answer,),
        ),
    ]  # fmt: skip


READING = {
    "scan": scan,
    "scan-partitioned": scan_partitioned,
    "deletion-vectors": deletion_vectors,
    "deletion-vector-bound": deletion_vector_bound,
    "many-files": many_files,
}
"""The cases of reading that need Spark, by name."""


def _full_scan(bench: _Bench, case: str, work: str, path: Path, schema: str) -> list[Row]:
    found = bench.turns(
        {"ours": lambda: load(bench.spark, str(path)), "rival": partial(_parquet, bench, path, schema)}
    )  # fmt: skip
    ours, rival = found["ours"], found["rival"]
    agree(ours.answer, rival.answer)
    return _lines(case, work, ours, rival, 1.05, (ours.answer, rival.answer))


def _lines(
    case: str, work: str, ours: _Side, rival: _Side, mark: float, answers: tuple[Any, ...], note: str = "",
    mark_of_both: float | None = None,
) -> list[Row]:  # fmt: skip
    return [
        Row(case, f"{work}: scan", _SAME_PARQUET, ours.scan, rival.scan, mark, answers=answers, note=note),
        Row(
            case,
            f"{work}: creation and scan",
            _SAME_PARQUET,
            ours.both,
            rival.both,
            mark_of_both or mark,
            answers=answers,
        ),
        Row(case, f"{work}: creation alone", _SAME_PARQUET, ours.creation, rival.creation, answers=answers),
    ]


def _parquet(bench: _Bench, path: Path, schema: str = _SCHEMA) -> DataFrame:
    return bench.spark.read.schema(schema).parquet(str(path))


def _deleted(plain: Path, share: float, at: Path) -> None:
    with_deletion_vectors(plain, at, share)


def _read(make: Callable[[], DataFrame]) -> tuple[float, float, tuple[Any, ...]]:
    """Seconds to make the frame, seconds to aggregate it, and (sum of v, greatest k)."""
    creation, frame = timed(make)
    scanning, rows = timed(lambda: frame.agg(F.sum("v"), F.max("k")).collect())
    return creation, scanning, tuple(rows[0])


def _timed_extra(bench: _Bench, path: Path, extra: list[str]) -> float:
    aggregates = [F.expr(text) for text in ("sum(v)", "max(k)", *extra)]
    frame = _parquet(bench, path).agg(*aggregates)
    return timed(frame.collect)[0]
