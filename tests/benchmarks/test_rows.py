"""The benchmarks of rows without Spark run, and both sides read the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("deltalake")

from benchmarks.rows.cases import ROW_CASES
from benchmarks.rows.writing import ROW_WRITING_CASES
from benchmarks.scales import SMALL


def test_the_rows_are_all_there_and_both_sides_agree(tmp_path: Path) -> None:
    scale = replace(SMALL, rows=8_000, files=2, spark_repetitions=1)
    rows = [row for case in ROW_CASES.values() for row in case(tmp_path, scale)]
    assert [(row.case, row.mark) for row in rows] == [
        ("rows-full", 1.0),
        ("rows-selective", 0.5),
        ("rows-selective", 0.5),
    ]
    assert [row.answers for row in rows] == [((8_000, 20),) * 2, ((8, 2),) * 2, ((8, 2),) * 2]
    assert all(row.ours > 0 and row.rival for row in rows)


def test_written_rows_are_all_there_and_both_sides_agree(tmp_path: Path) -> None:
    scale = replace(SMALL, rows=8_000, spark_repetitions=1)
    rows = [row for case in ROW_WRITING_CASES.values() for row in case(tmp_path, scale)]
    assert [(row.case, row.mark) for row in rows] == [("rows-write", 1.2), ("rows-write", None)]
    assert [row.answers for row in rows] == [(8_000, 8_000)] * 2
    assert all(row.ours > 0 and row.rival for row in rows)
    assert list(tmp_path.iterdir()) == []
