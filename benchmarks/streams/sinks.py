"""What writing a stream costs: micro-batches into a Delta table, against delta-spark."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from benchmarks.dml_rivals import Rival, delta_spark
from benchmarks.harness import Row, agree, interleaved, middle
from benchmarks.scales import Scale, once
from benchmarks.streams import work as stream_work
from slackwater.spark.enable import enable
from tests.interop.install_delta_spark import HOW_TO_INSTALL, find

SINKS = ("stream-sink", "stream-empty")
# Rows of each file, the condition that they are filtered by, the mark.
_CASES: dict[str, tuple[bool, str, float]] = {
    "stream-sink": (True, "true", 1.2),
    "stream-empty": (False, "id < 0", 1.0),
}


def measure_sinks(
    spark: SparkSession, cases: Sequence[str], data: Path, scale: Scale, settings: Mapping[str, str]
) -> list[Row]:
    """The rows of `cases`; `settings` are those of our session, which the rival's Spark gets too."""
    if not cases:
        return []
    enable(spark)
    with ExitStack() as running:
        installation = find()
        program = Path(stream_work.__file__)
        rival = None if installation is None else running.enter_context(delta_spark(installation, settings, program))
        return [_measured(spark, name, data / "streams", scale, rival) for name in cases]


def _measured(spark: SparkSession, case: str, data: Path, scale: Scale, rival: Rival | None) -> Row:
    is_full, condition, mark = _CASES[case]
    rows = scale.micro_batch_rows if is_full else 1
    source = once(data / f"files-{rows}", partial(_make_files, scale.micro_batches, rows))
    sides: dict[str, Callable[..., dict[str, Any]]] = {"ours": partial(stream_work.streamed, spark)}
    if rival is not None:
        sides["theirs"] = partial(rival.ask, what="streamed")
    works = {name: partial(_run, work, source, data / name, condition) for name, work in sides.items()}
    found = interleaved(works, scale.change_repetitions, max(scale.change_warmups, 1))
    expected = rows * scale.micro_batches if is_full else 0
    answers = [(each["rows"], each["versions"]) for side in found.values() for each in side]
    agree((expected, scale.micro_batches), *answers)
    seconds = {name: middle([each["seconds"] / scale.micro_batches for each in side]) for name, side in found.items()}
    what = f"{rows:,} rows" if is_full else "no rows"
    return Row(
        case,
        f"a micro-batch of {what}, of {scale.micro_batches} of a stream",
        "delta-spark" if rival is not None else "delta-spark: not measured",
        seconds["ours"],
        seconds.get("theirs"),
        mark if rival is not None else None,
        answers=tuple(answers[:: scale.change_repetitions]),
        note="" if rival is not None else HOW_TO_INSTALL,
    )


def _run(work: Callable[..., dict[str, Any]], source: Path, folder: Path, condition: str) -> dict[str, Any]:
    """One query from its start to its end, into a new table."""
    shutil.rmtree(folder, ignore_errors=True)
    answer = work(
        source=str(source), checkpoint=str(folder / "checkpoint"), table=str(folder / "table"), condition=condition
    )
    shutil.rmtree(folder)
    return answer


def _make_files(count: int, rows: int, folder: Path) -> None:
    folder.mkdir(parents=True)
    for number in range(count):
        first = number * rows
        columns = {
            "id": pa.array(range(first, first + rows), pa.int64()),
            "name": [f"name {each % 100}" for each in range(rows)],
            "value": [each / 7 for each in range(rows)],
        }
        pq.write_table(pa.table(columns), folder / f"{number:05d}.parquet")
