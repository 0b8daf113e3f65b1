"""The benchmarks run, and both sides of each find the same."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("deltalake")

from benchmarks.__main__ import main, measure
from benchmarks.harness import Row, SidesDisagree, agree, interleaved
from benchmarks.log_tables import checkpointed_table
from benchmarks.reading import LOG_CASES
from benchmarks.scales import SMALL, once


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
    assert [row["mark"] for row in rows if row["mark"]] == [0.5, 0.5, 1.0, 0.02]


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
