"""`slackwater lake maintain`: the plan first, then the work, and errors of one table as rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from slackwater.lake.lake import LogLake
from slackwater.rows.write import write
from tests.cli.commands import document, run, usage_error
from tests.transaction.tables import schema


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("maintained") / "lake"
    with LogLake.open(root) as opened:
        for name in ("a", "b"):
            opened._create_log(name, schema({"id": "long"}))
        for number in range(2):
            write(opened._table("a").location, pa.table({"id": [number]}), mode="append")
    return str(root)


def test_without_yes_the_plan_is_shown_and_nothing_changes(lake: str) -> None:
    result = run("lake", "maintain", lake, "--commits", "3", "--small-files", "2", columns=120)
    assert result.exit_code == 0, result.output
    rows = [line.split()[:4] for line in result.stdout.splitlines()]
    assert rows[0] == ["table", "task", "state", "files"]
    assert ["a", "optimize", "needs", "Spark"] in rows
    assert ["a", "checkpoint", "due", "3"] in rows
    assert result.stderr.splitlines() == [
        "1 task due, 1 task needs Spark",
        "nothing was changed: --yes does the due work",
        "OPTIMIZE rewrites rows: --spark does it in a Spark session",
    ]
    (found,) = document("lake", "maintain", lake, "a", "--commits", "3", "--task", "checkpoint")
    assert found == {
        "table": "a",
        "task": "checkpoint",
        "state": "due",
        "files": 3,
        "sizeInBytes": None,
        "detail": "no checkpoint yet, due after 3 commits",
    }


def test_yes_does_the_due_work_and_an_error_of_one_table_is_a_row(lake: str) -> None:
    broken = Path(lake) / "b" / "_delta_log" / "00000000000000000000.json"
    broken.write_text("{")
    result = run("lake", "maintain", lake, "--yes", "--commits", "3", "--task", "checkpoint", "--csv")
    assert result.exit_code == 1
    header, a, b = result.stdout.splitlines()
    assert header == "table,task,state,files,sizeInBytes,detail"
    assert a == "a,checkpoint,done,3,,checkpoint of version 2"
    assert b.startswith("b,open,failed,0,,")
    assert document("lake", "maintain", lake, "a", "--commits", "3", "--task", "checkpoint")[0]["state"] == "not due"


def test_a_wrong_threshold_is_an_error_of_usage(lake: str) -> None:
    assert "--small-files" in usage_error("lake", "maintain", lake, "--small-files", "0")
    assert "found ['sweep']" in run("lake", "maintain", lake, "--task", "sweep").stderr
