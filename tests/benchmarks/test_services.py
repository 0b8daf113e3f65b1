"""The benchmarks of table services run, and both sides do the same."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("deltalake")

from benchmarks.__main__ import measure
from benchmarks.scales import SMALL
from benchmarks.services.without_spark import SERVICE_CASES


def test_the_rows_without_spark_are_all_there_and_both_sides_do_as_much(tmp_path: Path) -> None:
    rows = measure(list(SERVICE_CASES), tmp_path, SMALL)
    files = SMALL.service_files
    assert [(row.case, row.mark, row.answers) for row in rows] == [
        ("vacuum", 1.0, (files // 2, files // 2)),
        ("vacuum-lite", 1.0, (files // 2, files // 2)),
        ("restore", 0.5, (files, files)),
        ("clone", 1.5, (SMALL.checkpoint_files, SMALL.checkpoint_files)),
    ]
    assert all(row.ours > 0 and row.rival for row in rows)
    # The copies that they worked on are gone.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clone", "restore", "vacuum"]
