"""Tasks of a week and of a month are done by delta-spark with the lines that the suite names for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.people.tasks import TASKS, Task
from tests.spark.monthly.task import Task as MonthlyTask
from tests.spark.monthly.tasks import TASKS as OF_A_MONTH

from .delta_spark import DeltaSpark, DeltaSparkError

pytestmark = [pytest.mark.spark, pytest.mark.classic]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_a_task_of_a_week_is_done_by_delta_spark(delta_spark: DeltaSpark, tmp_path: Path, task: Task) -> None:
    if task.by_delta_spark:
        delta_spark.do(task.name, str(tmp_path / "table"))
    else:
        with pytest.raises(DeltaSparkError, match="DELTA_"):
            delta_spark.do(task.name, str(tmp_path / "table"))


@pytest.mark.parametrize("task", OF_A_MONTH, ids=lambda task: task.name)
def test_a_task_of_a_month_is_done_by_delta_spark(delta_spark: DeltaSpark, tmp_path: Path, task: MonthlyTask) -> None:
    if task.theirs is not None:
        delta_spark.do_in_a_month(task.name, str(tmp_path))
    else:
        with pytest.raises(DeltaSparkError):
            delta_spark.do_in_a_month(task.name, str(tmp_path))
