"""The benchmarks run, and both sides of each find the same."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("deltalake")

from benchmarks.__main__ import SPARK_CASES, main, measure
from benchmarks.harness import Row, SidesDisagree, agree, interleaved
from benchmarks.log_tables import checkpointed_table
from benchmarks.managed import MANAGED_CASES
from benchmarks.reading import LOG_CASES
from benchmarks.scales import SMALL, once
from benchmarks.write_work import APPENDS, actions_of, empty_table
from benchmarks.writing import WRITING_CASES, CommitsLost, require_all

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_rows_of_managed_tables_are_all_there_and_nothing_is_lost(tmp_path: Path) -> None:
    rows = [row for case in MANAGED_CASES.values() for row in case(tmp_path, replace(SMALL, log_repetitions=1))]
    assert [(row.case, row.mark) for row in rows] == [
        ("managed-commits", 1.5), ("managed-writers", 0.2), ("managed-writers", 0.2), ("managed-writers", 10.0),
        ("managed-writers", 10.0), ("managed-writers", 2.0), ("managed-open", 1.2),
    ]  # fmt: skip
    assert all(row.ours > 0 and row.rival for row in rows)


def test_the_log_rows_are_all_there_and_both_sides_agree_on_the_files(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    only = [word for name in LOG_CASES for word in ("--only", name)]
    main([*only, "--scale", "small", "--data", str(tmp_path), "--json", str(report)])
    rows = json.loads(report.read_text())["rows"]
    assert [row["case"] for row in rows] == ["open-checkpoint"] * 5 + ["open-json"] * 2 + ["learn"] * 3
    assert all(row["ours"] > 0 and row["rival"] > 0 and row["ratio"] > 0 for row in rows)
    listed = [row["answers"] for row in rows if row["case"] == "open-checkpoint" and row["answers"]]
    live = SMALL.checkpoint_files + SMALL.commits * (SMALL.adds_per_commit - 1)
    assert listed == [[live, live]] * 4
    assert [row["answers"] for row in rows if row["case"] == "open-json"] == [[SMALL.json_commits - 1] * 2] * 2
    assert [row["mark"] for row in rows if row["mark"]] == [0.5, 0.5, 5.0, 1.0, 0.02]


def test_learning_commits_leaves_the_table_as_it_was(tmp_path: Path) -> None:
    first = measure(["learn"], tmp_path, SMALL)
    log = tmp_path / "checkpointed" / "_delta_log"
    names = sorted(file.name for file in log.iterdir())
    second = measure(["learn"], tmp_path, SMALL)
    assert sorted(file.name for file in log.iterdir()) == names
    assert [row.answers for row in first] == [row.answers for row in second]


def test_a_table_is_made_once_and_a_half_made_one_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "table.draft" / "_delta_log").mkdir(parents=True)
    made = [once(tmp_path / "table", lambda at: checkpointed_table(at, 3, 1, 1)) for _ in range(2)]
    assert made == [tmp_path / "table"] * 2
    assert not (tmp_path / "table.draft").exists()


def test_sides_that_disagree_end_the_run() -> None:
    with pytest.raises(SidesDisagree, match=r"1.*2"):
        agree(1, 1, 2)


def test_a_row_holds_up_to_its_mark() -> None:
    assert Row("c", "w", "a", ours=1.0, rival=2.0, mark=0.5).holds is True
    assert Row("c", "w", "a", ours=1.1, rival=2.0, mark=0.5).holds is False
    assert Row("c", "w", "a", ours=0.9, mark=1.0).holds is True
    assert Row("c", "w", "a", ours=1.0, rival=2.0).holds is None


def test_sides_take_turns_and_who_begins_changes() -> None:
    calls: list[str] = []

    def call(name: str) -> int:
        calls.append(name)
        return len(calls)

    found = interleaved({name: partial(call, name) for name in "ab"}, repetitions=2, warmups=1)
    assert calls == ["a", "b", "b", "a", "a", "b"]
    assert found == {"a": [4, 5], "b": [3, 6]}


def test_the_rows_of_log_writing_are_all_there_and_nothing_is_lost(tmp_path: Path) -> None:
    rows = measure(list(WRITING_CASES), tmp_path, SMALL)
    assert [row.case for row in rows] == ["commits"] * 3 + ["checkpoint"] * 3 + ["writers"]
    assert all(row.ours > 0 and row.rival is not None and row.rival > 0 for row in rows)
    live = SMALL.checkpoint_files + SMALL.commits * (SMALL.adds_per_commit - 1)
    assert [row.answers for row in rows if row.case == "checkpoint"] == [([10 + SMALL.commits, live],) * 2] * 3
    landed = SMALL.writers * SMALL.appends
    assert rows[-1].answers[0] == landed
    assert [row.mark for row in rows if row.mark] == [0.2, 0.5, 0.5, 1.0]


def test_writing_leaves_the_measured_tables_as_they_were(tmp_path: Path) -> None:
    measure(["checkpoint"], tmp_path, SMALL)
    before = sorted(tmp_path.rglob("*"))
    measure(["checkpoint", "commits"], tmp_path, SMALL)
    assert sorted(p for p in tmp_path.rglob("*") if p != tmp_path / "commits") == before


def test_a_lost_and_a_doubled_commit_end_the_run(tmp_path: Path) -> None:
    root = empty_table(tmp_path / "table")
    actions = actions_of(0, 3)
    paths = [action["path"] for action in actions]
    append = APPENDS["ours_appends"](str(root))
    append(actions[0])
    with pytest.raises(CommitsLost):
        require_all(root, paths[:2])
    append(actions[1])
    require_all(root, paths[:2])
    append(actions[1])
    with pytest.raises(CommitsLost):
        require_all(root, paths[:2])


@pytest.mark.spark
@pytest.mark.classic
def test_the_rows_of_writing_through_spark_are_all_there_and_every_row_is_committed(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark_writing = pytest.importorskip("benchmarks.spark_writing")
    scale = replace(SMALL, rows=2_000, partitions=2, files=2, spark_repetitions=1)
    rows = spark_writing.measure_writing(spark, list(spark_writing.WRITING), tmp_path, scale)
    assert [row.case for row in rows] == ["append", "append-partitioned", "append-small"]
    assert [row.answers for row in rows] == [((2_000, 2),) * 2, ((2_000, 4),) * 2, ((3_000, 3),) * 2]
    assert [row.mark for row in rows] == [1.1, 1.1, 1.5]
    assert not list(tmp_path.rglob("*.parquet"))


def test_every_case_has_a_name_on_the_command_line() -> None:
    spark_cases = pytest.importorskip("benchmarks.spark_cases")
    first = (spark_cases.READING, spark_cases.WRITING, spark_cases.DML)
    rooms = (*first, spark_cases.SQL, spark_cases.LAYOUT, spark_cases.STORES, spark_cases.SINKS, spark_cases.SOURCES)
    assert tuple(name for room in rooms for name in room) == SPARK_CASES
