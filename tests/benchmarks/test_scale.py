"""The scale benchmark: its tables, and the lines it prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.scale.__main__ import lines
from benchmarks.scale.growth import line, measured
from benchmarks.scale.growth_cases import CASES
from benchmarks.scale.tables import FILES_PER_DAY, ROWS, many_files
from slackwater import Snapshot


@pytest.mark.parametrize("deleted", [0, 10])
def test_a_table_of_many_files_is_pruned_by_day_and_by_id(tmp_path: Path, deleted: int) -> None:
    files = FILES_PER_DAY + 20
    many_files(tmp_path / "t", files, deleted)
    snapshot = Snapshot.load(tmp_path / "t")
    assert snapshot.files(columns=["path"]).num_rows == files
    assert snapshot.files("day = DATE '2020-01-02'", ["path"]).num_rows == 20
    assert snapshot.files(f"id = {7 * ROWS}", ["path"]).num_rows == 1
    assert snapshot.to_arrow(where="day = DATE '2020-01-02'").num_rows == 20 * (ROWS - deleted)


def test_lines_compare_sizes_and_engines() -> None:
    ours = {"seconds": {"load": 3.0}, "answers": {"load": ""}, "peaks": {"JVM": 200}}
    theirs = {"seconds": {"load": 2.0}, "answers": {"load": ""}, "peaks": {"JVM": 400}}
    assert lines(10, ours, theirs, {"seconds": {"load": 1.5}, "peaks": {"JVM": 100}}) == [
        "       10 files  load                    3.00 s     2.00 x the size before    1.50 x delta-spark",
        "       10 files  JVM                   200.00 MB    2.00 x the size before    0.50 x delta-spark",
    ]
    assert lines(10, ours, {"error": "out of memory"}, None)[0].endswith("delta-spark: error")
    with pytest.raises(ValueError, match="the answers differ"):
        lines(10, ours, theirs | {"answers": {"load": 1}}, None)


def test_a_line_of_growth_compares_with_the_size_before() -> None:
    before = {"all": 2.0, "peak of Python": 100.0}
    assert line("locks", 10_000, {"all": 3.0, "peak of Python": 150.0}, before) == (
        "locks              10,000 locks              all 3 s (1.50 x), peak of Python 150 MB (1.50 x)"
    )
    assert line("locks", 10, {"error": "out of memory"}, before).endswith("error: out of memory")


@pytest.mark.parametrize("name", ["locks", "tables", "owner-commits", "change-feed", "micro-batches"])
def test_a_growth_case_runs_in_a_process_of_its_own(name: str) -> None:
    found = measured(name, 22)
    assert "error" not in found, found
    assert found["peak of Python"] > 0
    assert all(value >= 0 for value in found.values())


def test_each_growth_case_has_two_sizes_ten_times_apart() -> None:
    assert {case.sizes[1] / case.sizes[0] for case in CASES.values()} == {10.0}
