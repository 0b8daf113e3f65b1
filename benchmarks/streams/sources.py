"""What reading a table as a stream costs, and one micro-batch into several tables."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks.dml_rivals import Rival, delta_spark
from benchmarks.harness import Row, agree, interleaved, middle
from benchmarks.log_tables import checkpointed_table
from benchmarks.scales import Scale, once
from benchmarks.streams import work as stream_work
from slackwater.scan.snapshot import Snapshot
from slackwater.spark.enable import enable
from slackwater.spark.lake.lake import Lake
from slackwater.spark.streams.multi_table_sink import stream
from tests.interop.install_delta_spark import HOW_TO_INSTALL, find

SOURCES = ("stream-drain", "stream-drain-narrow", "stream-first", "stream-tables")
_FILES = 100
_COLUMNS = 20
_DRAINS: dict[str, tuple[str, list[str], float]] = {
    "stream-drain": ("true", [], 1.5),
    "stream-drain-narrow": ("c1 < 50", ["c1"], 1.5),
}
_TABLES = ("a", "b", "c")


def measure_sources(
    spark: SparkSession, cases: Sequence[str], data: Path, scale: Scale, settings: Mapping[str, str]
) -> list[Row]:
    """The rows of `cases`; `settings` are those of our session, which the rival's Spark gets too."""
    if not cases:
        return []
    enable(spark)
    with ExitStack() as running:
        installation = find()
        program = Path(stream_work.__file__)
        rival = None
        if installation is not None and any(case != "stream-tables" for case in cases):
            rival = running.enter_context(delta_spark(installation, settings, program))
        return [_CASES[name](spark, name, data / "streams", scale, rival) for name in cases]


def _drained(spark: SparkSession, case: str, data: Path, scale: Scale, rival: Rival | None) -> Row:
    condition, columns, mark = _DRAINS[case]
    table = once(data / f"drained-{scale.rows}", partial(_make_table, spark, scale.rows))
    request = {"table": str(table), "condition": condition, "columns": columns}
    what = f"{scale.rows:,} rows of {_COLUMNS} columns in {_FILES} files, as a stream"
    what += f", where {condition}: {', '.join(columns)}" if columns else ""
    return _compared(spark, case, what, "drained", request, mark, data, scale, rival)


def _first(spark: SparkSession, case: str, data: Path, scale: Scale, rival: Rival | None) -> Row:
    files, commits, adds = scale.checkpoint_files, scale.commits, scale.adds_per_commit
    table = once(data / f"begun-{files}", partial(_make_many, files, commits, adds))
    what = f"the first micro-batch of a table of {scale.checkpoint_files:,} files"
    return _compared(spark, case, what, "first_offset", {"table": str(table)}, 1.0, data, scale, rival)


def _compared(
    spark: SparkSession,
    case: str,
    what: str,
    work: str,
    request: dict[str, Any],
    mark: float,
    data: Path,
    scale: Scale,
    rival: Rival | None,
) -> Row:
    sides: dict[str, Callable[..., dict[str, Any]]] = {"ours": partial(stream_work.WORKS[work], spark)}
    if rival is not None:
        sides["theirs"] = partial(rival.ask, what=work)
    works = {name: partial(_afresh, side, data / f"{name}-checkpoint", request) for name, side in sides.items()}
    found = interleaved(works, scale.change_repetitions, max(scale.change_warmups, 1))
    answers = [each["rows"] for side in found.values() for each in side]
    agree(*answers)
    seconds = {name: middle([each["seconds"] for each in side]) for name, side in found.items()}
    return Row(
        case,
        what,
        "delta-spark" if rival is not None else "delta-spark: not measured",
        seconds["ours"],
        seconds.get("theirs"),
        mark if rival is not None else None,
        answers=tuple(answers[:: scale.change_repetitions]),
        note="" if rival is not None else HOW_TO_INSTALL,
    )


def _afresh(work: Callable[..., dict[str, Any]], checkpoint: Path, request: dict[str, Any]) -> dict[str, Any]:
    shutil.rmtree(checkpoint, ignore_errors=True)
    answer = work(**request, checkpoint=str(checkpoint))
    shutil.rmtree(checkpoint, ignore_errors=True)
    return answer


def _several(spark: SparkSession, case: str, data: Path, scale: Scale, rival: Rival | None) -> Row:
    del rival
    rows = scale.micro_batch_rows
    source = once(data / f"batches-{rows}", partial(_make_batches, spark, scale.micro_batches // 4 or 1, rows))
    sides = {"ours": partial(_together, spark), "single": partial(_one_by_one, spark)}
    works = {name: partial(_in_lake, spark, side, source, data / name) for name, side in sides.items()}
    found = interleaved(works, scale.change_repetitions, max(scale.change_warmups, 1))
    answers = [each["rows"] for side in found.values() for each in side]
    agree(*answers)
    seconds = {name: middle([each["seconds"] for each in side]) for name, side in found.items()}
    what = f"{scale.micro_batches // 4 or 1} micro-batches of {rows:,} rows into three tables, exactly once"
    return Row(
        case, what, "three foreachBatch writes", seconds["ours"], seconds["single"], 1.3, answers=tuple(answers[:1])
    )


def _in_lake(spark: SparkSession, work: Callable[..., None], source: Path, folder: Path) -> dict[str, Any]:
    shutil.rmtree(folder, ignore_errors=True)
    with Lake.open(folder / "lake", spark=spark) as lake:
        for name in _TABLES:
            lake.create_table(name, "id BIGINT, k BIGINT")
        start = perf_counter()
        work(source, lake, str(folder / "checkpoint"))
        seconds = perf_counter() - start
        rows = sum(lake.table(name).toDF().count() for name in _TABLES)
    shutil.rmtree(folder)
    return {"seconds": seconds, "rows": rows}


def _batches(spark: SparkSession, source: Path) -> Any:
    return spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(str(source))


def _together(spark: SparkSession, source: Path, lake: Lake, checkpoint: str) -> None:
    writer = stream(_batches(spark, source)).to(lake, {name: _rows_of(name) for name in _TABLES})
    writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()


def _one_by_one(spark: SparkSession, source: Path, lake: Lake, checkpoint: str) -> None:
    def write(batch: Any, number: int) -> None:
        batch.persist()
        for name in _TABLES:
            rows = _rows_of(name)(batch).write.format("delta").mode("append")
            rows.option("txnAppId", "bench").option("txnVersion", number).save(lake.location(name))
        batch.unpersist()

    query = _batches(spark, source).writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)
    query.trigger(availableNow=True).start().awaitTermination()


def _rows_of(name: str) -> Callable[[Any], Any]:
    return lambda batch: batch.where(F.col("k") != _TABLES.index(name))


def _make_table(spark: SparkSession, rows: int, folder: Path) -> None:
    columns = [f"pmod(hash(id, {number}), 1000) AS c{number}" for number in range(1, _COLUMNS)]
    frame = spark.range(0, rows, 1, _FILES).selectExpr("id", *columns)
    frame.write.format("delta").save(str(folder))


def _make_many(files: int, commits: int, adds: int, folder: Path) -> None:
    checkpointed_table(folder, files, commits, adds)
    # Of all its files one is there: that which the first micro-batch is to read, and Spark looks for.
    live = Snapshot.load(str(folder)).live_files(["path", "modificationTime"])
    first = folder / live["path"][int(np.argmin(live["modificationTime"].to_numpy()))].as_py()
    first.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": [0]}), first)


def _make_batches(spark: SparkSession, count: int, rows: int, folder: Path) -> None:
    spark.range(0, rows * count, 1, count).selectExpr("id", "id % 3 AS k").write.format("delta").save(str(folder))


_CASES: dict[str, Callable[[SparkSession, str, Path, Scale, Rival | None], Row]] = {
    "stream-drain": _drained,
    "stream-drain-narrow": _drained,
    "stream-first": _first,
    "stream-tables": _several,
}
