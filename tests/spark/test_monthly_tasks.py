"""Tasks of a data engineer in the first month, with the names of delta-spark and in as few lines.

`tests/interop/test_tasks.py` runs the lines of delta-spark with delta-spark.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")

from slackwater import DeltaTable
from tests.spark.monthly.task import Task, carry_out
from tests.spark.monthly.tasks import TASKS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_at_least_59_of_61_tasks_have_no_more_lines_than_with_delta_spark() -> None:
    longer = [task.name for task in TASKS if task.their_count is not None and task.count > task.their_count]
    assert len({task.name for task in TASKS}) == len(TASKS) == 61
    assert len(TASKS) - len(longer) >= 59, longer


# All of them run in classic mode; through Connect, with --all or --long.
@pytest.mark.spark
@pytest.mark.modes
@pytest.mark.shared
@pytest.mark.usefixtures("enabled")
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_task_of_a_month(spark: SparkSession, tmp_path: Path, task: Task) -> None:
    assert carry_out(task, task.lines, f"month_{TASKS.index(task)}", spark, tmp_path, DeltaTable)
