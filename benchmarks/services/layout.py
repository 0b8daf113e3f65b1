"""What it costs to put rows into better files, and what readers have of it: against others, and our own curves."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.dml_rivals import delta_spark
from benchmarks.harness import Row, agree, interleaved, middle, timed
from benchmarks.scales import Scale, once
from slackwater import DeltaTable
from slackwater.scan.snapshot import Snapshot
from tests.interop.install_delta_spark import HOW_TO_INSTALL, find

LAYOUT = ("compact", "z-order")
_DELTALAKE, _DELTA_SPARK = "deltalake", "delta-spark"
_MOST_FILE_BYTES = "spark.databricks.delta.optimize.maxFileSize"
_ROWS_A_FILE = 1_000
_FILES, _QUERIES = 16, 20
_WIDTH = 1 << 30


def measure_layout(
    spark: SparkSession, cases: Sequence[str], data: Path, scale: Scale, settings: Mapping[str, str]
) -> list[Row]:
    """The rows of `cases`, those of LAYOUT that are asked for; `settings` are those of delta-spark's session too."""
    rows: list[Row] = []
    if "compact" in cases:
        rows += _compact(spark, data / "layout", scale, settings)
    if "z-order" in cases:
        rows += _z_order(spark, data / "layout", scale)
    return rows


def _compact(spark: SparkSession, data: Path, scale: Scale, settings: Mapping[str, str]) -> list[Row]:
    source = once(data / f"small-{scale.small_files}", lambda place: _small_files(place, scale.small_files))
    sides: dict[str, Callable[[str], Any]] = {
        "ours": lambda path: DeltaTable.forPath(spark, path).optimize().executeCompaction().collect(),
        _DELTALAKE: lambda path: _rival(path).optimize.compact(),
    }
    with ExitStack() as running:
        installation = find()
        if installation is not None:
            sides[_DELTA_SPARK] = running.enter_context(delta_spark(installation, settings)).compact
        found = _turns(data / "changed", source, sides, scale)
    work = f"compact {scale.small_files:,} files of {_ROWS_A_FILE:,} rows"
    counts = {name: count for name, (_, (count, _)) in found.items()}
    agree(*counts.values())
    ours, count = found["ours"][0], counts["ours"]
    rows = [
        Row("compact", work, name, ours, seconds, 1.0, answers=(count, counts[name]))
        for name, (seconds, _) in found.items()
        if name != "ours"
    ]
    if installation is None:
        against = f"{_DELTA_SPARK}: not measured"
        rows.append(Row("compact", work, against, ours, answers=(count,), note=HOW_TO_INSTALL))
    return rows


def _z_order(spark: SparkSession, data: Path, scale: Scale) -> list[Row]:
    source = once(data / f"points-{scale.rows}", lambda place: _points(place, scale.rows))
    size = sum(file.stat().st_size for file in source.glob("*.parquet")) // _FILES + 1
    spark.conf.set(_MOST_FILE_BYTES, str(size))
    try:
        sides: dict[str, Callable[[str], Any]] = {
            "ours": lambda path: DeltaTable.forPath(spark, path).optimize().executeZOrderBy("x", "y").collect(),
            _DELTALAKE: lambda path: _rival(path).optimize.z_order(["x", "y"], target_size=size),
            "Hilbert": partial(_clustered, spark),
        }
        found = _turns(data / "changed", source, sides, scale)
    finally:
        spark.conf.unset(_MOST_FILE_BYTES)
    agree(*(count for _, (count, _) in found.values()))
    times = {name: seconds for name, (seconds, _) in found.items()}
    read = {name: float(files) for name, (_, (_, files)) in found.items()}
    work, query = f"z-order {scale.rows:,} rows on 2 columns", f"{_QUERIES} queries on both columns after it"
    return [
        Row("z-order", work, _DELTALAKE, times["ours"], times[_DELTALAKE], 1.0),
        Row("z-order", query, _DELTALAKE, read["ours"], read[_DELTALAKE], 1.1, unit="files"),
        Row("z-order", f"{query}, Hilbert", "our z-order", read["Hilbert"], read["ours"], 1.0, unit="files"),
        Row("z-order", "cluster the same rows", "our z-order", times["Hilbert"], times["ours"]),
    ]


def _turns(
    place: Path, source: Path, sides: dict[str, Callable[[str], Any]], scale: Scale
) -> dict[str, tuple[float, tuple[int, int]]]:
    """Of each side the median seconds, and how many rows the table has then, and how many files the queries read."""
    works = {name: partial(_run, place, source, work) for name, work in sides.items()}
    results = interleaved(works, scale.change_repetitions, scale.change_warmups)
    return {name: (middle([s for s, _ in runs]), agree(*(a for _, a in runs))) for name, runs in results.items()}


def _run(place: Path, source: Path, work: Callable[[str], Any]) -> tuple[float, tuple[int, int]]:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(source, place)
    try:
        seconds, _ = timed(lambda: work(str(place)))
        return seconds, (_rows(place), _files_read(place))
    finally:
        shutil.rmtree(place)


def _clustered(spark: SparkSession, path: str) -> None:
    table = DeltaTable.forPath(spark, path)
    table.clusterBy("x", "y")
    table.optimize().executeCompaction().collect()


def _rows(place: Path) -> int:
    files = Snapshot.load(str(place)).live_files(["path"])["path"].to_pylist()
    return sum(pq.read_metadata(place / file).num_rows for file in files)


def _files_read(place: Path) -> int:
    snapshot = Snapshot.load(str(place))
    if "x" not in snapshot.schema.names:
        return 0
    random = np.random.default_rng(7)
    corners = zip(random.integers(0, _WIDTH * 15 // 16, _QUERIES), random.random(_QUERIES) * 15 / 16, strict=True)
    asked = [f"x between {x} and {x + _WIDTH // 16} and y between {y} and {y + 1 / 16}" for x, y in corners]
    return sum(snapshot.files(condition).num_rows for condition in asked)


def _rival(path: str) -> Any:
    import deltalake

    return deltalake.DeltaTable(path)


def _small_files(place: Path, files: int) -> None:
    random = np.random.default_rng(1)
    content = []
    for number in range(files):
        ids = np.arange(number * _ROWS_A_FILE, (number + 1) * _ROWS_A_FILE)
        days = pa.array(random.integers(18_000, 19_000, _ROWS_A_FILE).astype("int32")).cast(pa.date32())
        names = pa.array([f"name {n}" for n in random.integers(0, 10_000, _ROWS_A_FILE)])
        content.append(pa.table({"id": ids, "day": days, "amount": random.random(_ROWS_A_FILE), "name": names}))
    _table(place, content)


def _points(place: Path, rows: int) -> None:
    random = np.random.default_rng(5)
    each = rows // 20
    content = []
    for number in range(20):
        names = pa.array([f"name {n}" for n in random.integers(0, 10_000, each)])
        ids = np.arange(number * each, (number + 1) * each)
        content.append(
            pa.table({"x": random.integers(0, _WIDTH, each), "y": random.random(each), "id": ids, "name": names})
        )
    _table(place, content)


_TYPES = {pa.int64(): "long", pa.float64(): "double", pa.date32(): "date", pa.string(): "string"}


def _table(place: Path, content: Sequence[pa.Table]) -> None:
    """A table with one file for each of `content`, in one commit."""
    fields = [{"name": f.name, "type": _TYPES[f.type], "nullable": True, "metadata": {}} for f in content[0].schema]
    metadata = {
        "id": "00000000-0000-4000-8000-000000000000",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": orjson.dumps({"type": "struct", "fields": fields}).decode(),
        "partitionColumns": [],
        "configuration": {},
        "createdTime": 0,
    }
    protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
    lines: list[dict[str, Any]] = [{"protocol": protocol}, {"metaData": metadata}]
    (place / "_delta_log").mkdir(parents=True)
    for number, table in enumerate(content):
        path = place / f"part-{number:05}.parquet"
        pq.write_table(table, path, store_schema=False)
        lines.append({"add": _add(path, table)})
    (place / "_delta_log" / f"{0:020}.json").write_bytes(b"\n".join(map(orjson.dumps, lines)) + b"\n")


def _add(path: Path, table: pa.Table) -> dict[str, Any]:
    numbers = [name for name in table.column_names if table[name].type in (pa.int64(), pa.float64())]
    low = {name: table[name].to_numpy().min().item() for name in numbers}
    high = {name: table[name].to_numpy().max().item() for name in numbers}
    nulls = dict.fromkeys(table.column_names, 0)
    stats = {"numRecords": table.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}
    size = path.stat().st_size
    told = {"path": path.name, "partitionValues": {}, "size": size, "modificationTime": 0, "dataChange": True}
    return {**told, "stats": orjson.dumps(stats).decode()}
