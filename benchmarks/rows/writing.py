"""Writing rows without Spark against deltalake: ten million rows of five columns, of one Arrow table."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import deltalake
import numpy as np
import pyarrow as pa

import slackwater
from benchmarks.harness import Row, agree, interleaved, middle, timed
from benchmarks.scales import Scale

_CARRIERS = ("AA", "BA", "DL", "KL", "LH", "UA", "WN")
Write = Callable[[str, pa.Table, list[str]], object]


def write(data: Path, scale: Scale) -> list[Row]:
    """All rows to a new table, in no partitions and in as many as there are carriers."""
    rows = _rows(scale.rows)
    return [
        _row(data, scale, rows, "rows-write", f"{scale.rows:,} rows of 5 columns", [], 1.2),
        _row(data, scale, rows, "rows-write", f"the same in {len(_CARRIERS)} partitions", ["carrier"], None),
    ]


ROW_WRITING_CASES = {"rows-write": write}
"""The cases, by name."""


def _ours(at: str, rows: pa.Table, partition_by: list[str]) -> None:
    slackwater.write(at, rows, partition_by=partition_by)


def _deltalake(at: str, rows: pa.Table, partition_by: list[str]) -> None:
    deltalake.write_deltalake(at, rows, partition_by=partition_by)


def _row(
    data: Path, scale: Scale, rows: pa.Table, case: str, work: str, partition_by: list[str], mark: float | None
) -> Row:
    data.mkdir(parents=True, exist_ok=True)
    sides: Mapping[str, Callable[[], tuple[float, int]]] = {
        "ours": partial(_measured, data, _ours, rows, partition_by),
        "deltalake": partial(_measured, data, _deltalake, rows, partition_by),
    }
    found = interleaved(sides, scale.spark_repetitions // 2 + 1, 1)
    answers = tuple(agree(*(answer for _, answer in side)) for side in found.values())
    agree(*answers)
    ours, rival = (middle([seconds for seconds, _ in side]) for side in found.values())
    return Row(case, work, "deltalake's write_deltalake", ours, rival, mark, answers=answers)


def _measured(data: Path, side: Write, rows: pa.Table, partition_by: list[str]) -> tuple[float, int]:
    """Seconds for one write, and the number of rows in the table's log."""
    place = tempfile.mkdtemp(dir=data)
    try:
        at = f"{place}/table"
        seconds, _ = timed(partial(side, at, rows, partition_by))
        stats = deltalake.DeltaTable(at).get_add_actions(flatten=True)
        return seconds, sum(pa.table(stats)["num_records"].to_pylist())
    finally:
        shutil.rmtree(place)


def _rows(count: int) -> pa.Table:
    random = np.random.default_rng(count)
    micros = np.arange(count) * 1000 + 1_780_000_000_000_000
    return pa.table(
        {
            "id": pa.array(np.arange(count)),
            "n": pa.array(random.integers(0, 10**6, count)),
            "x": pa.array(random.random(count)),
            "carrier": pa.array(np.array(_CARRIERS)[random.integers(0, len(_CARRIERS), count)]),
            "at": pa.array(micros).cast(pa.timestamp("us", "UTC")),
        }
    )
