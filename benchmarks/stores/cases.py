"""What rows in S3 cost, by Spark's connector and by pip alone, against the same work of Spark and of deltalake."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import deltalake
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.harness import Row, agree, interleaved, middle, timed
from benchmarks.scales import Scale, once
from benchmarks.spark_tables import live_answer, plain_table
from benchmarks.stores.bucket import Bucket, bucket
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.read.load import load
from slackwater.spark.storage.row_transport import ROWS
from slackwater.spark.writer.save import save

CONNECTOR = "SLACKWATER_CONNECTOR"
"""The variable that names the folder with Spark's connector for S3."""

_TABLE, _NARROW = "plain", ("k", "v")
_SCHEMA = "k long, v long, s string"
_DELTALAKE = "deltalake and pyarrow, the same table"
_NAMED = {"spark": "pip alone", "arrow": "executors in Python"}
_BOUND = {
    "spark": "",
    "arrow": "each row that Python gives Spark is copied into a row of Spark's own: Spark's own reader copies none",
}
Answer = tuple[Any, ...]
Timed = Callable[[], tuple[float, Answer]]
"""Work that tells the seconds that it took, and what it found."""


@dataclass(frozen=True)
class _Bench:
    spark: SparkSession
    bucket: Bucket
    data: Path
    scale: Scale

    @property
    def plain(self) -> Path:
        """The table on the local disk, of which there is a copy in the bucket."""
        scale = self.scale
        return once(self.data / _TABLE, lambda at: plain_table(self.spark, at, scale.rows, scale.files))

    def turns(self, ours: Timed, rival: Timed) -> tuple[float, float, tuple[Answer, ...]]:
        """Medians of the seconds that the sides took in turns, and what each found."""
        sides = {"ours": ours, "rival": rival}
        found = interleaved(sides, self.scale.large_write_repetitions, self.scale.large_write_warmups)
        answers = tuple(agree(*(answer for _, answer in runs)) for runs in found.values())
        agree(*answers)
        ours_s, rival_s = (middle([seconds for seconds, _ in runs]) for runs in found.values())
        return ours_s, rival_s, answers


def server(bench: _Bench) -> list[Row]:
    """What the server takes for the bytes alone."""
    found = interleaved({"fetch": lambda: timed(lambda: bench.bucket.fetch(_TABLE))}, bench.scale.spark_repetitions, 1)
    size = agree(*(size for _, size in found["fetch"]))
    work = f"informative: the server alone gives {size / 1e6:,.1f} MB"
    return [Row("store-scan", work, "", middle([seconds for seconds, _ in found["fetch"]]))]


def scan_by_connector(bench: _Bench) -> list[Row]:
    """A full scan by Spark's own reader; nothing where Spark has no connector."""
    if CONNECTOR not in os.environ:
        return []
    url = bench.bucket.url(_TABLE)
    ours_s, rival_s, answers = bench.turns(
        lambda: timed(lambda: _aggregated(load(bench.spark, url, {"rows": "spark"}))),
        lambda: timed(lambda: _aggregated(bench.spark.read.schema(_SCHEMA).parquet(url))),
    )
    work = f"scan {bench.scale.rows:,} rows, Spark's connector"
    return [Row("store-scan", work, "the same objects read by Spark", ours_s, rival_s, 1.1, answers=answers)]


def scan_by_pip(bench: _Bench) -> list[Row]:
    """A full scan, and one of two columns, without a connector."""
    return [row for way in _ways() for row in _scans(bench, way)]


def _scans(bench: _Bench, way: str) -> list[Row]:
    rows = f"{bench.scale.rows:,} rows, by {_NAMED[way]}"
    return [
        _scan(bench, f"scan {rows}", way, lambda frame: frame, None),
        _scan(bench, f"two columns of {rows}", way, lambda frame: frame.select(*_NARROW), list(_NARROW)),
    ]


def _ways() -> list[str]:
    """How rows go where Spark has no connector: by its own reader, which is served, and by executors in Python."""
    return ["arrow"] if CONNECTOR in os.environ else ["spark", "arrow"]


def append_by_pip(bench: _Bench) -> list[Row]:
    """A large append of rows that are on the local disk as Parquet, each time to a table of its own."""
    return [_append(bench, way) for way in _ways()]


def _append(bench: _Bench, way: str) -> Row:
    ours = partial(_appended, bench, partial(_by_pip, way))
    ours_s, rival_s, answers = bench.turns(ours, partial(_appended, bench, _by_deltalake))
    work = f"append {bench.scale.rows:,} rows, by {_NAMED[way]}"
    return Row("store-append", work, "deltalake's write_deltalake", ours_s, rival_s, 1.5, answers=answers)


STORES = {
    "store-scan": (server, scan_by_connector, scan_by_pip),
    "store-append": (append_by_pip,),
}
"""The cases of tables in S3, by name."""


def measure_stores(spark: SparkSession, cases: Sequence[str], data: Path, scale: Scale) -> list[Row]:
    """The rows of `cases`."""
    if not cases:
        return []
    with bucket(spark) as found:
        bench = _Bench(spark, found, data, scale)
        found.upload(bench.plain, _TABLE)
        agree(_scanned_by_deltalake(bench, None), live_answer(bench.plain))
        return [row for name in cases for case in STORES[name] for row in case(bench)]


def _scan(
    bench: _Bench, work: str, way: str, chosen: Callable[[DataFrame], DataFrame], columns: list[str] | None
) -> Row:
    options = {"rows": way, **bench.bucket.options}
    url = bench.bucket.url(_TABLE)
    ours_s, rival_s, answers = bench.turns(
        lambda: timed(lambda: _aggregated(chosen(load(bench.spark, url, options)))),
        lambda: timed(lambda: _scanned_by_deltalake(bench, columns)),
    )
    return Row("store-scan", work, _DELTALAKE, ours_s, rival_s, 1.5, answers=answers, note=_BOUND[way])


def _aggregated(frame: DataFrame) -> Answer:
    return tuple(frame.agg(F.sum("v"), F.max("k")).collect()[0])


def _scanned_by_deltalake(bench: _Bench, columns: list[str] | None) -> Answer:
    table = deltalake.DeltaTable(bench.bucket.url(_TABLE), storage_options=bench.bucket.options)
    found = table.to_pyarrow_table(columns=columns)
    return pc.sum(found["v"]).as_py(), pc.max(found["k"]).as_py()


def _appended(bench: _Bench, append: Callable[[_Bench, str], object]) -> tuple[float, Answer]:
    """Seconds to append to a table that is not there yet; how many rows it has then."""
    name = f"appended-{uuid.uuid4()}"
    url = bench.bucket.url(name)
    seconds, _ = timed(lambda: append(bench, url))
    files = Snapshot.load(url, storage_options=bench.bucket.options).files(columns=["stats"])
    rows = sum(json.loads(text)["numRecords"] for text in files["stats"].to_pylist())
    bench.bucket.empty(name)
    return seconds, (rows,)


def _by_pip(way: str, bench: _Bench, url: str) -> None:
    spark = bench.spark
    spark.conf.set(ROWS, way)
    try:
        save(spark.read.schema(_SCHEMA).parquet(str(bench.plain)), url, "append", options=bench.bucket.options)
    finally:
        spark.conf.unset(ROWS)


def _by_deltalake(bench: _Bench, url: str) -> None:
    files = sorted(map(str, bench.plain.glob("*.parquet")))
    rows = ds.dataset(files, format="parquet").scanner().to_reader()
    deltalake.write_deltalake(url, rows, mode="append", storage_options=bench.bucket.options)
